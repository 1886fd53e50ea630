"""What an artifact says of itself, as C: the table of tb_artifact.h, the status functions, the guard. Pure.

`facts` gathers what is baked; `status_source` is part of every artifact, `main_source` of an executable.
No absolute path is written: equal stamps give equal bytes in every checkout. The headers that the text
includes are those of `HEADERS`, from the runtime folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from tunebuild.codegen import identifier
from tunebuild.features import BY_NAME, X86, Feature
from tunebuild.model import REFERENCE, App, Box, Function, Manifest, Policy, Row, Stamp, Stamps
from tunebuild.policy import ScopeState, covered_line
from tunebuild.policy import hint as hinted
from tunebuild.prototype import element

HEADERS = (
    "tb_artifact.h", "tb_features.h", "tb_status.h", "tb_guard.h", "tb_rail.h", "tb_box.h",
    "tb_digest.h", "tb_main.h",
)  # fmt: skip
MAIN_FLAGS = ("-include", "tb_main.h")  # for every source of an executable whose guard is automatic
_QUALIFIERS = ("restrict", "__restrict", "__restrict__", "volatile")
_XCR0 = {"": 0, "ymm": 0x6, "zmm": 0xE6, "tile": 0x60000}
_AT_HWCAP = {1: 16, 2: 26}

ArtifactKind = Literal["built", "released", "frozen"]


@dataclass(frozen=True, slots=True)
class ScopeFacts:
    """One scope as judged at the stamp. ``covered``: the line to say when a profile answers for it.
    ``answerable``: a profile or a resolver may still answer, without a mint.
    ``advice``: what a person does about it."""

    name: str
    reason: str
    detail: str
    covered: str = ""
    answerable: bool = False
    advice: str = ""


@dataclass(frozen=True, slots=True)
class ArtifactFacts:
    """All that is baked into one artifact. Paths are relative: ``project`` from the executable's folder to
    the folder of tune.toml, ``sidecar`` and the stamps' paths from there."""

    app: str
    kind: ArtifactKind
    policy: Policy
    box: str  # a match key
    arch: str
    project: str
    sidecar: str
    sidecar_digest: str  # of its bytes; "" there was none
    stamps: tuple[Stamp, ...]
    scopes: tuple[ScopeFacts, ...]
    needs: tuple[str, ...]  # conjuncts: names joined by `|`
    hint: str = ""  # how to tune what is untuned in it


def facts(
    manifest: Manifest,
    app: App,
    stamps: Stamps,
    states: tuple[ScopeState, ...],
    *,
    kind: ArtifactKind,
    policy: Policy,
    box: Box,
    box_key: str,
    sidecar: Path,
    sidecar_digest: str,
    folder: str = "build/normal",
) -> ArtifactFacts:
    """What to bake. ``folder``: where the executable stands, from the project's root. A frozen artifact is
    inert: it keeps its name and the fact that every seat runs the reference body. The sidecar is named by its digest
    where a rail looks at it: other artifacts stay the same bytes while the winners do."""
    root = manifest.project.root
    hint = relative(hinted(app, states, shipped=kind != "built"), root)
    if kind == "frozen":
        rows = tuple(
            Stamp(s.key, s.family, s.seat, REFERENCE, "reference", "", s.scope) for s in stamps.seats
        )
        return ArtifactFacts(app.name, kind, "fallback", "", box.arch, "", "", "", rows, (), (), hint)
    return ArtifactFacts(
        app=app.name,
        kind=kind,
        policy=policy,
        box=box_key,
        arch=box.arch,
        project=Path(os.path.relpath(root, root / folder)).as_posix(),
        sidecar=relative(str(sidecar), root),
        sidecar_digest=sidecar_digest if kind == "built" and app.kind == "exe" else "",
        stamps=tuple(
            replace(stamp, path=relative(stamp.path or str(sidecar), root)) for stamp in stamps.seats
        ),
        scopes=tuple(_scope(state, root) for state in states),
        needs=needs(_stamped_rows(manifest, stamps), box.arch),
        hint=hint,
    )


def relative(text: str, root: Path) -> str:
    """A path of the project, or a sentence that names some, without the project's own folder."""
    return text.replace(f"{root}{os.sep}", "")


def _scope(state: ScopeState, root: Path) -> ScopeFacts:
    said = covered_line(state) if state.covered else ""
    detail = relative(state.verdict.detail, root)
    advice = relative(state.advice, root)
    return ScopeFacts(state.scope.name, state.verdict.reason, detail, said, state.answerable, advice)


def _stamped_rows(manifest: Manifest, stamps: Stamps) -> Iterable[Row]:
    families = {family.name: family for family in manifest.families}
    served = {companion.name: family for family in manifest.families for companion in family.companions}
    chosen = [(families[stamp.family], stamp.suffix) for stamp in stamps.seats]
    chosen += [(served[name], suffix) for name, suffix in stamps.companions]
    for family, suffix in chosen:
        yield from (row for row in family.rows if row.suffix == suffix)


def needs(rows: Iterable[Row], arch: str) -> tuple[str, ...]:
    """The conjuncts that the stamped rows require of a CPU, each once, first met first."""
    found: dict[str, None] = {}
    for row in rows:
        for conjunct in row.requires.split(","):
            names = [name for name in conjunct.split("|") if name in BY_NAME and BY_NAME[name].arch == arch]
            if names:
                found["|".join(names)] = None
    return tuple(found)


# --- the text ------------------------------------------------------------------------------------


def quoted(text: str) -> str:
    """A C string literal of UTF-8 bytes; other than printable ASCII as octal escapes."""
    escaped = {ord('"'): '\\"', ord("\\"): "\\\\", ord("?"): "\\?"}
    parts = (
        escaped.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}")
        for byte in text.encode("utf-8", "surrogateescape")
    )
    return f'"{"".join(parts)}"'


def _table(declaration: str, lines: Iterable[str]) -> str:
    """An array, or nothing: C has no empty one."""
    body = "".join(f"    {{{line}}},\n" for line in lines)
    return f"static const {declaration}[] = {{\n{body}}};\n" if body else ""


def _feature(feature: Feature) -> str:
    if feature.arch == X86:
        leaf, subleaf, register, bit = feature.cpuid or (0, 0, "eax", 0)
        mask = _XCR0[feature.state]
        return f"{quoted(feature.name)}, {leaf:#x}, {subleaf}, TB_{register.upper()}, {bit}, {mask:#x}"
    word, bits = feature.hwcap or (1, ())
    mask = sum(1 << bit for bit in bits)
    return f"{quoted(feature.name)}, {_AT_HWCAP[word]}, 0, TB_EAX, 0, UINT64_C({mask:#x})"


def _row(stamp: Stamp) -> str:
    suffix = "" if stamp.suffix == REFERENCE else stamp.suffix
    return ", ".join(map(quoted, (stamp.key, stamp.scope, suffix, stamp.source, stamp.path)))


def artifact_table(facts: ArtifactFacts) -> str:
    """The tables and the one `tb_artifact`, all static, named `tb_this`."""
    stamps = facts.stamps
    text = _table("tb_tune_row tb_rows", (_row(stamp) for stamp in stamps))
    text += _table(
        "tb_tune_scope tb_scopes",
        (
            ", ".join((*map(quoted, (s.name, s.reason, s.detail, s.covered)), str(int(s.answerable))))
            for s in facts.scopes
        ),
    )
    if facts.scopes:
        advice = "".join(f"    {quoted(scope.advice)},\n" for scope in facts.scopes)
        text += f"static const char *const tb_advice[] = {{\n{advice}}};\n"
    for i, conjunct in enumerate(facts.needs):
        text += _table(f"tb_feature tb_any_{i}", (_feature(BY_NAME[name]) for name in conjunct.split("|")))
    text += _table(
        "tb_need tb_needs",
        (f"{quoted(c)}, tb_any_{i}, {c.count('|') + 1}" for i, c in enumerate(facts.needs)),
    )
    members: Mapping[str, str] = {
        "app": quoted(facts.app),
        "kind": f"TB_{facts.kind.upper()}",
        "policy": quoted(facts.policy),
        "box": quoted(facts.box),
        "project": quoted(facts.project),
        "sidecar": quoted(facts.sidecar),
        "sidecar_digest": quoted(facts.sidecar_digest),
        "rows": "tb_rows" if stamps else "NULL",
        "row_count": str(len(stamps)),
        "scopes": "tb_scopes" if facts.scopes else "NULL",
        "scope_count": str(len(facts.scopes)),
        "advice": "tb_advice" if facts.scopes else "NULL",
        "hint": quoted(facts.hint),
        "needs": "tb_needs" if facts.needs else "NULL",
        "need_count": str(len(facts.needs)),
    }
    body = "".join(f"    .{name} = {value},\n" for name, value in members.items())
    return f"{text}\nstatic const tb_artifact tb_this = {{\n{body}}};\n"


def plain_prototype(function: Function) -> str:
    """A prototype for a reader that knows C99 alone: no `restrict`, 16-bit floats as `tb_f16` and `tb_bf16`,
    unknown pointers as ``void *``. "" where a 16-bit float goes by value: no such reader can pass one."""
    parameters = [_plain_type(parameter.ctype) for parameter in function.parameters]
    returns = _plain_type(function.returns)
    if any(not ctype for ctype in (*parameters, returns)):
        return ""
    named = zip(parameters, function.parameters, strict=True)
    listed = (f"{c}{'' if c[-1] == '*' else ' '}{parameter.name}" for c, parameter in named)
    return f"{returns}{'' if returns[-1] == '*' else ' '}{function.name}({', '.join(listed) or 'void'})"


def _plain_type(ctype: str) -> str:
    words = [word for word in re.findall(r"\w+|\*", ctype) if word not in _QUALIFIERS]
    half = {"f16": "tb_f16", "bf16": "tb_bf16"}.get(element(ctype), "")
    if "*" not in words:
        return "" if half else " ".join(word for word in words if word != "const")
    const = "const " if "const" in words[: words.index("*")] else ""
    base = half or " ".join(word for word in words[: words.index("*")] if word != "const")
    known = element(ctype) and words.count("*") == 1
    return f"{const}{base} *" if known else f"{const}void *"


def interface_source(app: str, functions: Iterable[Function]) -> str:
    """What a shared library tells a foreign language: the plain prototype of each function it exports."""
    name = identifier(app)
    plain = [text for function in functions if (text := plain_prototype(function))]
    lines = "".join(f"    {quoted(text)},\n" for text in plain)
    return f"""\
/* {app}: its functions as plain prototypes, for doors from other languages. */
#include "tunebuild.h"

static const char *const prototypes[] = {{
{lines}    NULL,
}};

TB_EXPORT const char *const *{name}_tune_interface(void);
TB_EXPORT const char *const *{name}_tune_interface(void)
{{
    return prototypes;
}}
"""


def status_source(facts: ArtifactFacts) -> str:
    """The status interface of an artifact."""
    name = identifier(facts.app)
    return f"""\
/* {facts.app}: what was stamped into it, on whose word, and what the stamps need. */
#define _GNU_SOURCE
#include "tb_features.h"
#include "tb_status.h"

{artifact_table(facts)}
static char tb_knob[256];

TB_EXPORT const tb_tune_row *{name}_tune_status(size_t *count);
TB_EXPORT const tb_tune_row *{name}_tune_status(size_t *count)
{{
    *count = tb_this.row_count;
    return tb_this.rows;
}}

TB_EXPORT const tb_tune_scope *{name}_tune_scopes(size_t *count);
TB_EXPORT const tb_tune_scope *{name}_tune_scopes(size_t *count)
{{
    *count = tb_this.scope_count;
    return tb_this.scopes;
}}

TB_EXPORT void {name}_log_tune_status(FILE *to, const char *app);
TB_EXPORT void {name}_log_tune_status(FILE *to, const char *app)
{{
    tb_log_status(&tb_this, to, app);
}}

TB_EXPORT const char *{name}_tune_box(void);
TB_EXPORT const char *{name}_tune_box(void)
{{
    return tb_this.box;
}}

TB_EXPORT int {name}_tune_check(void);
TB_EXPORT int {name}_tune_check(void)
{{
    return tb_unmet(&tb_this) != NULL;
}}

TB_EXPORT const char *{name}_tune_needs(void);
TB_EXPORT const char *{name}_tune_needs(void)
{{
    const tb_need *unmet = tb_unmet(&tb_this);
    return unmet ? unmet->words : "";
}}

TB_EXPORT void {name}_tune_suppress(const char *knob);
TB_EXPORT void {name}_tune_suppress(const char *knob)
{{
    snprintf(tb_knob, sizeof tb_knob, "%s", knob);
}}

const tb_artifact *{name}_tune_artifact(const char **suppressed);
const tb_artifact *{name}_tune_artifact(const char **suppressed)
{{
    *suppressed = tb_knob;
    return &tb_this;
}}
"""


def main_source(app: App) -> str:
    """An executable's guard, and, unless the author calls it, the `main` that runs it first."""
    name = identifier(app.name)
    guard = f"""\
/* {app.name}: the guard that runs before its own main. */
#define _GNU_SOURCE
#include "tb_guard.h"

const tb_artifact *{name}_tune_artifact(const char **suppressed);

int {name}_tune_guard(int argc, char **argv);
int {name}_tune_guard(int argc, char **argv)
{{
    const char *suppressed;
    const tb_artifact *artifact = {name}_tune_artifact(&suppressed);
    return tb_guard(artifact, suppressed, argc, argv);
}}
"""
    if app.guard == "manual":
        return guard
    return f"""\
{guard}
int tb_app_main(int argc, char **argv, char **envp);

int main(int argc, char **argv, char **envp)
{{
    int stop = {name}_tune_guard(argc, argv);
    return stop ? stop : tb_app_main(argc, argv, envp);
}}
"""

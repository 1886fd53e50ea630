"""tune.toml -> generated C, build.ninja and what they were made of: the line that every build starts with.

Reading, rendering and resolving end in one `Generated` record; `writing.write` puts it on the disk. Nothing here
compiles a kernel. What decides the result is listed in `Generated.inputs`, present or not, so that the memo and ninja's
own regeneration know when to come back.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tunebuild import (
    artifact,
    broken,
    codegen,
    codegen_artifact,
    gates,
    graph,
    host,
    keys,
    lockstep,
    plan,
    profiles,
    record,
    render,
    resolve,
    toolchain,
    verdict,
)
from tunebuild import built as digests
from tunebuild import manifest as manifests
from tunebuild.broken import Broken
from tunebuild.codegen_artifact import ArtifactKind
from tunebuild.document import Built
from tunebuild.errors import ConfigError, Mistake, UsageError
from tunebuild.model import (
    FILLS,
    REFERENCE,
    App,
    Box,
    Declined,
    Family,
    Function,
    Manifest,
    Mode,
    Policy,
    Row,
    Stamps,
    Toolchain,
)
from tunebuild.plan import Plan, PlannedFunction
from tunebuild.policy import ScopeState

Cell = resolve.Cell
RUNTIME = Path(__file__).parent / "runtime"
_MADE = (f"{codegen.GENERATED}/", f"{graph.BUILD}/")
CHECKED_ROWS = 4000  # that `check` renders of a huge project: under a second
MEMO_TOOLCHAINS = "build/toolchains.json"


@dataclass(frozen=True, slots=True)
class Tools:
    """Every compiler of a plan, by (project, toolchain). ``target`` names a cross toolchain, or is ""."""

    compilers: Mapping[tuple[str, str], toolchain.Compiler | toolchain.Absent]
    names: Mapping[tuple[str, str], str]  # the compiler's name in build.ninja
    target: str = ""

    def default(self, project: str) -> toolchain.Compiler:
        found = self.compilers[project, ""]
        assert isinstance(found, toolchain.Compiler)
        return found


@dataclass(frozen=True, slots=True)
class Generated:
    """One tree, read and rendered. ``files`` and every path in ``graph`` are relative to ``root``."""

    root: Path
    manifest: Manifest
    box: Box
    tools: Tools
    plan: Plan
    files: Mapping[str, str]
    graph: graph.Graph
    stamps: Mapping[str, Stamps]  # by app
    records: Mapping[str, record.Read]  # by app: its sidecar as read, with the verdict's ingredients
    declined: Mapping[Cell, str]
    ineligible: Mapping[Cell, str]  # not built here, or known not to compile: left out of the tune binary
    rejected: Mapping[Cell, str]  # by the gate on this box: built to be judged again, not stamped
    built: Mapping[str, Built]  # by seat key or companion: digests of what would be measured
    inputs: tuple[Path, ...]
    states: Mapping[str, tuple[ScopeState, ...]]  # by app: how each of its scopes stands

    def app(self, name: str = "") -> App:
        found = next((app for app in self.manifest.apps if app.name == name or not name), None)
        if found is None:
            known = ", ".join(app.name for app in self.manifest.apps)
            raise UsageError(f"there is no app {name}", fix=f"this project has: {known}")
        return found

    def watched_folders(self) -> tuple[Path, ...]:
        """Folders whose every file may change what is generated or compiled."""
        found = [family.project.templates for family in self.manifest.families]
        found += [folder for family in self.manifest.families for folder in family.project.include]
        for flags in self._flag_sets():
            named = keys.folders_of(flags, os.environ, self.root).quoted
            found += [self.root / name for name in named if not name.startswith(_MADE)]
        return tuple(dict.fromkeys(folder for folder in found if folder.is_dir()))

    def named_files(self) -> tuple[Path, ...]:
        """What the words of compile lines may name as files, present or not; of a folder with profiles, those too."""
        found: dict[Path, None] = {}
        for flags in self._flag_sets():
            words = keys.expanded(flags, self.root)
            found |= dict.fromkeys(keys.files_of(words, self.root))
            paths = (self.root / name for name in keys.named(words) if not name.startswith(_MADE))
            found |= {path: None for path in paths if not path.is_dir()}
        return tuple(found)

    def _flag_sets(self) -> Iterable[tuple[str, ...]]:
        sets = [edge.flags for edge in self.graph.edges if edge.rule.startswith("cc_")]
        sets += [
            found.flags for found in self.tools.compilers.values() if isinstance(found, toolchain.Compiler)
        ]
        return dict.fromkeys(sets)

    @property
    def here(self) -> resolve.Here:
        return resolve.Here.of(self.box, {**self.ineligible, **self.rejected}, self.declined)

    @property
    def tree(self) -> gates.Tree:
        return gates.Tree(self.root, self.plan, self.files, self.built, self.box)


# --- compilers -----------------------------------------------------------------------------------


def find_tools(manifest: Manifest, target: str = "") -> Tools:
    """Find every compiler that the rows name. ``target``: a named toolchain that stands for the default."""
    memo = manifest.project.root / MEMO_TOOLCHAINS
    compilers: dict[tuple[str, str], toolchain.Compiler | toolchain.Absent] = {}
    for project in dict.fromkeys((manifest.project, *(family.project for family in manifest.families))):
        used = {
            row.toolchain for family in manifest.families if family.project == project for row in family.rows
        }
        declared = {each.name: each for each in project.toolchains}
        if target:
            chosen = declared.get(target) or {each.name: each for each in manifest.project.toolchains}.get(
                target
            )
            if chosen is None:
                raise UsageError(f"there is no [toolchain.{target}] in {project.file}")
            default = chosen
        else:
            default = declared.get("") or Toolchain("", project.cc)
        compilers[project.name, ""] = toolchain.find(default, memo=memo)
        for name in sorted(used - {""}):
            compilers[project.name, name] = toolchain.find(declared[name], memo=memo)
    names: dict[tuple[str, str], str] = {}
    by_identity: dict[tuple[str, ...], str] = {}
    for key, found in compilers.items():
        if isinstance(found, toolchain.Compiler):
            name = key[1] or "default"
            own = name if name not in by_identity.values() else f"{key[0]}_{name}"
            names[key] = by_identity.setdefault((found.identity, *found.argv), codegen.identifier(own))
    return Tools(compilers, names, target)


def _words(manifest: Manifest, tools: Tools) -> tuple[plan.CompilerWord, plan.FlagsWord]:
    memo = manifest.project.root / MEMO_TOOLCHAINS
    answers: dict[tuple[str, str, tuple[str, ...]], str] = {}

    def compiler_word(family: Family, name: str) -> str:
        found = tools.compilers[family.project.name, name]
        if isinstance(found, toolchain.Absent):
            return f"toolchain {name} is absent: {found.why}"
        if found.target != tools.default(manifest.project.name).target:
            return f"toolchain {name} makes code for {found.target}"
        return ""

    def flags_word(family: Family, name: str, flags: tuple[str, ...]) -> str:
        key = (family.project.name, name, flags)
        if key not in answers:
            found = tools.compilers[family.project.name, name]
            assert isinstance(found, toolchain.Compiler)
            if toolchain.accepts(found, flags, memo=memo):
                answers[key] = ""
            else:  # the flags to blame; all of them where each alone is taken
                alone = [flag for flag in flags if not toolchain.accepts(found, (flag,), memo=memo)]
                answers[key] = f"{Path(found.argv[0]).name} rejects {shlex.join(alone or flags)}"
        return answers[key]

    return compiler_word, flags_word


# --- rendering -----------------------------------------------------------------------------------


def _render(planned: Plan) -> tuple[dict[str, str], dict[Cell, str], tuple[Mistake, ...]]:
    """Every built row's file by path, the rows that their templates declined, and the mistakes."""
    render.forget()
    try:
        with render.bounded():
            return _render_all(planned)
    except render.Boundless as error:
        return {}, {}, (error.mistake,)


def _render_all(planned: Plan) -> tuple[dict[str, str], dict[Cell, str], tuple[Mistake, ...]]:
    files: dict[str, str] = {}
    declined: dict[Cell, str] = {}
    mistakes: list[Mistake] = []
    for each in planned.families:
        family = each.family
        writers = [(function, codegen.row_writer(planned, function)) for function in each.functions]
        for row in each.built:
            texts = [_row_text(planned, function, row) for function in each.functions]
            mistakes += [text for text in texts if isinstance(text, Mistake)]
            reason = next((text.why for text in texts if isinstance(text, Declined)), None)
            if reason is not None:  # one decline is the whole row's: companions go in lockstep
                declined[family.name, row.suffix] = reason
            for (function, written), text in zip(writers, texts, strict=True):
                if not isinstance(text, Mistake):
                    path = codegen.row_path(family.name, function.name, row.suffix)
                    files[path] = written(row, text if reason is None else Declined(reason))
        if len(mistakes) > 50:
            break
    return files, declined, tuple(_each_once(mistakes))


def _row_text(planned: Plan, function: PlannedFunction, row: Row) -> str | Declined | Mistake:
    if function.template is None:
        return codegen.hint_text(planned, function, row)
    family = function.family
    name = codegen.symbol(function.name, row.suffix)
    return render.render_row(
        family.project.templates, function.template, family.name, function.function, name, row
    )


def check_templates(manifest: Manifest) -> int:
    """Render rows of every architecture, whether or not a compiler for it is here; return how many.

    All rows of a project of ordinary size. Of a huge one the same number from each family, spread over its
    grid: a template's mistake shows in most of its rows, and the build renders the others.

    :raises ConfigError: with each template's mistakes.
    """
    if sum(len(family.rows) for family in manifest.families) > CHECKED_ROWS:
        most = max(1, CHECKED_ROWS // len(manifest.families))
        manifest = replace(manifest, families=tuple(_thinned(each, most) for each in manifest.families))
    planned = plan.plan(
        manifest, "", lambda family, name: "", lambda family, name, flags: "", everything=True
    )
    with manifests.collector_paused():
        _, _, mistakes = _render(planned)
    if mistakes:
        raise ConfigError(mistakes)
    return sum(len(family.rows) for family in manifest.families)


def _thinned(family: Family, most: int) -> Family:
    """``most`` of a family's rows, evenly spread, the last one among them."""
    rows, count = family.rows, min(most, len(family.rows))
    return replace(family, rows=tuple(rows[(i + 1) * len(rows) // count - 1] for i in range(count)))


def _each_once(mistakes: Iterable[Mistake]) -> Iterable[Mistake]:
    """A template's mistake shows in every row; one row's words stand for all of them."""
    seen: set[tuple[str, int, str]] = set()
    for mistake in mistakes:
        key = (mistake.file, mistake.line, mistake.what.split(":", 1)[-1])
        if key not in seen:
            seen.add(key)
            yield mistake


# --- what belongs to this tree -------------------------------------------------------------------


def _support_prototypes(manifest: Manifest) -> tuple[dict[str, Function], tuple[str, ...]]:
    """Prototypes of support functions that `prepare` calls, and the names used as fills."""
    known = {
        name for family in manifest.families for name in (family.name, *(c.name for c in family.companions))
    }
    functions: dict[str, Function] = {}
    fills: list[str] = []
    for family in manifest.families:
        texts = {path: path.read_text(errors="replace") for path in family.support}
        for holder in plan.functions_of(family):
            for call in holder.prepare:
                if call.function not in known and call.function not in functions:
                    functions[call.function] = _defined(call.function, texts, family)
            fills += [a.fill for a in holder.args if a.fill and a.fill not in FILLS]
            fills += [fill for w in holder.workloads for _, fill in w.fills if fill not in FILLS]
            fills += [f for f in (holder.check.fills if holder.check else ()) if f not in FILLS]
    return functions, tuple(dict.fromkeys(fills))


def _defined(name: str, texts: Mapping[Path, str], family: Family) -> Function:
    """The prototype of a support function, from its definition."""
    from tunebuild import prototype

    for text in texts.values():
        found = re.search(rf"^([A-Za-z_][\w \t*]*\b{re.escape(name)}\s*\([^;{{]*\))\s*\{{", text, re.M)
        if found:
            return prototype.parse(" ".join(found[1].split()))
    looked = ", ".join(path.name for path in texts) or "no support file"
    raise UsageError(
        f"family.{family.name}.prepare calls {name}, which is no companion, family or support function",
        where=str(family.project.file),
        fix=f"define it in a file named by `support` ({looked} looked at)",
    )


def _heavy(
    planned: Plan, files: Mapping[str, str], tools: Tools, environ: Mapping[str, str]
) -> tuple[frozenset[str], dict[str, tuple[Path, ...]]]:
    """Row files that include <immintrin.h>, and the project headers of each row file and hand-written body."""
    root = planned.manifest.project.root
    scanners: dict[keys.Folders, keys.Scan] = {}
    inside = f"{root}{os.sep}"
    made = codegen.constants_headers(planned.manifest)

    def read(path: Path) -> str | None:
        try:
            name = os.fspath(path).removeprefix(inside)
            return files.get(name) or made.get(name) or path.read_text(errors="surrogateescape")
        except (OSError, IsADirectoryError):
            return None

    def scanner(family: Family, compiler: str, own: tuple[str, ...]) -> keys.Scan:
        said = tools.compilers.get((family.project.name, compiler))
        options = said.flags if isinstance(said, toolchain.Compiler) else ()
        flags = (*options, *graph.build_flags(planned, family, compiler), *own)
        folders = keys.folders_of(flags, environ, root)
        if folders not in scanners:
            scanners[folders] = keys.header_scanner(folders, root, read, made)
        return scanners[folders]

    heavy: list[str] = []
    headers: dict[str, tuple[Path, ...]] = {}
    known: dict[Path, bool] = {}
    for each in planned.families:
        flags = plan.flags_of_rows(each.family)
        scans: dict[tuple[str, tuple[str, ...]], keys.Scan] = {}
        own = f"{codegen.GENERATED}/rows/{each.family.name}/"
        folder = root / own
        for row in each.built:
            line = row.toolchain, flags(row)
            scan = scans.get(line) or scans.setdefault(line, scanner(each.family, *line))
            for function in each.functions:
                path = f"{own}{codegen.symbol(function.name, row.suffix)}.c"
                text = files[path]
                found = headers[path] = scan(text, folder)
                for header in found:
                    if header not in known:
                        known[header] = "immintrin.h" in (read(header) or "")
                if "immintrin.h" in text or any(known[header] for header in found):
                    heavy.append(path)
        for _, body in digests.bodies(each):
            scan = scanner(each.family, "", ())
            headers[os.fspath(body)] = scan(read(body) or "", body.parent)
    return frozenset(heavy), headers


@manifests.collector_paused()
def generate(
    root: Path,
    *,
    target: str = "",
    mode: Mode = "normal",
    frozen: bool = False,
    released: bool = False,
    environ: Mapping[str, str] = os.environ,
) -> Generated:
    """Read, render and resolve the project at ``root``. Writes nothing.

    ``frozen``: for other boxes, inert. ``released``: stamped and with status, without a rail.

    :raises ConfigError: with every mistake of tune.toml, or of the templates.
    """
    manifest = manifests.read(root)
    if target:  # another machine's objects have a folder of their own
        own = replace(manifest.project, root=manifest.project.root / "build" / f"for-{target}")
        manifest = replace(manifest, project=own)
    root = manifest.project.root
    box = host.box(environ)
    tools = find_tools(manifest, target)
    compiler_word, flags_word = _words(manifest, tools)
    arch = tools.default(manifest.project.name).target
    planned = plan.plan(manifest, arch, compiler_word, flags_word, target)
    files, declined, mistakes = _render(planned)
    mistakes = mistakes or lockstep.mistakes(planned, files, declined)
    whole, texts = plan.wherever(planned), files
    if whole is not planned and not mistakes:
        elsewhere, _, mistakes = _render(plan.skipped(planned))
        texts = files | elsewhere
    if mistakes:
        raise ConfigError(mistakes)
    heavy, headers = _heavy(whole, texts, tools, environ)
    ineligible = _ineligible(planned, files, broken.read(root))
    built = digests.digests(whole, texts, headers, _compiler_words(tools, arch), _texts(whole, headers))
    rejected = gates.rejected(gates.Tree(root, planned, files, built, box))
    here = resolve.Here.of(box, {**ineligible, **rejected}, declined)
    stamps: dict[str, Stamps] = {}
    records: dict[str, record.Read] = {}
    states: dict[str, tuple[ScopeState, ...]] = {}
    policy = _environment_policy(environ)
    inert = frozen or bool(target)
    kind: ArtifactKind = "frozen" if inert else "released" if released else "built"
    says: dict[str, str] = {}
    for app in manifest.apps:
        digest = artifact.sidecar_digest(record.location(manifest, app, environ))
        records[app.name] = record.read(manifest, app, box, built, here, environ)
        chosen = record.profiles_of(manifest, app, box)
        stamps[app.name] = resolve.resolve(
            manifest, app, sidecar=records[app.name].source, profiles=profiles.sources(manifest, chosen), here=here,
            policy=policy, mode="normal", frozen=inert,
        )  # fmt: skip
        states[app.name] = artifact.scope_states(manifest, app, records[app.name], chosen, here)
        says |= artifact.sources(
            manifest, app, stamps[app.name], states[app.name], box=box, digest=digest, kind=kind
        )
    sources = _all_sources(planned, files, stamps, ineligible, says)
    made = _graph(planned, tools, stamps, ineligible, heavy, headers, sources)
    return Generated(
        root, manifest, box, tools, planned, sources, made, stamps, records, declined, ineligible, rejected, built,
        (*_inputs(manifest, box, records), *_linked(made, tools, manifest), *_taken_in(headers)), states,
    )  # fmt: skip


def _compiler_words(tools: Tools, arch: str) -> dict[tuple[str, str], str]:
    """Each compiler as `built` records it; one that makes no code for ``arch`` is absent."""
    return {
        key: f"{found.version} {found.identity[:16]}"
        if isinstance(found, toolchain.Compiler) and found.target == arch
        else verdict.ABSENT
        for key, found in tools.compilers.items()
    }


def _texts(planned: Plan, headers: Mapping[str, tuple[Path, ...]]) -> dict[Path, str]:
    """The text of every file that `built` digests beside the generated rows."""
    paths = {header for found in headers.values() for header in found}
    for each in planned.families:
        paths |= {function.reference for function in each.functions}
        paths |= {*each.family.support, *((each.family.oracle,) if each.family.oracle else ())}
    return {
        path: path.read_bytes().decode(errors="surrogateescape") for path in sorted(paths) if path.exists()
    }


def _environment_policy(environ: Mapping[str, str]) -> Policy:
    return "reference" if environ.get("TUNEBUILD_POLICY") == "reference" else "auto"


def _ineligible(planned: Plan, files: Mapping[str, str], found: Mapping[str, Broken]) -> dict[Cell, str]:
    """Rows that cannot be stamped: not built here, or known not to compile."""
    why: dict[Cell, str] = {}
    for each in planned.families:
        for row in each.rows:
            if row.place != "built":
                why[each.family.name, row.row.suffix] = row.why
                continue
            for function in each.functions:
                name = codegen.symbol(function.name, row.row.suffix)
                if name in found:
                    text = files[codegen.row_path(each.family.name, function.name, row.row.suffix)]
                    if found[name].digest == broken.row_digest(text, plan.row_flags(each.family, row.row)):
                        why[each.family.name, row.row.suffix] = f"it does not compile: {found[name].why}"
    return why


def linked_rows(planned: Plan, ineligible: Mapping[Cell, str]) -> dict[str, tuple[Row, ...]]:
    return {
        each.family.name: tuple(row for row in each.built if (each.family.name, row.suffix) not in ineligible)
        for each in planned.families
    }


def _all_sources(
    planned: Plan,
    rows: Mapping[str, str],
    stamps: Mapping[str, Stamps],
    ineligible: Mapping[Cell, str],
    says: Mapping[str, str],
) -> dict[str, str]:
    """Every generated file. ``says``: what each app's artifacts say of themselves."""
    manifest = planned.manifest
    functions, fills = _support_prototypes(manifest)
    files = dict(rows) | codegen.reference_sources(planned) | codegen.constants_headers(manifest)
    for name in (*codegen.RUNTIME_HEADERS, *codegen_artifact.HEADERS):
        files[f"{codegen.GENERATED}/include/{name}"] = (RUNTIME / name).read_text()
    files[f"{codegen.GENERATED}/tune/tb_probe.c"] = (RUNTIME / "tb_probe.c").read_text()
    files[f"{codegen.GENERATED}/include/{graph.PCH_NAME}"] = graph.PCH_TEXT
    linked = linked_rows(planned, ineligible)
    for each in planned.families:
        suffixes = tuple(row.suffix for row in linked[each.family.name])
        files[f"{codegen.GENERATED}/tune/{each.family.name}.c"] = codegen.tune_source(
            planned, each, suffixes, functions
        )
    files[f"{codegen.GENERATED}/tune/drivers.c"] = codegen.drivers_source(planned.families, fills)
    for app in manifest.apps:
        files[f"{codegen.GENERATED}/include/{codegen.identifier(app.name)}.h"] = codegen.header(manifest, app)
        names = {family.name for family in resolve.app_families(manifest, app)}
        of_family = codegen.stamps_by_family(planned, stamps[app.name])
        for each in planned.families:
            if each.family.name in names:
                path = f"{codegen.GENERATED}/normal/{app.name}/{each.family.name}.c"
                files[path] = codegen.entry_source(planned, each, of_family[each.family.name])
    return files | dict(says)


def _graph(
    planned: Plan,
    tools: Tools,
    stamps: Mapping[str, Stamps],
    ineligible: Mapping[Cell, str],
    heavy: frozenset[str],
    headers: Mapping[str, tuple[Path, ...]],
    files: Mapping[str, str],
) -> graph.Graph:
    kinds = {
        name: found.kind
        for key, name in tools.names.items()
        if isinstance(found := tools.compilers[key], toolchain.Compiler)
    }
    compiler_of = {key: (name, kinds[name]) for key, name in tools.names.items()}
    rows = {each.family.name: each.built for each in planned.families}
    edges, binary = graph.tune_edges(
        planned, rows, linked_rows(planned, ineligible), compiler_of, kinds, heavy
    )
    row_objects = tuple(
        edge.output for edge in edges if edge.symbol and not edge.symbol.endswith(f"__{REFERENCE}")
    )
    phony: list[tuple[str, tuple[str, ...]]] = [
        ("rows", row_objects),
        ("tune", (binary, graph.WORKER)),
        ("test", (binary, graph.WORKER)),
    ]
    normal: list[str] = []
    for app in planned.manifest.apps:
        sources = artifact.app_sources(planned.manifest, app, files)
        edges += graph.app_edges(planned, app, stamps[app.name], compiler_of, sources)
        outputs = graph.app_outputs(app)
        phony.append((f"app_{codegen.identifier(app.name)}", outputs))
        normal += outputs
    phony.append(("normal", tuple(normal)))
    default = tools.default(planned.manifest.project.name)
    root = planned.manifest.project.root
    edges = [_with_libraries(edge, default, root) for edge in edges]
    edges.append(_worker_edge(default, root))
    named = _namer(tools, root)
    edges = [
        replace(edge, implicit=(*edge.implicit, *more)) if (more := named(edge, headers)) else edge
        for edge in edges
    ]
    return graph.Graph(tuple(edges), tuple(phony), tuple(dict.fromkeys(tools.names.values())))


def _namer(
    tools: Tools, root: Path
) -> Callable[[graph.Edge, Mapping[str, tuple[Path, ...]]], tuple[str, ...]]:
    """A function (compile edge, headers by file) -> the data that it reads, which no depfile names: files among
    the words of its line, and what its text takes in as bytes."""
    options = {
        name: found.flags
        for key, name in tools.names.items()
        if isinstance(found := tools.compilers[key], toolchain.Compiler)
    }
    known: dict[tuple[str, tuple[str, ...]], tuple[Path, ...]] = {}

    def named(edge: graph.Edge, headers: Mapping[str, tuple[Path, ...]]) -> tuple[str, ...]:
        if not edge.rule.startswith(("cc_", "pch_")):
            return ()
        line = edge.compiler, edge.flags
        if line not in known:
            known[line] = keys.files_of(keys.expanded((*options[edge.compiler], *edge.flags), root), root)
        data = _data(headers.get(edge.inputs[0], ()))
        return tuple(os.path.relpath(path, root) for path in dict.fromkeys((*known[line], *data)))

    return named


def _data(headers: Iterable[Path]) -> tuple[Path, ...]:
    return tuple(header for header in headers if not keys.is_c(header.name))


def _libraries(edge: graph.Edge, compiler: toolchain.Compiler, root: Path) -> keys.Libraries:
    """The libraries of a link, and its folders; what we make ourselves left out."""
    found = keys.libraries_of((*compiler.flags, *edge.flags, *edge.libs), os.environ, root)
    files, folders = (
        tuple(name for name in names if not f"{os.path.relpath(root / name, root)}/".startswith(_MADE))
        for names in (found.files, found.folders)
    )
    return keys.Libraries(files, folders)


def _with_libraries(edge: graph.Edge, compiler: toolchain.Compiler, root: Path) -> graph.Edge:
    if edge.rule != "link":
        return edge
    return replace(edge, implicit=_libraries(edge, compiler, root).files)


def _linked(made: graph.Graph, tools: Tools, manifest: Manifest) -> Iterable[Path]:
    """The libraries that links name, and the folders where another one may come to stand before them."""
    root, default = manifest.project.root, tools.default(manifest.project.name)
    for edge in made.edges:
        if edge.rule == "link":
            found = _libraries(edge, default, root)
            yield from (root / name for name in (*found.files, *found.folders))


def _taken_in(headers: Mapping[str, tuple[Path, ...]]) -> tuple[Path, ...]:
    """The data that texts include, wherever they lie."""
    return _data(dict.fromkeys(header for found in headers.values() for header in found))


def _inputs(manifest: Manifest, box: Box, records: Mapping[str, record.Read]) -> tuple[Path, ...]:
    """Every file that decides what is generated, present or not."""
    found = list(manifests.affected_files(manifest))
    for app in manifest.apps:
        found.append(records[app.name].path)
        found += profiles.ladder_paths(manifest, app, box)
        found += app.sources
    return tuple(dict.fromkeys(found))


def _worker_edge(compiler: toolchain.Compiler, root: Path) -> graph.Edge:
    """The worker that loads tune binaries: built with the project's own compiler, from the installed sources."""
    sources = sorted((RUNTIME / "worker").glob("*.c"))
    headers = sorted([*RUNTIME.glob("*.h"), *(RUNTIME / "worker").glob("*.h")])
    flags = ("-O2", "-std=gnu17", f"-I{RUNTIME}", f"-I{RUNTIME / 'worker'}")
    return graph.Edge(
        graph.WORKER_RULE,
        graph.WORKER,
        tuple(map(str, sources)),
        (*compiler.argv, *compiler.flags, *flags),
        tuple(map(str, (*headers, *keys.files_of(keys.expanded(compiler.flags, root), root)))),
        libs=("-ldl", "-lm", "-lpthread"),
    )

"""The straight lines: each command's work from top to bottom. Only `cli` prints and exits."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tunebuild import (
    artifact,
    calls,
    codegen,
    emit,
    exchange,
    front,
    gates,
    generate,
    graph,
    history,
    judge,
    memo,
    mintdiff,
    plan,
    policy,
    racepage,
    record,
    report,
    resolve,
    sidecar,
    toolchain,
    verdict,
    worker,
)
from tunebuild.document import Document
from tunebuild.errors import Refused, UsageError
from tunebuild.front import Failure, Ran
from tunebuild.generate import Generated
from tunebuild.model import REFERENCE, App, Manifest, Mode, Rejected, Stamps

Say = Callable[[str], None]
BUILD_LOCK = "build/build"


@dataclass(frozen=True, slots=True)
class Built:
    """What a build did. ``rejected``: rows that did not compile, with the compiler's words."""

    generated: Generated
    ran: tuple[Ran, ...]
    rejected: tuple[Rejected, ...] = ()

    @property
    def made(self) -> tuple[str, ...]:
        return tuple(output for ran in self.ran for output in ran.made)

    @property
    def hits(self) -> tuple[str, ...]:
        return tuple(output for ran in self.ran for output in ran.hits)


def build(
    root: Path,
    mode: Mode,
    *,
    app: str = "",
    frozen: bool = False,
    released: bool = False,
    explain: bool = False,
    enforce: bool = True,
    then: Callable[[Generated], None] = lambda generated: None,
    say: Say,
) -> Built:
    """tune.toml -> C -> ninja -> artifacts. ``app`` "" builds all apps.

    ``released``: stamped artifacts without a rail, as a bundle ships them. ``then`` takes a normal build's
    artifacts away before another build may change them. ``enforce``: hold the apps to their policies.

    :raises Refused: for an untuned scope of an app whose policy forbids it.
    :raises WorkFailed: when a compile or a link fails, with the tool's words.
    """
    with emit.locked(root / BUILD_LOCK, wait_message="another build runs here, waiting"):
        started_ns = time.time_ns()
        if mode != "normal":
            built = _build_tune(root, say=say, explain=explain)
        else:
            generated = generate.generate(root, frozen=frozen, released=released)
            toolchain.require_launcher(generated.manifest.project.launcher)
            apps = (generated.app(app),) if app else generated.manifest.apps
            inert = frozen or released
            if enforce:
                for line in artifact.policy_lines(
                    generated.manifest, apps, generated.states, os.environ, frozen=inert
                ):
                    say(line)
            if os.environ.get("TUNEBUILD_VERBOSITY") != "silent":
                said = dict.fromkeys(
                    line for one in apps for line in resolve.dropped(generated.stamps[one.name])
                )
                for line in said:
                    say(f"tunebuild: {line}")
            generate.emit_all(generated)
            target = f"app_{codegen.identifier(generated.app(app).name)}" if app else "normal"
            ran = front.must(front.run(generated, (target,), explain=explain, say=say), "the build")
            then(generated)
            built = Built(generated, (ran,))
        _remember(built.generated, mode if not (app or released) else "", frozen, started_ns)
    return built


def build_tune(root: Path, *, say: Say, target: str = "") -> Built:
    """The all-variants binary; a row that does not compile is rejected and the others go on."""
    with emit.locked(root / BUILD_LOCK, wait_message="another build runs here, waiting"):
        started_ns = time.time_ns()
        built = _build_tune(root, say=say, target=target)
        if not target:
            _remember(built.generated, "tune", False, started_ns)
    return built


def _build_tune(root: Path, *, say: Say, explain: bool = False, target: str = "") -> Built:
    generated = generate.generate(root, target=target, mode="tune")
    toolchain.require_launcher(generated.manifest.project.launcher)
    generate.emit_all(generated)
    # A row that fails keeps the binary from being linked, unless it was known to and is left out.
    rows = front.run(generated, ("rows", "tune"), keep_going=True, explain=explain, say=say)
    known = generate.read_broken(generated.root)
    broken = _broken(generated, rows, known)
    binary = graph.moved(graph.tune_binary(generated.plan), generated.graph.folder)
    linkable = all("defines" not in entry for entry in broken.values())
    others = tuple(
        failure
        for failure in rows.failures
        # A symbol that two rows define fails the link before anything can be said of the rows.
        if _symbol(failure) not in broken and (linkable or failure.output != binary)
    )
    if others:
        front.must(replace(rows, failures=others), "the tune build")
    ran = [rows]
    if {name: entry["digest"] for name, entry in broken.items()} != {
        name: entry.get("digest") for name, entry in known.items()
    }:
        emit.write_if_changed(generated.root / generate.BROKEN, json.dumps(broken, sort_keys=True, indent=1))
        generated = generate.generate(root, target=target, mode="tune")
        generate.emit_all(generated)
        ran.append(front.must(front.run(generated, ("tune",), explain=explain, say=say), "the tune build"))
    rejected = tuple(
        Rejected(name.partition("__")[2], "compile", entry["why"], f"tunebuild explain {name}")
        for name, entry in broken.items()
    )
    return Built(generated, tuple(ran), rejected)


def _symbol(failure: Failure) -> str:
    return Path(failure.output).name.removesuffix(".o")


def _broken(
    generated: Generated, ran: Ran, known: Mapping[str, Mapping[str, str]]
) -> dict[str, dict[str, str]]:
    """Rows that cannot be linked: those whose edge failed, with the compiler's words, and those whose object
    does not define its own symbol and nothing else (``defines`` marks these). Their text's digest as well."""
    words = {_symbol(failure): failure.words.strip() for failure in ran.failures}
    fresh = frozenset((*ran.made, *ran.hits))
    found: dict[str, dict[str, str]] = {}
    for planned in generated.plan.families:
        for row in planned.built:
            for function in planned.functions:
                name = codegen.symbol(function.name, row.suffix)
                text = generated.files[codegen.row_path(planned.family.name, function.name, row.suffix)]
                digest = generate.row_digest(text, plan.row_flags(planned.family, row))
                output = graph.moved(graph.object_path(planned.family.name, name), generated.graph.folder)
                if name in words:
                    found[name] = {"digest": digest, "why": words[name]}
                elif output in fresh:
                    if fault := judge.symbol_fault(generated.root / output, name):
                        found[name] = {"digest": digest, "why": fault, "defines": "other"}
                elif "defines" in known.get(name, {}) and known[name].get("digest") == digest:
                    found[name] = dict(known[name])
    return found


def _remember(generated: Generated, mode: str, frozen: bool, started_ns: int) -> None:
    """Write the memo that lets the next build of this mode start ninja at once, and `status` read its answer.

    A tree that was edited since ``started_ns`` is not remembered: what was generated may be of either text.
    Nor is one with a file dated ahead, of which every build warns.
    """
    root = generated.root
    paths: list[Path] = [*generated.inputs, root / gates.GATED]
    for folder in generated.watched_folders():
        paths.append(folder)
        for above, folders, names in os.walk(folder):
            paths += [Path(above, name) for name in (*folders, *names)]
    paths.append(Path(__file__).parent)
    watched = {str(path): memo.signature(str(path)) for path in dict.fromkeys(paths)}
    latest = max((signature[2] for signature in watched.values() if signature), default=0)
    newest = max((signature[1] for signature in watched.values() if signature), default=0)
    if latest >= started_ns - memo.CLOCK_STEP_NS or newest > time.time_ns() + front.SKEW_NS:
        (root / memo.MEMO).unlink(missing_ok=True)
        return
    if not frozen:
        emit.write_if_changed(root / memo.STATUS, json.dumps(_said(generated)))
    # What was made may be deleted, edited by hand or overwritten as well.
    outputs = (output for app in generated.manifest.apps for output in graph.app_outputs(app))
    made = (*memo.OURS, *generated.files, *outputs)
    watched |= {str(root / name): memo.signature(str(root / name)) for name in made}
    modes = [mode] if mode else []
    old = _old_memo(root)
    if old.get("watched") == watched and old.get("frozen") == frozen:
        kept = old.get("modes")
        modes = sorted({*modes, *(kept if isinstance(kept, list) else ())})
    document = {
        "version": memo.VERSION,
        "root": os.path.realpath(root),
        "frozen": frozen,
        "modes": modes,
        "ninja": front.ninja_path(),
        "kernel": os.uname().release,
        "environment": memo.environment(),
        "watched": watched,
    }
    emit.write_if_changed(root / memo.MEMO, json.dumps(document))


def _said(generated: Generated) -> dict[str, dict[str, object]]:
    """What `status` answers for each app while nothing changes."""
    found: dict[str, dict[str, object]] = {}
    for app in generated.manifest.apps:
        one = status_of(generated, app)
        found[app.name] = {
            "document": report.status_json(one.stamps, one.states),
            "text": report.status_text(one.stamps, one.states, ungated=one.ungated),
            "coloured": report.status_text(one.stamps, one.states, ungated=one.ungated, colour=True),
        }
    found[""] = found[generated.manifest.apps[0].name]
    return found


def _old_memo(root: Path) -> Mapping[str, object]:
    try:
        found = json.loads((root / memo.MEMO).read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


# --- reading commands: they never compile, stamp or race ------------------------------------------


@dataclass(frozen=True, slots=True)
class Status:
    """What every seat of an app would run now, and how each of its scopes stands."""

    stamps: Stamps
    states: tuple[policy.ScopeState, ...]
    ungated: frozenset[resolve.Cell]


def status(root: Path, app: str = "") -> Status:
    generated = generate.generate(root)
    return status_of(generated, generated.app(app))


def status_of(generated: Generated, app: App) -> Status:
    seats = tuple(
        stamp
        for stamp in generated.stamps[app.name].seats
        if stamp.family in _families(generated.manifest, app)
    )
    stamps = replace(generated.stamps[app.name], seats=seats)
    return Status(stamps, scope_states(generated, app), gates.ungated(generated, stamps))


def _families(manifest: Manifest, app: App) -> frozenset[str]:
    return frozenset(family.name for family in resolve.app_families(manifest, app))


def scope_states(generated: Generated, app: App) -> tuple[policy.ScopeState, ...]:
    """Each scope of an app: the sidecar's verdict, and what a profile does where the sidecar is silent."""
    return generated.states[app.name]


def why(root: Path, app: str, name: str) -> tuple[report.Why, ...]:
    """Everything known of a family's seats, or of one seat by its key."""
    generated = generate.generate(root)
    chosen = generated.app(app)
    read = generated.records[chosen.name]
    document = read.found if isinstance(read.found, Document) else Document()
    ungated = gates.ungated(generated, generated.stamps[chosen.name])
    answering = record.profiles_of(generated.manifest, chosen, generated.box)
    bounds = {
        one.profile.path: {name: report.bound_of(one.profile, name) for name in one.profile.bounds}
        for one in answering
        if one.profile
    }
    found = []
    for stamp in generated.stamps[chosen.name].seats:
        if name not in (stamp.family, stamp.key):
            continue
        family = generated.plan.family(stamp.family).family
        found.append(
            report.Why(
                stamp=stamp,
                chain=resolve.chain_pick(family, generated.here),
                race=document.race.get(stamp.key, {}),
                measured=report.measured_by(document, stamp.key),
                bound=bounds.get(stamp.path, {}).get(stamp.family, {}),
                inputs=tuple(read.built.get(stamp.key, {})),
                gated=None if stamp.suffix == REFERENCE else (stamp.family, stamp.suffix) not in ungated,
                changed=read.changed(stamp.key),
            )
        )
    if not found:
        raise unknown_family(generated.manifest, name)
    return tuple(found)


def unknown_family(manifest: Manifest, name: str) -> UsageError:
    import difflib

    known = [seat.key for family in manifest.families for seat in family.seats]
    known += [family.name for family in manifest.families if family.name not in known]
    near = difflib.get_close_matches(name, known, 1)
    listed = ", ".join(known[:12]) + (f" and {len(known) - 12} more" if len(known) > 12 else "")
    return UsageError(
        f"there is no family {name}", fix=f"did you mean {near[0]}?" if near else f"there are: {listed}"
    )


def explain(root: Path, row: str) -> dict[str, str]:
    """One row's compile line, files and the gdb command that stops in it."""
    generated = generate.generate(root)
    edge = _row_edge(generated, row)
    compiler = _compiler_of(generated, edge)
    line = (*compiler.argv, *compiler.flags, *edge.flags, "-c", edge.inputs[0], "-o", edge.output)
    return {
        "row": edge.symbol,
        "file": edge.inputs[0],
        "object": edge.output,
        "compile": shlex.join(line),
        "gdb": f"gdb -ex 'set breakpoint pending on' -ex 'break {edge.symbol}' --args {graph.WORKER} "
        f"{graph.tune_binary(generated.plan)}",
    }


def _row_edge(generated: Generated, row: str) -> graph.Edge:
    found = next((edge for edge in generated.graph.edges if edge.symbol == row), None)
    if found is None:
        import difflib

        known = [edge.symbol for edge in generated.graph.edges if edge.symbol]
        near = ", ".join(difflib.get_close_matches(row, known, 3)) or ", ".join(known[:3])
        raise UsageError(f"there is no row {row}", fix=f"a row is written FAMILY__SUFFIX, such as {near}")
    return found


def _compiler_of(generated: Generated, edge: graph.Edge) -> toolchain.Compiler:
    key = next(key for key, name in generated.tools.names.items() if name == edge.compiler)
    found = generated.tools.compilers[key]
    assert isinstance(found, toolchain.Compiler)
    return found


def disassembly(root: Path, row: str, *, say: Say) -> str:
    """The machine code of one row, by objdump; builds its object first."""
    with emit.locked(root / BUILD_LOCK):
        generated = generate.generate(root)
        edge = _row_edge(generated, row)
        generate.emit_all(generated)
        front.must(front.run(generated, (edge.output,), say=say), "the compile")
    program = shutil.which("objdump") or shutil.which("llvm-objdump")
    if program is None:
        raise UsageError("objdump is not on this machine", fix="install binutils, or read the object in gdb")
    done = subprocess.run(
        [program, "-d", "--no-show-raw-insn", f"--disassemble={row}", generated.root / edge.output],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.strip()


# --- test -----------------------------------------------------------------------------------------


def open_worker(generated: Generated, core: int = -1) -> worker.Worker:
    """A worker on the tune binary; under its emulator where the target is another machine's."""
    compiler = generated.tools.default(generated.manifest.project.name)
    if not compiler.runs:
        raise UsageError(
            f"this machine cannot run code for {compiler.target}",
            fix='install its emulator and name it, such as run = "qemu-aarch64"',
        )
    return worker.Worker(
        generated.root / graph.moved(graph.WORKER, generated.graph.folder),
        generated.root / graph.moved(graph.tune_binary(generated.plan), generated.graph.folder),
        emulator=compiler.run,
        core=core,
    )


def judge_remembered(generated: Generated, report: judge.FamilyReport) -> None:
    """Keep a report's words for `status` and `release`."""
    rejected = [(report.family, one.suffix) for one in report.rejected]
    gates.remember(generated, [(report.family, suffix) for suffix in report.passed], rejected)


def test(
    root: Path,
    families: Iterable[str],
    *,
    row: str = "",
    case: str = "",
    target: str = "",
    sanitize: bool = False,
    say: Say,
) -> tuple[judge.FamilyReport, ...]:
    """Gate rows against their reference bodies; every row gets a word. ``sanitize``: under ASan and UBSan."""
    generated = build_tune(root, say=say, target=target).generated
    if sanitize:
        generated = _sanitized(generated, say=say)
    wanted = tuple(families)
    for name in wanted:
        if all(each.family.name != name for each in generated.plan.families):
            raise unknown_family(generated.manifest, name)
    reports = []
    with open_worker(generated) as running:
        for planned in generated.plan.families:
            if wanted and planned.family.name not in wanted:
                continue
            if row and all(each.row.suffix != row for each in planned.rows):
                raise UsageError(f"{planned.family.name} has no row {row}")
            cases = [calls.parse_case(case)] if case else None
            report = judge.judge(generated, planned, running, only=row, cases=cases)
            reports.append(_replayed_so(report) if sanitize else report)
            if not row and not case and not target and not sanitize:
                judge_remembered(generated, report)
    return tuple(reports)


def _replayed_so(report: judge.FamilyReport) -> judge.FamilyReport:
    """The same report with replays that ask for the sanitizers."""

    def so(row: judge.RowReport) -> judge.RowReport:
        if row.rejected is None or not row.rejected.replay.startswith("tunebuild test"):
            return row
        return replace(row, rejected=replace(row.rejected, replay=f"{row.rejected.replay} --sanitize"))

    return replace(report, rows=tuple(map(so, report.rows)))


def _sanitized(generated: Generated, *, say: Say) -> Generated:
    """The tune binary and the worker once more, in a folder of their own, under ASan and UBSan."""
    compiler = generated.tools.default(generated.manifest.project.name)
    if compiler.kind == "zig" or not toolchain.links(compiler, graph.SANITIZE_FLAGS):
        raise UsageError(
            f"{shlex.join(compiler.argv)} cannot link with {graph.SANITIZE_FLAGS[0]}",
            where="tunebuild test --sanitize",
            fix="install the sanitizers' libraries (libasan and libubsan), or set CC to gcc or clang",
        )
    sanitized = replace(generated, graph=graph.sanitized(generated.graph))
    with emit.locked(generated.root / BUILD_LOCK, wait_message="another build runs here, waiting"):
        generate.emit_all(sanitized)
        front.must(front.run(sanitized, ("tune",), say=say), "the build under sanitizers")
    return sanitized


# --- the archive ----------------------------------------------------------------------------------


def mints(root: Path, app: str = "") -> tuple[history.Entry, ...]:
    """This box's archived mints of one app, oldest first; failed ones are stubs with their reason."""
    generated = generate.generate(root)
    path = generated.records[generated.app(app).name].path
    return history.entries(generated.box.identity, stem=path.name.removesuffix(sidecar.SUFFIX))


def compare_mints(root: Path, app: str, a: str, b: str) -> tuple[str, ...]:
    """Two mints side by side: named files, or the last two of the archive."""
    paths = [Path(name) for name in (a, b) if name]
    if len(paths) < 2:
        kept = [entry.path for entry in mints(root, app) if entry.kind == "mint"]
        paths = [*kept[-2 + len(paths) :], *paths] if not paths else [kept[-1], *paths] if kept else paths
    if len(paths) < 2:
        raise UsageError("there are no two mints to compare", fix="mint twice, or name two sidecars")
    documents = [history.read_mint(path) for path in paths]
    for path, document in zip(paths, documents, strict=True):
        if document is None:
            raise UsageError(f"{path} cannot be read as a sidecar")
    old, new = documents
    assert old is not None and new is not None
    return tuple(mintdiff.lines(mintdiff.diff(old, new)))


# --- other boxes, and pictures --------------------------------------------------------------------


def exchanged(root: Path, app: str, action: str, url: str, accept: exchange.Accept) -> str:
    """Send this box's sidecar, or adopt another's; says what happened."""
    generated = generate.generate(root)
    chosen = generated.app(app)
    read = generated.records[chosen.name]
    demands = [policy.demand(generated.manifest, s) for s in resolve.app_scopes(generated.manifest, chosen)]
    demand = verdict.Demand(
        tuple(key for each in demands for key in each.keys),
        tuple(pin for each in demands for pin in each.pins),
    )
    if action == "push":
        document = _document(read)
        judged = read.verdict(demand)
        if judged.reason in ("stale_binary", "version"):
            raise Refused(
                f"{read.path.name} is {judged.reason} ({judged.detail}): it is not sent",
                fix="run `tunebuild mint --stale`, then push",
            )
        hit = exchange.push(
            url, generated.manifest.project.name, document, generated.box, demand, generated.built
        )
        return f"sent {_winners(hit.kernels)} as {hit.sha[:12]}, unverified"
    here = exchange.Here(
        generated.manifest.project.name, generated.box, read.path, read.built, read.binary_s, read.unfit
    )
    merged = exchange.pull(url, here, demand, accept)
    if merged is None:
        raise exchange.nothing_fits(url, here, demand)
    if not merged.taken:
        return f"nothing to adopt: {read.path.name} holds a fresh winner of every seat that it lists"
    return f"adopted {_winners(len(merged.taken))} into {read.path.name}"


def _winners(count: int) -> str:
    return f"{count} winner{'s' * (count != 1)}"


def race_page(root: Path, app: str, target: Path) -> None:
    """Write the page of an app's races."""
    generated = generate.generate(root)
    chosen = generated.app(app)
    found = _document(generated.records[chosen.name])
    seats = generated.built  # a sidecar keeps what it has of seats that are gone
    races = {key: race for key, race in found.race.items() if key in seats}
    emit.write_if_changed(target, racepage.page(chosen.name, replace(found, race=races)))


def _document(read: record.Read) -> Document:
    """The sidecar's content; an error that says what is wrong with it where there is none."""
    if isinstance(read.found, Document):
        return read.found
    if read.found is None:
        raise UsageError(f"there is no sidecar at {read.path}", fix="run `tunebuild mint` first")
    raise UsageError(
        f"{read.path} is unreadable: {read.found.why}",
        fix="run `tunebuild mint`, which writes it anew, or restore it from its .bak or `tunebuild history`",
    )

"""The straight lines: each command's work from top to bottom. Only `cli` prints and exits."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from tunebuild import (
    calls,
    emit,
    exchange,
    front,
    gates,
    generate,
    graph,
    history,
    judge,
    manifest,
    mintdiff,
    policy,
    racepage,
    record,
    report,
    resolve,
    sidecar,
    toolchain,
    verdict,
    worker,
    writing,
)
from tunebuild.building import BUILD_LOCK, Say, Status, build_tune, hand_of, status_of
from tunebuild.document import Document
from tunebuild.errors import Refused, UsageError
from tunebuild.generate import Generated
from tunebuild.model import REFERENCE, App, Manifest, Stamp, Stamps

# --- reading commands: they never compile, stamp or race ------------------------------------------


def status(root: Path, app: str = "") -> tuple[Status, tuple[Stamps, ...]]:
    """How one app stands; and what the others run, where none was named."""
    generated = generate.generate(root)
    chosen = generated.app(app)
    others = () if app else tuple(s for name, s in generated.stamps.items() if name != chosen.name)
    return status_of(generated, chosen), others


def why(root: Path, app: str, name: str) -> tuple[report.Why, ...]:
    """Everything known of a family's seats, or of one seat by its key."""
    generated = generate.generate(root)
    chosen = generated.app(app)
    read = generated.records[chosen.name]
    document = read.document
    stamps = generated.stamps[chosen.name]
    passed_over = {state.scope.name: state.passed_over for state in generated.states[chosen.name]}
    untuned = {state.scope.name: state.untuned for state in generated.states[chosen.name]}
    answering = record.profiles_of(generated.manifest, chosen, generated.box)
    bounds = {
        one.profile.path: {name: report.bound_of(one.profile, name) for name in one.profile.bounds}
        for one in answering
        if one.profile
    }
    named = _named(generated.manifest, stamps, name)
    marks = gates.marks(generated.tree, replace(stamps, seats=tuple(stamp for stamp, _ in named)))
    found = []
    for stamp, follows in named:
        family = generated.plan.family(stamp.family).family
        found.append(
            report.Why(
                stamp=stamp,
                chain=resolve.chain_pick(family, generated.here),
                race=document.race.get(stamp.key, {}),
                measured=report.measured_by(document, stamp.key),
                bound=bounds.get(stamp.path, {}).get(stamp.family, {}),
                inputs=tuple(read.built.get(stamp.key, {})),
                gate="" if stamp.suffix == REFERENCE else marks.get((stamp.family, stamp.suffix), "passed"),
                by_hand="" if follows else hand_of(generated.manifest, stamp, document),
                changed=read.changed(stamp.key),
                follows=follows,
                passed_over=passed_over.get(stamp.scope, ()),
                untuned=untuned.get(stamp.scope, ""),
            )
        )
    if not found:
        raise unknown_family(generated.manifest, name)
    return tuple(found)


def _named(manifest: Manifest, stamps: Stamps, name: str) -> tuple[tuple[Stamp, str], ...]:
    """The stamps of a family, of one seat, or of one companion; beside each the seat that it follows, "" for none."""
    seats = tuple((stamp, "") for stamp in stamps.seats if name in (stamp.family, stamp.key))
    owner = next((one for one in manifest.families if any(c.name == name for c in one.companions)), None)
    first = next((stamp for stamp in stamps.seats if owner and stamp.family == owner.name), None)
    if seats or first is None:
        return seats
    own = dict(stamps.companions).get(name)
    stamp = replace(first, key=name, seat="", suffix=own or first.suffix, note="" if own else first.note)
    return ((stamp, "" if own else first.key),)


def unknown_family(manifest: Manifest, name: str) -> UsageError:
    import difflib

    if family := next(
        (one for one in manifest.families if any(seat.key == name for seat in one.seats)), None
    ):
        return UsageError(f"{name} is one seat of a family", fix=f"write {family.name}")
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
        writing.write(generated)
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
    unseen: dict[tuple[str, str], list[str]] = {}
    for each in report.unseen:
        for suffix in each.rows:
            unseen.setdefault((report.family, suffix), []).append(each.workload)
    gates.remember(generated.tree, [(report.family, suffix) for suffix in report.passed], rejected, unseen)


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
    wanted = tuple(families)
    _require_families(root, wanted)  # before a minute of compiling
    generated = build_tune(root, say=say, target=target).generated
    if sanitize:
        generated = _sanitized(generated, say=say)
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


def _require_families(root: Path, names: tuple[str, ...]) -> None:
    """:raises UsageError: for a name that is no family's."""
    found = manifest.read(root)
    for name in names:
        if all(family.name != name for family in found.families):
            raise unknown_family(found, name)


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
        writing.write(sanitized)
        front.must(front.run(sanitized, ("tune",), say=say), "the build under sanitizers")
    return sanitized


# --- the archive ----------------------------------------------------------------------------------


def mints(root: Path, app: str = "") -> tuple[history.Entry, ...]:
    """This box's archived mints of one app, oldest first; failed ones are stubs with their reason. The archive goes by
    the app's name: mints of another project of that name, which still stands where it was minted, are left out."""
    generated = generate.generate(root)
    path = generated.records[generated.app(app).name].path
    kept = history.entries(generated.box.identity, stem=path.name.removesuffix(sidecar.SUFFIX))
    return tuple(entry for entry in kept if not _of_another_project(entry, generated.root))


def _of_another_project(entry: history.Entry, root: Path) -> bool:
    document = history.read_mint(entry.path) if entry.kind == "mint" else None
    made = document.provenance.get("binary") if document else None
    folder, build, _ = made.partition(f"/{graph.BUILD}/") if isinstance(made, str) else ("", "", "")
    return bool(build) and Path(folder) != root and Path(folder, "tune.toml").exists()


def compare_mints(root: Path, app: str, a: str, b: str) -> tuple[str, ...]:
    """Two mints side by side: named by file or by the time that the history gives, or the last two of the archive."""
    archived = [entry for entry in mints(root, app) if entry.kind == "mint"]
    by_time = {entry.when: entry.path for entry in archived}
    paths = [by_time.get(name, Path(name)) for name in (a, b) if name]
    if len(paths) < 2:
        kept = [entry.path for entry in archived]
        paths = [*kept[-2 + len(paths) :], *paths] if not paths else [kept[-1], *paths] if kept else paths
    if len(paths) < 2:
        raise UsageError("there are no two mints to compare", fix="mint twice, or name two sidecars")
    documents = [history.read_mint(path) for path in paths]
    for path, document in zip(paths, documents, strict=True):
        if document is None:
            raise UsageError(
                f"{path} cannot be read as a sidecar",
                fix="name a sidecar, or a mint by its time as `tunebuild history` prints it",
            )
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
        document = _document(generated, chosen)
        judged = read.verdict(demand)
        if judged.reason in ("stale_binary", "version"):
            raise Refused(
                f"{read.path.name} is {judged.reason} ({judged.detail}): it is not sent",
                fix=f"{_advice(generated, chosen)}, then push",
            )
        name, command = generated.manifest.project.name, policy.app_command(generated.manifest, chosen)
        hit = exchange.push(url, name, document, generated.box, demand, generated.built, command)
        return f"sent {_winners(hit.kernels)} as {hit.sha[:12]}, unverified"
    here = exchange.Here(
        generated.manifest.project.name,
        generated.box,
        read.path,
        read.built,
        read.binary_s,
        read.unfit,
        read.pins,
    )
    merged = exchange.pull(url, here, demand, accept)
    if merged is None:
        raise exchange.nothing_fits(url, here, demand, policy.app_command(generated.manifest, chosen))
    if not merged.taken:
        return f"nothing to adopt: {read.path.name} holds a fresh winner of every seat that it lists"
    return f"adopted {_winners(len(merged.taken))} into {read.path.name}"


def _winners(count: int) -> str:
    return f"{count} winner{'s' * (count != 1)}"


def race_page(root: Path, app: str, target: Path) -> None:
    """Write the page of an app's races."""
    generated = generate.generate(root)
    chosen = generated.app(app)
    found = _document(generated, chosen)
    seats = generated.built  # a sidecar keeps what it has of seats that are gone
    races = {key: race for key, race in found.race.items() if key in seats}
    emit.write_if_changed(target, racepage.page(chosen.name, replace(found, race=races)))


def _advice(generated: Generated, app: App) -> str:
    """What a person does about the scopes of an app that its sidecar does not answer for."""
    open_states = (state for state in generated.states[app.name] if not state.verdict.complete)
    todo = dict.fromkeys(state.advice for state in open_states)
    return "; ".join(todo) or f"run `{policy.app_command(generated.manifest, app)}`"


def _document(generated: Generated, app: App) -> Document:
    """The sidecar's content; an error that says what is wrong with it where there is none."""
    read = generated.records[app.name]
    if isinstance(read.found, Document):
        return read.found
    todo = _advice(generated, app)
    if read.found is None:
        raise UsageError(f"there is no sidecar at {read.path}", fix=f"{todo} first")
    raise UsageError(
        f"{read.path} is unreadable: {read.found.why}",
        fix=f"{todo}, which writes it anew, or restore it from its .bak or `tunebuild history`",
    )

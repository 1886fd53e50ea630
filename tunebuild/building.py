"""A build from top to bottom: tune.toml -> C -> ninja -> artifacts, and what the next build and `status` may
remember of it."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tunebuild import (
    artifact,
    broken,
    codegen,
    culprits,
    emit,
    front,
    gates,
    generate,
    graph,
    memo,
    policy,
    report,
    resolve,
    toolchain,
    writing,
)
from tunebuild.columns import printable
from tunebuild.document import Document, Unreadable
from tunebuild.front import Ran
from tunebuild.generate import Generated
from tunebuild.model import App, Manifest, Mode, Rejected, Stamp, Stamps
from tunebuild.upsert import by_hand

Say = Callable[[str], None]
BUILD_LOCK = "build/build"
SAID_SEATS = 5  # stale seats that a build names one by one


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
        stand: Mapping[str, Status] | None = None
        if mode != "normal":
            built = _build_tune(root, say=say, explain=explain)
        else:
            generated = generate.generate(root, frozen=frozen, released=released)
            toolchain.require_launcher(generated.manifest.project.launcher)
            apps = (generated.app(app),) if app else generated.manifest.apps
            stand = _statuses(generated)
            _announce(
                generated, apps, stand, enforce=enforce, frozen=frozen, inert=frozen or released, say=say
            )
            writing.write(generated)
            target = f"app_{codegen.identifier(generated.app(app).name)}" if app else "normal"
            ran = front.run(generated, (target,), explain=explain, say=say)
            front.must(culprits.explained(generated, ran), "the build")
            then(generated)
            built = Built(generated, (ran,))
        plain = mode if not (app or released or frozen) else None
        _remember(built.generated, plain, started_ns, status=not frozen, stand=stand)
    return built


def build_tune(root: Path, *, say: Say, target: str = "") -> Built:
    """The all-variants binary; a row that does not compile is rejected and the others go on."""
    with emit.locked(root / BUILD_LOCK, wait_message="another build runs here, waiting"):
        started_ns = time.time_ns()
        built = _build_tune(root, say=say, target=target)
        if not target:
            _remember(built.generated, "tune", started_ns)
    return built


def _build_tune(root: Path, *, say: Say, explain: bool = False, target: str = "") -> Built:
    generated = generate.generate(root, target=target, mode="tune")
    toolchain.require_launcher(generated.manifest.project.launcher)
    writing.write(generated)
    # A row that fails keeps the binary from being linked, unless it was known to and is left out.
    rows = front.run(generated, ("rows", "tune"), keep_going=True, explain=explain, say=say)
    known = broken.read(generated.root)
    if troubled := tuple(failure for failure in rows.failures if _TROUBLE.search(failure.words)):
        front.must(replace(rows, failures=troubled), "the tune build")
    found = culprits.find(generated, rows, known)
    binary = graph.moved(graph.tune_binary(generated.plan), generated.graph.folder)
    linkable = not any(row.breaks_link for row in found.values())
    others = tuple(
        failure
        for failure in rows.failures
        # A symbol that two rows define, or that nothing does, fails the link before a row can be left out.
        if culprits.symbol(failure) not in found and (linkable or failure.output != binary)
    )
    if others:
        front.must(culprits.explained(generated, replace(rows, failures=others)), "the tune build")
    ran = [rows]
    if {name: row.digest for name, row in found.items()} != {name: row.digest for name, row in known.items()}:
        emit.write_if_changed(generated.root / broken.PATH, broken.text(found))
        generated = generate.generate(root, target=target, mode="tune")
        writing.write(generated)
        ran.append(front.must(front.run(generated, ("tune",), explain=explain, say=say), "the tune build"))
    rejected = tuple(
        Rejected(name.partition("__")[2], "compile", row.why, f"tunebuild explain {name}")
        for name, row in found.items()
    )
    return Built(generated, tuple(ran), rejected)


# What a tool says, in the C locale, of a machine that is full or ill: no row is to blame, and none is rejected.
_TROUBLE = re.compile(
    "No space left on device|Disk quota exceeded|File too large|Input/output error|Too many open files"
    "|Read-only file system"
)


def _announce(
    generated: Generated,
    apps: Sequence[App],
    stand: Mapping[str, Status],
    *,
    enforce: bool,
    frozen: bool,
    inert: bool,
    say: Say,
) -> None:
    """Say which profiles do not serve or leave something to race, then what the policies say, then which rows are not
    those that were recorded.
    A frozen build reads no winner and speaks of none.

    :raises Refused: for an untuned scope of an app whose policy forbids it.
    """
    loud = os.environ.get("TUNEBUILD_VERBOSITY") != "silent" and not frozen
    if loud:
        states = tuple(state for one in apps for state in generated.states[one.name])
        for line in dict.fromkeys((*policy.not_serving(states), *policy.left_lines(states))):
            say(f"tunebuild: {printable(line)}")
    if enforce:
        lines = artifact.policy_lines(generated.manifest, apps, generated.states, os.environ, frozen=inert)
        for line in lines:
            say(printable(line))
    if loud:
        said = (line for one in apps for line in _stamped_words(generated, one))
        for line in dict.fromkeys(said):
            say(f"tunebuild: {printable(line)}")


def _stamped_words(generated: Generated, app: App) -> Iterator[str]:
    """What a build says of rows that are not the ones that were recorded, or that the chain names first."""
    stamps, read = generated.stamps[app.name], generated.records[app.name]
    yield from resolve.dropped(stamps)
    if isinstance(read.found, Unreadable):
        todo = dict.fromkeys(state.advice for state in generated.states[app.name] if not state.answered)
        yield "; ".join((f"the sidecar {read.path} does not count: {read.found.why}", *todo))
    recorded = read.document.kernels
    stale = [
        stamp
        for stamp in stamps.seats
        if stamp.source != "manifest" and not stamp.note and read.changed(stamp.key)
    ]
    for stamp in stale[:SAID_SEATS]:
        inputs = ", ".join(read.changed(stamp.key))
        old = recorded.get(stamp.key, "")
        yield f"{stamp.key}: {stamp.suffix} by the {stamp.source}; the recorded {old} is stale: {inputs}"
    if len(stale) > SAID_SEATS:
        yield f"{len(stale) - SAID_SEATS} more seats are stale"
    owners = {stamp.scope for stamp in stale}
    yield from dict.fromkeys(s.advice for s in generated.states[app.name] if s.scope.name in owners)
    for stamp in stamps.seats:
        if stamp.source in ("fallback", "reference"):
            yield from _passed_in_chain(generated, stamp)


def _passed_in_chain(generated: Generated, stamp: Stamp) -> Iterator[str]:
    """The entries of the fallback chain before the row that serves, as far as the gate took them out."""
    chain = [entry.suffix for entry in generated.plan.family(stamp.family).family.fallback]
    for suffix in chain[: chain.index(stamp.suffix) if stamp.suffix in chain else len(chain)]:
        if why := generated.rejected.get((stamp.family, suffix)):
            yield f"{stamp.family} runs {stamp.suffix}, not {suffix}: {why}"


# --- what every seat runs -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Status:
    """What every seat of an app would run now, and how each of its scopes stands."""

    stamps: Stamps
    states: tuple[policy.ScopeState, ...]
    marks: Mapping[resolve.Cell, gates.Word]


def status_of(generated: Generated, app: App) -> Status:
    own = {family.name for family in resolve.app_families(generated.manifest, app)}
    document = generated.records[app.name].document
    seats = tuple(
        _noted(generated.manifest, stamp, document)
        for stamp in generated.stamps[app.name].seats
        if stamp.family in own
    )
    stamps = replace(generated.stamps[app.name], seats=seats)
    return Status(stamps, generated.states[app.name], gates.marks(generated.tree, stamps))


def _statuses(generated: Generated) -> dict[str, Status]:
    return {app.name: status_of(generated, app) for app in generated.manifest.apps}


def hand_of(manifest: Manifest, stamp: Stamp, document: Document) -> str:
    """Why the sidecar's entry behind a stamp is somebody's word and no measurement, "" where it is one."""
    if stamp.source != "manifest":
        return ""
    tuner = next((scope.tuner for scope in manifest.scopes if scope.name == stamp.scope), "none")
    return by_hand(document, stamp.key, tuner)


def _noted(manifest: Manifest, stamp: Stamp, document: Document) -> Stamp:
    """The stamp; one that was set by hand says so."""
    why = hand_of(manifest, stamp, document)
    return replace(stamp, note=report.hand_words(why)) if why else stamp


# --- what is remembered ---------------------------------------------------------------------------


def _remember(
    generated: Generated,
    mode: Mode | None,
    started_ns: int,
    *,
    status: bool = True,
    stand: Mapping[str, Status] | None = None,
) -> None:
    """Write the memos that let the next build of this mode start ninja at once, and `status` read its answer.

    ``mode`` None: what was made is no plain build's; the memo of one goes. A tree that was edited since
    ``started_ns`` is not remembered: what was generated may be of either text. Nor is one with a file dated
    ahead, of which every build warns.
    """
    root, ninja = os.fspath(generated.root), front.ninja_path()
    kept = "normal" if mode in (None, "normal") else "tune"
    decided_by = [os.fspath(path) for path in dict.fromkeys(_decided_by(generated))]
    if status:
        emit.write_if_changed(generated.root / memo.STATUS, json.dumps(_said(stand or _statuses(generated))))
    taken = {
        kept: memo.taken(root, ninja, [*decided_by, *_made(generated, kept)]),
        "status": memo.taken(root, ninja, [*decided_by, memo.STATUS]),
    }
    edited = _is_edited(decided_by, started_ns)  # after they were taken: an edit in between shows
    for name, data in taken.items():
        if edited or (name == kept and mode is None):
            memo.forget(root, name)
        elif name == kept or status:
            memo.keep(root, name, data)


def _decided_by(generated: Generated) -> Iterator[Path]:
    """Every file and folder that decides what is generated, stamped and compiled, present or not."""
    yield from generated.inputs
    yield from generated.named_files()
    yield from (generated.root / name for name in (gates.GATED, broken.PATH))
    for folder in generated.watched_folders():
        yield folder
        for above, folders, names in os.walk(folder):
            yield from (Path(above, name) for name in (*folders, *names))
    for compiler in generated.tools.compilers.values():
        if isinstance(compiler, toolchain.Compiler):
            yield from map(Path, compiler.watched)
    yield Path(__file__).parent


def _is_edited(paths: list[str], started_ns: int) -> bool:
    """Whether one of these was touched since then, or is dated ahead."""
    ahead_ns = time.time_ns() + front.SKEW_NS
    for path in paths:
        try:
            found = os.stat(path)
        except OSError:
            continue
        if found.st_ctime_ns >= started_ns - memo.CLOCK_STEP_NS or found.st_mtime_ns > ahead_ns:
            return True
    return False


def _made(generated: Generated, target: str) -> list[str]:
    """What a build of ``target`` made, and what that was compiled from: it may be deleted, edited by hand or
    overwritten as well."""
    headers = f"{codegen.GENERATED}/include/"
    found = dict.fromkeys((*memo.OURS, *(path for path in generated.files if path.startswith(headers))))
    for edge in front.reachable(generated.graph, (target,)):
        found |= {path: None for path in edge.inputs if path in generated.files}
        if edge.rule in front.LINKED:
            found[edge.output] = None
    return list(found)


def _said(stand: Mapping[str, Status]) -> dict[str, dict[str, object]]:
    """What `status` answers for each app, the default app first, while nothing changes."""
    found = {name: _answers(one) for name, one in stand.items()}
    default, *others = stand.values()
    return {**found, "": _answers(default, report.others_text([one.stamps for one in others]))}


def _answers(one: Status, more: str = "") -> dict[str, object]:
    plain, coloured = (
        report.status_text(one.stamps, one.states, marks=one.marks, colour=colour) for colour in (False, True)
    )
    return {
        "document": report.status_json(one.stamps, one.states),
        "text": "\n".join(filter(None, (plain, more))),
        "coloured": "\n".join(filter(None, (coloured, more))),
    }

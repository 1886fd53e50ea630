"""For custom tuners: a scope whose `tuner` is a Python file races its families by that file's own clock.

`mint` runs the file with TUNEBUILD_MODE=tune, TUNEBUILD_MANIFEST (the sidecar to write) and, for a partial
mint, TUNEBUILD_ONLY; run by hand it tunes the project above the current folder. docs/harness.md has the
contract and an example. The rules that no tuner may break are kept here: a winner is a row of the grid, the
digests of the tree stand beside it, notes of others survive, forced features measure nothing.
"""

from __future__ import annotations

import ctypes
import difflib
import functools
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tunebuild import children, features, history, policy, progress, record, resolve, sidecar
from tunebuild.document import PROTECTED_NOTES, Json, Scalar
from tunebuild.errors import Refused, UsageError
from tunebuild.generate import Generated, generate
from tunebuild.model import REFERENCE, App, Companion, Family, Function, Parameter, Scope, Verdict
from tunebuild.stats import cv_pct as cv
from tunebuild.stats import median
from tunebuild.upsert import Change, Merged
from tunebuild.verdict import Demand, versions_of

__all__ = [
    "Variant", "abort", "archive", "begin", "cpu_class", "cv", "demanded", "end", "interrupted", "ladder", "median",
    "noise_override", "noise_threshold", "note", "pick_fallback", "plan", "requires_ok", "resolved_fallback",
    "selected", "set_winner", "set_winners", "step", "variants", "verdict",
]  # fmt: skip

PROJECT = "TB_PROJECT"
"""The variable in which a mint names the folder of the tune.toml that it mints: what is built is built there."""
if PROJECT in os.environ and children.RELAYED in os.environ:
    children.end_with(
        int(os.environ[children.RELAYED])
    )  # a tuner does not outlive its mint, even a killed one

_C_TYPES: Mapping[str, type[ctypes._CData]] = {
    "float": ctypes.c_float, "double": ctypes.c_double, "char": ctypes.c_int8, "size_t": ctypes.c_size_t,
    "int8_t": ctypes.c_int8, "int16_t": ctypes.c_int16, "int32_t": ctypes.c_int32, "int64_t": ctypes.c_int64,
    "uint8_t": ctypes.c_uint8, "uint16_t": ctypes.c_uint16, "uint32_t": ctypes.c_uint32,
    "uint64_t": ctypes.c_uint64, "int": ctypes.c_int, "unsigned": ctypes.c_uint, "long": ctypes.c_long,
    "unsigned int": ctypes.c_uint, "unsigned long": ctypes.c_ulong, "_Bool": ctypes.c_bool,
}  # fmt: skip


class _Call(Protocol):
    def __call__(self, *arguments: object) -> object: ...


@dataclass(frozen=True, slots=True)
class Variant:
    """One row, loaded. Call it like the C function: numpy arrays or addresses for pointers.

    ``why_not``: why this box cannot run it ("" it can); calling such a row may kill the process.
    ``declined``: its template gave no code, so it *is* the reference body: race the reference alone.
    """

    suffix: str
    address: int
    why_not: str
    declined: bool
    call: _Call

    def __call__(self, *arguments: object) -> object:
        return self.call(*(_argument(each) for each in arguments))


@dataclass(frozen=True, slots=True)
class _Project:
    generated: Generated
    app: App
    scopes: tuple[Scope, ...]  # those that this tuner answers for


@dataclass(slots=True)
class _Notes:
    """Notes belong to the process: every later save writes them again."""

    values: dict[str, Scalar] = field(default_factory=dict)
    noise_override: bool | None = None


_NOTES = _Notes()


# --- what there is to race ------------------------------------------------------------------------


def demanded() -> tuple[str, ...]:
    """The keys that this tuner must answer for, selected or not: record something for each."""
    project = _project()
    manifest = project.generated.manifest
    return tuple(key for scope in project.scopes for key in policy.demand(manifest, scope).keys)


def selected(key: str) -> bool:
    """Is this seat to be raced now? Others keep what they have: write nothing for them."""
    return policy.selected(os.environ.get("TUNEBUILD_ONLY", ""), key)


def variants(function: str) -> tuple[Variant, ...]:
    """The rows of a family or companion, reference first, then grid order. Builds what is not built yet.

    :raises UsageError: for a name that no family or companion has, or a prototype ctypes cannot call.
    """
    project = _project()
    family, companion = _function_named(project, function)
    prototype = companion.function if companion else family.function
    kind = ctypes.CFUNCTYPE(_result(prototype), *(_parameter(each) for each in prototype.parameters))
    here = project.generated.here
    return tuple(
        Variant(
            suffix,
            address,
            resolve.why_not(family, suffix, here) if suffix != REFERENCE else "",
            (family.name, suffix) in project.generated.declined,
            _callable(kind, address),
        )
        for suffix, address in _registry(function)
    )


def resolved_fallback(key: str) -> str:
    """The row that the family's chain gives on this box: what a winner has to beat."""
    family, _ = _function_named(_project(), key.partition(".")[0])
    return resolve.chain_pick(family, _project().generated.here)


def pick_fallback(chain: str) -> str:
    """The first entry of `suffix[:requires]; …` that this box can run, "" for none."""
    have = features.believed(_project().generated.box)
    for entry in (part.strip() for part in chain.split(";")):
        suffix, _, requires = entry.partition(":")
        if suffix and features.requires_ok(requires, have):
            return suffix
    return ""


def requires_ok(expression: str) -> bool:
    """Does this box, forced features included, satisfy a `requires` expression?"""
    return features.requires_ok(expression, features.believed(_project().generated.box))


def cpu_class() -> str:
    """The class of this box, such as "x86-avx2"."""
    box = _project().generated.box
    return features.cpu_class(features.believed(box), box.identity.partition("|")[0], box.arch)


def ladder() -> tuple[str, ...]:
    """The classes whose profiles may answer here, own class first."""
    return features.ladder(cpu_class())


# --- what was measured ----------------------------------------------------------------------------


def set_winner(key: str, suffix: str, race: Mapping[str, Json] | None = None) -> Merged:
    """Record one winner now, durably. ``race``: its table, `{"rows": {suffix: {"med_us": …}}, …}`."""
    return set_winners({key: suffix}, {key: race} if race else {})


def set_winners(
    winners: Mapping[str, str],
    races: Mapping[str, Mapping[str, Json]] | None = None,
    runtime: Mapping[str, Scalar] | None = None,
) -> Merged:
    """Record several winners in one write: nothing of an interrupted run reaches the disk.

    ``runtime``: knobs of the library, replacing all earlier ones; None leaves them.

    :raises UsageError: for a key that has no seat, or a winner that is no row of its grid.
    :raises Refused: when features are forced: such a process may generate, never measure.
    """
    project = _project()
    generated = project.generated
    if generated.box.forced:
        raise Refused(
            f"features are forced ({', '.join(generated.box.forced)}): nothing measured here counts",
            fix="unset TUNEBUILD_FORCE_FEATURES",
        )
    for key, suffix in winners.items():
        _check_winner(project, key, suffix)
    tables = {
        key: {**table, "winner": winners[key]} for key, table in (races or {}).items() if key in winners
    }
    pins = record.pins(generated.manifest)
    change = Change(
        kernels=winners,
        race=tables,
        built={key: generated.built[key] for key in winners if key in generated.built},
        runtime=runtime,
        notes={**versions_of(winners, pins), **_NOTES.values},
        scope_keys=demanded(),
    )
    return sidecar.save(
        _path(),
        change,
        box=generated.box,
        built_now=generated.built,
        binary=str(Path(sys.argv[0]).resolve()),
        binary_s=record.binary_stamp_s(generated.root),
        pins=pins,
    )


def note(key: str, value: Scalar) -> None:
    """Say something in the provenance of every later save of this process.

    :raises UsageError: for the names that identity owns.
    """
    if key in PROTECTED_NOTES:
        raise UsageError(
            f"a note may not be named {key}", fix=f"reserved: {', '.join(sorted(PROTECTED_NOTES))}"
        )
    _NOTES.values[key] = value


def verdict() -> Verdict:
    """Is the sidecar complete for this tuner's scopes, read anew?"""
    project = _project()
    generated = project.generated
    demands = [policy.demand(generated.manifest, scope) for scope in project.scopes]
    whole = Demand(
        tuple(key for each in demands for key in each.keys),
        tuple(pin for each in demands for pin in each.pins),
    )
    return record.read(
        generated.manifest, project.app, generated.box, generated.built, generated.here
    ).verdict(whole)


def archive() -> Path | None:
    """Copy the sidecar into the history of this box; None, with a warning, when that fails."""
    return history.archive(_path(), _project().generated.box.identity)


# --- progress -------------------------------------------------------------------------------------


def plan(scope: str, total: int) -> None:
    """The tuner starts: so many families in all. Drawn on a terminal, a `@tune` line elsewhere."""
    _relay().feed(progress.plan(scope, total))


def begin(name: str, total: int = 0) -> None:
    """A family starts; ``total`` is its budget of rounds, 0 for none. Every begin needs an end."""
    _relay().feed(progress.begin(name, total))


def step(i: int, phase: str, live: int) -> None:
    """Round ``i`` from 1, the name of the pass (without spaces), how many rows still race."""
    _relay().feed(progress.step(i, phase, live))


def end(name: str, winner: str, verdict: str, ms: int) -> None:
    """A family is done. ``verdict``: holds, beats, rejected or skipped; ``ms`` since its begin."""
    _relay().feed(progress.end(name, winner, verdict, ms))


def abort(reason: str, at: str) -> None:
    """Stopped before family ``at``."""
    _relay().feed(progress.abort(reason, at))


@functools.cache
def _relay() -> progress.Relay:
    return progress.Relay(
        sys.stdout,
        verbosity=progress.verbosity(os.environ.get("TUNEBUILD_VERBOSITY", "")),
        columns=lambda: shutil.get_terminal_size().columns,
    )


# --- noise and interrupts -------------------------------------------------------------------------


def noise_threshold(strict: bool = False) -> float:
    """The coefficient of variation, percent, over which a reading is noted. ``strict`` changes nothing."""
    from tunebuild import noise
    from tunebuild.measure import Measure

    measure = Measure.from_overrides(_project().generated.manifest.measure)
    return noise.threshold_pct(measure, os.environ.get("TUNEBUILD_NOISE_CV", ""))


def noise_override(on: bool | None = None) -> bool:
    """May this mint pass the hard ceiling? The environment says, or ``on`` from now on."""
    if on is not None:
        _NOTES.noise_override = on
    if _NOTES.noise_override is not None:
        return _NOTES.noise_override
    return os.environ.get("TUNEBUILD_NOISE_OVERRIDE", "") == "1"


def interrupted() -> bool:
    """Was this mint asked to stop? Ask between families; then print `abort`, write nothing and exit 3."""
    control = os.environ.get("TUNEBUILD_CONTROL", "")
    return bool(control) and os.path.exists(control)


# --- the project at hand --------------------------------------------------------------------------


@functools.cache
def _project() -> _Project:
    generated = generate(_root(), mode="tune")
    tuner = Path(sys.argv[0]).resolve() if sys.argv and sys.argv[0] else None
    path = os.environ.get(sidecar.MANIFEST_VARIABLE, "")
    apps = generated.manifest.apps
    name = Path(path).name.removesuffix(sidecar.SUFFIX)
    app = next((each for each in apps if path and name in (each.name, each.sidecar)), apps[0])
    scopes = resolve.app_scopes(generated.manifest, app)
    own = tuple(
        scope
        for scope in scopes
        if scope.tuner not in ("builtin", "none") and Path(scope.tuner).resolve() == tuner
    )
    return _Project(generated, app, own or scopes)


def _root() -> Path:
    """The project that a mint names, which may be one that uses the tuner's; run by hand, the folder of the nearest
    tune.toml at or above the current one, else above the tuner itself."""
    if named := os.environ.get(PROJECT, ""):
        return Path(named)
    starts = (Path.cwd(), Path(sys.argv[0]).resolve().parent if sys.argv else Path.cwd())
    for start in starts:
        for folder in (start, *start.parents):
            if (folder / "tune.toml").is_file():
                return folder
    raise UsageError(f"there is no tune.toml at or above {starts[0]}", fix="run the tuner inside its project")


def _path() -> Path:
    project = _project()
    return record.location(project.generated.manifest, project.app)


@functools.cache
def _library() -> ctypes.CDLL:
    from tunebuild import building, graph, host

    root = _project().generated.root
    building.build_tune(root, say=lambda line: print(line, file=sys.stderr))
    host.request_tiles()
    return ctypes.CDLL(str(root / graph.tune_binary(_project().generated.plan)))


class _Row(ctypes.Structure):
    _fields_ = (("suffix", ctypes.c_char_p), ("fn", ctypes.c_void_p))


def _registry(function: str) -> tuple[tuple[str, int], ...]:
    registry = getattr(_library(), f"{function}_variants")
    registry.restype = ctypes.POINTER(_Row)
    count = ctypes.c_size_t()
    rows = registry(ctypes.byref(count))
    return tuple((rows[index].suffix.decode(), int(rows[index].fn)) for index in range(count.value))


def _function_named(project: _Project, name: str) -> tuple[Family, Companion | None]:
    for family in project.generated.manifest.families:
        if family.name == name:
            return family, None
        for companion in family.companions:
            if companion.name == name:
                return family, companion
    raise _no_such(f"there is no family {name}", name, [f.name for f in project.generated.manifest.families])


def _check_winner(project: _Project, key: str, suffix: str) -> None:
    owners = {
        **{seat.key: family for family in project.generated.manifest.families for seat in family.seats},
        **{
            companion.name: family
            for family in project.generated.manifest.families
            for companion in family.companions
            if companion.own_seat
        },
    }
    if key not in owners:
        raise _no_such(f"there is no seat {key}", key, list(owners))
    rows = [REFERENCE, *(row.suffix for row in owners[key].rows)]
    if suffix not in rows:
        raise _no_such(f"{key} has no row {suffix!r}", suffix, rows)


def _no_such(what: str, name: str, known: list[str]) -> UsageError:
    near = difflib.get_close_matches(name, known, 1)
    return UsageError(what, fix=f"did you mean {near[0]}?" if near else f"there are: {', '.join(known[:12])}")


# --- calling a row --------------------------------------------------------------------------------


def _callable(kind: Callable[[int], _Call], address: int) -> _Call:
    return kind(address)


def _bare(ctype: str) -> str:
    return " ".join(word for word in ctype.split() if word not in ("const", "restrict", "volatile"))


def _parameter(parameter: Parameter) -> type[ctypes._CData]:
    if parameter.pointer:
        return ctypes.c_void_p
    return _scalar(parameter.ctype)


def _result(function: Function) -> type[ctypes._CData] | None:
    return None if _bare(function.returns) == "void" else _scalar(function.returns)


def _scalar(ctype: str) -> type[ctypes._CData]:
    found = _C_TYPES.get(_bare(ctype))
    if found is None:
        raise UsageError(f"ctypes cannot pass a {_bare(ctype)}", fix="call the row by its address from C")
    return found


def _argument(value: object) -> object:
    """A numpy array by its address, any other writable buffer too; everything else as ctypes takes it."""
    holder = getattr(value, "ctypes", None)
    if holder is not None and hasattr(holder, "data"):
        return holder.data
    if isinstance(value, bytearray | memoryview):
        return ctypes.addressof(ctypes.c_char.from_buffer(value))
    return value

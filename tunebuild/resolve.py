"""Which row every seat runs, and on whose word: sidecar, class profile, fallback chain, reference body.

The ladder, first match ends: an inert build and policy ``reference`` stamp nothing; a pin; the app's own
winners; the first profile that answers; the chain; the reference body. A family is resolved as a whole, so
that all its seats take their rows from one source and share one packed layout. A candidate that cannot serve
here (not in the grid, needs a feature this box lacks, its toolchain is absent) drops the family to the chain,
never to the next source: a winner measured here and a class default are not to be mixed silently. What was
dropped is said in the stamp's note.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

from tunebuild import features
from tunebuild.model import (
    REFERENCE,
    App,
    Box,
    Companion,
    Family,
    Manifest,
    Mode,
    Policy,
    Row,
    Scope,
    Stamp,
    Stamps,
    StampSource,
    Value,
)

Cell = tuple[str, str]
"""(family, suffix): one row of the grid."""

LAST_RESORT = "vec8_u2"
"""The row of a loop-hint family that the chain ends in; other families end in their reference body."""

Layout = tuple[Value, ...] | None


@dataclass(frozen=True, slots=True)
class Source:
    """Winners that one file offers: the fresh entries of a sidecar, or the profile that a scope chose.

    ``entries``: suffix by seat key or companion name; only non-empty strings select anything.
    ``measured_reference``: the keys whose entry `reference` a race chose, rather than a hand or a failure.
    """

    kind: Literal["manifest", "profile"]
    path: str
    entries: Mapping[str, str]
    measured_reference: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Here:
    """What this box and its tools can serve. ``ineligible`` and ``declined`` say why, by row."""

    have: frozenset[str]
    ineligible: Mapping[Cell, str] = field(default_factory=dict)
    declined: Mapping[Cell, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        box: Box,
        ineligible: Mapping[Cell, str] | None = None,
        declined: Mapping[Cell, str] | None = None,
    ) -> Here:
        return cls(features.believed(box), ineligible or {}, declined or {})


def row_of(family: Family, suffix: str) -> Row | None:
    return next((row for row in family.rows if row.suffix == suffix), None)


def companion_keys(family: Family) -> tuple[str, ...]:
    """The companions that may win a row of their own: their names are keys in sidecar and profile."""
    return tuple(companion.name for companion in family.companions if companion.own_seat)


def winner_keys(family: Family) -> tuple[str, ...]:
    """Every key under which a file may hold a winner of this family: its seats, then those companions."""
    return (*(seat.key for seat in family.seats), *companion_keys(family))


def race_filter(manifest: Manifest, keys: Collection[str]) -> str:
    """The race filter, by exact name, that decides these winners anew: a companion races with its family."""
    seats = (
        seat.key
        for family in manifest.families
        for seat in family.seats
        if seat.key in keys or any(name in keys for name in companion_keys(family))
    )
    return ",".join(f"={key}" for key in seats)


def layout_of(family: Family, suffix: str, declined: Collection[Cell] = ()) -> Layout:
    """The packed layout a row works on; None is that of the reference body.

    Without layout keys and companions nothing is packed, and the reference mixes with every row.
    """
    if not family.layout and not family.companions:
        return ()
    row = row_of(family, suffix)
    return None if row is None or (family.name, suffix) in declined else row.layout


def why_not(family: Family, suffix: str, here: Here) -> str:
    """Why this row cannot serve here, as the end of a sentence about it; "" when it can."""
    if suffix == REFERENCE:
        return ""
    row = row_of(family, suffix)
    return "which is no row of this grid" if row is None else row_why_not(family, row, here)


def row_why_not(family: Family, row: Row, here: Here) -> str:
    """`why_not` of a row of the grid."""
    if missing := features.unmet(row.requires, here.have):
        return f"which needs {', '.join(missing)}"
    if why := here.ineligible.get((family.name, row.suffix)):
        return f"which cannot serve here ({why})"
    return ""


def chain_pick(family: Family, here: Here) -> str:
    """The suffix that the fallback chain gives on this box, or "reference".

    Race, status and a custom tuner all ask this one function: a copied list would drift.
    """
    for entry in family.fallback:
        fits = features.requires_ok(entry.requires, here.have)
        if fits and not why_not(family, entry.suffix, here):
            return entry.suffix
    if family.hints and not why_not(family, LAST_RESORT, here):
        return LAST_RESORT
    return REFERENCE


# --- one family -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Answer:
    """One family's rows, by seat key, and where they came from. ``source`` is None for the chain."""

    suffixes: Mapping[str, str]
    source: Source | None
    note: str = ""


def answers(family: Family, source: Source) -> bool:
    """Does the file hold an entry for every seat of the family? Half an answer is none."""
    return all(source.entries.get(seat.key) for seat in family.seats)


def objection(family: Family, source: Source, here: Here) -> str:
    """Why the file's entries for this family cannot be stamped here, a sentence; "" when they can."""
    word = "the sidecar" if source.kind == "manifest" else f"the profile {_file_name(source.path)}"
    for seat in family.seats:
        suffix = source.entries[seat.key]
        if why := why_not(family, suffix, here):
            return f"{word} names {suffix} for {seat.key}, {why}"
    layouts = {layout_of(family, source.entries[seat.key], here.declined) for seat in family.seats}
    if len(layouts) > 1:
        chosen = ", ".join(f"{seat.key} {source.entries[seat.key]}" for seat in family.seats)
        return f"{word} names rows of different layouts ({chosen})"
    return ""


def _file_name(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2]


def resolve_family(family: Family, sources: tuple[Source, ...], here: Here) -> Answer:
    """The first source that answers for the whole family decides: its rows, or the chain."""
    if family.pin:
        why = why_not(family, family.pin, here)
        note = f"pinned to {family.pin}, {why}" if why else "pinned"
        return _everywhere(family, chain_pick(family, here) if why else family.pin, note)
    source = next((source for source in sources if answers(family, source)), None)
    if source is None:
        return _everywhere(family, chain_pick(family, here))
    if dropped := objection(family, source, here):
        return _everywhere(family, chain_pick(family, here), dropped)
    return Answer({seat.key: source.entries[seat.key] for seat in family.seats}, source)


def _everywhere(family: Family, suffix: str, note: str = "") -> Answer:
    return Answer({seat.key: suffix for seat in family.seats}, None, note)


def _own_row(family: Family, companion: Companion, answer: Answer, here: Here) -> str:
    """The companion's own row, from the file that answered for its family; "" when it follows.

    An own entry counts only as a row of the same grid and layout that can run here; the reference is of no
    row's layout. It is silently ignored otherwise: the family's row always serves.
    """
    if not companion.own_seat or answer.source is None:
        return ""
    own = answer.source.entries.get(companion.name, "")
    family_row = answer.suffixes[family.seats[0].key]
    if row_of(family, own) is None or why_not(family, own, here):
        return ""
    same = layout_of(family, own, here.declined) == layout_of(family, family_row, here.declined)
    return own if same and own != family_row else ""


def _stamp(family: Family, seat_index: int, answer: Answer, here: Here, scope: str) -> Stamp:
    seat = family.seats[seat_index]
    suffix, note = answer.suffixes[seat.key], answer.note
    source: StampSource = "fallback" if answer.source is None else answer.source.kind
    path = "" if answer.source is None else answer.source.path
    if why := here.declined.get((family.name, suffix)):
        suffix, note = REFERENCE, f"{suffix} is declined by its template: {why}"
        source, path = "reference", ""
    elif suffix == REFERENCE and not (answer.source and seat.key in answer.source.measured_reference):
        source = "reference"
    return Stamp(seat.key, family.name, seat.name, suffix, source, path, scope, note)


# --- a whole app ----------------------------------------------------------------------------------


def app_scopes(manifest: Manifest, app: App) -> tuple[Scope, ...]:
    """The scopes this app tunes, in its own order."""
    by_name = {scope.name: scope for scope in manifest.scopes}
    return tuple(by_name[name] for name in app.scopes)


def app_families(manifest: Manifest, app: App) -> tuple[Family, ...]:
    """The families stamped into an app: those of its scopes, and those in no scope at all."""
    elsewhere = {name for scope in manifest.scopes if scope.name not in app.scopes for name in scope.families}
    return tuple(family for family in manifest.families if family.name not in elsewhere)


def scope_names(manifest: Manifest, app: App) -> dict[str, str]:
    """The app's scope of each family that one of them demands, by family name."""
    named: dict[str, str] = {}
    for scope in app_scopes(manifest, app):
        for family in scope.families:
            named.setdefault(family, scope.name)
    return named


def inert(policy: Policy, mode: Mode, frozen: bool) -> bool:
    """Does this build stamp nothing and read no winner? Tested before everything else."""
    return frozen or mode != "normal" or policy == "reference"


def raced_references(race: Mapping[str, object]) -> frozenset[str]:
    """The keys whose race chose `reference` over a row that passed; no passed row makes it no choice."""

    def chosen(entry: object) -> bool:
        if not isinstance(entry, Mapping) or entry.get("winner") != REFERENCE:
            return False
        rows, rejected = entry.get("rows"), str(entry.get("rejected", ""))
        out = {name.strip() for name in rejected.split(";")} | {REFERENCE}
        return isinstance(rows, Mapping) and any(name not in out for name in rows)

    return frozenset(key for key, entry in race.items() if chosen(entry))


def resolve(
    manifest: Manifest,
    app: App,
    *,
    sidecar: Source | None = None,
    profiles: tuple[Source, ...] = (),
    here: Here,
    policy: Policy = "auto",
    mode: Mode = "normal",
    frozen: bool = False,
) -> Stamps:
    """Every stamp of one app, in manifest order.

    ``sidecar``: the app's fresh winners, None when there are none. ``profiles``: what each of the app's
    scopes chose, in scope order; the first that answers for a family wins. ``policy`` is the effective
    one: only ``reference`` matters here, since ``fallback`` kills the rail and not the stamps.
    """
    scopes = scope_names(manifest, app)
    if inert(policy, mode, frozen):
        seats = (
            Stamp(seat.key, family.name, seat.name, REFERENCE, "reference", "", scopes.get(family.name, ""))
            for family in app_families(manifest, app)
            for seat in family.seats
        )
        return Stamps(app.name, tuple(seats))
    sources = (sidecar, *profiles) if sidecar else profiles
    stamps: list[Stamp] = []
    companions: list[tuple[str, str]] = []
    for family in app_families(manifest, app):
        answer = resolve_family(family, sources, here)
        scope = scopes.get(family.name, "")
        stamps.extend(_stamp(family, index, answer, here, scope) for index in range(len(family.seats)))
        for companion in family.companions:
            if own := _own_row(family, companion, answer, here):
                companions.append((companion.name, own))
    return Stamps(app.name, tuple(stamps), tuple(companions))


def dropped(stamps: Stamps) -> tuple[str, ...]:
    """One diagnostic for each family whose candidate was dropped; the caller prints it unless silent."""
    said: dict[str, str] = {}
    for stamp in stamps.seats:
        if stamp.note and stamp.note != "pinned":
            runs = f"it runs {stamp.suffix} ({stamp.source})"
            said.setdefault(stamp.family, f"{stamp.family}: {stamp.note}; {runs}")
    return tuple(said.values())

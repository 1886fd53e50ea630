"""Winners of real boxes into a class profile: `export` of one box, `merge` of several with a bound.

A class default is a claim about boxes nobody has seen. `export` makes it from one box and says so; `merge`
makes it a computed one: per family the rows whose worst loss over the donors is least, with that loss and
the donors in the file. Reads and writes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tunebuild import features
from tunebuild.document import INPUTS, Document, Json
from tunebuild.errors import Refused
from tunebuild.identity import match_key
from tunebuild.model import REFERENCE, Family, Manifest, Scope, Verdict
from tunebuild.profiles import demanded_families, pin_text
from tunebuild.resolve import companion_keys, layout_of, race_filter, raced_references, row_of, winner_keys
from tunebuild.upsert import by_hand, origin_of
from tunebuild.verdict import Found

BUDGET_PCT = 5.0
_LEFT_BEHIND = frozenset({"binary", "box", "written", "origin", "class", "engine_sha"})
_LARGEST = 1e300  # a number of a file that somebody wrote may be too large for a float


def keys_of(manifest: Manifest, scope: Scope) -> tuple[str, ...]:
    """The names a scope's profile may hold: its seats, and companions that win rows of their own."""
    families = demanded_families(manifest, scope)
    seats = (seat.key for family in families for seat in family.seats)
    return (*seats, *(name for family in families for name in companion_keys(family)))


def render(profile: Mapping[str, Json]) -> bytes:
    """The file's bytes: sorted, indented."""
    return (json.dumps(profile, sort_keys=True, indent=2, allow_nan=False) + "\n").encode()


def joined(documents: Sequence[Mapping[str, Json]]) -> dict[str, Json]:
    """One file for the scopes that share a folder: sections united, no key is in two scopes."""
    whole: dict[str, Json] = {}
    measured: list[str] = []
    for document in documents:
        for name, section in document.items():
            known = whole.get(name, {})
            assert isinstance(section, dict) and isinstance(known, dict)
            whole[name] = {**known, **section}
            if references := section.get("measured_reference") if name == "provenance" else None:
                measured.append(str(references))
    provenance = whole.get("provenance")
    if measured and isinstance(provenance, dict):
        provenance["measured_reference"] = ";".join(measured)
    return whole


# --- one box --------------------------------------------------------------------------------------


def export(
    manifest: Manifest,
    scope: Scope,
    found: Found,
    judged: Verdict,
    *,
    cpu_class: str,
    written: str,
    command: str = "tunebuild mint",
) -> dict[str, Json]:
    """The profile of one scope from this box's sidecar. ``judged`` is the verdict on the scope's demand, ``command``
    what mints it, "" where it has no tuner.

    Raises `Refused` unless every winner was measured here, on the tree at hand: a file that is absent, empty,
    stale, foreign, fetched from elsewhere, or partly adopted from a profile would launder somebody's guess
    into a measurement. Missing entries are allowed; every box that adopts the profile races them.
    """
    what = f"cannot export scope {scope.name} for class {cpu_class}"
    document = _sound(found, judged, what, command)
    keys = keys_of(manifest, scope)
    kernels = {key: document.kernels[key] for key in keys if document.kernels.get(key)}
    if not kernels:
        raise Refused(f"{what}: the sidecar holds no winner of it", fix=_mint_first(command))
    if strangers := [key for key in kernels if origin_of(document, key)]:
        origins = sorted({origin_of(document, key) for key in strangers})
        raise Refused(
            f"{what}: {', '.join(strangers)} came from {', '.join(origins)}, not from a race here",
            fix=_full_mint(command),
        )
    if written_over := [key for key in kernels if by_hand(document, key, scope.tuner)]:
        raise Refused(
            f"{what}: {', '.join(written_over)} was set by hand, not by its race",
            fix=f"run `{command} --only {race_filter(manifest, written_over)}`" if command else _NO_TUNER,
        )
    notes = {
        key: value
        for key, value in document.provenance.items()
        if isinstance(value, str) and key not in _LEFT_BEHIND
    }
    profile = _profile(scope, kernels, notes, raced_references(document.race), cpu_class, written)
    return _with_built(profile, _common_built(kernels, (document,)))


_NO_TUNER = "give the scope a tuner: what is written by hand is no measurement"


def _mint_first(command: str) -> str:
    return f"run `{command}` on this box first" if command else _NO_TUNER


def _full_mint(command: str) -> str:
    return f"run a full `{command}`, which replaces every adopted winner" if command else _NO_TUNER


def _sound(found: Found, judged: Verdict, what: str, command: str) -> Document:
    whole_file = judged.reason in ("absent", "unreadable", "foreign_box", "version", "stale_binary")
    if not isinstance(found, Document) or whole_file:
        detail = f" ({judged.detail})" if judged.detail else ""
        raise Refused(f"{what}: the sidecar is {judged.reason}{detail}", fix=_mint_first(command))
    for note, from_where in (("origin", "another box"), ("adopted_profile", "a class profile")):
        if found.provenance.get(note):
            raise Refused(
                f"{what}: the sidecar holds winners adopted from {from_where} ({note} = "
                f"{found.provenance[note]})",
                fix=_full_mint(command),
            )
    return found


def _profile(
    scope: Scope,
    kernels: Mapping[str, str],
    notes: Mapping[str, str],
    measured: Collection[str],
    cpu_class: str,
    written: str,
) -> dict[str, Json]:
    provenance: dict[str, Json] = {**notes, "origin": "profile", "class": cpu_class, "written": written}
    if scope.version_key:
        provenance[scope.version_key] = scope.version
    if references := [key for key in kernels if kernels[key] == REFERENCE and key in measured]:
        provenance["measured_reference"] = ";".join(references)
    return {"kernels": dict(kernels), "provenance": provenance}


def _with_built(profile: dict[str, Json], built: dict[str, Json]) -> dict[str, Json]:
    return {**profile, "built": built} if built else profile


def _common_built(keys: Iterable[str], documents: Sequence[Document]) -> dict[str, Json]:
    """Per key the digests of what was measured, as far as all donors agree: compilers may differ."""
    found: dict[str, Json] = {}
    for key in keys:
        entries = [document.built.get(key, {}) for document in documents]
        common: dict[str, Json] = {
            name: entries[0][name]
            for name in INPUTS
            if name in entries[0] and all(entry.get(name) == entries[0][name] for entry in entries)
        }
        if common:
            found[key] = common
    return found


# --- several boxes --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Donor:
    """One box's sidecar. ``name`` is how messages call it: the file."""

    name: str
    document: Document


@dataclass(frozen=True, slots=True)
class Claim:
    """The rows chosen for one family. ``losses_pct``: per donor the worst over its seats and companions."""

    family: str
    suffixes: Mapping[str, str]
    losses_pct: tuple[float, ...]

    @property
    def bound_pct(self) -> float:
        return max(self.losses_pct, default=0.0)


def merge(
    manifest: Manifest,
    scope: Scope,
    donors: Sequence[Donor],
    *,
    cpu_class: str,
    written: str,
    budget_pct: float = BUDGET_PCT,
) -> dict[str, Json]:
    """The minimax profile of several boxes of one class.

    A row's loss on a box is the time it takes over that of the box's own winner, less one, in percent. Per
    family the rows (one layout for all its seats) are chosen whose worst loss is least. A row counts only
    where every donor timed it; a family without such a row is left out, and adopters race it. The features
    recorded are those all donors share, so a box with more races what it can do better. Raises `Refused` for
    donors that do not belong together, and when a family's bound is over ``budget_pct``.
    """
    what = f"cannot merge class {cpu_class} of scope {scope.name}"
    _same_kind(scope, donors, _seats(manifest), cpu_class, what)
    claims = tuple(
        claim
        for family in demanded_families(manifest, scope)
        if (claim := _best_claim(family, donors)) is not None
    )
    if not claims:
        raise Refused(f"{what}: no row was timed on every box", fix="mint the same tree on every box")
    if over := [claim for claim in claims if claim.bound_pct > budget_pct]:
        said = "; ".join(f"{claim.family} loses {claim.bound_pct:.1f} %" for claim in over)
        raise Refused(
            f"{what}: over the budget of {budget_pct:g} %: {said}",
            fix="these boxes are two classes for these kernels: ship fewer boxes in one profile, add a row "
            "that serves both, or raise --budget",
        )
    kernels = {key: suffix for claim in claims for key, suffix in claim.suffixes.items()}
    raced = [raced_references(donor.document.race) for donor in donors]
    measured = frozenset(key for key in kernels if any(key in each for each in raced))
    notes = {"features": features.fingerprint(_shared_features(donors)), "noise": _worst_noise(donors)}
    profile = _profile(scope, kernels, notes, measured, cpu_class, written)
    bounds: dict[str, Json] = {claim.family: _bound(claim, donors) for claim in claims}
    built = _common_built(kernels, [donor.document for donor in donors])
    return _with_built({**profile, "bounds": bounds}, built)


def _bound(claim: Claim, donors: Sequence[Donor]) -> Json:
    losses: dict[str, Json] = {
        donor.document.box: round(loss, 3) for donor, loss in zip(donors, claim.losses_pct, strict=True)
    }
    return {"loss_pct": round(claim.bound_pct, 3), "boxes": losses}


def recorded_features(document: Document) -> frozenset[str]:
    return frozenset(name for name in str(document.provenance.get("features", "")).split(";") if name)


def recorded_class(document: Document) -> str:
    """The class of the box that wrote a sidecar, from what it recorded of itself."""
    platform, _, rest = document.box.partition("|")
    return features.cpu_class(recorded_features(document), platform, rest.partition("|")[0])


def _shared_features(donors: Sequence[Donor]) -> frozenset[str]:
    return frozenset.intersection(*(recorded_features(donor.document) for donor in donors))


def _worst_noise(donors: Sequence[Donor]) -> str:
    order = ("ok", "noisy", "overridden")
    said = [str(donor.document.provenance.get("noise", "ok")) for donor in donors]
    return max(said, key=lambda word: order.index(word) if word in order else len(order))


def _same_kind(
    scope: Scope, donors: Sequence[Donor], seats: frozenset[str], cpu_class: str, what: str
) -> None:
    """Donors are boxes of this class that measured the same thing here and nowhere else. Entries of seats that
    left the tree say nothing."""
    if not donors:
        raise Refused(f"{what}: no sidecar given", fix="name the sidecars of the boxes")
    seen: dict[str, str] = {}
    for donor in donors:
        found = recorded_class(donor.document)
        if found != cpu_class:
            raise Refused(f"{what}: {donor.name} is of class {found}", fix="merge each class by itself")
        key = match_key(donor.document.box)
        if key in seen:
            raise Refused(f"{what}: {donor.name} and {seen[key]} are of the same box", fix="give one of them")
        seen[key] = donor.name
        notes = donor.document.provenance
        if notes.get("origin") or notes.get("adopted_profile") or _adopted(donor.document, seats):
            raise Refused(f"{what}: {donor.name} holds adopted winners", fix="mint that box in full")
        if scope.version_key:
            version = _scalar_text(donor.document.provenance.get(scope.version_key))
            if version != scope.version:
                raise Refused(
                    f"{what}: {donor.name} has {scope.version_key} {version or 'unrecorded'}, this tree has "
                    f"{scope.version}",
                    fix="mint that box on this tree",
                )


def _adopted(document: Document, seats: frozenset[str]) -> bool:
    return any(origin_of(document, key) for key in document.kernels if key in seats)


def _seats(manifest: Manifest) -> frozenset[str]:
    """Every key that the tree may record."""
    return frozenset(key for family in manifest.families for key in winner_keys(family))


def _scalar_text(value: Json) -> str:
    return pin_text(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""


def _best_claim(family: Family, donors: Sequence[Donor]) -> Claim | None:
    """The family's rows with the least worst loss, one layout throughout; ties go to grid order."""
    refuse_other_trees(family, donors)
    losses = {seat.key: _losses(family, seat.key, donors) for seat in family.seats}
    layouts = dict.fromkeys(layout_of(family, suffix) for table in losses.values() for suffix in table)
    best: Claim | None = None
    for layout in layouts:
        chosen: dict[str, tuple[str, tuple[float, ...]]] = {}
        for key, table in losses.items():
            fitting = [
                (suffix, loss) for suffix, loss in table.items() if layout_of(family, suffix) == layout
            ]
            if fitting:
                chosen[key] = min(fitting, key=lambda item: (max(item[1]), sum(item[1])))
        if len(chosen) < len(losses):
            continue
        worst = tuple(max(loss) for loss in zip(*(loss for _, loss in chosen.values()), strict=True))
        claim = Claim(family.name, {key: suffix for key, (suffix, _) in chosen.items()}, worst)
        if best is None or claim.bound_pct < best.bound_pct:
            best = claim
    return _with_companions(family, best, donors) if best else None


def _with_companions(family: Family, claim: Claim, donors: Sequence[Donor]) -> Claim:
    """Companions with seats of their own choose inside the family's layout; else they follow it."""
    row = claim.suffixes[family.seats[0].key]
    own: dict[str, str] = {}
    losses = claim.losses_pct
    if row == REFERENCE:
        return claim
    for name in companion_keys(family):
        table = {
            suffix: loss
            for suffix, loss in _losses(family, name, donors).items()
            if suffix != REFERENCE and layout_of(family, suffix) == layout_of(family, row)
        }
        if table:
            own[name], loss = min(table.items(), key=lambda item: (max(item[1]), sum(item[1])))
            losses = tuple(max(pair) for pair in zip(losses, loss, strict=True))
    return Claim(claim.family, {**claim.suffixes, **own}, losses)


def refuse_other_trees(family: Family, donors: Sequence[Donor]) -> None:
    """Rows of one name must be one code: donors that recorded other sources or protocols do not mix, nor one that says
    what it measured with one that does not. A key that not all of them raced is not merged."""
    for key in winner_keys(family):
        if not all(donor.document.kernels.get(key) for donor in donors):
            continue
        for name in ("source", "headers", "workload", "protocol"):
            _refuse_others(key, name, donors)


def _refuse_others(key: str, name: str, donors: Sequence[Donor]) -> None:
    seen: dict[str, str] = {}
    silent = ""
    for donor in donors:
        digest = donor.document.built.get(key, {}).get(name)
        if digest is None:
            silent = silent or donor.name
        else:
            seen.setdefault(json.dumps(digest, sort_keys=True), donor.name)
    fix = "mint the same tree on every box"
    if len(seen) > 1:
        raise Refused(f"cannot merge {key}: {' and '.join(seen.values())} measured another {name}", fix=fix)
    if seen and silent:
        raise Refused(f"cannot merge {key}: {silent} does not say which {name} it measured", fix=fix)


def _losses(family: Family, key: str, donors: Sequence[Donor]) -> dict[str, tuple[float, ...]]:
    """Percent lost on each donor, by suffix in grid order, of the rows every donor timed."""
    tables = [relative_times(donor.document.race.get(key, {})) for donor in donors]
    winners = [_winner(donor.document, key) for donor in donors]
    order = (*(row.suffix for row in family.rows), REFERENCE)
    if not all(winner in table for winner, table in zip(winners, tables, strict=True)):
        return {}
    return {
        suffix: tuple(
            max(0.0, 100 * (table[suffix] / table[winner] - 1))
            for table, winner in zip(tables, winners, strict=True)
        )
        for suffix in order
        if all(suffix in table for table in tables) and (suffix == REFERENCE or row_of(family, suffix))
    }


def _winner(document: Document, key: str) -> str:
    return document.kernels.get(key, "")


def relative_times(race: Mapping[str, Json]) -> dict[str, float]:
    """Times of the rows that passed, in one unit within the race: paired gains where all rows have them."""
    rows, rejected = race.get("rows"), str(race.get("rejected", ""))
    out = {name.strip() for name in rejected.split(";")}
    timed = {
        name: row
        for name, row in (rows.items() if isinstance(rows, dict) else ())
        if isinstance(row, dict) and name not in out
    }
    gains = _numbers(timed, "gain_pct")
    if len(gains) == len(timed) and all(gain < 100 for gain in gains.values()):
        return {name: 1 - gain / 100 for name, gain in gains.items()}
    return {name: time for name, time in _numbers(timed, "med_us").items() if time > 0}


def _numbers(rows: Mapping[str, Mapping[str, Json]], field: str) -> dict[str, float]:
    pairs: Iterable[tuple[str, Json]] = ((name, row.get(field)) for name, row in rows.items())
    return {
        name: float(value)
        for name, value in pairs
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _LARGEST
    }

"""What a folder of sidecars proves about every class: measured, covered, stale or uncovered. Pure.

A sidecar is evidence only when it is whole: with its digest, in agreement with itself, measured on the box it
names and nowhere else. A class is green for a seat when a box of it measured the tree at hand, or a profile of its
ladder was measured on it, and the row was gated on an instruction set that has what the row needs. One mint of one
box answers a whole scope for its class, and through that class's profile for those above it: the shortest way to green
is the fewest pairs (box, scope) that leave no seat open.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from tunebuild import features, profiles, resolve
from tunebuild.classdefaults import recorded_class, recorded_features
from tunebuild.document import Built, Document, Json, Unreadable
from tunebuild.identity import match_key
from tunebuild.model import REFERENCE, App, Box, Family, Manifest, Scope
from tunebuild.profiles import Profile, Unusable, demanded_families
from tunebuild.upsert import by_hand, origin_of
from tunebuild.verdict import changes

State = Literal["measured", "covered", "stale", "uncovered"]
MEASURED_INPUTS = ("source", "headers", "flags", "workload", "protocol")
"""What makes a profile stale. Its boxes have compilers of their own."""
_DIGESTS = ("source", "headers", "workload", "protocol")
_NO_BOX = "it names no box"


@dataclass(frozen=True, slots=True)
class Record:
    """A file found in a folder. ``signed``: it carries its digest, so nobody edited it by hand. ``junk``: nothing in it
    is of a sidecar, not even of a torn one."""

    name: str
    found: Document | Unreadable
    signed: bool = True
    junk: bool = False


@dataclass(frozen=True, slots=True)
class Witness:
    """A record that counts: one box's own measurements. ``box`` is its identity."""

    name: str
    box: str
    cpu_class: str
    have: frozenset[str]
    arch: str
    document: Document


@dataclass(frozen=True, slots=True)
class Problem:
    """A record that counts for nothing, and why. ``box`` and ``cpu_class`` are "" where it cannot be read; ``junk``: no
    mint of ours wrote it."""

    name: str
    why: str
    box: str = ""
    cpu_class: str = ""
    junk: bool = False


@dataclass(frozen=True, slots=True)
class Cover:
    """One seat in one class. ``suffix``: what a build stamps there. ``gated``: that row passed its gate on
    some box with what it needs, in the code at hand. ``via``: the class whose profile answers, or would once it is
    exported anew; "" where no profile can."""

    key: str
    scope: str
    cpu_class: str
    state: State
    suffix: str
    reason: str = ""
    boxes: tuple[str, ...] = ()
    bound_pct: float | None = None
    gated: bool = False
    via: str = ""

    @property
    def green(self) -> bool:
        return self.gated and self.state in ("measured", "covered")


@dataclass(frozen=True, slots=True)
class Remint:
    """One scope on one box, as a mint takes it. ``box`` is an identity, or a file's name."""

    box: str
    scope: str
    cpu_class: str
    keys: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Export:
    """A profile to be exported anew from its class's box, and the classes that it then covers without a mint."""

    box: str
    cpu_class: str
    covers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Fleet:
    """``remints``: the fewest mints that make it green, with the ``exports`` after them. ``affected``: every pair whose
    sidecar does not speak of the tree at hand. ``spare``: copies, and older sidecars of a box that sent a newer one,
    which neither help nor hinder."""

    app: str
    here: str  # this box's class
    witnesses: tuple[Witness, ...]
    problems: tuple[Problem, ...]
    covers: tuple[Cover, ...]
    remints: tuple[Remint, ...]
    exports: tuple[Export, ...] = ()
    affected: tuple[Remint, ...] = ()
    spare: tuple[Problem, ...] = ()

    @property
    def leave_out(self) -> tuple[Problem, ...]:
        """The records that count for nothing and that no mint of ``remints`` replaces."""
        minted = {one.box for one in self.remints}
        return tuple(one for one in self.problems if not minted & {one.name, one.box})

    @property
    def green(self) -> bool:
        return not self.remints and not self.exports and not self.problems


@dataclass(frozen=True, slots=True)
class Tree:
    """What the tree at hand would measure: digests by seat, for each architecture that it can build here."""

    built: Mapping[str, Mapping[str, Built]]

    def of(self, arch: str) -> Mapping[str, Built] | None:
        return self.built.get(features.canonical_arch(arch))


# --- which records count --------------------------------------------------------------------------


def judge(
    manifest: Manifest, records: Iterable[Record]
) -> tuple[tuple[Witness, ...], tuple[Problem, ...], tuple[Problem, ...]]:
    """Sort records into witnesses, problems and spare ones, in the order given. A box is heard once: by its newest
    sidecar."""
    heard: dict[str, Witness] = {}
    problems: list[Problem] = []
    spare: list[Problem] = []
    for record in records:
        judged = _witness(manifest, record)
        if isinstance(judged, Problem):
            problems.append(judged)
            continue
        key = match_key(judged.box)
        before = heard.setdefault(key, judged)
        if before is judged:
            continue
        if why := _at_odds(before, judged):
            problems.append(Problem(judged.name, why, judged.box, judged.cpu_class))
            continue
        newer, older = (judged, before) if _written(judged) > _written(before) else (before, judged)
        heard[key] = newer
        word = "newer" if _written(newer) > _written(older) else "the same"
        why = f"{newer.name} is of the same box, and {word}"
        spare.append(Problem(older.name, why, older.box, older.cpu_class))
    return tuple(heard.values()), tuple(problems), tuple(spare)


def _written(one: Witness) -> str:
    return str(one.document.provenance.get("written", ""))


def _at_odds(one: Witness, two: Witness) -> str:
    """Why two sidecars of one box cannot both be its own: of another class, or of one moment and yet different."""
    if one.cpu_class != two.cpu_class:
        return f"{one.name} is of the same box and says that it is of class {one.cpu_class}"
    same = replace(one.document, mtime_s=0) == replace(two.document, mtime_s=0)
    return (
        ""
        if same or _written(one) != _written(two)
        else f"{one.name} is of the same box and time, and differs"
    )


def _witness(manifest: Manifest, record: Record) -> Witness | Problem:
    document = record.found
    if isinstance(document, Unreadable):
        return Problem(record.name, f"unreadable: {document.why}", junk=record.junk)
    identity = str(document.provenance.get("box", ""))
    if not _names_box(identity):
        return Problem(record.name, _NO_BOX, junk=record.junk)
    cpu_class, have = recorded_class(document), recorded_features(document)
    if why := distrust(manifest, document, record.signed):
        return Problem(record.name, why, identity, cpu_class)
    return Witness(record.name, identity, cpu_class, have, identity.split("|")[1], document)


def _names_box(identity: str) -> bool:
    fields = identity.split("|")
    return len(fields) == 5 and bool(fields[4])


def distrust(manifest: Manifest, document: Document, signed: bool) -> str:
    """Why a sidecar is no measurement of the box that it names, "" when it is one."""
    identity = str(document.provenance.get("box", ""))
    if not _names_box(identity):
        return _NO_BOX
    platform, arch = identity.split("|")[:2]
    if not signed:
        return "it has no digest: edited by hand, so it proves nothing"
    if document.provenance.get("applied_box") or document.provenance.get("origin"):
        return "its winners were measured on another box"
    for name, value in (("platform", platform), ("arch", arch)):
        if (said := document.provenance.get(name, value)) != value:
            return f"it says {name} {said} and box {identity}"
    return _impossible(manifest, document, recorded_features(document))


def _impossible(manifest: Manifest, document: Document, have: frozenset[str]) -> str:
    """A row that passed on a box that, by its own word, cannot run it."""
    for family in manifest.families:
        for key in (*(seat.key for seat in family.seats), *resolve.companion_keys(family)):
            for suffix in _passed(document, key):
                row = resolve.row_of(family, suffix)
                if row and (missing := features.unmet(row.requires, have)):
                    return f"it timed {suffix} of {key}, which needs {', '.join(missing)}: not on such a box"
    return ""


def _passed(document: Document, key: str) -> frozenset[str]:
    """The rows that were timed, hence passed the gate on that box."""
    race = document.race.get(key, {})
    rows, rejected = race.get("rows"), str(race.get("rejected", ""))
    out = {name.strip() for name in rejected.split(";")}
    return frozenset(rows if isinstance(rows, dict) else ()) - out


# --- the cells of the table -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _ClassView:
    """One class as the evidence shows it: its boxes, what they all have, and the profiles of its ladder."""

    name: str
    witnesses: tuple[Witness, ...]
    have: frozenset[str]
    arch: str
    chosen: tuple[profiles.Chosen, ...]
    offers: tuple[tuple[Profile, resolve.Source], ...]


def fleet(
    manifest: Manifest,
    app: App,
    records: Iterable[Record],
    files: Mapping[str, Mapping[str, bytes | Unusable]],
    box: Box,
    tree: Tree,
) -> Fleet:
    """Every class that a record, a profile or this box speaks for, seat by seat, and the mints it lacks.

    ``files``: by scope the profiles of its `defaults`, content by class.
    """
    witnesses, problems, spare = judge(manifest, records)
    scopes = resolve.app_scopes(manifest, app)
    here = profiles.box_class(box)
    spoken_for: tuple[Witness | Problem, ...] = (*witnesses, *problems)
    views = tuple(
        _view(name, manifest, scopes, witnesses, files, box) for name in _classes(spoken_for, files, here)
    )
    covers = tuple(
        cover
        for view in views
        for scope in scopes
        for family in demanded_families(manifest, scope)
        for cover in _covers(family, scope, view, tree, _alike(witnesses, view))
    )
    known = {one.cpu_class: one.box for one in reversed(spoken_for)} | {here: box.identity}
    remints, exports = _ways(manifest, scopes, views, covers, known)
    lost = tuple(
        Remint(problem.name, scope.name, "", (), problem.why)
        for problem in problems
        if not problem.cpu_class and not problem.junk
        for scope in scopes
        if demanded_families(manifest, scope)
    )
    affected = tuple(_affected(manifest, scopes, witnesses, tree))
    return Fleet(app.name, here, witnesses, problems, covers, (*remints, *lost), exports, affected, spare)


def _classes(
    spoken_for: tuple[Witness | Problem, ...], files: Mapping[str, Mapping[str, bytes | Unusable]], here: str
) -> tuple[str, ...]:
    known = {here, *(one.cpu_class for one in spoken_for), *(name for by in files.values() for name in by)}
    known.discard("")
    ordered = [name for name in features.CLASSES if name in known]
    return (*ordered, *sorted(known.difference(ordered)))


def _alike(witnesses: tuple[Witness, ...], view: _ClassView) -> tuple[Witness, ...]:
    """The boxes of the same architecture: only they gate what the class runs."""
    arch = features.canonical_arch(view.arch)
    return tuple(one for one in witnesses if features.canonical_arch(one.arch) == arch)


def _view(
    name: str,
    manifest: Manifest,
    scopes: tuple[Scope, ...],
    witnesses: tuple[Witness, ...],
    files: Mapping[str, Mapping[str, bytes | Unusable]],
    box: Box,
) -> _ClassView:
    """A class without a box is taken to have what its own profile's donors shared."""
    own = tuple(one for one in witnesses if one.cpu_class == name)
    chosen = tuple(
        profiles.choose(
            scope,
            tuple(
                (
                    rung,
                    (scope.defaults or Path()) / profiles.file_name(rung),
                    files.get(scope.name, {}).get(rung),
                )
                for rung in features.ladder(name)
            ),
        )
        for scope in scopes
    )
    sets = [one.have for one in own]
    if name == profiles.box_class(box):
        sets.append(features.believed(box))
    if not sets:
        sets = [one.profile.features for one in chosen if one.profile and one.profile.cpu_class == name]
    arch = own[0].arch if own else "aarch64" if name.startswith("arm-") else box.arch
    return _ClassView(
        name,
        own,
        frozenset.intersection(*sets) if sets else frozenset(),
        arch,
        chosen,
        profiles.offers(manifest, chosen),
    )


def _covers(
    family: Family, scope: Scope, view: _ClassView, tree: Tree, witnesses: tuple[Witness, ...]
) -> Iterable[Cover]:
    """The family's seats in one class: measured there, else answered by its profile, else open and why."""
    now = tree.of(view.arch)
    keys = tuple(seat.key for seat in family.seats)
    fresh: list[Witness] = []
    stale: dict[str, str] = {}
    for one in view.witnesses:
        if reason := _stale_reason(one, scope, keys, now):
            stale[one.box] = reason
        else:
            fresh.append(one)
    if fresh:
        yield from _measured(family, scope, view, fresh, witnesses, tree)
        return
    here = resolve.Here(view.have)
    profile, refused, outdated = _covering(family, view, here, now)
    via = profile.cpu_class if profile and (outdated or not refused) else ""
    said = "; ".join(dict.fromkeys(stale.values()))
    for key in keys:
        if profile and not refused:
            suffix = profile.kernels[key]
            bound, boxes = _bound(profile, family)
            gated = _gated(family, key, suffix, witnesses, tree)
            yield Cover(key, scope.name, view.name, "covered", suffix, said, boxes, bound, gated, via)
            continue
        suffix = resolve.chain_pick(family, here)
        gated = _gated(family, key, suffix, witnesses, tree)
        reason = "; ".join(word for word in (said, refused) if word) or _no_profile(scope, view)
        state: State = "stale" if stale else "uncovered"
        yield Cover(key, scope.name, view.name, state, suffix, reason, tuple(stale), None, gated, via)


def _no_profile(scope: Scope, view: _ClassView) -> str:
    passed_over = next((one.skipped for one in view.chosen if one.scope == scope.name), ())
    return "; ".join(("no box of this class, no profile", *(f"{one.path}: {one.why}" for one in passed_over)))


def _measured(
    family: Family,
    scope: Scope,
    view: _ClassView,
    fresh: list[Witness],
    witnesses: tuple[Witness, ...],
    tree: Tree,
) -> Iterable[Cover]:
    for seat in family.seats:
        winners = dict.fromkeys(one.document.kernels[seat.key] for one in fresh)
        gated = all(_gated(family, seat.key, suffix, witnesses, tree) for suffix in winners)
        reason = "" if len(winners) == 1 else "boxes differ"
        boxes = tuple(one.box for one in fresh)
        yield Cover(
            seat.key, scope.name, view.name, "measured", " or ".join(winners), reason, boxes, None, gated
        )


def _stale_reason(one: Witness, scope: Scope, keys: tuple[str, ...], now: Mapping[str, Built] | None) -> str:
    """Why a box's entries for a family do not count; "" when they do."""
    document = one.document
    if missing := [key for key in keys if not document.kernels.get(key)]:
        return f"missing {', '.join(missing)}"
    if adopted := [key for key in keys if origin_of(document, key)]:
        return f"{adopted[0]} was adopted from {origin_of(document, adopted[0])}"
    if written := [
        f"{key} was set by hand: {why}" for key in keys if (why := by_hand(document, key, scope.tuner))
    ]:
        return written[0]
    if scope.version_key:
        recorded = document.provenance.get(scope.version_key)
        found = profiles.pin_text(recorded) if isinstance(recorded, str | int | float) else ""
        if found != scope.version:
            return f"version: {scope.version_key} {found or 'unrecorded'}, this tree has {scope.version}"
    if now is None:
        return f"no toolchain here builds for {one.arch}: its digests cannot be compared"
    if undated := _undated(document.built, keys):
        return f"no digests recorded for {', '.join(undated)}"
    changed = dict.fromkeys(
        what for key in keys for what in changes(document, key, now, None, elsewhere=True)
    )
    return f"stale_binary: {', '.join(changed)} changed" if changed else ""


def _covering(
    family: Family, view: _ClassView, here: resolve.Here, now: Mapping[str, Built] | None
) -> tuple[Profile | None, str, bool]:
    """(the profile that names the family, why it does not cover it all the same, only because it is stale)."""
    for profile, offer in view.offers:
        if not resolve.answers(family, offer):
            continue
        if refused := resolve.objection(family, offer, here):
            return profile, refused, False
        if row := profiles.unlocked_row(family, profile, here):
            return profile, f"the {profile.cpu_class} profile's boxes could not run {row}", False
        stale = _profile_stale(profile, tuple(seat.key for seat in family.seats), now)
        return profile, f"the {profile.cpu_class} profile is stale: {stale}" if stale else "", bool(stale)
    return None, "", False


def _affected(
    manifest: Manifest, scopes: tuple[Scope, ...], witnesses: tuple[Witness, ...], tree: Tree
) -> Iterable[Remint]:
    for one in witnesses:
        for scope in scopes:
            why: dict[str, str] = {}
            for family in demanded_families(manifest, scope):
                keys = tuple(seat.key for seat in family.seats)
                if reason := _stale_reason(one, scope, keys, tree.of(one.arch)):
                    why |= dict.fromkeys(keys, reason)
            if why:
                yield Remint(
                    one.box, scope.name, one.cpu_class, tuple(why), "; ".join(dict.fromkeys(why.values()))
                )


def _profile_stale(profile: Profile, keys: tuple[str, ...], now: Mapping[str, Built] | None) -> str:
    """Why a profile does not speak of the tree at hand, "" when it does. One without digests may be of any tree."""
    if undated := _undated(profile.built, keys):
        return f"no digests recorded for {', '.join(undated)}"
    digests = {
        key: {name: value for name, value in entry.items() if name in MEASURED_INPUTS}
        for key, entry in profile.built.items()
    }
    found = (what for key in keys for what in changes(Document(built=digests), key, now or {}, None))
    changed = ", ".join(dict.fromkeys(found))
    return f"{changed} changed" if changed else ""


def _bound(profile: Profile, family: Family) -> tuple[float | None, tuple[str, ...]]:
    bound: Mapping[str, Json] = profile.bounds.get(family.name, {})
    loss, boxes = bound.get("loss_pct"), bound.get("boxes")
    pct = float(loss) if isinstance(loss, int | float) and not isinstance(loss, bool) else None
    return pct, tuple(boxes) if isinstance(boxes, dict) else ()


def _gated(family: Family, key: str, suffix: str, witnesses: tuple[Witness, ...], tree: Tree) -> bool:
    """Did some box time the row, in the code at hand? A timed row passed its gate, and a witness has timed
    nothing that its features cannot run."""
    if resolve.row_of(family, suffix) is None:
        return suffix == REFERENCE
    return any(
        suffix in _passed(one.document, key) and not _code_changed(one, key, tree) for one in witnesses
    )


def _undated(built: Mapping[str, Built], keys: tuple[str, ...]) -> list[str]:
    """The keys of which nobody can say what was measured."""
    return [key for key in keys if any(name not in built.get(key, {}) for name in _DIGESTS)]


def _code_changed(one: Witness, key: str, tree: Tree) -> bool:
    """Other code or another compiler makes another row; how it was timed does not matter to the gate."""
    now = tree.of(one.arch)
    if now is None or _undated(one.document.built, (key,)):
        return True
    then = {
        name: value
        for name, value in one.document.built[key].items()
        if name in ("source", "headers", "flags", "compiler")
    }
    return bool(changes(Document(built={key: then}), key, now, None, elsewhere=True))


# --- the way to green -----------------------------------------------------------------------------


def _ways(
    manifest: Manifest,
    scopes: tuple[Scope, ...],
    views: tuple[_ClassView, ...],
    covers: tuple[Cover, ...],
    known: Mapping[str, str],
) -> tuple[tuple[Remint, ...], tuple[Export, ...]]:
    """The fewest mints that leave no seat open, and the profiles to export after them. ``known``: a box by class,
    this one for its own."""
    where = {view.name: known.get(view.name, f"any box of class {view.name}") for view in views}
    reach = _Reach(manifest, {view.name: view for view in views}, covers)
    remints: list[Remint] = []
    exported: dict[str, dict[str, None]] = {}
    for scope in scopes:
        left: dict[str, list[Cover]] = {}
        for cover in covers:
            if cover.scope == scope.name and not cover.green:
                left.setdefault(cover.cpu_class, []).append(cover)
        minted = reach.fewest({name: left[name] for name in sorted(left, key=lambda name: name not in known)})
        for name, open_covers in left.items():
            if name in minted:
                remints.append(_remint(where[name], scope, name, open_covers))
                continue
            for cover in open_covers:
                if cover.state != "covered":
                    exported.setdefault(cover.via, {})[name] = None
    order = list(where)
    remints.sort(key=lambda one: order.index(one.cpu_class))
    raced = {one.cpu_class for one in remints}
    holds = {view.name: view.witnesses[0].box for view in views if view.witnesses and view.name not in raced}
    exports = (Export(holds.get(name, where[name]), name, tuple(over)) for name, over in exported.items())
    return tuple(remints), tuple(exports)


@dataclass(frozen=True, slots=True)
class _Reach:
    """What mints of some classes do for the open seats of others."""

    manifest: Manifest
    views: Mapping[str, _ClassView]
    covers: tuple[Cover, ...]

    def fewest(self, left: Mapping[str, list[Cover]]) -> tuple[str, ...]:
        """The smallest set of classes whose mints leave nothing open; of equal ones the first in order of ``left``."""
        must = tuple(name for name, covers in left.items() if not all(cover.via for cover in covers))
        free = tuple(
            name for name in left if name not in must
        )  # no more than a ladder has: others have no profile
        sets = (chosen for size in range(len(free)) for chosen in itertools.combinations(free, size))
        for minted in ((*must, *chosen) for chosen in sets):
            others = (covers for name, covers in left.items() if name not in minted)
            if all(self.closes(minted, cover) for covers in others for cover in covers):
                return minted
        return tuple(left)

    def closes(self, minted: tuple[str, ...], cover: Cover) -> bool:
        """A covered row wants a box that gates it; a stale profile wants its own class measured."""
        if not cover.via:
            return False
        if cover.state != "covered":
            return cover.via in minted or self._is_measured(cover.key, cover.via)
        family = next(one for one in self.manifest.families if cover.key in {seat.key for seat in one.seats})
        row = resolve.row_of(family, cover.suffix)
        arch = self.views[cover.cpu_class].arch
        able = (view for name in minted if (view := self.views[name]).arch == arch)
        return row is not None and any(features.requires_ok(row.requires, view.have) for view in able)

    def _is_measured(self, key: str, cpu_class: str) -> bool:
        own = (one for one in self.covers if (one.key, one.cpu_class) == (key, cpu_class))
        return any(one.green and one.state == "measured" for one in own)


def _remint(where: str, scope: Scope, cpu_class: str, open_covers: list[Cover]) -> Remint:
    whys = dict.fromkeys(
        cover.reason if cover.state in ("stale", "uncovered") else f"{cover.suffix} was not gated"
        for cover in open_covers
    )
    return Remint(where, scope.name, cpu_class, tuple(cover.key for cover in open_covers), "; ".join(whys))

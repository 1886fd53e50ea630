"""Class profiles: which one answers, what it covers, what it leaves to race. Files are read elsewhere.

A profile is `<defaults>/<class>.tune-defaults.json`: the winners of one CPU class, checked in. A box walks
its ladder and takes the first file that reads and has the scope's version; files are never mixed. What a
profile answers is what the build would stamp from it, by the same functions: the guard and the stamp cannot
disagree.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from tunebuild import features, resolve
from tunebuild.document import Built, Json
from tunebuild.model import App, Box, Family, Manifest, Scope

SUFFIX = ".tune-defaults.json"
SECTIONS = ("kernels", "provenance", "bounds", "built")
MAX_BYTES = 4_000_000


@dataclass(frozen=True, slots=True)
class Profile:
    """One class's winners as read. ``provenance`` keeps scalars only.

    ``bounds``: by family, what a merge of several boxes promises. ``built``: by key, the digests of what the
    donors measured.
    """

    path: str
    cpu_class: str
    kernels: Mapping[str, str]
    provenance: Mapping[str, str | int | float]
    bounds: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)
    built: Mapping[str, Built] = field(default_factory=dict)

    @property
    def features(self) -> frozenset[str]:
        """The features recorded for the box (or all the boxes) that raced."""
        recorded = str(self.provenance.get("features", ""))
        return frozenset(name for name in recorded.split(";") if name)


@dataclass(frozen=True, slots=True)
class Unusable:
    """A file that is no profile. ``why`` is the end of a sentence about it."""

    path: str
    why: str


@dataclass(frozen=True, slots=True)
class Chosen:
    """The outcome of one scope's walk. ``skipped``: (path, why) of the rungs passed over, absent ones not."""

    scope: str
    profile: Profile | None
    skipped: tuple[tuple[str, str], ...] = ()


# --- files ----------------------------------------------------------------------------------------


def box_class(box: Box) -> str:
    """The class of this box; forced features count, since they count for generating."""
    platform = box.identity.split("|", 1)[0]
    return features.cpu_class(features.believed(box), platform, box.arch)


def file_name(cpu_class: str) -> str:
    return cpu_class + SUFFIX


def rungs(scope: Scope, box: Box) -> tuple[tuple[str, Path], ...]:
    """(class, file) in the order in which they are tried; nothing without `defaults`."""
    if scope.defaults is None:
        return ()
    classes = features.ladder(box_class(box))
    return tuple((cpu_class, scope.defaults / file_name(cpu_class)) for cpu_class in classes)


def ladder_paths(manifest: Manifest, app: App, box: Box) -> tuple[Path, ...]:
    """Every profile a stamp of this app depends on, present or not: appearing must re-stamp as well."""
    paths = (path for scope in resolve.app_scopes(manifest, app) for _, path in rungs(scope, box))
    return tuple(dict.fromkeys(paths))


def parse(path: str, cpu_class: str, data: bytes) -> Profile | Unusable:
    """Read a profile's bytes. Entries that are no strings are ignored, as in a sidecar."""
    if len(data) > MAX_BYTES:
        return Unusable(path, f"it has {len(data)} bytes, more than {MAX_BYTES}")
    try:
        document = json.loads(data.decode())
    except (ValueError, RecursionError) as error:
        return Unusable(path, f"it is not JSON ({_first_line(error)})")
    if not isinstance(document, dict):
        return Unusable(path, "it is not a JSON object")
    kernels, provenance, bounds, built = (_mapping(document.get(name)) for name in SECTIONS)
    return Profile(
        path,
        cpu_class,
        {key: value for key, value in kernels.items() if isinstance(value, str)},
        {
            key: value
            for key, value in provenance.items()
            if isinstance(value, str | int | float) and not isinstance(value, bool)
        },
        {key: value for key, value in bounds.items() if isinstance(value, dict)},
        {key: value for key, value in built.items() if isinstance(value, dict)},
    )


def _mapping(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


# --- the walk -------------------------------------------------------------------------------------


def pin_text(value: str | int | float | None) -> str:
    """A version as the text that pins compare: whole numbers alike whether stored as number or text."""
    if isinstance(value, float):
        return str(int(value)) if value == value and abs(value) < 2**63 else ""
    return "" if value is None else str(value)


def choose(scope: Scope, ladder: tuple[tuple[str, Path, bytes | None], ...]) -> Chosen:
    """Walk (class, path, content or None for an absent file) and take the first that serves.

    A file that does not read, or that another version of the scope wrote, is passed over. The first that
    remains is the profile even if it is empty: then there is none, and the walk does not go on.
    """
    skipped: list[tuple[str, str]] = []
    for cpu_class, path, data in ladder:
        if not data:
            continue
        read = parse(str(path), cpu_class, data)
        if isinstance(read, Unusable):
            skipped.append((read.path, read.why))
            continue
        found = pin_text(read.provenance.get(scope.version_key)) if scope.version_key else scope.version
        if scope.version_key and found != scope.version:
            recorded = f"has {scope.version_key} {found}" if found else f"has no {scope.version_key}"
            skipped.append((read.path, f"it {recorded}, this tree has {scope.version}"))
            continue
        if not any(read.kernels.values()):
            skipped.append((read.path, "it names no winner"))
            return Chosen(scope.name, None, tuple(skipped))
        return Chosen(scope.name, read, tuple(skipped))
    return Chosen(scope.name, None, tuple(skipped))


def source(profile: Profile) -> resolve.Source:
    """The profile as the ladder of `resolve` sees it."""
    measured = str(profile.provenance.get("measured_reference", ""))
    keys = frozenset(key for key in measured.split(";") if key)
    return resolve.Source("profile", profile.path, profile.kernels, keys)


def sources(chosen: tuple[Chosen, ...]) -> tuple[resolve.Source, ...]:
    """The profiles of an app's scopes in scope order, each once: what `resolve.resolve` takes."""
    found = {one.profile.path: source(one.profile) for one in chosen if one.profile}
    return tuple(found.values())


# --- coverage, residue, adoption ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Adoption:
    """What a profile does for one incomplete scope.

    ``none``: nothing answers, everything demanded is raced. ``covered``: the build stamps it all from the
    profile, nothing is raced or written. ``partial``: ``entries`` go into the sidecar with ``notes`` in its
    provenance, and ``residue`` alone is raced, by exact name. ``origin_built``: what the donors measured, by
    key, to be kept beside the digests of the tree at hand.
    """

    kind: Literal["none", "covered", "partial"]
    scope: str
    cpu_class: str = ""
    path: str = ""
    entries: tuple[tuple[str, str], ...] = ()
    residue: tuple[str, ...] = ()
    why: tuple[tuple[str, str], ...] = ()  # (seat key, why it is in the residue)
    notes: tuple[tuple[str, str], ...] = ()
    origin_built: tuple[tuple[str, Built], ...] = ()

    @property
    def only(self) -> str:
        """The race filter for the residue: exact names, so that `gemm` does not race `gemm_t` too."""
        return ",".join(f"={key}" for key in self.residue)


def demanded_families(manifest: Manifest, scope: Scope) -> tuple[Family, ...]:
    """The families whose seats a scope demands: all of its own but the pinned ones, manifest order."""
    names = frozenset(scope.families)
    return tuple(family for family in manifest.families if family.name in names and not family.pin)


def unlocked_row(family: Family, profile: Profile, here: resolve.Here) -> str:
    """A row that this box can run and the boxes that raced could not, "" when there is none."""
    recorded = profile.features
    for row in family.rows:
        could_not = row.requires and not features.requires_ok(row.requires, recorded)
        if could_not and not resolve.row_why_not(family, row, here):
            return row.suffix
    return ""


def _left_over(
    family: Family, profile: Profile, offer: resolve.Source, here: resolve.Here, fresh: Mapping[str, str]
) -> tuple[bool, str]:
    """(the profile holds no answer, why the family is raced all the same); an empty text: it is covered.

    Seats measured here stay when the others are adopted, so the two must agree about the layout.
    """
    if not resolve.answers(family, offer):
        return True, "the profile does not name it"
    if refused := resolve.objection(family, offer, here):
        return False, refused
    if row := unlocked_row(family, profile, here):
        return False, f"this box can run {row}, which the profile's box could not"
    both = {seat.key: fresh.get(seat.key) or offer.entries[seat.key] for seat in family.seats}
    return False, resolve.objection(family, replace(offer, entries=both), here)


def adoption(
    manifest: Manifest,
    scope: Scope,
    chosen: tuple[Chosen, ...],
    here: resolve.Here,
    fresh: Mapping[str, str],
) -> Adoption:
    """What the profiles of an app's scopes do for one of them.

    ``chosen``: every scope's walk, in app order. ``fresh``: the sidecar's fresh entries; a family measured
    here is left alone, or raced where its entries cannot serve. The residue lists families that no profile
    names, then those whose answer this box cannot use or can beat, in manifest order; a family is raced with
    all its seats. Residue is not adopted: an interrupted race must leave it missing, not answered by a class
    default.
    """
    held = resolve.Source("manifest", "", fresh)
    profiles = tuple(one.profile for one in chosen if one.profile)
    if scope.defaults is None or not profiles:
        return Adoption("none", scope.name)
    offers = {profile.path: source(profile) for profile in profiles}
    missing: list[str] = []
    beaten: list[str] = []
    why: list[tuple[str, str]] = []
    entries: dict[str, str] = {}
    donors: dict[str, Built] = {}
    used: dict[str, Profile] = {}
    for family in demanded_families(manifest, scope):
        keys = tuple(seat.key for seat in family.seats)
        profile = next((one for one in profiles if resolve.answers(family, offers[one.path])), profiles[0])
        if measured := resolve.answers(family, held):
            absent, reason = False, resolve.objection(family, held, here)
        else:
            absent, reason = _left_over(family, profile, offers[profile.path], here, fresh)
        if reason:
            (missing if absent else beaten).extend(keys)
            why.extend((key, reason) for key in keys)
            continue
        if measured:
            continue
        used[profile.path] = profile
        names = (*keys, *resolve.companion_keys(family))
        entries.update((name, profile.kernels[name]) for name in names if profile.kernels.get(name))
        donors.update((name, profile.built[name]) for name in names if name in profile.built)
    residue = (*missing, *beaten)
    if not used:
        return Adoption("none", scope.name, residue=residue, why=tuple(why))
    own = next((one.profile for one in chosen if one.scope == scope.name and one.profile), None)
    main = own if own is not None and own.path in used else next(iter(used.values()))
    notes = {"adopted_profile": main.cpu_class}
    if scope.version_key:
        notes[scope.version_key] = scope.version
    kept = tuple((key, value) for key, value in entries.items() if not fresh.get(key))
    return Adoption(
        "partial" if residue else "covered",
        scope.name,
        main.cpu_class,
        main.path,
        kept,
        residue,
        tuple(why),
        tuple(notes.items()) if residue else (),
        tuple((key, donors[key]) for key, _ in kept if key in donors),
    )


def partial_message(adoption: Adoption) -> str:
    return (
        f"scope {adoption.scope} adopts {len(adoption.entries)} entries of the {adoption.cpu_class} profile; "
        f"{len(adoption.residue)} to race: {', '.join(adoption.residue)}"
    )

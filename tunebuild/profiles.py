"""Class profiles: which one answers, what it covers, what it leaves to race. Files are read elsewhere.

A profile is `<defaults>/<class>.tune-defaults.json`: the winners of one CPU class, checked in. A box walks
its ladder and takes the first file that reads, says of itself what its name says, and has the scope's version; files
are never mixed. What a profile answers is what the build would stamp from it, by the same functions: the guard and the
stamp cannot disagree. A file that is there and does not serve is named, with what to do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from tunebuild import features, resolve
from tunebuild.document import FORMAT, Built, Json, is_name, load
from tunebuild.model import App, Box, Family, Manifest, Scope

SUFFIX = ".tune-defaults.json"
SECTIONS = ("kernels", "provenance", "bounds", "built")
MAX_BYTES = 4_000_000
_LARGEST_PCT = 1e6
_SAID_REASONS = 6  # of a residue, before "and N more reasons"
_RESTORE = "restore it, or write it anew with `tunebuild profile export{option}`"


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
    """A file that is there and does not serve. ``why`` is a sentence about it, ``fix`` says what to do."""

    path: str
    why: str
    fix: str

    @property
    def line(self) -> str:
        return f"{self.path} is passed over: {self.why}; {self.fix}"


@dataclass(frozen=True, slots=True)
class Chosen:
    """The outcome of one scope's walk. ``skipped``: the rungs passed over, absent ones not."""

    scope: str
    profile: Profile | None
    skipped: tuple[Unusable, ...] = ()


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


def parse(path: str, cpu_class: str, data: bytes, option: str = "") -> Profile | Unusable:
    """Read a profile's bytes. Entries that are no strings are ignored, as in a sidecar. ``option``: what names the app
    in the commands that write the file anew, such as " --app demo"; "" for the default app."""
    restore = _RESTORE.format(option=option)
    if len(data) > MAX_BYTES:
        return Unusable(path, f"it has more than {MAX_BYTES} bytes", restore)
    try:
        document = load(data)
    except ValueError as error:
        return Unusable(path, f"it is unreadable: {error}", restore)
    kernels, provenance, bounds, built = (_mapping(document.get(name)) for name in SECTIONS)
    if wrong := _misplaced(path, cpu_class, document.get("format", FORMAT), provenance, option):
        return wrong
    winners = {key: value for key, value in kernels.items() if isinstance(value, str)}
    if odd := next((word for pair in winners.items() for word in pair if word and not is_name(word)), ""):
        return Unusable(path, f"`kernels` holds {odd[:80]!r}, which is no name", restore)
    return Profile(
        path,
        cpu_class,
        winners,
        {
            key: value
            for key, value in provenance.items()
            if isinstance(value, str | int | float) and not isinstance(value, bool)
        },
        {key: _bound(value) for key, value in bounds.items() if isinstance(value, dict)},
        {key: value for key, value in built.items() if isinstance(value, dict)},
    )


def _misplaced(
    path: str, cpu_class: str, version: Json, provenance: Mapping[str, Json], option: str
) -> Unusable | None:
    """A file whose own words contradict its name: another format, another class, another architecture."""
    if type(version) is not int or not 1 <= version <= FORMAT:
        why = f"it is written in format {version!r:.80}; this tunebuild reads up to {FORMAT}"
        return Unusable(path, why, "use the tunebuild that wrote it, or write it anew with this one")
    said, arch, own = (
        provenance.get("class", cpu_class),
        provenance.get("arch"),
        features.class_arch(cpu_class),
    )
    if said != cpu_class:
        known = isinstance(said, str) and is_name(said)
        renamed = f"name it {file_name(str(said))} if it is that" if known else "restore it"
        return Unusable(path, f"it says class {said!r:.80}", f"{renamed}, or {_exported(cpu_class, option)}")
    if own and arch is not None and not (isinstance(arch, str) and features.canonical_arch(arch) == own):
        return Unusable(
            path, f"it says arch {arch!r:.80}, {cpu_class} is of {own}", _exported(cpu_class, option)
        )
    return None


def _exported(cpu_class: str, option: str) -> str:
    return f"run `tunebuild mint{option}`, then `tunebuild profile export{option}`, on a box of {cpu_class}"


def _bound(bound: Mapping[str, Json]) -> dict[str, Json]:
    """What a merge promised, as far as it is a loss and boxes by name."""
    loss, boxes = bound.get("loss_pct"), bound.get("boxes")
    sound = isinstance(loss, int | float) and not isinstance(loss, bool) and 0 <= loss <= _LARGEST_PCT
    kept: dict[str, Json] = {"loss_pct": loss} if sound else {}
    return {**kept, "boxes": boxes} if isinstance(boxes, dict) else kept


def _mapping(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


# --- the walk -------------------------------------------------------------------------------------


def pin_text(value: str | int | float | None) -> str:
    """A version as the text that pins compare: whole numbers alike whether stored as number or text."""
    if isinstance(value, float):
        return str(int(value)) if value == value and abs(value) < 2**63 else ""
    return "" if value is None else str(value)


def other_version(scope: Scope, profile: Profile) -> str:
    """Which version of the scope a file has and which one the tree has, where they differ; "" where they agree."""
    if not scope.version_key:
        return ""
    found = pin_text(profile.provenance.get(scope.version_key))
    if found == scope.version:
        return ""
    recorded = f"has {scope.version_key} {found:.80}" if found else f"has no {scope.version_key}"
    return f"it {recorded}, this tree has {scope.version}"


def choose(
    scope: Scope,
    ladder: tuple[tuple[str, Path, bytes | Unusable | None], ...],
    tree: Collection[str] | None = None,
    option: str = "",
) -> Chosen:
    """Walk (class, path, content, None for an absent file) and take the first that serves.

    A file that does not read, is not what its name says, or that another version of the scope wrote, is passed over.
    The first that remains is the profile even if it is empty or names no seat of the ``tree`` (its keys; None: any key
    is one): then there is none, and the walk does not go on. ``option``: see `parse`.
    """
    skipped: list[Unusable] = []
    for cpu_class, path, data in ladder:
        if data is None:
            continue
        read = data if isinstance(data, Unusable) else parse(str(path), cpu_class, data, option)
        if isinstance(read, Unusable):
            skipped.append(read)
        elif other := other_version(scope, read):
            skipped.append(Unusable(read.path, other, _exported(cpu_class, option)))
        elif not any(read.kernels.values()):
            skipped.append(Unusable(read.path, "it names no winner", _exported(cpu_class, option)))
            break
        elif tree is not None and not any(read.kernels.get(key) for key in tree):
            skipped.append(Unusable(read.path, "it names no seat of this tree", _exported(cpu_class, option)))
            break
        else:
            return Chosen(scope.name, read, tuple(skipped))
    return Chosen(scope.name, None, tuple(skipped))


def source(profile: Profile, without: Collection[str] = ()) -> resolve.Source:
    """The profile as the ladder of `resolve` sees it. ``without``: keys whose entries do not count."""
    measured = str(profile.provenance.get("measured_reference", ""))
    keys = frozenset(key for key in measured.split(";") if key)
    entries = {key: suffix for key, suffix in profile.kernels.items() if key not in without}
    return resolve.Source("profile", profile.path, entries, keys)


def offers(manifest: Manifest, chosen: Iterable[Chosen]) -> tuple[tuple[Profile, resolve.Source], ...]:
    """The profiles of an app's scopes in scope order, each once, with what they may answer.

    A file that one scope found may hold entries of another whose version it lacks: those do not count.
    """
    walked = tuple(chosen)
    names = {one.scope for one in walked}
    scopes = tuple(scope for scope in manifest.scopes if scope.name in names)
    found: dict[str, tuple[Profile, resolve.Source]] = {}
    for profile in (one.profile for one in walked if one.profile):
        others = {name for scope in scopes if other_version(scope, profile) for name in scope.families}
        families = (family for family in manifest.families if family.name in others)
        without = frozenset(key for family in families for key in resolve.winner_keys(family))
        found.setdefault(profile.path, (profile, source(profile, without)))
    return tuple(found.values())


def sources(manifest: Manifest, chosen: Iterable[Chosen]) -> tuple[resolve.Source, ...]:
    """`offers` as `resolve.resolve` takes them."""
    return tuple(offer for _, offer in offers(manifest, chosen))


# --- coverage, residue, adoption ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Adoption:
    """What a profile does for one incomplete scope.

    ``none``: nothing answers, everything demanded is raced; ``cpu_class`` then is of a profile that was asked in vain.
    ``covered``: the build stamps it all from the profile, nothing is raced or written. ``partial``: ``entries`` go
    into the sidecar with ``notes`` in its provenance, and ``residue`` alone is raced, by exact name.
    ``origin_built``: what the donors measured, by key, to be kept beside the digests of the tree at hand.
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

    @property
    def left_words(self) -> str:
        """What the profile leaves to race and why, seats of one reason together; "" where there is none."""
        if not self.residue or not self.cpu_class:
            return ""
        why = dict(self.why)
        groups: dict[str, list[str]] = {}
        for key in self.residue:
            groups.setdefault(why.get(key, ""), []).append(key)
        said = [", ".join(keys) + (f" ({reason})" if reason else "") for reason, keys in groups.items()]
        more = f"; and {len(said) - _SAID_REASONS} more reasons" if len(said) > _SAID_REASONS else ""
        return f"the {self.cpu_class} profile leaves to race: {'; '.join(said[:_SAID_REASONS])}{more}"


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


def _refused(
    family: Family, profile: Profile, offer: resolve.Source, here: resolve.Here, fresh: Mapping[str, str]
) -> str:
    """Why a family that the profile names is raced all the same; "" when it is covered.

    Seats measured here stay when the others are adopted, so the two must agree about the layout.
    """
    if refused := resolve.objection(family, offer, here):
        return refused
    if row := unlocked_row(family, profile, here):
        return f"this box can run {row}, which the profile's box could not"
    both = {seat.key: fresh.get(seat.key) or offer.entries[seat.key] for seat in family.seats}
    return resolve.objection(family, replace(offer, entries=both), here)


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
    found = offers(manifest, chosen)
    if not found:
        return Adoption("none", scope.name)
    missing: list[str] = []
    beaten: list[str] = []
    why: list[tuple[str, str]] = []
    entries: dict[str, str] = {}
    donors: dict[str, Built] = {}
    used: dict[str, Profile] = {}
    for family in demanded_families(manifest, scope):
        keys = tuple(seat.key for seat in family.seats)
        profile, offer = next((one for one in found if resolve.answers(family, one[1])), found[0])
        measured, absent = resolve.answers(family, held), False
        if measured:
            reason = resolve.objection(family, held, here)
        elif resolve.answers(family, offer):
            reason = _refused(family, profile, offer, here, fresh)
        else:
            absent, reason = True, other_version(scope, profile) or "the profile does not name it"
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
    own = next((one.profile for one in chosen if one.scope == scope.name and one.profile), None)
    if not used:
        asked = own or found[0][0]
        return Adoption("none", scope.name, asked.cpu_class, asked.path, residue=residue, why=tuple(why))
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

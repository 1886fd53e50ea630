"""How a write changes a document: everyone else's entries, sections and notes survive. Decides only.

A document whose whole content no longer counts (stale as a whole, foreign, unreadable) is started anew, its
`runtime` included. Otherwise a writer replaces its own keys and nothing else:

- measured here (``origin`` ""): entries of the writer's scope that came from another box's sidecar go, even
  when this write does not replace them, since a foreign measurement must not pass for a local one.
  Entries that came from a class profile stay until they are measured; a ``full`` write drops those too.
- adopted (``origin`` "exchange", "profile:CLASS", …): fills only the keys that are not held fresh.

A write that notes another version than the old one ends the entries of the old one that it does not replace: they would
pass for measurements of the new one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from tunebuild.document import PROTECTED_NOTES, Built, Document, Json, Scalar, is_name
from tunebuild.features import FEATURES, fingerprint
from tunebuild.model import Box
from tunebuild.verdict import (
    NO_PINS,
    Found,
    Pins,
    Unfit,
    any_row,
    fresh_entries,
    other_version,
    version_text,
    whole_file,
)

EXCHANGE = "exchange"
_ADOPTION_NOTES = ("origin", "exchange_sha", "applied_box")


@dataclass(frozen=True, slots=True)
class Change:
    """What one write records. ``runtime`` None leaves knobs alone, a mapping replaces them all.

    ``built``: per key of ``kernels`` the digests of the tree at hand. ``scope_keys``: every key of the
    writer's scope. ``knobs``: keys of `runtime`, merged one by one. ``drop_notes``: notes to remove.
    """

    kernels: Mapping[str, str] = field(default_factory=dict)
    race: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)
    built: Mapping[str, Built] = field(default_factory=dict)
    runtime: Mapping[str, Scalar] | None = None
    knobs: Mapping[str, Scalar] = field(default_factory=dict)
    notes: Mapping[str, Scalar] = field(default_factory=dict)
    drop_notes: tuple[str, ...] = ()
    scope_keys: tuple[str, ...] = ()
    origin: str = ""
    full: bool = False


@dataclass(frozen=True, slots=True)
class Writer:
    """Who writes, where and when: what every write stamps. ``binary`` has the home folder as `~`."""

    box: Box
    written: str  # ISO 8601, UTC
    binary: str = ""


@dataclass(frozen=True, slots=True)
class Merged:
    """The document to write. ``reset``: why the old one was thrown away, "" it was kept."""

    document: Document
    reset: str = ""
    dropped: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()  # keys that an adoption left to the fresher entry
    taken: tuple[str, ...] = ()  # keys that this write recorded


def merge(
    found: Found,
    change: Change,
    writer: Writer,
    *,
    built_now: Mapping[str, Built] | None = None,
    binary_s: int | None = None,
    unfit: Unfit = any_row,
    pins: Pins = NO_PINS,
) -> Merged:
    """The old document with ``change`` applied. Raises ValueError for a change that must never be written."""
    _check(change)
    whole = whole_file(found, box=writer.box, built_now=built_now, binary_s=binary_s)
    old = _with_origins(found) if isinstance(found, Document) and whole.reason == "none" else Document()
    reset = "" if found is None or whole.reason == "none" else f"{whole.reason}: {whole.detail}"
    fresh = fresh_entries(old, box=writer.box, built_now=built_now, binary_s=binary_s, unfit=unfit, pins=pins)
    held = fresh if change.origin else {}
    dropped = (*_dropped(old, change), *_outdated(old, change, pins))
    keys = tuple(key for key in change.kernels if key not in held)
    kernels = {**_without(old.kernels, dropped), **{key: change.kernels[key] for key in keys}}
    document = Document(
        kernels=kernels,
        runtime={**(old.runtime if change.runtime is None else change.runtime), **change.knobs},
        race=_without(_race(old, change, kernels, keys), dropped),
        built={**_without(old.built, dropped), **{key: _seat(change, writer, key) for key in keys}},
    )
    noted = replace(document, provenance=_provenance(old, document, change, writer, built_now))
    return Merged(noted, reset, dropped, tuple(key for key in change.kernels if key in held), keys)


def _check(change: Change) -> None:
    for key, suffix in change.kernels.items():
        if not is_name(key) or not is_name(suffix):
            raise ValueError(f"cannot record {suffix!r} for {key!r}: names are letters, digits, `_ . -`")
        winner = change.race.get(key, {}).get("winner", suffix)
        if winner != suffix:
            raise ValueError(f"{key}: the race names {winner!r}, the entry {suffix!r}")


def _dropped(old: Document, change: Change) -> tuple[str, ...]:
    """Adopted entries that this local write puts an end to."""
    if change.origin:
        return ()
    own = (*change.scope_keys, *change.kernels)
    origins = {key: origin_of(old, key) for key in dict.fromkeys(own) if key in old.kernels}
    return tuple(
        key
        for key, origin in origins.items()
        if key not in change.kernels and origin and (origin == EXCHANGE or change.full)
    )


def _outdated(old: Document, change: Change, pins: Pins) -> tuple[str, ...]:
    """Entries of another version than the one that this write notes for their scope."""
    noted = {key: pin for key, (pin, _) in pins.items() if key in old.kernels and pin in change.notes}
    return tuple(
        key
        for key, pin in noted.items()
        if key not in change.kernels and other_version(old, (pin, version_text(change.notes[pin])))
    )


def origin_of(document: Document, key: str) -> str:
    """Where an entry came from: "" measured here, "profile:CLASS", "exchange"."""
    if key in document.built:  # every writer of entries says it there
        origin = document.built[key].get("origin")
        return origin if isinstance(origin, str) else ""
    whole = document.provenance.get("origin")
    return EXCHANGE if whole == EXCHANGE and key in document.kernels else ""


def by_hand(document: Document, key: str, tuner: str) -> str:
    """Why an entry is no measurement but somebody's word, the end of a sentence; "" for one that was raced or adopted.

    ``tuner``: of the entry's scope. Only a tuner of a scope's own may record a winner without its race.
    """
    if raced := document.outvoted(key):
        return f"its race chose {raced}"
    may = tuner not in ("builtin", "none") or bool(origin_of(document, key))
    return "no race decided it" if document.unraced(key) and not may else ""


def _with_origins(document: Document) -> Document:
    """An older file says `origin` once for all; said entry by entry it survives the next local write."""
    origins = {key: origin_of(document, key) for key in document.kernels}
    adopted = {key: {**document.built.get(key, {}), "origin": o} for key, o in origins.items() if o}
    return replace(document, built={**document.built, **adopted})


_Value = TypeVar("_Value")


def _without(section: Mapping[str, _Value], dropped: Collection[str]) -> dict[str, _Value]:
    return {key: value for key, value in section.items() if key not in dropped}


def _seat(change: Change, writer: Writer, key: str) -> Built:
    facts: dict[str, Json] = {**change.built.get(key, {}), "written": writer.written}
    return {**facts, "origin": change.origin} if change.origin else facts


def _race(
    old: Document, change: Change, kernels: Mapping[str, str], replaced: Collection[str]
) -> dict[str, Mapping[str, Json]]:
    """An entry and its race never name different rows, and a race run elsewhere is not this entry's."""
    tables = {
        **{key: table for key, table in old.race.items() if not (change.origin and key in replaced)},
        **{key: table for key, table in change.race.items() if key in replaced or not change.origin},
    }
    return {key: table for key, table in tables.items() if _agrees(table.get("winner"), kernels.get(key))}


def _agrees(raced: Json, recorded: str | None) -> bool:
    return raced is None or recorded is None or raced == recorded


def _provenance(
    old: Document, new: Document, change: Change, writer: Writer, seats: Collection[str] | None
) -> dict[str, Json]:
    """Scalar notes of everyone stay; the writer's come on top; the seven of identity are always its own."""
    kept = {key: value for key, value in old.provenance.items() if type(value) in (str, int, float)}
    notes = {key: value for key, value in change.notes.items() if key not in PROTECTED_NOTES}
    gone = set(change.drop_notes)
    if not change.origin:
        gone |= {"applied_box"} | _settled_notes(new, seats)
    platform, arch = writer.box.identity.split("|")[:2]
    own: dict[str, Json] = {
        "binary": writer.binary or kept.get("binary", ""),
        "platform": platform,
        "arch": arch,
        "box": writer.box.identity,
        "written": writer.written,
        "features": fingerprint(writer.box.features),
        "features_known": len(FEATURES),
    }
    return {**{key: value for key, value in kept.items() if key not in gone}, **notes, **own}


def _settled_notes(new: Document, seats: Collection[str] | None) -> set[str]:
    """Adoption notes of the whole file that no entry of a seat needs any more; a seat that left the tree keeps
    its own mark, and does not speak for the others."""
    origins = {e.get("origin") for key, e in new.built.items() if seats is None or key in seats}
    gone: set[str] = set()
    if EXCHANGE not in origins:
        gone |= set(_ADOPTION_NOTES)
    if not any(isinstance(origin, str) and origin.startswith("profile:") for origin in origins):
        gone |= {"adopted_profile"}
    return gone

"""The sidecar's document: its sections, and text to record and back. Reads no file.

`parse` is the one reader: stamps, verdicts, the rail and every write judge a file by it. It is hostile to
what is malformed (a whole file is good or `Unreadable`, never half of one) and mild to what is absent.

A damaged file is noticed by `digest`, the hash of everything else in canonical form, so re-indenting a file
harms nothing. Edit one by hand and delete that line. History of `format`: 1, the first.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
Scalar: TypeAlias = str | int | float
Built: TypeAlias = "Mapping[str, Json]"  # of one seat: digests by input, and who measured it

FORMAT = 1
SECTIONS = ("kernels", "runtime", "race", "provenance", "built")
INPUTS = ("source", "headers", "flags", "compiler", "workload", "protocol")
PROTECTED_NOTES = frozenset({"binary", "platform", "arch", "box", "written", "features", "features_known"})
MAX_BYTES = 16 << 20
MAX_DEPTH = 12
_NAME = re.compile(r"[A-Za-z0-9_.\-]{1,128}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Document:
    """One sidecar. ``mtime_s`` is the file's time in whole seconds, 0 for one that is in no file."""

    kernels: Mapping[str, str] = field(default_factory=dict)
    runtime: Mapping[str, Json] = field(default_factory=dict)
    race: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)
    provenance: Mapping[str, Json] = field(default_factory=dict)
    built: Mapping[str, Built] = field(default_factory=dict)
    mtime_s: int = 0

    @property
    def box(self) -> str:
        """The identity that this file claims: `applied_box` first, then `box`, "" for none."""
        for key in ("applied_box", "box"):
            value = self.provenance.get(key)
            if isinstance(value, str) and value:
                return value
        return ""

    def outvoted(self, key: str) -> str:
        """The winner of the entry's own race, where the entry names another row: it was set by hand. "" otherwise."""
        raced = self.race.get(key, {}).get("winner", "")
        return raced if isinstance(raced, str) and key in self.kernels and raced != self.kernels[key] else ""

    def unraced(self, key: str) -> bool:
        """Does the entry stand without a race that names a winner?"""
        raced = self.race.get(key, {}).get("winner")
        return bool(self.kernels.get(key)) and not (isinstance(raced, str) and raced)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A file from which nothing is believed, and why. ``failed``: the read failed, the file may be good."""

    why: str
    failed: bool = False


class _Malformed(Exception):
    pass


def parse(data: bytes, mtime_s: int = 0) -> Document | Unreadable:
    """Bytes of a file to a `Document`, or the reason why none of it counts."""
    try:
        return _document(_load(data), mtime_s)
    except _Malformed as problem:
        return Unreadable(str(problem))


def load(data: bytes) -> dict[str, Json]:
    """The outermost object of a JSON file, held to the limits of a sidecar.

    :raises ValueError: with what is wrong about it.
    """
    try:
        return _load(data)
    except _Malformed as problem:
        raise ValueError(str(problem)) from problem


def _load(data: bytes) -> dict[str, Json]:
    if not data.strip():
        raise _Malformed("the file is empty")
    if len(data) > MAX_BYTES:
        raise _Malformed(f"{len(data)} bytes are more than the {MAX_BYTES} a sidecar may have")
    try:
        root = json.loads(data.decode(), object_pairs_hook=_once, parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise _Malformed(f"not UTF-8 at byte {error.start}") from error
    except RecursionError as error:
        raise _Malformed(f"nested deeper than {MAX_DEPTH}") from error
    except json.JSONDecodeError as error:
        raise _Malformed(f"not JSON at line {error.lineno} column {error.colno}: {error.msg}") from error
    except ValueError as error:  # an integer of thousands of digits
        raise _Malformed(f"not a number that fits: {error}") from error
    if not isinstance(root, dict):
        raise _Malformed("the outermost value is not an object")
    _sane(root, 1)
    return root


def _once(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise _Malformed(f"the key {next(n for n in names if names.count(n) > 1)!r} stands twice")
    return found


def _no_constant(word: str) -> Json:
    raise _Malformed(f"{word} is not a number")


def _sane(value: Json, depth: int) -> None:
    """No infinity, no half of a surrogate pair, no deep nest: whatever is read can be written again."""
    match value:
        case _ if depth > MAX_DEPTH:
            raise _Malformed(f"nested deeper than {MAX_DEPTH}")
        case float() if not math.isfinite(value):
            raise _Malformed("a number is too large")
        case str() if not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
            raise _Malformed("a string holds half of a surrogate pair")
        case list():
            for item in value:
                _sane(item, depth + 1)
        case dict():
            for key, item in value.items():
                _sane(key, depth)
                _sane(item, depth + 1)


def _document(root: dict[str, Json], mtime_s: int) -> Document:
    if strange := [key for key in root if key not in (*SECTIONS, "format", "digest")]:
        raise _Malformed(f"{strange[0]!r} is no section of a sidecar")
    version = root.get("format", FORMAT)
    if type(version) is not int or version < 1:
        raise _Malformed("`format` is not a number from 1")
    if version > FORMAT:
        raise _Malformed(f"written in format {version}; this tunebuild reads up to {FORMAT}")
    _check_digest(root)
    return Document(
        kernels={k: v for k, v in _names("kernels", root).items() if isinstance(v, str)},
        runtime=_section("runtime", root),
        race={k: _table("race", k, v) for k, v in _names("race", root).items()},
        provenance=_section("provenance", root),
        built={k: _table("built", k, v) for k, v in _names("built", root).items()},
        mtime_s=mtime_s,
    )


def _check_digest(root: dict[str, Json]) -> None:
    if "digest" not in root:
        return
    recorded = root["digest"]
    if not isinstance(recorded, str) or not _DIGEST.fullmatch(recorded):
        raise _Malformed("`digest` is not a sha256 digest")
    if recorded != digest_of(root):
        raise _Malformed("the digest differs: the file is damaged, or was edited without deleting `digest`")


def _section(name: str, root: Mapping[str, Json]) -> dict[str, Json]:
    section = root.get(name, {})
    if not isinstance(section, dict):
        raise _Malformed(f"`{name}` is not an object")
    return section


def _names(name: str, root: Mapping[str, Json]) -> dict[str, Json]:
    section = _section(name, root)
    if wrong := [key for key in section if not is_name(key)]:
        raise _Malformed(f"`{name}` holds {wrong[0][:80]!r}, which is no name")
    winners = section.values() if name == "kernels" else ()
    if odd := [winner for winner in winners if isinstance(winner, str) and winner and not is_name(winner)]:
        raise _Malformed(f"`kernels` holds the winner {odd[0][:80]!r}, which is no name")
    return section


def _table(section: str, key: str, value: Json) -> dict[str, Json]:
    if not isinstance(value, dict):
        raise _Malformed(f"`{section}.{key}` is not an object")
    return value


def is_name(text: str) -> bool:
    """May ``text`` name a seat or a row: letters, digits, `_ . -`, at most 128."""
    return _NAME.fullmatch(text) is not None


def digest_of(root: Mapping[str, Json]) -> str:
    """`sha256:…` of everything but `digest` itself, in canonical form."""
    rest = {key: value for key, value in root.items() if key != "digest"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def render(document: Document) -> bytes:
    """The file's bytes: sorted, indented, with `format` and `digest`; empty sections are left out."""
    root: dict[str, Json] = {"format": FORMAT}
    for name in SECTIONS:
        section: Mapping[str, Json] = getattr(document, name)
        if section or name in ("kernels", "provenance"):
            root[name] = dict(section)
    root["digest"] = digest_of(root)
    return (json.dumps(root, sort_keys=True, indent=2, allow_nan=False) + "\n").encode()

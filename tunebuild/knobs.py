"""A typed reader of a sidecar's `runtime` section, for libraries. The framework itself never reads knobs.

Knobs describe the box, so they hold for a file that is complete, lacks entries, has another version or is
older than the binary; of a foreign or unreadable file nothing is applied. A negative number means unset, 0
is a value. A name nobody declared or a value out of range is refused by name; the others still apply.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from tunebuild.document import Document, Json
from tunebuild.model import Verdict
from tunebuild.verdict import Found

_HOLDS = frozenset({"none", "missing", "version", "stale_binary"})


@dataclass(frozen=True, slots=True)
class Knob:
    """A knob that a library knows. ``least`` and ``most`` bound numbers; ``receipt``: told, never applied."""

    name: str
    kind: Literal["int", "float", "text"] = "int"
    least: float = 0
    most: float = 2**31 - 1
    receipt: bool = False


@dataclass(frozen=True, slots=True)
class Applied:
    """Values to apply, one log line for each, and what was refused with the reason."""

    values: dict[str, int | float | str]
    log: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


def read(found: Found, judged: Verdict, known: Iterable[Knob]) -> Applied:
    """The knobs of one sidecar that a library may apply under this verdict."""
    if judged.reason not in _HOLDS or not isinstance(found, Document):
        return Applied({})
    declared = {knob.name: knob for knob in known}
    values: dict[str, int | float | str] = {}
    log, refused = [], []
    for name, value in sorted(found.runtime.items()):
        knob = declared.get(name)
        if knob is None:
            refused.append(f"{name}: no knob of this library")
        elif why := _objection(knob, value):
            refused.append(f"{name} = {value!r}: {why}")
        elif knob.receipt:
            log.append(f"{name} = {value} (as recorded)")
        elif not _unset(value) and isinstance(value, int | float | str):
            values[name] = int(value) if knob.kind == "int" else value
            log.append(f"{name} = {value}")
    return Applied(values, tuple(log), tuple(refused))


def _unset(value: Json) -> bool:
    return isinstance(value, int | float) and value < 0


def _objection(knob: Knob, value: Json) -> str:
    if knob.kind == "text":
        return "" if isinstance(value, str) else "expected text"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "expected a number"
    if _unset(value):
        return ""
    if knob.kind == "int" and value != int(value):
        return "expected a whole number"
    if not knob.least <= value <= knob.most:
        return f"must be from {knob.least:g} to {knob.most:g}"
    return ""

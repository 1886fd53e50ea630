"""Rows that cannot be linked, as a tune build found out: remembered until their text or flags change."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

PATH = "build/broken.json"

Kind = Literal["compile", "symbols", "calls"]
"""It does not compile; it defines other symbols than its own; it calls what nothing defines."""


@dataclass(frozen=True, slots=True)
class Broken:
    """``digest``: of the text and flags that failed. ``why``: the tool's words, or ours. ``lacks``: what it calls
    and nothing defines."""

    digest: str
    kind: Kind
    why: str
    lacks: tuple[str, ...] = ()

    @property
    def breaks_link(self) -> bool:
        """It has an object, which the link must do without."""
        return self.kind != "compile"


def row_digest(text: str, flags: Iterable[str]) -> str:
    return hashlib.sha256("\0".join((text, *flags)).encode()).hexdigest()


def read(root: Path) -> dict[str, Broken]:
    """By symbol. What another version or a torn write left counts as nothing: the next build finds out again."""
    try:
        found = json.loads((root / PATH).read_text())
        return {name: Broken(**entry | {"lacks": tuple(entry["lacks"])}) for name, entry in found.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}


def text(rows: Mapping[str, Broken]) -> str:
    return json.dumps({name: asdict(row) for name, row in rows.items()}, sort_keys=True, indent=1)

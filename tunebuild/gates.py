"""Which rows a gate on this box has seen, object by object: the word `ungated` of status, and what release
must still gate. A row is known by the digest of its machine code, so a rebuilt equal object stays gated."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from tunebuild import codegen, emit, graph
from tunebuild.generate import Generated
from tunebuild.model import REFERENCE, Stamps
from tunebuild.resolve import Cell

GATED = "build/gated.json"


def _objects(generated: Generated, cell: Cell) -> str:
    """The digest of everything one row runs: its own object and its companions'."""
    planned = generated.plan.family(cell[0])
    hashed = hashlib.sha256()
    for function in planned.functions:
        path = generated.root / graph.object_path(cell[0], codegen.symbol(function.name, cell[1]))
        try:
            hashed.update(path.read_bytes())
        except OSError:
            return ""
    return hashed.hexdigest()


def _read(root: Path) -> dict[str, str]:
    try:
        found = json.loads((root / GATED).read_text())
        return found if isinstance(found, dict) else {}
    except (OSError, ValueError):
        return {}


def remember(generated: Generated, passed: Iterable[Cell]) -> None:
    """Record rows that passed on this box."""
    root = generated.root
    with emit.locked(root / GATED):
        known = _read(root)
        known |= {
            codegen.symbol(*cell): f"{generated.box.identity}|{_objects(generated, cell)}" for cell in passed
        }
        emit.write_if_changed(root / GATED, json.dumps(known, sort_keys=True, indent=1))


def ungated(generated: Generated, stamps: Stamps) -> frozenset[Cell]:
    """The stamped rows that no gate on this box has seen as they would be built now."""
    known: Mapping[str, str] = _read(generated.root)
    cells = {(stamp.family, stamp.suffix) for stamp in stamps.seats if stamp.suffix != REFERENCE}
    return frozenset(
        cell
        for cell in cells
        if known.get(codegen.symbol(*cell)) != f"{generated.box.identity}|{_objects(generated, cell)}"
    )

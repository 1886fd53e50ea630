"""Which rows a gate on this box has seen: the word `ungated` of status, and what release
must still gate. The evidence is a digest of the row and of all it was judged by, so a rebuilt equal object stays gated
and an edited reference does not."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from tunebuild import codegen, emit, keys
from tunebuild.generate import Generated
from tunebuild.model import REFERENCE, Stamps
from tunebuild.plan import row_flags
from tunebuild.resolve import Cell

GATED = "build/gated.json"
REJECTED = "rejected"


def _evidence(generated: Generated, cell: Cell) -> str:
    """What a gate's word about one row depends on, as a digest: the text of the row and its companions, their
    headers, flags and compiler, the references, oracle and fills, and how cases are made. "" for no row here."""
    planned = generated.plan.family(cell[0])
    family = planned.family
    row = next((row for row in planned.built if row.suffix == cell[1]), None)
    if row is None:
        return ""
    tree = generated.built.get(family.seats[0].key, {})
    parts: list[object] = [
        generated.box.identity,
        row_flags(family, row),
        tree.get("headers"),
        tree.get("compiler"),
    ]
    for function in planned.functions:
        parts.append(
            keys.text_digest(generated.files[codegen.row_path(family.name, function.name, row.suffix)])
        )
        parts.append(keys.text_digest(function.reference.read_text(errors="replace")))
        parts.append((function.args, function.check, function.prepare))
    for path in (*family.support, *((family.oracle,) if family.oracle else ())):
        parts.append(keys.text_digest(path.read_text(errors="replace")))
    return keys.digest(repr(parts).encode())


def _read(root: Path) -> dict[str, str]:
    try:
        found = json.loads((root / GATED).read_text())
        return found if isinstance(found, dict) else {}
    except (OSError, ValueError):
        return {}


def remember(generated: Generated, passed: Iterable[Cell], rejected: Iterable[Cell] = ()) -> None:
    """Record rows that passed on this box, and forget those that no longer do."""
    root = generated.root
    with emit.locked(root / GATED):
        known = _read(root)
        known |= {codegen.symbol(*cell): _evidence(generated, cell) for cell in passed}
        for cell in rejected:
            known[codegen.symbol(*cell)] = REJECTED
        emit.write_if_changed(root / GATED, json.dumps(known, sort_keys=True, indent=1))


def ungated(generated: Generated, stamps: Stamps) -> frozenset[Cell]:
    """The stamped rows that have not passed a gate on this box as they would be built and judged now."""
    known: Mapping[str, str] = _read(generated.root)
    cells = {(stamp.family, stamp.suffix) for stamp in stamps.seats if stamp.suffix != REFERENCE}
    return frozenset(
        cell for cell in cells if known.get(codegen.symbol(*cell), "") != (_evidence(generated, cell) or None)
    )

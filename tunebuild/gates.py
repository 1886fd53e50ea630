"""Which rows a gate on this box has seen: the words `ungated` and `rejected` of status, and what release
must still gate. The evidence is a digest of the row and of all it was judged by, so a rebuilt equal object stays gated
and an edited reference does not."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

from tunebuild import codegen, emit, keys
from tunebuild.generate import Generated
from tunebuild.model import REFERENCE, Stamps
from tunebuild.plan import row_flags
from tunebuild.resolve import Cell

GATED = "build/gated.json"
Word = Literal["ungated", "rejected"]
REJECTED = "rejected "  # and the evidence


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
        (family.project.cflags, row_flags(family, row)),
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
    """Record which rows passed on this box, and which did not."""
    root = generated.root
    with emit.locked(root / GATED):
        known = _read(root)
        known |= {codegen.symbol(*cell): _evidence(generated, cell) for cell in passed}
        for cell in rejected:
            known[codegen.symbol(*cell)] = REJECTED + _evidence(generated, cell)
        emit.write_if_changed(root / GATED, json.dumps(known, sort_keys=True, indent=1))


def marks(generated: Generated, stamps: Stamps) -> dict[Cell, Word]:
    """The stamped rows that have not passed a gate on this box as they would be built and judged now."""
    known: Mapping[str, str] = _read(generated.root)
    found: dict[Cell, Word] = {}
    for cell in {(stamp.family, stamp.suffix) for stamp in stamps.seats if stamp.suffix != REFERENCE}:
        said, evidence = known.get(codegen.symbol(*cell), ""), _evidence(generated, cell)
        if not evidence or said not in (evidence, REJECTED + evidence):
            found[cell] = "ungated"
        elif said != evidence:
            found[cell] = "rejected"
    return found

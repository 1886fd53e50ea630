"""Which rows a gate on this box has seen. Those that it rejected are not stamped, those that it has not seen are
`ungated` in status, and release must still gate them. The evidence is a digest of the row and of all it was judged
by, so a rebuilt equal object stays gated and an edited reference does not."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from tunebuild import built as digests
from tunebuild import codegen, emit, keys
from tunebuild.document import Built
from tunebuild.model import REFERENCE, Box, Stamps
from tunebuild.plan import Plan, row_flags
from tunebuild.resolve import Cell

GATED = "build/gated.json"
Word = str  # "ungated", "ungated at" and the large workloads, or "rejected"
CASES_VERSION = 2  # of how calls are made and judged; another one makes every row ungated
REJECTED = "rejected "  # and the evidence
NOT_AT = " not at "  # after the evidence: the large workloads at which the row was not called


@dataclass(frozen=True, slots=True)
class Tree:
    """What a gate's words are about: generated ``files`` by path, and the digests of what would be measured."""

    root: Path
    plan: Plan
    files: Mapping[str, str]
    built: Mapping[str, Built]
    box: Box


def _evidence(tree: Tree, cell: Cell) -> str:
    """What a gate's word about one row depends on, as a digest: the text of the row and its companions, their
    headers, flags and compiler, the references, oracle and fills, and how cases are made. "" for no row here."""
    planned = tree.plan.family(cell[0])
    family = planned.family
    row = next((row for row in planned.built if row.suffix == cell[1]), None)
    if row is None:
        return ""
    built = tree.built.get(family.seats[0].key, {})
    parts: list[object] = [
        CASES_VERSION,
        tree.box.identity,
        (family.project.cflags, row_flags(family, row)),
        built.get("headers"),
        built.get("compiler"),
    ]
    for function in planned.functions:
        parts.append(keys.text_digest(tree.files[codegen.row_path(family.name, function.name, row.suffix)]))
        parts.append(keys.text_digest(function.reference.read_text(errors="replace")))
        parts.append((function.args, function.check, function.prepare, function.workloads))
    called = [path for _, path in digests.called(tree.plan, planned)]
    for path in (*family.support, *((family.oracle,) if family.oracle else ()), *called):
        parts.append(keys.text_digest(path.read_text(errors="replace")))
    return keys.digest(repr(parts).encode())


def _read(root: Path) -> dict[str, str]:
    try:
        found = json.loads((root / GATED).read_text())
        return found if isinstance(found, dict) else {}
    except (OSError, ValueError):
        return {}


def remember(
    tree: Tree,
    passed: Iterable[Cell],
    rejected: Iterable[Cell] = (),
    unseen: Mapping[Cell, Sequence[str]] = MappingProxyType({}),
) -> None:
    """Record which rows passed on this box, and which did not; ``unseen``: workloads at which some were not called."""
    root = tree.root
    with emit.locked(root / GATED):
        known = _read(root)
        for cell in passed:
            left = NOT_AT + ", ".join(unseen[cell]) if unseen.get(cell) else ""
            known[codegen.symbol(*cell)] = _evidence(tree, cell) + left
        for cell in rejected:
            known[codegen.symbol(*cell)] = REJECTED + _evidence(tree, cell)
        emit.write_if_changed(root / GATED, json.dumps(known, sort_keys=True, indent=1))


def sized(tree: Tree, family: str) -> frozenset[str]:
    """The rows of a family that passed here as they are now, at large workloads as well."""
    known = _read(tree.root)
    said = {
        each.suffix: known.get(codegen.symbol(family, each.suffix), "")
        for each in tree.plan.family(family).built
    }
    return frozenset(
        suffix for suffix, word in said.items() if word and word == _evidence(tree, (family, suffix))
    )


def rejected(tree: Tree) -> dict[Cell, str]:
    """The rows that the gate rejected on this box, as they would be built and judged now, and who says why."""
    refused = {name: word for name, word in _read(tree.root).items() if word.startswith(REJECTED)}
    found: dict[Cell, str] = {}
    for planned in tree.plan.families if refused else ():
        for row in planned.built:
            cell = planned.family.name, row.suffix
            if refused.get(codegen.symbol(*cell), "") == REJECTED + _evidence(tree, cell):
                test = f"`tunebuild test {planned.family.name} --row {row.suffix}`"
                found[cell] = f"the gate rejected it on this box: {test} says why"
    return found


def marks(tree: Tree, stamps: Stamps) -> dict[Cell, str]:
    """The stamped rows that have not passed a gate on this box as they would be built and judged now: ungated,
    ungated at the workloads named, or rejected."""
    known: Mapping[str, str] = _read(tree.root)
    found: dict[Cell, str] = {}
    for cell in {(stamp.family, stamp.suffix) for stamp in stamps.seats if stamp.suffix != REFERENCE}:
        said, evidence = known.get(codegen.symbol(*cell), ""), _evidence(tree, cell)
        word, _, left = said.partition(NOT_AT)
        if not evidence or word not in (evidence, REJECTED + evidence):
            found[cell] = "ungated"
        elif word != evidence:
            found[cell] = "rejected"
        elif left:
            found[cell] = f"ungated at {left}"
    return found

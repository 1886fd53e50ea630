"""Companions without a seat of their own: equal code for equal layout. Pure.

Where seats, or a companion with a seat, may run rows that differ, what was packed by one row's companion is read
by another row. That holds only if every row of a layout packs alike, so it is checked on the generated text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tunebuild import codegen, keys
from tunebuild.errors import Mistake
from tunebuild.plan import Plan, PlannedFamily


def mistakes(
    plan: Plan, files: Mapping[str, str], declined: Iterable[tuple[str, str]]
) -> tuple[Mistake, ...]:
    """One mistake for each companion that two rows of one layout render differently."""
    out = frozenset(declined)
    return tuple(
        mistake
        for planned in plan.families
        if _rows_mix(planned)
        for mistake in _of_family(planned, files, out)
    )


def _rows_mix(planned: PlannedFamily) -> bool:
    family = planned.family
    return len(family.seats) > 1 or any(companion.own_seat for companion in family.companions)


def _of_family(
    planned: PlannedFamily, files: Mapping[str, str], declined: frozenset[tuple[str, str]]
) -> Iterable[Mistake]:
    family = planned.family
    for function in planned.functions[1:]:
        if function.companion is None or function.companion.own_seat:
            continue
        first: dict[tuple[object, ...], tuple[str, str]] = {}
        for row in planned.built:
            if (family.name, row.suffix) in declined:
                continue
            name = codegen.symbol(function.name, row.suffix)
            text = files[codegen.row_path(family.name, function.name, row.suffix)]
            normal = keys.normalised(text.replace(name, function.name))
            # Flags decide code as text does: rows of two instruction sets may still pack alike.
            suffix, known = first.setdefault(row.layout, (row.suffix, normal))
            if known != normal and not _same_but_for_includes(known, normal):
                keyed = ", ".join(family.layout) or "nothing"
                yield Mistake(
                    str(function.template or family.project.file), 1, 1, f"family.{family.name}.layout",
                    f"{function.name} differs between {suffix} and {row.suffix}, whose layout ({keyed}) is equal",
                    "add to `layout` what decides the difference, or render the companion from layout values alone",
                )  # fmt: skip
                break


def _same_but_for_includes(one: str, other: str) -> bool:
    def body(text: str) -> list[str]:
        return [line for line in text.splitlines() if not line.lstrip().startswith("#include")]

    return body(one) == body(other)

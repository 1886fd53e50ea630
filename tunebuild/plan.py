"""Manifest + compilers -> what is compiled here, and why the rest is not. Pure.

A plan lists, for one target (this machine, or the target of a named cross toolchain), each function of
each family with its rows. A row that cannot be compiled here keeps its place in the grid and carries the
reason: of another architecture (counted, not generated), or skipped (its optional toolchain is absent or a
flag is rejected).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from tunebuild import features
from tunebuild.model import Argument, Call, Check, Companion, Family, Function, Isa, Manifest, Row, Workload

Place = Literal["built", "other architecture", "skipped"]


@dataclass(frozen=True, slots=True)
class PlannedRow:
    row: Row
    place: Place
    why: str = ""


@dataclass(frozen=True, slots=True)
class PlannedFunction:
    """A family's own function or a companion's: what has rows, a reference and perhaps a driver."""

    name: str
    family: Family
    companion: Companion | None
    function: Function
    reference: Path
    template: Path | None
    args: tuple[Argument, ...]
    workloads: tuple[Workload, ...]
    check: Check | None
    prepare: tuple[Call, ...]

    @property
    def driven(self) -> bool:
        """Whether it is called by the worker: a family always, a companion that has args of its own."""
        return self.companion is None or bool(self.args)


@dataclass(frozen=True, slots=True)
class PlannedFamily:
    family: Family
    functions: tuple[PlannedFunction, ...]  # the family's own first
    rows: tuple[PlannedRow, ...]
    built: tuple[Row, ...] = field(init=False)

    def __post_init__(self) -> None:
        built = tuple([planned.row for planned in self.rows if planned.place == "built"])
        object.__setattr__(self, "built", built)


@dataclass(frozen=True, slots=True)
class Plan:
    """``arch`` is the target's; ``toolchain`` is "" for this machine's default compiler."""

    manifest: Manifest
    families: tuple[PlannedFamily, ...]
    arch: str
    toolchain: str = ""

    def family(self, name: str) -> PlannedFamily:
        return next(planned for planned in self.families if planned.family.name == name)


CompilerWord = Callable[[Family, str], str]
"""(family, toolchain name) -> "" when that compiler serves this plan's target, else why it does not."""

FlagsWord = Callable[[Family, str, tuple[str, ...]], str]
"""(family, toolchain name, flags) -> "" when the compiler takes these flags, else why not."""


def functions_of(family: Family) -> tuple[PlannedFunction, ...]:
    own = PlannedFunction(
        family.name,
        family,
        None,
        family.function,
        family.reference,
        family.template,
        family.args,
        family.workloads,
        family.check,
        family.prepare,
    )
    return (
        own,
        *(
            PlannedFunction(
                companion.name,
                family,
                companion,
                companion.function,
                companion.reference,
                companion.template,
                companion.args,
                companion.workloads,
                companion.check,
                companion.prepare,
            )
            for companion in family.companions
        ),
    )


def isa_of(family: Family, row: Row) -> Isa | None:
    return next((isa for isa in family.project.isas if isa.name == row.isa), None)


def row_flags(family: Family, row: Row) -> tuple[str, ...]:
    """The flags after build and toolchain: isa, flag set, the row's own; the last wins."""
    isa = isa_of(family, row)
    chosen = next((flags for flags in family.project.flags if flags.name == row.flags), None)
    return (*(isa.cflags if isa else ()), *(chosen.cflags if chosen else ()), *row.cflags)


def flags_of_rows(family: Family) -> Callable[[Row], tuple[str, ...]]:
    """`row_flags` of many rows of one family: worked out once for each instruction set and flag set."""
    known: dict[tuple[str, str, tuple[str, ...]], tuple[str, ...]] = {}

    def flags(row: Row) -> tuple[str, ...]:
        key = row.isa, row.flags, row.cflags
        if key not in known:
            known[key] = row_flags(family, row)
        return known[key]

    return flags


def wherever(plan: Plan) -> Plan:
    """The plan of a machine of this architecture that has every compiler and flag: its skipped rows are built.

    Whether an optional toolchain is here must not decide what was measured."""

    def built(planned: PlannedRow) -> PlannedRow:
        return PlannedRow(planned.row, "built") if planned.place == "skipped" else planned

    if all(planned.place != "skipped" for family in plan.families for planned in family.rows):
        return plan
    return replace(
        plan,
        families=tuple(replace(family, rows=tuple(map(built, family.rows))) for family in plan.families),
    )


def skipped(plan: Plan) -> Plan:
    """The plan of the skipped rows alone, as if they were built."""
    return replace(
        plan,
        families=tuple(
            replace(
                family,
                rows=tuple(PlannedRow(one.row, "built") for one in family.rows if one.place == "skipped"),
            )
            for family in plan.families
        ),
    )


def plan(
    manifest: Manifest,
    arch: str,
    compiler_word: CompilerWord,
    flags_word: FlagsWord,
    toolchain: str = "",
    *,
    everything: bool = False,
) -> Plan:
    """Place every row of ``manifest`` for a target of architecture ``arch``; ``everything`` builds them all."""

    def place(family: Family, row: Row) -> tuple[Place, str]:
        isa = isa_of(family, row)
        wanted = (isa.arch if isa else "") or features.arch_of(row.requires)
        if wanted and wanted != arch and not everything:
            return "other architecture", f"needs {wanted}, the target is {arch}"
        if why := compiler_word(family, row.toolchain):
            return "skipped", why
        if why := flags_word(family, row.toolchain, row_flags(family, row)):
            return "skipped", why
        return "built", ""

    def placed(family: Family) -> tuple[PlannedRow, ...]:
        """What decides a place is the same for many rows, and is asked once."""
        known: dict[tuple[str, str, str, str, tuple[str, ...]], tuple[Place, str]] = {}
        rows: list[PlannedRow] = []
        for row in family.rows:
            decides = row.isa, row.requires, row.toolchain, row.flags, row.cflags
            if decides not in known:
                known[decides] = place(family, row)
            rows.append(PlannedRow(row, *known[decides]))
        return tuple(rows)

    return Plan(
        manifest,
        tuple(PlannedFamily(family, functions_of(family), placed(family)) for family in manifest.families),
        arch,
        toolchain,
    )

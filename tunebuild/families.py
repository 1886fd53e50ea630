"""One `[family.X]` table to a `Family`: its files, rows, chain, seats, companions and calls."""

from __future__ import annotations

import os
import re
from collections import ChainMap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from tunebuild import arguments, expressions, files, grid, prototype
from tunebuild.flags import check_flags
from tunebuild.model import (
    REFERENCE,
    ChainEntry,
    Companion,
    Family,
    Function,
    Project,
    Row,
    Seat,
    Value,
    Workload,
)
from tunebuild.positions import KeyPath
from tunebuild.records import Notes
from tunebuild.tables import CompanionTable, FamilyTable, SeatTable, Text

MAX_NAME = 64
HINT_FALLBACK = "vec8_u2"
_DEFINED = re.compile(r"([A-Za-z_]\w*)\s*\([^;{}()]*\)\s*\{", re.ASCII)
# `main` is a program's; the others name files that stand beside a family's own: its entry, or its driver.
_TAKEN = frozenset({"main", "status", "interface", "drivers"})


@dataclass(frozen=True, slots=True)
class Setting:
    """What a family is read in: its project, and the functions of all families by name."""

    project: Project
    names: grid.Names
    functions: Mapping[str, Function]
    notes: Notes


def function_of(name: str, text: str, path: KeyPath, notes: Notes) -> Function | None:
    """The prototype of the family or companion ``name``; None, and noted, when it is not one."""
    if problem := name_problem(name):
        notes.add(path, *problem)
    where = (*path, "prototype")
    try:
        function = prototype.parse(text)
    except prototype.PrototypeError as error:
        notes.add(where, f"no C prototype: {error.what} (column {error.column} of it)", error.fix)
        return None
    if function.name != name:
        notes.add(where, f"it declares `{function.name}`", f"name the function `{name}`, or its table so")
    reserved = {"work", "cache", "weight", "fill"}
    for parameter in function.parameters:
        if not parameter.pointer and parameter.name in reserved:
            what = f"the parameter `{parameter.name}` has the name of a workload's key"
            notes.add(where, what, "rename the parameter")
    return function


def name_problem(name: str) -> tuple[str, str] | None:
    """Why nothing can be a family or companion of this name, with what to write instead."""
    try:
        prototype.check_name(name)
    except prototype.PrototypeError as error:
        return error.what, error.fix or "write letters, digits and _, not a digit first"
    if name in _TAKEN or len(name) > MAX_NAME:
        return f"`{name}` cannot name a family", f"choose another name of at most {MAX_NAME} letters"
    if "__" in name:
        return f"`{name}`: two underscores part a family from its row", "use a single one"
    return None


def read(name: str, table: FamilyTable, function: Function, setting: Setting) -> Family | None:
    """The family; None when its files cannot be told. Mistakes go to the setting's notes."""
    path: KeyPath = ("family", name)
    notes = setting.notes
    hints = table.hints or ("full" if table.source else "")
    sources = _sources(name, table, setting, path)
    made = _rows(name, table, hints, setting, path)
    known = {row.suffix: row for row in made.rows}
    siblings = {
        other: declared
        for other, entry in table.companion.items()
        if (declared := function_of(other, entry.prototype, (*path, "companion", other), notes))
    }
    site = _site(table, function, made.rows, siblings, setting, path)
    tables = arguments.Tables(table.args, table.workload, table.check, table.prepare, table.domain)
    said = arguments.read(site, tables)
    family_folder = sources.reference.parent if sources else setting.project.templates / name
    companions = [
        _companion(other, table.companion[other], declared, family_folder, site, setting)
        for other, declared in siblings.items()
    ]
    seats = _seats(name, table.seat, site, said.workloads)
    fallback = _chain(table.fallback, known, hints, (*path, "fallback"), notes)
    pin = _pin(table.pin, known, hints, (*path, "pin"), notes)
    oracle = _file(setting, table.oracle, (*path, "oracle")) if table.oracle else None
    if sources is None:
        return None
    return Family(
        name=name,
        module=table.module or setting.project.name,
        project=setting.project,
        function=function,
        reference=sources.reference,
        template=sources.template,
        rows=made.rows,
        fallback=fallback,
        seats=seats,
        args=said.args,
        workloads=said.workloads,
        check=said.check,
        layout=table.layout,
        prepare=said.prepare,
        companions=tuple(filter(None, companions)),
        support=sources.support,
        oracle=oracle,
        source=sources.source,
        hints=hints,
        pin=pin,
        domain=table.domain,
        state=table.state,
        removed=made.removed,
    )


def check_alone(name: str, table: FamilyTable, setting: Setting) -> None:
    """Note the mistakes of a family whose prototype cannot be read: files, rows, chain and pin need none."""
    path: KeyPath = ("family", name)
    hints = table.hints or ("full" if table.source else "")
    _sources(name, table, setting, path)
    made = _rows(name, table, hints, setting, path)
    known = {row.suffix: row for row in made.rows}
    _chain(table.fallback, known, hints, (*path, "fallback"), setting.notes)
    _pin(table.pin, known, hints, (*path, "pin"), setting.notes)


def _rows(name: str, table: FamilyTable, hints: str, setting: Setting, path: KeyPath) -> grid.Grid:
    notes = setting.notes
    for index, row in enumerate(table.row):
        check_flags(row.cflags, (*path, "row", index, "cflags"), notes)
    made = grid.rows(table.grid, table.row, hints, table.layout, setting.names, path, notes)
    if not made.rows and not notes.within((*path, "grid")) and not notes.within((*path, "row")):
        notes.add(path, "it has no rows", f"write [family.{name}.grid.axes], such as u = [1, 2, 4]")
    return made


def _site(
    table: FamilyTable,
    function: Function,
    rows: tuple[Row, ...],
    siblings: Mapping[str, Function],
    setting: Setting,
    path: KeyPath,
) -> arguments.Site:
    support = _support(table, setting, path)
    # Nearest first, and without a copy of every family for each of thousands.
    own: dict[str, Function | None] = {**dict.fromkeys(support), **siblings}
    callables = ChainMap(own, cast("dict[str, Function | None]", setting.functions))
    values = _common_values(rows) if _has_scratch(table) else {}
    return arguments.Site(function, path, setting.notes, values, callables, support)


# --- files -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Sources:
    reference: Path
    template: Path | None
    source: Path | None
    support: tuple[Path, ...]


def _file(setting: Setting, text: str, path: KeyPath) -> Path | None:
    project = setting.project
    return files.inside(project.root, project.templates, text, "file", path, setting.notes)


def _sources(name: str, table: FamilyTable, setting: Setting, path: KeyPath) -> _Sources | None:
    support = tuple(
        file
        for index, text in enumerate(table.support)
        if (file := _file(setting, text, (*path, "support", index)))
    )
    if table.source:
        for key, text in (("reference", table.reference), ("template", table.template)):
            if text:
                what = "a loop-hint family has one source, which is its reference as well"
                setting.notes.add((*path, key), what, f"remove {key}, or source")
        source = _file(setting, table.source, (*path, "source"))
        return _Sources(source, None, source, support) if source else None
    if table.hints:
        setting.notes.add((*path, "hints"), "hints without a source", 'write source = "FILE.c"')
    reference = _file(setting, table.reference or f"{name}/reference.c", (*path, "reference"))
    template = _file(setting, table.template or f"{name}/kernel.c.j2", (*path, "template"))
    if reference is None or template is None:
        return None
    return _Sources(reference, template, None, support)


def _support(table: FamilyTable, setting: Setting, path: KeyPath) -> frozenset[str]:
    """The functions that the support files define, by a look at their text."""
    found: set[str] = set()
    for text in table.support:
        file = files.inside(setting.project.root, setting.project.templates, text, "file", path, Notes())
        if file is not None:
            found.update(_DEFINED.findall(file.read_text(encoding="utf-8", errors="replace")))
    return frozenset(found - prototype.KEYWORDS)


def _has_scratch(table: FamilyTable) -> bool:
    tables = [table.args, *(companion.args for companion in table.companion.values())]
    return any(argument.scratch for args in tables for argument in args.values())


def _common_values(rows: tuple[Row, ...]) -> dict[str, Value]:
    """The values that every row has, as the first one has them: what a size of scratch may use."""
    common = dict(rows[0].values) if rows else {}
    for row in rows:
        names = {name for name, _ in row.values}
        if not common.keys() <= names:
            common = {name: value for name, value in common.items() if name in names}
    return common


# --- chain and pin ---------------------------------------------------------------------------------


def _chain(
    text: Text, rows: Mapping[str, Row], hints: str, path: KeyPath, notes: Notes
) -> tuple[ChainEntry, ...]:
    """``suffix[:requires]`` entries, all of them checked; a loop-hint chain ends in `vec8_u2`."""
    entries = text.split(";") if isinstance(text, str) else list(text)
    chain: list[ChainEntry] = []
    for index, entry in enumerate(entries):
        if not entry.strip():
            continue
        word, _, requires = entry.partition(":")
        where = path if isinstance(text, str) else (*path, index)
        suffix = _row_named(word.strip(), rows, hints)
        if suffix not in rows and suffix != REFERENCE and rows:
            what = f"the fallback `{word.strip()}` names no row"
            if "," in word:
                notes.add(where, what, "entries of a chain stand apart by `;`")
            else:
                notes.unknown(where, what, word.strip(), (REFERENCE, *rows))
        expr = grid.requires_text(requires)
        grid.check_requires(expr, where, notes)
        chain.append(ChainEntry(suffix, expr))
    last = _row_named(HINT_FALLBACK, rows, hints)
    if hints and last in rows and all(entry.suffix not in (last, REFERENCE) for entry in chain):
        chain.append(ChainEntry(last))
    return tuple(chain)


def _row_named(word: str, rows: Mapping[str, Row], hints: str) -> str:
    """A loop-hint row of the plain instruction set may go by its hints alone."""
    base = f"isa_base_{word}"
    return base if hints and word not in rows and base in rows else word


def _pin(pin: str, rows: Mapping[str, Row], hints: str, path: KeyPath, notes: Notes) -> str:
    suffix = _row_named(pin, rows, hints)
    if pin and suffix not in rows and rows:
        notes.unknown(path, f"the pin `{pin}` names no row", pin, rows)
    return suffix


# --- seats -----------------------------------------------------------------------------------------


def _seats(
    family: str, tables: Mapping[str, SeatTable], site: arguments.Site, workloads: Iterable[Workload]
) -> tuple[Seat, ...]:
    if not tables:
        return (Seat("", "", family),)
    notes, path = site.notes, (*site.path, "seat")
    names = list(tables)
    conditions: list[expressions.Expression | None] = []
    for name, table in tables.items():
        if not re.fullmatch(r"[A-Za-z_]\w{0,63}", name, re.ASCII):
            notes.add((*path, name), f"`{name}` is no name", "letters, digits and _")
        last = name == names[-1]
        if last and table.when:
            what = "the last seat takes the rest"
            notes.add((*path, name, "when"), what, "remove its when, or add a seat after it")
        if not last and not table.when and not notes.within((*path, name)):
            notes.add((*path, name), "only the last seat takes the rest", 'write when = "n <= 8"')
        conditions.append(_condition(table.when, site, (*path, name, "when")) if table.when else None)
    if not notes.within(path):
        _check_reached(names, conditions, workloads, path, notes)
    return tuple(
        Seat(name, "" if name == names[-1] else table.when, f"{family}.{name}")
        for name, table in tables.items()
    )


def _condition(when: str, site: arguments.Site, path: KeyPath) -> expressions.Expression | None:
    expression = grid.parsed(when, frozenset(site.integers()), path, site.notes)
    if expression is None:
        return None
    try:
        expressions.to_c(expression)
    except expressions.ExpressionError as error:
        site.notes.add(path, f"`{when}`: {error.what}", error.fix)
        return None
    return expression


def _check_reached(
    names: list[str],
    conditions: list[expressions.Expression | None],
    workloads: Iterable[Workload],
    path: KeyPath,
    notes: Notes,
) -> None:
    reached: set[str] = set()
    for workload in workloads:
        values: dict[str, Value] = dict(workload.scalars)
        taken = names[-1]
        for name, condition in zip(names, conditions, strict=True):
            if condition is not None and expressions.evaluate(condition, values):
                taken = name
                break
        reached.add(taken)
    for name in names if reached else ():
        if name not in reached:
            fix = "add a workload of its sizes, or remove the seat"
            notes.add((*path, name), "no workload reaches this seat", fix)


# --- companions ------------------------------------------------------------------------------------


def _companion(
    name: str,
    table: CompanionTable,
    function: Function,
    family_folder: Path,
    site: arguments.Site,
    setting: Setting,
) -> Companion | None:
    path, notes = (*site.path, "companion", name), setting.notes
    folder = os.path.relpath(family_folder, setting.project.templates)
    template = _file(setting, table.template or f"{folder}/{name}.c.j2", (*path, "template"))
    reference = _file(setting, table.reference or f"{folder}/{name}.c", (*path, "reference"))
    said = arguments.Calls()
    if table.own_seat or table.args or table.workload or table.check:
        own = arguments.Site(function, path, notes, site.row_values, site.callables, site.support)
        said = arguments.read(own, arguments.Tables(table.args, table.workload, table.check, table.prepare))
    elif table.prepare:
        notes.add((*path, "prepare"), "prepare without args", f"write [{'.'.join(map(str, path))}.args]")
    if template is None or reference is None:
        return None
    return Companion(
        name,
        function,
        template,
        reference,
        table.own_seat,
        said.args,
        said.workloads,
        said.check,
        said.prepare,
    )

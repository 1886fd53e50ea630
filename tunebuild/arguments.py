"""How a function is called for the gate and the race: its arguments, workloads, `prepare` and gate cases."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import get_args

from tunebuild import expressions, prototype
from tunebuild.cases import FILLS, cases
from tunebuild.grid import parsed
from tunebuild.model import (
    ELEMENT_BYTES,
    Argument,
    Call,
    Check,
    ElementType,
    Function,
    Kind,
    Parameter,
    Value,
    Workload,
)
from tunebuild.positions import KeyPath
from tunebuild.records import Notes
from tunebuild.tables import ArgTable, CheckTable, WorkloadTable

ELEMENT_TYPES: tuple[str, ...] = get_args(ElementType)
DEFAULT_WORKLOAD = "default"
DEFAULT_ELEMENTS = 4096
DEFAULT_FLOAT = 1.5
MAX_ELEMENTS = 2**36
MIN_WEIGHT, MAX_WEIGHT = 1e-6, 1_000_000
_TYPED = re.compile(r"\s*(\w+)\s*\[(.*)\]\s*", re.ASCII | re.DOTALL)
_CALL = re.compile(r"\s*([A-Za-z_]\w*)\s*\((.*)\)\s*;?\s*", re.ASCII | re.DOTALL)
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_LOOSE = re.compile(r"void\b|\bchar\b|u?int8_t")  # a pointer to these may point to anything


Tried = tuple[str, tuple[tuple[str, int | float], ...]]  # what sizes these are, and the scalars


@dataclass(frozen=True, slots=True)
class Site:
    """One function that is called, and what its tables may name."""

    function: Function
    path: KeyPath  # of its family or companion
    notes: Notes
    row_values: Mapping[str, Value]  # of one row, for sizes of scratch
    callables: Mapping[str, Function | None]  # for prepare; None: a support function, parameters unknown
    support: frozenset[str]  # functions that may fill a buffer

    def integers(self) -> tuple[str, ...]:
        return tuple(p.name for p in self.function.parameters if prototype.is_integer(p.ctype))


@dataclass(frozen=True, slots=True)
class Tables:
    """What a family or a companion says about its calls."""

    args: Mapping[str, ArgTable]
    workload: Mapping[str, WorkloadTable]
    check: CheckTable | None
    prepare: tuple[str, ...]
    domain: str = ""


@dataclass(frozen=True, slots=True)
class Calls:
    args: tuple[Argument, ...] = ()
    workloads: tuple[Workload, ...] = ()
    check: Check | None = None
    prepare: tuple[Call, ...] = ()


def read(site: Site, tables: Tables) -> Calls:
    """Everything about the calls of one function; mistakes go to ``site.notes``."""
    scalars = _scalar_names(site, tables.workload)
    arguments = _arguments(site, tables.args, scalars)
    workloads = _workloads(site, tables, scalars, arguments)
    prepare = tuple(
        call
        for index, text in enumerate(tables.prepare)
        if (call := _prepare(site, text, arguments, scalars, (*site.path, "prepare", index)))
    )
    _unused(site, tables, arguments, prepare)
    if not workloads:
        return Calls(arguments, (), None, prepare)
    check = cases(site.function, tables.check, tables.domain, arguments, workloads, site.path, site.notes)
    _check_fills(site, check, tables.check)
    _check_sizes(site, arguments, workloads, check)
    return Calls(arguments, workloads, check, prepare)


def _scalar_names(site: Site, tables: Mapping[str, WorkloadTable]) -> tuple[str, ...]:
    """The prototype's scalars in its order, then those that only workloads name."""
    own = [p.name for p in site.function.parameters if not p.pointer]
    pointers = {p.name for p in site.function.parameters if p.pointer}
    named = [name for table in tables.values() for name in table.scalars if name not in pointers]
    return tuple(dict.fromkeys((*own, *named)))


# --- arguments -------------------------------------------------------------------------------------


def _arguments(site: Site, tables: Mapping[str, ArgTable], scalars: tuple[str, ...]) -> tuple[Argument, ...]:
    """The prototype's parameters in its order, then the other buffers in file order."""
    made: list[Argument] = []
    for index, parameter in enumerate(site.function.parameters):
        table = tables.get(parameter.name)
        path = (*site.path, "args", parameter.name)
        if not parameter.pointer:
            if table is not None:
                site.notes.add(path, f"`{parameter.name}` is a scalar", "give its value in the workloads")
            element = prototype.element(parameter.ctype)
            made.append(Argument(parameter.name, "scalar", element, parameter=index))
        elif table is not None:
            made += _argument(site, parameter.name, table, scalars, tables, parameter, index)
        elif not site.notes.within(path):
            made += _derived(site, parameter, index, alone=not tables)
    named = {parameter.name for parameter in site.function.parameters}
    for name, table in tables.items():
        if name in named:
            continue
        if not _IDENTIFIER.fullmatch(name) or name.startswith("tb_"):
            site.notes.add((*site.path, "args", name), f"`{name}` is no C name", "letters, digits and _")
        made += _argument(site, name, table, scalars, tables, None, -1)
    return tuple(made)


def _derived(site: Site, parameter: Parameter, index: int, *, alone: bool) -> list[Argument]:
    """A buffer without a table: where there are none, as many elements as the one integer says."""
    element, integers = prototype.element(parameter.ctype), site.integers()
    if alone and element and len(integers) == 1 and parameter.ctype.count("*") == 1:
        kind: Kind = "in" if parameter.const else "inout"
        return [Argument(parameter.name, kind, element, integers[0], parameter=index)]
    kind_word = "in" if parameter.const else "inout"
    size = integers[0] if integers else "1"
    site.notes.add(
        (*site.path, "args"),
        f"nothing says how many elements the buffer `{parameter.name}` has",
        f'write {parameter.name} = {{ {kind_word} = "{element or "u8"}[{size}]" }} in its args table',
    )
    return []


def _argument(
    site: Site,
    name: str,
    table: ArgTable,
    scalars: tuple[str, ...],
    tables: Mapping[str, ArgTable],
    parameter: Parameter | None,
    index: int,
) -> list[Argument]:
    path, notes = (*site.path, "args", name), site.notes
    kinds: dict[Kind, str] = {
        "in": table.in_, "out": table.out, "inout": table.inout, "scratch": table.scratch,
    }  # fmt: skip
    given: list[Kind] = [kind for kind, text in kinds.items() if text]
    if table.pointers:
        given.append("pointers")
    if len(given) != 1:
        what = f"{' and '.join(given)} at once" if given else "it is not said what it is"
        if not (notes.within(path) and not given):
            notes.add(path, what, 'write one of in, out, inout, scratch = "f32[n]", or pointers = ["x"]')
        return []
    kind = given[0]
    if kind == "pointers":
        return _pointers(site, name, table, tables, parameter, index)
    typed = _TYPED.fullmatch(kinds[kind])
    if typed is None:
        notes.add((*path, kind), f"`{kinds[kind]}` is no TYPE[ELEMENTS]", "write, for instance, f32[n]")
        return []
    element, size = typed.group(1), typed.group(2).strip()
    if element not in ELEMENT_TYPES:
        notes.unknown((*path, kind), f"`{element}` is no element type", element, ELEMENT_TYPES)
        return []
    known = frozenset(scalars) | (frozenset(site.row_values) if kind == "scratch" else frozenset())
    parsed(size, known, (*path, kind), notes)
    if table.count:
        parsed(table.count, frozenset(scalars), (*path, "count"), notes)
    _check_parameter(site, parameter, kind, element, path)
    _check_valid(site, table.valid, kind, scalars, path)
    _check_fill(site, table.fill, (*path, "fill"))
    return [Argument(name, kind, element, size, table.fill, table.count, (), table.valid, index)]


def _pointers(
    site: Site,
    name: str,
    table: ArgTable,
    tables: Mapping[str, ArgTable],
    parameter: Parameter | None,
    index: int,
) -> list[Argument]:
    path = (*site.path, "args", name, "pointers")
    pointed = frozenset(p.name for p in site.function.parameters if p.pointer) | frozenset(tables)
    for position, other in enumerate(table.pointers):
        if other not in pointed or other == name or (other in tables and tables[other].pointers):
            known = sorted(pointed - {name})
            site.notes.unknown((*path, position), f"`{other}` is no buffer of this call", other, known)
    if parameter is not None and parameter.ctype.count("*") != 2:
        fix = f"`{parameter.ctype}` must be a pointer to pointers, such as `const float *const *`"
        site.notes.add(path, f"`{name}` cannot hold addresses", fix)
    return [Argument(name, "pointers", pointers=table.pointers, parameter=index)]


def _check_parameter(
    site: Site, parameter: Parameter | None, kind: Kind, element: str, path: KeyPath
) -> None:
    """The buffer must be one that the C parameter can point to."""
    if parameter is None:
        return
    if parameter.ctype.count("*") != 1:
        what = f"`{parameter.ctype}` points to pointers"
        site.notes.add((*path, kind), what, 'write pointers = ["NAME"] and a buffer of that name')
        return
    if parameter.const and kind in ("out", "inout"):
        fix = "write in, or remove the const of the prototype"
        site.notes.add((*path, kind), f"`{parameter.name}` is `{parameter.ctype}`: it cannot be {kind}", fix)
    wanted = prototype.element(parameter.ctype)
    if not wanted or _LOOSE.search(parameter.ctype) or ELEMENT_BYTES[wanted] == ELEMENT_BYTES[element]:
        return
    what = f"an element of `{parameter.ctype}` has {ELEMENT_BYTES[wanted]} bytes, {element} has"
    site.notes.add((*path, kind), f"{what} {ELEMENT_BYTES[element]}", f"write {wanted}[...]")


def _check_valid(site: Site, valid: str, kind: Kind, scalars: tuple[str, ...], path: KeyPath) -> None:
    if not valid:
        return
    if kind not in ("out", "inout"):
        site.notes.add((*path, "valid"), f"a buffer that is {kind} is not compared", "remove valid")
    known = frozenset(scalars)
    if site.function.returns != "void":
        known |= {"return"}
    parsed(valid, known, (*path, "valid"), site.notes)


def _check_fill(site: Site, fill: str, path: KeyPath) -> None:
    if fill not in FILLS and fill not in site.support:
        known = (*FILLS, *sorted(site.support))
        site.notes.unknown(path, f"`{fill}` is no fill and no support function", fill, known)


def _check_fills(site: Site, check: Check, table: CheckTable | None) -> None:
    for index, fill in enumerate(check.fills if table and table.fills else ()):
        _check_fill(site, fill, (*site.path, "check", "fills", index))


# --- workloads -------------------------------------------------------------------------------------


def _workloads(
    site: Site, tables: Tables, scalars: tuple[str, ...], arguments: tuple[Argument, ...]
) -> tuple[Workload, ...]:
    if not tables.workload:
        return _default_workload(site)
    buffers = [argument.name for argument in arguments if argument.kind not in ("scalar", "pointers")]
    own = {p.name for p in site.function.parameters}
    used = _words([*_size_texts(arguments), tables.domain, *tables.prepare]) if set(scalars) - own else set()
    needed = [name for name in scalars if name in own or name in used]
    made = [
        _workload(site, name, table, needed, buffers, (*site.path, "workload", name))
        for name, table in tables.workload.items()
    ]
    return tuple(workload for workload in made if workload)


def _default_workload(site: Site) -> tuple[Workload, ...]:
    integers = site.integers()
    own = [p for p in site.function.parameters if not p.pointer]
    if len(integers) == 1:
        values = ((p.name, DEFAULT_ELEMENTS if p.name in integers else DEFAULT_FLOAT) for p in own)
        return (Workload(DEFAULT_WORKLOAD, tuple(values)),)
    if not own:
        return (Workload(DEFAULT_WORKLOAD, ()),)
    if not site.notes.within((*site.path, "workload")):
        values_text = ", ".join(f"{p.name} = ..." for p in own)
        table = ".".join(str(part) for part in (*site.path, "workload", "NAME"))
        site.notes.add(
            site.path, "no workload says at which sizes it is used", f"write [{table}] {values_text}"
        )
    return ()


def _workload(
    site: Site,
    name: str,
    table: WorkloadTable,
    needed: list[str],
    buffers: list[str],
    path: KeyPath,
) -> Workload | None:
    notes = site.notes
    own = {p.name: p for p in site.function.parameters}
    if not re.fullmatch(r"[A-Za-z_][\w.-]{0,63}", name, re.ASCII):
        notes.add(path, f"`{name}` is no name", "letters, digits, _ . and -, at most 64")
    missing = [scalar for scalar in needed if scalar not in table.scalars]
    for scalar in missing:
        if not notes.within((*path, scalar)):
            notes.add(path, f"no value for the scalar `{scalar}`", f"write {scalar} = ...")
    for key, value in table.scalars.items():
        _check_scalar(site, own.get(key), key, value, (*path, key))
    is_weight = MIN_WEIGHT <= table.weight <= MAX_WEIGHT
    if not is_weight:
        fix = f"write a number from {MIN_WEIGHT:g} to {MAX_WEIGHT:,}"
        notes.add((*path, "weight"), f"a weight of {table.weight:g}", fix)
    if table.work:
        _check_work(table, frozenset((*needed, *table.scalars)), (*path, "work"), notes)
    for buffer, fill in table.fill.items():
        if buffer not in buffers:
            notes.unknown((*path, "fill", buffer), f"`{buffer}` is no buffer of this call", buffer, buffers)
        _check_fill(site, fill, (*path, "fill", buffer))
    if missing or not is_weight:
        return None
    values = tuple((key, table.scalars[key]) for key in dict.fromkeys((*needed, *table.scalars)))
    return Workload(name, values, table.work, table.cache, float(table.weight), tuple(table.fill.items()))


def _check_work(table: WorkloadTable, known: frozenset[str], path: KeyPath, notes: Notes) -> None:
    """`work` must be a number, not negative, for the scalars of its own workload."""
    expression = parsed(table.work, known, path, notes)
    if expression is None or any(name not in table.scalars for name in expression.free):
        return
    try:
        count = expressions.evaluate(expression, dict(table.scalars))
    except expressions.ExpressionError as error:
        notes.add(path, error.what, "write the operations of one call, such as 2*n")
        return
    if isinstance(count, bool | str) or count < 0:
        notes.add(path, f"`{table.work}` is {count!r}", "write the operations of one call, such as 2*n")


WORKLOAD_KEYS = tuple(each.name for each in fields(WorkloadTable) if each.name != "scalars")

_LIMITS = {
    f"{sign}{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if sign == "i" else (0, 2**bits - 1)
    for sign in "iu"
    for bits in (8, 16, 32, 64)
}


def _check_scalar(
    site: Site, parameter: Parameter | None, key: str, value: int | float, path: KeyPath
) -> None:
    if parameter is not None and parameter.pointer:
        site.notes.add(path, f"`{key}` is a buffer", f"describe it in [{site.path[0]}.{site.path[1]}.args]")
        return
    element = prototype.element(parameter.ctype) if parameter else "i64"
    if element not in _LIMITS:
        return
    if not isinstance(value, int):
        import difflib

        if parameter is None and difflib.get_close_matches(key, WORKLOAD_KEYS, 1):
            return  # a key of the table, misspelt: what nothing uses is noted
        ctype = parameter.ctype if parameter else "int64_t"
        site.notes.add(path, f"{value} for `{ctype} {key}`", "write an integer")
        return
    low, high = _LIMITS[element]
    if not low <= value <= high:
        ctype = parameter.ctype if parameter else "int64_t"
        site.notes.add(path, f"{value} does not fit `{ctype} {key}`", f"write {low} to {high}")


def _unused(site: Site, tables: Tables, arguments: tuple[Argument, ...], prepare: tuple[Call, ...]) -> None:
    """A scalar that nothing uses is a misspelt one."""
    own = {p.name for p in site.function.parameters}
    extra = {n: w for w, table in tables.workload.items() for n in table.scalars if n not in own}
    if not extra:
        return
    works = [table.work for table in tables.workload.values()]
    used = _words([*_size_texts(arguments), *(a.valid for a in arguments), *works, tables.domain])
    used |= {name for call in prepare for name in call.arguments}
    for name, workload in extra.items():
        if name not in used:
            what = f"nothing uses the scalar `{name}`: the prototype has no such parameter"
            known = [*(p.name for p in site.function.parameters if not p.pointer), *WORKLOAD_KEYS]
            site.notes.unknown((*site.path, "workload", workload, name), what, name, known)


def _size_texts(arguments: Iterable[Argument]) -> list[str]:
    return [text for argument in arguments for text in (argument.size, argument.count)]


def _words(texts: Iterable[str]) -> set[str]:
    return {word for text in texts for word in _IDENTIFIER.findall(text)}


# --- prepare ---------------------------------------------------------------------------------------


def _prepare(
    site: Site, text: str, arguments: tuple[Argument, ...], scalars: tuple[str, ...], path: KeyPath
) -> Call | None:
    match = _CALL.fullmatch(text)
    if match is None:
        site.notes.add(path, f"`{text}` is no call", "write function(argument, argument)")
        return None
    function = match.group(1)
    passed = tuple(part.strip() for part in match.group(2).split(",")) if match.group(2).strip() else ()
    if function not in site.callables:
        what = f"`{function}` is no companion, family or support function"
        site.notes.unknown(path, what, function, site.callables)
        return None
    known = [argument.name for argument in arguments] + list(scalars)
    unknown = [name for name in passed if name not in known and not re.fullmatch(r"-?\d{1,18}", name)]
    for name in unknown:
        site.notes.unknown(path, f"`{name}` is no argument or scalar of this call", name, known)
    called = site.callables[function]
    if called is not None and len(called.parameters) != len(passed):
        count = len(called.parameters)
        site.notes.add(path, f"`{function}` takes {count} arguments, {len(passed)} are given", called.text)
        return None
    if called is not None and not unknown:
        _check_passed(site, called, passed, arguments, path)
    return Call(function, passed)


def _check_passed(
    site: Site, called: Function, passed: tuple[str, ...], arguments: tuple[Argument, ...], path: KeyPath
) -> None:
    buffers = {argument.name for argument in arguments if argument.kind != "scalar"}
    for parameter, name in zip(called.parameters, passed, strict=True):
        if parameter.pointer != (name in buffers):
            word = "a buffer" if parameter.pointer else "a scalar"
            site.notes.add(path, f"`{name}` where `{called.name}` takes {word}", called.text)


# --- sizes -----------------------------------------------------------------------------------------


def _check_sizes(
    site: Site, arguments: tuple[Argument, ...], workloads: tuple[Workload, ...], check: Check
) -> None:
    """Every size and count must be a whole number, not negative, at every size that will be tried."""
    if any(site.notes.within((*site.path, key)) for key in ("args", "workload", "check", "domain")):
        return
    tried = [(f"workload {w.name}", w.scalars) for w in workloads] + [("a gate size", s) for s in check.sizes]
    texts = {
        text: argument.name for argument in arguments for text in (argument.size, argument.count) if text
    }
    for text, name in texts.items():
        expression = expressions.parse(text)
        if expression.free != (text,) or not _plainly_sized(text, site, tried):
            _check_size(site, expression, (*site.path, "args", name), tried)


def _plainly_sized(name: str, site: Site, tried: Iterable[Tried]) -> bool:
    """Is the usual size, a scalar as it is, always a whole number of a sensible size?"""
    given = [dict(scalars).get(name, site.row_values.get(name)) for _, scalars in tried]
    return all(type(value) is int and 0 <= value <= MAX_ELEMENTS for value in given)


def _check_size(
    site: Site, expression: expressions.Expression, path: KeyPath, tried: Iterable[Tried]
) -> None:
    text = expression.text
    for what, scalars in tried:
        values: dict[str, Value] = {**site.row_values, **dict(scalars)}
        given = ", ".join(f"{name} = {values.get(name)}" for name in expression.free)
        try:
            size = expressions.evaluate(expression, values)
        except expressions.ExpressionError as error:
            site.notes.add(path, error.what, 'state the precondition: domain = "..."')
            return
        if isinstance(size, bool) or not isinstance(size, int):
            fix = "write // or ceil_div for a whole number"
            site.notes.add(path, f"`{text}` is {size!r} at {what} ({given})", fix)
            return
        if not 0 <= size <= MAX_ELEMENTS:
            fix = 'state the precondition, such as domain = "n >= 1"' if size < 0 else "make it smaller"
            site.notes.add(path, f"`{text}` is {size} at {what} ({given})", fix)
            return

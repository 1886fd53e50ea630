"""How a function is called to be judged or timed: cases, and the worker's words for them. Pure.

A `Subject` is one function with args of its own, a family or a companion. Its *cases* are calls: sizes,
offsets, fills and a seed. `job_lines` says all of it to the worker (runtime/worker/job.c reads it); rows
whose packed buffers differ in layout or size form *groups*, and the reference is a group of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tunebuild import expressions
from tunebuild.errors import UsageError
from tunebuild.model import (
    ELEMENT_BYTES,
    REFERENCE,
    Argument,
    Check,
    Companion,
    Compare,
    Family,
    Row,
    Value,
    Workload,
)

FILLS = ("normal", "uniform", "zeros", "ramp", "extremes", "denormal", "max", "special")
FLOATS = ("f16", "bf16", "f32", "f64")
Placement = Literal["both", "left", "right"]
Scalars = tuple[tuple[str, int | float], ...]


@dataclass(frozen=True, slots=True)
class Driver:
    """What a tune library says of one function. ``rows`` are suffixes, the reference first."""

    name: str
    result: str  # an element type, "" for void
    oracle: bool
    buffers: tuple[str, ...]
    scalars: tuple[str, ...]
    rows: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Subject:
    """A function as the gate and the race see it. ``family`` names it in replay commands."""

    family: str
    name: str
    args: tuple[Argument, ...]
    check: Check
    workloads: tuple[Workload, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """One call. Offsets (elements) go round over the buffers; the fill "" leaves each argument its own."""

    scalars: Scalars
    offsets: tuple[int, ...] = (0,)
    fill: str = "normal"
    seed: int = 1
    placement: Placement = "both"
    copies: int = 0  # race: what a cold slice walks, 0 hot
    calls: int = 0  # gate: of a row, before each that is judged
    fills: tuple[tuple[str, str], ...] = ()  # by argument; these rule


def subject(family: Family, companion: Companion | None = None) -> Subject:
    """The family, or its companion, as something to call. A companion without workloads has its family's."""
    one = companion or family
    check = one.check or Check(sizes=tuple(w.scalars for w in one.workloads))
    return Subject(family.name, one.name, one.args, check, one.workloads or family.workloads, family.rows)


# --- cases ---------------------------------------------------------------------------------------


def gate_cases(of: Subject) -> tuple[Case, ...]:
    """Every size with every fill, the first fill twice, at one offset and at mixed offsets; then the workloads.

    The first fill comes twice, since the others may hide an error (in a sum that is infinite anyway). The
    offsets go round over sizes and fills. Every call is made flush left and flush right, on two data. A workload
    is called with its own fills, so that what is raced was gated; larger ones are `large_cases`.
    """
    check = of.check
    offsets, fills = check.offsets or (0,), check.fills or ("normal",)
    cases: list[Case] = []
    for at, size in enumerate(check.sizes):
        turn = offsets[at % len(offsets) :] + offsets[: at % len(offsets)]
        calls = [(turn[:1], fills[0]), (turn, fills[0])]
        for number, fill in enumerate(fills[1:] or fills, 1):
            calls.append(((turn[number % len(turn)],), fill))
        cases += [Case(size, offset, fill, seed=len(cases) + n + 1) for n, (offset, fill) in enumerate(calls)]
    for workload in of.workloads:
        if _brief(of, workload):
            cases.append(Case(workload.scalars, offsets, "", seed=len(cases) + 1, fills=workload.fills))
    return tuple(dict.fromkeys(cases))


def large_cases(of: Subject) -> tuple[tuple[str, Case], ...]:
    """The workloads at which a row is called once, not as often as a case: by name."""
    return tuple(
        (workload.name, Case(workload.scalars, (0,), "", seed=1000 + number, fills=workload.fills))
        for number, workload in enumerate(of.workloads)
        if not _brief(of, workload)
    )


GATED_OPERATIONS = 1e8  # of a workload that states its work: a tenth of a second of a plain reference
GATED_BYTES = 4e6  # 512 cubed of a matrix product; an emulator takes a hundred times as long


def _brief(of: Subject, workload: Workload) -> bool:
    """Whether every row and the plain reference are quick enough at a workload for the gate."""
    known = dict(workload.scalars)
    work = expressions.evaluate(expressions.parse(workload.work), known) if workload.work else 0
    return float(work) <= GATED_OPERATIONS and _set_bytes(of, workload)[0] <= GATED_BYTES


def workload_cases(
    of: Subject, *, cache_bytes: int, cold_bytes: int, memory_bytes: int, multiple: float = 4.0
) -> tuple[Case, ...]:
    """One call a workload, as it is timed. A cold one walks copies of ``multiple`` caches, but no more than
    ``cold_bytes``, nor than ``memory_bytes`` over all packed layouts; at least two."""
    cases = []
    for number, workload in enumerate(of.workloads):
        case = Case(workload.scalars, (0,), "", seed=1000 + number, fills=workload.fills)
        if workload.cache == "cold":
            largest, together = _set_bytes(of, workload)
            wanted = min(int(multiple * cache_bytes), cold_bytes) // max(largest, 1)
            case = replace(case, copies=max(2, min(wanted, memory_bytes // max(together, 1))))
        cases.append(case)
    return tuple(cases)


def _touched(of: Subject) -> frozenset[str]:
    """Arguments that a call itself may touch: the prototype's, and those whose addresses it is given."""
    own = [argument.name for argument in of.args if argument.parameter >= 0]
    return frozenset((*own, *(name for argument in of.args for name in argument.pointers)))


def _set_bytes(of: Subject, workload: Workload) -> tuple[int, int]:
    """Bytes that one call touches, with the largest packed buffers and with those of all groups together."""
    largest, together, touched, grouped = 0, 0, _touched(of), grouping(of)
    values = dict(workload.scalars)
    for argument in of.args:
        if argument.kind in ("scalar", "pointers") or argument.name not in touched:
            continue
        sizes = _sizes_by_group(argument, grouped, values)
        width = ELEMENT_BYTES.get(argument.element, 1) * _parts(argument, values)
        largest += width * max(sizes)
        together += width * sum(sizes)
    return largest, together


OWN = "own"


def case_text(case: Case, placement: str = "") -> str:
    """A case as people and `tunebuild test --case` read it: n=31 offset=1 fill=max placement=right seed=7.

    `fill=own` leaves each argument its own, and `fill.a=zeros` rules for one; `calls=500` are made before.
    """
    words = [f"{name}={value}" for name, value in case.scalars]
    words.append(f"offset={','.join(map(str, case.offsets))}")
    words.append(f"fill={case.fill or OWN}")
    words += [f"fill.{argument}={fill}" for argument, fill in case.fills]
    where = placement or case.placement
    words += [f"placement={where}"] if where != "both" else []
    words += [f"calls={case.calls}"] if case.calls else []
    return " ".join([*words, f"seed={case.seed}"])


def parse_case(text: str) -> Case:
    """The reverse of `case_text`; `UsageError` for anything else."""
    known: dict[str, str] = {}
    for word in text.split():
        name, equals, value = word.partition("=")
        if not equals or not value:
            raise UsageError(f"--case: `{word}` is not NAME=VALUE", fix='write "n=31 offset=1 fill=normal"')
        known[name] = value
    placement = known.pop("placement", "both")
    try:
        offsets = tuple(int(part) for part in known.pop("offset", "0").split(","))
        fill, seed = known.pop("fill", "normal"), int(known.pop("seed", "1"))
        count = int(known.pop("calls", "0"))
        fills = tuple((name[5:], known.pop(name)) for name in list(known) if name.startswith("fill."))
        scalars = tuple((name, _number(value)) for name, value in known.items())
    except ValueError as error:
        raise UsageError(f"--case: {error}", fix="offsets, seeds and sizes are numbers") from None
    if placement not in ("both", "left", "right"):
        raise UsageError(f"--case: placement is left, right or both, not {placement}")
    return Case(scalars, offsets, "" if fill == OWN else fill, seed, placement, calls=count, fills=fills)  # type: ignore[arg-type]


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)


# --- sizes ---------------------------------------------------------------------------------------


def _evaluate(text: str, values: Mapping[str, Value]) -> int:
    return int(expressions.evaluate(expressions.parse(text), values))


def _parts(argument: Argument, values: Mapping[str, Value]) -> int:
    return _evaluate(argument.count, values) if argument.count else 1


def _row_keys(of: Subject) -> dict[str, tuple[Value, ...]]:
    """What tells a row's packed buffers from another's: its layout and the row values their sizes read."""
    read = {
        name
        for argument in of.args
        if argument.kind == "scratch"
        for name in expressions.names(expressions.parse(argument.size))
    }
    return {
        row.suffix: (*row.layout, *(value for name, value in row.values if name in read)) for row in of.rows
    }


@dataclass(frozen=True, slots=True)
class Grouping:
    """Rows by packed layout. ``of_row``: suffix to group; ``values``: those of one row a group."""

    of_row: Mapping[str, int]
    values: tuple[Mapping[str, Value], ...]  # the reference's group is the last and has none


def grouping(of: Subject) -> Grouping:
    """The groups of a subject's rows; all one group where nothing is packed."""
    if not any(argument.kind == "scratch" for argument in of.args):
        return Grouping(dict.fromkeys((*(row.suffix for row in of.rows), REFERENCE), 0), ({},))
    numbers: dict[tuple[Value, ...], int] = {}
    values: list[Mapping[str, Value]] = []
    of_row: dict[str, int] = {}
    keys = _row_keys(of)
    for row in of.rows:
        of_row[row.suffix] = numbers.setdefault(keys[row.suffix], len(numbers))
        if len(numbers) > len(values):
            values.append(dict(row.values))
    return Grouping(of_row | {REFERENCE: len(values)}, (*values, {}))


def _sizes_by_group(argument: Argument, grouped: Grouping, values: Mapping[str, Value]) -> list[int]:
    """Elements of one part of ``argument``, by group. The reference has no row values: the largest is its."""
    if argument.kind == "pointers":
        return [0]
    if argument.kind != "scratch":
        return [_evaluate(argument.size, values)]
    sizes = [_evaluate(argument.size, {**own, **values}) for own in grouped.values[:-1]]
    return [*sizes, max(sizes) if sizes else _evaluate(argument.size, values)]


# --- the worker's words --------------------------------------------------------------------------


def job_lines(of: Subject, driver: Driver, cases: Sequence[Case], *, timeout_ms: int) -> list[str]:
    """A job's description, line by line, for the worker that said ``driver``."""
    by_name = {argument.name: argument for argument in of.args}
    arguments = [by_name[name] for name in driver.buffers]
    grouped = grouping(of)
    values = [dict(case.scalars) for case in cases]
    lines = [f"begin {driver.name} {timeout_ms} {len(grouped.values)}"]
    touched = _touched(of)
    lines += [_argument_line(each, each.name in touched, driver, values) for each in arguments]
    row_groups = (grouped.of_row.get(suffix, grouped.of_row[REFERENCE]) for suffix in driver.rows)
    lines.append("groups " + " ".join(map(str, row_groups)))
    lines.append(_compare_line(of.check.compare))
    scratch: list[str] = []
    for number, (case, known) in enumerate(zip(cases, values, strict=True)):
        extents = []
        for at, argument in enumerate(arguments):
            sizes = _sizes_by_group(argument, grouped, known)
            scratch += [f"scratch {g} {number} {at} {n}" for g, n in enumerate(sizes) if n != sizes[0]]
            extents.append(_extent(case, argument, at, sizes[0], known))
        scalars = [_scalar(known.get(name, 0), by_name.get(name)) for name in driver.scalars]
        placed = {"left": 1, "right": 2, "both": 3}[case.placement]
        lines.append(" ".join([f"case {case.seed} {case.copies} {case.calls} {placed}", *scalars, *extents]))
    return lines + scratch


def _argument_line(
    argument: Argument, touched: bool, driver: Driver, values: Sequence[Mapping[str, Value]]
) -> str:
    kind = argument.kind if touched or argument.kind != "in" else "source"
    parts = max((_parts(argument, known) for known in values), default=1)
    pointed = [str(driver.buffers.index(name)) for name in argument.pointers]
    return " ".join(["arg", kind, argument.element or "u64", str(parts), *pointed])


def _compare_line(compare: Compare) -> str:
    return f"compare {compare.rule} {compare.ulp} {compare.rtol!r} {compare.atol!r} {compare.scale or 'want'}"


def _extent(case: Case, argument: Argument, at: int, elements: int, known: Mapping[str, Value]) -> str:
    own = dict(case.fills).get(argument.name, argument.fill)
    fill = own if own not in FILLS or not case.fill else case.fill
    valid = -1
    if argument.valid:
        needs_result = "return" in expressions.names(expressions.parse(argument.valid))
        plain = argument.valid.strip() == "return"
        valid = (-2 if plain else 0) if needs_result else max(_evaluate(argument.valid, known), 0)
    offset = case.offsets[at % len(case.offsets)]
    return f"{elements}:{_parts(argument, known)}:{offset}:{fill}:{valid}"


def _scalar(value: int | float, argument: Argument | None) -> str:
    if argument is not None and argument.element in FLOATS:
        return f"f{float(value).hex()}"
    return f"i{int(value)}"


def valid_lines(
    of: Subject, driver: Driver, cases: Sequence[Case], returned: Sequence[int | float]
) -> list[str]:
    """Where ``valid`` reads the return value: the limits, from the reference's two returns a case."""
    lines = []
    for argument in of.args:
        if not argument.valid or "return" not in expressions.names(expressions.parse(argument.valid)):
            continue
        at = driver.buffers.index(argument.name)
        for number, result in enumerate(returned):
            case, data = divmod(number, 2)
            limit = _evaluate(argument.valid, {**dict(cases[case].scalars), "return": result})
            lines.append(f"valid {case} {data} {at} {max(limit, 0)}")
    return lines


# --- findings in words ---------------------------------------------------------------------------


def explain(said: Mapping[str, str], case: Case | None = None, *, judge: str = "reference") -> str:
    """One sentence of what the worker found: what happened, to which element, in which call.

    ``judge`` names what results were compared with: the reference, or the oracle where there is one.
    """
    what = _what(said, judge)
    if said.get("phase") == "prepare":
        what = f"in prepare: {what}"
    if said.get("phase") == "fill":
        what = f"in a support function that fills data: {what}"
    if case is not None:
        what = f"{what}; at {case_text(case, said.get('placement', ''))}"
    if said.get("pass") == "1":
        what += ", second data at the same addresses"
    if said.get("pass") == "2":
        what += ", called again on the same data: it does not compute what it did before"
    return what


def _what(said: Mapping[str, str], judge: str) -> str:
    match said["fault"]:
        case "element":
            return f"wrong result: {_element(said)} is {said['got']}, the {judge} has {said['want']}"
        case "result":
            return f"wrong return value: {said['got']}, the {judge} returns {said['want']}"
        case "canary":
            return f"wrote {_beyond(said)}"
        case "environment":
            change = f"{said['before']} before, {said['after']} after"
            return f"leaves {said['name']} changed: {change}{_mode(said)}"
        case "signal":
            return _signal(said)
        case "exit":
            return f"ended the process with exit status {said['code']}{_printed(said)}"
        case "hang":
            return "does not return (killed)"
        case "worker":
            return "ended the worker itself, not only its own process"
        case "scribble":
            return "overwrote memory far from its buffers"
        case _:
            return "no memory for its buffers"


def _mode(said: Mapping[str, str]) -> str:
    if said["name"] != "MXCSR":
        return ""
    return ", denormals are flushed" if int(said["after"], 16) & 0x8040 else ", another rounding or trap"


def _element(said: Mapping[str, str]) -> str:
    part = f" of part {said['part']}" if said.get("part", "0") != "0" else ""
    return f"element {said['element']} of `{said['buffer']}`{part}"


def _beyond(said: Mapping[str, str]) -> str:
    side = {"past": "past the end of", "before": "before the start of"}.get(said["side"], "in")
    part = f" (part {said['part']})" if said.get("part", "0") != "0" else ""
    return f"{side} `{said['buffer']}`{part}, element {said['element']}"


def _signal(said: Mapping[str, str]) -> str:
    name = said["signal"]
    did = {"w": "wrote", "r": "read"}.get(said.get("access", ""), "touched")
    if "buffer" in said:
        if said["side"] == "inside":
            return f"{name}: wrote to the const input `{said['buffer']}`, element {said['element']}"
        return f"{name}: {did} {_beyond(said)}"
    if name not in ("SIGSEGV", "SIGBUS"):
        return f"{name}{_printed(said)}"
    if said.get("side") == "jumped":
        return f"{name}: jumped to {said['address']}, where no code is (a smashed stack?)"
    if said.get("side") == "stack":
        return f"{name}: {did} below the stack (endless recursion?)"
    if said.get("cause") == "128":
        return f"{name}: an aligned access to a misaligned address, or a bad address (a smashed stack?)"
    return f"{name}: {did} {said.get('address', '0x0')}, outside every buffer{_printed(said)}"


def _printed(said: Mapping[str, str]) -> str:
    """The telling line of what it printed: a sanitizer's, else the first."""
    lines = [line.strip() for line in said.get("text", "").splitlines() if line.strip()]
    telling = [line for line in lines if "Sanitizer" in line or "runtime error" in line] or lines
    return f": {telling[0][:200]}" if telling else ""

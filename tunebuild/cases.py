"""The gate's cases: the sizes, offsets and fills that a family is tried at, given or by default."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from tunebuild import expressions
from tunebuild.grid import parsed
from tunebuild.model import Argument, Check, Compare, Function, Value, Workload
from tunebuild.positions import KeyPath
from tunebuild.records import Notes
from tunebuild.tables import CheckTable, CompareTable

FILLS = ("normal", "uniform", "zeros", "ramp", "extremes", "denormal", "max", "special")
DEFAULT_SIZES = (0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 63, 65, 1000)
OTHERS_AT = 17  # what the other scalars are held at while one varies alone
MAX_CASES = 60
# Together, several scalars stay small: 1000 cubed is a second of reference for every fill and offset.
MAX_TOGETHER = 65

Number = int | float
Size = tuple[tuple[str, Number], ...]


def cases(
    function: Function,
    table: CheckTable | None,
    domain: str,
    arguments: tuple[Argument, ...],
    workloads: tuple[Workload, ...],
    path: KeyPath,
    notes: Notes,
) -> Check:
    """The `Check` of one function; every size names all scalars. ``path`` is the function's table."""
    base = dict(workloads[0].scalars)
    condition = parsed(domain, frozenset(base), (*path, "domain"), notes) if domain else None
    if condition is not None:
        _check_workloads(condition, workloads, path, notes)
    if table is not None and table.sizes is not None:
        given = [
            _given(size, base, (*path, "check", "sizes", i), notes) for i, size in enumerate(table.sizes)
        ]
        sizes, removed = _in_domain(given, condition, extend=False)
    else:
        sizes, removed = _default_cases(base, arguments, condition)
    if not sizes and (removed or (table and table.sizes is not None)):
        what = f"no size is left to try: domain `{domain}` removes {removed}" if removed else "no sizes"
        notes.add((*path, "check", "sizes"), what, "write check.sizes, such as [{ n = 64 }]")
    offsets = table.offsets if table else (0, 1, 3)
    for index, offset in enumerate(offsets):
        if not 0 <= offset <= 4096:
            notes.add((*path, "check", "offsets", index), f"an offset of {offset}", "write 0 to 4096")
    fills = table.fills if table and table.fills is not None else default_fills(arguments)
    return Check(sizes, offsets, fills, compare_of(table, (*path, "check", "compare"), notes), removed)


def default_fills(arguments: Iterable[Argument]) -> tuple[str, ...]:
    """Normal, extremes and max; denormal as well where a buffer holds floats."""
    floats = any(argument.element[:1] in ("f", "b") for argument in arguments if argument.kind != "scalar")
    return ("normal", "extremes", "max", "denormal") if floats else ("normal", "extremes", "max")


def compare_of(table: CheckTable | None, path: KeyPath, notes: Notes) -> Compare:
    """The comparison rule of a check table; exact by default."""
    compare = table.compare if table else "exact"
    if not isinstance(compare, CompareTable):
        return Compare()
    if min(compare.ulp, compare.rtol, compare.atol) < 0:
        notes.add(path, "a negative tolerance", "write a number above 0")
    tolerant = bool(compare.rtol or compare.atol)
    if compare.ulp and tolerant:
        notes.add(path, "ulp and a tolerance at once", "write ulp, or rtol and atol")
    if not compare.ulp and not tolerant:
        notes.add(
            path, "no tolerance is given", 'write "exact", { ulp = 4 } or { rtol = 1e-5, scale = "abs" }'
        )
    if compare.ulp:
        return Compare("ulp", compare.ulp)
    return Compare("tolerance", 0, float(compare.rtol), float(compare.atol), compare.scale)


def sized_scalars(arguments: Iterable[Argument], known: Iterable[str]) -> tuple[str, ...]:
    """The scalars that some buffer's size or count uses, in the order of ``known``."""
    used: set[str] = set()
    for argument in arguments:
        for text in filter(None, (argument.size, argument.count)):
            try:
                used.update(expressions.parse(text).free)
            except expressions.ExpressionError:
                continue  # noted where it stands
    return tuple(name for name in known if name in used)


@lru_cache(maxsize=256)
def default_sizes(names: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
    """All scalars together through the usual tails, then each alone; at most `MAX_CASES`, each once."""
    if not names:
        return ((),)
    if len(names) == 1:
        return tuple((size,) for size in DEFAULT_SIZES)
    made = [(size,) * len(names) for size in DEFAULT_SIZES if size <= MAX_TOGETHER]
    # Each scalar alone gets as many sizes as are left for it; the ends and odd tails first.
    share = max(1, (MAX_CASES - len(made)) // len(names))
    alone = (1000, 0, 1, 7, 33, 16, 65, 3, 8, 2, 63, 15, 31)[:share]
    for position in range(len(names)):
        for size in sorted(alone):
            made.append(tuple(size if p == position else OTHERS_AT for p in range(len(names))))
    return tuple(dict.fromkeys(made))[:MAX_CASES]


def _default_cases(
    base: dict[str, Number], arguments: tuple[Argument, ...], condition: expressions.Expression | None
) -> tuple[tuple[Size, ...], int]:
    names = sized_scalars(arguments, (name for name, value in base.items() if isinstance(value, int)))
    return _in_domain(_cases_of(tuple(base.items()), names), condition, extend=True)


@lru_cache(maxsize=256)
def _cases_of(base: Size, names: tuple[str, ...]) -> tuple[Size, ...]:
    """The default sizes with the other scalars as in ``base``; families alike share one tuple."""
    return tuple(
        tuple({**dict(base), **dict(zip(names, s, strict=True))}.items()) for s in default_sizes(names)
    )


def _given(size: object, base: dict[str, Number], path: KeyPath, notes: Notes) -> Size:
    """A size of the file; the scalars it does not name are those of the first workload."""
    values: dict[str, Number] = dict(size) if isinstance(size, dict) else {}
    for name, value in values.items():
        if name not in base:
            notes.unknown((*path, name), f"`{name}` is no scalar of this call", name, base)
        elif isinstance(base[name], int) and not isinstance(value, int):
            notes.add((*path, name), f"{value} for an integer", "write an integer")
        elif value < 0 and base[name] >= 0 and isinstance(base[name], int):
            notes.add((*path, name), f"a size of {value}", "write 0 or more")
    return tuple({**base, **{name: values[name] for name in values if name in base}}.items())


def _in_domain(
    sizes: Sequence[Size], condition: expressions.Expression | None, *, extend: bool
) -> tuple[tuple[Size, ...], int]:
    """The sizes that fulfil the precondition, and how many did not.

    With ``extend``, a size that did not is replaced by the nearest one above that does, rounding the
    scalars of the condition up to a power of two: `n % 32 == 0` is then tried at 32, 64, 96 and 1024.
    """
    if condition is None:
        return tuple(sizes), 0
    kept: list[Size] = []
    removed = 0
    for size in sizes:
        if _holds(condition, size):
            kept.append(size)
            continue
        removed += 1
        kept += _rounded(condition, size) if extend else ()
    return tuple(dict.fromkeys(kept)), removed


def _rounded(condition: expressions.Expression, size: Size) -> list[Size]:
    for step in (1, 2, 4, 8, 16, 32, 64, 128, 256):
        nearest = tuple(
            (name, -(-max(value, 1) // step) * step) if name in condition.free and isinstance(value, int)
            else (name, value)
            for name, value in size
        )  # fmt: skip
        if _holds(condition, nearest):
            return [nearest]
    return []


def _holds(condition: expressions.Expression, size: Size) -> bool:
    values: dict[str, Value] = dict(size)
    try:
        return bool(expressions.evaluate(condition, values))
    except expressions.ExpressionError:
        return False  # a precondition that cannot be evaluated there does not hold there


def _check_workloads(
    condition: expressions.Expression, workloads: tuple[Workload, ...], path: KeyPath, notes: Notes
) -> None:
    for workload in workloads:
        if not _holds(condition, workload.scalars):
            where = (*path, "workload", workload.name)
            notes.add(where, f"it lies outside the domain `{condition.text}`", "change one of them")

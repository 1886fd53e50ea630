"""Axes and single rows to the rows of a family: the product, its filter, suffixes, what each row requires.

Pure: the tables are read already, mistakes are noted by key path, and nothing is raised.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from tunebuild import expressions, features
from tunebuild.model import REFERENCE, Project, Row, Value
from tunebuild.positions import KeyPath
from tunebuild.records import Notes
from tunebuild.tables import GridTable, RowTable, Text

MAX_CELLS = 1_000_000  # that a filter is asked about
MAX_ROWS = 100_000  # that are left
MAX_SUFFIX = 128  # family, two underscores, suffix and ".c" are a file name of at most 255 bytes

MAX_SUFFIX_MISTAKES = 5  # of one grid: what is wrong with one cell is wrong with thousands
_OWN_SUFFIX = 'write it as a [[family.NAME.row]] with suffix = "NAME" of letters, digits and _'

RESERVED_VALUES = ("fn", "prototype", "family", "suffix", "requires", "cflags", "decline")
_REFERENCES = ("isa", "toolchain", "flags")  # values that name a table
_SUFFIX = re.compile(r"[A-Za-z0-9_]+", re.ASCII)
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)

# The built-in loop hints (vector lanes, copies of the body), grid order; 0 lanes and 1 copy say nothing.
SHORT_HINTS = ((0, 1), (0, 2), (8, 1), (8, 2), (16, 1), (16, 2), (4, 4))
FULL_HINTS = tuple((vec, unroll) for vec in (0, 4, 8, 16, 32) for unroll in (1, 2, 4, 8))


@dataclass(frozen=True, slots=True)
class Choice:
    """One value of an axis, and its piece of a suffix. A loop hint is a choice of two values."""

    values: tuple[tuple[str, Value], ...]
    piece: str


@dataclass(frozen=True, slots=True)
class Grid:
    """The rows of a family in grid order, and how many cells each filter removed."""

    rows: tuple[Row, ...] = ()
    removed: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Names:
    """What `isa`, `toolchain` and `flags` may name in one project; made once for it."""

    isas: Mapping[str, str]  # to what each requires
    toolchains: frozenset[str]
    flags: frozenset[str]
    _contradictions: dict[str, str] = field(default_factory=dict)
    grids: dict[str, Grid] = field(default_factory=dict)  # by what they are made of: families share them

    def contradiction(self, requires: str) -> str:
        if requires not in self._contradictions:
            self._contradictions[requires] = features.contradiction(requires)
        return self._contradictions[requires]


def names_of(project: Project) -> Names:
    return Names(
        {isa.name: isa.requires for isa in project.isas},
        frozenset(toolchain.name for toolchain in project.toolchains),
        frozenset(flag_set.name for flag_set in project.flags),
    )


# --- suffixes --------------------------------------------------------------------------------------


def piece(name: str, value: Value) -> str:
    """``k=2`` is k2, ``budget=true`` budget, ``b=false`` nob, ``isa="amx"`` isa_amx, ``r=0.5`` r0d5."""
    if isinstance(value, bool):
        return name if value else f"no{name}"
    if isinstance(value, str):
        return f"{name}_{value}"
    return f"{name}{value}".replace(".", "d")


def hint_piece(vec: int, unroll: int) -> str:
    """``plain``, ``u2``, ``vec8``, ``vec8_u2``."""
    parts = ([f"vec{vec}"] if vec else []) + ([f"u{unroll}"] if unroll > 1 else [])
    return "_".join(parts) or "plain"


def hint_choices(hints: str) -> tuple[Choice, ...]:
    pairs = {"": (), "short": SHORT_HINTS, "full": FULL_HINTS}[hints]
    return tuple(Choice((("vec", vec), ("unroll", unroll)), hint_piece(vec, unroll)) for vec, unroll in pairs)


# --- requires --------------------------------------------------------------------------------------


def requires_text(text: Text) -> str:
    """One expression without blanks; an array is AND."""
    return ",".join(_unblanked(part) for part in ((text,) if isinstance(text, str) else text) if part.strip())


@lru_cache(maxsize=1024)
def _unblanked(text: str) -> str:
    return re.sub(r"\s*([,|])\s*", r"\1", text.strip())


def check_requires(expr: str, path: KeyPath, notes: Notes) -> None:
    """Note unknown feature names, and an expression that no CPU can satisfy."""
    for name in features.unknown(expr) if expr else ():
        if name:
            notes.unknown(path, f"`{name}` is no known CPU feature", name, features.BY_NAME)
        else:
            notes.add(path, f"`{expr}` has an empty alternative", "write names on both sides of |")
    if expr and (why := features.contradiction(expr)):
        notes.add(path, f"`{expr}`: {why}", "make it two rows")


# --- rows ------------------------------------------------------------------------------------------


def rows(
    grid: GridTable | None,
    singles: Sequence[RowTable],
    hints: str,
    layout: tuple[str, ...],
    names: Names,
    path: KeyPath,
    notes: Notes,
) -> Grid:
    """The product (last axis fastest) through its filter, then single rows; ``path`` is the family's."""
    same = "" if singles else repr((grid and (list(grid.axes.items()), grid.where), hints, layout))
    if same in names.grids:
        return names.grids[same]
    before = len(notes.noted)
    axes = _axes(grid, hints, names, (*path, "grid", "axes"), notes)
    cells, removed = _filtered(axes, grid.where if grid else "", (*path, "grid"), notes)
    made = _product(axes, cells, layout, names)
    if not _are_safe(axes, made) and not notes.within((*path, "grid", "axes")):
        _check_product(made, (*path, "grid", "axes"), notes)
    _add_singles(made, singles, layout, names, path, notes)
    _check_layout(made, layout, (*path, "layout"), notes)
    found = Grid(tuple(made), removed)
    if same and len(notes.noted) == before:  # each family is told of its own mistakes
        names.grids[same] = found
    return found


def _add_singles(
    made: list[Row],
    singles: Sequence[RowTable],
    layout: tuple[str, ...],
    names: Names,
    path: KeyPath,
    notes: Notes,
) -> None:
    """Single rows behind the product's; a suffix that is taken is noted."""
    seen = {row.suffix: row for row in made} if singles else {}
    for index, single in enumerate(singles):
        where = (*path, "row", index)
        row = _single(single, layout, names, where, notes)
        made.append(row)
        _check_suffix(row, seen, where, notes)


def _product(
    axes: list[tuple[Choice, ...]],
    cells: Iterable[tuple[Choice, ...]],
    layout: tuple[str, ...],
    names: Names,
) -> list[Row]:
    """The rows of the cells. What only one axis decides is looked up once, not for each of 100,000 rows."""
    at = _places(axes)
    isa, toolchain, flags = (at.get(name, (-1, 0))[0] for name in ("isa", "toolchain", "flags"))
    layout_at = [at[name] for name in layout if name in at]
    made: list[Row] = []
    for cell in cells:
        named = str(cell[isa].values[0][1]) if isa >= 0 else ""
        made.append(
            Row(
                "_".join([choice.piece for choice in cell]),
                tuple([value for choice in cell for value in choice.values]),
                names.isas.get(named, ""),
                named,
                str(cell[toolchain].values[0][1]) if toolchain >= 0 else "",
                str(cell[flags].values[0][1]) if flags >= 0 else "",
                (),
                tuple([cell[axis].values[inner][1] for axis, inner in layout_at]) if layout_at else (),
            )
        )
    return made


def _places(axes: list[tuple[Choice, ...]]) -> dict[str, tuple[int, int]]:
    """Where in a cell each value stands: which axis, which value of its choice."""
    return {
        name: (axis, inner)
        for axis, choices in enumerate(axes)
        for inner, (name, _) in enumerate(choices[0].values if choices else ())
    }


def _are_safe(axes: list[tuple[Choice, ...]], made: list[Row]) -> bool:
    """Are all suffixes short and different, and none reserved? Their pieces are safe already."""
    longest = sum(max((len(choice.piece) for choice in axis), default=0) + 1 for axis in axes)
    reserved = len(axes) == 1 and any(choice.piece == REFERENCE for choice in axes[0])
    return longest <= MAX_SUFFIX and not reserved and len({row.suffix for row in made}) == len(made)


def _check_product(made: list[Row], path: KeyPath, notes: Notes) -> None:
    """Note what is wrong with suffixes of the product: the first of each kind speaks for its like."""
    seen: dict[str, Row] = {}
    found = Notes()
    for row in made:
        _check_suffix(row, seen, path, found)
        if len(found.noted) >= MAX_SUFFIX_MISTAKES:
            break
    for note in found.noted:
        notes.add(note.path, note.what, note.fix)


def _axes(
    grid: GridTable | None, hints: str, names: Names, path: KeyPath, notes: Notes
) -> list[tuple[Choice, ...]]:
    axes: list[tuple[Choice, ...]] = []
    for name, values in (grid.axes if grid else {}).items():
        _check_name(name, (*path, name), notes)
        if not values:
            notes.add((*path, name), "an axis without values", "write at least one, or remove the axis")
        if name in _REFERENCES:
            for index, value in enumerate(values):
                check_reference(name, value, names, (*path, name, index), notes)
        axis = tuple(Choice(((name, value),), piece(name, value)) for value in values)
        _check_pieces(axis, (*path, name), notes)
        axes.append(axis)
    return [*axes, hint_choices(hints)] if hints else axes


def _check_pieces(axis: tuple[Choice, ...], path: KeyPath, notes: Notes) -> None:
    """The values of an axis must differ, and each be fit for a C name."""
    if notes.within(path):
        return
    pieces = [choice.piece for choice in axis]
    if len(set(pieces)) == len(pieces) and all(map(_SUFFIX.fullmatch, pieces)):
        return
    for index, text in enumerate(pieces):
        value = axis[index].values[0][1]
        if not _SUFFIX.fullmatch(text):
            notes.add((*path, index), f"`{text[:100]}` cannot be part of a C name", _OWN_SUFFIX)
        elif text in pieces[:index]:
            notes.add((*path, index), f"the value {value!r} stands twice: two rows `{text}`", "remove one")


def _check_name(name: str, path: KeyPath, notes: Notes) -> None:
    if not _NAME.fullmatch(name):
        notes.add(path, f"`{name}` is no name that a template can use", "write letters, digits and _")
    elif name in RESERVED_VALUES:
        notes.add(path, f"`{name}` is a name that every template already has", "choose another name")


def check_reference(name: str, value: Value, names: Names, path: KeyPath, notes: Notes) -> None:
    """``isa``, ``toolchain`` and ``flags`` must name what is declared."""
    known: Iterable[str]
    match name:
        case "isa":
            known = names.isas
        case "toolchain":
            known = names.toolchains
        case "flags":
            known = names.flags
        case _:
            return
    if value not in known:
        notes.unknown(path, f"no [{name}.{value}] is declared", str(value), sorted(known))


def _filtered(
    axes: list[tuple[Choice, ...]], where: str, path: KeyPath, notes: Notes
) -> tuple[Iterable[tuple[Choice, ...]], tuple[tuple[str, int], ...]]:
    """The cells that the filter keeps, with what it removed."""
    if where and not axes:
        notes.add((*path, "where"), "a filter of no axes", "write [family.NAME.grid.axes], or remove it")
    if not axes:
        return (), ()
    count = 1
    for axis in axes:
        count *= len(axis)
    if count > (MAX_CELLS if where else MAX_ROWS):
        limit = MAX_CELLS if where else MAX_ROWS
        notes.add((*path, "axes"), f"a grid of {count:,} cells; at most {limit:,}", "shorten its axes")
        return (), ()
    if not where:
        return itertools.product(*axes), ()
    kept, left = _kept(axes, where, (*path, "where"), notes)
    if left > MAX_ROWS:
        notes.add((*path, "where"), f"{left:,} rows are left; at most {MAX_ROWS:,}", "shorten the axes")
        return (), ()
    if count and not left and not notes.within((*path, "where")):
        notes.add((*path, "where"), f"`{where}` leaves none of {count} rows", "widen it, or remove it")
    return kept, ((where, count - left),)


def _kept(
    axes: list[tuple[Choice, ...]], where: str, path: KeyPath, notes: Notes
) -> tuple[Iterable[tuple[Choice, ...]], int]:
    """The cells for which ``where`` is true, in grid order, and how many; none when it cannot be read.

    It is asked only about the axes that it names: the others multiply what it answers.
    """
    at = _places(axes)
    expression = parsed(where, at, path, notes)
    if expression is None:
        return (), 0
    used = sorted({at[name][0] for name in expression.free})
    try:
        held = _true_at(expression, axes, used, at)
    except expressions.ExpressionError as error:
        notes.add(path, error.what, error.fix)
        return (), 0
    left = len(held)
    for axis, choices in enumerate(axes):
        left *= 1 if axis in used else len(choices)
    ranges = [range(len(choices)) for choices in axes]
    chosen = (
        tuple(choices[i] for choices, i in zip(axes, indices, strict=True))
        for indices in itertools.product(*ranges)
        if tuple([indices[axis] for axis in used]) in held
    )
    return chosen, left


def _true_at(
    expression: expressions.Expression,
    axes: list[tuple[Choice, ...]],
    used: list[int],
    at: Mapping[str, tuple[int, int]],
) -> set[tuple[int, ...]]:
    """The index tuples of the axes ``used`` for which the expression is true."""
    places = [(used.index(at[name][0]), *at[name]) for name in expression.free]
    columns = [(where, [choice.values[inner][1] for choice in axes[axis]]) for where, axis, inner in places]
    return {
        indices
        for indices in itertools.product(*(range(len(axes[axis])) for axis in used))
        if expressions.apply(expression, [column[indices[where]] for where, column in columns])
    }


def parsed(text: str, known: Iterable[str], path: KeyPath, notes: Notes) -> expressions.Expression | None:
    """The expression, its names checked against ``known``; None, and noted, when it cannot be used."""
    try:
        expression = expressions.parse(text)
    except expressions.ExpressionError as error:
        at = f" at column {error.column} of `{text}`" if error.column and len(text) < 200 else ""
        notes.add(path, f"{error.what}{at}", error.fix)
        return None
    known = known if isinstance(known, Mapping | frozenset) else frozenset(known)
    unknown = [name for name in expression.free if name not in known]
    for name in unknown:
        notes.unknown(path, f"`{text}` uses `{name}`, which has no value here", name, known)
    return None if unknown else expression


def _single(single: RowTable, layout: tuple[str, ...], names: Names, path: KeyPath, notes: Notes) -> Row:
    for name, value in single.values.items():
        _check_name(name, (*path, name), notes)
        check_reference(name, value, names, (*path, name), notes)
    own = requires_text(single.requires)
    check_requires(own, (*path, "requires"), notes)
    values = tuple(single.values.items())
    suffix = single.suffix or "_".join(piece(name, value) for name, value in values)
    row = _row(suffix, values, own, single.cflags, layout, names)
    if not notes.within((*path, "requires")) and (why := names.contradiction(row.requires)):
        notes.add((*path, "requires"), f"`{row.requires}`: {why}", "make it two rows")
    return row


def _row(
    suffix: str,
    values: tuple[tuple[str, Value], ...],
    own_requires: str,
    own_cflags: tuple[str, ...],
    layout: tuple[str, ...],
    names: Names,
) -> Row:
    by_name = dict(values)
    isa = str(by_name.get("isa", ""))
    if not isa and own_requires:
        # Nobody else tells the compiler about the features of a row without an instruction set.
        own_cflags = features.compiler_flags(features.mandatory(own_requires)) + own_cflags
    requires = ",".join(filter(None, (names.isas.get(isa, ""), own_requires)))
    return Row(
        suffix,
        values,
        requires,
        isa,
        str(by_name.get("toolchain", "")),
        str(by_name.get("flags", "")),
        own_cflags,
        tuple(by_name[key] for key in layout if key in by_name),
    )


def _check_suffix(row: Row, seen: dict[str, Row], path: KeyPath, notes: Notes) -> None:
    suffix = row.suffix
    first = seen.setdefault(suffix, row)
    if not suffix:
        notes.add(path, "a row without values and without a suffix", 'write suffix = "NAME"')
    elif suffix == REFERENCE:
        notes.add(path, "the suffix `reference` is that of the reference body", "choose another suffix")
    elif not _SUFFIX.fullmatch(suffix) or len(suffix) > MAX_SUFFIX:
        why = "is too long" if len(suffix) > MAX_SUFFIX else "cannot be part of a C name"
        notes.add(path, f"the suffix `{suffix[:200]}` {why}", _OWN_SUFFIX)
    elif first is not row:
        fix = 'give one of them a suffix of its own: suffix = "NAME"'
        what = f"two rows have the suffix `{suffix}`: {_shown(first)} and {_shown(row)}"
        notes.add(path, what, fix)


def _shown(row: Row) -> str:
    return "(" + ", ".join(f"{name} = {value!r}" for name, value in row.values) + ")"


def _check_layout(made: list[Row], layout: tuple[str, ...], path: KeyPath, notes: Notes) -> None:
    for name in layout:
        without = next((row for row in made if name not in dict(row.values)), None)
        if without is not None:
            known = dict.fromkeys(key for row in made for key, _ in row.values)
            what = f"layout names `{name}`, which the row `{without.suffix}` does not have"
            notes.unknown(path, what, name, known)

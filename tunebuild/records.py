"""A parsed TOML document to the records of `tables`, with every mistake noted on the way.

A reader is made once for each type and called for each value. It never raises: a wrong value is noted and
replaced by `BAD`, which a table turns into the key's default (or into `BAD`, for a required key), so that
one reading finds all mistakes.
"""

from __future__ import annotations

import json
import math
import re
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from tunebuild.positions import KeyPath

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Note:
    """A mistake at a key path. ``word`` and ``known`` are what did-you-mean is made of, late."""

    path: KeyPath
    what: str
    fix: str = ""
    word: str = ""
    known: tuple[str, ...] = ()


@dataclass(slots=True)
class Notes:
    """The mistakes of one file so far, in the order they were found."""

    noted: list[Note] = field(default_factory=list)
    _paths: set[KeyPath] = field(default_factory=set)

    def add(self, path: KeyPath, what: str, fix: str = "") -> None:
        self._note(Note(path, what, fix))

    def unknown(self, path: KeyPath, what: str, word: str, known: Iterable[str]) -> None:
        """A name that names nothing; the message will propose the nearest of ``known``."""
        self._note(Note(path, what, "", word, tuple(known)))

    def _note(self, note: Note) -> None:
        self.noted.append(note)
        self._paths.update(note.path[:length] for length in range(len(note.path) + 1))

    def within(self, path: KeyPath) -> bool:
        """Was anything at or below ``path`` wrong? Then what follows from it is no news."""
        return path in self._paths


class _Bad:
    pass


BAD = _Bad()
Reader = Callable[[object, KeyPath, Notes], Any]


def read(cls: type[T], raw: object, path: KeyPath, notes: Notes) -> T | None:
    """``raw`` as a record of ``cls``; None when a required key is absent or wrong (and noted)."""
    reader: Reader = _reader(cls)  # type: ignore[arg-type]
    value: T | _Bad = reader(raw, path, notes)
    return None if isinstance(value, _Bad) else value


def spelling(name: str) -> str:
    """The TOML key of a field."""
    return name.rstrip("_")


def type_name(raw: object) -> str:
    """What TOML calls the type of a value."""
    names = {
        bool: "a boolean",
        int: "an integer",
        float: "a float",
        str: "a string",
        list: "an array",
        dict: "a table",
    }
    return names.get(type(raw), "a date or time")


@cache
def _reader(kind: Any) -> Reader:
    """The reader of one annotation of `tables`."""
    if kind is str:
        return _text
    if is_dataclass(kind):
        return _table(kind)
    origin, arguments = get_origin(kind), get_args(kind)
    if kind in (int, bool, float) or kind == int | float:
        return _plain(kind)
    if origin is Literal:
        return _choice(arguments)
    if origin is tuple:
        return _array(_reader(arguments[0]))
    if origin in (dict, Mapping) or getattr(origin, "__name__", "") == "Mapping":
        return _mapping(_reader(arguments[1]))
    if origin in (Union, types.UnionType):
        return _union(tuple(argument for argument in arguments if argument is not type(None)))
    raise TypeError(f"no reader for {kind}")


def _wrong(raw: object, wanted: str, path: KeyPath, notes: Notes) -> _Bad:
    shown = f"{type_name(raw)} where {wanted} belongs"
    notes.add(path, shown, _instead(raw, wanted))
    return BAD


def _instead(raw: object, wanted: str) -> str:
    if isinstance(raw, str) and wanted == "an array of strings":
        return f"write {json.dumps(raw.split())}"
    if isinstance(raw, str) and wanted.startswith(("a number", "an integer")) and re.fullmatch(r"-?\d+", raw):
        return f"write {raw}"
    if wanted == "a string" and isinstance(raw, bool | int | float):
        return f'write "{str(raw).lower() if isinstance(raw, bool) else raw}"'
    return ""


def _text(raw: object, path: KeyPath, notes: Notes) -> object:
    if not isinstance(raw, str):
        return _wrong(raw, "a string", path, notes)
    if not raw.isprintable() and any((c < " " and c not in "\t\n\r") or c == "\x7f" for c in raw):
        notes.add(path, "a control character in a string", "remove it")
        return BAD
    return raw


def _plain(kind: Any) -> Reader:
    def one(raw: object, path: KeyPath, notes: Notes) -> object:
        if kind is bool:
            return raw if isinstance(raw, bool) else _wrong(raw, "a boolean", path, notes)
        if isinstance(raw, bool) or not isinstance(raw, int | float):
            return _wrong(raw, "an integer" if kind is int else "a number", path, notes)
        if kind is int and not isinstance(raw, int):
            return _wrong(raw, "an integer", path, notes)
        return _in_range(raw, path, notes)

    return one


def _in_range(raw: int | float, path: KeyPath, notes: Notes) -> object:
    if isinstance(raw, int) and not -(2**63) <= raw < 2**63:
        notes.add(path, "an integer past 64 bits")
        return BAD
    if isinstance(raw, float) and not math.isfinite(raw):
        notes.add(path, f"{raw} is no number to count with", "write a finite number")
        return BAD
    return raw


def _value(raw: object, path: KeyPath, notes: Notes) -> object:
    """A value of a row: a boolean, a number or a string."""
    if isinstance(raw, bool):
        return raw
    if isinstance(raw, str):
        return _text(raw, path, notes)
    if isinstance(raw, int | float):
        return _in_range(raw, path, notes)
    return _wrong(raw, "a boolean, a number or a string", path, notes)


def _choice(words: tuple[str, ...]) -> Reader:
    def one(raw: object, path: KeyPath, notes: Notes) -> object:
        if raw in words:
            return raw
        if not isinstance(raw, str):
            return _wrong(raw, "a string", path, notes)
        notes.unknown(path, f"`{raw}` is none of its words", raw, (word for word in words if word))
        return BAD

    return one


def _array(item: Reader) -> Reader:
    wanted = "an array of strings" if item is _text else "an array"

    def one(raw: object, path: KeyPath, notes: Notes) -> object:
        if not isinstance(raw, list):
            return _wrong(raw, wanted, path, notes)
        read_items = [item(value, (*path, index), notes) for index, value in enumerate(raw)]
        return tuple(value for value in read_items if value is not BAD)

    return one


def _mapping(item: Reader) -> Reader:
    def one(raw: object, path: KeyPath, notes: Notes) -> object:
        if not isinstance(raw, dict):
            return _wrong(raw, "a table", path, notes)
        values = {name: item(value, (*path, name), notes) for name, value in raw.items()}
        return {name: value for name, value in values.items() if value is not BAD}

    return one


def _union(kinds: tuple[Any, ...]) -> Reader:
    if set(kinds) == {bool, int, float, str}:
        return _value
    if len(kinds) == 1:
        return _reader(kinds[0])
    by_shape = {_shape(kind): _reader(kind) for kind in kinds}
    wanted = " or ".join(_SHAPES[shape] for shape in by_shape)

    def one(raw: object, path: KeyPath, notes: Notes) -> object:
        reader = by_shape.get(type(raw))
        return reader(raw, path, notes) if reader else _wrong(raw, wanted, path, notes)

    return one


_SHAPES: dict[type, str] = {str: "a string", list: "an array", dict: "a table"}


def _shape(kind: Any) -> type:
    if is_dataclass(kind):
        return dict
    return list if get_origin(kind) is tuple else str


def _table(cls: Any) -> Reader:
    hints = get_type_hints(cls)
    named: dict[str, tuple[Field[Any], Reader]] = {}
    rest: tuple[Field[Any], Reader] | None = None
    for entry in fields(cls):
        if entry.metadata["rest"]:
            rest = entry, _reader(get_args(hints[entry.name])[1])
        else:
            named[spelling(entry.name)] = entry, _reader(hints[entry.name])
    required = [(name, entry) for name, (entry, _) in named.items() if _is_required(entry)]

    def one(raw: object, path: KeyPath, notes: Notes) -> object:
        if not isinstance(raw, dict):
            return _wrong(raw, "a table", path, notes)
        values: dict[str, object] = {}
        others: dict[str, object] = {}
        for name, value in raw.items():
            if name in named:
                entry, reader = named[name]
                got = reader(value, (*path, name), notes)
                if got is not BAD:
                    values[entry.name] = got
            elif rest is not None:
                got = rest[1](value, (*path, name), notes)
                if got is not BAD:
                    others[name] = got
            else:
                notes.unknown((*path, name), f"no key is named `{name}` here", name, named)
        if rest is not None:
            values[rest[0].name] = others
        missing = [name for name, entry in required if entry.name not in values]
        for name in missing:
            if name not in raw:
                notes.add(path, f"`{name}` is missing", str(named[name][0].metadata["doc"]))
        return BAD if missing else cls(**values)

    return one


def _is_required(entry: Field[Any]) -> bool:
    return entry.default is MISSING and entry.default_factory is MISSING and not entry.metadata["rest"]

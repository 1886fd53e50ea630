"""Positions of keys: equal to what tomlkit reads, on texts in every style, and in linear time."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
import tomlkit
from hypothesis import given, settings
from hypothesis import strategies as st

from tunebuild import positions
from tunebuild.positions import KeyPath, TooDeep

TEXT = '''\
a.b = 1 # [c]
"q\\"x" = {y = 2, z.w = [3, "]"]}
[t]
long = """
[no]
k = 1\\""""
raw = \'\'\'a
= 'b'\'\'\'
[[r]]
v = [
  # one
  1, {u = 2},
]
[r.sub]
d = 2020-01-01T00:00:00Z
[[r]]
'l.m' = -inf
'''


def walk(value: Any, path: KeyPath = ()) -> Iterator[KeyPath]:
    """The path of every key and array element of a document."""
    items: Any = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, inner in items:
        yield (*path, key)
        yield from walk(inner, (*path, key))


def key_at(text: str, offset: int) -> str:
    """The key that stands at ``offset``, by tomllib's own reading of it."""
    rest = text[offset:].split("\n")[0]
    for end in range(1, len(rest) + 1):
        if rest[end : end + 1] in ("", " ", ".", "=", "]", "\t"):
            try:
                return str(next(iter(tomllib.loads(f"{rest[:end]} = 1"))))
            except tomllib.TOMLDecodeError:
                continue
    raise AssertionError(rest)


def check(text: str) -> None:
    found = positions.scan(text)
    assert set(found) == set(walk(tomlkit.parse(text).unwrap())) == set(walk(tomllib.loads(text)))
    for path, offset in found.items():
        if isinstance(path[-1], str):
            assert key_at(text, offset) == path[-1], path


def test_every_style_of_toml_is_followed() -> None:
    check(TEXT)
    starts = positions.line_starts(TEXT)
    found = positions.scan(TEXT)
    at = {path: positions.line_and_column(starts, offset) for path, offset in found.items()}
    assert at[("a", "b")] == (1, 3)
    assert at[('q"x', "z", "w", 1)] == (2, 28)
    assert at[("t", "raw")] == (7, 1)
    assert at[("r", 0, "v", 1, "u")] == (12, 7)
    assert at[("r", 0, "sub", "d")] == (15, 1)
    assert at[("r", 1, "l.m")] == (17, 1)


def test_position_of_an_absent_key_is_that_of_the_table_above() -> None:
    found = positions.scan("[x]\n[a.b]\n")
    assert positions.locate(found, ("a", "b", "c", 3)) == found[("a", "b")]
    assert positions.locate(found, ("z",)) == 0


# --- generated documents ---------------------------------------------------------------------------

KEYS = st.text("abz09-_", min_size=1, max_size=4) | st.text(" .\"#[]='\\é\n", min_size=1, max_size=4)
SCALARS = st.sampled_from(
    ["1", "-2.5e3", "true", '"a] # b"', "'}'", '"""\n[x]\n"y" = 1"""', "'''\n]'''", "1979-05-27 07:32:00"]
)


def quoted(key: str, style: int) -> str:
    bare = all(c.isascii() and (c.isalnum() or c in "-_") for c in key)
    if bare and style < 2:
        return key
    if style == 2 and not set(key) & set("'\n"):
        return f"'{key}'"
    escaped = key.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("é", "\\u00e9")
    return f'"{escaped}"'


@st.composite
def values(draw: Any, depth: int = 0) -> str:
    kind = draw(st.integers(0, 3 if depth < 3 else 1))
    if kind < 2:
        return str(draw(SCALARS))
    inner: list[str] = [draw(values(depth + 1)) for _ in range(draw(st.integers(0, 3)))]
    if kind == 2:
        gap: str = draw(st.sampled_from([" ", "", "\n  # note ]\n  "]))
        return f"[{gap}" + f",{gap}".join(inner) + ("," if inner and draw(st.booleans()) else "") + f"{gap}]"
    names = draw(st.lists(KEYS, min_size=len(inner), max_size=len(inner), unique=True))
    return (
        "{ "
        + ", ".join(f"{quoted(n, draw(st.integers(0, 3)))} = {v}" for n, v in zip(names, inner, strict=True))
        + "}"
    )


@st.composite
def documents(draw: Any) -> str:
    lines: list[str] = []
    names = draw(st.lists(KEYS, min_size=1, max_size=6, unique=True))
    for number, name in enumerate(names):
        key = quoted(name, draw(st.integers(0, 3)))
        kind = draw(st.integers(0, 3)) if number else 0
        header = {0: "", 1: f"[{key}]", 2: f"[ {key} . x ]", 3: f"[[{key}]]\n[[{key}]]\n[{key}.s]"}[kind]
        dotted = draw(st.sampled_from(["", ".y", " . 'z w'"]))
        lines += [
            header,
            f"{key}{dotted}={draw(values())} # end",
            draw(st.sampled_from(["", "# c = [", "\t"])),
        ]
    end: str = draw(st.sampled_from(["", "\n"]))
    return "\n".join(lines) + end


@settings(max_examples=60, deadline=None)
@given(documents())
def test_positions_of_any_document_equal_those_of_tomlkit(text: str) -> None:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return  # a key twice
    check(text)


@given(st.text("ab.=[]{}\"'\\\n#, 1", max_size=60))
def test_scanner_stops_on_any_text(text: str) -> None:
    positions.scan(text)


# --- limits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [
    ".".join(["a"] * 20_000) + " = 1", "[" + ".".join(["a"] * 20_000) + "]",
    "x = {" + " . ".join(['"a"'] * 100) + " = 1}",
    "a = 1\n" + ".".join(["'k.k'"] * 65) + " = 1",
])  # fmt: skip
def test_key_of_thousands_of_parts_is_too_deep(text: str) -> None:
    with pytest.raises(TooDeep, match="more than 64 parts"):
        positions.check_depth(text)


def test_values_nested_deeply_are_too_deep() -> None:
    with pytest.raises(TooDeep, match="nested more than 64 deep") as caught:
        positions.scan("a = " + "[" * 500 + "]" * 500)
    assert caught.value.offset == 4 + 64


def test_long_text_and_numbers_with_dots_are_not_too_deep() -> None:
    positions.check_depth('a = "' + "x.y." * 100 + '"\nb = [' + "0.5, " * 200 + "]\n")


class Steps(str):
    """A text that counts how often the scanner looks at it."""

    looks = 0

    def startswith(self, *args: Any) -> bool:
        Steps.looks += 1
        return super().startswith(*args)


def looks(count: int) -> int:
    text = Steps("".join(f"[f.f{i}]\nk = [1, 2, {{ a.b = 3 }}]\ns = 'x'\n" for i in range(count)))
    Steps.looks = 0
    positions.scan(text)
    return Steps.looks


def test_scanning_grows_linearly() -> None:
    assert looks(400) - looks(200) == looks(200) - looks(0)

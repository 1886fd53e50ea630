from __future__ import annotations

import os
import random
from collections.abc import Iterable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tunebuild import keys


def includes(text: str, folder: Path, include: Iterable[Path], read: keys.Read) -> tuple[Path, ...]:
    """The project headers of one text that is compiled with these folders."""
    flags = [f"-I{each}" for each in include]
    return keys.header_scanner(keys.folders_of(flags, {}, Path("/")), Path("/"), read)(text, folder)


BASE = keys.Inputs(
    kind="object",
    compiler="c0ffee",
    flags=("-O3", "-mavx2"),
    source="aa",
    headers=(("kernels/include/a.h", "11"), ("kernels/include/b.h", "22")),
    environ=(("CPATH", "/opt/include"),),
    mode="tune",
)


def flipped(inputs: keys.Inputs, chance: random.Random) -> keys.Inputs:
    """One field, changed a little: a character, an item more or less, two items in another order."""
    name = chance.choice([each.name for each in fields(inputs)])
    value = getattr(inputs, name)
    if isinstance(value, str):
        change: dict[str, Any] = {name: value + chance.choice('ab\n, "0')}
        return replace(inputs, **change)
    items = list(value)
    pair = name in ("headers", "stamps", "environ")
    fresh = (f"k{chance.random()}", "v") if pair else f"-x{chance.random()}"
    how = chance.randrange(3)
    if how == 0 and items:
        items.pop(chance.randrange(len(items)))
    elif how == 1 and len(set(items)) > 1:
        items.reverse()
    else:
        items.insert(chance.randrange(len(items) + 1), fresh)
    change = {name: tuple(items)}
    changed = replace(inputs, **change)
    return changed if changed != inputs else replace(inputs, salt=inputs.salt + "x")


def test_key_changes_with_any_one_input_in_5000_pairs() -> None:
    chance = random.Random(5)
    inputs, seen = BASE, {keys.key(BASE): BASE}
    for _ in range(5000):
        changed = flipped(inputs, chance)
        assert keys.key(changed) != keys.key(inputs)
        assert keys.difference(inputs, changed)
        assert seen.setdefault(keys.key(changed), changed) == changed
        inputs = changed if chance.random() < 0.3 else BASE


def test_key_stays_when_nothing_changes() -> None:
    assert keys.key(BASE) == keys.key(replace(BASE)) and len(keys.key(BASE)) == 64
    assert keys.difference(BASE, replace(BASE)) == ""


def test_key_parts_that_run_together_stay_apart() -> None:
    assert keys.key(replace(BASE, flags=("-a", "b"))) != keys.key(replace(BASE, flags=("-ab",)))
    assert keys.key(replace(BASE, flags=("-a",), tools=("b",))) != keys.key(replace(BASE, flags=("-a", "b")))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"flags": ("-O3", "-mavx")}, "flags: -mavx2 became -mavx"),
        ({"flags": ("-mavx2", "-O3")}, "flags: another order"),
        (
            {"headers": (("kernels/include/a.h", "11"), ("kernels/include/b.h", "23"))},
            "header kernels/include/b.h changed",
        ),
        ({"source": "ab"}, "its text changed"),
        ({"mode": "normal"}, "mode: tune -> normal"),
        ({"stamps": (("dot", "u4"),), "objects": ("9",)}, "another winner: dot"),
        ({"objects": ("9",)}, "an object that it is linked from changed"),
        ({"environ": (("CPATH", "/x"),)}, "the environment changed: CPATH"),
    ],
)
def test_difference_names_the_first_input_that_differs(change: dict[str, object], words: str) -> None:
    assert keys.difference(BASE, replace(BASE, **change)) == words  # type: ignore[arg-type]


def test_environment_holds_only_what_reaches_a_compiler() -> None:
    spoken = {
        "CPATH": "/x",
        "HOME": "/home/me",
        "LANG": "de_DE.UTF-8",
        "PATH": "/bin",
        "SOURCE_DATE_EPOCH": "0",
    }
    assert keys.environment(spoken) == (("CPATH", "/x"), ("SOURCE_DATE_EPOCH", "0"))


def test_flags_of_a_moved_checkout_are_equal() -> None:
    here = keys.relative_flags(
        ("-I/home/a/p/include", "-O2", "-ffile-prefix-map=/home/a/p=."), Path("/home/a/p")
    )
    there = keys.relative_flags(("-I/mnt/q/include", "-O2", "-ffile-prefix-map=/mnt/q=."), Path("/mnt/q"))
    assert here == there == ("-Iinclude", "-O2", "-ffile-prefix-map=.=.")


# --- normalised text -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("int a; /* one */ int b;", "int a; int b;"),
        ("int a; // one\nint b;", "int a;\nint b;"),
        ("a\n\n\n   b", "a\nb"),
        ("a /* x\n y */ b", "a b"),
        ('s = "/* kept */ // kept";', 's = "/* kept */ // kept";'),
        ("c = '\"'; /* x */ d", "c = '\"'; d"),
        ("#define A 1 \\\n + 2", "#define A 1 + 2"),
        ("\tint  a;", "int a;"),
    ],
)
def test_normalised_text_drops_comments_and_layout(text: str, same: str) -> None:
    assert keys.normalised(text) == keys.normalised(same) == same


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("#define F (x)", "#define F(x)"),
        ("int ab", "int a b"),
        ("a + +b", "a ++b"),
        ('"a  b"', '"a b"'),
        ("#if A\nb", "#if A b"),
        ("ab\\\ncd", "ab cd"),
        ("a/**/b", "ab"),
        ("x = 'a' + 1", "x = 'b' + 1"),
    ],
)
def test_normalised_text_keeps_what_a_compiler_tells_apart(text: str, other: str) -> None:
    assert keys.text_digest(text) != keys.text_digest(other)


WORDS = st.sampled_from(["int", "x", "+", "1.5f", '"a /* b"', "'\\''", "(", ")", ";", "->", "//", "/*", "\\"])


@settings(max_examples=300, deadline=None)
@given(st.lists(WORDS, max_size=12))
def test_normalised_text_is_a_fixed_point(words: list[str]) -> None:
    once = keys.normalised(" ".join(words))
    assert keys.normalised(once) == once


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="ab \n/*\"'\\x", max_size=30))
def test_a_comment_between_lines_never_changes_the_digest(text: str) -> None:
    whole = f"int a;\n{text.replace('*', '')}\n/* said */\nint b;"
    without = f"int a;\n{text.replace('*', '')}\n\nint b;"
    if "\\\n" not in whole and "//" not in text:
        assert keys.text_digest(whole) == keys.text_digest(without)


# --- headers -------------------------------------------------------------------------------------


def reader(files: dict[str, str]) -> keys.Read:
    return lambda path: files.get(str(path))


FILES = {
    "/p/include/a.h": '#include "b.h"\n#include <stdint.h>\n',
    "/p/include/b.h": '#include "sub/c.h"\n#  include "a.h"\n',
    "/p/include/sub/c.h": '#include "d.h"\n',
    "/p/include/sub/d.h": "",
    "/p/include/e.h": "",
}


def test_headers_are_found_through_headers_and_cycles() -> None:
    found = includes('#include "a.h"\n#include <e.h>\n', Path("/p/gen"), [Path("/p/include")], reader(FILES))
    names = [str(path.relative_to("/p/include")) for path in found]
    assert sorted(names) == ["a.h", "b.h", "e.h", "sub/c.h", "sub/d.h"] and names[0] == "a.h"


def test_system_headers_and_unknown_names_are_left_out() -> None:
    assert includes("#include <immintrin.h>\n", Path("/p"), [Path("/p/include")], reader(FILES)) == ()


def test_a_header_beside_the_file_hides_one_of_the_include_folders() -> None:
    files = {**FILES, "/p/gen/e.h": "other"}
    found = includes('#include "e.h"\n', Path("/p/gen"), [Path("/p/include")], reader(files))
    assert found == (Path("/p/gen/e.h"),)


def test_depfile_names_every_prerequisite_once() -> None:
    text = "a.o: k/a.c /usr/include/x.h \\\n  my\\ dir/b.h k/a.c\n\nk/b.h:\n"
    assert keys.depfile(text) == ("k/a.c", "/usr/include/x.h", "my dir/b.h")


def test_where_a_macro_names_the_header_one_that_hides_another_changes_what_is_included(
    tmp_path: Path,
) -> None:
    for folder in ("first", "second", "rows"):
        (tmp_path / folder).mkdir()
    (tmp_path / "second/m.h").write_text("#define K 0\n")
    folders = keys.folders_of(("-Ifirst", "-I", "second", "-O2"), {}, tmp_path)
    text = "#define H <m.h>\n#include H\n"

    def read(path: Path) -> str | None:
        return path.read_text() if path.is_file() else None

    def scan() -> tuple[Path, ...]:
        return keys.header_scanner(folders, tmp_path, read)(text, tmp_path / "rows")

    assert scan() == (tmp_path / "second/m.h",)
    (tmp_path / "first/m.h").write_text("#define K 100\n")
    assert scan() == (tmp_path / "first/m.h", tmp_path / "second/m.h")


def test_header_that_is_asked_for_counts_once_it_is_there(tmp_path: Path) -> None:
    text = '#if __has_include("flag.h")\n#define FLAG 1\n#endif\n'
    there: dict[Path, str] = {}
    assert includes(text, tmp_path, (), there.get) == ()
    there[tmp_path / "flag.h"] = ""
    assert includes(text, tmp_path, (), there.get) == (tmp_path / "flag.h",)


def test_folders_are_those_of_the_flags_and_the_environment_in_the_compilers_order() -> None:
    flags = ("-isystem", "s", "-Ia", "-O3", "-iquoteq", "-include", "f.h", "-I", "b", "-idirafter", "z")
    found = keys.folders_of(flags, {"CPATH": f"c{os.pathsep}", "C_INCLUDE_PATH": "d"}, Path("/nowhere"))
    assert found == keys.Folders(
        ("q", "a", "b", "c", ".", "s", "d", "z"), ("a", "b", "c", ".", "s", "d", "z"), ("f.h",)
    )


def test_prose_that_begins_like_a_directive_names_nothing(tmp_path: Path) -> None:
    text = "// #include WHAT\n/* one\n * #include OTHER\n */\nint a; /* #include <m.h> */\n"
    (tmp_path / "m.h").write_text("")

    def read(path: Path) -> str | None:
        return path.read_text() if path.is_file() else None

    assert keys.header_scanner(keys.folders_of(("-I.",), {}, tmp_path), tmp_path, read)(text, tmp_path) == ()

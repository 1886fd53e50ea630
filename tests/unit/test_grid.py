"""Rows: the product, its order and filter, suffixes, hints, what rows require, and the caps."""

from __future__ import annotations

from pathlib import Path

import pytest
from toml_project import BASE, one_mistake, read

from tunebuild import features, grid
from tunebuild.model import Family, Row, Value
from tunebuild.positions import KeyPath
from tunebuild.records import Notes
from tunebuild.tables import GridTable


def family(folder: Path, axes: str, more: str = "") -> Family:
    text = BASE.replace("u = [1, 2, 4]", axes) + more
    return read(folder, text).families[0]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("k", 2, "k2"), ("budget", True, "budget"), ("prefetch", False, "noprefetch"),
        ("isa", "amx", "isa_amx"),
        ("r", 0.5, "r0d5"), ("k", -2, "k-2"), ("r", 2.0, "r2d0"), ("s", "", "s_"),
    ],
)  # fmt: skip
def test_piece_of_a_suffix_follows_the_type_of_the_value(name: str, value: Value, expected: str) -> None:
    assert grid.piece(name, value) == expected


def test_last_axis_is_fastest_and_single_rows_follow(tmp_path: Path) -> None:
    singles = '[[family.dot.row]]\nu = 16\nsuffix = "wide"\n[[family.dot.row]]\nu = 3\nr = 0.5\n'
    rows = family(tmp_path, 'isa = ["base", "avx2"]\nu = [1, 2]\nbig = [true, false]', singles).rows
    assert [row.suffix for row in rows] == [
        "isa_base_u1_big", "isa_base_u1_nobig", "isa_base_u2_big", "isa_base_u2_nobig",
        "isa_avx2_u1_big", "isa_avx2_u1_nobig", "isa_avx2_u2_big", "isa_avx2_u2_nobig", "wide", "u3_r0d5",
    ]  # fmt: skip
    assert rows[7].values == (("isa", "avx2"), ("u", 2), ("big", False))
    assert rows[7].isa == "avx2" and rows[7].requires == "avx2,fma,f16c" and rows[7].cflags == ()
    assert rows[8].values == (("u", 16),)


def test_filter_removes_cells_and_is_counted(tmp_path: Path) -> None:
    made = family(tmp_path, "u = [1, 2, 4]\nv = [1, 2]", '[family.dot.grid]\nwhere = "u*v < 4"\n')
    assert [row.suffix for row in made.rows] == ["u1_v1", "u1_v2", "u2_v1"]
    assert made.removed == (("u*v < 4", 3),)


def test_row_requires_its_isa_and_its_own(tmp_path: Path) -> None:
    rows = family(tmp_path, "u = [1]", """
[[family.dot.row]]
isa = "avx2"
requires = ["f16c", " avx512f | avxvnni "]
cflags = ["-funroll-loops"]
[[family.dot.row]]
u = 2
requires = "avx512f,avx512bw|avx512vl,amx-int8"
cflags = ["-ffast-math"]
""").rows  # fmt: skip
    assert rows[1].requires == "avx2,fma,f16c,f16c,avx512f|avxvnni" and rows[1].cflags == ("-funroll-loops",)
    # Without an instruction set the compiler is told of each feature outside alternatives.
    assert rows[2].cflags == ("-mavx512f", "-mamx-int8", "-ffast-math")
    assert features.arch_of(rows[2].requires) == "x86_64"


def test_layout_values_are_in_the_row(tmp_path: Path) -> None:
    text = 'layout = ["mr", "deep"]\n[family.dot.grid.axes]'
    found = read(
        tmp_path,
        BASE.replace("[family.dot.grid.axes]", text).replace(
            "u = [1, 2, 4]", "mr = [4, 8]\nu = [1]\ndeep = [true]"
        ),
    )
    assert [row.layout for row in found.families[0].rows] == [(4, True), (8, True)]


def test_toolchain_and_flags_are_axes(tmp_path: Path) -> None:
    more = (
        '[toolchain.clang]\ncc = "clang"\n[flags.fast]\ncflags = ["-ffast-math"]\n[flags.none]\ncflags = []\n'
    )
    rows = family(tmp_path, 'toolchain = ["clang"]\nflags = ["none", "fast"]', more).rows
    assert [(row.suffix, row.toolchain, row.flags) for row in rows] == [
        ("toolchain_clang_flags_none", "clang", "none"), ("toolchain_clang_flags_fast", "clang", "fast"),
    ]  # fmt: skip


def test_hints_are_twenty_rows_or_seven_with_axes_in_front() -> None:
    full = [choice.piece for choice in grid.hint_choices("full")]
    assert len(full) == 20 and full[:6] == ["plain", "u2", "u4", "u8", "vec4", "vec4_u2"]
    short = [choice.piece for choice in grid.hint_choices("short")]
    assert short == ["plain", "u2", "vec8", "vec8_u2", "vec16", "vec16_u2", "vec4_u4"]


def test_hint_rows_carry_their_lanes_and_copies(tmp_path: Path) -> None:
    text = '[project]\nname = "p"\n[family.f]\nsource = "f.c"\nprototype = "void f(float *x, int n)"\n'
    rows = read(tmp_path, text + '[family.f.grid.axes]\nisa = ["avx512"]\n', ("f.c",)).families[0].rows
    by_suffix = {row.suffix: dict(row.values) for row in rows}
    assert by_suffix["isa_avx512_vec16_u2"] == {"isa": "avx512", "vec": 16, "unroll": 2}
    assert by_suffix["isa_avx512_plain"] == {"isa": "avx512", "vec": 0, "unroll": 1}


def made(where: str, **axes: tuple[Value, ...]) -> tuple[tuple[Row, ...], Notes]:
    notes, path = Notes(), ("family", "f")
    names = grid.Names({"base": ""}, frozenset(), frozenset())
    return grid.rows(GridTable(axes=axes, where=where), (), "", (), names, path, notes).rows, notes


def words(notes: Notes) -> list[tuple[KeyPath, str]]:
    return [(note.path[2:], note.what) for note in notes.noted]


def test_grid_past_the_caps_says_how_many_cells() -> None:
    tens = {name: tuple(range(10)) for name in "abcdefg"}
    assert words(made("a < 1", **tens)[1]) == [
        (("grid", "axes"), "a grid of 10,000,000 cells; at most 1,000,000")
    ]
    six = {name: tuple(range(10)) for name in "abcdef"}
    assert words(made("", **six)[1]) == [(("grid", "axes"), "a grid of 1,000,000 cells; at most 100,000")]
    assert words(made("a >= 0", **six)[1]) == [
        (("grid", "where"), "1,000,000 rows are left; at most 100,000")
    ]
    rows, notes = made("f * a + d == 81 + 9", **six)  # 9 * 9 + 9: three axes free
    assert len(rows) == 1000 and not notes.noted
    assert [row.suffix for row in rows[:2]] == ["a9_b0_c0_d9_e0_f9", "a9_b0_c0_d9_e1_f9"]


def test_suffix_too_long_for_a_file_name_is_refused(tmp_path: Path) -> None:
    text = BASE.replace("u = [1, 2, 4]", f'u = ["{"x" * 200}"]')
    assert "is too long" in one_mistake(tmp_path, text).what

"""tune.toml from someone who wishes us ill: always mistakes with a position, never a traceback or a hang."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from toml_project import BASE, FILES, mistakes, write

from tunebuild import manifest
from tunebuild.errors import ConfigError, Mistake


def of_bytes(folder: Path, data: bytes) -> tuple[Mistake, ...]:
    write(folder, "")
    (folder / "tune.toml").write_bytes(data)
    with pytest.raises(ConfigError) as caught:
        manifest.read(folder)
    return caught.value.mistakes


@pytest.mark.parametrize(
    ("data", "words", "line", "column"),
    [
        (b"a = " + b"[" * 500 + b"]" * 500, "nested", 1, 0),
        (b"a = " + b"{a=" * 500 + b"1" + b"}" * 500, "nested", 1, 0),
        (b"\n" + b".".join([b"a"] * 20_000) + b" = 1", "a key of more than 64 parts", 2, 1),
        (b"[" + b".".join([b"a"] * 20_000) + b"]", "a key of more than 64 parts", 1, 2),
        (b"[project]\nname = " + b"9" * 5_000, "not TOML", 2, 8),
        (b'[project]\nname = "a\x00b"', "not TOML: Illegal character", 2, 10),
        (b"[project]\nname = '\xff'", "bytes that are not UTF-8", 2, 9),
        (b"[project]\nname = 'p'\nname = 'q'", "not TOML: Cannot overwrite a value", 3, 11),
        (b"[project\n", "not TOML", 1, 9),
        (b"[project]\nname = 'p' [x]", "not TOML", 2, 12),
        (b"d = 2021-13-01", "not TOML", 1, 0),
        (b"\na = '" + b"9" * 1_000_000 + b"'", "a line of 1,000,006 characters; at most 1,000,000", 2, 1),
        (b"a" * 16_000_001, "16,000,001 bytes; at most 16,000,000", 1, 1),
        (b"", "`project` is missing", 1, 1),
        (b"project = 3", "an integer where a table belongs", 1, 1),
        (b"family = []", "an array where a table belongs", 1, 1),
    ],
    ids=lambda value: str(value)[:20] if isinstance(value, str) else None,
)
def test_file_that_is_hostile_is_a_mistake_with_its_place(
    tmp_path: Path, data: bytes, words: str, line: int, column: int
) -> None:
    found = [mistake for mistake in of_bytes(tmp_path, data) if words in mistake.what]
    assert found and found[0].line == line
    assert found[0].column == column or column == 0


@pytest.mark.parametrize(
    "name",
    ["a b", "a$b", "a\\nb", "a:b", "../a", "a/b", "\\u0430", "", "-a", "a;b", "a'b", "{{ 1 }}", "a\\tb"],
)
@pytest.mark.parametrize("table", ["family", "scope", "app", "toolchain", "isa", "flags", "module"])
def test_name_that_a_build_file_could_misread_is_refused(tmp_path: Path, table: str, name: str) -> None:
    body = {
        "family": 'prototype = "int f(int n)"', "scope": "", "app": 'kind = "static"',
        "toolchain": 'cc = "x"', "isa": "", "flags": "cflags = []", "module": "",
    }[table]  # fmt: skip
    found = mistakes(tmp_path, BASE + f'[{table}."{name}"]\n{body}\n')
    assert any(mistake.line == 7 and "name" in mistake.what for mistake in found)
    assert all(mistake.key.isprintable() and mistake.key.isascii() for mistake in found)


@pytest.mark.parametrize("flag", [
    "-fplugin=x.so", "@file", "-B/tmp", "-wrapper", "--wrapper=x", "-specs=x", "-o", "-ox", "-c", "-E", "-MF",
    "-Xclang", "-fpass-plugin=x", "--config=x", "-save-temps", "", "-DX=\\n", "-fuse-ld=x",
])  # fmt: skip
def test_flag_that_takes_over_the_compiler_is_refused(tmp_path: Path, flag: str) -> None:
    found = mistakes(tmp_path, BASE + f'[build]\ncflags = ["-O2", "{flag}"]\n')
    assert [mistake.key for mistake in found] == ["build.cflags[1]"]


@pytest.mark.parametrize(
    "flag",
    ["-O3", "-mavx2", "-march=armv8.2-a+dotprod", "-DNAME=1", "-fno-math-errno", "-Iinclude", "-std=c17"],
)
def test_ordinary_flag_is_allowed(tmp_path: Path, flag: str) -> None:
    assert manifest.read(write(tmp_path, BASE + f'[build]\ncflags = ["{flag}"]\n')).project.cflags == (flag,)


@pytest.mark.parametrize("path", ["../x.c", "/etc/passwd", "dot/../../../../x.c", "", "a\\nb", "dot/.."])
@pytest.mark.parametrize("key", ["reference", "template", "oracle"])
def test_path_that_leads_elsewhere_is_refused(tmp_path: Path, key: str, path: str) -> None:
    if not path and key == "oracle":
        return  # empty is absent
    text = BASE.replace("[family.dot.grid", f'{key} = "{path}"\n[family.dot.grid')
    if path:
        assert [mistake.key for mistake in mistakes(tmp_path, text)] == [f"family.dot.{key}"]


def test_thousands_of_mistakes_are_all_reported(tmp_path: Path) -> None:
    text = BASE + "".join(f"[family.dot.oops{i}]\n" for i in range(5_000))
    assert len(mistakes(tmp_path, text)) == 5_000


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_mutated_file_is_read_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    text = (Path(__file__).parents[1] / "data/complete/tune.toml").read_text()
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 30)))
    inserted = data.draw(st.text("ab1.=[]{}\"'\\\n#, -", max_size=6))
    write(tmp_path, text[:start] + inserted + text[end:], FILES)
    try:
        manifest.read(tmp_path)
    except ConfigError as error:
        assert all(mistake.line > 0 and mistake.column > 0 for mistake in error.mistakes)

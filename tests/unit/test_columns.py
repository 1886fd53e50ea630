"""Tables and wrapped lines for terminals."""

from __future__ import annotations

import pytest

from tunebuild.columns import ascii_only, painted, shortened, table, wrapped


def test_columns_are_as_wide_as_their_widest_cell_and_lines_end_without_blanks() -> None:
    assert table([("a", "bb", "c"), ("aaa", "b")]) == ["  a    bb  c", "  aaa  b"]
    assert table([]) == []


def test_name_that_does_not_fit_is_kept_whole() -> None:
    name = "x" * 100
    assert table([(name, "y")]) == [f"  {name}  y"]
    assert wrapped(name) == [f"  {name}"] or wrapped(name)[-1].strip() == name


@pytest.mark.parametrize(
    ("given", "shown"),
    [("plain", "plain"), ("a\nb\tc", "a b c"), ("Ørsted", "?rsted"), ("\x1b[31mred", "?[31mred")],
)
def test_what_a_terminal_may_not_know_becomes_a_question_mark(given: str, shown: str) -> None:
    assert ascii_only(given) == shown


def test_long_expression_loses_its_end() -> None:
    assert shortened("a  and\n b", 20) == "a and b"
    assert shortened("x" * 30, 10) == "xxxxxxx..."


def test_colour_is_only_added_where_it_is_on() -> None:
    assert painted("word", "green", False) == "word"
    assert painted("word", "green", True) == "\x1b[32mword\x1b[0m"
    assert painted("word", None, True) == "word"

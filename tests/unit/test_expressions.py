"""The expression language: what it says, what it refuses, and the same condition in C."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunebuild import expressions
from tunebuild.expressions import ExpressionError
from tunebuild.model import Value


def value(text: str, **names: Value) -> Value:
    return expressions.evaluate(expressions.parse(text), names)


@pytest.mark.parametrize(
    ("text", "names", "expected"),
    [
        ("u < 8 or isa != 'base'", {"u": 8, "isa": "base"}, False),
        ("u < 8 or isa != 'base'", {"u": 8, "isa": "avx2"}, True),
        ("ceil_div(m, mr)*mr*k", {"m": 17, "mr": 8, "k": 2}, 48),
        ("2*n", {"n": 4096}, 8192),
        ("n // 3 + n % 3 - -1", {"n": 8}, 5),
        ("n / 2", {"n": 1}, 0.5),
        ("min(a, b, 3) + max(a, 2)", {"a": 5, "b": 4}, 8),
        ("isa in ('avx2', 'avx512')", {"isa": "avx2"}, True),
        ("u not in [1, 2]", {"u": 4}, True),
        ("u in (-1)", {"u": -1}, True),
        ("not (a and b)", {"a": 1, "b": 0}, True),
        ("1 < n <= 4", {"n": 4}, True),
        ("prefetch == true and packed", {"prefetch": True, "packed": True}, True),
        ("a or b", {"a": 7, "b": 0}, True),
        ("return + 1", {"return": 3}, 4),
        ("from * in_", {"from": 2, "in_": 3}, 6),
        ("max == 'each'", {"max": "each"}, True),
        ("x == 'lambda'", {"x": "lambda"}, True),
        ("  n\n + 1", {"n": 1}, 2),
    ],
)
def test_expression_evaluated_gives_its_value(text: str, names: dict[str, Value], expected: Value) -> None:
    got = value(text, **names)
    assert got == expected and type(got) is type(expected)


@pytest.mark.parametrize(
    ("text", "words", "column"),
    [
        ("", "empty", 1),
        ("2**3", "`2 ** 3` is not of the language", 1),
        ("n + a.b", "`a.b` is not of the language", 5),
        ("f(1)", "only min, max and ceil_div", 1),
        ("n + open('x')", "only min, max and ceil_div", 5),
        ("x[0]", "is not of the language", 1),
        ("lambda: 1", "cannot be read", 7),
        ("n if m else k", "cannot be read", 3),
        ("(1, 2)", "a list stands only right of `in`", 1),
        ("u in v", "a list of plain values", 6),
        ("n is 3", "cannot be read", 3),
        ("n +", "cannot be read", 3),
        ("1 2", "cannot be read", 1),
        ("b'x'", "has no meaning here", 1),
        ("9223372036854775808", "past 64 bits", 1),
        ("n \u0430nd m", "has no meaning here", 3),
        ("'\\n'", "has no meaning here", 2),
        ("min(n)", "min takes two values", 1),
        ("a := 1", "cannot be read", 3),
        ("f'{n}'", "is not of the language", 1),
        ("1j", "has no meaning here", 1),
        ("...", "has no meaning here", 1),
    ],
)
def test_text_outside_the_language_is_refused_with_its_column(text: str, words: str, column: int) -> None:
    with pytest.raises(ExpressionError) as caught:
        expressions.parse(text)
    assert words in caught.value.what
    # Where Python's own parser gave up differs between its versions.
    assert caught.value.column == column or words == "cannot be read"


@pytest.mark.parametrize(
    ("text", "names", "words"),
    [
        ("n // m", {"n": 1, "m": 0}, "division by zero (n = 1, m = 0)"),
        ("isa + 'x'", {"isa": "a"}, "is text, not a number"),
        ("isa * 100000000", {"isa": "a"}, "is text, not a number"),
        ("isa % 3", {"isa": "%d"}, "is text, not a number"),
        ("isa < 3", {"isa": "a"}, "text and numbers have no order"),
        ("n * n * n", {"n": 2**30}, "past 64 bits"),
        ("n + m", {"n": 1}, "needs a value for `m`"),
    ],
)
def test_expression_without_a_value_says_why(text: str, names: dict[str, Value], words: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        value(text, **names)
    assert words in caught.value.what


HOSTILE = [
    "(" * 900 + "1" + ")" * 900, "-" * 1900 + "1", "1" + "+1" * 999, "not " * 400 + "1",
    "1" * 100_000, "a" * 3000,
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=range(6))
def test_expression_of_hostile_size_is_an_error(text: str) -> None:
    with pytest.raises(ExpressionError):
        expressions.parse(text)


def test_names_come_in_order_of_appearance() -> None:
    assert expressions.names(expressions.parse("k*m + k - return")) == ("k", "m", "return")


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(ExpressionError):
        expression = expressions.parse(text)
        expressions.evaluate(expression, dict.fromkeys(expression.free, 3))


CONDITIONS = [
    "n <= 8", "n < 8 and m > 2 or n == 100", "not n < 3", "n in (1, 2, 64)", "n not in (1, 2)", "2 < n <= m",
    "n // 4 == m", "n % 3 == 1", "ceil_div(n, 16) > m", "min(n, m) == 3", "max(n, m, 9) == 9", "n - m < 0",
    "-n + 1 < m * 2", "n == 5000000000", "true and n", "(n == 1 or m == 1) and (n in (1) or m < 5)",
]  # fmt: skip
POINTS = [(n, m) for n in (0, 1, 2, 3, 8, 9, 64, 100) for m in (0, 1, 2, 3, 7, 1000)]


@pytest.mark.cc
def test_conditions_in_c_equal_their_values(tmp_path: Path) -> None:
    folder = tmp_path
    parsed = [expressions.parse(text) for text in CONDITIONS]
    tests = "\n".join(f"if ({expressions.to_c(e)}) putchar('1'); else putchar('0');" for e in parsed)
    points = ", ".join(f"{{{n}, {m}}}" for n, m in POINTS)
    (folder / "t.c").write_text(f"""
#include <stdint.h>
#include <stdio.h>
#include <stddef.h>
static const size_t at[][2] = {{{points}}};
int main(void)
{{
    for (size_t i = 0; i < {len(POINTS)}; i++) {{
        size_t n = at[i][0];
        unsigned m = at[i][1];
        {tests}
    }}
    return 0;
}}
""")
    subprocess.run(["cc", "-Wall", "-Wextra", "-Werror", "-o", folder / "t", folder / "t.c"], check=True)
    got = subprocess.run([folder / "t"], check=True, capture_output=True, text=True).stdout
    want = "".join(
        str(int(bool(expressions.evaluate(e, {"n": n, "m": m})))) for n, m in POINTS for e in parsed
    )
    assert got == want


@pytest.mark.parametrize("text", ["n / 2 == 1", "n == 'x'", "n == 0.5", "n // m == 1", "n % 0 == 1"])
def test_condition_that_c_cannot_say_is_refused(text: str) -> None:
    with pytest.raises(ExpressionError):
        expressions.to_c(expressions.parse(text))

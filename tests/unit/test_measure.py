"""Every constant of the race by name, and what `[measure]` may say."""

from __future__ import annotations

import pytest

from tunebuild.errors import UsageError
from tunebuild.measure import Measure, constant_docs, override_problem


def test_overrides_replace_defaults_by_name() -> None:
    measure = Measure.from_overrides([("margin_pct", 4), ("max_rounds", 8), ("noise_floor", "raw")])
    assert (measure.margin_pct, measure.max_rounds, measure.noise_floor) == (4.0, 8, "raw")
    assert isinstance(measure.margin_pct, float)
    assert Measure.from_overrides([]) == Measure()


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("marginpct", 3, "unknown name, did you mean margin_pct?"),
        ("zzz", 3, "unknown name"),
        ("margin_pct", "3", "write a number, such as 3.0"),
        ("margin_pct", True, "write a number, such as 3.0"),
        ("max_rounds", 2.5, "write an integer, such as 32"),
        ("noise_floor", "cv", "write one of aa, raw"),
        ("margin_pct", -1, "write a value from 0 to 90"),
        ("dose_ms", 0, "write at least 0.1"),
        ("placements", 9, "write a value from 1 to 8"),  # a bench has no more
    ],
)
def test_wrong_override_is_told_what_to_write(name: str, value: bool | int | float | str, words: str) -> None:
    assert override_problem(name, value) == words
    with pytest.raises(UsageError, match=name):
        Measure.from_overrides([(name, value)])


def test_every_constant_has_a_meaning_a_legal_default_and_a_stamp() -> None:
    stamped = Measure().stamped()
    for name, default, meaning in constant_docs():
        assert meaning and override_problem(name, default) == ""
        assert stamped[name] == default

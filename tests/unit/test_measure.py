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
        ("dose_ms", 0, "write a value from 0.1 to 10,000"),
        ("timeout_s", float("inf"), "write a value from 0.01 to 86,400"),
        ("leave_z", float("nan"), "write a value from 0 to 1,000"),
        ("dose_ms", 10**400, "write a value from 0.1 to 10,000"),
        ("max_rounds", 2**63 - 1, "write a value from 1 to 10,000"),
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
        if not isinstance(default, str):
            assert override_problem(name, 1e308 if isinstance(default, float) else 10**308), "bounded above"

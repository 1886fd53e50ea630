from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from tunebuild import confirm
from tunebuild.model import Confirm

LOWER = Confirm(("build/normal/demo",), r"time ([0-9.]+) ms", "lower", 2.0)


def test_metric_is_the_last_number_that_the_app_printed() -> None:
    assert confirm.metric(LOWER, "warm: time 9 ms\ntime 7.5 ms\n") == 7.5
    assert confirm.metric(LOWER, "nothing") is None
    assert confirm.metric(replace(LOWER, metric="time (.*) ms"), "time fast ms") is None


@pytest.mark.parametrize("printed", ["nan", "inf", "-inf", "1e999"])
def test_metric_that_is_not_finite_is_none(printed: str) -> None:
    asked = replace(LOWER, metric=r"time (\S+)")
    assert confirm.metric(asked, "time 1e9") == 1e9
    assert confirm.metric(asked, f"time 7\ntime {printed}\n") is None


def test_metric_of_a_group_that_took_no_part_is_none() -> None:
    assert confirm.metric(replace(LOWER, metric=r"time(?: (\d+))?"), "time") is None


def test_every_arm_visits_every_place() -> None:
    arms = ("winners", "f", "g")
    places = Counter((place, arm) for n in range(6) for place, arm in enumerate(confirm.order(arms, n)))
    assert all(places[place, arm] == 2 for place in range(3) for arm in arms)


@pytest.mark.parametrize(
    ("better", "winners", "fallback", "gain"),
    [
        ("lower", 90.0, 100.0, 10.0),
        ("lower", 110.0, 100.0, -10.0),
        ("higher", 110.0, 100.0, 10.0),
        ("lower", 1.0, 0.0, 0.0),
        ("higher", 1e300, 1e-300, confirm.MOST_GAIN_PCT),
        ("lower", 1.7e308, -1.7e308, -confirm.MOST_GAIN_PCT),
    ],
)
def test_gain_is_positive_where_the_winners_are_better(
    better: str, winners: float, fallback: float, gain: float
) -> None:
    asked = replace(LOWER, better=better)  # type: ignore[arg-type]
    assert confirm.gains_pct(asked, [winners, 5.0], [fallback, 5.0]) == pytest.approx((gain, 0.0))


def test_family_keeps_its_winners_only_above_the_margin() -> None:
    measured = {"winners": [100.0, 101.0, 99.0], "f": [103.0, 103.0, 140.0], "g": [101.0, 101.5, 90.0]}
    kept, lost = confirm.verdicts(LOWER, measured, "")
    assert kept.family == "f" and kept.kept and kept.why == "confirmed: +2.91 % end to end, 2 % wanted"
    assert lost.family == "g" and not lost.kept and lost.why.startswith("not confirmed: +0.49 %")


def test_gain_of_a_machine_that_changes_between_rounds_confirms_nothing() -> None:
    measured = {"winners": [100.0, 140.0, 100.0, 140.0, 100.0], "f": [140.0, 100.0, 140.0, 100.0, 140.0]}
    (lost,) = confirm.verdicts(LOWER, measured, "")
    assert not lost.kept
    assert lost.why == "not confirmed: +28.57 % end to end, 2 % wanted; 2 of 5 rounds lost"


def test_crash_with_the_winners_leaves_every_family_at_the_fallback() -> None:
    found = confirm.verdicts(LOWER, {"winners": [], "f": [1.0], "g": []}, "exit code 1")
    assert [one.kept for one in found] == [False, False] and "exit code 1" in found[0].why

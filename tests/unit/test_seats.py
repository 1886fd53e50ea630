"""Several seats of one family in one layout, and what the sidecar's race table says of a seat."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

from lab.checks import MEASURE, Stage, heat, raced, validated

from tunebuild import racetable, seats
from tunebuild.heat import Outcome
from tunebuild.validate import settle

LAYOUTS = (0, 0, 1, 1)


def seat(*gains: float, weight: float = 1.0, incumbent: int | None = None) -> Outcome:
    """A race of rows r0 (the fallback) and r1 in layout 0, r2 and r3 in layout 1."""
    asked = heat(4, layouts=LAYOUTS, apart=True, workloads=(("", weight),), incumbent=incumbent)
    return raced(Stage((0.0, *gains)), asked)


def winners(*outcomes: Outcome) -> list[str]:
    return [outcome.winner_suffix for outcome in seats.combine(outcomes, MEASURE)]


def test_layout_is_picked_by_the_mean_of_its_best_rows() -> None:
    assert winners(seat(9.0, 2.0, 1.0), seat(-5.0, 12.0, 1.0)) == ["r2", "r2"]
    assert winners(seat(12.0, 2.0, 1.0), seat(-5.0, 6.0, 1.0)) == ["r1", "r0"]


def test_weights_decide_between_layouts() -> None:
    decode, prefill = seat(9.0, -2.0, -3.0), seat(-5.0, 9.0, 1.0)
    assert winners(replace(decode, heat=replace(decode.heat, workloads=(("", 9.0),))), prefill) == [
        "r1",
        "r0",
    ]
    assert winners(decode, replace(prefill, heat=replace(prefill.heat, workloads=(("", 9.0),)))) == [
        "r2",
        "r2",
    ]


def test_other_layout_must_beat_the_fallback_by_the_bar() -> None:
    assert winners(seat(0.0, 2.5, 1.0), seat(0.0, 2.8, 1.0)) == ["r0", "r0"]
    assert winners(seat(0.0, 2.5, 1.0), seat(0.0, 5.0, 1.0)) == ["r2", "r2"]


def test_seats_inside_one_layout_win_their_own_rows() -> None:
    assert winners(seat(1.0, 9.0, 4.0), seat(1.0, 4.0, 9.0)) == ["r2", "r3"]


def test_incumbent_layout_within_the_bar_is_kept_and_a_better_one_beyond_it_is_not() -> None:
    both = [seat(6.0, 7.5, 1.0, incumbent=1), seat(6.0, 7.5, 1.0, incumbent=1)]
    assert winners(*both) == ["r1", "r1"]
    both = [seat(6.0, 9.5, 1.0, incumbent=1), seat(6.0, 9.5, 1.0, incumbent=1)]
    assert winners(*both) == ["r2", "r2"]
    assert winners(*[seat(8.5, 6.0, 1.0, incumbent=2)] * 2) == ["r2", "r2"]


def test_layouts_within_one_percent_of_each_other_go_by_grid_order() -> None:
    assert winners(seat(6.0, 6.8, 1.0), seat(6.0, 6.8, 1.0)) == ["r1", "r1"]
    assert winners(seat(6.0, 7.2, 1.0), seat(6.0, 7.2, 1.0)) == ["r2", "r2"]


def test_layout_at_home_counts_only_what_its_rows_would_win() -> None:
    assert winners(seat(2.9, 3.4, 1.0), seat(2.9, 3.4, 1.0)) == ["r2", "r2"]


def test_incumbent_row_inside_another_layout_keeps_within_the_bar() -> None:
    other = seat(1.0, 9.0, 4.0)
    assert winners(seat(1.0, 9.0, 6.5, incumbent=3), other) == ["r3", "r2"]
    assert winners(seat(1.0, 9.0, 5.0, incumbent=3), other) == ["r2", "r2"]


def test_demotion_of_one_seat_takes_the_others_home() -> None:
    both = seats.combine([seat(1.0, 9.0, 4.0), seat(1.0, 4.0, 9.0)], MEASURE)
    lost = settle(both[0], validated(Stage((0.0, 1.0, 0.0, 0.0)), both[0]))
    after = seats.agree([lost, both[1]])
    assert [outcome.winner_suffix for outcome in after] == ["r0", "r0"]
    assert after[1].demoted == "r3" and after[1].margin_pct == 0.0


def test_companion_whose_layout_the_family_left_serves_the_family_row_and_names_what_it_lost() -> None:
    raced_in_old_layout = raced(Stage((0.0, 9.0)), heat(2))
    after = seats.follow(raced_in_old_layout, "mr4")
    assert (after.winner_suffix, after.demoted, after.held_by) == ("mr4", "r1", "demoted")
    table = racetable.table(after, None, 7)
    assert (table["winner"], table["demoted"], table["margin_pct"]) == ("mr4", "r1", 0.0)
    assert table["fallback"] == "r0" and "mr4" not in table["rows"]


def layout_of(suffix: str) -> tuple[int, ...]:
    return (LAYOUTS[int(suffix[1:])],)


def demoted(outcome: Outcome) -> Outcome:
    """The outcome after a validation in which no row gained."""
    return settle(outcome, validated(Stage((0.0, 1.0, 0.0, 0.0)), outcome))


def test_companion_goes_home_with_the_seats_that_a_demotion_took_there() -> None:
    both = seats.combine([seat(1.0, 9.0, 4.0), seat(1.0, 4.0, 9.0)], MEASURE)
    companion = seat(-20.0, -20.0, 9.0)
    assert companion.winner_suffix == "r3"
    family, (following,) = seats.together([demoted(both[0]), both[1]], [companion], layout_of)
    assert [outcome.winner_suffix for outcome in family] == ["r0", "r0"]
    assert (following.winner_suffix, following.demoted) == ("r0", "r3")


def test_companion_in_the_layout_of_its_family_keeps_its_own_row() -> None:
    both = seats.combine([seat(1.0, 9.0, 4.0), seat(1.0, 4.0, 9.0)], MEASURE)
    companion = seat(-20.0, -20.0, 9.0)
    family, (following,) = seats.together(both, [companion], layout_of)
    assert [outcome.winner_suffix for outcome in family] == ["r2", "r3"]
    assert following is companion


def test_companion_without_a_winner_stays_empty_where_its_family_changes_the_layout() -> None:
    both = seats.combine([seat(1.0, 9.0, 4.0), seat(1.0, 4.0, 9.0)], MEASURE)
    empty = replace(both[1], winner=-1)
    _, (following,) = seats.together([demoted(both[0]), both[1]], [empty], layout_of)
    assert following is empty


def test_table_tells_why_in_json() -> None:
    stage = Stage((0.0, 9.0, 6.0, -20.0), sigma=0.004, dies={2: 3})
    outcome = raced(stage, heat(4, incumbent=3))
    validation = validated(Stage((0.0, 9.0, 6.0, -20.0)), outcome)
    table = racetable.table(settle(outcome, validation), validation, 7)
    assert json.loads(json.dumps(table)) == table
    assert (table["winner"], table["fallback"], table["floor_pct"]) == ("r1", "r0", 3.0)
    assert table["margin_pct"] == pytest.approx(9.0, abs=0.5)
    rows = table["rows"]
    assert isinstance(rows, dict) and {"med_us", "best_us"} <= rows["r1"].keys()
    assert rows["r3"]["left_why"].startswith("slower than the fallback")
    assert table["rejected"] == "r2" and table["rejections"] == {"r2": "race: signal 11"}
    assert table["incumbent"] == "r3"


def test_table_of_a_seat_without_a_passing_row_names_the_reference() -> None:
    outcome = raced(Stage((0.0, 1.0), dies={0: 1, 1: 1}), heat(2))
    table = racetable.table(outcome, None, 7)
    assert table["winner"] == "reference" and table["rejected"] == "r0; r1" and table["margin_pct"] == 0

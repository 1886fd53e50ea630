"""The race on scenes of known truth, its exact properties, and bugs that must not pass unseen."""

from __future__ import annotations

import io
import math
import random
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

from lab import bugs, checks, figures, grids, ours
from lab.box import FaultyBench, SimulatedBench, build
from lab.checks import BAR, MEASURE, Stage, drifting, heat, raced, validated
from lab.weathers import WEATHERS

from tunebuild.drive import Recording, Replay, race_heat
from tunebuild.errors import WorkFailed
from tunebuild.heat import Outcome
from tunebuild.measure import Measure
from tunebuild.model import Disturbed, MicroRound
from tunebuild.race import race

CI_BUGS = (
    "fallback skipped in every other micro-round",
    "cyclic order",
    "seat before the margin",
    "incumbent ignored",
    "validation trusts the race",
    "sign swapped",
    "min for max in the bar",
    "unseeded order",
)


@pytest.mark.parametrize("name", checks.CHECKS)
def test_scene(name: str) -> None:
    checks.CHECKS[name]()


@pytest.mark.parametrize("name", CI_BUGS)
def test_seeded_bug_is_caught_by_its_check(name: str) -> None:
    bug = next(bug for bug in bugs.BUGS if bug.name == name)
    assert bugs.caught_by(bug, (bug.check,)) == bug.check


def test_every_seeded_bug_still_has_its_line_and_its_check() -> None:
    for bug in bugs.BUGS:
        source = (bugs.ROOT / "tunebuild" / f"{bug.module}.py").read_text()
        assert source.count(bug.old) == 1, bug.name
        assert bug.check in checks.CHECKS
    assert len(bugs.BUGS) >= 40


# --- exact properties

gains = st.lists(st.integers(-20, 20), min_size=2, max_size=7, unique=True).map(
    lambda steps: (0.0, *(step * 1.7 + 0.35 for step in steps))
)


@settings(max_examples=40, deadline=None)
@given(gains, st.integers(0, 999), st.randoms(use_true_random=False))
def test_permuting_rows_permutes_the_verdict(
    given_gains: tuple[float, ...], seed: int, rng: random.Random
) -> None:
    rows = list(range(len(given_gains)))
    rng.shuffle(rows)
    one = raced(Stage(given_gains, (drifting,)), heat(len(rows), seed=seed))
    shuffled = tuple(given_gains[row] for row in rows)
    other = raced(Stage(shuffled, (drifting,)), heat(len(rows), control=rows.index(0), seed=seed))
    assert rows[other.winner] == one.winner


@settings(max_examples=30, deadline=None)
@given(gains, st.floats(0.1, 50), st.integers(0, 99))
def test_scaling_all_times_changes_nothing(given_gains: tuple[float, ...], factor: float, seed: int) -> None:
    one = raced(Stage(given_gains, (drifting,)), heat(len(given_gains), seed=seed))
    slower = lambda *_: math.log(factor)  # noqa: E731
    other = raced(Stage(given_gains, (drifting, slower)), heat(len(given_gains), seed=seed))
    assert other.winner == one.winner and other.margin_pct == pytest.approx(one.margin_pct, abs=1e-2)


@settings(max_examples=30, deadline=None)
@given(gains, st.floats(-60, -1), st.integers(0, 99))
def test_adding_a_slow_row_never_changes_the_seat(
    given_gains: tuple[float, ...], slow: float, seed: int
) -> None:
    one = raced(Stage(given_gains, (drifting,)), heat(len(given_gains), seed=seed))
    more = (*given_gains, slow)
    assert raced(Stage(more, (drifting,)), heat(len(more), seed=seed)).winner == one.winner


@settings(max_examples=30, deadline=None)
@given(gains, st.data())
def test_slowing_a_loser_never_crowns_it(given_gains: tuple[float, ...], data: st.DataObject) -> None:
    one = raced(Stage(given_gains, (drifting,)), heat(len(given_gains)))
    losers = [row for row in range(1, len(given_gains)) if row != one.winner]
    if not losers:
        return
    loser = data.draw(st.sampled_from(losers))
    by = data.draw(st.floats(0, 40))
    slowed = tuple(gain - by * (row == loser) for row, gain in enumerate(given_gains))
    assert raced(Stage(slowed, (drifting,)), heat(len(slowed))).winner != loser


def test_validation_never_reads_race_samples() -> None:
    outcome = raced(Stage((0.0, 6.0)), heat(2))
    forged = replace(
        outcome, margin_pct=50.0, rows=tuple(replace(row, gain_pct=50.0) for row in outcome.rows)
    )
    fresh = [validated(Stage((0.0, 4.0), sigma=0.02), each) for each in (outcome, forged)]
    assert fresh[0] == fresh[1]


def test_race_can_be_ended_at_every_question() -> None:
    whole = Stage((0.0, 5.0, 4.5), sigma=0.01)
    raced(whole, heat(3))
    for last in range(len(whole.asked)):
        stage, asking = Stage((0.0, 5.0, 4.5), sigma=0.01), race(heat(3), MEASURE, BAR)
        answer = None
        while len(stage.asked) < last:
            asked = asking.send(answer)
            answer = stage.run(asked) if isinstance(asked, MicroRound) else None
        asking.close()


# --- recorded


def test_replay_decides_bit_for_bit_as_recorded() -> None:
    machine = build(grids.make("five", random.Random(3)), WEATHERS[8], 3)
    stream = io.StringIO()
    asked = ours.heat_of(machine, 3, None)
    live = race_heat(Recording(SimulatedBench(machine, 4), stream, "dot"), asked, MEASURE, BAR)
    lines = stream.getvalue().splitlines()
    assert repr(race_heat(Replay(lines, "dot"), asked, MEASURE, BAR)) == repr(live)
    with pytest.raises(WorkFailed, match="ends before"):
        race_heat(Replay(lines[:-1], "dot"), asked, MEASURE, BAR)
    with pytest.raises(WorkFailed, match="differs from"):
        race_heat(Replay(lines, "dot"), replace(asked, seed=9), MEASURE, BAR)
    with pytest.raises(WorkFailed, match="ends before"):
        race_heat(Replay(lines, "axpy"), asked, MEASURE, BAR)


def test_replay_keeps_a_disturbance() -> None:
    stream = io.StringIO()
    stage = Stage((0.0, 9.0, 6.0), dies={1: 3})
    live = race_heat(Recording(stage, stream, "dot"), heat(3), MEASURE, BAR)
    assert isinstance(Replay(stream.getvalue().splitlines(), "dot").run(stage.asked[0]), tuple)
    assert repr(race_heat(Replay(stream.getvalue().splitlines(), "dot"), heat(3), MEASURE, BAR)) == repr(live)


# --- grids of other sizes, faults, weathers


def mint_of(grid: str, rows: int, weather: int = 0, seed: int = 5) -> tuple[Outcome, tuple[float, ...]]:
    truth = grids.make(grid, random.Random(seed), rows)
    minted = ours.mint(build(truth, WEATHERS[weather], seed), seed, None, Measure())
    return minted.outcome, truth.gains_pct


def test_one_row_is_held_without_a_race() -> None:
    outcome, _ = mint_of("null", 1)
    assert (outcome.winner, outcome.held_by, outcome.rounds) == (0, "only", 0)


@pytest.mark.parametrize("weather", [0, 1])
def test_200_rows_find_their_winner_within_the_budget(weather: int) -> None:
    outcome, truth = mint_of("clear", 200, weather)
    assert truth[outcome.winner] == 10.0
    assert outcome.doses < MEASURE.budget_doses + 200 * MEASURE.budget_doses_per_row + 24


def test_200_equal_rows_crown_none() -> None:
    outcome, _ = mint_of("null", 200)
    assert outcome.winner == outcome.control and outcome.doses < 80


def test_all_rows_rejected_leaves_no_winner() -> None:
    machine = build(grids.make("clear", random.Random(1)), WEATHERS[0], 1)
    bench = FaultyBench(SimulatedBench(machine, 1), frozenset(range(20)))
    outcome = race_heat(bench, ours.heat_of(machine, 1, None), MEASURE, BAR)
    assert outcome.winner_suffix == "" and outcome.held_by == "rejected" and len(outcome.rejected) == 20


@pytest.mark.parametrize("after", [0, 1, 3, 6])
def test_rows_that_die_at_slice_k_are_out_and_the_rest_is_decided(after: int) -> None:
    truth = grids.make("clear", random.Random(2))
    machine = build(truth, WEATHERS[0], 2)
    best = truth.gains_pct.index(10.0)
    bench = FaultyBench(SimulatedBench(machine, 2), frozenset({best}), after)
    outcome = race_heat(bench, ours.heat_of(machine, 2, None), MEASURE, BAR)
    if after < 5:
        assert outcome.winner == outcome.control
        assert [each.suffix for each in outcome.rejected] == [f"row{best}"]
    assert not isinstance(outcome, Disturbed)


@pytest.mark.parametrize("weather", WEATHERS, ids=lambda weather: weather.name)
def test_clear_winner_is_found_and_kept_in_every_weather(weather: object) -> None:
    once = figures.by_ours(Measure())
    made = figures.box_of(once, weather, "clear", 3)  # type: ignore[arg-type]
    assert all(mint.crowned and mint.regret < 0.02 for mint in made)
    assert made[0].winner == made[1].winner

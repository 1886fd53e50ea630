"""Medians, spreads, the exact sign test, the two-way fit."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunebuild import stats
from tunebuild.stats import (
    cv_pct,
    median,
    pseudo_median,
    robust_spread,
    sign_interval,
    sign_limit,
    sign_tail,
    two_modes,
    two_way,
)

numbers = st.floats(-1e6, 1e6, allow_nan=False)


@pytest.mark.parametrize(
    ("values", "middle"), [([], 0.0), ([7.0], 7.0), ([3.0, 1.0, 2.0], 2.0), ([4.0, 1.0, 3.0, 2.0], 2.5)]
)
def test_median_is_the_middle_or_the_mean_of_two(values: list[float], middle: float) -> None:
    assert median(values) == middle


def test_median_leaves_the_callers_order_alone() -> None:
    values = [3.0, 1.0, 2.0]
    median(values)
    assert values == [3.0, 1.0, 2.0]


@given(st.lists(numbers, min_size=1, max_size=30), numbers)
def test_pseudo_median_lies_inside_and_follows_a_shift(values: list[float], shift: float) -> None:
    middle = pseudo_median(values)
    assert min(values) <= middle <= max(values)
    assert pseudo_median([value + shift for value in values]) == pytest.approx(middle + shift, abs=1e-6)


def test_pseudo_median_shrugs_at_one_outlier() -> None:
    assert pseudo_median([1.0, 1.1, 0.9, 1.0, 1.05, 50.0]) < 1.2


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([], 0.0),
        ([5.0], 0.0),
        ([5.0, 5.0, 5.0], 0.0),
        ([-1.0, 1.0], 0.0),
        ([9.0, 11.0], 100 * math.sqrt(2) / 10),
    ],
)
def test_cv_is_sample_deviation_over_mean_and_0_where_it_has_none(values: list[float], wanted: float) -> None:
    assert cv_pct(values) == pytest.approx(wanted)


def test_robust_spread_of_a_normal_sample_is_its_deviation() -> None:
    rng = random.Random(1)
    assert robust_spread([rng.gauss(5, 2) for _ in range(4000)]) == pytest.approx(2, rel=0.05)


def test_sign_tail_counts_all_subsets() -> None:
    assert (
        sign_tail(4, 0) == 1
        and sign_tail(4, 3) == 5 / 16
        and sign_tail(4, 4) == 1 / 16
        and sign_tail(4, 5) == 0
    )


@given(st.integers(1, 60), st.sampled_from([0.001, 0.01, 0.02, 0.025, 0.05]))
def test_sign_limit_is_the_least_count_at_or_under_alpha(count: int, alpha: float) -> None:
    limit = sign_limit(count, alpha)
    assert limit == count + 1 or sign_tail(count, limit) <= alpha
    assert sign_tail(count, limit - 1) > alpha


def test_sign_interval_covers_at_least_as_often_as_it_says() -> None:
    rng = random.Random(2)
    for count in (6, 12, 24):
        held = 0
        for _ in range(1000):
            found = sign_interval([rng.gauss(0, 1) for _ in range(count)])
            assert found is not None
            held += found[0] <= 0 <= found[1]
        assert held >= 940


def test_two_modes_finds_two_states_and_no_state_in_noise() -> None:
    rng = random.Random(3)
    states = [rng.choice((0.0, 0.05)) + rng.gauss(0, 0.004) for _ in range(40)]
    gap, separation = two_modes(states, 0.2)
    assert gap == pytest.approx(0.05, abs=0.01) and separation > 6
    alarms = sum(two_modes([rng.gauss(0, 1) for _ in range(24)], 0.2)[1] > 4.5 for _ in range(500))
    assert alarms <= 5


def test_two_modes_of_too_few_values_are_none() -> None:
    assert two_modes([1.0, 2.0, 3.0], 0.5) == (0.0, 0.0)
    assert two_modes([], 0.2) == two_modes([1.0, 2.0, 9.0], 0.2) == (0.0, 0.0)


def test_two_modes_are_told_in_spreads_inside_the_groups() -> None:
    gap, separation = two_modes([1.2, 0.0, 1.1, 0.1, 1.0, 0.2], 0.2)
    assert gap == pytest.approx(1.0) and separation == pytest.approx(10.0)
    assert two_modes([0.0, 0.0, 2.0, 2.0], 0.2) == (2.0, math.inf)
    assert two_modes([3.0, 3.0, 3.0, 3.0], 0.2) == (0.0, 0.0)


def test_group_smaller_than_its_share_is_no_mode() -> None:
    few = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 9.0, 9.1]
    assert two_modes(few, 0.2)[0] == pytest.approx(9.05 - 0.3)
    assert two_modes(few, 0.3)[0] < 9.05 - 0.3


blocks = st.lists(st.permutations(range(5)).map(lambda order: list(order)), min_size=4, max_size=12)


def noisy(orders: list[list[int]], seed: int) -> list[list[tuple[int, float]]]:
    rng = random.Random(seed)
    return [[(row, 0.03 * row + rng.gauss(0, 0.01)) for row in order] for order in orders]


@given(blocks, st.integers(0, 999), st.lists(st.floats(-1, 1), min_size=12, max_size=12))
def test_weather_common_to_a_block_leaves_every_estimate_unchanged(
    orders: list[list[int]], seed: int, weather: list[float]
) -> None:
    calm = noisy(orders, seed)
    stormy = [[(row, y + weather[k]) for row, y in block] for k, block in enumerate(calm)]
    for fine in (0, 3):
        one = two_way(calm, huber_k=1.5, floor=0.0015, fine=fine)
        other = two_way(stormy, huber_k=1.5, floor=0.0015, fine=fine)
        for row in range(1, 5):
            gap = one.effects[row] - one.effects[0]
            assert other.effects[row] - other.effects[0] == pytest.approx(gap, abs=1e-12)


@given(blocks, st.integers(0, 999), st.permutations(range(5)))
def test_naming_rows_otherwise_names_estimates_otherwise(
    orders: list[list[int]], seed: int, names: list[int]
) -> None:
    given_blocks = noisy(orders, seed)
    renamed = [[(names[row], y) for row, y in block] for block in given_blocks]
    one = two_way(given_blocks, huber_k=1.5, floor=0.0015)
    other = two_way(renamed, huber_k=1.5, floor=0.0015)
    for row in range(5):
        assert other.effects[names[row]] == pytest.approx(one.effects[row], abs=1e-12)


def test_fit_finds_rows_through_blocks_that_miss_some() -> None:
    rng = random.Random(4)
    orders = [rng.sample(range(9), 4) for _ in range(60)]
    fit = two_way(noisy(orders, 5), huber_k=1.5, floor=0.0015)
    for row in range(1, 9):
        assert fit.effects[row] - fit.effects[0] == pytest.approx(0.03 * row, abs=4 * fit.error(row, 0))
    assert fit.spread == pytest.approx(0.01, rel=0.25)
    assert sum(fit.windows.values()) == 240


def test_spread_is_never_under_its_floor() -> None:
    exact = [[(0, 0.0), (1, 0.5)] for _ in range(4)]
    assert two_way(exact, huber_k=1.5, floor=0.0015).spread == 0.0015


def test_error_of_two_rows_is_that_of_their_paired_differences() -> None:
    pairs = [[(0, 0.0), (1, 0.5)], [(0, 9.0), (1, 9.6)]]
    fit = two_way(pairs, huber_k=1.5, floor=0.0015)
    assert fit.effects[1] - fit.effects[0] == pytest.approx(0.55)
    assert fit.error(0, 1) == pytest.approx(0.1 / math.sqrt(2) / math.sqrt(2))
    assert (fit.windows, fit.counts) == ({0: 2, 1: 2}, {0: 2.0, 1: 2.0})


def test_windows_in_runs_count_by_what_a_run_leaves_of_them() -> None:
    """A clock that steps between the halves of each micro-round: runs of three see through it."""
    rng = random.Random(8)
    step = [[(row, 0.01 * row + 0.03 * (place > 2) + rng.gauss(0, 0.003)) for place, row in enumerate(order)]
            for order in (rng.sample(range(6), 6) for _ in range(40))]  # fmt: skip
    whole = two_way(step, huber_k=1.5, floor=0.0001)
    runs = two_way(step, huber_k=1.5, floor=0.0001, fine=3)
    assert runs.spread < 0.5 * whole.spread
    assert runs.windows == dict.fromkeys(range(6), 40)
    share = (1 - 1 / 3) / (1 - 1 / 6)
    assert runs.counts == pytest.approx(dict.fromkeys(range(6), 40 * share))


@pytest.mark.parametrize(
    ("size", "lengths"), [(2, [2]), (8, [8]), (9, [4, 5]), (12, [6, 6]), (20, [6, 7, 7])]
)
def test_micro_rounds_are_cut_into_equal_runs_of_about_six(size: int, lengths: list[int]) -> None:
    block = [(row, float(row)) for row in range(size)]
    runs, kept = stats._cut([block], 6)
    assert [len(run) for run in runs] == lengths and [y for run in runs for y in run] == block
    assert kept == pytest.approx([(1 - 1 / length) / (1 - 1 / size) for length in lengths])


def test_fit_from_an_earlier_fit_is_the_same_fit() -> None:
    given_blocks = noisy([[0, 1, 2, 3, 4]] * 8, 6)
    cold = two_way(given_blocks, huber_k=1.5, floor=0.0015)
    warm = two_way(
        given_blocks,
        huber_k=1.5,
        floor=0.0015,
        start=two_way(given_blocks[:4], huber_k=1.5, floor=0.0015).effects,
    )
    for row in range(1, 5):
        gap = cold.effects[row] - cold.effects[0]
        assert warm.effects[row] - warm.effects[0] == pytest.approx(gap, abs=0.25 * cold.error(row, 0))

"""What a race asks for: window lengths, repetitions, orders and placements; and which answers count."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from dataclasses import replace

import pytest

from tunebuild import windows
from tunebuild.heat import Heat
from tunebuild.measure import Measure
from tunebuild.model import Sample
from tunebuild.windows import Track, log_times, passes, williams

MEASURE = Measure()


def track(rows: int, **more: float) -> Track:
    heat = replace(Heat("dot", tuple(f"r{row}" for row in range(rows)), (0,), seed=1), **more)
    return Track(heat, MEASURE, random.Random(1), live=set(range(rows)))


@pytest.mark.parametrize(
    ("rows", "wanted_ms"), [(1, 2.5), (80, 2.5), (160, 1.25), (400, 0.5), (2000, 0.5), (20_000, 0.5)]
)
def test_window_is_shorter_in_large_grids_down_to_half_a_millisecond(rows: int, wanted_ms: float) -> None:
    assert track(rows).slice_ns == pytest.approx(wanted_ms * 1e6)


def test_window_is_never_under_200_steps_of_the_clock() -> None:
    assert track(2, clock_step_ns=1e6).slice_ns == 200e6
    assert track(2, clock_step_ns=1e4).slice_ns == pytest.approx(2.5e6)


def test_rounds_grow_to_a_dose_where_windows_are_short() -> None:
    assert [passes(track(20), number) for number in (1, 2, 3, 9)] == [4, 4, 8, 8]
    assert [passes(track(2000), number) for number in (1, 2, 3, 4, 9)] == [4, 4, 8, 16, 20]


@pytest.mark.parametrize(
    ("rows", "most", "sizes"),
    [(0, 24, [0]), (1, 24, [1]), (24, 24, [24]), (25, 24, [13, 12]), (49, 24, [17, 16, 16])],
)
def test_rows_share_micro_rounds_evenly(rows: int, most: int, sizes: list[int]) -> None:
    pools = windows._pools(list(range(rows)), most)
    assert [len(pool) for pool in pools] == sizes
    assert sorted(itertools.chain(*pools)) == list(range(rows))


@pytest.mark.parametrize(
    ("reps", "wall_ns", "wanted"),
    [
        (1, 0, 1000),  # a clock that shows nothing: as much more as may be
        (1, 100, 1000),
        (7, 25_000, 700),
        (3, 1_000_000, 8),  # 2.5 times three, and up
        (10, 2_000_000, 20),  # twice at least
        (900_000_000, 1_000_000, 10**9),
    ],
)
def test_repetitions_grow_to_fill_a_window_at_most_a_thousandfold(
    reps: int, wall_ns: int, wanted: int
) -> None:
    assert windows._more(reps, wall_ns, 2.5e6) == wanted


@pytest.mark.parametrize(
    ("reps", "wall_ns", "before", "words"),
    [
        (10**9, 10**6, None, "the clock stands still"),
        (10**9 - 1, 10**6, None, ""),
        (10_000, 99, (1000, 100), "time does not grow with calls"),
        (10_000, 100, (1000, 100), ""),
        (10_000, 99, (999, 100), ""),  # a thousand calls at least: one is still the cold one
        (9_999, 0, (1000, 100), ""),
        (1_000_000, 9_999, (1000, 100), "1000 calls 100 ns"),
    ],
)
def test_time_must_grow_with_calls(
    reps: int, wall_ns: int, before: tuple[int, int] | None, words: str
) -> None:
    found = windows._unscalable(reps, wall_ns, before)
    assert words in found and bool(words) == bool(found)


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_williams_orders_stand_and_follow_equally_often(count: int) -> None:
    orders = williams(count)
    assert len(orders) == count * (2 if count % 2 else 1)
    places = Counter((place, row) for order in orders for place, row in enumerate(order))
    follows = Counter(pair for order in orders for pair in itertools.pairwise(order))
    assert set(places.values()) == {len(orders) // count}
    assert len(follows) == count * (count - 1) and len(set(follows.values())) == 1


@pytest.mark.parametrize(("rows", "shares"), [(4, 2), (6, 2), (7, 3), (9, 3), (24, 3)])
def test_control_comes_as_often_as_the_root_of_the_rows_and_never_twice_running(
    rows: int, shares: int
) -> None:
    racing = track(rows + 1)
    for _ in range(50):
        order = list(windows._order(racing, list(range(1, rows + 1))))
        assert order.count(0) == shares and sorted(set(order)) == list(range(rows + 1))
        assert all(pair != (0, 0) for pair in itertools.pairwise(order))


def test_placements_are_dealt_like_cards() -> None:
    racing = track(2)
    dealt = [racing.next_placement() for _ in range(24)]
    assert all(sorted(dealt[at : at + 8]) == list(range(8)) for at in (0, 8, 16))
    assert dealt[:8] != dealt[8:16] and racing.placed == 24


def sample(row: int, wall_ns: int, cpu_ns: int) -> Sample:
    return Sample(row, 10, wall_ns, cpu_ns)


def test_windows_that_somebody_shared_do_not_count_unless_most_were_shared() -> None:
    own, shared = (0, 1000, 1000), (1, 1000, 969)
    count = lambda *given: len(log_times([sample(*each) for each in given], 0.97))  # noqa: E731
    assert count(own, shared) == 1 and count(own, own, shared, shared) == 2
    assert count(own, own, shared, shared, shared) == 5
    assert count((0, 1000, 970), shared) == 1
    assert count((0, 1000, 0), (0, 1000, -1), shared) == 2  # an unknown processor time is no reproach


def test_window_without_time_does_not_count_and_others_are_logs_of_a_call() -> None:
    assert log_times([sample(0, 0, 0), sample(1, -5, 0), sample(2, 1000, 0)], 0.97) == [(2, math.log(100))]
    assert log_times([], 0.97) == []

"""What a race asks for: repetitions, orders, placements, micro-rounds; and what it keeps of the answers.

The order of a micro-round is random but seeded (a Williams square for few rows): what a row does to its
successor, and where the clock steps, averages out instead of favouring a place. All rows of a micro-round
meet the same buffers at one of a few placements.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tunebuild.heat import Heat, Lap
from tunebuild.measure import Measure
from tunebuild.model import Disturbed, MicroRound, Rejected, Sample, Slice

_LARGEST_GROWTH = 1000
_MOST_CALLS = 10**9


@dataclass(slots=True)
class Track:
    """The state of one race; lives inside the generator only."""

    heat: Heat
    measure: Measure
    rng: random.Random
    live: set[int]
    reps: dict[tuple[int, int], int] = field(default_factory=dict)  # (workload, row)
    cost_ns: dict[tuple[int, int], float] = field(default_factory=dict)
    blocks: list[list[list[tuple[int, float]]]] = field(default_factory=list)  # per workload
    rejected: dict[int, Rejected] = field(default_factory=dict)
    left: dict[int, tuple[int, str]] = field(default_factory=dict)
    spent_ns: float = 0.0
    placed: int = 0
    placement_decks: dict[int, list[int]] = field(default_factory=dict)  # by workload
    order_deck: list[tuple[int, ...]] = field(default_factory=list)
    order_rows: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        self.blocks = [[] for _ in self.heat.workloads]

    @property
    def control(self) -> int:
        """The first fallback that is not rejected; any live row when none is left; -1 of no rows."""
        return next((row for row in self.heat.controls if row in self.live), min(self.live, default=-1))

    @property
    def slice_ns(self) -> float:
        """The window's length: shorter in very large grids, never too short for the clock."""
        m = self.measure
        crowd = max(len(self.heat.rows) / m.usual_rows, 1.0)
        wanted = max(m.slice_ms / crowd, min(m.min_slice_ms, m.slice_ms)) * 1e6
        return max(wanted, m.min_clock_steps * self.heat.clock_step_ns)

    @property
    def doses(self) -> float:
        return self.spent_ns / (self.measure.dose_ms * 1e6)

    def reject(self, row: int, why: str) -> None:
        self.live.discard(row)
        self.rejected[row] = Rejected(self.heat.rows[row], "race", why)

    def leave(self, row: int, number: int, why: str) -> None:
        self.live.discard(row)
        self.left[row] = (number, why)

    def next_placement(self, workload: int = 0) -> int:
        """Every placement once in seeded order, then again: each row meets all of them equally often."""
        deck = self.placement_decks.setdefault(workload, [])
        if not deck:
            deck += range(max(self.measure.placements, 1))
            self.rng.shuffle(deck)
        self.placed += 1
        return deck.pop()


# --- sizing --------------------------------------------------------------------------------------


def size_up(track: Track) -> Lap:
    """Find each row's repetitions: one call, then at most 1000 times more, until a window is half full."""
    for workload in range(len(track.heat.workloads)):
        for pool in _pools(sorted(track.live), track.measure.pool_rows):
            yield from _size_pool(track, workload, pool)


def _size_pool(track: Track, workload: int, pool: list[int]) -> Lap:
    reps = dict.fromkeys(pool, 1)
    before: dict[int, tuple[int, int]] = {}
    while pool := [row for row in pool if row in track.live and row in reps]:
        measured = yield MicroRound(workload, pool[0], 0, tuple(Slice(row, reps[row]) for row in pool))
        if isinstance(measured, Disturbed):
            track.reject(measured.row, measured.why)
            continue
        for sample in measured or ():
            wall = max(sample.wall_ns, 0)
            track.spent_ns += min(wall, 2 * track.slice_ns) if sample.reps > 1 else 0
            if why := _unscalable(sample.reps, wall, before.get(sample.row)):
                track.reject(sample.row, why)
            elif wall * 2 >= track.slice_ns:
                per_call = wall / sample.reps
                track.reps[workload, sample.row] = max(1, round(track.slice_ns / per_call))
                track.cost_ns[workload, sample.row] = track.reps[workload, sample.row] * per_call
                del reps[sample.row]
            else:
                before[sample.row] = (sample.reps, wall)
                reps[sample.row] = _more(sample.reps, wall, track.slice_ns)


def _more(reps: int, wall: int, slice_ns: float) -> int:
    growth = slice_ns / wall if wall > 0 else _LARGEST_GROWTH
    return min(math.ceil(reps * min(max(growth, 2.0), _LARGEST_GROWTH)), _MOST_CALLS)


def _unscalable(reps: int, wall: int, before: tuple[int, int] | None) -> str:
    """Time must grow with calls, or there is nothing to measure."""
    if reps >= _MOST_CALLS:
        return f"{reps} calls took {wall} ns: the calls do nothing, or the clock stands still"
    if before is None or before[0] < _LARGEST_GROWTH or reps < 10 * before[0]:
        return ""
    if wall < 0.1 * before[1] * reps / before[0]:
        return f"{reps} calls took {wall} ns, {before[0]} calls {before[1]} ns: time does not grow with calls"
    return ""


# --- micro-rounds --------------------------------------------------------------------------------


def passes(track: Track, number: int) -> int:
    """Windows a row gets this round: few at first, then twice as many, and more where windows are short.

    With the default constants a grid of usual size has met all placements equally often after every round but the
    first. Other numbers leave some a window ahead, which favours no row: all of a pass meet the same placement.
    """
    m = track.measure
    most = m.round_slices * max(2, int(m.slice_ms * 1e6 / track.slice_ns))
    return int(min(m.round_slices * 2 ** max(number - 2, 0), most))


def lap(track: Track, passes: int) -> Lap:
    """``passes`` windows for every live row and workload, the control in each micro-round.

    All rows of a pass meet the same placement.
    """
    for _ in range(passes):
        for workload in range(len(track.heat.workloads)):
            placement = track.next_placement(workload)
            rows = sorted(track.live - {track.control})
            track.rng.shuffle(rows)
            for pool in _pools(rows, track.measure.pool_rows):
                yield from _micro_round(track, workload, pool, placement)


def _pools(rows: list[int], most: int) -> list[list[int]]:
    """Rows in as few groups of at most ``most`` as there must be, of nearly equal size."""
    groups = max(1, -(-len(rows) // most))
    return [rows[index::groups] for index in range(groups)]


def _micro_round(track: Track, workload: int, pool: list[int], placement: int) -> Lap:
    while rows := [row for row in pool if row in track.live and row != track.control]:
        order = _order(track, rows)
        slices = tuple(Slice(row, track.reps[workload, row]) for row in order)
        # The lead-in is the first row itself: every row then follows each row, itself too, equally often,
        # and what a row does to its successor costs all of them the same.
        measured = yield MicroRound(workload, order[0], placement, slices)
        if not isinstance(measured, Disturbed):
            track.spent_ns += math.fsum(track.cost_ns[workload, row] for row in order)
            block = log_times(measured or (), track.measure.min_cpu_share)
            if len(block) > 1:
                track.blocks[workload].append(block)
            return
        track.reject(measured.row, measured.why)


def _order(track: Track, rows: list[int]) -> Sequence[int]:
    """All ``rows`` once and the control about as often as the square root of their number.

    That is where a difference from one common control is known best for the time spent.
    """
    control, m = track.control, track.measure
    if len(rows) + 1 <= m.williams_rows:
        return _williams_next(track, tuple(sorted([*rows, control])))
    shares = max(1, min(round(math.sqrt(len(rows))), m.control_slices))
    order: list[int] = []
    for share in range(shares):  # the control once in every part, never next to itself
        part = rows[len(rows) * share // shares : len(rows) * (share + 1) // shares]
        part.insert(track.rng.randint(1 if order and order[-1] == control else 0, len(part)), control)
        order += part
    return order


def _williams_next(track: Track, rows: tuple[int, ...]) -> tuple[int, ...]:
    if track.order_rows != rows or not track.order_deck:
        track.order_rows = rows
        track.order_deck = [tuple(rows[i] for i in line) for line in williams(len(rows))]
        track.rng.shuffle(track.order_deck)
    return track.order_deck.pop()


def williams(count: int) -> list[tuple[int, ...]]:
    """Orders of ``count`` in which each follows each other, and stands in each place, equally often."""
    zigzag = [(step + 1) // 2 if step % 2 else -(step // 2) for step in range(count)]
    square = [tuple((start + step) % count for step in zigzag) for start in range(count)]
    return square if count % 2 == 0 else square + [line[::-1] for line in square]


def log_times(samples: Iterable[Sample], min_cpu_share: float) -> list[tuple[int, float]]:
    """(row, log ns a call) of the windows that count.

    A window whose wall time is not positive met a clock fault. One short of CPU time was shared with
    somebody, unless most of its micro-round was: then all are as good as each other.
    """
    timed = [sample for sample in samples if sample.wall_ns > 0]
    own = [s for s in timed if s.cpu_ns <= 0 or s.cpu_ns >= min_cpu_share * s.wall_ns]
    used = own if 2 * len(own) >= len(timed) else timed
    return [(s.row, math.log(s.wall_ns / s.reps)) for s in used]

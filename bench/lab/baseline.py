"""The baseline protocol: absolute medians of 20 ms windows, cyclic rotation, tie-break before the margin.

Implemented as it is stated, weaknesses included, on the same boxes as the race: simulated ones, and this machine.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Protocol

from lab.box import CALL_NS, Machine, ProbeBench, SimulatedBench
from tunebuild.model import MicroRound, Sample, Slice
from tunebuild.stats import cv_pct, median

DOSE_NS = 20e6
BASE_CALLS = 2000
SCREEN_ROUNDS, FINAL_ROUNDS, VALIDATE_ROUNDS = 5, 15, 10
FINALISTS = 8
MARGIN_PCT = 3.0
THRESHOLD_PCT, CEILING_PCT = 2.0, 10.0
SETTLE_S = 8.0


@dataclass(frozen=True, slots=True)
class Decision:
    winner: int
    doses: float
    margin_pct: float


class Timer(Protocol):
    """What the protocol measures with. A window lasts a dose; ``billed_ns`` is what all windows of rows took."""

    rows: int
    fallback: int
    billed_ns: float

    def window(self, row: int, placement: int) -> float: ...

    def probe(self) -> list[float]:
        """Twelve unfiltered windows of the fixed kernel."""
        ...

    def wait(self, seconds: float) -> None:
        """Let other work pass."""
        ...


class SimulatedTimer:
    """Windows of a simulated box."""

    def __init__(self, box: SimulatedBench) -> None:
        self._box = box
        self.rows, self.fallback = len(box.machine.truth.gains_pct), box.machine.truth.fallback

    @property
    def billed_ns(self) -> float:
        return self._box.billed_ns

    def window(self, row: int, placement: int) -> float:
        return self._box._window(row, BASE_CALLS, placement)

    def probe(self) -> list[float]:
        window = MicroRound(0, 0, 0, (Slice(0, round(DOSE_NS / CALL_NS)),) * 12)
        measured = ProbeBench(self._box).run(window)
        return [sample.wall_ns for sample in measured if isinstance(sample, Sample)]

    def wait(self, seconds: float) -> None:
        self._box.now_s += seconds


def mint(machine: Machine, seed: int, incumbent: int | None) -> Decision:
    """One mint of a simulated box."""
    return decide(SimulatedTimer(SimulatedBench(machine, seed)), random.Random(f"mint {seed}"), incumbent)


def decide(timer: Timer, rng: random.Random, incumbent: int | None) -> Decision:
    """Probe, race, validate, probe again: one family, one placement of its buffers for all of it."""
    placement = rng.randrange(8)
    floor = _probe(timer)
    timer.wait(rng.uniform(0, 3))
    start_ns = timer.billed_ns
    winner, margin = _race(timer, placement, incumbent, max(MARGIN_PCT, floor))
    spent = timer.billed_ns - start_ns
    timer.wait(rng.uniform(1, 10))
    floor = max(floor, _probe(timer))
    if winner != timer.fallback:
        start_ns = timer.billed_ns
        fresh = _windows(timer, [winner, timer.fallback], VALIDATE_ROUNDS, placement)
        spent += timer.billed_ns - start_ns
        base = median(fresh[timer.fallback])
        fresh_margin = 100 * (base - median(fresh[winner])) / base
        if fresh_margin < max(MARGIN_PCT, floor):
            winner, margin = timer.fallback, 0.0
        else:
            margin = min(margin, fresh_margin)
    floor = max(floor, _probe(timer))
    if floor > MARGIN_PCT and margin < floor:
        winner, margin = timer.fallback, 0.0
    return Decision(winner, spent / DOSE_NS, margin)


def _race(timer: Timer, placement: int, incumbent: int | None, need: float) -> tuple[int, float]:
    fallback = timer.fallback
    rows = list(range(timer.rows))
    times = _windows(timer, rows, SCREEN_ROUNDS, placement)
    base = median(times[fallback])
    middles = {row: median(times[row]) for row in rows}
    candidates = [row for row in rows if row != fallback and middles[row] <= base * (1 - MARGIN_PCT / 100)]
    if not candidates:
        return fallback, 0.0
    candidates.sort(key=lambda row: middles[row])
    best = middles[candidates[0]]
    chosen = [row for row in candidates if middles[row] <= best * (1 + MARGIN_PCT / 100)][:FINALISTS]
    finalists = sorted([*chosen, fallback])
    more = _windows(timer, finalists, FINAL_ROUNDS, placement, warm=False)
    middles = {row: median(times[row] + more[row]) for row in finalists}
    best = min(middles.values())
    tied = [row for row in finalists if middles[row] <= best * (1 + need / 100)]
    seat = incumbent if incumbent in tied else fallback if fallback in tied else tied[0]
    assert seat is not None
    margin = 100 * (middles[fallback] - middles[seat]) / middles[fallback]
    if seat == fallback or margin < need:
        return fallback, 0.0
    return seat, margin


def _windows(
    timer: Timer, rows: list[int], rounds: int, placement: int, warm: bool = True
) -> dict[int, list[float]]:
    """Normalised window times of ``rounds`` rounds; slot s of pass p runs row (s + p) mod n."""
    if warm:
        for row in rows:
            timer.window(row, placement)
    times: dict[int, list[float]] = {row: [] for row in rows}
    for turn in range(rounds):
        for slot in range(len(rows)):
            row = rows[(slot + turn) % len(rows)]
            times[row].append(timer.window(row, placement))
    return times


def _probe(timer: Timer) -> float:
    raw = cv_pct(timer.probe())
    if raw <= THRESHOLD_PCT:
        return raw
    timer.wait(SETTLE_S)
    return cv_pct(timer.probe())

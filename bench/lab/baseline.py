"""The baseline protocol: absolute medians of 20 ms windows, cyclic rotation, tie-break before the margin.

Implemented as it is stated, weaknesses included, on the same boxes as the race.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

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


def mint(machine: Machine, seed: int, incumbent: int | None) -> Decision:
    """Probe, race, validate, probe again: one family, one placement of its buffers for all of it."""
    rng = random.Random(f"mint {seed}")
    box = SimulatedBench(machine, seed)
    placement = rng.randrange(8)
    floor = _probe(box)
    box.now_s += rng.uniform(0, 3)
    start_ns = box.billed_ns
    winner, margin = _race(box, placement, incumbent, max(MARGIN_PCT, floor))
    spent = box.billed_ns - start_ns
    box.now_s += rng.uniform(1, 10)
    floor = max(floor, _probe(box))
    if winner != machine.truth.fallback:
        start_ns = box.billed_ns
        fresh = _windows(box, [winner, machine.truth.fallback], VALIDATE_ROUNDS, placement)
        spent += box.billed_ns - start_ns
        base = median(fresh[machine.truth.fallback])
        fresh_margin = 100 * (base - median(fresh[winner])) / base
        if fresh_margin < max(MARGIN_PCT, floor):
            winner, margin = machine.truth.fallback, 0.0
        else:
            margin = min(margin, fresh_margin)
    floor = max(floor, _probe(box))
    if floor > MARGIN_PCT and margin < floor:
        winner, margin = machine.truth.fallback, 0.0
    return Decision(winner, spent / DOSE_NS, margin)


def _race(box: SimulatedBench, placement: int, incumbent: int | None, need: float) -> tuple[int, float]:
    fallback = box.machine.truth.fallback
    rows = list(range(len(box.machine.truth.gains_pct)))
    times = _windows(box, rows, SCREEN_ROUNDS, placement)
    base = median(times[fallback])
    middles = {row: median(times[row]) for row in rows}
    candidates = [row for row in rows if row != fallback and middles[row] <= base * (1 - MARGIN_PCT / 100)]
    if not candidates:
        return fallback, 0.0
    candidates.sort(key=lambda row: middles[row])
    best = middles[candidates[0]]
    chosen = [row for row in candidates if middles[row] <= best * (1 + MARGIN_PCT / 100)][:FINALISTS]
    finalists = sorted([*chosen, fallback])
    more = _windows(box, finalists, FINAL_ROUNDS, placement, warm=False)
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
    box: SimulatedBench, rows: list[int], rounds: int, placement: int, warm: bool = True
) -> dict[int, list[float]]:
    """Normalised window times of ``rounds`` rounds; slot s of pass p runs row (s + p) mod n."""
    if warm:
        for row in rows:
            box._window(row, BASE_CALLS, placement)
    times: dict[int, list[float]] = {row: [] for row in rows}
    for turn in range(rounds):
        for slot in range(len(rows)):
            row = rows[(slot + turn) % len(rows)]
            times[row].append(box._window(row, BASE_CALLS, placement))
    return times


def _probe(box: SimulatedBench) -> float:
    raw = _probe_cv(box)
    if raw <= THRESHOLD_PCT:
        return raw
    box.now_s += SETTLE_S
    return _probe_cv(box)


def _probe_cv(box: SimulatedBench) -> float:
    window = MicroRound(0, 0, 0, (Slice(0, round(DOSE_NS / CALL_NS)),) * 12)
    measured = ProbeBench(box).run(window)
    return cv_pct([sample.wall_ns for sample in measured if isinstance(sample, Sample)])

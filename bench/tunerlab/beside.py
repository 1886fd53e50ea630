"""Twelve rows of a dot product, decided by the shipped protocol and by the baseline in turn, on one live bench.

Both use the same worker, the same core and the same compiled rows. Doses and wall time are those of race and
validation; the probes, which both need, are left out. Regret is against one long race, in percent of the chosen
row's time. Each side has its own last winner as incumbent.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import mean
from typing import Any

from lab import baseline

from tunebuild import building, flows, host, judge, mint, noise, validate
from tunebuild.bench import LiveBench
from tunebuild.calls import Subject
from tunebuild.drive import drive, race_heat
from tunebuild.heat import Bar, Heat
from tunebuild.measure import Measure
from tunebuild.model import REFERENCE, Disturbed, MicroRound, Slice
from tunebuild.worker import Worker
from tunerlab import dots

TWELVE = dots.Grid(vec=(4, 8, 16), u=(1,))
MEASURE = Measure()
LONG = replace(MEASURE, budget_doses_per_row=100.0, max_rounds=400, seat_z=50.0, leave_z=1000.0, far_pct=90.0)


@dataclass(slots=True)
class Side:
    """What one protocol did in all of its mints."""

    winners: list[int] = field(default_factory=list)
    doses: list[float] = field(default_factory=list)
    walls_s: list[float] = field(default_factory=list)

    @property
    def incumbent(self) -> int | None:
        return self.winners[-1] if self.winners else None

    def note(self, winner: int, doses: float, wall_s: float) -> None:
        self.winners.append(winner)
        self.doses.append(doses)
        self.walls_s.append(wall_s)

    def figures(self, rows: tuple[str, ...], gains: Mapping[int, float]) -> dict[str, Any]:
        lost = [100 * (max(gains.values()) - gains[row]) / (100 - gains[row]) for row in self.winners]
        return {
            "flips": sum(one != other for one, other in zip(self.winners, self.winners[1:], strict=False)),
            "regret_mean_pct": round(mean(lost), 3),
            "regret_max_pct": round(max(lost), 2),
            "doses": round(mean(self.doses), 1),
            "wall_s": round(mean(self.walls_s), 3),
            "winners": [rows[row] for row in self.winners],
        }


class LiveTimer:
    """The baseline's windows on the live bench: the same calls for every row, a dose of the fallback's."""

    def __init__(self, live: LiveBench, probing: LiveBench, rows: int, fallback: int) -> None:
        self._live, self._probing = live, probing
        self.rows, self.fallback = rows, fallback
        self.billed_ns, self.probing_s = 0.0, 0.0
        self._calls = self._sized(live, fallback)
        self._probe_calls = self._sized(probing, 0)

    def window(self, row: int, placement: int) -> float:
        wall = _wall_ns(self._live, row, self._calls, placement)
        self.billed_ns += wall
        return wall

    def probe(self) -> list[float]:
        started = time.monotonic()
        walls = [_wall_ns(self._probing, 0, self._probe_calls, 0) for _ in range(12)]
        self.probing_s += time.monotonic() - started
        return walls

    def wait(self, seconds: float) -> None:
        """Nothing: on a machine other work passes by itself."""

    @staticmethod
    def _sized(live: LiveBench, row: int) -> int:
        calls = 64
        while (wall := _wall_ns(live, row, calls, 0)) < baseline.DOSE_NS / 4:
            calls *= 4
        return max(1, round(calls * baseline.DOSE_NS / wall))


def _wall_ns(live: LiveBench, row: int, calls: int, placement: int) -> float:
    measured = live.run(MicroRound(0, row, placement, (Slice(row, calls),)))
    if isinstance(measured, Disturbed):
        raise SystemExit(f"a row died: {measured.why}")
    return measured[0].wall_ns


@dataclass(frozen=True, slots=True)
class Rig:
    """The compiled rows on this machine, ready to be timed."""

    worker: Worker
    subject: Subject
    rows: tuple[str, ...]
    fallback: int
    step_ns: float

    def live(self, measure: Measure) -> LiveBench:
        return LiveBench(
            self.worker, self.subject, self.rows, measure, cache_bytes=host.last_level_cache_bytes()
        )

    def probing(self) -> LiveBench:
        unfiltered = replace(MEASURE, min_cpu_share=0.0)
        return LiveBench(
            self.worker,
            mint.probe_subject(),
            (REFERENCE, "copy"),
            unfiltered,
            cache_bytes=host.last_level_cache_bytes(),
        )

    def heat(self, incumbent: int | None, seed: int) -> Heat:
        return Heat(
            "dot", self.rows, (self.fallback,), incumbent=incumbent, seed=seed, clock_step_ns=self.step_ns
        )


@contextmanager
def rig(folder: Path) -> Iterator[Rig]:
    """Write, build and gate the twelve rows; the worker lives as long as the block."""
    dots.write(folder, TWELVE)
    generated = building.build_tune(folder, say=lambda _: None).generated
    planned = generated.plan.families[0]
    step = 1e9 * time.get_clock_info("monotonic").resolution
    with flows.open_worker(generated, host.race_core(host.cores())) as worker:
        rows = (*judge.judge(generated, planned, worker).passed, REFERENCE)
        yield Rig(worker, judge.subject(planned.functions[0]), rows, rows.index(dots.FALLBACK), step)


def long_gains(built: Rig) -> dict[int, float]:
    """Each row's gain over the fallback, in percent, from one long race in which none leaves."""
    outcome = race_heat(built.live(LONG), built.heat(None, 1), LONG, Bar(3.0))
    return {row: result.gain_pct for row, result in enumerate(outcome.rows) if result.slices}


def by_ours(built: Rig, side: Side, seed: int) -> None:
    probing, threshold = built.probing(), noise.threshold_pct(MEASURE)
    readings = [drive(probing, noise.probe("start", MEASURE, threshold, seed, built.step_ns))]
    bar = noise.bar(readings, MEASURE)
    started, live = time.monotonic(), built.live(MEASURE)
    outcome = race_heat(live, built.heat(side.incumbent, seed), MEASURE, bar)
    if outcome.winner != outcome.control:
        live.renew(seed)
        outcome = validate.settle(outcome, drive(live, validate.validate(outcome, MEASURE, bar, seed + 1)))
    side.note(outcome.winner, outcome.doses, time.monotonic() - started)


def by_baseline(built: Rig, side: Side, seed: int) -> None:
    timer = LiveTimer(built.live(MEASURE), built.probing(), len(built.rows), built.fallback)
    started = time.monotonic()
    decision = baseline.decide(timer, random.Random(seed), side.incumbent)
    side.note(decision.winner, decision.doses, time.monotonic() - started - timer.probing_s)


def compare(built: Rig, mints: int, gains: Mapping[int, float]) -> dict[str, Any]:
    """``mints`` of each protocol, in turn."""
    ours, theirs = Side(), Side()
    for number in range(mints):
        by_ours(built, ours, 1000 + number)
        by_baseline(built, theirs, 1000 + number)
    found = {"ours": ours.figures(built.rows, gains), "baseline": theirs.figures(built.rows, gains)}
    return {
        "mints": mints,
        "doses_ratio": round(found["ours"]["doses"] / found["baseline"]["doses"], 3),
        "wall_ratio": round(found["ours"]["wall_s"] / found["baseline"]["wall_s"], 3),
        **found,
    }

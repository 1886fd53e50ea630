"""A simulated box: known truth, a weather, a virtual clock. It answers micro-rounds as a live bench does."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field

from lab.grids import Truth
from lab.weathers import Env, Weather, make_env
from tunebuild.model import Disturbed, Measured, MicroRound, Sample

CALL_NS = 10_000.0  # of the fallback
SPIKES_PER_S = -math.log1p(-0.08) / 0.02
PLACEMENTS = 8
LEAD_IN_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Machine:
    """What stays the same from mint to mint: rows, their true times, and how they meet the weather."""

    truth: Truth
    weather: Weather
    call_ns: tuple[float, ...]
    betas: tuple[float, ...]
    carries: tuple[float, ...]
    placements: tuple[tuple[float, ...], ...]

    def true_gain(self, row: int) -> float:
        """Log gain over the fallback, averaged over placements: what a protocol should see."""
        return self._level(self.truth.fallback) - self._level(row)

    def _level(self, row: int) -> float:
        return math.log(self.call_ns[row]) + sum(self.placements[row]) / PLACEMENTS


def build(truth: Truth, weather: Weather, seed: int) -> Machine:
    rng = random.Random(seed)
    rows = range(len(truth.gains_pct))
    return Machine(
        truth,
        weather,
        tuple(CALL_NS * (1 - gain / 100) for gain in truth.gains_pct),
        tuple(rng.gauss(1, 0.3) if weather.unequal else 1.0 for _ in rows),
        tuple(math.log1p(0.03) if weather.carry and rng.random() < 0.15 else 0.0 for _ in rows),
        tuple(
            tuple(rng.gauss(0, 0.01) if weather.placement else 0.0 for _ in range(PLACEMENTS)) for _ in rows
        ),
    )


@dataclass(slots=True)
class SimulatedBench:
    """One mint on a machine. ``now_s`` is virtual; timed and lead-in time is counted in ``billed_ns``."""

    machine: Machine
    seed: int
    now_s: float = 0.0
    billed_ns: float = 0.0
    previous: int = -1
    rng: random.Random = field(init=False)
    env: Env | None = field(init=False)

    def __post_init__(self) -> None:
        self.rng = random.Random(f"windows {self.seed}")
        self.env = make_env(self.machine.weather.envs, random.Random(f"weather {self.seed}"))

    def run(self, micro_round: MicroRound) -> Measured:
        """Serve the slices after a lead-in of a tenth of the first one's calls."""
        lead = micro_round.lead_in
        reps = next((s.reps for s in micro_round.slices if s.row == lead), 1)
        self._window(lead, max(1, int(reps * LEAD_IN_SHARE)), micro_round.placement)
        samples = []
        for asked in micro_round.slices:
            wall = self._window(asked.row, asked.reps, micro_round.placement)
            samples.append(Sample(asked.row, asked.reps, round(wall), 0))
        self.now_s += 5e-5
        return tuple(samples)

    def _window(self, row: int, reps: int, placement: int) -> float:
        machine, weather = self.machine, self.machine.weather
        pure = machine.call_ns[row] * reps
        log = machine.placements[row][placement % PLACEMENTS]
        if self.previous >= 0:
            log += machine.carries[self.previous]
        if self.env is not None:
            log += machine.betas[row] * self.env(self.now_s, self.now_s + pure * 1e-9)
        log += self.rng.gauss(0.0, weather.sigma_pct / 100 * math.sqrt(2e7 / pure))
        wall = pure * math.exp(log)
        if weather.spikes:
            wall += self._preempted(wall)
        self.now_s += wall * 1e-9
        self.billed_ns += wall
        self.previous = row
        return wall

    def _preempted(self, wall: float) -> float:
        """Preemptions of 3 % + 5 % Pareto(1.2) of 20 ms each, at 8 % per 20 ms."""
        total, left = 0.0, self.rng.expovariate(SPIKES_PER_S) * 1e9
        while left < wall:
            total += 2e7 * (0.03 + 0.05 * (self.rng.paretovariate(1.2) - 1))
            left += self.rng.expovariate(SPIKES_PER_S) * 1e9
        return total


@dataclass(slots=True)
class ProbeBench:
    """The probe's own bench on a box: rows 0 and 1 are one kernel. A preempted probe loses one window of 20 ms."""

    box: SimulatedBench

    def run(self, micro_round: MicroRound) -> Measured:
        box, weather = self.box, self.box.machine.weather
        kernel = box.machine.truth.fallback
        box.previous = -1
        asked = MicroRound(0, kernel, 0, micro_round.slices)
        samples = []
        for index, window in enumerate(asked.slices):
            wall = box._window(kernel, window.reps, 0)
            if weather.preempted_probe and window.reps * CALL_NS > 1e7 and box.rng.random() < 1 / 12:
                wall += 6e6
            samples.append(Sample(micro_round.slices[index].row, window.reps, round(wall), 0))
        return tuple(samples)


@dataclass(slots=True)
class FaultyBench:
    """A bench whose ``rows`` end their micro-round as `Disturbed`, from their ``after``-th window on."""

    bench: SimulatedBench
    rows: frozenset[int]
    after: int = 0
    seen: dict[int, int] = field(default_factory=dict)

    def run(self, micro_round: MicroRound) -> Measured:
        for asked in micro_round.slices:
            if asked.row in self.rows:
                self.seen[asked.row] = self.seen.get(asked.row, 0) + 1
                if self.seen[asked.row] > self.after:
                    return Disturbed(asked.row, "signal 11")
        return self.bench.run(micro_round)

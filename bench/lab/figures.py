"""Figures of a protocol over many simulated mints: what it costs, what it loses, how often it lies."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lab import baseline, grids, ours
from lab.box import Machine, build
from lab.weathers import WEATHERS, Weather
from tunebuild.measure import Measure
from tunebuild.race import to_log

BAR = to_log(3.0)
EPSILON = 1e-9


@dataclass(frozen=True, slots=True)
class Mint:
    """One mint against the truth. Gains are log gains of the true times over the fallback."""

    weather: str
    grid: str
    doses: float
    winner: int
    gain: float  # of the row that was seated, 0 for the fallback
    best: float  # of the best row if it clears the bar, else 0: what was there to be won
    crowned: bool
    covered: tuple[bool, ...] = ()  # for every interval that was recorded: does it hold the truth?

    @property
    def regret(self) -> float:
        return max(self.best - self.gain, 0.0)

    @property
    def false(self) -> bool:
        return self.crowned and self.gain < BAR - EPSILON

    @property
    def missed(self) -> bool:
        return not self.crowned and self.best > 0


MintOnce = Callable[[Machine, int, int | None], tuple[int, float, tuple[bool, ...]]]


def by_baseline(machine: Machine, seed: int, incumbent: int | None) -> tuple[int, float, tuple[bool, ...]]:
    decision = baseline.mint(machine, seed, incumbent)
    return decision.winner, decision.doses, ()


def by_ours(
    measure: Measure,
) -> Callable[[Machine, int, int | None], tuple[int, float, tuple[bool, ...]]]:
    def once(machine: Machine, seed: int, incumbent: int | None) -> tuple[int, float, tuple[bool, ...]]:
        minted = ours.mint(machine, seed, incumbent, measure)
        intervals = [
            (row, result.interval_pct)
            for row, result in enumerate(minted.outcome.rows)
            if result.interval_pct
        ]
        if minted.validation is not None and minted.validation.interval_pct is not None:
            intervals.append((minted.raced.winner, minted.validation.interval_pct))
        covered = tuple(
            to_log(low) <= machine.true_gain(row) <= to_log(high) for row, (low, high) in intervals
        )
        return minted.outcome.winner, minted.outcome.doses, covered

    return once


def box_of(
    once: MintOnce, weather: Weather, grid: str, number: int, mints: int = 2, rows: int = 20
) -> list[Mint]:
    """``mints`` mints in a row on one box, each finding its predecessor's winner as the incumbent."""
    seed = random.Random(f"{weather.name}/{grid}/{number}").getrandbits(32)
    machine = build(grids.make(grid, random.Random(seed), rows), weather, seed)
    fallback = machine.truth.fallback
    best = max(machine.true_gain(row) for row in range(len(machine.truth.gains_pct)))
    best = best if best >= BAR - EPSILON else 0.0
    made: list[Mint] = []
    incumbent: int | None = None
    for turn in range(mints):
        winner, doses, covered = once(machine, seed + 1000 * turn + 7, incumbent)
        gain = machine.true_gain(winner)
        made.append(Mint(weather.name, grid, doses, winner, gain, best, winner != fallback, covered))
        incumbent = winner
    return made


# --- figures -------------------------------------------------------------------------------------


def percent(hits: Sequence[bool]) -> float:
    return 100 * sum(hits) / len(hits) if hits else 0.0


def figures(boxes: Iterable[Sequence[Mint]]) -> dict[str, float]:
    """Every figure by name. Shares are percent of mints; `flips` percent of re-mints that changed the winner."""
    boxes = list(boxes)
    mints = [mint for box in boxes for mint in box]
    calm_names = {weather.name for weather in WEATHERS if weather.calm}
    posed_names = {weather.name for weather in WEATHERS if not weather.unequal}
    calm = [mint for mint in mints if mint.weather in calm_names]
    posed = [mint for mint in mints if mint.weather in posed_names]
    doses = sorted(mint.doses for mint in mints)
    flips = [(box[0].weather, a.winner != b.winner) for box in boxes for a, b in pairwise(box)]
    quiet = [mint for mint in mints if mint.weather == "quiet"]
    made = {
        "doses_mean": sum(doses) / len(doses),
        "doses_p95": doses[min(len(doses) - 1, math.ceil(0.95 * len(doses)) - 1)],
        "doses_null_quiet": _mean([mint.doses for mint in quiet if mint.grid == "null"]),
        "regret_all": 100 * _mean([mint.regret for mint in mints]),
        "regret_calm": 100 * _mean([mint.regret for mint in calm]),
        "false_all": percent([mint.false for mint in mints]),
        "false_posed": percent([mint.false for mint in posed]),
        "false_under_2": percent([mint.crowned and mint.gain < 0.02 for mint in posed]),
        "false_identical": float(
            sum(mint.crowned for mint in posed if mint.grid == "null" and mint.gain < BAR)
        ),
        "identical_mints": float(sum(mint.grid == "null" for mint in posed)),
        "missed_all": percent([mint.missed for mint in mints]),
        "missed_calm": percent([mint.missed for mint in calm]),
        "missed_five_quiet": percent([mint.missed for mint in quiet if mint.grid == "five"]),
        "flips_all": percent([flip for _, flip in flips]),
        "flips_calm": percent([flip for name, flip in flips if name in calm_names]),
        "flips_placement": percent([flip for name, flip in flips if name == "placement"]),
    }
    covers = [percent([hit for m in posed if m.weather == name for hit in m.covered]) for name in posed_names]
    if any(mint.covered for mint in posed):
        made["cover_worst"] = min(cover for cover in covers if cover > 0)
    return made


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0

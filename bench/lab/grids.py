"""Grids of known truth: how much less time than the fallback each row takes."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

MARGIN_PCT = 3.0


@dataclass(frozen=True, slots=True)
class Truth:
    """True gains over the fallback in percent, by row; the fallback's own is 0."""

    grid: str
    gains_pct: tuple[float, ...]
    fallback: int


def make(grid: str, rng: random.Random, rows: int = 20) -> Truth:
    """A family of ``rows`` rows, the fallback among them, in random grid order."""
    gains = GRIDS[grid](rng, rows - 1)
    order = [(gain, False) for gain in gains] + [(0.0, True)]
    rng.shuffle(order)
    fallback = next(index for index, (_, is_fallback) in enumerate(order) if is_fallback)
    return Truth(grid, tuple(gain for gain, _ in order), fallback)


def _slower(rng: random.Random, count: int) -> list[float]:
    return [-rng.uniform(0, 12) for _ in range(count)]


def _leading(*lead: float) -> Callable[[random.Random, int], list[float]]:
    return lambda rng, count: list(lead)[:count] + _slower(rng, max(count - len(lead), 0))


def _null(rng: random.Random, count: int) -> list[float]:
    return [0.0] * count


def _ladder(rng: random.Random, count: int) -> list[float]:
    return [8.0 - index for index in range(count)]


def _published(rng: random.Random, count: int) -> list[float]:
    """As in published sidecars: the best wins under 1 % in half of the families, over 4 % in a quarter."""
    best = rng.choice((rng.uniform(0, 1), rng.uniform(0, 1), rng.uniform(1, 4), rng.uniform(4, 15)))
    behind = [0.0] + [min(rng.expovariate(1 / 3.2), 40.0) for _ in range(count - 1)]
    return [best - back for back in behind]


GRIDS: dict[str, Callable[[random.Random, int], list[float]]] = {
    "null": _null,
    "clear": _leading(10.0),
    "twins": _leading(*[8.0] * 8),
    "near": _leading(3.5),
    "under": _leading(2.0),
    "edge": _leading(2.5),
    "five": _leading(5.0, 3.0, 2.0),
    "ladder": _ladder,
    "published": _published,
}
CORE = ("null", "clear", "twins", "near", "five", "ladder", "published")

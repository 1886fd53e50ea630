"""Weathers: what a machine does to a clock while kernels are timed. All are seeded and run on virtual time.

`ln t = ln m_row + beta_row * env(t) + placement[row, k] + carry(previous) + N(0, sigma * sqrt(20 ms / window))`,
preemptions of fixed length on top; env is averaged over the window.
"""

from __future__ import annotations

import bisect
import math
import random
from collections.abc import Callable
from dataclasses import dataclass

Env = Callable[[float, float], float]  # (start s, end s) -> mean of the log slow-down


@dataclass(frozen=True, slots=True)
class Weather:
    """One weather. ``sigma_pct`` is the white noise of a 20 ms window; the flags add what they say."""

    name: str
    sigma_pct: float = 0.3
    envs: tuple[str, ...] = ()
    spikes: bool = False
    carry: bool = False
    placement: bool = False
    preempted_probe: bool = False
    unequal: bool = False
    calm: bool = False


WEATHERS: tuple[Weather, ...] = (
    Weather("quiet", calm=True),
    Weather("noisy", sigma_pct=2.0),
    Weather("very noisy", sigma_pct=4.0),
    Weather("ramp", envs=("ramp",), calm=True),
    Weather("sine", envs=("sine",), calm=True),
    Weather("walk", envs=("walk",), calm=True),
    Weather("two-speed slow", envs=("two_slow",), calm=True),
    Weather("two-speed fast", envs=("two_fast",)),
    Weather("spikes", spikes=True),
    Weather("bursts", envs=("bursts",)),
    Weather("slow start", envs=("slow_start",), calm=True),
    Weather("boost", envs=("boost",), calm=True),
    Weather("carry-over", carry=True),
    Weather("placement", placement=True),
    Weather("walk, spikes, two-speed", envs=("walk", "two_slow"), spikes=True),
    Weather("noisy, spikes, bursts", sigma_pct=2.0, envs=("bursts",), spikes=True),
    Weather("preempted probe", preempted_probe=True, calm=True),
    Weather("unequal response", envs=("two_slow",), unequal=True),
)


def make_env(names: tuple[str, ...], rng: random.Random) -> Env | None:
    """The sum of the named slow-downs, from t = 0 at the start of a mint; None of none."""
    parts = [_MAKERS[name](rng) for name in names]
    if not parts:
        return None
    if len(parts) == 1:
        return parts[0]
    return lambda start, end: sum(part(start, end) for part in parts)


def _ramp(rng: random.Random) -> Env:
    return lambda start, end: 0.08 * (start + end) / 40


def _sine(rng: random.Random) -> Env:
    omega, phase = 2 * math.pi / rng.uniform(3, 11), rng.uniform(0, 2 * math.pi)
    return lambda start, end: 0.04 * math.sin(omega * (start + end) / 2 + phase)


def _walk(rng: random.Random) -> Env:
    path = [0.0]

    def env(start: float, end: float) -> float:
        step = int((start + end) * 100)  # steps of 5 ms at the middle of the window
        while len(path) <= step:
            path.append(path[-1] + rng.gauss(0, 0.0009))
        return path[step]

    return env


def _two_speed(dwell_s: float) -> Callable[[random.Random], Env]:
    def make(rng: random.Random) -> Env:
        slow_first = rng.random() < 0.5
        edges = [0.0]  # state changes at each edge; between edges[i] and [i + 1] it is slow if i is odd

        def slow_time(until: float) -> float:
            index = bisect.bisect_right(edges, until) - 1
            here = until - edges[index] if index % 2 else 0.0
            return totals[index] + here

        totals = [0.0]

        def env(start: float, end: float) -> float:
            while edges[-1] <= end:
                length = rng.expovariate(1 / dwell_s)
                totals.append(totals[-1] + (length if len(edges) % 2 == 0 else 0.0))
                edges.append(edges[-1] + length)
            slow = (slow_time(end) - slow_time(start)) / (end - start) if end > start else 0.0
            return 0.06 * (1 - slow if slow_first else slow)

        return env

    return make


def _bursts(rng: random.Random) -> Env:
    bursts: list[tuple[float, float, float]] = []
    last = [rng.expovariate(1 / 4)]

    def env(start: float, end: float) -> float:
        while last[0] <= end:
            length = rng.uniform(0.3, 1.5)
            bursts.append((last[0], last[0] + length, rng.uniform(0.15, 0.5)))
            last[0] += length + rng.expovariate(1 / 4)
        total = 0.0
        for low, high, size in reversed(bursts):
            if high <= start:
                break
            total += size * max(0.0, min(end, high) - max(start, low))
        return math.log1p(total / (end - start)) if end > start else 0.0

    return env


def _slow_start(rng: random.Random) -> Env:
    return lambda start, end: math.log1p(0.25 * math.exp(-(start + end) / 1.2))


def _boost(rng: random.Random) -> Env:
    return lambda start, end: math.log(0.9) if (start + end) / 2 < 3 else 0.0


_MAKERS: dict[str, Callable[[random.Random], Env]] = {
    "ramp": _ramp,
    "sine": _sine,
    "walk": _walk,
    "two_slow": _two_speed(0.8),
    "two_fast": _two_speed(0.08),
    "bursts": _bursts,
    "slow_start": _slow_start,
    "boost": _boost,
}

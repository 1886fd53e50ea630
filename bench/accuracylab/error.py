"""How far off a result is: largest error over its scale, units of the last place, normalised mean square."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .callers import Callee, arrays
from .subjects import Arrays, Scalars, Subject

Runner = Callable[[Arrays, Scalars], Any]
"""Computes into the arrays, or returns the result."""
Sums = tuple[float, float, float, float]

MANY, FEW = 16, 2  # draws of a case: a single sum says little, a million elements say enough
SMALLEST = 1e-30  # results below it are small enough to be off by all of themselves


@dataclass(frozen=True, slots=True)
class Error:
    """The worst of some cases. ``largest``: over the scale; ``share``: of the bound there; ``ulps``: of the element
    itself; ``nmse``: mean square over mean square of the result. ``at``: the case of the largest, in words."""

    largest: float = 0.0
    share: float = 0.0
    ulps: float = 0.0
    nmse: float = 0.0
    at: str = ""

    def worse(self, other: Error) -> Error:
        first = self if self.largest >= other.largest else other
        share, ulps = max(self.share, other.share), max(self.ulps, other.ulps)
        return Error(first.largest, share, ulps, max(self.nmse, other.nmse), first.at)


def cases(subject: Subject, callee: Callee, seed: int) -> Iterator[tuple[str, list[dict[str, Any]], Scalars]]:
    """The data of each size and fill: a name, arrays for some draws, the scalars."""
    for size in subject.sizes:
        for fill in subject.fills:
            rng = np.random.default_rng([seed, sum(map(ord, fill))])
            first = arrays(callee, size, fill, rng)
            draws = MANY if max(map(len, first.values())) <= 4096 else FEW
            more = [arrays(callee, size, fill, rng) for _ in range(draws - 1)]
            name = " ".join(f"{key}={value}" for key, value in size.items())
            yield f"{name}, {fill}", [first, *more], size


def measured(
    subject: Subject, callee: Callee, runners: Mapping[str, Runner], seed: int = 1
) -> dict[str, Error]:
    """The worst of all cases, for each runner on the same data."""
    worst = dict.fromkeys(runners, Error())
    for name, draws, size in cases(subject, callee, seed):
        found: dict[str, list[Sums]] = {runner: [] for runner in runners}
        for values in draws:
            want, scale = (np.asarray(part, np.float64) for part in subject.truth(values, size))
            for runner, run in runners.items():
                found[runner].append(_one(subject, callee, values, size, run, want, scale))
        for runner, parts in found.items():
            worst[runner] = worst[runner].worse(_case(subject, size, name, parts))
    return worst


def _case(subject: Subject, size: Scalars, name: str, parts: list[Sums]) -> Error:
    errors, squares = sum(one[2] for one in parts), sum(one[3] for one in parts)
    largest, ulps = max(one[0] for one in parts), max(one[1] for one in parts)
    share = largest / max(subject.limit(size), 1e-300)
    return Error(largest, share, ulps if subject.ulps else 0.0, errors / squares if squares else 0.0, name)


def _one(
    subject: Subject, callee: Callee, values: Arrays, size: Scalars, run: Runner, want: Any, scale: Any
) -> Sums:
    """Largest error over scale, ulps, sum of squared errors, sum of squares. What is written, is written anew."""
    written = {argument.name for argument in callee.arguments if argument.kind in ("out", "inout", "scratch")}
    own = {name: array.copy() if name in written else array for name, array in values.items()}
    got = _result(subject, own, run(own, size))
    off = np.abs(np.asarray(got, np.float64).reshape(want.shape) - want)
    off = np.where(np.isfinite(off), off, np.inf)
    step = np.spacing(np.maximum(np.abs(want), SMALLEST).astype(np.float32)).astype(np.float64)
    with np.errstate(invalid="ignore"):
        over = np.where(off > 0, off / np.maximum(scale, 1e-300), 0.0)
    return float(over.max()), float((off / step).max()), float((off**2).sum()), float((want**2).sum())


def _result(subject: Subject, values: Arrays, returned: Any) -> Any:
    if returned is not None:
        return returned
    return subject.read(values) if subject.read else values[subject.result]

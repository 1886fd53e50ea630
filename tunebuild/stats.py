"""Numbers to numbers: medians and spreads, the exact sign test, and the two-way fit of a race.

Everything is plain Python on short lists: a race has a few hundred samples, and a fit of them costs less
than the window it decides about.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from operator import mul

MAD_TO_SIGMA = 1.4826  # of a normal distribution


def median(values: Sequence[float]) -> float:
    """The middle value, or the mean of the two middle ones; 0 of nothing."""
    ordered = sorted(values)
    if not ordered:
        return 0.0
    middle, odd = divmod(len(ordered), 2)
    return ordered[middle] if odd else (ordered[middle - 1] + ordered[middle]) / 2


def pseudo_median(values: Sequence[float]) -> float:
    """The median of all pairwise means (Hodges and Lehmann): robust, and 1.2 times as sharp."""
    return median([(a + b) / 2 for i, a in enumerate(values) for b in values[i:]])


def cv_pct(values: Sequence[float]) -> float:
    """100 * sample standard deviation / mean; 0 of fewer than two values or a mean that is not positive."""
    count = len(values)
    mean = math.fsum(values) / count if count else 0.0
    if count < 2 or mean <= 0:
        return 0.0
    return 100 * math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (count - 1)) / mean


def robust_spread(values: Sequence[float]) -> float:
    """The standard deviation that a normal distribution of this median absolute deviation has."""
    middle = median(values)
    return MAD_TO_SIGMA * median([abs(value - middle) for value in values])


# --- the exact sign test -------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def sign_tail(count: int, at_least: int) -> float:
    """P(X >= at_least) for X ~ Binomial(count, 1/2)."""
    ways: int = sum(math.comb(count, k) for k in range(max(at_least, 0), count + 1))
    return ways / (1 << count)


@lru_cache(maxsize=1024)
def sign_limit(count: int, alpha: float) -> int:
    """The least k with P(X >= k) <= alpha; count + 1 where no k has it."""
    return next((k for k in range(count // 2, count + 1) if sign_tail(count, k) <= alpha), count + 1)


def sign_interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float] | None:
    """The distribution-free interval of the median; None on too few values (under 6 for 95 %)."""
    count = len(values)
    limit = sign_limit(count, (1 - confidence) / 2)
    if limit > count:
        return None
    ordered = sorted(values)
    return ordered[count - limit], ordered[limit - 1]


def two_modes(values: Sequence[float], share: float) -> tuple[float, float]:
    """The best split into two groups of at least ``share`` each: the gap of their means, and it in spreads.

    The spread is the one inside the groups. A normal sample splits into means 1.6 of its own standard
    deviations apart, 2.7 of the spread inside; two states show far more.
    """
    ordered = sorted(values)
    count = len(ordered)
    least = max(2, math.ceil(share * count))
    if count < 2 * least:
        return 0.0, 0.0
    total, squares = math.fsum(ordered), math.fsum(value * value for value in ordered)
    best_within, best_gap = math.inf, 0.0
    left = 0.0
    for taken, value in enumerate(ordered[: count - least], 1):
        left += value
        if taken < least:
            continue
        right, rest = total - left, count - taken
        within = squares - left * left / taken - right * right / rest
        if within < best_within:
            best_within, best_gap = within, right / rest - left / taken
    inside = math.sqrt(max(best_within, 0.0) / (count - 2))
    return best_gap, best_gap / inside if inside > 0 else (math.inf if best_gap > 0 else 0.0)


# --- the two-way fit -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fit:
    """log time = block + row, fitted robustly.

    ``effects``: one number a row, meaningful as differences. ``windows``: how many a row had; ``counts``:
    the same, each counted by what its block leaves of it. ``spread``: standard deviation of one window.
    """

    effects: dict[int, float]
    windows: dict[int, int]
    counts: dict[int, float]
    spread: float

    def error(self, one: int, other: int) -> float:
        """The standard error of the difference of two rows' effects."""
        return self.spread * math.sqrt(1 / self.counts[one] + 1 / self.counts[other])


Block = Sequence[tuple[int, float]]  # (row, log time) in the order of time


def two_way(
    blocks: Sequence[Block],
    *,
    huber_k: float,
    floor: float,
    fine: int = 0,
    start: Mapping[int, float] | None = None,
) -> Fit:
    """Fit rows and blocks by Huber's weights about a pooled scale of at least ``floor``.

    A block is a micro-round: whatever is common to it cancels. With ``fine`` a second fit cuts every
    block into runs of about that many neighbours, which share a clock step where a whole micro-round may
    not; the fit that knows the rows better is returned. ``start`` may give the effects of an earlier fit.
    """
    coarse, residuals = _huber(blocks, [1.0] * len(blocks), _start(blocks, start or {}), huber_k, floor)
    if not fine or _neighbours_agree(residuals) < _WORTH_CUTTING:
        return coarse
    runs, kept = _cut(blocks, fine)
    finer, _ = _huber(runs, kept, dict(coarse.effects), huber_k, floor)
    mean_kept = sum(len(run) * share for run, share in zip(runs, kept, strict=True)) / sum(map(len, runs))
    return finer if finer.spread**2 / mean_kept < coarse.spread**2 else coarse


_WORTH_CUTTING = 0.1  # white noise about a fit has a lag-one correlation near 0 or below


def _neighbours_agree(residuals: Sequence[float]) -> float:
    """The share of windows whose residual has its neighbour's sign, less that of the others."""
    return sum(1 if a * b > 0 else -1 for a, b in pairwise(residuals)) / max(len(residuals) - 1, 1)


def _start(blocks: Sequence[Block], known: Mapping[int, float]) -> dict[int, float]:
    """A first guess: an earlier fit's, new rows against the median of what their blocks have of known ones."""
    present = {row for block in blocks for row, _ in block}
    if present <= known.keys():
        return {row: known[row] for row in present}
    start = {row: known[row] for row in present if row in known}
    fresh: dict[int, list[float]] = {row: [] for row in present if row not in known}
    for block in blocks:
        level = median([y - start[row] for row, y in block if row in start] or [y for _, y in block])
        for row, y in block:
            if row in fresh:
                fresh[row].append(y - level)
                start.setdefault(row, y - level)
    return start | {row: median(values) for row, values in fresh.items()}


def _cut(blocks: Sequence[Block], size: int) -> tuple[list[Block], list[float]]:
    """Blocks cut into equal runs, and what each leaves of a window compared with its whole block."""
    runs: list[Block] = []
    kept: list[float] = []
    for block in blocks:
        pieces = max(1, round(len(block) / size))
        edges = [len(block) * piece // pieces for piece in range(pieces + 1)]
        for low, high in pairwise(edges):
            if high - low > 1:
                runs.append(block[low:high])
                kept.append((1 - 1 / (high - low)) / (1 - 1 / len(block)))
    return runs, kept


_SWEEPS = 3  # more move no estimate by a tenth of its error


def _huber(
    blocks: Sequence[Block], kept: Sequence[float], effects: dict[int, float], huber_k: float, floor: float
) -> tuple[Fit, list[float]]:
    levels = [median([y - effects[row] for row, y in block]) for block in blocks]
    count = sum(map(len, blocks))
    freedom = max(count - len(blocks) - len(effects) + 1, 1)
    inflate = math.sqrt(count / freedom)
    residuals = [
        y - level - effects[row] for block, level in zip(blocks, levels, strict=True) for row, y in block
    ]
    clip = huber_k * _scale(residuals, inflate, floor)
    for _ in range(_SWEEPS):
        residuals = _sweep(blocks, levels, effects, clip)
        clip = huber_k * _scale(residuals, inflate, floor)
    windows, counts = dict.fromkeys(effects, 0), dict.fromkeys(effects, 0.0)
    for block, share in zip(blocks, kept, strict=True):
        for row, _ in block:
            windows[row] += 1
            counts[row] += share
    return Fit(effects, windows, counts, max(_spread(residuals, clip) * inflate, floor)), residuals


def _scale(residuals: Sequence[float], inflate: float, floor: float) -> float:
    return max(MAD_TO_SIGMA * median([abs(r) for r in residuals]) * inflate, floor)


def _sweep(
    blocks: Sequence[Block], levels: list[float], effects: dict[int, float], clip: float
) -> list[float]:
    """Move each level, then each row, to the weighted mean of what the other leaves; return the residuals."""
    sums = dict.fromkeys(effects, 0.0)
    weights = dict.fromkeys(effects, 0.0)
    residuals: list[float] = []
    for index, block in enumerate(blocks):
        level = levels[index]
        here = [y - effects[row] - level for row, y in block]
        weighed = [1.0 if -clip <= r <= clip else clip / abs(r) for r in here]
        step = sum(map(mul, weighed, here)) / sum(weighed)
        levels[index] = level + step
        for (row, _), r, w in zip(block, here, weighed, strict=True):
            sums[row] += w * (r - step)
            weights[row] += w
        residuals += here
    for row, weight in weights.items():
        if weight > 0:
            effects[row] += sums[row] / weight
    return residuals


def _spread(residuals: Sequence[float], clip: float) -> float:
    """Huber's asymptotic standard deviation of one window (M-estimate: E psi^2 / (E psi')^2)."""
    inside = sum(-clip <= r <= clip for r in residuals)
    squares = sum(r * r if -clip <= r <= clip else clip * clip for r in residuals)
    share = max(inside / len(residuals), 0.25)
    return math.sqrt(squares / len(residuals)) / share

"""Ours and theirs, interleaved: many short windows, every round in another order.

A ratio compares two windows of the same round, a few milliseconds apart, so that a clock that drifts is in
both. A window in which the core was shared (CPU time under 97 % of wall time) is measured again.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from .families import Buffer, Call, Family, Shape
from .shim import Shim
from .truth import from_bf16, quantized

WINDOW_NS = 400_000.0
BUDGET_NS = 1.6e9  # of one shape
ROUNDS = (15, 61)
SHARED = 0.97
WARM_CALLS, WARM_NS = 4, 1e7


@dataclass(frozen=True, slots=True)
class Ratio:
    """Their time over ours: above 1, ours is faster. ``low`` to ``high``: exact 95 % interval of the median."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Row:
    """One shape. ``times``: median ns a call, by entrant; ``errors``: largest error over its scale."""

    family: str
    shape: str
    rounds: int
    times: Mapping[str, float]
    ratios: Mapping[str, Ratio]
    errors: Mapping[str, float]


def filled(buffer: Buffer, sizes: Mapping[str, int], rng: np.random.Generator) -> Any:
    """An array for a buffer, on a line of 64 bytes."""
    count = int(eval(buffer.count, {}, dict(sizes)))
    dtype = {
        "f16": np.float16, "bf16": np.uint16, "f32": np.float32, "f64": np.float64, "i8": np.int8, "u8": np.uint8,
        "i32": np.int32,
    }[buffer.element]  # fmt: skip
    raw = np.zeros(count * np.dtype(dtype).itemsize + 64, np.uint8)
    start = -raw.ctypes.data % 64
    made = raw[start : start + count * np.dtype(dtype).itemsize].view(dtype)
    if buffer.role in ("in", "inout"):
        made[:] = _values(buffer, count, rng)
    return made


def _values(buffer: Buffer, count: int, rng: np.random.Generator) -> Any:
    if buffer.fill == "q8_0":
        return quantized(rng.standard_normal(count // 34 * 32, np.float32))
    if buffer.fill == "q4_0":
        blocks = rng.integers(0, 256, (count // 18, 18), np.uint8)
        blocks[:, :2] = rng.uniform(0.01, 0.1, (count // 18, 1)).astype(np.float16).view(np.uint8)
        return blocks.ravel()
    if buffer.element == "u8":
        return rng.integers(0, 256, count)
    if buffer.element == "i8":
        return rng.integers(-127, 128, count)
    normal = rng.standard_normal(count, np.float32)
    return (normal.view(np.uint32) >> 16) if buffer.element == "bf16" else normal


def raced(family: Family, calls: Sequence[Call], shape: Shape, shim: Shim, seed: int, quick: bool) -> Row:
    """Check what every entrant computes, then race them. The first call is ours; those who err are left out."""
    rng = np.random.default_rng(seed)
    arrays = {name: filled(buffer, shape.sizes, rng) for name, buffer in family.buffers.items()}
    shim.prepare(shape.sizes, arrays)
    running = [index for index, call in enumerate(calls) if call.limit(shape.sizes)]
    errors = {}
    for index in running:
        shim.setup(index)
        if calls[index].checked:
            errors[calls[index].label] = _error(family, shape, shim, arrays, index)
    if errors[calls[0].label] > family.tolerance:
        raise SystemExit(f"{family.name} {shape.name}: our own result is off by {errors[calls[0].label]:.1e}")
    slow = {index for index in running if calls[index].library == "reference"}
    running = [i for i in running if errors.get(calls[i].label, 0.0) <= family.tolerance or i in slow]
    windows = _windows(shim, running, slow, random.Random(seed), quick)
    times = {calls[index].label: median(windows[index]) for index in running}
    ratios = {
        calls[index].label: ratio([theirs / ours for theirs, ours in zip(windows[index], windows[0])])  # noqa: B905
        for index in running
        if index
    }
    return Row(family.name, shape.name, len(windows[0]), times, ratios, errors)


def _error(family: Family, shape: Shape, shim: Shim, arrays: Mapping[str, Any], index: int) -> float:
    """The largest error over its scale of one call, against float64."""
    before = {name: arrays[name].copy() for name, buffer in family.buffers.items() if buffer.role == "inout"}
    result = arrays[family.result]
    if not before:
        result.view(np.uint8)[:] = 0
    want, scale = family.truth(arrays, shape.sizes)
    shim.once(index)
    got = from_bf16(result) if family.buffers[family.result].element == "bf16" else result.astype(np.float64)
    error = np.abs(got - np.ravel(want)) / np.maximum(
        np.ravel(np.broadcast_to(scale, np.shape(want))), 1e-300
    )
    for name, values in before.items():
        arrays[name][:] = values
    return float(np.max(error))


def _windows(
    shim: Shim, running: Sequence[int], slow: set[int], order: random.Random, quick: bool
) -> dict[int, list[float]]:
    """Nanoseconds a call, by entrant and round. ``slow`` ones take part in the first rounds only if they are."""
    reps = {index: _reps(shim, index) for index in running}
    walls = {index: shim.time(index, reps[index])[0] for index in running}
    warm = {index: warming(reps[index], walls[index] / reps[index]) for index in running}
    some = {index: 3 if walls[index] < 1e8 else 1 for index in slow if walls[index] > 4 * WINDOW_NS}
    low, high = (7, 11) if quick else ROUNDS
    rounds = int(min(high, max(low, BUDGET_NS / sum(walls[index] for index in running if index not in some))))
    found: dict[int, list[float]] = {index: [] for index in running}
    for number in range(rounds):
        entrants = [index for index in running if number < some.get(index, rounds)]
        for index in order.sample(entrants, len(entrants)):
            found[index].append(_window(shim, index, reps[index], warm[index]))
    return found


def _reps(shim: Shim, index: int) -> int:
    if shim.time(index, 1)[0] > 10 * WINDOW_NS:
        return 1
    reps = 1
    while (wall := shim.time(index, reps)[0]) < WINDOW_NS / 4 and reps < 1 << 24:
        reps *= 2
    return max(1, round(reps * WINDOW_NS / wall))


def warming(reps: int, call_ns: float) -> int:
    """Untimed calls before a window of ``reps`` calls, each of ``call_ns``.

    Peers share operands of which ours has a copy, and who ran last would find them warm. One call does not make up for
    it: the last cache keeps what is read again, which of a shared operand is each entrant's every call.
    """
    return max(1, reps // 16, min(WARM_CALLS, int(WARM_NS / call_ns)))


def _window(shim: Shim, index: int, reps: int, warm: int) -> float:
    shim.time(index, warm)
    for _ in range(4):
        wall, cpu = shim.time(index, reps)
        if cpu / wall >= SHARED:
            break
    return wall / reps


def ratio(values: Sequence[float]) -> Ratio:
    """The median and its exact sign interval: order statistics, whatever the distribution."""
    n, ordered = len(values), sorted(values)
    tail, k = 0.0, 0
    while k < n // 2 and tail + math.comb(n, k) / 2**n <= 0.025:
        tail += math.comb(n, k) / 2**n
        k += 1
    return Ratio(median(ordered), ordered[max(k - 1, 0)], ordered[n - max(k, 1)])

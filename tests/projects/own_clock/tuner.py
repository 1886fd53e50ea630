"""Race scale_f32 by processor time: a tuner that brings its own clock and its own data."""

import sys
import time

import numpy as np

from tunebuild import harness

N = 4096
ROUNDS = 15
CALLS = 200

x = np.linspace(-1.0, 1.0, N, dtype=np.float32)
y = np.zeros_like(x)
want = x * np.float32(0.5)


def correct(row: harness.Variant) -> bool:
    y.fill(np.nan)
    row(y, x, 0.5, N)
    return bool(np.array_equal(y, want))


def window_us(row: harness.Variant) -> float:
    start = time.process_time_ns()
    for _ in range(CALLS):
        row(y, x, 0.5, N)
    return (time.process_time_ns() - start) / 1000 / CALLS


def main() -> int:
    key = "scale_f32"
    if not harness.selected(key):
        return 0
    harness.plan("own", 1)
    harness.begin(key, ROUNDS)
    started = time.monotonic()
    fallback = harness.resolved_fallback(key)
    rows = [row for row in harness.variants(key) if not row.why_not and not row.declined]
    passed = [row for row in rows if correct(row)]
    if not passed:
        harness.end(key, "", "rejected", 0)
        harness.set_winner(key, "reference")
        return 1
    samples: dict[str, list[float]] = {row.suffix: [] for row in passed}
    for number in range(ROUNDS):
        if harness.interrupted():
            harness.abort("control", key)
            return 3
        harness.step(number + 1, "rounds", len(passed))
        for place in range(len(passed)):
            row = passed[(number + place) % len(passed)]
            samples[row.suffix].append(window_us(row))
    times = {suffix: harness.median(each) for suffix, each in samples.items()}
    best = min(times, key=lambda suffix: times[suffix])
    base = times.get(fallback, float("inf"))
    winner = best if times[best] < 0.97 * base else fallback
    took_ms = round(1000 * (time.monotonic() - started))
    harness.end(key, winner, "beats" if winner != fallback else "holds", took_ms)
    harness.note("clock", "process time")
    table = {"rows": {suffix: {"med_us": time} for suffix, time in times.items()}, "fallback": fallback}
    harness.set_winner(key, winner, table)
    harness.archive()
    return 0 if harness.verdict().complete else 1


if __name__ == "__main__":
    sys.exit(main())

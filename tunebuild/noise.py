"""The noise probe: how loud is this machine now, and how large a win can its noise fake?

A probe reads a fixed kernel twice. The raw cv of its windows judges whether a mint may go on at all; one
preempted window can ruin it, which is right for a warning and wrong for a bar. The A/A floor is the
robust spread of the kernel raced against its own copy, for one dose each: the noise that can fake a win.
The probe is a generator over `MicroRound`s like the race; rows 0 and 1 of its bench are the two copies,
and that bench takes no window again.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Literal

from tunebuild.heat import Bar, Heat
from tunebuild.measure import Measure
from tunebuild.model import Disturbed, Measured, MicroRound, Slice
from tunebuild.stats import cv_pct, robust_spread
from tunebuild.windows import Track, log_times, size_up

Word = Literal["ok", "noisy", "refused", "overridden"]
PROBE_ROWS = ("probe", "copy")


@dataclass(frozen=True, slots=True)
class Reading:
    """One probe. ``settled_pct`` is the raw cv after the hot settle, None when none was needed."""

    tag: str
    raw_pct: float
    floor_pct: float
    settled_pct: float | None = None

    @property
    def used_pct(self) -> float:
        return self.raw_pct if self.settled_pct is None else self.settled_pct

    def __str__(self) -> str:
        settled = "" if self.settled_pct is None else f" settled to {self.settled_pct:.2f}%"
        return f"{self.tag} cv {self.raw_pct:.2f}%{settled} A/A {self.floor_pct:.2f}%"


Probing = Generator[MicroRound, Measured | None, Reading]


def probe(
    tag: str,
    measure: Measure,
    threshold_pct: float,
    seed: int,
    clock_step_ns: float,
    settling: Callable[[float], None] = lambda raw_pct: None,
) -> Probing:
    """Read the raw cv and the A/A floor; over the threshold spin hot for `settle_s` and read once more.

    It spins and never sleeps: a thread that slept wakes on a slow core. ``settling`` hears of the raw cv before.
    """
    heat = Heat("noise", PROBE_ROWS, (0,), seed=seed, clock_step_ns=clock_step_ns)
    track = Track(heat, measure, random.Random(seed), live={0, 1})
    yield from size_up(track)
    if len(track.live) < 2:
        return Reading(tag, math.inf, math.inf)
    raw, floor = yield from _read(track)
    if raw <= threshold_pct:
        return Reading(tag, raw, floor)
    settling(raw)
    yield from _spin(track, measure.settle_s * 1e9)
    settled, calmer = yield from _read(track)
    return Reading(tag, raw, calmer, settled)


def _read(track: Track) -> Generator[MicroRound, Measured | None, tuple[float, float]]:
    m = track.measure
    window = Slice(0, max(1, round(track.reps[0, 0] * m.probe_window_ms * 1e6 / track.slice_ns)))
    walls: list[float] = []
    for _ in range(m.probe_windows):
        measured = yield MicroRound(0, 0, 0, (window,))
        walls += [] if measured is None or isinstance(measured, Disturbed) else [s.wall_ns for s in measured]
    ratios: list[float] = []
    for index in range(m.probe_pairs):
        order = (0, 1) if index % 2 else (1, 0)
        slices = tuple(Slice(row, track.reps[0, row]) for row in order)
        measured = yield MicroRound(0, order[0], track.next_placement(), slices)
        if measured is not None and not isinstance(measured, Disturbed):
            times = dict(log_times(measured, m.min_cpu_share))
            ratios += [times[1] - times[0]] if len(times) == 2 else []
    return cv_pct(walls), aa_floor_pct(ratios, m)


def _spin(track: Track, rest_ns: float) -> Generator[MicroRound, Measured | None, None]:
    long = Slice(0, max(1, round(track.reps[0, 0] * min(rest_ns, 0.5e9) / track.slice_ns)))
    while rest_ns > 0:
        measured = yield MicroRound(0, 0, 0, (long,))
        walls = [] if measured is None or isinstance(measured, Disturbed) else [s.wall_ns for s in measured]
        rest_ns -= max(sum(walls), track.slice_ns)


def aa_floor_pct(ratios: Sequence[float], measure: Measure) -> float:
    """The robust spread of the ratio of `floor_doses` each, in percent, from log ratios of single windows."""
    windows = max(measure.floor_doses * measure.dose_ms / measure.slice_ms, 1.0)
    return 100 * robust_spread(ratios) / math.sqrt(windows)


# --- what readings mean --------------------------------------------------------------------------


def threshold_pct(measure: Measure, noise_cv: str = "") -> float:
    """The note threshold: ``noise_cv`` (from the environment) if a number over 0, else the constant."""
    try:
        value = float(noise_cv)
    except ValueError:
        return measure.note_cv_pct
    return value if 0 < value < math.inf else measure.note_cv_pct


def ceiling_pct(measure: Measure, threshold: float) -> float:
    """A threshold that was set above the ceiling takes the ceiling along."""
    return max(measure.ceiling_cv_pct, threshold)


def judge(readings: Sequence[Reading], measure: Measure, threshold: float, override: bool = False) -> Word:
    """The mint's word so far: the worst reading decides; ``override`` lets one over the ceiling pass."""
    worst = max((reading.used_pct for reading in readings), default=0.0)
    if worst > ceiling_pct(measure, threshold):
        return "overridden" if override else "refused"
    return "noisy" if worst > threshold else "ok"


def floor_pct(readings: Sequence[Reading], measure: Measure) -> float:
    """The highest floor so far, by the reading that `noise_floor` chose."""
    raw = measure.noise_floor == "raw"
    return max((reading.used_pct if raw else reading.floor_pct for reading in readings), default=0.0)


def bar(readings: Sequence[Reading], measure: Measure) -> Bar:
    """The larger of the margin and the floor, and which of them it is."""
    floor = floor_pct(readings, measure)
    if floor <= measure.margin_pct:
        return Bar(measure.margin_pct, "margin")
    return Bar(min(floor, 99.0), f"{measure.noise_floor} floor")


def stamped(readings: Sequence[Reading], measure: Measure, word: Word) -> dict[str, str]:
    """The provenance of the noise, as strings; both floors, whichever raised the bar."""
    raw = max((reading.used_pct for reading in readings), default=0.0)
    aa = max((reading.floor_pct for reading in readings), default=0.0)
    return {
        "noise": word,
        "noise_probes": "; ".join(str(reading) for reading in readings),
        "noise_floor_cv_pct": f"{raw:.2f}",
        "noise_floor_aa_pct": f"{aa:.2f}",
    }

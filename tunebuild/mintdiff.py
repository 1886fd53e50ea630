"""Two mints side by side: which winners changed, by how much, and what that pattern means. Decides only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Literal

from tunebuild.document import Document, Json

Reading = Literal["same", "fresh", "uniform shift", "scattered flips", "twin flips", "changed"]

_TIMES = ("med_us", "tile_us", "streamed_us")
_DEFAULT_FLOOR_PCT = 3.0
_TWIN_PCT = 1.0

READINGS: Mapping[Reading, str] = {
    "same": "no winner changed",
    "fresh": "nothing to compare with",
    "uniform shift": "all rows moved together: the state of the box, not the code",
    "scattered flips": "winners changed beyond the noise both ways: one of the mints was noisy",
    "twin flips": "only rows of nearly equal time changed places",
    "changed": "winners changed",
}


@dataclass(frozen=True, slots=True)
class Flip:
    """``gain_pct``: (t_old - t_new) / t_new in the newer race, percent; None when a time is missing."""

    key: str
    old: str
    new: str
    gain_pct: float | None


@dataclass(frozen=True, slots=True)
class MintDiff:
    """``shift_pct``: the median of new time ÷ old time - 1 over ``timed`` rows that both raced anew."""

    flips: tuple[Flip, ...]
    fresh: int
    same: int
    shift_pct: float | None
    timed: int
    reading: Reading


def diff(old: Document, new: Document) -> MintDiff:
    """Compare the entries of ``new`` with those of ``old``."""
    flips, fresh, same = [], 0, 0
    for key, suffix in sorted(new.kernels.items()):
        before = old.kernels.get(key)
        if before is None:
            fresh += 1
        elif not suffix or suffix == before:
            same += 1
        else:
            flips.append(Flip(key, before, suffix, _gain(new, key, before, suffix)))
    ratios = sorted(_ratios(old, new))
    shift = 100.0 * (median(ratios) - 1.0) if ratios else None
    found = tuple(flips)
    reading = _reading(found, fresh, same, ratios, _floor(new))
    return MintDiff(found, fresh, same, shift, len(ratios), reading)


def lines(found: MintDiff) -> tuple[str, ...]:
    """The report of a diff, a line a flip."""
    flips = (
        f"{flip.key}: {flip.old} -> {flip.new}"
        + (f" ({flip.gain_pct:+.1f} %)" if flip.gain_pct is not None else "")
        for flip in found.flips
    )
    shift = (
        (f"median shift {found.shift_pct:+.1f} % over {found.timed} rows timed in both",)
        if found.shift_pct is not None
        else ()
    )
    total = f"{len(found.flips)} changed, {found.same} same, {found.fresh} fresh: {READINGS[found.reading]}"
    return (*flips, *shift, total)


def row_time_us(document: Document, key: str, suffix: str) -> float | None:
    """A row's time of one call, by the first metric that its race recorded; None for none above zero."""
    rows = document.race.get(key, {}).get("rows")
    metrics = rows.get(suffix) if isinstance(rows, dict) else None
    if not isinstance(metrics, dict):
        return None
    values = (metrics.get(name) for name in _TIMES)
    return next((float(v) for v in values if _number(v) and isinstance(v, int | float) and v > 0), None)


def _number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _gain(new: Document, key: str, before: str, suffix: str) -> float | None:
    lost, won = row_time_us(new, key, before), row_time_us(new, key, suffix)
    return 100.0 * (lost - won) / won if lost is not None and won is not None else None


def _ratios(old: Document, new: Document) -> list[float]:
    """Of the seats that the newer mint raced: one that it left alone holds the older race as it was."""
    pairs = (
        (row_time_us(old, key, suffix), row_time_us(new, key, suffix))
        for key, table in new.race.items()
        if table != old.race.get(key) and isinstance(rows := table.get("rows"), dict)
        for suffix in rows
    )
    return [after / before for before, after in pairs if before and after]


def _floor(new: Document) -> float:
    """The newer mint's noise floor in percent, at least the margin that any race needs."""
    recorded = new.provenance.get("noise_floor_cv_pct")
    try:
        floor = float(recorded) if isinstance(recorded, str | int | float) else 0.0
    except ValueError:
        floor = 0.0
    return max(floor, _DEFAULT_FLOOR_PCT)


def _reading(
    flips: tuple[Flip, ...], fresh: int, same: int, ratios: list[float], floor_pct: float
) -> Reading:
    if not same and not flips:
        return "fresh" if fresh else "same"
    if not flips and not _uniform(ratios, floor_pct):
        return "same"
    if _uniform(ratios, floor_pct):
        return "uniform shift"
    gains = [flip.gain_pct for flip in flips if flip.gain_pct is not None]
    if gains and len(gains) == len(flips) and all(abs(gain) <= _TWIN_PCT for gain in gains):
        return "twin flips"
    if len([gain for gain in gains if abs(gain) > floor_pct]) > 1:
        return "scattered flips"
    return "changed"


def _uniform(ratios: list[float], floor_pct: float) -> bool:
    """Rows moved by more than the floor, and nine in ten by the same within it."""
    if len(ratios) < 4:
        return False
    middle = median(ratios)
    band = floor_pct / 100.0
    near = sum(abs(ratio / middle - 1.0) <= band for ratio in ratios)
    return abs(middle - 1.0) > band and near >= 0.9 * len(ratios)

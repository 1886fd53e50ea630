"""Every constant of the race by name: what `[measure]` of tune.toml may override.

A constant's name ends in its unit. The whole record is stamped beside the race it decided, so an old
sidecar says under which rules it was made. `PROTOCOL_VERSION` counts changes of the rules themselves.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import TypeVar

from tunebuild.errors import UsageError
from tunebuild.model import Value

PROTOCOL_VERSION = 1


T = TypeVar("T", int, float, str)


def _constant(
    default: T, doc: str, *, low: float = 0.0, high: float = 0.0, choices: tuple[str, ...] = ()
) -> T:
    meta = {"doc": doc, "low": low, "high": high, "choices": choices}
    made: T = field(default=default, metadata=meta)
    return made


@dataclass(frozen=True, slots=True)
class Measure:
    """The constants of one mint. Times in the unit of the name; percentages as 3.0 for three percent."""

    # The bar a new winner must clear.
    margin_pct: float = _constant(3.0, "a winner beats the fallback by at least this much", low=0, high=90)
    noise_floor: str = _constant(
        "aa", "what may raise the bar: the A/A floor or the raw cv of the probe", choices=("aa", "raw")
    )

    # How time is given out.
    dose_ms: float = _constant(
        20.0, "the unit in which measuring time is counted and budgeted", low=0.1, high=10_000
    )
    slice_ms: float = _constant(
        2.5, "one timed window of one row in a grid of usual size", low=0.05, high=10_000
    )
    min_slice_ms: float = _constant(
        0.5, "the shortest window, used in very large grids", low=0.05, high=10_000
    )
    usual_rows: int = _constant(80, "up to this many rows windows have full length", low=1, high=1_000_000)
    min_clock_steps: int = _constant(
        200, "no window is shorter than this many steps of the clock", low=1, high=1_000_000
    )
    round_slices: int = _constant(4, "windows that a row gets in a round", low=1, high=1000)
    max_rounds: int = _constant(32, "a race ends after this many rounds at the latest", low=1, high=10_000)
    control_slices: int = _constant(
        3, "the most windows of the fallback in one micro-round", low=1, high=1000
    )
    pool_rows: int = _constant(
        24, "rows that share one micro-round at most, beside the fallback", low=1, high=10_000
    )
    williams_rows: int = _constant(
        4, "up to this many rows orders come from a Williams square", low=0, high=64
    )
    placements: int = _constant(8, "buffer placements that micro-rounds walk through", low=1, high=8)
    budget_doses: float = _constant(40.0, "doses that any race may spend", low=1, high=1_000_000)
    budget_doses_per_row: float = _constant(
        1.0, "doses added to the budget for every row", low=0, high=10_000
    )

    # The estimate.
    huber_k: float = _constant(1.5, "residuals past this many scales are weighed down", low=0.5, high=100)
    scale_floor_pct: float = _constant(0.15, "the spread of a window is never believed less", low=0, high=100)
    block_slices: int = _constant(
        6, "neighbours that share a clock step, in the finer fit", low=3, high=10_000
    )
    min_cpu_share: float = _constant(
        0.97, "CPU over wall time under which a window is retaken", low=0, high=1
    )
    slice_retries: int = _constant(3, "how often a disturbed window is taken again", low=0, high=1000)

    # Leaving the race.
    min_pairs: int = _constant(
        3, "no row leaves on fewer windows paired with the fallback", low=2, high=10_000
    )
    leave_z: float = _constant(3.0, "standard errors that a reason to leave must hold by", low=0, high=1000)
    far_pct: float = _constant(
        15.0, "a row slower than the fallback by this much leaves at once", low=0, high=10_000
    )
    take_band_pct: float = _constant(
        1.0, "rows this close to the best are tied: grid order rules", low=0, high=100
    )
    keep_band_pct: float = _constant(
        0.0, "an incumbent this close to the best stays; 0: the bar", low=0, high=100
    )

    # Taking the seat.
    seat_z: float = _constant(
        2.5, "standard errors by which a leader over the bar ends a race", low=0, high=1000
    )
    tie_z: float = _constant(
        2.0, "standard errors within which rows tied with the leader are told apart", low=0, high=1000
    )
    tie_share: float = _constant(
        0.5, "the part of the budget after which ties are left as they are", low=0, high=1
    )
    late_z: float = _constant(0.0, "the same, once the budget or the rounds are spent", low=0, high=1000)
    faster_z: float = _constant(
        2.5, "standard errors by which a winner, if in doubt, is faster at all", low=0, high=1000
    )
    keep_z: float = _constant(
        0.0, "the same for an incumbent, which must clear the bar as well", low=0, high=1000
    )
    unseat_z: float = _constant(1.5, "late_z where the incumbent is the fallback", low=0, high=1000)

    # Validation in a fresh process.
    validate_slice_ms: float = _constant(5.0, "one window of a pair", low=0.05, high=10_000)
    validate_first_pairs: int = _constant(12, "pairs before the first look", low=6, high=10_000)
    validate_step_pairs: int = _constant(4, "pairs between looks", low=1, high=10_000)
    validate_max_pairs: int = _constant(48, "pairs after which the median decides", low=6, high=10_000)
    validate_alpha: float = _constant(0.02, "one-sided error of a single look", low=1e-9, high=0.5)

    # A ratio that has two values is no winner.
    split_gap_pct: float = _constant(
        2.0, "two modes of a ratio this far apart are two states", low=0, high=10_000
    )
    split_separation: float = _constant(4.5, "the gap over the spread inside the modes", low=1, high=1000)
    split_min_pairs: int = _constant(24, "pairs below which no two states are seen", low=6, high=10_000)
    split_share: float = _constant(0.2, "the smaller mode's least share of the pairs", low=0, high=0.5)

    # The noise probe.
    probe_windows: int = _constant(12, "windows of the fixed kernel per probe", low=3, high=10_000)
    probe_window_ms: float = _constant(20.0, "length of a probe window", low=0.1, high=10_000)
    probe_pairs: int = _constant(24, "A/A pairs per probe, one window of slice_ms each", low=6, high=10_000)
    floor_doses: float = _constant(
        4.0, "doses of each copy whose ratio's spread is the A/A floor", low=0.1, high=10_000
    )
    note_cv_pct: float = _constant(
        2.0, "a raw cv above this is noted after one hot settle", low=0, high=10_000
    )
    ceiling_cv_pct: float = _constant(10.0, "a raw cv above this refuses the mint", low=0, high=10_000)
    settle_s: float = _constant(8.0, "hot spin before the single second probe", low=0, high=3600)
    drift_note_pct: float = _constant(
        5.0, "level drift in validation that is noted, never judged", low=0, high=10_000
    )

    # What a live bench needs to know.
    timeout_s: float = _constant(10.0, "a window that takes longer is a hang", low=0.01, high=86_400)
    cold_llc_multiple: float = _constant(
        4.0, "cold workloads walk copies of this many caches", low=1, high=1000
    )
    cold_max_mb: float = _constant(256.0, "the most that those copies may take", low=1, high=1_000_000)

    @staticmethod
    def from_overrides(pairs: Iterable[tuple[str, Value]]) -> Measure:
        """The defaults with ``pairs`` put over them; `UsageError` names the first that cannot be."""
        values: dict[str, Value] = {}
        for name, value in pairs:
            if problem := override_problem(name, value):
                raise UsageError(f"{name}: {problem}", where="[measure]")
            values[name] = float(value) if _kind(name) is float else value
        return Measure(**values)  # type: ignore[arg-type]

    def stamped(self) -> dict[str, float | int | str]:
        """Every constant by name, for the record of a race."""
        return {constant.name: getattr(self, constant.name) for constant in fields(self)}


def constant_docs() -> tuple[tuple[str, Value, str], ...]:
    """(name, default, meaning) of every constant, in order, for schema and reference page."""
    return tuple((c.name, getattr(Measure(), c.name), c.metadata["doc"]) for c in fields(Measure))


def override_problem(name: str, value: Value) -> str:
    """Why `[measure]` cannot hold ``name = value``, with what to write; "" if it can."""
    constant = next((c for c in fields(Measure) if c.name == name), None)
    if constant is None:
        near = difflib.get_close_matches(name, [c.name for c in fields(Measure)], n=1)
        return f"unknown name{f', did you mean {near[0]}?' if near else ''}"
    kind = _kind(name)
    if kind is str:
        choices: tuple[str, ...] = constant.metadata["choices"]
        return "" if value in choices else f"write one of {', '.join(choices)}"
    if isinstance(value, bool | str) or (kind is int and not isinstance(value, int)):
        return f"write {'an integer' if kind is int else 'a number'}, such as {getattr(Measure(), name)}"
    low, high = constant.metadata["low"], constant.metadata["high"]
    return "" if low <= value <= high else f"write a value from {low:g} to {high:,}"


def _kind(name: str) -> type[int] | type[float] | type[str]:
    return type(getattr(Measure(), name))

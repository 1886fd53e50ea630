"""The nouns of a race: what is asked of a bench, what is raced, and what came out.

Times are nanoseconds a call, gains percent of the fallback's time: 4.0 means four percent less time.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Literal, Protocol

from tunebuild.model import Measured, MicroRound, Rejected

HeldBy = Literal[
    "margin",
    "incumbent",
    "tie",
    "fallback",
    "undecided",
    "state_dependent",
    "only",
    "rejected",
    "demoted",
    "confirm",
]


class Bench(Protocol):
    """Whatever can time rows: live workers, a recording, a simulated box.

    ``run`` serves the slices in order after an untimed lead-in of row ``lead_in`` (a tenth of its slice's
    calls, at least one). A slice whose thread CPU time is under `Measure.min_cpu_share` of its wall time is
    taken again at once, at most `Measure.slice_retries` times; the last attempt is returned as it is.
    ``cpu_ns`` 0 means unknown. A row that dies, hangs or breaks a rule ends the micro-round as `Disturbed`.
    """

    def run(self, micro_round: MicroRound) -> Measured: ...


@dataclass(frozen=True, slots=True)
class Bar:
    """What a winner must beat the fallback by, in percent of the fallback's time, and who says so."""

    pct: float
    source: str = "margin"


@dataclass(frozen=True, slots=True)
class Heat:
    """One seat's race. Rows are named by index into ``rows``: grid order, the reference last.

    ``controls`` are the rows that may serve as the fallback, best first: the first that is not rejected is
    what all others are compared with. ``incumbent`` is the last sidecar's winner. ``layouts`` gives each
    row's layout group; only a family of several seats races them apart (``apart``).
    """

    key: str
    rows: tuple[str, ...]
    controls: tuple[int, ...]
    incumbent: int | None = None
    workloads: tuple[tuple[str, float], ...] = (("", 1.0),)
    layouts: tuple[int, ...] = ()
    apart: bool = False
    seed: int = 0
    clock_step_ns: float = 1.0


@dataclass(frozen=True, slots=True)
class Step:
    """A round begins: ``number`` from 1, of at most ``total``, with ``live`` rows still racing."""

    number: int
    total: int
    phase: Literal["screening", "finalists"]
    live: int


@dataclass(frozen=True, slots=True)
class RowResult:
    """What a race learned about one row.

    ``gain_pct`` is how much less time than the fallback it takes, ``error_pct`` one standard error of it,
    ``interval_pct`` the exact 95 % sign interval (None under six paired windows). ``left_round`` 0: stayed.
    """

    suffix: str
    slices: int
    med_ns: tuple[float, ...]  # per workload, a call
    best_ns: tuple[float, ...]
    gain_pct: float
    error_pct: float
    interval_pct: tuple[float, float] | None
    left_round: int = 0
    left_why: str = ""
    gains_pct: tuple[float, ...] = ()  # per workload
    clears: bool = False  # by itself, at the certainty with which the race ended
    layout: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """A decided race. ``winner`` is an index into the heat's rows, -1 when no row passed."""

    heat: Heat
    winner: int
    held_by: HeldBy
    margin_pct: float
    bar: Bar
    control: int
    tie: tuple[int, ...]
    rows: tuple[RowResult, ...]
    rejected: tuple[Rejected, ...]
    rounds: int
    doses: float
    placements: int
    demoted: str = ""

    @property
    def winner_suffix(self) -> str:
        return self.heat.rows[self.winner] if self.winner >= 0 else ""

    @property
    def control_suffix(self) -> str:
        return self.heat.rows[self.control] if self.control >= 0 else ""


Race = Generator[MicroRound | Step, Measured | None, Outcome]
Lap = Generator[MicroRound, Measured | None, None]

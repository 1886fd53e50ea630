"""The live bench: gates rows and times them in a worker process.

`gate` judges rows against the reference body and says of each whether it passed. `LiveBench` answers the
race's micro-rounds, and looks at what the timed calls computed. Neither decides a winner.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

from tunebuild.calls import (
    Case,
    Driver,
    Subject,
    case_text,
    explain,
    gate_cases,
    job_lines,
    large_cases,
    valid_lines,
    workload_cases,
)
from tunebuild.errors import WorkFailed
from tunebuild.measure import Measure
from tunebuild.model import REFERENCE, Disturbed, MicroRound, Rejected, Sample
from tunebuild.worker import Worker, WorkerDied, parse_finding

GATE_TIMEOUT_MS = 1000
AT_SIZE_S = 2.0  # what calling the rows of a family at one large workload may take
AT_SIZE_TIMEOUT_MS = 10_000
COLD_MEMORY_BYTES = 2 << 30  # what packed copies of all groups may take together
_CLOSE = 1e-3  # wrong answers this near to each other agree


@dataclass(frozen=True, slots=True)
class GateReport:
    """What the gate found. ``broken``: the reference failed, so no row was judged. ``note`` is said first.

    ``unseen``: by passed row, the large workloads at which it was not called, and why.
    """

    passed: tuple[str, ...]
    rejected: tuple[Rejected, ...]
    cases: int
    broken: str = ""
    note: str = ""
    unseen: tuple[Unseen, ...] = ()


@dataclass(frozen=True, slots=True)
class Unseen:
    """Rows that passed, but were not called at a workload of their own."""

    workload: str
    rows: tuple[str, ...]
    why: str


# --- the gate ------------------------------------------------------------------------------------


def gate(
    worker: Worker,
    of: Subject,
    rows: Sequence[str] | None = None,
    *,
    cases: Sequence[Case] | None = None,
    sized: Collection[str] = (),
    timeout_ms: int = GATE_TIMEOUT_MS,
) -> GateReport:
    """Judge ``rows`` (suffixes; all of the library's but the reference) on ``cases`` (`gate_cases`).

    Without ``cases`` the rows but ``sized`` are also called at workloads too large for one.
    A row that crashes, hangs or is wrong is a `Rejected`; the others are judged all the same. A call that
    makes no progress for ``timeout_ms`` of processor time is a hang. `WorkFailed`: the worker itself died.
    """
    driver = _driver(worker, of)
    chosen = tuple(rows) if rows is not None else tuple(s for s in driver.rows if s != REFERENCE)
    if absent := [suffix for suffix in chosen if suffix not in driver.rows]:
        raise WorkFailed(f"{of.name}: the tune library has no row {', '.join(absent)}", fix="build it again")
    tried = tuple(cases) if cases is not None else gate_cases(of)
    job = [*job_lines(of, driver, tried, timeout_ms=timeout_ms), "reference"]
    worker.job = None
    reference = worker.ask(job, 1)[0]
    if not reference.startswith("reference ok"):
        return GateReport((), (), len(tried), broken=_broken(driver, parse_finding(reference), tried))
    limits = valid_lines(of, driver, tried, [float(word) for word in reference.split()[2:]])
    worker.ask(limits, 0)
    replies = _row_replies(worker, [*job, *limits], [driver.rows.index(suffix) for suffix in chosen])
    findings = {
        suffix: parse_finding(reply)
        for suffix, reply in zip(chosen, replies, strict=True)
        if not reply.endswith(" ok")
    }
    rejected = [_rejected(of, driver, suffix, said, tried) for suffix, said in findings.items()]
    large = _AtSize(worker, of, driver, [s for s in chosen if s not in findings and s not in sized])
    if cases is None:
        large.run()
        if large.broken:
            return GateReport((), (), len(tried), broken=large.broken)
    rejected += large.rejected
    failed = {one.suffix for one in rejected}
    return GateReport(
        tuple(suffix for suffix in chosen if suffix not in failed),
        tuple(rejected),
        len(tried),
        unseen=tuple(large.unseen),
        note=_agreement([findings.get(suffix) for suffix in chosen if suffix != REFERENCE]),
    )


class _AtSize:
    """One call of each row at each workload that is too large for a case, on the race's buffers.

    An error that shows only there is found for the price of a call. What does not fit into `AT_SIZE_S` is left,
    by name.
    """

    def __init__(self, worker: Worker, of: Subject, driver: Driver, rows: list[str]) -> None:
        self._worker, self._of, self._driver = worker, of, driver
        self.passed = rows
        self.rejected: list[Rejected] = []
        self.unseen: list[Unseen] = []
        self.broken = ""
        large = large_cases(of)
        self._names = [name for name, _ in large]
        self._cases = [case for _, case in large]

    def run(self) -> None:
        if self._worker.emulated:
            why = "an emulator would take minutes"
            self.unseen = [Unseen(name, tuple(self.passed), why) for name in self._names if self.passed]
            return
        if self._cases and self.passed:
            self._describe()
        for number in range(len(self._cases)):
            self._workload(number)
            if self.broken:
                return

    def _describe(self) -> None:
        lines = job_lines(self._of, self._driver, self._cases, timeout_ms=AT_SIZE_TIMEOUT_MS)
        self._worker.ask(lines, 0)

    def _workload(self, number: int) -> None:
        until = time.monotonic() + AT_SIZE_S
        for at, suffix in enumerate(rows := tuple(self.passed)):
            said = self._called(number, suffix) if time.monotonic() < until else {"fault": "late", "row": "0"}
            if not said:
                continue
            if why := self._excuse(said):
                self.unseen.append(Unseen(self._names[number], rows[at:], why))
                return
            if said.get("row") == "0":
                self.broken = _broken(self._driver, said, self._cases)
                return
            self.passed.remove(suffix)
            self.rejected.append(_rejected(self._of, self._driver, suffix, said, self._cases))

    @staticmethod
    def _excuse(said: dict[str, str]) -> str:
        """Why a call that was not made, or not to its end, tells nothing of the row; "" where it does."""
        if said["fault"] == "hang" and said["row"] == "0":
            return "the reference is too slow"
        known = {"late": f"{AT_SIZE_S:.0f} s were spent", "memory": "there is no memory for its buffers"}
        return known.get(said["fault"], "")

    def _called(self, number: int, suffix: str) -> dict[str, str]:
        """The finding of one call, {} of a right one; row 0 where it was the reference that failed."""
        try:
            reply = self._worker.ask([f"confirm {number} {self._driver.rows.index(suffix)}"], 1)[0]
        except WorkerDied:
            self._worker.restart()
            self._describe()
            return {"fault": "worker"}
        return {} if reply.startswith("confirm ok") else parse_finding(reply)


def _row_replies(worker: Worker, job: Sequence[str], numbers: Sequence[int]) -> list[str]:
    """A reply for every row. One that takes the worker down with it is named too, and a new one goes on."""
    replies: list[str] = []
    while len(replies) < len(numbers):
        try:
            for reply in worker.ask_each([f"row {number}" for number in numbers[len(replies) :]]):
                replies.append(reply)
        except WorkerDied:
            replies.append("row bad fault=worker")
            worker.restart()
            worker.ask(job, 1)
    return replies


def _authority(driver: Driver) -> str:
    return "oracle" if driver.oracle else "reference"


def _broken(driver: Driver, said: dict[str, str], cases: Sequence[Case]) -> str:
    """What is wrong with the reference itself."""
    why = explain(said, _case_of(said, cases), judge=_authority(driver))
    opinion = " by the oracle's word" if said["fault"] in ("element", "result") else ""
    return f"the reference itself fails{opinion}: {why}"


def _rejected(
    of: Subject, driver: Driver, suffix: str, said: dict[str, str], cases: Sequence[Case]
) -> Rejected:
    case = _case_of(said, cases)
    chosen = f' --case "{case_text(case, said.get("placement", ""))}"' if case else ""
    replay = f"tunebuild test {of.family} --row {suffix}{chosen}"
    return Rejected(suffix, "gate", explain(said, case, judge=_authority(driver)), replay)


def _driver(worker: Worker, of: Subject) -> Driver:
    try:
        return worker.drivers[of.name]
    except KeyError:
        raise WorkFailed(f"the tune library cannot call {of.name}", fix="build it again") from None


def _case_of(said: dict[str, str], cases: Sequence[Case]) -> Case | None:
    number = int(said.get("case", "-1"))
    return cases[number] if 0 <= number < len(cases) else None


def _agreement(findings: Sequence[dict[str, str] | None]) -> str:
    """The sentence for rows that are all wrong in one way: then the reference is the odd one out."""
    told = [said for said in findings if said and said["fault"] in ("element", "result")]
    if len(findings) < 2 or len(told) < len(findings):
        return ""
    places = {(said["case"], said["pass"], said.get("buffer"), said.get("element")) for said in told}
    got = [math.nan if said["got"] == "?" else float(said["got"]) for said in told]
    near = all(math.isclose(one, got[0], rel_tol=_CLOSE) or (one != one and got[0] != got[0]) for one in got)
    if len(places) > 1 or not near:
        return ""
    return (
        f"all {len(told)} rows differ from the reference and agree with each other"
        f" ({told[0]['got']}, the reference {told[0]['want']}): suspect the reference, or what all rows share,"
        " their template and headers"
    )


# --- the race's bench ----------------------------------------------------------------------------


class Looks(IntEnum):
    """Whether micro-rounds end with a look at what their last window computed, and whether the data then change."""

    NONE = 0
    SAME = 1
    ALTER = 2


class Unsound(Exception):
    """A row that was timed does not compute what it should. ``fault`` names it."""

    def __init__(self, fault: Rejected) -> None:
        super().__init__(fault.why)
        self.fault = fault


FRESH_PAIRS = 24
FRESH_ENOUGH = 3


class LiveBench:
    """Answers micro-rounds for one subject. Rows are numbered as in ``rows``, a heat's own order.

    A row that dies, hangs or changes the environment ends its micro-round as `Disturbed`; the next one
    begins in a new process. So does a row that is found wrong after its window, or, where ``strict``, the race ends
    with `Unsound`: other rows have left because of times that it never took. ``reruns`` counts the slices that were
    taken again.
    """

    def __init__(
        self,
        worker: Worker,
        of: Subject,
        rows: Sequence[str],
        measure: Measure,
        *,
        cache_bytes: int,
        looks: Looks = Looks.ALTER,
        strict: bool = False,
    ) -> None:
        self._worker, self._subject, self._measure = worker, of, measure
        self._looks, self._strict = looks, strict
        self._rows = tuple(rows)
        self._driver = _driver(worker, of)
        self._numbers = tuple(self._driver.rows.index(suffix) for suffix in self._rows)
        self._cases = workload_cases(
            of,
            cache_bytes=cache_bytes,
            cold_bytes=int(measure.cold_max_mb * 2**20),
            memory_bytes=COLD_MEMORY_BYTES,
            multiple=measure.cold_llc_multiple,
        )
        self._reps: dict[tuple[int, int], int] = {}
        self._replays: dict[str, str] = {}
        self.reruns = 0

    def _job(self) -> None:
        """Describe the job, unless the worker still holds ours."""
        if self._worker.job is not self:
            timeout_ms = max(int(self._measure.timeout_s * 1000), 1)
            self._worker.ask(job_lines(self._subject, self._driver, self._cases, timeout_ms=timeout_ms), 0)
            self._worker.job = self

    def run(self, micro_round: MicroRound) -> tuple[Sample, ...] | Disturbed:
        """Serve the slices in order after an untimed lead-in, a tenth of its row's own slice."""
        self._job()
        m, workload = self._measure, micro_round.workload
        for one in micro_round.slices:
            self._reps[workload, one.row] = one.reps
        lead = max(self._reps.get((workload, micro_round.lead_in), 1) // 10, 1)
        slices = [(micro_round.lead_in, lead), *((one.row, one.reps) for one in micro_round.slices)]
        words = [f"{self._numbers[row]}:{reps}" for row, reps in slices]
        head = (
            f"round {workload} {micro_round.placement} {m.min_cpu_share!r} {m.slice_retries} {self._looks:d}"
        )
        reply = self._worker.ask([f"{head} {' '.join(words)}"], 1)[0]
        if not reply.startswith("round ok"):
            told = self._disturbed(reply)
            if self._strict and parse_finding(reply)["fault"] in ("element", "result"):
                raise Unsound(self._unsound(workload, told.row, f"after timed calls: {told.why}"))
            return told
        samples = []
        for one, word in zip(micro_round.slices, reply.split()[2:], strict=True):
            wall_ns, cpu_ns, reruns = (int(number) for number in word.split(":"))
            self.reruns += reruns
            samples.append(Sample(one.row, one.reps, wall_ns, cpu_ns))
        return tuple(samples)

    def recheck(
        self, workload: int, row: int, seed: int, rival: int | None = None, gain_pct: float = 0.0
    ) -> Rejected | None:
        """More calls of a row in the race's own process, on data that it has not met, compared with the reference.

        With a ``rival`` the row must keep some of its gain of ``gain_pct`` over it in single calls on such data.
        """
        self._job()
        other = self._numbers[row if rival is None else rival]
        reply = self._worker.ask(
            [f"recheck {workload} {self._numbers[row]} {seed} {other} {round(10 * gain_pct)}"], 1
        )[0]
        if not reply.startswith("recheck ok"):
            return self._unsound(workload, row, f"after its last slice: {self._disturbed(reply).why}")
        kept, pairs = map(int, reply.split()[2:])
        if pairs < FRESH_PAIRS or kept >= FRESH_ENOUGH or rival is None:
            return None
        name = self._subject.workloads[workload].name
        why = (
            f"on data that it has not met it gains nothing of {gain_pct:.0f} % over {self._rows[rival]} in "
            f"{pairs - kept} of {pairs} calls: it is fast at what it has met before alone (workload {name})"
        )
        return Rejected(self._rows[row], "race", why, f"tunebuild mint --only {self._subject.family}")

    def replayed(self, rejected: Rejected) -> Rejected:
        """The same with the command that shows it again, if this bench saw it."""
        replay = self._replays.get(rejected.suffix, "")
        return rejected if rejected.replay else replace(rejected, replay=replay)

    def _unsound(self, workload: int, row: int, why: str) -> Rejected:
        return Rejected(self._rows[row], "race", why, self._replay(workload, row))

    def _replay(self, workload: int, row: int) -> str:
        """The gate makes as many calls as the last window before those that it judges, the second on data alike."""
        calls = self._reps.get((workload, row), 1)
        case = replace(self._cases[workload], copies=0, calls=calls, seed=self._cases[workload].seed | 1)
        return f'tunebuild test {self._subject.family} --row {self._rows[row]} --case "{case_text(case)}"'

    def renew(self, salt: int) -> None:
        """The next micro-round runs in a new process, its buffers at other addresses."""
        self._worker.ask([f"renew {salt}"], 1)

    def _disturbed(self, reply: str) -> Disturbed:
        said = parse_finding(reply)
        number = int(said["row"])
        row = self._numbers.index(number) if number in self._numbers else self._numbers.index(0)
        workload = int(said["case"])
        name = self._subject.workloads[workload].name
        self._replays[self._rows[row]] = self._replay(workload, row)
        return Disturbed(row, f"{explain(said, judge=_authority(self._driver))} (workload {name})")


# --- the noise probe -----------------------------------------------------------------------------


def probe_windows(worker: Worker, count: int, window_ns: int) -> tuple[int, ...]:
    """Raw windows of the worker's fixed kernel, nanoseconds each for one and the same number of calls."""
    reply = worker.ask([f"probe windows {count} {window_ns}"], 1)[0]
    return tuple(int(word) for word in reply.split()[2:])


def probe_pairs(worker: Worker, count: int, slice_ns: int) -> tuple[tuple[int, int], ...]:
    """The fixed kernel against its own copy: (kernel, copy) nanoseconds, pair by pair."""
    reply = worker.ask([f"probe pairs {count} {slice_ns}"], 1)[0]
    pairs = (word.split(":") for word in reply.split()[2:])
    return tuple((int(kernel), int(copy)) for kernel, copy in pairs)


def probe_spin(worker: Worker, spin_ns: int) -> None:
    """Keep the race's core busy for that long: a core that slept is slow for a while."""
    worker.ask([f"probe spin {spin_ns}"], 1)

"""A mint: gate, race, validate and record every demanded seat of an app on this box.

All of it happens before one write at the end: a mint that is refused, interrupted or killed has changed
nothing but compiled objects. Rows are judged and raced family by family in a worker; winners are validated
in a fresh one; the closing probe may still demote; then one upsert, and the normal build.
"""

from __future__ import annotations

import contextlib
import io
import os
import secrets
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Protocol

from tunebuild import (
    bench,
    building,
    drive,
    emit,
    features,
    flows,
    gates,
    history,
    host,
    judge,
    noise,
    policy,
    race,
    resolve,
    seats,
    sidecar,
    validate,
)
from tunebuild.calls import Subject
from tunebuild.document import Document, Json
from tunebuild.errors import Refused, TooLoud, UsageError
from tunebuild.generate import Generated
from tunebuild.heat import Bar, Bench, Heat, Outcome, Step
from tunebuild.measure import Measure
from tunebuild.model import (
    REFERENCE,
    App,
    Argument,
    Check,
    Family,
    Manifest,
    Rejected,
    Row,
    Scope,
    Seat,
    Workload,
)
from tunebuild.plan import PlannedFamily, PlannedFunction
from tunebuild.worker import Worker

PROBE_ELEMENTS = 2048
MID_PROBE_EVERY = 8  # families between two probes


class Progress(Protocol):
    """Who hears of a mint: the `@tune` events."""

    def plan(self, scope: str, total: int) -> None: ...
    def begin(self, name: str, total: int) -> None: ...
    def step(self, i: int, phase: str, live: int) -> None: ...
    def end(self, name: str, winner: str, verdict: str, ms: int) -> None: ...
    def settle(self, name: str, winner: str, verdict: str) -> None: ...
    def abort(self, reason: str, at: str) -> None: ...
    def note(self, text: str) -> None: ...
    def detail(self, text: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Asked:
    """What a mint is asked for. ``only`` is a filter of seat keys, ``stale`` leaves fresh seats alone."""

    app: str = ""
    only: str = ""
    stale: bool = False
    record: Path | None = None
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)


@dataclass(frozen=True, slots=True)
class Raced:
    """One seat or own-seat companion, decided. ``sound``: the row that was looked at when its race had ended; seats
    that share a layout may come to another."""

    key: str
    family: str
    outcome: Outcome
    subject: Subject
    sound: str = ""


@dataclass(frozen=True, slots=True)
class Minted:
    """The decisions of one mint, before they are written. ``told``: by key, the winner that its `end` named."""

    generated: Generated
    app: App
    raced: tuple[Raced, ...]
    reports: tuple[judge.FamilyReport, ...]
    readings: tuple[noise.Reading, ...]
    word: noise.Word
    measure: Measure
    seed: int
    validations: Mapping[str, validate.Validation]
    wall_ms: int
    confirmations: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)  # by family
    told: Mapping[str, str] = field(default_factory=dict)

    @property
    def rejected(self) -> dict[str, tuple[str, ...]]:
        """By family: the rows that the gate or a race rejected."""
        found = {report.family: [one.suffix for one in report.rejected] for report in self.reports}
        for one in self.raced:
            found.setdefault(one.family, []).extend(each.suffix for each in one.outcome.rejected)
        return {family: tuple(dict.fromkeys(rows)) for family, rows in found.items() if rows}

    @property
    def loudest_pct(self) -> float:
        """The highest raw cv that a probe was judged by."""
        return max((reading.used_pct for reading in self.readings), default=0.0)

    @property
    def empty_seats(self) -> tuple[str, ...]:
        """Demanded seats without a row that passed: recorded as the reference body, and the mint fails."""
        return tuple(
            one.key for one in self.raced if one.outcome.winner_suffix in ("", REFERENCE) and not _passed(one)
        )


def word(outcome: Outcome) -> str:
    """The verdict of a decided race, as events say it. A companion that lost its own winner follows its family."""
    if not outcome.winner_suffix:
        return "rejected"
    return "holds" if outcome.winner == outcome.control or outcome.held_by == "demoted" else "beats"


def _passed(one: Raced) -> bool:
    return any(row.suffix != REFERENCE for row in one.outcome.rows)


# --- what is asked for ----------------------------------------------------------------------------


def asked_of(generated: Generated, app: App, scope: Scope, asked: Asked) -> tuple[str, ...]:
    """The keys of one scope that are to be raced: what it demands, or what of it is stale, filtered."""
    wanted = policy.demand(generated.manifest, scope)
    left: Collection[str] = wanted.keys
    if asked.stale:
        verdict = generated.records[app.name].verdict(wanted)
        if verdict.reason not in ("absent", "unreadable", "foreign_box", "version"):
            left = (*verdict.missing, *verdict.stale)
    return tuple(key for key in wanted.keys if key in left and policy.selected(asked.only, key))


def demanded(generated: Generated, app: App, asked: Asked) -> tuple[Seat, ...]:
    """The seats to race, manifest order: of scopes with the builtin tuner, filtered, pinned ones left out. The seats of
    a family share a layout, so that one of them brings the others along."""
    chosen: list[Seat] = []
    for scope in resolve.app_scopes(generated.manifest, app):
        if scope.tuner != "builtin":
            continue
        left = asked_of(generated, app, scope, asked)
        for name in scope.families:
            seats = generated.plan.family(name).family.seats
            chosen += seats if any(seat.key in left for seat in seats) else ()
    return tuple(chosen)


def would_race(generated: Generated, app: App, asked: Asked) -> tuple[str, ...]:
    """The keys that a mint would race, by the builtin tuner or by scopes' own."""
    require_named(generated.manifest, asked.only)
    ours = (seat.key for seat in demanded(generated, app, asked))
    others = (
        one for one in resolve.app_scopes(generated.manifest, app) if one.tuner not in ("none", "builtin")
    )
    return (*ours, *(key for scope in others for key in asked_of(generated, app, scope, asked)))


def require_named(manifest: Manifest, only: str) -> None:
    """:raises UsageError: for a filter that names no seat at all."""
    keys = [seat.key for family in manifest.families for seat in family.seats]
    if only and not any(policy.selected(only, key) for key in keys):
        raise UsageError(f"no seat's name holds a token of {only!r}", fix=f"the seats are: {', '.join(keys)}")


# --- the race -------------------------------------------------------------------------------------


def mint(root: Path, asked: Asked, progress: Progress, say: building.Say) -> Minted:
    """Race what is demanded; writes nothing.

    :raises Refused: when the box is too loud, or the control file asks to stop.
    :raises WorkFailed: when the sidecar could not be written at the end, before the race.
    """
    started = time.monotonic()
    built = building.build_tune(root, say=say)
    generated = built.generated
    app = generated.app(asked.app)
    if generated.box.forced:
        raise Refused(
            f"TUNEBUILD_FORCE_FEATURES believes in {', '.join(generated.box.forced)}: code for them may be generated "
            "here, not measured",
            fix="unset it and mint again",
        )
    _require_writable(generated.records[app.name].path)
    wanted = demanded(generated, app, asked)
    families = tuple(
        planned for planned in generated.plan.families if any(seat in planned.family.seats for seat in wanted)
    )
    measure = Measure.from_overrides(generated.manifest.measure)
    seed = secrets.randbits(32)
    with contextlib.ExitStack() as stack:
        stream = stack.enter_context(asked.record.open("w")) if asked.record else None
        session = _Session(generated, app, measure, seed, progress, stream, asked.environ)
        progress.plan(app.name, len(wanted))
        if not asked.only and not asked.stale:
            session.gate_pins()
        raced: list[Raced] = []
        reports: list[judge.FamilyReport] = []
        if families:  # scopes that bring their own tuner need no worker of ours, and no quiet box
            raced = session.race_all(families, reports)
    wall_ms = round(1000 * (time.monotonic() - started))
    return Minted(
        generated,
        app,
        tuple(raced),
        tuple(reports),
        tuple(session.readings),
        session.word,
        measure,
        seed,
        session.validations,
        wall_ms,
        told=session.told,
    )


def _require_writable(path: Path) -> None:
    """The sidecar and its copy are written after the race; whether they can be is known before."""
    sidecar.require_writable(path)
    if path.exists():
        emit.require_writable(history.backup_path(path))


class _Session:
    """The state of one running mint: its probes so far, and where its benches write."""

    def __init__(
        self,
        generated: Generated,
        app: App,
        measure: Measure,
        seed: int,
        progress: Progress,
        record: IO[str] | None,
        environ: Mapping[str, str],
    ) -> None:
        self._generated, self._app, self._measure, self._seed = generated, app, measure, seed
        self._progress, self._record, self._environ = progress, record, environ
        self._threshold = noise.threshold_pct(measure, environ.get("TUNEBUILD_NOISE_CV", ""))
        self._override = environ.get("TUNEBUILD_NOISE_OVERRIDE") == "1"
        self._core = host.race_core(host.cores())
        self._cache_bytes = host.last_level_cache_bytes()
        self._step_ns = 1e9 * time.get_clock_info("monotonic").resolution
        self.readings: list[noise.Reading] = []
        self.word: noise.Word = "ok"
        self.validations: dict[str, validate.Validation] = {}
        self.told: dict[str, str] = {}

    def race_all(self, families: tuple[PlannedFamily, ...], reports: list[judge.FamilyReport]) -> list[Raced]:
        """Judge and race family by family between two probes, then validate; ``reports`` is filled."""
        raced: list[Raced] = []
        with self.worker() as running:
            self.probe(running, "start")
            for index, planned in enumerate(families):
                self.stop_if_asked(planned.family.name)
                if index and index % MID_PROBE_EVERY == 0:
                    self.probe(running, f"mid{index // MID_PROBE_EVERY}")
                sized = gates.sized(self._generated.tree, planned.family.name)
                report = judge.judge(self._generated, planned, running, sized=sized)
                flows.judge_remembered(self._generated, report)
                reports.append(report)
                raced += self.race_family(running, planned, report)
        raced, self.validations = self.validate_all(raced)
        with self.worker() as running:
            self.probe(running, "end")
        return self.close(raced)

    def gate_pins(self) -> None:
        """Gate the rows that pins stamp: nobody races them, and a full mint leaves nothing ungated."""
        pinned = {one.family.name: one for one in self._generated.plan.families if one.family.pin}
        stamps = self._generated.stamps[self._app.name].seats
        cells = {(one.family, one.suffix) for one in stamps if one.family in pinned}
        cells -= {cell for cell in cells if cell[1] == REFERENCE}
        if not cells:
            return
        with self.worker() as running:
            for name, suffix in sorted(cells):
                report = judge.judge(self._generated, pinned[name], running, only=suffix)
                flows.judge_remembered(self._generated, report)
                for fault in report.rejected:
                    self._progress.note(f"{name}: the pinned row {suffix} is rejected: {fault.why}")

    def worker(self) -> Worker:
        return flows.open_worker(self._generated, self._core)

    def _live(
        self,
        running: Worker,
        of: Subject,
        rows: tuple[str, ...],
        measure: Measure,
        looks: bench.Looks,
        strict: bool = False,
    ) -> bench.LiveBench:
        return bench.LiveBench(
            running, of, rows, measure, cache_bytes=self._cache_bytes, looks=looks, strict=strict
        )

    def _recorded(self, live: bench.LiveBench, name: str) -> Bench:
        return drive.Recording(live, self._record, name) if self._record else live

    # --- noise

    def probe(self, running: Worker, tag: str) -> None:
        """Read the noise; over the ceiling the mint is refused, unless it is overridden."""
        unfiltered = replace(self._measure, min_cpu_share=0.0)  # the probe counts every window
        rows = (REFERENCE, "copy")
        asking = noise.probe(tag, self._measure, self._threshold, self._seed, self._step_ns, self._settling)
        live = self._live(running, probe_subject(), rows, unfiltered, bench.Looks.NONE)
        reading = drive.drive(self._recorded(live, f"probe {tag}"), asking)
        self.readings.append(reading)
        self._progress.detail(f"noise: {reading}")
        self.word = noise.judge(self.readings, self._measure, self._threshold, self._override)
        if self.word == "refused":
            self._progress.abort("noise", tag)
            raise TooLoud(
                f"this box is too loud to measure on: the probe's cv is {reading.used_pct:.1f} %, the ceiling "
                f"{noise.ceiling_pct(self._measure, self._threshold):.0f} %",
                fix="nothing was written; stop what else runs (tunebuild doctor) and mint again; "
                "TUNEBUILD_NOISE_OVERRIDE=1 mints anyway",
            )

    @property
    def bar(self) -> Bar:
        return noise.bar(self.readings, self._measure)

    def stop_if_asked(self, at: str) -> None:
        control = self._environ.get("TUNEBUILD_CONTROL", "")
        if control and os.path.exists(control):
            self._progress.abort("control", at)
            raise Refused(f"the control file {control} asks to stop before {at}; nothing was written")

    def _settling(self, raw_pct: float) -> None:
        if self._measure.settle_s >= 1:
            self._progress.note(
                f"the box is loud (cv {raw_pct:.1f} %): keeping it hot for {self._measure.settle_s:g} s, "
                "then looking once more"
            )

    # --- races

    def race_family(self, running: Worker, planned: PlannedFamily, report: judge.FamilyReport) -> list[Raced]:
        """The seats of one family, then its companions with a seat of their own."""
        family = planned.family
        own = judge.subject(planned.functions[0])
        raced: list[Raced] = []
        for seat, workloads in zip(family.seats, seats.workloads_by_seat(family), strict=True):
            heat = self._heat(planned, report, seat.key, workloads, apart=len(family.seats) > 1)
            heat = _without_rejected(heat, [one.outcome for one in raced])
            subject = replace(own, workloads=workloads)
            outcome = self._race(running, heat, subject)
            raced.append(Raced(seat.key, family.name, outcome, subject, outcome.winner_suffix))
        if len(raced) > 1:
            outcomes = seats.combine([one.outcome for one in raced], self._measure)
            raced = [replace(one, outcome=outcome) for one, outcome in zip(raced, outcomes, strict=True)]
        for function in planned.functions[1:]:
            if function.companion is not None and function.companion.own_seat:
                raced.append(self._race_companion(running, planned, function, report, raced[0].outcome))
        return raced

    def _race_companion(
        self,
        running: Worker,
        planned: PlannedFamily,
        function: PlannedFunction,
        report: judge.FamilyReport,
        seat: Outcome,
    ) -> Raced:
        """A companion races among the rows of the layout that its family's seat chose."""
        subject = judge.subject(function)
        family = planned.family
        layout = resolve.layout_of(family, seat.winner_suffix or REFERENCE)
        fitting = frozenset(
            suffix for suffix in (*report.passed, REFERENCE) if resolve.layout_of(family, suffix) == layout
        )
        heat = self._heat(
            planned,
            report,
            function.name,
            subject.workloads,
            apart=False,
            among=fitting,
            first=seat.winner_suffix,
        )
        outcome = self._race(running, heat, subject)
        return Raced(function.name, family.name, outcome, subject, outcome.winner_suffix)

    def _heat(
        self,
        planned: PlannedFamily,
        report: judge.FamilyReport,
        key: str,
        workloads: tuple[Workload, ...],
        *,
        apart: bool,
        among: frozenset[str] | None = None,
        first: str = "",
    ) -> Heat:
        """Rows in grid order, equal code once, the reference last; the chain's rows are the controls."""
        family = planned.family
        same = report.same or {}
        kept = [s for s in report.passed if same.get(s, s) == s and (among is None or s in among)]
        if among is None or REFERENCE in among:
            kept.append(REFERENCE)
        rows = tuple(kept)
        chain = ([same.get(first, first)] if first else []) + [same.get(s, s) for s in self._chain(family)]
        controls = tuple(dict.fromkeys(rows.index(s) for s in chain if s in rows)) or (len(rows) - 1,)
        incumbent = same.get(previous := self._previous(key), previous)
        layouts = [resolve.layout_of(family, suffix) for suffix in rows]
        order = list(dict.fromkeys(layouts))
        return Heat(
            key=key,
            rows=rows,
            controls=controls,
            incumbent=rows.index(incumbent) if incumbent in rows else None,
            workloads=tuple((w.name, w.weight) for w in workloads) or (("", 1.0),),
            layouts=tuple(order.index(layout) for layout in layouts),
            apart=apart and len(order) > 1,
            seed=self._seed,
            clock_step_ns=self._step_ns,
        )

    def _chain(self, family: Family) -> list[str]:
        """Every row that the fallback chain could serve here, best first, the reference at last."""
        here = resolve.Here(
            self._generated.box.features, self._generated.ineligible, self._generated.declined
        )
        found = [
            entry.suffix
            for entry in family.fallback
            if features.requires_ok(entry.requires, here.have)
            and not resolve.why_not(family, entry.suffix, here)
        ]
        return [*found, *([resolve.LAST_RESORT] if family.hints else []), REFERENCE]

    def _previous(self, key: str) -> str:
        """The seat's last winner, even of a stale file: it still names the incumbent."""
        found = self._generated.records[self._app.name].found
        return found.kernels.get(key, "") if isinstance(found, Document) else ""

    def _race(self, running: Worker, heat: Heat, subject: Subject) -> Outcome:
        started = time.monotonic()
        self._progress.begin(heat.key, self._measure.max_rounds)
        verdict, winner = "skipped", ""
        try:
            outcome = self._race_sound(running, heat, subject)
            winner, verdict = outcome.winner_suffix, word(outcome)
            self.told[heat.key] = winner
        finally:
            self._progress.end(heat.key, winner, verdict, round(1000 * (time.monotonic() - started)))
        return outcome

    def _race_sound(self, running: Worker, heat: Heat, subject: Subject) -> Outcome:
        """Race until nobody was found wrong after timed calls, and the winner also is right on data it has not seen.

        A race that met an unsound row counts for nothing: its times made others leave. Only the last is recorded.
        """
        unsound: list[Rejected] = []
        while True:
            live = self._live(running, subject, heat.rows, self._measure, bench.Looks.ALTER, strict=True)
            tape = io.StringIO()
            if self._record:
                drive.declare(tape, heat, self._measure, self.bar)
            recorded = drive.Recording(live, tape, heat.key) if self._record else live
            try:
                outcome = drive.race_heat(recorded, heat, self._measure, self.bar, self._on_step)
                self._recheck(live, outcome)
            except bench.Unsound as found:
                unsound.append(found.fault)
                heat = without(heat, heat.rows.index(found.fault.suffix))
                continue
            if self._record:
                self._record.write(tape.getvalue())
            return replace(outcome, rejected=(*unsound, *map(live.replayed, outcome.rejected)))

    def _recheck(self, live: bench.LiveBench, outcome: Outcome) -> None:
        """:raises bench.Unsound: for a winner that is wrong, or fast at data that it has met alone."""
        if outcome.winner < 0 or outcome.winner_suffix == REFERENCE:
            return
        gains = outcome.rows[outcome.winner].gains_pct
        for each in range(len(outcome.heat.workloads)):
            won = outcome.winner != outcome.control and gains[each] >= self.bar.pct
            rival = outcome.control if won else None
            if fault := live.recheck(each, outcome.winner, self._seed, rival, gains[each] if won else 0.0):
                raise bench.Unsound(fault)

    def _on_step(self, step: Step) -> None:
        self._progress.step(step.number, step.phase, step.live)

    # --- after the races

    def validate_all(self, raced: list[Raced]) -> tuple[list[Raced], dict[str, validate.Validation]]:
        """Each winner against the fallback once more, in a process that never saw its race."""
        settled: list[Raced] = []
        validations: dict[str, validate.Validation] = {}
        for one in raced:
            outcome = one.outcome
            if outcome.winner >= 0 and outcome.winner != outcome.control:
                with self.worker() as running:
                    live = self._live(
                        running, one.subject, outcome.heat.rows, self._measure, bench.Looks.SAME
                    )
                    live.renew(self._seed)  # other addresses than the race's
                    asking = validate.validate(outcome, self._measure, self.bar, self._seed ^ 0x5EED)
                    found = drive.drive(self._recorded(live, f"validate {one.key}"), asking)
                    if found.kept and outcome.winner_suffix != one.sound:
                        found = self._last_look(live, outcome, found)
                validations[one.key] = found
                outcome = validate.settle(outcome, found)
                if not found.kept:
                    self._progress.note(f"{one.key}: {one.outcome.winner_suffix} is demoted: {found.why}")
            settled.append(replace(one, outcome=outcome))
        return settled, validations

    def _last_look(
        self, live: bench.LiveBench, outcome: Outcome, found: validate.Validation
    ) -> validate.Validation:
        """The look that a winner has after its race, for one that its family's other seats have made one."""
        try:
            self._recheck(live, outcome)
        except bench.Unsound as unsound:
            return replace(found, kept=False, why=unsound.fault.why)
        return found

    def close(self, raced: list[Raced]) -> list[Raced]:
        """The closing floor may demote; seats of one family that then disagree on a layout fall together, and a
        companion whose layout they left goes with them."""
        floor = noise.floor_pct(self.readings, self._measure)
        outcomes = race.closed([one.outcome for one in raced], self._measure, floor)
        closed = [replace(one, outcome=outcome) for one, outcome in zip(raced, outcomes, strict=True)]
        settled: list[Raced] = []
        for name in dict.fromkeys(one.family for one in closed):
            settled += self._together(name, [one for one in closed if one.family == name])
        return settled

    def _together(self, name: str, group: list[Raced]) -> list[Raced]:
        """One family's seats, then its companions, all in one layout."""
        family = self._generated.plan.family(name).family
        keys = {seat.key for seat in family.seats}
        mine = [one for one in group if one.key in keys]
        companions = [one for one in group if one.key not in keys]
        outcomes, following = seats.together(
            [one.outcome for one in mine],
            [one.outcome for one in companions],
            lambda suffix: resolve.layout_of(family, suffix),
        )
        return [
            replace(one, outcome=outcome)
            for one, outcome in zip([*mine, *companions], [*outcomes, *following], strict=True)
        ]


def _without_rejected(heat: Heat, before: Iterable[Outcome]) -> Heat:
    """The heat without rows that failed in the race of another seat of the family; the reference stays."""
    for suffix in dict.fromkeys(one.suffix for outcome in before for one in outcome.rejected):
        if suffix in heat.rows and suffix != REFERENCE:
            heat = without(heat, heat.rows.index(suffix))
    return heat


def without(heat: Heat, row: int) -> Heat:
    """The heat without one of its rows."""

    def moved(index: int) -> int:
        return index - (index > row)

    return replace(
        heat,
        rows=tuple(suffix for index, suffix in enumerate(heat.rows) if index != row),
        controls=tuple(moved(index) for index in heat.controls if index != row),
        incumbent=None if heat.incumbent in (None, row) else moved(heat.incumbent),
        layouts=tuple(layout for index, layout in enumerate(heat.layouts) if index != row),
    )


def probe_subject() -> Subject:
    """The probe's kernel as something the live bench can time: two rows of one driver."""
    arguments = (
        Argument("a", "in", "f32", "n", parameter=0),
        Argument("b", "in", "f32", "n", parameter=1),
        Argument("n", "scalar", "u64", parameter=2),
    )
    workload = Workload("probe", (("n", PROBE_ELEMENTS),))
    return Subject(
        "tb_probe", "tb_probe", arguments, Check(sizes=(workload.scalars,)), (workload,), (Row("copy", ()),)
    )

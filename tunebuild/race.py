"""The race of one seat: asks for windows, gets samples, names a winner only where there is one.

`race` is a generator and nothing else: it yields `MicroRound`s, is sent what a bench measured, and returns
an `Outcome`. It knows no clock, no file and no process; one seed and one stream of samples give one outcome.
Between them it yields a `Step` for the display, which wants no answer.

Why it is built so: within a micro-round every row meets the same weather, so only differences inside a
micro-round are believed. A row leaves as soon as the differences say that it cannot win, because most
races have no winner and their cost is how fast that is seen. A winner must clear the bar itself before
ties are broken, and ties are broken by the incumbent, then by grid order, so that a second race agrees.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from tunebuild.heat import Bar, Heat, HeldBy, Outcome, Race, RowResult, Step
from tunebuild.measure import Measure
from tunebuild.stats import Fit, median, sign_interval, two_way
from tunebuild.windows import Track, lap, passes, size_up


def race(heat: Heat, measure: Measure, bar: Bar) -> Race:
    """Race one heat. Send each `MicroRound`'s `Measured`; the generator returns the `Outcome`."""
    track = Track(heat, measure, random.Random(heat.seed), live=set(range(len(heat.rows))))
    yield from size_up(track)
    number = 0
    standing: Standing | None = None
    decided = False
    while len(track.live) > 1 and number < measure.max_rounds and not decided:
        number += 1
        phase: Literal["screening", "finalists"] = "screening" if len(track.live) > 9 else "finalists"
        yield Step(number, measure.max_rounds, phase, len(track.live))
        yield from lap(track, passes(track, number))
        if len(track.live) < 2:
            break
        if not all(track.blocks):  # no window of some workload counted: try again
            continue
        standing = stand(track, standing)
        _leave(track, standing, to_log(bar.pct), number)
        decided = _is_decided(track, standing, to_log(bar.pct)) or not _afford(track, standing, number)
    return _seat(track, standing, bar, number)


# --- the estimate --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Standing:
    """Where the rows stand after a round: log gains over the control, weighed over the workloads."""

    control: int
    fits: tuple[Fit, ...]
    weights: tuple[float, ...]  # sum 1
    gains: dict[int, float]  # rows with enough paired windows only

    def error(self, one: int, other: int) -> float:
        """Standard error of the difference of two rows."""
        return math.sqrt(
            sum((w * fit.error(one, other)) ** 2 for w, fit in zip(self.weights, self.fits, strict=True))
        )


def stand(track: Track, before: Standing | None = None) -> Standing:
    """Fit each workload, from where the last round left it, and compare every row with the control."""
    m, control = track.measure, track.control
    fits = tuple(
        _fit(track, blocks, before.fits[index] if before is not None else None)
        for index, blocks in enumerate(track.blocks)
    )
    total = math.fsum(weight for _, weight in track.heat.workloads)
    weights = tuple(weight / total for _, weight in track.heat.workloads)
    known = [
        row
        for row in sorted(track.live)
        if all(fit.windows.get(row, 0) >= m.min_pairs and control in fit.windows for fit in fits)
    ]
    gains = {
        row: sum(w * (fit.effects[control] - fit.effects[row]) for w, fit in zip(weights, fits, strict=True))
        for row in known
    }
    return Standing(control, fits, weights, gains)


def _fit(track: Track, blocks: list[list[tuple[int, float]]], before: Fit | None) -> Fit:
    """Fit one workload. In a very large grid rows that left keep their last estimate, and cost no more."""
    m = track.measure
    small = before is None or len(track.heat.rows) <= m.usual_rows
    if not small:
        racing = [[(row, y) for row, y in block if row in track.live] for block in blocks]
        blocks = [block for block in racing if len(block) > 1]
    fit = two_way(
        blocks,
        huber_k=m.huber_k,
        floor=m.scale_floor_pct / 100,
        fine=m.block_slices,
        start=before.effects if before is not None else None,
    )
    if small or before is None:
        return fit
    return Fit(
        before.effects | fit.effects, before.windows | fit.windows, before.counts | fit.counts, fit.spread
    )


def to_log(pct: float) -> float:
    """``pct`` percent less time as a difference of log times."""
    return -math.log1p(-pct / 100)


def to_pct(gain: float) -> float:
    """A difference of log times as percent less time."""
    return -100 * math.expm1(-gain)


# --- leaving, stopping, the budget ---------------------------------------------------------------


def _leave(track: Track, standing: Standing, bar: float, number: int) -> None:
    """First those who are out by themselves, then those whom the best of the others leaves behind."""
    racing = [row for row in standing.gains if row != standing.control]
    leaders = _leaders(track.heat, standing, racing)
    for row in racing:
        if why := _why_out(track, standing, row, row in leaders.values(), bar):
            track.leave(row, number, why)
    racing = [row for row in racing if row in track.live]
    leaders = _leaders(track.heat, standing, racing)
    for row in racing:
        if _is_behind(track, standing, row, leaders[_group(track.heat, row)], bar):
            track.leave(row, number, "outside the leader's band")


def _group(heat: Heat, row: int) -> int:
    return heat.layouts[row] if heat.apart and heat.layouts else 0


def _leaders(heat: Heat, standing: Standing, racing: Iterable[int]) -> dict[int, int]:
    leaders: dict[int, int] = {}
    for row in racing:
        group = _group(heat, row)
        if group not in leaders or standing.gains[row] > standing.gains[leaders[group]]:
            leaders[group] = row
    return leaders


def _why_out(track: Track, standing: Standing, row: int, leads: bool, bar: float) -> str:
    m, gain = track.measure, standing.gains[row]
    if gain < to_log(-m.far_pct):
        return f"slower than the fallback by over {m.far_pct:g} %"
    slack = m.leave_z * standing.error(row, standing.control)
    if gain + slack < bar and not (track.heat.apart and leads):
        return "cannot reach the bar"
    name = _loses_on(track.heat, standing, row, bar, m.leave_z)
    return "" if name is None else f"loses on workload {name}"


def _loses_on(heat: Heat, standing: Standing, row: int, bar: float, z: float) -> str | None:
    """The first workload on which ``row`` loses to the control by more than the bar, by ``z`` errors."""
    for (name, _), fit in zip(heat.workloads, standing.fits, strict=True):
        lost = fit.effects[row] - fit.effects[standing.control]
        if lost - z * fit.error(row, standing.control) > bar:
            return name
    return None


def _is_behind(track: Track, standing: Standing, row: int, leader: int, bar: float) -> bool:
    m = track.measure
    band = keep_band(m, bar) if row == track.heat.incumbent else to_log(m.take_band_pct)
    behind = standing.gains[leader] - standing.gains[row]
    return row != leader and behind - m.leave_z * standing.error(row, leader) > band


def keep_band(measure: Measure, bar: float) -> float:
    return to_log(measure.keep_band_pct) if measure.keep_band_pct > 0 else bar


def _is_decided(track: Track, standing: Standing, bar: float) -> bool:
    racing = [row for row in standing.gains if row in track.live and row != standing.control]
    if not racing:
        return not (track.live - {standing.control})
    if track.heat.apart:  # every layout's best must be known, since all seats choose together
        fine = to_log(track.measure.take_band_pct) / 2
        leaders = _leaders(track.heat, standing, racing).values()
        return all(standing.error(row, standing.control) <= fine for row in leaders)
    leader = max(racing, key=lambda row: standing.gains[row])
    sure = standing.gains[leader] - _seat_z(track) * standing.error(leader, standing.control) > bar
    sitting, clear = track.heat.incumbent, clearing(track, standing, bar)
    if sitting in racing:
        return sure and sitting in clear
    return sure and _tie_is_known(track, standing, clear, leader)


def _seat_z(track: Track) -> float:
    """The best of many rows is lucky: past twenty rows the leader must be as sure as if there were twenty."""
    return math.sqrt(track.measure.seat_z**2 + 2 * math.log(max(len(track.heat.rows) / 20, 1.0)))


def _tie_is_known(track: Track, standing: Standing, clear: Iterable[int], leader: int) -> bool:
    """Can rows in the band be told from rows outside? Worth some of the budget, not all of it."""
    if track.spent_ns > track.measure.tie_share * budget_ns(track):
        return True
    sharp = to_log(track.measure.take_band_pct)
    return all(track.measure.tie_z * standing.error(row, leader) <= sharp for row in clear if row != leader)


def _afford(track: Track, standing: Standing, number: int) -> bool:
    """Keep the next round within its share of the budget: halve the field while it is too large."""
    while True:
        rest = budget_ns(track) - track.spent_ns
        racing = [row for row in track.live if row != standing.control]
        cost = passes(track, number + 1) * sum(
            track.cost_ns[workload, row]
            for workload in range(len(track.heat.workloads))
            for row in track.live
        )
        halvings = math.log2(max(len(racing), 1)) + 1
        if cost <= rest / halvings:
            return True
        best_first = sorted(racing, key=lambda row: (-standing.gains.get(row, 0.0), row))
        going = [row for row in best_first[(len(racing) + 1) // 2 :] if row != track.heat.incumbent]
        if not going:
            return cost <= rest
        for row in going:
            track.leave(row, number, "the slower half, to stay within the budget")


def budget_ns(track: Track) -> float:
    """What the race may spend; where one call outlasts a window, doses count windows instead of time.

    With n workloads the root of n times as much: their mean is then known as well as one workload alone is.
    """
    m = track.measure
    doses = m.budget_doses + m.budget_doses_per_row * len(track.heat.rows)
    doses *= math.sqrt(len(track.heat.workloads))
    longest = max((track.cost_ns[w, track.control] for w in range(len(track.heat.workloads))), default=0.0)
    return doses * m.dose_ms * 1e6 * max(longest / (m.slice_ms * 1e6), 1.0)


# --- the seat ------------------------------------------------------------------------------------


def _seat(track: Track, standing: Standing | None, bar: Bar, number: int) -> Outcome:
    control = track.control
    if control < 0:
        return _outcome(track, standing, -1, "rejected", 0.0, bar, (), number)
    if standing is None or standing.control != control or track.live == {control}:
        alone = standing is None and len(track.heat.rows) == 1 + len(track.rejected)
        return _outcome(track, standing, control, "only" if alone else "fallback", 0.0, bar, (), number)
    clear = clearing(track, standing, to_log(bar.pct))
    if not clear:
        near = any(standing.gains.get(row, -1.0) >= to_log(bar.pct) for row in track.live - {control})
        return _outcome(track, standing, control, "undecided" if near else "fallback", 0.0, bar, (), number)
    best = max(clear, key=lambda row: standing.gains[row])
    band = to_log(track.measure.take_band_pct)
    tie = tuple(row for row in clear if standing.gains[best] - standing.gains[row] <= band)
    winner, held_by = _break_tie(track, standing, clear, tie, best)
    return _outcome(track, standing, winner, held_by, to_pct(standing.gains[winner]), bar, tie, number)


def clearing(track: Track, standing: Standing, bar: float) -> list[int]:
    """Live rows that clear the bar themselves, and are surely faster than the control at all.

    The second asks nothing of a race in common noise; in loud noise it is what holds identical rows back.
    """
    return [
        row
        for row in sorted(track.live - {standing.control})
        if row in standing.gains
        and standing.gains[row] - _late_z(track, row) * standing.error(row, standing.control) > bar
        and standing.gains[row] > track.measure.faster_z * standing.error(row, standing.control)
        and _loses_on(track.heat, standing, row, bar, 0.0) is None
    ]


def _late_z(track: Track, row: int) -> float:
    """Narrow to take, wide to keep: whoever sits asks less of itself and more of the others."""
    m, incumbent = track.measure, track.heat.incumbent
    if row == incumbent:
        return m.keep_z
    return m.unseat_z if incumbent == track.control else m.late_z


def _break_tie(
    track: Track, standing: Standing, clear: list[int], tie: tuple[int, ...], best: int
) -> tuple[int, HeldBy]:
    """An incumbent that clears the bar and was not shown to be outside its wide band keeps the seat."""
    incumbent = track.heat.incumbent
    if incumbent is not None and incumbent in clear:
        return incumbent, "incumbent"
    return tie[0], "margin" if tie[0] == best else "tie"


def _outcome(
    track: Track,
    standing: Standing | None,
    winner: int,
    held_by: HeldBy,
    margin_pct: float,
    bar: Bar,
    tie: tuple[int, ...],
    number: int,
) -> Outcome:
    clear = clearing(track, standing, to_log(bar.pct)) if standing is not None and winner >= 0 else []
    seen = [[_by_row(block) for block in blocks] for blocks in track.blocks]
    rows = tuple(_row_result(track, standing, seen, row, row in clear) for row in range(len(track.heat.rows)))
    rejected = tuple(track.rejected[row] for row in sorted(track.rejected))
    return Outcome(
        heat=track.heat,
        winner=winner,
        held_by=held_by,
        margin_pct=margin_pct,
        bar=bar,
        control=track.control,
        tie=tie,
        rows=rows,
        rejected=rejected,
        rounds=number,
        doses=track.doses,
        placements=track.placed,
    )


Seen = list[list[dict[int, list[float]]]]  # per workload, per micro-round: log times by row


def _by_row(block: list[tuple[int, float]]) -> dict[int, list[float]]:
    times: dict[int, list[float]] = {}
    for row, y in block:
        times.setdefault(row, []).append(y)
    return times


def _row_result(track: Track, standing: Standing | None, seen: Seen, row: int, clears: bool) -> RowResult:
    heat, control = track.heat, track.control
    own = [[y for block in blocks if row in block for y in block[row]] for blocks in seen]
    left_round, left_why = track.left.get(row, (0, ""))
    result = RowResult(
        suffix=heat.rows[row],
        slices=sum(map(len, own)),
        med_ns=tuple(math.exp(median(ys)) if ys else 0.0 for ys in own),
        best_ns=tuple(math.exp(min(ys)) if ys else 0.0 for ys in own),
        gain_pct=0.0,
        error_pct=0.0,
        interval_pct=None,
        left_round=left_round,
        left_why=left_why,
        layout=heat.layouts[row] if heat.layouts else 0,
    )
    if standing is None or standing.control != control:
        return result
    if any(r not in fit.effects for fit in standing.fits for r in (row, control)):
        return result
    gains = [fit.effects[control] - fit.effects[row] for fit in standing.fits]
    gain = sum(w * g for w, g in zip(standing.weights, gains, strict=True))
    error = 0.0 if row == control else 100 * standing.error(row, control)
    interval = None if row == control else sign_interval(_paired(seen, row, control, standing.weights))
    if interval is not None:  # of the pairs alone; the estimate is of all windows, and may lie beside it
        interval = min(interval[0], gain), max(interval[1], gain)
    return replace(
        result,
        gain_pct=to_pct(gain),
        error_pct=error,
        interval_pct=None if interval is None else (to_pct(interval[0]), to_pct(interval[1])),
        gains_pct=tuple(to_pct(g) for g in gains),
        clears=clears,
    )


def _paired(seen: Seen, row: int, control: int, weights: tuple[float, ...]) -> list[float]:
    """Log gains of ``row`` over the control, one for every micro-round (of each workload) that has both."""
    series = [
        [_mean(block[control]) - _mean(block[row]) for block in blocks if row in block and control in block]
        for blocks in seen
    ]
    together = zip(*series, strict=False)
    return [sum(w * gain for w, gain in zip(weights, gains, strict=True)) for gains in together]


def _mean(values: list[float]) -> float:
    return values[0] if len(values) == 1 else math.fsum(values) / len(values)


# --- after the race ------------------------------------------------------------------------------


def demoted(outcome: Outcome, held_by: HeldBy = "demoted") -> Outcome:
    """The seat back at the fallback, margin 0, the lost suffix by name."""
    if outcome.winner == outcome.control:
        return outcome
    lost = outcome.winner_suffix
    return replace(outcome, winner=outcome.control, held_by=held_by, margin_pct=0.0, demoted=lost)


def closed(outcomes: Iterable[Outcome], measure: Measure, floor_pct: float) -> tuple[Outcome, ...]:
    """After the closing probe: a floor over the margin demotes every winner whose margin is under it."""
    return tuple(
        demoted(outcome) if floor_pct > measure.margin_pct and outcome.margin_pct < floor_pct else outcome
        for outcome in outcomes
    )

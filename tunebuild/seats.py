"""Several seats of one family: which workloads decide each, and one layout for all of them. Pure.

Rows of different packed layouts cannot serve one family side by side, since all seats read what one `prepare`
packed. So the layout is picked first, by the weighted mean of each layout's best row over the seats, and the
seats inside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tunebuild import expressions
from tunebuild.heat import Outcome, RowResult
from tunebuild.measure import Measure
from tunebuild.model import REFERENCE, Family, Workload
from tunebuild.resolve import Layout


def workloads_by_seat(family: Family) -> tuple[tuple[Workload, ...], ...]:
    """The workloads that reach each seat: those its condition takes and no earlier seat took."""
    left = list(family.workloads)
    shares: list[tuple[Workload, ...]] = []
    for seat in family.seats:
        condition = expressions.parse(seat.when) if seat.when else None
        mine = tuple(
            workload
            for workload in left
            if condition is None or expressions.evaluate(condition, dict(workload.scalars))
        )
        left = [workload for workload in left if workload not in mine]
        shares.append(mine)
    return tuple(shares)


def combine(outcomes: Sequence[Outcome], measure: Measure) -> tuple[Outcome, ...]:
    """The seats' outcomes with their winners in one layout. All heats have the same rows in the same order.

    A layout other than the fallback's must beat the fallback by the bar in the weighted mean over the seats;
    inside it every seat takes its best row, even one that alone would not clear the bar. The layout that all
    incumbents share is kept while it is within the bar of the best, as an incumbent row is.
    """
    if any(outcome.winner < 0 for outcome in outcomes):
        return tuple(outcomes)
    homes = {outcome.heat.layouts[outcome.control] for outcome in outcomes}
    home = min(homes)
    worth = {
        layout: value
        for layout in sorted({each for outcome in outcomes for each in outcome.heat.layouts})
        if len(homes) == 1 and (value := _worth(outcomes, layout, layout == home)) is not None
    }
    bar = max(outcome.bar.pct for outcome in outcomes)
    able = {layout: value for layout, value in worth.items() if layout == home or value >= bar}
    layout = _chosen(able, _sitting(outcomes), measure, bar) if able else home
    return tuple(_inside(outcome, layout, layout in homes, measure) for outcome in outcomes)


def _worth(outcomes: Sequence[Outcome], layout: int, at_home: bool) -> float | None:
    """The weighted mean gain of the seats' best rows of ``layout``; one
    without such a row keeps its fallback at home, and cannot live elsewhere."""
    weights = [sum(weight for _, weight in outcome.heat.workloads) for outcome in outcomes]
    best = [
        max((row.gain_pct for row in _raced(outcome, layout) if row.clears or not at_home), default=None)
        for outcome in outcomes
    ]
    gains = [0.0 if gain is None and at_home else gain for gain in best]
    if any(gain is None for gain in gains):
        return None
    return sum(w * gain for w, gain in zip(weights, gains, strict=True) if gain is not None) / sum(weights)


def _sitting(outcomes: Sequence[Outcome]) -> int | None:
    """The layout of every seat's incumbent, if they have one and agree."""
    sitting = {
        None if (row := outcome.heat.incumbent) is None else outcome.heat.layouts[row] for outcome in outcomes
    }
    return sitting.pop() if len(sitting) == 1 else None


def _chosen(worth: Mapping[int, float], sitting: int | None, measure: Measure, bar_pct: float) -> int:
    """Narrow to take, wide to keep, as with rows: the order of layouts is that of the grid."""
    best = max(worth.values())
    if sitting is not None and sitting in worth and worth[sitting] >= best - _keep_band_pct(measure, bar_pct):
        return sitting
    return next(layout for layout, value in worth.items() if value >= best - measure.take_band_pct)


def _keep_band_pct(measure: Measure, bar_pct: float) -> float:
    return measure.keep_band_pct or bar_pct


def _raced(outcome: Outcome, layout: int) -> list[RowResult]:
    return [row for row in outcome.rows if row.layout == layout and row.slices > 0]


def _inside(outcome: Outcome, layout: int, at_home: bool, measure: Measure) -> Outcome:
    """One seat's winner among the rows of the chosen layout."""
    if outcome.heat.layouts[outcome.winner] == layout and at_home:
        return outcome
    rows = _raced(outcome, layout)
    if at_home:
        rows = [row for row in rows if row.clears]
        if not rows:
            return replace(outcome, winner=outcome.control, held_by="fallback", margin_pct=0.0)
    best = max(row.gain_pct for row in rows)
    tied = [row for row in rows if row.gain_pct >= best - measure.take_band_pct]
    chosen = held = _held(outcome, rows, best - _keep_band_pct(measure, outcome.bar.pct))
    if chosen is None:
        chosen = tied[0]
    return replace(
        outcome,
        winner=outcome.heat.rows.index(chosen.suffix),
        held_by="incumbent" if held else "margin" if chosen.gain_pct == best else "tie",
        margin_pct=max(chosen.gain_pct, 0.0),
        tie=tuple(outcome.heat.rows.index(row.suffix) for row in tied),
    )


def _held(outcome: Outcome, rows: Sequence[RowResult], least_pct: float) -> RowResult | None:
    """The incumbent, if it is among ``rows`` and gains ``least_pct`` at least."""
    sitting = None if outcome.heat.incumbent is None else outcome.heat.rows[outcome.heat.incumbent]
    return next((row for row in rows if row.suffix == sitting and row.gain_pct >= least_pct), None)


def together(
    outcomes: Sequence[Outcome], companions: Sequence[Outcome], layout_of: Callable[[str], Layout]
) -> tuple[tuple[Outcome, ...], tuple[Outcome, ...]]:
    """After demotions: a family's seats in one layout, and the companions that raced for themselves in the same.

    A companion without a winner has none to lose, and stays reported as empty.
    """
    seats = agree(outcomes) if all(outcome.heat.apart for outcome in outcomes) else tuple(outcomes)
    serving = seats[0].winner_suffix or REFERENCE

    def strays(companion: Outcome) -> bool:
        won = companion.winner_suffix
        return bool(won) and layout_of(won) != layout_of(serving)

    return seats, tuple(follow(each, serving) if strays(each) else each for each in companions)


def agree(outcomes: Sequence[Outcome]) -> tuple[Outcome, ...]:
    """After demotions: seats whose layouts no longer agree all fall back to their controls."""
    layouts = {outcome.heat.layouts[outcome.winner] for outcome in outcomes if outcome.winner >= 0}
    if len(layouts) <= 1:
        return tuple(outcomes)
    return tuple(
        outcome
        if outcome.winner == outcome.control
        else replace(
            outcome, winner=outcome.control, held_by="demoted", margin_pct=0.0, demoted=outcome.winner_suffix
        )
        for outcome in outcomes
    )


def follow(companion: Outcome, serving: str) -> Outcome:
    """A companion whose family went back to another layout: its own winner is lost, and it serves the family's
    row, which was not in its race."""
    heat = companion.heat
    moved = replace(
        heat, rows=(*heat.rows, serving), layouts=(*heat.layouts, max(heat.layouts, default=0) + 1)
    )
    return replace(
        companion,
        heat=moved,
        winner=len(heat.rows),
        held_by="demoted",
        margin_pct=0.0,
        demoted=companion.winner_suffix,
    )

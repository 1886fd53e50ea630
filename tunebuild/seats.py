"""Several seats of one family: which workloads decide each, and one layout for all of them. Pure.

Rows of different packed layouts cannot serve one family side by side, since all seats read what one `prepare`
packed. So the layout is picked first, by the weighted mean of each layout's best row over the seats, and the
seats inside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tunebuild import expressions
from tunebuild.heat import Outcome, RowResult
from tunebuild.measure import Measure
from tunebuild.model import Family, Workload


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
    inside it every seat takes its best row, even one that alone would not clear the bar.
    """
    if any(outcome.winner < 0 for outcome in outcomes):
        return tuple(outcomes)
    home = {outcome.heat.layouts[outcome.control] for outcome in outcomes}
    weights = [sum(weight for _, weight in outcome.heat.workloads) for outcome in outcomes]
    scored: list[tuple[float, int]] = []
    for layout in sorted({each for outcome in outcomes for each in outcome.heat.layouts}):
        best = [_best(outcome, layout) for outcome in outcomes]
        if all(row is not None for row in best):
            gains = [row.gain_pct for row in best if row is not None]
            scored.append((sum(w * g for w, g in zip(weights, gains, strict=True)) / sum(weights), layout))
    gain, layout = max(scored, default=(0.0, -1), key=lambda pair: (pair[0], -pair[1]))
    if len(home) > 1 or layout < 0 or (layout not in home and gain < outcomes[0].bar.pct):
        layout = next(iter(sorted(home)))
    return tuple(_inside(outcome, layout, layout in home, measure) for outcome in outcomes)


def _raced(outcome: Outcome, layout: int) -> list[RowResult]:
    return [row for row in outcome.rows if row.layout == layout and row.slices > 0]


def _best(outcome: Outcome, layout: int) -> RowResult | None:
    return max(_raced(outcome, layout), key=lambda row: row.gain_pct, default=None)


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
    incumbent = outcome.heat.incumbent
    held = next(
        (row for row in tied if incumbent is not None and row.suffix == outcome.heat.rows[incumbent]), None
    )
    chosen = held or tied[0]
    return replace(
        outcome,
        winner=outcome.heat.rows.index(chosen.suffix),
        held_by="incumbent" if held else "margin",
        margin_pct=max(chosen.gain_pct, 0.0),
        tie=tuple(outcome.heat.rows.index(row.suffix) for row in tied),
    )


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

"""A race's outcome as the sidecar's `race` table: everything that `why` needs, workload by workload. Pure."""

from __future__ import annotations

from tunebuild.document import Json
from tunebuild.heat import Outcome, RowResult
from tunebuild.model import Rejected
from tunebuild.validate import Validation


def table(outcome: Outcome, validation: Validation | None, seed: int) -> dict[str, Json]:
    """Times in microseconds a call, gains and intervals in percent over the control."""
    heat = outcome.heat
    found: dict[str, Json] = {
        "winner": outcome.winner_suffix or "reference",
        "fallback": outcome.control_suffix,
        "floor_pct": round(outcome.bar.pct, 3),
        "bar_source": outcome.bar.source,
        "margin_pct": round(outcome.margin_pct, 3),
        "held_by": outcome.held_by,
        "tie": [heat.rows[row] for row in outcome.tie],
        "rounds": outcome.rounds,
        "doses": round(outcome.doses, 2),
        "placements": outcome.placements,
        "seed": seed,
        "workloads": [name for name, _ in heat.workloads],
        "rows": {row.suffix: _row(row) for row in outcome.rows if row.slices},
    }
    if heat.incumbent is not None:
        found["incumbent"] = heat.rows[heat.incumbent]
    if outcome.demoted:
        found["demoted"] = outcome.demoted
    if outcome.rejected:
        found["rejected"] = "; ".join(one.suffix for one in outcome.rejected)
        found["rejections"] = {one.suffix: _rejection(one) for one in outcome.rejected}
    if heat.controls and outcome.control >= 0 and outcome.control != heat.controls[0]:
        found["control"] = outcome.control_suffix
    if validation is not None:
        found["validation"] = _validation(validation)
    return found


def _row(row: RowResult) -> dict[str, Json]:
    """`med_us` and `best_us` are of the first workload; lists follow the order of `workloads`."""
    found: dict[str, Json] = {
        "med_us": _us(row.med_ns[0]) if row.med_ns else 0.0,
        "best_us": _us(row.best_ns[0]) if row.best_ns else 0.0,
        "slices": row.slices,
        "gain_pct": round(row.gain_pct, 3),
        "error_pct": round(row.error_pct, 3),
    }
    if row.interval_pct is not None:
        found["interval_pct"] = [round(edge, 3) for edge in row.interval_pct]
    if len(row.med_ns) > 1:
        found["med_us_each"] = [_us(time) for time in row.med_ns]
        found["gain_pct_each"] = [round(gain, 3) for gain in row.gains_pct]
    if row.left_round:
        found["left_round"] = row.left_round
        found["left_why"] = row.left_why
    return found


def _validation(validation: Validation) -> dict[str, Json]:
    found: dict[str, Json] = {
        "kept": validation.kept,
        "margin_pct": round(validation.margin_pct, 3),
        "pairs": validation.pairs,
        "over": validation.over,
        "drift_pct": round(validation.drift_pct, 3),
    }
    if validation.why:
        found["why"] = validation.why
    return found


def _us(time_ns: float) -> float:
    return round(time_ns / 1000, 6)


def _rejection(one: Rejected) -> str:
    replay = f"; replay: {one.replay}" if one.replay else ""
    return f"{one.stage}: {one.why}{replay}"

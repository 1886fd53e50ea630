"""Validation: the winner against the fallback once more, alone, in a fresh process.

Pairs of windows, alternately winner first and fallback first, each after a lead-in of the row that comes
first: whatever order does to a row it does to both. A pair says over the bar or not; the exact sign test
looks at 12, 16, … 48 of them and assumes nothing about the noise. It never sees a sample of the race.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace

from tunebuild.heat import Bar, Heat, Outcome, Step
from tunebuild.measure import Measure
from tunebuild.model import Disturbed, Measured, MicroRound, Slice
from tunebuild.race import demoted, to_log, to_pct
from tunebuild.stats import median, pseudo_median, robust_spread, sign_interval, sign_limit, two_modes
from tunebuild.windows import Track, log_times, size_up


@dataclass(frozen=True, slots=True)
class Validation:
    """What fresh windows said of one winner. ``why`` is "" when it was kept."""

    kept: bool
    why: str
    margin_pct: float
    interval_pct: tuple[float, float] | None
    pairs: int
    over: int  # pairs over the bar
    drift_pct: float  # of the winner's time a call since the race: noted, never judged
    doses: float
    state_dependent: bool = False


Validating = Generator[MicroRound | Step, Measured | None, Validation]


def validate(outcome: Outcome, measure: Measure, bar: Bar, seed: int) -> Validating:
    """Judge the winner of ``outcome``, which must not be its control, by windows asked for here."""
    heat = replace(outcome.heat, seed=seed)
    measure = replace(measure, slice_ms=measure.validate_slice_ms)
    track = Track(heat, measure, random.Random(seed), live={outcome.winner, outcome.control})
    yield from size_up(track)
    pairs: list[float] = []
    places: list[int] = []
    lost: list[list[float]] = [[] for _ in heat.workloads]
    winner_logs: list[float] = []
    look = measure.validate_first_pairs
    tries = 0
    while len(track.live) == 2 and tries < 2 * measure.validate_max_pairs:
        strict = tries < measure.validate_first_pairs or 2 * len(pairs) >= tries
        tries += 1
        place = track.next_placement()
        pair = yield from _pair(
            track, outcome.winner, outcome.control, place, measure.min_cpu_share if strict else 0.0
        )
        if pair is None:
            continue
        places.append(place)
        winner_logs.append(pair[0][0])
        gains = [control - winner for winner, control in pair]
        for series, gain in zip(lost, gains, strict=True):
            series.append(-gain)
        pairs.append(_weighed(heat, gains))
        if len(pairs) >= look:
            look += measure.validate_step_pairs
            if len(pairs) >= measure.validate_max_pairs or _settled(pairs, measure, to_log(bar.pct)):
                break
    split = len(pairs) >= measure.split_min_pairs and _is_split(pairs, measure)
    split = split and not _goes_by_place(pairs, places)
    split = split and not _wins_in_both(pairs, measure, to_log(bar.pct))
    return _judge(outcome, track, measure, to_log(bar.pct), pairs, lost, winner_logs, split)


def _weighed(heat: Heat, gains: list[float]) -> float:
    total = math.fsum(weight for _, weight in heat.workloads)
    return math.fsum(w / total * gain for (_, w), gain in zip(heat.workloads, gains, strict=True))


Pair = list[tuple[float, float]]  # (winner, control) log times, one for each workload


def _pair(
    track: Track, winner: int, control: int, placement: int, min_cpu_share: float
) -> Generator[MicroRound, Measured | None, Pair | None]:
    """One pair on every workload, or None when a window of it did not count.

    On a core that is never alone most pairs would be lost; then the caller asks for no share of CPU time,
    since who is interrupted is a matter of chance that the sign test knows how to bear.
    """
    order = _next_order(track, winner, control)
    pair: Pair = []
    for workload in range(len(track.heat.workloads)):
        slices = tuple(Slice(row, track.reps[workload, row]) for row in order)
        measured = yield MicroRound(workload, order[0], placement, slices)
        if isinstance(measured, Disturbed):
            track.reject(measured.row, measured.why)
            return None
        track.spent_ns += math.fsum(track.cost_ns[workload, row] for row in order)
        times = dict(log_times(measured or (), min_cpu_share))
        if len(times) == 2:
            pair.append((times[winner], times[control]))
    return pair if len(pair) == len(track.heat.workloads) else None


def _next_order(track: Track, winner: int, control: int) -> tuple[int, ...]:
    """AB and BA equally often, in seeded order."""
    if not track.order_deck:
        track.order_deck = [(winner, control), (control, winner)]
        track.rng.shuffle(track.order_deck)
    return track.order_deck.pop()


def _settled(pairs: list[float], measure: Measure, bar: float) -> bool:
    """Is the sign test sure either way, with no suspicion of two states that more pairs could confirm?"""
    over = sum(pair > bar for pair in pairs)
    limit = sign_limit(len(pairs), measure.validate_alpha)
    suspicious = len(pairs) < measure.split_min_pairs and _is_split(pairs, measure)
    return (over >= limit or len(pairs) - over >= limit) and not suspicious


def _is_split(pairs: list[float], measure: Measure) -> bool:
    gap, separation = two_modes(pairs, measure.split_share)
    return gap > to_log(measure.split_gap_pct) and separation > measure.split_separation


def _goes_by_place(pairs: list[float], places: Sequence[int]) -> bool:
    """Does most of the pairs' variance come with the placement? That is no state: of placements the mean is
    asked for, and all of them were met equally often."""
    groups: dict[int, list[float]] = {}
    for place, pair in zip(places, pairs, strict=True):
        groups.setdefault(place, []).append(pair)
    free = len(pairs) - len(groups)
    inside = math.fsum(len(own) * statistics.pvariance(own) for own in groups.values())
    return free > 0 and 2 * inside / free < statistics.variance(pairs)


def _wins_in_both(pairs: list[float], measure: Measure, bar: float) -> bool:
    """Is the lower state over the bar as well? Whichever the machine is in, such a row is the better one."""
    return sum(pair <= bar for pair in pairs) <= measure.split_share / 2 * len(pairs)


def _judge(
    outcome: Outcome,
    track: Track,
    measure: Measure,
    bar: float,
    pairs: list[float],
    lost: list[list[float]],
    winner_logs: list[float],
    split: bool,
) -> Validation:
    over = sum(pair > bar for pair in pairs)
    middle = pseudo_median(pairs)
    before = outcome.rows[outcome.winner].med_ns
    drift = (
        100 * (math.exp(median(winner_logs)) / before[0] - 1) if winner_logs and before and before[0] else 0.0
    )
    interval = sign_interval(pairs)
    return Validation(
        kept=not (why := _why_demote(outcome, track, measure, bar, pairs, lost, split)),
        why=why,
        margin_pct=to_pct(middle),
        interval_pct=None if interval is None else (to_pct(interval[0]), to_pct(interval[1])),
        pairs=len(pairs),
        over=over,
        drift_pct=drift,
        doses=track.doses,
        state_dependent=split,
    )


def _why_demote(
    outcome: Outcome,
    track: Track,
    measure: Measure,
    bar: float,
    pairs: list[float],
    lost: list[list[float]],
    split: bool,
) -> str:
    if outcome.winner in track.rejected:
        return track.rejected[outcome.winner].why
    if outcome.control in track.rejected:  # nothing is left to lose to, but nothing was shown either
        return f"the fallback failed: {track.rejected[outcome.control].why}"
    if len(pairs) < measure.validate_first_pairs:
        return "too few undisturbed pairs"
    if split:
        return "its ratio has two states"
    over, limit = sum(pair > bar for pair in pairs), sign_limit(len(pairs), measure.validate_alpha)
    if len(pairs) - over >= limit:
        return f"only {over} of {len(pairs)} pairs clear the bar"
    if over < limit and pseudo_median(pairs) <= bar:
        return f"the median of {len(pairs)} pairs does not clear the bar"
    error = robust_spread(pairs) / math.sqrt(len(pairs))
    if over < limit and pseudo_median(pairs) <= measure.faster_z * error:
        return f"{len(pairs)} pairs are too loud to say that it is faster at all"
    for (name, _), series in zip(outcome.heat.workloads, lost, strict=True):
        if median(series) > bar:
            return f"loses on workload {name}"
    return ""


def settle(outcome: Outcome, validation: Validation) -> Outcome:
    """The outcome after its validation: the weaker margin, or the fallback."""
    if not validation.kept:
        after = demoted(outcome, "state_dependent" if validation.state_dependent else "demoted")
    else:
        after = replace(outcome, margin_pct=min(outcome.margin_pct, validation.margin_pct))
    return replace(after, doses=outcome.doses + validation.doses)

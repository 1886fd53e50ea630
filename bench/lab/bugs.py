"""Seeded bugs: wrong protocols, each one line of source away from the right one, each caught by a check.

`caught_by` runs the checks on a copy of the package that holds the bug, in a process of its own.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Bug:
    """``old`` becomes ``new`` in ``module``; ``check`` is the one that should see it."""

    name: str
    module: str
    old: str
    new: str
    check: str


BUGS: tuple[Bug, ...] = (
    Bug(
        "absolute medians",
        "stats",
        "        step = sum(map(mul, weighed, here)) / sum(weighed)",
        "        step = 0.0",
        "under_the_bar_never_wins",
    ),
    Bug(
        "levels are not fitted",
        "stats",
        "levels = [median([y - effects[row] for row, y in block]) for block in blocks]",
        "levels = [0.0 for block in blocks]",
        "drift_inside_micro_rounds_is_cut",
    ),
    Bug(
        "means, not Huber",
        "stats",
        "clip / abs(r) for r in here",
        "1.0 for r in here",
        "preempted_windows_count_little",
    ),
    Bug(
        "scale without its degrees of freedom",
        "stats",
        "inflate = math.sqrt(count / freedom)",
        "inflate = 0.6",
        "errors_are_as_large_as_said",
    ),
    Bug(
        "error of one row only",
        "stats",
        "self.spread * math.sqrt(1 / self.counts[one] + 1 / self.counts[other])",
        "self.spread * math.sqrt(1 / self.counts[one])",
        "errors_are_as_large_as_said",
    ),
    Bug(
        "standard deviation taken for standard error",
        "stats",
        "self.spread * math.sqrt(1 / self.counts[one] + 1 / self.counts[other])",
        "self.spread * math.sqrt(2)",
        "errors_are_as_large_as_said",
    ),
    Bug("no finer fit", "stats", "if not fine or", "if True or", "drift_inside_micro_rounds_is_cut"),
    Bug(
        "interval one too narrow",
        "stats",
        "return ordered[count - limit], ordered[limit - 1]",
        "return ordered[count - limit + 1], ordered[limit - 2]",
        "interval_is_exact",
    ),
    Bug(
        "sign test off by one",
        "stats",
        "max(at_least, 0), count + 1",
        "max(at_least, 0) + 1, count + 1",
        "interval_is_exact",
    ),
    Bug(
        "two modes by the range",
        "stats",
        "best_within, best_gap = within, right / rest - left / taken",
        "best_within, best_gap = within, ordered[-1] - ordered[0]",
        "two_states_are_two_modes",
    ),
    Bug(
        "fallback skipped in every other micro-round",
        "windows",
        "        order = _order(track, rows)\n",
        "        order = [r for r in _order(track, rows) if r != track.control or track.placed % 2] or rows\n",
        "control_is_in_every_micro_round",
    ),
    Bug(
        "cyclic order",
        "windows",
        "            track.rng.shuffle(rows)\n",
        "",
        "orders_have_no_fixed_predecessor",
    ),
    Bug(
        "always the same order of few rows",
        "windows",
        "    return track.order_deck.pop()",
        "    return track.order_deck[0]",
        "few_rows_follow_each_other_equally",
    ),
    Bug(
        "last row leads in",
        "windows",
        "MicroRound(workload, order[0], placement, slices)",
        "MicroRound(workload, order[-1], placement, slices)",
        "few_rows_follow_each_other_equally",
    ),
    Bug(
        "one placement",
        "windows",
        "deck += range(max(self.measure.placements, 1))",
        "deck += [0]",
        "placements_are_shared_and_walked",
    ),
    Bug(
        "placements drawn, not dealt",
        "windows",
        "        return deck.pop()",
        "        return self.rng.choice(range(self.measure.placements))",
        "placements_are_shared_and_walked",
    ),
    Bug(
        "sized by the first call",
        "windows",
        "elif wall * 2 >= track.slice_ns:",
        "elif True:",
        "slow_first_call_does_not_size",
    ),
    Bug(
        "half-full window taken for a full one",
        "windows",
        "max(1, round(track.slice_ns / per_call))",
        "sample.reps * 3",
        "repetitions_stay_the_same",
    ),
    Bug(
        "windows as short as a clock step",
        "windows",
        "return max(wanted, m.min_clock_steps * self.heat.clock_step_ns)",
        "return wanted",
        "windows_are_long_enough_for_the_clock",
    ),
    Bug(
        "shared windows count",
        "windows",
        "used = own if 2 * len(own) >= len(timed) else timed",
        "used = timed",
        "shared_windows_do_not_count",
    ),
    Bug(
        "backward clock read as a time",
        "windows",
        "[sample for sample in samples if sample.wall_ns > 0]",
        "[replace(s, wall_ns=abs(s.wall_ns)) for s in samples]",
        "backward_clock_costs_a_window",
    ),
    Bug(
        "dead row is run again",
        "windows",
        "            track.reject(measured.row, measured.why)\n            continue\n",
        "            continue\n",
        "dead_row_is_named_and_the_others_race_on",
    ),
    Bug(
        "control is never replaced",
        "windows",
        "(row for row in self.heat.controls if row in self.live)",
        "(row for row in self.heat.controls)",
        "next_control_takes_over",
    ),
    Bug(
        "flat times accepted",
        "windows",
        "if wall < 0.1 * before[1] * reps / before[0]:",
        "if False:",
        "time_that_does_not_grow_rejects_a_row",
    ),
    Bug("unseeded order", "race", "random.Random(heat.seed)", "random.Random()", "same_seed_same_outcome"),
    Bug(
        "leaves after one pair",
        "race",
        "fit.windows.get(row, 0) >= m.min_pairs",
        "fit.windows.get(row, 0) >= 1",
        "nobody_leaves_before_three_pairs",
    ),
    Bug(
        "nobody leaves",
        "race",
        "if gain + slack < bar and",
        "if False and",
        "null_family_is_dismissed_at_once",
    ),
    Bug(
        "leaves without slack",
        "race",
        "if gain + slack < bar and",
        "if gain < bar and",
        "near_winner_is_not_dropped",
    ),
    Bug(
        "slack on the wrong side",
        "race",
        "if gain + slack < bar and",
        "if gain - slack < bar and",
        "near_winner_is_not_dropped",
    ),
    Bug("far rows stay", "race", "if gain < to_log(-m.far_pct):", "if False:", "far_rows_leave_in_noise"),
    Bug(
        "workloads unweighed",
        "race",
        "weights = tuple(weight / total for _, weight in track.heat.workloads)",
        "weights = tuple(1 / len(track.heat.workloads) for _ in track.heat.workloads)",
        "workloads_are_weighed",
    ),
    Bug(
        "lost workload ignored",
        "race",
        "if lost - z * fit.error(row, standing.control) > bar:",
        "if False:",
        "loser_on_one_workload_is_out",
    ),
    Bug(
        "seat before the margin",
        "race",
        "standing.error(row, standing.control) > bar\n        and",
        "standing.error(row, standing.control) > bar - 0.01\n        and",
        "margin_comes_before_ties",
    ),
    Bug(
        "incumbent keeps under the bar",
        "race",
        "if incumbent is not None and incumbent in clear:",
        "if incumbent is not None and incumbent in standing.gains:",
        "incumbent_keeps_within_the_bar",
    ),
    Bug(
        "incumbent ignored",
        "race",
        "if incumbent is not None and incumbent in clear:",
        "if False:",
        "incumbent_keeps_within_the_bar",
    ),
    Bug(
        "incumbent leaves like any other",
        "race",
        "keep_band(m, bar) if row == track.heat.incumbent else",
        "to_log(m.take_band_pct) if row == track.heat.incumbent else",
        "incumbent_keeps_within_the_bar",
    ),
    Bug(
        "best, not first in the band",
        "race",
        'return tie[0], "margin" if tie[0] == best else "tie"',
        'return best, "margin"',
        "ties_go_to_the_first_in_grid_order",
    ),
    Bug(
        "band as wide as the bar",
        "race",
        "    band = to_log(track.measure.take_band_pct)\n",
        "    band = to_log(bar.pct)\n",
        "ties_go_to_the_first_in_grid_order",
    ),
    Bug(
        "ties broken unknown",
        "race",
        "return sure and _tie_is_known(track, standing, clear, leader)",
        "return sure",
        "ties_in_noise_are_known_first",
    ),
    Bug(
        "race goes on though it is decided",
        "race",
        "    return sure and _tie_is_known(track, standing, clear, leader)",
        "    return False",
        "leader_over_the_bar_ends_the_race",
    ),
    Bug(
        "lucky leader believed",
        "race",
        "standing.gains[leader] - _seat_z(track) * standing.error(leader, standing.control) > bar",
        "standing.gains[leader] > bar",
        "lucky_leader_does_not_end_the_race",
    ),
    Bug(
        "no budget",
        "race",
        "        if cost <= rest / halvings:",
        "        if True:",
        "budget_holds_in_noise",
    ),
    Bug(
        "margin is the best row's",
        "race",
        "to_pct(standing.gains[winner])",
        "to_pct(standing.gains[best])",
        "ties_go_to_the_first_in_grid_order",
    ),
    Bug(
        "closing floor ignored",
        "race",
        "if floor_pct > measure.margin_pct and outcome.margin_pct < floor_pct",
        "if False",
        "closing_floor_demotes",
    ),
    Bug(
        "closing judges within the margin",
        "race",
        "if floor_pct > measure.margin_pct and outcome.margin_pct < floor_pct",
        "if outcome.margin_pct < floor_pct",
        "closing_floor_demotes",
    ),
    Bug(
        "demoted row keeps its margin",
        "race",
        "held_by=held_by, margin_pct=0.0, demoted=lost",
        "held_by=held_by, demoted=lost",
        "closing_floor_demotes",
    ),
    Bug(
        "validation trusts the race",
        "validate",
        "    pairs: list[float] = []\n",
        "    pairs: list[float] = [to_log(outcome.margin_pct)] * 8\n",
        "validation_believes_fresh_windows_only",
    ),
    Bug(
        "sign swapped",
        "validate",
        "gains = [control - winner for winner, control in pair]",
        "gains = [winner - control for winner, control in pair]",
        "weaker_margin_is_recorded",
    ),
    Bug(
        "always winner first",
        "validate",
        "track.order_deck = [(winner, control), (control, winner)]",
        "track.order_deck = [(winner, control)]",
        "validation_pairs_alternate",
    ),
    Bug(
        "bar forgotten in validation",
        "validate",
        "over, limit = sum(pair > bar for pair in pairs)",
        "over, limit = sum(pair > 0 for pair in pairs)",
        "validation_believes_fresh_windows_only",
    ),
    Bug(
        "undecided is kept",
        "validate",
        "if over < limit and pseudo_median(pairs) <= bar:",
        "if False:",
        "undecided_pairs_must_clear_by_the_median",
    ),
    Bug(
        "stronger margin recorded",
        "validate",
        "margin_pct=min(",
        "margin_pct=max(",
        "weaker_margin_is_recorded",
    ),
    Bug(
        "two states are a win",
        "validate",
        "    if split:\n",
        "    if False:\n",
        "two_states_hold_the_fallback",
    ),
    Bug(
        "placements taken for states",
        "validate",
        "split = split and not _goes_by_place(pairs, places)",
        "pass",
        "states_of_the_placement_are_no_states",
    ),
    Bug(
        "states over the bar cost the seat",
        "validate",
        "split = split and not _wins_in_both(pairs, measure, to_log(bar.pct))",
        "pass",
        "two_states_over_the_bar_keep_the_seat",
    ),
    Bug(
        "a placement for each pool",
        "windows",
        "yield from _micro_round(track, workload, pool, placement)",
        "yield from _micro_round(track, workload, pool, track.next_placement(workload))",
        "pools_of_one_pass_share_a_placement",
    ),
    Bug(
        "death in validation forgiven",
        "validate",
        "    if outcome.winner in track.rejected:",
        "    if False:",
        "death_in_validation_demotes",
    ),
    Bug(
        "min for max in the bar",
        "noise",
        "return max((reading.used_pct if raw else reading.floor_pct for",
        "return min((reading.used_pct if raw else reading.floor_pct for",
        "bar_is_the_larger_of_margin_and_floor",
    ),
    Bug(
        "last reading decides",
        "noise",
        "worst = max((reading.used_pct for reading in readings), default=0.0)\n    if",
        "worst = readings[-1].used_pct\n    if",
        "noise_is_judged_by_the_worst_reading",
    ),
    Bug(
        "raw cv raises the bar",
        "noise",
        'raw = measure.noise_floor == "raw"',
        "raw = True",
        "bar_is_the_larger_of_margin_and_floor",
    ),
    Bug(
        "ceiling stays when the threshold passes it",
        "noise",
        "return max(measure.ceiling_cv_pct, threshold)",
        "return measure.ceiling_cv_pct",
        "noise_is_judged_by_the_worst_reading",
    ),
    Bug(
        "A/A floor of one side",
        "noise",
        "ratios += [times[1] - times[0]] if",
        "ratios += [0.0] if",
        "probe_reads_cv_and_floor",
    ),
    Bug("no settle", "noise", "    if raw <= threshold_pct:", "    if True:", "probe_reads_cv_and_floor"),
)


def caught_by(bug: Bug, names: tuple[str, ...] = ()) -> str:
    """The first check (of ``names``, else its own and then all) that fails under the bug; "" if none does."""
    source = (ROOT / "tunebuild" / f"{bug.module}.py").read_text()
    if source.count(bug.old) != 1:
        raise ValueError(f"{bug.name}: {bug.old!r} stands {source.count(bug.old)} times in {bug.module}.py")
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "tunebuild"
        package.mkdir()
        for file in (ROOT / "tunebuild").glob("*.py"):
            (package / file.name).symlink_to(file)
        (package / f"{bug.module}.py").unlink()
        (package / f"{bug.module}.py").write_text(source.replace(bug.old, bug.new))
        code = (
            f"import sys; sys.path[:0] = [{folder!r}, {str(ROOT / 'bench')!r}]\n"
            "from lab.bugs import first_failure\n"
            f"print(first_failure({names or (bug.check, '')!r}))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    return done.stdout.strip() if done.returncode == 0 else "does not even run"


def first_failure(names: tuple[str, ...]) -> str:
    """Run the named checks ("" for all of them) on the package that is importable here."""
    from lab.checks import CHECKS

    for name in names:
        for each in [name] if name else CHECKS:
            try:
                CHECKS[each]()
            except Exception:
                return each
    return ""

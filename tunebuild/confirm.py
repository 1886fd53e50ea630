"""Does a winner also win in the app's own measure? Decides from the arms' metrics; `confirmflows` runs them.

An arm is the app with all winners, or with one family's seats back at the fallback. Arms run in turns, so a round's
metrics are pairs. A family keeps its winners only where its pairs gain the declared margin, in their median, and no
more than one of them is a loss: a machine that changes between rounds must not confirm anything.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tunebuild.model import Confirm
from tunebuild.stats import median

ROUNDS = 5
MOST_LOSSES = 1
MOST_GAIN_PCT = 1e9  # said of a metric that is next to 0 in one arm alone
WINNERS = "winners"
"""The arm with every winner; the others are named after the family that falls back in them."""


@dataclass(frozen=True, slots=True)
class Confirmed:
    """One family's end-to-end verdict. ``gain_pct``: of the winners over the fallback, positive is better."""

    family: str
    kept: bool
    gain_pct: float
    why: str


def metric(confirm: Confirm, output: str) -> float | None:
    """The number that the app printed, the last one where it printed several; None where there is none, or it is
    not finite."""
    found = [match[1] for match in re.finditer(confirm.metric, output, re.M)]
    try:
        number = float(found[-1]) if found else math.nan
    except (ValueError, TypeError):  # no number, or a group that took no part in the match
        return None
    return number if math.isfinite(number) else None


def order(arms: Sequence[str], number: int) -> tuple[str, ...]:
    """The arms of one round: every arm visits every place, and odd rounds run backwards."""
    turn = number % len(arms)
    turned = (*arms[turn:], *arms[:turn])
    return turned if number % 2 == 0 else turned[::-1]


def gains_pct(confirm: Confirm, winners: Sequence[float], fallback: Sequence[float]) -> tuple[float, ...]:
    """How much better the winners are, round by round, in percent of the fallback; 0 where that is 0."""
    sign = 1.0 if confirm.better == "lower" else -1.0
    pairs = zip(winners, fallback, strict=True)
    gains = (sign * 100.0 * (fell - won) / abs(fell) if fell else 0.0 for won, fell in pairs)
    return tuple(max(-MOST_GAIN_PCT, min(MOST_GAIN_PCT, gain)) for gain in gains)


def verdicts(
    confirm: Confirm, measured: Mapping[str, Sequence[float]], crashed: str
) -> tuple[Confirmed, ...]:
    """One verdict a family. ``crashed``: why the winners' arm failed, "" it ran."""
    families = [arm for arm in measured if arm != WINNERS]
    if crashed:
        return tuple(
            Confirmed(family, False, 0.0, f"the app failed with the winners: {crashed}")
            for family in families
        )
    found = []
    for family in families:
        gains = gains_pct(confirm, measured[WINNERS], measured[family])
        gain, losses = median(gains), sum(each < 0 for each in gains)
        kept = gain >= confirm.margin and losses <= MOST_LOSSES
        lost = f"; {losses} of {len(gains)} rounds lost" if gain >= confirm.margin and not kept else ""
        than = f"{gain:+.2f} % end to end, {confirm.margin:g} % wanted{lost}"
        found.append(
            Confirmed(family, kept, gain, f"confirmed: {than}" if kept else f"not confirmed: {than}")
        )
    return tuple(found)

"""What disturbs a measurement here, as sentences: each condition of the box judged, with what to do. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from tunebuild.host import Conditions

BUSY_SHARE = 0.25  # of the CPUs: below that the race's own CPU is nearly always free
STEAL_PERCENT = 1.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One condition, judged. ``advice`` "" where it is as it should be, or nothing can be done."""

    good: bool
    what: str
    advice: str = ""


def findings(now: Conditions) -> tuple[Finding, ...]:
    """The judged conditions, those that a person can change first; what the system does not tell is left out."""
    judged = (
        _load(now), _governor(now), _turbo(now), _affinity(now), _shared_core(now), _quota(now), _steal(now),
        _virtual(now),
    )  # fmt: skip
    return tuple(found for found in judged if found is not None)


def text(now: Conditions) -> str:
    """A sentence a line, then what it comes to."""
    found = findings(now)
    lines = [f"{'ok  ' if one.good else 'mind'}  {_sentence(one)}" for one in found]
    bad = sum(not one.good for one in found)
    things = "1 thing" if bad == 1 else f"{bad} things"
    total = f"{things} may disturb a mint" if bad else "nothing known disturbs a mint here"
    return "\n".join([*lines, f"{total}; a mint probes the noise itself and refuses a box that is too loud"])


def _sentence(found: Finding) -> str:
    return f"{found.what}: {found.advice}" if found.advice else found.what


def _load(now: Conditions) -> Finding | None:
    if now.load_1min < 0:
        return None
    what = f"the load of the last minute is {now.load_1min:.2f} on {_cpus(now.cpus)}"
    if now.load_1min <= BUSY_SHARE * max(now.cpus, 1):
        return Finding(True, what)
    return Finding(False, what, "stop what else runs, wait a minute, then mint")


def _governor(now: Conditions) -> Finding | None:
    if not now.governors:
        return None
    what = f"the frequency governor is {', '.join(now.governors)}"
    if now.governors == ("performance",):
        return Finding(True, what)
    return Finding(False, what, "set it to performance (cpupower frequency-set -g performance) for a mint")


def _turbo(now: Conditions) -> Finding | None:
    if not now.turbo:
        return None
    if now.turbo == "off":
        return Finding(True, "turbo is off: the clock is steady")
    return Finding(True, "turbo is on: races compare rows side by side, so a drifting clock meets all alike")


def _affinity(now: Conditions) -> Finding:
    if now.race_cpu < 0:
        return Finding(False, "nothing can be pinned to a CPU here", "expect wider intervals")
    what = f"races are pinned to CPU {now.race_cpu}, of {_cpus(now.cpus)} that this process may use"
    if now.cpus > 1:
        return Finding(True, what)
    return Finding(
        False, what, "allow it a second CPU (taskset, cpuset), so that nothing else needs that one"
    )


def _shared_core(now: Conditions) -> Finding:
    if not now.shares_core:
        return Finding(True, f"CPU {now.race_cpu} has a core of its own")
    return Finding(
        False,
        f"CPU {now.race_cpu} shares its core with a sibling",
        "keep the sibling idle during a mint, or switch SMT off",
    )


def _quota(now: Conditions) -> Finding | None:
    limit = now.cpu_quota.split()[0] if now.cpu_quota else "max"
    if limit == "max" and now.throttled_periods <= 0:
        return None
    what = "the control group limits CPU time" if limit != "max" else "the control group was throttled"
    if now.throttled_periods > 0:
        what += f" ({now.throttled_periods} periods cut short so far)"
    return Finding(now.throttled_periods <= 0, what, "raise its cpu.max for a mint")


def _steal(now: Conditions) -> Finding | None:
    if now.steal_percent < 0:
        return None
    what = f"a hypervisor took {now.steal_percent:.1f} % of CPU time since boot"
    if now.steal_percent < STEAL_PERCENT:
        return Finding(True, what)
    return Finding(False, what, "mint at a quieter hour or on a dedicated host")


def _virtual(now: Conditions) -> Finding | None:
    if not now.virtual:
        return None
    return Finding(True, "this is a virtual machine: neighbours may disturb it unseen")


def _cpus(count: int) -> str:
    return "1 CPU" if count == 1 else f"{count} CPUs"

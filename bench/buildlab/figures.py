"""A figure with its name, unit and goal; and how times are taken."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Figure:
    """``goal`` bounds ``value``: from above, unless ``least``; None where there is none."""

    name: str
    value: float
    unit: str = ""
    goal: float | None = None
    least: bool = False

    def line(self) -> str:
        return f"{self.name:44} {self._shown():>12}{self._wanted()}"

    def row(self) -> str:
        return f"| {self.name} | {self._shown()} | {self._wanted().strip() or '—'} |"

    def _shown(self) -> str:
        return f"{self.value:.4g} {self.unit}".strip()

    def _wanted(self) -> str:
        if self.goal is None:
            return ""
        met = self.value >= self.goal if self.least else self.value <= self.goal
        return f"  {'≥' if self.least else '≤'} {self.goal:g} {self.unit}".rstrip() + (
            "" if met else "  MISSED"
        )


@dataclass(frozen=True, slots=True)
class Took:
    """One command: wall seconds, and the processor seconds of it and all its children."""

    wall_s: float
    cpu_s: float
    stdout: str
    stderr: str

    @property
    def busy(self) -> float:
        """The part of all cores that was at work."""
        return self.cpu_s / self.wall_s / len(os.sched_getaffinity(0))


def take(command: Sequence[str], cwd: Path, env: Mapping[str, str]) -> Took:
    """Run ``command``; a failure is the bench's own failure."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    done = subprocess.run(
        list(command), cwd=cwd, env=dict(env), capture_output=True, text=True, stdin=subprocess.DEVNULL,
        check=False,
    )  # fmt: skip
    wall_s = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} gave {done.returncode}\n{done.stdout}{done.stderr}")
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Took(wall_s, cpu_s, done.stdout, done.stderr)


def in_turns(
    commands: Sequence[Sequence[str]], cwd: Path, env: Mapping[str, str], rounds: int
) -> list[float]:
    """The median wall time of each command; they take turns, so that the machine's moods are shared."""
    times: list[list[float]] = [[] for _ in commands]
    for _ in range(rounds):
        for index, command in enumerate(commands):
            times[index].append(take(command, cwd, env).wall_s)
    return [statistics.median(each) for each in times]

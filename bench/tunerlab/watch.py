"""A mint watched from outside: when its stages began and ended, by what it prints."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from buildlab import projects

from tunerlab.package import snapshot

SAID = "errors.txt"  # in the project: what the last command said on standard error
STAGES = ("compile", "probe", "gate", "race", "validate", "close")


@dataclass(frozen=True, slots=True)
class Watched:
    """``stages``: seconds of each; ``close`` is the last probe, the write and the normal build."""

    wall_s: float
    cpu_s: float
    stages: Mapping[str, float]
    record: Mapping[str, Any]


def environ(folder: Path, **more: str) -> dict[str, str]:
    """A cache and a history of the project's own; a loud machine is accepted."""
    ours = {
        "PYTHONPATH": str(snapshot()),
        "TUNEBUILD_NOISE_OVERRIDE": "1",
        "TUNEBUILD_VERBOSITY": "verbose",
    }
    return projects.environment(folder, **ours, **more)


def start(folder: Path, *words: str) -> subprocess.Popen[str]:
    """`tunebuild WORDS` in the project, its output as it comes; its errors go to `SAID`, since a pipe that nobody
    reads holds a large build up."""
    with (folder / SAID).open("w") as errors:
        return subprocess.Popen(
            [sys.executable, "-m", "tunebuild", *words], cwd=folder, env=environ(folder), text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
        )  # fmt: skip


def mint(folder: Path) -> Watched:
    """Mint once; a mint that fails is the bench's own failure."""
    before, started = _children_cpu_s(), time.monotonic()
    marks = {"start": 0.0}
    with start(folder, "mint") as process:
        assert process.stdout is not None
        for line in process.stdout:
            if mark := _mark(line):
                marks[mark] = time.monotonic() - started
    wall = time.monotonic() - started
    if process.returncode:
        raise SystemExit(f"mint gave {process.returncode}\n{(folder / SAID).read_text()[-2000:]}")
    return Watched(wall, _children_cpu_s() - before, _stages({**marks, "exit": wall}), record(folder))


def record(folder: Path) -> dict[str, Any]:
    """The sidecar of the project's only app."""
    (path,) = folder.glob("*.tune.json")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def _mark(line: str) -> str:
    """The moment that a line of a mint of one family tells, "" none."""
    for words, mark in (
        ("@tune plan", "planned"),
        ("noise: start", "probed"),
        ("@tune begin", "begun"),
        ("@tune end", "raced"),
        ("noise: end", "probed again"),
    ):
        if words in line:
            return mark
    return ""


def _stages(marks: Mapping[str, float]) -> dict[str, float]:
    """The closing probe takes what the first one took: what else lies before its word is validation."""
    probe = marks["probed"] - marks["planned"]
    validated = max(marks["probed again"] - probe, marks["raced"])
    edges = (0.0, marks["planned"], marks["probed"], marks["begun"], marks["raced"], validated, marks["exit"])
    return {name: edges[i + 1] - edges[i] for i, name in enumerate(STAGES)}


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime

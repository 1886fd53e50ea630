"""Rows about builds: tests/toolchain/test_build_faults.py and its like really produce them, here again and again."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from faultlab.common import ROOT, Result

ROUNDS = 10


@dataclass(frozen=True, slots=True)
class Fault:
    """``file`` and ``names``: a test file and a pytest expression over its tests' names."""

    fault: str
    file: str
    names: str


BUILDS = "tests/toolchain/test_build_faults.py"
FAULTS: Mapping[int, Fault] = {
    13: Fault("sources changed while compiling", BUILDS, "changed_meanwhile or during_a_build"),
    17: Fault("compilers that crash, hang, flood, change or vanish", BUILDS, "test_compiler or timeout"),
}


def _produce(row: int, quick: bool) -> Result:
    fault = FAULTS[row]
    words: list[tuple[str, str]] = []
    for _ in range(1 if quick else ROUNDS):
        done = subprocess.run(
            [sys.executable, "-m", "pytest", fault.file, "-q", "-rA", "-k", fault.names, "-p", "no:cacheprovider"],
            cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        words += re.findall(r"^(PASSED|FAILED|ERROR) (\S+)", done.stdout, re.M)
    failures = [name for word, name in words if word != "PASSED"]
    return Result(
        row, fault.fault, len(words), len(words) - len(failures), tuple(dict.fromkeys(failures))[:5]
    )


def _of(row: int) -> Callable[[bool], Result]:
    return lambda quick: _produce(row, quick)


ROWS: Mapping[int, Callable[[bool], Result]] = {row: _of(row) for row in FAULTS}

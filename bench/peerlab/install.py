"""An environment for peers alone: a venv under build, never among the project's dependencies."""

from __future__ import annotations

import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

# torch by its exact version: the plain name would fetch gigabytes of another build.
WANTED = ("numpy", "scipy-openblas32", "simsimd", "numkong", "mkl", "torch==2.13.0")
ALONE = ("mkl", "torch==2.13.0")  # what they depend on is threads and Python, which is not used here


def environment(
    folder: Path, *, fresh: bool = False, wanted: Sequence[str] = WANTED
) -> tuple[Path, list[str]]:
    """The interpreter of the venv in ``folder``, and a line for each of ``wanted`` that could not be installed."""
    python = folder / "venv/bin/python"
    if fresh or not python.exists():
        venv.create(folder / "venv", with_pip=True, clear=True)
    missing = []
    for package in wanted:
        if _installed(python, package):
            continue
        print(f"installing {package}", file=sys.stderr, flush=True)
        words = ["--no-deps"] if package in ALONE else []
        done = subprocess.run(
            [python, "-m", "pip", "install", "-q", *words, package], capture_output=True, text=True
        )
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            missing.append(f"{package} could not be installed: {last}")
    return python, missing


def _installed(python: Path, package: str) -> bool:
    name = package.partition("==")[0]
    ask = f"import importlib.metadata as m; m.version({name!r})"
    return subprocess.run([python, "-c", ask], capture_output=True).returncode == 0

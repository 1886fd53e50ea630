"""The package as it was when the bench began: edits of the checkout do not reach what runs."""

from __future__ import annotations

import shutil
import tempfile
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]


@cache
def snapshot() -> Path:
    """A folder for PYTHONPATH that holds a copy; it goes when this process ends."""
    made = tempfile.TemporaryDirectory(prefix="tunebuild-package-")
    _kept.append(made)
    folder = Path(made.name)
    shutil.copytree(ROOT / "tunebuild", folder / "tunebuild", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "ninja.build.j2", folder)
    return folder


_kept: list[tempfile.TemporaryDirectory[str]] = []  # removed with the interpreter

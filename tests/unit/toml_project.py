"""Tiny projects on disk for the tests of reading: a tune.toml and the files it needs, empty."""

from __future__ import annotations

from pathlib import Path

import pytest

from tunebuild import manifest
from tunebuild.errors import ConfigError, Mistake
from tunebuild.model import Manifest

BASE = """\
[project]
name = "p"
[family.dot]
prototype = "float dot(const float *a, const float *b, size_t n)"
[family.dot.grid.axes]
u = [1, 2, 4]
"""
FILES = ("dot/reference.c", "dot/kernel.c.j2")


def write(folder: Path, text: str, files: tuple[str, ...] = FILES) -> Path:
    """A project in ``folder``; ``files`` stand under its templates."""
    for name in files:
        file = folder / "kernels/templates" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("void f(void *data, size_t count, uint64_t seed)\n{\n}\n")
    (folder / "tune.toml").write_text(text)
    return folder


def read(folder: Path, text: str = BASE, files: tuple[str, ...] = FILES) -> Manifest:
    return manifest.read(write(folder, text, files))


def mistakes(folder: Path, text: str, files: tuple[str, ...] = FILES) -> tuple[Mistake, ...]:
    with pytest.raises(ConfigError) as caught:
        read(folder, text, files)
    return caught.value.mistakes


def one_mistake(folder: Path, text: str, files: tuple[str, ...] = FILES) -> Mistake:
    found = mistakes(folder, text, files)
    assert len(found) == 1, [str(mistake) for mistake in found]
    return found[0]

"""What tests of whole commands share: a project of its own folder, cache, home and history, and the command."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tunebuild import scaffold


@dataclass(frozen=True)
class Project:
    """A project under test. Every TUNEBUILD_ variable is set or absent by the test alone."""

    root: Path
    home: Path
    cache: Path

    def environ(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("TUNEBUILD_", "TB_"))
        }
        return {
            **kept,
            "HOME": str(self.home),
            "TUNEBUILD_CACHE": str(self.cache),
            "TUNEBUILD_HISTORY": str(self.home / "history"),
            **(extra or {}),
        }

    def run(self, *words: str, code: int | None = 0, **environ: str) -> subprocess.CompletedProcess[str]:
        """`tunebuild WORDS` in the project; asserts the exit code unless ``code`` is None."""
        done = subprocess.run(
            [sys.executable, "-m", "tunebuild", *words],
            cwd=self.root,
            env=self.environ(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
        )
        if code is not None:
            assert done.returncode == code, f"{words} gave {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def write(self, path: str, text: str) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def edit(self, path: str, old: str, new: str) -> None:
        text = (self.root / path).read_text()
        assert old in text, f"{path} lacks {old!r}"
        (self.root / path).write_text(text.replace(old, new))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """What `tunebuild init` writes, in a folder whose name has a space and a letter beyond ASCII."""
    root = tmp_path / "a próject"
    root.mkdir()
    scaffold.init(root)
    home = tmp_path / "home"
    home.mkdir()
    return Project(root, home, home / "cache")

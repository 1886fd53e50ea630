"""What a mint notes of the tree that it measured."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tunebuild import mintrecord

pytestmark = pytest.mark.skipif(not shutil.which("git"), reason="no git")


def git(root: Path, *words: str) -> str:
    who = ("-c", "user.name=n", "-c", "user.email=n@example.org")
    done = subprocess.run(["git", *who, "-C", root, *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_commit_is_dirty_where_a_tracked_file_of_the_project_was_changed_and_by_no_sidecar(
    tmp_path: Path,
) -> None:
    root = tmp_path / "above/a project"
    root.mkdir(parents=True)
    assert mintrecord._commit(root) == "unknown"
    git(tmp_path, "init", "-q")
    assert mintrecord._commit(root) == "unknown", "there is no commit yet"
    tracked = (root / "tune.toml", root / "demo.tune.json", tmp_path / "above/other")
    for path in tracked:
        path.write_text("1")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    head = git(tmp_path, "rev-parse", "--short", "HEAD")
    assert mintrecord._commit(root) == head
    for path in (*tracked[1:], root / "untracked"):
        path.write_text("2")
    assert mintrecord._commit(root) == head, "a sidecar, a neighbour and an untracked file are no change"
    tracked[0].write_text("2")
    assert mintrecord._commit(root) == f"{head}-dirty"

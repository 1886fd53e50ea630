"""What killed writers leave, and folders that are replaced whole."""

from __future__ import annotations

import os
import time
from pathlib import Path

from tunebuild import emit


def _old(path: Path) -> None:
    then = time.time() - 2 * emit.STALE_TEMPORARY_S
    os.utime(path, (then, then), follow_symlinks=False)


def test_leftovers_of_the_named_files_go_after_an_hour_and_nothing_else(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    for name in (".a.json.1.tmp", ".b.json.1.tmp", ".a.json.lock", "a.json.1.tmp"):
        (tmp_path / name).touch()
        _old(tmp_path / name)
    (tmp_path / ".a.json.new.tmp").touch()
    (tmp_path / ".a.json.folder.tmp").mkdir()
    (tmp_path / ".a.json.folder.tmp" / "inside").touch()
    _old(tmp_path / ".a.json.folder.tmp")
    (tmp_path / ".a.json.link.tmp").symlink_to(kept)
    _old(tmp_path / ".a.json.link.tmp")
    emit.sweep_temporaries(tmp_path, r"a\.json")
    left = {".b.json.1.tmp", ".a.json.lock", "a.json.1.tmp", ".a.json.new.tmp", "kept"}
    assert set(os.listdir(tmp_path)) == left


def test_folder_takes_the_place_of_another_and_the_old_one_is_handed_back(tmp_path: Path) -> None:
    new, target = tmp_path / "new", tmp_path / "bundle"
    for folder, text in ((new, "new"), (target, "old")):
        (folder / "lib").mkdir(parents=True)
        (folder / "lib/x").write_text(text)
    emit.replace_folder(new, target)
    assert (target / "lib/x").read_text() == "new"
    assert (new / "lib/x").read_text() == "old"


def test_folder_takes_a_free_place(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    emit.replace_folder(tmp_path / "new", tmp_path / "bundle")
    assert os.listdir(tmp_path) == ["bundle"]

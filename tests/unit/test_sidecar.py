"""The sidecar on disk: where it is, that reading never trips, that a write is whole or not at all."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tunebuild import emit, sidecar
from tunebuild.document import Document, Unreadable
from tunebuild.errors import WorkFailed
from tunebuild.model import Box
from tunebuild.upsert import Change

BOX = Box("linux|x86_64||6.8.0|A", "x86_64", frozenset({"avx2"}))


def put(path: Path, **kernels: str) -> Document:
    return sidecar.save(path, Change(kernels=kernels), box=BOX).document


def test_location_is_beside_the_project_and_the_environment_wins_verbatim(tmp_path: Path) -> None:
    assert sidecar.location(tmp_path, "demo", {}) == tmp_path / "demo.tune.json"
    assert sidecar.location(tmp_path, "demo.exe", {}) == tmp_path / "demo.tune.json"
    assert sidecar.location(tmp_path, "demo", {"TUNEBUILD_MANIFEST": ""}) == tmp_path / "demo.tune.json"
    assert sidecar.location(tmp_path, "demo", {"TUNEBUILD_MANIFEST": "x/y.json"}) == Path("x/y.json")


def test_home_folder_is_not_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.tune.json"
    environ = {"HOME": "/home/somebody"}
    change = Change(kernels={"f": "a"})
    sidecar.save(path, change, box=BOX, binary="/home/somebody/src/app", environ=environ)
    assert "somebody" not in path.read_text()
    assert '"binary": "~/src/app"' in path.read_text()
    assert sidecar.abbreviated("/home/somebody-else/x", environ) == "/home/somebody-else/x"
    assert sidecar.abbreviated("/x", {}) == "/x"


def test_saved_file_reads_back_with_its_time(tmp_path: Path) -> None:
    path = tmp_path / "a.tune.json"
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    sidecar.save(path, Change(kernels={"f": "a"}), box=BOX, now=moment)
    found = sidecar.read(path)
    assert isinstance(found, Document)
    assert found.kernels == {"f": "a"}
    assert found.provenance["written"] == "2026-01-02T03:04:05Z"
    assert found.mtime_s == int(path.stat().st_mtime)


def test_two_saves_within_one_second_keep_both(tmp_path: Path) -> None:
    path = tmp_path / "a.tune.json"
    put(path, f="a")
    assert put(path, g="b").kernels == {"f": "a", "g": "b"}


def test_file_created_empty_in_the_same_second_heals_at_the_first_write(tmp_path: Path) -> None:
    path = tmp_path / "a.tune.json"
    path.touch()
    assert isinstance(sidecar.read(path), Unreadable)
    put(path, f="a")
    assert put(path, g="b").kernels == {"f": "a", "g": "b"}


def test_unreadable_file_is_replaced_by_the_next_write_and_reading_leaves_it_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.tune.json"
    path.write_text('{"kernels": {"f": "a"')
    for _ in range(2):
        assert isinstance(sidecar.read(path), Unreadable)
    assert os.listdir(tmp_path) == ["a.tune.json"]
    merged = sidecar.save(path, Change(kernels={"g": "b"}), box=BOX)
    assert merged.reset.startswith("unreadable: not JSON")
    assert merged.document.kernels == {"g": "b"}


def test_path_with_spaces_and_other_letters_works(tmp_path: Path) -> None:
    path = tmp_path / "zwölf Kerne [x] $HOME" / "日本 *.tune.json"
    put(path, f="a")
    assert put(path, g="b").kernels == {"f": "a", "g": "b"}


def test_symlinked_sidecar_stays_a_link_and_its_target_is_written(tmp_path: Path) -> None:
    target, link = tmp_path / "store" / "real.json", tmp_path / "a.tune.json"
    target.parent.mkdir()
    link.symlink_to(target)
    assert sidecar.read(link) is None
    put(link, f="a")
    assert link.is_symlink()
    assert json.loads(target.read_text())["kernels"] == {"f": "a"}


@pytest.mark.parametrize("kind", ["folder", "pipe", "loop", "unreadable", "nul", "below a file"])
def test_whatever_stands_in_its_place_reading_says_why_at_once(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.tune.json"
    match kind:
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "loop":
            path.symlink_to(path)
        case "unreadable":
            path.write_text("{}")
            path.chmod(0)
            if os.access(path, os.R_OK):
                pytest.skip("this user reads everything")
        case "nul":
            path = tmp_path / "a\0b"
        case _:
            (tmp_path / "file").touch()
            assert sidecar.read(tmp_path / "file" / "a.tune.json") is None
            return
    found = sidecar.read(path)
    assert isinstance(found, Unreadable)
    assert found.why in (
        "not a regular file",
        "cannot be read: Too many levels of symbolic links",
        "cannot be read: Permission denied",
        "cannot be read: Is a directory",
        "cannot be read: embedded null byte",
    )


def test_folder_that_cannot_hold_a_lock_is_an_error_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(WorkFailed, match=r"cannot lock .*a\.tune\.json"):
        put(tmp_path / "file" / "a.tune.json", f="a")


def test_folder_in_the_place_of_a_sidecar_is_no_place_to_write(tmp_path: Path) -> None:
    path = tmp_path / "app.tune.json"
    sidecar.require_writable(path)
    assert not path.exists()
    path.mkdir()
    with pytest.raises(WorkFailed, match="a folder"):
        sidecar.require_writable(path)


def test_leftovers_of_killed_writers_go_after_an_hour_and_nothing_else_does(tmp_path: Path) -> None:
    path = tmp_path / "a.tune.json"
    names = [
        ".a.tune.json.old1.tmp",
        ".a.tune.json.new1.tmp",
        ".other.tune.json.old1.tmp",
        ".a.tune.json.keep",
    ]
    for name in names:
        (tmp_path / name).touch()
        if "new" not in name:
            os.utime(tmp_path / name, (0, time.time() - 2 * emit.STALE_TEMPORARY_S))
    put(path, f="a")
    left = {name for name in os.listdir(tmp_path) if name.startswith(".")}
    assert left == {*names[1:], ".a.tune.json.lock"}


def _upsert(path: str, writer: int, rounds: int) -> None:
    for count in range(rounds):
        put(Path(path), **{f"w{writer}_{count}": "a"})


def test_concurrent_writers_lose_no_entry(tmp_path: Path) -> None:
    path = tmp_path / "a.tune.json"
    spawn = multiprocessing.get_context("fork")
    writers = [spawn.Process(target=_upsert, args=(str(path), writer, 5)) for writer in range(4)]
    for process in writers:
        process.start()
    for process in writers:
        process.join(60)
        assert process.exitcode == 0
    found = sidecar.read(path)
    assert isinstance(found, Document)
    assert len(found.kernels) == 20


def test_lock_of_a_killed_holder_is_free_at_once(tmp_path: Path) -> None:
    path = tmp_path / "a.tune.json"
    hold = (
        "import sys, time, pathlib; from tunebuild import emit\n"
        "with emit.locked(pathlib.Path(sys.argv[1])):\n    print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(path)], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        holder.kill()
        holder.wait()
    assert put(path, f="a").kernels == {"f": "a"}

"""Profiles that are there and do not serve: never stamped, and named once by each command, with what to do."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Project
from pair_project import FALLEN, SHIPPED, made_in, own_class, ship, stamped

from tunebuild.features import CLASSES, class_arch, ladder

pytestmark = pytest.mark.cc
SERVING = {"one_version": "1", "two_version": "1"}


@pytest.fixture
def pair(tmp_path: Path) -> Project:
    return made_in(tmp_path)


def edited(change: Callable[[dict[str, dict[str, object]]], object]) -> Callable[[Path], None]:
    def edit(path: Path) -> None:
        document = json.loads(path.read_text())
        change(document)
        path.write_text(json.dumps(document))

    return edit


def tear(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def become_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def turn_in_circles(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


OTHER_CLASS = next(name for name in CLASSES if name != own_class())
OTHER_ARCH = next(arch for arch in ("x86_64", "aarch64") if arch != class_arch(own_class()))
DAMAGES = {
    "torn": (tear, "it is unreadable: not JSON at line 1"),
    "empty": (empty, "it is unreadable: the file is empty"),
    "folder": (become_a_folder, "it is no regular file; remove it"),
    "loop": (turn_in_circles, "it cannot be read: Too many levels of symbolic links"),
    "renamed": (
        edited(lambda d: d["provenance"].update({"class": OTHER_CLASS})),
        f"it says class '{OTHER_CLASS}'; name it {OTHER_CLASS}.tune-defaults.json if it is that, or run",
    ),
    "arch": (edited(lambda d: d["provenance"].update(arch=OTHER_ARCH)), f"it says arch '{OTHER_ARCH}'"),
    "format": (edited(lambda d: d.update(format=9)), "it is written in format 9"),  # type: ignore[call-overload]
    "no name": (
        edited(lambda d: d["kernels"].update(add="\x1b[31mu2")),
        r"`kernels` holds '\x1b[31mu2', which is no name",
    ),
    "version": (
        edited(lambda d: d["provenance"].update(one_version="2\x1b]0;x\x07", two_version="2\x1b]0;x\x07")),
        "it has one_version 2?]0;x?, this tree has 1; run `tunebuild mint`",
    ),
    "no winner": (edited(lambda d: d["kernels"].clear()), "it names no winner"),
    "another tree": (
        edited(lambda d: d.update(kernels={"gone": "u2"})),
        "it names no seat of this tree; run `tunebuild mint`, then `tunebuild profile export`",
    ),
}  # fmt: skip


def told(project: Project, *words: str) -> str:
    """What a command says on both streams, on one line."""
    done = project.run(*words)
    assert "\x1b" not in done.stdout + done.stderr
    return " ".join((done.stderr + done.stdout).split())


@pytest.mark.parametrize("damage", DAMAGES)
def test_profile_that_does_not_serve_is_named_once_by_status_build_and_why(
    pair: Project, damage: str
) -> None:
    path = ship(pair, **SERVING)
    assert stamped(pair) == SHIPPED
    spoil, why = DAMAGES[damage]
    spoil(path)
    assert stamped(pair) == FALLEN
    for words in (("status",), ("build",), ("status",), ("why", "add"), ("profile", "list")):
        said = told(pair, *words)
        assert f"{path} is passed over: {why}" in said, words
        if words != ("profile", "list"):  # that one tells of each scope
            assert said.count("is passed over") == (2 if damage == "version" and words[0] != "why" else 1)
    document = json.loads(pair.run("status", "--json").stdout.splitlines()[-1])
    assert all("is passed over: " in scope["detail"] for scope in document["scopes"])


def test_next_lower_class_serves_and_the_one_above_is_named_all_the_same(pair: Project) -> None:
    lower = ladder(own_class())[-1]
    if lower == own_class():
        pytest.skip(f"{lower} is the lowest class")
    tear(ship(pair, **SERVING))
    ship(pair, lower, **SERVING)
    assert stamped(pair) == SHIPPED
    assert told(pair, "build").count("is passed over: it is unreadable") == 1
    document = json.loads(pair.run("status", "--json").stdout.splitlines()[-1])
    assert document["scopes"][0]["detail"].startswith(f"covered by the {lower} profile; ")


def test_silent_and_frozen_builds_do_not_speak_of_it(pair: Project) -> None:
    tear(ship(pair, **SERVING))
    assert "passed over" not in pair.run("build", TUNEBUILD_VERBOSITY="silent").stderr
    assert "passed over" not in pair.run("build", "--frozen").stderr


def test_row_that_is_no_row_of_the_grid_falls_to_the_chain_by_name(pair: Project) -> None:
    ship(pair, winner="u9", **SERVING)
    said = told(pair, "build")
    assert "names u9 for add, which is no row of this grid; it runs u1 (fallback)" in said


def test_pipe_of_a_profiles_name_holds_no_command(pair: Project) -> None:
    path = ship(pair, **SERVING)
    path.unlink()
    os.mkfifo(path)
    assert "it is no regular file" in told(pair, "profile", "list")
    assert "it is no regular file" in told(pair, "status")


def test_show_of_a_class_whose_profile_does_not_serve_says_why(pair: Project) -> None:
    path = ship(pair, **SERVING)
    tear(path)
    done = pair.run("profile", "show", own_class(), code=2)
    assert (
        f"{path}: it is unreadable: not JSON" in " ".join(done.stderr.split()) and "restore it" in done.stderr
    )

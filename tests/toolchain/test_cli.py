"""The command line's manners: codes, one document with --json, no traceback whatever the streams are."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from conftest import Project


def test_outside_a_project_a_command_says_so_and_makes_nothing(project: Project) -> None:
    empty = project.home / "nowhere"
    empty.mkdir()
    done = project.run("-C", str(empty), "build", code=2)
    assert "there is no tune.toml" in done.stderr and "tunebuild init" in done.stderr
    assert list(empty.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        ("why", "nope", "--json"),
        ("explain", "nope__x", "--json"),
        ("profile", "export", "--json"),
        ("bogus", "--json"),
    ],
)
def test_an_error_with_json_ends_in_one_document(project: Project, words: tuple[str, ...]) -> None:
    done = project.run(*words, code=None)
    assert done.returncode in (2, 3)
    document = json.loads(done.stdout.splitlines()[-1])
    assert document["exit"] == done.returncode and document["error"]
    assert done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("redirect", ["> /dev/full", ">&-", "2>&-", "| head -0"])
@pytest.mark.parametrize("command", ["box", "check"])
def test_odd_streams_give_no_traceback(project: Project, command: str, redirect: str) -> None:
    done = subprocess.run(
        ["bash", "-c", f"'{sys.executable}' -m tunebuild {command} {redirect}"],
        cwd=project.root,
        env=project.environ(),
        capture_output=True,
        text=True,
    )
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr


def test_help_names_every_command(project: Project) -> None:
    text = project.run("--help").stdout
    for name in (
        "init",
        "check",
        "build",
        "test",
        "mint",
        "run",
        "status",
        "why",
        "release",
        "profile",
        "box",
    ):
        assert f"\n    {name} " in text

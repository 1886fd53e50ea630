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


@pytest.mark.parametrize(
    ("words", "what", "fix"),
    [
        (("bild",), "argument COMMAND: invalid choice: 'bild'", "did you mean build?"),
        (("zzz",), "argument COMMAND: invalid choice: 'zzz'", "write one of init, check, build, test,"),
        (("build", "--mode", "turn"), "argument --mode: invalid choice: 'turn'", "did you mean tune?"),
        (("mint", "--stael"), "unrecognized arguments: --stael", "did you mean --stale?"),
        (("mint", "--onyl=dot"), "unrecognized arguments: --onyl=dot", "did you mean --only?"),
        (("status", "here"), "unrecognized arguments: here", "usage: tunebuild status [-h] [--json] [--app APP]"),
        (("why",), "the following arguments are required: family", "usage: tunebuild why [-h] [--json]"),
        (("run", "demo", "--fast"), "unrecognized arguments: --fast", "after --: tunebuild run demo -- --fast"),
    ],
)  # fmt: skip
def test_wrong_words_end_in_the_shape_of_every_error(
    project: Project, words: tuple[str, ...], what: str, fix: str
) -> None:
    done = project.run(*words, code=2)
    assert done.stdout == ""
    first, second = done.stderr.splitlines()
    assert first == f"tunebuild: {what}" and fix in second and second.startswith("  ")
    document = json.loads(project.run(*words, "--json", code=2).stdout)
    assert set(document) == {"error", "where", "fix", "exit"}
    assert what in document["error"] and document["exit"] == 2


@pytest.mark.parametrize(
    ("variable", "what"),
    [("TUNEBUILD_POLICY", "'bogus' is no policy"), ("TUNEBUILD_MODE", "'bogus' is no mode")],
)
@pytest.mark.parametrize("command", ["build", "status", "check", "test", "mint", "release", "history"])
def test_word_in_the_environment_that_is_none_stops_every_command_with_one_error(
    project: Project, command: str, variable: str, what: str
) -> None:
    done = project.run(command, code=2, **{variable: "bogus"})
    first, second = done.stderr.splitlines()
    assert what in first and second.startswith("  set ") and done.stdout == ""
    assert not (project.root / "build").exists()


@pytest.mark.cc
def test_environment_says_the_mode_of_a_build_where_no_option_does(project: Project) -> None:
    def mode(*words: str, says: str) -> str:
        found = json.loads(project.run("build", "--json", *words, TUNEBUILD_MODE=says).stdout)
        return str(found["mode"])

    assert mode(says="tune") == "tune" and not (project.root / "build/normal").exists()
    assert project.run("build", TUNEBUILD_MODE="tune").stdout == "ninja: no work to do.\n"
    assert not (project.root / "build/normal").exists()
    assert mode("--mode", "normal", says="tune") == "normal" and (project.root / "build/normal").exists()
    assert mode(says="") == "normal"


def test_gate_of_a_family_that_is_none_says_so_before_it_compiles(project: Project) -> None:
    done = project.run("test", "dot_f32", "nope", code=2)
    assert done.stderr.splitlines() == ["tunebuild: there is no family nope", "  there are: dot_f32"]
    assert not (project.root / "build").exists()


def test_project_in_a_folder_with_the_name_of_a_c_header_gets_another(project: Project) -> None:
    project.run("init", "math")
    assert 'name = "project_math"' in (project.root / "math/tune.toml").read_text()
    project.run("-C", "math", "check")


def test_filters_of_a_mint_add_up(project: Project) -> None:
    project.run("add", "family", "scale")
    seats = json.loads(project.run("mint", "--dry-run", "--json", "--only", "dot", "--only", "=scale").stdout)
    assert seats == {"seats": ["dot_f32", "scale"]}
    one = json.loads(project.run("mint", "--dry-run", "--json", "--only", "dot").stdout)
    assert one == {"seats": ["dot_f32"]}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("NULL", "`NULL` means something else in C"),
        ("size_t", "`size_t` means something else in C"),
        ("int", "`int` is no C name"),
        ("status", "`status` cannot name a family"),
        ("tb_x", "`tb_x`: the prefix `tb_` is reserved"),
    ],
)
def test_family_of_a_name_that_no_function_can_have_is_not_added(
    project: Project, name: str, words: str
) -> None:
    before = (project.root / "tune.toml").read_text()
    assert words in project.run("add", "family", name, code=2).stderr
    assert (project.root / "tune.toml").read_text() == before


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

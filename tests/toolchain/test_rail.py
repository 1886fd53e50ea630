"""The rail and the release on a real project of two scopes: real executables, real builds, a stub for a tuner."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from rail_tree import (
    PLAIN_STATUS,
    TUNED_STATUS,
    Tree,
    built_in,
    copied,
    tree_bytes,
    tuner_lines,
    tuning_lines,
)

from tunebuild import policy

pytestmark = [
    pytest.mark.cc,
    pytest.mark.skipif(not (shutil.which("gcc") or shutil.which("clang")), reason="no gcc and no clang"),
]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    return built_in(tmp_path_factory.mktemp("rail"))


@pytest.fixture(scope="module")
def tuned(built: Tree) -> Tree:
    """The same after one start of its executable, which tunes it; the first test looks at what it said."""
    tree = copied(built.root, built.root.parent / "tuned once", built.cache)
    done = tree.run("a", "--", "b", CODE="7")
    (tree.root / "stdout").write_text(done.stdout)
    (tree.root / "stderr").write_text(done.stderr)
    (tree.root / "code").write_text(str(done.returncode))
    return tree


@pytest.fixture
def fresh(built: Tree, tmp_path: Path) -> Tree:
    return copied(built.root, tmp_path / "a tree", built.cache)


@pytest.fixture
def minted(tuned: Tree, tmp_path: Path) -> Tree:
    return copied(tuned.root, tmp_path / "a tree", tuned.cache)


NO_FILTER = "{'ONLY': '', 'RELAUNCH': ''}"

# --- auto -----------------------------------------------------------------------------------------


def test_one_start_on_an_untuned_box_tunes_both_scopes_and_serves_their_rows(tuned: Tree) -> None:
    said, told = (tuned.root / "stdout").read_text(), (tuned.root / "stderr").read_text()
    assert said == "sum 5\nargument a\nargument --\nargument b\n" + TUNED_STATUS
    assert (tuned.root / "code").read_text() == "7", "the program's own code"
    assert tuning_lines(told) == [
        f"{policy.TUNING_SCOPE} {scope} into {tuned.sidecar}; this takes a while, "
        "the program starts by itself when it is done"
        for scope in ("one", "two")
    ]
    assert tuner_lines(told) == [NO_FILTER, NO_FILTER] and "profile" not in told
    assert tuned.winners == {"f": "u2", "g": "u2"}, "the second tuner kept what the first wrote"


def test_the_start_after_a_mint_runs_no_tuner_and_says_nothing(minted: Tree) -> None:
    done = minted.run()
    assert done.stdout.endswith(TUNED_STATUS) and done.stderr == ""
    again = minted.tool("run", "demo", "--", "x", CODE="9")
    assert again.returncode == 9 and "argument x" in again.stdout and "tuner" not in again.stderr


def test_tune_runs_the_tuners_of_a_complete_box_and_tune_only_those_named(minted: Tree) -> None:
    done = minted.run("--", "--tune-only=f", WINNER="u1")
    assert tuner_lines(done.stderr) == ["{'ONLY': '=f', 'RELAUNCH': ''}"]
    assert "argument --tune-only" not in done.stdout and "f: u1 (manifest)" in done.stdout
    assert minted.winners == {"f": "u1", "g": "u2"}
    done = minted.tool("run", "demo", "--tune", WINNER="u1")
    assert minted.winners == {"f": "u1", "g": "u1"} and "g: u1 (manifest)" in done.stdout


def test_filters_of_one_start_add_up_at_both_doors(minted: Tree) -> None:
    done = minted.run("--", "--tune-only=f", "--tune-only", "g", "x", WINNER="u1")
    assert minted.winners == {"f": "u1", "g": "u1"} and "argument --\nargument x\n" in done.stdout
    minted.tool("run", "demo", "--tune-only", "f", "--tune-only=g")
    assert minted.winners == {"f": "u2", "g": "u2"}


def test_filter_that_names_no_seat_is_said_and_the_program_runs_untouched(minted: Tree) -> None:
    said = "tunebuild: no seat's name holds a token of 'zzz': nothing to race; the seats are: f, g"
    before = minted.sidecar.read_bytes()
    done = minted.run("--", "--tune-only", "zzz")
    assert done.stderr.splitlines() == [said] and done.stdout.endswith(TUNED_STATUS)
    assert minted.sidecar.read_bytes() == before
    minted.sidecar.unlink()
    done = minted.tool("run", "demo", "--tune-only=zzz")
    assert tuning_lines(done.stderr) == [] and "is left incomplete" not in done.stderr
    assert said in done.stderr and done.returncode == 0 and not minted.sidecar.exists()


def test_filter_of_the_environment_narrows_what_a_start_races(fresh: Tree) -> None:
    done = fresh.run(TUNEBUILD_ONLY="g")
    assert tuner_lines(done.stderr) == ["{'ONLY': '=g', 'RELAUNCH': ''}"] and fresh.winners == {"g": "u2"}
    assert "scope two into" in done.stderr and "scope one into" not in done.stderr
    again = fresh.run(TUNEBUILD_ONLY="g")
    assert tuner_lines(again.stderr) == [] and "g: u2 (manifest)" in again.stdout
    said = "tunebuild: no seat's name holds a token of 'g': nothing to race; the seats are: f"
    assert said in again.stderr.splitlines()
    fresh.run("--", "--tune", WINNER="u1", TUNEBUILD_ONLY="g")
    assert fresh.winners == {"g": "u1"}
    fresh.run("--", "--tune-only=f", TUNEBUILD_ONLY="g")
    assert fresh.winners == {"f": "u2", "g": "u1"}, "what is asked of this start outranks it"


def test_dry_run_names_what_the_scopes_own_tuners_would_race(minted: Tree) -> None:
    assert minted.tool("mint", "--app", "demo", "--dry-run").stdout == "f\ng\n"
    assert minted.tool("mint", "--app", "demo", "--dry-run", "--only", "=g").stdout == "g\n"
    assert minted.tool("mint", "--app", "demo", "--dry-run", "--stale").stdout == "nothing to race\n"
    minted.edit('module = "b"\ntuner = "tuner.py"', 'module = "b"\ntuner = "none"')
    assert minted.tool("mint", "--app", "demo", "--dry-run").stdout == "f\n"


@pytest.mark.parametrize("word", ["quiet", "verbose"])
def test_tuner_of_a_mint_by_hand_is_told_how_loud_it_may_be(fresh: Tree, word: str) -> None:
    with (fresh.root / "tuner.py").open("a") as stream:
        stream.write('open("loud", "a").write(os.environ["TUNEBUILD_VERBOSITY"] + ";")\n')
    done = fresh.tool("mint", "--app", "demo", f"--{word}")
    loud = {"quiet": "silent", "verbose": "verbose"}[word]
    assert done.returncode == 0 and (fresh.root / "loud").read_text() == f"{loud};" * 2
    command = shlex.join((sys.executable, str(fresh.root / "tuner.py")))
    assert (f"tunebuild: {command}" in done.stderr) == (word == "verbose")


def test_failing_tuner_leaves_the_scope_incomplete_and_the_program_runs(fresh: Tree) -> None:
    done = fresh.run(FAIL="1")
    assert done.returncode == 0 and PLAIN_STATUS in done.stdout and not fresh.sidecar.exists()
    assert "tunebuild: scope one is left incomplete:" in done.stderr and "tuner exited 1" in done.stderr


def test_refused_mint_is_told_in_full_once_and_not_tried_again_for_a_while(fresh: Tree) -> None:
    loud = {"TUNEBUILD_NOISE_OVERRIDE": ""}
    done = fresh.run(FAIL="3", **loud)
    assert done.returncode == 0 and PLAIN_STATUS in done.stdout and len(tuner_lines(done.stderr)) == 2
    assert "scope one is left incomplete: absent" in done.stderr
    line = next(line for line in done.stderr.splitlines() if "its last mint was refused" in line)
    assert re.fullmatch(
        r"tunebuild: demo runs the rows it has until \d\d:\d\d: its last mint was refused "
        r"\(the tuner of one and of two refused to measure\); start it with --tune to race now",
        line,
    )
    again = fresh.run(**loud)
    assert again.returncode == 0 and PLAIN_STATUS in again.stdout and again.stderr == line + "\n"
    assert fresh.tool("run", "demo", **loud).stderr == line + "\n"
    assert not fresh.sidecar.exists()
    forced = fresh.run("--", "--tune", **loud)
    assert forced.stdout.endswith(TUNED_STATUS) and "was refused" not in forced.stderr
    fresh.sidecar.unlink()
    assert len(tuner_lines(fresh.run(**loud).stderr)) == 2, "a mint that was not refused takes the note away"


def test_failed_tuner_is_run_again_after_a_while_or_when_asked_and_not_at_each_start(fresh: Tree) -> None:
    first = fresh.run(FAIL="1")
    assert len(tuner_lines(first.stderr)) == 2 and PLAIN_STATUS in first.stdout
    assert "the tool exited" not in first.stderr, "said once"
    line = next(line for line in first.stderr.splitlines() if "its last mint failed" in line)
    assert re.fullmatch(
        r"tunebuild: demo runs the rows it has until \d\d:\d\d: its last mint failed \(the tuner of one ended with 1; "
        r"the tuner of two ended with 1\); start it with --tune to race now",
        line,
    )
    again = fresh.run()
    assert PLAIN_STATUS in again.stdout and again.stderr == line + "\n"
    forced = fresh.run("--", "--tune")
    assert forced.stdout.endswith(TUNED_STATUS) and "its last mint" not in forced.stderr
    fresh.sidecar.unlink()
    assert len(tuner_lines(fresh.run().stderr)) == 2, "a mint that did not fail takes the note away"


def test_failed_tuner_that_a_person_ran_keeps_the_next_start_from_running_it(fresh: Tree) -> None:
    assert fresh.tool("mint", "--app", "demo", FAIL="7").returncode == 1
    done = fresh.run()
    assert "(the tuner of one ended with 7; the tuner of two ended with 7)" in done.stderr
    assert tuner_lines(done.stderr) == [] and PLAIN_STATUS in done.stdout
    assert fresh.tool("mint", "--app", "demo").returncode == 0
    assert fresh.run().stdout.endswith(TUNED_STATUS)


def test_tuner_that_records_everything_and_exits_1_keeps_no_start_waiting(fresh: Tree) -> None:
    with (fresh.root / "tuner.py").open("a") as stream:
        stream.write("sys.exit(1)\n")
    done = fresh.run()
    assert done.stdout.endswith(TUNED_STATUS)
    assert "tunebuild: scope one is complete; the tuner exited 1" in done.stderr
    template = fresh.root / "kernels/templates/f/kernel.c.j2"
    template.write_text(template.read_text().replace("{\n", "{\n    (void)n;\n", 1))
    again = fresh.tool("run", "demo", WINNER="u1")
    assert (
        tuner_lines(again.stderr) == ["{'ONLY': '=f', 'RELAUNCH': ''}"] and "f: u1 (manifest)" in again.stdout
    )


def test_box_that_is_too_loud_is_probed_by_the_first_start_alone(fresh: Tree) -> None:
    for scope in ("a", "b"):
        fresh.edit(f'module = "{scope}"\ntuner = "tuner.py"', f'module = "{scope}"')
    with (fresh.root / "tune.toml").open("a") as stream:
        stream.write("[measure]\nsettle_s = 0.0\nprobe_windows = 3\nprobe_window_ms = 2.0\n")
        stream.write("note_cv_pct = 0.0\nceiling_cv_pct = 0.0\n")
    fresh.build()
    done = fresh.run(TUNEBUILD_NOISE_OVERRIDE="")
    assert done.returncode == 0 and PLAIN_STATUS in done.stdout and "@tune abort reason=noise" in done.stderr
    assert "too loud to measure on: the probe's cv is" in done.stderr
    again = fresh.run(TUNEBUILD_NOISE_OVERRIDE="")
    assert PLAIN_STATUS in again.stdout and len(again.stderr.splitlines()) == 1
    assert "its last mint was refused (this box is too loud to measure on: the probe's cv is" in again.stderr
    asked = fresh.run("--", "--tune", TUNEBUILD_NOISE_OVERRIDE="")
    assert "@tune abort reason=noise" in asked.stderr


def test_no_file_of_the_callers_folder_passes_for_a_module_of_the_tool(fresh: Tree, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    for name in ("tunebuild", "json", "shutil"):
        (folder / f"{name}.py").write_text("raise SystemExit('not meant')\n")
    done = fresh.call("env", "-C", folder, fresh.exe)
    assert done.stdout.endswith(TUNED_STATUS) and "not meant" not in done.stderr


def test_starts_at_the_same_time_tune_once_and_all_of_them_serve_it(fresh: Tree) -> None:
    started = [fresh.begin(fresh.exe, str(number), PAUSE="1") for number in range(3)]
    ended = [process.communicate() for process in started]
    assert [process.returncode for process in started] == [0, 0, 0]
    for number, (said, told) in enumerate(ended):
        assert said == f"sum 5\nargument {number}\n" + TUNED_STATUS, told
    assert tuner_lines("".join(told for _, told in ended)) == [NO_FILTER, NO_FILTER]


def test_program_whose_author_calls_the_guard_tunes_there_and_not_before(fresh: Tree) -> None:
    fresh.edit('kind = "exe"', 'kind = "exe"\nguard = "manual"')
    path = fresh.root / "apps/demo.c"
    call = "int stop = argc > 1 ? demo_tune_guard(argc, argv) : 0; if (stop) return stop;"
    path.write_text(path.read_text().replace("{\n", f'{{\n    puts("first"); {call}\n', 1))
    fresh.build()
    done = fresh.run()
    assert done.stdout == "first\nsum 5\n" + PLAIN_STATUS and done.stderr == "", "nobody called it"
    done = fresh.run("x")
    assert done.stdout == "first\nfirst\nsum 5\nargument x\n" + TUNED_STATUS
    refused = fresh.run("x", TUNEBUILD_POLICY="nonsense")
    assert refused.returncode == 2 and refused.stdout == "first\n"


def test_start_waits_for_a_mint_by_hand_and_serves_what_it_wrote(fresh: Tree) -> None:
    mint = fresh.begin(sys.executable, "-m", "tunebuild", "mint", "--app", "demo", PAUSE="2")
    held = fresh.root / "build/.tuning.lock"
    while not (held.exists() and held.read_text()):
        assert mint.poll() is None
        time.sleep(0.01)
    done = fresh.run()
    said, told = mint.communicate()
    assert mint.returncode == 0 and len(tuner_lines(said + told)) == 2
    assert done.stdout.endswith(TUNED_STATUS) and tuner_lines(done.stderr) == []
    assert f"waiting for it (held by process {mint.pid})" in done.stderr


def test_mint_of_what_is_stale_waits_for_a_start_and_finds_its_work_done(fresh: Tree) -> None:
    start = fresh.begin(fresh.exe, PAUSE="2")
    held = fresh.root / "build/.tuning.lock"
    while not (held.exists() and held.read_text()):
        assert start.poll() is None
        time.sleep(0.01)
    done = fresh.tool("mint", "--app", "demo", "--stale")
    said, told = start.communicate()
    assert said.endswith(TUNED_STATUS) and len(tuner_lines(told)) == 2
    assert done.returncode == 0 and tuner_lines(done.stdout + done.stderr) == []
    assert "another race runs here, waiting for it" in done.stderr


def living(root: Path) -> list[int]:
    """The processes that were started for this tree, by the words or the folder of each."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = place.joinpath("cmdline").read_bytes()
            if os.fsencode(root) in words or place.joinpath("cwd").resolve() == root:
                found.append(int(place.name))
    return found


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="this system cannot watch a process")
@pytest.mark.parametrize("door", ["executable", "run demo", "mint --app demo"])
def test_start_or_mint_that_is_killed_takes_its_tool_and_its_tuner_along(fresh: Tree, door: str) -> None:
    tool = (sys.executable, "-m", "tunebuild", *door.split())
    start = fresh.begin(*((fresh.exe,) if door == "executable" else tool), PAUSE="3600")
    assert start.stderr is not None
    while "tuner at work" not in (line := start.stderr.readline()):
        assert line, "it ended"
    assert len(living(fresh.root)) >= 2
    start.kill()
    start.communicate()
    while living(fresh.root):
        time.sleep(0.02)
    assert not fresh.sidecar.exists()
    assert fresh.run().stdout.endswith(TUNED_STATUS), "no lock is left"


@pytest.mark.parametrize("kind", ["folder", "pipe", "loop"])
def test_program_whose_sidecar_is_no_file_runs_and_says_so(fresh: Tree, kind: str) -> None:
    if kind == "folder":
        fresh.sidecar.mkdir()
    elif kind == "pipe":
        os.mkfifo(fresh.sidecar)
    else:
        fresh.sidecar.symlink_to(fresh.sidecar.name)
    done = fresh.run()
    assert done.returncode == 0 and PLAIN_STATUS in done.stdout
    assert "demo.tune.json" in done.stderr and "Traceback" not in done.stderr
    refused = fresh.run(TUNEBUILD_POLICY="error")
    assert refused.returncode == 3 and "scope one is untuned for this box: unreadable" in refused.stderr


def test_two_programs_beside_one_sidecar_serve_each_others_winners(fresh: Tree) -> None:
    fresh.edit(
        "[family.f]\n",
        '[app.second]\nkind = "exe"\nsources = ["apps/second.c"]\nsidecar = "demo"\n\n[family.f]\n',
    )
    (fresh.root / "apps/second.c").write_text(
        (fresh.root / "apps/demo.c").read_text().replace("demo", "second")
    )
    fresh.build()
    assert fresh.run().stdout.endswith(TUNED_STATUS)
    second = fresh.root / "build/normal/second"
    done = fresh.call(second)
    assert done.stdout.endswith(TUNED_STATUS.replace("demo", "second")) and tuner_lines(done.stderr) == []
    for program in (fresh.exe, second):
        assert fresh.call(program).stderr == ""
    fresh.call(second, "--", "--tune-only", "f", WINNER="u1")
    done = fresh.run()
    assert "f: u1 (manifest)" in done.stdout and tuner_lines(done.stderr) == []
    assert sorted(path.name for path in fresh.root.glob("*.tune.json")) == ["demo.tune.json"]


def test_program_is_found_by_link_and_relative_path_and_gets_its_arguments_whole(
    fresh: Tree, tmp_path: Path
) -> None:
    link = tmp_path / "a link"
    link.symlink_to(fresh.exe)
    done = fresh.call(
        "env", "-C", tmp_path, "./a link", "two words", "", "--", "--tune-only", "g", '$HOME "x"'
    )
    assert done.stdout.startswith('sum 5\nargument two words\nargument \nargument --\nargument $HOME "x"\n')
    assert fresh.winners == {"g": "u2"}


def test_environment_fallback_starts_the_fallback_rows_at_once(fresh: Tree) -> None:
    done = fresh.run(TUNEBUILD_POLICY="fallback")
    assert PLAIN_STATUS in done.stdout and not fresh.sidecar.exists()
    assert done.stderr == "tunebuild: policy fallback from TUNEBUILD_POLICY (demo would have auto)\n"


def test_run_without_a_name_takes_the_only_executable_and_names_it_otherwise(minted: Tree) -> None:
    assert minted.tool("run", "--", "y").stdout.splitlines()[1] == "argument y"
    library = minted.tool("run", "pair")
    assert (
        library.returncode == 2 and "app pair is no executable" in library.stderr and "demo" in library.stderr
    )
    assert minted.tool("run", "nothing").stderr.startswith("tunebuild: there is no app nothing")


def test_edit_of_one_template_races_its_seat_alone_at_the_next_start(minted: Tree) -> None:
    template = minted.root / "kernels/templates/f/kernel.c.j2"
    template.write_text(template.read_text().replace("{\n", "{\n    (void)n;\n", 1))
    done = minted.tool("run", "demo", WINNER="u1")
    assert len(tuning_lines(done.stderr)) == 1 and "scope one into" in done.stderr
    assert minted.winners == {"f": "u1", "g": "u2"} and "f: u1 (manifest)" in done.stdout


def test_unoptimised_program_is_not_tuned_unless_it_declares_a_policy(fresh: Tree) -> None:
    fresh.edit('sources = ["apps/demo.c"]', 'sources = ["apps/demo.c"]\ncflags = ["-O0"]')
    fresh.build()
    done = fresh.run()
    assert PLAIN_STATUS in done.stdout and done.stderr == "" and not fresh.sidecar.exists()
    fresh.edit('kind = "exe"', 'kind = "exe"\npolicy = "auto"')
    fresh.build()
    assert fresh.run().stdout.endswith(TUNED_STATUS)


def test_quiet_start_tunes_without_a_word(fresh: Tree) -> None:
    done = fresh.run("--", "--tune-quiet", "x")
    assert all(line.startswith("@tune ") for line in done.stderr.splitlines()), "events pass at any verbosity"
    assert done.stdout.endswith(TUNED_STATUS)
    assert "argument --tune-quiet\nargument x\n" in done.stdout, "what it says of verbosity stays"


RESOLVER = """
import os, subprocess, sys

def answer(scope, path, demand):
    if "ANSWER" not in os.environ:
        return False
    keys = [key for key in demand.split(";") if key[0] != "@"]
    environ = {**os.environ, "TUNEBUILD_MODE": "tune", "TUNEBUILD_MANIFEST": path, "WINNER": os.environ["ANSWER"]}
    environ["TUNEBUILD_ONLY"] = ",".join(f"={key}" for key in keys)
    subprocess.run([sys.executable, "tuner.py"], env=environ, cwd=os.path.dirname(path), stdout=2, check=True)
    return True
"""


@pytest.fixture
def asking(fresh: Tree) -> Tree:
    """Scope two has a resolver, which answers with the row that $ANSWER names."""
    (fresh.root / "resolver.py").write_text(RESOLVER)
    fresh.edit(
        'module = "b"\ntuner = "tuner.py"',
        'module = "b"\ntuner = "tuner.py"\nresolver = "resolver.py:answer"',
    )
    assert fresh.tool("build").returncode == 0
    return fresh


SUPPRESS = """
__attribute__((constructor)) static void forbid(void) { demo_tune_suppress("DEMO_NO_MINT=1 (100%)"); }
"""


def test_suppressed_mint_runs_no_tuner_writes_nothing_and_names_the_knob(fresh: Tree) -> None:
    with (fresh.root / "apps/demo.c").open("a") as stream:
        stream.write(SUPPRESS)
    assert fresh.tool("build").returncode == 0
    done = fresh.run()
    assert done.returncode == 0 and PLAIN_STATUS in done.stdout and not fresh.sidecar.exists()
    assert done.stderr.splitlines() == [
        f"tunebuild: scope {scope} stays untuned: no minting, by DEMO_NO_MINT=1 (100%)"
        for scope in ("one", "two")
    ]
    assert fresh.run("--", "--tune").returncode == 0 and fresh.winners == {"f": "u2", "g": "u2"}


def test_suppressed_mint_leaves_the_resolver_its_say(asking: Tree) -> None:
    with (asking.root / "apps/demo.c").open("a") as stream:
        stream.write(SUPPRESS)
    assert asking.tool("build").returncode == 0
    done = asking.run("x", ANSWER="u2")
    assert done.returncode == 0 and asking.winners == {"g": "u2"}
    assert (
        "argument x" in done.stdout
        and "f: u1 (fallback)" in done.stdout
        and "g: u2 (manifest)" in done.stdout
    )
    knob = "tunebuild: scope one stays untuned: no minting, by DEMO_NO_MINT=1 (100%)"
    assert done.stderr.splitlines().count(knob) == 1 and "scope two stays" not in done.stderr
    assert "converge" not in done.stderr and tuning_lines(done.stderr) == []
    assert asking.run().stderr == knob + "\n"


def test_resolver_is_asked_before_the_tuner_and_its_winners_are_stamped(asking: Tree) -> None:
    done = asking.run(ANSWER="u1")
    assert [line for line in tuning_lines(done.stderr) if "scope one" in line] == tuning_lines(done.stderr)
    assert asking.winners == {"f": "u2", "g": "u1"} and "g: u1 (manifest)" in done.stdout


def test_forced_start_asks_no_resolver(asking: Tree) -> None:
    asking.run("--", "--tune", ANSWER="u1")
    assert asking.winners == {"f": "u2", "g": "u2"}


def test_supervisor_is_asked_to_restart_after_a_resolver_too(asking: Tree) -> None:
    asking.edit('kind = "exe"', 'kind = "exe"\npolicy = "restart"')
    assert asking.tool("build").returncode == 0
    assert asking.run().returncode == policy.RESTART_EXIT and asking.winners == {"f": "u2"}
    done = asking.run(ANSWER="u1")
    assert done.returncode == policy.RESTART_EXIT and policy.RESTART_MARKER in done.stderr.splitlines()
    assert tuning_lines(done.stderr) == [] and asking.winners == {"f": "u2", "g": "u1"}
    done = asking.run()
    assert done.returncode == 0 and done.stderr == "" and "g: u1 (manifest)" in done.stdout


# --- the other flavours ---------------------------------------------------------------------------


def ninja(tree: Tree, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    from tunebuild import front

    return tree.call(front.ninja_path(), "-f", "build/build.ninja", *words, **environ)


def test_plain_ninja_that_generates_anew_holds_the_apps_to_their_policies(fresh: Tree) -> None:
    fresh.edit('kind = "exe"', 'kind = "exe"\npolicy = "error"')
    done = ninja(fresh)
    assert done.returncode != 0
    for word in ("scope one is untuned", "scope two is untuned", "tunebuild mint --app demo"):
        assert word in done.stdout + done.stderr
    assert ninja(fresh, "tune", TUNEBUILD_MODE="tune").returncode == 0, "no policy acts where rows are made"
    assert fresh.tool("mint", "--app", "demo").returncode == 0
    fresh.edit("u = [1, 2]\n[family.f.args]", "u = [1, 2, 3]\n[family.f.args]")
    done = ninja(fresh)
    assert done.returncode != 0 and "stale_binary" in done.stdout + done.stderr
    done = ninja(fresh, TUNEBUILD_POLICY="warn")
    assert done.returncode == 0 and "WARNING: scope one is untuned" in done.stdout + done.stderr


def test_error_refuses_to_build_and_names_the_verdict_and_the_way_out(fresh: Tree) -> None:
    fresh.edit('kind = "exe"', 'kind = "exe"\npolicy = "error"')
    done = fresh.tool("build")
    assert done.returncode == 3
    for word in ("scope one is untuned", "scope two is untuned", "absent", "tunebuild mint --app demo"):
        assert word in done.stderr
    frozen = fresh.tool("build", "--frozen")
    assert frozen.returncode == 0 and "tunebuild:" not in frozen.stderr, "it obeys no policy"


def test_warn_builds_and_says_it(fresh: Tree) -> None:
    done = fresh.tool("build", TUNEBUILD_POLICY="warn")
    assert done.returncode == 0 and done.stderr.count("WARNING: scope") == 2
    assert "tunebuild: policy warn from TUNEBUILD_POLICY (demo would have auto)" in done.stderr


def test_scopes_without_a_tuner_are_never_said_to_be_minted(fresh: Tree) -> None:
    fresh.edit('tuner = "tuner.py"', 'tuner = "none"')
    fresh.edit('kind = "exe"', 'kind = "exe"\npolicy = "warn"')
    said = fresh.build()
    assert (
        said.count("by hand") == 2 and f"write the winners of scope one into {fresh.sidecar} by hand" in said
    )
    warned = fresh.run()
    refused = fresh.run(TUNEBUILD_POLICY="error")
    for done in (warned, refused):
        for scope in ("one", "two"):
            line = f"scope {scope} is untuned for this box: absent (demo.tune.json); "
            assert f"{line}write the winners of scope {scope} into demo.tune.json by hand" in done.stderr
    hint = "write the winners of scope one into demo.tune.json by hand; write the winners of scope two"
    assert f"  to tune the rest: {hint} into demo.tune.json by hand\n" in warned.stdout
    shown = fresh.tool("status", "--app", "demo").stdout
    told = said + warned.stdout + warned.stderr + refused.stderr + shown
    assert "tunebuild mint" not in told and refused.returncode == 3


def test_supervisor_sees_the_marker_and_code_3_until_every_scope_is_tuned(fresh: Tree) -> None:
    fresh.edit('kind = "exe"', 'kind = "exe"\npolicy = "restart"')
    assert fresh.tool("build").returncode == 0
    starts = 0
    while True:
        done = fresh.run()
        if done.returncode != policy.RESTART_EXIT:
            break
        starts += 1
        assert policy.RESTART_MARKER in done.stderr.splitlines() and "sum" not in done.stdout
        assert len(tuning_lines(done.stderr)) == 1
        assert starts < 4
    assert starts == 2 and done.returncode == 0 and TUNED_STATUS in done.stdout


def test_another_version_makes_its_scope_alone_untuned_and_says_both(minted: Tree) -> None:
    minted.edit("A_VERSION = 1", "A_VERSION = 2")
    done = minted.tool("build", TUNEBUILD_POLICY="error")
    assert done.returncode == 3 and "scope two" not in done.stderr
    assert "version" in done.stderr and "1" in done.stderr and "2" in done.stderr


def test_reference_from_the_environment_clears_every_stamp(minted: Tree) -> None:
    done = minted.tool("run", "demo", TUNEBUILD_POLICY="reference")
    assert "f: reference (reference)" in done.stdout and "policy reference" in done.stderr
    assert "rows are stamped at build" not in done.stderr, "they were cleared"
    assert "(0/2 kernels tuned" in done.stdout and "to tune the rest: run it with -- --tune" in done.stdout
    assert minted.winners == {"f": "u2", "g": "u2"}


def test_start_under_reference_says_where_the_stamps_that_it_runs_are_cleared(minted: Tree) -> None:
    done = minted.run(TUNEBUILD_POLICY="reference")
    assert done.stdout.endswith(TUNED_STATUS)
    line = "tunebuild: rows are stamped at build: TUNEBUILD_POLICY=reference tunebuild build clears them"
    assert line in done.stderr.splitlines()


@pytest.mark.parametrize("declared", ["", 'policy = "error"'])
def test_explicit_sidecar_switches_the_rail_off_with_one_warning_a_scope(fresh: Tree, declared: str) -> None:
    fresh.edit('kind = "exe"', f'kind = "exe"\n{declared}')
    done = fresh.tool("build", TUNEBUILD_MANIFEST="/no/such.tune.json")
    lines = [line for line in done.stderr.splitlines() if "WARNING: TUNEBUILD_MANIFEST" in line]
    assert done.returncode == 0 and len(lines) == len(set(lines)) == 2
    assert all("/no/such.tune.json" in line and "absent" in line for line in lines)
    done = fresh.run(TUNEBUILD_MANIFEST="/no/such.tune.json")
    assert done.returncode == 0 and PLAIN_STATUS in done.stdout and tuner_lines(done.stderr) == []
    assert done.stderr.count("WARNING: TUNEBUILD_MANIFEST") == 2
    told = fresh.tool("run", "demo", TUNEBUILD_MANIFEST="/no/such.tune.json")
    assert PLAIN_STATUS in told.stdout and told.stderr.count("WARNING: TUNEBUILD_MANIFEST") == 2, (
        "by one door"
    )


def test_explicit_sidecar_is_found_from_the_folder_where_a_command_is_started(minted: Tree) -> None:
    named = minted.root / "apps/alt.json"
    document = json.loads(minted.sidecar.read_text())
    del document["digest"]
    named.write_text(json.dumps({**document, "kernels": {"f": "u1", "g": "u1"}}))
    ours = minted.environ({"TUNEBUILD_MANIFEST": "alt.json"})
    for folder, words in ((minted.root / "apps", ()), (Path("/"), ("-C", str(minted.root / "apps")))):
        command = [sys.executable, "-m", "tunebuild", *words]
        done = subprocess.run([*command, "build"], cwd=folder, env=ours, capture_output=True, text=True)
        assert done.returncode == 0 and "WARNING" not in done.stderr, done.stderr
        said = minted.run(TUNEBUILD_POLICY="fallback").stdout
        assert "f: u1 (manifest)\n  g: u1 (manifest)\n" in said
        minted.build()
        assert "f: u2 (manifest)" in minted.run().stdout


def test_covering_profile_is_named_and_nothing_is_raced(minted: Tree) -> None:
    minted.edit('version_of = "a/A_VERSION"\n', "")
    minted.edit('tuner = "tuner.py"\n\n[app', 'tuner = "tuner.py"\ndefaults = "profiles"\n\n[app')
    assert minted.tool("run", "demo", "--tune").returncode == 0
    assert minted.tool("profile", "export", "--app", "demo").returncode == 0
    minted.sidecar.unlink()
    done = minted.tool("run", "demo")
    assert "is covered by the" in done.stderr and "profile" in done.stderr and "tuner" not in done.stderr
    assert "(2/2 kernels tuned" in done.stdout and "f: u2 (profile)" in done.stdout
    assert not minted.sidecar.exists()
    assert "is covered by the" in minted.run().stderr


def test_frozen_build_runs_reference_bodies_and_reads_nothing(minted: Tree) -> None:
    assert minted.tool("build", "--frozen").returncode == 0
    done = minted.run("--", "--tune", TUNEBUILD_POLICY="error")
    assert done.returncode == 0 and done.stderr == ""
    assert "f: reference (reference)" in done.stdout and "(0/2" in done.stdout


# --- release --------------------------------------------------------------------------------------


def released(tree: Tree, *words: str, **environ: str) -> dict[str, Any]:
    done = tree.tool("release", *words, "--json", **environ)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_release_mints_although_complete_and_quick_inherits(minted: Tree) -> None:
    first = released(minted, "--app", "demo", "--quick")
    assert [plan["action"] for plan in first["scopes"]] == ["inherit", "inherit"]
    assert first["files"] == ["bin/demo", "demo.tune.json"] and "box linux" in first["provenance"]
    bundle = minted.root / "dist/demo"
    before = tree_bytes(bundle)
    assert before["demo.tune.json"] == minted.sidecar.read_bytes()
    assert (bundle / "demo.tune.json").stat().st_mtime > (bundle / "bin/demo").stat().st_mtime
    released(minted, "--app", "demo", "--quick")
    assert tree_bytes(bundle) == before, "the same sidecar, the same bytes"
    second = released(minted, "--app", "demo")
    assert [plan["action"] for plan in second["scopes"]] == ["mint", "mint"]
    assert all(check["word"] != "failed" for check in second["checks"])
    after = tree_bytes(bundle)
    assert {name for name in before if before[name] != after[name]} == {"demo.tune.json"}
    assert minted.run().stderr == "", "the tree keeps its own executable, with a rail"


def test_released_executable_has_status_and_no_rail(minted: Tree, tmp_path: Path) -> None:
    released(minted, "--app", "demo", "--quick")
    minted.exe = Path(shutil.copy(minted.root / "dist/demo/bin/demo", tmp_path / "elsewhere"))
    done = minted.run("--", "--tune", TUNEBUILD_POLICY="error")
    assert done.returncode == 0 and done.stderr == "" and TUNED_STATUS in done.stdout


@pytest.mark.parametrize(
    ("exited", "code", "says"),
    [("1", 1, "exited 1"), ("2", 1, "exited 1"), ("3", 3, "refused")],
)
def test_tuner_that_fails_or_refuses_ships_nothing_and_keeps_the_older_bundle(
    minted: Tree, exited: str, code: int, says: str
) -> None:
    done = minted.tool("release", "--app", "demo", FAIL=exited)
    assert done.returncode == code and f"the mint of demo {says}: nothing is released" in done.stderr
    assert f"the tuner of scope one ended with {exited}" in done.stderr
    assert not (minted.root / "dist").exists()
    released(minted, "--app", "demo", "--quick")
    before = tree_bytes(minted.root / "dist")
    assert minted.tool("release", "--app", "demo", FAIL=exited).returncode == code
    assert tree_bytes(minted.root / "dist") == before
    assert minted.run().stderr == "", "the tree keeps its executable and its winners"


@pytest.mark.parametrize("declared", ["auto", "error"])
def test_scope_that_nobody_tunes_ships_its_fallback_rows_whatever_the_trees_policy(
    fresh: Tree, declared: str
) -> None:
    fresh.edit('tuner = "tuner.py"', 'tuner = "none"')
    fresh.edit('kind = "exe"', f'kind = "exe"\npolicy = "{declared}"')
    done = fresh.tool("release", "--app", "demo")
    assert done.returncode == 0 and "released demo" in done.stdout
    for scope in ("one", "two"):
        warning = f"tunebuild: release: warning: scope {scope}: it has no tuner and is incomplete ("
        assert warning in done.stderr and f"write the winners of scope {scope} into" in done.stderr
    assert "f: u1 (fallback)" in fresh.call(fresh.root / "dist/demo/bin/demo").stdout
    assert fresh.tool("build").returncode == 3, "the tree obeys it as before"


def test_paranoid_release_is_one_without_quick(minted: Tree) -> None:
    done = minted.tool("release", "--app", "demo", "--paranoid")
    assert done.returncode == 0 and "scope one: mint, a release measures what it ships" in done.stderr
    quick = minted.tool("release", "--app", "demo", "--paranoid", "--quick")
    assert "tunebuild: --paranoid asks for what --quick leaves out: --quick it is" in quick.stderr
    assert quick.returncode == 0 and "scope one: inherit" in quick.stderr


def test_quick_release_of_an_incomplete_box_mints_and_says_why(fresh: Tree) -> None:
    done = fresh.tool("release", "--app", "demo", "--quick")
    assert done.returncode == 0 and done.stderr.count("--quick inherits a complete sidecar only") == 2
    assert json.loads((fresh.root / "dist/demo/demo.tune.json").read_text())["kernels"] == {
        "f": "u2",
        "g": "u2",
    }


def test_release_does_not_replace_a_folder_of_somebody_else(minted: Tree) -> None:
    done = minted.tool("release", "--app", "demo", "--quick", "-o", "apps")
    assert done.returncode == 2 and "holds something else" in done.stderr


@pytest.mark.parametrize(
    ("output", "why"),
    [
        ("/proc/x", "/proc/x cannot be written"),
        ("/proc/x/y", "/proc/x/y cannot be written"),
        ("tune.toml", "tune.toml is no folder"),
        ("tune.toml/x", "tune.toml/x cannot be written: Not a directory"),
    ],
)
def test_release_into_a_place_that_takes_no_folder_says_so_before_it_mints(
    minted: Tree, output: str, why: str
) -> None:
    done = minted.tool("release", "--app", "demo", "-o", output)
    assert done.returncode == 2 and why in done.stderr and "with -o" in done.stderr
    assert tuner_lines(done.stderr) == [] and "release: scope" not in done.stderr


def test_library_minted_again_with_equal_winners_is_the_same_but_for_its_sidecar(minted: Tree) -> None:
    released(minted)
    before = tree_bytes(minted.root / "dist/pair")
    released(minted)
    after = tree_bytes(minted.root / "dist/pair")
    assert {name for name in before if before[name] != after[name]} == {"pair.tune.json"}
    assert before.keys() == after.keys() and "lib/libpair.so" in before


CONSUMER = '#include "pair.h"\nint main(void) { int32_t x[] = {1, 2, 3}; return pair_tune_check() || f(x, 3) != 6; }\n'
CMAKE = """
cmake_minimum_required(VERSION 3.16)
project(user C)
find_package(pair REQUIRED)
add_executable(shared use.c)
target_link_libraries(shared pair::pair)
add_executable(static use.c)
target_link_libraries(static pair::static)
"""


@pytest.fixture(scope="module")
def bundle(tuned: Tree) -> Path:
    tree = copied(tuned.root, tuned.root.parent / "releases", tuned.cache)
    released(tree)
    return tree.root / "dist/pair"


def test_bundle_serves_cmake(bundle: Path, tmp_path: Path) -> None:
    if not shutil.which("cmake"):
        pytest.skip("no cmake")
    (tmp_path / "use.c").write_text(CONSUMER)
    (tmp_path / "CMakeLists.txt").write_text(CMAKE)
    for command in (["cmake", ".", f"-DCMAKE_PREFIX_PATH={bundle}"], ["cmake", "--build", "."]):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    assert subprocess.run([tmp_path / "shared"]).returncode == 0
    assert subprocess.run([tmp_path / "static"]).returncode == 0


def test_bundle_serves_plain_cc_by_pkg_config(bundle: Path, tmp_path: Path) -> None:
    if not shutil.which("pkg-config"):
        pytest.skip("no pkg-config")
    (tmp_path / "use.c").write_text(CONSUMER)
    environ = {**os.environ, "PKG_CONFIG_PATH": str(bundle / "lib/pkgconfig")}
    command = 'eval "cc use.c -Wall -Werror $(pkg-config --cflags --libs pair) -o use"'
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    environ["LD_LIBRARY_PATH"] = str(bundle / "lib")
    assert subprocess.run([tmp_path / "use"], env=environ).returncode == 0


def test_bundle_serves_python(bundle: Path, tuned: Tree) -> None:
    code = (
        "import numpy, tunebuild.consumer as c\n"
        f"p = c.load({str(bundle / 'lib/libpair.so')!r})\n"
        "print(p.f(numpy.arange(5, dtype=numpy.int32), 5), [r.suffix for r in p.status()])\n"
    )
    done = tuned.call(sys.executable, "-W", "error", "-c", code)
    assert done.stdout == "10 ['u2', 'u2']\n", done.stderr


# --- what is said of it ---------------------------------------------------------------------------


def test_table_log_function_proof_and_command_tell_the_same_rows(minted: Tree) -> None:
    minted.edit("A_VERSION = 1", "A_VERSION = 2")
    minted.build(TUNEBUILD_POLICY="fallback")
    document = json.loads(minted.tool("status", "--app", "demo", "--json").stdout.splitlines()[-1])
    rows = [(row["family"], row["scope"], row["suffix"], row["source"]) for row in document["families"]]
    assert rows == [("f", "one", "u1", "fallback"), ("g", "two", "u2", "manifest")]
    assert [row["path"] for row in document["families"]] == [str(minted.sidecar)] * 2, "where it would stand"
    one, two = document["scopes"]
    assert (one["scope"], one["complete"], one["reason"]) == ("one", False, "version")
    assert "recorded 1, expected 2" in one["detail"]
    assert two == {"scope": "two", "complete": True, "reason": "none", "detail": ""}
    done = minted.run(TUNEBUILD_POLICY="fallback", TUNEBUILD_STAMPS=str(minted.root / "proof"))
    logged = [f"  {family}: {suffix} ({source})" for family, _, suffix, source in rows]
    assert done.stdout.splitlines()[2:4] == logged
    proof = (minted.root / "proof").read_text().splitlines()
    assert proof == [f"demo\t{family}\t{suffix}\t{source}" for family, _, suffix, source in rows]


def test_reference_bodies_and_the_generated_header_are_plain_c(minted: Tree, tmp_path: Path) -> None:
    program = tmp_path / "plain.c"
    program.write_text(
        "int main(void)\n{\n    int32_t x[3] = {1, 2, 3};\n    g(x, 3);\n    return f(x, 3) == 0;\n}\n"
    )
    bodies = sorted(minted.root.glob("kernels/templates/*/reference.c"))
    assert len(bodies) == 2
    flags = (
        "-std=c17",
        "-Wall",
        "-Wextra",
        "-Werror",
        f"-I{minted.root / 'generated/include'}",
        "-include",
        "pair.h",
    )
    compiled = minted.call("cc", *flags, program, *bodies, "-o", tmp_path / "plain")
    assert compiled.returncode == 0, compiled.stderr
    assert minted.call(tmp_path / "plain").returncode == 0


def test_status_of_no_named_app_tells_how_the_others_stand(minted: Tree) -> None:
    for told in ("before a build", "after it"):
        said = minted.tool("status").stdout
        assert said.startswith("pair: 0/2 kernels tuned for this box\n"), told
        assert said.endswith("\nother apps: demo 2/2 tuned; --app NAME shows one\n"), told
        minted.build()
    assert "other apps" not in minted.tool("status", "--app", "pair").stdout


@pytest.mark.parametrize(
    ("environ", "coloured"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False), ({"NO_COLOR": ""}, True)],
    ids=str,
)
def test_status_is_coloured_on_a_terminal_that_wants_it(
    minted: Tree, environ: dict[str, str], coloured: bool
) -> None:
    screen, inner = pty.openpty()
    command = (sys.executable, "-m", "tunebuild", "status", "--app", "demo")
    plain = {name: value for name, value in minted.environ({}).items() if name != "NO_COLOR"}
    done = subprocess.run(
        command,
        cwd=minted.root,
        env={**plain, "TERM": "xterm", **environ},
        stdin=-3,
        stdout=inner,
        check=True,
    )
    os.close(inner)
    shown = b""
    with contextlib.suppress(OSError):  # the terminal's end
        while data := os.read(screen, 4096):
            shown += data
    os.close(screen)
    assert done.returncode == 0 and b"scope one: " in shown and (b"\x1b[" in shown) == coloured
    assert "\x1b[" not in minted.tool("status", "--app", "demo", TERM="xterm").stdout, "nor in a file"


def test_status_of_cleared_stamps_names_no_row(minted: Tree) -> None:
    done = minted.tool("status", "--app", "demo", "--json", TUNEBUILD_POLICY="reference")
    rows = json.loads(done.stdout.splitlines()[-1])["families"]
    assert [(row["suffix"], row["source"]) for row in rows] == [("", "reference")] * 2


@pytest.mark.parametrize(
    "words",
    [
        ("check",),
        ("status",),
        ("status", "--fleet", "."),
        ("why", "f"),
        ("profile", "list"),
        ("box",),
        ("history",),
        ("mint", "--dry-run"),
    ],
    ids=lambda words: words[0],
)
def test_reading_command_obeys_no_policy_and_makes_nothing(fresh: Tree, words: tuple[str, ...]) -> None:
    fresh.edit('kind = "exe"', 'kind = "exe"\npolicy = "error"')
    before = {name: tree_bytes(fresh.root / name) for name in ("generated", "build/normal", "build/rows")}
    done = fresh.tool(*words)
    assert done.returncode == 0 and done.stderr == ""
    assert before == {name: tree_bytes(fresh.root / name) for name in before}
    assert not fresh.sidecar.exists() and not (fresh.root / "history").exists()


def test_bundle_on_another_box_starts_says_so_and_is_right(fresh: Tree, tmp_path: Path) -> None:
    elsewhere = "linux|x86_64||9.9|another cpu"
    fresh.edit('"-O1", ', f"""'-DTB_TEST_BOX="{elsewhere}"', "-O1", """)
    released(fresh, "--app", "demo")
    bundle = shutil.copytree(fresh.root / "dist/demo", tmp_path / "another box")
    done = fresh.call(bundle / "bin/demo", "x")
    assert done.returncode == 0 and done.stdout == "sum 5\nargument x\n" + TUNED_STATUS
    assert done.stderr.startswith("tunebuild: demo was stamped on linux|") and elsewhere in done.stderr
    assert len(done.stderr.splitlines()) == 1


# --- several projects in one app ------------------------------------------------------------------


CALLS = """
import numpy
for key in harness.demanded():
    rows = [row for row in harness.variants(key) if row.suffix != "reference"]
    for row in rows:
        row(numpy.arange(4, dtype=numpy.int32), 4)
    print("called", *(row.suffix for row in rows), flush=True)
"""


def test_used_projects_with_tuners_of_their_own_share_the_apps_sidecar(fresh: Tree) -> None:
    """The families and scopes of the project move into two projects beside it; the app stays."""
    text = (fresh.root / "tune.toml").read_text()
    head, scope_one, scope_two, app, family_f, family_g = (
        text[text.index(start) : text.index(end) if end else len(text)]
        for start, end in (
            ("[build]", "[module.a]"),
            ("[scope.one]", "[scope.two]"),
            ("[scope.two]", "[app.demo]"),
            ("[app.demo]", "[family.f]"),
            ("[family.f]", "[family.g]"),
            ("[family.g]", ""),
        )
    )
    parts = {
        "left": ("[module.a]\nconstants = { A_VERSION = 1 }\n" + scope_one, family_f),
        "right": ("[module.b]\n" + scope_two, family_g),
    }
    for name, (tables, family) in parts.items():
        folder = fresh.root.parent / name
        shutil.copytree(fresh.root / "kernels", folder / "kernels")
        (folder / "tuner.py").write_text((fresh.root / "tuner.py").read_text() + CALLS)
        (folder / "tune.toml").write_text(f'[project]\nname = "{name}"\n{head}{tables}{family}')
    used = "".join(f'[use.{name}]\npath = "../{name}"\n' for name in parts)
    (fresh.root / "tune.toml").write_text(f'[project]\nname = "pair"\n{head}{used}{app}')
    fresh.build()
    done = fresh.run()
    assert done.returncode == 0 and done.stdout.endswith(TUNED_STATUS), done.stderr
    assert tuner_lines(done.stderr) == [NO_FILTER, NO_FILTER]
    assert fresh.winners == {"f": "u2", "g": "u2"}
    assert done.stderr.count("called u1 u2\n") == 2
    again = fresh.run()
    assert again.stderr == "" and again.stdout.endswith(TUNED_STATUS)
    assert [*fresh.root.parent.glob("*/*.tune.json")] == [fresh.sidecar], "one sidecar, beside the root"
    made = {path.name for name in parts for path in (fresh.root.parent / name).iterdir()}
    assert made == {"kernels", "tuner.py", "tune.toml"}, "nothing is built beside the tuner"


def test_stale_mint_runs_the_tuners_of_what_is_stale_alone(minted: Tree) -> None:
    done = minted.tool("mint", "--app", "demo", "--stale")
    assert done.returncode == 0 and tuner_lines(done.stdout + done.stderr) == []
    template = minted.root / "kernels/templates/f/kernel.c.j2"
    template.write_text(template.read_text().replace("{\n", "{\n    (void)n;\n", 1))
    done = minted.tool("mint", "--app", "demo", "--stale", WINNER="u1")
    assert tuner_lines(done.stdout + done.stderr) == ["{'ONLY': '=f', 'RELAUNCH': ''}"]
    assert minted.winners == {"f": "u1", "g": "u2"}

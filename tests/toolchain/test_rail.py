"""The rail and the release on a real project of two scopes: real executables, real builds, a stub for a tuner."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tunebuild import policy

HERE = Path(__file__).parents[2]
PROJECT = HERE / "tests/projects/two_scopes"
pytestmark = [
    pytest.mark.cc,
    pytest.mark.skipif(not (shutil.which("gcc") or shutil.which("clang")), reason="no gcc and no clang"),
]


class Tree:
    """A copy of the project, built; and how its commands and its executable are called."""

    def __init__(self, root: Path, cache: Path) -> None:
        self.root, self.cache = root, cache
        self.exe = root / "build/normal/demo"
        self.sidecar = root / "demo.tune.json"

    def call(self, *command: str | Path, **environ: str) -> subprocess.CompletedProcess[str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("TUNEBUILD_")}
        ours = {
            "PYTHONPATH": str(HERE),
            "TUNEBUILD_CACHE": str(self.cache),
            "TUNEBUILD_HISTORY": str(self.root / "history"),
            "TUNEBUILD_NOISE_OVERRIDE": "1",
        }
        return subprocess.run(
            command, cwd=self.root, env={**clean, **ours, **environ}, capture_output=True, text=True
        )

    def tool(self, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return self.call(sys.executable, "-m", "tunebuild", *words, **environ)

    def run(self, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return self.call(self.exe, *words, **environ)

    def edit(self, old: str, new: str) -> None:
        path = self.root / "tune.toml"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    @property
    def winners(self) -> dict[str, str]:
        found: dict[str, str] = json.loads(self.sidecar.read_text())["kernels"]
        return found


def copied(source: Path, target: Path, cache: Path) -> Tree:
    shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    return Tree(target, cache)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    folder = tmp_path_factory.mktemp("rail")
    tree = copied(PROJECT, folder / "built once", folder / "cache")
    for mode in ("tune", "normal"):
        done = tree.tool("build", "--mode", mode)
        assert done.returncode == 0, done.stderr
    return tree


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


TUNED_STATUS = "demo: tune status (2/2 kernels tuned for this box):\n  f: u2 (manifest)\n  g: u2 (manifest)\n"
PLAIN_STATUS = "demo: tune status (0/2 kernels tuned for this box):\n  f: u1 (fallback)\n  g: u1 (fallback)\n"


def tuning_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(policy.TUNING_SCOPE) and " into " in line]


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
    assert tuned.winners == {"f": "u2", "g": "u2"}, "the second tuner kept what the first wrote"


def test_the_start_after_a_mint_runs_no_tuner_and_says_nothing(minted: Tree) -> None:
    done = minted.run()
    assert done.stdout.endswith(TUNED_STATUS) and done.stderr == ""
    again = minted.tool("run", "demo", "--", "x", CODE="9")
    assert again.returncode == 9 and "argument x" in again.stdout and "tuner" not in again.stderr


def test_tune_runs_the_tuners_of_a_complete_box_and_tune_only_those_named(minted: Tree) -> None:
    done = minted.run("--", "--tune-only=f", WINNER="u1")
    assert "argument --tune-only" not in done.stdout and "f: u1 (manifest)" in done.stdout
    assert minted.winners == {"f": "u1", "g": "u2"}
    done = minted.tool("run", "demo", "--tune", WINNER="u1")
    assert minted.winners == {"f": "u1", "g": "u1"} and "g: u1 (manifest)" in done.stdout


def test_failing_tuner_leaves_the_scope_incomplete_and_the_program_runs(fresh: Tree) -> None:
    done = fresh.run(FAIL="1")
    assert done.returncode == 0 and PLAIN_STATUS in done.stdout and not fresh.sidecar.exists()
    assert "tunebuild: scope one is left incomplete:" in done.stderr and "tuner exited 1" in done.stderr


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
    assert fresh.tool("build", "--frozen").stderr.count("untuned") == 0


def test_warn_builds_and_says_it(fresh: Tree) -> None:
    done = fresh.tool("build", TUNEBUILD_POLICY="warn")
    assert done.returncode == 0 and done.stderr.count("WARNING: scope") == 2
    assert "tunebuild: policy warn from TUNEBUILD_POLICY (demo would have auto)" in done.stderr


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
    assert minted.winners == {"f": "u2", "g": "u2"}


def test_explicit_sidecar_switches_the_rail_off_with_one_warning_a_scope(fresh: Tree) -> None:
    done = fresh.tool("build", TUNEBUILD_MANIFEST="/no/such.tune.json")
    lines = [line for line in done.stderr.splitlines() if "WARNING: TUNEBUILD_MANIFEST" in line]
    assert done.returncode == 0 and len(lines) == len(set(lines)) == 2
    assert all("/no/such.tune.json" in line and "absent" in line for line in lines)


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


def tree_bytes(folder: Path) -> dict[str, bytes]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


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


def test_failing_tuner_ships_nothing_and_keeps_the_older_bundle(minted: Tree) -> None:
    released(minted, "--app", "demo", "--quick")
    before = tree_bytes(minted.root / "dist/demo")
    done = minted.tool("release", "--app", "demo", FAIL="1")
    assert done.returncode == 1 and "nothing is released" in done.stderr
    assert tree_bytes(minted.root / "dist/demo") == before


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

"""What a start makes of class profiles, and of winners that cannot serve: real executables, a stub for a tuner."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from rail_tree import TUNED_STATUS, Tree, built_in, copied, lacking_feature, tuner_lines, tuning_lines

from tunebuild import host
from tunebuild.features import BY_NAME, fingerprint, ladder
from tunebuild.profiles import box_class, file_name

BOX = host.box({})
OWN_CLASS = box_class(BOX)
NO_FILTER = "{'ONLY': '', 'RELAUNCH': ''}"
DEPTH = """
#include <stdio.h>
#include <stdlib.h>
__attribute__((constructor)) static void say_depth(void)
{
    const char *depth = getenv("TUNEBUILD_RELAUNCH");
    printf("depth %s\\n", depth ? depth : "none");
}
"""
pytestmark = [
    pytest.mark.cc,
    pytest.mark.skipif(not (shutil.which("gcc") or shutil.which("clang")), reason="no gcc and no clang"),
    pytest.mark.skipif(len(BOX.features) < 2, reason="this box has no features to tell apart"),
]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    return built_in(tmp_path_factory.mktemp("adoption"))


@pytest.fixture
def fresh(built: Tree, tmp_path: Path) -> Tree:
    return copied(built.root, tmp_path / "a tree", built.cache)


@pytest.fixture
def joined(fresh: Tree) -> Tree:
    """Both families in scope one, and a program that tells how often it was relaunched."""
    fresh.edit('[scope.two]\nmodule = "b"\ntuner = "tuner.py"\n\n', "")
    fresh.edit('module = "a"\ntuner', 'module = "a"\ncovers = ["b"]\ntuner')
    with (fresh.root / "apps/demo.c").open("a") as stream:
        stream.write(DEPTH)
    fresh.build()
    return fresh


def ship(
    tree: Tree,
    kernels: dict[str, str],
    features: frozenset[str] = BOX.features,
    cpu_class: str = OWN_CLASS,
    version: str = "1",
) -> Path:
    """A class profile of scope one."""
    path = tree.root / "profiles" / file_name(cpu_class)
    path.parent.mkdir(exist_ok=True)
    provenance = {"features": fingerprint(features), "a_version": version}
    path.write_text(json.dumps({"kernels": kernels, "provenance": provenance}))
    return path


def wider(tree: Tree, family: str, feature: str) -> None:
    """Give the family one more row, u4, for boxes with this feature."""
    with (tree.root / "tune.toml").open("a") as stream:
        stream.write(f'[[family.{family}.row]]\nu = 4\nrequires = "{feature}"\n')


def last_feature() -> str:
    """One that this box has, and others of its names do not need."""
    return next(
        name
        for name in sorted(BOX.features)
        if not any(name in BY_NAME[other].needs for other in BOX.features)
    )


# --- covered --------------------------------------------------------------------------------------


def test_covering_profile_is_named_and_nothing_is_raced_written_or_relaunched(joined: Tree) -> None:
    ship(joined, {"f": "u2", "g": "u2"})
    joined.build()
    done = joined.run()
    line = f"tunebuild: scope one is covered by the {OWN_CLASS} profile (2 entries), nothing to race\n"
    assert done.stderr == line and done.stdout == "depth none\nsum 5\n" + TUNED_STATUS.replace(
        "manifest", "profile"
    )
    assert not joined.sidecar.exists()


def test_profile_of_a_lower_class_covers_where_no_other_is_shipped(joined: Tree) -> None:
    lower = ladder(OWN_CLASS)[-1]
    if lower == OWN_CLASS:
        pytest.skip(f"{OWN_CLASS} is the lowest class")
    ship(joined, {"f": "u2", "g": "u2"}, cpu_class=lower)
    done = joined.run()
    assert f"scope one is covered by the {lower} profile (2 entries)" in done.stderr
    assert tuner_lines(done.stderr) == [] and "f: u2 (profile)" in done.stdout


@pytest.mark.parametrize("damage", ["version", "json"])
def test_profile_that_does_not_count_is_passed_over_for_the_next_lower_class(
    joined: Tree, damage: str
) -> None:
    lower = ladder(OWN_CLASS)[-1]
    if lower == OWN_CLASS:
        pytest.skip(f"{OWN_CLASS} is the lowest class")
    own = ship(joined, {"f": "u1", "g": "u1"}, version="0" if damage == "version" else "1")
    if damage == "json":
        own.write_text(own.read_text()[:-1])
    ship(joined, {"f": "u2", "g": "u2"}, cpu_class=lower)
    assert "f: u2 (profile)" in joined.run().stdout


def test_profile_that_comes_changes_and_goes_is_heard_at_the_next_start(joined: Tree) -> None:
    environ = {"TUNEBUILD_POLICY": "fallback"}
    path = ship(joined, {"f": "u2", "g": "u2"})
    joined.build(**environ)
    assert "f: u2 (profile)" in joined.run(**environ).stdout
    ship(joined, {"f": "u1", "g": "u2"})
    joined.build(**environ)
    assert "f: u1 (profile)" in joined.run(**environ).stdout
    path.unlink()
    joined.build(**environ)
    assert "f: u1 (fallback)" in joined.run(**environ).stdout


# --- partly covered -------------------------------------------------------------------------------


def test_partial_adoption_races_the_residue_alone_and_relaunches_once(joined: Tree) -> None:
    ship(joined, {"f": "u2"})
    done = joined.run("x")
    assert f"scope one adopts 1 entries of the {OWN_CLASS} profile; 1 to race: g" in done.stderr
    assert (
        tuner_lines(done.stderr) == ["{'ONLY': '=g', 'RELAUNCH': ''}"] and len(tuning_lines(done.stderr)) == 1
    )
    assert done.stdout == "depth none\ndepth demo:1\nsum 5\nargument x\n" + TUNED_STATUS
    document = json.loads(joined.sidecar.read_text())
    assert document["kernels"] == {"f": "u2", "g": "u2"}
    assert document["provenance"]["adopted_profile"] == OWN_CLASS
    assert (
        document["built"]["f"]["origin"] == f"profile:{OWN_CLASS}" and "origin" not in document["built"]["g"]
    )
    again = joined.run()
    assert again.stderr == "" and again.stdout.startswith("depth none\nsum 5\n")


def test_family_that_this_box_can_run_more_of_is_raced_and_its_own_winner_is_stamped(joined: Tree) -> None:
    feature = last_feature()
    wider(joined, "g", feature)
    ship(joined, {"f": "u2", "g": "u1"}, BOX.features - {feature})
    done = joined.run(WINNER="u4")
    assert f"scope one adopts 1 entries of the {OWN_CLASS} profile; 1 to race: g" in done.stderr
    assert tuner_lines(done.stderr) == ["{'ONLY': '=g', 'RELAUNCH': ''}"]
    assert "f: u2 (manifest)\n  g: u4 (manifest)\n" in done.stdout
    assert joined.winners == {"f": "u2", "g": "u4"}


def test_forced_start_races_everything_and_never_mentions_the_profile(joined: Tree) -> None:
    ship(joined, {"f": "u1", "g": "u1"})
    joined.build()
    done = joined.run("--", "--tune")
    assert "profile" not in done.stderr and tuner_lines(done.stderr) == [NO_FILTER]
    assert joined.winners == {"f": "u2", "g": "u2"} and done.stdout.endswith(TUNED_STATUS)


def test_profile_of_which_nothing_is_adopted_says_why_where_its_rows_run(joined: Tree) -> None:
    feature = last_feature()
    for name in ("f", "g"):
        wider(joined, name, feature)
    ship(joined, {"f": "u2", "g": "u2"}, BOX.features - {feature})
    why = f"the {OWN_CLASS} profile leaves to race: f, g (this box can run u4, which the profile's box could not)"
    assert f"tunebuild: scope one: {why}\n" in joined.build()
    shown = joined.tool("status", "--app", "demo")
    said = " ".join(shown.stdout.split())
    assert "f u2 profile one" in said and "scope one: absent" in said and why in said
    answer = json.loads(joined.tool("status", "--app", "demo", "--json").stdout.splitlines()[-1])
    assert answer["scopes"][0]["detail"].endswith(why)
    done = joined.run(WINNER="u4")
    assert tuner_lines(done.stderr) == [NO_FILTER] and joined.winners == {"f": "u4", "g": "u4"}
    for word in ("build", "status"):
        done = joined.tool(word, "--app", "demo")
        assert done.returncode == 0 and "leaves to race" not in done.stdout + done.stderr


def test_race_of_one_seat_of_a_covered_scope_leaves_the_others_to_the_profile(joined: Tree) -> None:
    ship(joined, {"f": "u2", "g": "u2"})
    joined.build()
    done = joined.run("--", "--tune-only", "f", WINNER="u1")
    assert joined.winners == {"f": "u1"} and "left incomplete" not in done.stderr
    assert "f: u1 (manifest)\n  g: u2 (profile)\n" in done.stdout
    assert "scope one is covered" in joined.run().stderr


def test_adoption_that_cannot_be_written_is_told_and_the_resolver_is_asked(joined: Tree) -> None:
    joined.edit('tuner = "tuner.py"', 'tuner = "tuner.py"\nresolver = "resolver.py:answer"')
    (joined.root / "resolver.py").write_text(
        "import os\n\n\ndef answer(scope, path, demand):\n    os.rmdir(path)\n    return False\n"
    )
    ship(joined, {"f": "u2"})
    joined.build()
    joined.sidecar.mkdir()
    done = joined.run()
    assert f"tunebuild: the {OWN_CLASS} profile was not adopted: " in done.stderr
    assert "adopts" not in done.stderr and tuner_lines(done.stderr) == [NO_FILTER]
    assert joined.winners == {"f": "u2", "g": "u2"} and done.stdout.endswith(TUNED_STATUS)


def test_tuner_that_fails_after_a_partial_adoption_leaves_what_was_adopted(joined: Tree) -> None:
    ship(joined, {"f": "u2"})
    done = joined.run(FAIL="1")
    assert done.returncode == 0 and joined.winners == {"f": "u2"}
    assert "scope one is left incomplete: missing (g); the tuner exited 1" in done.stderr
    assert "f: u2 (manifest)\n  g: u1 (fallback)\n" in done.stdout


# --- winners that cannot serve --------------------------------------------------------------------


@pytest.mark.parametrize("winner", ["u4", "u9"])
def test_recorded_winner_that_cannot_serve_falls_to_the_chain_and_asks_no_profile(
    fresh: Tree, winner: str
) -> None:
    feature = lacking_feature(BOX)
    wider(fresh, "f", feature)
    assert fresh.tool("run", "demo").returncode == 0
    ship(fresh, {"f": "u2"})
    document = json.loads(fresh.sidecar.read_text())
    document["kernels"]["f"] = winner
    del document["digest"]
    fresh.sidecar.write_text(json.dumps(document))
    why = f"needs {feature}" if winner == "u4" else "is no row of this grid"
    said = fresh.build(TUNEBUILD_POLICY="fallback")
    assert f"f: the sidecar names {winner} for f, which {why}; it runs u1 (fallback)" in said
    assert "f: u1 (fallback)" in fresh.run(TUNEBUILD_POLICY="fallback").stdout
    done = fresh.run()
    assert tuner_lines(done.stderr) == ["{'ONLY': '=f', 'RELAUNCH': ''}"], "and it alone is raced anew"
    assert fresh.winners == {"f": "u2", "g": "u2"} and done.stdout.endswith(TUNED_STATUS)

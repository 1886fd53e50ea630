"""What real executables and the real command make of records that somebody else wrote, whole or in part."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from rail_tree import HERE, TUNED_STATUS, Tree, built_in, copied, lacking_feature, tuner_lines

from tunebuild import host
from tunebuild.features import X86
from tunebuild.profiles import box_class
from tunebuild.record import BINARY_STAMP

BOX = host.box({})
ELSEWHERE = "linux|x86_64||1.0.0|another cpu"
pytestmark = [
    pytest.mark.cc,
    pytest.mark.skipif(not (shutil.which("gcc") or shutil.which("clang")), reason="no gcc and no clang"),
]


def write(tree: Tree, kernels: dict[str, str], *, box: str = BOX.identity, **sections: Any) -> None:
    """A sidecar as another writer leaves it: no digests, so that its time decides."""
    provenance = {"box": box, "a_version": "1", **sections.pop("provenance", {})}
    tree.sidecar.write_text(json.dumps({"kernels": kernels, "provenance": provenance, **sections}))


def record(tree: Tree) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(tree.sidecar.read_text())
    return found


# --- a companion's own entry ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def visible(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """Rows u1, u2 and u3, which this box cannot run, that can be seen in what their functions return."""
    folder = tmp_path_factory.mktemp("visible")
    tree = copied(HERE / "tests/projects/visible", folder / "a tree", folder / "cache")
    with (tree.root / "tune.toml").open("a") as stream:
        stream.write(f'[[family.f.row]]\nu = 3\nrequires = "{lacking_feature(BOX)}"\n')
    tree.build()
    return tree


def shown(tree: Tree, kernels: dict[str, str]) -> tuple[str, str]:
    """What the executable prints under these winners, and what its build said."""
    write(tree, kernels)
    said = tree.build()
    return tree.run().stdout, said


def test_companion_runs_its_own_row_where_that_can_serve(visible: Tree) -> None:
    assert shown(visible, {"f": "u1", "mark": "u2"})[0] == "f 301 mark 2\n"


@pytest.mark.parametrize("own", ["", "u9", "u3", "reference"])
def test_companion_follows_its_family_where_its_own_row_is_none_or_cannot_run(
    visible: Tree, own: str
) -> None:
    assert shown(visible, {"f": "u2", **({"mark": own} if own else {})})[0] == "f 302 mark 2\n"


@pytest.mark.parametrize("dropped", ["u9", "u3"])
def test_companion_follows_the_chain_where_its_familys_winner_was_dropped(
    visible: Tree, dropped: str
) -> None:
    printed, said = shown(visible, {"f": dropped, "mark": "u2"})
    assert printed == "f 301 mark 1\n" and f"the sidecar names {dropped} for f" in said


def test_companion_of_a_family_that_runs_its_reference_runs_its_own_reference(visible: Tree) -> None:
    assert shown(visible, {"f": "reference", "mark": "u2"})[0] == "f 300 mark -1\n"


# --- the class of a box ---------------------------------------------------------------------------

WIDE = "avx512vnni,avx512bw"


@pytest.mark.parametrize(
    ("forced", "cpu_class"),
    [
        ("avx512vnni", ""),
        ("avx512bw", ""),
        (WIDE, "x86-vnni512"),
        ("avxvnni", "x86-vnni256"),
        (f"avxvnni,{WIDE}", "x86-vnni512"),
        (f"{WIDE},amx-tile", "x86-vnni512"),
        (f"{WIDE},amx-int8", "x86-vnni512"),
        (f"{WIDE},amx-tile,amx-int8", "x86-amx"),
        ("avx512vnni,amx-tile,amx-int8", ""),
    ],
)
def test_class_needs_every_feature_of_its_boundary(tmp_path: Path, forced: str, cpu_class: str) -> None:
    if BOX.arch != X86 or BOX.features & set(forced.split(",")):
        pytest.skip("this machine has what the test forces, or is of another kind")
    said = Tree(tmp_path, tmp_path / "cache").tool("box", "--json", TUNEBUILD_FORCE_FEATURES=forced)
    found = json.loads(said.stdout.splitlines()[-1])
    assert found["class"] == (cpu_class or box_class(BOX)) and found["forced"] == forced.split(",")


# --- what counts, and what a write keeps ----------------------------------------------------------


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    return built_in(tmp_path_factory.mktemp("records"))


@pytest.fixture
def fresh(built: Tree, tmp_path: Path) -> Tree:
    return copied(built.root, tmp_path / "a tree", built.cache)


def date(tree: Tree, after_s: int) -> None:
    """Date the sidecar so many whole seconds after the newest compiled row."""
    stamp_s = int((tree.root / BINARY_STAMP).stat().st_mtime)
    os.utime(tree.sidecar, (stamp_s + after_s, stamp_s + after_s))


def test_sidecar_of_the_same_second_as_the_rows_is_fresh(fresh: Tree) -> None:
    write(fresh, {"f": "u2", "g": "u2"})
    date(fresh, 0)
    done = fresh.run()
    assert tuner_lines(done.stderr) == [] and done.stdout.endswith(TUNED_STATUS)


@pytest.mark.parametrize("stale", ["older", "foreign"])
def test_first_write_over_a_stale_sidecar_starts_it_anew_with_all_its_sections(
    fresh: Tree, stale: str
) -> None:
    race = {"f": {"winner": "u1", "rows": {"u1": {"med_us": 1.0}}}}
    box = ELSEWHERE if stale == "foreign" else BOX.identity
    write(
        fresh,
        {"f": "u1", "g": "u1"},
        box=box,
        runtime={"threads": 4},
        race=race,
        provenance={"lanes": "4"},
    )
    if stale == "older":
        date(fresh, -1)
    done = fresh.run()
    assert len(tuner_lines(done.stderr)) == 2 and done.stdout.endswith(TUNED_STATUS)
    found = record(fresh)
    assert found["kernels"] == {"f": "u2", "g": "u2"}
    assert "runtime" not in found and "race" not in found and "lanes" not in found["provenance"]


def test_missing_winner_of_another_version_is_untuned_by_its_version(fresh: Tree) -> None:
    write(fresh, {"g": "u2"}, provenance={"a_version": "0"})
    fresh.build(TUNEBUILD_POLICY="fallback")
    document = json.loads(fresh.tool("status", "--app", "demo", "--json").stdout.splitlines()[-1])
    one, two = document["scopes"]
    assert (one["reason"], two["reason"]) == ("version", "none") and "recorded 0, expected 1" in one["detail"]
    done = fresh.run(TUNEBUILD_POLICY="error")
    assert done.returncode == 3 and "scope one is untuned for this box: version" in done.stderr
    assert "missing" not in done.stderr


def test_write_keeps_the_scalar_notes_of_others_and_drops_the_rest(fresh: Tree) -> None:
    scalars = {"thermal": "calm", "lanes": 4, "ratio": 1.5}
    others = {"probes": [1, 2], "deep": {"a": 1}, "flag": True, "none": None}
    write(fresh, {"f": "u1", "g": "u1"}, runtime={"threads": 4}, provenance={**scalars, **others})
    done = fresh.run("--", "--tune-only", "g")
    assert tuner_lines(done.stderr) == ["{'ONLY': '=g', 'RELAUNCH': ''}"], done.stderr
    found = record(fresh)
    assert found["kernels"] == {"f": "u1", "g": "u2"} and found["runtime"] == {"threads": 4}
    assert {name: found["provenance"].get(name) for name in scalars} == scalars
    assert not others.keys() & found["provenance"].keys()

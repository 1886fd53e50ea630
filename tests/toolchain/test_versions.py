"""Two scopes with one sidecar and one folder of profiles between them, each with a version of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Project
from pair_project import MEASURED, SHIPPED, made_in, mint, own_class, read, ship, stamped, states

from tunebuild import record, sidecar
from tunebuild.upsert import Change

pytestmark = pytest.mark.cc


@pytest.fixture
def pair(tmp_path: Path) -> Project:
    return made_in(tmp_path)


def bump(project: Project) -> None:
    project.edit("tune.toml", "TWO_VERSION = 1", "TWO_VERSION = 2")


# --- the profile ----------------------------------------------------------------------------------


def test_profile_of_both_versions_answers_for_both_scopes(pair: Project) -> None:
    ship(pair, one_version="1", two_version="1")
    assert stamped(pair) == SHIPPED


def test_bump_of_one_version_takes_its_scope_alone_out_of_a_shared_profile(pair: Project) -> None:
    ship(pair, one_version="1", two_version="1")
    bump(pair)
    assert stamped(pair) == {**SHIPPED, "mul": ("u1", "fallback")}
    found = states(pair)
    assert (found["one"].adoption.kind, found["two"].adoption.kind) == ("covered", "none")
    assert found["two"].adoption.residue == ("mul",)


def test_export_after_a_mint_of_the_new_version_answers_again(pair: Project) -> None:
    mint(pair, "add", "mul")
    bump(pair)
    assert "the sidecar is version (two_version: recorded 1, expected 2)" in " ".join(
        pair.run("profile", "export", code=3).stderr.split()
    )
    mint(pair, "mul")
    pair.run("profile", "export")
    (pair.root / "p.tune.json").unlink()
    assert stamped(pair) == SHIPPED


# --- a scope beside one with a version ------------------------------------------------------------


def test_entries_of_another_version_count_through_no_scope_that_has_none(pair: Project) -> None:
    pair.edit("tune.toml", 'version_of = "versions/ONE_VERSION"\n', "")
    bump(pair)
    ship(pair, two_version="1")
    assert stamped(pair) == {**SHIPPED, "mul": ("u1", "fallback")}
    found = states(pair)
    assert (found["one"].adoption.kind, found["two"].adoption.kind) == ("covered", "none")
    assert found["two"].adoption.entries == () and found["two"].adoption.notes == ()
    said = pair.run("status").stdout
    assert f"scope one: covered by the {own_class()} profile" in said and "scope two: absent" in said


def test_scope_without_profiles_that_another_ones_profile_answers_is_covered(pair: Project) -> None:
    pair.edit("tune.toml", 'version_of = "versions/ONE_VERSION"\ndefaults = "profiles"\n', "")
    ship(pair, two_version="1")
    assert stamped(pair) == SHIPPED
    assert {name: state.covered for name, state in states(pair).items()} == {"one": True, "two": True}
    said = pair.run("status").stdout
    for name in ("one", "two"):
        assert f"scope {name}: covered by the {own_class()} profile" in said


# --- the sidecar ----------------------------------------------------------------------------------


def test_bump_of_one_version_stops_the_stamps_of_its_scope_alone_and_names_both_versions(
    pair: Project,
) -> None:
    mint(pair, "add", "mul")
    assert stamped(pair) == MEASURED
    bump(pair)
    assert stamped(pair) == {**MEASURED, "mul": ("u1", "fallback")}
    said = " ".join(pair.run("build").stderr.split())
    assert "mul: u1 by the fallback; the recorded u2 is stale: two_version: recorded 1, expected 2" in said
    why = " ".join(pair.run("why", "mul").stdout.split())
    assert why.startswith("mul runs u1: the fallback chain") and "recorded 1, expected 2" in why
    document = json.loads(pair.run("status", "--json").stdout.splitlines()[-1])
    assert [scope["reason"] for scope in document["scopes"]] == ["none", "version"]


def test_bump_that_is_taken_back_stamps_the_same_winners_again(pair: Project) -> None:
    mint(pair, "add", "mul")
    bump(pair)
    assert stamped(pair)["mul"] == ("u1", "fallback")
    pair.edit("tune.toml", "TWO_VERSION = 2", "TWO_VERSION = 1")
    assert stamped(pair) == MEASURED


def test_winner_of_another_version_is_answered_by_a_profile_of_the_trees_own(pair: Project) -> None:
    mint(pair, "add", "mul")
    bump(pair)
    ship(pair, one_version="1", two_version="2")
    assert stamped(pair) == {"add": ("u2", "manifest"), "mul": ("u2", "profile")}
    assert states(pair)["two"].covered


def test_mint_of_the_other_scope_does_not_pass_old_winners_for_new_ones(pair: Project) -> None:
    mint(pair, "add", "mul")
    bump(pair)
    mint(pair, "add")
    assert stamped(pair) == {**MEASURED, "mul": ("u1", "fallback")}
    assert states(pair)["two"].verdict.reason == "version"
    mint(pair, "mul")
    assert stamped(pair) == MEASURED and states(pair)["two"].verdict.complete


def test_mint_of_one_seat_of_the_new_version_leaves_the_others_missing(pair: Project) -> None:
    pair.edit("tune.toml", '[family.add]\nmodule = "one"', '[family.add]\nmodule = "two"')
    mint(pair, "add", "mul")
    bump(pair)
    mint(pair, "mul")
    verdict = states(pair)["two"].verdict
    assert (verdict.reason, verdict.missing) == ("missing", ("add",))
    assert stamped(pair) == {"add": ("u1", "fallback"), "mul": ("u2", "manifest")}


# --- a scope that demands nothing -----------------------------------------------------------------


def test_scope_whose_families_are_all_pinned_demands_nothing_whatever_its_version(pair: Project) -> None:
    pair.edit("tune.toml", '[family.mul]\nmodule = "two"', '[family.mul]\nmodule = "two"\npin = "u2"')
    assert states(pair)["two"].verdict.complete
    mint(pair, "add")
    assert stamped(pair)["mul"][0] == "u2"
    (written,) = json.loads(pair.run("profile", "export", "--json").stdout.splitlines()[-1])["written"]
    assert json.loads(Path(written).read_text())["kernels"] == {"add": "u2"}


def test_export_of_pinned_families_alone_says_that_nothing_is_demanded(pair: Project) -> None:
    for name, module in (("add", "one"), ("mul", "two")):
        pair.edit(
            "tune.toml",
            f'[family.{name}]\nmodule = "{module}"',
            f'[family.{name}]\nmodule = "{module}"\npin = "u2"',
        )
    assert "no scope of app p demands a winner" in pair.run("profile", "export", code=3).stderr


# --- two apps that share the folder ---------------------------------------------------------------


def test_export_of_one_apps_scopes_does_not_lose_those_of_another(pair: Project) -> None:
    apps = '[app.first]\nkind = "shared"\nscopes = ["one"]\n[app.second]\nkind = "shared"\nscopes = ["two"]\n'
    pair.edit("tune.toml", "[scope.one]", f"{apps}[scope.one]")
    made = read(pair)
    for app, key in (("first", "add"), ("second", "mul")):
        pins = record.pins(made.manifest)
        change = Change(
            kernels={key: "u2"},
            race={key: {"winner": "u2"}},
            built={key: made.built[key]},
            notes=dict([pins[key]]),
        )
        sidecar.save(pair.root / f"{app}.tune.json", change, box=made.box, built_now=made.built)
    (written,) = json.loads(pair.run("profile", "export", "--app", "first", "--json").stdout)["written"]
    before = Path(written).read_bytes()
    said = " ".join(pair.run("profile", "export", "--app", "second", code=3).stderr.split())
    assert "holds winners of scope one as well, which would be lost" in said and "--app" in said
    assert Path(written).read_bytes() == before
    mint(pair, "add", "mul")
    pair.run("profile", "export")
    assert json.loads(Path(written).read_text())["kernels"] == {"add": "u2", "mul": "u2"}

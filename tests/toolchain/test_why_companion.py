"""`why` of a companion: the row of its own that it won, or the seat whose row it follows."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from conftest import Project

from tunebuild import generate, sidecar
from tunebuild.upsert import Change

pytestmark = pytest.mark.cc
PACKED = Path(__file__).parents[1] / "projects" / "packed"


@pytest.fixture
def packed(tmp_path: Path) -> Project:
    shutil.copytree(PACKED, tmp_path / "packed", ignore=shutil.ignore_patterns("build", "generated"))
    (tmp_path / "home").mkdir()
    return Project(tmp_path / "packed", tmp_path / "home", tmp_path / "cache")


def record(project: Project, **companions: str) -> None:
    made = generate.generate(project.root, environ={})
    kernels = {"matvec.few": "mr8_u1", "matvec.many": "mr8_u2", **companions}
    races = {key: {"winner": row, "margin_pct": 4.25} for key, row in companions.items()}
    change = Change(kernels=kernels, built={key: made.built[key] for key in kernels}, race=races)
    sidecar.save(made.records["packed"].path, change, box=made.box, built_now=made.built)


def why(project: Project, name: str) -> str:
    return " ".join(project.run("why", name).stdout.split())


def test_companion_with_a_row_of_its_own_tells_of_its_race(packed: Project) -> None:
    record(packed, rowsum="mr8_u2")
    said = why(packed, "rowsum")
    assert said.startswith("rowsum runs mr8_u2: raced on this box") and "margin: 4.25 %" in said
    assert "gate: not gated on this box" in said


def test_companion_without_a_row_of_its_own_follows_the_first_seat(packed: Project) -> None:
    record(packed)
    for name in ("rowsum", "matvec_pack"):
        assert why(packed, name).startswith(f"{name} runs mr8_u1: the row of matvec.few, which it follows")
    (found,) = json.loads(packed.run("why", "rowsum", "--json").stdout.splitlines()[-1])
    assert (found["family"], found["suffix"], found["follows"]) == ("rowsum", "mr8_u1", "matvec.few")


def test_companion_whose_own_row_is_of_another_layout_follows(packed: Project) -> None:
    record(packed, rowsum="mr4_u2")
    assert why(packed, "rowsum").startswith("rowsum runs mr8_u1: the row of matvec.few, which it follows")


def test_companion_of_an_untuned_family_follows_its_chain(packed: Project) -> None:
    assert why(packed, "rowsum").startswith("rowsum runs mr4_u1: the row of matvec.few, which it follows")
    assert "there is no family rowsums" in packed.run("why", "rowsums", code=2).stderr

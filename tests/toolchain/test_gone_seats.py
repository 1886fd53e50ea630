"""A sidecar keeps what it has of seats that left tune.toml; no command is misled by them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Project

from tunebuild import generate, sidecar
from tunebuild.document import Document
from tunebuild.upsert import EXCHANGE, Change, origin_of

pytestmark = pytest.mark.cc


@pytest.fixture
def tuned(project: Project) -> Project:
    """Tuned, with an adopted winner and a race of a family that tune.toml had once."""
    made = generate.generate(project.root, environ={})
    path = made.records[made.app().name].path
    gone = Change(
        kernels={"gone_f32": "u9"}, built={"gone_f32": {"source": "was"}}, notes={"origin": EXCHANGE},
        race={"gone_f32": {"winner": "u9", "rows": {"u9": {"med_us": 1.0, "gain_pct": 5.0}}}}, origin=EXCHANGE,
    )  # fmt: skip
    sidecar.save(path, gone, box=made.box, built_now=made.built)
    here = Change(
        kernels={"dot_f32": "isa_base_u2"}, built={"dot_f32": made.built["dot_f32"]}, scope_keys=("dot_f32",),
        race={"dot_f32": {"winner": "isa_base_u2", "rows": {"isa_base_u2": {"gain_pct": 4.0}}}}, full=True,
    )  # fmt: skip
    sidecar.save(path, here, box=made.box, built_now=made.built)
    return project


def _recorded(project: Project) -> Document:
    (path,) = project.root.glob("*.tune.json")
    found = sidecar.read(path)
    assert isinstance(found, Document)
    return found


def test_local_write_keeps_the_gone_seat_with_its_origin_and_ends_the_note(tuned: Project) -> None:
    found = _recorded(tuned)
    assert found.kernels == {"dot_f32": "isa_base_u2", "gone_f32": "u9"}
    assert (origin_of(found, "gone_f32"), origin_of(found, "dot_f32")) == (EXCHANGE, "")
    assert "origin" not in found.provenance


def test_status_why_and_the_page_speak_of_the_tree_alone(tuned: Project) -> None:
    said = json.loads(tuned.run("status", "--json").stdout.splitlines()[-1])
    assert [row["family"] for row in said["families"]] == ["dot_f32"]
    assert said["scopes"][0]["complete"] is True
    assert "there is no family gone_f32" in tuned.run("why", "gone_f32", code=2).stderr
    tuned.run("report", "-o", "page.html")
    page = (tuned.root / "page.html").read_text()
    assert "dot_f32" in page and "gone_f32" not in page


def test_quick_release_inherits_and_push_sends_the_tree_s_seats(tuned: Project, tmp_path: Path) -> None:
    done = tuned.run("release", "--quick")
    assert "inherit, its sidecar is complete, fresh and measured here" in done.stderr
    assert "sent 1 winner " in tuned.run("exchange", "push", str(tmp_path / "x")).stdout
    (sent,) = (tmp_path / "x").rglob("mints/*.json")
    assert json.loads(sent.read_text())["kernels"] == {"dot_f32": "isa_base_u2"}

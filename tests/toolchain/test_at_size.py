"""Workloads too large for a case of the gate: what was not called there is named until it was."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from conftest import Project

from tunebuild import bench, flows, generate, testreport
from tunebuild.gates import sized

PROJECTS = Path(__file__).parent.parent / "projects"

pytestmark = pytest.mark.cc


def test_row_without_a_call_at_a_large_workload_is_named_by_test_and_status_until_it_had_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Project(tmp_path / "cheats", tmp_path / "home", tmp_path / "home/cache")
    shutil.copytree(PROJECTS / "cheats", project.root)
    project.home.mkdir()
    for name, value in project.environ().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(bench, "AT_SIZE_S", 0.0)
    reports = flows.test(project.root, ["settle_many"], say=print)
    assert "  how_plain, how_large: not called at workload many: 0 s were spent" in testreport.text(reports)
    (told,) = (line for line in project.run("status").stdout.splitlines() if "settle_many" in line)
    assert told.endswith("ungated at many")
    assert sized(generate.generate(project.root).tree, "settle_many") == frozenset()

    done = project.run("test", "settle_many", code=1).stdout
    assert "how_large: rejected at gate: wrong result: element 4711 of `y` is 0" in done
    (told,) = (line for line in project.run("status").stdout.splitlines() if "settle_many" in line)
    assert "ungated" not in told
    assert sized(generate.generate(project.root).tree, "settle_many") == {"how_plain"}

"""A tuner of one's own, really compiled and run: the example of docs/harness.md."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.cc

HERE = Path(__file__).parents[2]
EXAMPLE = HERE / "tests/projects/own_clock"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, tuned once: the first test looks at what that wrote."""
    folder = tmp_path_factory.mktemp("harness") / "own clock"
    shutil.copytree(EXAMPLE, folder)
    done = run(folder, "tuner.py")
    assert done.returncode == 0, done.stderr
    (folder / "said").write_text(done.stdout)
    return folder


def run(project: Path, *argv: str, **environ: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TUNEBUILD_")}
    ours = {"PYTHONPATH": str(HERE), "TUNEBUILD_HISTORY": str(project / "history")}
    return subprocess.run(
        [sys.executable, *argv], cwd=project, env={**clean, **ours, **environ}, capture_output=True, text=True
    )


def script(project: Path, code: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return run(project, "-c", f"from tunebuild import harness\n{code}", **environ)


def sidecar(project: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((project / "own_clock.tune.json").read_text())
    return found


def test_example_races_by_its_own_clock_and_completes_its_scope(project: Path) -> None:
    found = sidecar(project)
    rows = found["race"]["scale_f32"]["rows"]
    assert set(rows) == {"reference", "u1", "u2", "u4"}
    assert all(times["med_us"] > 0 for times in rows.values())
    assert found["race"]["scale_f32"]["winner"] == found["kernels"]["scale_f32"]
    assert found["provenance"]["clock"] == "process time"
    assert found["provenance"]["blas_version"] == "2"
    assert {"source", "compiler", "protocol"} <= set(found["built"]["scale_f32"])
    assert len(list((project / "history").iterdir())) == 1


def test_example_says_how_far_it_is_in_events(project: Path) -> None:
    said = (project / "said").read_text().splitlines()
    assert said[:3] == ["@tune plan scope=own total=1", "@tune begin name=scale_f32 total=15",
                        "@tune step i=1 phase=rounds live=4"]  # fmt: skip
    assert said[-1].startswith("@tune end name=scale_f32 winner=")


def test_winner_that_is_no_row_is_refused_with_the_nearest_name(project: Path) -> None:
    done = script(project, "harness.set_winner('scale_f32', 'u3')")
    assert "scale_f32 has no row 'u3'" in done.stderr
    assert "there are: reference, u1, u2, u4" in done.stderr
    done = script(project, "harness.set_winner('scale_f23', 'u1')")
    assert "there is no seat scale_f23" in done.stderr
    assert "did you mean scale_f32?" in done.stderr


def test_forced_features_measure_nothing(project: Path) -> None:
    done = script(project, "harness.set_winner('scale_f32', 'u1')", TUNEBUILD_FORCE_FEATURES="sve,amx-int8")
    assert "nothing measured here counts" in done.stderr


def test_unselected_family_keeps_its_entry(project: Path) -> None:
    before = sidecar(project)
    assert run(project, "tuner.py", TUNEBUILD_ONLY="=other").returncode == 0
    assert sidecar(project) == before


def test_control_file_stops_the_race_without_a_write(project: Path) -> None:
    before = sidecar(project)
    (project / "stop").touch()
    assert run(project, "tuner.py", TUNEBUILD_CONTROL=str(project / "stop")).returncode == 3
    assert sidecar(project) == before


def test_queries_answer_as_the_build_does(project: Path) -> None:
    code = """
import json
harness.noise_override(True)
print(json.dumps([
    harness.demanded(), harness.resolved_fallback("scale_f32"), harness.pick_fallback("a:nonsense; b; c"),
    harness.pick_fallback("a:nonsense"), harness.pick_fallback(""), harness.requires_ok(""),
    harness.requires_ok("nonsense"), harness.ladder()[0] == harness.cpu_class(), harness.noise_threshold(),
    harness.noise_threshold(True), harness.noise_override(),
    harness.selected("scale_f32"), harness.selected("dot"),
]))
"""
    done = script(project, code, TUNEBUILD_NOISE_CV="4.5", TUNEBUILD_ONLY="scale, ")
    assert json.loads(done.stdout.splitlines()[-1]) == [
        ["scale_f32"], "u1", "b", "", "", True, False, True, 4.5, 4.5, True, True, False,
    ]  # fmt: skip


def test_explicit_manifest_is_the_file_that_is_written(project: Path) -> None:
    other = project / "elsewhere" / "x.tune.json"
    done = script(project, "harness.set_winner('scale_f32', 'u2')", TUNEBUILD_MANIFEST=str(other))
    assert done.returncode == 0, done.stderr
    assert json.loads(other.read_text())["kernels"] == {"scale_f32": "u2"}


def test_guide_shows_the_example_as_it_is() -> None:
    assert (EXAMPLE / "tuner.py").read_text() in (HERE / "docs/harness.md").read_text()

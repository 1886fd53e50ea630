"""The catalogue against float64, as its chains stamp it; and that a kernel slightly wrong is noticed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Project

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

import accuracy
from accuracylab.subjects import catalogue

from tunebuild import manifest

ROOT = Path(__file__).parents[2]
CC = shutil.which("gcc") or shutil.which("clang")
pytestmark = [pytest.mark.cc, pytest.mark.skipif(not CC, reason="no gcc and no clang")]
NAMES = [subject.name for subject in catalogue()]
EXACT = ("dot_i8", "gemm_u8s8", "gemm_q8", "gemv_q8", "copy_f32", "copy_loop_f32")

# What was written, what is written instead, the families that are wrong then. The gate's tolerance hides the second.
SEEDS = {
    "a coefficient of e^x is off in its ninth bit": (
        "kernels/include/tb/exp.h", "0x1.555492p-3f", "0x1.55d492p-3f", ("exp_f32",)),
    "eps is forgotten": (
        "kernels/templates/rmsnorm_f32/kernel.c.j2", "(float)cols + eps", "(float)cols", ("rmsnorm_f32",)),
    "126 steps where the scale says 127": (
        "kernels/templates/_lib/quantize.j2", "127.0f / max[j]", "126.0f / max[j]",
        ("quantize_q8", "quantize_row_q8_0", "matmul_q8_0")),
}  # fmt: skip


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The catalogue without a record: every seat runs the first row of its chain that this machine has."""
    root = tmp_path_factory.mktemp("catalogue")
    copied(ROOT, root / "project")
    (root / "home").mkdir()
    project = Project(root / "project", root / "home", root / "cache")
    project.run("build")
    return project


def copied(source: Path, target: Path) -> None:
    """Without profiles: they would stamp what some box measured."""
    target.mkdir()
    shutil.copy(source / "tune.toml", target)
    shutil.copytree(source / "kernels", target / "kernels")


@pytest.fixture(scope="module")
def lines(built: Project) -> dict[str, accuracy.Line]:
    return {line.family: line for line in accuracy.against_float64(built.root, catalogue())}


def test_every_family_has_a_truth_in_float64() -> None:
    families = manifest.read(ROOT).families
    own = [c.name for family in families for c in family.companions if c.own_seat]
    assert sorted(NAMES) == sorted([*(family.name for family in families), *own])


@pytest.mark.parametrize("name", NAMES)
def test_error_against_float64_is_within_the_bound_of_the_family(
    lines: dict[str, accuracy.Line], name: str
) -> None:
    assert lines[name].within, lines[name]
    if name in EXACT:
        assert lines[name].errors["ours"].largest == 0


@pytest.mark.parametrize("what", SEEDS)
def test_kernel_that_is_slightly_wrong_is_past_its_bound(built: Project, tmp_path: Path, what: str) -> None:
    path, old, new, families = SEEDS[what]
    copied(built.root, tmp_path / "wrong")
    wrong = Project(tmp_path / "wrong", built.home, built.cache)
    wrong.edit(path, old, new)
    wrong.run("build")
    command = [sys.executable, str(ROOT / "bench/accuracy.py"), "--project", str(wrong.root)]
    done = subprocess.run(
        [*command, "--family", ",".join((*families, "dot_f32"))], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"accuracy: {name} is past its bound" for name in NAMES if name in families
    ]

"""Cold, warm and repeated builds: what our way costs over plain ninja, and what is never compiled twice."""

from __future__ import annotations

import json
import shutil
import statistics
import sys
from pathlib import Path

from buildlab import projects
from buildlab.figures import Figure, take
from tunebuild import generate, sidecar
from tunebuild.front import ninja_path
from tunebuild.upsert import Change

BUILD = (sys.executable, "-m", "tunebuild", "build", "--mode", "tune", "--json")


def figures(quick: bool) -> list[Figure]:
    families, rounds = (4, 2) if quick else (40, 3)
    ratios: list[float] = []
    busy: list[float] = []
    with projects.workshop() as folder:
        for each in range(rounds):
            root = projects.write(folder / f"tree_{each}", families)
            env = projects.environment(folder, TUNEBUILD_CACHE=str(folder / f"cache_{each}"))
            ours = take(BUILD, root, env)
            _forget(root)
            command = (ninja_path(), "-f", "build/build.ninja", "-d", "keepdepfile", "tune")
            plain = take(command, root, {**env, "TB_FRESH": "1"})
            ratios.append(ours.wall_s / plain.wall_s)
            busy.append(ours.busy)
        rows = families * projects.ROWS_A_FAMILY
        found = [
            Figure(f"cold tune build to plain ninja, {rows} rows", statistics.median(ratios), "x", 1.10),
            Figure("cores busy during it", statistics.median(busy) * 100, "%", 85, least=True),
            Figure("kernels compiled by a normal build after a mint", _after_mint(root, env), "", 0),
        ]
        other = folder / "second checkout"
        shutil.copytree(root, other, ignore=shutil.ignore_patterns("build", "generated"))
        warm = take(BUILD, other, env)
        made = json.loads(warm.stdout.splitlines()[-1])["made"]
        found.append(Figure("tools run in a second checkout", len(made), "", 0))
        found.append(Figure(f"second checkout, {rows} rows", warm.wall_s, "s"))
    return found


def _forget(root: Path) -> None:
    """All that was made, and that it was."""
    for name in ("obj", "tune", "pch", "normal"):
        shutil.rmtree(root / "build" / name, ignore_errors=True)
    for name in (".ninja_log", ".ninja_deps"):
        (root / "build" / name).unlink(missing_ok=True)


def _after_mint(root: Path, env: dict[str, str]) -> int:
    """Record another winner for every family, as a mint does, and count the rows that a normal build compiles."""
    projects.tunebuild(root, "build", "--mode", "tune", env=env)
    made = generate.generate(root)
    read = made.records[made.app().name]
    winners = {family.name: "isa_avx2_u4" for family in made.manifest.families}
    sidecar.save(read.path, Change(kernels=winners, built=made.built), box=made.box, built_now=made.built)
    done = projects.tunebuild(root, "build", "--json", env=env)
    outputs = [Path(name).name for name in json.loads(done.stdout.splitlines()[-1])["made"]]
    return sum("__isa" in name for name in outputs)

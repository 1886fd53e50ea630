"""What a command costs that has nothing to do: against ninja on the same folder, and what it imports."""

from __future__ import annotations

import sys
from pathlib import Path

from buildlab import projects
from buildlab.figures import Figure, in_turns, take
from tunebuild.front import ninja_path

HEAVY = ("numpy", "cffi", "jinja2", "tomlkit", "pydantic")
COMMAND = (sys.executable, "-m", "tunebuild")
ALLOWANCE_S = 0.030


def figures(quick: bool) -> list[Figure]:
    rounds = 7 if quick else 25
    found: list[Figure] = []
    with projects.workshop() as folder:
        trees = {"2,000 rows": projects.write(folder / "many", 10 if quick else 100, 200 if quick else 20)}
        if not quick:
            trees["this repository"] = projects.copy_of_repository(folder / "own")
        for name, root in trees.items():
            found += _noop(name, root, folder, rounds)
        root = trees["2,000 rows"]
        env = projects.environment(folder)
        (version_s,) = in_turns([(*COMMAND, "--version")], root, env, rounds)
        found.append(Figure("--version", version_s * 1e3, "ms", 60))
        found.append(_status(projects.write(folder / "status", 50 if quick else 500, 4), folder, rounds))
    return found


def _noop(name: str, root: Path, folder: Path, rounds: int) -> list[Figure]:
    env = projects.environment(folder)
    for _ in range(2):  # a tree written this very moment is remembered by the second build
        projects.tunebuild(root, "build", env=env)
    ours = (*COMMAND, "build")
    plain = (ninja_path(), "-f", "build/build.ninja", "normal")
    ours_s, ninja_s = in_turns([ours, plain], root, {**env, "TB_FRESH": "1"}, rounds)
    imported = _imported((*COMMAND[:1], "-X", "importtime", *COMMAND[1:], "build"), root, env)
    return [
        Figure(f"no-op build, {name}", ours_s * 1e3, "ms"),
        Figure(f"no-op ninja, {name}", ninja_s * 1e3, "ms"),
        Figure(
            f"no-op build beyond 2 x ninja, {name}", (ours_s - 2 * ninja_s) * 1e3, "ms", ALLOWANCE_S * 1e3
        ),
        Figure(f"heavy imports of a no-op build, {name}", len(imported), "", 0),
    ]


def _imported(command: tuple[str, ...], root: Path, env: dict[str, str]) -> set[str]:
    """Which of the heavy packages a command imports, by its own list of imports."""
    lines = take(command, root, env).stderr.splitlines()
    names = {line.rsplit("|", 1)[-1].strip() for line in lines if line.startswith("import time:")}
    return names & set(HEAVY)


def _status(root: Path, folder: Path, rounds: int) -> Figure:
    env = projects.environment(folder)
    for _ in range(2):
        projects.tunebuild(root, "build", env=env)
    (status_s,) = in_turns([(*COMMAND, "status")], root, env, rounds)
    return Figure(
        f"status of {len(list(root.glob('kernels/templates/*/')))} families", status_s * 1e3, "ms", 250
    )

"""tune.toml to build.ninja for trees of growing size: seconds, growth, memory."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from buildlab import projects
from buildlab.figures import Figure, take

_GENERATE = """\
import json, resource, time
started = time.perf_counter()
from pathlib import Path
from tunebuild import generate, writing
writing.write(generate.generate(Path.cwd()))
seconds = time.perf_counter() - started
print(json.dumps([seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3]))
"""
GOALS_S = {2_000: 1.2, 10_000: 3.0}


def figures(quick: bool) -> list[Figure]:
    sizes = (200, 2_000) if quick else (200, 2_000, 10_000, 20_000)
    found: list[Figure] = []
    per_row: dict[int, float] = {}
    with projects.workshop() as folder:
        env = projects.environment(folder)
        for rows in sizes:
            root = projects.write(folder / f"rows_{rows}", rows // projects.ROWS_A_FAMILY)
            seconds, megabytes = _generate(root, env)
            again_s, _ = _generate(root, env)
            per_row[rows] = seconds / rows
            found += [
                Figure(f"tune.toml to build.ninja, {rows:,} rows", seconds, "s", GOALS_S.get(rows)),
                Figure(f"the same with nothing to write, {rows:,} rows", again_s, "s"),
            ]
            if rows == 10_000:
                found.append(Figure("memory, 10,000 rows", megabytes, "MB", 200))
        least, most = 2_000, sizes[-1]
        if most > least:
            growth = per_row[most] / per_row[least]
            found.append(Figure(f"time a row, {most:,} to {least:,} rows", growth, "x", 1.3))
        huge = projects.write(folder / "huge", 500 if quick else 5_000)
        found += _check(huge, env)
    return found


def _generate(root: Path, env: dict[str, str]) -> tuple[float, float]:
    seconds, megabytes = json.loads(take((sys.executable, "-c", _GENERATE), root, env).stdout)
    return float(seconds), float(megabytes)


def _check(root: Path, env: dict[str, str]) -> list[Figure]:
    code = (
        "import resource, sys\nfrom tunebuild.cli import main\ntry: main(['check'])\nfinally:\n"
        " print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3, file=sys.stderr)\n"
    )
    took = take((sys.executable, "-c", code), root, env)
    families = len(list(root.glob("kernels/templates/*/")))
    return [
        Figure(f"check, {families:,} families of 20 rows", took.wall_s, "s", 4),
        Figure(f"memory of check, {families:,} families", float(took.stderr.split()[-1]), "MB", 400),
    ]

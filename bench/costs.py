"""What a mint costs: processor time of a row, seconds of a family of 20 rows, a grid of 2,000 rows.

    python bench/costs.py                      every figure, a line each (minutes); --only row, family or grid
    python bench/costs.py --json               one document, the last line
    python bench/costs.py --rows 400           a smaller large grid

Rows are dot products of a few lines. *row*: user and system time of `tunebuild build --mode tune` and all its
children, 192 rows less 64, by the row: generation, compile, link and drivers; beside it what a row's own compile line
takes when run alone, and what it takes on an empty file.
*family*: gate, race and validation of a cold mint of 20 rows, and of 20 rows of equal speed; the median of
`--runs`. *grid*: one cold mint; and one that is interrupted when half of its rows are compiled, then run again:
how many rows are compiled twice? Nothing else should run meanwhile; processor time bears it best.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(Path(__file__).parent))

from buildlab.figures import Figure, take
from tunerlab import dots, watch

from tunebuild.measure import Measure

TUNE_BUILD = (sys.executable, "-m", "tunebuild", "build", "--mode", "tune")


def row(work: Path, asked: argparse.Namespace) -> list[Figure]:
    found = []
    for header, name in ((True, "a row with <immintrin.h>"), (False, "a row without a header")):
        cpu: dict[int, float] = {}
        for grid in (dots.small(64), dots.small(192)):
            folder = dots.write(work / f"row{grid.rows}{header}", grid, header=header)
            cpu[grid.rows] = take(TUNE_BUILD, folder, watch.environ(folder)).cpu_s
        few, many = sorted(cpu)
        found += [
            Figure(f"processor time of {name}", 1000 * (cpu[many] - cpu[few]) / (many - few), "ms", 50),
            Figure(f"  of it the compile line of {name}", 1000 * compiler(folder), "ms"),
            Figure(f"  that line on an empty file, {name}", 1000 * compiler(folder, empty=True), "ms"),
        ]
    return found


def compiler(folder: Path, *, empty: bool = False, runs: int = 16) -> float:
    """Processor seconds of a row's own compile line, run alone; ``empty``: on no text, which no tool can go below."""
    commands = json.loads((folder / "build/compile_commands.json").read_text())
    lines = [each for each in commands if each["file"].startswith("generated/rows/")]
    nothing = folder / "build/empty.c"
    nothing.write_text("")
    spent = []
    for line in lines[:: max(1, len(lines) // runs)]:
        words = [str(nothing) if empty and word == line["file"] else word for word in line["arguments"]]
        words[words.index("-o") + 1] = os.devnull
        spent.append(take(tuple(words), folder, watch.environ(folder)).cpu_s)
    return median(spent)


def family(work: Path, asked: argparse.Namespace) -> list[Figure]:
    found = []
    for name, goal, folder in (
        ("20 rows", 2.0, dots.write(work / "twenty", dots.TWENTY)),
        ("20 rows of equal speed", 1.0, dots.write_equal(work / "equal", 20)),
    ):
        spent: list[float] = []
        doses: list[float] = []
        for _ in range(asked.runs):
            dots.forget(folder)
            watched = watch.mint(folder)
            spent.append(sum(watched.stages[stage] for stage in ("gate", "race", "validate")))
            doses.append(watched.record["race"]["dot"]["doses"])
        found.append(Figure(f"gate, race and validation of {name}", median(spent), "s", goal))
        found.append(Figure(f"doses of {name}", median(doses), "", 65 if name == "20 rows" else 45))
    return found


def grid(work: Path, asked: argparse.Namespace) -> list[Figure]:
    wanted = dots.large(asked.rows)
    folder = dots.write(work / "grid", wanted)
    watched = watch.mint(folder)
    race = watched.record["race"]["dot"]
    measure = Measure()
    budget = measure.budget_doses + measure.budget_doses_per_row * wanted.rows
    name = f"{wanted.rows:,} rows"
    return [
        Figure(f"mint of {name}", watched.wall_s, "s"),
        *(Figure(f"  of it {stage}", watched.stages[stage], "s") for stage in watch.STAGES),
        Figure(f"processor time a row of {name}", 1000 * watched.cpu_s / wanted.rows, "ms"),
        Figure(f"doses of {name}", race["doses"], "", budget),
        Figure("margin of its winner", race["margin_pct"], "%"),
        *interrupted(dots.write(work / "interrupted", wanted), wanted.rows),
    ]


def interrupted(folder: Path, rows: int) -> list[Figure]:
    """End a mint when half of the rows are compiled, and mint again."""
    with watch.start(folder, "mint") as process:
        while len(objects(folder)) < rows // 2:
            if process.poll() is not None:
                raise SystemExit("the mint ended before half of its rows were compiled")
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        process.communicate()
    kept = objects(folder)
    left = list(folder.glob("*.tune.json"))
    watch.mint(folder)
    after = objects(folder)
    again = sum(after.get(path) != written for path, written in kept.items())
    return [
        Figure("exit code of a mint interrupted half way", process.returncode, "", 130),
        Figure("winners that it wrote", len(left), "", 0),
        Figure("rows that it had compiled", len(kept), "", rows // 2, least=True),
        Figure("rows compiled twice by the next mint", again, "", 0),
    ]


def objects(folder: Path) -> Mapping[str, tuple[int, int]]:
    """The compiled rows: when each was written, and how long it is."""
    found = {}
    try:
        with os.scandir(folder / "build/obj/dot") as entries:
            for entry in entries:
                if entry.name.endswith(".o"):
                    known = entry.stat()
                    found[entry.name] = (known.st_mtime_ns, known.st_size)
    except FileNotFoundError:
        pass
    return found


PARTS: Mapping[str, Callable[[Path, argparse.Namespace], list[Figure]]] = {
    "row": row,
    "family": family,
    "grid": grid,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", choices=sorted(PARTS))
    parser.add_argument("--runs", type=int, default=5, help="mints of each family")
    parser.add_argument("--rows", type=int, default=2000, help="rows of the large grid")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    found: list[Figure] = []
    for name in asked.only or PARTS:
        with tempfile.TemporaryDirectory(prefix="tunebuild-costs-") as folder:
            made = PARTS[name](Path(folder), asked)
        found += made
        print("\n".join(figure.line() for figure in made), flush=True)
    if asked.json:
        print(json.dumps({figure.name.strip(): [figure.value, figure.goal] for figure in found}))


if __name__ == "__main__":
    main()

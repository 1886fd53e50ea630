"""The weather lab: ours and the baseline protocol on simulated boxes of known truth.

python bench/race.py                the whole lab: 18 weathers, 9 grids, 60 boxes, 2 mints each (minutes)
python bench/race.py --quick        a slice of it, under 45 s on 2 cores; --json: one document, the last line
python bench/race.py --identical    10,000 mints of twenty identical rows: how many are crowned?
python bench/race.py --bugs         every seeded bug, and the check that catches it
python bench/race.py --mutants 100 --seed 3    mutants of the statistics and the protocol; 0: all of them
python bench/race.py --only ours --weathers 'quiet;noisy' --set margin_pct=4    one question
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from lab.bugs import BUGS, caught_by
from lab.checks import RECORDED, summaries
from lab.figures import Mint, box_of, by_baseline, by_ours, figures
from lab.grids import CORE, GRIDS
from lab.mutants import chosen, killed_by
from lab.weathers import WEATHERS

from tunebuild.measure import Measure

COLUMNS = ("doses_mean", "regret_all", "false_all", "missed_all", "flips_all")


@dataclass(frozen=True, slots=True)
class Job:
    """Boxes ``first`` to ``last`` of one weather and grid, minted by one protocol."""

    protocol: str
    weather: int
    grid: str
    first: int
    last: int
    overrides: tuple[tuple[str, float], ...]
    rows: int


def serve(job: Job) -> list[list[Mint]]:
    once = by_baseline if job.protocol == "baseline" else by_ours(Measure.from_overrides(job.overrides))
    return [
        box_of(once, WEATHERS[job.weather], job.grid, number, rows=job.rows)
        for number in range(job.first, job.last)
    ]


def run(pool: ProcessPoolExecutor, protocol: str, asked: argparse.Namespace) -> list[list[Mint]]:
    """All boxes of one protocol, in order."""
    overrides = tuple((name, json.loads(value)) for name, value in (each.split("=", 1) for each in asked.set))
    jobs = [
        Job(protocol, index, grid, first, min(first + 10, asked.boxes), overrides, asked.rows)
        for index, weather in enumerate(WEATHERS)
        if not asked.weathers or weather.name in asked.weathers.split(";")
        for grid in asked.grids.split(",")
        for first in range(0, asked.boxes, 10)
    ]
    return [box for served in pool.map(serve, jobs) for box in served]


def core(boxes: Sequence[list[Mint]]) -> list[list[Mint]]:
    """The grids that the overall figures are made of; the others only tempt."""
    return [box for box in boxes if box[0].grid in CORE] or list(boxes)


def table(title: str, keys: Sequence[str], key: str, made: dict[str, list[list[Mint]]]) -> Iterator[str]:
    """One line for each weather or grid, the protocols side by side, as Markdown."""
    names = list(made)
    yield f"| {title} | " + " | ".join(column.removesuffix("_all") for column in COLUMNS) + " |"
    yield "|---|" + "--:|" * len(COLUMNS)
    for value in keys:
        parts = [[box for box in made[name] if getattr(box[0], key) == value] for name in names]
        if not all(parts):
            continue
        found = [figures(core(part) if key == "weather" else part) for part in parts]
        cells = [
            " / ".join(f"{each[column]:.{2 - (column == 'doses_mean')}f}" for each in found)
            for column in COLUMNS
        ]
        yield f"| {value} | " + " | ".join(cells) + " |"


def lab(asked: argparse.Namespace) -> int:
    names = [asked.only] if asked.only else ["ours", "baseline"]
    made: dict[str, list[list[Mint]]] = {}
    walls: dict[str, float] = {}
    with ProcessPoolExecutor(asked.jobs or None) as pool:
        for name in names:
            start = time.monotonic()
            made[name] = run(pool, name, asked)
            walls[name] = time.monotonic() - start
    report = {name: figures(core(boxes)) | {"wall_s": walls[name]} for name, boxes in made.items()}
    if not asked.json:
        print(f"{' / '.join(names)}, {sum(len(b) for b in made[names[0]])} mints each\n")
        print("\n".join(table("weather", [weather.name for weather in WEATHERS], "weather", made)), "\n")
        print("\n".join(table("grid", list(GRIDS), "grid", made)), "\n")
    for figure in sorted({figure for found in report.values() for figure in found}):
        print(
            f"{figure:18s}" + "".join(f"  {n} {report[n][figure]:9.3f}" for n in names if figure in report[n])
        )
    if asked.json:
        print(json.dumps(report, sort_keys=True))
    return 0


def seeded(jobs: int) -> int:
    """Say for each seeded bug which check catches it; 1 if one escapes."""
    escaped = 0
    with ProcessPoolExecutor(jobs or None) as pool:
        for bug, check in zip(BUGS, pool.map(caught_by, BUGS), strict=True):
            escaped += not check
            print(f"{bug.module:9s} {bug.name:48s} {check or 'ESCAPED'}")
    print(f"{len(BUGS) - escaped} of {len(BUGS)} seeded bugs caught")
    return 1 if escaped else 0


def mutated(count: int, seed: int, jobs: int) -> int:
    """Name every mutant that survived, and the share that was killed."""
    drawn = chosen(count, seed)
    with ProcessPoolExecutor(jobs or None) as pool:
        killed = list(pool.map(killed_by, drawn))
    for mutant, check in zip(drawn, killed, strict=True):
        if not check:
            print(f"{mutant.module}.py:{mutant.line}: {mutant.what} survived")
    dead = sum(map(bool, killed))
    print(f"{dead} of {len(drawn)} mutants killed, {100 * dead / max(len(drawn), 1):.1f} %")
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="6 boxes of the core grids")
    parser.add_argument("--json", action="store_true", help="the figures as JSON, the last line")
    parser.add_argument("--identical", action="store_true", help="10,000 mints of identical rows")
    parser.add_argument("--bugs", action="store_true", help="run every seeded bug")
    parser.add_argument("--accept", action="store_true", help="record what the recorded scenes decide now")
    parser.add_argument("--mutants", type=int, default=-1, metavar="N", help="run N mutants, 0 for all")
    parser.add_argument("--seed", type=int, default=1, help="which mutants are drawn")
    parser.add_argument("--boxes", type=int, default=0, help="boxes for each weather and grid")
    parser.add_argument("--rows", type=int, default=20, help="rows of a grid, the fallback among them")
    parser.add_argument("--jobs", type=int, default=0, help="processes (default: all cores)")
    parser.add_argument("--grids", default="", help="names, separated by commas")
    parser.add_argument("--weathers", default="", help="names, separated by semicolons")
    parser.add_argument("--only", choices=["ours", "baseline"])
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a constant of [measure]"
    )
    asked = parser.parse_args(argv)
    if asked.accept:
        lines = (f"{json.dumps(name)}: {json.dumps(numbers)}" for name, numbers in summaries().items())
        RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        return 0
    if asked.bugs:
        return seeded(asked.jobs)
    if asked.mutants >= 0:
        return mutated(asked.mutants, asked.seed, asked.jobs)
    if asked.identical:
        asked.only, asked.grids, asked.boxes = "ours", "null", asked.boxes or 295
    asked.boxes = asked.boxes or (6 if asked.quick else 60)
    asked.grids = asked.grids or ",".join(CORE if asked.quick else GRIDS)
    return lab(asked)


if __name__ == "__main__":
    sys.exit(main())

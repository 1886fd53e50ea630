"""The weather lab: `python bench/race.py` runs ours and the baseline over every weather and grid.

--quick       a slice of it, under 45 s on 2 cores
--json        the figures as one JSON document, the last line
--boxes N     boxes for each weather and grid
--jobs N      processes (default: cores)
--grids/--weathers NAME,…
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from lab import figures as lab_figures
from lab.figures import Mint, box_of, by_baseline, by_ours
from lab.grids import CORE
from lab.weathers import WEATHERS

from tunebuild.measure import Measure

Job = tuple[str, int, str, int, tuple[tuple[str, float], ...]]


def _serve(job: Job) -> list[list[Mint]]:
    protocol, weather, grid, boxes, overrides = job
    once = by_baseline if protocol == "baseline" else by_ours(Measure.from_overrides(overrides))
    return [box_of(once, WEATHERS[weather], grid, number) for number in range(boxes)]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--boxes", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=0)
    parser.add_argument("--grids", default="")
    parser.add_argument("--weathers", default="")
    parser.add_argument("--only", choices=["ours", "baseline"])
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    asked = parser.parse_args(argv)
    overrides = tuple((n, json.loads(v)) for n, v in (pair.split("=", 1) for pair in asked.set))
    wanted = asked.grids.split(",") if asked.grids else list(CORE)
    weathers = [
        index
        for index, weather in enumerate(WEATHERS)
        if not asked.weathers or weather.name in asked.weathers.split(";")
    ]
    boxes = asked.boxes or (6 if asked.quick else 60)
    names = [asked.only] if asked.only else ["ours", "baseline"]
    report: dict[str, dict[str, float]] = {}
    for name in names:
        start = time.monotonic()
        jobs: list[Job] = [(name, w, g, boxes, overrides) for w in weathers for g in wanted]
        with ProcessPoolExecutor(asked.jobs or None) as pool:
            served = [box for made in pool.map(_serve, jobs) for box in made]
        report[name] = lab_figures.figures(served)
        report[name]["wall_s"] = time.monotonic() - start
        if not asked.json:
            for weather in WEATHERS:
                rows = [box for box in served if box[0].weather == weather.name]
                if rows:
                    f = lab_figures.figures(rows)
                    print(
                        f"{name:9s} {weather.name:26s} doses {f['doses_mean']:6.1f} regret {f['regret_all']:5.2f} "
                        f"false {f['false_all']:5.2f} missed {f['missed_all']:5.1f} flips {f['flips_all']:5.1f}"
                    )
            for grid in wanted:
                rows = [box for box in served if box[0].grid == grid]
                f = lab_figures.figures(rows)
                print(
                    f"{name:9s} {grid:26s} doses {f['doses_mean']:6.1f} regret {f['regret_all']:5.2f} "
                    f"false {f['false_all']:5.2f} missed {f['missed_all']:5.1f} flips {f['flips_all']:5.1f}"
                )
    for figure in report[names[0]]:
        print(f"{figure:20s} " + "  ".join(f"{n} {report[n].get(figure, float('nan')):8.3f}" for n in names))
    if asked.json:
        print(json.dumps(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())

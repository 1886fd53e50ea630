"""The same 64 rows of a dot product, tuned by us and by Kernel Tuner's C backend, again and again from nothing.

    python bench/kernel_tuner.py --runs 12          side by side; --json: one document, the last line
    python bench/kernel_tuner.py --quick            two runs each and a short judge: does everything work?

The first run makes build/kernel_tuner/venv and installs kernel-tuner there. Each run is cold: nothing compiled, no
cache, no winner from before. Kernel Tuner compiles the very C files that we generate, with the same flags, and
times each row seven times, which is its own default, in calls of `--window` milliseconds: our window, and the
20 ms of a dose. All times are taken on the same core. The judge is one long race of all rows (`--long` doses a
row): regret is how much slower the chosen row is than the best, in percent of its own time. Nothing else should
run meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(Path(__file__).parent))

from peerlab import install, libraries
from tunerlab import dots, watch

from tunebuild import host

WORK = ROOT / "build/kernel_tuner"

# A timing function as its C backend wants it: the time is what it returns. The row is called through a pointer that
# the compiler must not see through, as ours is, until the window is over.
TIMED = """\
/* The words extern "C" keep the file from being wrapped for C++. */
#define _POSIX_C_SOURCE 199309L
#include <stddef.h>
#include <time.h>
#define TB_TEXT_(x) #x
#define TB_TEXT(x) TB_TEXT_(x)
#define TB_HEADER_(n) TB_TEXT(row_##n.h)
#define TB_HEADER(n) TB_HEADER_(n)
#include TB_HEADER(tb_row)

static float (*volatile called)(const float *, const float *, size_t) = TB_CHOSEN;
static volatile float sink;

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * t.tv_sec + 1e-6 * t.tv_nsec;
}

float timed(const float *a, const float *b, unsigned long n, float window_ms)
{
    double start = now_ms(), passed;
    long calls = 0;
    do {
        for (int i = 0; i < 64; i++)
            sink = called(a, b, n);
        calls += 64;
        passed = now_ms() - start;
    } while (passed < window_ms);
    return (float)(passed / calls);
}
"""

CRASH = """\
float dot__crash(const float *a, const float *b, size_t n) { return a[n << 40] + b[0]; }
#define TB_CHOSEN dot__crash
"""


@dataclass(slots=True)
class Side:
    """What one tuner did in all of its runs."""

    walls_s: list[float] = field(default_factory=list)
    winners: list[str] = field(default_factory=list)
    notes: dict[str, Any] = field(default_factory=dict)

    def figures(self, gains: Mapping[str, float]) -> dict[str, Any]:
        lost = [regret(gains, winner) for winner in self.winners]
        return {
            "runs": len(self.winners),
            "wall_s_median": round(median(self.walls_s), 2),
            "wall_s_max": round(max(self.walls_s), 2),
            "distinct_winners": len(set(self.winners)),
            "most_frequent_pct": round(100 * max(map(self.winners.count, self.winners)) / len(self.winners)),
            "regret_pct_mean": round(mean(lost), 3),
            "regret_pct_max": round(max(lost), 2),
            "winners": self.winners,
            **self.notes,
        }


def regret(gains: Mapping[str, float], chosen: str) -> float:
    """How much slower ``chosen`` is than the best, in percent of its own time."""
    return 100 * (max(gains.values()) - gains[chosen]) / (100 - gains[chosen])


# --- the judge -----------------------------------------------------------------------------------


def judged(folder: Path, doses_per_row: float) -> dict[str, float]:
    """Each row's gain over the fallback, in percent, from one long race in which none leaves early."""
    long = (
        f"\n[measure]\nbudget_doses_per_row = {doses_per_row}\n"
        "max_rounds = 400\nseat_z = 50.0\nleave_z = 1000.0\nfar_pct = 90.0\ntie_share = 1.0\n"
    )
    dots.write(folder, dots.SIXTY_FOUR, more=long)
    rows = watch.mint(folder).record["race"]["dot"]["rows"]
    return {suffix: row["gain_pct"] for suffix, row in rows.items() if suffix != "reference"}


# --- the two tuners ------------------------------------------------------------------------------


def ours(folder: Path, runs: int) -> Side:
    side = Side()
    stages: list[Mapping[str, float]] = []
    dots.write(folder, dots.SIXTY_FOUR)
    for _ in range(runs):
        dots.forget(folder)
        watched = watch.mint(folder)
        race = watched.record["race"]["dot"]
        side.walls_s.append(watched.wall_s)
        side.winners.append(race["winner"])
        stages.append(watched.stages)
        said(f"ours: {watched.wall_s:.1f} s, {race['winner']}")
    side.notes = {
        "compile_gate_race_s": round(median(s["compile"] + s["gate"] + s["race"] for s in stages), 2),
        "stages_s": {name: round(median(s[name] for s in stages), 2) for name in watch.STAGES},
        "gate": "yes",
        "a row that crashes": "it is named, the run goes on",
    }
    return side


def their_sources(project: Path, folder: Path) -> tuple[str, ...]:
    """The timing function, and for each row a header that includes its generated file. Suffixes in order."""
    folder.mkdir()
    (folder / "timed.c").write_text(TIMED)
    files = sorted((project / "generated/rows/dot").glob("dot__vec*.c"))
    for index, path in enumerate(files):
        (folder / f"row_{index}.h").write_text(f'#include "{path}"\n#define TB_CHOSEN {path.stem}\n')
    return tuple(path.stem.removeprefix("dot__") for path in files)


def tune(
    python: Path, folder: Path, rows: int, window_ms: float
) -> tuple[float, subprocess.CompletedProcess[str]]:
    """One tuning of the first ``rows`` rows, its process included: seconds, and what it said."""
    job = {
        "folder": str(folder),
        "source": str(folder / "timed.c"),
        "rows": rows,
        "flags": dots.flags(),
        "elements": dots.ELEMENTS,
        "window_ms": window_ms,
        "core": host.race_core(host.cores()),
    }
    script = Path(__file__).parent / "tunerlab/theirs.py"
    started = time.monotonic()
    done = subprocess.run([python, script, json.dumps(job)], capture_output=True, text=True)
    return time.monotonic() - started, done


def theirs(python: Path, folder: Path, suffixes: Sequence[str], runs: int, window_ms: float) -> Side:
    side = Side(notes={"gate": "no"})
    for _ in range(runs):
        wall, done = tune(python, folder, len(suffixes), window_ms)
        if done.returncode:
            raise SystemExit(f"Kernel Tuner gave {done.returncode}\n{done.stderr[-2000:]}")
        answer = json.loads(done.stdout.splitlines()[-1])
        times = answer["times"]
        side.walls_s.append(wall)
        side.winners.append(suffixes[int(min(times, key=lambda row: times[row]))])
        side.notes["version"] = answer["version"]
        said(f"Kernel Tuner, {window_ms:g} ms: {wall:.1f} s, {side.winners[-1]}")
    return side


def after_a_crash(python: Path, folder: Path) -> str:
    """What becomes of a tuning of two rows, one of which crashes."""
    good = (folder / "row_1.h").read_text()
    (folder / "row_1.h").write_text(CRASH)
    _, done = tune(python, folder, 2, 1.0)
    (folder / "row_1.h").write_text(good)
    return "the run goes on" if done.returncode == 0 else f"the run dies with {done.returncode}"


def compared(asked: argparse.Namespace, python: Path) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="tunebuild-tuners-") as name:
        work = Path(name)
        gains = judged(work / "judge", asked.long)
        said(f"the judge: the best row gains {max(gains.values()):.2f} % over {dots.FALLBACK}")
        sides = {"tunebuild": ours(work / "ours", asked.runs)}
        suffixes = their_sources(work / "ours", work / "theirs")
        crash = after_a_crash(python, work / "theirs")
        for window_ms in asked.window:
            side = theirs(python, work / "theirs", suffixes, asked.runs, window_ms)
            side.notes["a row that crashes"] = crash
            sides[f"Kernel Tuner, {window_ms:g} ms"] = side
    return {
        "rows": len(gains),
        "cpu": libraries.cpu_name(),
        "compiler": subprocess.run(["gcc", "--version"], capture_output=True, text=True).stdout.splitlines()[
            0
        ],
        "load": os.getloadavg()[0],
        "flags": dots.flags(),
        "best_gain_pct": round(max(gains.values()), 2),
        "within_1_pct": sum(gain > max(gains.values()) - 1 for gain in gains.values()),
        "sides": {name: side.figures(gains) for name, side in sides.items()},
    }


LINES = (
    ("wall time of a run, s, median", "wall_s_median"),
    ("the longest", "wall_s_max"),
    ("of it compile, gate and race, s", "compile_gate_race_s"),
    ("distinct winners", "distinct_winners"),
    ("runs that name the most frequent winner, %", "most_frequent_pct"),
    ("regret, mean, %", "regret_pct_mean"),
    ("regret, worst, %", "regret_pct_max"),
    ("results are checked", "gate"),
    ("a row that crashes", "a row that crashes"),
)


def table(found: Mapping[str, Any]) -> list[str]:
    sides = found["sides"]
    lines = [
        f"{found['cpu']}, {found['compiler']}, {' '.join(found['flags'])}; load {found['load']:.1f} at the end; "
        f"{found['rows']} rows, {found['within_1_pct']} of them within 1 % of the best",
        "",
        f"| | {' | '.join(sides)} |",
        "|---|" + "--:|" * len(sides),
    ]
    for title, key in LINES:
        lines.append(f"| {title} | {' | '.join(str(side.get(key, '—')) for side in sides.values())} |")
    return lines


def said(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument(
        "--window", type=float, nargs="+", default=[2.5, 20.0], help="milliseconds of one call"
    )
    parser.add_argument("--long", type=float, default=20.0, help="doses a row of the judging race")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    if asked.quick:
        asked.runs, asked.window, asked.long = 2, [2.5], 3.0
    WORK.mkdir(parents=True, exist_ok=True)
    python, missing = install.environment(WORK, wanted=("kernel-tuner",))
    if missing:
        raise SystemExit("\n".join(missing))
    found = compared(asked, python)
    print("\n".join(table(found)))
    if asked.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()

"""Mints on this machine, again and again: how often a winner changes, what a winner costs, how long it takes.

    python bench/live.py --mints 10                       idle re-mints of the catalogue
    python bench/live.py --mints 10 --disturbed           with a process burning 30 ms of every 230 ms on the core
    python bench/live.py --identical 50                   ten rows of equal speed: none may be crowned
    python bench/live.py --only dot_f32,axpy --mints 3    some seats alone

Nothing else may run meanwhile, except what `--disturbed` starts. `--json` prints one document. Regret is against
one long race of the same rows (`--long` doses a row), in percent of the chosen row's time.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import mean
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tunebuild import host

BURN = """
import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
while True:
    end = time.monotonic() + 0.030
    while time.monotonic() < end:
        pass
    time.sleep(0.200)
"""

IDENTICAL_TOML = """\
[project]
name = "identical"

[family.dot]
prototype = "float dot(const float *a, const float *b, size_t n)"
fallback = "id0"
grid.axes = { id = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9] }
args = { a = { in = "f32[n]" }, b = { in = "f32[n]" } }
check = { compare = { rtol = 1e-5, scale = "abs" } }

[family.dot.workload.l1]
n = 4096
"""

IDENTICAL_C = """\
#include <stddef.h>

float dot(const float *a, const float *b, size_t n)
{
    float sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}
"""

# The number is data beside the code, so that rows differ as objects and not in speed.
IDENTICAL_J2 = """\
typedef float vec __attribute__((vector_size(16), aligned(4)));
__asm__(".pushsection .rodata\\n.long {{ id }}\\n.popsection");

{{ prototype }}
{
    vec s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        s0 += *(const vec *)(a + i) * *(const vec *)(b + i);
        s1 += *(const vec *)(a + i + 4) * *(const vec *)(b + i + 4);
        s2 += *(const vec *)(a + i + 8) * *(const vec *)(b + i + 8);
        s3 += *(const vec *)(a + i + 12) * *(const vec *)(b + i + 12);
    }
    s0 += s1 + s2 + s3;
    float sum = s0[0] + s0[1] + s0[2] + s0[3];
    for (; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}
"""


@contextmanager
def disturbance(wanted: bool) -> Iterator[None]:
    """A competitor on the race's own core while the block runs."""
    if not wanted:
        yield
        return
    core = host.race_core(host.cores())
    with subprocess.Popen([sys.executable, "-c", BURN, str(core)]) as burner:
        try:
            yield
        finally:
            burner.kill()


def environ(folder: Path, extra: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TUNEBUILD_")}
    return {**kept, "TUNEBUILD_HISTORY": str(folder / "history"), "PYTHONPATH": str(ROOT), **extra}


REFUSED = 3


def run_mint(folder: Path, only: str, extra: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tunebuild", "mint", *(["--only", only] if only else [])]
    return subprocess.run(command, cwd=folder, env=environ(folder, extra), capture_output=True, text=True)


def mint(folder: Path, only: str, extra: Mapping[str, str]) -> float:
    """One mint; its wall time in seconds. Raises when it fails."""
    started = time.monotonic()
    done = run_mint(folder, only, extra)
    if done.returncode:
        raise SystemExit(f"mint gave {done.returncode}\n{done.stderr[-2000:]}")
    wall = time.monotonic() - started
    print(f"mint: {wall:.1f} s", file=sys.stderr, flush=True)
    return wall


def refusal(folder: Path) -> dict[str, Any]:
    """A mint under the disturbance without an override: its exit code, and whether the sidecar is as it was."""
    (path,) = folder.glob("*.tune.json")
    before = path.read_bytes()
    done = run_mint(folder, "", {})
    return {"exit": done.returncode, "expected": REFUSED, "unchanged": path.read_bytes() == before}


def record(folder: Path) -> dict[str, Any]:
    (path,) = folder.glob("*.tune.json")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def catalogue(folder: Path) -> None:
    for name in ("tune.toml", "kernels", "profiles"):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name)
        elif source.exists():
            shutil.copy(source, folder / name)


def long_gains(folder: Path, only: str, doses_per_row: float) -> dict[str, dict[str, float]]:
    """By seat: each row's gain over the fallback, from one race with many times the usual budget."""
    toml = folder / "tune.toml"
    text = toml.read_text()
    long = (
        f"\n[measure]\nbudget_doses_per_row = {doses_per_row}\nmax_rounds = 400\nseat_z = 50.0\n"
        "leave_z = 6.0\nfar_pct = 30.0\n"
    )
    toml.write_text(text + long)
    mint(folder, only, {"TUNEBUILD_NOISE_OVERRIDE": "1"})
    found = {
        key: {suffix: row["gain_pct"] for suffix, row in race["rows"].items()}
        for key, race in record(folder)["race"].items()
    }
    toml.write_text(text)
    return found


def regret(gains: Mapping[str, float], chosen: str) -> float:
    """How much slower the chosen row is than the best, in percent of the chosen row's time."""
    if chosen not in gains:
        return 0.0
    best = max(gains.values())
    return 100.0 * (best - gains[chosen]) / (100.0 - gains[chosen])


def re_mints(count: int, only: str, disturbed: bool, doses: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="tunebuild-live-") as name:
        folder = Path(name)
        catalogue(folder)
        gains = long_gains(folder, only, doses)
        (path,) = folder.glob("*.tune.json")
        path.unlink()
        mint(folder, only, {"TUNEBUILD_NOISE_OVERRIDE": "1"})  # compiles, and names the first incumbents
        before = record(folder)["kernels"]
        flips, seats, walls, regrets, doses_spent, noise = [], 0, [], [], [], []
        extra = {"TUNEBUILD_NOISE_OVERRIDE": "1"} if disturbed else {}
        with disturbance(disturbed):
            for index in range(count):
                walls.append(mint(folder, only, extra))
                found = record(folder)
                seats += len(found["kernels"])
                flips += [
                    {"mint": index, "seat": key, "from": before.get(key), "to": winner}
                    for key, winner in found["kernels"].items()
                    if before.get(key) != winner
                ]
                regrets += [regret(gains.get(key, {}), winner) for key, winner in found["kernels"].items()]
                doses_spent += [race["doses"] for race in found["race"].values()]
                noise.append(found["provenance"]["noise_probes"])
                before = found["kernels"]
            refused = refusal(folder) if disturbed else None
        return {
            "mints": count,
            "disturbed": disturbed,
            "seats": seats,
            "flips": flips,
            "flips_pct": round(100 * len(flips) / max(seats, 1), 2),
            "regret_mean_pct": round(mean(regrets), 3),
            "regret_max_pct": round(max(regrets), 2),
            "wall_s": [round(wall, 1) for wall in walls],
            "doses_per_seat": round(mean(doses_spent), 1),
            "noise": noise,
            **({"without_override": refused} if disturbed else {}),
        }


def identical(count: int) -> dict[str, Any]:
    """Ten rows that differ in a constant beside their code: a crown is a false one."""
    with tempfile.TemporaryDirectory(prefix="tunebuild-same-") as name:
        folder = Path(name)
        kernel = folder / "kernels/templates/dot"
        kernel.mkdir(parents=True)
        (folder / "tune.toml").write_text(IDENTICAL_TOML)
        (kernel / "reference.c").write_text(IDENTICAL_C)
        (kernel / "kernel.c.j2").write_text(IDENTICAL_J2)
        crowned, walls, doses = [], [], []
        for index in range(count):
            for path in folder.glob("*.tune.json"):
                path.unlink()
            walls.append(mint(folder, "", {"TUNEBUILD_NOISE_OVERRIDE": "1"}))
            found = record(folder)
            doses.append(found["race"]["dot"]["doses"])
            if found["kernels"]["dot"] != "id0":
                crowned.append({"mint": index, "winner": found["kernels"]["dot"]})
        rows = len(found["race"]["dot"]["rows"])
        return {
            "mints": count,
            "rows": rows,
            "crowned": crowned,
            "doses": round(mean(doses), 1),
            "wall_s": round(mean(walls), 2),
        }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mints", type=int, default=0)
    parser.add_argument("--disturbed", action="store_true")
    parser.add_argument("--identical", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--long", type=float, default=20.0, help="doses a row of the long race")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found: dict[str, Any] = {}
    if options.mints:
        found["re_mints"] = re_mints(options.mints, options.only, options.disturbed, options.long)
    if options.identical:
        found["identical"] = identical(options.identical)
    if options.json:
        print(json.dumps(found))
        return
    for name, figures in found.items():
        print(name)
        for key, value in figures.items():
            print(f"  {key}: {value}")


if __name__ == "__main__":
    main()

"""Mints on this machine, again and again: how often a winner changes, what a winner costs, how long it takes.

    python bench/live.py --mints 10                       idle re-mints of the catalogue
    python bench/live.py --mints 10 --disturbed 10        and with a process burning 30 ms of every 230 ms on the core
    python bench/live.py --identical 50                   ten rows of equal speed: none may be crowned
    python bench/live.py --only dot_f32,axpy --mints 3    some seats alone
    python bench/live.py --beside 10                      twelve rows of a dot product, ours and the baseline in turn,
                                                          idle and with that process on the core

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
sys.path.insert(0, str(Path(__file__).parent))

from tunerlab import beside, dots
from tunerlab.package import snapshot

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


@contextmanager
def disturbance() -> Iterator[None]:
    """A competitor on the race's own core while the block runs."""
    core = host.race_core(host.cores())
    with subprocess.Popen([sys.executable, "-c", BURN, str(core)]) as burner:
        try:
            yield
        finally:
            burner.kill()


def environ(folder: Path, extra: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TUNEBUILD_")}
    return {**kept, "TUNEBUILD_HISTORY": str(folder / "history"), "PYTHONPATH": str(snapshot()), **extra}


REFUSED = 3
OVERRIDE = {"TUNEBUILD_NOISE_OVERRIDE": "1"}


def run_mint(folder: Path, only: str, extra: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tunebuild", "mint", *(["--only", only] if only else [])]
    return subprocess.run(command, cwd=folder, env=environ(folder, extra), capture_output=True, text=True)


def mint(folder: Path, only: str, extra: Mapping[str, str]) -> float | None:
    """One mint; its wall time in seconds, or None where the box was refused. Raises when it fails."""
    started = time.monotonic()
    done = run_mint(folder, only, extra)
    wall = time.monotonic() - started
    if done.returncode not in (0, REFUSED):
        raise SystemExit(f"mint gave {done.returncode}\n{done.stderr[-2000:]}")
    print(f"mint: {'refused' if done.returncode else f'{wall:.1f} s'}", file=sys.stderr, flush=True)
    return None if done.returncode else wall


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
    mint(folder, only, OVERRIDE)
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


def flip(
    race: Mapping[str, Any], key: str, before: str, winner: str, gains: Mapping[str, Mapping[str, float]]
) -> dict[str, Any]:
    """One changed winner, with what its race and the long race say of both rows."""

    def said(suffix: str) -> dict[str, Any]:
        row = race.get("rows", {}).get(suffix, {})
        told = {name: row[name] for name in ("gain_pct", "error_pct", "left_why") if name in row}
        return {"row": suffix, "long_gain_pct": gains.get(key, {}).get(suffix), **told}

    why = {name: race[name] for name in ("held_by", "tie", "demoted", "validation", "doses") if name in race}
    return {"seat": key, "from": said(before), "to": said(winner), **why}


def keep(folder: Path, kept: Path | None, index: int) -> None:
    """Copy the sidecar of one mint to ``kept``."""
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
        (path,) = folder.glob("*.tune.json")
        shutil.copy(path, kept / f"{index:02}.tune.json")


def re_mints(idle: int, disturbed: int, only: str, doses: float, kept: Path | None) -> dict[str, Any]:
    """Idle re-mints, then disturbed ones, of one tree; regret is against one long race before both."""
    with tempfile.TemporaryDirectory(prefix="tunebuild-live-") as name:
        folder = Path(name)
        catalogue(folder)
        gains = long_gains(folder, only, doses)
        (path,) = folder.glob("*.tune.json")
        path.unlink()
        mint(folder, only, OVERRIDE)  # compiles, and names the first incumbents
        found = {"idle": series(folder, idle, only, gains, {}, kept and kept / "idle")}
        if disturbed:
            with disturbance():
                kept = kept and kept / "disturbed"
                found["disturbed"] = series(folder, disturbed, only, gains, OVERRIDE, kept)
                found["disturbed"]["without_override"] = refusal(folder)
        return found


def series(
    folder: Path,
    count: int,
    only: str,
    gains: Mapping[str, Mapping[str, float]],
    extra: Mapping[str, str],
    kept: Path | None,
) -> dict[str, Any]:
    """Re-mints one after the other, each with the last one's winners as incumbents."""
    before = record(folder)["kernels"]
    flips, refused, walls, regrets, doses_spent, noise = [], 0, [], [], [], []
    for index in range(count):
        wall = mint(folder, only, extra)
        if wall is None:
            refused += 1
            continue
        walls.append(round(wall, 1))
        keep(folder, kept, index)
        found = record(folder)
        flips += [
            {"mint": index, **flip(found["race"].get(key, {}), key, before.get(key, ""), winner, gains)}
            for key, winner in found["kernels"].items()
            if before.get(key) != winner
        ]
        regrets += [regret(gains.get(key, {}), winner) for key, winner in found["kernels"].items()]
        doses_spent += [race["doses"] for race in found["race"].values()]
        noise.append(found["provenance"]["noise_probes"])
        before = found["kernels"]
    return {
        "mints": count,
        "refused": refused,
        "seats": len(regrets),
        "flips": flips,
        "flips_pct": round(100 * len(flips) / max(len(regrets), 1), 2),
        "regret_mean_pct": round(mean(regrets or [0.0]), 3),
        "regret_max_pct": round(max(regrets, default=0.0), 2),
        "wall_s": walls,
        "doses_per_seat": round(mean(doses_spent or [0.0]), 1),
        "noise": noise,
    }


def identical(count: int) -> dict[str, Any]:
    """Ten rows that differ in a constant beside their code: a crown is a false one."""
    with tempfile.TemporaryDirectory(prefix="tunebuild-same-") as name:
        folder = dots.write_equal(Path(name) / "equal", 10)
        crowned, walls, doses = [], [], []
        for index in range(count):
            for path in folder.glob("*.tune.json"):
                path.unlink()
            walls.append(mint(folder, "", OVERRIDE) or 0.0)
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


def beside_baseline(count: int) -> dict[str, Any]:
    """The two protocols on one live bench, idle and disturbed."""
    with tempfile.TemporaryDirectory(prefix="tunebuild-beside-") as name, beside.rig(Path(name)) as built:
        gains = beside.long_gains(built)
        found = {"idle": beside.compare(built, count, gains)}
        with disturbance():
            found["disturbed"] = beside.compare(built, count, gains)
        return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mints", type=int, default=0)
    parser.add_argument("--disturbed", type=int, default=0)
    parser.add_argument("--identical", type=int, default=0)
    parser.add_argument("--beside", type=int, default=0, help="mints of each protocol")
    parser.add_argument("--only", default="")
    parser.add_argument("--long", type=float, default=20.0, help="doses a row of the long race")
    parser.add_argument("--keep", type=Path, help="a folder for the sidecar of each mint")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found: dict[str, Any] = {}
    if options.mints or options.disturbed:
        found = re_mints(options.mints, options.disturbed, options.only, options.long, options.keep)
    if options.identical:
        found["identical"] = identical(options.identical)
    if options.beside:
        found["beside"] = beside_baseline(options.beside)
    if options.json:
        print(json.dumps(found))
        return
    for name, figures in found.items():
        print(name)
        for key, value in figures.items():
            print(f"  {key}: {value}")


if __name__ == "__main__":
    main()

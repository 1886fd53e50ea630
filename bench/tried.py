"""What a value of an axis is worth that the grid need not have: rows made for it, raced beside one of the grid's.

    python bench/tried.py gemm_f32 kc=128,256,512                    each value in the place of the row's own
    python bench/tried.py matmul_q8_0 --shape "T=1, 2048^2" ahead=8,16 toolchain=gcc,clang
    python bench/tried.py rmsnorm_f32 --roof                         beside a plain copy of the same memory
    python bench/tried.py sgemm --peers --shape 1024^3               beside the peers that bench/peers.py installed
    python bench/tried.py exp_f32 --beside ../before                 beside the same row of another copy

The row is the first of the family's chain that this machine can run, or `--row`. Every entrant is made from the
family's template with the row's flags, is checked against float64 and raced as bench/peers.py races. Ratios are an
entrant's time over the row's, with the interval of their median: below 1, the entrant is faster.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "build/tried"
PEERS = ROOT / "build/peers"
MADE = "TUNEBUILD_TRIED"  # to the process that races: what this one made
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(Path(__file__).parent))


def main() -> int:
    asked = arguments()
    if made := os.environ.get(MADE):
        return race(asked, json.loads(made))
    from peerlab import libraries

    python = PEERS / "venv/bin/python" if asked.peers else sys.executable
    environ = {**libraries.environ(), MADE: json.dumps(dict(variants(asked)))}
    return subprocess.run([python, __file__, *sys.argv[1:]], env=environ).returncode


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("family", help="a family, or a companion with a seat of its own")
    parser.add_argument("axes", nargs="*", metavar="axis=value,…", help="several axes: each combination")
    parser.add_argument("--row", default="", help="the row that the others are made from and compared with")
    parser.add_argument(
        "--shape", default="", help="of bench/peers.py --list, with semicolons; all if not given"
    )
    parser.add_argument("--peers", action="store_true", help="the peers take part")
    parser.add_argument(
        "--roof", action="store_true", help="a plain read or copy of the same memory takes part"
    )
    parser.add_argument(
        "--beside", type=Path, help="another copy of the catalogue, whose row of this name takes part"
    )
    parser.add_argument(
        "--project", type=Path, default=ROOT, help="the copy of the catalogue to take rows from"
    )
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_intermixed_args()


def variants(asked: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Label and library: of the row itself, then of each combination of values."""
    from rowlab import made

    family = made.family_of(asked.project, asked.family)
    row = made.row_that_runs(family, asked.row)
    folder = WORK / family.name
    yield row.suffix, str(made.library(family, row, folder / "row"))
    if asked.beside:
        other = made.family_of(asked.beside, asked.family)
        same = made.row_that_runs(other, row.suffix)
        yield f"that of {asked.beside}", str(made.library(other, same, folder / "beside"))
    axes = [(name, values.split(",")) for name, _, values in (axis.partition("=") for axis in asked.axes)]
    named = [[(name, value) for value in values] for name, values in axes]
    for number, values in enumerate(itertools.product(*named) if named else ()):
        label = " ".join(f"{name}={value}" for name, value in values)
        yield label, str(made.library(family, made.changed(row, dict(values)), folder / str(number)))


def race(asked: argparse.Namespace, made: Mapping[str, str]) -> int:
    from peerlab import duel, roofs
    from peerlab.families import catalogue
    from peerlab.libraries import Library
    from peerlab.shim import Shim

    family = next((each for each in catalogue() if each.name == asked.family), None)
    if family is None:
        raise SystemExit(f"{asked.family} is not raced; bench/peers.py --list names what is")
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    opened = {label: Library((ctypes.CDLL(path),), "") for label, path in made.items()}
    calls = [replace(family.ours, library=label, label=label) for label in made]
    if asked.roof:
        opened["roof"] = Library((roofs.compiled(WORK),), "")
        calls += roofs.of(family.name)
    if asked.peers:
        calls += peers(family, opened)
    shim = Shim(family, calls, opened, WORK)
    wanted = [name for name in asked.shape.split(";") if name]
    for shape in family.shapes:
        if not wanted or shape.name in wanted:
            row = duel.raced(family, calls, shape, shim, asked.seed, False)
            print("\n".join(told(row)), flush=True)
    return 0


def peers(family: Any, opened: dict[str, Any]) -> Sequence[Any]:
    from peerlab import libraries

    found, _ = libraries.opened(PEERS)
    opened.update(found)
    return [
        call
        for call in family.peers
        if call.library in found and all(map(found[call.library].has, call.symbols))
    ]


def told(row: Any) -> Iterator[str]:
    from peerlab.page import time_of

    yield f"{row.family} {row.shape}, {row.rounds} rounds"
    for label, time in row.times.items():
        ratio = row.ratios.get(label)
        beside = f"{ratio.median:.3f} ({ratio.low:.3f} to {ratio.high:.3f})" if ratio else ""
        yield f"  {label:44} {time_of(time):>9}  {beside}"
    for label in row.errors.keys() - row.times.keys():
        yield f"  {label:44} off by {row.errors[label]:.1e}"


if __name__ == "__main__":
    sys.exit(main())

"""The catalogue beside OpenBLAS, MKL, torch, SimSIMD, NumKong and ggml: who is faster, and by how much.

    python bench/peers.py --list                what is raced, and against whom
    python bench/peers.py --family dot_f32      one family (or several, with commas); --quick: few rounds
    python bench/peers.py --ggml --docs         everything, ggml too; writes docs/peers.json, .svg and the page's tables

Takes the library that `tunebuild mint` and `tunebuild build` left in the project (`--project`, this one if not
given). The first run makes build/peers/venv and installs the peers that it can; each that is missing is said.
Every entrant runs on one thread through its C symbols, and is checked against float64 before it is raced.
Nothing else may run meanwhile. Ratios are their time over ours: above 1, ours is faster.
"""

from __future__ import annotations

import argparse
import ctypes
import datetime
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "build/peers"
DOCS = ROOT / "docs"
sys.path.insert(0, str(Path(__file__).parent))

from peerlab import install


def main() -> int:
    asked = arguments()
    if os.environ.get("TUNEBUILD_PEERS") == "inside":
        return inside(asked)
    WORK.mkdir(parents=True, exist_ok=True)
    python, missing = install.environment(WORK, fresh=asked.fresh)
    from peerlab import libraries

    if asked.ggml and (reason := libraries.fetch_ggml(WORK)):
        missing.append(reason)
    for line in missing:
        print(f"peers: {line}", file=sys.stderr)
    environ = {**libraries.environ(), "TUNEBUILD_PEERS": "inside"}
    code = subprocess.run([python, __file__, *sys.argv[1:]], env=environ).returncode
    if code < 0:
        print(
            f"peers: the race was ended by signal {-code}: a peer's call is wrong, or crashed",
            file=sys.stderr,
        )
    return abs(code)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--family", default="", help="names, with commas; all if not given")
    parser.add_argument("--list", action="store_true", help="say what is raced, and race nothing")
    parser.add_argument("--json", action="store_true", help="print one document")
    parser.add_argument("--docs", action="store_true", help="write docs/; families not raced keep their rows")
    parser.add_argument("--ggml", action="store_true", help="fetch ggml with npm (10 MB) if it is not there")
    parser.add_argument("--quick", action="store_true", help="few rounds: does everything work?")
    parser.add_argument("--fresh", action="store_true", help="make the peers' venv again")
    parser.add_argument("--project", type=Path, default=ROOT, help="a minted copy of the catalogue")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def inside(asked: argparse.Namespace) -> int:
    """In the peers' venv, with one thread."""
    from peerlab import page
    from peerlab.families import catalogue

    wanted = set(filter(None, asked.family.split(",")))
    families = [family for family in catalogue() if not wanted or family.name in wanted]
    if unknown := wanted - {family.name for family in families}:
        raise SystemExit(f"there is no family {', '.join(sorted(unknown))}; --list names them")
    if asked.list:
        for family in families:
            names = ", ".join(call.label for call in family.peers)
            print(f"{family.name:18} {', '.join(shape.name for shape in family.shapes)}\n{'':18} {names}")
        return 0
    document = measured(families, asked)
    if asked.json:
        print(json.dumps(document, indent=1))
    else:
        print("\n".join([*page.markdown(document), "", *page.tuning(document["seats"])]))
    if asked.docs:
        write(document)
    return 0


def measured(families: Sequence[Any], asked: argparse.Namespace) -> dict[str, Any]:
    from peerlab import libraries
    from peerlab.libraries import Library

    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    opened, missing = libraries.opened(WORK)
    path = asked.project / "build/normal/libtunekit.so"
    if not path.exists():
        raise SystemExit(
            f"{path} is not there: run `tunebuild mint` and `tunebuild build`, or give --project"
        )
    opened["ours"] = Library((ctypes.CDLL(str(path)),), "")
    for name, library in opened.items():
        print(f"peers: {name} {library.version} {library.note}", file=sys.stderr)
    for line in missing:
        print(f"peers: {line}", file=sys.stderr)
    rows = [row for family in families for row in race(family, opened, asked)]
    return {
        "cpu": f"{libraries.cpu_name()}, {'AVX-512' if 'avx512f' in libraries.cpu_flags() else 'AVX2'}",
        "features": [
            flag for flag in libraries.cpu_flags() if flag.startswith(("avx", "amx", "fma", "f16c"))
        ],
        "compiler": first_line(["gcc", "--version"]),
        "written": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}",
        "command": "python bench/peers.py --ggml --docs",
        "libraries": {
            name: {"version": library.version, "note": library.note}
            for name, library in opened.items()
            if name != "ours"
        },
        "missing": missing,
        "rows": rows,
        "seats": seats(asked.project),
    }


def race(family: Any, opened: Mapping[str, Any], asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    from peerlab import duel, libraries
    from peerlab.shim import Shim

    folder = WORK / "calls"
    folder.mkdir(exist_ok=True)
    try:
        plain = libraries.Library((reference(family.name, folder),), "")
    except (OSError, subprocess.CalledProcessError) as error:
        raise SystemExit(f"the reference of {family.name} does not compile: {error}") from None
    known = {**opened, "reference": plain}
    calls = [family.ours, family.reference]
    for call in family.peers:
        if call.library in known and all(known[call.library].has(name) for name in call.symbols):
            calls.append(call)
        elif call.library in known:
            print(f"peers: {call.label} has no {', '.join(call.symbols)}", file=sys.stderr)
    shim = Shim(family, calls, known, folder)
    for shape in family.shapes:
        row = duel.raced(family, calls, shape, shim, asked.seed, asked.quick)
        for name, error in row.errors.items():
            if error > family.tolerance:
                print(f"peers: {family.name} {shape.name}: {name} is off by {error:.1e}", file=sys.stderr)
        made = told(row)
        if made:
            print(
                f"peers: {row.family} {row.shape}: {made['ratio_best']:.2f} of {made['best']}",
                file=sys.stderr,
            )
            yield made


def told(row: Any) -> dict[str, Any] | None:
    """A row for the document; None where no peer took part."""
    peers = [name for name in row.ratios if name != "reference"]
    if not peers:
        return None
    best = min(peers, key=lambda name: row.ratios[name].median)
    return {
        "family": row.family,
        "shape": row.shape,
        "ours_ns": round(row.times["ours"], 2),
        "peers": {name: round(row.times[name], 2) for name in peers},
        "best": best,
        "ratio_best": round(row.ratios[best].median, 4),
        "interval": [round(row.ratios[best].low, 4), round(row.ratios[best].high, 4)],
        "ratios": {name: round(row.ratios[name].median, 4) for name in peers},
        "reference_ratio": round(row.ratios["reference"].median, 3),
        "rounds": row.rounds,
        "errors": {name: float(f"{error:.2g}") for name, error in row.errors.items()},
    }


def reference(family: str, folder: Path) -> ctypes.CDLL:
    """The family's plain body at -O3, as its project compiles it."""
    templates = ROOT / "kernels/templates"
    home = {"gemv_f32": "gemm_f32"}.get(family, family)
    found = templates / home / "reference.c"
    text = found if found.exists() else next((templates / home).glob("*.c"))
    (folder / "tb_loop.h").write_text("#define TB_LOOP\n")
    path = folder / f"lib{family}_reference.so"
    command = ["gcc", "-O3", "-std=c17", "-fPIC", "-shared", "-w", f"-I{ROOT}/kernels/include", f"-I{folder}"]
    extra = folder / f"{family}_extra.c"
    extra.write_text(EXTRA.get(family, ""))
    subprocess.run([*command, str(text), str(extra), "-o", str(path), "-lm"], check=True)
    return ctypes.CDLL(str(path))


EXTRA = {
    "gemv_f32": """\
#include <stddef.h>
void gemm_f32(const float *a, const float *b, float *c, size_t m, size_t n, size_t k);
void gemm_f32_pack(const float *b0, float *b, size_t n, size_t k)
{
    __builtin_memcpy(b, b0, n * k * sizeof *b);
}
void gemv_f32(const float *x, const float *b, float *y, size_t n, size_t k)
{
    gemm_f32(x, b, y, 1, n, k);
}
"""
}


def seats(project: Path) -> list[dict[str, Any]]:
    """What the mint's own race says of each winner. Empty without a record."""
    found = sorted(project.glob("*.tune.json"))
    if not found:
        return []
    record = json.loads(found[0].read_text())
    made = []
    races = record.get("race", {})
    for name, race in races.items():
        if "." in name and name.partition(".")[0] in races:
            continue  # a seat that the family no longer has
        cost = {suffix: 1 - row.get("gain_pct", 0.0) / 100 for suffix, row in race.get("rows", {}).items()}
        winner = race.get("winner", "")
        if winner in cost:
            made.append(
                {
                    "seat": name,
                    "winner": winner,
                    "over_median": round(median(cost.values()) / cost[winner], 3),
                    "over_slowest": round(max(cost.values()) / cost[winner], 3),
                    # a companion races the rows of its family's layout alone
                    "over_reference": round(cost["reference"] / cost[winner], 3)
                    if "reference" in cost
                    else None,
                    "over_fallback": round(1 / cost[winner], 3),
                }
            )
    return made


def write(document: Mapping[str, Any]) -> None:
    """docs/peers.json, docs/peers.svg, and the tables between the marks of docs/performance.md."""
    from peerlab import goals, page
    from peerlab.families import catalogue

    path = DOCS / "peers.json"
    raced = {row["family"] for row in document["rows"]}
    kept = (
        [row for row in json.loads(path.read_text())["rows"] if row["family"] not in raced]
        if path.exists()
        else []
    )
    order = [family.name for family in catalogue()]
    rows = sorted([*kept, *document["rows"]], key=lambda row: order.index(row["family"]))
    whole = {**document, "rows": rows}
    path.write_text(json.dumps(whole, indent=1) + "\n")
    (DOCS / "peers.svg").write_text(page.picture(whole))
    text = (DOCS / "performance.md").read_text()
    tables = {
        "rows": page.markdown(whole),
        "goals": goals.table(whole),
        "seats": page.tuning(document["seats"]),
    }
    for mark, lines in tables.items():
        start, end = f"<!-- {mark} -->\n", f"<!-- end of {mark} -->\n"
        before, _, rest = text.partition(start)
        text = before + start + "\n".join(lines) + "\n" + end + rest.partition(end)[2]
    (DOCS / "performance.md").write_text(text)


def first_line(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout.splitlines()[0] if done.stdout else ""


if __name__ == "__main__":
    sys.exit(main())

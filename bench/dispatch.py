"""What the generated entry of a family costs: a row called directly, and through entries of one, two and four seats.

    python bench/dispatch.py              nanoseconds and instructions a call, a line each
    python bench/dispatch.py --docs       writes the table of docs/performance.md; --json: one document

A small project is minted whose rows return at once for one size and spin for all others, so that every seat has a
winner of its own. An entry is called in a loop, and so is its row, in windows that take turns in random order; where
sizes change, the row is found in a table, as a caller would do it who knows the rows. Instructions are counted by
valgrind, where there is one. Exits with 1 if an entry costs 2 ns or more.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(Path(__file__).parent))

from tunerlab import watch

from tunebuild import stats

DOCS = ROOT / "docs/performance.md"
GOAL_NS = 2.0
CALLS = 200_000  # of a window: half a millisecond and less
MINTS = 8  # on a busy machine a mint takes seats back
SEATS = {"one": 1, "two": 2, "four": 4}
# Entry, sizes, what that asks of it. Sizes 1 to 4; the last seat takes the rest.
ASKED = (
    ("one", "1", "one seat"),
    ("two", "1", "two seats, the first"),
    ("two", "2", "two seats, the last"),
    ("four", "1", "four seats, the first"),
    ("four", "4", "four seats, the last"),
    ("four", "turns", "four seats in turn"),
    ("four", "random", "four seats at random"),
)

FAMILY = """
[family.{name}]
prototype = "int32_t {name}(const int32_t *x, size_t n)"
template = "kernel.c.j2"
grid.axes = {{ fits = [1, 2, 3, 4] }}
args = {{ x = {{ in = "i32[4]" }} }}
domain = "n >= 1 and n <= 4"
check = {{ sizes = [{{ n = 1 }}, {{ n = 2 }}, {{ n = 3 }}, {{ n = 4 }}], offsets = [0] }}
"""

REFERENCE = """\
#include <stddef.h>
#include <stdint.h>

int32_t NAME(const int32_t *x, size_t n)
{
    for (volatile int spin = 0; spin < 400; spin++)
        ;
    return x[n - 1];
}
"""

TEMPLATE = """\
#include <stddef.h>
#include <stdint.h>

{{ prototype }}
{
    if (n != {{ fits }})
        for (volatile int spin = 0; spin < 200; spin++)
            ;
    return x[n - 1];
}
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """``row_ns`` and ``entry_ns``: medians of a call; ``more_ns``: of what the entry adds, with its 95 % interval.

    ``instructions``: what the entry adds to a call; None without valgrind, or where the row comes from a table.
    """

    what: str
    row_ns: float
    entry_ns: float
    more_ns: float
    low: float
    high: float
    instructions: float | None


def project(folder: Path) -> Path:
    """Families of one, two and four seats: the seat of size n is won by the row that fits n."""
    templates = folder / "kernels/templates"
    templates.mkdir(parents=True)
    (templates / "kernel.c.j2").write_text(TEMPLATE)
    text = '[project]\nname = "entries"\n'
    for name, seats in SEATS.items():
        (templates / name).mkdir()
        (templates / name / "reference.c").write_text(REFERENCE.replace("NAME", name))
        text += FAMILY.format(name=name)
        for n in range(1, seats + 1):
            text += f"\n[family.{name}.workload.n{n}]\nn = {n}\n"
            when = f'when = "n <= {n}"\n' if n < seats else ""
            text += f"[family.{name}.seat.n{n}]\n{when}" if seats > 1 else ""
    (folder / "tune.toml").write_text(text)
    return folder


def minted(folder: Path) -> tuple[Path, Path]:
    """The library of a mint, and the program that calls it; the mint has to give each seat its own row."""
    wanted = {f"{name}.n{n}": f"fits{n}" for name, seats in SEATS.items() for n in range(1, seats + 1)}
    wanted = {name.replace("one.n1", "one"): suffix for name, suffix in wanted.items()}
    for _ in range(MINTS):
        winners = {name: race["winner"] for name, race in watch.mint(folder).record["race"].items()}
        if winners == wanted:
            break
    else:
        raise SystemExit(f"the mint gives other winners, is the machine busy? {winners}")
    program = folder / "calls"
    rows = [str(folder / f"build/obj/four/four__fits{n}.o") for n in range(1, 5)]
    source = Path(__file__).parent / "dispatchlab/calls.c"
    subprocess.run(["gcc", "-O2", "-std=gnu17", str(source), *rows, "-o", str(program), "-ldl"], check=True)
    return folder / "build/normal/libentries.so", program


def cost(asked: tuple[str, str, str], library: Path, program: Path, rounds: int, rng: random.Random) -> Cost:
    name, sizes, what = asked
    order = "".join("er" if rng.random() < 0.5 else "re" for _ in range(rounds))
    said = subprocess.run(
        [program, library, name, str(CALLS), sizes],
        input="er" + order,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()[2:]
    times = [(who, float(ns)) for who, ns in zip(order, said, strict=True)]
    pairs = [dict(times[i : i + 2]) for i in range(0, len(times), 2)]
    more = [pair["e"] - pair["r"] for pair in pairs]
    low, high = stats.sign_interval(more) or (min(more), max(more))
    rows, entries = (median(pair[who] for pair in pairs) for who in "re")
    counted = None if sizes in ("turns", "random") else instructions(program, library, name, sizes)
    return Cost(what, rows, entries, median(more), low, high, counted)


def instructions(program: Path, library: Path, name: str, sizes: str) -> float | None:
    """How many more a call by the entry takes than a call of the row; start and end of the program drop out."""
    if not shutil.which("valgrind"):
        return None
    counts = {
        (who, calls): _collected(program, library, name, sizes, who, calls)
        for who in "er"
        for calls in (1000, 11000)
    }
    by_entry, by_row = (counts[who, 11000] - counts[who, 1000] for who in "er")
    return (by_entry - by_row) / 10000


def _collected(program: Path, library: Path, name: str, sizes: str, who: str, calls: int) -> int:
    words = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    done = subprocess.run(
        [*words, program, library, name, str(calls), sizes],
        input=who,
        capture_output=True,
        text=True,
        check=True,
    )
    found = re.search(r"Collected : (\d+)", done.stderr)
    if not found:
        raise SystemExit(f"valgrind counted nothing:\n{done.stderr}")
    return int(found[1])


def table(costs: Sequence[Cost]) -> Iterator[str]:
    yield "| entry | row alone, ns | by the entry, ns | more, ns | 95 % interval | more instructions |"
    yield "|---|--:|--:|--:|---|--:|"
    for each in costs:
        counted = "" if each.instructions is None else f"{each.instructions:.1f}"
        yield (
            f"| {each.what} | {each.row_ns:.2f} | {each.entry_ns:.2f} | {each.more_ns:.2f} | "
            f"{each.low:.2f} to {each.high:.2f} | {counted} |"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=201)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--docs", action="store_true", help="write the table of docs/performance.md")
    asked = parser.parse_args()
    rng = random.Random(asked.seed)
    with tempfile.TemporaryDirectory(prefix="tunebuild-dispatch-") as folder:
        library, program = minted(project(Path(folder)))
        costs = [cost(each, library, program, asked.rounds, rng) for each in ASKED]
    print(json.dumps([asdict(each) for each in costs], indent=1) if asked.json else "\n".join(table(costs)))
    if asked.docs:
        start, end = "<!-- dispatch -->\n", "<!-- end of dispatch -->\n"
        before, _, rest = DOCS.read_text().partition(start)
        DOCS.write_text(before + start + "\n".join(table(costs)) + "\n" + end + rest.partition(end)[2])
    return 0 if all(each.more_ns < GOAL_NS for each in costs) else 1


if __name__ == "__main__":
    sys.exit(main())

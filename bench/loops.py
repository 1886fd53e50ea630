"""What the compilers make of rows that this machine cannot run: the instructions of their innermost loops.

    python bench/loops.py                       the chains' rows for AVX-512, VNNI and AMX, from gcc and from clang
    python bench/loops.py --family sgemm        one family, or several with commas; --every: each row, not the chain's
    python bench/loops.py --isa avx2            another instruction set, or several with commas
    python bench/loops.py --object FILE.o       any object
    python bench/loops.py --docs                writes the table of docs/performance.md

Of each row the largest loop counts that has nearly as many products an instruction as any; rows without products are
left out. A product is a multiplication whose result is added to a sum; a spill is a vector or a tile to or from the
stack. Exits with 1 if a row does not compile.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "build/loops"
DOCS = ROOT / "docs/performance.md"
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(Path(__file__).parent))

from rowlab import made
from rowlab.loops import Loop, innermost

from tunebuild import manifest

WIDE = "avx512,avx512bf16,vnni256,vnnivl,vnni512,amx,amxbf16"
COMPILERS = ("gcc", "clang")


def main() -> int:
    asked = arguments()
    if asked.object:
        print("\n".join(told(innermost(asked.object))))
        return 0
    lines, broken = [*HEAD], 0
    for family, row in chosen(asked):
        cells = [cell(family, row, name) for name in COMPILERS if shutil.which(name)]
        broken += sum(one == BROKEN for one in cells)
        if cells != [THIN] * len(cells):
            lines.append(f"| {family.name} | {row.suffix} | {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    if asked.docs:
        write(lines)
    return 1 if broken else 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--family", default="", help="names, with commas; all if not given")
    parser.add_argument("--isa", default=WIDE, help="instruction sets, with commas")
    parser.add_argument("--every", action="store_true", help="every row of them, not the chains' alone")
    parser.add_argument("--object", type=Path, help="read this object instead")
    parser.add_argument("--docs", action="store_true", help="write the table of docs/performance.md")
    parser.add_argument("--project", type=Path, default=ROOT, help="a copy of the catalogue")
    return parser.parse_args()


def chosen(asked: argparse.Namespace) -> Iterator[tuple[Any, Any]]:
    wanted, isas = set(filter(None, asked.family.split(","))), asked.isa.split(",")
    for family in manifest.read(asked.project).families:
        chain = {entry.suffix for entry in family.fallback}
        for row in family.rows if family.template and (not wanted or family.name in wanted) else ():
            if row.isa in isas and not row.toolchain and (asked.every or row.suffix in chain):
                yield family, row


# --- the table --------------------------------------------------------------------------------------

BROKEN, THIN = "does not compile", "no products"
DENSE = 0.75  # of the loop with the most products an instruction
HEAD = (
    "| family | row | gcc: instructions, products each, spills | clang: the same |",
    "|---|---|---|---|",
)


def cell(family: Any, row: Any, compiler: str) -> str:
    """Instructions of a turn, products an instruction, spills."""
    try:
        path = made.compiled(
            family, made.changed(row, {"toolchain": compiler}), WORK / family.name / row.suffix / compiler
        )
    except subprocess.CalledProcessError:
        return BROKEN
    loop = hottest(innermost(path))
    return f"{len(loop.body)}, {loop.products / len(loop.body):.3g}, {loop.spilled}" if loop else THIN


def hottest(loops: Sequence[Loop]) -> Loop | None:
    """The largest of those that have nearly as many products an instruction as any; None without products."""
    with_products = [loop for loop in loops if loop.products]
    thickest = max((loop.products / len(loop.body) for loop in with_products), default=0.0)
    dense = [loop for loop in with_products if loop.products / len(loop.body) >= DENSE * thickest]
    return max(dense, key=lambda loop: (loop.products, len(loop.body)), default=None)


def told(loops: Sequence[Loop]) -> Iterator[str]:
    for loop in loops:
        if loop.products or loop.stored:
            yield (
                f"{loop.function}: {len(loop.body)} instructions, {loop.products} products by "
                f"{loop.product_instructions} of them, {loop.stored} lanes stored, {loop.spilled} spills"
            )


def write(lines: Sequence[str]) -> None:
    before, start, rest = DOCS.read_text().partition("<!-- loops -->\n")
    end = "<!-- end of loops -->\n"
    DOCS.write_text(before + start + "\n".join(lines) + "\n" + end + rest.partition(end)[2])


if __name__ == "__main__":
    sys.exit(main())

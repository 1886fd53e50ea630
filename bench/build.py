"""The figures of the build line: `python bench/build.py [--quick] [--json | --markdown] [--only NAME …]`.

Every figure is a ratio or a count from one run on one machine; docs/build.md says what each is and what it
should be. --quick: a slice of them, under two minutes on 2 cores.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from buildlab import cold, keyproof, noop, size
from buildlab.figures import Figure

PARTS: Mapping[str, Callable[[bool], list[Figure]]] = {
    "noop": noop.figures,
    "size": size.figures,
    "cold": cold.figures,
    "keys": keyproof.figures,
}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true", help="one document, the last line")
    parser.add_argument("--markdown", action="store_true", help="the table of docs/build.md")
    parser.add_argument("--only", action="append", choices=sorted(PARTS))
    asked = parser.parse_args(argv)
    found: list[Figure] = []
    for name in asked.only or PARTS:
        made = PARTS[name](asked.quick)
        found += made
        if not (asked.json or asked.markdown):
            print("\n".join(figure.line() for figure in made), flush=True)
    if asked.markdown:
        print("| figure | here | goal |\n|---|--:|--:|")
        print("\n".join(figure.row() for figure in found))
    if asked.json:
        print(json.dumps({figure.name: {"value": figure.value, "goal": figure.goal} for figure in found}))
    return 0


if __name__ == "__main__":
    sys.exit(main())

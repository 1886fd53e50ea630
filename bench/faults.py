"""Really produces the faults of docs/reliability.md: `python bench/faults.py [--quick] [--json] [--row N …]`.

--quick   the slice that tests run
--json    one document, the last line: [{"row", "fault", "tried", "survived", "failures", "skipped"}]
Exit code 1 when anything did not survive.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from faultlab import (
    building,
    clocks,
    configs,
    crash,
    crowds,
    damage,
    large,
    limits,
    sharing,
    signals,
    surroundings,
)
from faultlab.common import Result

ROWS: Mapping[int, Callable[[bool], Result]] = {
    1: crash.killed_anywhere,
    2: signals.killed_mint,
    4: damage.torn,
    8: sharing.concurrent,
    9: sharing.dead_holder,
    11: clocks.skewed,
    14: limits.read_only,
    15: limits.full_disk,
    16: limits.failing_calls,
    20: damage.foreign,
    22: configs.hostile,
    23: damage.hostile,
    24: signals.interrupted,
    25: surroundings.odd_output,
    26: surroundings.odd_places,
    29: damage.versions,
    30: crash.power_lost,
    21: large.huge,
    **building.ROWS,
    **crowds.ROWS,
}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--row", type=int, action="append", choices=sorted(ROWS))
    asked = parser.parse_args(argv)
    results = []
    for number in asked.row or sorted(ROWS):
        started = time.monotonic()
        result = ROWS[number](asked.quick)
        results.append(result)
        if not asked.json:
            print(_line(result, time.monotonic() - started), flush=True)
    if asked.json:
        print(json.dumps([asdict(result) for result in results]))
    return 1 if any(result.survived < result.tried for result in results) else 0


def _line(result: Result, seconds: float) -> str:
    if result.skipped:
        return f"row {result.row:2}  not run: {result.skipped}  {result.fault}"
    words = f"row {result.row:2}  {result.survived} of {result.tried}  {result.fault}  ({seconds:.0f} s)"
    return "\n    ".join((words, *result.failures))


if __name__ == "__main__":
    sys.exit(main())

"""The quick slice of bench/faults.py: faults that are really produced, none of which may do harm."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.cc
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "row",
    [
        1,
        9,
        14,
        15,
        16,
        30,
        *(pytest.param(row, marks=pytest.mark.slow) for row in (2, 4, 8, 11, 20, 22, 23, 24, 25, 26, 29)),
    ],
)
def test_produced_fault_does_no_harm(row: int) -> None:
    words = [sys.executable, str(ROOT / "bench/faults.py"), "--quick", "--json", "--row", str(row)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    (result,) = json.loads(done.stdout.splitlines()[-1])
    if result["skipped"]:
        pytest.skip(result["skipped"])
    assert result["tried"] > 0
    assert result["failures"] == []
    assert result["survived"] == result["tried"]

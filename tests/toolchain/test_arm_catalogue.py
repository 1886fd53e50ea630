"""The catalogue's rows of AArch64, compiled by a cross compiler and gated under an emulator. Never timed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tunebuild import manifest

ROOT = Path(__file__).parents[2]
TOOLS = ("aarch64-linux-gnu-gcc", "qemu-aarch64")
pytestmark = [
    pytest.mark.cc,
    pytest.mark.skipif(not all(map(shutil.which, TOOLS)), reason=f"needs {' and '.join(TOOLS)}"),
]


@pytest.fixture(scope="module")
def words(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> dict[str, dict[str, str]]:
    """By family, the word of each row. Objects are kept between runs of the tests: most of the time is theirs."""
    root = tmp_path_factory.mktemp("arm") / "catalogue"
    root.mkdir()
    shutil.copy(ROOT / "tune.toml", root)
    for folder in ("kernels", "profiles"):
        shutil.copytree(ROOT / folder, root / folder)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TUNEBUILD_")}
    cache = request.config.cache.mkdir("arm-objects") if request.config.cache else root / "cache"
    done = subprocess.run(
        [sys.executable, "-m", "tunebuild", "-C", root, "test", "--toolchain", "arm", "--json"],
        env={**clean, "PYTHONPATH": str(ROOT), "TUNEBUILD_CACHE": str(cache)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    families = json.loads(done.stdout.splitlines()[-1])["families"]
    return {one["family"]: {row["row"]: row["word"] for row in one["rows"]} for one in families}


def test_every_row_for_aarch64_passes_its_gate(words: dict[str, dict[str, str]]) -> None:
    wrong = [
        f"{name}__{row}: {word}"
        for name, rows in words.items()
        for row, word in rows.items()
        if word != "passed"
    ]
    assert not wrong
    assert [name for name, rows in words.items() if not rows] == ["gemm_bf16"], (
        "families without a row for it"
    )


@pytest.mark.parametrize(
    ("family", "isas"),
    [
        ("dot_f32", ("neon",)),
        ("gemm_f32", ("neon",)),
        ("gemm_q8", ("dotprod", "i8mm")),
        ("matmul_q8_0", ("dotprod", "i8mm")),
        ("dot_i8", ("dotprod",)),
    ],
)
def test_instruction_sets_of_aarch64_are_among_the_gated_rows(
    words: dict[str, dict[str, str]], family: str, isas: tuple[str, ...]
) -> None:
    rows = next(one for one in manifest.read(ROOT).families if one.name == family).rows
    for isa in isas:
        own = [row.suffix for row in rows if row.isa == isa]
        assert own and all(words[family][suffix] == "passed" for suffix in own)

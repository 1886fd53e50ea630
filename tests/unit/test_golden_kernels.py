"""The C of two rows of each template family, as a reader sees it. TUNEBUILD_GOLDEN=write renews the files."""

import os
from pathlib import Path

import pytest

from tunebuild import manifest, render
from tunebuild.model import Family, Row

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "kernels"
FAMILIES = tuple(family for family in manifest.read(ROOT).families if family.template is not None)


def _two_rows(family: Family) -> tuple[Row, ...]:
    """The first row, and the chain's for AVX2: what every x86 machine of the last ten years would run."""
    suffixes = [entry.suffix for entry in family.fallback]
    avx2 = [row for row in family.rows if row.isa == "avx2"]
    chosen = next((row for row in avx2 if row.suffix in suffixes), avx2[-1])
    return tuple({row.suffix: row for row in (family.rows[0], chosen)}.values())


CASES = [(family, row) for family in FAMILIES for row in _two_rows(family)]


@pytest.mark.parametrize(("family", "row"), CASES, ids=[f"{f.name}__{r.suffix}" for f, r in CASES])
def test_generated_kernel_equals_its_golden_file(family: Family, row: Row) -> None:
    assert family.template is not None
    symbol = f"{family.name}__{row.suffix}"
    text = render.render_row(
        family.project.templates, family.template, family.name, family.function, symbol, row
    )
    assert isinstance(text, str), text

    golden = GOLDEN / f"{symbol}.c"
    if os.environ.get("TUNEBUILD_GOLDEN") == "write":
        golden.write_text(text)
    assert text == golden.read_text()


def test_golden_folder_holds_nothing_else() -> None:
    assert {path.stem for path in GOLDEN.glob("*.c")} == {f"{f.name}__{r.suffix}" for f, r in CASES}

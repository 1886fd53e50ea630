"""Rows made with other values than the grid's, and what their loops are made of."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

from rowlab import made
from rowlab.loops import Loop, innermost

ROOT = Path(__file__).resolve().parents[2]

X86 = ["gcc", "-O2", "-mavx2", "-mfma", "-c"]

pytestmark = pytest.mark.skipif(
    "x86" not in subprocess.run(["gcc", "-dumpmachine"], capture_output=True, text=True).stdout,
    reason="reads x86's instructions",
)


def loops_of(tmp_path: Path, text: str) -> list[Loop]:
    source, object_file = tmp_path / "f.c", tmp_path / "f.o"
    source.write_text("#include <immintrin.h>\n#include <stddef.h>\n" + text)
    subprocess.run([*X86, str(source), "-o", str(object_file)], check=True)
    return innermost(object_file)


DOT = """\
__m256 dot(const float *a, const float *b, size_t n)
{
    __m256 sum = _mm256_setzero_ps();
    for (size_t r = 0; r < n; r++)
        for (size_t i = 0; i < n; i += 8)
            sum = _mm256_fmadd_ps(_mm256_loadu_ps(a + r * n + i), _mm256_loadu_ps(b + i), sum);
    return sum;
}
"""


def test_loop_within_a_loop_is_read_alone_with_eight_products_a_multiply_add(tmp_path: Path) -> None:
    (loop,) = loops_of(tmp_path, DOT)
    assert (loop.function, loop.products, loop.product_instructions, loop.spilled) == ("dot", 8, 1, 0)


def test_more_sums_than_registers_are_counted_as_spills(tmp_path: Path) -> None:
    sums = range(20)
    text = "void sums(const float *a, const float *b, float *c, size_t n)\n{\n"
    text += "".join(f"    __m256 s{i} = _mm256_setzero_ps();\n" for i in sums)
    text += "    for (size_t i = 0; i < n; i += 160) {\n        const __m256 x = _mm256_loadu_ps(b + i);\n"
    text += "".join(
        f"        s{i} = _mm256_fmadd_ps(x, _mm256_loadu_ps(a + i + {8 * i}), s{i});\n" for i in sums
    )
    text += "    }\n" + "".join(f"    _mm256_storeu_ps(c + {8 * i}, s{i});\n" for i in sums) + "}\n"
    (loop,) = loops_of(tmp_path, text)
    assert loop.products == 160
    assert loop.spilled >= 4 and loop.stored == 0


def test_stored_lanes_are_those_outside_the_stack(tmp_path: Path) -> None:
    text = "void copy(const float *x, float *y, size_t n)\n{\n    for (size_t i = 0; i < n; i += 8)\n"
    (loop,) = loops_of(tmp_path, text + "        _mm256_storeu_ps(y + i, _mm256_loadu_ps(x + i));\n}\n")
    assert (loop.products, loop.stored, loop.spilled) == (0, 8, 0)


def test_row_with_a_value_beyond_the_grid_is_rendered_with_its_companions(tmp_path: Path) -> None:
    family = made.family_of(ROOT, "gemv_f32")
    row = made.changed(made.row_that_runs(family), {"kc": "128", "packa": "false"})
    names = [path.name for path in made.texts(family, row, tmp_path)]
    assert names == ["gemm_f32.c", "gemm_f32_pack.c", "gemv_f32.c"]
    assert "k - k0 < 128 ? k - k0 : 128" in (tmp_path / "gemm_f32.c").read_text()


def test_name_of_no_family_and_of_no_row_is_refused() -> None:
    with pytest.raises(SystemExit, match="gemm_f33 is no family"):
        made.family_of(ROOT, "gemm_f33")
    with pytest.raises(SystemExit, match="no row isa_avx2_u5"):
        made.row_that_runs(made.family_of(ROOT, "dot_f32"), "isa_avx2_u5")


def test_folder_without_a_project_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="there is no tune"):
        made.family_of(tmp_path, "dot_f32")

"""The gate's cases: default sizes, domains, fills and comparisons."""

from __future__ import annotations

from pathlib import Path

from toml_project import BASE, read

from tunebuild import cases
from tunebuild.model import Check, Compare

TAILS = [0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 63, 65, 1000]
GEMM = """[project]
name = "p"
[family.dot]
prototype = "void dot(const float *a, int8_t *c, int m, int n, int k, float s)"
[family.dot.grid.axes]
u = [1]
[family.dot.args]
a = { in = "f32[m*k]" }
c = { out = "i8[m]" }
[family.dot.workload.w]
m = 64
n = 3
k = 64
s = 0.5
"""


def check(folder: Path, text: str) -> Check:
    found = read(folder, text).families[0].check
    assert found is not None
    return found


def test_one_scalar_walks_the_usual_tails(tmp_path: Path) -> None:
    assert [dict(size)["n"] for size in check(tmp_path, BASE).sizes] == TAILS


def test_several_scalars_vary_together_and_each_alone_within_sixty_cases() -> None:
    for count in (2, 3, 4, 7):
        sizes = cases.default_sizes(tuple("abcdefg"[:count]))
        assert len(sizes) <= 60 and len(set(sizes)) == len(sizes)
        assert (0,) * count in sizes and (65,) * count in sizes and (1000,) * count not in sizes
        for position in range(count):
            alone = [s[position] for s in sizes if all(v == 17 for p, v in enumerate(s) if p != position)]
            assert {0, 1, 1000} <= set(alone)


def test_only_scalars_of_buffer_sizes_vary_and_the_others_are_those_of_the_first_workload(
    tmp_path: Path,
) -> None:
    sizes = check(tmp_path, GEMM).sizes
    assert all(dict(size)["n"] == 3 and dict(size)["s"] == 0.5 for size in sizes)
    assert [name for name, _ in sizes[0]] == ["m", "n", "k", "s"]


def test_given_sizes_inherit_the_other_scalars(tmp_path: Path) -> None:
    sizes = check(tmp_path, GEMM + "[family.dot.check]\nsizes = [{ m = 5 }, { n = 9, k = 1 }]\n").sizes
    assert sizes == (
        (("m", 5), ("n", 3), ("k", 64), ("s", 0.5)), (("m", 64), ("n", 9), ("k", 1), ("s", 0.5)),
    )  # fmt: skip


def test_domain_removes_sizes_and_counts_them(tmp_path: Path) -> None:
    text = BASE.replace("[family.dot.grid", 'domain = "n % 32 == 0"\n[family.dot.grid')
    found = check(tmp_path, text)
    assert found.removed_by_domain == 13
    assert [dict(size)["n"] for size in found.sizes] == [0, 32, 64, 96, 1024]
    given = check(tmp_path, text + "[family.dot.check]\nsizes = [{ n = 31 }, { n = 32 }]\n")
    assert (given.sizes, given.removed_by_domain) == (((("n", 32),),), 1)


def test_domain_over_two_scalars_keeps_cases_to_try(tmp_path: Path) -> None:
    text = GEMM.replace(
        "[family.dot.grid", 'domain = "m % 2 == 0 and k % 64 == 0 and k > 0"\n[family.dot.grid'
    )
    found = check(tmp_path, text)
    assert found.removed_by_domain > 20 and len(found.sizes) >= 3
    assert all(dict(size)["k"] % 64 == 0 and dict(size)["m"] % 2 == 0 for size in found.sizes)


def test_function_without_scalars_has_one_case(tmp_path: Path) -> None:
    text = BASE.replace("size_t n)", "const float *c)") + "[family.dot.args]\n" + "".join(
        f'{name} = {{ in = "f32[64]" }}\n' for name in "abc"
    )  # fmt: skip
    assert check(tmp_path, text).sizes == ((),)


def test_fills_have_denormals_only_where_floats_are(tmp_path: Path) -> None:
    assert check(tmp_path, BASE).fills == ("normal", "extremes", "max", "denormal")
    integers = BASE.replace("const float *", "const int8_t *").replace("float dot", "int dot")
    assert check(tmp_path, integers).fills == ("normal", "extremes", "max")


def test_comparison_is_exact_unless_a_tolerance_is_given(tmp_path: Path) -> None:
    def compare(text: str) -> Compare:
        return check(tmp_path, BASE + f"[family.dot.check]\n{text}\n").compare

    assert compare("") == compare('compare = "exact"') == Compare()
    assert compare("compare = { ulp = 4 }") == Compare("ulp", 4)
    assert compare('compare = { rtol = 1e-5, scale = "abs" }') == Compare("tolerance", 0, 1e-5, 0.0, "abs")
    assert compare("compare = { atol = 1 }") == Compare("tolerance", 0, 0.0, 1.0)

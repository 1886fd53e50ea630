"""C prototypes: what is taken apart, and what is refused with which words."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunebuild import prototype
from tunebuild.model import Parameter
from tunebuild.prototype import PrototypeError


def test_prototype_of_pointers_and_scalars_is_taken_apart() -> None:
    function = prototype.parse("float  dot(const float *restrict a,\n int8_t * const b, size_t n);")
    assert function.name == "dot" and function.returns == "float"
    assert function.text == "float dot(const float *restrict a, int8_t * const b, size_t n)"
    assert function.parameters == (
        Parameter("a", "const float *restrict", True, True),
        Parameter("b", "int8_t *const", True, False),
        Parameter("n", "size_t", False, False),
    )


@pytest.mark.parametrize("text", [
    "void f(void)", "unsigned long long f(unsigned char c)", "double f(const void *p, bool b)",
    "int f(const block_q8 *x)", "void f(const struct block *x)", "_Float16 f(const _Float16 *x, long n)",
    "void f(const float *const *p, int n)", "void f(const float* restrict x, float const *y)",
])  # fmt: skip
def test_prototype_of_the_allowed_types_is_read(text: str) -> None:
    assert prototype.parse(text).name == "f"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("dot(const float *a)", "`dot` has no return type"),
        ("const dot(int a)", "`` is no type that a result can have"),
        ("float dot", "no parameter list"),
        ("float dot(int n", "should end with `)`"),
        ("float dot()", "an empty parameter list"),
        ("float dot(int)", "without type or name"),
        ("float dot(const float *)", "without type or name"),
        ("float dot(float x[4])", "an array parameter"),
        ("float dot(int n, ...)", "a variadic function"),
        ("float dot(void (*f)(int))", "a function pointer"),
        ("static float dot(int n)", "`static` does not belong here"),
        ("float *dot(int n)", "returns a pointer"),
        ("point dot(int n)", "`point` is no type that a result can have"),
        ("float dot(point p)", "passed by value cannot be built"),
        ("float dot(int n, int n)", "two parameters are named `n`"),
        ("float dot(int for)", "`for` is no C name"),
        ("float dot(int tb_n)", "the prefix `tb_` is reserved"),
        ("float dot(int n,)", "an empty parameter"),
        ("float dot(unsigned float x)", "`unsigned float` is no type"),
        ("float dot(float ***x)", "more than two levels"),
        ("float dot(int n) { return n; }", "is not C here"),
        ("fl\u043eat dot(int n)", "is not C here"),
        ("float dot(int n) #define", "is not C here"),
        ("", "no parameter list"),
        ("float tb_dot(int n)", "the prefix `tb_` is reserved"),
        ("x" * 5000, "at most 4000"),
    ],
)
def test_text_that_is_no_prototype_is_refused(text: str, words: str) -> None:
    with pytest.raises(PrototypeError) as caught:
        prototype.parse(text)
    assert words in caught.value.what
    assert caught.value.column >= 1


@pytest.mark.parametrize(
    ("ctype", "element", "integer"),
    [
        ("size_t", "u64", True), ("int", "i32", True), ("unsigned", "u32", True), ("long", "i64", True),
        ("char", "i8", True), ("float", "f32", False), ("const float *restrict", "f32", False),
        ("const void *", "", False), ("block *", "", False), ("const uint16_t *", "u16", False),
        ("unsigned long int", "u64", True), ("double", "f64", False),
    ],
)  # fmt: skip
def test_c_types_have_an_element_type(ctype: str, element: str, integer: bool) -> None:
    assert prototype.element(ctype) == element
    assert prototype.is_integer(ctype) == integer


@given(st.text(alphabet="int fdoaevr_*(),[]0123456789;{}\n\t\\", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(PrototypeError):
        assert prototype.parse(text).name

"""What each family should compute, in float64, on which sizes and fills, and how far off a right kernel may be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from peerlab.truth import dotted, each, f64, from_bf16, product, q4_0, q8_0, quantized, rmsnorm
from peerlab.truth import softmax as softmax_of

Arrays = Mapping[str, Any]
Scalars = Mapping[str, int | float]
Truth = Callable[[Arrays, Scalars], tuple[Any, Any]]

FILLS = ("normal", "positive", "wide")
EVEN = ("normal", "positive")
EXPONENTS = ("normal", "exponents")
EXACT = 0.0
ROUNDED = 2.0**-24  # of one operation in f32, to nearest


def summed(terms: float) -> float:
    """The error of a sum in f32, over the sum of its magnitudes: rounding errors of a few chains walk at random."""
    return ROUNDED * (8 + 2 * sqrt(terms))


@dataclass(frozen=True, slots=True)
class Subject:
    """``truth``: the result in float64, and what an error is relative to, element by element.

    ``bound``: the largest error over that scale that a right row may have, on any box. ``terms``: the scalar that
    says how many terms a sum has; the bound is then `summed` of them. ``result``: the argument that holds the result
    ("" for the return value), read as numbers by ``read``. ``format``: the result that float64 gets from operands
    in the family's own narrow format.
    """

    name: str
    truth: Truth
    sizes: tuple[Scalars, ...]
    bound: float = 0.0
    terms: str = ""
    fills: tuple[str, ...] = FILLS
    result: str = "y"
    read: Callable[[Arrays], Any] | None = None
    format: Callable[[Arrays, Scalars], Any] | None = None
    ulps: bool = False  # relative to the element itself, so that units of the last place say something

    def limit(self, size: Scalars) -> float:
        return summed(size[self.terms]) if self.terms else self.bound


def lengths(*values: int, **more: float) -> tuple[Scalars, ...]:
    return tuple({"n": n, **more} for n in values)


def matrices(*sides: tuple[int, int, int]) -> tuple[Scalars, ...]:
    return tuple({"m": m, "n": n, "k": k} for m, n, k in sides)


SHORT_AND_LONG = lengths(1, 7, 100, 1024, 4096, 65536, 1048576)
IN_AND_PAST_CACHES = (7, 1000, 65536, 1048576)
ROWS = tuple({"rows": r, "cols": c} for r, c in ((3, 7), (2, 33), (32, 1000), (8, 4096)))
CUBES = matrices((3, 7, 5), (29, 65, 257), (64, 64, 64), (256, 256, 256))
BLOCKS = tuple({"blocks": blocks} for blocks in (1, 3, 32, 2048))


def rope(v: Arrays, s: Scalars) -> tuple[Any, Any]:
    x = f64(v["x"]).reshape(-1, 2, int(s["half"]))
    low, high, c, z = x[:, 0], x[:, 1], f64(v["cosines"]), f64(v["sines"])
    turned = np.stack([low * c - high * z, high * c + low * z], 1)
    return turned, np.stack([abs(low * c) + abs(high * z), abs(high * c) + abs(low * z)], 1)


def silu(v: Arrays, s: Scalars) -> tuple[Any, Any]:
    x = f64(v["x"])
    return each(x / (1 + np.exp(-x)))


def softmax(v: Arrays, s: Scalars) -> tuple[Any, Any]:
    """x - max is rounded before the exponential, which multiplies that error by its own size: the scale has it."""
    x = f64(v["x"]).reshape(int(s["rows"]), -1)
    y, scale = softmax_of(x)
    return y, scale * (1 + x.max(axis=1, keepdims=True) - x)


def blocks_of(x: Any) -> tuple[Any, Any]:
    """Values, and the largest magnitude of each one's block: what a quantised value's error is relative to."""
    table = f64(x).reshape(-1, 32)
    return table, np.broadcast_to(np.abs(table).max(axis=1, keepdims=True), table.shape)


def as_i8(x: Any) -> Any:
    """Values as 8 bits by blocks of 32 leave them, with a scale that is not rounded."""
    table, largest = blocks_of(x)
    scale = np.where(largest > 0, largest / 127, 1)
    return np.rint(table / scale) * scale


def weights(v: Arrays, s: Scalars) -> Any:
    return q8_0(v["w0"]).reshape(int(s["n"]), -1).T


def dense(v: Arrays, s: Scalars, a: str = "a", b: str = "b") -> tuple[Any, Any]:
    return product(f64(v[a]).reshape(int(s["m"]), -1), f64(v[b]).reshape(int(s["k"]), -1))


def matmul(v: Arrays, s: Scalars) -> tuple[Any, Any]:
    y = f64(v["x"]).reshape(int(s["tokens"]), -1) @ weights(v, s)
    return y, np.abs(y).max()


def dots() -> tuple[Subject, ...]:
    narrow = lengths(1, 7, 100, 1024, 65536)

    def wide(v: Arrays, s: Scalars) -> tuple[Any, Any]:
        return dotted(f64(v["a"]), f64(v["b"]))

    def stored(first: Callable[[Any], Any]) -> Truth:
        return lambda v, s: dotted(first(v["x"]).ravel(), q8_0(v["y"]).ravel())

    def unstored(v: Arrays, s: Scalars) -> Any:
        return dotted(f64(v["x_exact"]), f64(v["y_exact"]))[0]

    return (
        Subject("dot_f32", wide, SHORT_AND_LONG, terms="n", result=""),
        Subject("dot_loop_f32", wide, narrow, terms="n", result=""),
        Subject("dot_f16", wide, narrow, terms="n", result=""),
        Subject("dot_bf16", lambda v, s: dotted(from_bf16(v["a"]), from_bf16(v["b"])), narrow, terms="n", result=""),
        Subject("dot_i8", wide, narrow, EXACT, fills=("normal",), result=""),
        Subject("dot_q8_0", stored(q8_0), BLOCKS, terms="blocks", fills=EVEN, result="", format=unstored),
        Subject("dot_q4_0", stored(q4_0), BLOCKS, terms="blocks", fills=EVEN, result="", format=unstored),
    )  # fmt: skip


def elementwise() -> tuple[Subject, ...]:
    here = lengths(*IN_AND_PAST_CACHES)
    times = lengths(*IN_AND_PAST_CACHES, a=1.7)

    def added(v: Arrays, s: Scalars) -> tuple[Any, Any]:
        return each(f64(v["a"]) + f64(v["b"]))

    def scaled(v: Arrays, s: Scalars) -> tuple[Any, Any]:
        return each(np.float32(s["a"]).astype(np.float64) * f64(v["x"]))

    def copied(v: Arrays, s: Scalars) -> tuple[Any, Any]:
        return each(f64(v["x"]))

    def axpy(v: Arrays, s: Scalars) -> tuple[Any, Any]:
        step = np.float32(s["a"]).astype(np.float64) * f64(v["x"])
        return f64(v["y"]) + step, np.abs(f64(v["y"])) + np.abs(step)

    def exp(v: Arrays, s: Scalars) -> tuple[Any, Any]:
        return each(np.exp(f64(v["x"])))

    return (
        Subject("axpy", axpy, times, 2 * ROUNDED),
        Subject("add_f32", added, here, ROUNDED, ulps=True),
        Subject("add_loop_f32", added, here, ROUNDED, ulps=True),
        Subject("scale_f32", scaled, times, ROUNDED, ulps=True),
        Subject("scale_loop_f32", scaled, times, ROUNDED, ulps=True),
        Subject("copy_f32", copied, here, EXACT, ulps=True),
        Subject("copy_loop_f32", copied, here, EXACT, ulps=True),
        Subject("exp_f32", exp, here, 3.5 * ROUNDED, fills=EXPONENTS, ulps=True),
        Subject("silu_f32", silu, here, 6e-7, fills=EXPONENTS, ulps=True),
        Subject("rope_f32", rope, ({"heads": 3, "half": 7}, {"heads": 32, "half": 64}), 3 * ROUNDED),
        Subject("softmax_f32", softmax, ROWS, terms="cols",
                fills=("normal", "positive", "steep"), ulps=True),
        Subject("rmsnorm_f32",
                lambda v, s: each(rmsnorm(f64(v["x"]).reshape(int(s["rows"]), -1), f64(v["w"]))[0]),
                tuple({**s, "eps": 1e-5} for s in ROWS), terms="cols", ulps=True),
    )  # fmt: skip


def products() -> tuple[Subject, ...]:
    thin = matrices((4, 1024, 1024), (16, 512, 512))

    def bf16(v: Arrays, s: Scalars) -> tuple[Any, Any]:
        return product(from_bf16(v["a"]).reshape(int(s["m"]), -1), from_bf16(v["b"]).reshape(int(s["k"]), -1))

    def tiny(v: Arrays, s: Scalars) -> tuple[Any, Any]:
        return dense(v, {"m": s["size"], "k": s["size"]})

    def q8(v: Arrays, s: Scalars) -> tuple[Any, Any]:
        return product(f64(v["x"]).reshape(-1, int(s["k"])), f64(v["w0"]).reshape(int(s["m"]), -1).T)

    return (
        Subject("sgemm", dense, (*CUBES, *thin), terms="k", result="c"),
        Subject("sgemm_tiny", tiny, tuple({"size": size} for size in (8, 16, 32)), terms="size", result="c"),
        Subject("gemm_f32", lambda v, s: dense(v, s, b="b0"), (*CUBES, *thin), terms="k", result="c"),
        Subject("gemv_f32", lambda v, s: dense(v, {**s, "m": 1}, "x", "b0"),
                tuple({"n": n, "k": k} for n, k in ((7, 5), (65, 257), (1024, 1024))), terms="k"),
        Subject("gemm_bf16", bf16, CUBES, terms="k", result="c"),
        Subject("gemm_u8s8", dense, CUBES, EXACT, fills=("normal",), result="c"),
        Subject("gemm_q8", q8, CUBES, ROUNDED, fills=("normal",)),
        Subject("gemv_q8", q8, tuple({"m": m, "k": k} for m, k in ((7, 5), (65, 257), (1024, 1024))), ROUNDED,
                fills=("normal",)),
    )  # fmt: skip


def quantised() -> tuple[Subject, ...]:
    half_a_step = 0.5 / 127

    def back(v: Arrays) -> Any:
        return v["q"].reshape(-1, 32) * f64(v["d"])[:, None]

    def activations(v: Arrays, s: Scalars) -> Any:
        return as_i8(v["x"]).reshape(int(s["tokens"]), -1) @ weights(v, s)

    tokens = tuple(
        {"tokens": t, "n": n, "k": k}
        for t, n, k in ((3, 7, 64), (1, 512, 1024), (4, 512, 1024), (64, 512, 1024))
    )
    return (
        Subject("quantize_q8", lambda v, s: blocks_of(v["x"]), BLOCKS, half_a_step * 1.001, read=back,
                format=lambda v, s: as_i8(v["x"])),
        # The scale is rounded to f16: by 2^-11 of itself, so 127 steps of it by 2^-11 of the largest value.
        Subject("quantize_row_q8_0", lambda v, s: blocks_of(v["x"]), BLOCKS, half_a_step + 2.0**-11 * 1.01,
                read=lambda v: q8_0(v["y"]), format=lambda v, s: q8_0(quantized(v["x"]))),
        Subject("matmul_q8_0", matmul, tokens, 2e-2, format=activations),
    )  # fmt: skip


def catalogue() -> tuple[Subject, ...]:
    return (*dots(), *elementwise(), *products(), *quantised())

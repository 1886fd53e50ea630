"""The goals of the catalogue, line by line, and what became of them: the table of docs/performance.md.

A goal is a ratio over the best of its peers, as the geometric mean over its shapes or, with ``each``, for every shape.
They were set on a machine with AVX-512 and AMX: a line whose goal is missed where its instructions are not to be had
is said to be undecided, with what this machine reached.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .page import geometric_mean

Row = Mapping[str, Any]
CUBES = ("64^3", "128^3", "256^3", "512^3", "1024^3")
VENDORS = ("MKL", "MKL JIT")


@dataclass(frozen=True, slots=True)
class Goal:
    """``least``: one ratio, or one a shape. No ``shapes``: all of the family; no ``peers``: whoever is best.

    ``needs``: the CPU feature without which the goal says nothing; ``why``: the reason that a miss has here.
    """

    line: str
    family: str
    least: tuple[float, ...]
    shapes: tuple[str, ...] = ()
    peers: tuple[str, ...] = ()
    each: bool = False
    needs: str = ""
    why: str = ""


def matmul(line: str, tokens: Sequence[int], least: Sequence[float], needs: str = "") -> Goal:
    shapes = tuple(f"T={t}, 2048^2" for t in tokens)
    return Goal(line, "matmul_q8_0", tuple(least), shapes, each=True, needs=needs)


GOALS = (
    matmul("q8_0 matmul, T = 1, 2, 4, 8", (1, 2, 4, 8), (1.07, 1.2, 1.3, 1.7), "avx512_vnni"),
    matmul("q8_0 matmul, T = 16, 64, 512", (16, 64, 512), (1.9, 3.3, 4.0), "amx_int8"),
    Goal("int8 GEMM", "gemm_u8s8", (1.7,), needs="amx_int8"),
    Goal("bf16 GEMM", "gemm_bf16", (1.4,), needs="amx_bf16"),
    Goal("bf16 GEMM, no shape under", "gemm_bf16", (0.97,), each=True),
    Goal("softmax 32x1000, 64x4096, 512x4096", "softmax_f32", (2.3, 2.4, 1.7), each=True),
    Goal("rmsnorm 64x4096, 1024x4096", "rmsnorm_f32", (3.9, 3.0), ("64x4096", "1024x4096"), each=True,
         why="a row of x, y and w is more than the first cache"),
    Goal("dot i8", "dot_i8", (1.8,), needs="avx512_vnni",
         why="both widen to 16 bits, AVX2 has nothing better"),
    Goal("dot bf16", "dot_bf16", (1.5,), needs="avx512_bf16"),
    Goal("dot f16", "dot_f16", (1.3,), needs="avx512f", why="ggml converts and multiplies as ours does"),
    Goal("dot f32", "dot_f32", (1.0,)),
    Goal("dot f32, no shape under", "dot_f32", (0.98,), each=True),
    Goal("dot f32, n = 100", "dot_f32", (1.5,), ("100",)),
    Goal("quantize_row_q8_0 from 1024", "quantize_row_q8_0", (2.4,), needs="avx512f",
         why="32 values take four vectors, not two"),
    Goal("exp in cache", "exp_f32", (1.3,)),
    Goal("silu in cache", "silu_f32", (1.25,)),
    Goal("sgemm cubes, over MKL and MKL JIT", "sgemm", (1.0,), CUBES, VENDORS),
    Goal("sgemm cubes, over OpenBLAS", "sgemm", (1.2,), CUBES, ("OpenBLAS",), needs="avx512f",
         why="OpenBLAS has a kernel of its own for AVX2"),
    Goal("sgemm of few rows, over MKL", "sgemm", (1.05,), ("4x1024x1024", "16x1024x1024"), ("MKL",)),
    Goal("fixed 8, 16, 32, over MKL and MKL JIT", "sgemm_tiny", (1.0,), peers=VENDORS),
    Goal("dot past 2 MB", "dot_f32", (0.98,), ("1048576", "4194304"), each=True),
    Goal("axpy past 2 MB", "axpy", (0.98,), ("4194304",)),
    Goal("add past 2 MB", "add_f32", (0.98,), ("4194304",)),
    Goal("scale past 2 MB", "scale_f32", (0.98,), ("4194304",)),
    Goal("copy past 2 MB", "copy_f32", (0.98,), ("8388608",)),
    Goal("all shapes, geometric mean", "", (1.5,)),
)  # fmt: skip


def over(row: Row, peers: Sequence[str]) -> float | None:
    """The ratio over the best of ``peers``; None where none of them took part."""
    if not peers:
        return float(row["ratio_best"])
    return min((row["ratios"][name] for name in peers if name in row["ratios"]), default=None)


def reached(goal: Goal, rows: Sequence[Row]) -> tuple[float, ...]:
    """One figure, or one a shape; () where a shape was not raced."""
    own = [row for row in rows if not goal.family or row["family"] == goal.family]
    by_shape = {row["shape"]: row for row in own} if goal.family else {}
    chosen = [by_shape.get(shape) for shape in goal.shapes] if goal.shapes else own
    found = [None if row is None else over(row, goal.peers) for row in chosen]
    ratios = [ratio for ratio in found if ratio is not None]
    if not ratios or len(ratios) < len(found):
        return ()
    return tuple(ratios) if goal.each else (geometric_mean(ratios),)


def verdict(goal: Goal, figures: Sequence[float], features: Sequence[str]) -> str:
    if not figures:
        return "not raced"
    least = goal.least if len(goal.least) == len(figures) else goal.least * len(figures)
    missed = sum(figure < bound for figure, bound in zip(figures, least, strict=True))
    if not missed:
        return "met"
    word = f"not decided: no {goal.needs} here" if goal.needs and goal.needs not in features else "not met"
    where = f", {missed} of {len(figures)}" if len(figures) > 1 else ""
    return f"{word}{where}" + (f"; {goal.why}" if goal.why else "")


def table(document: Mapping[str, Any]) -> Iterator[str]:
    """Goal by goal: what was asked, what this machine reached, whether that is met."""
    yield "| line | goal | here | |"
    yield "|---|--:|--:|---|"
    for goal in GOALS:
        figures = reached(goal, document["rows"])
        yield (
            f"| {goal.line} | {_listed(goal.least)} | {_listed(figures) or '—'} | "
            f"{verdict(goal, figures, document['features'])} |"
        )


def _listed(values: Sequence[float]) -> str:
    if len(values) > 4:
        return f"{min(values):.2f} to {max(values):.2f}"
    return ", ".join(f"{value:.2f}" for value in values)

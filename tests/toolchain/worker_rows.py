"""Compiles the worker and the hand-written tune libraries of rows/, once a session."""

from __future__ import annotations

import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from tunebuild import worker
from tunebuild.calls import Subject
from tunebuild.model import Argument, Check, Compare, Row, Workload

ROWS = Path(__file__).parent / "rows"
COMPILERS = tuple(filter(None, map(shutil.which, ("gcc", "clang"))))
CC = COMPILERS[0] if COMPILERS else ""
FOLDER = tempfile.TemporaryDirectory(prefix="test-worker-")
WARNINGS = ("-O2", "-Wall", "-Wextra", "-Werror")

needs_cc = pytest.mark.skipif(not CC, reason="no gcc and no clang")


@functools.cache
def executable(cc: str = CC, *flags: str) -> Path:
    output = Path(FOLDER.name) / f"worker-{Path(cc).name}-{'-'.join(flags).replace('=', '')}"
    run(worker.compile_command((cc,), output, (*WARNINGS, *flags)))
    return output


@functools.cache
def library(name: str, cc: str = CC, *flags: str) -> Path:
    output = Path(FOLDER.name) / f"{name}-{Path(cc).name}-{'-'.join(flags).replace('=', '')}.so"
    usual = ("-std=gnu17", "-O1", "-fno-builtin", "-fno-stack-protector", "-shared", "-fPIC", "-w")
    include = f"-I{worker.SOURCES.parent}"
    run((cc, *usual, *flags, include, str(ROWS / f"{name}.c"), "-o", str(output), "-lm"))
    return output


def run(command: tuple[str, ...]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def pointer(name: str, kind: str, element: str, size: str, at: int, **more: object) -> Argument:
    return Argument(name, kind, element, size, parameter=at, **more)  # type: ignore[arg-type]


def integer(name: str, at: int) -> Argument:
    return Argument(name, "scalar", "i64", parameter=at)


def sizes(*each: dict[str, int]) -> tuple[tuple[tuple[str, int | float], ...], ...]:
    return tuple(tuple(size.items()) for size in each)


LENGTHS = sizes(*({"n": n} for n in (0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 63, 65, 1000)))
FILLS = ("normal", "extremes", "max", "denormal")
HALF_ARGS = (pointer("x", "in", "f16", "n", 0), pointer("y", "out", "f16", "n", 1), integer("n", 2))
BITS_ARGS = (pointer("x", "in", "u16", "n", 0), pointer("y", "out", "u16", "n", 1), integer("n", 2))
ON_N = (Workload("w", (("n", 4096),)),)


def ride() -> Subject:
    args = (pointer("x", "in", "f32", "n", 0), pointer("y", "out", "f32", "n", 1), integer("n", 2))
    workloads = (*ON_N, Workload("cold", (("n", 16384),), cache="cold"))
    check = Check(LENGTHS, fills=FILLS, compare=Compare("tolerance", rtol=1e-5, scale="abs"))
    return Subject("ride", "ride", args, check, workloads, ())


def half(compare: Compare, name: str = "half") -> Subject:
    return Subject(name, name, HALF_ARGS, Check(LENGTHS[:9], compare=compare), ON_N, ())


def bits(name: str) -> Subject:
    return Subject(name, name, BITS_ARGS, Check(LENGTHS[:9]), ON_N, ())


def mul() -> Subject:
    """Packed by rows of `mr`; `w0` is read by the packing alone."""
    args = (
        pointer("w", "scratch", "f32", "ceil_div(m, mr) * mr * k", 0),
        pointer("x", "in", "f32", "k", 1),
        pointer("y", "inout", "f32", "m", 2),
        integer("m", 3),
        integer("k", 4),
        pointer("w0", "in", "f32", "m * k", -1),
    )
    rows = (("mr4", 4), ("mr16", 16), ("bad_pack", 4), ("bad_mul", 4))
    return Subject(
        "mul", "mul", args,
        Check(sizes(*({"m": m, "k": k} for m in (1, 5, 16, 33) for k in (1, 9))), fills=("normal",),
              compare=Compare("tolerance", rtol=1e-5, scale="abs")),
        (Workload("hot", (("m", 64), ("k", 64))), Workload("cold", (("m", 64), ("k", 64)), cache="cold")),
        tuple(Row(suffix, (("mr", mr),), layout=(mr,)) for suffix, mr in rows),
    )  # fmt: skip


def gather() -> Subject:
    args = (
        Argument("p", "pointers", pointers=("data",), parameter=0),
        integer("c", 1),
        integer("n", 2),
        pointer("out", "out", "i8", "c * n", 3, valid="return"),
        pointer("data", "in", "i8", "n", -1, count="c"),
    )
    check = Check(sizes(*({"c": c, "n": n} for c in (1, 3) for n in (1, 17, 64))))
    return Subject("gather", "gather", args, check, (Workload("w", (("c", 3), ("n", 500))),), ())

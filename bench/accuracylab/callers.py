"""Calling the rows of a built library on numpy arrays, with what tune.toml says of each function's arguments."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from peerlab.truth import quantized

from tunebuild import expressions, prototype
from tunebuild.model import Argument, Call, Function, Manifest, Row

from .subjects import Scalars

CTYPES: dict[str, Any] = {
    "f32": ctypes.c_float, "f64": ctypes.c_double, "i32": ctypes.c_int32, "i64": ctypes.c_int64, "u64": ctypes.c_uint64,
}  # fmt: skip
DTYPES: dict[str, Any] = {
    "f16": np.float16, "bf16": np.uint16, "f32": np.float32, "i8": np.int8, "u8": np.uint8, "u16": np.uint16,
    "i32": np.int32,
}  # fmt: skip
BLOCK_BYTES = {"fill_q8_0": 34, "fill_q4_0": 18}


@dataclass(frozen=True, slots=True)
class Callee:
    """A family, or a companion that has a seat of its own."""

    function: Function
    arguments: tuple[Argument, ...]
    prepare: tuple[Call, ...]
    rows: tuple[Row, ...]


def callees(manifest: Manifest) -> dict[str, Callee]:
    found = {}
    for family in manifest.families:
        found[family.name] = Callee(family.function, family.args, family.prepare, family.rows)
        for companion in family.companions:
            if companion.own_seat:
                found[companion.name] = Callee(
                    companion.function, companion.args, companion.prepare, family.rows
                )
    return found


def functions(manifest: Manifest) -> dict[str, Function]:
    """Every function that a call may prepare with."""
    own = {family.name: family.function for family in manifest.families}
    return own | {c.name: c.function for family in manifest.families for c in family.companions}


class Library:
    """A built library. A suffix is a row of the tune binary; "" is what callers get under the plain name."""

    def __init__(self, path: Path) -> None:
        self._lib = ctypes.CDLL(str(path))

    def address(self, name: str, suffix: str) -> int:
        if not suffix:
            return ctypes.cast(getattr(self._lib, name), ctypes.c_void_p).value or 0
        return self.rows(name)[suffix]

    def rows(self, name: str) -> dict[str, int]:
        class Variant(ctypes.Structure):
            _fields_ = (("suffix", ctypes.c_char_p), ("fn", ctypes.c_void_p))

        ask = getattr(self._lib, f"{name}_variants")
        ask.restype = ctypes.POINTER(Variant)
        count = ctypes.c_size_t()
        table = ask(ctypes.byref(count))
        return {table[i].suffix.decode(): table[i].fn for i in range(count.value)}


def call(function: Function, address: int, values: Mapping[str, Any]) -> Any:
    """Call it with the arrays and scalars that have its parameters' names."""
    types, given = [], []
    for parameter in function.parameters:
        value = values[parameter.name]
        types.append(ctypes.c_void_p if parameter.pointer else CTYPES[prototype.element(parameter.ctype)])
        given.append(value.ctypes.data if parameter.pointer else value)
    returns = None if function.returns == "void" else CTYPES[prototype.element(function.returns)]
    return ctypes.CFUNCTYPE(returns, *types)(address)(*given)


def arrays(callee: Callee, scalars: Scalars, fill: str, rng: np.random.Generator) -> dict[str, Any]:
    """A buffer for each argument. Values that were stored in blocks are kept as they were, as NAME_exact."""
    made: dict[str, Any] = {}
    for argument in callee.arguments:
        if argument.kind == "scalar":
            continue
        count = _elements(argument, scalars, callee.rows)
        dtype = DTYPES[argument.element]
        if argument.kind not in ("in", "inout"):
            made[argument.name] = np.zeros(count, dtype)
        elif argument.fill in BLOCK_BYTES:
            exact = drawn(fill, count // BLOCK_BYTES[argument.fill] * 32, rng)
            made[f"{argument.name}_exact"] = exact
            made[argument.name] = quantized(exact) if argument.fill == "fill_q8_0" else quantized_4(exact)
        elif argument.element in ("i8", "u8"):
            low, high = (-127, 128) if argument.element == "i8" else (0, 256)
            made[argument.name] = rng.integers(low, high, count, dtype=dtype)
        else:
            values = drawn(fill, count, rng)
            made[argument.name] = (
                (values.view(np.uint32) >> 16).astype(dtype) if argument.element == "bf16" else values.astype(dtype)
            )  # fmt: skip
    return made


def _elements(argument: Argument, scalars: Scalars, rows: Sequence[Row]) -> int:
    """Room for any row: where a packed operand's size is a row's own, the largest."""
    size = expressions.parse(argument.size)
    found = [expressions.evaluate(size, {**dict(row.values), **scalars}) for row in rows]
    return max(int(value) for value in found)


def drawn(fill: str, count: int, rng: np.random.Generator) -> Any:
    """f32 values. wide: magnitudes over six decades; exponents: all that e^x takes; steep: far from even."""
    if fill == "normal":
        values = rng.standard_normal(count)
    elif fill == "positive":
        values = rng.random(count)
    elif fill == "wide":
        values = rng.choice((-1, 1), count) * np.exp2(rng.uniform(-10, 10, count))
    elif fill == "exponents":
        values = rng.uniform(-66, 88, count)
    elif fill == "steep":
        values = 10 * rng.standard_normal(count)
    else:
        raise LookupError(fill)
    return values.astype(np.float32)


def quantized_4(x: Any) -> Any:
    """q4_0 blocks of f32 values, as bytes: the value of largest magnitude becomes -8 steps."""
    table = x.reshape(-1, 32)
    widest = np.take_along_axis(table, np.abs(table).argmax(axis=1)[:, None], axis=1)
    scale = (widest / np.float32(-8)).astype(np.float16)
    step = np.where(scale == 0, np.float32(1), scale.astype(np.float32))
    codes = np.clip(np.rint(table / step) + 8, 0, 15).astype(np.uint8)
    return np.concatenate([scale.view(np.uint8), codes[:, :16] | codes[:, 16:] << 4], axis=1).ravel()

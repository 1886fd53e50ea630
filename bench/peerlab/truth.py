"""What the results should be, in float64: a value, and the scale that its error is taken against."""

from __future__ import annotations

from typing import Any

import numpy as np


def f64(values: Any) -> Any:
    return values.astype(np.float64)


def from_bf16(bits: Any) -> Any:
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def dotted(a: Any, b: Any) -> tuple[Any, Any]:
    return np.array([a @ b]), np.abs(a) @ np.abs(b)


def product(a: Any, b: Any) -> tuple[Any, Any]:
    return a @ b, np.abs(a) @ np.abs(b)


def largest(y: Any) -> tuple[Any, Any]:
    return y, np.abs(y).max()


def each(y: Any) -> tuple[Any, Any]:
    return y, np.maximum(np.abs(y), 1e-30)


def softmax(x: Any) -> tuple[Any, Any]:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return each(e / e.sum(axis=1, keepdims=True))


def rmsnorm(x: Any, w: Any) -> tuple[Any, Any]:
    return largest(x / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-5) * w)


def q8_0(blocks: Any) -> Any:
    """Values of q8_0 blocks, by blocks of 32."""
    table = blocks.reshape(-1, 34)
    scale = np.ascontiguousarray(table[:, :2]).view(np.float16).astype(np.float64)
    return scale * np.ascontiguousarray(table[:, 2:]).view(np.int8).astype(np.float64)


def q4_0(blocks: Any) -> Any:
    table = blocks.reshape(-1, 18)
    scale = np.ascontiguousarray(table[:, :2]).view(np.float16).astype(np.float64)
    halves = np.concatenate([table[:, 2:] & 15, table[:, 2:] >> 4], axis=1)
    return scale * (halves.astype(np.float64) - 8)


def quantized(x: Any) -> Any:
    """q8_0 blocks of f32 values, as bytes."""
    rows = x.reshape(-1, 32)
    largest_of = np.abs(rows).max(axis=1, keepdims=True)
    scale = (largest_of / np.float32(127)).astype(np.float16)
    inverse = np.where(largest_of > 0, np.float32(127) / np.maximum(largest_of, 1e-30), np.float32(0))
    codes = np.rint(rows * inverse).astype(np.int8)
    return np.concatenate([scale.view(np.uint8).reshape(-1, 2), codes.view(np.uint8)], axis=1).ravel()

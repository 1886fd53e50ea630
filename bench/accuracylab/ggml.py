"""ggml's functions on the same data, where `bench/peers.py --ggml` has fetched them."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from peerlab import libraries

from .error import Runner
from .subjects import Arrays, Scalars

DOTS = {
    "dot_f16": ("ggml_vec_dot_f16", "a", "b"),
    "dot_bf16": ("ggml_vec_dot_bf16", "a", "b"),
    "dot_q8_0": ("ggml_vec_dot_q8_0_q8_0", "x", "y"),
    "dot_q4_0": ("ggml_vec_dot_q4_0_q8_0", "x", "y"),
}


def runners(work: Path) -> Mapping[str, Runner]:
    """A runner for each family that ggml has a function for; none where it is not installed."""
    try:
        library = libraries.ggml(work)
    except (OSError, LookupError):
        return {}
    found: dict[str, Runner] = {family: _dot(library, *words) for family, words in DOTS.items()}
    found["quantize_row_q8_0"] = _quantize(library)
    found["matmul_q8_0"] = _matmul(library)
    return found


def _dot(library: libraries.Library, symbol: str, first: str, second: str) -> Runner:
    function = library.symbol(symbol)
    one = [ctypes.c_void_p, ctypes.c_size_t]
    function.argtypes = [ctypes.c_int, *one, *one, *one, ctypes.c_int]

    def run(v: Arrays, s: Scalars) -> Any:
        total = ctypes.c_float()
        count = s.get("n", 32 * s.get("blocks", 0))
        function(int(count), ctypes.addressof(total), 0, v[first].ctypes.data, 0, v[second].ctypes.data, 0, 1)
        return total.value

    return run


def _quantize(library: libraries.Library) -> Runner:
    function = library.symbol("quantize_row_q8_0")
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]

    def run(v: Arrays, s: Scalars) -> Any:
        function(v["x"].ctypes.data, v["y"].ctypes.data, len(v["x"]))

    return run


def _matmul(library: libraries.Library) -> Runner:
    make, compute = library.symbol("peer_ggml_matmul"), library.symbol("peer_ggml_run")
    make.restype = ctypes.c_void_p
    make.argtypes = [ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_size_t] * 3]
    compute.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int]

    def run(v: Arrays, s: Scalars) -> Any:
        sides = (int(s[name]) for name in ("tokens", "n", "k"))
        compute(make(v["w0"].ctypes.data, v["x"].ctypes.data, *sides), v["y"].ctypes.data, 1)

    return run

"""What memory allows: a plain read or copy of the bytes that a family must move, as entrants of its race."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Sequence
from pathlib import Path

from .families import Call

COPY = "void (float *, const float *, size_t)"
READ = "float (const float *, const float *, size_t)"
COPIED = {
    "rmsnorm_f32": "rows * cols",
    "softmax_f32": "rows * cols",
    "copy_f32": "n",
    "scale_f32": "n",
}  # x to y
READ_BY = {
    "dot_f32": "r[0] = roof_read(a, b, n)",
    "gemv_f32": "y[0] = roof_read(b, b + n * k / 2, n * k / 2)",
    "matmul_q8_0": "const float *all = (void *)w; y[0] = roof_read(all, all + n * k / 64 * 9, n * k / 64 * 9)",
}


def of(family: str) -> Sequence[Call]:
    """() for a family that arithmetic bounds."""
    if family in READ_BY:
        return [Call("roof", {"roof_read": READ}, READ_BY[family], label="read", checked=False)]
    names = {"copy": "roof_copy", "copy past the caches": "roof_copy_past"} if family in COPIED else {}
    return [
        Call("roof", {symbol: COPY}, f"{symbol}(y, x, {COPIED[family]})", label=label, checked=False)
        for label, symbol in names.items()
    ]


def compiled(folder: Path) -> ctypes.CDLL:
    path = folder / "libroofs.so"
    text = Path(__file__).with_name("roofs.c")
    subprocess.run(["gcc", "-O3", "-mavx2", "-fPIC", "-shared", str(text), "-o", str(path)], check=True)
    return ctypes.CDLL(str(path))

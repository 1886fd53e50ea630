"""What memory allows: a plain read or copy of the bytes that a family must move, as entrants of its race."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Sequence
from pathlib import Path

from .families import Call

COPY = "void (float *, const float *, size_t)"
READ = "float (const float *, const float *, size_t)"
PLAIN = ("copy", "roof_copy", COPY, "roof_copy(y, x, {})")
PAST = ("copy past the caches", "roof_copy_past", COPY, "roof_copy_past(y, x, {})")
COUNTS = {"rmsnorm_f32": "rows * cols", "softmax_f32": "rows * cols", "copy_f32": "n", "scale_f32": "n"}


def of(family: str) -> Sequence[Call]:
    """() for a family that arithmetic bounds."""
    if family == "dot_f32":
        return (Call("roof", {"roof_read": READ}, "r[0] = roof_read(a, b, n)", label="read", checked=False),)
    if family not in COUNTS:
        return ()
    return [
        Call("roof", {symbol: kind}, call.format(COUNTS[family]), label=label, checked=False)
        for label, symbol, kind, call in (PLAIN, PAST)
    ]


def compiled(folder: Path) -> ctypes.CDLL:
    path = folder / "libroofs.so"
    text = Path(__file__).with_name("roofs.c")
    subprocess.run(["gcc", "-O3", "-mavx2", "-fPIC", "-shared", str(text), "-o", str(path)], check=True)
    return ctypes.CDLL(str(path))

"""A family's calls as one small C file: each entrant a loop over its call, all over the same buffers.

Called through ctypes, a call would cost more than a short kernel; called from this loop it costs one load and
one indirect call, the same for every entrant.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .families import Call, Family

CTYPES = {
    "f16": "uint16_t", "bf16": "uint16_t", "f32": "float", "f64": "double", "i8": "int8_t", "u8": "uint8_t",
    "i32": "int32_t",
}  # fmt: skip

TIMED = """
static inline void *room(size_t bytes)
{
    return aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

/* Nanoseconds of wall and of CPU time that `reps` calls take. */
void timed(void (*loop)(long), long reps, double *wall, double *cpu)
{
    const double cpu0 = now(CLOCK_THREAD_CPUTIME_ID), wall0 = now(CLOCK_MONOTONIC);
    loop(reps);
    *wall = now(CLOCK_MONOTONIC) - wall0;
    *cpu = now(CLOCK_THREAD_CPUTIME_ID) - cpu0;
}
"""


def source(family: Family, calls: Sequence[Call]) -> str:
    """The C file: buffers and sizes as globals, then a setup and a loop for each call."""
    headers = "".join(f"#include <{name}.h>\n" for name in ("stddef", "stdint", "stdlib", "time"))
    head = f"{headers}\nint keep;\nvoid *spare, *tx, *ty, *tw;\n"
    sizes = "".join(f"size_t {name};\n" for name in family.shapes[0].sizes)
    buffers = "".join(f"{CTYPES[b.element]} *{name};\n" for name, b in family.buffers.items())
    return head + sizes + buffers + TIMED + "".join(map(_entrant, range(len(calls)), calls))


def _entrant(index: int, call: Call) -> str:
    """Names are this entrant's own: two libraries export the same symbol."""
    pointers = "".join(f"__typeof__({kind}) *e{index}_{name};\n" for name, kind in call.symbols.items())
    names = {name: f"e{index}_{name}" for name in call.symbols}

    def own(text: str) -> str:
        return re.sub(r"\w+", lambda word: names.get(word[0], word[0]), text)

    return (
        f"\n/* {call.label} */\n{pointers}static void *state{index};\n"
        f"void setup{index}(void)\n{{\n    void *state = NULL;\n    (void)state;\n    {own(call.setup)};\n"
        f"    state{index} = state;\n}}\n"
        f"void loop{index}(long reps)\n{{\n    void *const state = state{index};\n    (void)state;\n"
        f"    for (; reps > 0; reps--) {{\n        {own(call.call)};\n    }}\n}}\n"
    )


class Shim:
    """The compiled calls of one family, over buffers that it owns."""

    def __init__(
        self, family: Family, calls: Sequence[Call], opened: Mapping[str, Any], folder: Path
    ) -> None:
        text = folder / f"{family.name}.c"
        text.write_text(source(family, calls))
        path = folder / f"lib{family.name}_calls.so"
        command = ["gcc", "-O2", "-std=gnu17", "-shared", "-fPIC", str(text), "-o", str(path)]
        subprocess.run(command, check=True)
        self._lib = ctypes.CDLL(str(path))
        self._lib.timed.argtypes = [ctypes.c_void_p, ctypes.c_long, *[ctypes.POINTER(ctypes.c_double)] * 2]
        self._loops = [
            ctypes.cast(getattr(self._lib, f"loop{i}"), ctypes.c_void_p) for i in range(len(calls))
        ]
        self.arrays: dict[str, np.ndarray[Any, Any]] = {}
        for index, call in enumerate(calls):
            for name in call.symbols:
                found = ctypes.cast(opened[call.library].symbol(name), ctypes.c_void_p)
                ctypes.c_void_p.in_dll(self._lib, f"e{index}_{name}").value = found.value

    def prepare(self, sizes: Mapping[str, int], arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        self.arrays = dict(arrays)
        for name, value in sizes.items():
            ctypes.c_size_t.in_dll(self._lib, name).value = value
        for name, array in arrays.items():
            ctypes.c_void_p.in_dll(self._lib, name).value = array.ctypes.data

    def setup(self, index: int) -> None:
        getattr(self._lib, f"setup{index}")()

    def once(self, index: int) -> None:
        """One call whose result is wanted."""
        ctypes.c_int.in_dll(self._lib, "keep").value = 1
        getattr(self._lib, f"loop{index}")(ctypes.c_long(1))
        ctypes.c_int.in_dll(self._lib, "keep").value = 0

    def time(self, index: int, reps: int) -> tuple[float, float]:
        """Wall and CPU nanoseconds of ``reps`` calls."""
        wall, cpu = ctypes.c_double(), ctypes.c_double()
        self._lib.timed(self._loops[index], reps, ctypes.byref(wall), ctypes.byref(cpu))
        return wall.value, cpu.value

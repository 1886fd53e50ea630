"""Projects of one family: a dot product in as many rows as asked, with vector extensions and one set of flags.

All rows have the same flags, so that a tuner with one command line for all of them compiles the same code.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tunebuild import host

ELEMENTS = 4096  # two streams of 16 kB: the first-level cache
FALLBACK = "vec8_acc2_u1_ahead0"

_TOML = """\
[project]
name = "dots"

[build]
cflags = [{flags}]

[family.dot]
prototype = "float dot(const float *a, const float *b, size_t n)"
fallback = "{fallback}"
grid.axes = {{ {axes} }}
args = {{ a = {{ in = "f32[n]" }}, b = {{ in = "f32[n]" }} }}
check = {{ compare = {{ rtol = 1e-5, scale = "abs" }} }}

[family.dot.workload.l1]
n = {elements}
"""

_REFERENCE = """\
#include <stddef.h>

float dot(const float *a, const float *b, size_t n)
{
    float sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}
"""

# acc sums of vec lanes, u steps of all of them in one pass of the loop, both streams fetched `ahead` floats early.
_TEMPLATE = """\
{% if header %}
#include <immintrin.h>
{% endif %}
typedef float lanes __attribute__((vector_size({{ 4 * vec }}), aligned(4)));

{{ prototype }}
{
    {% for j in range(acc) %}
    lanes s{{ j }} = {0};
    {% endfor %}
    size_t i = 0;
    for (; i + {{ vec * acc * u }} <= n; i += {{ vec * acc * u }}) {
    {% if ahead %}
        __builtin_prefetch(a + i + {{ ahead }});
        __builtin_prefetch(b + i + {{ ahead }});
    {% endif %}
    {% for j in range(acc * u) %}
        s{{ j % acc }} += *(const lanes *)(a + i + {{ j * vec }}) * *(const lanes *)(b + i + {{ j * vec }});
    {% endfor %}
    }
    {% for j in range(1, acc) %}
    s0 += s{{ j }};
    {% endfor %}
    float sum = 0;
    for (int k = 0; k < {{ vec }}; k++)
        sum += s0[k];
    for (; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}
"""


# The number is data beside the code, so that rows differ as objects and not in speed.
_EQUAL_TEMPLATE = """\
typedef float lanes __attribute__((vector_size(16), aligned(4)));
__asm__(".pushsection .rodata\\n.long {{ id }}\\n.popsection");

{{ prototype }}
{
    lanes s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        s0 += *(const lanes *)(a + i) * *(const lanes *)(b + i);
        s1 += *(const lanes *)(a + i + 4) * *(const lanes *)(b + i + 4);
        s2 += *(const lanes *)(a + i + 8) * *(const lanes *)(b + i + 8);
        s3 += *(const lanes *)(a + i + 12) * *(const lanes *)(b + i + 12);
    }
    s0 += s1 + s2 + s3;
    float sum = s0[0] + s0[1] + s0[2] + s0[3];
    for (; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}
"""


@dataclass(frozen=True, slots=True)
class Grid:
    """The values of each axis, in the order of a suffix."""

    vec: Sequence[int] = (4, 8, 16, 32)
    acc: Sequence[int] = (1, 2, 4, 8)
    u: Sequence[int] = (1, 2, 3, 4)
    ahead: Sequence[int] = (0,)

    @property
    def rows(self) -> int:
        return len(self.vec) * len(self.acc) * len(self.u) * len(self.ahead)


SIXTY_FOUR = Grid()
TWENTY = Grid(acc=(1, 2, 3, 4, 8), u=(1,))


def large(rows: int) -> Grid:
    """About ``rows`` rows, 2,000 at most."""
    return Grid(acc=range(1, 11), u=range(1, 11), ahead=(0, 32, 64, 128, 256)[: max(rows // 400, 1)])


def small(rows: int) -> Grid:
    """``rows`` rows, a multiple of 8, of a few vectors each: what differs is how far ahead they fetch."""
    return Grid(vec=(4, 8), acc=(1, 2), u=(1, 2), ahead=range(0, 4 * rows, 32))


def flags() -> list[str]:
    """What all rows are compiled with: the widest vectors of this machine, by name."""
    wide = {"avx2": ["-mavx2"], "fma": ["-mfma"], "avx512f": ["-mavx512f", "-mprefer-vector-width=512"]}
    found = host.box().features
    return ["-O3", "-std=c17", *(word for name, words in wide.items() if name in found for word in words)]


def write(folder: Path, grid: Grid, *, header: bool = False, more: str = "") -> Path:
    """A project in ``folder``, ``more`` at the end of its tune.toml; with ``header`` each row includes
    <immintrin.h>, as rows of intrinsics do."""
    axes = {name: list(values) for name, values in asdict(grid).items()}
    return _project(folder, axes, FALLBACK, f"{{% set header = {int(header)} %}}\n{_TEMPLATE}", more)


def write_equal(folder: Path, rows: int) -> Path:
    """A project of rows of equal speed: a crown is a false one. The fallback is ``id0``."""
    return _project(folder, {"id": list(range(rows))}, "id0", _EQUAL_TEMPLATE, "")


def _project(folder: Path, axes: Mapping[str, list[int]], fallback: str, template: str, more: str) -> Path:
    own = folder / "kernels/templates/dot"
    own.mkdir(parents=True)
    (own / "reference.c").write_text(_REFERENCE)
    (own / "kernel.c.j2").write_text(template)
    text = _TOML.format(
        flags=", ".join(f'"{flag}"' for flag in flags()),
        fallback=fallback,
        axes=", ".join(f"{name} = {values}" for name, values in axes.items()),
        elements=ELEMENTS,
    )
    (folder / "tune.toml").write_text(text + more)
    return folder


def forget(folder: Path) -> None:
    """Remove all that was made of a project: it is cold again."""
    for name in ("build", "generated", "cache", "history"):
        shutil.rmtree(folder / name, ignore_errors=True)
    for path in folder.glob("*.tune.json*"):
        path.unlink()

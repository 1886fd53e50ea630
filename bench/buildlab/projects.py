"""Generated projects of any number of rows: what the build line is measured on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROWS_A_FAMILY = 20

_FAMILY = """
[family.{name}]
module = "m{module}"
prototype = "float {name}(const float *restrict a, const float *restrict b, size_t n)"
template = "dot.c.j2"
reference = "dot.c"
fallback = "isa_avx2_u2; reference"
[family.{name}.grid.axes]
isa = ["base", "avx2"]
u = {units}
[family.{name}.args]
a = {{ in = "f32[n]" }}
b = {{ in = "f32[n]" }}
[family.{name}.workload.l1]
n = 1024
work = "2*n"
[family.{name}.check]
compare = {{ rtol = 1e-5, scale = "abs" }}
"""

_TEMPLATE = """\
#include "sum.h"
{{ prototype }}
{
    {% for i in range(u) %}
    float s{{ i }} = 0.0f;
    {% endfor %}
    size_t i = 0;
    for (; i + {{ u }} <= n; i += {{ u }}) {
    {% for i in range(u) %}
        s{{ i }} += a[i + {{ i }}] * b[i + {{ i }}];
    {% endfor %}
    }
    float sum = 0.0f;
    {% for i in range(u) %}
    sum += s{{ i }};
    {% endfor %}
    for (; i < n; i++) /* at most {{ u - 1 }} left */
        sum = step(sum, a[i], b[i]);
    return sum;
}
"""

_HEADER = """\
#ifndef SUM_H
#define SUM_H
static inline float step(float sum, float a, float b) { return sum + a * b; }
#endif
"""

_REFERENCE = """\
#include <stddef.h>
float {name}(const float *restrict a, const float *restrict b, size_t n)
{{
    float sum = 0.0f;
    for (size_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}}
"""


def write(folder: Path, families: int, rows: int = ROWS_A_FAMILY) -> Path:
    """A project of ``families`` families of ``rows`` rows (an even number) in ``folder``."""
    units = [*range(1, rows // 2 + 1)]
    names = [f"dot_{index}" for index in range(families)]
    text = ['[project]\nname = "many"\n\n[build]\ncflags = ["-O1", "-std=c17"]\n']
    templates = folder / "kernels/templates"
    for index, name in enumerate(names):
        one = _FAMILY.format(name=name, module=index % 10, units=units)
        own = templates / name
        own.mkdir(parents=True)
        (own / "reference.c").write_text(_REFERENCE.format(name=name))
        text.append(one.replace('reference = "dot.c"', f'reference = "{name}/reference.c"'))
    (templates / "dot.c.j2").write_text(_TEMPLATE)
    (folder / "kernels/include").mkdir(parents=True)
    (folder / "kernels/include/sum.h").write_text(_HEADER)
    (folder / "tune.toml").write_text("".join(text))
    return folder


def copy_of_repository(folder: Path) -> Path:
    """This repository's own catalogue, as a project elsewhere."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / "tune.toml", folder)
    for name in ("kernels", "profiles", "apps"):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name)
    return folder


@contextmanager
def workshop() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="tunebuild-build-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def environment(folder: Path, **changes: str) -> dict[str, str]:
    """A clean environment: home, cache and history in ``folder``, nothing of ours from outside, and Python keeps its
    bytecode, as an installed package has it."""
    foreign = ("TUNEBUILD_", "TB_", "PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    ours = {
        "PYTHONPATH": str(ROOT),
        "HOME": str(folder / "home"),
        "TUNEBUILD_CACHE": str(folder / "cache"),
        "TUNEBUILD_HISTORY": str(folder / "history"),
    }
    return {**kept, **ours, **changes}


def tunebuild(root: Path, *words: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the command in ``root``; a failure is the bench's own failure."""
    done = subprocess.run(
        [sys.executable, "-m", "tunebuild", *words], cwd=root, env=env, capture_output=True, text=True,
        stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"tunebuild {' '.join(words)} gave {done.returncode}\n{done.stdout}{done.stderr}")
    return done

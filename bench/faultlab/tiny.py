"""The project `tiny`, to be killed: a family or a few, quick to build and to race."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from faultlab.common import python, tunebuild

_PROJECT = """\
[project]
name = "tiny"
[build]
cc = "{cc}"
[measure]
{measure}
"""
_FAMILY = """
[module.of_NAME]
[scope.own_NAME]
module = "of_NAME"
[family.NAME]
module = "of_NAME"
prototype = "void NAME(float *restrict y, const float *restrict x, size_t n)"
fallback = "slow40"
[family.NAME.grid.axes]
slow = [40, 1]
[family.NAME.args]
y = { out = "f32[n]" }
x = { in = "f32[n]" }
[family.NAME.workload.l1]
n = 512
"""
BRIEF = {  # a race of a tenth of a second
    "settle_s": 0.0, "probe_windows": 3, "probe_window_ms": 0.5, "probe_pairs": 6, "slice_ms": 0.2,
    "min_slice_ms": 0.2, "dose_ms": 0.5, "floor_doses": 0.2, "max_rounds": 2, "validate_slice_ms": 0.2,
    "validate_first_pairs": 6, "validate_max_pairs": 6, "ceiling_cv_pct": 1e4,
}  # fmt: skip
_HEAD = "#include <stddef.h>\n"
_REFERENCE = (
    "void NAME(float *restrict y, const float *restrict x, size_t n)\n"
    "{\n    for (int again = 0; again < 60; again++) {\n        for (size_t i = 0; i < n; i++)\n"
    '            y[i] = 2.0f * x[i];\n        __asm__ volatile("" ::: "memory");\n    }\n}\n'
)
_ROW = (
    "{{ prototype }}\n{\n    for (int again = 0; again < {{ slow }}; again++) {\n"
    "        for (size_t i = 0; i < n; i++)\n            y[i] = 2.0f * x[i];\n"
    '        __asm__ volatile("" ::: "memory");\n    }\n}\n'
)
_RECORD = """
import sys
from pathlib import Path
from tunebuild import generate, sidecar
from tunebuild.upsert import Change
made = generate.generate(Path.cwd())
kernels, built = {"scale": sys.argv[1]}, {"scale": made.built["scale"]}
change = Change(kernels=kernels, race={"scale": {"winner": sys.argv[1]}}, built=built)
sidecar.save(made.records["tiny"].path, change, box=made.box, built_now=made.built)
"""


@dataclass(frozen=True, slots=True)
class Tiny:
    """A folder that holds it, or will, and the environment of its commands."""

    root: Path
    env: Mapping[str, str]

    @property
    def sidecar(self) -> Path:
        return self.root / "tiny.tune.json"

    def write(
        self, measure: Mapping[str, float], cc: str = "auto", families: tuple[str, ...] = ("scale",)
    ) -> None:
        """Each family is in a scope of its own. Its row `slow1` is forty times as fast as its fallback, `slow40`,
        and more than its reference."""
        constants = "\n".join(f"{name} = {value}" for name, value in measure.items())
        text = _PROJECT.format(cc=cc, measure=constants)
        for name in families:
            folder = self.root / "kernels/templates" / name
            folder.mkdir(parents=True)
            (folder / "kernel.c.j2").write_text(_HEAD + _ROW)
            (folder / "reference.c").write_text(_HEAD + _REFERENCE.replace("NAME", name))
            text += _FAMILY.replace("NAME", name)
        (self.root / "tune.toml").write_text(text)

    def run(self, *words: str, before: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        return tunebuild(self.root, *words, env=self.env, before=before)

    def must(self, *words: str) -> None:
        """Run a command that has to succeed, or there is nothing to harm."""
        _must(self.run(*words))

    def record(self, winner: str) -> None:
        """Write the sidecar as a mint that chose ``winner`` would."""
        _must(python(_RECORD, winner, cwd=self.root, env=self.env))


def _must(done: subprocess.CompletedProcess[str]) -> None:
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)

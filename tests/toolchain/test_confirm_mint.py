"""Whole mints of apps with `[app.X.confirm]`: the race is real, and so is the clock of the app's own measure.

Family f is what the app spends its time in, family g is never called: both win the race, f alone in the app. The best
of many repetitions is what a busy machine cannot spoil.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import Project

pytestmark = pytest.mark.cc

TOML = """
[project]
name = "kit"
[build]
cflags = ["-O1", "-std=gnu17"]
[module.kit.constants]
KIT_VERSION = 7
[scope.kit]
version_of = "kit/KIT_VERSION"
[measure]
settle_s = 0.0
probe_windows = 3
probe_window_ms = 2.0
max_rounds = 3
{app}
"""
FAMILY = """
[family.{name}]
prototype = "uint32_t {name}(const uint32_t *x, size_t n)"
fallback = "times40"
[family.{name}.grid.axes]
times = [40, 1]
[family.{name}.args]
x = {{ in = "u32[n]" }}
[family.{name}.workload.small]
n = 500
"""
# Reference and fallback sum forty times over; no compiler sees through the empty assembly.
TEMPLATE = """#include <stddef.h>
#include <stdint.h>
{{ prototype }}
{
    uint32_t sum = 0;
    for (int again = 0; again < {{ times }}; again++) {
        sum = 0;
        for (size_t i = 0; i < n; i++) sum += x[i];
        __asm__ volatile("" : "+r"(sum));
    }
    return sum;
}
"""


def reference(name: str) -> str:
    prototype = f"uint32_t {name}(const uint32_t *x, size_t n)"
    return TEMPLATE.replace("{{ prototype }}", prototype).replace("{{ times }}", "40")


PROGRAM = """#include <stdio.h>
#include <time.h>
#include "demo.h"
static uint32_t x[500];
static double once_ms(void)
{
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (int i = 0; i < 50; i++) x[0] += f(x, 500);
    clock_gettime(CLOCK_MONOTONIC, &to);
    return 1e3 * (double)(to.tv_sec - from.tv_sec) + 1e-6 * (double)(to.tv_nsec - from.tv_nsec);
}
int main(void)
{
    double best = 1e9;
    for (int i = 0; i < 100; i++) {
        double ms = once_ms();
        best = ms < best ? ms : best;
    }
    printf("%.4f ms\\n", best);
    return 0;
}
"""
DRIVER = """
import time, numpy
from tunebuild import consumer
library = consumer.load("build/normal/libkit.so")
x = numpy.zeros(500, dtype=numpy.uint32)
def once():
    started = time.perf_counter()
    for _ in range(50): library.f(x, 500)
    return 1e3 * (time.perf_counter() - started)
print(f"{min(once() for _ in range(100)):.4f} ms")
"""


def made(tmp_path: Path, app: str) -> Project:
    root, home = tmp_path / "a kit", tmp_path / "home"
    home.mkdir()
    project = Project(root, home, home / "cache")
    project.write("tune.toml", TOML.format(app=app) + "".join(FAMILY.format(name=name) for name in "fg"))
    for name in "fg":
        project.write(f"kernels/templates/{name}/reference.c", reference(name))
        project.write(f"kernels/templates/{name}/kernel.c.j2", TEMPLATE)
    project.write("demo.c", PROGRAM)
    project.write("drive.py", DRIVER)
    return project


EXE = """
[app.demo]
kind = "exe"
sources = ["demo.c"]
[app.demo.confirm]
command = ["build/normal/demo"]
metric = "([0-9.]+) ms"
margin = 25.0
"""
LIBRARY = f"""
[app.kit]
kind = "shared"
[app.kit.confirm]
command = [{json.dumps(sys.executable)}, "-W", "ignore", "drive.py"]
metric = "([0-9.]+) ms"
margin = 25.0
"""


@pytest.mark.parametrize(("app", "declared"), [("demo", EXE), ("kit", LIBRARY)])
def test_winner_that_the_app_feels_is_kept_and_one_that_it_does_not_falls_back(
    tmp_path: Path, app: str, declared: str
) -> None:
    project = made(tmp_path, declared)
    path = str(Path(__file__).parents[2])
    done = project.run("mint", "--app", app, TUNEBUILD_NOISE_OVERRIDE="1", PYTHONPATH=path)
    record: dict[str, Any] = json.loads((project.root / f"{app}.tune.json").read_text())
    said = done.stdout + done.stderr
    assert record["kernels"] == {"f": "times1", "g": "times40"}, said
    f, g = (record["race"][name]["confirm"] for name in "fg")
    assert f["kept"] and f["gain_pct"] > 25 and not g["kept"] and g["gain_pct"] < 25
    assert record["race"]["g"]["demoted"] == "times1"
    assert "tunebuild: f: confirmed: +" in said and "tunebuild: g: not confirmed: " in said
    events = [line for line in done.stdout.splitlines() if line.startswith(("@tune end", "@tune settle"))]
    assert [event.partition(" ms=")[0] for event in events] == [
        "@tune end name=f winner=times1 verdict=beats",
        "@tune end name=g winner=times1 verdict=beats",
        "@tune settle name=g winner=times40 verdict=holds",
    ]
    assert record["provenance"]["kit_version"] == "7", "the arms are of the version that the scope pins"
    why = project.run("why", "g", "--app", app).stdout
    assert "not confirmed" in why and "times40" in why
    for arm, rows in {"winners": "11", "without_f": "41", "without_g": "14"}.items():
        held = json.loads((project.root / f"build/confirm/{arm}/arm.tune.json").read_text())["kernels"]
        assert held == {
            name: "times1" if row == "1" else "times40" for name, row in zip("fg", rows, strict=True)
        }
        proof = project.root / f"build/confirm/{arm}/stamps"
        if app == "demo":  # what the guard of the very process that was measured wrote
            ran = dict(line.split("\t")[1:3] for line in proof.read_text().splitlines())
            assert ran == held

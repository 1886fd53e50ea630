"""`test --sanitize`: the gate once more, under ASan and UBSan."""

from __future__ import annotations

import json
import subprocess

import pytest
from conftest import Project

pytestmark = pytest.mark.cc

OVERFLOW = """\
    {% if isa == "base" and u == 2 %}
    volatile int shift = (int)n & 0;
    volatile int most = 2147483647;
    if (most + shift + 1 == 7) return 1.0f;
    {% elif isa == "base" and u == 4 %}
    float some[4] = { 0 };
    volatile size_t at = 4;
    if (((volatile float *)some)[at] == 1234.5f) return 1.0f;
    {% endif %}
"""


REPLAY = "tunebuild test dot_f32 --row isa_base_u2 --case"


def words(done: subprocess.CompletedProcess[str]) -> dict[str, tuple[str, str]]:
    rows = json.loads(done.stdout.splitlines()[-1])["families"][0]["rows"]
    return {row["row"]: (row["word"], row["why"]) for row in rows}


def test_good_rows_pass_and_the_plain_objects_stay(project: Project) -> None:
    project.run("test")
    before = {path: path.stat().st_mtime_ns for path in (project.root / "build/obj").rglob("*.o")}
    found = words(project.run("test", "--sanitize", "--json"))
    assert {word for word, _ in found.values()} <= {"passed", "not run"}
    assert before == {path: path.stat().st_mtime_ns for path in (project.root / "build/obj").rglob("*.o")}


def test_row_that_only_a_sanitizer_finds_is_rejected_with_its_words(project: Project) -> None:
    project.edit(
        "kernels/templates/dot_f32/kernel.c.j2", "    float sum = 0.0f;", f"{OVERFLOW}    float sum = 0.0f;"
    )
    assert words(project.run("test", "--json"))["isa_base_u2"][0] == "passed"
    found = words(project.run("test", "--sanitize", "--json", code=1))
    assert found["isa_base_u2"][0] == "rejected" and "signed integer overflow" in found["isa_base_u2"][1]
    assert found["isa_base_u4"][0] == "rejected" and "runtime error: load of" in found["isa_base_u4"][1]
    assert found["isa_base_u1"][0] == "passed"
    text = project.run("test", "--sanitize", code=1).stdout
    (replay,) = [line for line in text.splitlines() if REPLAY in line]
    assert replay.endswith(" --sanitize")

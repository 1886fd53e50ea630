"""Rows by several compilers and flag sets in one binary, and those that cannot be made here."""

from __future__ import annotations

import json
import shutil

import pytest
from conftest import Project

pytestmark = pytest.mark.cc

DECLARED = """\
[toolchain.one]
cc = "{one}"
[toolchain.other]
cc = "{other}"
[toolchain.absent]
cc = "no-such-compiler"
optional = true
[flags.plain]
cflags = ["-O2"]
[flags.odd]
cflags = ["-O2", "-fno-such-flag"]

[family.dot_f32]"""


@pytest.mark.skipif(not (shutil.which("gcc") and shutil.which("clang")), reason="needs gcc and clang")
def test_rows_of_two_compilers_are_judged_in_one_binary_and_the_others_skipped_in_words(
    project: Project,
) -> None:
    project.edit("tune.toml", "[family.dot_f32]\n", DECLARED.format(one="gcc", other="clang") + "\n")
    axes = 'toolchain = ["one", "other", "absent"]\nflags = ["plain", "odd"]\nu = [1]'
    project.edit("tune.toml", "u = [1, 2, 4, 8]", axes)
    project.edit("tune.toml", 'isa = ["base", "avx2"]\n', "")
    project.edit("tune.toml", "isa_avx2_u4; isa_base_u4; reference", "reference")
    project.edit("kernels/templates/dot_f32/kernel.c.j2", 'isa == "avx2"', "u == 8")
    done = project.run("test", "--json")
    rows = json.loads(done.stdout.splitlines()[-1])["families"][0]["rows"]
    words = {row["row"]: (row["word"], row["why"]) for row in rows}
    absent = ("skipped", "toolchain absent is absent: no-such-compiler is not on this machine")
    assert words == {
        "toolchain_one_flags_plain_u1": ("passed", ""),
        "toolchain_other_flags_plain_u1": ("passed", ""),
        "toolchain_one_flags_odd_u1": ("skipped", "gcc rejects -fno-such-flag"),
        "toolchain_other_flags_odd_u1": ("skipped", "clang rejects -fno-such-flag"),
        "toolchain_absent_flags_plain_u1": absent,
        "toolchain_absent_flags_odd_u1": absent,
    }

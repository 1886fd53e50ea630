from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from tunebuild import elf, toolchain
from tunebuild.errors import UsageError
from tunebuild.model import Toolchain

pytestmark = pytest.mark.skipif(
    not (shutil.which("gcc") or shutil.which("clang")), reason="no gcc and no clang"
)


def here(name: str = "", cc: str = "auto", **more: object) -> Toolchain:
    return Toolchain(name=name, cc=cc, **more)  # type: ignore[arg-type]


def found(wanted: Toolchain, memo: Path | None = None) -> toolchain.Compiler:
    compiler = toolchain.find(wanted, {k: v for k, v in os.environ.items() if k != "CC"}, memo)
    assert isinstance(compiler, toolchain.Compiler)
    return compiler


def compiled(text: str, folder: Path, *flags: str, name: str = "a") -> Path:
    compiler = found(here())
    (folder / f"{name}.c").write_text(text)
    output = folder / f"{name}.o"
    command = [
        *compiler.argv,
        *compiler.flags,
        "-O2",
        *flags,
        "-c",
        str(folder / f"{name}.c"),
        "-o",
        str(output),
    ]
    subprocess.run(command, check=True)
    return output


def test_auto_finds_a_compiler_and_identifies_it(tmp_path: Path) -> None:
    compiler = found(here())
    assert compiler.kind in ("gcc", "clang") and len(compiler.identity) == 64
    assert compiler.runs and compiler.archiver and os.path.isabs(compiler.argv[0])
    assert compiler == found(here()), "asked twice, the same answer"


def test_cc_of_the_environment_comes_first(tmp_path: Path) -> None:
    gcc = shutil.which("gcc") or shutil.which("clang")
    wrapper = tmp_path / "mycc"
    wrapper.write_text(f'#!/bin/sh\nexec {gcc} "$@"\n')
    wrapper.chmod(0o755)
    compiler = toolchain.find(here(), {**os.environ, "CC": f"{wrapper} -g0"})
    assert isinstance(compiler, toolchain.Compiler) and (*compiler.argv, *compiler.flags) == (
        str(wrapper),
        "-g0",
    )


def test_options_behind_a_command_are_flags_and_part_of_the_identity() -> None:
    plain, told = found(here(cc="gcc")), found(here(cc="gcc -DX=1 -Iextra"))
    assert told.argv == plain.argv and told.flags == ("-DX=1", "-Iextra", *plain.flags)
    assert len({plain.identity, told.identity, found(here(cc="gcc -DX=2 -Iextra")).identity}) == 3


def test_memo_saves_asking_and_notices_another_program(tmp_path: Path) -> None:
    gcc, asked = shutil.which("gcc") or shutil.which("clang"), tmp_path / "asked"
    wrapper, memo = tmp_path / "mycc", tmp_path / "memo.json"
    wrapper.write_text(f'#!/bin/sh\necho >> {asked}\nexec {gcc} "$@"\n')
    wrapper.chmod(0o755)
    first = found(here(cc=str(wrapper)), memo)
    count = len(asked.read_text())
    assert found(here(cc=str(wrapper)), memo) == first and len(asked.read_text()) == count
    assert toolchain.accepts(first, ["-O2"], memo=memo)
    count = len(asked.read_text())
    assert toolchain.accepts(first, ["-O2"], memo=memo) and len(asked.read_text()) == count
    wrapper.write_text(wrapper.read_text() + "# changed\n")
    assert found(here(cc=str(wrapper)), memo).identity != first.identity


def test_damaged_memo_is_as_good_as_none(tmp_path: Path) -> None:
    memo = tmp_path / "memo.json"
    whole = found(here(), memo)
    for text in ("", "{", "[]", '{"version": 1, "entries": 3}', memo.read_text()[:-30]):
        memo.write_text(text)
        assert found(here(), memo) == whole


def test_absent_required_toolchain_is_a_usage_error_with_a_fix() -> None:
    with pytest.raises(UsageError, match="no-such-cc is not on this machine") as caught:
        toolchain.find(here("odd", "no-such-cc"), os.environ)
    assert "optional = true" in caught.value.fix and caught.value.where == "[toolchain.odd]"


def test_absent_optional_toolchain_is_a_value_with_the_reason() -> None:
    absent = toolchain.find(here("odd", "no-such-cc", optional=True), os.environ)
    assert absent == toolchain.Absent("odd", "no-such-cc is not on this machine")


def test_a_program_that_is_no_compiler_is_said_not_died_of(tmp_path: Path) -> None:
    absent = toolchain.find(here("odd", "false", optional=True), os.environ)
    assert isinstance(absent, toolchain.Absent) and "does not run" in absent.why


def test_flag_probe_tells_known_flags_from_unknown() -> None:
    for cc in ("gcc", "clang"):
        if shutil.which(cc):
            compiler = found(here(cc, cc))
            assert toolchain.accepts(compiler, ["-funroll-loops"])
            assert not toolchain.accepts(compiler, ["-mno-such-isa"])
            assert not toolchain.accepts(compiler, ["-fno-such-thing-at-all"])


@pytest.mark.skipif(not shutil.which("aarch64-linux-gnu-gcc"), reason="no cross compiler for aarch64")
def test_cross_toolchain_knows_its_target_and_emulator() -> None:
    cross = found(here("arm", "aarch64-linux-gnu-gcc", target="aarch64", run="qemu-aarch64"))
    assert cross.target == "aarch64" and cross.runs == bool(shutil.which("qemu-aarch64"))
    assert toolchain.accepts(cross, ["-march=armv8.2-a+dotprod"])
    alone = found(here("arm", "aarch64-linux-gnu-gcc"))
    assert alone.target == "aarch64" and not alone.runs


@pytest.mark.skipif(not shutil.which("clang"), reason="no clang")
def test_clang_is_told_its_target() -> None:
    cross = found(here("arm", "clang", target="aarch64"))
    assert "--target=aarch64-linux-gnu" in cross.flags and cross.target == "aarch64"


def test_a_toolchain_of_another_target_is_refused() -> None:
    if shutil.which("gcc"):
        with pytest.raises(UsageError, match="not for riscv64"):
            toolchain.find(here("odd", "gcc", target="riscv64"), os.environ)


# --- what an object holds ------------------------------------------------------------------------


def test_a_plain_function_is_code_only(tmp_path: Path) -> None:
    text = "extern int g(int); static const int t[4] = {1, 2, 3, 4};\n"
    text += 'const char *f(int i) { g(t[i & 3]); return "x"; }'
    facts = elf.scan_object(compiled(text, tmp_path))
    assert not facts.constructors and not facts.ifuncs and not facts.writable
    assert facts.defined == ("f",) and "g" in facts.undefined


@pytest.mark.parametrize(
    ("text", "section"),
    [
        ("int s; int f(void) { return ++s; }", ".bss"),
        ("static int s = 3; int f(void) { return ++s; }", ".data"),
        ("static _Thread_local int s; int f(void) { return ++s; }", ".tbss"),
    ],
)
def test_writable_data_is_named_with_its_size(text: str, section: str, tmp_path: Path) -> None:
    assert elf.scan_object(compiled(text, tmp_path)).writable == (f"{section} (4 bytes)",)


def test_constant_addresses_are_not_state(tmp_path: Path) -> None:
    text = "extern int g(void), h(void); int (*const t[2])(void) = {g, h};"
    assert elf.scan_object(compiled(text, tmp_path, "-fPIC")).writable == ()


def test_constructors_and_ifuncs_are_found(tmp_path: Path) -> None:
    text = "extern int tick; int f(void) { return 1; }\n"
    text += "__attribute__((constructor)) static void c(void) { tick = 1; }"
    assert elf.scan_object(compiled(text, tmp_path)).constructors
    text = "static int a(void) { return 1; }\nstatic void *r(void) { return a; }\n"
    text += 'int f(void) __attribute__((ifunc("r")));'
    assert elf.scan_object(compiled(text, tmp_path)).ifuncs == ("f",)


def test_equal_code_has_an_equal_digest_whatever_its_name(tmp_path: Path) -> None:
    body = "extern int pack{0}(int); int f{0}(int x) {{ return pack{0}(x) * {1}; }}"
    digests = []
    for row, times in (("u4", 3), ("unroll8", 3), ("u2", 5)):
        made = compiled(body.format(f"__{row}", times), tmp_path, "-ffunction-sections", name=row)
        digests.append(elf.scan_object(made, row).text_digest)
    assert digests[0] == digests[1] != digests[2]


def test_a_call_to_another_function_is_another_digest(tmp_path: Path) -> None:
    body = "extern int {0}(int); int f(int x) {{ return {0}(x) + 1; }}"
    one, two = (elf.scan_object(compiled(body.format(name), tmp_path)).text_digest for name in ("g", "h"))
    assert one != two


def test_a_damaged_object_is_a_value_error(tmp_path: Path) -> None:
    path = compiled("int f(void) { return 1; }", tmp_path)
    data = path.read_bytes()
    for length in range(0, len(data), 40):
        path.write_bytes(data[:length])
        with pytest.raises(ValueError):
            elf.scan_object(path)
    assert stat.S_ISREG(path.stat().st_mode)

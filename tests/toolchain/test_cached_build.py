"""The artifact cache under real builds: checkouts that share it, and what must never come out of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tunebuild import front
from tunebuild.generate import generate
from tunebuild.ninjarun import ninja_path

HERE = Path(__file__).parents[2]
PROJECT = HERE / "tests/projects/two_scopes"
GCC = shutil.which("gcc") or shutil.which("clang") or ""
ROW = "build/obj/f/f__u1.o"
pytestmark = [pytest.mark.cc, pytest.mark.skipif(not GCC, reason="no gcc and no clang")]


class Checkout:
    """A copy of the project whose row f__u1 includes a header."""

    def __init__(self, root: Path, cache: Path) -> None:
        self.root, self.cache = root, cache
        shutil.copytree(PROJECT, root, ignore=shutil.ignore_patterns("__pycache__"))
        self.header = root / "kernels/include/k.h"
        self.header.parent.mkdir()
        self.header.write_text("#define K 1\n")
        template = root / "kernels/templates/f/kernel.c.j2"
        template.write_text('#include "k.h"\n' + template.read_text().replace("sum = 0", "sum = K - K"))

    def build(self, **environ: str) -> dict[str, Any]:
        done = self.run("build", "--app", "demo", "--json", **environ)
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found

    def plain(self, **environ: str) -> bool:
        """A plain build; whether it ran anything, or its memo knew that there was nothing to do."""
        return "no work to do" not in self.run("build", **environ).stdout

    def run(self, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("TUNEBUILD_")}
        ours = {"PYTHONPATH": str(HERE), "TUNEBUILD_CACHE": str(self.cache), "TUNEBUILD_POLICY": "fallback"}
        done = subprocess.run(
            [sys.executable, "-m", "tunebuild", *words],
            cwd=self.root, env={**clean, **ours, **environ}, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        self.said = done.stderr
        return done


@pytest.fixture
def first(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path / "first", tmp_path / "cache")


def test_second_checkout_takes_every_object_and_an_edited_header_only_its_own(
    first: Checkout, tmp_path: Path
) -> None:
    made = first.build()["made"]
    assert ROW in made
    second = Checkout(tmp_path / "elsewhere/deep er", first.cache)
    shared = second.build(HOME=str(tmp_path), LC_ALL="C.UTF-8")
    assert not shared["made"] and set(shared["hits"]) == set(made)
    assert (second.root / ROW).read_bytes() == (first.root / ROW).read_bytes()
    second.header.write_text("#define K 2\n")
    again = second.build()["made"]
    assert ROW in again and not any(name.startswith("build/obj/g/") for name in again)


def test_header_that_changes_while_its_row_compiles_poisons_nothing(first: Checkout, tmp_path: Path) -> None:
    wrapper, armed = tmp_path / "mycc", tmp_path / "armed"
    wrapper.write_text(
        "#!/bin/sh\n"
        f'case "$*" in *f__u1.o*) [ -e "{armed}" ] && echo "#define K 7" > "{first.header}";; esac\n'
        f'exec {GCC} "$@"\n'
    )
    wrapper.chmod(0o755)
    armed.touch()
    assert ROW in first.build(CC=str(wrapper))["made"] and "K 7" in first.header.read_text()
    armed.unlink()
    second = Checkout(tmp_path / "second", first.cache)
    found = second.build(CC=str(wrapper))
    assert ROW in found["made"], "the key of K 1 holds no object of K 7"
    assert "build/obj/g/g__u1.o" in found["hits"]


def test_damaged_entries_are_rebuilt_and_the_build_is_as_before(first: Checkout, tmp_path: Path) -> None:
    first.build()
    for entry in first.cache.glob("entries/*/*"):
        data = bytearray(entry.read_bytes())
        data[len(data) // 2] ^= 0x10
        entry.write_bytes(data)
    second = Checkout(tmp_path / "second", first.cache)
    assert not second.build()["hits"]
    assert (second.root / ROW).read_bytes() == (first.root / ROW).read_bytes()
    third = Checkout(tmp_path / "third", first.cache)
    assert ROW in third.build()["hits"]


def test_cache_that_cannot_be_written_is_said_once(first: Checkout) -> None:
    first.cache.write_text("a file stands here")
    assert ROW in first.build()["made"]
    assert first.said.count("cannot write the cache") == 1


def test_variable_that_changes_what_the_compiler_writes_rebuilds_and_going_back_hits(first: Checkout) -> None:
    built = first.build()["made"]
    aged = first.build(SOURCE_DATE_EPOCH="86400")["made"]
    assert ROW in built and ROW in aged
    back = first.build()
    assert not back["made"] and ROW in back["hits"]


def test_options_in_the_compilers_own_command_count_in_every_checkout(
    first: Checkout, tmp_path: Path
) -> None:
    def build(name: str, step: int) -> dict[str, Any]:
        checkout = first if name == "first" else Checkout(tmp_path / name, first.cache)
        template = checkout.root / "kernels/templates/f/kernel.c.j2"
        template.write_text(template.read_text().replace("return ", "return STEP * "))
        return checkout.build(CC=f"{GCC} -DSTEP={step}")

    assert ROW in build("first", 1)["made"] and ROW in build("second", 2)["made"]
    assert not build("third", 1)["made"]


def test_library_is_not_taken_from_the_cache_after_a_header_outside_the_project_changed(
    first: Checkout, tmp_path: Path
) -> None:
    def build(name: str) -> tuple[dict[str, Any], bytes]:
        checkout = first if name == "first" else Checkout(tmp_path / name, first.cache)
        template = checkout.root / "kernels/templates/f/kernel.c.j2"
        template.write_text("#include <far.h>\n" + template.read_text().replace("return ", "return FAR + "))
        return checkout.build(CC=str(wrapper)), (checkout.root / "build/normal/demo").read_bytes()

    far, wrapper = tmp_path / "vendor/far.h", tmp_path / "mycc"
    wrapper.write_text(f'#!/bin/sh\nexec {GCC} "$@" -idirafter "{far.parent}"\n')  # as a system's folder
    wrapper.chmod(0o755)
    far.parent.mkdir()
    far.write_text("#define FAR 0x1234\n")
    _, old = build("first")
    far.write_text("#define FAR 0x4321\n")
    found, new = build("second")
    assert ROW in found["made"] and "build/normal/demo" in found["made"] and new != old
    far.write_text("#define FAR 0x1234\n")
    found, again = build("third")
    assert again == old and ROW in found["made"]


def test_box_counts_in_the_key_of_what_is_compiled_for_it(first: Checkout) -> None:
    def keyed(features: frozenset[str]) -> dict[str, str]:
        made = generate(first.root)
        made = replace(made, box=replace(made.box, features=features))
        return {output: one.key for output, one in front.keyed(made, made.graph.edges).items()}

    first.build()
    assert keyed(frozenset({"avx2"})) == keyed(frozenset())
    tune = first.root / "tune.toml"
    tune.write_text(tune.read_text().replace('"-O1"', '"-O1", "-march=native"'))
    here, there = keyed(frozenset({"avx2"})), keyed(frozenset())
    assert here[ROW] != there[ROW] and here["build/normal/demo"] != there["build/normal/demo"]


LIBRARIES = {
    "a file": '"vendor/libhelp.a"',
    "a name in a folder": '"-Lvendor", "-lhelp"',
    "a file's name in a folder": '"-L", "vendor", "-l:libhelp.a"',
    "words for the linker": '"-Wl,-L,vendor,-lhelp"',
}


@pytest.mark.parametrize("form", LIBRARIES)
def test_library_that_an_app_names_counts_by_its_content(first: Checkout, tmp_path: Path, form: str) -> None:
    def prepared(checkout: Checkout, helps: int) -> Checkout:
        folder = checkout.root / "vendor"
        folder.mkdir(exist_ok=True)
        (folder / "h.c").write_text(f"int helper(void) {{ return {helps}; }}\n")
        subprocess.run([GCC, "-c", "h.c"], cwd=folder, check=True)
        (folder / "libhelp.a").unlink(missing_ok=True)
        subprocess.run(["ar", "rcsD", "libhelp.a", "h.o"], cwd=folder, check=True)
        (checkout.root / "apps/demo.c").write_text(
            '#include <stdio.h>\nint helper(void);\nint main(void) { printf("%d\\n", helper()); return 0; }\n'
        )
        tune = checkout.root / "tune.toml"
        app, libs = 'sources = ["apps/demo.c"]\n', f"libs = [{LIBRARIES[form]}]\n"
        tune.write_text(tune.read_text().replace(libs, "").replace(app, app + libs))
        return checkout

    def says(checkout: Checkout) -> str:
        return subprocess.run(
            [checkout.root / "build/normal/demo"], capture_output=True, text=True, check=True
        ).stdout.strip()

    prepared(first, 1).build()
    assert says(first) == "1"
    second = prepared(Checkout(tmp_path / "second", first.cache), 2)
    assert second.build()["made"] == ["build/normal/demo"] and says(second) == "2"
    assert second.plain() and not second.plain(), "nothing has changed"
    prepared(second, 3)
    assert second.plain() and says(second) == "3"
    prepared(second, 4)
    subprocess.run([ninja_path(), "-f", "build/build.ninja", "normal"], cwd=second.root, check=True)
    assert says(second) == "4"
    third = prepared(Checkout(tmp_path / "third", first.cache), 2)
    assert not third.build()["made"] and says(third) == "2"


NAMED = {
    "specs of the compiler's command": ("", "-specs=", "*cc1:\n+ -DSTEP={}\n"),
    "words of the compiler's command": ("", "@", "-DSTEP={}\n"),
    "a header among the flags": ('"--include=data/said"', "", "#define STEP {}\n"),
    "a table for the assembler": ('"-DSTEP=SAID"', "", "{}"),
}


@pytest.mark.skipif("gcc" not in GCC, reason="specs are gcc's")
@pytest.mark.parametrize("what", NAMED)
def test_file_that_a_line_or_a_text_names_counts_by_its_content(
    first: Checkout, tmp_path: Path, what: str
) -> None:
    flag, option, text = NAMED[what]
    shared = tmp_path / "said"
    environ = {"CC": f"{GCC} {option}{shared}"} if option else {}
    table = (
        "extern const unsigned char {{ fn }}_said[];\n"
        '__asm__(".section .rodata\\n{{ fn }}_said: .incbin \\"data/said\\"\\n.text\\n");\n'
        "#define SAID {{ fn }}_said[0]\n"
    )

    def prepared(checkout: Checkout) -> Checkout:
        tune, template = checkout.root / "tune.toml", checkout.root / "kernels/templates/f/kernel.c.j2"
        tune.write_text(tune.read_text().replace('"-O1"', f'"-O1", {flag}'.rstrip(", ")))
        uses = template.read_text().replace("return ", "return STEP * ")
        template.write_text((table if "SAID" in flag else "") + uses)
        return checkout

    def says(checkout: Checkout, word: int) -> Checkout:
        (checkout.root / "data").mkdir(exist_ok=True)
        (shared if option else checkout.root / "data/said").write_text(text.format(word))
        return checkout

    def row(checkout: Checkout) -> bytes:
        return (checkout.root / ROW).read_bytes()

    says(prepared(first), 3).build(**environ)
    old = row(first)
    second = says(prepared(Checkout(tmp_path / "second", first.cache)), 5)
    assert ROW in second.build(**environ)["made"] and (new := row(second)) != old
    assert second.plain(**environ) and not second.plain(**environ), "nothing has changed"
    says(second, 3)
    assert second.plain(**environ) and row(second) == old
    says(second, 5)
    command = [ninja_path(), "-f", "build/build.ninja", "normal"]
    subprocess.run(command, cwd=second.root, env={**os.environ, **environ}, check=True)
    assert row(second) == new
    assert not says(prepared(Checkout(tmp_path / "third", first.cache)), 3).build(**environ)["made"]


def test_included_template_reaches_plain_ninja(first: Checkout) -> None:
    template, body = (
        first.root / "kernels/templates/f/kernel.c.j2",
        first.root / "kernels/templates/_lib/body.j2",
    )
    body.parent.mkdir()
    template.write_text('{% include "_lib/body.j2" ignore missing %}\n' + template.read_text())
    command = [ninja_path(), "-f", "build/build.ninja", "normal"]
    first.build()
    for text in ("#define ONE\n", "#define TWO\n"):
        time.sleep(0.02)  # ninja goes by times
        body.write_text(text)
        subprocess.run(command, cwd=first.root, env={**os.environ, "PYTHONPATH": str(HERE)}, check=True)
        assert text in (first.root / "generated/rows/f/f__u1.c").read_text()


def _program(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_every_program_of_the_compilers_command_counts(first: Checkout, tmp_path: Path) -> None:
    template = first.root / "kernels/templates/f/kernel.c.j2"
    template.write_text(template.read_text().replace("return ", "return STEP * "))
    environ = {"CC": "launch mine", "PATH": f"{tmp_path}/bin{os.pathsep}{os.environ['PATH']}"}
    _program(tmp_path / "bin/launch", 'exec "$@"')
    _program(tmp_path / "bin/mine", f'exec {GCC} -DSTEP=3 "$@"')
    assert first.plain(**environ) and not first.plain(**environ), "nothing has changed"
    old = (first.root / ROW).read_bytes()
    _program(tmp_path / "bin/mine", f'exec {GCC} -DSTEP=5 "$@"')
    assert first.plain(**environ) and (first.root / ROW).read_bytes() != old


@pytest.mark.skipif("gcc" not in GCC, reason="clang assembles by itself")
def test_assembler_that_comes_first_on_path_counts(first: Checkout, tmp_path: Path) -> None:
    path = f"{tmp_path}/bin{os.pathsep}{os.environ['PATH']}"
    (tmp_path / "bin").mkdir()
    marked = f'exec {shutil.which("as")} --defsym marked=1 "$@"'
    assert first.plain() and not first.plain(), "nothing has changed"
    old = (first.root / ROW).read_bytes()
    assert first.plain(PATH=path) and (first.root / ROW).read_bytes() == old
    _program(tmp_path / "bin/as", marked)
    assert first.plain(PATH=path) and (first.root / ROW).read_bytes() != old
    (tmp_path / "bin/as").unlink()
    assert first.plain(PATH=path) and (first.root / ROW).read_bytes() == old


def test_objects_for_a_debugger_name_their_own_folder(first: Checkout, tmp_path: Path) -> None:
    second = Checkout(tmp_path / "second", first.cache)
    for checkout in (first, second):
        checkout.build(CC=f"{GCC} -g")
        assert os.fsencode(checkout.root) in (checkout.root / ROW).read_bytes()
    shutil.rmtree(second.root / "build")
    assert not second.build(CC=f"{GCC} -g")["made"]

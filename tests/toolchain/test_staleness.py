"""What makes a recorded winner stale: edits of a real tree, judged by name. Nothing is compiled."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import step_family

from tunebuild import gates, host, policy, record, sidecar
from tunebuild.generate import Generated, generate
from tunebuild.model import REFERENCE, Verdict
from tunebuild.upsert import Change

pytestmark = pytest.mark.cc


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Two families; `add` includes step.h, `mul` includes nothing of ours."""
    root = tmp_path / "project"
    text = '[project]\nname = "p"\n[build]\ninclude = ["kernels/include"]\n'
    (root / "kernels/include").mkdir(parents=True)
    (root / "kernels/include/step.h").write_text("#define STEP(x) ((x) + 1.0f)\n")
    for name, head in (("add", '#include "step.h"'), ("mul", "#define STEP(x) ((x) * 2.0f)")):
        folder = root / "kernels/templates" / name
        folder.mkdir(parents=True)
        for file, content in step_family.files(name, head).items():
            (folder / file).write_text(content)
        text += step_family.table(name)
    (root / "tune.toml").write_text(text)
    mint(root)
    return root


def environ() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("TUNEBUILD_")}


def read(root: Path) -> Generated:
    return generate(root, environ=environ())


def mint(root: Path) -> None:
    """Record winners as a mint of the tree at hand would."""
    made = read(root)
    change = Change(kernels={"add": "u2", "mul": REFERENCE}, built=dict(made.built), runtime={"threads": 2})
    sidecar.save(root / "p.tune.json", change, box=host.box(environ()), built_now=made.built)


def judge(root: Path) -> Verdict:
    made = read(root)
    demand = policy.demand(made.manifest, made.manifest.scopes[0])
    return record.read(made.manifest, made.app(), made.box, made.built, made.here, environ()).verdict(demand)


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def stamped(root: Path) -> dict[str, tuple[str, str]]:
    return {stamp.key: (stamp.suffix, stamp.source) for stamp in read(root).stamps["p"].seats}


def test_tree_as_it_was_measured_is_complete(project: Path) -> None:
    assert judge(project).complete
    assert stamped(project)["add"] == ("u2", "manifest")


@pytest.mark.parametrize(
    ("file", "old", "new", "detail"),
    [
        ("kernels/templates/add/kernel.c.j2", "one by one", "each in turn", ""),
        ("kernels/templates/add/kernel.c.j2", "y[i] = ", "y[i]   =\t", ""),
        ("kernels/include/step.h", "#define", "/* a step */\n#define", ""),
        ("kernels/templates/add/kernel.c.j2", "i < n", "i != n", "add (source changed)"),
        ("kernels/templates/add/reference.c", "i < n", "i != n", "add (source changed)"),
        ("kernels/include/step.h", "1.0f", "3.0f", "add (header kernels/include/step.h changed)"),
        ("tune.toml", "u = [1, 2]\n[family.add", "u = [1, 2, 4]\n[family.add", "add (source, flags changed)"),
        ("tune.toml", "}\n[family.mul", ', fill = "ramp" }\n[family.mul', "mul (workload changed)"),
        ("tune.toml", '[build]', '[build]\ncflags = ["-O2", "-std=c17"]', "add, mul (flags changed)"),
    ],
)  # fmt: skip
def test_edit_stales_what_it_touches_by_name(
    project: Path, file: str, old: str, new: str, detail: str
) -> None:
    edit(project / file, old, new)
    found = judge(project)
    assert found.detail == detail
    assert found.reason == ("stale_binary" if detail else "none")


def test_stale_seat_falls_to_its_chain_and_its_sibling_stays(project: Path) -> None:
    edit(project / "kernels/include/step.h", "1.0f", "3.0f")
    assert stamped(project) == {"add": ("u1", "fallback"), "mul": (REFERENCE, "reference")}


def test_winner_that_is_no_row_of_the_grid_is_stale_and_raced_anew(project: Path) -> None:
    made = read(project)
    change = Change(kernels={"add": "nope"}, built={"add": made.built["add"]})
    sidecar.save(project / "p.tune.json", change, box=made.box, built_now=made.built)
    found = judge(project)
    assert (found.reason, found.stale) == ("stale_binary", ("add",))
    assert found.detail == "add (names nope, which is no row of this grid)"
    assert stamped(project)["add"] == ("u1", "fallback")


def test_renamed_project_folder_stales_nothing(project: Path) -> None:
    moved = project.with_name("elsewhere and renamed")
    project.rename(moved)
    assert judge(moved).complete


def test_other_compiler_stales_everything_at_once(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrapper = tmp_path / "cc-of-mine"
    wrapper.write_text('#!/bin/sh\nexec gcc "$@"\n')
    wrapper.chmod(0o755)
    edit(project / "tune.toml", "[build]", f'[build]\ncc = "{wrapper}"')
    found = judge(project)
    assert found.reason == "stale_binary"
    assert found.detail.startswith("every entry was measured with another compiler")
    sidecar_path = project / "p.tune.json"
    made = read(project)
    merged = sidecar.save(sidecar_path, Change({"add": "u1"}), box=made.box, built_now=made.built)
    assert merged.reset
    assert merged.document.runtime == {}


def _rewrite(project: Path, change: Callable[[str], str]) -> None:
    path = project / "p.tune.json"
    path.write_text(change(path.read_text()))


def test_next_write_replaces_the_stale_seat_alone(project: Path) -> None:
    edit(project / "kernels/include/step.h", "1.0f", "3.0f")
    made = read(project)
    change = Change(kernels={"add": "u1"}, built={"add": made.built["add"]})
    merged = sidecar.save(project / "p.tune.json", change, box=made.box, built_now=made.built)
    assert merged.reset == ""
    assert merged.document.kernels == {"add": "u1", "mul": REFERENCE}
    assert merged.document.runtime == {"threads": 2}
    assert judge(project).complete


def test_torn_sidecar_stamps_nothing_and_says_so(project: Path) -> None:
    _rewrite(project, lambda text: text[: len(text) // 2])
    assert judge(project).reason == "unreadable"
    assert stamped(project)["add"] == ("u1", "fallback")


# --- an optional compiler --------------------------------------------------------------------------


@pytest.fixture
def vendor(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A second compiler, which a row of `add` names and `mul` never uses; deleting it makes it absent."""
    compiler = tmp_path / "bin/vendor-cc"
    compiler.parent.mkdir()
    compiler.write_text('#!/bin/sh\nexec gcc "$@"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", f"{compiler.parent}{os.pathsep}{os.environ['PATH']}")
    declared = '[toolchain.vendor]\ncc = "vendor-cc"\noptional = true\n'
    declared += '[[family.add.row]]\nu = 2\ntoolchain = "vendor"\n'
    with (project / "tune.toml").open("a") as stream:
        stream.write(declared)
    mint(project)
    return compiler


def test_what_is_measured_does_not_depend_on_an_optional_compiler_being_here(
    project: Path, vendor: Path
) -> None:
    here = read(project).built
    vendor.unlink()
    gone = read(project).built
    assert gone["mul"] == here["mul"]
    differing = {name for name in here["add"] if here["add"][name] != gone["add"][name]}
    assert differing == {"compiler"} and str(gone["add"]["compiler"]).endswith("; absent")


def test_optional_compiler_that_goes_takes_its_own_winners_alone(project: Path, vendor: Path) -> None:
    saved = vendor.read_text()
    vendor.unlink()
    assert judge(project).complete, "gcc's winner stays"
    vendor.write_text(saved)
    vendor.chmod(0o755)
    made = read(project)
    change = Change(kernels={"add": "u2_toolchain_vendor"}, built=dict(made.built))
    sidecar.save(project / "p.tune.json", change, box=host.box(environ()), built_now=made.built)
    assert judge(project).complete
    vendor.unlink()
    verdict = judge(project)
    assert (verdict.reason, verdict.stale) == ("stale_binary", ("add",))
    assert "names u2_toolchain_vendor, which cannot serve here (toolchain vendor is absent" in verdict.detail


def test_optional_compiler_that_comes_asks_for_the_families_that_name_it(project: Path, vendor: Path) -> None:
    saved = vendor.read_text()
    vendor.unlink()
    mint(project)
    vendor.write_text(saved)
    vendor.chmod(0o755)
    verdict = judge(project)
    assert (verdict.reason, verdict.stale) == ("stale_binary", ("add",)) and "; absent -> " in verdict.detail


def test_default_compiler_counts_where_every_row_names_another(project: Path, tmp_path: Path) -> None:
    for name in ("one-cc", "two-cc"):
        (tmp_path / name).write_text(f'#!/bin/sh\n# {name}\nexec gcc "$@"\n')
        (tmp_path / name).chmod(0o755)
    edit(
        project / "tune.toml",
        "[build]\n",
        f'[build]\ncc = "{tmp_path}/one-cc"\n',
    )
    edit(project / "tune.toml", "u = [1, 2]\n", 'u = [1, 2]\ntoolchain = ["fast"]\n')
    text = (project / "tune.toml").read_text().replace('fallback = "u1"', 'fallback = "reference"')
    (project / "tune.toml").write_text(text)
    with (project / "tune.toml").open("a") as stream:
        stream.write('[toolchain.fast]\ncc = "gcc"\n')
    before = read(project).built["add"]["compiler"]
    edit(project / "tune.toml", "one-cc", "two-cc")
    assert read(project).built["add"]["compiler"] != before


def test_reference_of_another_family_that_prepare_calls_counts_with_its_text(project: Path) -> None:
    edit(
        project / "tune.toml", "[family.add.grid.axes]", 'prepare = ["mul(y, n)"]\n[family.add.grid.axes]'
    )  # fmt: skip
    mint(project)
    cells = [("add", "u2"), ("mul", "u2")]
    made = read(project)
    gates.remember(made.tree, cells)
    assert judge(project).complete and gates.sized(made.tree, "add") == {"u2"}
    edit(project / "kernels/templates/mul/reference.c", "i < n", "i != n")
    assert judge(project).stale == ("add", "mul")
    assert gates.sized(read(project).tree, "add") == frozenset()


FORMS = {
    "a folder among the flags": ('#include "far.h"', '"-Iextra"'),
    "a system folder": ("#include <far.h>", '"-isystem", "extra"'),
    "a folder of quoted includes": ('#include "far.h"', '"-iquote", "extra"'),
    "an include among the flags": ("", '"-Iextra", "-include", "far.h"'),
    "a name from a macro": ('#define FAR "far.h"\n#include FAR', '"-Iextra"'),
    "comments around the directive": ('/* first */ #include /* here */ "far.h"', '"-Iextra"'),
    "a digraph": ('%:include "far.h"', '"-Iextra"'),
    "a directive over two lines": ('#inc\\\nlude "far.h"', '"-Iextra"'),
    "the next of two": ("#include_next <far.h>", '"-Iempty", "-Iextra"'),
    "a folder in long words": ('#include "far.h"', '"--include-directory=extra"'),
    "a last folder in long words": ("#include <far.h>", '"--include-directory-after", "extra"'),
    "an include in long words": ("", '"--include=extra/far.h"'),
    "macros in long words": ("", '"--imacros", "extra/far.h"'),
    "a definition": ("", '"-DTABLE=extra/far.h"'),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("file", ["kernel.c.j2", "reference.c"])
def test_header_is_followed_however_it_is_included(project: Path, form: str, file: str) -> None:
    directive, flags = FORMS[form]
    for folder, text in (("extra", "#define FAR_STEP 1\n"), ("empty", "#define FAR_STEP 0\n")):
        (project / folder).mkdir()
        (project / folder / "far.h").write_text(text)
    edit(project / "tune.toml", "[build]\n", f'[build]\ncflags = ["-O2", {flags}]\n')
    edit(project / "kernels/templates/mul" / file, "#include <stddef.h>", f"#include <stddef.h>\n{directive}")
    mint(project)
    assert judge(project).complete
    edit(project / "extra/far.h", "FAR_STEP 1", "FAR_STEP 2")
    found = judge(project)
    assert found.reason == "stale_binary" and "mul (header extra/far.h changed)" in found.detail


TAKEN_IN = {
    "by the assembler": '__asm__(".section .rodata\\n.incbin \\"data/far.bin\\"\\n.text\\n");',
    "by a macro for the assembler": '#define FAR "data/far.bin"\n__asm__(".incbin \\"" FAR "\\"\\n");',
    "as C that a macro names": '#define FAR "far.c"\n#include FAR',
}


@pytest.mark.parametrize("how", TAKEN_IN)
@pytest.mark.parametrize("file", ["kernel.c.j2", "reference.c"])
def test_data_that_a_text_takes_in_count_byte_by_byte(project: Path, how: str, file: str) -> None:
    (project / "data").mkdir()
    name = "far.c" if "far.c" in TAKEN_IN[how] else "far.bin"
    (project / "data" / name).write_text("enum { FAR };  ")
    edit(project / "tune.toml", "[build]\n", '[build]\ncflags = ["-Idata"]\n')
    text = f"#include <stddef.h>\n{TAKEN_IN[how]}"
    edit(project / "kernels/templates/mul" / file, "#include <stddef.h>", text)
    mint(project)
    assert judge(project).complete
    edit(project / "data" / name, ";  ", ";; " if name == "far.c" else "; ")
    assert f"mul (header data/{name} changed)" in judge(project).detail


PLACES = {
    "C_INCLUDE_PATH": ("extra", "kernel.c.j2"),
    "CPATH": ("extra", "reference.c"),
    "CC": ("gcc -Iextra", "reference.c"),
}


@pytest.mark.parametrize("variable", PLACES)
def test_header_found_through_the_environment_is_followed(
    project: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    value, file = PLACES[variable]
    (project / "extra").mkdir()
    (project / "extra/far.h").write_text("#define FAR_STEP 1\n")
    monkeypatch.setenv(variable, value)
    edit(
        project / "kernels/templates/mul" / file,
        "#include <stddef.h>",
        "#include <stddef.h>\n#include <far.h>",
    )
    mint(project)
    edit(project / "extra/far.h", "FAR_STEP 1", "FAR_STEP 2")
    assert "mul (header extra/far.h changed)" in judge(project).detail


def test_response_file_of_the_compilers_command_counts_and_its_words_are_followed(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words, reference = tmp_path / "words.rsp", project / "kernels/templates/mul/reference.c"
    (project / "extra").mkdir()
    (project / "extra/far.h").write_text("#define FAR_STEP 1\n")
    words.write_text("-Iextra -O2\n")
    monkeypatch.setenv("CC", f"gcc @{words}")
    edit(reference, "#include <stddef.h>", "#include <stddef.h>\n#include <far.h>")
    mint(project)
    edit(project / "extra/far.h", "FAR_STEP 1", "FAR_STEP 2")
    assert "mul (header extra/far.h changed)" in judge(project).detail
    mint(project)
    assert judge(project).complete
    edit(words, "-O2", "-O3")
    assert judge(project).stale == ("add", "mul") and "words.rsp changed" in judge(project).detail


def test_constants_of_another_module_count_where_their_header_is_included(project: Path) -> None:
    text = (project / "tune.toml").read_text()
    text = text.replace('module = "m"', 'module = "one"')
    (project / "tune.toml").write_text(f"{text}[module.two]\nconstants = {{ TILE = 3 }}\n[module.one]\n")
    edit(
        project / "kernels/templates/mul/kernel.c.j2",
        "#include <stddef.h>",
        '#include <stddef.h>\n#include "two_constants.h"',
    )
    mint(project)
    assert judge(project).complete
    edit(project / "tune.toml", "TILE = 3", "TILE = 4")
    assert judge(project).stale == ("mul",)

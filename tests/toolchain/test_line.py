"""The line from tune.toml to artifacts, with the real compiler and ninja: what is built, and what is not again."""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from conftest import Project

pytestmark = pytest.mark.cc


def made(done: subprocess.CompletedProcess[str]) -> set[str]:
    """The outputs that a tool had to make, by file name."""
    return {Path(path).name for path in json.loads(done.stdout.splitlines()[-1])["made"]}


def sidecar_with(project: Project, winner: str) -> None:
    """A sidecar that this tree would write with ``winner``: fresh by content."""
    from tunebuild import generate, sidecar
    from tunebuild.upsert import Change

    generated = generate.generate(project.root)
    read = generated.records[generated.app().name]
    change = Change(kernels={"dot_f32": winner}, built={"dot_f32": generated.built["dot_f32"]})
    sidecar.save(read.path, change, box=generated.box, built_now=generated.built)


def dot(project: Project) -> float:
    """The built library called on a known sum."""
    (library,) = (project.root / "build/normal").glob("*.so")
    function = ctypes.CDLL(os.fspath(library)).dot_f32
    function.restype = ctypes.c_float
    values = (ctypes.c_float * 100)(*([2.0] * 100))
    return float(function(values, values, ctypes.c_size_t(100)))


def test_a_new_project_builds_and_its_library_computes(project: Project) -> None:
    project.run("build")
    assert dot(project) == 400.0
    assert (project.root / "build/compile_commands.json").exists()


def test_a_second_build_runs_no_tool(project: Project) -> None:
    project.run("build")
    again = project.run("build")
    assert "no work to do" in again.stdout
    assert made(project.run("build", "--json")) == set()


def test_the_tune_binary_holds_every_row_and_normal_links_the_same_object(project: Project) -> None:
    project.run("build", "--mode", "tune")
    row = project.root / "build/obj/dot_f32/dot_f32__isa_avx2_u4.o"
    before = row.stat().st_mtime_ns, row.stat().st_ino
    outputs = made(project.run("build", "--json"))
    assert not [name for name in outputs if "__" in name], "a kernel was compiled again"
    assert (row.stat().st_mtime_ns, row.stat().st_ino) == before


def test_a_header_edit_rebuilds_what_includes_it_and_no_more(project: Project) -> None:
    project.write("kernels/include/two.h", "#define TWO 2\n")
    project.edit(
        "kernels/templates/dot_f32/kernel.c.j2",
        "{{ prototype }}",
        '{% if u == 8 %}\n#include "two.h"\n{% endif %}\n{{ prototype }}',
    )
    project.run("build", "--mode", "tune")
    project.write("kernels/include/two.h", "#define TWO 2 /* and a word */\n")
    outputs = made(project.run("build", "--mode", "tune", "--json"))
    assert {name for name in outputs if "__" in name} == {
        "dot_f32__isa_base_u8.o",
        "dot_f32__isa_avx2_u8.o",
    }


def test_a_template_edit_rebuilds_the_rows_whose_text_changed(project: Project) -> None:
    project.run("build", "--mode", "tune")
    project.edit(
        "kernels/templates/dot_f32/kernel.c.j2",
        "    float sum = 0.0f;",
        "{% if u == 2 %}\n    /* two */\n{% endif %}\n    float sum = 0.0f;",
    )
    outputs = made(project.run("build", "--mode", "tune", "--json"))
    assert {name for name in outputs if "__" in name} == {
        "dot_f32__isa_base_u2.o",
        "dot_f32__isa_avx2_u2.o",
    }


def test_a_flag_edit_rebuilds_every_row_and_going_back_compiles_nothing(project: Project) -> None:
    project.run("build", "--mode", "tune")
    project.edit("tune.toml", '"-O3", "-std=c17"', '"-O2", "-std=c17"')
    outputs = made(project.run("build", "--mode", "tune", "--json"))
    assert len([name for name in outputs if "__isa" in name]) == 8
    project.edit("tune.toml", '"-O2", "-std=c17"', '"-O3", "-std=c17"')
    assert not [
        name for name in made(project.run("build", "--mode", "tune", "--json")) if name.endswith(".o")
    ]


def test_a_winner_flip_relinks_and_flipping_back_runs_no_tool(project: Project) -> None:
    project.run("build", "--mode", "tune")
    project.run("build")
    sidecar_with(project, "isa_base_u1")
    outputs = made(project.run("build", "--json"))
    assert outputs and not [name for name in outputs if "__" in name]
    assert dot(project) == 400.0
    status = json.loads(project.run("status", "--json").stdout.splitlines()[-1])
    assert [(row["suffix"], row["source"]) for row in status["families"]] == [("isa_base_u1", "manifest")]
    (path,) = project.root.glob("*.tune.json")
    recorded = path.read_bytes()
    path.unlink()
    assert made(project.run("build", "--json")) == set(), "the fallback's build was in the cache"
    path.write_bytes(recorded)
    assert made(project.run("build", "--json")) == set()


def test_explain_says_why_each_output_is_made_again(project: Project) -> None:
    def reasons() -> set[str]:
        said = project.run("build", "--explain").stderr.splitlines()
        return {line.removeprefix("tunebuild: ") for line in said if ": build/" in line}

    row, library = "build/obj/dot_f32/dot_f32__isa_avx2_u4.o", "build/normal/lib{app}.so"
    app = json.loads(project.run("status", "--json").stdout.splitlines()[-1])["app"]
    library = library.format(app=app)
    assert f"{row}: it was never made here" in reasons()
    assert reasons() == set()
    project.edit("kernels/templates/dot_f32/kernel.c.j2", "float sum = 0.0f;", "float sum = 0;")
    said = reasons()
    assert (
        f"{row}: its text changed" in said and f"{library}: an object that it is linked from changed" in said
    )
    project.edit("tune.toml", '"-O3"', '"-O2"')
    assert f"{row}: flags: -O3 became -O2" in reasons()
    sidecar_with(project, "isa_base_u2")
    assert f"{library}: another winner: dot_f32" in reasons()
    (project.root / row).unlink()
    sidecar_with(project, "isa_avx2_u4")
    assert f"{row}: it is gone, or was changed by hand" in reasons()


def test_plain_ninja_alone_sees_a_new_winner(project: Project) -> None:
    from tunebuild.front import ninja_path

    project.run("build")
    sidecar_with(project, "isa_base_u2")
    time.sleep(0.02)
    subprocess.run(
        [ninja_path(), "-f", "build/build.ninja"], cwd=project.root, env=project.environ(), check=True,
        capture_output=True,
    )  # fmt: skip
    entry = (project.root / "generated/normal" / _name(project) / "dot_f32.c").read_text()
    assert "dot_f32__isa_base_u2" in entry


def _name(project: Project) -> str:
    (folder,) = (project.root / "generated/normal").iterdir()
    return folder.name


def test_a_second_checkout_compiles_nothing(project: Project, tmp_path: Path) -> None:
    project.run("build", "--mode", "tune")
    other = tmp_path / "elsewhere" / "a próject"
    shutil.copytree(project.root, other, ignore=shutil.ignore_patterns("build", "generated"))
    outputs = made(Project(other, project.home, project.cache).run("build", "--mode", "tune", "--json"))
    assert not [name for name in outputs if name.endswith((".o", ".so"))]


def test_generated_bytes_do_not_depend_on_folder_or_hash_seed(project: Project, tmp_path: Path) -> None:
    other = Project(tmp_path / "moved", project.home, project.cache)
    shutil.copytree(project.root, other.root)
    (other.root / "tune.toml").write_text((project.root / "tune.toml").read_text())
    project.run("build", "--mode", "tune", PYTHONHASHSEED="1")
    other.run("build", "--mode", "tune", PYTHONHASHSEED="2")

    def files(root: Path) -> dict[str, bytes]:
        found = {
            str(path.relative_to(root)): path for path in (root / "generated").rglob("*") if path.is_file()
        }
        found["build/build.ninja"] = root / "build/build.ninja"
        return {name: path.read_bytes() for name, path in found.items()}

    ours, theirs = files(project.root), files(other.root)
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if ours[name] != theirs[name]] == []


def test_a_row_that_does_not_compile_is_named_and_the_others_are_judged(project: Project) -> None:
    project.edit(
        "kernels/templates/dot_f32/kernel.c.j2",
        "    float sum = 0.0f;",
        '{% if u == 2 and isa == "base" %}\n    this is no C;\n{% endif %}\n    float sum = 0.0f;',
    )
    done = project.run("test", "--json", code=1)
    rows = json.loads(done.stdout.splitlines()[-1])["families"][0]["rows"]
    words = {row["row"]: (row["word"], row["stage"]) for row in rows}
    assert words.pop("isa_base_u2") == ("rejected", "compile")
    assert {word for word, _ in words.values()} <= {"passed", "not run"}


def test_a_declined_row_is_served_by_the_reference_and_says_why(project: Project) -> None:
    project.edit(
        "kernels/templates/dot_f32/kernel.c.j2",
        "{% set lanes",
        '{% if u == 8 %}{{ decline("eight is too many") }}{% endif %}\n{% set lanes',
    )
    done = project.run("test", "--json")
    rows = json.loads(done.stdout.splitlines()[-1])["families"][0]["rows"]
    declined = {row["row"]: row["why"] for row in rows if row["word"] == "declined"}
    assert declined == {"isa_base_u8": "eight is too many", "isa_avx2_u8": "eight is too many"}


def test_an_undefined_name_in_a_template_is_an_error_with_its_line(project: Project) -> None:
    project.edit("kernels/templates/dot_f32/kernel.c.j2", "{% set lanes", "{{ lames }}\n{% set lanes")
    done = project.run("check", code=2)
    assert "kernel.c.j2:1:" in done.stderr and "lames" in done.stderr


def test_what_is_no_longer_generated_is_removed(project: Project) -> None:
    project.run("build", "--mode", "tune")
    project.edit("tune.toml", "u = [1, 2, 4, 8]", "u = [1, 2, 4]")
    project.run("build", "--mode", "tune")
    assert not list((project.root / "generated").rglob("*u8.c"))


def test_two_builds_at_once_in_one_folder_end_as_one(project: Project) -> None:
    import sys

    command = [sys.executable, "-m", "tunebuild", "build", "--mode", "tune"]
    running = [
        subprocess.Popen(command, cwd=project.root, env=project.environ(), stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL)
        for _ in range(3)
    ]  # fmt: skip
    assert [process.wait() for process in running] == [0, 0, 0]
    assert made(project.run("build", "--mode", "tune", "--json")) == set()


def test_a_used_project_keeps_its_settings_and_is_built_into_ours(project: Project, tmp_path: Path) -> None:
    library = tmp_path / "mathlib"
    shutil.copytree(project.root, library)
    text = (library / "tune.toml").read_text()
    name = next(line for line in text.splitlines() if line.startswith("name"))
    text = text.replace(name, 'name = "mathlib"').replace("dot_f32", "lib_dot").replace('"-O3"', '"-O1"')
    text += '\n[isa.avx2]\nrequires = "avx2,fma"\ncflags = ["-mavx2", "-mfma"]\n'
    (library / "tune.toml").write_text(text)
    (library / "kernels/templates/dot_f32").rename(library / "kernels/templates/lib_dot")
    reference = library / "kernels/templates/lib_dot/reference.c"
    reference.write_text(reference.read_text().replace("dot_f32", "lib_dot"))
    project.write(
        "tune.toml", (project.root / "tune.toml").read_text() + '\n[use.mathlib]\npath = "../mathlib"\n'
    )
    done = json.loads(project.run("test", "--json").stdout.splitlines()[-1])
    assert {one["family"]: {row["word"] for row in one["rows"]} for one in done["families"]} == {
        "dot_f32": {"passed"},
        "lib_dot": {"passed"},
    }
    line = project.run("explain", "lib_dot__isa_avx2_u4").stdout
    assert "-O1" in line and "-mf16c" not in line
    assert "-O3" in project.run("explain", "dot_f32__isa_avx2_u4").stdout
    project.run("build")
    status = json.loads(project.run("status", "--json").stdout.splitlines()[-1])
    assert [row["family"] for row in status["families"]] == ["dot_f32", "lib_dot"]
    assert not (library / "build").exists(), "a used project is only read"


def test_an_edited_reference_takes_the_gates_word_back(project: Project) -> None:
    def marks() -> str:
        return next(
            line for line in project.run("status").stdout.splitlines() if line.startswith("  dot_f32")
        )

    project.run("test")
    project.run("build")
    assert "ungated" not in marks()
    reference = "kernels/templates/dot_f32/reference.c"
    project.edit(reference, "sum += a[i] * b[i];", "sum += 2 * a[i] * b[i];")
    assert "ungated" in marks()
    project.run("test", code=1)
    said = project.run("build").stderr
    assert re.search(
        r"dot_f32 runs reference, not (\w+): the gate rejected it on this box: `tunebuild test dot_f32 --row \1`",
        said,
    )
    assert "reference" in marks() and "ungated" not in marks()
    project.edit(reference, "sum += 2 * a[i] * b[i];", "sum += a[i] * b[i];")
    project.run("test")
    project.run("build")
    assert "ungated" not in marks() and "reference" not in marks()
    project.edit("tune.toml", '"-O3"', '"-O2"')
    assert "ungated" in marks()


def test_failed_build_names_what_people_wrote(project: Project) -> None:
    folder = "kernels/templates/dot_f32"
    project.edit(f"{folder}/kernel.c.j2", "return sum;", "return sum sum;")
    line = (project.root / folder / "kernel.c.j2").read_text().split("return sum sum;")[0].count("\n") + 1
    assert f"({folder}/kernel.c.j2:{line}: error: expected" in project.run("build", code=1).stderr
    project.edit(f"{folder}/kernel.c.j2", "return sum sum;", "return sum;")
    project.edit(f"{folder}/reference.c", "float dot_f32", "static float dot_f32")
    assert f"({folder}/reference.c: error: it does not define dot_f32" in project.run("test", code=1).stderr
    project.edit(f"{folder}/reference.c", "static float dot_f32", "float dot_f32")
    project.write("a.c", "int x;\n")
    project.write(
        "tune.toml", f'{(project.root / "tune.toml").read_text()}\n[app.a]\nkind = "exe"\nsources = ["a.c"]\n'
    )
    assert "(error: no source of the app defines `main`)" in project.run("build", code=1).stderr


def test_row_that_the_gate_rejected_here_is_stamped_by_no_build_after(project: Project) -> None:
    template = "kernels/templates/dot_f32/kernel.c.j2"
    right, wrong = "float sum = 0.0f;", 'float sum = {{ "1.0f" if u == 4 else "0.0f" }};'
    project.edit(template, right, wrong)
    project.run("build")
    before = json.loads(project.run("status", "--json").stdout.splitlines()[-1])["families"][0]
    assert before["suffix"].endswith("_u4")
    project.run("test", code=1)
    said = project.run("build").stderr
    assert f"not {before['suffix']}: the gate rejected it on this box" in said
    after = json.loads(project.run("status", "--json").stdout.splitlines()[-1])["families"][0]
    assert not after["suffix"].endswith("_u4") and after["source"] in ("fallback", "reference")
    project.edit(template, wrong, right)
    project.run("test")
    project.run("build")
    assert json.loads(project.run("status", "--json").stdout.splitlines()[-1])["families"][0] == before


@pytest.mark.parametrize("what", ["generated", "generated/rows", "build/build.ninja"])
def test_deleted_generated_files_come_back(project: Project, what: str) -> None:
    project.run("build")
    target = project.root / what
    shutil.rmtree(target) if target.is_dir() else target.unlink()
    project.run("build")
    assert dot(project) == 400.0


def test_a_generated_file_edited_by_hand_is_generated_again(project: Project) -> None:
    project.run("build")
    row = "generated/rows/dot_f32/dot_f32__isa_avx2_u4.c"
    project.edit(row, "sum += a[i] * b[i];", "sum += 100 * a[i] * b[i];")
    project.run("build")
    assert "100 *" not in (project.root / row).read_text()
    assert dot(project) == 400.0


def test_a_damaged_depfile_does_not_stop_the_next_build(project: Project) -> None:
    project.run("build")
    (project.root / "build/generate.d").write_text("[1]\n")
    project.run("build")


def test_a_damaged_artifact_is_made_again(project: Project) -> None:
    project.run("build")
    (library,) = (project.root / "build/normal").glob("*.so")
    library.write_bytes(b"junk")
    project.run("build")
    assert dot(project) == 400.0


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("{{ prototype }}", "int counter;\n{{ prototype }}", "it defines counter besides"),
        ("{{ prototype }}", "float other(const float *a, const float *b, size_t n)", "it does not define"),
    ],
)
def test_a_row_with_a_wrong_symbol_is_rejected_and_other_families_are_judged(
    project: Project, old: str, new: str, words: str
) -> None:
    project.run("add", "family", "dot_again")
    project.edit("kernels/templates/dot_f32/kernel.c.j2", old, new)
    done = json.loads(project.run("test", "--json", code=1).stdout.splitlines()[-1])
    judged = {one["family"]: one["rows"] for one in done["families"]}
    assert {row["word"] for row in judged["dot_again"]} == {"passed"}
    assert {(row["word"], row["stage"]) for row in judged["dot_f32"]} == {("rejected", "compile")}
    assert all(words in row["why"] for row in judged["dot_f32"])
    again = json.loads(project.run("test", "--json", code=1).stdout.splitlines()[-1])
    assert again == done
    project.edit("kernels/templates/dot_f32/kernel.c.j2", new, old)
    project.run("test")

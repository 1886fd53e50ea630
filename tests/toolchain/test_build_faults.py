"""What goes wrong during a build, really produced: kills, damage, crowds, clocks, edits and bad compilers."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Project

from tunebuild import cache, judge

pytestmark = pytest.mark.cc
HEADER = "kernels/include/two.h"


def made(done: subprocess.CompletedProcess[str]) -> set[str]:
    return {Path(path).name for path in json.loads(done.stdout.splitlines()[-1])["made"]}


def outputs(root: Path) -> dict[str, bytes]:
    """Everything that a build makes and a person may use."""
    found = [*(root / "build/obj").rglob("*.o"), *(root / "build/normal").rglob("*")]
    return {str(path.relative_to(root)): path.read_bytes() for path in found if path.is_file()}


def start(project: Project, *words: str, **environ: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tunebuild", *words], cwd=project.root, env=project.environ(environ),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def checkout(project: Project, folder: Path) -> Project:
    """The project once more, elsewhere, with the same home and cache."""
    shutil.copytree(project.root, folder, ignore=shutil.ignore_patterns("build", "generated"))
    return Project(folder, project.home, project.cache)


def number_in(project: Project) -> int:
    """The header's number as the stamped row's object holds it."""
    data = (project.root / "build/obj/dot_f32/dot_f32__isa_avx2_u4.o").read_bytes()
    found = [number for number in range(2, 100) if f"{number:02}".encode() + b"_NUMBER" in data]
    (one,) = found
    return one


def says_number(project: Project, number: int, **stat: int) -> None:
    """Write the header; ``mtime_ns`` forces its time."""
    path = project.root / HEADER
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#define TWO "{number:02}_NUMBER"\n')
    if "mtime_ns" in stat:
        os.utime(path, ns=(stat["mtime_ns"], stat["mtime_ns"]))


@pytest.fixture
def numbered(project: Project) -> Project:
    """A project whose rows hold the number that their header says."""
    project.edit(
        "kernels/templates/dot_f32/kernel.c.j2", "{{ prototype }}",
        '#include "two.h"\nextern const char {{ fn }}_number[];\nconst char {{ fn }}_number[] = TWO;\n{{ prototype }}',
    )  # fmt: skip
    says_number(project, 10)
    return project


# --- kills ----------------------------------------------------------------------------------------


def test_build_after_a_kill_at_any_time_equals_a_clean_one(project: Project, tmp_path: Path) -> None:
    clean = checkout(project, tmp_path / "clean")
    clean.run("build", TUNEBUILD_CACHE="off")
    for after_s in (0.5, 0.9):
        shutil.rmtree(project.root / "build", ignore_errors=True)
        process = start(project, "build", TUNEBUILD_CACHE="off")
        time.sleep(after_s)
        process.send_signal(signal.SIGKILL)
        process.wait()
        project.run("build", TUNEBUILD_CACHE="off")
        assert outputs(project.root) == outputs(clean.root)


_KILLED_AT_ITS_MEMO = """
import os, signal
from tunebuild import cli
replace = os.replace
def killed(source, target):
    if os.path.basename(target).startswith("memo."):
        os.kill(os.getpid(), signal.SIGKILL)
    replace(source, target)
os.replace = killed
cli.main(["build"])
"""


def test_what_a_build_left_that_was_killed_at_its_memo_goes_after_an_hour(project: Project) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _KILLED_AT_ITS_MEMO], cwd=project.root, env=project.environ()
    )
    assert done.returncode == -signal.SIGKILL
    (left,) = (project.root / "build").glob(".memo.*.tmp")
    project.run("build")
    assert left.exists(), "its writer may be at work"
    then = time.time() - 7200
    os.utime(left, (then, then))
    project.edit("tune.toml", "[project]", "# edited\n[project]")
    project.run("build")
    assert not left.exists()


# --- the cache ------------------------------------------------------------------------------------


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def _zero(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _link(path: Path) -> None:
    other = path.with_name("elsewhere")
    path.rename(other)
    path.symlink_to(other)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def test_damaged_entries_of_every_kind_are_never_served(project: Project, tmp_path: Path) -> None:
    project.run("build")
    whole = outputs(project.root)
    kinds: list[Callable[[Path], None]] = [_truncate, _zero, _flip, _empty, _link, _folder]
    entries = sorted(path for path in (project.cache / "entries").rglob("*") if path.is_file())
    sets = sorted(path for path in (project.cache / "sets").rglob("*") if path.is_file())
    swapped = entries[0].read_bytes()
    entries[0].write_bytes(entries[1].read_bytes())
    entries[1].write_bytes(swapped)
    for index, path in enumerate([*entries[2:], *sets]):
        kinds[index % len(kinds)](path)
    other = checkout(project, tmp_path / "other")
    other.run("build")
    assert outputs(other.root) == whole
    assert cache.info(cache.Store(project.cache)).damaged >= 2
    third = checkout(project, tmp_path / "third")
    assert not {name for name in made(third.run("build", "--json")) if name.endswith((".o", ".so", ".a"))}


def test_many_folders_with_one_cold_cache_end_equal_with_one_entry_a_key(
    project: Project, tmp_path: Path
) -> None:
    folders = [checkout(project, tmp_path / f"copy {index}") for index in range(3)]
    running = [start(folder, "build") for folder in folders]
    assert [process.wait() for process in running] == [0] * 3
    assert len({json.dumps(sorted(map(hash, outputs(folder.root).values()))) for folder in folders}) == 1
    alone = checkout(project, tmp_path / "alone")
    before = cache.info(cache.Store(project.cache)).entries
    alone.run("build")
    assert cache.info(cache.Store(project.cache)).entries == before


def test_builds_go_on_while_the_cache_is_emptied(project: Project, tmp_path: Path) -> None:
    folders = [checkout(project, tmp_path / f"copy {index}") for index in range(3)]
    running = [start(folder, "build") for folder in folders]
    store = cache.Store(project.cache)
    while any(process.poll() is None for process in running):
        cache.gc(store, 0)
        time.sleep(0.01)
    assert [process.wait() for process in running] == [0] * 3
    assert len({json.dumps(sorted(map(hash, outputs(folder.root).values()))) for folder in folders}) == 1


# --- clocks and edits -----------------------------------------------------------------------------


def test_file_dated_ahead_is_said_once_and_only_what_reads_it_is_made_again(numbered: Project) -> None:
    numbered.run("build")
    ahead = 4_070_908_800 * 1_000_000_000  # 2099
    os.utime(numbered.root / HEADER, ns=(ahead, ahead))
    assert numbered.run("build").stderr.count("clock skew") == 1
    assert numbered.run("build").stderr.count("clock skew") == 1, "not only the first time"
    done = numbered.run("build", "--json")
    assert done.stderr.count("clock skew") == 1 and "kernels/include/two.h is dated" in done.stderr
    assert {name for name in made(done) if name.endswith(".o")} == {"dot_f32__isa_avx2_u4.o"}


def test_files_dated_1970_are_nothing_special(numbered: Project) -> None:
    for path in [*numbered.root.rglob("*.j2"), *numbered.root.rglob("*.h"), numbered.root / "tune.toml"]:
        os.utime(path, ns=(0, 0))
    done = numbered.run("build")
    assert "clock skew" not in done.stderr
    assert made(numbered.run("build", "--json")) == set()


def test_edit_under_an_unchanged_time_is_seen(numbered: Project) -> None:
    then = time.time_ns() - 10**12
    for number in (11, 12, 11):
        says_number(numbered, number, mtime_ns=then)
        numbered.run("build")
        assert number_in(numbered) == number


def test_edit_during_a_build_is_seen_by_the_next_one(numbered: Project) -> None:
    compiler = wrapper(numbered, 'case "$*" in *" -c "*isa_avx2_u4*) sleep 1;; esac; exec gcc "$@"')
    running = start(numbered, "build", CC=compiler)
    time.sleep(1.2)
    template = numbered.root / "kernels/templates/dot_f32/kernel.c.j2"
    template.write_text(template.read_text().replace("_number[] = TWO", '_number[] = "77_NUMBER"'))
    assert running.wait() == 0
    numbered.run("build", CC=compiler)
    assert number_in(numbered) == 77


# --- compilers ------------------------------------------------------------------------------------


def wrapper(project: Project, body: str) -> str:
    """A compiler that is a script."""
    path = project.root.parent / "fake-cc"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


def test_object_of_a_header_that_changed_meanwhile_has_no_key(numbered: Project, tmp_path: Path) -> None:
    header = numbered.root / HEADER
    compiler = wrapper(
        numbered,
        f"""case "$*" in *" -c "*isa_avx2_u4*) if [ ! -e '{tmp_path}/done' ]; then
        touch '{tmp_path}/done'; cp '{header}' '{tmp_path}/kept'
        echo '#define TWO "66_NUMBER"' > '{header}'; gcc "$@"; code=$?; cp '{tmp_path}/kept' '{header}'; exit $code
        fi;; esac; exec gcc "$@\"""",
    )
    numbered.run("build", CC=compiler)
    assert number_in(numbered) == 66, "the compiler saw the other text"
    numbered.run("build", CC=compiler)
    assert number_in(numbered) == 10
    other = checkout(numbered, tmp_path / "other")
    other.run("build", CC=compiler)
    assert number_in(other) == 10


def test_compiler_that_crashes_or_prints_without_end_fails_its_rows_alone(project: Project) -> None:
    compiler = wrapper(
        project,
        """case "$*" in
        *" -c "*isa_base_u1*) kill -SEGV $$;;
        *" -c "*isa_base_u2*) head -c 5000000 /dev/zero | tr '\\0' x >&2; exit 1;;
        *" -c "*isa_base_u4*) yes 'a word of warning' | head -c 5000000 >&2; exit 1;;
        esac; exec gcc "$@\"""",
    )
    done = project.run("build", "--mode", "tune", "--json", CC=compiler)
    assert len(done.stderr) < 400_000
    assert "... truncated" in done.stderr
    rejected = {
        line.split(":")[1].strip() for line in done.stderr.splitlines() if line.startswith("rejected at")
    }
    assert rejected == {"isa_base_u1", "isa_base_u2", "isa_base_u4"}
    document = json.loads(done.stdout.splitlines()[-1])
    assert {row["row"] for row in document["rejected"]} == rejected
    assert {row["stage"] for row in document["rejected"]} == {"compile"}


def test_mistake_in_a_template_is_told_once_and_at_the_line_of_the_template(project: Project) -> None:
    template = "kernels/templates/dot_f32/kernel.c.j2"
    before = (project.root / template).read_text().splitlines()
    project.edit(template, "return ", "return no_such + ")
    line = 1 + next(number for number, text in enumerate(before) if "return " in text)
    done = project.run("test", "dot_f32", code=1)
    words = f"rejected at compile: {template}:{line}: error: 'no_such' undeclared"
    assert done.stdout.count(words) == 1
    assert "rejected at compile in the same words" in done.stdout
    rows = json.loads(project.run("test", "dot_f32", "--json", code=1).stdout.splitlines()[-1])["families"][
        0
    ]["rows"]
    rejected = [row for row in rows if row["word"] == "rejected"]
    assert len(rejected) > 1 and all(f"{template}:{line}: " in row["why"] for row in rejected)
    assert all(row["replay"].endswith(f"dot_f32__{row['row']}") for row in rejected)


def test_disk_that_is_full_while_rows_compile_rejects_no_row(project: Project) -> None:
    compiler = wrapper(
        project,
        """case "$*" in *" -c "*isa_base_u2*)
        echo "Fatal error: can't write 9 bytes to section .text: 'No space left on device'" >&2; exit 1;;
        esac; exec gcc "$@\"""",
    )
    done = project.run("mint", "--quiet", "--json", code=1, CC=compiler)
    error = json.loads(done.stdout.splitlines()[-1])["error"]
    assert error.startswith("the tune build failed: build/obj/dot_f32/dot_f32__isa_base_u2.o (Fatal error: ")
    assert "No space left on device" in error
    assert not list(project.root.glob("*.tune.json"))
    wrapper(project, 'exec gcc "$@"')
    done = project.run("build", "--mode", "tune", CC=compiler)
    assert "rejected" not in done.stderr


def test_row_that_calls_what_nothing_defines_is_rejected_alone_and_judged_anew_when_a_support_file_does(
    project: Project,
) -> None:
    call = """{% if u == 8 %}
    float helper(float x);
    sum += helper(sum);
{% endif %}
    return sum;"""
    project.edit("kernels/templates/dot_f32/kernel.c.j2", "    return sum;", call)

    def rows(words: str = "it calls helper, which nothing defines") -> dict[str, str]:
        done = project.run("test", "dot_f32", "--json", code=None)
        family = json.loads(done.stdout.splitlines()[-1])["families"][0]
        assert all(words in row["why"] for row in family["rows"] if row["stage"])
        return {row["row"]: row["word"] for row in family["rows"]}

    first = rows()
    assert {row for row, word in first.items() if word == "rejected"} == {"isa_base_u8", "isa_avx2_u8"}
    assert first["isa_base_u4"] == "passed"
    assert rows() == first, "known from the build before"
    project.edit("tune.toml", "[family.dot_f32]", '[family.dot_f32]\nsupport = ["dot_f32/helper.c"]')
    project.write(
        "kernels/templates/dot_f32/helper.c",
        "float helper(float x);\nfloat helper(float x) { (void)x; return 0; }\n",
    )
    words = "calls helper of a support file, which a normal build does not link"
    assert rows(words) == first, "and no normal build would link it"


@pytest.mark.parametrize(
    ("callee", "words"),
    [
        (
            "dot_f32",
            "calls dot_f32, which is the reference while rows are judged and the row itself in a normal",
        ),
        (
            "dot_f32__isa_base_u1",
            "calls dot_f32__isa_base_u1, which a normal build may not link: write that part out",
        ),
        (
            "dot_f32__reference",
            "calls dot_f32__reference, which a normal build may not link: write that part out",
        ),
    ],
)
def test_row_that_calls_itself_by_name_or_another_row_is_rejected_and_never_shipped(
    project: Project, callee: str, words: str
) -> None:
    call = f"""{{% if u == 4 %}}
    float {callee}(const float *a, const float *b, size_t n);
    if (n == 5) return {callee}(a, b, n);
{{% endif %}}
    float sum = 0.0f;"""
    project.edit("kernels/templates/dot_f32/kernel.c.j2", "    float sum = 0.0f;", call)
    for more in ((), ("--sanitize",)):
        done = project.run("test", "dot_f32", "--json", *more, code=1)
        found = json.loads(done.stdout.splitlines()[-1])["families"][0]["rows"]
        faulty = {row["row"]: row["why"] for row in found if row["word"] == "rejected"}
        assert set(faulty) == {"isa_base_u4", "isa_avx2_u4"}
        assert all(words in why for why in faulty.values())
    project.run("build")
    status = json.loads(project.run("status", "--json").stdout.splitlines()[-1])
    assert status["families"][0]["suffix"] not in faulty, "the chain names isa_avx2_u4 first"


NO_CODE = "its object holds no machine code: compile rows without -flto, or with -ffat-lto-objects beside it"


def test_rows_without_machine_code_are_rejected_with_the_flag_to_leave_out(project: Project) -> None:
    project.edit("tune.toml", '"-O3"', '"-O3", "-flto"')
    done = project.run("test", "dot_f32", "--json", code=1, CC="gcc")
    found = json.loads(done.stdout.splitlines()[-1])["families"][0]["rows"]
    assert {row["why"] for row in found if row["word"] == "rejected"} == {NO_CODE}
    assert not [row for row in found if row["word"] == "passed"]
    project.edit("tune.toml", '"-flto"', '"-flto", "-ffat-lto-objects"')
    project.run("test", "dot_f32", CC="gcc")


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_object_of_intermediate_code_alone_is_no_row(tmp_path: Path, compiler: str) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    (tmp_path / "f.c").write_text("int f__u1(int x); int f__u1(int x) { return x; }\n")
    made = tmp_path / "f.o"
    subprocess.run([compiler, "-flto", "-c", tmp_path / "f.c", "-o", made], check=True)
    assert judge.symbol_fault(made, "f__u1") == NO_CODE


def test_symbol_beside_a_rows_own_is_found_in_objects_that_a_normal_build_made(project: Project) -> None:
    project.edit(
        "kernels/templates/dot_f32/kernel.c.j2", "{{ prototype }}",
        "extern const int other_{{ u }}_{{ isa }};\nconst int other_{{ u }}_{{ isa }} = 3;\n{{ prototype }}",
    )  # fmt: skip
    project.run("build")
    done = project.run("test", "dot_f32", "--json", code=1)
    found = json.loads(done.stdout.splitlines()[-1])["families"][0]["rows"]
    stamped = next(row for row in found if row["row"] == "isa_avx2_u4")
    assert stamped["why"] == "it defines other_4_avx2 besides dot_f32__isa_avx2_u4: make that static"


def test_library_with_a_symbol_that_nothing_defines_is_not_built(project: Project) -> None:
    project.edit(
        "kernels/templates/dot_f32/kernel.c.j2", "{{ prototype }}", "float no_such(void);\n{{ prototype }}"
    )
    project.edit("kernels/templates/dot_f32/kernel.c.j2", "float sum = 0.0f;", "float sum = no_such();")
    done = project.run("build", "--json", code=1)
    assert "undefined reference to `no_such'" in json.loads(done.stdout.splitlines()[-1])["error"]
    assert not (project.root / "build/normal/libdemo.so").exists()


def test_reference_of_another_signature_than_the_prototype_does_not_build(project: Project) -> None:
    project.edit("kernels/templates/dot_f32/reference.c", "float dot_f32(", "double dot_f32(")
    done = project.run("test", "--json", code=1)
    error = json.loads(done.stdout.splitlines()[-1])["error"]
    assert "conflicting types for 'dot_f32__reference'" in error + done.stderr


def test_link_that_fails_is_told_in_the_linkers_words(project: Project) -> None:
    project.edit(
        "kernels/templates/dot_f32/kernel.c.j2", "{{ prototype }}", "float no_such(void);\n{{ prototype }}"
    )
    project.edit("kernels/templates/dot_f32/kernel.c.j2", "float sum = 0.0f;", "float sum = no_such();")
    project.edit("tune.toml", "[build]", '[app.demo]\nkind = "exe"\nsources = ["demo.c"]\n[build]')
    project.write("demo.c", "int main(void) { return 0; }\n")
    done = project.run("build", "--app", "demo", "--json", code=1)
    error = json.loads(done.stdout.splitlines()[-1])["error"]
    assert "undefined reference to `no_such'" in error and "collect2" not in error


def test_file_that_cannot_be_written_whole_is_named_with_its_size_and_leaves_nothing(
    project: Project,
) -> None:
    words = f"ulimit -f 1; exec '{sys.executable}' -m tunebuild build"
    done = subprocess.run(
        ["bash", "-c", words], cwd=project.root, env=project.environ(), capture_output=True, text=True
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("tunebuild: File too large (") and " bytes): " in line
    assert str(project.root) in line
    assert not list(project.root.rglob(".*.tmp"))
    project.run("build")


def test_compiler_that_hangs_is_killed_and_named(project: Project, tmp_path: Path) -> None:
    compiler = wrapper(
        project,
        f'case "$*" in *" -c "*isa_avx2_u4*) echo $$ > "{tmp_path}/pid"; sleep 300;; esac; exec gcc "$@"',
    )
    done = project.run("build", code=1, CC=compiler, TUNEBUILD_COMPILE_TIMEOUT="2")
    assert "did not end in 2 s and was killed" in done.stderr
    assert "isa_avx2_u4.o" in done.stderr
    stat = Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}/stat")
    assert not stat.exists() or stat.read_text().split()[-50] == "Z"


def test_compile_timeout_that_is_no_number_is_an_error(project: Project) -> None:
    done = project.run("build", code=2, TUNEBUILD_COMPILE_TIMEOUT="soon")
    assert "TUNEBUILD_COMPILE_TIMEOUT=soon" in done.stderr


def test_compiler_replaced_during_a_build_leaves_nothing_in_the_cache(project: Project) -> None:
    compiler = Path(wrapper(project, 'exec gcc "$@"'))
    body = f"""#!/bin/sh
case "$*" in *" -c "*isa_avx2_u4*) mv '{compiler}.new' '{compiler}' 2> /dev/null;; esac; exec gcc "$@"
"""
    compiler.with_name("fake-cc.new").write_text('#!/bin/sh\nexec gcc -O0 "$@"\n')
    compiler.with_name("fake-cc.new").chmod(0o755)
    compiler.write_text(body)
    done = project.run("build", CC=str(compiler))
    assert "a compiler was replaced" in done.stderr
    assert cache.info(cache.Store(project.cache)).entries == 0


def test_compiler_that_disappears_fails_the_build_and_its_return_heals_it(project: Project) -> None:
    compiler = Path(wrapper(project, ""))
    compiler.write_text(
        f"""#!/bin/sh
case "$*" in *" -c "*) mv '{compiler}' '{compiler}.gone'; exit 1;; esac; exec gcc "$@"
"""
    )
    done = project.run("build", "--mode", "tune", code=2, CC=str(compiler))
    assert "Traceback" not in done.stderr
    done = project.run("build", code=2, CC=str(compiler))
    assert "is not on this machine" in done.stderr
    wrapper(project, 'exec gcc "$@"')
    project.run("build", CC=str(compiler))
    status = json.loads(project.run("status", "--json", CC=str(compiler)).stdout.splitlines()[-1])
    assert [row["suffix"] for row in status["families"]] == ["isa_avx2_u4"], "no row was held to be broken"


def test_object_that_a_crash_left_is_neither_kept_nor_cached(project: Project, tmp_path: Path) -> None:
    compiler = wrapper(
        project,
        f"""case "$*" in *" -c "*isa_avx2_u4*) if [ ! -e '{tmp_path}/done' ]; then
        touch '{tmp_path}/done'; gcc -O0 "$@"; kill -SEGV $$; fi;; esac; exec gcc "$@\"""",
    )
    project.run("build", code=1, CC=compiler)
    made_again = made(project.run("build", "--json", CC=compiler))
    assert "dot_f32__isa_avx2_u4.o" in made_again


def test_artifact_stays_while_its_next_build_fails(project: Project) -> None:
    project.run("build")
    (library,) = (project.root / "build/normal").glob("*.so")
    before = library.read_bytes()
    project.edit("kernels/templates/dot_f32/kernel.c.j2", "float sum = 0.0f;", "float sum = no_such_name;")
    project.run("build", code=1)
    assert library.read_bytes() == before
    project.edit("kernels/templates/dot_f32/kernel.c.j2", "float sum = no_such_name;", "float sum = 0.0f;")
    project.run("build")
    assert library.read_bytes() == before and library.stat().st_mtime > 0


def test_launcher_that_is_not_installed_is_named_and_nothing_is_compiled(project: Project) -> None:
    project.edit("tune.toml", "[build]\n", '[build]\nlauncher = "no-such-cache -v"\n')
    done = project.run("build", code=2)
    assert "the compiler launcher no-such-cache is not on PATH" in done.stderr
    assert not list(project.root.glob("build/obj/**/*.o"))

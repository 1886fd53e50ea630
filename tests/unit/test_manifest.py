"""tune.toml to a manifest: defaults, names across tables and projects, and every mistake by its words."""
# ruff: noqa: E501  (one mistake a line reads best)

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from pathlib import Path

import pytest
from toml_project import BASE, FILES, mistakes, one_mistake, read, write

from tunebuild import manifest
from tunebuild.errors import ConfigError, UsageError
from tunebuild.model import ChainEntry, Seat

DATA = Path(__file__).parents[1] / "data"
ARGS = """
[family.dot.args]
a = { in = "f32[n]" }
b = { in = "f32[n]" }
[family.dot.workload.l1]
n = 64
"""


# --- what is read ----------------------------------------------------------------------------------


def test_smallest_file_has_every_default(tmp_path: Path) -> None:
    found = read(tmp_path)
    (family,) = found.families
    assert family.module == "p" and family.seats == (Seat("", "", "dot"),)
    assert family.reference == tmp_path / "kernels/templates/dot/reference.c"
    assert family.template == tmp_path / "kernels/templates/dot/kernel.c.j2"
    assert [row.suffix for row in family.rows] == ["u1", "u2", "u4"] and family.fallback == ()
    assert [(a.name, a.kind, a.size) for a in family.args] == [
        ("a", "in", "n"), ("b", "in", "n"), ("n", "scalar", ""),
    ]  # fmt: skip
    assert [w.scalars for w in family.workloads] == [(("n", 4096),)]
    (scope,) = found.scopes
    assert scope.name == "p" and scope.implicit and scope.families == ("dot",)
    (app,) = found.apps
    assert (app.name, app.kind, app.scopes, app.policy) == ("p", "library", ("p",), None)


def test_file_with_a_byte_order_mark_reads_as_without(tmp_path: Path) -> None:
    plain = read(tmp_path)
    (tmp_path / "tune.toml").write_bytes(b"\xef\xbb\xbf" + BASE.encode())
    assert manifest.read(tmp_path) == plain


def test_folder_and_file_give_the_same_manifest(tmp_path: Path) -> None:
    assert read(tmp_path) == manifest.read(tmp_path / "tune.toml")


def test_complete_example_reads_cleanly_and_joins_the_project_it_uses() -> None:
    found = manifest.read(DATA / "complete")
    names = [family.name for family in found.families]
    assert names == ["dot_f32", "gemm_q8", "gather", "axpy", "add", "scale_f32"]
    scopes = {scope.name: scope.families for scope in found.scopes}
    assert scopes == {
        "tunekit": ("dot_f32", "gemm_q8", "axpy", "add"), "custom": ("gather",), "mathlib": ("scale_f32",),
    }  # fmt: skip
    assert [app.name for app in found.apps] == ["tunekit", "demo"]
    pinned = found.scopes[0]
    assert (pinned.version_key, pinned.version, pinned.covers) == ("kernels_version", "3", ("quant",))
    assert found.measure == (("margin_pct", 4.0),)
    assert len(manifest.affected_files(found)) == 19


def test_used_project_keeps_its_own_isa_and_flags() -> None:
    found = manifest.read(DATA / "complete")
    scale = found.families[-1]
    assert scale.project.name == "mathlib" and scale.project.cflags == ("-O2",)
    assert scale.rows[1].requires == "avx512f,avx512dq"
    assert found.families[0].rows[-2].requires == "avx512f,avx512bw,avx512vl"


def test_isa_of_a_built_in_name_replaces_it(tmp_path: Path) -> None:
    found = read(tmp_path, BASE + '[isa.avx2]\nrequires = "avx2 , fma"\n')
    assert {isa.name: isa.requires for isa in found.project.isas}["avx2"] == "avx2,fma"


def test_chain_is_split_at_semicolons_or_given_as_an_array(tmp_path: Path) -> None:
    wanted = (ChainEntry("u4", "avx2"), ChainEntry("u1"), ChainEntry("reference"))
    text = BASE.replace("[family.dot.grid", 'fallback = " u4:avx2 ; ;u1;reference; "\n[family.dot.grid')
    assert read(tmp_path, text).families[0].fallback == wanted
    text = BASE.replace("[family.dot.grid", 'fallback = ["u4:avx2", "u1", "reference"]\n[family.dot.grid')
    assert read(tmp_path, text).families[0].fallback == wanted


def test_module_in_two_scopes_belongs_to_the_first(tmp_path: Path) -> None:
    text = BASE + '[module.m]\n[scope.one]\nmodule = "m"\ncovers = ["p"]\n[scope.two]\n'
    found = read(tmp_path, text)
    assert [(scope.name, scope.families) for scope in found.scopes] == [("one", ("dot",)), ("two", ())]


def test_absent_covered_modules_are_dropped(tmp_path: Path) -> None:
    assert read(tmp_path, BASE + '[scope.one]\ncovers = ["nowhere", "p"]\n').scopes[0].covers == ()


def test_family_in_no_scope_is_in_the_manifest(tmp_path: Path) -> None:
    found = read(tmp_path, BASE + '[module.m]\n[scope.one]\nmodule = "m"\n')
    assert found.scopes[0].families == () and found.families[0].name == "dot"


def test_app_of_the_projects_name_replaces_the_default_one(tmp_path: Path) -> None:
    found = read(tmp_path, BASE + '[app.z]\nkind = "static"\n[app.p]\nkind = "shared"\n')
    assert [(app.name, app.kind) for app in found.apps] == [("p", "shared"), ("z", "static")]


def test_sidecar_is_followed_to_the_app_that_owns_it(tmp_path: Path) -> None:
    text = BASE + '[app.a]\nkind = "static"\nsidecar = "b"\n[app.b]\nkind = "static"\nsidecar = "p"\n'
    assert [app.sidecar for app in read(tmp_path, text).apps] == ["", "p", "p"]


@pytest.mark.parametrize(
    ("lines", "policy"),
    [('cflags = ["-O0"]', "fallback"), ('cflags = ["-O0", "-O2"]', None), ('policy = "warn"', "warn"), ("", None),
     ('cflags = ["-O0"]\npolicy = "auto"', "auto")],
)  # fmt: skip
def test_policy_of_an_executable_at_o0_is_fallback_unless_declared(
    tmp_path: Path, lines: str, policy: str | None
) -> None:
    (tmp_path / "m.c").write_text("")
    found = read(tmp_path, BASE + f'[app.x]\nsources = ["m.c"]\n{lines}\n')
    assert found.apps[1].policy == policy


def test_loop_hint_chain_ends_in_vec8_u2_and_may_name_plain_rows_by_their_hints(tmp_path: Path) -> None:
    text = """[project]
name = "p"
[family.axpy]
source = "axpy.c"
prototype = "void axpy(float *y, const float *x, float a, size_t n)"
hints = "short"
fallback = "isa_avx2_vec16_u2; vec8"
pin = "u2"
[family.axpy.grid.axes]
isa = ["base", "avx2"]
"""
    (family,) = read(tmp_path, text, ("axpy.c",)).families
    assert [entry.suffix for entry in family.fallback] == [
        "isa_avx2_vec16_u2",
        "isa_base_vec8",
        "isa_base_vec8_u2",
    ]
    assert family.pin == "isa_base_u2" and family.source == family.reference and family.template is None


def test_two_uses_of_one_project_read_it_once(tmp_path: Path) -> None:
    for name, uses in (("low", ""), ("left", '[use.low]\npath = "../low"\n')):
        folder = tmp_path / name
        folder.mkdir()
        write(folder, f'[project]\nname = "{name}"\n{uses}')
    root = tmp_path / "root"
    root.mkdir()
    found = read(root, BASE + '[use.a]\npath = "../left"\n[use.b]\npath = "../low/tune.toml"\n')
    assert [file.parent.name for file in found.files] == ["root", "left", "low"]


def test_crlf_file_is_read(tmp_path: Path) -> None:
    write(tmp_path, "")
    (tmp_path / "tune.toml").write_bytes(BASE.replace("\n", "\r\n").encode())
    assert manifest.read(tmp_path).families


def calls(folder: Path, families: int) -> int:
    """How many functions run while a project of so many families is read: time that no clock disturbs."""
    one = BASE.split("\n", 2)[2]
    write(
        folder, BASE.split("[family")[0] + "".join(one.replace("dot", f"dot{i}") for i in range(families)), ()
    )
    for i in range(families):
        for file in FILES:
            path = folder / "kernels/templates" / file.replace("dot", f"dot{i}", 1)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    counted = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal counted
        counted += event == "call"

    sys.setprofile(count)
    try:
        manifest.read(folder)
    finally:
        sys.setprofile(None)
    return counted


def test_reading_grows_linearly(tmp_path: Path) -> None:
    few, some, many = (calls(tmp_path, families) for families in (20, 60, 140))
    assert many - some == pytest.approx(2 * (some - few), rel=0.05)


def test_reading_imports_no_heavy_library(tmp_path: Path) -> None:
    write(tmp_path, BASE)
    heavy = "{'jinja2', 'numpy', 'tomlkit', 'cffi', 'difflib', 'subprocess', 'hypothesis'}"
    script = (
        "import sys; from pathlib import Path; from tunebuild import manifest;"
        f"manifest.read(Path({str(tmp_path)!r})); print(sorted({heavy} & set(sys.modules)))"
    )
    got = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=DATA.parents[1]
    )
    assert got.stdout.strip() == "[]"


# --- mistakes --------------------------------------------------------------------------------------

FAMILY = "family.dot"
CASES: list[tuple[str, str, str, str, str]] = [
    # (what is replaced in BASE + ARGS, by what, key, words of the message, words of the fix)
    ('name = "p"\n', 'name = "p"\nversion = 1\n', "project.version", "no key is named `version` here", "name"),
    ('name = "p"\n', "", "project", "`name` is missing", "The project's name"),
    ('"p"', '"a b"', "project.name", "'a b' is no name", "letters"),
    ("[family.dot]\n", "[familly.x]\n[family.dot]\n", "familly", "no key is named `familly`", "did you mean `family`?"),
    ("[family.dot]\n", '[family.dot]\nfalback = "u1"\n', f"{FAMILY}.falback", "no key is", "did you mean `fallback`?"),
    ("[family.dot]\n", "[family.dot]\nmodule = 3\n", f"{FAMILY}.module", "an integer where a string belongs", '"3"'),
    ("[family.dot]\n", '[family.dot]\nstate = "yes"\n', f"{FAMILY}.state", "a string where a boolean belongs", ""),
    ("[family.dot]\n", '[family.dot]\nlayout = "u"\n', f"{FAMILY}.layout", "a string where an array", '["u"]'),
    ("[family.dot]\n", "[family.dot]\nfallback = 2020-01-01\n", f"{FAMILY}.fallback", "a date or time where", ""),
    # families
    ("float dot(", "dot(", f"{FAMILY}.prototype", "`dot` has no return type", "`void dot(...)`"),
    ("float dot(", "float dott(", f"{FAMILY}.prototype", "it declares `dott`", "name the function `dot`"),
    ("[family.dot]\n", '[family.dot]\nreference = "no.c"\n', f"{FAMILY}.reference", "no.c does not exist", "create it"),
    ("[family.dot]\n", '[family.dot]\ntemplate = "dot"\n', f"{FAMILY}.template", "is no file", "file"),
    ("[family.dot]\n", '[family.dot]\nreference = "../../../x.c"\n', f"{FAMILY}.reference", "leads out of", "[use.NAME]"),
    ("[family.dot]\n", '[family.dot]\nreference = "/etc/passwd"\n', f"{FAMILY}.reference", "an absolute path", "relative"),
    ("[family.dot]\n", '[family.dot]\noracle = "no.c"\n', f"{FAMILY}.oracle", "does not exist", ""),
    ("[family.dot]\n", '[family.dot]\nsupport = ["no.c"]\n', f"{FAMILY}.support[0]", "does not exist", ""),
    ("[family.dot]\n", '[family.dot]\nhints = "short"\n', f"{FAMILY}.hints", "hints without a source", "source ="),
    ("[family.dot]\n", '[family.dot]\nsource = "dot/reference.c"\ntemplate = "dot/kernel.c.j2"\n', f"{FAMILY}.template",
     "one source", "remove template"),
    # rows
    ("[family.dot.grid.axes]\nu = [1, 2, 4]\n", "", FAMILY, "it has no rows", "[family.dot.grid.axes]"),
    ("u = [1, 2, 4]", "u = []", f"{FAMILY}.grid.axes.u", "an axis without values", "at least one"),
    ("u = [1, 2, 4]", "u = [1, [2]]", f"{FAMILY}.grid.axes.u[1]", "an array where a boolean, a number or a string", ""),
    ("u = [1, 2, 4]", "u = [1, 2, 1]", f"{FAMILY}.grid.axes.u[2]", "the value 1 stands twice: two rows `u1`", "remove one"),
    ("u = [1, 2, 4]", "u = [-1]", f"{FAMILY}.grid.axes.u[0]", "`u-1` cannot be part of a C name", 'suffix = "NAME"'),
    ("u = [1, 2, 4]", "u = [1e-5]", f"{FAMILY}.grid.axes.u[0]", "`u1e-05` cannot be", "[[family.NAME.row]]"),
    ("u = [1, 2, 4]", 'u = ["a b"]', f"{FAMILY}.grid.axes.u[0]", "`u_a b` cannot be", ""),
    ("u = [1, 2, 4]", "fn = [1]", f"{FAMILY}.grid.axes.fn", "every template already has", "another name"),
    ("u = [1, 2, 4]", '"a-b" = [1]', f"{FAMILY}.grid.axes.a-b", "no name that a template can use", ""),
    ("u = [1, 2, 4]", 'isa = ["base", "avx3"]', f"{FAMILY}.grid.axes.isa[1]", "no [isa.avx3] is declared", "`avx2`?"),
    ("u = [1, 2, 4]", 'toolchain = ["clang"]', f"{FAMILY}.grid.axes.toolchain[0]", "no [toolchain.clang]", "none is declared"),
    ("u = [1, 2, 4]", 'flags = ["fast"]', f"{FAMILY}.grid.axes.flags[0]", "no [flags.fast] is declared", ""),
    ("[family.dot.grid.axes]", '[family.dot.grid]\nwhere = "u > 9"\n[family.dot.grid.axes]', f"{FAMILY}.grid.where",
     "`u > 9` leaves none of 3 rows", "widen it"),
    ("[family.dot.grid.axes]", '[family.dot.grid]\nwhere = "v > 9"\n[family.dot.grid.axes]', f"{FAMILY}.grid.where",
     "uses `v`, which has no value here", "write one of u"),
    ("[family.dot.grid.axes]", '[family.dot.grid]\nwhere = "u >"\n[family.dot.grid.axes]', f"{FAMILY}.grid.where",
     "cannot be read at column 3", "comparison"),
    ("[family.dot.grid.axes]", '[family.dot.grid]\nwhere = "u < \'a\'"\n[family.dot.grid.axes]', f"{FAMILY}.grid.where",
     "text and numbers have no order (u = 1)", ""),
    ("[family.dot.grid.axes]", "[[family.dot.row]]\n[family.dot.grid.axes]", f"{FAMILY}.row[0]",
     "a row without values and without a suffix", "suffix ="),
    ("[family.dot.grid.axes]", '[[family.dot.row]]\nsuffix = "reference"\n[family.dot.grid.axes]', f"{FAMILY}.row[0]",
     "`reference` is that of the reference body", "another"),
    ("[family.dot.grid.axes]", "[[family.dot.row]]\nu = 2\n[family.dot.grid.axes]", f"{FAMILY}.row[0]",
     "two rows have the suffix `u2`", ""),
    ("[family.dot.grid.axes]", '[[family.dot.row]]\nu = 9\nrequires = "avx2,fmma"\n[family.dot.grid.axes]',
     f"{FAMILY}.row[0].requires", "`fmma` is no known CPU feature", "did you mean `fma`?"),
    ("[family.dot.grid.axes]", '[[family.dot.row]]\nu = 9\nrequires = "avx2,neon"\n[family.dot.grid.axes]',
     f"{FAMILY}.row[0].requires", "no CPU is both", "two rows"),
    ("[family.dot.grid.axes]", '[[family.dot.row]]\nu = 9\nisa = "avx2"\nrequires = "neon"\n[family.dot.grid.axes]',
     f"{FAMILY}.row[0].requires", "no CPU is both", "two rows"),
    ("[family.dot.grid.axes]", '[[family.dot.row]]\nu = 9\ncflags = ["-fplugin=x.so"]\n[family.dot.grid.axes]',
     f"{FAMILY}.row[0].cflags[0]", "`-fplugin=x.so` is not allowed", "remove it"),
    ("[family.dot]\n", '[family.dot]\nlayout = ["mr"]\n', f"{FAMILY}.layout", "layout names `mr`, which the row `u1`", "u"),
    # chains and pins
    ("[family.dot]\n", '[family.dot]\nfallback = "u1;u3"\n', f"{FAMILY}.fallback", "the fallback `u3` names no row", "write one of reference, u1, u2, u4"),
    ("[family.dot]\n", '[family.dot]\nfallback = ["u1:avx9"]\n', f"{FAMILY}.fallback[0]", "`avx9` is no known", "`avx"),
    ("[family.dot]\n", '[family.dot]\nfallback = "u1, u2"\n', f"{FAMILY}.fallback", "the fallback `u1, u2` names no row", "entries of a chain stand apart by `;`"),
    ("[family.dot]\n", '[family.dot]\npin = "u7"\n', f"{FAMILY}.pin", "the pin `u7` names no row", "write one of u1, u2, u4"),
    # calls
    ('b = { in = "f32[n]" }\n', 'b = { in = "f32[n]" }\nn = { in = "f32[n]" }\n', f"{FAMILY}.args.n", "`n` is a scalar", "workloads"),
    ('b = { in = "f32[n]" }\n', 'b = { in = "f32[m]" }\n', f"{FAMILY}.args.b.in", "`m` uses `m`, which has no value", "write one of n"),
    ('b = { in = "f32[n]" }\n', 'b = { in = "f31[n]" }\n', f"{FAMILY}.args.b.in", "`f31` is no element type", "`f32`?"),
    ('b = { in = "f32[n]" }\n', 'b = { in = "f32" }\n', f"{FAMILY}.args.b.in", "`f32` is no TYPE[ELEMENTS]", "f32[n]"),
    ('b = { in = "f32[n]" }\n', 'b = { in = "f64[n]" }\n', f"{FAMILY}.args.b.in", "has 4 bytes, f64 has 8", "f32[...]"),
    ('b = { in = "f32[n]" }\n', 'b = { out = "f32[n]" }\n', f"{FAMILY}.args.b.out", "it cannot be out", "remove the const"),
    ('b = { in = "f32[n]" }\n', "b = { }\n", f"{FAMILY}.args.b", "it is not said what it is", "in, out, inout"),
    ('b = { in = "f32[n]" }\n', 'b = { in = "f32[n]", scratch = "f32[n]" }\n', f"{FAMILY}.args.b", "in and scratch at once", ""),
    ('b = { in = "f32[n]" }\n', 'b = { in = "f32[n]", fill = "norml" }\n', f"{FAMILY}.args.b.fill", "no fill", "`normal`?"),
    ('b = { in = "f32[n]" }\n', 'b = { in = "f32[n]", valid = "n" }\n', f"{FAMILY}.args.b.valid", "is not compared", "remove"),
    ('b = { in = "f32[n]" }\n', 'b = { pointers = ["a"] }\n', f"{FAMILY}.args.b.pointers", "cannot hold addresses", "a pointer to pointers"),
    ('b = { in = "f32[n]" }\n', 'b = { in = "f32[n - 100]" }\n', f"{FAMILY}.args.b", "is -36 at workload l1 (n = 64)", "domain"),
    ('b = { in = "f32[n]" }\n', 'b = { in = "f32[n / 2]" }\n', f"{FAMILY}.args.b", "`n / 2` is 32.0", "//"),
    ('b = { in = "f32[n]" }\n', 'b = { in = "f32[64 // n]" }\n', f"{FAMILY}.args.b", "division by zero (n = 0)", "domain"),
    ("size_t n)", "size_t n, int m)", f"{FAMILY}.workload.l1", "no value for the scalar `m`", "m = ..."),
    ("n = 64\n", "n = 64\nm = 3\n", f"{FAMILY}.workload.l1.m", "nothing uses the scalar `m`", "write one of n, work, cache, weight, fill"),
    ("n = 64\n", "n = 64\nwieght = 0.5\n", f"{FAMILY}.workload.l1.wieght", "nothing uses the scalar `wieght`", "did you mean `weight`?"),
    ("n = 64\n", "n = -1\n", f"{FAMILY}.workload.l1.n", "-1 does not fit `size_t n`", "0 to"),
    ("n = 64\n", "n = 6.5\n", f"{FAMILY}.workload.l1.n", "6.5 for `size_t n`", "integer"),
    ("n = 64\n", 'n = 64\nwork = "2*k"\n', f"{FAMILY}.workload.l1.work", "uses `k`", ""),
    ("n = 64\n", 'n = 64\nwork = "n/(n-64)"\n', f"{FAMILY}.workload.l1.work", "division by zero (n = 64)", "2*n"),
    ("n = 64\n", 'n = 64\nwork = "n < 3"\n', f"{FAMILY}.workload.l1.work", "is False", "2*n"),
    ("n = 64\n", 'n = 64\ncache = "warm"\n', f"{FAMILY}.workload.l1.cache", "`warm` is none of its words", "hot, cold"),
    ("n = 64\n", "n = 64\nweight = 0\n", f"{FAMILY}.workload.l1.weight", "a weight of 0", "from 1e-06 to 1,000,000"),
    ("n = 64\n", "n = 64\nweight = 1e308\n", f"{FAMILY}.workload.l1.weight", "a weight of 1e+308", "to 1,000,000"),
    ("n = 64\n", 'n = 64\nfill = { c = "zeros" }\n', f"{FAMILY}.workload.l1.fill.c", "`c` is no buffer", "a, b"),
    ("[family.dot]\n", '[family.dot]\ndomain = "n < 9"\n', f"{FAMILY}.workload.l1", "outside the domain `n < 9`", ""),
    ("[family.dot]\n", '[family.dot]\ndomain = "n > 5 +"\n', f"{FAMILY}.domain", "cannot be read", ""),
    ("[family.dot]\n", '[family.dot]\nprepare = ["pack(a)"]\n', f"{FAMILY}.prepare[0]", "`pack` is no companion", "dot"),
    ("[family.dot]\n", '[family.dot]\nprepare = ["dot(a, b)"]\n', f"{FAMILY}.prepare[0]", "takes 3 arguments, 2", "float dot"),
    ("[family.dot]\n", '[family.dot]\nprepare = ["dot(a, n, n)"]\n', f"{FAMILY}.prepare[0]", "`n` where `dot` takes a buffer", ""),
    ("[family.dot]\n", '[family.dot]\nprepare = ["dot(a, c, n)"]\n', f"{FAMILY}.prepare[0]", "`c` is no argument", "a, b, n"),
    ("[family.dot]\n", '[family.dot]\nprepare = ["dot"]\n', f"{FAMILY}.prepare[0]", "`dot` is no call", "function(argument"),
    ("[family.dot]\n", "[family.dot.check]\nsizes = [{ m = 3 }]\n[family.dot]\n", f"{FAMILY}.check.sizes[0].m", "`m` is no scalar", "n"),
    ("[family.dot]\n", "[family.dot.check]\nsizes = [{ n = -3 }]\n[family.dot]\n", f"{FAMILY}.check.sizes[0].n", "a size of -3", ""),
    ("[family.dot]\n", '[family.dot.check]\nfills = ["odd"]\n[family.dot]\n', f"{FAMILY}.check.fills[0]", "`odd` is no fill", ""),
    ("[family.dot]\n", "[family.dot.check]\noffsets = [-1]\n[family.dot]\n", f"{FAMILY}.check.offsets[0]", "an offset of -1", ""),
    ("[family.dot]\n", '[family.dot.check]\ncompare = "equal"\n[family.dot]\n', f"{FAMILY}.check.compare", "none of its words", "exact"),
    ("[family.dot]\n", "[family.dot.check]\ncompare = { ulp = 2, rtol = 0.1 }\n[family.dot]\n", f"{FAMILY}.check.compare",
     "ulp and a tolerance at once", ""),
    ("[family.dot]\n", "[family.dot.check]\ncompare = { scale = 'abs' }\n[family.dot]\n", f"{FAMILY}.check.compare",
     "no tolerance is given", "rtol"),
    # seats
    ("[family.dot]\n", '[family.dot.seat.s]\nwhen = "n < 8"\n[family.dot]\n', f"{FAMILY}.seat.s.when", "takes the rest", "remove"),
    ("[family.dot]\n", "[family.dot.seat.s]\n[family.dot.seat.l]\n[family.dot]\n", f"{FAMILY}.seat.s", "only the last seat", "when ="),
    ("[family.dot]\n", '[family.dot.seat.s]\nwhen = "n < 8"\n[family.dot.seat.l]\n[family.dot]\n', f"{FAMILY}.seat.s",
     "no workload reaches this seat", "workload"),
    ("[family.dot]\n", '[family.dot.seat.s]\nwhen = "u < 8"\n[family.dot.seat.l]\n[family.dot]\n', f"{FAMILY}.seat.s.when",
     "uses `u`", "n"),
    ("[family.dot]\n", '[family.dot.seat.s]\nwhen = "n / 2 < 8"\n[family.dot.seat.l]\n[family.dot]\n', f"{FAMILY}.seat.s.when",
     "uses integers alone", "//"),
    # companions
    ("[family.dot]\n", "[family.dot.companion.pack]\n[family.dot]\n", f"{FAMILY}.companion.pack", "`prototype` is missing", ""),
    ("[family.dot]\n", '[family.dot.companion.pack]\nprototype = "pack(int n)"\n[family.dot]\n',
     f"{FAMILY}.companion.pack.prototype", "`pack` has no return type", ""),
    # scopes
    ("[family.dot]\n", '[scope.s]\nmodule = "pp"\n[family.dot]\n', "scope.s.module", "no module is named `pp`", "`p`?"),
    ("[family.dot]\n", "[scope.s]\n[scope.t]\n[family.dot]\n", "scope.t.module", "declares the scope `s` already", "one scope"),
    ("[family.dot]\n", '[scope.s]\nversion_of = "V"\n[family.dot]\n', "scope.s.version_of", "`V` is no module/CONSTANT", ""),
    ("[family.dot]\n", '[scope.s]\nversion_of = "/V"\n[family.dot]\n', "scope.s.version_of", "is no module/CONSTANT", ""),
    ("[family.dot]\n", '[scope.s]\nversion_of = "q/V"\n[family.dot]\n', "scope.s.version_of", "no module is named `q`", "p"),
    ("[family.dot]\n", '[scope.s]\nversion_of = "p/V"\n[family.dot]\n', "scope.s.version_of", "has no constant `V`", ""),
    ("[family.dot]\n", '[scope.s]\nversion_key = "v"\n[family.dot]\n', "scope.s.version_key", "without version_of", ""),
    ("[family.dot]\n", "[module.p]\nconstants = { V = 1.5 }\n[family.dot]\n", "module.p.constants.V", "a float where an integer", ""),
    ("[family.dot]\n", '[scope.s]\ntuner = "no.py"\n[family.dot]\n', "scope.s.tuner", "no.py does not exist", ""),
    ("[family.dot]\n", '[scope.s]\nresolver = "http:x"\n[family.dot]\n', "scope.s.resolver", "is no resolver", "exchange:URL"),
    # apps
    ("[family.dot]\n", "[app.x]\n[family.dot]\n", "app.x", "an executable without sources", "sources ="),
    ("[family.dot]\n", '[app.x]\nsources = ["no.c"]\n[family.dot]\n', "app.x.sources[0]", "no.c does not exist", ""),
    ("[family.dot]\n", '[app.x]\nkind = "shared"\nsources = ["tune.toml", "./tune.toml"]\n[family.dot]\n', "app.x.sources[1]", "`./tune.toml` stands here twice", "remove one"),
    ("[family.dot]\n", '[app.x]\nkind = "dll"\n[family.dot]\n', "app.x.kind", "`dll` is none of its words", "exe, shared, static"),
    ("[family.dot]\n", '[app.x]\nkind = "shared"\npolicy = "auto"\n[family.dot]\n', "app.x.policy", "has no policy", "exe"),
    ("[family.dot]\n", '[app.x]\nkind = "shared"\nscopes = ["q"]\n[family.dot]\n', "app.x.scopes[0]", "no scope is named `q`", "p"),
    ("[family.dot]\n", '[app.x]\nkind = "shared"\nsidecar = "q"\n[family.dot]\n', "app.x.sidecar", "no app is named `q`", "p, x"),
    ("[family.dot]\n", '[app.a-b]\nkind = "shared"\n[app.a_b]\nkind = "shared"\n[family.dot]\n', "app.a_b", "the same name in C", ""),
    ("[family.dot]\n", '[app.x]\nkind = "shared"\nconfirm = { command = "x", metric = "a(" }\n[family.dot]\n',
     "app.x.confirm.metric", "is no regular expression", ""),
    ("[family.dot]\n", '[app.x]\nkind = "shared"\nconfirm = { command = "x", metric = "a" }\n[family.dot]\n',
     "app.x.confirm.metric", "has 0 groups", "one group"),
    ("[family.dot]\n", '[module.p]\nconstants = { V = 1 }\n[app.p_constants]\nkind = "shared"\n[family.dot]\n', "app.p_constants",
     "the header p_constants.h is that of the constants of module `p`", "another name"),
    ("[family.dot]\n", '[app.math]\nkind = "shared"\n[family.dot]\n', "app.math", "its header math.h would stand before one of C or the system", "another"),
    ('name = "p"', 'name = "tb_status"', "project.name", "its header tb_status.h would stand before tunebuild's own", "another"),
    ('name = "p"', 'name = "immintrin"', "project.name", "its header immintrin.h would stand before one of C or the system", "another"),
    # constants
    ("[family.dot]\n", "[module.p]\nconstants = { int = 1 }\n[family.dot]\n", "module.p.constants.int", "`int` is no C name", "digits"),
    ("[family.dot]\n", "[module.p]\nconstants = { size_t = 1 }\n[family.dot]\n", "module.p.constants.size_t", "means something else in C", ""),
    ("[family.dot]\n", "[module.p]\nconstants = { n = 1 }\n[family.dot]\n", "module.p.constants.n", "`n` is a word of the prototype of `dot`", "another"),
    ("[family.dot]\n", "[module.p]\nconstants = { dot = 1 }\n[family.dot]\n", "module.p.constants.dot", "a word of the prototype of `dot`", "another"),
    ("[family.dot]\n", "[module.p]\nconstants = { reps = 1 }\n[family.dot]\n", "module.p.constants.reps", "`reps` is a word of generated C", "another"),
    ("[family.dot]\n", "[module.a-b]\nconstants = { V = 1 }\n[module.a_b]\nconstants = { W = 1 }\n[family.dot]\n", "module.a_b",
     "`a_b` and `a-b` are the same name in C, and their constants one header", "rename"),
    ("[family.dot]\n", '[app.x]\nkind = "shared"\nconfirm = { command = "x", metric = "(a)", margin = 1e9 }\n[family.dot]\n',
     "app.x.confirm.margin", "a margin of 1e+09", "percent, from 0 to 1000"),
    # build and names
    ("[family.dot]\n", '[toolchain.c-c]\ncc = "gcc"\n[toolchain.c_c]\ncc = "cc"\n[family.dot]\n', "toolchain.c_c", "the same name in build.ninja", "rename"),
    ("[family.dot]\n", '[build]\ncc = ""\n[family.dot]\n', "build.cc", "is no command", "clang"),
    ("[family.dot]\n", '[build]\ncflags = ["@flags"]\n[family.dot]\n', "build.cflags[0]", "`@flags` is not allowed", ""),
    ("[family.dot]\n", '[build]\ninclude = ["inc"]\n[family.dot]\n', "build.include[0]", "inc does not exist", ""),
    ("[family.dot]\n", "[toolchain.clang]\n[family.dot]\n", "toolchain.clang", "`cc` is missing", "command line"),
    ("[family.dot]\n", '[toolchain.c]\ncc = "c"\nrun = "q"\n[family.dot]\n', "toolchain.c.run", "without a target", "target ="),
    ("[family.dot]\n", '[isa.x]\nrequires = "avx2|"\n[family.dot]\n', "isa.x.requires", "an empty alternative", "both sides"),
    ("[family.dot]\n", "[measure]\nmargin = 3\n[family.dot]\n", "measure.margin", "no constant of the race", "`margin_pct`?"),
    ("[family.dot]\n", "[measure]\nmargin_pct = -3\n[family.dot]\n", "measure.margin_pct", "-3 cannot be", "from 0 to 90"),
    ("[family.dot]\n", '[use.x]\npath = "nowhere"\n[family.dot]\n', "use.x.path", "holds no tune.toml", "folder"),
    ("[family.dot]\n", '[use.x]\npath = "."\n[family.dot]\n', "use.x.path", "uses this project in turn", ""),
    ("[family.dot]\n", '[use.x]\npath = "/etc/passwd"\n[family.dot]\n', "use.x.path", "no relative path", ""),
]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "key", "what", "fix"), CASES, ids=[f"{c[2]}-{c[3][:40]}" for c in CASES]
)
def test_mistake_is_reported_with_its_key_what_and_fix(
    tmp_path: Path, old: str, new: str, key: str, what: str, fix: str
) -> None:
    text = BASE + ARGS
    assert text.count(old) >= 1, "the case changes nothing"
    mistake = one_mistake(tmp_path, text.replace(old, new, 1))
    assert (mistake.key, what in mistake.what, fix in mistake.fix) == (key, True, True), str(mistake)
    assert mistake.line > 0 and mistake.column > 0


def test_family_name_that_c_or_tunebuild_reserves_is_refused(tmp_path: Path) -> None:
    for name, words in (("main", "cannot name"), ("a__b", "two underscores"), ("tb_x", "`tb_` is reserved"),
                        ("int", "no C name"), ("a" * 70, "cannot name"), ("status", "cannot name"),
                        ("interface", "cannot name"), ("drivers", "cannot name"), ("NULL", "means something else in C"),
                        ("size_t", "means something else in C"), ("INT8_MAX", "means something else in C"),
                        ("p_tune_status", "is a function that every build of the app `p` has"),
                        ("p_log_tune_status", "is a function that every build of the app `p` has"),
                        ("app_p", "the objects of the app `p` lie in the folder app_p")):  # fmt: skip
        text = BASE.replace("family.dot", f"family.{name}").replace("float dot(", f"float {name}(")
        found = mistakes(tmp_path, text, (f"{name}/reference.c", f"{name}/kernel.c.j2"))
        assert any(words in mistake.what for mistake in found), name


def test_parameter_with_the_name_of_a_workloads_key_is_refused(tmp_path: Path) -> None:
    found = mistakes(tmp_path, BASE.replace("size_t n)", "size_t weight)") + ARGS)
    assert "the parameter `weight` has the name of a workload's key" in found[0].what


def test_cells_whose_suffixes_meet_are_refused(tmp_path: Path) -> None:
    axes = 'a = ["x", "x_b_y"]\nb = ["y_b_z", "z"]'
    mistake = one_mistake(tmp_path, BASE.replace("u = [1, 2, 4]", axes))
    cells = "(a = 'x', b = 'y_b_z') and (a = 'x_b_y', b = 'z')"
    assert mistake.what == f"two rows have the suffix `a_x_b_y_b_z`: {cells}"


def test_axis_named_reference_cannot_make_the_reserved_suffix(tmp_path: Path) -> None:
    mistake = one_mistake(tmp_path, BASE.replace("u = [1, 2, 4]", "reference = [true, false]"))
    assert "`reference` is that of the reference body" in mistake.what


def test_buffer_that_nothing_sizes_says_the_line_to_write(tmp_path: Path) -> None:
    text = BASE.replace("size_t n)", "int n, int m)") + "[family.dot.workload.l]\nn = 1\nm = 1\n"
    found = mistakes(tmp_path, text)
    assert [mistake.fix for mistake in found] == [
        'write a = { in = "f32[n]" } in its args table', 'write b = { in = "f32[n]" } in its args table',
    ]  # fmt: skip


def test_args_that_leave_out_a_buffer_are_refused(tmp_path: Path) -> None:
    text = BASE + ARGS.replace('b = { in = "f32[n]" }\n', "")
    assert "the buffer `b`" in one_mistake(tmp_path, text).what


def test_scalar_of_one_workload_that_a_size_uses_is_needed_in_all(tmp_path: Path) -> None:
    text = BASE + ARGS.replace("f32[n]", "f32[n*times]").replace("n = 64", "n = 64\ntimes = 2")
    assert read(tmp_path, text).families[0].workloads[0].scalars == (("n", 64), ("times", 2))
    mistake = one_mistake(tmp_path, text + "[family.dot.workload.l2]\nn = 3\n")
    assert (mistake.key, mistake.what) == ("family.dot.workload.l2", "no value for the scalar `times`")


def test_family_without_workload_and_several_integers_is_refused(tmp_path: Path) -> None:
    text = BASE.replace("size_t n)", "int n, int m)") + ARGS.split("[family.dot.workload")[0]
    assert "no workload says" in one_mistake(tmp_path, text).what


def test_all_mistakes_come_at_once_in_the_order_of_the_text(tmp_path: Path) -> None:
    text = BASE.replace('name = "p"', 'name = "p"\ncolour = 1').replace("[1, 2, 4]", '[1, "a b"]')
    text = (
        text.replace("[family.dot.grid", 'pin = "u9"\nfallback = "u8"\n[family.dot.grid')
        + "[scope.s]\ntuner = 3\n"
    )
    found = mistakes(tmp_path, text)
    assert [m.key for m in found] == [
        "project.colour", "family.dot.pin", "family.dot.fallback", "family.dot.grid.axes.u[1]", "scope.s.tuner",
    ]  # fmt: skip
    assert [(m.line, m.column) for m in found] == [(3, 1), (6, 1), (7, 1), (9, 9), (11, 1)]
    with pytest.raises(ConfigError) as caught:
        manifest.read(tmp_path)
    assert caught.value.what == "5 mistakes"
    assert re.search(r"tune.toml:3:1: project.colour: no key is named `colour` here", str(caught.value))


PINNED = "[module.p]\nconstants = { V = 1 }\n[module.q]\nconstants = { V = 2 }\n"


def test_version_key_that_the_sidecar_keeps_of_its_own_is_refused(tmp_path: Path) -> None:
    text = BASE + PINNED + '[scope.s]\nmodule = "p"\nversion_of = "p/V"\nversion_key = "box"\n'
    mistake = one_mistake(tmp_path, text)
    assert (mistake.key, mistake.fix) == ("scope.s.version_key", 'write version_key = "s_version"')
    assert one_mistake(tmp_path, text.replace('"box"', '"noise_probes"')).key == "scope.s.version_key"


def test_two_scopes_do_not_record_different_versions_under_one_key(tmp_path: Path) -> None:
    text = (
        BASE
        + PINNED
        + '[scope.s]\nmodule = "p"\nversion_of = "p/V"\n[scope.t]\nmodule = "q"\nversion_of = "q/V"\n'
    )
    mistake = one_mistake(tmp_path, text)
    assert mistake.key == "scope.t.version_of" and "the scope `s` records another version" in mistake.what
    assert mistake.fix == 'write version_key = "t_version"'
    assert read(tmp_path, text + 'version_key = "t_version"\n').scopes[1].version_key == "t_version"


def test_rows_and_chain_are_checked_where_the_prototype_cannot_be_read(tmp_path: Path) -> None:
    text = BASE.replace("size_t n)", "size_t n").replace("[1, 2, 4]", '[1, 2, 4]\nisa = ["avx3"]')
    text = text.replace("[family.dot.grid", 'fallback = "u8"\n[family.dot.grid')
    assert [mistake.key for mistake in mistakes(tmp_path, text)] == [
        "family.dot.prototype", "family.dot.fallback", "family.dot.grid.axes.isa[0]",
    ]  # fmt: skip


def test_wrong_type_is_answered_with_the_value_in_the_right_one(tmp_path: Path) -> None:
    found = mistakes(tmp_path, BASE + '[build]\ncflags = "-O3 -std=c17"\n')
    assert [mistake.fix for mistake in found] == ['write ["-O3", "-std=c17"]']
    found = mistakes(tmp_path, BASE + ARGS.replace("n = 64", 'n = "64"'))
    assert [mistake.fix for mistake in found] == ["write 64"]


def test_mistakes_of_a_used_project_name_its_file(tmp_path: Path) -> None:
    for name in ("root", "lib"):
        (tmp_path / name).mkdir()
    write(tmp_path / "lib", BASE.replace('"p"', '"lib"') + "[oops]\n")
    found = mistakes(tmp_path / "root", BASE + '[use.lib]\npath = "../lib"\n[oops]\n')
    assert [(Path(m.file).parent.name, m.key) for m in found] == [
        ("root", "oops"), ("lib", "oops"), ("lib", "family.dot"),
    ] or [(Path(m.file).parent.name, m.key) for m in found] == [
        ("root", "oops"), ("lib", "family.dot"), ("lib", "oops"),
    ]  # fmt: skip
    assert any("two projects have a family `dot`" in m.what for m in found)


def test_names_of_joined_projects_must_differ(tmp_path: Path) -> None:
    for name in ("root", "lib"):
        (tmp_path / name).mkdir()
    write(tmp_path / "lib", '[project]\nname = "lib"\n[module.p]\n[scope.s]\nmodule = "p"\n')
    found = mistakes(tmp_path / "root", BASE + '[use.lib]\npath = "../lib"\n[scope.s]\n')
    words = " / ".join(mistake.what for mistake in found)
    assert "the module `p` belongs to the project `p` already" in words
    assert "two projects have a scope `s`" in words


def test_uses_in_a_circle_are_refused(tmp_path: Path) -> None:
    for name, other in (("a", "b"), ("b", "c"), ("c", "a")):
        (tmp_path / name).mkdir()
        write(tmp_path / name, f'[project]\nname = "{name}"\n[use.o]\npath = "../{other}"\n')
    write(tmp_path / "a", BASE.replace('"p"', '"a"') + '[use.o]\npath = "../b"\n')
    with pytest.raises(ConfigError, match=r"use\.o\.path: `\.\./a` uses this project in turn") as caught:
        manifest.read(tmp_path / "a")
    assert caught.value.what == "1 mistake"


def test_companion_names_are_global_and_its_files_exist(tmp_path: Path) -> None:
    text = BASE + '[family.dot.companion.dot]\nprototype = "int dot(int n)"\n'
    found = mistakes(tmp_path, text, (*FILES, "dot/dot.c", "dot/dot.c.j2"))
    assert "`dot` is the family `dot` already" in found[0].what
    text = BASE + '[family.dot.companion.pack]\nprototype = "int pack(int n)"\n'
    assert ["dot/pack.c.j2" in m.what or "dot/pack.c" in m.what for m in mistakes(tmp_path, text)] == [
        True,
        True,
    ]


def test_own_seat_needs_its_own_calls(tmp_path: Path) -> None:
    text = (
        BASE
        + '[family.dot.companion.v]\nprototype = "int v(const float *x, int m, int n)"\nown_seat = true\n'
    )
    words = " / ".join(m.what for m in mistakes(tmp_path, text, (*FILES, "dot/v.c", "dot/v.c.j2")))
    assert "the buffer `x`" in words and "no workload" in words


def test_registry_of_a_family_cannot_be_a_family(tmp_path: Path) -> None:
    text = BASE + BASE.split("\n", 2)[2].replace("dot", "dot_variants")
    files = (*FILES, "dot_variants/reference.c", "dot_variants/kernel.c.j2")
    assert "is the registry of the family `dot`" in one_mistake(tmp_path, text, files).what


def test_reference_cannot_be_a_declared_policy(tmp_path: Path) -> None:
    (tmp_path / "m.c").write_text("")
    text = BASE + '[app.x]\nsources = ["m.c"]\npolicy = "reference"\n'
    mistake = one_mistake(tmp_path, text)
    assert (mistake.key, mistake.what) == ("app.x.policy", "`reference` is none of its words")
    assert mistake.fix == "write one of fallback, warn, error, auto, restart"


def test_link_that_leads_out_of_the_project_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "secret.c").write_text("")
    write(root, BASE)
    (root / "kernels/templates/dot/link.c").symlink_to(tmp_path / "secret.c")
    (root / "kernels/templates/out").symlink_to(tmp_path)
    for reference in ("dot/link.c", "out/secret.c"):
        text = BASE.replace("[family.dot.grid", f'reference = "{reference}"\n[family.dot.grid')
        assert "leads out of the project's folder" in one_mistake(root, text).what


def test_absent_file_says_how_to_begin(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no tune\.toml") as caught:
        manifest.read(tmp_path)
    assert "tunebuild init" in caught.value.fix and caught.value.exit_code == 2


def test_manifest_is_frozen(tmp_path: Path) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        read(tmp_path).families[0].name = "x"  # type: ignore[misc]

"""A used library's profile, from both sides: its own root, where it is exported, and the root that joins it.

The library brings its flags, its headers and its version along, so what was measured there is what the other root
builds; and a scope beside it that declares no `defaults` is asked for, answered and exported as if there were none.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import step_family
from conftest import Project

from tunebuild import generate, host, record, sidecar
from tunebuild.generate import Generated
from tunebuild.profiles import box_class, file_name
from tunebuild.upsert import Change

pytestmark = pytest.mark.cc

LIBRARY = """
[project]
name = "mathlib"
[build]
cflags = ["-O2", "-std=c17"]
include = ["include"]
templates = "templates"
[module.vec]
constants = { VEC_VERSION = 4 }
[scope.mathlib]
module = "vec"
version_of = "vec/VEC_VERSION"
defaults = "profiles"
""" + step_family.table("scale", "vec")
APP = """
[project]
name = "tool"
[build]
cflags = ["-O1", "-std=c17"]
[use.mathlib]
path = "../mathlib"
[scope.own]
module = "mine"
[app.demo]
kind = "exe"
sources = ["demo.c"]
""" + step_family.table("shift", "mine")
MAIN = """#include "demo.h"
int main(void)
{
    float x[3] = {1, 2, 3};
    scale(x, 3);
    shift(x, 3);
    demo_log_tune_status(stdout, "demo");
    return 0;
}
"""


@pytest.fixture
def roots(tmp_path: Path) -> tuple[Project, Project]:
    """The library's root, and the one of an app that uses it."""
    home = tmp_path / "home"
    home.mkdir()
    library, app = (Project(tmp_path / name, home, home / "cache") for name in ("mathlib", "tool"))
    library.write("include/step.h", "#define STEP(x) ((x) * 2.0f)\n")
    library.write("tune.toml", LIBRARY)
    app.write("tune.toml", APP)
    app.write("demo.c", "#include <stdio.h>\n" + MAIN)
    for project, folder, name, head in (
        (library, "templates", "scale", '#include "step.h"'),
        (app, "kernels/templates", "shift", "#define STEP(x) ((x) + 1.0f)"),
    ):
        for file, content in step_family.files(name, head).items():
            project.write(f"{folder}/{name}/{file}", content)
    return library, app


def read(project: Project) -> Generated:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("TUNEBUILD_")}
    return generate.generate(project.root, environ=environ)


def mint(project: Project, *keys: str, path: Path | None = None) -> Path:
    """Record u2 for these seats, as a mint of the tree at hand would."""
    made = read(project)
    pins = record.pins(made.manifest)
    change = Change(
        kernels=dict.fromkeys(keys, "u2"),
        race={key: {"winner": "u2", "rows": {"u1": {"med_us": 2.0}, "u2": {"med_us": 1.0}}} for key in keys},
        built={key: made.built[key] for key in keys},
        notes=dict(pins[key] for key in keys if key in pins),
    )
    target = path or project.root / f"{made.manifest.apps[0].name}.tune.json"
    sidecar.save(target, change, box=made.box, built_now=made.built, pins=pins)
    return target


def scopes(project: Project, *words: str) -> dict[str, str]:
    answer = json.loads(project.run("status", "--json", *words).stdout.splitlines()[-1])
    return {one["scope"]: one["detail"] for one in answer["scopes"]}


def test_winner_exported_in_the_librarys_root_covers_its_scope_in_the_root_that_uses_it(
    roots: tuple[Project, Project],
) -> None:
    library, app = roots
    cpu_class = box_class(host.box({}))
    mint(library, "scale")
    library.run("profile", "export")
    shipped = library.root / "profiles" / file_name(cpu_class)
    assert read(library).built["scale"] == read(app).built["scale"], "the same code, wherever it is built"
    stamps = {one.key: (one.suffix, one.source, one.path) for one in read(app).stamps["demo"].seats}
    assert stamps == {"scale": ("u2", "profile", str(shipped)), "shift": ("u1", "fallback", "")}
    assert scopes(app, "--app", "demo")["mathlib"].startswith(f"covered by the {cpu_class} profile")
    listed = app.run("profile", "list", "--app", "demo").stdout
    assert "answers here" in listed and "scope own: no profile shipped" in listed
    fleet = json.loads(app.run("status", "--fleet", str(app.root), "--json").stdout.splitlines()[-1])
    states = {one["family"]: one["state"] for one in fleet["families"] if one["class"] == cpu_class}
    assert states == {"scale": "covered", "shift": "uncovered"}
    wanted = [(one["scope"], one["families"]) for one in fleet["remint"]]
    assert wanted == [("own", ["shift"]), ("mathlib", ["scale"])], "no box has gated what the profile names"
    library.edit("tune.toml", "VEC_VERSION = 4", "VEC_VERSION = 5")
    detail = scopes(app, "--app", "demo")["mathlib"]
    assert f"{shipped} is passed over: it has vec_version 4, this tree has 5" in detail


def test_export_in_the_root_that_uses_it_writes_the_librarys_file_and_nothing_of_the_other_scope(
    roots: tuple[Project, Project],
) -> None:
    library, app = roots
    mint(app, "scale", "shift")
    said = app.run("profile", "export").stdout
    shipped = library.root / "profiles" / file_name(box_class(host.box({})))
    assert str(shipped) in said and not (app.root / "profiles").exists()
    written = json.loads(shipped.read_text())
    assert written["kernels"] == {"scale": "u2"} and written["provenance"]["vec_version"] == "4"
    assert {one.key: one.source for one in read(library).stamps["mathlib"].seats} == {"scale": "profile"}
    refused = app.run("profile", "export", "--scope", "own", code=2)
    assert "scope own of app tool has no folder of profiles" in refused.stderr


def test_start_of_a_program_adopts_nothing_for_a_covered_library_and_races_the_scope_without_profiles(
    roots: tuple[Project, Project],
) -> None:
    library, app = roots
    mint(library, "scale")
    library.run("profile", "export")
    app.run("build")
    done = app.run("mint", "--app", "demo", "--dry-run", "--stale")
    assert done.stdout.splitlines() == ["shift", "scale"], (
        "a mint by hand measures what a profile answers too"
    )
    mint(app, "shift", path=app.root / "demo.tune.json")
    app.run("build")
    shown = app.run("run", "demo")
    assert "scale: u2 (profile)" in shown.stdout and "shift: u2 (manifest)" in shown.stdout
    assert "scope mathlib is covered by" in shown.stderr and "tuning scope" not in shown.stderr

"""A project of two scopes with one sidecar and one folder of profiles between them, each with a version of its own."""

from __future__ import annotations

import json
import os
from pathlib import Path

import step_family
from conftest import Project

from tunebuild import generate, host, record, sidecar
from tunebuild.document import Json
from tunebuild.features import fingerprint
from tunebuild.generate import Generated
from tunebuild.policy import ScopeState
from tunebuild.profiles import box_class, file_name
from tunebuild.upsert import Change

TOML = """
[project]
name = "p"
[build]
cflags = ["-O1", "-std=c17"]
[module.versions]
constants = { ONE_VERSION = 1, TWO_VERSION = 1 }
[module.one]
[module.two]
[scope.one]
module = "one"
version_of = "versions/ONE_VERSION"
defaults = "profiles"
[scope.two]
module = "two"
version_of = "versions/TWO_VERSION"
defaults = "profiles"
"""
MEASURED = {"add": ("u2", "manifest"), "mul": ("u2", "manifest")}
SHIPPED = {"add": ("u2", "profile"), "mul": ("u2", "profile")}
FALLEN = {"add": ("u1", "fallback"), "mul": ("u1", "fallback")}


def made_in(folder: Path) -> Project:
    """The project, without a sidecar and without a profile. Nothing that a family is made of says its version."""
    root, home = folder / "pair", folder / "home"
    home.mkdir()
    made = Project(root, home, home / "cache")
    text = TOML
    for name, module, step in (("add", "one", "x + 1.0f"), ("mul", "two", "x * 2.0f")):
        text += step_family.table(name, module)
        for file, content in step_family.files(name, f"#define STEP(x) ({step})").items():
            made.write(f"kernels/templates/{name}/{file}", content)
    made.write("tune.toml", text)
    return made


def environ() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("TUNEBUILD_")}


def read(project: Project) -> Generated:
    return generate.generate(project.root, environ=environ())


def stamped(project: Project) -> dict[str, tuple[str, str]]:
    return {stamp.key: (stamp.suffix, stamp.source) for stamp in read(project).stamps["p"].seats}


def states(project: Project) -> dict[str, ScopeState]:
    return {state.scope.name: state for state in read(project).states["p"]}


def mint(project: Project, *keys: str) -> None:
    """Record u2 for these seats, with the versions of their scopes, as a mint of the tree at hand would."""
    made = read(project)
    pins = record.pins(made.manifest)
    change = Change(
        kernels=dict.fromkeys(keys, "u2"),
        race={key: {"winner": "u2"} for key in keys},
        built={key: made.built[key] for key in keys},
        notes=dict(pins[key] for key in keys),
    )
    path = project.root / "p.tune.json"
    sidecar.save(path, change, box=made.box, built_now=made.built, pins=pins)


def own_class() -> str:
    return box_class(host.box(environ()))


def ship(project: Project, cpu_class: str = "", *, winner: str = "u2", **notes: Json) -> Path:
    """A profile of this box's class, or another, that names one row for both families."""
    path = project.root / "profiles" / file_name(cpu_class or own_class())
    path.parent.mkdir(exist_ok=True)
    said = {"features": fingerprint(host.box(environ()).features), **notes}
    path.write_text(json.dumps({"kernels": {"add": winner, "mul": winner}, "provenance": said}))
    return path

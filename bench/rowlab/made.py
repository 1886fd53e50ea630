"""A row from its template: chosen, changed, rendered, compiled."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tunebuild import errors, features, host, manifest, plan, render
from tunebuild.model import Family, Row, Value


def family_of(project: Path, name: str) -> Family:
    """The family of that name, or that of a companion."""
    try:
        families = manifest.read(project).families
    except errors.UsageError as error:
        raise SystemExit(str(error)) from None
    for family in families:
        if family.template and name in (family.name, *(each.name for each in family.companions)):
            return family
    raise SystemExit(f"{name} is no family with a template")


def row_that_runs(family: Family, suffix: str = "") -> Row:
    """``suffix``, or the first row of the family's chain that this machine can run."""
    have = features.believed(host.box())
    wanted = [suffix] if suffix else [entry.suffix for entry in family.fallback]
    runs = {row.suffix: row for row in family.rows if features.requires_ok(row.requires, have)}
    if not (found := [runs[name] for name in wanted if name in runs]):
        raise SystemExit(f"{family.name} has no row {' or '.join(wanted)} that runs here")
    return found[0]


def changed(row: Row, values: Mapping[str, str]) -> Row:
    """The row with other values. ``toolchain`` is no axis of a template; gcc stands for the default one."""
    typed = {name: typed_value(value) for name, value in values.items() if name != "toolchain"}
    toolchain = values.get("toolchain", row.toolchain)
    return replace(
        row,
        values=tuple({**dict(row.values), **typed}.items()),
        toolchain="" if toolchain == "gcc" else toolchain,
    )


def typed_value(text: str) -> Value:
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.isdigit() else text


def texts(family: Family, row: Row, folder: Path) -> list[Path]:
    """The C of the family's function and its companions', under their own names."""
    folder.mkdir(parents=True, exist_ok=True)
    own = [(family.function, family.template), *((c.function, c.template) for c in family.companions)]
    made = []
    for function, template in own:
        if template is None:
            continue
        text = render.render_row(
            family.project.templates, template, family.name, function, function.name, row
        )
        if not isinstance(text, str):
            raise SystemExit(str(text))
        made.append(folder / f"{function.name}.c")
        made[-1].write_text(text)
    return made


def compiler(family: Family, row: Row) -> list[str]:
    """The start of a command line: the row's compiler with all of its flags."""
    project = family.project
    own = next((each for each in project.toolchains if each.name == row.toolchain), None)
    words = [own.cc if own else "gcc", *project.cflags, *(own.cflags if own else ())]
    return [
        *words,
        "-fPIC",
        "-falign-functions=64",
        *(f"-I{path}" for path in project.include),
        *plan.row_flags(family, row),
    ]


def library(family: Family, row: Row, folder: Path) -> Path:
    made = folder / "row.so"
    words = [*compiler(family, row), "-shared", *map(str, texts(family, row, folder)), "-o", str(made), "-lm"]
    subprocess.run(words, check=True)
    return made


def compiled(family: Family, row: Row, folder: Path) -> Path:
    """The object of the family's own function."""
    text = texts(family, row, folder)[0]
    made = text.with_suffix(".o")
    subprocess.run([*compiler(family, row), "-c", str(text), "-o", str(made)], check=True)
    return made

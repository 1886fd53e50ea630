"""The schema and the reference page equal the committed files, and say of a file what the reader says."""

from __future__ import annotations

import json
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from toml_project import read

from tunebuild import schema
from tunebuild.records import spelling
from tunebuild.tables import FamilyTable

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("file", "text"), [(schema.SCHEMA_FILE, schema.schema_text()), (schema.PAGE_FILE, schema.page())]
)
def test_committed_file_equals_what_the_tables_say(file: str, text: str) -> None:
    assert (ROOT / file).read_text() == text, "run python -m tunebuild.schema"


def problems(rule: dict[str, Any], value: Any, path: str = "") -> list[str]:
    """As much of JSON Schema as the generated document uses."""
    if "$ref" in rule:
        rule = SCHEMA["definitions"][rule["$ref"].rpartition("/")[2]]
    if "allOf" in rule:
        return problems(rule["allOf"][0], value, path)
    if "anyOf" in rule:
        return [] if any(not problems(one, value, path) for one in rule["anyOf"]) else [path]
    if "enum" in rule:
        return [] if value in rule["enum"] else [path]
    kinds: dict[str, Any] = {
        "string": str,
        "boolean": bool,
        "integer": int,
        "number": (int, float),
        "array": list,
        "object": dict,
    }
    names = rule["type"] if isinstance(rule["type"], list) else [rule["type"]]
    if not any(isinstance(value, kinds[name]) for name in names):
        return [path]
    found = [f"{path}.{name} missing" for name in rule.get("required", ()) if name not in value]
    if isinstance(value, list) and "items" in rule:
        return [
            one
            for index, item in enumerate(value)
            for one in problems(rule["items"], item, f"{path}[{index}]")
        ]
    for name, inner in value.items() if isinstance(value, dict) else ():
        known = rule["properties"].get(name) if "properties" in rule else None
        known = known or rule["additionalProperties"]
        found += problems(known, inner, f"{path}.{name}") if known else [f"{path}.{name}"]
    return found


SCHEMA: dict[str, Any] = json.loads(schema.schema_text())


def test_complete_example_fulfils_the_schema() -> None:
    document = tomllib.loads((ROOT / "tests/data/complete/tune.toml").read_text())
    assert problems(SCHEMA, document) == []
    assert problems(SCHEMA, tomllib.loads((ROOT / "tune.toml").read_text())) == []


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("", ".project missing"),
        ("[project]\nname = 3", ".project.name"),
        ("[project]\nname = 'p'\n[familly.x]", ".familly"),
        ("[project]\nname = 'p'\n[family.x]", ".family.x.prototype missing"),
        ("[project]\nname = 'p'\n[app.x]\nkind = 'dll'", ".app.x.kind"),
        ("[project]\nname = 'p'\n[measure]\nmargin = 3", ".measure.margin"),
    ],
)
def test_schema_refuses_what_the_reader_refuses(text: str, path: str) -> None:
    assert problems(SCHEMA, tomllib.loads(text)) == [path]


def test_page_names_every_key_of_a_family() -> None:
    text = schema.page()
    assert all(f"| `{spelling(entry.name)}` |" in text for entry in fields(FamilyTable))


def test_example_of_calls_on_the_page_reads_cleanly(tmp_path: Path) -> None:
    files = [f"scale/{name}" for name in ("reference.c", "kernel.c.j2", "scale_pack.c", "scale_pack.c.j2")]
    (family,) = read(tmp_path, '[project]\nname = "p"\n' + schema.CALLS_EXAMPLE, tuple(files)).families
    assert [argument.name for argument in family.args] == ["w", "y", "m", "k", "w0"]
    assert family.prepare[0].arguments == ("w0", "w", "m", "k")
    assert schema.CALLS_EXAMPLE in schema.page()

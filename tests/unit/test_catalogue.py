"""What the catalogue promises of every family: notes, special values, templates that fit the eye."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tunebuild import manifest
from tunebuild.model import Check, Family

ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = ROOT / "kernels/templates"
FAMILIES = manifest.read(ROOT).families
TWO_SCREENS = 110
WHY = "- No special values in the gate: "


def home(family: Family) -> Path:
    return family.reference.parent


def checks(family: Family) -> list[Check]:
    found = [family.check, *(each.check for each in family.companions)]
    return [check for check in found if check is not None]


def reason(notes: str) -> str:
    """Why the gate of a family has no nan, inf, denormal and -0, as its notes say it; "" where they do not."""
    return notes.partition(WHY)[2].partition("\n- ")[0].strip()


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_gate_tries_special_values_or_the_notes_say_why_not(family: Family) -> None:
    tried = all("special" in check.fills for check in checks(family))
    said = reason((home(family) / "NOTES.md").read_text())
    assert bool(said) != tried, (
        f"{family.name}: fills {'with' if tried else 'without'} special, reason {said!r}"
    )
    assert tried or len(said.split()) >= 5


def test_reason_ends_where_the_next_note_begins() -> None:
    assert reason(f"# f\n\n- Fast.\n{WHY}integers\n  have none.\n- More.\n") == "integers\n  have none."


def labelled(notes: str, label: str) -> str:
    """What the notes say under a label, to the next note; "" where they have no such label."""
    return notes.partition(f"\n- {label}: ")[2].partition("\n- ")[0]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_notes_name_each_axis_the_roof_the_error_and_where_ideas_come_from(family: Family) -> None:
    notes = (home(family) / "NOTES.md").read_text()
    names = {"isa": "instruction set", "toolchain": "compiler", "vec": "vector width", "unroll": "unroll"}
    axes = {names.get(name, f"`{name}`") for row in family.rows for name, _ in row.values}
    assert {name for name in axes if name not in labelled(notes, "Axes").replace("\n  ", " ")} == set()
    assert f"bench/accuracy.py --family {family.name}" in labelled(notes, "Error").replace("\n  ", " ")
    for label in ("Roof", "Ideas"):
        assert len(labelled(notes, label).split()) >= 3, label


def parts(template: Path) -> list[Path]:
    """The parts of its own folder that a template includes or imports."""
    found = re.findall(r'{% (?:include|from) "([^_][^"]*)"', template.read_text())
    return [TEMPLATES / name for name in found]


def read_for_one_row(template: Path) -> int:
    """Lines of a template with all that it imports and the longest part that it includes: parts exclude each other."""
    text = template.read_text()
    own = text.count("\n")
    imported = [part for part in parts(template) if f'from "{part.relative_to(TEMPLATES)}"' in text]
    included = [part for part in parts(template) if part not in imported]
    return own + sum(map(read_for_one_row, imported)) + max(map(read_for_one_row, included), default=0)


@pytest.mark.parametrize(
    "template",
    [path for path in sorted(TEMPLATES.rglob("*.j2")) if path.name[0] != "_"],
    ids=lambda path: f"{path.parent.name}-{path.name.partition('.')[0]}",
)
def test_template_with_the_parts_that_make_a_row_fits_on_two_screens(template: Path) -> None:
    assert read_for_one_row(template) <= TWO_SCREENS

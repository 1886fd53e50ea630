"""The class profiles that this repository ships fit its own tune.toml."""

from __future__ import annotations

from pathlib import Path

import pytest

from tunebuild import manifest, profiles
from tunebuild.model import REFERENCE

ROOT = Path(__file__).parents[2]
SHIPPED = sorted((ROOT / "profiles").glob("*.tune-defaults.json"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_shipped_profile_names_rows_of_the_grid_and_the_version_of_the_tree(path: Path) -> None:
    cpu_class = path.name.removesuffix(profiles.SUFFIX)
    found = profiles.parse(str(path), cpu_class, path.read_bytes())
    assert isinstance(found, profiles.Profile)
    tree = manifest.read(ROOT)
    rows = {
        key: {row.suffix for row in family.rows}
        for family in tree.families
        for key in (*(seat.key for seat in family.seats), *(c.name for c in family.companions if c.own_seat))
    }
    assert found.kernels
    for key, suffix in found.kernels.items():
        assert suffix == REFERENCE or suffix in rows[key], f"{key}: {suffix}"
    for scope in tree.scopes:
        assert profiles.pin_text(found.provenance.get(scope.version_key)) == scope.version
    assert found.provenance["class"] == cpu_class
    assert "engine_sha" not in found.provenance and "box" not in found.provenance
    assert found.provenance["features"]

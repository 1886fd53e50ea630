"""Profiles from someone who wishes us ill: what is stamped is a row of the grid, what is printed steers no terminal."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from small_manifest import AVX2_BOX, family, manifest

from tunebuild import profiles, report_classes
from tunebuild.profiles import Profile
from tunebuild.resolve import Here, resolve

TREE = manifest(family("f"), family("g", seats=("small", "large")))
WORDS = st.sampled_from(
    ["f", "g.small", "g.large", "a", "b", "reference", "class", "arch", "features", "loss_pct", "boxes", "",
     "x86-avx2", "x86-base", "../../a", "\x1b[31m", "avx2;fma", "|||", "é", "\ud800"]
)  # fmt: skip
LEAVES = st.none() | st.booleans() | st.integers() | st.just(10**400) | st.floats() | WORDS
VALUES = st.recursive(
    LEAVES, lambda part: st.lists(part, max_size=2) | st.dictionaries(WORDS, part, max_size=3), max_leaves=6
)
TABLES = st.dictionaries(WORDS, WORDS | VALUES, max_size=5)
GOOD = {"f": "a", "g.small": "a", "g.large": "b"}
DOCUMENTS = st.fixed_dictionaries(
    {"kernels": TABLES.map(lambda table: {**GOOD, **table}) | VALUES},
    optional={"provenance": TABLES, "bounds": TABLES, "built": TABLES, "format": VALUES},
)


@given(DOCUMENTS)
@settings(max_examples=300, deadline=None)
def test_no_profile_stamps_what_is_no_row_or_prints_what_steers_a_terminal(document: object) -> None:
    scope, here = TREE.scopes[0], Here.of(AVX2_BOX)
    data = json.dumps(document).encode()
    chosen = (profiles.choose(scope, (("x86-avx2", Path("p"), data),)),)
    stamps = resolve(TREE, TREE.apps[0], profiles=profiles.sources(TREE, chosen), here=here)
    assert {stamp.suffix for stamp in stamps.seats} <= {"a", "reference"}, "this box cannot run b"
    adopted = profiles.adoption(TREE, scope, chosen, here, {})
    assert all(row in ("a", "reference") for _, row in adopted.entries)
    read = profiles.parse("p", "x86-avx2", data)
    text = report_classes.profiles_text({scope.name: [read]}, chosen)
    text += report_classes.profile_text(read) if isinstance(read, Profile) else read.line
    assert "\x1b" not in text
    json.dumps(report_classes.profiles_json({scope.name: [read]}, chosen))

"""The schema of shared sidecars, and that our checker says what a full validator says."""

from __future__ import annotations

import copy
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tunebuild.shared_schema import SCHEMA, problems

BOX = "linux|x86_64||6.8.0|AMD EPYC"
MINIMAL: dict[str, Any] = {
    "kernels": {"dot_f32": "isa_avx2_u4"},
    "runtime": {"budget": 65536, "tensor": "auto"},
    "provenance": {
        "box": BOX,
        "kernels_version": "3",
        "noise_probes": "start cv 0.40%; end cv 3.09% settled to 1.12%",
    },
}
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def changed(*path: str, value: Any) -> dict[str, Any]:
    root = copy.deepcopy(MINIMAL)
    place: Any = root
    for key in path[:-1]:
        place = place.setdefault(key, {})
    place[path[-1]] = value
    return root


def agreed(document: Any) -> bool:
    """Valid by our checker; asserts that the full validator agrees."""
    ours = problems(document)
    assert (not ours) is VALIDATOR.is_valid(document), ours
    return not ours


GOOD_RACE = {
    "winner": "u4",
    "demoted": "u8",
    "margin_pct": 4.5,
    "rejected": "u1; u2",
    "rows": {"u4": {"med_us": 1.5}},
}


@pytest.mark.parametrize(
    "document",
    [
        MINIMAL,
        changed("race", "dot_f32", value=GOOD_RACE),
        changed("provenance", "box", value="darwin|aarch64|||M4"),  # blank model id and build
        changed("built", "dot_f32", value={"source": "ab", "headers": {"vec.h": "cd"}}),
        changed("kernels", "gemm.decode", value="reference"),
    ],
)
def test_document_of_a_mint_is_valid(document: Any) -> None:
    assert agreed(document)


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ({}, "the document lacks kernels"),
        ([], "the document is not of type object"),
        (changed("extra", value={}), "'extra' is no section"),
        (changed("kernels", "dot_f32", value=3), "kernels.dot_f32 is not of type string"),
        (changed("kernels", "dot_f32", value=""), "which is not allowed there"),
        (changed("kernels", "../etc", value="u4"), "'kernels.../etc' is no name"),
        (changed("kernels", value={}), "kernels is empty"),
        (changed("kernels", value={f"f{n}": "a" for n in range(513)}), "more than 512"),
        (changed("runtime", "budget", value={"l2": 1}), "runtime.budget is not of type string or number"),
        (changed("runtime", "budget", value=True), "runtime.budget is not of type string or number"),
        (changed("provenance", "box", value="linux|x86_64|6.8|A"), "provenance.box holds"),
        (changed("provenance", "box", value="linux|x86_64||6.8|"), "provenance.box holds"),
        (changed("provenance", "box", value="a|b|c|d|e|f"), "provenance.box holds"),
        (changed("provenance", "note", value="<script>"), "provenance.note holds '<script>'"),
        (changed("provenance", "note", value="u4 -> u8"), "provenance.note holds"),
        (changed("provenance", "note", value="line\n"), "provenance.note holds"),
        (changed("provenance", "note", value="é"), "provenance.note holds"),
        (changed("provenance", "list", value=[1]), "provenance.list is not of type string or number"),
        (
            changed("race", "dot_f32", value={**GOOD_RACE, "margin_pct": "4"}),
            "race.dot_f32.margin_pct is not of type",
        ),
        (
            changed("race", "dot_f32", value={**GOOD_RACE, "held_by": "<b>"}),
            "'race.dot_f32.held_by' is no section",
        ),
        (
            changed("race", "dot_f32", value={"rows": {"u4": {"why": "<b>"}}}),
            "rows.u4.why is not of type number",
        ),
        (changed("race", "dot_f32", value={**GOOD_RACE, "demoted": "u 8"}), "race.dot_f32.demoted holds"),
        (
            changed("race", "dot_f32", value={"rows": {f"u{n}": {} for n in range(129)}}),
            "race.dot_f32.rows has 129 entries, more than 128",
        ),
    ],
)
def test_document_that_could_harm_is_refused_with_its_place(document: Any, why: str) -> None:
    assert not agreed(document)
    assert any(why in problem for problem in problems(document))


LEAF = (
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.sampled_from(["", "u4", BOX, "<", "é", "a\n", "x" * 70])
)
JSON = st.recursive(
    LEAF,
    lambda inner: st.dictionaries(
        st.sampled_from(["winner", "rows", "box", "a b", "margin_pct"]), inner, max_size=3
    ),
    max_leaves=6,
)
SECTIONS = st.sampled_from(["kernels", "runtime", "race", "provenance", "built", "other"])


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(
        SECTIONS, st.dictionaries(st.sampled_from(["f", "box", "a b"]), JSON, max_size=3), max_size=4
    )
)
def test_checker_agrees_with_a_full_validator_on_anything(document: Any) -> None:
    agreed(document)

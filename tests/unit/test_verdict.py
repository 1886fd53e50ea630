"""Verdicts: the closed vocabulary, its order, and a detail that lets one act."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunebuild.document import Built, Document, Unreadable
from tunebuild.features import FEATURES
from tunebuild.model import Box, Verdict
from tunebuild.verdict import (
    Demand,
    Found,
    changes,
    demand_text,
    fresh_entries,
    parse_demand,
    unsatisfied,
    verdict,
    whole_file,
)

BOX = Box("linux|x86_64||6.8.0-45-generic|AMD EPYC", "x86_64", frozenset({"avx2", "fma"}))
HERE = "linux|x86_64||6.8.12|amd epyc"
THERE = "linux|x86_64||6.8.0|Intel Xeon"
TREE: dict[str, Built] = {
    key: {
        "source": f"s-{key}",
        "headers": {"vec.h": "h1", "tb.h": "h2"},
        "flags": "f1",
        "compiler": "gcc 12.2.0 c1",
        "workload": "w1",
        "protocol": "1 p1",
    }
    for key in ("dot", "axpy", "gemm.decode")
}
FULL = Document(
    kernels={"dot": "u4", "axpy": "reference", "gemm.decode": "mr8"},
    provenance={"box": HERE, "kernels_version": "3", "features": "avx2;fma", "features_known": len(FEATURES)},
    built=TREE,
    mtime_s=1_700_000_000,
)
DEMAND = Demand(("dot", "axpy", "gemm.decode"), (("kernels_version", "3"),))


def judge(found: Found, demand: Demand = DEMAND, **more: Any) -> Verdict:
    facts: dict[str, Any] = {"box": BOX, "path": "p.tune.json", "built_now": TREE, **more}
    return verdict(found, demand, **facts)


def tree(key: str, **inputs: Any) -> dict[str, Built]:
    return {**TREE, key: {**TREE[key], **inputs}}


def with_notes(**notes: Any) -> Document:
    return replace(FULL, provenance={**FULL.provenance, **notes})


def test_file_with_every_demanded_key_is_complete() -> None:
    assert judge(FULL) == Verdict("none")


def test_absent_file_is_absent_with_its_path() -> None:
    found = judge(None)
    assert (found.reason, found.detail, found.missing) == ("absent", "p.tune.json", DEMAND.keys)


def test_empty_demand_is_complete_whatever_the_file() -> None:
    for found in (None, Unreadable("x"), FULL, Document()):
        assert judge(found, Demand()).complete


def test_unparsable_file_is_unreadable_with_the_reason() -> None:
    found = judge(Unreadable("not JSON at line 1"))
    assert (found.reason, found.detail) == ("unreadable", "p.tune.json: not JSON at line 1")


def test_file_that_names_no_box_is_unreadable() -> None:
    assert judge(replace(FULL, provenance={})).reason == "unreadable"


def test_file_of_another_box_is_foreign_with_both_identities() -> None:
    found = judge(with_notes(box=THERE))
    assert found.reason == "foreign_box"
    assert THERE in found.detail
    assert BOX.identity in found.detail


def test_applied_box_speaks_for_a_foreign_measurement() -> None:
    assert judge(with_notes(box=THERE, applied_box=BOX.identity, features="avx512f")).complete


def test_other_features_are_foreign_and_absent_ones_no_verdict() -> None:
    found = judge(with_notes(features="avx2;fma;avx512f"))
    assert found.reason == "foreign_box"
    assert "without avx512f" in found.detail
    assert "with fma besides" in judge(with_notes(features="avx2")).detail
    assert judge(replace(FULL, provenance={"box": HERE, "kernels_version": "3"})).complete
    assert judge(with_notes(features="")).complete


def test_feature_that_the_recording_table_did_not_know_is_no_difference() -> None:
    newer = Box(BOX.identity, BOX.arch, BOX.features | {"gfni"})
    assert judge(with_notes(features_known=20), box=newer).complete
    assert judge(FULL, box=newer).reason == "foreign_box"
    assert judge(with_notes(features_known=10**9), box=newer).complete  # not believed


def test_forced_features_change_no_verdict() -> None:
    assert judge(FULL, box=replace(BOX, forced=("avx512f",))).complete


def test_missing_key_is_missing_by_name_in_demand_order() -> None:
    found = judge(replace(FULL, kernels={"axpy": "u2"}))
    assert (found.reason, found.detail, found.missing) == (
        "missing",
        "dot;gemm.decode",
        ("dot", "gemm.decode"),
    )


def test_empty_entry_is_present_but_never_stamped() -> None:
    blank = replace(FULL, kernels={**FULL.kernels, "dot": ""})
    assert judge(blank).complete
    assert "dot" not in fresh_entries(blank, box=BOX, built_now=TREE)


@pytest.mark.parametrize("recorded", ["3", 3, 3.0, 3.9])
def test_pin_is_satisfied_by_text_or_number(recorded: str | float) -> None:
    assert judge(with_notes(kernels_version=recorded)).complete


@pytest.mark.parametrize(
    ("notes", "detail"),
    [
        ({"kernels_version": "2"}, "kernels_version: recorded 2, expected 3"),
        ({"kernels_version": True}, "kernels_version: recorded , expected 3"),
    ],
)
def test_broken_pin_names_both_versions(notes: dict[str, Any], detail: str) -> None:
    found = judge(with_notes(**notes))
    assert (found.reason, found.detail) == ("version", detail)


def test_pin_that_was_never_recorded_says_so_and_outranks_missing() -> None:
    found = judge(Document(provenance={"box": HERE}, kernels={}))
    assert (found.reason, found.detail) == ("version", "kernels_version: no such key recorded, expected 3")
    assert found.missing == DEMAND.keys


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"source": "other"}, "dot (source changed)"),
        ({"headers": {"vec.h": "new", "tb.h": "h2"}}, "dot (header vec.h changed)"),
        ({"headers": {"vec.h": "h1"}}, "dot (header tb.h changed)"),
        ({"flags": "f2"}, "dot (flags changed)"),
        ({"compiler": "gcc 13.1 c2"}, "dot (compiler: gcc 12.2.0 c1 -> gcc 13.1 c2 changed)"),
        ({"workload": "w2", "flags": "f2"}, "dot (flags, workload changed)"),
    ],
)
def test_changed_input_stales_its_seat_alone_by_name(inputs: dict[str, Any], words: str) -> None:
    now = tree("dot", **inputs)
    found = judge(FULL, built_now=now)
    assert (found.reason, found.detail, found.stale) == ("stale_binary", words, ("dot",))
    assert fresh_entries(FULL, box=BOX, built_now=now) == {"axpy": "reference", "gemm.decode": "mr8"}


def no_u4(key: str, suffix: str) -> str:
    return "which is no row of this grid" if suffix == "u4" else ""


def test_winner_that_is_no_row_stales_its_seat_alone_by_name() -> None:
    wrong = replace(FULL, kernels={**FULL.kernels, "dot": "u4"})
    found = judge(wrong, built_now=tree("axpy", source="other"), unfit=no_u4)
    assert found.reason == "stale_binary"
    assert found.detail == "dot (names u4, which is no row of this grid); axpy (source changed)"
    assert set(found.stale) == {"dot", "axpy"}
    assert set(fresh_entries(wrong, box=BOX, built_now=TREE, unfit=no_u4)) == {"axpy", "gemm.decode"}


def test_winner_of_another_version_than_its_scope_pins_is_not_stamped_and_others_are() -> None:
    old, pins = with_notes(kernels_version="2"), {"dot": ("kernels_version", "3"), "axpy": ("other", "1")}
    assert fresh_entries(old, box=BOX, built_now=TREE, pins=pins) == {"gemm.decode": "mr8"}
    named = with_notes(other=1)
    assert fresh_entries(named, box=BOX, built_now=TREE, pins=pins) == FULL.kernels


def test_version_outranks_a_stale_seat_which_outranks_missing() -> None:
    now = tree("dot", source="other")
    old = with_notes(kernels_version="2")
    assert judge(old, built_now=now).reason == "version"
    assert judge(old, built_now=now).stale == ("dot",)
    partial = replace(FULL, kernels={"dot": "u4"})
    found = judge(partial, built_now=now)
    assert (found.reason, found.stale, found.missing) == ("stale_binary", ("dot",), ("axpy", "gemm.decode"))


def test_stale_seat_that_nobody_demands_leaves_the_demand_complete() -> None:
    assert judge(FULL, Demand(("axpy",)), built_now=tree("dot", source="other")).complete


@pytest.mark.parametrize("name", ["compiler", "protocol"])
def test_new_compiler_or_protocol_of_all_stales_the_whole_file(name: str) -> None:
    now = {key: {**entry, name: "new 1"} for key, entry in TREE.items()}
    found = judge(FULL, built_now=now)
    assert found.reason == "stale_binary"
    assert found.detail.startswith(f"every entry was measured with another {name} (")
    assert fresh_entries(FULL, box=BOX, built_now=now) == {}


@pytest.mark.parametrize(
    ("then", "now", "here", "elsewhere"),
    [
        ("12 a; 14 b", "12 a; absent", (), ()),
        ("12 a; absent", "12 a; 14 b", ("compiler: 12 a; absent -> 12 a; 14 b",), ()),
        ("12 a; 14 b", "13 c; absent", *2 * (("compiler: 12 a; 14 b -> 13 c; absent",),)),
    ],
)
def test_absent_compiler_is_no_change_unless_its_rows_were_never_raced_here(
    then: str, now: str, here: tuple[str, ...], elsewhere: tuple[str, ...]
) -> None:
    document = replace(FULL, built={"dot": {**TREE["dot"], "compiler": then}})
    known = tree("dot", compiler=now)
    assert changes(document, "dot", known, None) == here
    assert changes(document, "dot", known, None, elsewhere=True) == elsewhere


def test_optional_compiler_that_appears_stales_the_seats_with_its_rows_and_not_the_file() -> None:
    one = {"dot": {**TREE["dot"], "compiler": "absent; gcc 12"}}
    document = replace(FULL, kernels={"dot": "u4"}, built=one)
    now: dict[str, Built] = {
        "dot": {**TREE["dot"], "compiler": "clang 14; gcc 12"},
        "axpy": {**TREE["axpy"], "compiler": "gcc 12"},
    }
    found = judge(document, Demand(("dot",)), built_now=now)
    assert (found.reason, found.stale) == ("stale_binary", ("dot",))
    assert found.detail == "dot (compiler: absent; gcc 12 -> clang 14; gcc 12 changed)"
    assert whole_file(document, box=BOX, built_now=now).reason == "none"
    other = {"dot": {**TREE["dot"], "compiler": "clang 14; gcc 13"}}
    assert whole_file(document, box=BOX, built_now=other).reason == "stale_binary"


@pytest.mark.parametrize(
    ("then", "now", "whole"),
    [
        ("gcc 12", "gcc 12; clang 14", False),
        ("gcc 12; clang 14", "gcc 12", False),
        ("gcc 12; clang 14", "clang 14", False),
        ("gcc 12; clang 14", "gcc 13; clang 14", True),
        ("gcc 12", "clang 14", True),
    ],
)
def test_compiler_that_comes_or_goes_stales_seats_and_one_that_takes_a_place_the_file(
    then: str, now: str, whole: bool
) -> None:
    document = replace(FULL, built={key: {**entry, "compiler": then} for key, entry in TREE.items()})
    known: dict[str, Built] = {key: {**entry, "compiler": now} for key, entry in TREE.items()}
    found = judge(document, built_now=known)
    assert found.reason == "stale_binary"
    assert found.detail.startswith("every entry was measured with another compiler") == whole
    assert set(found.stale) == (set() if whole else set(DEMAND.keys))
    partly = {**known, "axpy": {**TREE["axpy"], "compiler": then}}
    assert judge(document, built_now=partly).stale == tuple(key for key in DEMAND.keys if key != "axpy")


def test_input_that_one_side_does_not_know_is_no_change() -> None:
    assert judge(FULL, built_now={k: {**v, "weather": "sunny"} for k, v in TREE.items()}).complete
    assert judge(FULL, built_now={k: {"source": v["source"]} for k, v in TREE.items()}).complete
    assert judge(FULL, built_now={}).complete


@pytest.mark.parametrize(
    ("binary_s", "reason"), [(None, "none"), (99, "none"), (100, "none"), (101, "stale_binary")]
)
def test_without_digests_time_decides_and_equal_is_fresh(binary_s: int | None, reason: str) -> None:
    old = replace(FULL, built={}, mtime_s=100)
    assert judge(old, binary_s=binary_s).reason == reason


def test_time_verdict_shows_both_dates() -> None:
    found = judge(replace(FULL, built={}, mtime_s=0 + 86_400), binary_s=2 * 86_400)
    assert "1970-01-02T00:00:00Z" in found.detail
    assert "1970-01-03T00:00:00Z" in found.detail


def test_digests_make_time_irrelevant() -> None:
    assert judge(replace(FULL, mtime_s=100), binary_s=10_000).complete


def test_seat_without_digests_in_a_file_that_has_some_is_judged_by_time_alone() -> None:
    mixed = replace(FULL, built={"dot": TREE["dot"], "axpy": TREE["axpy"]}, mtime_s=100)
    found = judge(mixed, binary_s=101)
    assert (found.reason, found.stale, found.detail) == (
        "stale_binary",
        ("gemm.decode",),
        "gemm.decode (time changed)",
    )


def test_whole_file_reasons_stand_before_version() -> None:
    assert judge(with_notes(box=THERE, kernels_version="2")).reason == "foreign_box"


def test_demand_travels_as_text() -> None:
    text = "dot;axpy;gemm.decode;@version:kernels_version=3"
    assert parse_demand(text) == DEMAND
    assert demand_text(DEMAND) == text


def test_version_token_without_equals_never_blocks() -> None:
    demand = parse_demand(";dot;;@version:kernels_version;")
    assert demand == Demand(("dot",))
    assert judge(FULL, demand).complete


def test_unsatisfied_elements_are_named_verbatim() -> None:
    broken = with_notes(kernels_version="2")
    assert unsatisfied(broken, DEMAND, judge(broken)) == ("@version:kernels_version=3",)
    assert unsatisfied(None, DEMAND, judge(None)) == (*DEMAND.keys, "@version:kernels_version=3")
    assert unsatisfied(FULL, DEMAND, judge(FULL)) == ()


DOCUMENTS = st.builds(
    Document,
    kernels=st.dictionaries(st.sampled_from(DEMAND.keys), st.sampled_from(["", "u4", "reference"])),
    provenance=st.fixed_dictionaries(
        {},
        optional={
            "box": st.sampled_from([HERE, THERE, ""]),
            "applied_box": st.sampled_from([HERE, ""]),
            "kernels_version": st.sampled_from(["3", 3, "2"]),
            "features": st.sampled_from(["avx2;fma", "avx2", ""]),
        },
    ),
    built=st.dictionaries(st.sampled_from(DEMAND.keys), st.sampled_from([{}, TREE["dot"], {"source": "x"}])),
    mtime_s=st.sampled_from([99, 100, 101]),
)


@given(st.none() | st.just(Unreadable("x")) | DOCUMENTS, st.sampled_from([None, 100]))
def test_completeness_and_stamps_agree_with_the_verdict(found: Found, binary_s: int | None) -> None:
    judged = judge(found, binary_s=binary_s)
    pins = dict.fromkeys(DEMAND.keys, DEMAND.pins[0])
    fresh = fresh_entries(found, box=BOX, built_now=TREE, binary_s=binary_s, pins=pins)
    assert judged.complete is (judged.reason == "none")
    assert judged.complete is (unsatisfied(found, DEMAND, judged) == ())
    assert judged.complete or judged.detail
    if judged.complete:
        assert isinstance(found, Document)
        assert all(key in fresh or found.kernels[key] == "" for key in DEMAND.keys)
    assert not set(fresh) & {*judged.stale, *judged.missing}
    assert not (fresh and judged.reason == "version")


def test_changes_are_empty_for_a_seat_measured_as_it_stands() -> None:
    assert changes(FULL, "dot", TREE, None) == ()

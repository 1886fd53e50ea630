"""Writes: everyone else's entries, sections and notes survive, and nothing foreign passes for local."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tunebuild.document import PROTECTED_NOTES, Built, Document, Unreadable, parse, render
from tunebuild.features import FEATURES
from tunebuild.model import Box
from tunebuild.upsert import Change, Merged, Writer, merge, origin_of
from tunebuild.verdict import Found

BOX = Box("linux|x86_64||6.8.0|A", "x86_64", frozenset({"avx2", "fma"}), forced=("avx512f",))
WRITER = Writer(BOX, "2026-01-02T03:04:05Z", "~/bin/app")
TREE: dict[str, Built] = {
    key: {"source": f"s-{key}", "compiler": "gcc 12 a", "protocol": "1 p"} for key in ("f", "g", "h")
}


def put(found: Found, change: Change, **more: Any) -> Merged:
    return merge(found, change, WRITER, **more)


def wrote(found: Found, change: Change, **more: Any) -> Document:
    return put(found, change, **more).document


FIRST = wrote(
    None,
    Change(
        kernels={"f": "a", "g": "b"},
        race={"f": {"winner": "a", "rows": {}}, "g": {"winner": "b"}},
        built={key: TREE[key] for key in "fg"},
        runtime={"threads": 4},
        notes={"noise": "ok", "kernels_version": 3},
    ),
)


def test_first_write_records_who_wrote_and_where() -> None:
    assert FIRST.provenance == {
        "binary": "~/bin/app",
        "platform": "linux",
        "arch": "x86_64",
        "box": BOX.identity,
        "written": "2026-01-02T03:04:05Z",
        "features": "avx2;fma",  # the machine's own: what was forced is not recorded
        "features_known": len(FEATURES),
        "noise": "ok",
        "kernels_version": 3,
    }


def test_upsert_replaces_its_own_keys_and_keeps_everything_else() -> None:
    then = wrote(FIRST, Change(kernels={"g": "c"}, built={"g": TREE["g"]}, notes={"noise": "noisy"}))
    assert then.kernels == {"f": "a", "g": "c"}
    assert then.race == {"f": {"winner": "a", "rows": {}}}  # g's old race named another row
    assert then.runtime == {"threads": 4}
    assert then.provenance["kernels_version"] == 3
    assert then.provenance["noise"] == "noisy"
    assert then.built["f"] == FIRST.built["f"]


def test_runtime_is_merged_by_key_or_replaced_as_a_whole() -> None:
    assert wrote(FIRST, Change(knobs={"budget": 7})).runtime == {"threads": 4, "budget": 7}
    assert wrote(FIRST, Change(runtime={"budget": 7})).runtime == {"budget": 7}
    assert wrote(FIRST, Change(runtime={})).runtime == {}
    assert wrote(FIRST, Change(knobs={"budget": 7})).kernels == FIRST.kernels


def test_race_table_may_follow_its_winner_in_a_later_write() -> None:
    then = wrote(FIRST, Change(race={"g": {"winner": "b", "rows": {"b": {"med_us": 2.0}}}}))
    assert then.race["g"] == {"winner": "b", "rows": {"b": {"med_us": 2.0}}}
    assert then.race["f"] == FIRST.race["f"]


def test_entry_and_race_that_differ_are_never_written() -> None:
    with pytest.raises(ValueError, match="the race names 'b', the entry 'a'"):
        put(None, Change(kernels={"f": "a"}, race={"f": {"winner": "b"}}))


@pytest.mark.parametrize(
    ("key", "suffix"), [("f", ""), ("f", "a b"), ("../f", "a"), ("", "a"), ("f", "x" * 200)]
)
def test_name_that_no_reader_would_take_is_never_written(key: str, suffix: str) -> None:
    with pytest.raises(ValueError, match="cannot record"):
        put(None, Change(kernels={key: suffix}))


def test_notes_of_other_writers_survive_and_only_scalars_do() -> None:
    odd = replace(
        FIRST,
        provenance={
            **FIRST.provenance,
            "other": "x",
            "n": 1.5,
            "yes": True,
            "list": [1],
            "map": {},
            "none": None,
        },
    )
    kept = wrote(odd, Change(kernels={"f": "a"})).provenance
    assert {key: kept.get(key) for key in ("other", "n", "yes", "list", "map", "none")} == {
        "other": "x", "n": 1.5, "yes": None, "list": None, "map": None, "none": None,
    }  # fmt: skip


def test_no_note_overrides_identity() -> None:
    forged = wrote(None, Change(kernels={"f": "a"}, notes=dict.fromkeys(PROTECTED_NOTES, "forged")))
    assert "forged" not in forged.provenance.values()


@pytest.mark.parametrize(
    ("found", "reset"),
    [
        (Unreadable("not JSON"), "unreadable: not JSON"),
        (replace(FIRST, provenance={**FIRST.provenance, "box": "linux|x86_64||6.8.0|B"}), "foreign_box: "),
        (replace(FIRST, provenance={**FIRST.provenance, "features": "avx2"}), "foreign_box: "),
        (replace(FIRST, provenance={}), "unreadable: the file names no box"),
    ],
)
def test_file_that_counts_for_nothing_is_started_anew_with_all_its_sections(found: Found, reset: str) -> None:
    merged = put(found, Change(kernels={"h": "c"}, built={"h": TREE["h"]}))
    assert merged.reset.startswith(reset)
    assert merged.document.kernels == {"h": "c"}
    assert not merged.document.runtime
    assert not merged.document.race
    assert "noise" not in merged.document.provenance


def test_new_compiler_of_all_starts_anew_and_a_changed_source_does_not() -> None:
    compiler = {key: {**entry, "compiler": "gcc 13 b"} for key, entry in TREE.items()}
    merged = put(FIRST, Change(kernels={"f": "c"}, built={"f": compiler["f"]}), built_now=compiler)
    assert merged.reset.startswith("stale_binary: every entry was measured with another compiler")
    assert merged.document.kernels == {"f": "c"}
    source = {**TREE, "f": {**TREE["f"], "source": "new"}}
    kept = put(FIRST, Change(kernels={"f": "c"}, built={"f": source["f"]}), built_now=source)
    assert kept.reset == ""
    assert kept.document.kernels == {"f": "c", "g": "b"}


def test_file_without_digests_older_than_the_binary_starts_anew_with_runtime_and_race() -> None:
    old = replace(FIRST, built={}, mtime_s=100)
    assert put(old, Change(kernels={"h": "c"}), binary_s=101).document.kernels == {"h": "c"}
    assert put(old, Change(kernels={"h": "c"}), binary_s=101).document.runtime == {}
    assert put(old, Change(kernels={"h": "c"}), binary_s=100).document.kernels == {
        "f": "a",
        "g": "b",
        "h": "c",
    }


# --- adoption -------------------------------------------------------------------------------------

PROFILE = Change(
    kernels={"f": "p", "h": "p"},
    built={key: TREE[key] for key in "fh"},
    origin="profile:x86-avx2",
    notes={"adopted_profile": "x86-avx2"},
)
EXCHANGED = Change(
    kernels={"f": "e", "h": "e"},
    built={key: {**TREE[key], "origin_built": {"source": "theirs"}} for key in "fh"},
    origin="exchange",
    notes={"origin": "exchange", "exchange_sha": "abc", "applied_box": BOX.identity},
)


def test_adoption_fills_only_what_is_not_held_fresh() -> None:
    merged = put(FIRST, PROFILE, built_now=TREE)
    assert merged.document.kernels == {"f": "a", "g": "b", "h": "p"}
    assert merged.kept == ("f",)
    assert origin_of(merged.document, "f") == ""
    assert origin_of(merged.document, "h") == "profile:x86-avx2"


def test_adoption_replaces_a_stale_entry_and_its_race() -> None:
    now = {**TREE, "f": {**TREE["f"], "source": "new"}}
    merged = put(FIRST, PROFILE, built_now=now)
    assert merged.document.kernels["f"] == "p"
    assert "f" not in merged.document.race


def test_local_write_ends_exchanged_entries_of_its_own_scope_only() -> None:
    adopted = wrote(None, EXCHANGED)
    assert adopted.built["h"]["origin_built"] == {"source": "theirs"}
    other = wrote(adopted, Change(kernels={"g": "b"}, scope_keys=("g",)))
    assert other.kernels == {"f": "e", "h": "e", "g": "b"}
    assert other.provenance["origin"] == "exchange"
    own = put(adopted, Change(kernels={"f": "a"}, scope_keys=("f", "h")))
    assert own.document.kernels == {"f": "a"}
    assert own.dropped == ("h",)
    assert not {"origin", "exchange_sha", "applied_box"} & set(own.document.provenance)


PINS = {"f": ("kernels_version", "4"), "g": ("kernels_version", "4"), "h": ("other", "1")}


def test_write_of_another_version_ends_the_entries_that_it_does_not_replace() -> None:
    before = wrote(FIRST, Change(kernels={"h": "a"}))
    raced = put(before, Change(kernels={"f": "b"}, notes={"kernels_version": "4"}), pins=PINS)
    assert (raced.document.kernels, raced.dropped) == ({"f": "b", "h": "a"}, ("g",))
    adopted = put(before, replace(PROFILE, notes={"kernels_version": "4"}), built_now=TREE, pins=PINS)
    assert adopted.document.kernels == {"f": "p", "h": "p"} and adopted.dropped == ("g",)
    of_another_scope = put(before, Change(kernels={"h": "b"}, notes={"other": "1"}), pins=PINS)
    assert of_another_scope.document.kernels == {"f": "a", "g": "b", "h": "b"}


def test_entry_adopted_by_an_older_writer_stays_marked_after_a_local_write() -> None:
    bare = Document(
        kernels={"f": "e", "h": "e"}, provenance={"box": BOX.identity, "origin": "exchange", "features": ""}
    )
    then = wrote(bare, Change(kernels={"g": "b"}, scope_keys=("g",)))
    assert [origin_of(then, key) for key in "fgh"] == ["exchange", "", "exchange"]


def test_profile_entries_wait_for_their_race_and_a_full_mint_ends_them() -> None:
    adopted = wrote(None, PROFILE)
    raced = wrote(adopted, Change(kernels={"g": "b"}, scope_keys=("f", "g", "h")))
    assert raced.kernels == {"f": "p", "g": "b", "h": "p"}
    assert raced.provenance["adopted_profile"] == "x86-avx2"
    full = wrote(adopted, Change(kernels={"f": "a", "g": "b"}, scope_keys=("f", "g", "h"), full=True))
    assert full.kernels == {"f": "a", "g": "b"}
    assert "adopted_profile" not in full.provenance


def test_seat_that_left_the_tree_keeps_its_mark_and_does_not_speak_for_the_file() -> None:
    adopted = wrote(None, EXCHANGED)  # f and h; h leaves the tree
    tree = {key: TREE[key] for key in "fg"}
    full = Change(kernels={"f": "a", "g": "b"}, built=tree, scope_keys=("f", "g"), full=True)
    then = wrote(adopted, full, built_now=tree)
    assert then.kernels == {"f": "a", "g": "b", "h": "e"}
    assert origin_of(then, "h") == "exchange"
    assert not {"origin", "exchange_sha"} & set(then.provenance)


KEYS = st.sampled_from(["f", "g", "h", "gemm.decode"])
CHANGES = st.builds(
    lambda kernels, notes, origin, full: Change(
        kernels=kernels,
        built={key: {"source": "s"} for key in kernels},
        notes=notes,
        origin=origin,
        full=full,
        scope_keys=("f", "g"),
    ),
    st.dictionaries(KEYS, st.sampled_from(["a", "b", "reference"]), max_size=3),
    st.dictionaries(st.sampled_from(["noise", "note", "box"]), st.text(max_size=5) | st.integers()),
    st.sampled_from(["", "", "exchange", "profile:x86-avx2"]),
    st.booleans(),
)


@given(st.lists(CHANGES, max_size=6))
@settings(suppress_health_check=[HealthCheck.too_slow])  # slow on a busy machine only
def test_any_history_of_writes_reads_back_and_keeps_local_winners_of_others(history: list[Change]) -> None:
    document: Document | None = None
    for change in history:
        before = document
        document = wrote(document, change)
        assert parse(render(document)) == document
        assert all(
            table.get("winner", document.kernels.get(k)) == document.kernels.get(k)
            for k, table in document.race.items()
        )
        for key, suffix in (before.kernels if before else {}).items():
            if key not in change.kernels and before and not origin_of(before, key):
                assert document.kernels[key] == suffix

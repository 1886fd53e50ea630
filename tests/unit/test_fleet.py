"""What a folder of sidecars proves, class by class, and the fewest mints that would complete it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from small_manifest import ROOT, family, manifest, row

from tunebuild import document as documents
from tunebuild import evidence, report_classes
from tunebuild.document import Document, Json, Unreadable
from tunebuild.errors import UsageError
from tunebuild.fleet import Cover, Export, Fleet, Record, Tree, fleet
from tunebuild.model import Box, Family, Manifest, Scope

AVX2 = "avx2;f16c;fma;sse4.2;avx"
WIDE = AVX2 + ";avx512f;avx512bw;avx512vl;avx512vnni"
ZEN = "linux|x86_64||6.1|Zen"
ZEN2 = "linux|x86_64||6.1|Zen Two"
ICE = "linux|x86_64||6.1|Ice"
OLD = Box("linux|x86_64||6.1|Old", "x86_64", frozenset({"sse4.2"}))
NOW = {"source": "s1", "headers": {}, "flags": "f1", "compiler": "gcc 12", "workload": "w1", "protocol": "1"}
ROWS = (row("a"), row("b", "avx512f"))
HERE = Box(ZEN, "x86_64", frozenset(AVX2.split(";")))


def sidecar(
    box: str, features: str, kernels: Mapping[str, str], built: Mapping[str, Json] = NOW, **notes: Json
) -> Document:
    rows: dict[str, Json] = {"a": {"med_us": 2.0}}
    if "avx512f" in features:
        rows["b"] = {"med_us": 1.0}
    return Document(
        kernels=kernels,
        race={key: {"winner": winner, "rows": rows} for key, winner in kernels.items()},
        built=dict.fromkeys(kernels, built),
        provenance={"box": box, "features": features, "platform": "linux", "arch": "x86_64", **notes},
    )


def record(
    box: str, features: str, kernels: Mapping[str, str], built: Mapping[str, Json] = NOW, **notes: Json
) -> Record:
    return Record(f"{box.rpartition('|')[2]}.tune.json", sidecar(box, features, kernels, built, **notes))


def project(*families: Family) -> Manifest:
    return manifest(*(families or (family("f", rows=ROWS), family("g", rows=ROWS))))


def judged(
    *records: Record,
    whole: Manifest | None = None,
    box: Box = HERE,
    files: Mapping[str, Mapping[str, bytes]] | None = None,
    now: Mapping[str, Mapping[str, Json]] | None = None,
) -> Fleet:
    whole = whole or project()
    digests = now if now is not None else {one.name: NOW for one in whole.families}
    return fleet(whole, whole.apps[0], records, files or {}, box, Tree({"x86_64": digests}))


def cell(found: Fleet, key: str, cpu_class: str) -> Cover:
    return next(cover for cover in found.covers if (cover.key, cover.cpu_class) == (key, cpu_class))


GOOD = record(ZEN, AVX2, {"f": "a", "g": "a"})


def test_class_whose_box_measured_this_tree_is_green() -> None:
    found = judged(GOOD)
    assert cell(found, "f", "x86-avx2") == Cover(
        "f", "demo", "x86-avx2", "measured", "a", "", (ZEN,), None, True
    )
    assert found.green


def test_stale_seat_names_its_inputs_and_asks_for_one_mint() -> None:
    found = judged(GOOD, now={"f": {**NOW, "source": "s2"}, "g": NOW})
    assert (cell(found, "f", "x86-avx2").state, cell(found, "g", "x86-avx2").state) == ("stale", "measured")
    assert cell(found, "f", "x86-avx2").reason == "stale_binary: source changed"
    assert [(one.box, one.scope, one.keys) for one in found.remints] == [(ZEN, "demo", ("f",))]


@pytest.mark.parametrize(
    ("race", "words"), [({"winner": "b"}, "its race chose b"), ({"rows": {}}, "no race decided it")]
)
def test_winner_that_its_race_did_not_decide_is_not_measured(race: dict[str, Json], words: str) -> None:
    document = sidecar(ZEN, AVX2, {"f": "a", "g": "a"})
    odd = Record("zen.tune.json", replace(document, race={**document.race, "f": race}))
    found = judged(odd)
    assert (cell(found, "f", "x86-avx2").state, cell(found, "g", "x86-avx2").state) == ("stale", "measured")
    assert cell(found, "f", "x86-avx2").reason == f"f was set by hand: {words}"
    assert [one.keys for one in found.remints] == [("f",)] and not found.green


def test_second_box_of_a_class_that_is_still_fresh_answers_for_it() -> None:
    old = record(ZEN2, AVX2, {"f": "a", "g": "a"}, {**NOW, "source": "s0"})
    found = judged(old, GOOD)
    assert cell(found, "f", "x86-avx2").state == "measured"
    assert cell(found, "f", "x86-avx2").boxes == (ZEN,)
    assert found.remints == ()


def test_boxes_of_one_class_that_differ_are_both_named() -> None:
    both = (
        record(ICE, WIDE, {"f": "a", "g": "a"}),
        record(ICE + " Two", WIDE, {"f": "b", "g": "a"}),
    )
    cover = cell(judged(*both), "f", "x86-vnni512")
    assert (cover.suffix, cover.reason) == ("a or b", "boxes differ")


def test_class_of_this_box_without_evidence_is_uncovered_and_to_be_minted_here() -> None:
    found = judged(GOOD, box=OLD)
    assert cell(found, "f", "x86-base").state == "uncovered"
    assert cell(found, "f", "x86-base").reason == "no box of this class, no profile"
    assert [(one.box, one.cpu_class) for one in found.remints] == [(OLD.identity, "x86-base")]


def test_missing_seat_is_stale_by_name() -> None:
    found = judged(record(ZEN, AVX2, {"f": "a"}))
    assert cell(found, "g", "x86-avx2").reason == "missing g"


def test_one_pair_per_class_and_scope() -> None:
    scopes = (Scope("one", "blas", (), ("f",)), Scope("two", "blas2", (), ("g",)))
    whole = manifest(family("f", rows=ROWS), family("g", rows=ROWS, module="blas2"), scopes=scopes)
    found = judged(
        record(ZEN, AVX2, {"f": "a", "g": "a"}),
        record(ICE, WIDE, {"f": "b", "g": "b"}),
        whole=whole,
        now={"f": NOW, "g": {**NOW, "flags": "f2"}},
    )
    assert [(one.box, one.scope) for one in found.remints] == [(ICE, "two"), (ZEN, "two")]


# --- profiles -------------------------------------------------------------------------------------


def shipped(
    built: Mapping[str, Json] = NOW, kernels: Mapping[str, str] | None = None
) -> dict[str, dict[str, bytes]]:
    winners = kernels or {"f": "a", "g": "a"}
    document = {
        "kernels": winners,
        "provenance": {"features": AVX2},
        "bounds": {"f": {"loss_pct": 1.25, "boxes": {"x": 1.25, "y": 0.0}}},
        "built": dict.fromkeys(winners, built),
    }
    return {"demo": {"x86-avx2": json.dumps(document).encode()}}


SHIPPING = manifest(
    family("f", rows=(row("a"),)),
    family("g", rows=(row("a"),)),
    scopes=(Scope("demo", "blas", (), ("f", "g"), defaults=ROOT / "profiles"),),
)


def test_profile_covers_its_class_and_those_above_with_bound_and_boxes() -> None:
    found = judged(record(ICE, WIDE, {"f": "a"}), whole=SHIPPING, files=shipped())
    low, high = cell(found, "f", "x86-avx2"), cell(found, "g", "x86-vnni512")
    assert (low.state, low.bound_pct, low.boxes) == ("covered", 1.25, ("x", "y"))
    assert (high.state, high.bound_pct, high.reason) == ("covered", None, "missing g")


def test_covered_row_that_no_box_ever_gated_is_not_green() -> None:
    found = judged(whole=SHIPPING, files=shipped())
    assert cell(found, "f", "x86-avx2").state == "covered"
    assert not cell(found, "f", "x86-avx2").gated
    assert found.remints[0].why == "a was not gated"
    gated = judged(record(ICE, WIDE, {"f": "a", "g": "a"}), whole=SHIPPING, files=shipped())
    assert cell(gated, "f", "x86-avx2").gated
    assert gated.green


def test_profile_that_measured_another_source_is_stale_whatever_its_compiler() -> None:
    other = judged(whole=SHIPPING, files=shipped({**NOW, "compiler": "clang 17"}))
    assert cell(other, "f", "x86-avx2").state == "covered"
    found = judged(whole=SHIPPING, files=shipped({**NOW, "source": "s0"}))
    assert cell(found, "f", "x86-avx2").state == "uncovered"
    assert "the x86-avx2 profile is stale: source changed" in cell(found, "f", "x86-avx2").reason


def test_profile_without_digests_proves_nothing_of_this_tree() -> None:
    for built in ({}, {"written": "then"}, {"source": "s1"}):
        cover = cell(judged(whole=SHIPPING, files=shipped(built)), "f", "x86-avx2")
        assert cover.state == "uncovered"
        assert "the x86-avx2 profile is stale: no digests recorded for f" in cover.reason


def test_class_without_a_profile_that_serves_names_the_one_that_does_not() -> None:
    torn = {"demo": {"x86-avx2": b"{"}}
    reason = cell(judged(whole=SHIPPING, files=torn), "f", "x86-avx2").reason
    assert reason.startswith(
        "no box of this class, no profile; /project/profiles/x86-avx2.tune-defaults.json: it is unr"
    )


def test_profile_does_not_cover_a_class_that_can_run_more() -> None:
    whole = manifest(family("f", rows=ROWS), scopes=(replace(SHIPPING.scopes[0], families=("f",)),))
    found = judged(record(ICE, WIDE, {"x": "a"}), whole=whole, files=shipped(kernels={"f": "a"}))
    assert cell(found, "f", "x86-vnni512").reason == "missing f; the x86-avx2 profile's boxes could not run b"


def test_profile_that_went_stale_with_its_box_is_exported_again_for_the_class_without_a_box() -> None:
    edited = {"f": {**NOW, "source": "s2"}, "g": NOW}
    ice = Box(ICE, "x86_64", frozenset(WIDE.split(";")))
    found = judged(GOOD, whole=SHIPPING, files=shipped(), box=ice, now=edited)
    assert [(one.box, one.cpu_class) for one in found.remints] == [(ZEN, "x86-avx2")]
    assert found.exports == (Export(ZEN, "x86-avx2", ("x86-vnni512",)),)
    assert " ".join(report_classes.fleet_text(found).split()).endswith(
        "to make it green, 1 mint: linux|x86_64||6.1|Zen: scope demo (stale_binary: source changed; the "
        "x86-avx2 profile is stale: source changed) "
        "then `tunebuild profile export` on linux|x86_64||6.1|Zen: its x86-avx2 profile covers x86-vnni512"
    )
    minted = record(ZEN, AVX2, {"f": "a", "g": "a"}, edited["f"])
    again = judged(minted, whole=SHIPPING, files=shipped(), box=ice, now=dict.fromkeys("fg", edited["f"]))
    assert again.remints == () and again.exports == found.exports and not again.green


def test_of_two_classes_whose_mint_would_gate_a_covered_row_the_one_at_hand_is_asked() -> None:
    ice = Box(ICE, "x86_64", frozenset(WIDE.split(";")))
    found = judged(whole=SHIPPING, files=shipped(), box=ice)
    assert {one.cpu_class for one in found.covers if not one.gated} == {"x86-vnni512", "x86-avx2"}
    assert [(one.box, one.cpu_class, one.why) for one in found.remints] == [
        (ICE, "x86-vnni512", "a was not gated")
    ]
    either = judged(record(ZEN, AVX2, {"f": "a", "g": "a"}), whole=SHIPPING, files=shipped(), box=ice)
    assert either.green, "the other would do as well"


def test_box_of_another_architecture_gates_nothing() -> None:
    arm = record("linux|aarch64||6.1|Neoverse", "neon", {"f": "a", "g": "a"}, arch="aarch64")
    digests = dict.fromkeys("fg", NOW)
    tree = Tree({"x86_64": digests, "aarch64": digests})
    found = fleet(SHIPPING, SHIPPING.apps[0], [arm], shipped(), HERE, tree)
    assert cell(found, "f", "arm-neon").state == "measured" and cell(found, "f", "arm-neon").gated
    assert cell(found, "f", "x86-avx2").state == "covered" and not cell(found, "f", "x86-avx2").gated


# --- records that prove nothing -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (Record("x", Unreadable("torn")), "unreadable: torn"),
        (replace(GOOD, signed=False), "it has no digest: edited by hand, so it proves nothing"),
        (record("Zen", AVX2, {"f": "a"}), "it names no box"),
        (record(ZEN, AVX2, {"f": "a"}, arch="aarch64"), f"it says arch aarch64 and box {ZEN}"),
        (record(ZEN, AVX2, {"f": "a"}, origin="exchange"), "its winners were measured on another box"),
        (record(ZEN, AVX2, {"f": "a"}, applied_box=ICE), "its winners were measured on another box"),
    ],
)
def test_record_that_is_not_whole_counts_for_nothing_and_is_named(bad: Record, why: str) -> None:
    found = judged(bad)
    assert [problem.why for problem in found.problems] == [why]
    assert not found.green
    assert cell(found, "f", "x86-avx2").state == "uncovered"


def test_copy_of_a_sidecar_neither_helps_nor_hinders() -> None:
    found = judged(GOOD, Record("copy.tune.json", GOOD.found))
    assert found.green and [one.name for one in found.spare] == ["copy.tune.json"]
    assert (
        "copy.tune.json adds nothing: Zen.tune.json is of the same box, and the same"
        in report_classes.fleet_text(found)
    )


def test_box_is_heard_by_its_newest_sidecar_in_whatever_order() -> None:
    old = replace(
        record(ZEN, AVX2, {"f": "a", "g": "a"}, {**NOW, "source": "s0"}, written="2026-01-01T00:00:00Z"),
        name="old",
    )
    new = replace(record(ZEN, AVX2, {"f": "a", "g": "a"}, written="2026-01-02T00:00:00Z"), name="new")
    for order in ((old, new), (new, old)):
        found = judged(*order)
        assert found.green and [one.name for one in found.witnesses] == ["new"]
        assert [(one.name, one.why) for one in found.spare] == [("old", "new is of the same box, and newer")]


def test_folder_of_boxes_that_no_profile_can_answer_for_asks_for_a_mint_of_each() -> None:
    many = [
        record(f"linux|odd{n}||6.1|X", "", {"f": "a"}, {**NOW, "source": "s0"}, arch=f"odd{n}")
        for n in range(40)
    ]
    found = judged(GOOD, *many)
    assert len(found.remints) == 40 and {one.cpu_class for one in found.remints} == {
        f"linux-odd{n}" for n in range(40)
    }


def test_two_sidecars_of_one_box_that_cannot_both_be_its_own_are_a_problem() -> None:
    other = record(ZEN, AVX2, {"f": "a", "g": "reference"})
    assert judged(GOOD, other).problems[0].why == "Zen.tune.json is of the same box and time, and differs"
    forged = record(ZEN, WIDE, {"f": "a", "g": "a"}, written="2099-01-01T00:00:00Z")
    assert judged(GOOD, forged).problems[0].why == (
        "Zen.tune.json is of the same box and says that it is of class x86-avx2"
    )


def test_row_that_passed_where_it_cannot_run_unmasks_a_swapped_identity() -> None:
    ice = record(ICE, WIDE, {"f": "b", "g": "b"}).found
    assert isinstance(ice, Document)
    swapped = replace(ice, provenance={**ice.provenance, "box": ZEN, "features": AVX2})
    found = judged(Record("zen.tune.json", swapped))
    assert found.problems[0].why == "it timed b of f, which needs avx512f: not on such a box"


def test_winner_without_gate_result_is_not_green() -> None:
    document = GOOD.found
    assert isinstance(document, Document)
    race = {key: {**entry, "rows": {"reference": {"med_us": 3.0}}} for key, entry in document.race.items()}
    found = judged(Record("zen", replace(document, race=race)))
    assert cell(found, "f", "x86-avx2").state == "measured"
    assert not cell(found, "f", "x86-avx2").gated
    assert [(one.box, one.why) for one in found.remints] == [(ZEN, "a was not gated")]


def test_row_that_was_timed_and_then_rejected_was_not_gated() -> None:
    document = GOOD.found
    assert isinstance(document, Document)
    race = {key: {**entry, "rejected": "b; a"} for key, entry in document.race.items()}
    assert not cell(judged(Record("zen", replace(document, race=race))), "f", "x86-avx2").gated


def test_record_of_a_known_box_that_counts_for_nothing_asks_for_one_mint_of_that_box() -> None:
    ice = replace(record(ICE, WIDE, {"f": "b", "g": "b"}), signed=False)
    found = judged(GOOD, ice)
    assert [(one.box, one.cpu_class) for one in found.remints] == [(ICE, "x86-vnni512")]


def test_unreadable_record_asks_for_a_mint_of_every_scope_by_file() -> None:
    found = judged(GOOD, Record("x.tune.json", Unreadable("torn")))
    assert [(one.box, one.scope, one.why) for one in found.remints] == [
        ("x.tune.json", "demo", "unreadable: torn")
    ]


def test_file_that_never_was_a_sidecar_is_to_be_left_out_and_asks_for_no_mint() -> None:
    found = judged(GOOD, Record("notes.tune.json", Unreadable("not JSON"), junk=True))
    assert found.remints == () and not found.green
    text = " ".join(report_classes.fleet_text(found).split())
    assert text.endswith(
        "to make it green: leave notes.tune.json out, or put a whole sidecar of its box there"
    )
    assert judged(GOOD).green


def test_box_of_an_architecture_without_toolchain_cannot_be_compared() -> None:
    arm = "linux|aarch64||6.1|Neoverse"
    found = judged(record(arm, "neon;i8mm", {"f": "a", "g": "a"}, arch="aarch64"))
    assert cell(found, "f", "arm-i8mm").reason == (
        "no toolchain here builds for aarch64: its digests cannot be compared"
    )


def test_adopted_entry_is_no_measurement() -> None:
    built = {**NOW, "origin": "profile:x86-base"}
    assert cell(judged(record(ZEN, AVX2, {"f": "a", "g": "a"}, built)), "f", "x86-avx2").reason == (
        "f was adopted from profile:x86-base"
    )


# --- reading and reporting ------------------------------------------------------------------------


def test_records_are_found_below_folders_once_and_hidden_files_are_not(tmp_path: Path) -> None:
    document = GOOD.found
    assert isinstance(document, Document)
    data = documents.render(document)
    for name in ("b/two.tune.json", "a/one.tune.json", "a/.lock.tune.json", "a/other.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    unsigned = json.loads(data)
    del unsigned["digest"]
    (tmp_path / "c.tune.json").write_text(json.dumps(unsigned))
    (tmp_path / "d.tune.json").write_bytes(data[:-40])
    found = evidence.records((tmp_path, tmp_path / "a"))
    names = [Path(one.name).name for one in found]
    assert names == ["one.tune.json", "two.tune.json", "c.tune.json", "d.tune.json"]
    assert [one.signed for one in found] == [True, True, False, False]
    assert [one.junk for one in found] == [False] * 4
    assert isinstance(found[3].found, Unreadable)


@pytest.mark.parametrize("data", [b"", b"<html>", b"{}", b'{"hello": 1}', bytes(4096)])
def test_file_with_nothing_of_a_sidecar_is_junk(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.tune.json").write_bytes(data)
    (one,) = evidence.records((tmp_path,))
    assert one.junk and not one.signed


def test_folder_and_pipe_of_a_sidecars_name_are_junk(tmp_path: Path) -> None:
    (tmp_path / "folder.tune.json").mkdir()
    os.mkfifo(tmp_path / "pipe.tune.json")
    assert [one.junk for one in evidence.records((tmp_path,))] == [True, True]


def test_place_that_does_not_exist_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        evidence.records((tmp_path / "nowhere",))


def test_text_lists_classes_states_reasons_and_mints() -> None:
    found = judged(GOOD, now={"f": {**NOW, "source": "s2"}, "g": NOW})
    assert report_classes.fleet_text(found) == (
        "demo: 1 box; this one is of class x86-avx2\n"
        "class x86-avx2: 1 box\n"
        "  stale     f  a  not gated\n"
        "      stale_binary: source changed\n"
        "  measured  g  a\n"
        "to make it green, 1 mint:\n"
        "  linux|x86_64||6.1|Zen: scope demo (stale_binary: source changed)"
    )
    assert report_classes.fleet_text(judged(GOOD)).endswith(
        "green: every seat is measured or covered, and its row was gated"
    )
    document = report_classes.fleet_json(found)
    assert document["remint"] == [
        {
            "box": ZEN,
            "scope": "demo",
            "class": "x86-avx2",
            "families": ["f"],
            "why": "stale_binary: source changed",
        }
    ]
    json.dumps(document)

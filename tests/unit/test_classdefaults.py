"""Class profiles out of sidecars: what export refuses, what merge claims and where it stops."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from small_manifest import AVX2_BOX, ROOT, WIDE_BOX, companion, family, manifest, row

from tunebuild import classdefaults, profiles
from tunebuild.classdefaults import Donor, export, merge
from tunebuild.document import Document, Json, Unreadable
from tunebuild.errors import Refused
from tunebuild.model import Box, Family, Manifest, Scope, Verdict
from tunebuild.policy import demand
from tunebuild.resolve import Here
from tunebuild.verdict import verdict

WHEN = "2026-02-03T04:05:06Z"
FEATURES = "avx2;f16c;fma;avx"
PINNED = Scope("demo", "blas", (), ("f",), version_key="v", version="3", defaults=ROOT / "profiles")


def sidecar(kernels: Mapping[str, str], box: Box = AVX2_BOX, **notes: Json) -> Document:
    return Document(
        kernels=kernels,
        runtime={"threads": 4},
        race={key: {"winner": winner, "rows": {winner: {"med_us": 1.0}}} for key, winner in kernels.items()},
        provenance={
            "binary": "~/x",
            "box": box.identity,
            "features": FEATURES,
            "written": "then",
            "engine_sha": "abc",
            "noise": "ok",
            "validation_demoted": 2,
            **notes,
        },
    )


def exported(
    whole: Manifest, document: Document | Unreadable | None, judged: Verdict | None = None
) -> dict[str, Json]:
    scope = whole.scopes[0]
    seen = judged or verdict(document, demand(whole, scope), box=AVX2_BOX, path="demo.tune.json")
    return export(whole, scope, document, seen, cpu_class="x86-avx2", written=WHEN)


# --- export ---------------------------------------------------------------------------------------


def test_export_takes_winners_and_text_and_leaves_box_race_runtime_and_commit() -> None:
    assert exported(manifest(family("f"), family("g")), sidecar({"f": "a", "g": "b", "other": "x"})) == {
        "kernels": {"f": "a", "g": "b"},
        "provenance": {
            "features": FEATURES,
            "noise": "ok",
            "origin": "profile",
            "class": "x86-avx2",
            "written": WHEN,
        },
    }


def test_export_takes_companions_rows_and_the_version_as_text() -> None:
    whole = manifest(family("f", companions=(companion("f_v", own_seat=True),)), scopes=(PINNED,))
    found = exported(whole, sidecar({"f": "a", "f_v": "b"}, v=3))
    assert found["kernels"] == {"f": "a", "f_v": "b"}
    assert isinstance(found["provenance"], dict) and found["provenance"]["v"] == "3"


def test_export_marks_references_that_a_race_chose() -> None:
    document = sidecar({"f": "reference", "g": "reference"})
    rows: Json = {"reference": {"med_us": 1}, "a": {"med_us": 2}}
    race = {"f": {"winner": "reference", "rows": rows}}
    race["g"] = {**race["f"], "rejected": "a"}  # no row passed: it was no choice
    found = exported(manifest(family("f"), family("g")), replace(document, race=race))
    assert isinstance(found["provenance"], dict)
    assert found["provenance"]["measured_reference"] == "f"


def test_exported_profile_covers_the_box_that_wrote_it() -> None:
    whole = manifest(family("f"))
    data = classdefaults.render(exported(whole, sidecar({"f": "a"})))
    chosen = profiles.choose(whole.scopes[0], (("x86-avx2", Path("p"), data),))
    assert profiles.adoption(whole, whole.scopes[0], (chosen,), Here.of(AVX2_BOX), {}).kind == "covered"


def test_export_keeps_the_digests_of_what_was_measured_and_not_who_wrote_them() -> None:
    built: dict[str, Json] = {"source": "1", "compiler": "gcc 12", "written": "then"}
    found = exported(manifest(family("f")), replace(sidecar({"f": "a"}), built={"f": built}))
    assert found["built"] == {"f": {"source": "1", "compiler": "gcc 12"}}


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (None, "the sidecar is absent"),
        (Unreadable("torn"), "the sidecar is unreadable"),
        (sidecar({"f": "a"}, WIDE_BOX), "the sidecar is foreign_box"),
        (sidecar({}), "holds no winner"),
        (sidecar({"f": ""}), "holds no winner"),
        (sidecar({"f": "a"}, origin="exchange"), "adopted from another box"),
        (sidecar({"f": "a"}, adopted_profile="x86-base"), "adopted from a class profile"),
        (
            replace(sidecar({"f": "a"}), built={"f": {"origin": "profile:x86-base"}}),
            "f came from profile:x86-base",
        ),
    ],
)
def test_export_refuses_what_was_not_measured_here(
    document: Document | Unreadable | None, words: str
) -> None:
    with pytest.raises(Refused, match=words) as caught:
        exported(manifest(family("f")), document)
    assert "tunebuild mint" in caught.value.fix


def test_export_refuses_a_stale_seat_by_name() -> None:
    with pytest.raises(Refused, match=r"stale_binary \(f \(source changed\)\)"):
        exported(
            manifest(family("f")),
            sidecar({"f": "a"}),
            Verdict("stale_binary", "f (source changed)", stale=("f",)),
        )


def test_export_of_a_winner_set_by_hand_is_refused() -> None:
    document = sidecar({"f": "a"})
    by_hand = replace(document, race={**document.race, "f": {"winner": "b"}})
    with pytest.raises(Refused, match="f was set by hand, not by its race") as caught:
        exported(manifest(family("f")), by_hand)
    assert caught.value.fix == "run `tunebuild mint --only =f`"


def test_winner_without_a_race_is_exported_only_where_a_tuner_of_the_scopes_own_set_it() -> None:
    bare = replace(sidecar({"f": "a"}), race={})
    with pytest.raises(Refused, match="f was set by hand, not by its race") as caught:
        exported(manifest(family("f")), bare)
    assert caught.value.fix == "run `tunebuild mint --only =f`"
    own = replace(manifest(family("f")).scopes[0], tuner="/p/tune.py")
    whole = manifest(family("f"), scopes=(own,))
    document = export(whole, own, bare, Verdict("none"), cpu_class="x86-avx2", written="T")
    assert document["kernels"] == {"f": "a"}


def test_export_of_a_companions_winner_set_by_hand_names_the_seat_to_race() -> None:
    whole = manifest(family("f", companions=(companion("f_v", own_seat=True),)))
    document = sidecar({"f": "a", "f_v": "a"})
    by_hand = replace(document, race={**document.race, "f_v": {"winner": "b"}})
    with pytest.raises(Refused, match="f_v was set by hand") as caught:
        exported(whole, by_hand)
    assert caught.value.fix == "run `tunebuild mint --only =f`"


@pytest.mark.parametrize(
    ("document", "command", "fix"),
    [
        (None, "tunebuild mint --app tool", "run `tunebuild mint --app tool` on this box first"),
        (sidecar({}), "tunebuild mint --app tool", "run `tunebuild mint --app tool` on this box first"),
        (
            sidecar({"f": "a"}, origin="exchange"),
            "tunebuild mint --app tool",
            "run a full `tunebuild mint --app tool`, ",
        ),
        (None, "", "give the scope a tuner: "),
        (sidecar({"f": "a"}, adopted_profile="x86-base"), "", "give the scope a tuner: "),
        (replace(sidecar({"f": "a"}), race={}), "", "give the scope a tuner: "),
    ],
)
def test_refused_export_advises_the_command_that_mints_its_scope(
    document: Document | None, command: str, fix: str
) -> None:
    whole = manifest(family("f"))
    judged = Verdict("none") if document else Verdict("absent")
    with pytest.raises(Refused) as caught:
        export(whole, whole.scopes[0], document, judged, cpu_class="x86-avx2", written="T", command=command)
    assert caught.value.fix.startswith(fix)


def test_export_of_another_version_is_refused() -> None:
    with pytest.raises(Refused, match="version"):
        exported(manifest(family("f"), scopes=(PINNED,)), sidecar({"f": "a"}, v="2"))


# --- merge ----------------------------------------------------------------------------------------


def box(number: int) -> str:
    return f"linux|x86_64||6.1|CPU {number}"


def donor(number: int, races: Mapping[str, Mapping[str, float]], **notes: Json) -> Donor:
    """A box whose winners are the fastest rows of ``races``: times in us by seat and row."""
    winners = {key: min(times, key=lambda name: times[name]) for key, times in races.items()}
    document = Document(
        kernels=winners,
        race={
            key: {"winner": winners[key], "rows": {name: {"med_us": time} for name, time in times.items()}}
            for key, times in races.items()
        },
        provenance={"box": box(number), "features": FEATURES, **notes},
    )
    return Donor(f"box{number}.tune.json", document)


ABC = (row("a"), row("b"), row("c"))


def merged(*donors: Donor, families: tuple[Family, ...] = (), budget_pct: float = 5.0) -> dict[str, Json]:
    whole = manifest(*(families or (family("f", rows=ABC, fallback="a"),)))
    return merge(whole, whole.scopes[0], donors, cpu_class="x86-avx2", written=WHEN, budget_pct=budget_pct)


def test_merge_takes_the_row_whose_worst_loss_is_least_and_records_it_with_the_boxes() -> None:
    found = merged(
        donor(1, {"f": {"a": 100.0, "b": 103.0, "c": 120.0}}),
        donor(2, {"f": {"a": 130.0, "b": 102.0, "c": 100.0}}),
    )
    assert found["kernels"] == {"f": "b"}
    assert found["bounds"] == {"f": {"loss_pct": 3.0, "boxes": {box(1): 3.0, box(2): 2.0}}}
    assert found["provenance"] == {
        "features": "avx2;f16c;fma;avx",
        "noise": "ok",
        "origin": "profile",
        "class": "x86-avx2",
        "written": WHEN,
    }


def test_merge_of_one_box_is_its_winner_without_loss() -> None:
    found = merged(donor(1, {"f": {"a": 2.0, "b": 1.0}}))
    assert (found["kernels"], found["bounds"]) == (
        {"f": "b"},
        {"f": {"loss_pct": 0.0, "boxes": {box(1): 0.0}}},
    )


def test_row_faster_than_a_winner_that_held_within_the_bar_loses_nothing() -> None:
    held = donor(1, {"f": {"a": 100.0, "b": 99.0}})
    race = {"f": {**held.document.race["f"], "winner": "a"}}
    found = merged(Donor("x", replace(held.document, kernels={"f": "a"}, race=race)))
    assert found["bounds"] == {"f": {"loss_pct": 0.0, "boxes": {box(1): 0.0}}}


def test_merge_refuses_over_the_budget_and_names_family_and_loss() -> None:
    donors = (donor(1, {"f": {"a": 100.0, "b": 110.0}}), donor(2, {"f": {"a": 110.0, "b": 100.0}}))
    with pytest.raises(Refused, match=r"over the budget of 5 %: f loses 10.0 %"):
        merged(*donors)
    assert merged(*donors, budget_pct=12)["kernels"] == {"f": "a"}


def test_merge_ignores_rows_that_one_box_did_not_time_or_rejected() -> None:
    first = donor(1, {"f": {"a": 104.0, "b": 100.0, "c": 101.0}})
    second = donor(2, {"f": {"a": 100.0, "c": 101.0}})
    assert merged(first, second)["kernels"] == {"f": "c"}
    race = {"f": {**second.document.race["f"], "rejected": "c; zzz"}}
    rejecting = Donor("x", replace(second.document, race=race))
    assert merged(first, rejecting)["kernels"] == {"f": "a"}


def test_merge_leaves_out_a_family_that_one_box_did_not_race() -> None:
    families = (family("f", rows=ABC), family("g", rows=ABC))
    first = donor(1, {"f": {"a": 1.0}, "g": {"a": 1.0}})
    assert merged(first, donor(2, {"f": {"a": 1.0}}), families=families)["kernels"] == {"f": "a"}


def test_merge_prefers_paired_gains_to_medians() -> None:
    rows: dict[str, Json] = {
        "a": {"med_us": 1.0, "gain_pct": 0.0},
        "b": {"med_us": 9.0, "gain_pct": 50.0},
    }
    document = donor(1, {"f": {"a": 1.0}}).document
    found = Donor("x", replace(document, kernels={"f": "b"}, race={"f": {"winner": "b", "rows": rows}}))
    assert merged(found)["kernels"] == {"f": "b"}


def test_merge_picks_one_layout_for_all_seats() -> None:
    packed = family(
        "f",
        rows=(row("x4", layout=(4,)), row("y4", layout=(4,)), row("x8", layout=(8,))),
        fallback="x4",
        seats=("small", "large"),
        layout=("mr",),
    )
    first = donor(1, {"f.small": {"x4": 101.0, "x8": 100.0}, "f.large": {"y4": 100.0, "x8": 104.0}})
    found = merged(first, families=(packed,))
    assert found["kernels"] == {"f.small": "x4", "f.large": "y4"}
    assert found["bounds"] == {"f": {"loss_pct": 1.0, "boxes": {box(1): 1.0}}}


def test_merge_lets_a_companion_choose_inside_the_layout_and_counts_its_loss() -> None:
    coupled = family(
        "f",
        rows=(row("a", layout=(4,)), row("b", layout=(4,)), row("c", layout=(8,))),
        fallback="a",
        layout=("mr",),
        companions=(companion("f_v", own_seat=True),),
    )
    first = donor(1, {"f": {"a": 1.0, "c": 2.0}, "f_v": {"a": 110.0, "b": 102.0, "c": 100.0}})
    found = merged(first, families=(coupled,))
    assert found["kernels"] == {"f": "a", "f_v": "b"}
    assert found["bounds"] == {"f": {"loss_pct": 2.0, "boxes": {box(1): 2.0}}}


def test_merge_records_the_features_all_boxes_share_and_the_worst_noise() -> None:
    times = {"f": {"a": 1.0}}
    found = merged(donor(1, times), donor(2, times, features="avx2;fma;avx;gfni", noise="noisy"))
    assert isinstance(found["provenance"], dict)
    assert (found["provenance"]["features"], found["provenance"]["noise"]) == ("avx2;fma;avx", "noisy")


@pytest.mark.parametrize(
    ("second", "words"),
    [
        (donor(2, {"f": {"a": 1.0}}, features="avx2;avxvnni"), "box2.tune.json is of class x86-vnni256"),
        (donor(1, {"f": {"a": 1.0}}), "are of the same box"),
        (donor(2, {"f": {"a": 1.0}}, origin="exchange"), "holds adopted winners"),
        (donor(2, {"f": {"a": 1.0}}, adopted_profile="x86-base"), "holds adopted winners"),
        (donor(2, {"g": {"a": 1.0}}), "no row was timed on every box"),
    ],
)
def test_merge_refuses_donors_that_do_not_belong_together(second: Donor, words: str) -> None:
    with pytest.raises(Refused, match=words):
        merged(donor(1, {"f": {"a": 1.0}}), second)


def test_merge_takes_no_notice_of_adopted_winners_of_seats_that_left_the_tree() -> None:
    times = {"f": {"a": 1.0}}
    second = donor(2, times)
    gone = replace(
        second.document,
        kernels={**second.document.kernels, "gone": "x"},
        built={**second.document.built, "gone": {"origin": "exchange"}},
    )
    assert merged(donor(1, times), replace(second, document=gone))["kernels"] == {"f": "a"}


def test_merge_refuses_another_version_and_another_source() -> None:
    first = donor(1, {"f": {"a": 1.0}}, v="3")
    whole = manifest(family("f", rows=ABC), scopes=(PINNED,))
    with pytest.raises(Refused, match="has v 2, this tree has 3"):
        merge(whole, PINNED, (first, donor(2, {"f": {"a": 1.0}}, v=2)), cpu_class="x86-avx2", written=WHEN)
    built = [
        Donor(name, replace(donor(n, {"f": {"a": 1.0}}).document, built={"f": {"source": name}}))
        for n, name in ((1, "one"), (2, "two"))
    ]
    with pytest.raises(Refused, match="one and two measured another source"):
        merged(*built)
    silent = Donor("two", replace(built[1].document, built={"f": {"written": "then"}}))
    with pytest.raises(Refused, match="cannot merge f: two does not say which source it measured"):
        merged(built[0], silent)


def test_merge_keeps_the_digests_that_all_donors_share() -> None:
    donors = [
        Donor("x", replace(donor(n, {"f": {"a": 1.0}}).document, built={"f": {"source": "1", "compiler": n}}))
        for n in (1, 2)
    ]
    assert merged(*donors)["built"] == {"f": {"source": "1"}}


def test_merge_without_donors_asks_for_them() -> None:
    with pytest.raises(Refused, match="no sidecar given"):
        merged()


def test_merged_profile_reads_back_with_its_bounds() -> None:
    data = classdefaults.render(merged(donor(1, {"f": {"a": 1.0}})))
    read = profiles.parse("p", "x86-avx2", data)
    assert isinstance(read, profiles.Profile)
    assert read.bounds["f"] == json.loads(json.dumps({"loss_pct": 0.0, "boxes": {box(1): 0.0}}))


def test_scopes_that_share_a_folder_share_one_file() -> None:
    one: dict[str, Json] = {
        "kernels": {"f": "reference"},
        "provenance": {"v": "1", "class": "x", "measured_reference": "f"},
        "built": {"f": {"source": "1"}},
    }
    two: dict[str, Json] = {
        "kernels": {"g": "reference", "h": "a"},
        "provenance": {"w": "2", "class": "x", "measured_reference": "g"},
    }
    assert classdefaults.joined((one, two)) == {
        "kernels": {"f": "reference", "g": "reference", "h": "a"},
        "provenance": {"v": "1", "w": "2", "class": "x", "measured_reference": "f;g"},
        "built": {"f": {"source": "1"}},
    }
    assert classdefaults.joined((two,)) == two

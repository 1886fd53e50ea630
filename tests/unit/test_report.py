"""Records to text and JSON: what a person reads in 80 columns, what a program may rely on."""

from __future__ import annotations

import json
from dataclasses import replace

from small_manifest import AVX2_BOX, ROOT, companion, family, manifest

from tunebuild import report
from tunebuild.document import Document, Json
from tunebuild.model import Box, Check, Scope, Stamp, Stamps, Verdict
from tunebuild.policy import ScopeState
from tunebuild.profiles import Adoption
from tunebuild.report import BoxFacts, Why

SCOPE = Scope("blas", "blas", (), ("dot_f32", "gemm"), defaults=ROOT / "profiles")
STAMPS = Stamps(
    "demo",
    (
        Stamp("dot_f32", "dot_f32", "", "isa_avx2_u4", "manifest", "demo.tune.json", "blas"),
        Stamp("gemm.large", "gemm", "large", "mr4", "profile", "x86-avx2.tune-defaults.json", "blas"),
        Stamp(
            "copy",
            "copy",
            "",
            "nt",
            "fallback",
            "",
            "",
            "the sidecar names zmm for copy, which needs avx512f",
        ),
        Stamp("old", "old", "", "reference", "reference", ""),
        Stamp("null", "null", "", "reference", "manifest", "demo.tune.json", "blas"),
    ),
)


def state(verdict: Verdict, adoption: Adoption | None = None, command: str = "tunebuild mint") -> ScopeState:
    return ScopeState(SCOPE, verdict, adoption or Adoption("none", "blas"), "demo.tune.json", command)


MISSING = Verdict("missing", "copy;old")
COVERED = Adoption("covered", "blas", "x86-avx2", entries=(("f", "a"),))


def test_status_json_has_exactly_the_documented_shape() -> None:
    document = report.status_json(STAMPS, (state(MISSING),))
    assert list(document) == ["app", "families", "scopes"]
    families = document["families"]
    assert isinstance(families, list)
    assert families[0] == {
        "family": "dot_f32",
        "scope": "blas",
        "suffix": "isa_avx2_u4",
        "source": "manifest",
        "path": "demo.tune.json",
    }
    assert document["scopes"] == [
        {"scope": "blas", "complete": False, "reason": "missing", "detail": "copy;old"}
    ]
    assert json.loads(json.dumps(document)) == document


def test_status_json_says_reference_by_an_empty_suffix() -> None:
    families = report.status_json(STAMPS, ())["families"]
    assert isinstance(families, list)
    words = [(row["suffix"], row["source"]) for row in families if isinstance(row, dict)]
    assert words[3:] == [("", "reference"), ("", "manifest")]


def test_status_json_of_a_covered_scope_is_incomplete_and_says_covered() -> None:
    document = report.status_json(STAMPS, (state(Verdict("absent", "demo.tune.json"), COVERED),))
    assert document["scopes"] == [
        {
            "scope": "blas",
            "complete": False,
            "reason": "absent",
            "detail": "covered by the x86-avx2 profile; demo.tune.json",
        }
    ]


def test_status_text_has_a_row_per_seat_a_note_and_a_verdict_per_scope() -> None:
    text = report.status_text(STAMPS, (state(MISSING),), marks={("copy", "nt"): "ungated"})
    assert text == (
        "demo: 3/5 kernels tuned for this box\n"
        "  dot_f32     isa_avx2_u4  manifest   blas\n"
        "  gemm.large  mr4          profile    blas\n"
        "  copy        nt           fallback   -     ungated\n"
        "  old         reference    reference  -\n"
        "  null        reference    manifest   blas\n"
        "  copy: the sidecar names zmm for copy, which needs avx512f\n"
        "scope blas: missing (copy;old)\n"
        "  run `tunebuild mint`"
    )


def test_status_text_of_complete_and_covered_scopes_asks_for_nothing() -> None:
    text = report.status_text(STAMPS, (state(Verdict("none")), state(MISSING, COVERED)))
    assert text.endswith("scope blas: complete\nscope blas: covered by the x86-avx2 profile")


def test_status_text_names_the_residue_of_a_partial_profile() -> None:
    partial = Adoption("partial", "blas", "x86-avx2", residue=("f", "g"))
    assert "the x86-avx2 profile leaves to race: f, g" in report.status_text(
        STAMPS, (state(MISSING, partial),)
    )


def test_status_text_without_tuner_asks_for_the_sidecar_by_hand() -> None:
    text = report.status_text(STAMPS, (state(MISSING, command=""),))
    assert "write the winners of scope blas into demo.tune.json by hand" in text


def test_status_text_is_ascii_and_within_80_columns() -> None:
    long = Verdict("foreign_box", "measured on linux|x86_64||6.1.0-18-amd64|Ørsted CPU " + "w " * 80)
    text = report.status_text(STAMPS, (state(long),))
    assert text.isascii()
    assert max(len(line) for line in text.splitlines()) <= 80


def test_colour_changes_no_character_that_is_seen() -> None:
    import re

    plain, bright = (report.status_text(STAMPS, (state(MISSING),), colour=on) for on in (False, True))
    assert "\x1b[32mmanifest" in bright
    assert re.sub(r"\x1b\[\d+m", "", bright) == plain


# --- check and box --------------------------------------------------------------------------------


def test_why_says_what_came_from_elsewhere_what_a_dead_race_found_and_what_to_do() -> None:
    adopted = replace(why(), measured={"adopted_from": "exchange"})
    assert "adopted from exchange, not raced on this box" in report.why_text(adopted)
    fallen = replace(
        why(), stamp=replace(why().stamp, source="fallback"), race={"winner": "u16", "margin_pct": 3.0},
        untuned="foreign_box (minted elsewhere); run `tunebuild mint`",
    )  # fmt: skip
    text = report.why_text(fallen)
    assert "recorded:   u16 by a race that does not count now" in text
    assert "untuned:    foreign_box (minted elsewhere); run `tunebuild mint`" in text


def test_margin_below_its_interval_is_the_validations() -> None:
    race = {"margin_pct": 3.6, "rows": {why().stamp.suffix: {"interval_pct": [5.5, 11.9]}}}
    assert "3.60 % (as validated; in the race 95 %: 5.50 to 11.90)" in report.why_text(
        replace(why(), race=race)
    )


def test_check_counts_rows_and_says_what_each_filter_removed() -> None:
    full = replace(
        family("f", companions=(companion("f_pack"),)),
        removed=(("where", 3), ("arch aarch64", 1)),
        domain="n % 4 == 0",
        check=Check(((("n", 4),),), removed_by_domain=11),
    )
    whole = manifest(full, family("g", pin="a", seats=("small", "large")))
    assert report.check_text(whole, 4) == (
        "demo: 2 families, 4 rows\n"
        "  f  2 rows  demo  with f_pack\n"
        "  g  2 rows  demo  2 seats; pinned to a\n"
        "  f: 3 rows removed: not `where`\n"
        "  f: 1 row removed: not `arch aarch64`\n"
        "  f: 11 sizes outside the domain `n % 4 == 0`: not tried"
    )
    document = report.check_json(whole, 4)
    families = document["families"]
    assert isinstance(families, list) and isinstance(families[0], dict)
    assert (families[0]["rows"], families[0]["removed"]) == (2, {"where": 3, "arch aarch64": 1})
    json.dumps(document)


def test_box_names_class_ladder_and_why_no_other_class() -> None:
    facts = BoxFacts(AVX2_BOX, "zen3", 32 << 20)
    text = report.box_text(facts)
    assert "class:    x86-avx2\nladder:   x86-avx2 > x86-base\n" in text
    assert "machine:  zen3, last-level cache 32 MiB\n" in text
    assert "x86-vnni256  needs avxvnni" in text
    document = report.box_json(facts)
    assert (document["class"], document["ladder"]) == ("x86-avx2", ["x86-avx2", "x86-base"])
    json.dumps(document)


def test_box_says_that_forced_features_only_generate() -> None:
    forced = Box(AVX2_BOX.identity, "x86_64", AVX2_BOX.features, ("avxvnni",))
    text = report.box_text(BoxFacts(forced))
    assert "forced:   avxvnni (generate only; a mint refuses)" in text
    assert "class:    x86-vnni256" in text
    assert "vnni256   not here" in text


# --- why ------------------------------------------------------------------------------------------

RACE = {
    "winner": "u4",
    "fallback": "u2",
    "margin_pct": 7.25,
    "floor_pct": 3.0,
    "bar_source": "margin",
    "held_by": "tie",
    "tie": ["u4", "u8"],
    "rounds": 16,
    "doses": 120.4,
    "rows": {
        "u4": {"med_us": 10.0, "gain_pct": 7.25, "interval_pct": [6.0, 8.5]},
        "u2": {"med_us": 10.8, "gain_pct": 0.0},
        "u8": {"med_us": 9.9, "gain_pct": 7.0},
    },
    "rejected": "u16",
    "rejections": {"u16": "gate: wrong result"},
    "validation": {"kept": True, "margin_pct": 7.0, "pairs": 12},
}


def why() -> Why:
    stamp = Stamp("dot", "dot", "", "u4", "manifest", "demo.tune.json", "blas")
    return Why(
        stamp,
        "u2",
        RACE,
        {"box": "linux|x86_64||6.1|Zen", "written": "2026-01-01T00:00:00Z"},
        {},
        ("source", "flags"),
        ("header vec.h",),
        "passed",
    )


def test_mint_notes_name_rejected_rows_and_an_overridden_noise() -> None:
    assert report.mint_notes({}, None) == []
    loud, rows = report.mint_notes({"dot": ("u1", "u2", "u3", "u4")}, 47.66)
    assert "cv reached 47.7 %" in loud and "TUNEBUILD_NOISE_OVERRIDE" in loud
    assert rows == "dot: rejected u1, u2, u3 and 1 more; `tunebuild why dot` says why"


def test_why_of_a_winner_set_by_hand_says_so_and_gives_no_other_rows_evidence() -> None:
    stamp = replace(STAMPS.seats[0], key="dot", suffix="u8", source="manifest")
    text = report.why_text(replace(why(), stamp=stamp, by_hand="its race chose u4", gate="rejected"))
    assert text.startswith("dot runs u8: set by hand in the sidecar, not measured: its race chose u4\n")
    assert "margin" not in text and "validated" not in text
    assert "--row u8` says why" in text
    assert report.why_json(replace(why(), by_hand="its race chose u4"))["set_by_hand"] is True


def test_why_names_winner_runner_up_margin_noise_measurer_and_what_makes_it_stale() -> None:
    assert report.why_text(why()) == (
        "dot runs u4: raced on this box\n"
        "  from:       demo.tune.json\n"
        "  chain:      u2 would serve without a measurement\n"
        "  runner-up:  u8, 0.27 % slower\n"
        "  margin:     7.25 % over u2 (95 %: 6.00 to 8.50)\n"
        "  noise:      bar 3.00 %, set by the margin\n"
        "  held by:    tie\n"
        "  tied with:  u8\n"
        "  raced:      16 rounds, 120 doses\n"
        "  validated:  kept with 7.00 % in 12 pairs in another process\n"
        "  rejected:   u16, gate: wrong result\n"
        "  measured:   box linux|x86_64||6.1|Zen, written 2026-01-01T00:00:00Z\n"
        "  gate:       passed on this box\n"
        "  stale when: source, flags change\n"
        "  stale now:  header vec.h"
    )
    document = report.why_json(why())
    assert document["runner_up"] == {"suffix": "u8", "slower_pct": 0.27}
    json.dumps(document)


def test_why_of_a_demoted_row_says_that_it_was_faster_in_the_race() -> None:
    race: dict[str, Json] = {
        "demoted": "r4",
        "rows": {"r2": {"med_us": 3.0}, "r4": {"med_us": 2.0}},
        "validation": {"kept": False},
        "rejections": {"r2": "gate: n=31: element 3 differs"},
    }
    stamp = replace(STAMPS.seats[0], suffix="r2")
    text = report.why_text(Why(stamp, "r2", race, {}, {}, gate="ungated"))
    assert "runner-up:  r4, 33.33 % faster in the race, demoted in validation" in text
    assert "gate:       rejected in the last mint\n" in text + "\n"


def test_why_of_a_row_that_lost_in_the_app_says_so() -> None:
    race: dict[str, Json] = {
        "demoted": "r4",
        "held_by": "confirm",
        "rows": {"r2": {"med_us": 3.0}, "r4": {"med_us": 2.0}},
        "confirm": {"kept": False, "gain_pct": 0.4, "why": "not confirmed: +0.40 % end to end, 2 % wanted"},
    }
    text = report.why_text(Why(replace(STAMPS.seats[0], suffix="r2"), "r2", race, {}, {}))
    assert "runner-up:  r4, 33.33 % faster in the race, not in the app\n" in text
    assert "in the app: not confirmed: +0.40 % end to end, 2 % wanted\n" in text


def test_status_text_of_a_covered_scope_says_why_its_sidecar_does_not_count() -> None:
    damaged = Verdict("unreadable", "demo.tune.json: the digest differs")
    text = report.status_text(STAMPS, (state(damaged, COVERED),))
    assert text.endswith(
        "scope blas: covered by the x86-avx2 profile\n"
        "  its own sidecar does not count: unreadable (demo.tune.json: the digest\n    differs)"
    )


def test_runner_up_of_a_file_without_gains_goes_by_medians_of_rows_that_passed() -> None:
    race: dict[str, Json] = {
        "rows": {"a": {"med_us": 10.0}, "b": {"med_us": 11.0}, "c": {"med_us": 9.0}},
        "rejected": "c",
    }
    found = report.runner_up(race, "a")
    assert found is not None and (found[0], round(found[1], 6)) == ("b", 10.0)
    assert report.runner_up({}, "a") is None


def test_why_of_an_unmeasured_seat_says_that_the_chain_serves() -> None:
    stamp = Stamp("dot", "dot", "", "u2", "fallback", "", "blas")
    text = report.why_text(Why(stamp, "u2", {}, {}, {}))
    assert text == "dot runs u2: the fallback chain; nothing measured answers here"


def test_why_of_a_profile_winner_states_its_bound() -> None:
    stamp = Stamp("dot", "dot", "", "u4", "profile", "p.json", "blas")
    text = report.why_text(Why(stamp, "u4", {}, {}, {"loss_pct": 1.5, "boxes": ["a", "b"]}))
    assert "at most 1.50 % slower than the best row on 2 boxes" in " ".join(text.split())


def test_measured_by_says_who_when_and_from_where_an_entry_was_adopted() -> None:
    document = Document(
        kernels={"f": "a", "g": "b"},
        provenance={"box": "linux|x86_64||6.1|Zen", "written": "later", "noise": "ok", "binary": "~/x"},
        built={"f": {"written": "then"}, "g": {"origin": "profile:x86-avx2"}},
    )
    assert report.measured_by(document, "f") == {
        "box": "linux|x86_64||6.1|Zen",
        "written": "then",
        "noise": "ok",
    }
    assert report.measured_by(document, "g")["adopted_from"] == "profile:x86-avx2"
    assert report.measured_by(document, "h") == {}

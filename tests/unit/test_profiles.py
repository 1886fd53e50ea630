"""Class profiles: the walk down the ladder, coverage, what is left to race, adoption."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from small_manifest import AVX2_BOX, PLAIN_BOX, ROOT, WIDE_BOX, companion, family, manifest, row

from tunebuild import profiles
from tunebuild.model import App, Box, Manifest, Scope
from tunebuild.profiles import Adoption, Chosen, Profile, Unusable, choose, parse
from tunebuild.resolve import Here, resolve

SCOPE = Scope("demo", "blas", (), ("f",), defaults=ROOT / "profiles")
PINNED = replace(SCOPE, version_key="kernels_version", version="3")
AVX2 = "avx2;f16c;fma;sse4.2"


def content(kernels: object, **provenance: object) -> bytes:
    return json.dumps({"kernels": kernels, "provenance": provenance}).encode()


def walk(scope: Scope, *files: bytes | None) -> Chosen:
    classes = ("x86-vnni512", "x86-vnni256", "x86-avx2", "x86-base")
    return choose(
        scope, tuple((name, Path(f"p/{name}.json"), data) for name, data in zip(classes, files, strict=False))
    )


def profile(kernels: Mapping[str, str], features: str = AVX2, cpu_class: str = "x86-avx2") -> Profile:
    return Profile(f"p/{cpu_class}.json", cpu_class, kernels, {"features": features}, {})


# --- the walk -------------------------------------------------------------------------------------


def test_ladder_paths_name_every_rung_present_or_not() -> None:
    whole = manifest(family())
    assert [path.name for path in profiles.ladder_paths(whole, whole.apps[0], WIDE_BOX)] == [
        "x86-vnni512.tune-defaults.json",
        "x86-vnni256.tune-defaults.json",
        "x86-avx2.tune-defaults.json",
        "x86-base.tune-defaults.json",
    ]


def test_scope_without_defaults_has_no_rung() -> None:
    assert profiles.rungs(replace(SCOPE, defaults=None), AVX2_BOX) == ()


def test_app_depends_on_the_profiles_of_its_own_scopes_only() -> None:
    other = Scope("other", "misc", (), (), defaults=ROOT / "elsewhere")
    app = App("tool", "exe", ("demo",))
    whole = manifest(family(), scopes=(SCOPE, other), apps=(app,))
    assert {path.parent for path in profiles.ladder_paths(whole, app, PLAIN_BOX)} == {ROOT / "profiles"}


def test_own_class_is_taken_first_and_files_are_never_mixed() -> None:
    chosen = walk(SCOPE, content({"f": "a"}), content({"f": "b", "g": "b"}))
    assert chosen.profile is not None
    assert (chosen.profile.cpu_class, chosen.profile.kernels) == ("x86-vnni512", {"f": "a"})


def test_only_a_lower_rung_exists_and_answers() -> None:
    chosen = walk(SCOPE, None, None, content({"f": "a"}))
    assert chosen.profile is not None
    assert (chosen.profile.cpu_class, chosen.skipped) == ("x86-avx2", ())


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (b"", "it is unreadable: the file is empty"),
        (b"{", "it is unreadable: not JSON at line 1 column 2"),
        (b"\xff\xfe", "it is unreadable: not UTF-8"),
        (b"[1]", "it is unreadable: the outermost value is not an object"),
        (b"[" * 100_000, "it is unreadable: nested deeper"),
        (b'{"kernels": {"f": "a", "f": "b"}}', "the key 'f' stands twice"),
        (b'{"kernels": {"f": "a"}, "bounds": {"f": {"loss_pct": NaN}}}', "NaN is not a number"),
        (b'{"kernels": {"f": "\\u001b[31ma"}}', "which is no name"),
        (b'{"kernels": {"f g": "a"}}', "`kernels` holds 'f g', which is no name"),
        (b'{"kernels": {"f": "a"}, "format": 2}', "it is written in format 2; this tunebuild reads up to 1"),
        (b'{"kernels": {"f": "a"}, "format": "new"}', "it is written in format 'new'"),
        (content({"f": "a"}, **{"class": "x86-avx2"}), "it says class 'x86-avx2'"),
        (content({"f": "a"}, **{"class": ["\x1b"]}), "it says class ['\\x1b']"),
        (content({"f": "a"}, arch="aarch64"), "it says arch 'aarch64', x86-vnni512 is of x86_64"),
        (b" " * (profiles.MAX_BYTES + 1), "more than"),
    ],
)
def test_unreadable_profile_is_passed_over_with_its_reason(bad: bytes, why: str) -> None:
    chosen = walk(SCOPE, bad, content({"f": "a"}))
    assert chosen.profile is not None and chosen.profile.cpu_class == "x86-vnni256"
    assert why in chosen.skipped[0].why and chosen.skipped[0].fix


@pytest.mark.parametrize(
    ("recorded", "serves"),
    [("3", True), (3, True), (3.0, True), ("2", False), (2, False), (None, False), (True, False)],
)
def test_version_pin_compares_text_and_numbers_alike(recorded: object, serves: bool) -> None:
    provenance = {} if recorded is None else {"kernels_version": recorded}
    chosen = walk(PINNED, content({"f": "a"}, **provenance), content({"f": "b"}, kernels_version="3"))
    assert chosen.profile is not None
    assert chosen.profile.cpu_class == ("x86-vnni512" if serves else "x86-vnni256")


def test_skipped_version_names_recorded_and_expected() -> None:
    chosen = walk(PINNED, content({"f": "a"}, kernels_version=2))
    assert chosen.profile is None
    assert chosen.skipped[0].line == (
        "p/x86-vnni512.json is passed over: it has kernels_version 2, this tree has 3; run `tunebuild mint`, then "
        "`tunebuild profile export`, on a box of x86-vnni512"
    )


def test_profile_of_an_app_that_is_not_the_default_one_is_written_anew_by_its_commands() -> None:
    for data, words in (
        (
            content({}),
            "run `tunebuild mint --app tool`, then `tunebuild profile export --app tool`, on a box of",
        ),
        (content({"f": "a"}, arch="arm64"), "run `tunebuild mint --app tool`, then `tunebuild profile"),
        (b"{", "restore it, or write it anew with `tunebuild profile export --app tool`"),
    ):
        (skip,) = choose(SCOPE, (("x86-avx2", Path("p"), data),), None, " --app tool").skipped
        assert skip.fix.startswith(words)


@pytest.mark.parametrize("kernels", [{}, {"f": 7}, {"f": ""}, [], None])
def test_profile_without_winners_ends_the_walk(kernels: object) -> None:
    chosen = walk(SCOPE, content(kernels), content({"f": "a"}))
    assert (chosen.profile, chosen.skipped[0].why) == (None, "it names no winner")


def test_profile_that_says_its_own_class_and_architecture_in_any_spelling_serves() -> None:
    chosen = walk(SCOPE, content({"f": "a"}, **{"class": "x86-vnni512"}, arch="AMD64"))
    assert chosen.profile is not None and chosen.skipped == ()


def test_misnamed_profile_says_the_name_that_it_should_have() -> None:
    (skip,) = walk(SCOPE, content({"f": "a"}, **{"class": "x86-base"})).skipped
    assert skip.fix.startswith("name it x86-base.tune-defaults.json if it is that, or run `tunebuild mint`")


def test_bound_that_is_no_loss_is_not_kept() -> None:
    losses = {"f": -1, "g": True, "h": "1", "i": 10**400, "j": 2.5}
    data = json.dumps(
        {"kernels": {"f": "a"}, "bounds": {k: {"loss_pct": v, "boxes": 7} for k, v in losses.items()}}
    )
    read = parse("p", "x86-avx2", data.encode())
    assert not isinstance(read, Unusable)
    assert read.bounds == {**{key: {} for key in "fghi"}, "j": {"loss_pct": 2.5}}


def test_non_string_winners_and_non_scalar_provenance_are_ignored() -> None:
    read = parse("p", "x86-avx2", content({"f": "a", "g": 1}, features=AVX2, odd=[1], flag=True))
    assert not isinstance(read, Unusable)
    assert (read.kernels, read.provenance) == ({"f": "a"}, {"features": AVX2})


# --- coverage and residue -------------------------------------------------------------------------


def adopt(
    whole: Manifest,
    found: Profile | None,
    box: Box = AVX2_BOX,
    fresh: Mapping[str, str] | None = None,
    ineligible: Mapping[tuple[str, str], str] | None = None,
) -> Adoption:
    scope = whole.scopes[0]
    here = Here.of(box, ineligible=ineligible)
    return profiles.adoption(whole, scope, (Chosen(scope.name, found),), here, fresh or {})


def test_profile_with_every_winner_covers_and_writes_no_notes() -> None:
    done = adopt(manifest(family("f"), family("g")), profile({"f": "a", "g": "a"}))
    assert (done.kind, done.cpu_class, done.residue, done.notes) == ("covered", "x86-avx2", (), ())
    assert done.entries == (("f", "a"), ("g", "a"))


def test_no_profile_adopts_nothing() -> None:
    assert adopt(manifest(family()), None).kind == "none"


def test_family_the_profile_does_not_name_is_the_residue() -> None:
    done = adopt(manifest(family("f"), family("g")), profile({"f": "a"}))
    assert (done.kind, done.residue, done.only) == ("partial", ("g",), "=g")
    assert done.entries == (("f", "a"),)
    assert done.notes == (("adopted_profile", "x86-avx2"),)


def test_partial_adoption_stamps_the_version_of_the_scope() -> None:
    whole = manifest(family("f"), family("g"), scopes=(replace(PINNED, families=("f", "g")),))
    found = profile({"f": "a"})
    pinned = replace(found, provenance={**found.provenance, "kernels_version": 3})
    assert dict(adopt(whole, pinned).notes) == {
        "adopted_profile": "x86-avx2",
        "kernels_version": "3",
    }
    assert adopt(whole, found).kind == "none", "of an unknown version"


def test_row_that_the_donor_could_not_run_unlocks_its_family() -> None:
    done = adopt(
        manifest(family("f"), family("g", rows=(row("a"),))), profile({"f": "a", "g": "a"}), WIDE_BOX
    )
    assert (done.kind, done.residue) == ("partial", ("f",))
    assert done.why == (("f", "this box can run b, which the profile's box could not"),)


def test_row_that_needs_an_absent_toolchain_unlocks_nothing() -> None:
    whole = manifest(family("f"))
    done = adopt(whole, profile({"f": "a"}), WIDE_BOX, ineligible={("f", "b"): "no clang"})
    assert done.kind == "covered"


def test_profile_without_recorded_features_unlocks_every_gated_row() -> None:
    gated = family("f", rows=(row("a"), row("b", "avx2")))
    assert adopt(
        manifest(gated, family("g", rows=(row("a"),))), profile({"f": "a", "g": "a"}, "")
    ).residue == ("f",)


def test_alternatives_are_judged_over_the_recorded_features() -> None:
    whole = manifest(family("f", rows=(row("a"), row("b", "avx2|avx512f"))))
    assert adopt(whole, profile({"f": "a"}), WIDE_BOX).kind == "covered"


@pytest.mark.parametrize(
    ("winner", "why"),
    [
        ("b", "the profile x86-avx2.json names b for f, which needs avx512f"),
        ("gone", "the profile x86-avx2.json names gone for f, which is no row of this grid"),
    ],
)
def test_winner_this_box_cannot_use_is_raced_and_not_adopted(winner: str, why: str) -> None:
    done = adopt(manifest(family("f"), family("g")), profile({"f": winner, "g": "a"}))
    assert (done.residue, done.entries) == (("f",), (("g", "a"),))
    assert done.why == (("f", why),)


def test_missing_names_come_before_unlocked_families_without_repeats() -> None:
    whole = manifest(family("f"), family("g"), family("h"), family("k", rows=(row("a"),)))
    assert adopt(whole, profile({"f": "a", "h": "a", "k": "a"}), WIDE_BOX).residue == ("g", "f", "h")


def test_residue_holds_every_seat_of_a_family() -> None:
    whole = manifest(family("f", seats=("small", "large")), family("g"))
    assert adopt(whole, profile({"f.small": "a", "g": "a"})).residue == ("f.small", "f.large")


def test_pinned_family_is_no_residue() -> None:
    assert adopt(manifest(family("f", pin="a"), family("g")), profile({"g": "a"})).kind == "covered"


def test_family_measured_here_is_neither_adopted_nor_raced() -> None:
    done = adopt(manifest(family("f"), family("g")), profile({"f": "a", "g": "a"}), WIDE_BOX, {"f": "b"})
    assert (done.residue, dict(done.entries)) == (("g",), {})
    done = adopt(manifest(family("f"), family("g")), profile({"f": "a", "g": "a"}), fresh={"f": "a"})
    assert (done.kind, done.entries) == ("covered", (("g", "a"),))


def test_seat_measured_here_stays_and_the_others_of_its_family_are_adopted() -> None:
    whole = manifest(family("f", rows=(row("a"), row("b")), seats=("small", "large")), family("g"))
    done = adopt(whole, profile({"f.small": "a", "f.large": "a"}), fresh={"f.small": "b"})
    assert (done.residue, done.entries) == (("g",), (("f.large", "a"),))


def test_seat_measured_in_another_layout_than_the_profiles_sends_its_family_to_the_race() -> None:
    rows = (row("a", layout=(4,)), row("b", layout=(8,)))
    whole = manifest(family("f", rows=rows, seats=("small", "large"), layout=("mr",)))
    done = adopt(whole, profile({"f.small": "a", "f.large": "a"}), fresh={"f.small": "b"})
    assert dict(done.why)["f.large"].endswith("rows of different layouts (f.small b, f.large a)")


def test_companions_own_row_travels_with_its_family() -> None:
    whole = manifest(family("f", companions=(companion("f_v", own_seat=True),)), family("g"))
    assert adopt(whole, profile({"f": "a", "f_v": "a", "unrelated": "x"})).entries == (
        ("f", "a"),
        ("f_v", "a"),
    )


def test_companion_that_the_profile_does_not_name_follows_and_is_no_residue() -> None:
    whole = manifest(family("f", companions=(companion("f_v", own_seat=True),)), family("g"))
    done = adopt(whole, profile({"f": "a"}))
    assert (done.entries, done.residue) == ((("f", "a"),), ("g",))
    assert adopt(whole, profile({"f": "a", "g": "a"})).kind == "covered"
    stamps = resolve(
        whole, whole.apps[0], profiles=(profiles.source(profile({"f": "a"})),), here=Here.of(AVX2_BOX)
    )
    assert stamps.companions == ()


def test_scope_without_a_folder_is_answered_where_the_stamp_is() -> None:
    scopes = (SCOPE, Scope("bare", "misc", (), ("g",)))
    whole = manifest(family("f"), family("g", module="misc"), scopes=scopes)
    chosen = (Chosen("demo", profile({"f": "a", "g": "a"})), Chosen("bare", None))
    done = profiles.adoption(whole, scopes[1], chosen, Here.of(AVX2_BOX), {})
    assert (done.kind, done.entries) == ("covered", (("g", "a"),))
    stamps = resolve(whole, whole.apps[0], profiles=profiles.sources(whole, chosen), here=Here.of(AVX2_BOX))
    assert [(stamp.suffix, stamp.source) for stamp in stamps.seats] == [("a", "profile")] * 2


def test_adoption_keeps_what_the_donors_measured() -> None:
    found = replace(profile({"f": "a"}), built={"f": {"source": "1"}, "g": {"source": "2"}})
    assert adopt(manifest(family("f"), family("g")), found).origin_built == (("f", {"source": "1"}),)


def test_nothing_usable_in_the_profile_is_a_full_race_that_says_why() -> None:
    done = adopt(manifest(family("f"), family("g"), family("h")), profile({"f": "a", "h": "a"}), WIDE_BOX)
    assert (done.kind, done.residue) == ("none", ("g", "f", "h"))
    assert done.left_words == (
        "the x86-avx2 profile leaves to race: g (the profile does not name it); "
        "f, h (this box can run b, which the profile's box could not)"
    )


def test_reasons_of_a_residue_are_counted_after_the_first_six() -> None:
    many = tuple(family(f"f{n}", rows=(row("a"), row(f"b{n}", "avx512f"))) for n in range(8))
    done = adopt(manifest(*many), profile({one.name: "a" for one in many}), WIDE_BOX)
    assert done.left_words.endswith(
        "f5 (this box can run b5, which the profile's box could not); and 2 more reasons"
    )


def test_profile_that_names_no_seat_of_the_tree_ends_the_walk_and_is_said() -> None:
    ladder = tuple(
        (cpu_class, Path("p") / cpu_class, content({name: "a"}))
        for cpu_class, name in (("x86-vnni512", "gone"), ("x86-avx2", "f"))
    )
    chosen = choose(SCOPE, ladder, {"f"})
    assert (chosen.profile, chosen.skipped[0].why) == (None, "it names no seat of this tree")
    known = choose(SCOPE, ladder)
    assert known.profile is not None and known.profile.cpu_class == "x86-vnni512"


@pytest.mark.parametrize("box", [PLAIN_BOX, AVX2_BOX, WIDE_BOX])
@pytest.mark.parametrize("winner", ["a", "b", "gone", "reference", ""])
def test_covered_means_that_the_stamp_comes_from_the_profile(box: Box, winner: str) -> None:
    whole = manifest(family("f"))
    found = profile({"f": winner}, ";".join(sorted(box.features)))
    covered = adopt(whole, found, box).kind == "covered"
    stamped = resolve(whole, whole.apps[0], profiles=(profiles.source(found),), here=Here.of(box))
    assert covered == bool(stamped.seats[0].path)


def test_family_whose_own_winner_cannot_serve_is_raced_and_not_answered_by_the_profile() -> None:
    whole = manifest(family("f"), family("g"))
    done = adopt(whole, profile({"f": "a", "g": "a"}), fresh={"f": "b"})
    assert (done.kind, done.residue, done.entries) == ("partial", ("f",), (("g", "a"),))
    assert done.why == (("f", "the sidecar names b for f, which needs avx512f"),)

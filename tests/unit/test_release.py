from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from small_manifest import companion, family, manifest

from tunebuild import release
from tunebuild.document import Document
from tunebuild.model import App, Scope, Stamp, Stamps, Verdict
from tunebuild.policy import ScopeState
from tunebuild.profiles import Adoption

LIBRARY = App("kit", "library", ("lib",), libs=("-lfftw3",))
SCOPE = Scope("lib", "blas", (), ("f",), root=Path("/p"))
COMPLETE = ScopeState(SCOPE, Verdict("none"), Adoption("none", "lib"), "/p/kit.tune.json", "tunebuild mint")
MISSING = replace(COMPLETE, verdict=Verdict("missing", "f", ("f",)))
BY_HAND = replace(MISSING, scope=replace(SCOPE, tuner="none"), command="")
MEASURED = Document(kernels={"f": "u4"}, built={"f": {"source": "1"}})
ADOPTED = Document(kernels={"f": "u4"}, built={"f": {"origin": "profile:x86-avx2"}})


@pytest.mark.parametrize(
    ("state", "document", "quick", "action", "words"),
    [
        (COMPLETE, MEASURED, False, "mint", "measures what it ships"),
        (COMPLETE, MEASURED, True, "inherit", "measured here"),
        (MISSING, MEASURED, True, "mint", "a complete sidecar only, this one is not: f"),
        (COMPLETE, ADOPTED, True, "mint", "measured here only, not f"),
        (BY_HAND, None, False, "by hand", "no tuner"),
        (BY_HAND, None, True, "by hand", "no tuner"),
    ],
)
def test_plan_inherits_only_what_was_measured_here_and_only_when_asked(
    state: ScopeState, document: Document | None, quick: bool, action: str, words: str
) -> None:
    plan = release.plan_scope(state, document, ("f",), quick)
    assert plan.action == action and words in plan.why


def test_a_covered_box_is_minted_for_a_release() -> None:
    covered = replace(MISSING, adoption=Adoption("covered", "lib", "x86-avx2"))
    assert covered.answered
    assert release.plan_scope(covered, None, ("f",), True).action == "mint"


def test_scope_left_incomplete_fails_unless_it_has_no_tuner() -> None:
    minted = release.ScopePlan("lib", "mint", "")
    assert release.scope_check(COMPLETE, minted).word == "ok"
    failed = release.scope_check(MISSING, minted)
    assert failed.word == "failed" and "still untuned" in failed.why and failed.fix
    warned = release.scope_check(BY_HAND, release.ScopePlan("lib", "by hand", "it has no tuner"))
    assert warned.word == "warning" and "fallback rows ship" in warned.why and "by hand" in warned.fix
    assert release.may_ship([warned]) and not release.may_ship([warned, failed])


def test_rejected_stamp_fails_the_gate_with_its_reason() -> None:
    bad = release.gate_check([("f", "u4"), ("g", "u2")], {("g", "u2"): "rejected: n = 31"})
    assert bad.word == "failed" and bad.why == "g__u2: rejected: n = 31"
    assert release.gate_check([("f", "u4"), ("f", "u4")], {}).why == "1 stamped rows passed on this box"


@pytest.mark.parametrize(("noise", "word"), [("ok", "ok"), ("noisy", "warning"), ("overridden", "warning")])
def test_noise_of_the_mint_is_said(noise: str, word: str) -> None:
    assert release.noise_check(Document(provenance={"noise": noise})).word == word


def test_stamps_are_counted_by_source() -> None:
    stamp = Stamp("f", "f", "", "u4", "manifest", "", "lib")
    stamps = Stamps("kit", (stamp, replace(stamp, key="g", suffix="reference", source="reference")))
    assert release.stamp_check(stamps).why == "1 by manifest, 1 by reference; 1 run the reference body"


WHOLE = manifest(family("f", companions=(companion("f_pack"), companion("f_v", own_seat=True))))
SERVED = Stamps("kit", (Stamp("f", "f", "", "u4", "manifest", "", "lib"),))
RACED = replace(MEASURED, race={"f": {"winner": "u4"}})


@pytest.mark.parametrize(
    ("document", "word"),
    [
        (RACED, "ok"),
        (replace(MEASURED, race={"f": {"winner": "u2"}}), "failed"),
        (MEASURED, "failed"),
        (replace(MEASURED, race={"f": {"rows": {"u4": {"med_us": 1.0}}}}), "failed"),
        (ADOPTED, "ok"),
        (None, "ok"),
    ],
)
def test_winner_that_no_race_decided_does_not_ship(document: Document | None, word: str) -> None:
    check = release.hand_check(WHOLE, document, SERVED, (COMPLETE,))
    assert check.word == word
    if word == "failed":
        assert check.why == "set by hand, not measured: f"
        assert check.fix == "run `tunebuild mint --only =f`"


def test_winner_without_a_race_ships_where_no_race_of_ours_is_due() -> None:
    own = replace(COMPLETE, scope=replace(SCOPE, tuner="/p/tune.py"))
    assert release.hand_check(WHOLE, MEASURED, SERVED, (own,)).word == "ok"
    bare = release.hand_check(WHOLE, MEASURED, SERVED, (replace(BY_HAND, verdict=Verdict("none")),))
    assert (bare.word, bare.why) == ("warning", "no tuner measured: f")
    over = replace(MEASURED, race={"f": {"winner": "u2"}})
    assert release.hand_check(WHOLE, over, SERVED, (BY_HAND,)).word == "failed"


def test_companions_winner_that_no_race_decided_does_not_ship_either_and_names_the_seat_to_race() -> None:
    both = {"f": "u4", "f_v": "u2"}
    raced = replace(RACED, kernels=both, race={"f": {"winner": "u4"}, "f_v": {"winner": "u2"}})
    assert release.hand_check(WHOLE, raced, SERVED, (COMPLETE,)).word == "ok"
    for race in ({"f": {"winner": "u4"}, "f_v": {"winner": "u8"}}, {"f": {"winner": "u4"}}):
        check = release.hand_check(WHOLE, replace(raced, race=race), SERVED, (COMPLETE,))
        assert (check.word, check.why) == ("failed", "set by hand, not measured: f_v")
        assert check.fix == "run `tunebuild mint --only =f`"
    plain = Stamps("kit", (replace(SERVED.seats[0], source="profile"),))
    assert release.hand_check(WHOLE, replace(raced, race={}), plain, (COMPLETE,)).word == "ok", (
        "it is not shipped"
    )


def test_check_is_one_line_with_its_fix() -> None:
    assert release.Check("noise", "ok", "quiet").line == "ok: noise: quiet"
    assert (
        release.Check("gate", "failed", "f__u4: wrong", "run it").line == "failed: gate: f__u4: wrong; run it"
    )


def test_provenance_names_noise_mode_commit_date_and_box() -> None:
    document = Document(
        provenance={"noise": "ok", "mode": "normal", "engine_sha": "ab12", "written": "T", "box": "b"}
    )
    line = release.provenance_line(document)
    assert line == "noise ok, mode normal, commit ab12, written T, box b"
    assert release.provenance_line(None) == "no sidecar: fallback rows"


def test_bundle_of_a_library_is_relocatable_and_complete() -> None:
    bundle = release.bundle(LIBRARY, release.public_headers(LIBRARY, ("q_constants.h",)), "3")
    assert sorted(bundle.copies) == [
        "include/kit/kit.h",
        "include/kit/q_constants.h",
        "include/kit/tb_loop.h",
        "include/kit/tunebuild.h",
        "lib/libkit.a",
        "lib/libkit.so",
    ]
    config, pc = bundle.texts["lib/cmake/kit/kitConfig.cmake"], bundle.texts["lib/pkgconfig/kit.pc"]
    assert "add_library(kit::kit SHARED IMPORTED)" in config and "add_library(kit::static STATIC" in config
    assert 'INTERFACE_LINK_LIBRARIES "fftw3;m"' in config
    assert pc.startswith("prefix=${pcfiledir}/../..\n") and "Version: 3\n" in pc
    assert not any("/p/" in text for text in bundle.texts.values())


def test_bundles_of_one_kind_hold_that_kind_alone() -> None:
    shared = release.bundle(replace(LIBRARY, kind="shared"), (), "0")
    assert (
        list(shared.copies) == ["lib/libkit.so"]
        and "STATIC" not in shared.texts["lib/cmake/kit/kitConfig.cmake"]
    )
    static = release.bundle(replace(LIBRARY, kind="static"), (), "0")
    config = static.texts["lib/cmake/kit/kitConfig.cmake"]
    assert list(static.copies) == ["lib/libkit.a"] and "add_library(kit::kit STATIC IMPORTED)" in config
    exe = release.bundle(App("demo", "exe", ()), (), "0")
    assert (
        exe.copies == {"bin/demo": "build/normal/demo"} and not exe.texts and exe.sidecar == "demo.tune.json"
    )

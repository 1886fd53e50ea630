"""The stamp ladder: one winner per seat, from one source per family, and the word it came on."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from small_manifest import AVX2_BOX, PLAIN_BOX, WIDE_BOX, companion, family, manifest, row

from tunebuild.model import App, Box, Family, Scope, Stamp, Stamps
from tunebuild.resolve import (
    Here,
    Source,
    chain_pick,
    dropped,
    layout_of,
    raced_references,
    resolve,
)


def sidecar(entries: Mapping[str, str], measured: frozenset[str] = frozenset()) -> Source:
    return Source("manifest", "demo.tune.json", entries, measured)


def profile(entries: Mapping[str, str], path: str = "profiles/x86-avx2.tune-defaults.json") -> Source:
    return Source("profile", path, entries)


def stamps(
    *families: Family,
    local: Mapping[str, str] | None = None,
    shipped: Mapping[str, str] | None = None,
    box: Box = AVX2_BOX,
) -> Stamps:
    whole = manifest(*families)
    return resolve(
        whole,
        whole.apps[0],
        sidecar=None if local is None else sidecar(local),
        profiles=() if shipped is None else (profile(shipped),),
        here=Here.of(box),
    )


def only(found: Stamps) -> Stamp:
    (stamp,) = found.seats
    return stamp


@pytest.mark.parametrize(
    ("local", "shipped", "box", "suffix", "source"),
    [
        (None, None, AVX2_BOX, "a", "fallback"),
        (None, None, WIDE_BOX, "b", "fallback"),
        ({"f": "a"}, None, WIDE_BOX, "a", "manifest"),
        ({"f": "b"}, {"f": "a"}, AVX2_BOX, "a", "fallback"),
        ({"f": "zzz"}, None, AVX2_BOX, "a", "fallback"),
        ({"f": "reference"}, {"f": "a"}, AVX2_BOX, "reference", "reference"),
        ({"f": ""}, {"f": "a"}, AVX2_BOX, "a", "profile"),
        ({}, {"f": "a"}, AVX2_BOX, "a", "profile"),
        ({"other": "a"}, {"f": "a"}, AVX2_BOX, "a", "profile"),
        (None, {"f": ""}, AVX2_BOX, "a", "fallback"),
    ],
)
def test_ladder_gives_the_row_and_its_source(
    local: Mapping[str, str] | None, shipped: Mapping[str, str] | None, box: Box, suffix: str, source: str
) -> None:
    stamp = only(stamps(family(), local=local, shipped=shipped, box=box))
    assert (stamp.suffix, stamp.source) == (suffix, source)


def test_chain_whose_only_entry_cannot_run_gives_the_reference() -> None:
    stamp = only(stamps(family(fallback="b")))
    assert (stamp.suffix, stamp.source, stamp.path) == ("reference", "reference", "")


def test_family_without_chain_or_winner_runs_its_reference() -> None:
    assert only(stamps(family(fallback=""))).suffix == "reference"


def test_path_is_the_file_that_answered() -> None:
    assert only(stamps(family(), local={"f": "a"})).path == "demo.tune.json"
    shipped = only(stamps(family(), shipped={"f": "a"}))
    assert shipped.path == "profiles/x86-avx2.tune-defaults.json"
    assert only(stamps(family())).path == ""


def test_dropped_winner_that_lacks_a_feature_is_named_with_file_suffix_and_feature() -> None:
    found = stamps(family(), local={"f": "b"}, shipped={"f": "a"})
    assert dropped(found) == ("f: the sidecar names b for f, which needs avx512f; it runs a (fallback)",)


def test_dropped_winner_of_a_profile_names_the_profile() -> None:
    found = stamps(family(), shipped={"f": "gone"})
    assert dropped(found) == (
        "f: the profile x86-avx2.tune-defaults.json names gone for f, which is no row of this grid; "
        "it runs a (fallback)",
    )


def test_winner_of_an_absent_toolchain_falls_to_the_chain_with_its_reason() -> None:
    whole = manifest(family(rows=(row("a"), row("c", toolchain="clang")), fallback="c;a"))
    here = Here.of(AVX2_BOX, ineligible={("f", "c"): "no clang here"})
    stamp = only(resolve(whole, whole.apps[0], sidecar=sidecar({"f": "c"}), here=here))
    assert (stamp.suffix, stamp.source) == ("a", "fallback")
    assert "no clang here" in stamp.note


def test_forced_feature_makes_a_row_eligible() -> None:
    forced = Box(AVX2_BOX.identity, "x86_64", AVX2_BOX.features, forced=("avx512f",))
    assert only(stamps(family(), box=forced)).suffix == "b"


@pytest.mark.parametrize(
    ("text", "box", "suffix"),
    [
        ("a", AVX2_BOX, "a"),
        ("a;b", WIDE_BOX, "a"),
        ("b;a", AVX2_BOX, "a"),
        ("a:avx512f", AVX2_BOX, "reference"),
        ("a:avx512f;a:avx2", AVX2_BOX, "a"),
        ("b:avx2", AVX2_BOX, "reference"),
        ("a:", PLAIN_BOX, "a"),
        ("b;reference;a", AVX2_BOX, "reference"),
        ("", AVX2_BOX, "reference"),
    ],
)
def test_chain_takes_the_first_entry_that_can_run(text: str, box: Box, suffix: str) -> None:
    assert chain_pick(family(fallback=text), Here.of(box)) == suffix


def test_loop_hint_family_ends_its_chain_in_vec8_u2() -> None:
    hints = family(rows=(row("plain"), row("vec8_u2")), fallback="", hints="short")
    assert chain_pick(hints, Here.of(PLAIN_BOX)) == "vec8_u2"


def test_family_that_is_no_loop_hint_family_ends_its_chain_in_the_reference() -> None:
    assert chain_pick(family(rows=(row("vec8_u2"),), fallback=""), Here.of(PLAIN_BOX)) == "reference"


# --- pins, policy, modes --------------------------------------------------------------------------


def test_pin_outranks_the_sidecar() -> None:
    stamp = only(stamps(family(pin="a"), local={"f": "b"}, box=WIDE_BOX))
    assert (stamp.suffix, stamp.source, stamp.note) == ("a", "fallback", "pinned")


def test_pin_this_box_cannot_run_falls_to_the_chain_and_says_so() -> None:
    stamp = only(stamps(family(pin="b")))
    assert (stamp.suffix, stamp.note) == ("a", "pinned to b, which needs avx512f")


@pytest.mark.parametrize(
    "how", [{"policy": "reference"}, {"mode": "tune"}, {"mode": "test"}, {"frozen": True}]
)
def test_inert_build_stamps_the_reference_everywhere(how: dict[str, object]) -> None:
    whole = manifest(family("f", pin="a"), family("g"))
    here = Here.of(WIDE_BOX)
    found = resolve(whole, whole.apps[0], sidecar=sidecar({"f": "a"}), here=here, **how)  # type: ignore[arg-type]
    assert {(s.suffix, s.source, s.path) for s in found.seats} == {("reference", "reference", "")}


def test_policy_fallback_keeps_the_stamps() -> None:
    whole = manifest(family())
    here = Here.of(AVX2_BOX)
    assert only(
        resolve(whole, whole.apps[0], sidecar=sidecar({"f": "a"}), here=here, policy="fallback")
    ).source == ("manifest")


# --- reference as a winner ------------------------------------------------------------------------


def test_reference_that_the_race_chose_counts_as_measured() -> None:
    whole = manifest(family())
    local = sidecar({"f": "reference"}, frozenset({"f"}))
    stamp = only(resolve(whole, whole.apps[0], sidecar=local, here=Here.of(AVX2_BOX)))
    assert (stamp.suffix, stamp.source, stamp.path) == ("reference", "manifest", "demo.tune.json")


@pytest.mark.parametrize(
    ("entry", "chosen"),
    [
        ({"winner": "reference", "rows": {"reference": {"med_us": 1}, "a": {"med_us": 2}}}, True),
        ({"winner": "a", "rows": {"reference": {"med_us": 3}, "a": {"med_us": 2}}}, False),
        ({"winner": "reference", "rows": {"reference": {"med_us": 1}}, "rejected": "a; b"}, False),
        ({"winner": "reference", "rows": {"reference": {"med_us": 1}, "a": {}}, "rejected": "a; b"}, False),
        ({"winner": "reference", "rows": {}}, False),
        ({"winner": "reference"}, False),
        ("nonsense", False),
    ],
)
def test_race_chose_the_reference_only_over_a_row_that_passed(entry: object, chosen: bool) -> None:
    assert (raced_references({"f": entry}) == {"f"}) is chosen


# --- seats ----------------------------------------------------------------------------------------

PACKED = (row("mr4", layout=(4,)), row("mr4_u2", layout=(4,)), row("mr8", layout=(8,)))


def packed(**more: object) -> Family:
    return family("g", rows=PACKED, fallback="mr4", seats=("small", "large"), layout=("mr",), **more)


def rows_of(found: Stamps) -> tuple[tuple[str, str, str], ...]:
    return tuple((stamp.key, stamp.suffix, stamp.source) for stamp in found.seats)


def test_seats_of_one_layout_may_differ() -> None:
    found = stamps(packed(), local={"g.small": "mr4", "g.large": "mr4_u2"})
    assert rows_of(found) == (("g.small", "mr4", "manifest"), ("g.large", "mr4_u2", "manifest"))


def test_seats_of_two_layouts_all_fall_to_the_chain() -> None:
    found = stamps(packed(), local={"g.small": "mr4", "g.large": "mr8"})
    assert rows_of(found) == (("g.small", "mr4", "fallback"), ("g.large", "mr4", "fallback"))
    assert dropped(found)[0].startswith(
        "g: the sidecar names rows of different layouts (g.small mr4, g.large mr8)"
    )


def test_reference_in_one_seat_is_a_layout_of_its_own() -> None:
    found = stamps(packed(), local={"g.small": "mr4", "g.large": "reference"})
    assert {source for _, _, source in rows_of(found)} == {"fallback"}


def test_reference_mixes_with_rows_where_nothing_is_packed() -> None:
    plain = family("g", rows=(row("a"),), fallback="a", seats=("small", "large"))
    found = stamps(plain, local={"g.small": "reference", "g.large": "a"})
    assert rows_of(found) == (("g.small", "reference", "reference"), ("g.large", "a", "manifest"))


def test_one_seat_missing_in_the_sidecar_sends_all_seats_to_the_profile() -> None:
    found = stamps(packed(), local={"g.small": "mr8"}, shipped={"g.small": "mr4", "g.large": "mr4_u2"})
    assert rows_of(found) == (("g.small", "mr4", "profile"), ("g.large", "mr4_u2", "profile"))


def test_bare_name_of_a_family_with_seats_is_no_key() -> None:
    assert {source for _, _, source in rows_of(stamps(packed(), local={"g": "mr8"}))} == {"fallback"}


def test_one_bad_seat_drops_the_family() -> None:
    found = stamps(packed(), local={"g.small": "mr4", "g.large": "mr9"})
    assert {source for _, _, source in rows_of(found)} == {"fallback"}


def test_declined_row_is_the_layout_of_the_reference() -> None:
    assert layout_of(packed(), "mr4", {("g", "mr4")}) is layout_of(packed(), "reference")
    assert layout_of(packed(), "mr4") == (4,)


# --- companions -----------------------------------------------------------------------------------

CELLS = (row("a", layout=(4,)), row("b", "avx512f", (4,)), row("c", layout=(4,)), row("d", layout=(8,)))


def coupled() -> Family:
    return family(
        rows=CELLS,
        fallback="a",
        layout=("mr",),
        companions=(companion("f_pack"), companion("f_v", own_seat=True)),
    )


@pytest.mark.parametrize(
    ("local", "own"),
    [
        ({"f": "a", "f_v": "c"}, (("f_v", "c"),)),
        ({"f": "a", "f_v": "a"}, ()),
        ({"f": "a"}, ()),
        ({"f": "a", "f_v": "b"}, ()),
        ({"f": "a", "f_v": "zzz"}, ()),
        ({"f": "a", "f_v": "d"}, ()),
        ({"f": "a", "f_v": "reference"}, ()),
        ({"f": "b", "f_v": "c"}, ()),
        ({"f": "reference", "f_v": "c"}, ()),
        ({"f_v": "c"}, ()),
        ({"f": "a", "f_pack": "c"}, ()),
    ],
)
def test_companion_takes_its_own_row_only_within_grid_box_and_layout(
    local: Mapping[str, str], own: tuple[tuple[str, str], ...]
) -> None:
    assert stamps(coupled(), local=local).companions == own


def test_companion_reads_the_file_that_answered_for_its_family() -> None:
    assert stamps(coupled(), local={"f_v": "c"}, shipped={"f": "a"}).companions == ()
    assert stamps(coupled(), local={}, shipped={"f": "a", "f_v": "c"}).companions == (("f_v", "c"),)


def test_declined_winner_runs_the_reference_with_its_companions() -> None:
    whole = manifest(coupled())
    here = Here.of(AVX2_BOX, declined={("f", "a"): "odd tile"})
    found = resolve(whole, whole.apps[0], sidecar=sidecar({"f": "a", "f_v": "c"}), here=here)
    stamp = only(found)
    assert (stamp.suffix, stamp.source, found.companions) == ("reference", "reference", ())
    assert stamp.note == "a is declined by its template: odd tile"


# --- scopes ---------------------------------------------------------------------------------------


def test_first_scope_whose_profile_answers_wins_with_its_true_file() -> None:
    whole = manifest(family("f"), family("g"))
    first, second = profile({"f": "a"}, "one/p.json"), profile({"f": "b", "g": "a"}, "two/p.json")
    found = resolve(whole, whole.apps[0], profiles=(first, second), here=Here.of(WIDE_BOX))
    assert [(s.suffix, s.path) for s in found.seats] == [("a", "one/p.json"), ("a", "two/p.json")]


def test_app_stamps_the_families_of_its_scopes_and_of_none_with_the_scope_that_covers_them() -> None:
    scopes = (Scope("s", "blas", ("quant",), ("f", "q")), Scope("t", "misc", (), ("m",)))
    app = App("tool", "exe", ("s",))
    families = (family("f"), family("q", module="quant"), family("m", module="misc"), family("n", module="x"))
    found = resolve(manifest(*families, scopes=scopes, apps=(app,)), app, here=Here.of(AVX2_BOX))
    assert [(s.family, s.scope) for s in found.seats] == [("f", "s"), ("q", "s"), ("n", "")]

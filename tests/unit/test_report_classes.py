"""Class profiles in words: the list of what is shipped, one profile whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tunebuild import commands_classes, report_classes
from tunebuild.profiles import Chosen, Profile, Unusable

MERGED = Profile(
    "p/x86-avx2.tune-defaults.json",
    "x86-avx2",
    {"f": "a", "g.small": "b"},
    {"features": "avx2;fma", "written": "2026-02-03T04:05:06Z", "noise": "ok"},
    {"f": {"loss_pct": 1.25, "boxes": {"x": 1.25, "y": 0.0}}, "g": {"loss_pct": 4.0, "boxes": {"x": 4.0}}},
)
SINGLE = Profile("p/x86-base.tune-defaults.json", "x86-base", {"f": "a"}, {})
TORN = Unusable("p/x86-amx.tune-defaults.json", "it is unreadable", "restore it")
FOUND = {"demo": (TORN, MERGED, SINGLE), "other": ()}
OTHER = Unusable("p/x86-vnni256.tune-defaults.json", "it has v 2", "mint")
CHOSEN = (Chosen("demo", MERGED, (TORN, OTHER)),)


def test_list_marks_the_profile_that_answers_and_says_why_others_do_not() -> None:
    assert report_classes.profiles_text(FOUND, CHOSEN) == (
        "scope demo:\n"
        "  x86-avx2  2 entries  within 4.0 % on 2 boxes  answers here\n"
        "  x86-base  1 entry    one box\n"
        "  p/x86-amx.tune-defaults.json is passed over: it is unreadable; restore it\n"
        "  p/x86-vnni256.tune-defaults.json is passed over: it has v 2; mint\n"
        "scope other: no profile shipped"
    )


def test_list_as_json_counts_entries_boxes_and_the_worst_bound() -> None:
    document = report_classes.profiles_json(FOUND, CHOSEN)
    scopes = document["scopes"]
    assert isinstance(scopes, list) and isinstance(scopes[0], dict)
    assert scopes[0]["chosen"] == "x86-avx2"
    assert scopes[0]["profiles"] == [
        {"path": TORN.path, "unusable": "it is unreadable", "fix": "restore it"},
        {
            "path": MERGED.path,
            "class": "x86-avx2",
            "entries": 2,
            "written": "2026-02-03T04:05:06Z",
            "noise": "ok",
            "boxes": 2,
            "bound_pct": 4.0,
        },
        {
            "path": SINGLE.path,
            "class": "x86-base",
            "entries": 1,
            "written": "",
            "noise": "",
            "boxes": 1,
            "bound_pct": None,
        },
    ]
    json.dumps(document)


def test_profile_whole_names_rows_bounds_origin_and_boxes() -> None:
    assert report_classes.profile_text(MERGED) == (
        "class x86-avx2: 2 entries\n"
        "  f        a  within 1.2 %\n"
        "  g.small  b  within 4.0 %\n"
        "  features: avx2 fma\n"
        "  written: 2026-02-03T04:05:06Z\n"
        "  noise: ok\n"
        "  box: x\n"
        "  box: y"
    )
    json.dumps(report_classes.profile_json(MERGED))


@pytest.mark.parametrize(
    ("noise", "words"), [("ok", ""), ("overridden", " (its mint was overridden: mint again on")]
)
def test_export_says_that_its_mint_was_loud(tmp_path: Path, noise: str, words: str) -> None:
    path = tmp_path / "x86-avx2.tune-defaults.json"
    path.write_text(json.dumps({"provenance": {"noise": noise}}))
    document, text = commands_classes._written([path])
    assert document == {"written": [str(path)]} and text.startswith(f"wrote {path}{words}")

"""Scopes and class profiles on every recorded machine: what answers, what is raced, what is believed."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from small_manifest import ROOT, family, manifest, row

from tunebuild import classdefaults, features, fleet, profiles, record
from tunebuild.document import Document, Json
from tunebuild.errors import Refused
from tunebuild.model import Box, Family, Scope
from tunebuild.policy import Due, ScopeState, Start, after_tuning, at_start, demand
from tunebuild.profiles import Chosen, Unusable
from tunebuild.resolve import Here, chain_pick, resolve
from tunebuild.upsert import Change, Writer, merge
from tunebuild.verdict import fresh_entries, verdict

FILES = sorted((Path(__file__).parents[1] / "data" / "boxes").glob("*.json"))
EXPECTED = {path.stem: json.loads(path.read_text())["expect"] for path in FILES}
BOXES = {
    name: Box(said["identity"], said["identity"].split("|")[1], frozenset(said["features"].split(";")) - {""})
    for name, said in EXPECTED.items()
}
LADDERS = {
    "x86-amx": ["x86-amx", "x86-vnni512", "x86-vnni256", "x86-avx2", "x86-base"],
    "x86-vnni512": ["x86-vnni512", "x86-vnni256", "x86-avx2", "x86-base"],
    "x86-vnni256": ["x86-vnni256", "x86-avx2", "x86-base"],
    "x86-avx2": ["x86-avx2", "x86-base"],
    "x86-base": ["x86-base"],
    "arm-i8mm": ["arm-i8mm", "arm-neon"],
    "arm-neon": ["arm-neon"],
}
WHEN = "2026-02-03T04:05:06Z"


def grid(name: str, *rows: tuple[str, str], chain: str) -> Family:
    return family(name, rows=tuple(row(suffix, requires) for suffix, requires in rows), fallback=chain)


# As the catalogue's grids are: what each instruction set adds, an alternative, and one row for all.
X86 = (
    ("base", ""),
    ("avx2", "avx2,fma"),
    ("vnni256", "avx2,avxvnni"),
    ("avx512", "avx512f,avx512bw,avx512vl"),
)
FAMILIES = (
    grid("dot", *X86, chain="avx512;avx2;base"),
    grid(
        "gemm",
        *X86,
        ("vnni512", "avx512f,avx512vnni"),
        ("amx", "amx-tile,amx-int8"),
        chain="vnni512;avx2;base",
    ),
    grid("q4", ("any", ""), ("dotted", "avxvnni|avx512vnni"), ("i8mm", "neon,i8mm"), chain="i8mm;dotted;any"),
    grid("sum", ("base", ""), ("neon", "neon"), ("dotprod", "neon,dotprod"), chain="dotprod;neon;base"),
    grid("copy", ("base", ""), ("wide", ""), chain="base"),
)
SCOPE = Scope(
    "demo", "blas", (), tuple(one.name for one in FAMILIES), version_key="v", version="3",
    defaults=ROOT / "profiles",
)  # fmt: skip
TREE = manifest(*FAMILIES, scopes=(SCOPE,))
KEYS = SCOPE.families
BUILT: dict[str, Json] = dict.fromkeys(("source", "flags", "compiler", "workload", "protocol"), "1") | {
    "headers": {}
}


def can(box: Box, requires: str) -> bool:
    """`requires` by sets alone."""
    return all(set(part.split("|")) & box.features for part in requires.split(",") if part)


def sidecar(box: Box, **notes: Json) -> Document:
    """What a mint there leaves: the best row of each chain won, and every row that it can run was timed."""
    here = Here.of(box)
    kernels = {one.name: chain_pick(one, here) for one in FAMILIES}
    rows: dict[str, dict[str, Json]] = {
        one.name: {
            each.suffix: {"med_us": 1.0 + n} for n, each in enumerate(one.rows) if can(box, each.requires)
        }
        for one in FAMILIES
    }
    provenance: dict[str, Json] = {
        "box": box.identity,
        "features": features.fingerprint(box.features),
        "features_known": len(features.FEATURES),
        "platform": box.identity.split("|")[0],
        "arch": box.arch,
        "written": WHEN,
        "v": "3",
        **notes,
    }
    race = {key: {"winner": winner, "rows": rows[key]} for key, winner in kernels.items()}
    return Document(kernels=kernels, race=race, provenance=provenance, built=dict.fromkeys(kernels, BUILT))


def exported(box: Box) -> bytes:
    found = sidecar(box)
    judged = verdict(found, demand(TREE, SCOPE), box=box, path="demo.tune.json")
    cpu_class = profiles.box_class(box)
    return classdefaults.render(
        classdefaults.export(TREE, SCOPE, found, judged, cpu_class=cpu_class, written=WHEN)
    )


def walked(box: Box, files: dict[str, bytes | Unusable]) -> Chosen:
    rungs = ((name, path, files.get(name)) for name, path in profiles.rungs(SCOPE, box))
    return profiles.choose(SCOPE, tuple(rungs))


EACH = [(name, LADDERS.get(said["class"], [said["class"]])) for name, said in EXPECTED.items()]


# --- the ladder and the walk ----------------------------------------------------------------------


@pytest.mark.parametrize(("name", "ladder"), EACH)
def test_recorded_box_tries_its_ladder_and_takes_the_first_file_that_serves(
    name: str, ladder: list[str]
) -> None:
    box = BOXES[name]
    assert [path.name for _, path in profiles.rungs(SCOPE, box)] == [
        f"{rung}.tune-defaults.json" for rung in ladder
    ]
    good = {rung: content(rung) for rung in (*LADDERS, ladder[0])}
    for lost in range(len(ladder) + 1):
        left = {rung: data for rung, data in good.items() if rung not in ladder[:lost]}
        chosen = walked(box, left).profile
        assert (chosen.cpu_class if chosen else "") == "".join(ladder[lost : lost + 1])


def content(cpu_class: str, version: str = "3", **notes: Json) -> bytes:
    kernels = {one.name: one.rows[0].suffix for one in FAMILIES}
    return json.dumps(
        {"kernels": kernels, "provenance": {"class": cpu_class, "v": version, **notes}}
    ).encode()


@pytest.mark.parametrize(("name", "ladder"), [one for one in EACH if len(one[1]) > 1])
def test_recorded_box_passes_over_what_is_damaged_misnamed_or_of_another_version(
    name: str, ladder: list[str]
) -> None:
    own, lower = ladder[:2]
    for bad in (
        b"{",
        b"",
        content(lower),
        content(own, "2"),
        content(own, arch="riscv64"),
        Unusable(own, "x", "mend it"),
    ):
        chosen = walked(BOXES[name], {own: bad, lower: content(lower)})
        assert chosen.profile is not None and chosen.profile.cpu_class == lower
        assert len(chosen.skipped) == 1 and chosen.skipped[0].why and chosen.skipped[0].fix


# --- coverage and the residue ---------------------------------------------------------------------

DONORS = {said["class"]: name for name, said in reversed(EXPECTED.items())}


@pytest.mark.parametrize(("donor", "adopter"), list(product(sorted(DONORS.values()), EXPECTED)))
def test_recorded_box_races_exactly_what_another_boxs_profile_cannot_answer(donor: str, adopter: str) -> None:
    there, here = BOXES[donor], BOXES[adopter]
    chosen = walked(here, {profiles.box_class(there): exported(there)})
    if profiles.box_class(there) not in LADDERS.get(profiles.box_class(here), [profiles.box_class(here)]):
        assert chosen.profile is None
        return
    assert chosen.profile is not None
    adopted = profiles.adoption(TREE, SCOPE, (chosen,), Here.of(here), {})
    winners = sidecar(there).kernels
    raced = [
        one.name
        for one in FAMILIES
        if any(can(here, each.requires) and not can(there, each.requires) for each in one.rows)
        or not all(can(here, each.requires) for each in one.rows if each.suffix == winners[one.name])
    ]
    assert list(adopted.residue) == raced
    assert adopted.kind == ("covered" if not raced else "none" if len(raced) == len(FAMILIES) else "partial")
    stamps = resolve(TREE, TREE.apps[0], profiles=profiles.sources(TREE, (chosen,)), here=Here.of(here))
    for stamp in stamps.seats:
        if stamp.key not in raced:
            assert (stamp.suffix, stamp.source) == (winners[stamp.key], "profile")
    if adopted.kind == "partial":
        assert dict(adopted.entries) == {key: winners[key] for key in KEYS if key not in raced}
        assert dict(adopted.notes) == {"adopted_profile": profiles.box_class(there), "v": "3"}


def test_box_of_the_512_bit_class_races_what_a_256_bit_profile_won_with_an_extension_it_lacks() -> None:
    there, here = BOXES["recorded-arrowlake"], BOXES["recorded-cascadelake"]
    assert "avxvnni" in there.features - here.features
    file = json.loads(exported(there))
    file["kernels"]["dot"] = "vnni256"
    chosen = walked(here, {"x86-vnni256": json.dumps(file).encode()})
    adopted = profiles.adoption(TREE, SCOPE, (chosen,), Here.of(here), {})
    assert "dot" in adopted.residue and "which needs avxvnni" in dict(adopted.why)["dot"]


# --- one start after the other --------------------------------------------------------------------


def judged_here(box: Box, found: Document | None, files: dict[str, bytes | Unusable]) -> ScopeState:
    """How the scope stands at a start of this box, with these profiles shipped."""
    here, digests = Here.of(box), dict.fromkeys(KEYS, BUILT)
    fresh = fresh_entries(found, box=box, built_now=digests, pins=record.pins(TREE))
    adopted = profiles.adoption(TREE, SCOPE, (walked(box, files),), here, fresh)
    said = verdict(found, demand(TREE, SCOPE), box=box, path="demo.tune.json", built_now=digests)
    return ScopeState(SCOPE, said, adopted, "demo.tune.json", "tunebuild mint")


def adopting(box: Box, found: Document | None, adopted: profiles.Adoption) -> Document:
    """The sidecar after a partial adoption."""
    change = Change(
        kernels=dict(adopted.entries),
        built=dict.fromkeys(dict(adopted.entries), BUILT),
        notes=dict(adopted.notes),
        scope_keys=KEYS,
        origin=f"profile:{adopted.cpu_class}",
    )
    return merge(found, change, Writer(box, WHEN), pins=record.pins(TREE)).document


@pytest.mark.parametrize(("donor", "adopter"), list(product(sorted(DONORS.values()), EXPECTED)))
def test_recorded_box_whose_tuner_failed_keeps_what_it_adopted_and_races_the_rest_at_its_next_start(
    donor: str, adopter: str
) -> None:
    here, files = BOXES[adopter], {profiles.box_class(BOXES[donor]): exported(BOXES[donor])}
    first = judged_here(here, None, files)
    if first.adoption.kind != "partial":
        return
    assert at_start(first, Start("auto")) == Due(("adopt", "tune"), only=first.adoption.only)
    left = adopting(here, None, first.adoption)
    assert left.kernels == dict(first.adoption.entries)
    assert left.provenance["adopted_profile"] == first.adoption.cpu_class
    again = judged_here(here, left, files)
    assert (again.verdict.reason, set(again.verdict.missing)) == ("missing", set(first.adoption.residue))
    due = at_start(again, Start("auto"))
    assert due.actions == ("tune",) and set(due.only.split(",")) == set(first.adoption.only.split(","))
    failed = after_tuning(again, 1)
    assert not failed.tuned and "missing (" in failed.line and "the tuner exited 1" in failed.line


@pytest.mark.parametrize("name", EXPECTED)
def test_recorded_box_that_is_covered_is_judged_anew_at_each_start(name: str) -> None:
    box, own = BOXES[name], profiles.box_class(BOXES[name])
    shipped = exported(box)
    for _ in range(2):
        covered = judged_here(box, None, {own: shipped})
        assert covered.covered and at_start(covered, Start("auto")).actions == ()
    gone = judged_here(box, None, {})
    assert at_start(gone, Start("auto")) == Due(("tune",))
    less = json.loads(shipped)
    del less["kernels"]["copy"]
    fewer = judged_here(box, None, {own: json.dumps(less).encode()})
    assert at_start(fewer, Start("auto")) == Due(("adopt", "tune"), only="=copy")
    assert judged_here(box, None, {own: shipped}).covered


# --- several scopes in one sidecar ----------------------------------------------------------------

ONE = replace(SCOPE, name="one", families=("dot", "gemm"), version_key="one_version", version="3")
TWO = Scope("two", "quant", (), ("q4", "sum", "copy"), version_key="two_version", version="7")
PAIR = manifest(*FAMILIES, scopes=(ONE, TWO))


def minted(found: Document | None, box: Box, scope: Scope, **notes: str) -> Document:
    """The sidecar after one scope's tuner wrote to it."""
    whole = sidecar(box)
    change = Change(
        kernels={key: whole.kernels[key] for key in scope.families},
        race={key: whole.race[key] for key in scope.families},
        built=dict.fromkeys(scope.families, BUILT),
        notes={scope.version_key: scope.version, **notes},
        scope_keys=scope.families,
        full=True,
    )
    digests = dict.fromkeys(KEYS, BUILT)
    merged = merge(found, change, Writer(box, WHEN), built_now=digests, pins=record.pins(PAIR))
    assert merged.reset == ""
    return merged.document


@pytest.mark.parametrize("name", EXPECTED)
def test_two_pinned_scopes_of_a_recorded_box_keep_each_others_entries_and_versions(name: str) -> None:
    box = BOXES[name]

    def reasons(found: Document) -> list[str]:
        asked = (demand(PAIR, scope) for scope in PAIR.scopes)
        return [verdict(found, each, box=box, path="demo.tune.json").reason for each in asked]

    found = minted(None, box, ONE, note_of_one="kept")
    assert reasons(found) == ["none", "version"]
    for scope in (TWO, ONE, TWO):
        found = minted(found, box, scope)
        assert reasons(found) == ["none", "none"]
        assert found.provenance["note_of_one"] == "kept" and set(found.kernels) == set(KEYS)
        assert (found.provenance["one_version"], found.provenance["two_version"]) == ("3", "7")


@pytest.mark.parametrize("name", EXPECTED)
def test_family_of_a_recorded_box_is_demanded_by_one_scope_and_stamped_once(name: str) -> None:
    keys = [key for scope in PAIR.scopes for key in demand(PAIR, scope).keys]
    assert sorted(keys) == sorted(set(keys)) == sorted(KEYS)
    app = replace(PAIR.apps[0], scopes=("two", "one"))
    stamps = resolve(PAIR, app, here=Here.of(BOXES[name])).seats
    assert [(stamp.key, stamp.scope) for stamp in stamps] == [
        (key, "one" if key in ONE.families else "two") for key in KEYS
    ]


# --- the sidecar ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXPECTED)
def test_sidecar_of_a_recorded_box_is_complete_there_and_foreign_everywhere_else(name: str) -> None:
    found, wanted = sidecar(BOXES[name]), demand(TREE, SCOPE)
    for other, box in BOXES.items():
        judged = verdict(found, wanted, box=box, path="demo.tune.json")
        assert judged.reason == ("none" if other == name else "foreign_box")
        if other != name:
            with pytest.raises(Refused, match="the sidecar is foreign_box"):
                classdefaults.export(TREE, SCOPE, found, judged, cpu_class="x86-base", written=WHEN)


@pytest.mark.parametrize("name", EXPECTED)
def test_scope_on_a_recorded_box_is_complete_by_keys_and_version(name: str) -> None:
    box, found, wanted = BOXES[name], sidecar(BOXES[name]), demand(TREE, SCOPE)

    def judged(document: Document) -> tuple[str, str]:
        said = verdict(document, wanted, box=box, path="demo.tune.json")
        return said.reason, said.detail

    blank = replace(found, kernels=dict.fromkeys(KEYS, "reference") | {"dot": ""})
    assert judged(blank) == ("none", "")
    some = {key: row for key, row in found.kernels.items() if key not in ("dot", "sum")}
    assert judged(replace(found, kernels=some)) == ("missing", "dot;sum")
    assert judged(replace(sidecar(box, v=2), kernels=some)) == ("version", "v: recorded 2, expected 3")
    assert judged(sidecar(box, v=3)) == ("none", "")
    assert judged(replace(found, kernels={**found.kernels, "other": "x"})) == ("none", "")


@pytest.mark.parametrize("name", EXPECTED)
def test_exported_profile_of_a_recorded_box_covers_it_and_carries_nothing_of_it(name: str) -> None:
    box = BOXES[name]
    data = exported(box)
    chosen = walked(box, {profiles.box_class(box): data})
    assert profiles.adoption(TREE, SCOPE, (chosen,), Here.of(box), {}).kind == "covered"
    root = json.loads(data)
    assert set(root) == {"kernels", "provenance", "built"}
    assert root["provenance"]["class"] == EXPECTED[name]["class"]
    assert root["provenance"]["features"] == EXPECTED[name]["features"]
    assert box.identity not in data.decode() and not {"box", "binary"} & set(root["provenance"])


# --- the fleet ------------------------------------------------------------------------------------


def judged_fleet(records: list[fleet.Record], here: Box) -> fleet.Fleet:
    digests = dict.fromkeys(KEYS, BUILT)
    tree = fleet.Tree({features.canonical_arch(box.arch): digests for box in BOXES.values()})
    return fleet.fleet(TREE, TREE.apps[0], records, {}, here, tree)


def test_fleet_of_every_recorded_box_is_green_and_each_class_is_measured() -> None:
    records = [fleet.Record(f"{name}.tune.json", sidecar(box)) for name, box in BOXES.items()]
    found = judged_fleet(records, BOXES["recorded-zen3"])
    assert found.green and len(found.witnesses) == len(BOXES)
    assert {cover.cpu_class for cover in found.covers} == {said["class"] for said in EXPECTED.values()}
    assert {cover.state for cover in found.covers} == {"measured"}


PAIRS = [
    (one, two)
    for one, two in product(sorted(DONORS.values()), repeat=2)
    if BOXES[one].arch == BOXES[two].arch and BOXES[one].features > BOXES[two].features
]


@pytest.mark.parametrize(("better", "lesser"), PAIRS)
def test_two_recorded_boxes_that_swap_what_they_say_of_themselves_are_caught(
    better: str, lesser: str
) -> None:
    one, two = sidecar(BOXES[better]), sidecar(BOXES[lesser])
    swapped = (replace(one, provenance=two.provenance), replace(two, provenance=one.provenance))
    found = judged_fleet(
        [fleet.Record(f"{n}.tune.json", each) for n, each in enumerate(swapped)], BOXES[lesser]
    )
    assert not found.green
    assert any("not on such a box" in problem.why for problem in found.problems)

"""Properties for every grid, sidecar, profile and box: stamp and guard agree, bounds are minimal."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st
from small_manifest import family, manifest, row

from tunebuild import profiles
from tunebuild.classdefaults import Donor, merge
from tunebuild.document import Document, Json
from tunebuild.model import Box, Family, Row
from tunebuild.profiles import Chosen, Profile
from tunebuild.resolve import Here, Source, layout_of, resolve, why_not

FEATURES = ("avx2", "fma", "avx512f", "avxvnni")
SUFFIXES = ("a", "b", "c")
sets = st.frozensets(st.sampled_from(FEATURES))
requires = st.sampled_from(("", "avx2", "avx2,fma", "avx2|avx512f", "avx512f", "avxvnni"))
rows = st.tuples(*(st.builds(row, st.just(s), requires, st.sampled_from(((4,), (8,)))) for s in SUFFIXES))
winners = st.sampled_from((*SUFFIXES, "gone", "reference", ""))


@st.composite
def families(draw: st.DrawFn, name: str = "f") -> Family:
    seats = draw(st.sampled_from(((), ("small", "large"))))
    layout = draw(st.sampled_from(((), ("mr",))))
    chain = draw(st.sampled_from(("", "a", "b;a", "c;b;reference;a")))
    made: tuple[Row, ...] = draw(rows)
    return family(name, rows=made, fallback=chain, seats=seats, layout=layout)


@st.composite
def entries(draw: st.DrawFn, whole: tuple[Family, ...]) -> dict[str, str]:
    keys = [seat.key for one in whole for seat in one.seats]
    return {key: draw(winners) for key in keys if draw(st.booleans())}


@st.composite
def worlds(draw: st.DrawFn) -> tuple[tuple[Family, ...], dict[str, str], Profile, Box]:
    whole = (draw(families("f")), draw(families("g")))
    recorded = ";".join(sorted(draw(sets)))
    profile = Profile("p.json", "x86-avx2", draw(entries(whole)), {"features": recorded})
    box = Box("linux|x86_64||6.1|Zen", "x86_64", draw(sets))
    return whole, draw(entries(whole)), profile, box


@given(worlds())
@settings(max_examples=150, deadline=None)
def test_stamp_is_always_a_row_that_runs_here_in_one_layout_from_one_source(
    world: tuple[tuple[Family, ...], dict[str, str], Profile, Box],
) -> None:
    whole, local, profile, box = world
    tree, here = manifest(*whole), Here.of(box)
    found = resolve(
        tree,
        tree.apps[0],
        sidecar=Source("manifest", "s.json", local),
        profiles=(profiles.source(profile),),
        here=here,
    )
    for one in whole:
        stamps = [stamp for stamp in found.seats if stamp.family == one.name]
        assert [stamp.key for stamp in stamps] == [seat.key for seat in one.seats]
        assert not any(why_not(one, stamp.suffix, here) for stamp in stamps)
        assert len({layout_of(one, stamp.suffix) for stamp in stamps}) == 1
        assert len({stamp.path for stamp in stamps}) == 1


@given(worlds())
@settings(max_examples=150, deadline=None)
def test_guard_calls_covered_exactly_what_the_stamp_takes_from_sidecar_or_profile(
    world: tuple[tuple[Family, ...], dict[str, str], Profile, Box],
) -> None:
    whole, local, profile, box = world
    tree, here = manifest(*whole), Here.of(box)
    chosen = (Chosen("demo", profile),)
    fresh = {key: suffix for key, suffix in local.items() if suffix}
    adopted = profiles.adoption(tree, tree.scopes[0], chosen, here, fresh)
    held = {one.name for one in whole if all(fresh.get(seat.key) for seat in one.seats)}
    # A seat measured here may not fit the profile's rows: then the family is raced whole, for that reason.
    partly = {one.name for one in whole if any(fresh.get(seat.key) for seat in one.seats)}
    offered = resolve(tree, tree.apps[0], profiles=(profiles.source(profile),), here=here)
    for stamp in offered.seats:
        if stamp.family in held or adopted.kind == "none":
            continue
        if stamp.key not in adopted.residue:
            assert stamp.path == "p.json"
        elif stamp.path and stamp.family not in partly:
            assert "this box can run" in dict(adopted.why)[stamp.key]
    assert not {key for key, _ in adopted.entries} & (set(adopted.residue) | set(fresh))


@given(worlds())
@settings(max_examples=80, deadline=None)
def test_after_adoption_and_a_race_of_the_residue_nothing_is_missing(
    world: tuple[tuple[Family, ...], dict[str, str], Profile, Box],
) -> None:
    whole, local, profile, box = world
    tree, here = manifest(*whole), Here.of(box)
    fresh = {key: suffix for key, suffix in local.items() if suffix}
    adopted = profiles.adoption(tree, tree.scopes[0], (Chosen("demo", profile),), here, fresh)
    if adopted.kind != "partial":
        return
    raced = dict.fromkeys(adopted.residue, "reference")
    keys = {seat.key for one in profiles.demanded_families(tree, tree.scopes[0]) for seat in one.seats}
    assert keys <= {*fresh, *dict(adopted.entries), *raced}


# --- the bound of a merge -------------------------------------------------------------------------

times = st.lists(st.integers(100, 300), min_size=len(SUFFIXES), max_size=len(SUFFIXES))


def donor(number: int, table: Mapping[str, list[int]]) -> Donor:
    race: dict[str, Mapping[str, Json]] = {}
    kernels = {}
    for key, measured in table.items():
        kernels[key] = SUFFIXES[measured.index(min(measured))]
        timed: dict[str, Json] = {s: {"med_us": t} for s, t in zip(SUFFIXES, measured, strict=True)}
        race[key] = {"winner": kernels[key], "rows": timed}
    provenance: dict[str, Json] = {"box": f"linux|x86_64||6.1|{number}", "features": "avx2"}
    return Donor(str(number), Document(kernels=kernels, race=race, provenance=provenance))


@given(st.lists(st.tuples(times, times), min_size=1, max_size=3))
@settings(max_examples=80, deadline=None)
def test_merged_bound_is_the_least_that_any_choice_of_one_layout_has(
    boxes: list[tuple[list[int], list[int]]],
) -> None:
    cells = (row("a", layout=(4,)), row("b", layout=(4,)), row("c", layout=(8,)))
    one = family("f", rows=cells, fallback="", seats=("s", "t"), layout=("mr",))
    tree = manifest(one)
    donors = [donor(at, {"f.s": first, "f.t": second}) for at, (first, second) in enumerate(boxes)]
    found = merge(tree, tree.scopes[0], donors, cpu_class="x86-avx2", written="now", budget_pct=1e9)
    bounds = found["bounds"]
    assert isinstance(bounds, dict) and isinstance(bounds["f"], dict)

    def worst(s: str, t: str) -> float:
        picks = ((0, SUFFIXES.index(s)), (1, SUFFIXES.index(t)))
        return max(100 * (box[seat][at] / min(box[seat]) - 1) for box in boxes for seat, at in picks)

    allowed = [(s, t) for s, t in product(SUFFIXES, repeat=2) if layout_of(one, s) == layout_of(one, t)]
    assert bounds["f"]["loss_pct"] == round(min(worst(s, t) for s, t in allowed), 3)

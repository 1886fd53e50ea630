"""A compiler bump and a template edit, seen over a fleet of three classes from a machine of a fourth."""

from __future__ import annotations

import json
import os
import platform
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tunebuild import evidence, generate
from tunebuild.document import Document, Json, parse, render
from tunebuild.fleet import Export, Fleet, Tree, fleet
from tunebuild.generate import Generated
from tunebuild.model import Box

PROJECT = Path(__file__).parent.parent / "projects" / "fleet"
NEHALEM = "linux|x86_64||5.10.0|Intel(R) Xeon(R) X5650"
ZEN3 = "linux|x86_64||6.1.0|AMD EPYC 7713"
GRACEMONT = "linux|x86_64||6.5.0|Intel(R) N100"
WIDE = ("avx2", "f16c", "fma", "sse4.2", "avx", "avx512f", "avx512bw", "avx512vl", "avx512vnni")
FOURTH = Box("linux|x86_64||6.8.0|Intel(R) Xeon(R) Gold 6338", "x86_64", frozenset(WIDE))
MEASURED = {GRACEMONT, ZEN3, NEHALEM}
COVERING = Export(ZEN3, "x86-avx2", ("x86-vnni512", "x86-vnni256"))

pytestmark = [
    pytest.mark.cc,
    pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the boxes are of x86-64"),
]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project as three boxes left it: their sidecars and the profile speak of the tree as it is."""
    root = tmp_path / "fleet"
    shutil.copytree(PROJECT, root)
    monkeypatch.setenv("PATH", f"{root / 'bin'}{os.pathsep}{os.environ['PATH']}")
    built: dict[str, Json] = {key: dict(entry) for key, entry in generate.generate(root).built.items()}
    for box in sorted((root / "boxes").glob("*.json")):
        document = parse(json.dumps({**json.loads(box.read_text()), "built": built}).encode())
        assert isinstance(document, Document)
        (root / "boxes" / f"{box.stem}.tune.json").write_bytes(render(document))
    shipped = root / "profiles" / "x86-avx2.tune-defaults.json"
    shipped.write_text(json.dumps({**json.loads(shipped.read_text()), "built": built}))
    return root


def judged(root: Path) -> Fleet:
    found: Generated = generate.generate(root)
    app = found.manifest.apps[0]
    files = evidence.profile_files(found.manifest, app)
    records = evidence.records((root / "boxes",))
    return fleet(found.manifest, app, records, files, FOURTH, Tree({"x86_64": found.built}))


def pairs(found: Fleet) -> set[tuple[str, str]]:
    """What is to mint again."""
    return {(one.box, one.scope) for one in found.remints}


def affected(found: Fleet) -> set[tuple[str, str]]:
    return {(one.box, one.scope) for one in found.affected}


def edit(path: Path, change: Callable[[str], str]) -> None:
    path.write_text(change(path.read_text()))


def bump_compiler(root: Path) -> None:
    edit(root / "bin" / "vendor-cc", lambda text: text.replace("version 1", "version 2"))


def edit_template(root: Path) -> None:
    edit(
        root / "kernels/templates/vec_add/kernel.c.j2",
        lambda text: text.replace("size_t i = 0;", "size_t i = 0; (void)b;"),
    )


def test_fleet_that_measured_this_tree_is_green_and_covers_the_fourth_class(project: Path) -> None:
    found = judged(project)
    states = {cover.cpu_class: cover.state for cover in found.covers}
    assert states == {
        "x86-vnni512": "covered",
        "x86-vnni256": "measured",
        "x86-avx2": "measured",
        "x86-base": "measured",
    }
    assert found.green


def test_template_edit_affects_its_scope_on_every_box_and_asks_for_the_mints_that_no_profile_spares(
    project: Path,
) -> None:
    edit_template(project)
    found = judged(project)
    assert affected(found) == {(box, "vec") for box in MEASURED}
    assert {one.keys for one in found.affected} == {("vec_add",)}
    assert pairs(found) == {(ZEN3, "vec"), (NEHALEM, "vec")}
    assert found.exports == (COVERING,)


def test_comment_in_a_template_asks_for_nothing(project: Path) -> None:
    edit(
        project / "kernels/templates/vec_add/kernel.c.j2",
        lambda text: text.replace("{\n", "{ /* why */\n", 1),
    )
    assert judged(project).green


def test_compiler_bump_asks_for_the_scope_that_uses_it(project: Path) -> None:
    bump_compiler(project)
    found = judged(project)
    assert affected(found) == {(box, "mat") for box in MEASURED}
    assert pairs(found) == {(NEHALEM, "mat")}, (
        "the profile holds under any compiler, once a box gated its row"
    )
    assert found.exports == ()
    stale = [one for one in found.covers if one.key == "mat_scale" and one.cpu_class == "x86-avx2"]
    assert stale[0].reason.startswith("stale_binary: compiler")


def test_bump_and_edit_together_name_exactly_the_affected_pairs(project: Path) -> None:
    bump_compiler(project)
    edit_template(project)
    found = judged(project)
    assert affected(found) == {(box, scope) for box in MEASURED for scope in ("vec", "mat")}
    assert pairs(found) == {(ZEN3, "vec"), (NEHALEM, "vec"), (NEHALEM, "mat")}


def mint_again(root: Path, box: str, scope: str) -> None:
    """What a mint of one scope on one box leaves: that scope's seats measured on the tree at hand."""
    found = generate.generate(root)
    (keys,) = (one.families for one in found.manifest.scopes if one.name == scope)
    path = next(one for one in (root / "boxes").glob("*.tune.json") if box in one.read_text())
    document = json.loads(path.read_text())
    del document["digest"]
    document["built"] |= {key: dict(found.built[key]) for key in keys}
    fresh = parse(json.dumps(document).encode())
    assert isinstance(fresh, Document)
    path.write_bytes(render(fresh))


def export(root: Path, box: str, cpu_class: str) -> None:
    """What an export of that box's profile leaves."""
    path = next(one for one in (root / "boxes").glob("*.tune.json") if box in one.read_text())
    shipped = root / "profiles" / f"{cpu_class}.tune-defaults.json"
    built = json.loads(path.read_text())["built"]
    shipped.write_text(json.dumps({**json.loads(shipped.read_text()), "built": built}))


def test_one_mint_again_leaves_the_others(project: Path) -> None:
    edit_template(project)
    mint_again(project, ZEN3, "vec")
    found = judged(project)
    assert affected(found) == {(box, "vec") for box in MEASURED - {ZEN3}}
    assert pairs(found) == {(NEHALEM, "vec")} and found.exports == (COVERING,)


@pytest.mark.parametrize("change", [(edit_template,), (bump_compiler,), (edit_template, bump_compiler)])
def test_what_is_asked_for_makes_the_fleet_green_and_less_does_not(
    project: Path, tmp_path: Path, change: tuple[Callable[[Path], None], ...]
) -> None:
    for one in change:
        one(project)
    asked = judged(project)
    for left_out in (*asked.remints, *asked.exports, None):
        tree = tmp_path / "as asked"
        shutil.copytree(project, tree)
        for remint in asked.remints:
            if remint != left_out:
                mint_again(tree, remint.box, remint.scope)
        for profile in asked.exports:
            if profile != left_out:
                export(tree, profile.box, profile.cpu_class)
        assert judged(tree).green == (left_out is None), left_out
        shutil.rmtree(tree)


def test_of_two_stale_boxes_of_one_class_one_is_asked(project: Path) -> None:
    twin = json.loads((project / "boxes" / "zen3.tune.json").read_text().replace("EPYC 7713", "EPYC 7543"))
    del twin["digest"]
    document = parse(json.dumps(twin).encode())
    assert isinstance(document, Document)
    (project / "boxes" / "another zen3.tune.json").write_bytes(render(document))
    edit_template(project)
    found = judged(project)
    assert affected(found) == {(box, "vec") for box in (*MEASURED, ZEN3.replace("7713", "7543"))}
    assert pairs(found) == {(ZEN3.replace("7713", "7543"), "vec"), (NEHALEM, "vec")}
    mint_again(project, ZEN3, "vec")
    assert pairs(judged(project)) == {(NEHALEM, "vec")}, "either would do"


# --- evidence that was tampered with --------------------------------------------------------------


def test_swapped_identities_are_caught(project: Path) -> None:
    one, two = (project / "boxes" / f"{name}.tune.json" for name in ("zen3", "nehalem"))
    texts = one.read_text(), two.read_text()
    one.write_text(texts[0].replace(ZEN3, NEHALEM))
    two.write_text(texts[1].replace(NEHALEM, ZEN3))
    found = judged(project)
    assert {Path(problem.name).name for problem in found.problems} == {"zen3.tune.json", "nehalem.tune.json"}
    assert all("digest differs" in problem.why for problem in found.problems)
    assert not found.green


def test_swapped_identities_without_digests_are_caught(project: Path) -> None:
    for name, mine, other in (("zen3", ZEN3, NEHALEM), ("nehalem", NEHALEM, ZEN3)):
        path = project / "boxes" / f"{name}.tune.json"
        document = json.loads(path.read_text().replace(mine, other))
        del document["digest"]
        path.write_text(json.dumps(document))
    found = judged(project)
    assert {problem.why for problem in found.problems} == {
        "it has no digest: edited by hand, so it proves nothing"
    }
    assert not found.green


@pytest.mark.parametrize("cut", [1, 100, 1000])
def test_corrupt_record_is_caught_and_asks_for_every_scope(project: Path, cut: int) -> None:
    path = project / "boxes" / "gracemont.tune.json"
    path.write_bytes(path.read_bytes()[:-cut])
    found = judged(project)
    if cut == 1:  # the last newline says nothing
        assert found.green
        return
    assert found.problems[0].why.startswith("unreadable: not JSON")
    assert {scope for box, scope in pairs(found) if box == path.as_posix()} == {"vec", "mat", "str"}


def test_deleted_gate_result_is_caught(project: Path) -> None:
    path = project / "boxes" / "nehalem.tune.json"
    document = json.loads(path.read_text())
    del document["race"]["vec_add"]["rows"]["isa_base_u2"]
    path.write_text(json.dumps(document))
    assert judged(project).problems
    del document["digest"]
    resigned = parse(json.dumps(document).encode())
    assert isinstance(resigned, Document)
    path.write_bytes(render(resigned))
    for box in ("zen3", "gracemont"):  # they passed the row too, and would vouch for it
        (project / "boxes" / f"{box}.tune.json").unlink()
    found = judged(project)
    assert (NEHALEM, "vec") in pairs(found)
    assert next(one for one in found.remints if one.box == NEHALEM).why == "isa_base_u2 was not gated"

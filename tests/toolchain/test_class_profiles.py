"""Profiles on a real tree: from this box's sidecar to a file, and from the file to the next stamp."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tunebuild import classflows, commands_classes, evidence, generate, host, policy
from tunebuild.document import Document, Json, render
from tunebuild.errors import Refused, UsageError
from tunebuild.features import fingerprint
from tunebuild.profiles import box_class, file_name

PROJECT = Path(__file__).parent.parent / "projects" / "fleet"
WINNERS = {"vec_add": "isa_base_u2", "mat_scale": "toolchain_vendor_u2", "str_count": "u2"}

pytestmark = [pytest.mark.cc, pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "fleet"
    shutil.copytree(PROJECT, root, ignore=shutil.ignore_patterns("*.tune-defaults.json"))
    (root / "profiles").mkdir(exist_ok=True)
    monkeypatch.setenv("PATH", f"{root / 'bin'}{os.pathsep}{os.environ['PATH']}")
    for name in ("TUNEBUILD_POLICY", "TUNEBUILD_MANIFEST", "TUNEBUILD_FORCE_FEATURES"):
        monkeypatch.delenv(name, raising=False)
    return root


def sidecar(root: Path, box: str = "", winners: Mapping[str, str] = WINNERS) -> Document:
    """What a mint on this machine, or on a twin of it, would have recorded."""
    here = host.box()
    built: dict[str, Mapping[str, Json]] = dict(generate.generate(root).built)
    rows: dict[str, Json] = {
        suffix: {"med_us": 1.0 + 0.01 * at, "gain_pct": 10.0 - at}
        for at, suffix in enumerate(
            ("isa_base_u1", "isa_base_u2", "toolchain_vendor_u1", "toolchain_vendor_u2", "u1", "u2")
        )
    }
    provenance: dict[str, Json] = {
        "box": box or here.identity,
        "features": fingerprint(here.features),
        "features_known": 50,
        "noise": "ok",
    }
    race: dict[str, Mapping[str, Json]] = {key: {"winner": one, "rows": rows} for key, one in winners.items()}
    return Document(kernels=dict(winners), race=race, provenance=provenance, built=built)


def stamped(root: Path) -> dict[str, tuple[str, str]]:
    found = generate.generate(root)
    return {one.key: (one.suffix, one.source) for one in found.stamps["fleet"].seats}


def mint_here(root: Path) -> Path:
    path = root / "fleet.tune.json"
    path.write_bytes(render(sidecar(root)))
    return path


def test_exported_winners_stamp_the_next_build_of_a_box_without_sidecar(project: Path) -> None:
    path = mint_here(project)
    assert set(stamped(project).values()) == {(one, "manifest") for one in WINNERS.values()}
    (written,) = classflows.export_profile(project, "")
    assert written == project / "profiles" / file_name(box_class(host.box()))
    path.unlink()
    assert stamped(project) == {key: (suffix, "profile") for key, suffix in WINNERS.items()}
    states = generate.generate(project).states["fleet"]
    assert all(state.covered for state in states)
    assert not any(policy.at_start(state, policy.Start("auto")).actions for state in states)


def test_profile_that_appears_changes_or_disappears_stamps_anew(project: Path) -> None:
    before = stamped(project)
    assert {source for _, source in before.values()} == {"fallback"}
    path = mint_here(project)
    (written,) = classflows.export_profile(project, "")
    path.unlink()
    assert written in generate.generate(project).inputs
    assert stamped(project)["str_count"] == ("u2", "profile")
    document = json.loads(written.read_text())
    document["kernels"]["str_count"] = "u1"
    written.write_text(json.dumps(document))
    assert stamped(project)["str_count"] == ("u1", "profile")
    written.unlink()
    assert written in generate.generate(project).inputs
    assert stamped(project) == before


def test_damaged_profile_is_passed_over(project: Path) -> None:
    path = mint_here(project)
    (written,) = classflows.export_profile(project, "")
    path.unlink()
    written.write_bytes(written.read_bytes()[:-50])
    assert {source for _, source in stamped(project).values()} == {"fallback"}
    assert "is passed over: it is unreadable: not JSON" in " ".join(
        commands_classes.profile(project, "", "list", (), 5.0)[1].split()
    )


def test_export_without_a_mint_is_refused_and_writes_nothing(project: Path) -> None:
    with pytest.raises(Refused, match="the sidecar is absent"):
        classflows.export_profile(project, "")
    assert list((project / "profiles").iterdir()) == []


def test_export_after_an_edit_is_refused_by_name(project: Path) -> None:
    mint_here(project)
    template = project / "kernels/templates/str_count/kernel.c.j2"
    template.write_text(template.read_text().replace("count = 0", "count = 0u"))
    with pytest.raises(Refused, match="str_count"):
        classflows.export_profile(project, "")


def test_two_boxes_merge_into_one_profile_with_its_bound(project: Path) -> None:
    twin = host.box().identity + " twin"
    boxes = project / "sidecars"
    boxes.mkdir()
    first = sidecar(project)
    other = sidecar(project, twin, {**WINNERS, "str_count": "u1"})
    (boxes / "one.tune.json").write_bytes(render(first))
    (boxes / "two.tune.json").write_bytes(render(other))
    (written,) = classflows.merge_profiles(project, "", (boxes,))
    document = json.loads(written.read_text())
    assert document["kernels"] == {
        **WINNERS,
        "str_count": "u1",
        "vec_add": "isa_base_u1",
        "mat_scale": "toolchain_vendor_u1",
    }
    assert set(document["bounds"]["str_count"]["boxes"]) == {host.box().identity, twin}
    assert stamped(project)["str_count"] == ("u1", "profile")
    shown = commands_classes.profile(project, "", "show", (), 5.0)[1]
    assert "str_count  u1" in shown


def test_unreadable_donor_refuses_the_merge(project: Path) -> None:
    path = mint_here(project)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(Refused, match="is unreadable"):
        classflows.merge_profiles(project, "", (path,))


def test_show_of_a_class_that_is_not_shipped_names_those_that_are(project: Path) -> None:
    mint_here(project)
    classflows.export_profile(project, "")
    with pytest.raises(UsageError, match="no profile of class x86-none is shipped") as caught:
        classflows.show_profile(project, "", "x86-none")
    assert box_class(host.box()) in caught.value.fix


def test_fleet_of_this_box_alone_is_green_and_named(project: Path) -> None:
    mint_here(project)
    document, text = commands_classes.fleet(project, "", [str(project / "boxes")])
    assert document["green"] is True
    assert f"this one is of class {box_class(host.box())}" in text


def test_forced_features_change_the_class_that_stamps_and_not_the_one_that_is_exported(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mint_here(project)
    own = box_class(replace(host.box(), forced=()))
    monkeypatch.setenv("TUNEBUILD_FORCE_FEATURES", "avx512vnni,avx512bw,amx-int8,amx-tile")
    (written,) = classflows.export_profile(project, "")
    assert written.name == file_name(own)


def test_records_name_this_box(project: Path) -> None:
    mint_here(project)
    (one,) = evidence.records((project / "fleet.tune.json",))
    assert isinstance(one.found, Document) and one.signed
    assert one.found.box == host.box().identity


@pytest.mark.skipif(shutil.which("aarch64-linux-gnu-gcc") is None, reason="needs gcc-aarch64-linux-gnu")
@pytest.mark.skipif(host.box().arch != "x86_64", reason="crosses from x86-64")
def test_box_of_another_architecture_is_compared_through_a_cross_toolchain(project: Path) -> None:
    toml = project / "tune.toml"
    arm: dict[str, Json] = {
        "box": "linux|aarch64||6.1|Neoverse-N1",
        "platform": "linux",
        "arch": "aarch64",
        "features": "neon;dotprod;lse",
        "features_known": 50,
    }
    path = project / "arm.tune.json"
    path.write_bytes(render(replace(sidecar(project), provenance=arm)))
    found = classflows.fleet_status(project, "", (path,))
    reasons = {one.key: one.reason for one in found.covers if one.cpu_class == "arm-neon"}
    assert "no toolchain here builds for aarch64" in reasons["str_count"]
    cross = '[toolchain.arm]\ncc = "aarch64-linux-gnu-gcc"\ntarget = "aarch64"\n\n[scope.vec]'
    toml.write_text(toml.read_text().replace("[scope.vec]", cross))
    crossed = generate.generate(project, target="arm").built
    path.write_bytes(render(replace(sidecar(project), provenance=arm, built=dict(crossed))))
    found = classflows.fleet_status(project, "", (path,))
    states = {one.key: one.state for one in found.covers if one.cpu_class == "arm-neon"}
    assert states["str_count"] == states["vec_add"] == "measured"


# --- what is sent from elsewhere ------------------------------------------------------------------


def fleet_said(root: Path, *places: Path) -> tuple[dict[str, Json], str]:
    document, text = commands_classes.fleet(root, "", [str(place) for place in places])
    return document, " ".join(text.split())


def test_copy_of_this_boxs_own_sidecar_in_the_folder_leaves_the_fleet_green(project: Path) -> None:
    path, boxes = mint_here(project), project / "sent"
    boxes.mkdir()
    shutil.copy(path, boxes / "copy.tune.json")
    document, text = fleet_said(project, boxes)
    assert document["green"] is True and "fleet.tune.json adds nothing: " in text
    old = replace(
        sidecar(project),
        built={key: {**entry, "source": "x"} for key, entry in sidecar(project).built.items()},
    )
    (boxes / "copy.tune.json").write_bytes(
        render(replace(old, provenance={**old.provenance, "written": "2020"}))
    )
    path.write_bytes(render(replace(sidecar(project), provenance={**old.provenance, "written": "2021"})))
    document, text = fleet_said(project, boxes)
    assert document["green"] is True and "copy.tune.json adds nothing: " in text


def test_junk_in_the_folder_is_named_and_is_no_mint(project: Path) -> None:
    mint_here(project)
    boxes = project / "sent"
    boxes.mkdir()
    (boxes / "page.tune.json").write_text("<html>404</html>")
    document, text = fleet_said(project, boxes)
    assert (document["remint"], document["green"]) == ([], False)
    assert "page.tune.json counts for nothing: unreadable: not JSON" in text
    assert text.endswith("page.tune.json out, or put a whole sidecar of its box there")
    (boxes / "page.tune.json").unlink()
    assert fleet_said(project, boxes)[0]["green"] is True


@pytest.mark.parametrize(
    ("box", "words"),
    [
        ("../../evil|riscv64||6.1|X", "'../../evil-riscv64' is no class"),
        ("linux|x86_64", "proves nothing: it names no box"),
    ],
)
def test_donor_whose_box_is_none_writes_no_file(project: Path, box: str, words: str) -> None:
    donor = project / "donor.tune.json"
    donor.write_bytes(render(sidecar(project, box)))
    with pytest.raises(Refused, match=words):
        classflows.merge_profiles(project, "", (donor,))
    assert list((project / "profiles").iterdir()) == []
    assert not list(project.parent.parent.glob("*.tune-defaults.json"))


def test_donor_that_was_edited_by_hand_refuses_the_merge(project: Path) -> None:
    donor = project / "donor.tune.json"
    document = json.loads(render(sidecar(project)))
    del document["digest"]
    donor.write_text(json.dumps(document))
    with pytest.raises(Refused, match="proves nothing: it has no digest"):
        classflows.merge_profiles(project, "", (donor,))


def test_donors_with_and_without_digests_do_not_mix(project: Path) -> None:
    boxes = project / "sent"
    boxes.mkdir()
    (boxes / "one.tune.json").write_bytes(render(sidecar(project)))
    (boxes / "two.tune.json").write_bytes(
        render(replace(sidecar(project, host.box().identity + " twin"), built={}))
    )
    with pytest.raises(Refused, match=r"cannot merge vec_add: .*two\.tune\.json does not say which source"):
        classflows.merge_profiles(project, "", (boxes,))


def test_terminal_codes_in_a_boxs_name_are_not_printed(project: Path) -> None:
    mint_here(project)
    (project / "evil.tune.json").write_bytes(render(sidecar(project, "\x1b[31m|riscv64||6.1|\x1b]0;x\x07")))
    _, text = commands_classes.fleet(project, "", [str(project / "evil.tune.json")])
    assert "\x1b" not in text and "?[31m|riscv64||6.1|?]0;x?" in text

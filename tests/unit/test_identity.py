"""Every recorded machine reads as itself: identity, match key, features, class."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tunebuild import identity as ids
from tunebuild.features import CLASSES, FEATURES, canonical_arch, closed, cpu_class, fingerprint

BOXES = sorted((Path(__file__).parents[1] / "data" / "boxes").glob("*.json"))


def _read(box: dict[str, Any]) -> tuple[str, frozenset[str]]:
    arch = canonical_arch(box["arch"])
    match box["platform"]:
        case "linux":
            text = "\n".join(box["cpuinfo"])
            features = ids.features_of_linux(ids.parse_cpuinfo(text).words, arch)
            return ids.identity_of_linux(arch, box["kernel"], text), features
        case "darwin":
            sysctl = ids.parse_sysctl("\n".join(box["sysctl"]))
            identity = ids.identity_of_macos(arch, "\n".join(box["positional"]))
            return identity, ids.features_of_macos(sysctl, arch)
        case _:
            has = (
                features_of_cpuid(box["cpuid"])
                if "cpuid" in box
                else ids.features_of_linux(box["words"], arch)
            )
            features = ids.enabled(has, box["xcr0"])
            identity = ids.identity_of_windows(arch, box["banner"], box["os_variable"], box["processor"])
            return identity, features


def features_of_cpuid(rows: list[list[int]]) -> set[str]:
    """``rows``: leaf, subleaf, eax, ebx, ecx, edx, as the instruction answers."""
    registers = {
        (row[0], row[1]): dict(zip(("eax", "ebx", "ecx", "edx"), row[2:], strict=True)) for row in rows
    }

    def bit(where: tuple[int, int, str, int]) -> int:
        return registers.get(where[:2], {}).get(where[2], 0) >> where[3] & 1

    return {feature.name for feature in FEATURES if feature.cpuid and bit(feature.cpuid)}


@pytest.mark.parametrize("path", BOXES, ids=lambda path: path.stem)
def test_recorded_box_reads_as_itself(path: Path) -> None:
    box = json.loads(path.read_text())
    identity, features = _read(box)
    assert {
        "identity": identity,
        "match_key": ids.match_key(identity),
        "features": fingerprint(features),
        "class": cpu_class(features, box["platform"], box["arch"]),
    } == box["expect"]
    assert len(identity.split("|")) == 5
    assert identity.split("|")[4]


def test_recorded_boxes_cover_every_class() -> None:
    boxes = [json.loads(path.read_text()) for path in BOXES]
    recorded = [box for box in boxes if box["recorded"]]
    assert {box["expect"]["class"] for box in recorded} >= set(CLASSES)
    assert {box["platform"] for box in recorded} == {"linux", "darwin", "windows"}
    assert all(box["source"] for box in boxes)


def test_no_two_boxes_pass_for_each_other() -> None:
    keys = [json.loads(path.read_text())["expect"]["match_key"] for path in BOXES]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("linux|x86_64||6.8.0-45-generic|A", "Linux|x86_64||6.8.12|a", True),
        ("linux|x86_64||6.8.0|A", "linux|x86_64||6.11.0|A", False),
        ("linux|x86_64||6.8.0|A", "linux|x86_64||6.8.0|B", False),
        ("windows|x86_64||10.0.22631.1|A", "windows|x86_64||10.0.22631.4317|A", True),
        ("windows|x86_64||10.0.22631.1|A", "windows|x86_64||10.0.26100.1|A", False),
        ("darwin|aarch64|Mac16,5|24F74|M4", "darwin|aarch64|Mac16,5|24F75|M4", False),
        ("linux|6.8.0|A", "linux|6.8.1|A", False),  # four fields: no folding
        ("darwin|aarch64|m|6.8.0|A", "darwin|aarch64|m|6.8.1|A", False),
    ],
)
def test_match_key_folds_only_what_an_update_changes(one: str, other: str, same: bool) -> None:
    assert (ids.match_key(one) == ids.match_key(other)) is same


def test_missing_sysctl_line_shifts_no_field() -> None:
    assert ids.identity_of_macos("aarch64", "\n24F74\nApple M4") == "darwin|aarch64||24F74|Apple M4"
    assert ids.identity_of_macos("aarch64", "Mac16,5\n24F74") == "darwin|aarch64|Mac16,5|24F74|unknown-cpu"


def test_windows_without_a_version_banner_uses_the_environment() -> None:
    assert ids.identity_of_windows("x86_64", "", "Windows_NT", "") == "windows|x86_64||Windows_NT|unknown-cpu"


def test_separator_inside_a_field_makes_no_sixth() -> None:
    assert ids.identity("linux", "x86_64", "", "6.8", "A|B  C") == "linux|x86_64||6.8|A/B C"


def test_empty_cpu_lines_are_passed_over() -> None:
    assert ids.parse_cpuinfo("model name\t:\nHardware\t: BCM2711\nCPU part\t: 0xd08\n").cpu == "BCM2711"


@pytest.mark.parametrize(
    ("xcr0", "left"),
    [
        (0x3, "sse4.2"),
        (0x7, "avx2;sse4.2"),
        (0xE7, "avx2;sse4.2;avx512f"),
        (0x600E7, "avx2;sse4.2;avx512f;amx-tile"),
    ],
)
def test_features_without_operating_system_state_do_not_count(xcr0: int, left: str) -> None:
    bases = {"avx", "sse3", "ssse3", "sse4.1"}
    kept = ids.enabled({"avx2", "avx512f", "amx-tile", "sse4.2", *bases}, xcr0)
    assert fingerprint(kept - bases) == left


def test_masked_base_takes_its_heirs_along() -> None:
    everything = {"sse3", "ssse3", "sse4.1", "sse4.2", "avx", "avx2", "avx512f", "avx512bw", "avx512vbmi"}
    assert closed(everything - {"avx2"}) == {"sse3", "ssse3", "sse4.1", "sse4.2", "avx"}
    assert closed(everything) == everything

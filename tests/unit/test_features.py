"""Features: the table, the `requires` grammar, classes and the ladder."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunebuild import features as f
from tunebuild.model import Box

HAVE = frozenset({"avx2", "fma", "f16c"})


@pytest.mark.parametrize(
    ("expr", "ok"),
    [
        ("", True),
        ("avx2", True),
        ("nonsense", False),
        ("nonsense|neither", False),
        ("nonsense|avx2", True),
        ("avx2,nonsense", False),
        ("nonsense,avx2", False),
        ("avx2,fma", True),
        ("avx2,,fma", True),
        ("avx2,", True),
        ("|", False),
        ("|avx2", True),
        ("avx2|", True),
        ("neon", False),
        (" avx2", False),
        ("avx512f|avx2,fma", True),
    ],
)
def test_requires_follows_its_grammar(expr: str, ok: bool) -> None:
    assert f.requires_ok(expr, HAVE) is ok


def test_name_that_no_table_has_fails_even_when_reported() -> None:
    assert not f.requires_ok("avx9", {"avx9"})


NAMES = st.sampled_from([*f.BY_NAME, "nonsense", ""])


CONJUNCTS = st.lists(st.lists(NAMES, min_size=1, max_size=3), max_size=4)


@given(CONJUNCTS, st.sets(st.sampled_from(list(f.BY_NAME))))
def test_unmet_conjuncts_are_exactly_what_stands_between(conjuncts: list[list[str]], have: set[str]) -> None:
    expr = ",".join("|".join(names) for names in conjuncts)
    assert f.requires_ok(expr, have) is (f.unmet(expr, have) == ())


def test_unknown_names_are_listed_once_in_order() -> None:
    assert f.unknown("zap|avx2,boo,zap") == ("zap", "boo")
    assert f.unknown("avx2||fma") == ("",)


def test_mandatory_features_are_those_outside_alternatives() -> None:
    assert f.mandatory("avx2,fma|f16c,avx2,avx512f") == ("avx2", "avx512f")


@pytest.mark.parametrize(
    ("expr", "arch"),
    [("", ""), ("avx2", "x86_64"), ("dotprod", "aarch64"), ("avx2|neon", ""), ("avx2|neon,i8mm", "aarch64")],
)
def test_expression_is_tied_to_the_architecture_it_needs(expr: str, arch: str) -> None:
    assert f.arch_of(expr) == arch


def test_expression_of_two_architectures_is_a_contradiction() -> None:
    assert f.contradiction("avx2,neon") == "no CPU is both x86_64 and aarch64"
    assert f.contradiction("avx2|neon,fma") == ""


def test_first_twenty_names_keep_their_order_for_ever() -> None:
    assert ";".join(feature.name for feature in f.FEATURES[: f.FIRST_TABLE]) == (
        "avx2;f16c;fma;sse4.2;avxvnni;avxvnniint8;avx512f;avx512bw;avx512vl;avx512vnni;avx512vbmi;"
        "amx-tile;amx-int8;neon;dotprod;i8mm;bf16;fullfp16;sve;lse"
    )
    assert len(f.BY_NAME) == len(f.FEATURES)


@pytest.mark.parametrize("feature", f.FEATURES, ids=lambda feature: feature.name)
def test_feature_can_be_probed_and_its_bases_exist(feature: f.Feature) -> None:
    assert feature.linux
    assert (feature.cpuid is None) is (feature.arch == f.ARM)
    assert (feature.hwcap is None) is (feature.arch == f.X86)
    assert all(f.BY_NAME[base].arch == feature.arch for base in feature.needs)
    if feature.name.startswith(("avx512", "amx")):
        assert feature.state in ("zmm", "tile")


def test_arm_flags_become_one_march_of_the_lowest_level() -> None:
    assert f.compiler_flags(("neon", "dotprod", "i8mm")) == ("-march=armv8.2-a+dotprod+i8mm",)
    assert f.compiler_flag("neon") == ""
    assert f.compiler_flags(("avx2", "fma", "avx2")) == ("-mavx2", "-mfma")


def test_builtin_isas_have_known_requirements_of_one_architecture() -> None:
    assert [isa.name for isa in f.BUILTIN_ISAS] == [
        "base", "avx2", "vnni256", "avx512", "vnni512", "amx", "neon", "dotprod", "i8mm",
    ]  # fmt: skip
    for isa in f.BUILTIN_ISAS:
        assert f.unknown(isa.requires) == ()
        assert f.arch_of(isa.requires) == isa.arch


@pytest.mark.parametrize(
    ("have", "expected"),
    [
        ("", "x86-base"),
        ("avx2", "x86-avx2"),
        ("avx2 avxvnni", "x86-vnni256"),
        ("avx2 avx512vnni", "x86-avx2"),  # without avx512bw
        ("avx2 avxvnni avx512vnni", "x86-vnni256"),
        ("avx2 avx512vnni avx512bw", "x86-vnni512"),
        ("avx2 avx512vnni avx512bw amx-int8", "x86-vnni512"),
        ("avx2 avx512vnni avx512bw amx-tile", "x86-vnni512"),
        ("avx2 avx512vnni avx512bw amx-tile amx-int8", "x86-amx"),
        ("avx2 amx-tile amx-int8", "x86-avx2"),
    ],
)
def test_class_boundary_is_decided_by_its_features(have: str, expected: str) -> None:
    assert f.cpu_class(have.split(), "linux", "x86_64") == expected


def test_class_of_other_machines_matches_no_profile() -> None:
    assert f.cpu_class({"i8mm"}, "darwin", "arm64") == "arm-i8mm"
    assert f.cpu_class((), "linux", "aarch64") == "arm-neon"
    assert f.cpu_class((), "linux", "riscv64") == "linux-riscv64"
    assert f.ladder("linux-riscv64") == ("linux-riscv64",)


def test_ladder_starts_at_the_own_class() -> None:
    assert f.ladder("x86-vnni512") == ("x86-vnni512", "x86-vnni256", "x86-avx2", "x86-base")
    assert f.ladder("arm-neon") == ("arm-neon",)


def test_every_class_not_chosen_says_why() -> None:
    reasons = dict(f.class_reasons({"avx2", "avx512vnni"}, "linux", "x86_64"))
    assert reasons == {
        "x86-amx": "needs avx512bw, amx-int8, amx-tile",
        "x86-vnni512": "needs avx512bw",
        "x86-vnni256": "needs avxvnni",
        "x86-avx2": "",
        "x86-base": "x86-avx2 is better",
        "arm-i8mm": "is for aarch64, this is x86_64",
        "arm-neon": "is for aarch64, this is x86_64",
    }


def test_forced_features_change_eligibility_and_class_alike() -> None:
    box = Box("linux|x86_64||6.8|A", "x86_64", HAVE, forced=("avxvnni", "neon"))
    believed = f.believed(box)
    assert f.requires_ok("avxvnni", believed)
    assert f.requires_ok("neon", believed)  # on every architecture
    assert f.cpu_class(believed, "linux", "x86_64") == "x86-vnni256"
    assert f.fingerprint(box.features) == "avx2;f16c;fma"  # what is recorded is the machine's own


def test_fingerprints_are_compared_over_the_names_both_know() -> None:
    assert f.fingerprint_difference("avx2;fma", {"avx2", "fma", "gfni"}) == ((), ())  # gfni came later
    assert f.fingerprint_difference("avx2;fma", {"avx2", "fma", "gfni"}, len(f.FEATURES)) == ((), ("gfni",))
    assert f.fingerprint_difference("avx2;fma;future", {"avx2"}) == (("fma",), ())

"""CPU features: one table of names, the `requires` grammar, CPU classes and their ladder.

Names are only ever appended, never reordered: a fingerprint lists them in table order, and a file written by
an older table must stay comparable. `have` is always a collection of feature names: what the machine has and
its system enabled, plus forced names where only code is generated.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal

from tunebuild.model import Box, Isa

X86 = "x86_64"
ARM = "aarch64"
OsState = Literal["", "ymm", "zmm", "tile"]


@dataclass(frozen=True, slots=True)
class Feature:
    """One feature and every way to ask for it.

    ``linux``: the words of /proc/cpuinfo that must all be there. ``sysctl``: its macOS names, of which any will
    do: macOS 11 has older ones.
    ``state``: what XCR0 must enable. ``flag``: a whole compiler flag (x86), or an extension such as
    "+dotprod" (arm) that needs at least ``level``. ``cpuid``: leaf, subleaf, register, bit. ``hwcap``:
    auxiliary vector word (1 or 2) and bits. ``needs``: features that it is never without.
    """

    name: str
    arch: str
    linux: tuple[str, ...]
    flag: str
    sysctl: tuple[str, ...] = ()
    state: OsState = ""
    cpuid: tuple[int, int, str, int] | None = None
    hwcap: tuple[int, tuple[int, ...]] | None = None
    level: str = ""
    needs: tuple[str, ...] = ()


def _x86(
    name: str,
    linux: str,
    cpuid: tuple[int, int, str, int],
    state: OsState = "",
    needs: str = "",
    sysctl: str = "",
    flag: str = "",
) -> Feature:
    return Feature(
        name,
        X86,
        (linux,),
        flag or f"-m{name}",
        sysctl=tuple(f"hw.optional.{each}" for each in sysctl.split()),
        state=state,
        cpuid=cpuid,
        needs=tuple(needs.split()),
    )


def _arm(
    name: str, linux: str, word: int, *bits: int, sysctl: str = "", flag: str = "", level: str = "armv8-a"
) -> Feature:
    needs = () if name in ("neon", "fp-armv8") else ("neon",)
    return Feature(
        name,
        ARM,
        tuple(linux.split()),
        flag,
        sysctl=tuple(f"hw.optional.{each}" for each in sysctl.split()),
        hwcap=(word, bits),
        level=level,
        needs=needs,
    )


FEATURES: tuple[Feature, ...] = (
    _x86("avx2", "avx2", (7, 0, "ebx", 5), "ymm", "avx", "avx2_0"),
    _x86("f16c", "f16c", (1, 0, "ecx", 29), "ymm", "avx", "f16c"),
    _x86("fma", "fma", (1, 0, "ecx", 12), "ymm", "avx", "fma"),
    _x86("sse4.2", "sse4_2", (1, 0, "ecx", 20), "", "sse4.1", "sse4_2"),
    _x86("avxvnni", "avx_vnni", (7, 1, "eax", 4), "ymm", "avx2"),
    _x86("avxvnniint8", "avx_vnni_int8", (7, 1, "edx", 4), "ymm", "avx2"),
    _x86("avx512f", "avx512f", (7, 0, "ebx", 16), "zmm", "avx2", "avx512f"),
    _x86("avx512bw", "avx512bw", (7, 0, "ebx", 30), "zmm", "avx512f", "avx512bw"),
    _x86("avx512vl", "avx512vl", (7, 0, "ebx", 31), "zmm", "avx512f", "avx512vl"),
    _x86("avx512vnni", "avx512_vnni", (7, 0, "ecx", 11), "zmm", "avx512f", "avx512vnni"),
    _x86("avx512vbmi", "avx512vbmi", (7, 0, "ecx", 1), "zmm", "avx512bw", "avx512vbmi"),
    _x86("amx-tile", "amx_tile", (7, 0, "edx", 24), "tile"),
    _x86("amx-int8", "amx_int8", (7, 0, "edx", 25), "tile", "amx-tile"),
    _arm("neon", "asimd", 1, 1, sysctl="AdvSIMD"),
    _arm("dotprod", "asimddp", 1, 20, sysctl="arm.FEAT_DotProd", flag="+dotprod", level="armv8.2-a"),
    _arm("i8mm", "i8mm", 2, 13, sysctl="arm.FEAT_I8MM", flag="+i8mm", level="armv8.2-a"),
    _arm("bf16", "bf16", 2, 14, sysctl="arm.FEAT_BF16", flag="+bf16", level="armv8.2-a"),
    _arm("fullfp16", "fphp asimdhp", 1, 9, 10, sysctl="arm.FEAT_FP16 neon_fp16", flag="+fp16", level="armv8.2-a"),
    _arm("sve", "sve", 1, 22, flag="+sve"),
    _arm("lse", "atomics", 1, 8, sysctl="arm.FEAT_LSE armv8_1_atomics", flag="+lse"),
    # The names above are the first table ever recorded: see FIRST_TABLE.
    _x86("avx512dq", "avx512dq", (7, 0, "ebx", 17), "zmm", "avx512f", "avx512dq"),
    _x86("avx512cd", "avx512cd", (7, 0, "ebx", 28), "zmm", "avx512f", "avx512cd"),
    _x86("avx512bf16", "avx512_bf16", (7, 1, "eax", 5), "zmm", "avx512bw"),
    _x86("avx512fp16", "avx512_fp16", (7, 0, "edx", 23), "zmm", "avx512bw"),
    _x86("amx-bf16", "amx_bf16", (7, 0, "edx", 22), "tile", "amx-tile"),
    _x86("sse3", "pni", (1, 0, "ecx", 0), sysctl="sse3"),
    _x86("ssse3", "ssse3", (1, 0, "ecx", 9), "", "sse3", "supplementalsse3"),
    _x86("sse4.1", "sse4_1", (1, 0, "ecx", 19), "", "ssse3", "sse4_1"),
    _x86("avx", "avx", (1, 0, "ecx", 28), "ymm", "sse4.2", "avx1_0"),
    _x86("popcnt", "popcnt", (1, 0, "ecx", 23)),
    _x86("bmi", "bmi1", (7, 0, "ebx", 3), sysctl="bmi1"),
    _x86("bmi2", "bmi2", (7, 0, "ebx", 8), sysctl="bmi2"),
    _x86("lzcnt", "abm", (0x80000001, 0, "ecx", 5)),
    _x86("gfni", "gfni", (7, 0, "ecx", 8)),
    _x86("vaes", "vaes", (7, 0, "ecx", 9), "ymm", "avx"),
    _x86("vpclmulqdq", "vpclmulqdq", (7, 0, "ecx", 10), "ymm", "avx"),
    _x86("avx512ifma", "avx512ifma", (7, 0, "ebx", 21), "zmm", "avx512f", "avx512ifma"),
    _x86("avx512vbmi2", "avx512_vbmi2", (7, 0, "ecx", 6), "zmm", "avx512bw"),
    _x86("avx512bitalg", "avx512_bitalg", (7, 0, "ecx", 12), "zmm", "avx512bw"),
    _x86("avx512vpopcntdq", "avx512_vpopcntdq", (7, 0, "ecx", 14), "zmm", "avx512f"),
    _x86("amx-fp16", "amx_fp16", (7, 1, "eax", 21), "tile", "amx-tile"),
    _x86("avxifma", "avx_ifma", (7, 1, "eax", 23), "ymm", "avx2"),
    _x86("avxneconvert", "avx_ne_convert", (7, 1, "edx", 5), "ymm", "avx2"),
    _x86("avxvnniint16", "avx_vnni_int16", (7, 1, "edx", 10), "ymm", "avx2"),
    _arm("fp-armv8", "fp", 1, 0, sysctl="floatingpoint"),
    _arm("rdm", "asimdrdm", 1, 12, sysctl="arm.FEAT_RDM", level="armv8.1-a"),  # gcc: +rdma, clang: +rdm
    _arm("sha3", "sha3", 1, 17, sysctl="arm.FEAT_SHA3 armv8_2_sha3", flag="+sha3"),
    _arm("crc", "crc32", 1, 7, sysctl="armv8_crc32", flag="+crc"),
    _arm("fhm", "asimdfhm", 1, 23, sysctl="arm.FEAT_FHM armv8_2_fhm", flag="+fp16fml"),
    _arm("sve2", "sve2", 2, 1, flag="+sve2"),
)  # fmt: skip

BY_NAME: dict[str, Feature] = {feature.name: feature for feature in FEATURES}

FIRST_TABLE = 20
"""How many names a fingerprint without `features_known` may speak for."""


# --- the `requires` grammar: `,` AND, `|` OR ------------------------------------------------------


def _conjuncts(expr: str) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(part.split("|")) for part in expr.split(",") if part)


def requires_ok(expr: str, have: Collection[str]) -> bool:
    """Does a machine with these features satisfy ``expr``? Unknown names are false; nothing is trimmed."""
    return all(any(name in BY_NAME and name in have for name in names) for names in _conjuncts(expr))


def unmet(expr: str, have: Collection[str]) -> tuple[str, ...]:
    """The conjuncts of ``expr`` that these features do not satisfy, as written: for `needs …` messages."""
    return tuple("|".join(names) for names in _conjuncts(expr) if not requires_ok("|".join(names), have))


def unknown(expr: str) -> tuple[str, ...]:
    """The names in ``expr`` that no feature has, in order, each once; an empty alternative is one."""
    names = (name for names in _conjuncts(expr) for name in names)
    return tuple(dict.fromkeys(name for name in names if name not in BY_NAME))


def mandatory(expr: str) -> tuple[str, ...]:
    """The known features that ``expr`` names outside alternatives, in order, each once."""
    alone = (names[0] for names in _conjuncts(expr) if len(names) == 1)
    return tuple(dict.fromkeys(name for name in alone if name in BY_NAME))


def _arches(expr: str) -> tuple[str, ...]:
    """The architecture each conjunct ties the expression to, where all its alternatives agree on one."""
    per_conjunct = (tuple(BY_NAME[n].arch for n in names if n in BY_NAME) for names in _conjuncts(expr))
    return tuple(arches[0] for arches in per_conjunct if arches and len(set(arches)) == 1)


def arch_of(expr: str) -> str:
    """The architecture that ``expr`` ties a row to: "x86_64", "aarch64", or "" for any."""
    return next(iter(_arches(expr)), "")


def contradiction(expr: str) -> str:
    """A sentence when no CPU can satisfy ``expr`` because it names two architectures, else ""."""
    both = tuple(dict.fromkeys(_arches(expr)))
    return f"no CPU is both {both[0]} and {both[1]}" if len(both) > 1 else ""


def closed(have: Iterable[str]) -> frozenset[str]:
    """Known features only, each with all that it is never without: a masked feature takes its heirs along."""
    kept = {name for name in have if name in BY_NAME}
    while orphans := {name for name in kept if not kept.issuperset(BY_NAME[name].needs)}:
        kept -= orphans
    return frozenset(kept)


def believed(box: Box) -> frozenset[str]:
    """What decides eligibility and class here: the machine's features and the forced names."""
    return box.features | frozenset(box.forced)


# --- what the compiler is told --------------------------------------------------------------------


def compiler_flag(name: str) -> str:
    """The compiler flag of one feature, "" when its architecture always has it."""
    return " ".join(compiler_flags((name,)))


def compiler_flags(names: Iterable[str]) -> tuple[str, ...]:
    """The flags of several features. Arm takes one `-march` for all: the lowest architecture level that may
    have every extension, since the assembler takes `sdot` from armv8.2-a on only, and a CPU that has an
    extension of that level has the level's own instructions too."""
    wanted = [BY_NAME[name] for name in dict.fromkeys(names)]
    flags = [feature.flag for feature in wanted if feature.arch == X86]
    arm = [feature for feature in wanted if feature.arch == ARM]
    level = max((feature.level for feature in arm), default="armv8-a")
    march = level + "".join(feature.flag for feature in arm)
    return tuple(flags) if march == "armv8-a" else (*flags, f"-march={march}")


def _isa(name: str, *requires: str, extra: tuple[str, ...] = ()) -> Isa:
    expr = ",".join(requires)
    return Isa(name, expr, compiler_flags(requires) + extra, arch_of(expr))


_AVX2 = ("avx2", "fma", "f16c")
_AVX512 = ("avx512f", "avx512bw", "avx512vl")
_WIDE = ("-mprefer-vector-width=512",)

BUILTIN_ISAS: tuple[Isa, ...] = (
    _isa("base"),
    _isa("avx2", *_AVX2),
    _isa("vnni256", *_AVX2, "avxvnni"),
    _isa("avx512", *_AVX512, extra=_WIDE),
    _isa("vnni512", *_AVX512, "avx512vnni", extra=_WIDE),
    _isa("amx", *_AVX512, "avx512vnni", "amx-tile", "amx-int8", extra=_WIDE),
    _isa("neon", "neon"),
    _isa("dotprod", "neon", "dotprod"),
    _isa("i8mm", "neon", "dotprod", "i8mm"),
)


# --- fingerprints ---------------------------------------------------------------------------------


def fingerprint(have: Collection[str]) -> str:
    """The known features among ``have``, in table order, joined by `;`."""
    return ";".join(feature.name for feature in FEATURES if feature.name in have)


def fingerprint_difference(
    recorded: str, have: Collection[str], known: int = FIRST_TABLE
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(recorded but not here, here but not recorded), over the names that both tables know.

    ``known``: how many names the recording table had; names that the record holds count as known as well.
    """
    then = frozenset(recorded.split(";"))
    common = [f.name for index, f in enumerate(FEATURES) if index < known or f.name in then]
    gone = tuple(name for name in common if name in then and name not in have)
    new = tuple(name for name in common if name in have and name not in then)
    return gone, new


# --- classes --------------------------------------------------------------------------------------

_CLASSES: tuple[tuple[str, str, str], ...] = (  # name, architecture, requires; best first
    ("x86-amx", X86, "avx512vnni,avx512bw,amx-int8,amx-tile"),
    ("x86-vnni512", X86, "avx512vnni,avx512bw"),
    ("x86-vnni256", X86, "avxvnni"),
    ("x86-avx2", X86, "avx2"),
    ("x86-base", X86, ""),
    ("arm-i8mm", ARM, "i8mm"),
    ("arm-neon", ARM, ""),
)
CLASSES: tuple[str, ...] = tuple(name for name, _, _ in _CLASSES)


def canonical_arch(arch: str) -> str:
    """One name for the several that systems have: "x86_64", "aarch64"; others in lower case."""
    lowered = arch.lower()
    return {"amd64": X86, "x86-64": X86, "x64": X86, "arm64": ARM}.get(lowered, lowered)


def cpu_class(have: Collection[str], platform: str, arch: str) -> str:
    """The class whose shipped profile may answer for this machine; `<platform>-<arch>` where none can."""
    own = canonical_arch(arch)
    fitting = (name for name, of, expr in _CLASSES if of == own and requires_ok(expr, have))
    return next(fitting, f"{platform}-{arch}")


def class_arch(name: str) -> str:
    """The architecture of a class, "" for one that is on no ladder."""
    return next((of for known, of, _ in _CLASSES if known == name), "")


def ladder(own: str) -> tuple[str, ...]:
    """The classes whose profiles are tried, own class first. Each winner still needs its `requires`."""
    arch = class_arch(own)
    if not arch:
        return (own,)
    rungs = tuple(name for name, of, _ in _CLASSES if of == arch)
    return rungs[rungs.index(own) :]


def class_reasons(have: Collection[str], platform: str, arch: str) -> tuple[tuple[str, str], ...]:
    """(class, why it is not this machine's) for every class, best first; "" for the one that is."""
    chosen = cpu_class(have, platform, arch)
    own = canonical_arch(arch)

    def why(name: str, of: str, expr: str) -> str:
        if name == chosen:
            return ""
        if of != own:
            return f"is for {of}, this is {own}"
        missing = unmet(expr, have)
        return f"needs {', '.join(missing)}" if missing else f"{chosen} is better"

    return tuple((name, why(name, of, expr)) for name, of, expr in _CLASSES)

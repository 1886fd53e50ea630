"""Whose machine a file speaks for: five fields, and the key by which identities are compared.

Everything here parses text that somebody else read; `host` reads it, recorded machines test it.
Five fields always: platform, architecture, model id, OS build, CPU; the last is never empty.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from tunebuild.features import ARM, FEATURES, canonical_arch, closed

UNKNOWN_CPU = "unknown-cpu"
_CPU_LINES = ("model name", "Model", "Hardware", "CPU part", "cpu", "uarch")  # the last two: POWER, RISC-V
_WORD_LINES = ("flags", "Features")
_XCR0 = {"": 0, "ymm": 0x6, "zmm": 0xE6, "tile": 0x60000}


@dataclass(frozen=True, slots=True)
class Cpuinfo:
    """/proc/cpuinfo: the first CPU line that says something, and the words that every processor lists."""

    cpu: str
    words: frozenset[str]


def parse_cpuinfo(text: str) -> Cpuinfo:
    """Arm lists have no `model name`; big and little cores differ, so only their common words count."""
    values: dict[str, list[str]] = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon and value.strip():
            values.setdefault(key.strip(), []).append(value.strip())
    cpu = next((values[key][0] for key in _CPU_LINES if key in values), "")
    lists = [set(line.split()) for key in _WORD_LINES for line in values.get(key, [])]
    return Cpuinfo(cpu, frozenset(set.intersection(*lists) if lists else ()))


def parse_sysctl(text: str) -> dict[str, str]:
    """`sysctl hw.optional` and the like: `name: value` lines."""
    pairs = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, colon, value in pairs if colon}


# --- features -------------------------------------------------------------------------------------


def features_of_linux(words: Collection[str], arch: str) -> frozenset[str]:
    """Features from the words of /proc/cpuinfo; for AVX the kernel lists only what it enabled."""
    own = canonical_arch(arch)
    found = (f.name for f in FEATURES if f.arch == own and all(word in words for word in f.linux))
    return closed((*found, *_baseline(own)))


def features_of_macos(sysctl: Mapping[str, str], arch: str) -> frozenset[str]:
    """Features from the sysctl names that read 1."""
    own = canonical_arch(arch)
    found = (f.name for f in FEATURES if f.arch == own and any(sysctl.get(n) == "1" for n in f.sysctl))
    return closed((*found, *_baseline(own)))


def _baseline(arch: str) -> tuple[str, ...]:
    return ("neon", "fp-armv8") if arch == ARM else ()


def enabled(features: Iterable[str], xcr0: int) -> frozenset[str]:
    """The features whose register state the system saves, by the bits of XCR0."""
    state = {feature.name: _XCR0[feature.state] for feature in FEATURES}
    return closed(name for name in features if xcr0 & state.get(name, 0) == state.get(name, 0))


# --- the five fields ------------------------------------------------------------------------------


def identity(platform: str, arch: str, model: str, build: str, cpu: str) -> str:
    """Join the five fields; blanks are folded, and a `|` inside one is not a separator."""
    fields = (" ".join(field.replace("|", "/").split()) for field in (platform, arch, model, build))
    return "|".join((*fields, " ".join(cpu.replace("|", "/").split()) or UNKNOWN_CPU))


def identity_of_linux(arch: str, kernel: str, cpuinfo: str, platform: str = "linux") -> str:
    return identity(platform, arch, "", kernel, parse_cpuinfo(cpuinfo).cpu)


def identity_of_macos(arch: str, positional: str) -> str:
    """``positional``: three lines, hw.model, kern.osversion and the CPU's brand; missing ones are blank."""
    model, build, cpu = (*(line.strip() for line in positional.splitlines()), "", "", "")[:3]
    return identity("darwin", arch, model, build, cpu)


def identity_of_windows(arch: str, banner: str, os_variable: str, cpu: str) -> str:
    """``banner``: what `ver` prints. Words before the build's first digit are localised, so they go."""
    bracketed = re.search(r"\[[^\]\d]*(\d[^\]]*)\]", banner)
    return identity("windows", arch, "", bracketed[1] if bracketed else os_variable, cpu)


def match_key(text: str) -> str:
    """The form in which identities are compared.

    Lower case; with five fields, a four-part Windows build loses its monthly revision, and a Linux kernel
    is folded to major.minor, so an update of the running system does not void every measurement.
    """
    fields = text.lower().split("|")
    if len(fields) == 5:
        if re.fullmatch(r"\d+(\.\d+){3}", fields[3]):
            fields[3] = fields[3].rpartition(".")[0]
        elif fields[0] == "linux" and (release := re.match(r"\d+\.\d+", fields[3])):
            fields[3] = release[0]
    return "|".join(fields)

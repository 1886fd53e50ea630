"""Reads this machine: identity, features, caches, cores, and what may disturb a measurement.

Parsing is pure and lives in `identity`. Nothing here starts a process on Linux, and nothing is read twice.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tunebuild import identity as ids
from tunebuild.errors import UsageError
from tunebuild.features import BY_NAME, X86, canonical_arch
from tunebuild.identity import match_key as match_key
from tunebuild.identity import parse_cpuinfo as parse_cpuinfo
from tunebuild.model import Box

FORCE_VARIABLE = "TUNEBUILD_FORCE_FEATURES"
_CPUS = Path("/sys/devices/system/cpu")
_DEFAULT_CACHE_BYTES = 32 << 20
_XTILE_BITS = 3 << 17
_ARCH_GET_XCOMP_SUPP, _ARCH_REQ_XCOMP_PERM, _XTILEDATA, _SYS_ARCH_PRCTL = 0x1021, 0x1023, 18, 158


def box(environ: Mapping[str, str] = os.environ) -> Box:
    """This machine, with the features that ``environ`` forces. Raises `UsageError` for an unknown one."""
    own = _machine()
    return Box(own.identity, own.arch, own.features, forced_features(environ, own.features))


def forced_features(environ: Mapping[str, str], have: Iterable[str] = ()) -> tuple[str, ...]:
    """The names forced through the environment that the machine lacks: generate only, never execute."""
    names = tuple(dict.fromkeys(name for name in environ.get(FORCE_VARIABLE, "").split(",") if name))
    if wrong := [name for name in names if name not in BY_NAME]:
        raise UsageError(
            f"{FORCE_VARIABLE} names unknown features: {', '.join(wrong)}",
            fix=f"use names that `tunebuild box` lists: {', '.join(BY_NAME)}",
        )
    held = frozenset(have)
    return tuple(name for name in names if name not in held)


@functools.cache
def _machine() -> Box:
    arch = _arch()
    match sys.platform:
        case "darwin" | "osx":
            return _macos(arch)
        case "win32" | "cygwin":
            return _windows(arch)
        case _:
            return _unix(arch)


def _arch() -> str:
    if hasattr(os, "uname"):
        return canonical_arch(os.uname().machine)
    import platform  # 9 ms, so only where there is no uname

    return canonical_arch(platform.machine())


def _unix(arch: str) -> Box:
    cpuinfo = _text(Path("/proc/cpuinfo"))
    name = "linux" if sys.platform.startswith("linux") else sys.platform
    identity = ids.identity_of_linux(arch, os.uname().release, cpuinfo, name)
    if not cpuinfo:
        return Box(identity, arch, _archspec_features(arch))
    features = ids.features_of_linux(parse_cpuinfo(cpuinfo).words, arch)
    if "amx-tile" in features and not _tile_state():
        features = frozenset(f for f in features if BY_NAME[f].state != "tile")
    return Box(identity, arch, features)


def _macos(arch: str) -> Box:
    names = ("hw.model", "kern.osversion", "machdep.cpu.brand_string")
    # One call each: a key that is missing shifts nothing.
    lines = (_command("sysctl", "-n", name).strip() for name in names)
    features = ids.features_of_macos(ids.parse_sysctl(_command("sysctl", "hw.optional")), arch)
    return Box(ids.identity_of_macos(arch, "\n".join(lines)), arch, features)


def _windows(arch: str) -> Box:
    named, cpu = os.environ.get("OS", ""), os.environ.get("PROCESSOR_IDENTIFIER", "")
    identity = ids.identity_of_windows(arch, _command("cmd", "/c", "ver"), named, cpu)
    return Box(identity, arch, ids.enabled(_archspec_features(arch), _windows_xstate()))


def _archspec_features(arch: str) -> frozenset[str]:
    import archspec.cpu  # type: ignore[import-untyped, unused-ignore]

    return ids.features_of_linux(frozenset(str(word) for word in archspec.cpu.host().features), arch)


def _windows_xstate() -> int:
    import ctypes

    kernel32 = getattr(ctypes, "windll").kernel32  # noqa: B009 - the attribute exists on Windows only
    return int(kernel32.GetEnabledXStateFeatures())


def _prctl() -> Callable[..., int] | None:
    """`syscall(arch_prctl, …)`, or None where there is no such thing."""
    if not sys.platform.startswith("linux") or _arch() != X86:
        return None
    import ctypes

    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long
    return functools.partial(syscall, ctypes.c_long(_SYS_ARCH_PRCTL))


def _tile_state() -> bool:
    """Does this kernel save tile registers? Old ones list the CPU's amx flags and do not."""
    import ctypes

    mask = ctypes.c_uint64(0)
    prctl = _prctl()
    return (
        prctl is not None
        and prctl(ctypes.c_long(_ARCH_GET_XCOMP_SUPP), ctypes.byref(mask)) == 0
        and mask.value & _XTILE_BITS == _XTILE_BITS
    )


def request_tiles() -> bool:
    """Ask the system for tile state for this process and its children; True when it was granted."""
    import ctypes

    prctl = _prctl()
    return prctl is not None and prctl(ctypes.c_long(_ARCH_REQ_XCOMP_PERM), ctypes.c_long(_XTILEDATA)) == 0


def microarchitecture() -> str:
    """archspec's name for this CPU, such as "zen3"; takes 25 ms, so only `box` asks."""
    import archspec.cpu  # type: ignore[import-untyped, unused-ignore]

    return str(archspec.cpu.host().name)


# --- caches and cores -----------------------------------------------------------------------------


def last_level_cache_bytes(cpus: Path = _CPUS) -> int:
    """The largest cache of the deepest level that the system tells of; 32 MiB where it tells of none."""
    levels = [
        (int(_text(folder / "level") or 0), parse_size(_text(folder / "size")))
        for folder in cpus.glob("cpu[0-9]*/cache/index[0-9]*")
        if _text(folder / "type").strip() != "Instruction"
    ]
    return max(levels, default=(0, 0))[1] or _DEFAULT_CACHE_BYTES


def parse_size(text: str) -> int:
    """Bytes of a size such as 512K, 32768K, 8M; 0 for anything else."""
    size = re.fullmatch(r"(\d+)([KMG]?)", text.strip())
    return int(size[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[size[2]] if size else 0


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """The CPUs of a list such as 0-3,8."""
    spans = (part.partition("-") for part in text.strip().split(",") if part.strip())
    return tuple(cpu for low, _, high in spans for cpu in range(int(low), int(high or low) + 1))


@dataclass(frozen=True, slots=True)
class Core:
    """A CPU that this process may use. ``siblings`` share its core; ``speed`` compares cores, 0 unknown."""

    cpu: int
    siblings: tuple[int, ...]
    speed: int


def cores(cpus: Path = _CPUS, allowed: Iterable[int] | None = None) -> tuple[Core, ...]:
    """The CPUs of this process's affinity mask, in order."""
    mask = sorted(allowed if allowed is not None else _affinity())

    def speed(folder: Path) -> int:
        texts = (_text(folder / "cpufreq/cpuinfo_max_freq"), _text(folder / "cpu_capacity"))
        return next((int(text) for text in texts if text.strip().isdigit()), 0)

    def core(cpu: int) -> Core:
        folder = cpus / f"cpu{cpu}"
        siblings = parse_cpu_list(_text(folder / "topology/thread_siblings_list")) or (cpu,)
        return Core(cpu, siblings, speed(folder))

    return tuple(core(cpu) for cpu in mask)


def race_core(available: tuple[Core, ...]) -> int:
    """The CPU a race is pinned to: of the fastest cores the last, since the first serve interrupts.

    Of two siblings the first stands for the core. -1 when nothing may be pinned.
    """
    own = [core for core in available if core.cpu == min(core.siblings, default=core.cpu)] or list(available)
    return max(own, key=lambda core: (core.speed, core.cpu)).cpu if own else -1


def _affinity() -> tuple[int, ...]:
    if hasattr(os, "sched_getaffinity"):
        return tuple(os.sched_getaffinity(0))
    return tuple(range(os.cpu_count() or 1))


# --- what may disturb a measurement ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Conditions:
    """Facts for `doctor`; "" or -1 where this system does not tell."""

    cpus: int
    race_cpu: int
    shares_core: bool  # the race's CPU has a sibling
    governors: tuple[str, ...]
    turbo: str  # "on", "off"
    load_1min: float
    steal_percent: float  # since boot
    throttled_periods: int  # of this control group
    cpu_quota: str  # cgroup cpu.max, "" or "max" unlimited
    aslr: str  # randomize_va_space
    last_level_cache_bytes: int
    virtual: bool


def conditions() -> Conditions:
    """Read once, now."""
    available = cores()
    chosen = race_core(available)
    governors = {_text(path).strip() for path in _CPUS.glob("cpu[0-9]*/cpufreq/scaling_governor")}
    return Conditions(
        cpus=len(available),
        race_cpu=chosen,
        shares_core=any(len(core.siblings) > 1 for core in available if core.cpu == chosen),
        governors=tuple(sorted(governors - {""})),
        turbo=_turbo(),
        load_1min=_load(),
        steal_percent=steal_percent(_text(Path("/proc/stat"))),
        throttled_periods=_throttled(_text(Path("/sys/fs/cgroup/cpu.stat"))),
        cpu_quota=_text(Path("/sys/fs/cgroup/cpu.max")).strip(),
        aslr=_text(Path("/proc/sys/kernel/randomize_va_space")).strip(),
        last_level_cache_bytes=last_level_cache_bytes(),
        virtual="hypervisor" in parse_cpuinfo(_text(Path("/proc/cpuinfo"))).words,
    )


def steal_percent(proc_stat: str) -> float:
    """The share of CPU time since boot that a hypervisor gave to others; -1 unknown."""
    fields = proc_stat.split("\n", 1)[0].split()[1:]
    if len(fields) < 8 or not all(field.isdigit() for field in fields[:8]):
        return -1.0
    ticks = [int(field) for field in fields[:8]]
    return 100.0 * ticks[7] / sum(ticks) if sum(ticks) else 0.0


def _throttled(cpu_stat: str) -> int:
    found = re.search(r"^nr_throttled (\d+)$", cpu_stat, re.MULTILINE)
    return int(found[1]) if found else -1


def _turbo() -> str:
    if no_turbo := _text(_CPUS / "intel_pstate/no_turbo").strip():
        return "off" if no_turbo == "1" else "on"
    return {"1": "on", "0": "off"}.get(_text(_CPUS / "cpufreq/boost").strip(), "")


def _load() -> float:
    try:
        return os.getloadavg()[0]
    except (OSError, AttributeError):
        return -1.0


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _command(*argv: str) -> str:
    import subprocess

    try:
        done = subprocess.run(argv, capture_output=True, text=True, errors="replace", timeout=10, check=False)
        return done.stdout
    except (OSError, subprocess.SubprocessError):
        return ""

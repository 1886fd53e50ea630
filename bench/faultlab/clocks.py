"""Row 11: files dated ahead, back and alike; a clock that is set back, and one that jumps while things are made."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from faultlab.common import Result, Tally, environment, missing, small, traceback_in, tunebuild, workshop
from faultlab.tiny import BRIEF, Tiny
from tunebuild import sidecar
from tunebuild.document import Document

_DATES = {"2099": 4_070_908_800.0, "1970": 0.0, "a day ahead": time.time() + 86_400}
_AHEAD = ("2099", "a day ahead")
_FILES = {
    "tune.toml": "tune.toml",
    "template": "kernels/templates/dot_f32/kernel.c.j2",
    "reference": "kernels/templates/dot_f32/reference.c",
    "header": "kernels/include/number.h",
    "generated row": "generated/rows/**/*.c",
    "object": "build/obj/**/*.o",
    "library": "build/normal/*.so",
    "build.ninja": "build/build.ninja",
}

# The wall clock of every program that loads it is shifted by what a file says; a "?" lets it jump at each reading.
_CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long shift(void)
{
    static unsigned long state = 88172645463325252u;
    char text[32] = "";
    int file = open(getenv("SHIFT"), O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    long length = read(file, text, sizeof text - 1);
    close(file);
    if (length < 1) return 0;
    if (text[0] != '?') return atol(text);
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (long)(state % 7200) - 3600;
}

int clock_gettime(clockid_t which, struct timespec *now)
{
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int code = real(which, now);
    if (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE) now->tv_sec += shift();
    return code;
}

time_t time(time_t *out)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *out, void *zone)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    out->tv_sec = now.tv_sec;
    out->tv_usec = now.tv_nsec / 1000;
    return 0;
}
"""


def skewed(quick: bool) -> Result:
    """Row 11. Decisions by content: at most one warning, no build without end, races on a clock that nobody sets."""
    fault = "clock skew: files ahead and back, clocks that step"
    if lacks := missing("gcc"):
        return Result(11, fault, 0, 0, skipped=lacks)
    tally = Tally()
    with workshop() as folder:
        root = small(folder)
        (root / "kernels/include").mkdir(parents=True)
        (root / "kernels/include/number.h").write_text("#define NUMBER 1\n")
        template = root / _FILES["template"]
        template.write_text('#include "number.h"\n' + template.read_text())
        env = environment(folder, TUNEBUILD_CACHE="off")
        tunebuild(root, "build", env=env)
        wanted = _objects(root)
        for date in list(_DATES)[::3] if quick else _DATES:
            for name, pattern in list(_FILES.items())[::3] if quick else _FILES.items():
                tally.add(f"{name} of {date}", _dated(root, env, pattern, date, wanted))
        tally.add("all of one time", _alike(root, env))
        for shift in ("-86400", "86400", "?")[:: 2 if quick else 1]:
            tally.add(f"a clock {shift} s off", _shifted(folder, root, env, shift, wanted))
            tally.add(
                f"a clock that steps by {shift} s during a build", _stepped(folder, root, env, shift, wanted)
            )
        for number in range(1 if quick else 5):
            tally.add(f"mint {number} under a clock that jumps", _minted(folder / f"mint{number}", folder))
    return tally.result(11, fault)


def _objects(root: Path) -> dict[str, bytes]:
    found = [*(root / "build/obj").rglob("*.o"), *(root / "build/normal").glob("*.so")]
    return {str(path.relative_to(root)): path.read_bytes() for path in found}


def _build(root: Path, env: Mapping[str, str]) -> tuple[str, list[str]]:
    """What is wrong with a build, and what it made."""
    done = tunebuild(root, "build", "--json", env=env)
    if done.returncode or traceback_in(done):
        return f"exit {done.returncode}: {done.stderr[-200:]}", []
    said = done.stderr.count("clock skew")
    return (f"warned {said} times" if said > 1 else ""), json.loads(done.stdout.splitlines()[-1])["made"]


def _dated(root: Path, env: Mapping[str, str], pattern: str, date: str, wanted: Mapping[str, bytes]) -> str:
    """A file dated ahead is told, and its readers alone run again; any other date is nothing special."""
    paths = [path for path in root.glob(pattern) if path.is_file()]
    kept = {path: path.stat() for path in paths}
    if not paths:
        return f"there is no {pattern}"
    for path in paths:
        os.utime(path, (_DATES[date], _DATES[date]))
    whys, made = [], []
    for _ in range(3):  # the first may put things right; the third must do nothing that the second did not
        why, made_now = _build(root, env)
        whys.append(why)
        made.append(sorted(made_now))
    for path, facts in kept.items():
        if path.exists():
            os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    whys.append(_build(root, env)[0])
    if wrong := next(filter(None, whys), ""):
        return wrong
    if not set(made[2]) <= set(made[1]) or (date not in _AHEAD and made[2]):
        return f"builds without end: {made[2][:3]}"
    return _settled(root, env, wanted)


def _settled(root: Path, env: Mapping[str, str], wanted: Mapping[str, bytes]) -> str:
    why, made = _build(root, env)
    if why or made:
        return why or f"a build of nothing new made {made[:3]}"
    return "" if _objects(root) == wanted else "other bytes"


def _alike(root: Path, env: Mapping[str, str]) -> str:
    then = time.time() - 1000
    for path in root.rglob("*"):
        os.utime(path, (then, then), follow_symlinks=False)
    first, _ = _build(root, env)
    second, made = _build(root, env)
    return first or second or (f"made {made[:3]}" if made else "")


def _faked(folder: Path, env: Mapping[str, str], shift: str) -> dict[str, str]:
    library = folder / "clock.so"
    if not library.exists():
        source = folder / "clock.c"
        source.write_text(_CLOCK)
        subprocess.run(
            ["gcc", "-shared", "-fPIC", "-O1", str(source), "-o", str(library), "-ldl"], check=True
        )
    (folder / "shift").write_text(shift)
    return {**env, "LD_PRELOAD": str(library), "SHIFT": str(folder / "shift")}


def _shifted(
    folder: Path, root: Path, env: Mapping[str, str], shift: str, wanted: Mapping[str, bytes]
) -> str:
    """A build, and one of nothing new, under a clock that is off; then the clock is right again."""
    shutil.rmtree(root / "build")
    faked = _faked(folder, env, shift)
    first, _ = _build(root, faked)
    second, _ = _build(root, faked)
    third, _ = _build(root, env)
    return first or second or third or _settled(root, env, wanted)


def _stepped(
    folder: Path, root: Path, env: Mapping[str, str], shift: str, wanted: Mapping[str, bytes]
) -> str:
    """The clock steps when the first compiler runs, and is right again at the next build."""
    shutil.rmtree(root / "build")
    faked = _faked(folder, env, "0")
    compiler = folder / "stepping-cc"
    compiler.write_text(
        f'#!/bin/sh\ncase "$*" in *" -c "*isa_avx2_u4*) printf %s "{shift}" > "{folder / "shift"}";; esac\n'
        'exec gcc "$@"\n'
    )
    compiler.chmod(0o755)
    first, _ = _build(root, {**faked, "CC": str(compiler)})
    (folder / "shift").write_text("0")
    second, _ = _build(root, env)
    return first or second or _settled(root, env, wanted)


def _minted(place: Path, folder: Path) -> str:
    """The winner is the fast row, whatever the wall clock says meanwhile."""
    env = _faked(folder, environment(place, TUNEBUILD_NOISE_OVERRIDE="1", TUNEBUILD_CACHE="off"), "?")
    project = Tiny(place / "tiny", env)
    project.write(BRIEF)
    done = project.run("mint")
    if done.returncode or traceback_in(done):
        return f"exit {done.returncode}: {done.stderr[-300:]}"
    found = sidecar.read(project.sidecar)
    if not isinstance(found, Document) or found.kernels.get("scale") != "slow1":
        return f"the winner is {found}"
    times = list(_numbers(found.race))
    return (
        "" if times and all(0 <= each < 1e6 for each in times) else f"times of {min(times)} to {max(times)}"
    )


def _numbers(value: object) -> Iterator[float]:
    """Every time that a race recorded, in microseconds."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if str(name).endswith("_us") and isinstance(inner, int | float):
                yield float(inner)
            yield from _numbers(inner)

"""Rows 14, 15 and 16: read-only places, full disks, file-size limits, failing and interrupted calls."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from faultlab import crash
from faultlab.common import (
    BOX,
    ROOT,
    Result,
    Tally,
    environment,
    missing,
    project,
    traceback_in,
    tunebuild,
    workshop,
)
from faultlab.tiny import BRIEF, Tiny
from tunebuild import sidecar
from tunebuild.document import Document, parse

_NO_OVERRIDE = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search")

# --- read-only ------------------------------------------------------------------------------------


def read_only(quick: bool) -> Result:
    """Row 14. By a read-only mount and by file modes (root minus the right to ignore them)."""
    fault = "read-only sources, cache, build folder, sidecar folder"
    if lacks := missing("unshare", "setpriv", "mount"):
        return Result(14, fault, 0, 0, skipped=lacks)
    tally = Tally()
    for way in ("mount", "modes"):
        for name, case in (
            ("sidecar folder", _sidecar_folder),
            ("sources", _sources),
            ("cache", _cache),
            ("build", _build),
        ):
            if quick and name != "sidecar folder":
                continue
            with workshop() as folder:
                tally.add(f"{name}, {way}", case(folder, way))
    return tally.result(14, fault)


def _locked_away(way: str, place: Path) -> tuple[str, ...]:
    """Words in front of a command for which ``place`` is read-only."""
    if way == "mount":
        script = f"mount --bind '{place}' '{place}' && mount -o remount,bind,ro '{place}' && exec \"$@\""
        return ("unshare", "-rm", "sh", "-c", script, "sh")
    for path in (place, *place.rglob("*")):
        path.chmod(path.stat().st_mode & ~0o222)
    return _NO_OVERRIDE if os.geteuid() == 0 else ()


def _unlock(place: Path) -> None:
    for path in (place, *place.rglob("*")):
        path.chmod(path.stat().st_mode | 0o200)


def _sidecar_folder(folder: Path, way: str) -> str:
    write = crash.WRITES[1]
    path = crash.fresh(folder, write)
    done = _attempt(folder, path, write.code, before=_locked_away(way, path.parent))
    _unlock(path.parent)
    return _refused_cleanly(done, path, "a.tune.json")


def _sources(folder: Path, way: str) -> str:
    place = project(folder)
    before = _locked_away(way, place / "kernels")
    done = tunebuild(place, "build", env=environment(folder), before=before)
    _unlock(place)
    return "" if done.returncode == 0 else f"exit {done.returncode}: {done.stderr[-200:]}"


def _cache(folder: Path, way: str) -> str:
    place, cache = project(folder), folder / "cache"
    tunebuild(place, "build", env=environment(folder))
    shutil.rmtree(place / "build")
    before = _locked_away(way, cache)
    template = place / "kernels/templates/scale_f32/kernel.c.j2"
    template.write_text(template.read_text().replace("= a * x", "= 1 * a * x"))
    done = tunebuild(place, "build", env=environment(folder), before=before)
    _unlock(cache)
    if done.returncode:
        return f"exit {done.returncode}: {done.stderr[-200:]}"
    said = (done.stdout + done.stderr).count("cannot write the cache")
    return "" if said == 1 else f"said {said} times that the cache cannot be written"


def _build(folder: Path, way: str) -> str:
    place = project(folder)
    (place / "build").mkdir()
    before = _locked_away(way, place / "build")
    done = tunebuild(place, "build", env=environment(folder), before=before)
    _unlock(place)
    if wrong := traceback_in(done):
        return wrong
    named = "build" in done.stderr and ("writable" in done.stderr or "Read-only" in done.stderr)
    return "" if done.returncode and named else f"exit {done.returncode}: {done.stderr[-200:]}"


# --- full disks and limits ------------------------------------------------------------------------


def full_disk(quick: bool) -> Result:
    """Row 15. A full tmpfs, ENOSPC and EDQUOT at every call, and a limit on the size of files."""
    fault = "disk full, quota, file-size limit"
    if lacks := missing("strace", "unshare", "mount"):
        return Result(15, fault, 0, 0, skipped=lacks)
    tally = Tally()
    for write in crash.WRITES[1:2] if quick else crash.WRITES[1:4]:
        with workshop() as folder:
            for error in ("ENOSPC",) if quick else ("ENOSPC", "EDQUOT"):
                calls = ("write", "fsync", "rename", "openat", "ftruncate")
                _inject(tally, folder, write, error, calls[:3] if quick else calls)
            for limit in (0, 100, 300):
                path = crash.fresh(folder, write)
                done = _attempt(folder, path, write.code, limits={resource.RLIMIT_FSIZE: limit})
                tally.add(f"{write.name}, files up to {limit} bytes", _old_or_new(done, path, write))
    with workshop() as folder:
        for free in (0, 1, 2) if quick else range(5):
            tally.add(f"tmpfs with {free} pages left", _on_full_tmpfs(folder, free))
    for kilobytes in () if quick else range(100, 420, 10):
        with workshop() as folder:
            tally.add(f"mint on a tmpfs of {kilobytes} kB", _mint_on_small_tmpfs(folder, kilobytes))
    return tally.result(15, fault)


# A mint on a full disk, then the same on one with room. What either says is on the terminal.
_SMALL = """
mount -t tmpfs -o "size=${1}k" tmpfs "$0" && cp -a "$2/." "$0" || exit 90
cd "$0" && shift 2
"$@"; echo "ended with $?"
[ ! -e tiny.tune.json ] || grep -q '"scale": "slow1"' tiny.tune.json || echo "another winner"
mount -o remount,size=64m "$0" && "$@"; echo "ended with $?"
cat tiny.tune.json
"""


def _mint_on_small_tmpfs(folder: Path, kilobytes: int) -> str:
    """It ends with 1 and names what could not be written, or ends well; with room again it ends well."""
    env = environment(folder, TUNEBUILD_NOISE_OVERRIDE="1", TUNEBUILD_CACHE="off", TMPDIR=str(folder))
    kept, place = Tiny(folder / "kept", env), folder / "small"
    kept.write(BRIEF)
    place.mkdir()
    words = (sys.executable, "-m", "tunebuild", "mint", "--quiet")
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", _SMALL, str(place), str(kilobytes), str(kept.root), *words],
        env=dict(env), capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    said = done.stdout + done.stderr
    codes = [line.split()[-1] for line in done.stdout.splitlines() if line.startswith("ended with ")]
    if wrong := traceback_in(done):
        return wrong
    if codes not in (["1", "0"], ["0", "0"]):
        return f"ended with {codes}: {said[-300:]}"
    if "another winner" in done.stdout:
        return "recorded another winner on the full disk"
    if codes[0] == "1" and "No space left on device" not in said:
        return f"does not say what is wrong: {done.stderr[-300:]}"
    found = parse(done.stdout[done.stdout.rindex("ended with 0") + len("ended with 0") :].encode())
    return "" if isinstance(found, Document) and found.kernels == {"scale": "slow1"} else f"recorded {found}"


def _on_full_tmpfs(folder: Path, free_pages: int) -> str:
    place = folder / f"small{free_pages}"
    place.mkdir()
    code = (
        f"{crash.START}\nimport os\nfrom tunebuild.errors import TunebuildError\n"
        "sidecar.save(path, Change(kernels={'old': 'a'}), box=box)\n"
        "big = {f'f{n}': 'a' * 100 for n in range(200)}\n"
        "with open(path.parent / 'filler', 'wb', buffering=0) as filler:\n"
        "    try:\n        while True: filler.write(b'x' * 4096)\n    except OSError: pass\n"
        f"    os.ftruncate(filler.fileno(), max(0, os.fstat(filler.fileno()).st_size - {4096 * free_pages}))\n"
        "try:\n    sidecar.save(path, Change(kernels=big), box=box)\n    print('written')\n"
        "except TunebuildError as error:\n    print('refused', error)\n"
        "print(sorted(sidecar.read(path).kernels) == ['old'], [p.name for p in path.parent.glob('.*.tmp')])\n"
    )
    script = f"mount -t tmpfs -o size=64k tmpfs '{place}' && exec \"$@\""
    words = [
        "unshare",
        "-rm",
        "sh",
        "-c",
        script,
        "sh",
        sys.executable,
        "-c",
        code,
        str(place / "a.tune.json"),
    ]
    done = subprocess.run(
        words, capture_output=True, text=True, env=environment(folder), timeout=60, check=False
    )
    if wrong := traceback_in(done):
        return wrong
    refused = "refused" in done.stdout and "No space left on device" in done.stdout and "bytes" in done.stdout
    return "" if refused and "True []" in done.stdout else done.stdout + done.stderr


def failing_calls(quick: bool) -> Result:
    """Row 16. EIO, EMFILE and EINTR at every call on our files; few descriptors."""
    fault = "EIO, EINTR, EMFILE, short writes"
    if lacks := missing("strace", "gcc"):
        return Result(16, fault, 0, 0, skipped=lacks)
    tally = Tally()
    for write in crash.WRITES[1:2] if quick else crash.WRITES[1:4]:
        with workshop() as folder:
            calls = ("fsync", "rename", "write", "openat", "flock", "fchmod", "close")
            _inject(tally, folder, write, "EIO", calls[:2] if quick else calls)
            if not quick:
                _inject(tally, folder, write, "EMFILE", ("openat",))
                _inject(tally, folder, write, "EINTR", ("write", "openat", "flock", "fsync"))
            tally.add(f"{write.name}, short writes", _short_writes(folder, write))
            for count in (4,) if quick else (3, 4, 5, 32):
                path = crash.fresh(folder, write)
                few = (
                    f"import fcntl, resource\nresource.setrlimit(resource.RLIMIT_NOFILE, ({count}, {count}))"
                )
                code = f"{few}\n{write.code}"
                done = _attempt(folder, path, code)
                tally.add(f"{write.name}, {count} descriptors", _old_or_new(done, path, write))
    return tally.result(16, fault)


# Every second write is interrupted, the others take three bytes.
_SHORT = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <unistd.h>

ssize_t write(int file, const void *data, size_t size)
{
    static ssize_t (*real)(int, const void *, size_t);
    static unsigned calls;
    if (!real) real = (ssize_t (*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
    if (calls++ % 2) return errno = EINTR, -1;
    return real(file, data, size < 3 ? size : 3);
}
"""


def short_writes(folder: Path) -> str:
    """The library that makes every write of a process a short or an interrupted one; its path, for LD_PRELOAD."""
    source, library = folder / "short.c", folder / "short.so"
    source.write_text(_SHORT)
    subprocess.run(["gcc", "-shared", "-fPIC", str(source), "-o", str(library), "-ldl"], check=True)
    return str(library)


def _short_writes(folder: Path, write: crash.Write) -> str:
    path = crash.fresh(folder, write)
    done = _attempt(folder, path, write.code, before=("env", f"LD_PRELOAD={short_writes(folder)}"))
    return (
        f"exit {done.returncode}: {done.stderr[-200:]}" if done.returncode else _old_or_new(done, path, write)
    )


def _inject(tally: Tally, folder: Path, write: crash.Write, error: str, calls: tuple[str, ...]) -> None:
    for call, count in crash.points(folder, write):
        if call not in calls:
            continue
        path = crash.fresh(folder, write)
        before = ("strace", "-qq", "-o", str(folder / "log"), "-e", f"trace={call}", "-e", "signal=none")
        done = _attempt(
            folder, path, write.code, before=(*before, "-e", f"inject={call}:error={error}:when={count}")
        )
        tally.add(f"{write.name}, {error} from {call} {count}", _old_or_new(done, path, write))


def _attempt(
    folder: Path, path: Path, code: str, before: tuple[str, ...] = (), limits: dict[int, int] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run one write; an error of ours is printed and exits 1, so that any traceback is a defect."""
    body = "\n".join(f"    {line}" for line in code.splitlines())
    whole = (
        f"{crash.START}\nfrom tunebuild.errors import TunebuildError\ntry:\n{body}\n"
        "except TunebuildError as error:\n    print(error, file=sys.stderr)\n    sys.exit(1)\n"
    )

    def limit() -> None:
        for kind, most in (limits or {}).items():
            resource.setrlimit(kind, (most, most))

    start: Callable[[], None] | None = limit if limits else None
    return subprocess.run(
        [*before, sys.executable, "-c", whole, str(path)], cwd=ROOT, env=environment(folder), text=True,
        capture_output=True, timeout=120, check=False, preexec_fn=start,
    )  # fmt: skip


def _old_or_new(done: subprocess.CompletedProcess[str], path: Path, write: crash.Write) -> str:
    """Whole, and the exit code says which: 0 the new one, 1 with the path the old one."""
    if wrong := traceback_in(done):
        return wrong
    if done.returncode not in (0, 1):
        return f"exit {done.returncode}: {done.stderr[-200:]}"
    if done.returncode and path.name not in done.stderr:
        return f"the error does not name the file: {done.stderr}"
    found = sidecar.read(path)
    if done.returncode == 0 and not (isinstance(found, Document) and "new" in found.kernels):
        return "reported as written, and is not"
    return write.whole(path)


def _refused_cleanly(done: subprocess.CompletedProcess[str], path: Path, words: str) -> str:
    if wrong := traceback_in(done):
        return wrong
    found = sidecar.read(path)
    kept = isinstance(found, Document) and "old" in found.kernels and found.box == BOX.identity
    named = words in done.stderr and "writable" in done.stderr
    return "" if done.returncode == 1 and kept and named else f"exit {done.returncode}: {done.stderr[-200:]}"

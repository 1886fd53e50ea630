"""Rows about builds that are killed, that meet, whose cache is damaged or emptied, whose inputs change in no time."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from faultlab.common import Result, Tally, environment, missing, small, tunebuild, workshop
from tunebuild import building, cache

SEED = 3
HEADER = "kernels/include/number.h"


def _start(root: Path, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tunebuild", "build"], cwd=root, env=dict(env),
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def _made(root: Path) -> dict[str, bytes]:
    """Every object and artifact of a normal build."""
    found = [*(root / "build/obj").rglob("*.o"), *(root / "build/normal").glob("*")]
    return {str(path.relative_to(root)): path.read_bytes() for path in found}


def killed_builds(quick: bool) -> Result:
    """kill -9 of a build at a random moment; the next build must equal a clean one byte for byte."""
    tally, dice = Tally(), random.Random(SEED)
    with workshop() as folder:
        env = environment(folder, TUNEBUILD_CACHE="off")
        clean = small(folder / "clean")
        started = time.monotonic()
        tunebuild(clean, "build", env=env)
        longest_s = time.monotonic() - started
        wanted = _made(clean)
        for trial in range(4 if quick else 50):
            root = small(folder / f"killed_{trial}")
            after_s = dice.uniform(0.1, longest_s)
            process = _start(root, env)
            time.sleep(after_s)
            process.kill()
            process.wait()
            done = tunebuild(root, "build", env=env)
            same = done.returncode == 0 and _made(root) == wanted
            tally.add(f"after {after_s:.2f} s", "" if same else done.stderr[-200:] or "other bytes")
            shutil.rmtree(root.parent)
    return tally.result(3, "kill -9 during ninja")


# --- the cache ------------------------------------------------------------------------------------


def _flipped(data: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << dice.randrange(8)]) + data[at + 1 :]


def _damage(kind: str, path: Path, others: list[Path], dice: random.Random) -> None:
    data = path.read_bytes()
    other = dice.choice([each for each in others if each.read_bytes() != data] or [path])
    match kind:
        case "truncated":
            path.write_bytes(data[: dice.randrange(len(data))])
        case "zeroed":
            path.write_bytes(bytes(len(data)))
        case "flipped":
            path.write_bytes(_flipped(data, dice))
        case "swapped":
            path.write_bytes(other.read_bytes())
        case "of another mode":
            path.chmod(dice.choice((0o000, 0o111, 0o777)))
        case "a link":
            path.unlink()
            path.symlink_to(other)
        case "a folder":
            path.unlink()
            path.mkdir()


DAMAGE = ("truncated", "zeroed", "flipped", "swapped", "of another mode", "a link", "a folder")


def damaged_entries(quick: bool) -> Result:
    """Entries and sets of a real cache, damaged in every way: a miss, or the bytes that were stored."""
    tally, dice = Tally(), random.Random(SEED)
    with workshop() as folder:
        root = small(folder)
        tunebuild(root, "build", env=environment(folder))
        whole = folder / "cache"
        entries = sorted(path for path in (whole / "entries").rglob("*") if path.is_file())
        sets = sorted(path for path in (whole / "sets").rglob("*") if path.is_file())
        stored = {path.name: cache.lookup(cache.Store(whole), path.name, root) for path in entries}
        for kind in DAMAGE:
            for trial in range(20 if quick else 200):
                where = folder / "damaged"
                shutil.copytree(whole, where)
                hurt = dice.choice(entries if trial % 4 else sets)
                kin = entries if hurt in entries else sets
                copies = [where / path.relative_to(whole) for path in kin]
                _damage(kind, where / hurt.relative_to(whole), copies, dice)
                cache._sets.clear()  # what this process knows of sets speaks of the whole ones
                keys = [hurt.name] if hurt in entries else list(stored)
                served = {key: cache.lookup(cache.Store(where), key, root) for key in keys}
                wrong = [key for key, entry in served.items() if entry not in (None, stored[key])]
                tally.add(f"{kind}: {hurt.name[:12]}", f"served {wrong[0][:12]}" if wrong else "")
                shutil.rmtree(where)
    return tally.result(5, "damaged cache entries of every kind")


def shared_cache(quick: bool) -> Result:
    """Folders that build with one cold cache at once: all succeed and are equal, one entry a key."""
    tally = Tally()
    with workshop() as folder:
        for number in range(1 if quick else 50):
            store = cache.Store(folder / f"cache_{number}")
            env = environment(folder, TUNEBUILD_CACHE=str(store.root))
            roots = [small(folder / f"round_{number}/{index}") for index in range(2 if quick else 8)]
            codes = [process.wait() for process in [_start(root, env) for root in roots]]
            entries = cache.info(store).entries
            alone = small(folder / f"round_{number}/alone")
            tunebuild(alone, "build", env=env)
            extra = cache.info(store).entries - entries
            wanted = _made(alone)
            for root, code in zip(roots, codes, strict=True):
                why = (
                    ""
                    if code == 0 and _made(root) == wanted and not extra
                    else f"{code}, {extra} new entries"
                )
                tally.add(root.parent.name, why)
            shutil.rmtree(folder / f"round_{number}")
    return tally.result(7, "folders that share one cold cache")


def emptied_cache(quick: bool) -> Result:
    """Builds while another process empties their cache without pause: each succeeds."""
    tally = Tally()
    until = time.monotonic() + (5 if quick else 60)
    with workshop() as folder:
        env = environment(folder)
        roots = [small(folder / f"project_{index}") for index in range(2 if quick else 8)]
        running = {root: _start(root, env) for root in roots}
        store = cache.Store(folder / "cache")
        while running:
            cache.gc(store, 0)
            for root, process in list(running.items()):
                if process.poll() is None:
                    continue
                tally.add(
                    root.parent.name, "" if process.returncode == 0 else f"exit code {process.returncode}"
                )
                del running[root]
                if time.monotonic() < until:
                    shutil.rmtree(root / "build")
                    running[root] = _start(root, env)
            time.sleep(0.01)
    return tally.result(10, "builds while the cache is emptied")


# --- one folder -----------------------------------------------------------------------------------


def together(quick: bool) -> Result:
    """Builds of one folder, started at random within its build's time: each succeeds, the result is a serial one's."""
    tally, dice = Tally(), random.Random(SEED)
    with workshop() as folder:
        env = environment(folder)
        serial = small(folder / "serial")
        tunebuild(serial, "build", env=env)
        wanted = _made(serial)
        root = small(folder / "shared")
        for number in range(2 if quick else 20):
            shutil.rmtree(root / "build", ignore_errors=True)
            running = []
            for _ in range(8):
                running.append(_start(root, env))
                time.sleep(dice.uniform(0, 0.2))
            codes = [process.wait() for process in running]
            same = _made(root) == wanted
            for index, code in enumerate(codes):
                tally.add(
                    f"round {number} process {index}", "" if code == 0 and same else f"exit code {code}"
                )
    return tally.result(6, "builds at once in one folder")


def instant_edits(quick: bool) -> Result:
    """An edit of a header under its old time, right after a build: the next build holds the new text."""
    if why := missing("gcc"):
        return Result(12, "edits under an unchanged time", 0, 0, skipped=why)
    tally = Tally()
    with workshop() as folder:
        root = small(folder)
        template = root / "kernels/templates/dot_f32/kernel.c.j2"
        own = "const char {{ fn }}_number[]"
        template.write_text(f'#include "number.h"\nextern {own};\n{own} = NUMBER;\n' + template.read_text())
        header = root / HEADER
        header.parent.mkdir(parents=True, exist_ok=True)
        environ = dict(os.environ)
        os.environ.update(environment(folder, TUNEBUILD_CACHE="off"))
        then = time.time_ns() - 10**12
        try:
            for number in range(20 if quick else 1000):
                header.write_text(f'#define NUMBER "<{number % 1000:03}>"\n')
                os.utime(header, ns=(then, then))
                building.build(root, "normal", say=lambda line: None)
                (row,) = (root / "build/obj/dot_f32").glob("*__isa_avx2_u4.o")
                seen = b"<%03d>" % (number % 1000) in row.read_bytes()
                tally.add(f"edit {number}", "" if seen else "the old text was built")
        finally:
            os.environ.clear()
            os.environ.update(environ)
    return tally.result(12, "edits under an unchanged time")


ROWS: Mapping[int, Callable[[bool], Result]] = {
    3: killed_builds,
    5: damaged_entries,
    6: together,
    7: shared_cache,
    10: emptied_cache,
    12: instant_edits,
}

"""Row 1, whole commands: mint, build, cache gc and release are killed at each call that changes a file.

A trial starts from a kept copy of the same place and kills the command as it enters one call; every second
time all that the command had started is killed with it, as a machine that goes down does. What is there then
must be the old state or the new one, and the same command once more must end where an undisturbed one does.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from faultlab.common import Tally, environment, processes_in, traceback_in, workshop
from faultlab.tiny import BRIEF, Tiny
from tunebuild import cache, sidecar
from tunebuild.document import Document

_CALLS = (
    "openat", "write", "pwrite64", "fsync", "rename", "renameat2", "link", "unlink", "unlinkat", "rmdir",
    "ftruncate", "mkdir", "utimensat", "sendfile", "copy_file_range", "fchmod",
)  # fmt: skip
_OPENS_TO_WRITE = ("O_CREAT", "O_WRONLY", "O_RDWR", "O_TRUNC")
_ANYWHERE = ("rename", "renameat2", "link", "unlink", "unlinkat", "rmdir", "mkdir", "utimensat")
_QUIET = {"TUNEBUILD_NOISE_OVERRIDE": "1", "TUNEBUILD_VERBOSITY": "silent"}
_KEPT_LOGS = (".ninja_log", ".ninja_deps")


@dataclass(frozen=True, slots=True)
class Command:
    """``ready`` brings a project to where the command starts. ``most``: how many points a run tries, ``quick``: a
    quick one. ``measures``: what it stamps into artifacts is of its own measurement, and never the same twice."""

    name: str
    words: tuple[str, ...]
    ready: Callable[[Path], None]
    most: int
    quick: int
    measures: bool = False


def _tiny(place: Path) -> Tiny:
    return Tiny(place / "tiny", environment(place, **_QUIET))


def _new(place: Path) -> None:
    _tiny(place).write(BRIEF)


def _to_mint(place: Path) -> None:
    """A tune binary, an artifact, and a sidecar whose winner the mint replaces."""
    _new(place)
    _tiny(place).must("build", "--mode", "tune")
    _tiny(place).record("slow40")
    _tiny(place).must("build")


def _to_collect(place: Path) -> None:
    """A cache over its limit by one huge entry, half of the others older, and what killed writers left long ago."""
    _new(place)
    _tiny(place).must("build", "--mode", "tune")
    _tiny(place).must("build")
    huge = place / "cache/entries/zz/huge"
    huge.parent.mkdir(parents=True, exist_ok=True)
    with huge.open("wb") as stream:
        stream.truncate(2 * cache.DEFAULT_LIMIT)  # holes: it takes no room
    old = time.time() - 7200
    for number in range(4):
        leftover = huge.with_name(f".left{number}.1.tmp")
        leftover.write_bytes(b"half")
        os.utime(leftover, (old, old))
    others = [
        path for path in sorted((place / "cache").glob("*/??/*")) if path != huge and not _is_leftover(path)
    ]
    for number, entry in enumerate(others):
        when = old - number if number % 2 else time.time() + 60
        os.utime(entry, (when, when))


def _to_release(place: Path) -> None:
    """An older bundle of another winner than the sidecar now has."""
    _new(place)
    _tiny(place).record("slow40")
    _tiny(place).must("release", "--quick")
    _tiny(place).record("slow1")


COMMANDS = (
    Command("mint", ("mint",), _to_mint, 1000, 0, measures=True),
    Command("build", ("build",), _new, 70, 1),
    Command("cache gc", ("cache", "gc"), _to_collect, 70, 0),
    Command("release --quick", ("release", "--quick"), _to_release, 70, 1),
)


# --- what is there --------------------------------------------------------------------------------


def _tree(folder: Path, but: Iterable[str] = ()) -> dict[str, str]:
    """A digest for each file under a folder, leftovers of killed writers left out."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in but and not _is_leftover(path)
    }


def _is_leftover(path: Path) -> bool:
    return any(part.startswith(".") and part.endswith(".tmp") for part in path.parts)


def _winners(place: Path) -> dict[str, str] | str:
    found = sidecar.read(_tiny(place).sidecar)
    return dict(found.kernels) if isinstance(found, Document) else str(found)


@dataclass(frozen=True, slots=True)
class State:
    """What a command leaves that a person or the next command uses."""

    winners: dict[str, str] | str
    artifacts: Mapping[str, str]
    bundle: Mapping[str, str]
    cached: frozenset[str]
    generated: Mapping[str, str]
    status: str


def _state(place: Path) -> State:
    root = place / "tiny"
    said = _tiny(place).run("status", "--json").stdout
    made = _tree(root / "build", (*_KEPT_LOGS, "state.json", "status.json"))
    kept = {
        name: text
        for name, text in made.items()
        if name.endswith((".o", ".so", ".a", ".ninja")) and "hits" not in name
    }
    bundle = _tree(root / "dist")
    if mint_made := bundle.get("tiny/tiny.tune.json"):
        bundle["tiny/tiny.tune.json"] = "there" if mint_made else ""
    names = (path.name for path in (place / "cache").glob("*/??/*") if not _is_leftover(path))
    return State(_winners(place), kept, bundle, frozenset(names), _tree(root / "generated"), said)


def _torn(place: Path, old: State, new: State, measures: bool) -> str:
    """What is neither the old nor the new one, "" when all is either."""
    if (found := _winners(place)) not in (old.winners, new.winners):
        return f"the sidecar holds {found}"
    for path in (*(place / "tiny").glob("*.bak"), *(place / "history").glob("*.tune.json")):
        if path.stat().st_size and not isinstance(sidecar.read(path), Document):
            return f"{path.name} is torn"
    for path in (place / "cache/entries").rglob("*"):
        if path.is_file() and path.name != "huge" and not _is_leftover(path) and not _entry_whole(path):
            return f"the cache entry {path.name} is torn"
    bundle = _tree(place / "tiny/dist")
    if "tiny/tiny.tune.json" in bundle:
        bundle["tiny/tiny.tune.json"] = "there"
    if bundle not in (old.bundle, new.bundle):
        return f"the bundle is neither the old nor the new one: {sorted(bundle)}"
    for name, digest in _tree(place / "tiny/build").items():
        used = name.startswith("normal/") and name.endswith((".so", ".a"))
        if used and digest not in _either(name, old, new) and not (measures and _linked_whole(place, name)):
            return f"build/{name} is neither the old nor the new one"
    return ""


def _either(name: str, old: State, new: State) -> tuple[str | None, ...]:
    """What an artifact may be: while a release is made, what it ships stands in its place."""
    shipped = new.bundle.get(f"tiny/lib/{Path(name).name}")
    return (old.artifacts.get(name), new.artifacts.get(name), shipped)


def _but_stamps(digests: Mapping[str, str]) -> dict[str, str]:
    """Without the bytes of what holds a measurement's digest; whether it is there still counts."""
    return {
        name: "there" if "/status." in name or name.startswith("normal/lib") else digest
        for name, digest in digests.items()
    }


def _linked_whole(place: Path, name: str) -> bool:
    """Whether a linker or an archiver has finished this file: the tables of names at its end are readable."""
    path = place / "tiny/build" / name
    return subprocess.run(["nm", "-s", str(path)], capture_output=True, check=False).returncode == 0


def _entry_whole(path: Path) -> bool:
    first, _, rest = path.read_bytes().partition(b"\n")
    return first.split(b" ")[-1] == str(len(rest)).encode()


# --- killing --------------------------------------------------------------------------------------


def _strace(place: Path, command: Command, *words: str) -> int:
    """Run the command under strace, which follows no child; its log is beside the place."""
    log = ["-o", str(place.parent / "log")]
    trace = ["strace", "-qq", "-y", "-e", "signal=none", "-e", f"trace={','.join(_CALLS)}", *log, *words]
    return _tiny(place).run(*command.words, before=tuple(trace)).returncode


def _points(place: Path, command: Command) -> list[tuple[str, int]]:
    """(call, how many of its kind came so far) for each call of an undisturbed run that changes a file of ours."""
    if code := _strace(place, command):
        raise RuntimeError(f"{command.name} fails without any fault: exit code {code}")
    seen: dict[str, int] = {}
    found = []
    for line in (place.parent / "log").read_text(errors="replace").splitlines():
        call = line.partition("(")[0]
        seen[call] = seen.get(call, 0) + 1
        ours = str(place) in line and (call != "openat" or any(flag in line for flag in _OPENS_TO_WRITE))
        if call in _ANYWHERE or ours:
            found.append((call, seen[call]))
    return found


def _even(points: list[tuple[str, int]], most: int) -> list[tuple[str, int]]:
    """At most so many of them, evenly from first to last."""
    step = max(1.0, len(points) / most)
    return [points[int(index * step)] for index in range(min(most, len(points)))]


def _restore(place: Path, kept: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    subprocess.run(["cp", "-a", "--sparse=always", str(kept), str(place)], check=True)


def _kill_left(place: Path) -> None:
    """Kill what the command had started."""
    for _ in range(20):
        left = processes_in(place)
        if not left:
            return
        for pid, _words in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def _age_leftovers(place: Path) -> None:
    """As if the next run came two hours later."""
    then = time.time() - 7200
    for path in place.rglob("*"):
        if path.name.startswith(".") and path.name.endswith(".tmp"):
            os.utime(path, (then, then), follow_symlinks=False)


def _left_behind(place: Path) -> str:
    """Leftovers that the next run should have swept; the cache sweeps its own when it collects."""
    found = [path for path in (place / "tiny").rglob("*") if _is_leftover(path)]
    found += [path for path in (place / "history").rglob("*") if _is_leftover(path)]
    found += (place / "tiny/build/hits").glob("*")
    return f"left behind: {found[0].relative_to(place)}" if found else ""


def killed(quick: bool, tally: Tally) -> str:
    """Try every command; how many points there are and how many were tried, in words."""
    told = []
    for command in (one for one in COMMANDS if one.quick or not quick):
        with workshop() as folder:
            told.append(_killed(folder, command, quick, tally))
    return "; ".join(told)


def _killed(folder: Path, command: Command, quick: bool, tally: Tally) -> str:
    place, kept = folder / "place", folder / "kept"
    (place / "home").mkdir(parents=True)
    command.ready(place)
    old = _state(place)
    place.rename(kept)
    _restore(place, kept)
    points = _points(place, command)
    new = _state(place)
    chosen = _even(points, command.quick if quick else command.most)
    tried = 0
    for number, (call, count) in enumerate(chosen):
        _restore(place, kept)
        code = _strace(place, command, "-e", f"inject={call}:signal=SIGKILL:when={count}")
        with_all = bool(number % 2)
        if with_all:
            _kill_left(place)
        if code == -signal.SIGKILL:  # fewer calls of this kind than in the run that was counted: no trial
            tried += 1
            why = _after(place, command, old, new)
            words = f"{command.name}, {call} {count}{', with all that it had started' if with_all else ''}"
            tally.add(words, why)
        _kill_left(place)
    return f"{command.name} {tried} of {len(points)}"


def _after(place: Path, command: Command, old: State, new: State) -> str:
    """Judge what is there, run the command again, and compare."""
    if why := _torn(place, old, new, command.measures):
        return why
    _age_leftovers(place)
    again = _tiny(place).run(*command.words)
    if again.returncode or traceback_in(again):
        return f"the next run ends with {again.returncode}: {again.stderr[-300:]}"
    if why := _left_behind(place):
        return why
    return _difference(_state(place), new, command.measures)


def _difference(one: State, other: State, measures: bool) -> str:
    """Which part of two states differs, with an example; "" when they are the same."""
    parts = ("winners", "status", "bundle", "artifacts", "generated", "cached")
    for name in parts:
        left, right = getattr(one, name), getattr(other, name)
        if measures and name in ("artifacts", "generated"):
            left, right = _but_stamps(left), _but_stamps(right)
        if measures and name == "cached":  # each mint's artifact is one of its own
            left = right = ""
        if left == right:
            continue
        if isinstance(left, Mapping) and isinstance(right, Mapping):
            keys = sorted(key for key in {*left, *right} if left.get(key) != right.get(key))
            return f"{name} differs: {', '.join(keys[:3])}"
        return f"{name} differs: {json.dumps(str(left))[:150]} and {json.dumps(str(right))[:150]}"
    return ""

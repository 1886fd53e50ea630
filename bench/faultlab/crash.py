"""Rows 1 and 30: killed at every system call of a write or of a command, and power lost before what was not synced."""

from __future__ import annotations

import itertools
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from faultlab import commands
from faultlab.common import BOX, Result, Tally, environment, missing, workshop
from tunebuild import sidecar
from tunebuild.document import Document, Unreadable, parse, render
from tunebuild.upsert import Change

_CALLS = (
    "openat", "write", "pwrite64", "fsync", "fdatasync", "rename", "renameat", "renameat2", "link", "linkat",
    "unlink", "unlinkat", "ftruncate", "flock", "fchmod", "mkdir", "close",
)  # fmt: skip
_OLD = Document(kernels={"old": "a"}, runtime={"threads": 2}, provenance={"box": BOX.identity, "noise": "ok"})
_FOREIGN = Document(kernels={"old": "a"}, provenance={"box": "linux|x86_64||6.8.0|B"})

START = (
    "import sys, pathlib\nfrom tunebuild import exchange, history, sidecar\nfrom tunebuild.model import Box\n"
    "from tunebuild.upsert import Change\nfrom tunebuild.verdict import Demand\n"
    f"box = Box({BOX.identity!r}, 'x86_64', frozenset({{'avx2'}}))\npath = pathlib.Path(sys.argv[1])\n"
)
_SAVE = "sidecar.save(path, Change(kernels={'new': 'b'}, notes={'noise': 'ok'}), box=box)"


@dataclass(frozen=True, slots=True)
class Write:
    """One durable write to kill. ``before`` prepares the folder; ``whole`` names what is wrong afterwards."""

    name: str
    code: str
    before: Callable[[Path], None]
    whole: Callable[[Path], str]


def _put(path: Path, document: Document) -> None:
    path.write_bytes(render(document))


def _nothing(path: Path) -> None:
    pass


def _broken(path: Path) -> None:
    path.write_text("{broken")


def _link(path: Path) -> None:
    (path.parent / "store").mkdir()
    _put(path.parent / "store" / "real.json", _OLD)
    path.symlink_to(path.parent / "store" / "real.json")


def _sidecar_whole(*allowed: frozenset[str] | None) -> Callable[[Path], str]:
    """The file holds exactly one of these sets of keys; None: it may be absent, or as broken as before."""

    def judge(path: Path) -> str:
        found = sidecar.read(path)
        keys = frozenset(found.kernels) if isinstance(found, Document) else None
        if isinstance(found, Unreadable) and path.read_bytes() != b"{broken":
            return f"unreadable: {found.why}"
        if keys not in allowed:
            return f"holds {sorted(keys or ())}"
        again = sidecar.save(path, Change(kernels={"next": "c"}), box=BOX)
        return "" if "next" in again.document.kernels else "the next write does not help itself"

    return judge


def _copies_whole(pattern: str) -> Callable[[Path], str]:
    def judge(path: Path) -> str:
        for copy in path.parent.rglob(pattern):
            if copy.stat().st_size and isinstance(parse(copy.read_bytes()), Unreadable):
                return f"{copy.name} is torn"
        return "" if sidecar.read(path) == sidecar.read(path) and path.exists() else "the original is gone"

    return judge


_BOTH, _NEW, _WAS = frozenset({"old", "new"}), frozenset({"new"}), frozenset({"old"})
_PUSH = "exchange.push(str(path.parent / 'x'), 'p', sidecar.read(path), box, Demand(('old',)))"

WRITES = (
    Write("save over nothing", _SAVE, _nothing, _sidecar_whole(None, _NEW)),
    Write("save over a file", _SAVE, lambda path: _put(path, _OLD), _sidecar_whole(_WAS, _BOTH)),
    Write("save over a broken file", _SAVE, _broken, _sidecar_whole(None, _NEW)),
    Write("save over a foreign file", _SAVE, lambda path: _put(path, _FOREIGN), _sidecar_whole(_WAS, _NEW)),
    Write("save through a link", _SAVE, _link, _sidecar_whole(_WAS, _BOTH)),
    Write(
        "save twice", f"{_SAVE}\n{_SAVE.replace('new', 'newer')}", lambda path: _put(path, _OLD),
        _sidecar_whole(_WAS, _BOTH, frozenset({"old", "new", "newer"})),
    ),
    Write("backup", "history.backup(path)", lambda path: _put(path, _OLD), _copies_whole("*.bak")),
    Write(
        "archive", "history.archive(path, box.identity)", lambda path: _put(path, _OLD),
        _copies_whole("history/*.tune.json"),
    ),
    Write(
        "archive a failure", "history.archive_failed(path, box.identity, verdict='noisy', note='x')",
        lambda path: _put(path, _OLD), _copies_whole("history/*.tune.json"),
    ),
    Write("push to a folder", _PUSH, lambda path: _put(path, _OLD), _copies_whole("x/p/mints/*.json")),
)  # fmt: skip


def killed_anywhere(quick: bool) -> Result:
    """Row 1. Every call on our files, of every kind of durable write, is the last one of its process once."""
    fault = "kill -9 at every call of a durable write"
    if lacks := missing("strace"):
        return Result(1, fault, 0, 0, skipped=lacks)
    tally = Tally()
    told = commands.killed(quick, tally)
    for write in WRITES[1:2] if quick else WRITES:
        with workshop() as folder:
            for call, count in points(folder, write):
                path = fresh(folder, write)
                code = _run(folder, path, write, "-e", f"inject={call}:signal=SIGKILL:when={count}")
                why = write.whole(path) if code == -signal.SIGKILL else f"not killed, exit code {code}"
                tally.add(f"{write.name}, {call} {count}", why)
    return tally.result(1, f"{fault}, and of whole commands ({told})")


def fresh(folder: Path, write: Write) -> Path:
    place = folder / "place"
    shutil.rmtree(place, ignore_errors=True)
    shutil.rmtree(folder / "history", ignore_errors=True)
    place.mkdir()
    write.before(place / "a.tune.json")
    return place / "a.tune.json"


def _run(folder: Path, path: Path, write: Write, *words: str) -> int:
    env = environment(folder, TUNEBUILD_HISTORY=str(path.parent / "history"))
    # Not --seccomp-bpf, which is faster and drops injected signals.
    strace = ["strace", "-qq", "-y", "-e", "signal=none", "-e", f"trace={','.join(_CALLS)}"]
    log = ["-o", str(folder / "log"), *words]
    done = subprocess.run(
        [*strace, *log, sys.executable, "-c", START + write.code, str(path)],
        env=env, capture_output=True, timeout=120, check=False,
    )  # fmt: skip
    return done.returncode


def _lines(folder: Path) -> list[str]:
    return (folder / "log").read_text(errors="replace").splitlines()


def points(folder: Path, write: Write) -> list[tuple[str, int]]:
    """(call, how many of its kind came so far) for each call on our files in a run without a fault."""
    path = fresh(folder, write)
    code = _run(folder, path, write)
    if code != 0:
        raise RuntimeError(f"{write.name} fails without any fault")
    seen: dict[str, int] = {}
    points = []
    for line in _lines(folder):
        call = line.partition("(")[0]
        seen[call] = seen.get(call, 0) + 1
        if str(path.parent) in line:
            points.append((call, seen[call]))
    return points


# --- power loss -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Op:
    """One recorded operation: create, write (data), sync, rename (to), syncdir."""

    kind: str
    name: str
    data: bytes = b""
    to: str = ""


def power_lost(quick: bool) -> Result:
    """Row 30. Of what was not synced before the power went, any part may be on the disk, and any not."""
    fault = "power loss: any un-synced data or rename lost or torn"
    if lacks := missing("strace"):
        return Result(30, fault, 0, 0, skipped=lacks)
    tally = Tally()
    new = frozenset({"old", "new"})
    with workshop() as folder:
        write = WRITES[1]
        path = fresh(folder, write)
        _run(folder, path, write, "-s", "1000000", "-xx")
        old = render(_OLD)
        ops = _operations(_lines(folder), path.parent)
        if not any(op.kind == "rename" for op in ops):
            return Result(30, fault, 1, 0, ("no rename was recorded",))
        for end in range(len(ops) + 1):
            for number, disk in enumerate(_disks(ops[:end], {path.name: old}, 6 if quick else 40)):
                found = parse(disk.get(path.name, b""))
                whole = isinstance(found, Document) and frozenset(found.kernels) in (frozenset({"old"}), new)
                done = end == len(ops) and isinstance(found, Document) and frozenset(found.kernels) != new
                why = "torn" if not whole else "reported as written, and lost" if done else ""
                tally.add(f"after operation {end}, disk {number}", why)
    return tally.result(30, fault)


def _operations(log: list[str], folder: Path) -> list[Op]:
    """The operations on files of ``folder`` from strace's log with -xx (every string in hexadecimal)."""
    ops = []
    for line in log:
        line = re.sub(r"<((?:\\x[0-9a-f]{2})+)>", lambda m: f"<{_text(m[1])}>", line)
        call = line.partition("(")[0]
        strings = [_bytes(text) for text in re.findall(r'"((?:\\x[0-9a-f]{2})*)"', line)]
        place = re.search(rf"\(\d+<({re.escape(str(folder))}[^>]*)>", line)
        if call == "openat" and strings and "O_CREAT" in line and strings[0].startswith(bytes(folder)):
            ops.append(Op("create", Path(strings[0].decode()).name))
        elif call == "rename" and len(strings) == 2:
            ops.append(Op("rename", Path(strings[0].decode()).name, to=Path(strings[1].decode()).name))
        elif place and call == "write":
            ops.append(Op("write", Path(place[1]).name, strings[0]))
        elif place and call in ("fsync", "fdatasync"):
            ops.append(Op("syncdir" if Path(place[1]) == folder else "sync", Path(place[1]).name))
    return ops


def _text(hexadecimal: str) -> str:
    return _bytes(hexadecimal).decode(errors="replace")


def _bytes(hexadecimal: str) -> bytes:
    return bytes.fromhex(hexadecimal.replace("\\x", ""))


def _disks(ops: list[Op], start: Mapping[str, bytes], cuts: int) -> list[dict[str, bytes]]:
    """Every disk that a loss after ``ops`` may leave: names and contents are synced apart from each other."""
    memory: dict[str, bytes] = dict(start)
    inode_of = {name: name for name in start}  # a rename moves a file's content under another name
    synced: dict[str, bytes] = dict(start)
    names_then: list[dict[str, str]] = [dict(inode_of)]
    for number, op in enumerate(ops):
        match op.kind:
            case "create" if op.name not in inode_of:
                inode_of = {**inode_of, op.name: f"{op.name}#{number}"}
                memory[inode_of[op.name]] = synced[inode_of[op.name]] = b""
            case "write":
                memory[inode_of[op.name]] += op.data
            case "sync":
                synced[inode_of[op.name]] = memory[inode_of[op.name]]
            case "rename":
                inode_of = {**{n: i for n, i in inode_of.items() if n != op.name}, op.to: inode_of[op.name]}
        names_then.append(dict(inode_of))
        if op.kind == "syncdir":
            names_then = [dict(inode_of)]
    disks = []
    for names in names_then:  # any un-synced change of names may be lost, in order
        torn = [
            [(inode, part) for part in _parts(synced[inode], memory[inode], cuts)]
            for inode in set(names.values())
        ]
        for contents in itertools.islice(itertools.product(*torn), 200):
            by_inode = dict(contents)
            disks.append({name: by_inode[inode] for name, inode in names.items()})
    return disks


def _parts(synced: bytes, written: bytes, cuts: int) -> list[bytes]:
    """What a file may hold: what was synced, or any prefix of what was written after that."""
    if synced == written:
        return [written]
    step = max(1, (len(written) - len(synced)) // cuts)
    return [written[:length] for length in range(len(synced), len(written), step)] + [written]

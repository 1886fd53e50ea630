"""The no-op build: if nothing that decides an answer has changed, ninja is started at once.

A memo holds the stat of every file that a build of one mode came from or made, and the environment's say. It is
read without an import: a no-op build is this check, and ninja itself, which takes the process over. `status`
has a memo of its own, of what it depends on alone.
"""

from __future__ import annotations

import os
import sys

MEMO = "build/memo"  # and a mode: build/memo.normal
STATUS = "build/status.json"  # what `status` answers while its memo holds
OURS = ("build/build.ninja", "build/local.ninja", "build/generate.d")
CLOCK_STEP_NS = 20_000_000  # a file's change time may lag the clock by a tick
VERSION = "tunebuild memo 4"
CPUINFO = "/proc/cpuinfo"
ENVIRONMENT = (  # beside what a compiler reads, which is `keys.ENVIRONMENT`
    "CC", "PATH", "TUNEBUILD_MANIFEST", "TUNEBUILD_POLICY", "TUNEBUILD_FORCE_FEATURES", "TUNEBUILD_CACHE",
    "TUNEBUILD_MODE",
)  # fmt: skip
_HEAD = 8  # fields before the files: version, root, kernel, variables, values, CPU, number of files, ninja
_UNSTEADY = (b"processor", b"cpu MHz", b"bogomips", b"BogoMIPS", b"core id", b"apicid", b"initial apicid")
_ABSENT = b"-"


def signature(path: bytes, folder: int | None = None) -> bytes:
    """Size, times and inode of a file or folder. Content edited under an old time still shows in the change
    time. ``folder``: an open folder that ``path`` may be relative to."""
    try:
        found = os.stat(path, dir_fd=folder)
    except OSError:
        return _ABSENT
    return b"%d %d %d %d" % (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)


def _said(root: str, names: bytes) -> list[bytes]:
    """What an answer depends on beside files. The root is among it: a copied tree's memo speaks of the other
    tree's files. ``names``: the variables that count, which a memo keeps so that reading it imports no list."""
    environ = os.environb
    values = b"\n".join(b"%s=%s" % (name, environ[name]) for name in names.split() if name in environ)
    return [
        *(os.fsencode(word) for word in (VERSION, os.path.realpath(root), os.uname().release)),
        names,
        values,
        _cpu(),
    ]


def _cpu() -> bytes:
    """What the kernel says of the first CPU, without what differs from one moment or core to the next: a disk may
    move to another machine under the same kernel."""
    try:
        with open(CPUINFO, "rb", buffering=0) as stream:
            first = stream.read(4096).partition(b"\n\n")[0]
    except OSError:
        return b""
    return b"\n".join([line for line in first.split(b"\n") if not line.startswith(_UNSTEADY)])


def taken(root: str, ninja: str, paths: list[str]) -> bytes:
    """These files as they are now. A path below ``root`` may be relative to it."""
    from tunebuild import keys

    counting = " ".join(dict.fromkeys((*ENVIRONMENT, *keys.ENVIRONMENT)))
    names = [os.fsencode(path) for path in paths]
    fields = [*_said(root, counting.encode()), b"%d" % len(names), os.fsencode(ninja)]
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for name in names:
            fields += (name, signature(name, folder))
    finally:
        os.close(folder)
    return b"\0".join(fields)


def keep(root: str, mode: str, data: bytes) -> None:
    """Remember what was taken. Where that cannot be written, the next build takes the long way, and no harm is done."""
    path = _path(root, mode)
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name}.{os.getpid()}.tmp")  # a name that is swept, as emit's are
    try:
        with open(temporary, "wb") as stream:
            stream.write(data)
        os.replace(temporary, path)
    except OSError:
        for left in (temporary, path):
            try:
                os.unlink(left)
            except OSError:
                continue


def forget(root: str, mode: str) -> None:
    try:
        os.unlink(_path(root, mode))
    except FileNotFoundError:
        return


def _path(root: str, mode: str) -> str:
    return os.path.join(root, f"{MEMO}.{mode}")


def holds(root: str, mode: str) -> str:
    """The ninja that the memo of ``mode`` names, if everything that it holds is as it was; else ""."""
    try:
        with open(_path(root, mode), "rb", buffering=0) as stream:
            fields = stream.read().split(b"\0")
        folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return ""
    try:
        names, signatures = fields[_HEAD::2], fields[_HEAD + 1 :: 2]
        whole = len(fields) >= _HEAD and fields[6] == b"%d" % len(names) and len(names) == len(signatures)
        if not whole or fields[:6] != _said(root, fields[3]):
            return ""
        for name, was in zip(names, signatures, strict=True):
            if signature(name, folder) != was:
                return ""
    finally:
        os.close(folder)
    return os.fsdecode(fields[7])


def status(root: str, app: str) -> dict[str, object] | None:
    """The answer that the last build prepared for `status`, or None when something has changed since."""
    if not holds(root, "status"):
        return None
    import json

    try:
        with open(os.path.join(root, STATUS), "rb") as stream:
            found = json.loads(stream.read()).get(app)
    except (OSError, ValueError, AttributeError):
        return None
    return found if isinstance(found, dict) else None


def find_root(start: str) -> str:
    """The folder of the nearest tune.toml at or above ``start``; ``start`` itself when there is none."""
    folder = os.path.abspath(start)
    while True:
        if os.path.exists(os.path.join(folder, "tune.toml")):
            return folder
        above = os.path.dirname(folder)
        if above == folder:
            return os.path.abspath(start)
        folder = above


def try_build(arguments: list[str]) -> None:
    """Become ninja if ``arguments`` ask for a plain build and nothing has changed; else return."""
    root, mode, rest = ".", os.environ.get("TUNEBUILD_MODE") or "normal", list(arguments)
    if rest[:1] == ["-C"] and len(rest) > 1:
        root, rest = rest[1], rest[2:]
    if rest[:1] != ["build"]:
        return
    rest = rest[1:]
    if rest[:1] == ["--mode"] and len(rest) == 2:
        mode, rest = rest[1], []
    if rest or mode not in ("normal", "tune", "test"):
        return
    root = find_root(root)
    mode = "normal" if mode == "normal" else "tune"
    ninja = holds(root, mode)
    if not ninja:
        return
    os.chdir(root)
    os.environ["TB_FRESH"] = "1"
    sys.stdout.flush()
    os.execv(ninja, [ninja, "-f", "build/build.ninja", "-d", "keepdepfile", mode])

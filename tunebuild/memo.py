"""The no-op build: if nothing that decides the graph has changed, ninja is started at once.

A memo holds the stat of every input and the environment's say. It imports next to nothing: a no-op build is
this check, and ninja itself, which takes the process over.
"""

from __future__ import annotations

import json
import os
import sys

MEMO = "build/memo.json"
STATUS = "build/status.json"  # what `status` answers while the memo holds
OURS = ("build/build.ninja", "build/local.ninja", "build/generate.d", STATUS)
CLOCK_STEP_NS = 20_000_000  # a file's change time may lag the clock by a tick
VERSION = 1
ENVIRONMENT = (
    "CC", "PATH", "TUNEBUILD_MANIFEST", "TUNEBUILD_POLICY", "TUNEBUILD_FORCE_FEATURES", "TUNEBUILD_CACHE",
    "TUNEBUILD_MODE", "CPATH", "C_INCLUDE_PATH", "LIBRARY_PATH",
)  # fmt: skip

Signature = list[int] | None


def signature(path: str) -> Signature:
    """Size, times and inode of a file or folder; None when it is absent. Content edited under an old time
    still shows in the change time."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]


def environment() -> dict[str, str]:
    return {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}


def load(root: str, frozen: bool) -> dict[str, object] | None:
    """The memo of ``root`` if everything it names is as it was, else None."""
    try:
        with open(os.path.join(root, MEMO), "rb") as stream:
            memo = json.loads(stream.read())
    except (OSError, ValueError):
        return None
    if not isinstance(memo, dict) or memo.get("version") != VERSION or memo.get("frozen") != frozen:
        return None
    if memo.get("environment") != environment() or memo.get("kernel") != os.uname().release:
        return None
    if memo.get("root") != os.path.realpath(root):  # a copied tree: the memo speaks of the other one's files
        return None
    watched = memo.get("watched")
    if not isinstance(watched, dict):
        return None
    stat = signature
    for path, was in watched.items():
        if stat(path if os.path.isabs(path) else os.path.join(root, path)) != was:
            return None
    return memo


def status(root: str, app: str) -> dict[str, object] | None:
    """The answer that the last build prepared for `status`, or None when something has changed since."""
    if load(root, frozen=False) is None:
        return None
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
    root, mode, rest = ".", "normal", list(arguments)
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
    memo = load(root, frozen=False)
    if memo is None or mode not in memo.get("modes", ()):  # type: ignore[operator]
        return
    ninja = str(memo.get("ninja"))
    os.chdir(root)
    os.environ["TB_FRESH"] = "1"
    sys.stdout.flush()
    target = "normal" if mode == "normal" else "tune"
    os.execv(ninja, [ninja, "-f", "build/build.ninja", "-d", "keepdepfile", target])

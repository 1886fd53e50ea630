"""The only writer of files: if changed, whole or not at all.

`write_if_changed` and `write_tree` are for what can be generated again; `write_durable` is the write
path of every file that must survive a crash (sidecar, cache entry, build stamps, logs): a temporary file in
the same folder, fsync, rename, fsync of the folder. `locked` is the advisory lock around a read-modify-write;
its file stands beside the one it protects and is never unlinked, so a dead holder frees it at once.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from tunebuild.errors import WorkFailed

STALE_TEMPORARY_S = 3600.0
PATIENCE_S = 1.0


def write_if_changed(path: Path, text: str) -> bool:
    """Write UTF-8 ``text`` unless the file holds just that; say whether it was written."""
    data, target = text.encode(), os.fspath(path)
    held = _begin(target, len(data))
    if held == data:
        return False
    if held is None:
        path.parent.mkdir(parents=True, exist_ok=True)
    _replace(target, data)
    return True


def write_tree(root: Path, files: Mapping[str, str]) -> list[str]:
    """Write the files of a tree that differ, by path relative to ``root``; return the paths written.

    A file that was not there is written in place: torn by a kill, it differs, and the next writing mends it.
    One that was there is replaced whole. In a folder made just now nothing is looked for.
    """
    changed: list[str] = []
    new_folders: dict[str, bool] = {}
    for path, text in files.items():
        data, target = text.encode(), f"{root}{os.sep}{path}"
        folder = target[: target.rindex("/")]
        if folder not in new_folders:
            new_folders[folder] = _made(folder)
        held = None if new_folders[folder] else _begin(target, len(data))
        if held == data:
            continue
        if held is None:
            _create(target, data)
        else:
            _replace(target, data)
        changed.append(path)
    return changed


def _made(folder: str) -> bool:
    """Make a folder; False when it was there."""
    if os.path.isdir(folder):
        return False
    os.makedirs(folder, exist_ok=True)
    return True


def _begin(path: str, size: int) -> bytes | None:
    """A file's first ``size`` bytes and one more, which tells a longer file apart; None when it is absent."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        return os.read(handle, size + 1)
    finally:
        os.close(handle)


def _create(path: str, data: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    left = data
    try:
        while left:
            left = left[os.write(handle, left) :]
    except OSError as error:  # a full disk: a write itself names no file
        raise OSError(error.errno, f"{error.strerror} ({len(data)} bytes)", path) from error
    finally:
        os.close(handle)


def _replace(path: str, data: bytes) -> None:
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name}.{os.getpid()}.tmp")
    try:
        _create(temporary, data)
        os.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise OSError(error.errno, error.strerror, path) from error


def write_durable(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Replace ``path`` (or what a symlink there points to) whole, or raise `WorkFailed` and leave it be."""
    target = Path(os.path.realpath(path))
    temporary = ""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fchmod(stream.fileno(), mode)
            os.fsync(stream.fileno())
        os.replace(temporary, target)
        _sync(target.parent)
    except OSError as error:
        if temporary:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        raise WorkFailed(
            f"cannot write {path}: {error.strerror or error} ({len(data)} bytes; the old file is untouched)",
            fix="free space or make the folder writable, then run the same command again",
        ) from error


def require_writable(path: Path) -> None:
    """Raise `WorkFailed` where `write_durable` could not write ``path`` now, so that work is not done in vain."""
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        what = "a folder" if target.is_dir() else "no regular file"
        raise WorkFailed(
            f"cannot write {path}: it is {what}", fix="move it away, then run the same command again"
        )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
        os.close(handle)
        os.unlink(temporary)
    except OSError as error:
        raise WorkFailed(
            f"cannot write {path}: {error.strerror or error}", fix=f"make {target.parent} writable"
        ) from error


def _sync(path: Path) -> None:
    """Bring a file or the names in a folder to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sweep_temporaries(folder: Path, names: str, older_than_s: float = STALE_TEMPORARY_S) -> None:
    """Remove what killed writers left in ``folder``: `.NAME.….tmp` of files and folders whose names the
    expression ``names`` matches."""
    leftover = re.compile(rf"\.(?:{names})\.[^.]+\.tmp")
    with contextlib.suppress(OSError):
        for found in os.listdir(folder):
            if leftover.fullmatch(found):
                _remove_old(folder / found, older_than_s)


def _remove_old(leftover: Path, older_than_s: float) -> None:
    with contextlib.suppress(OSError):
        if time.time() - leftover.lstat().st_mtime <= older_than_s:
            return
        if leftover.is_dir() and not leftover.is_symlink():
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            leftover.unlink()


def replace_folder(new: Path, target: Path) -> None:
    """Put the folder ``new`` in the place of ``target``, synced; what was there is at ``new`` afterwards.

    Where the system can exchange two names (Linux) there is no moment without the one or the other.
    """
    for folder, _, names in os.walk(new):
        for name in names:
            _sync(Path(folder, name))
        _sync(Path(folder))
    if not target.exists():
        new.rename(target)
    elif not _exchange(new, target):
        aside = new.with_name(f"{new.name}.old")
        target.rename(aside)
        new.rename(target)
        aside.rename(new)
    _sync(target.parent)


def _exchange(one: Path, other: Path) -> bool:
    """Let two names change places in one step; False where the system or the file system cannot."""
    import ctypes

    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return (
        renameat2 is not None and renameat2(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0
    )


def _take(handle: int, wait_message: str) -> None:
    """Take the lock. Most holders only write one file, so a wait is worth a word after `PATIENCE_S` only."""
    import fcntl
    import sys

    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            time.sleep(0.005)
    holder = os.pread(handle, 64, 0).decode(errors="replace").strip() or "another process"
    if wait_message:
        print(f"tunebuild: {wait_message} (held by process {holder})", file=sys.stderr, flush=True)
    fcntl.flock(handle, fcntl.LOCK_EX)


@contextlib.contextmanager
def locked(path: Path, *, wait_message: str = "") -> Iterator[int]:
    """Hold the advisory lock of ``path`` (a `.lock` file beside it). Says who holds it when it must wait.

    Gives the lock's descriptor: a process that inherits it goes on holding the lock should this one be killed.
    """
    target = Path(os.path.realpath(path))
    lock = target.with_name(f".{target.name}.lock")
    handle = -1
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        _take(handle, wait_message)
    except OSError as error:
        _close(handle)
        raise WorkFailed(
            f"cannot lock {path}: {error.strerror or error}", fix=f"make {lock.parent} writable"
        ) from error
    except BaseException:  # interrupted while it waited
        _close(handle)
        raise
    try:
        with contextlib.suppress(OSError):
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        yield handle
    finally:
        _close(handle)


def _close(handle: int) -> None:
    with contextlib.suppress(OSError):
        os.close(handle)

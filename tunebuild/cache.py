"""The content-addressed store of objects and linked artifacts, shared by every checkout of a user.

An entry is one file: a line with the digest and size of the rest, a line of JSON that names what follows,
and the bytes. It is published by one rename and verified whole on every read, so a torn, flipped, swapped
or linked file is a miss, never an object; that is also why no fsync is spent on it. Removing an entry is
one unlink: a reader that has it open goes on reading. Bytes are copied out, never hard-linked: a compiler
that truncates its output in place would write through the link.

Project headers are in the key. Everything else a compile read (its depfile says what) is a `set`: a file
of paths and digests, shared by all entries that read the same; an entry hits only while its set holds.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tunebuild import keys

FORMAT = "tunebuild-cache 1"
DEFAULT_LIMIT = 5_000_000_000  # bytes
LOW_WATER = 0.8  # a collection goes down to this part of the limit
TOUCH_AFTER_S = 3600.0  # a hit renews an entry's time at most this often
COLLECT_AFTER_S = 3600.0
RACY_NS = 1_000_000_000  # a file changed this recently may change again under the same time
KEPT_DAMAGED = 32

Signature = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Store:
    """Where the cache is; ``root`` None when it is switched off."""

    root: Path | None
    limit: int = DEFAULT_LIMIT


@dataclass(frozen=True, slots=True)
class File:
    name: str
    data: bytes
    mode: int = 0o644


@dataclass(frozen=True, slots=True)
class Entry:
    """A verified entry: the bytes that were checked are the bytes that are delivered."""

    key: str
    files: tuple[File, ...]
    note: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Info:
    location: str  # "" when switched off
    entries: int
    bytes: int
    limit: int
    damaged: int  # damaged entries met so far


@dataclass(frozen=True, slots=True)
class Collected:
    entries: int
    bytes: int
    kept: int
    kept_bytes: int


class _Damaged(Exception):
    pass


def store(environ: Mapping[str, str] = os.environ, limit: int = DEFAULT_LIMIT) -> Store:
    """The user's cache: $TUNEBUILD_CACHE ("off" switches it off), else the platform's cache folder."""
    asked = environ.get("TUNEBUILD_CACHE", "")
    if asked == "off":
        return Store(None, limit)
    if asked:
        return Store(Path(asked).expanduser().absolute(), limit)
    from platformdirs import user_cache_path

    try:
        return Store(user_cache_path("tunebuild", appauthor=False), limit)
    except (RuntimeError, KeyError):  # no home folder is known
        return Store(None, limit)


# --- reading -------------------------------------------------------------------------------------


def lookup(where: Store, key: str, root: Path) -> Entry | None:
    """The entry of ``key``, whole and still true for the checkout at ``root``; None is a miss.

    A damaged entry is moved aside, counted, and a miss.
    """
    if where.root is None:
        return None
    path = _entry_path(where.root, key)
    try:
        data = _read_regular(path)
        entry, named = _open_entry(data, key)
    except FileNotFoundError:
        return None
    except (_Damaged, OSError) as why:
        _quarantine(where.root, path, why)
        return None
    if named and not _set_holds(where.root, named, root):
        return None
    _touch(path)
    return entry


def fetch(entry: Entry, into: Path, names: Mapping[str, Path] | None = None) -> None:
    """Write an entry's files: under ``into``, or where ``names`` says for a name.

    :raises OSError: when the target cannot be written; that is the build folder's trouble, not the cache's.
    """
    for file in entry.files:
        target = (names or {}).get(file.name) or into / file.name
        temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
        handle = _create(os.fspath(temporary), file.mode)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(file.data)
        except OSError as error:  # a write itself names no file
            raise OSError(error.errno, error.strerror, os.fspath(target)) from error
        temporary.replace(target)


def _create(path: str, mode: int) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        return os.open(path, flags, mode)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return os.open(path, flags, mode)


def _read_regular(path: Path) -> bytes:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _Damaged("a symbolic link") from error
        raise
    with os.fdopen(handle, "rb") as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise _Damaged("not a plain file")
        return stream.read()


def _open_entry(data: bytes, key: str) -> tuple[Entry, str]:
    """The entry that ``data`` holds, and the name of its set."""
    first, _, rest = data.partition(b"\n")
    try:
        magic, said, size = first.decode("ascii").rsplit(" ", 2)
    except (UnicodeDecodeError, ValueError):
        raise _Damaged("no header") from None
    if magic != FORMAT:
        raise _Damaged("another format")
    if size != str(len(rest)):
        raise _Damaged(f"{len(rest)} bytes where {size} were written")
    if keys.digest(rest) != said:
        raise _Damaged("the digest differs")
    line, _, blobs = rest.partition(b"\n")
    try:
        header = json.loads(line)
        if header["key"] != key:
            raise _Damaged("another entry's file")
        return Entry(key, _files(header["files"], blobs), header["note"]), str(header["set"])
    except (ValueError, KeyError, TypeError) as error:
        raise _Damaged(f"not an entry: {error}") from error


def _files(table: list[tuple[str, int, int]], blobs: bytes) -> tuple[File, ...]:
    files, at = [], 0
    for name, size, mode in table:
        if os.path.basename(name) != name or name in ("", ".", ".."):
            raise _Damaged(f"a file named {name!r}")
        files.append(File(name, blobs[at : at + size], mode & 0o777))
        at += size
    if at != len(blobs):
        raise _Damaged("its files do not add up")
    return tuple(files)


def _touch(path: Path) -> None:
    with contextlib.suppress(OSError):
        if time.time() - path.stat().st_mtime > TOUCH_AFTER_S:
            os.utime(path)


# --- writing -------------------------------------------------------------------------------------


def publish(
    where: Store,
    key: str,
    files: Iterable[File],
    *,
    root: Path,
    read: Iterable[str] = (),
    sources: Mapping[Path, str] | None = None,
    note: Mapping[str, object] | None = None,
) -> str:
    """Store an entry; return "" or why it was not stored. A build goes on without, and says so once.

    ``read``: what the compile read beside its key's inputs (from its depfile; relative names are relative to
    ``root``). ``sources``: the key's own inputs with the digests the key was made of; if one of them changed
    meanwhile, nothing is stored: the object may be of either text.
    """
    if where.root is None:
        return "the cache is switched off"
    for path, before in (sources or {}).items():
        if file_digest(path) != before:
            return f"{path.name} changed while it was compiled"
    try:
        named = _publish_set(where.root, read, root)
        _publish_entry(where.root, key, tuple(files), named, note or {})
    except OSError as error:
        return f"cannot write the cache {where.root}: {error.strerror or error}"
    return ""


def _publish_entry(
    root: Path, key: str, files: tuple[File, ...], named: str, note: Mapping[str, object]
) -> None:
    table = [[file.name, len(file.data), file.mode] for file in files]
    header = json.dumps({"key": key, "files": table, "set": named, "note": note}, sort_keys=True)
    rest = header.encode() + b"\n" + b"".join(file.data for file in files)
    first = f"{FORMAT} {keys.digest(rest)} {len(rest)}\n".encode()
    _write_whole(_entry_path(root, key), first + rest)


def _write_whole(path: Path, data: bytes) -> None:
    target = os.fspath(path)
    folder, name = os.path.split(target)
    temporary = f"{folder}/.{name[:16]}.{os.getpid()}.{time.monotonic_ns()}.tmp"
    try:
        handle = _create(temporary, 0o644)
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        os.replace(temporary, target)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


# --- what a compile read beside its key's inputs -------------------------------------------------

_digests: dict[Path, tuple[Signature, str]] = {}  # one process: a header is read once, then only stat'ed
_sets: dict[tuple[str, Path], bool] = {}
_named: dict[tuple[Path, Path, tuple[str, ...]], tuple[list[Signature | None], str]] = {}
_written: set[Path] = set()  # sets that this process wrote or found whole


def file_digest(path: Path) -> str:
    """Digest of a file's bytes, "" where it cannot be read; remembered for as long as its stat holds."""
    signature = _signature(os.fspath(path))
    if signature is None:
        return ""
    known = _digests.get(path)
    if known is not None and known[0] == signature:
        return known[1]
    try:
        found = keys.digest(path.read_bytes())
    except OSError:
        return ""
    if time.time_ns() - max(signature[1], signature[2]) > RACY_NS:
        _digests[path] = (signature, found)
    return found


def _signature(path: str) -> Signature | None:
    try:
        now = os.stat(path)
    except OSError:
        return None
    return (now.st_size, now.st_mtime_ns, now.st_ctime_ns, now.st_ino)


def _publish_set(root: Path, read: Iterable[str], project: Path) -> str:
    """The name of the set of these files, stored. Most compiles of a build read the same."""
    asked = (root, project, tuple(read))
    stats = [_signature(os.path.join(project, name)) for name in asked[2]]
    known = _named.get(asked)
    if known is None or known[0] != stats or None in stats:
        known = _named[asked] = (stats, _store_set(root, asked[2], project))
    return known[1]


def _store_set(root: Path, read: tuple[str, ...], project: Path) -> str:
    relative = sorted({_relative(name, project) for name in read})
    if not relative:
        return ""
    lines = "".join(f"{file_digest(project / name)} {name}\n" for name in relative)
    data = lines.encode("utf-8", "surrogateescape")
    named = keys.digest(data)
    path = _set_path(root, named)
    if path not in _written:  # what is there may be damaged
        if not _holds(root, path, data):
            _write_whole(path, data)
        _written.add(path)
    return named


def _holds(root: Path, path: Path, data: bytes) -> bool:
    """Whether a set is there and whole; a damaged one is moved out of the way."""
    try:
        if _read_regular(path) == data:
            return True
        raise _Damaged("the digest differs")
    except FileNotFoundError:
        return False
    except (_Damaged, OSError) as why:
        _quarantine(root, path, why)
        return False


def _relative(name: str, project: Path) -> str:
    path = os.path.normpath(project / name)
    prefix = f"{project}{os.sep}"
    return path.removeprefix(prefix)


def _set_holds(root: Path, named: str, project: Path) -> bool:
    known = _sets.get((named, project))
    if known is None:
        known = _sets[named, project] = _check_set(root, named, project)
    return known


def _check_set(root: Path, named: str, project: Path) -> bool:
    path = _set_path(root, named)
    try:
        data = _read_regular(path)
        if keys.digest(data) != named:
            raise _Damaged("the digest differs")
    except FileNotFoundError:
        return False
    except (_Damaged, OSError) as why:
        _quarantine(root, path, why)
        return False
    _touch(path)
    for line in data.decode("utf-8", "surrogateescape").splitlines():
        said, _, name = line.partition(" ")
        if not said or file_digest(project / name) != said:
            return False
    return True


# --- housekeeping --------------------------------------------------------------------------------


def info(where: Store) -> Info:
    if where.root is None:
        return Info("", 0, 0, where.limit, 0)
    sizes = [size for _, _, size in _entries(where.root)]
    try:
        damaged = (where.root / "damaged.log").read_bytes().count(b"\n")
    except OSError:
        damaged = 0
    return Info(str(where.root), len(sizes), sum(sizes), where.limit, damaged)


def gc(where: Store, max_bytes: int | None = None) -> Collected:
    """Remove the entries used longest ago until the rest fits; leftovers of killed writers go too.

    Needs no lock: a reader has its entry open or misses, a second collector finds less to do.
    """
    if where.root is None:
        return Collected(0, 0, 0, 0)
    limit = where.limit if max_bytes is None else max_bytes
    entries = sorted(_entries(where.root), key=lambda entry: entry[1])
    total = sum(size for _, _, size in entries)
    goal = int(limit * LOW_WATER) if total > limit else limit
    gone = gone_bytes = 0
    for path, _, size in entries:
        if total - gone_bytes <= goal:
            break
        with contextlib.suppress(OSError):
            path.unlink()
            gone += 1
            gone_bytes += size
    _sweep(where.root)
    return Collected(gone, gone_bytes, len(entries) - gone, total - gone_bytes)


def gc_if_due(where: Store) -> Collected | None:
    """`gc`, at most once an hour for all processes together; the caller need not ask more often."""
    if where.root is None:
        return None
    mark = where.root / "collected"
    with contextlib.suppress(OSError):
        if mark.exists() and time.time() - mark.stat().st_mtime < COLLECT_AFTER_S:
            return None
        mark.touch()
        return gc(where)
    return None


def _entries(root: Path) -> Iterable[tuple[Path, float, int]]:
    """(path, time of last use, bytes) of every entry and set."""
    for folder in (root / "entries", root / "sets"):
        with contextlib.suppress(OSError):
            for shelf in list(os.scandir(folder)):
                with contextlib.suppress(OSError):
                    for item in os.scandir(shelf.path):
                        with contextlib.suppress(OSError):
                            facts = item.stat(follow_symlinks=False)
                            if not item.name.startswith("."):
                                yield Path(item.path), facts.st_mtime, facts.st_size


def _sweep(root: Path) -> None:
    old = time.time() - 3600.0
    for leftover in root.glob("*/*/.*.tmp"):
        with contextlib.suppress(OSError):
            if leftover.stat().st_mtime < old:
                leftover.unlink()
    with contextlib.suppress(OSError):
        aside = sorted((root / "damaged").iterdir(), key=lambda path: path.name)
        for path in aside[:-KEPT_DAMAGED]:
            path.unlink(missing_ok=True)


def _quarantine(root: Path, path: Path, why: Exception) -> None:
    """Move a damaged file aside and count it; what cannot be moved stays, and stays a miss."""
    if isinstance(why, OSError) and why.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
        return  # our own shortage says nothing about the file
    with contextlib.suppress(OSError):
        aside = root / "damaged"
        aside.mkdir(parents=True, exist_ok=True)
        path.replace(aside / f"{time.time_ns()}-{path.name[:24]}")
    with contextlib.suppress(OSError):
        log = os.open(root / "damaged.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        with os.fdopen(log, "w") as stream:
            stream.write(f"{int(time.time())} {path.name[:24]} {' '.join(str(why).split())}\n")


def _entry_path(root: Path, key: str) -> Path:
    return root / "entries" / key[:2] / key


def _set_path(root: Path, named: str) -> Path:
    return root / "sets" / named[:2] / named

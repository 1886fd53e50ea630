"""The sidecar on disk: where it is, one reader, one write.

`read` never raises for what a file holds and never moves a file. `save` is the only writer: under a lock it
reads again, merges, and replaces the file whole. What a document means is `document`'s, `verdict`'s and
`upsert`'s business.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from tunebuild import emit
from tunebuild.document import MAX_BYTES, Built, Document, Unreadable, parse, render
from tunebuild.errors import WorkFailed
from tunebuild.model import Box
from tunebuild.upsert import Change, Merged, Writer, merge
from tunebuild.verdict import NO_PINS, Pins, Unfit, any_row

MANIFEST_VARIABLE = "TUNEBUILD_MANIFEST"
SUFFIX = ".tune.json"


def location(app_root: Path, app_name: str, environ: Mapping[str, str] = os.environ) -> Path:
    """The sidecar of an app: the environment's path verbatim, else `<app>.tune.json` in its folder."""
    explicit = environ.get(MANIFEST_VARIABLE, "")
    return Path(explicit) if explicit else app_root / f"{stem(app_name)}{SUFFIX}"


def stem(app: str) -> str:
    """The app's name without one trailing `.exe` or `.py`: `demo`, `demo.exe`, `demo.py` share one file."""
    for ending in (".exe", ".py"):
        if app.endswith(ending) and app != ending:
            return app.removesuffix(ending)
    return app


def read(path: Path) -> Document | Unreadable | None:
    """The document, why it is unreadable, or None when there is no file."""
    try:
        # Not blocking, so that a pipe of that name cannot hold a build.
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        return Unreadable(f"cannot be read: {_words(error)}", failed=True)
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            return Unreadable("not a regular file")
        with os.fdopen(os.dup(handle), "rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        return Unreadable(f"cannot be read: {_words(error)}", failed=True)
    finally:
        with contextlib.suppress(OSError):
            os.close(handle)
    return parse(data, mtime_s=status.st_mtime_ns // 1_000_000_000)


def save(
    path: Path,
    change: Change,
    *,
    box: Box,
    built_now: Mapping[str, Built] | None = None,
    binary: str = "",
    binary_s: int | None = None,
    unfit: Unfit = any_row,
    pins: Pins = NO_PINS,
    now: datetime | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Merged:
    """Record ``change``: lock, read again, merge, write whole, fsync. Returns what was written.

    An adoption that takes no entry writes nothing: its notes would speak for winners that are not there.

    ``built_now``, ``binary_s``, ``unfit`` and ``pins`` are those of `verdict`: they decide what of the old file counts.
    Records the machine's own features, never forced ones. Raises `WorkFailed` when the folder cannot be
    written, with the old file untouched.
    """
    written = (now or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%SZ")
    writer = Writer(box, written, abbreviated(binary, environ))
    with emit.locked(path, wait_message=f"waiting for {path.name}"):
        target = Path(os.path.realpath(path))
        emit.sweep_temporaries(target.parent, re.escape(target.name))
        found = _readable(path)
        merged = merge(found, change, writer, built_now=built_now, binary_s=binary_s, unfit=unfit, pins=pins)
        if change.origin and not merged.taken:
            return replace(merged, document=found if isinstance(found, Document) else Document())
        emit.write_durable(path, render(merged.document))
    return merged


def require_writable(path: Path) -> None:
    """Raise `WorkFailed` where `save` could not lock, read or write ``path`` now: asked before a long race."""
    emit.require_writable(path)
    with emit.locked(path, wait_message=f"waiting for {path.name}"):
        _readable(path)


def abbreviated(path: str, environ: Mapping[str, str] = os.environ) -> str:
    """``path`` with the home folder as `~`, so that no file names a person."""
    home = (environ.get("HOME") or environ.get("USERPROFILE") or "").rstrip("/\\")
    if home and (path == home or path.startswith((f"{home}/", f"{home}\\"))):
        return f"~{path[len(home) :]}"
    return path


def _readable(path: Path) -> Document | Unreadable | None:
    """What a write starts from: a file that failed to be read may be good, so it is not written over."""
    found = read(path)
    if isinstance(found, Unreadable) and found.failed:
        raise WorkFailed(f"{path} {found.why}", fix="make it readable, or remove it to start anew")
    return found


def _words(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)

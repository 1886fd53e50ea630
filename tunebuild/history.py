"""The archive of mints: every one is kept, a failed one as a stub with its reason. Nothing is ever deleted.

Archiving is best effort: it warns and goes on, since a mint must not fail for want of a copy.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from tunebuild import emit, sidecar
from tunebuild.document import Document
from tunebuild.errors import TunebuildError

HISTORY_VARIABLE = "TUNEBUILD_HISTORY"
FAILED_SUFFIX = ".FAILED.json"
_ENTRY = re.compile(r"(\d{8}-\d{6})_(.+?)(\.tune\.json|\.FAILED\.json)")


@dataclass(frozen=True, slots=True)
class Entry:
    """One archived mint. ``when``: YYYYMMDD-HHMMSS, UTC."""

    path: Path
    when: str
    stem: str
    kind: Literal["mint", "failed"]


def directory(identity: str, environ: Mapping[str, str] = os.environ) -> Path:
    """$TUNEBUILD_HISTORY verbatim, else a folder of this box in the home folder."""
    if explicit := environ.get(HISTORY_VARIABLE, ""):
        return Path(explicit)
    home = environ.get("HOME") or environ.get("USERPROFILE") or ""
    return Path(home or ".") / ".tune-history" / re.sub(r"[^0-9A-Za-z]", "-", identity)


def archive(
    path: Path,
    identity: str,
    *,
    written: bytes | None = None,
    now: datetime | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Path | None:
    """Keep the sidecar of a successful mint; None, and a warning, when that fails.

    ``written``: what this mint wrote there, where another may have written since; the file as it stands by default.
    The same write is kept once, whoever archives it: a tuner of one's own and the mint that ran it both do.
    """
    if (last := _last(path, written, identity, environ)) is not None:
        return last

    def copy(target: Path) -> None:
        emit.write_durable(target, path.read_bytes() if written is None else written)

    return _put(path, identity, sidecar.SUFFIX, copy, now, environ)


def archive_failed(
    path: Path,
    identity: str,
    *,
    verdict: str,
    note: str = "",
    now: datetime | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Path | None:
    """Record a mint that wrote nothing: why, on which box, when."""
    moment = now or datetime.now(UTC)
    stub = {
        "verdict": verdict,
        "note": note,
        "box": identity,
        "written": moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }

    def write(target: Path) -> None:
        emit.write_durable(target, (json.dumps(stub, indent=2, sort_keys=True) + "\n").encode())

    return _put(path, identity, FAILED_SUFFIX, write, moment, environ)


def _last(path: Path, written: bytes | None, identity: str, environ: Mapping[str, str]) -> Path | None:
    """The newest archived mint of this app, when it is what was written, or the sidecar as it stands."""
    stem = path.name.removesuffix(sidecar.SUFFIX)
    mints = [entry for entry in entries(identity, environ, stem) if entry.kind == "mint"]
    try:
        data = path.read_bytes() if written is None else written
        return mints[-1].path if mints and mints[-1].path.read_bytes() == data else None
    except OSError:
        return None


def _put(
    path: Path,
    identity: str,
    suffix: str,
    write: Callable[[Path], None],
    now: datetime | None,
    environ: Mapping[str, str],
) -> Path | None:
    folder = directory(identity, environ)
    stamp = (now or datetime.now(UTC)).strftime("%Y%m%d-%H%M%S")
    stem = path.name.removesuffix(sidecar.SUFFIX)
    try:
        emit.sweep_temporaries(folder, _ENTRY.pattern)
        target = _unused(folder, f"{stamp}_{stem}", suffix)
        write(target)
    except (OSError, TunebuildError) as error:
        words = str(error).splitlines()[0]
        print(f"tunebuild: this mint is not archived in {folder}: {words}", file=sys.stderr)
        return None
    return target


def _unused(folder: Path, name: str, suffix: str) -> Path:
    """A name that nobody has, reserved by creating it: two mints of one second are two entries."""
    folder.mkdir(parents=True, exist_ok=True)
    for count in range(1, 10_000):
        target = folder / f"{name}{f'-{count}' if count > 1 else ''}{suffix}"
        try:
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
        except FileExistsError:
            continue
        return target
    raise FileExistsError(f"{folder / name} exists ten thousand times")


def entries(identity: str, environ: Mapping[str, str] = os.environ, stem: str = "") -> tuple[Entry, ...]:
    """The archive of this box, oldest first; ``stem`` "" is every app's. Empty files are left out."""
    folder = directory(identity, environ)
    try:
        names = sorted(os.listdir(folder), key=_order)
    except OSError:
        return ()
    matches = ((name, _ENTRY.fullmatch(name)) for name in names)
    found = (
        Entry(folder / name, m[1], m[2], "failed" if m[3] == FAILED_SUFFIX else "mint")
        for name, m in matches
        if m and (folder / name).stat().st_size > 0
    )
    return tuple(
        entry for entry in found if not stem or re.fullmatch(rf"{re.escape(stem)}(-\d+)?", entry.stem)
    )


def _order(name: str) -> tuple[str, int, str]:
    """By time, then by the number that tells entries of one second apart."""
    match = re.fullmatch(r"(\d{8}-\d{6})_.*?(?:-(\d+))?(\.tune\.json|\.FAILED\.json)", name)
    return (match[1], int(match[2] or 1), name) if match else ("", 0, name)


def backup_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.bak")


def backup(path: Path) -> Path | None:
    """Copy (others read it meanwhile) a sidecar to `<sidecar>.bak`; None when there is none."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    target = backup_path(path)
    emit.sweep_temporaries(target.parent, re.escape(target.name))
    emit.write_durable(target, data)
    return target


def read_mint(path: Path) -> Document | None:
    """An archived sidecar as it was, whatever box it speaks for; None when it cannot be read."""
    found = sidecar.read(path)
    return found if isinstance(found, Document) else None

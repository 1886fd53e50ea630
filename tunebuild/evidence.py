"""Reads what a fleet left behind: folders of sidecars, and the profiles that a tree ships."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path

from tunebuild import profiles, record, sidecar
from tunebuild.document import MAX_BYTES, Document, Unreadable
from tunebuild.errors import UsageError
from tunebuild.fleet import Record
from tunebuild.model import App, Manifest
from tunebuild.profiles import Unusable
from tunebuild.resolve import app_scopes

_OF_A_SIDECAR = re.compile(rb'"(?:kernels|provenance|race|built)"\s*:')


def records(places: Sequence[Path]) -> tuple[Record, ...]:
    """Every `*.tune.json` below the folders, and each file named itself, in order of name.

    Raises `UsageError` for a place that does not exist.
    """
    found: dict[Path, Record] = {}
    for place in places:
        if not place.exists():
            raise UsageError(f"{place} does not exist", fix="name a folder of sidecars, or one of them")
        paths = sorted(place.rglob(f"*{sidecar.SUFFIX}")) if place.is_dir() else [place]
        for path in paths:
            if not path.name.startswith("."):
                found.setdefault(Path(os.path.realpath(path)), _record(path))
    return tuple(found.values())


def _record(path: Path) -> Record:
    """One file. `sidecar.read` checked the digest if there is one; whether there is one only the text says."""
    read = sidecar.read(path)
    found: Document | Unreadable = Unreadable("it is gone") if read is None else read
    text = _text(path)
    signed = isinstance(found, Document) and "digest" in json.loads(text)
    return Record(path.as_posix(), found, signed, junk=not _OF_A_SIDECAR.search(text))


def _text(path: Path) -> bytes:
    """What a regular file holds, as far as a sidecar may be large; nothing of anything else."""
    if not path.is_file():
        return b""
    with path.open("rb") as stream:
        return stream.read(MAX_BYTES)


def profile_files(manifest: Manifest, app: App) -> dict[str, dict[str, bytes | Unusable]]:
    """The content of each profile in the `defaults` of an app's scopes: by scope, by class."""
    return {
        scope.name: {
            path.name.removesuffix(profiles.SUFFIX): data
            for path in sorted(scope.defaults.glob(f"*{profiles.SUFFIX}"))
            if (data := record.read_profile(path)) is not None
        }
        for scope in app_scopes(manifest, app)
        if scope.defaults is not None
    }

"""Reads what a fleet left behind: folders of sidecars, and the profiles that a tree ships."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from tunebuild import profiles, sidecar
from tunebuild.document import Document, Unreadable
from tunebuild.errors import UsageError
from tunebuild.fleet import Record
from tunebuild.model import App, Manifest
from tunebuild.resolve import app_scopes


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
    read = sidecar.read(path)
    found: Document | Unreadable = Unreadable("it is gone") if read is None else read
    return Record(path.as_posix(), found, isinstance(found, Document) and _signed(path))


def _signed(path: Path) -> bool:
    """`sidecar.read` checked the digest if there is one; whether there is one only the text says."""
    root = json.loads(path.read_bytes())
    return isinstance(root, dict) and "digest" in root


def profile_files(manifest: Manifest, app: App) -> dict[str, dict[str, bytes]]:
    """The content of each profile in the `defaults` of an app's scopes: by scope, by class."""
    return {
        scope.name: {
            path.name.removesuffix(profiles.SUFFIX): path.read_bytes()
            for path in sorted(scope.defaults.glob(f"*{profiles.SUFFIX}"))
        }
        for scope in app_scopes(manifest, app)
        if scope.defaults is not None
    }

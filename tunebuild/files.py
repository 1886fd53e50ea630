"""Paths that tune.toml names: made absolute, kept inside the project, and seen to exist."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path
from typing import Literal

from tunebuild.positions import KeyPath
from tunebuild.records import Notes

_ODD = re.compile(r"(^|/)\.{0,2}(/|$)")  # needs normalising: an empty part, "." or ".."
Wanted = Literal["file", "folder", "anything"]


def inside(root: Path, base: Path, text: str, wanted: Wanted, path: KeyPath, notes: Notes) -> Path | None:
    """``text`` relative to ``base`` as an absolute path under ``root``; None, and noted, when it is not one.

    A project reads no file outside its folder, through no `..` and no symbolic link, so that a copy of the
    folder is a copy of the project. ``wanted`` "anything" need not exist.
    """
    if not text or not text.isprintable():
        notes.add(path, f"{text!r} is no path", "write a path relative to the project")
        return None
    if os.path.isabs(text):
        notes.add(
            path, f"`{text}` is an absolute path", f"move it under {root.name}/ and write a relative one"
        )
        return None
    plain = os.path.join(base, text)
    if _ODD.search(text):
        plain = os.path.normpath(plain)
    if not _under(plain, str(root)) or not _really_under(plain, str(root)):
        fix = "move it into the project, or join its project with [use.NAME]"
        notes.add(path, f"`{text}` leads out of the project's folder", fix)
        return None
    if wanted == "anything" or (os.path.isfile if wanted == "file" else os.path.isdir)(plain):
        return Path(plain)
    shown = os.path.relpath(plain, root)
    what = f"{shown} is no {wanted}" if os.path.exists(plain) else f"{shown} does not exist"
    notes.add(path, what, f"create it, or name an existing {wanted}")
    return None


def _under(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip(os.sep) + os.sep)


def _really_under(path: str, root: str) -> bool:
    real = os.path.realpath(path) if os.path.islink(path) else _real_folder(os.path.dirname(path))
    return _under(real, _real_folder(root)) or path == root


@lru_cache(maxsize=65_536)
def _real_folder(folder: str) -> str:
    """As `os.path.realpath`, but the thousands of folders of a project ask about their parents once."""
    parent, name = os.path.split(folder)
    if not name:
        return folder
    plain = os.path.join(_real_folder(parent), name)
    return os.path.realpath(plain) if os.path.islink(plain) else plain


def forget() -> None:
    """Folders may have moved since the last reading."""
    _real_folder.cache_clear()

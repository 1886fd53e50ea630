"""A mint that was refused or failed, remembered for a while: until then a start runs the rows it has and tries none.

A mint leaves the note and the next one that ends well takes it away; `rail` and the guard of an executable
(runtime/tb_rail.h) read it. It is two lines: until when it holds, in whole seconds since 1970, and what became of the
mint, as the end of a sentence about it: "was refused (…)" or "failed (…)".
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path

from tunebuild import emit

HOLDS_S = 600
"""A race takes minutes, a probe that finds the box too loud a quarter of one: at most this often a start pays it."""
REFUSED, FAILED = "was refused", "failed"


@dataclass(frozen=True, slots=True)
class Refusal:
    """What became of the last mint of an app, and until when its starts leave it at that."""

    until_s: int
    what: str

    @property
    def is_refusal(self) -> bool:
        """Was it the box that was too loud, or a tuner that refused, and no failure?"""
        return self.what.startswith(REFUSED)

    @property
    def until(self) -> str:
        """The time of day, local, as "10:28"."""
        return time.strftime("%H:%M", time.localtime(self.until_s))


def _path(root: Path, app: str) -> Path:
    return root / f"build/refused.{app}"


def keep(root: Path, app: str, word: str, why: str) -> None:
    """Note that a mint of this app came to nothing now; ``word`` is `REFUSED` or `FAILED`. Where that cannot be
    written, every start tries."""
    what = f"{word} ({' '.join(why.split())})"
    with contextlib.suppress(OSError):
        emit.write_if_changed(_path(root, app), f"{int(time.time()) + HOLDS_S}\n{what}\n")


def forget(root: Path, app: str) -> None:
    with contextlib.suppress(OSError):
        _path(root, app).unlink()


def read(root: Path, app: str) -> Refusal | None:
    """The note, if it still holds. One from the future is none: the clock was set back."""
    try:
        until, what = _path(root, app).read_text(errors="replace").splitlines()[:2]
        left_s = int(until) - time.time()
    except (OSError, ValueError):
        return None
    return Refusal(int(until), what) if 0 < left_s <= HOLDS_S else None

"""A mint's progress as a person or a supervisor sees it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator


class Display:
    def __init__(self, verbosity: str) -> None:
        self._verbosity = verbosity

    def _event(self, kind: str, **fields: object) -> None:
        words = "".join(f" {key}={value}" for key, value in fields.items())
        print(f"@tune {kind}{words}", flush=True)

    def plan(self, scope: str, total: int) -> None:
        self._event("plan", scope=scope, total=total)

    def begin(self, name: str, total: int) -> None:
        self._event("begin", name=name, total=total)

    def step(self, i: int, phase: str, live: int) -> None:
        self._event("step", i=i, phase=phase, live=live)

    def end(self, name: str, winner: str, verdict: str, ms: int) -> None:
        self._event("end", name=name, winner=winner, verdict=verdict, ms=ms)

    def abort(self, reason: str, at: str) -> None:
        self._event("abort", reason=reason, at=at)

    def note(self, text: str) -> None:
        if self._verbosity != "silent":
            print(f"tunebuild: {text}", file=sys.stderr, flush=True)

    def detail(self, text: str) -> None:
        if self._verbosity == "verbose":
            self.note(text)

    def build_line(self, line: str) -> None:
        if self._verbosity != "silent":
            print(line, file=sys.stderr, flush=True)


@contextlib.contextmanager
def display(verbosity: str) -> Iterator[Display]:
    yield Display(verbosity)

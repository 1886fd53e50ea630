"""A mint's progress as a person or a supervisor sees it: `@tune` events through the relay's rules.

On a terminal one line is drawn on standard output; in a pipe the events themselves go there. Notes and the
compiler's words go to standard error, which a supervisor may drop.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Iterator

from tunebuild import progress
from tunebuild.progress import Relay


class Display:
    """Says a mint's events. ``verbosity`` is one of `progress.VERBOSITIES`; "" is normal."""

    def __init__(self, verbosity: str) -> None:
        self._verbosity = progress.verbosity(verbosity)
        self._relay = Relay(
            sys.stdout,
            isatty=sys.stdout.isatty(),
            verbosity=self._verbosity,
            columns=lambda: shutil.get_terminal_size().columns,
        )

    def plan(self, scope: str, total: int) -> None:
        self._relay.feed(progress.plan(scope, total))

    def begin(self, name: str, total: int) -> None:
        self._relay.feed(progress.begin(name, total))

    def step(self, i: int, phase: str, live: int) -> None:
        self._relay.feed(progress.step(i, phase, live))

    def end(self, name: str, winner: str, verdict: str, ms: int) -> None:
        self._relay.feed(progress.end(name, winner, verdict, ms))

    def abort(self, reason: str, at: str) -> None:
        self._relay.feed(progress.abort(reason, at))

    def note(self, text: str) -> None:
        """What must be seen unless silent; the line goes on below it."""
        if self._verbosity != "silent":
            self._relay.wipe()
            print(f"tunebuild: {text}", file=sys.stderr, flush=True)

    def detail(self, text: str) -> None:
        """The tuner's own chatter."""
        if self._verbosity == "verbose":
            self.note(text)

    def build_line(self, line: str) -> None:
        """A line of the build before the race."""
        if self._verbosity != "silent":
            print(line, file=sys.stderr, flush=True)

    def finish(self) -> None:
        self._relay.finish()


@contextlib.contextmanager
def display(verbosity: str) -> Iterator[Display]:
    """A display that leaves its last line standing, whatever happens."""
    shown = Display(verbosity)
    try:
        yield shown
    finally:
        shown.finish()

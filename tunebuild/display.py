"""A mint's progress on standard output: events for supervisors, one line on a terminal, chatter by verbosity."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Iterator

from tunebuild import progress
from tunebuild.progress import Relay


class Shown:
    """The `mint.Progress` of the command line: each event is emitted and relayed by the rules for both."""

    def __init__(self, relay: Relay, verbosity: progress.Verbosity) -> None:
        self._relay, self._verbosity = relay, verbosity

    def plan(self, scope: str, total: int) -> None:
        self._relay.feed(progress.plan(scope, total))

    def begin(self, name: str, total: int) -> None:
        self._relay.feed(progress.begin(name, total))

    def step(self, i: int, phase: str, live: int) -> None:
        self._relay.feed(progress.step(i, phase, live))

    def end(self, name: str, winner: str, verdict: str, ms: int) -> None:
        self._relay.feed(progress.end(name, winner, verdict, ms))

    def settle(self, name: str, winner: str, verdict: str) -> None:
        self._relay.feed(progress.settle(name, winner, verdict))

    def abort(self, reason: str, at: str) -> None:
        self._relay.feed(progress.abort(reason, at))

    def note(self, text: str) -> None:
        self._relay.note(f"tunebuild: {text}")

    def detail(self, text: str) -> None:
        self._relay.detail(f"tunebuild: {text}")

    def build_line(self, line: str) -> None:
        """What ninja or a tuner says: on standard error, so that standard output stays readable by programs."""
        if self._verbosity != "silent":
            self._relay.wipe()
            print(line, file=sys.stderr, flush=True)


@contextlib.contextmanager
def display(word: str) -> Iterator[Shown]:
    """``word``: silent, normal or verbose; anything else is normal."""
    verbosity = progress.verbosity(word)
    relay = Relay(sys.stdout, verbosity=verbosity, columns=lambda: shutil.get_terminal_size().columns)
    try:
        yield Shown(relay, verbosity)
    finally:
        relay.finish()

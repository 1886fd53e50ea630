"""The `@tune` events: said by tuners, read by supervisors, folded into one line on a terminal.

line = `@tune ` kind { ` ` key `=` value } newline. A value holds no space, since readers cut it there; the
emitters refuse one. Folding and drawing are pure; `Relay` alone touches a stream.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import IO, Literal

PREFIX = "@tune"
KINDS = ("plan", "begin", "step", "end", "settle", "abort")
Verbosity = Literal["silent", "normal", "verbose"]
VERBOSITIES: tuple[Verbosity, ...] = ("silent", "normal", "verbose")
END_VERDICTS = ("holds", "beats", "rejected", "skipped")


def verbosity(word: str) -> Verbosity:
    """The verbosity called ``word``; normal for any other word."""
    return next((each for each in VERBOSITIES if each == word), "normal")


@dataclass(frozen=True, slots=True)
class Event:
    """One parsed line: its kind ("" for the bare prefix) and its fields."""

    kind: str
    fields: tuple[tuple[str, str], ...] = ()

    def text(self, key: str) -> str:
        return dict(self.fields).get(key, "")

    def number(self, key: str) -> int:
        """The field as an integer; 0 if it is missing or malformed."""
        try:
            return int(self.text(key))
        except ValueError:
            return 0


# --- saying --------------------------------------------------------------------------------------


def plan(scope: str, total: int) -> str:
    """A tuner (or a half of one) starts: so many families in all."""
    return _line("plan", scope=scope, total=total)


def begin(name: str, total: int) -> str:
    """A family starts; ``total`` is its budget of rounds, 0 if it has none. Every begin needs an end."""
    return _line("begin", name=name, total=total)


def step(i: int, phase: str, live: int) -> str:
    """Round ``i`` from 1, the pass's name, the rows still racing."""
    return _line("step", i=i, phase=phase, live=live)


def end(name: str, winner: str, verdict: str, ms: int) -> str:
    """A family is done: winner ("" where nothing passed), one of `END_VERDICTS`, wall ms since its begin."""
    _check_verdict("end", verdict)
    return _line("end", name=name, winner=winner, verdict=verdict, ms=ms)


def settle(name: str, winner: str, verdict: str) -> str:
    """What is written of a family, where that is another winner than its end said: validation, the closing probe, a
    layout shared with others or the app's own measure took the first one back."""
    _check_verdict("settle", verdict)
    return _line("settle", name=name, winner=winner, verdict=verdict)


def abort(reason: str, at: str) -> str:
    """Interrupted before family ``at``."""
    return _line("abort", reason=reason, at=at)


def _check_verdict(kind: str, verdict: str) -> None:
    if verdict not in END_VERDICTS:
        raise ValueError(f"@tune {kind}: verdict={verdict!r}; write one of {', '.join(END_VERDICTS)}")


def _line(kind: str, **values: str | int) -> str:
    for key, value in values.items():
        if any(c.isspace() for c in str(value)):
            raise ValueError(f"@tune {kind}: {key}={value!r} holds a space; readers would cut it there")
    return " ".join([PREFIX, kind, *(f"{key}={value}" for key, value in values.items())]) + "\n"


# --- reading -------------------------------------------------------------------------------------


def parse(line: str) -> Event | None:
    """The event that ``line`` says, or None for any other line."""
    words = line.rstrip("\r\n").split(" ")
    if words[0] != PREFIX:
        return None
    kind = words[1] if len(words) > 1 else ""
    pairs = (word.partition("=") for word in words[2:])
    return Event(kind, tuple((key, value) for key, equals, value in pairs if equals))


@dataclass(frozen=True, slots=True)
class Display:
    """What the line shows. ``started_s`` is the clock at the plan."""

    active: bool = False
    started_s: float = 0.0
    total: int = 0
    done: int = 0
    kernel: str = ""
    rounds: int = 0
    i: int = 0
    phase: str = ""
    live: int = 0


def fold(display: Display, event: Event, now_s: float) -> Display:
    """The display after ``event``; unknown kinds, `settle` and `abort` change nothing."""
    match event.kind:
        case "plan":
            return Display(active=True, started_s=now_s, total=event.number("total"))
        case "begin":
            name, rounds = event.text("name"), event.number("total")
            return replace(display, kernel=name, rounds=rounds, i=0, phase="", live=0)
        case "step":
            number, phase, live = event.number("i"), event.text("phase"), event.number("live")
            return replace(display, i=number, phase=phase, live=live)
        case "end":
            return replace(display, done=display.done + 1, rounds=0, live=0)
        case _:
            return display


def line(display: Display, now_s: float, columns: int) -> str:
    """The one line: bar, families done, the one in flight, elapsed. It predicts no time."""
    head = f"{display.done}/{display.total}"
    tail = f"  {display.kernel}" if display.kernel else ""
    if display.rounds > 0:
        tail += f"  {display.phase} {display.i}/{display.rounds}"
    if display.live > 0:
        tail += f"  {display.live} live"
    tail += f"  {elapsed(now_s - display.started_s)}"
    cells = max(8, min(28, columns - len(head) - len(tail) - 6))
    filled = cells * min(display.done, display.total) // display.total if display.total > 0 else 0
    return f"[{'#' * filled}{'-' * (cells - filled)}] {head}{tail}"


def elapsed(seconds: float) -> str:
    whole = max(int(seconds), 0)
    return f"{whole}s" if whole < 60 else f"{whole // 60:02d}m{whole % 60:02d}s"


# --- relaying ------------------------------------------------------------------------------------


class Relay:
    """Passes lines on: a tuner's own and those of a child alike.

    Events are always folded. On a terminal they are drawn, at normal only; elsewhere they pass through at
    every verbosity. Other lines are dropped at silent, and at normal while a display is active.
    """

    def __init__(
        self,
        stream: IO[str],
        *,
        isatty: bool | None = None,
        verbosity: Verbosity = "normal",
        columns: Callable[[], int] | int = 80,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream
        self._isatty = stream.isatty() if isatty is None else isatty
        self._verbosity = verbosity
        self._columns = columns
        self._clock = clock
        self._drawn = False
        self.display = Display()

    def feed(self, text: str) -> None:
        """One line, with or without its newline."""
        event = parse(text)
        if event is None:
            self.detail(text)
            return
        self.display = fold(self.display, event, self._clock())
        if not self._isatty:
            self._write(text if text.endswith("\n") else text + "\n")
        elif self._verbosity == "normal" and event.kind == "abort":
            self.wipe()
            self._write(text.rstrip("\n") + "\n")
        elif self._verbosity == "normal" and self.display.active:
            self._draw()

    def detail(self, text: str) -> None:
        """Chatter: shown unless silent, or normal with a display; verbose closes the display first."""
        if self._verbosity == "silent" or (self._verbosity == "normal" and self.display.active):
            return
        self.finish()
        self._write(text if text.endswith("\n") else text + "\n")

    def note(self, text: str) -> None:
        """What must be seen at every verbosity but silent; the display goes on below it."""
        if self._verbosity == "silent":
            return
        self.wipe()
        self._write(text if text.endswith("\n") else text + "\n")

    def finish(self) -> None:
        """The display is over: leave its last line standing."""
        if self._drawn:
            self._write("\n")
        self._drawn = False
        self.display = replace(self.display, active=False)

    def _draw(self) -> None:
        width = max(self._width() - 1, 1)
        text = line(self.display, self._clock(), self._width())[:width]
        self._write(f"\r{text.ljust(width)}\r")
        self._drawn = True

    def wipe(self) -> None:
        """Take the line away, to be drawn again by the next event."""
        if self._drawn:
            self._write("\r" + " " * max(self._width() - 1, 1) + "\r")
        self._drawn = False

    def _width(self) -> int:
        return self._columns if isinstance(self._columns, int) else self._columns()

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()

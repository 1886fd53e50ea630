"""The only loop between a race and a bench, and benches that remember.

`Recording` wraps any bench and writes what it answered, one JSON document a line; `Replay` answers from
such lines and from nothing else, so a recorded mint is decided again bit by bit on any machine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable
from dataclasses import asdict
from typing import IO, Any, TypeVar

from tunebuild.errors import WorkFailed
from tunebuild.heat import Bar, Bench, Heat, Outcome, Step
from tunebuild.measure import Measure
from tunebuild.model import Disturbed, Measured, MicroRound, Sample
from tunebuild.race import race

Answer = TypeVar("Answer")


def drive(
    bench: Bench,
    asking: Generator[MicroRound | Step, Measured | None, Answer]
    | Generator[MicroRound, Measured | None, Answer],
    on_event: Callable[[Step], None] = lambda _: None,
) -> Answer:
    """Serve every micro-round that ``asking`` wants; return what it concludes."""
    answer: Measured | None = None
    while True:
        try:
            asked = asking.send(answer)
        except StopIteration as done:
            concluded: Answer = done.value
            return concluded
        if isinstance(asked, MicroRound):
            answer = bench.run(asked)
        else:
            on_event(asked)
            answer = None


def race_heat(
    bench: Bench, heat: Heat, measure: Measure, bar: Bar, on_event: Callable[[Step], None] = lambda _: None
) -> Outcome:
    """Race one heat on ``bench``."""
    return drive(bench, race(heat, measure, bar), on_event)


def declare(stream: IO[str], heat: Heat, measure: Measure, bar: Bar) -> None:
    """Write what a race is about to be decided from, so that its recording needs nothing else."""
    line = {"heat": asdict(heat), "measure": asdict(measure), "bar": asdict(bar)}
    stream.write(json.dumps(line, separators=(",", ":")) + "\n")


def declared(lines: Iterable[str], key: str) -> tuple[Heat, Measure, Bar]:
    """What `declare` wrote for the race of seat ``key``; `WorkFailed` when it is not in the recording."""
    for line in lines:
        document = json.loads(line)
        if document.get("heat", {}).get("key") == key:
            heat = document["heat"]
            heat |= {name: tuple(heat[name]) for name in ("rows", "controls", "layouts")}
            heat["workloads"] = tuple((name, weight) for name, weight in heat["workloads"])
            return Heat(**heat), Measure(**document["measure"]), Bar(**document["bar"])
    raise WorkFailed(f"the recording holds no race of {key}")


class Recording:
    """A bench that writes each question and answer of ``bench`` to ``stream`` as one JSON line."""

    def __init__(self, bench: Bench, stream: IO[str], name: str) -> None:
        self._bench, self._stream, self._name = bench, stream, name

    def run(self, micro_round: MicroRound) -> Measured:
        measured = self._bench.run(micro_round)
        line = {"bench": self._name, "ask": _asked(micro_round), "got": _got(measured)}
        self._stream.write(json.dumps(line, separators=(",", ":")) + "\n")
        return measured


class Replay:
    """A bench that answers from recorded ``lines``: the same questions in the same order, or `WorkFailed`."""

    def __init__(self, lines: Iterable[str], name: str) -> None:
        documents = (json.loads(line) for line in lines if line.strip())
        self._entries = iter([d for d in documents if d.get("bench") == name])
        self._name = name

    def run(self, micro_round: MicroRound) -> Measured:
        entry = next(self._entries, None)
        if entry is None or entry["ask"] != _asked(micro_round):
            asked = "ends before" if entry is None else "differs from"
            raise WorkFailed(
                f"the recording of {self._name} {asked} what is asked now",
                fix="replay it with the version, the seed and the [measure] values it was recorded with",
            )
        got = entry["got"]
        if "row" in got:
            return Disturbed(got["row"], got["why"])
        return tuple(Sample(*sample) for sample in got["samples"])


def _asked(asked: MicroRound) -> list[Any]:
    return [asked.workload, asked.lead_in, asked.placement, [[s.row, s.reps] for s in asked.slices]]


def _got(measured: Measured) -> dict[str, Any]:
    if isinstance(measured, Disturbed):
        return {"row": measured.row, "why": measured.why}
    return {"samples": [[s.row, s.reps, s.wall_ns, s.cpu_ns] for s in measured]}

"""The cache's keys: what must change one does, and what must not does not."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from buildlab import projects
from buildlab.figures import Figure
from tunebuild import front, generate, keys, writing

PAIRS = 5_000
_WORDS = ("-O2", "-O3", "-mavx2", "-DN=4", "a", "b", "ab", "", "-I", "x y", "avx2,fma")


def figures(quick: bool) -> list[Figure]:
    hits = list(_hits())
    return [
        Figure(f"false hits in {PAIRS:,} pairs", _false_hits(), "", 0),
        *(Figure(f"hits after {name}", 100 * part, "%", 99, least=True) for name, part in hits),
    ]


def _false_hits() -> int:
    """Pairs of inputs that differ in one place and have one key."""
    dice = random.Random(7)
    false = 0
    for _ in range(PAIRS):
        one = _inputs(dice)
        other = _changed(one, dice)
        false += keys.key(one) == keys.key(other)
    return false


def _inputs(dice: random.Random) -> keys.Inputs:
    def words() -> tuple[str, ...]:
        return tuple(dice.choices(_WORDS, k=dice.randint(0, 4)))

    def pairs() -> tuple[tuple[str, str], ...]:
        return tuple(zip(words(), words(), strict=False))

    return keys.Inputs(
        dice.choice(("object", "shared", "exe")), f"{dice.random()}", words(), f"{dice.random()}", pairs(),
        words(), pairs(), words(), pairs(), dice.choice(("", "tune", "normal")), words(), dice.choice(_WORDS),
    )  # fmt: skip


def _changed(one: keys.Inputs, dice: random.Random) -> keys.Inputs:
    """``one`` with a single field changed; where it can be, only in order or by moving a word's end."""
    while True:
        name = dice.choice([field.name for field in fields(one)])
        was: Any = getattr(one, name)
        now: Any
        if isinstance(was, str):
            now = dice.choice((was + "x", was[:-1], was.swapcase(), was + " "))
        else:
            listed = list(was)
            match dice.randint(0, 3):
                case 0:
                    listed.append(("n", "v") if name in ("headers", "stamps", "environ") else "w")
                case 1 if listed:
                    listed.pop(dice.randrange(len(listed)))
                case 2:
                    dice.shuffle(listed)
                case _ if len(listed) > 1 and all(isinstance(word, str) for word in listed):
                    listed[0:2] = [listed[0] + listed[1]]
            now = tuple(listed)
        if now != was:
            return replace(one, **{name: now})


def _hits() -> Iterator[tuple[str, float]]:
    """The part of all outputs whose key stays, after each change that must not matter."""
    with projects.workshop() as folder:
        root = projects.write(folder / "first", 5)
        before = _keys(root)
        moved = folder / "elsewhere" / "a longer name"
        shutil.copytree(root, moved)
        yield "a move", _same(before, _keys(moved))
        for path in root.rglob("*"):
            os.utime(path, ns=(10**18, 10**18))
        yield "a touch", _same(before, _keys(root))
        for name, change in {
            "another home": {"HOME": str(folder), "USER": "other", "TMPDIR": str(folder)},
            "another locale": {"LC_ALL": "C.UTF-8", "LANG": "de_DE.UTF-8", "TZ": "Asia/Tokyo"},
        }.items():
            with _environment(change):
                yield name, _same(before, _keys(root))


def _keys(root: Path) -> Mapping[str, str]:
    made = generate.generate(root, mode="tune")
    writing.write(made)
    return {output: one.key for output, one in front.keyed(made, made.graph.edges).items()}


def _same(before: Mapping[str, str], after: Mapping[str, str]) -> float:
    return sum(after.get(output) == key for output, key in before.items()) / len(before)


@contextmanager
def _environment(change: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(change)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)

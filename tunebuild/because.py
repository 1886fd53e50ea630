"""Why an output is made again: what it was made of last time, kept beside the build's state for `--explain`.

What outputs share (flag sets, lists of headers) is written once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path

from tunebuild import emit, keys
from tunebuild.keys import Inputs

NAMES = tuple(each.name for each in fields(Inputs))


def remember(path: Path, made: Mapping[str, Inputs]) -> None:
    """Add outputs that are there now; those of other targets stay."""
    if made:
        _write(path, {**read(path), **made})


def read(path: Path) -> dict[str, Inputs]:
    """By output; nothing from a file of another version, or a damaged one."""
    try:
        found = json.loads(path.read_text())
        if found["names"] != list(NAMES):
            return {}
        shared = [_tuples(value) for value in found["shared"]]
        return {
            output: Inputs(*(shared[value] if isinstance(value, int) else value for value in values))  # type: ignore[arg-type]
            for output, values in found["outputs"].items()
        }
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return {}


def reasons(before: Mapping[str, Inputs], now: Mapping[str, Inputs]) -> Iterator[str]:
    """A line for every output that must be made."""
    for output, inputs in now.items():
        if output not in before:
            yield f"{output}: it was never made here"
        else:
            yield f"{output}: {keys.difference(before[output], inputs) or 'it is gone, or was changed by hand'}"


def _tuples(value: object) -> object:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _write(path: Path, made: Mapping[str, Inputs]) -> None:
    places: dict[object, int] = {}
    outputs = {
        output: [
            places.setdefault(value, len(places)) if isinstance(value, tuple) else value
            for value in (getattr(inputs, name) for name in NAMES)
        ]
        for output, inputs in made.items()
    }
    document = {"names": NAMES, "shared": list(places), "outputs": outputs}
    emit.write_if_changed(path, json.dumps(document, separators=(",", ":")))

"""What the tree would measure now, as digests by seat: the other half of a sidecar's `built`. Pure.

A seat's digests cover everything its race depends on and nothing else: the text of every row, companion and
reference (comments and layout aside), the project headers they include, flags, compilers, how calls are
built and timed, and the protocol. A digest that differs makes that seat stale, and its name says why.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path

from tunebuild import codegen, keys
from tunebuild.document import Built, Json
from tunebuild.measure import PROTOCOL_VERSION, Measure
from tunebuild.model import REFERENCE
from tunebuild.plan import Plan, PlannedFamily, PlannedFunction, flags_of_rows

_SHORT = 16  # hexadecimal digits kept of a digest that a person may read


def _short(value: object) -> str:
    text = json.dumps(value, sort_keys=True, default=str)
    return keys.digest(text.encode())[:_SHORT]


def digests(
    plan: Plan,
    files: Mapping[str, str],
    headers: Mapping[str, tuple[Path, ...]],
    compilers: Mapping[tuple[str, str], str],
    read: Mapping[Path, str],
) -> dict[str, Built]:
    """By seat key, and by name for each companion with a seat of its own.

    ``files``: the generated rows. ``headers``: the project headers of each, and of each body by its path.
    ``compilers``: "version identity" by (project, toolchain). ``read``: the text of
    every header, reference, oracle and support file.
    """
    protocol = f"{PROTOCOL_VERSION} {_short(asdict(Measure.from_overrides(plan.manifest.measure)))}"
    found: dict[str, Built] = {}
    texts: dict[str, str] = {}  # normal form by path: headers are shared, rows are not
    for planned in plan.families:
        common = _family_digests(plan, planned, files, headers, compilers, read, texts)
        common["protocol"] = protocol
        own = planned.functions[0]
        for seat in planned.family.seats:
            entry = dict(common)
            entry["workload"] = _short([_calls(own), seat.when, [asdict(each) for each in own.workloads]])
            found[seat.key] = entry
        for function in planned.functions[1:]:
            if function.companion and function.companion.own_seat:
                entry = dict(common)
                entry["workload"] = _short([_calls(function), [asdict(each) for each in function.workloads]])
                found[function.name] = entry
    return found


def _family_digests(
    plan: Plan,
    planned: PlannedFamily,
    files: Mapping[str, str],
    headers: Mapping[str, tuple[Path, ...]],
    compilers: Mapping[tuple[str, str], str],
    read: Mapping[Path, str],
    texts: dict[str, str],
) -> dict[str, Json]:
    family, root = planned.family, planned.family.project.root
    flags = flags_of_rows(family)
    generated = f"{plan.manifest.project.root}{os.sep}{codegen.GENERATED}{os.sep}"
    sources: list[tuple[str, str]] = []
    found: dict[Path, None] = {}
    for row in planned.built:
        for function in planned.functions:
            path = codegen.row_path(family.name, function.name, row.suffix)
            sources.append((codegen.symbol(function.name, row.suffix), keys.text_digest(files[path])))
            found |= dict.fromkeys(headers.get(path, ()))
    for name, body in (*bodies(planned), *called(plan, planned)):
        sources.append((name, _text(str(body), read[body], texts)))
        found |= dict.fromkeys(headers.get(os.fspath(body), ()))
    included: dict[str, Json] = {
        _name(header, root): _text(str(header), read[header], texts)[:_SHORT]
        for header in found
        if not str(header).startswith(generated)
    }
    made = {header.name for header in found if str(header).startswith(generated)}
    constants = [
        module.constants
        for module in plan.manifest.modules
        if module.name == family.module or codegen.constants_header(module.name) in made
    ]
    used = tuple(dict.fromkeys(row.toolchain for row in planned.built))
    if "" not in used:  # the default compiler makes the reference, the fills and the control
        used = ("", *used)
    return {
        "source": _short([sources, constants, [f.function.text for f in planned.functions]]),
        "headers": included,
        "flags": _short([family.project.cflags, [(row.suffix, flags(row)) for row in planned.built]]),
        "compiler": "; ".join(compilers[family.project.name, name] for name in used),
    }


@functools.lru_cache(maxsize=4096)
def _name(header: Path, root: Path) -> str:
    return Path(os.path.relpath(header, root)).as_posix()


def bodies(planned: PlannedFamily) -> Iterable[tuple[str, Path]]:
    """What people wrote of a family in C: references, oracle, support."""
    for function in planned.functions:
        yield codegen.symbol(function.name, REFERENCE), function.reference
    if planned.family.oracle:
        yield "oracle", planned.family.oracle
    for path in planned.family.support:
        yield path.name, path


def called(plan: Plan, planned: PlannedFamily) -> Iterable[tuple[str, Path]]:
    """The references of other families that `prepare` calls: they make the data that this one works on."""
    own = {function.name for function in planned.functions}
    names = {call.function for function in planned.functions for call in function.prepare} - own
    for other in plan.families if names else ():
        for function in other.functions:
            if function.name in names:
                yield codegen.symbol(function.name, REFERENCE), function.reference


def _text(name: str, text: str, texts: dict[str, str]) -> str:
    if name not in texts:
        data = text.encode(errors="surrogateescape")
        texts[name] = keys.text_digest(text) if keys.is_c(name) else keys.digest(data)
    return texts[name]


def _calls(function: PlannedFunction) -> object:
    """How a call is built: what a race measures beside code. The gate's cases decide no time."""
    return [
        [asdict(argument) for argument in function.args],
        [asdict(call) for call in function.prepare],
    ]

"""The schema of a sidecar that leaves its box, and a checker for the few keywords that it uses.

The schema is ordinary JSON Schema (docs of other languages validate against it); `problems` reads the same
table, so that sending and receiving need no further package.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tunebuild.document import Json

_END = r"(?![\s\S])"  # the very end in every dialect; a `$` of some lets a newline follow
_NAME = f"^[A-Za-z0-9_.-]{{1,64}}{_END}"
_NAME_OR_EMPTY = f"^[A-Za-z0-9_.-]{{0,64}}{_END}"
_SAFE = f"^[ !#-&(-;=?-\\[\\]-_a-~]*{_END}"  # printable ASCII without markup and quotes
_BOX_FIELD = r"[ !#-&(-;=?-\[\]-_a-{}~]"  # the same without the separator
_SCALAR: Mapping[str, Json] = {"type": ["string", "number"], "pattern": _SAFE, "maxLength": 1024}
_BOX: Mapping[str, Json] = {
    "type": "string",
    "pattern": rf"^{_BOX_FIELD}+\|{_BOX_FIELD}+\|{_BOX_FIELD}*\|{_BOX_FIELD}*\|{_BOX_FIELD}+{_END}",
    "maxLength": 512,
}
_METRICS: Mapping[str, Json] = {
    "type": "object",
    "propertyNames": {"pattern": _NAME},
    "additionalProperties": {"type": "number"},
}
_RACE: Mapping[str, Json] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "winner": {"type": "string", "pattern": _NAME_OR_EMPTY},
        "fallback": {"type": "string", "pattern": _NAME_OR_EMPTY},
        "demoted": {"type": "string", "pattern": _NAME},
        "rejected": {"type": "string", "pattern": f"^[A-Za-z0-9_.; -]*{_END}", "maxLength": 16384},
        "margin_pct": {"type": "number"},
        "floor_pct": {"type": "number"},
        "rows": {
            "type": "object",
            "propertyNames": {"pattern": _NAME},
            "maxProperties": 128,
            "additionalProperties": dict(_METRICS),
        },
    },
}
SCHEMA: Mapping[str, Json] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "A tunebuild sidecar as boxes share it",
    "type": "object",
    "required": ["kernels", "provenance"],
    "additionalProperties": False,
    "properties": {
        "kernels": {
            "type": "object",
            "propertyNames": {"pattern": _NAME},
            "minProperties": 1,
            "maxProperties": 512,
            "additionalProperties": {"type": "string", "pattern": _NAME},
        },
        "runtime": {
            "type": "object",
            "propertyNames": {"pattern": _NAME},
            "maxProperties": 128,
            "additionalProperties": dict(_SCALAR),
        },
        "race": {
            "type": "object",
            "propertyNames": {"pattern": _NAME},
            "maxProperties": 512,
            "additionalProperties": dict(_RACE),
        },
        "provenance": {
            "type": "object",
            "required": ["box"],
            "propertyNames": {"pattern": _NAME},
            "maxProperties": 128,
            "properties": {"box": dict(_BOX)},
            "additionalProperties": dict(_SCALAR),
        },
        "built": {
            "type": "object",
            "propertyNames": {"pattern": _NAME},
            "maxProperties": 512,
            "additionalProperties": {"type": "object", "maxProperties": 32},
        },
    },
}

_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "object": dict, "array": list, "string": str, "boolean": bool, "number": (int, float), "null": type(None),
}  # fmt: skip


def problems(value: Json, schema: Mapping[str, Json] = SCHEMA, where: str = "") -> tuple[str, ...]:
    """Everything in ``value`` that the schema forbids, each with its place; () for a valid document."""
    place = where or "the document"
    if wrong := _type_problem(value, schema, place):
        return (wrong,)
    match value:
        case str():
            return _text_problems(value, schema, place)
        case dict():
            return _object_problems(value, schema, where, place)
        case _:
            return ()


def _type_problem(value: Json, schema: Mapping[str, Json], place: str) -> str:
    wanted = schema.get("type")
    names = [wanted] if isinstance(wanted, str) else wanted if isinstance(wanted, list) else []
    kinds = [str(name) for name in names]
    fits = any(
        isinstance(value, _TYPES[kind]) and (kind == "boolean") == isinstance(value, bool) for kind in kinds
    )
    return "" if fits or not kinds else f"{place} is not of type {' or '.join(kinds)}"


def _text_problems(value: str, schema: Mapping[str, Json], place: str) -> tuple[str, ...]:
    pattern, longest = schema.get("pattern"), schema.get("maxLength")
    found = []
    if isinstance(pattern, str) and not re.search(pattern, value):
        found.append(f"{place} holds {value[:60]!r}, which is not allowed there")
    if isinstance(longest, int) and len(value) > longest:
        found.append(f"{place} is longer than {longest}")
    return tuple(found)


def _object_problems(
    value: dict[str, Json], schema: Mapping[str, Json], where: str, place: str
) -> tuple[str, ...]:
    found: list[str] = []
    required, most, least = schema.get("required"), schema.get("maxProperties"), schema.get("minProperties")
    found += (
        [f"{place} lacks {name}" for name in required or [] if name not in value]
        if isinstance(required, list)
        else []
    )
    if isinstance(most, int) and len(value) > most:
        found.append(f"{place} has {len(value)} entries, more than {most}")
    if isinstance(least, int) and len(value) < least:
        found.append(f"{place} is empty")
    properties, others, names = (
        schema.get(k) for k in ("properties", "additionalProperties", "propertyNames")
    )
    for key, item in value.items():
        inner = f"{where}.{key}" if where else key
        if isinstance(names, dict):
            found += [f"{inner[:80]!r} is no name" for _ in _text_problems(key, names, "name")]
        own = properties.get(key) if isinstance(properties, dict) else None
        if isinstance(own, dict):
            found += problems(item, own, inner)
        elif others is False:
            found.append(f"{inner[:80]!r} is no section")
        elif isinstance(others, dict):
            found += problems(item, others, inner)
    return tuple(found)

"""The JSON Schema and the reference page of tune.toml, both derived from `tables`.

`python -m tunebuild.schema` writes tune.schema.json and docs/tune-toml.md; a test holds the committed files
equal to what this module says.
"""

from __future__ import annotations

import json
import types
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from tunebuild import features, measure
from tunebuild.cases import DEFAULT_SIZES, FILLS
from tunebuild.grid import FULL_HINTS, RESERVED_VALUES, SHORT_HINTS, hint_piece
from tunebuild.records import spelling
from tunebuild.tables import RootTable

SCHEMA_FILE = "tune.schema.json"
PAGE_FILE = "docs/tune-toml.md"
Json = dict[str, Any]


# --- JSON Schema -----------------------------------------------------------------------------------


def schema() -> Json:
    """The schema as a document that `json.dumps` takes; draft 7, which editors' TOML plugins read."""
    definitions: dict[str, Json] = {}
    root = _object(RootTable, definitions)
    root["properties"]["measure"] = _measure()
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "tune.toml",
        **root,
        "definitions": dict(sorted(definitions.items())),
    }


def schema_text() -> str:
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def _object(cls: Any, definitions: dict[str, Json]) -> Json:
    hints = get_type_hints(cls)
    properties: dict[str, Json] = {}
    extra: Json | bool = False
    required: list[str] = []
    for entry in fields(cls):
        if entry.metadata["rest"]:
            extra = _typed(get_args(hints[entry.name])[1], definitions)
            continue
        name = spelling(entry.name)
        described = {"description": str(entry.metadata["doc"])}
        default = _default(entry)
        if default is MISSING:
            required.append(name)
        elif default not in (None, {}):
            described |= {"default": default}
        typed = _typed(hints[entry.name], definitions)
        properties[name] = {"allOf": [typed], **described} if "$ref" in typed else {**typed, **described}
    made: Json = {"type": "object", "description": _first_line(cls), "properties": properties}
    made["additionalProperties"] = extra
    return {**made, "required": required} if required else made


def _typed(kind: Any, definitions: dict[str, Json]) -> Json:
    if is_dataclass(kind):
        name = getattr(kind, "__name__", "").removesuffix("Table").lower()
        if name not in definitions:
            definitions[name] = {}  # holds the place while its own keys are read
            definitions[name] = _object(kind, definitions)
        return {"$ref": f"#/definitions/{name}"}
    plain = {str: "string", bool: "boolean", int: "integer", float: "number"}
    if kind in plain:
        return {"type": plain[kind]}
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is tuple:
        return {"type": "array", "items": _typed(arguments[0], definitions)}
    if origin in (Union, types.UnionType):
        parts = [_typed(argument, definitions) for argument in arguments if argument is not types.NoneType]
        return _merged(parts)
    return {"type": "object", "additionalProperties": _typed(arguments[1], definitions)}


def _merged(parts: list[Json]) -> Json:
    """Alternatives; plain types need no `anyOf`, and an integer is a number."""
    if len(parts) == 1:
        return parts[0]
    names = [part["type"] for part in parts if set(part) == {"type"}]
    if len(names) == len(parts):
        kept = [name for name in names if name != "integer" or "number" not in names]
        return {"type": kept[0] if len(kept) == 1 else kept}
    return {"anyOf": parts}


def _measure() -> Json:
    kinds = {int: "integer", float: "number", str: "string"}
    properties = {
        name: {"type": kinds[type(default)], "description": doc, "default": default}
        for name, default, doc in measure.constant_docs()
    }
    doc = "Constants of the race, by name."
    return {"type": "object", "description": doc, "properties": properties, "additionalProperties": False}


def _default(entry: Field[Any]) -> Any:
    if entry.default_factory is not MISSING:
        return entry.default_factory()
    return list(entry.default) if isinstance(entry.default, tuple) else entry.default


def _first_line(cls: Any) -> str:
    return str(cls.__doc__).strip().split("\n")[0]


# --- the reference page ----------------------------------------------------------------------------

_INTRO = """\
# tune.toml

Generated from `tunebuild/tables.py` by `python -m tunebuild.schema`; edit that file instead.

Tables are keyed by name, so a change is a small diff. Unknown keys and names are errors. All mistakes of a
project are reported at once, each with file, line, column, key and what to write instead. Paths are relative
to the file, those of references, templates, sources, oracles and support files to the templates folder;
none may lead out of the project. The smallest file:

```toml
[project]
name = "mine"

[family.dot]
prototype = "float dot(const float *a, const float *b, size_t n)"

[family.dot.grid.axes]
isa = ["base", "avx2"]
u = [1, 2, 4]
```
"""


def page() -> str:
    """The reference page, Markdown."""
    parts = [_INTRO, *(_section(path, cls) for path, cls in _tables(RootTable, "")), _measure_section()]
    return "\n".join([*parts, _calls_section(), _rows_section(), _language_section(), _features_section()])


def _tables(cls: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every table below ``cls`` with its header as written, depth first."""
    for name, kind in get_type_hints(cls).items():
        key = f"{path}.{spelling(name)}" if path else spelling(name)
        for shape, inner in _inner_tables(kind):
            header = {"table": key, "named": f"{key}.NAME", "array": key}[shape]
            yield (f"[[{header}]]" if shape == "array" else f"[{header}]"), inner
            yield from _tables(inner, header)


def _inner_tables(kind: Any) -> Iterator[tuple[str, Any]]:
    arguments = get_args(kind)
    if is_dataclass(kind):
        yield "table", kind
    elif get_origin(kind) is tuple and is_dataclass(arguments[0]):
        yield "array", arguments[0]
    elif get_origin(kind) in (Union, types.UnionType):
        yield from (("table", argument) for argument in arguments if is_dataclass(argument))
    elif len(arguments) == 2 and is_dataclass(arguments[1]):
        yield "named", arguments[1]


def _section(header: str, cls: Any) -> str:
    lines = [f"## `{header}`", "", _doc(cls), ""]
    if ".companion.NAME." in header:  # the same tables as a family's
        same = header.replace(".companion.NAME", "")
        return "\n".join([*lines, f"As in `{same}`.", ""])
    hints = get_type_hints(cls)
    lines += ["| key | type | default | meaning |", "|---|---|---|---|"]
    for entry in fields(cls):
        name = "any other" if entry.metadata["rest"] else f"`{spelling(entry.name)}`"
        kind = hints[entry.name]
        words = _words(get_args(kind)[1] if entry.metadata["rest"] else kind)
        lines.append(f"| {name} | {words} | {_shown_default(entry)} | {_cell(str(entry.metadata['doc']))} |")
    return "\n".join([*lines, ""])


def _doc(cls: Any) -> str:
    return " ".join(str(cls.__doc__).split())


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _words(kind: Any) -> str:
    """A type in the words of TOML."""
    plain = {str: "string", bool: "boolean", int: "integer", float: "number"}
    if kind in plain:
        return plain[kind]
    if is_dataclass(kind):
        return "table"
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return ", ".join(f"`{word}`" for word in arguments if word)
    if origin is tuple:
        return f"array of {_plural(_words(arguments[0]))}"
    if origin in (Union, types.UnionType):
        words = [_words(argument) for argument in arguments if argument is not types.NoneType]
        if set(words) == {"integer", "number"}:
            return "number"
        return "boolean, number or string" if len(words) == 4 else " or ".join(words)
    return f"{_plural(_words(arguments[1]))} by name"


def _plural(words: str) -> str:
    if "by name" in words:
        return "tables of " + words
    return (
        "values" if "," in words else f"{words}s" if words.isalpha() else words.replace("array", "arrays", 1)
    )


def _shown_default(entry: Field[Any]) -> str:
    default = _default(entry)
    if default is MISSING:
        return "required"
    if default in (None, "", [], {}):
        return ""
    return f"`{json.dumps(default)}`"


def _measure_section() -> str:
    lines = ["## `[measure]`", "", "Constants of the race, by name; all optional.", ""]
    lines += ["| key | default | meaning |", "|---|---|---|"]
    lines += [f"| `{name}` | `{json.dumps(value)}` | {doc} |" for name, value, doc in measure.constant_docs()]
    return "\n".join([*lines, ""])


CALLS_EXAMPLE = """\
[family.scale]
prototype = "void scale(const float *w, float *y, size_t m, size_t k)"
layout = ["mr"]
prepare = ["scale_pack(w0, w, m, k)"]

[family.scale.grid.axes]
mr = [4, 8]

[family.scale.args]
w0 = { in = "f32[m*k]" }                         # no parameter of scale: a buffer beside the call
w = { scratch = "f32[ceil_div(m, mr)*mr*k]" }    # what scale_pack makes of it, in the row's layout
y = { out = "f32[m]" }

[family.scale.workload.usual]
m = 64
k = 64

[family.scale.companion.scale_pack]
prototype = "void scale_pack(const float *w0, float *w, size_t m, size_t k)"
"""


def _calls_section() -> str:
    return f"""\
## Calls, buffers and prepare

`args` describes each pointer of the prototype by its parameter's name. A name that is no parameter is one
more buffer: the row does not see it, `prepare`, `pointers` and other sizes may use it. Integers and floats
need no table: workloads and gate sizes give their values.

A `prepare` call is `function(argument, argument)`, without types and in the order of the function's
prototype. An argument is a buffer of `args`, a scalar, or an integer as written. The calls run in file order
before the timed window, for the gate and for the race. A companion is called with the row under test, so it
packs what that very row reads; a family or a support function is the same for every row.

```toml
{CALLS_EXAMPLE}```

A support function that `fill` names has the prototype `void NAME(void *data, size_t count, uint64_t seed)`.
"""


def _rows_section() -> str:
    full = ", ".join(hint_piece(*hint) for hint in FULL_HINTS)
    short = ", ".join(hint_piece(*hint) for hint in SHORT_HINTS)
    sizes = ", ".join(map(str, DEFAULT_SIZES))
    return f"""\
## Rows, suffixes and chains

Grid order is the product of the axes, the last one fastest, then single rows in file order. A suffix is made
of one piece for each value, joined by `_`: `k = 2` is `k2`, `budget = true` is `budget`, `prefetch = false`
is `noprefetch`, `isa = "amx"` is `isa_amx`, `r = 0.5` is `r0d5`. It must be of letters, digits and `_`, and
unique; else give the row its own. `reference` is reserved as a row's name and legal in chains. A row requires
its instruction set's features and its own; a row without `isa` gets the compiler flag of each feature that it
requires outside alternatives. A template has the names {_listed(RESERVED_VALUES)}:
no value may take one.

Loop hints, `full`: {full}.
`short`: {short}.
With axes their pieces stand in front, such as `isa_avx2_vec8_u2`; chains and pins may name a row of
`isa = "base"` by its hints alone. A row has the values `vec` (lanes, 0 says nothing) and `unroll` (copies of
the body, 1 says nothing).

Default gate sizes: {sizes}, for every integer scalar that a buffer's size uses.
Several scalars go through those up to 65 together, then each alone with the others at 17, 60 cases at most. A
size that `domain` removes is replaced by the next one above that fulfils it, rounded to a power of two.
Fills: {_listed(FILLS)}.
"""


def _language_section() -> str:
    return """\
## Expressions

`+ - * / // %`, comparison, `and or not`, `in` a written list such as `(1, 2)`, `min max ceil_div`,
parentheses, quoted text, `true` and `false`. `/` gives a fraction, `//` and `%` round down. Integers are of
64 bits; what does not fit is an error. `where` sees a row's values; `when` the prototype's integers (integers
alone, divisors as written); `work`, sizes, `count` and `domain` the scalars of the workload; `scratch` sizes
the row's values as well; `valid` the scalars and `return`.
"""


def _features_section() -> str:
    lines = [
        "## Instruction sets and features",
        "",
        "Built-in instruction sets; a table of the same name replaces one.",
        "",
    ]
    lines += ["| isa | requires | cflags |", "|---|---|---|"]
    for isa in features.BUILTIN_ISAS:
        lines.append(f"| `{isa.name}` | `{isa.requires}` | `{' '.join(isa.cflags)}` |".replace("``", ""))
    lines += ["", "Features that `requires` may name: `,` is AND, `\\|` is OR.".replace("\\", ""), ""]
    lines += ["| feature | architecture | flag |", "|---|---|---|"]
    for feature in features.FEATURES:
        flag = features.compiler_flag(feature.name)
        lines.append(f"| `{feature.name}` | {feature.arch} | `{flag}` |".replace("``", ""))
    return "\n".join([*lines, ""])


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def write(root: Path) -> Mapping[str, bool]:
    """Write both files under ``root``; says which of them changed."""
    from tunebuild import emit

    texts = {SCHEMA_FILE: schema_text(), PAGE_FILE: page()}
    return {name: emit.write_if_changed(root / name, text) for name, text in texts.items()}


if __name__ == "__main__":
    for name, changed in write(Path(__file__).resolve().parents[1]).items():
        print(f"{name}: {'written' if changed else 'unchanged'}")

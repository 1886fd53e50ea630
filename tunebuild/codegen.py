"""Plan -> {path: C text}. Pure: what is written is decided here, `emit` writes it.

Paths are relative to the project's root. One function a file; a generated file names the template and row
that made it and holds no date and no absolute path.

    generated/include/    the public header of each app, the runtime's headers, module constants
    generated/rows/       one file a row: FAMILY/SYMBOL.c, SYMBOL being NAME__SUFFIX
    generated/reference/  NAME__reference from the hand-written body
    generated/tune/       per family: entries that serve the reference, registries, the worker's driver
    generated/normal/     per app and family: the entry that serves the winner
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from tunebuild import expressions, resolve
from tunebuild.model import (
    REFERENCE,
    App,
    Call,
    Declined,
    Family,
    Function,
    Manifest,
    Parameter,
    Row,
    Stamp,
    Stamps,
)
from tunebuild.plan import Plan, PlannedFamily, PlannedFunction, functions_of

GENERATED = "generated"
RUNTIME_HEADERS = ("tunebuild.h", "tb_loop.h", "tb_driver.h")

_C_ELEMENT = {
    "float": "f32", "double": "f64", "int8_t": "i8", "int16_t": "i16", "int32_t": "i32", "int64_t": "i64",
    "uint8_t": "u8", "uint16_t": "u16", "uint32_t": "u32", "uint64_t": "u64", "size_t": "u64", "int": "i32",
    "unsigned": "u32", "unsigned int": "u32", "long": "i64", "unsigned long": "u64", "char": "i8",
    "signed char": "i8", "unsigned char": "u8", "short": "i16", "unsigned short": "u16", "long long": "i64",
    "unsigned long long": "u64", "ptrdiff_t": "i64", "_Float16": "f16", "__bf16": "bf16", "bool": "u8",
    "_Bool": "u8",
}  # fmt: skip


def symbol(function: str, suffix: str) -> str:
    return f"{function}__{suffix}"


def identifier(name: str) -> str:
    """An app's name as a C identifier, the NAME of `NAME_tune_status`."""
    return re.sub(r"\W", "_", name)


def with_symbol(function: Function, name: str) -> str:
    """The prototype of ``function`` under another name, without a semicolon."""
    before, after = _around(function.name, function.text)
    return f"{before}{name}{after}"


_CALLED = re.compile(r"\b\w+\b(?=\s*\()")


@functools.lru_cache(maxsize=4096)
def _around(name: str, text: str) -> tuple[str, str]:
    """A prototype's text before and after the function's name; every row asks for it."""
    found = next(match for match in _CALLED.finditer(text) if match[0] == name)
    return text[: found.start()], text[found.end() :]


def _arguments(function: Function) -> str:
    return ", ".join(parameter.name for parameter in function.parameters)


def _call(function: Function, target: str) -> str:
    """A statement that calls ``target`` with the function's own arguments and returns what it returns."""
    return f"{'' if function.returns == 'void' else 'return '}{target}({_arguments(function)});"


@functools.lru_cache(maxsize=65_536)
def _relative(path: Path, root: Path, folder: str) -> str:
    return Path(os.path.relpath(path, root / folder)).as_posix()


# --- rows and references -------------------------------------------------------------------------


def constants_header(module: str) -> str:
    return f"{identifier(module)}_constants.h"


def _constants_include(manifest: Manifest, family: Family) -> str:
    held = any(module.name == family.module and module.constants for module in manifest.modules)
    return f'#include "{constants_header(family.module)}"\n' if held else ""


def row_words(row: Row) -> str:
    return " ".join(f"{name}={value}" for name, value in row.values) or row.suffix


def row_path(family: str, function: str, suffix: str) -> str:
    return f"{GENERATED}/rows/{family}/{symbol(function, suffix)}.c"


def row_writer(plan: Plan, planned: PlannedFunction) -> Callable[[Row, str | Declined], str]:
    """A function (row, its template's text) -> the text of the row's file: the template's under a heading, or a
    call of the reference body. What all rows of a function share is put together once."""
    made_from = planned.template or planned.family.source or planned.family.reference
    origin = _relative(made_from, plan.manifest.project.root, "")
    constants = _constants_include(plan.manifest, planned.family)
    includes = f"#include <stddef.h>\n#include <stdint.h>\n{constants}\n"
    reference = symbol(planned.name, REFERENCE)

    def written(row: Row, text: str | Declined) -> str:
        name = symbol(planned.name, row.suffix)
        prototype = with_symbol(planned.function, name)
        head = f"/* {name}: generated from {origin}, row {row_words(row)}. */\n{includes}{prototype};\n\n"
        if isinstance(text, str):
            return head + text.lstrip("\n")
        return (
            f"{head}/* The template declined: {text.why.replace('*/', '* /')}. The reference body serves. */\n"
            f"{with_symbol(planned.function, reference)};\n\n"
            f"{prototype}\n{{\n    {_call(planned.function, reference)}\n}}\n"
        )

    return written


def hint_text(plan: Plan, planned: PlannedFunction, row: Row) -> str:
    """The text of a loop-hint row: the one source under the row's symbol and hints."""
    values = dict(row.values)
    source = planned.family.source or planned.reference
    inside = _relative(source, plan.manifest.project.root, f"{GENERATED}/rows/{planned.family.name}")
    return (
        f"#define TB_VEC {values.get('vec', 0)}\n#define TB_UNROLL {values.get('unroll', 0)}\n"
        f'#include "tb_loop.h"\n#define {planned.name} {symbol(planned.name, row.suffix)}\n'
        f'#include "{inside}"\n'
    )


def reference_sources(plan: Plan) -> dict[str, str]:
    files: dict[str, str] = {}
    for planned in plan.families:
        for function in planned.functions:
            body = function.reference
            files |= _reference_file(plan.manifest, planned.family, function.function, body, REFERENCE)
        if planned.family.oracle:
            own = planned.functions[0].function
            files |= _reference_file(plan.manifest, planned.family, own, planned.family.oracle, "oracle")
    return files


def _reference_file(
    manifest: Manifest, family: Family, function: Function, body: Path, suffix: str
) -> dict[str, str]:
    """The body under another name, then its prototype: the compiler refuses a body of another signature."""
    inside = _relative(body, manifest.project.root, f"{GENERATED}/reference")
    name, renamed = function.name, symbol(function.name, suffix)
    return {
        f"{GENERATED}/reference/{renamed}.c": (
            f"/* {renamed}: the hand-written body under the name of its row. */\n"
            f"#include <stddef.h>\n#include <stdint.h>\n{_constants_include(manifest, family)}"
            f'#include "tb_loop.h"\n#define {name} {renamed}\n#include "{inside}"\n'
            f"{with_symbol(function, renamed)}; /* as tune.toml declares it */\n"
        )
    }


# --- headers -------------------------------------------------------------------------------------


def constants_headers(manifest: Manifest) -> dict[str, str]:
    files = {}
    for module in manifest.modules:
        if module.constants:
            guard = f"{identifier(module.name).upper()}_CONSTANTS_H"
            lines = "".join(f"#define {name} {value}\n" for name, value in module.constants)
            files[f"{GENERATED}/include/{constants_header(module.name)}"] = (
                f"/* The constants of module {module.name}. */\n#ifndef {guard}\n#define {guard}\n{lines}#endif\n"
            )
    return files


def header(manifest: Manifest, app: App) -> str:
    """The public header of one app: every family and companion, the registries, the status interface."""
    name = identifier(app.name)
    guard = f"{name.upper()}_H"
    families = resolve.app_families(manifest, app)
    modules = tuple(dict.fromkeys(family.module for family in families))
    constants = "".join(
        f'#include "{constants_header(module.name)}"\n'
        for module in manifest.modules
        if module.constants and module.name in modules
    )
    # With `guard = "manual"` the author calls it first in main, and returns what is not 0.
    guard_line = f"int {name}_tune_guard(int argc, char **argv);\n" if app.kind == "exe" else ""
    parts = []
    for family in families:
        for function in functions_of(family):
            parts.append(
                f"{function.function.text};\nconst tb_variant *{function.name}_variants(size_t *count);\n"
            )
    return f"""\
/* {app.name}: the tuned functions. Their winners are data; callers do not change. */
#ifndef {guard}
#define {guard}
#include <stdio.h>
#include "tunebuild.h"
#include "tb_loop.h"
{constants}
#ifdef __cplusplus
#define restrict __restrict
extern "C" {{
#endif

{chr(10).join(parts)}
/* What each seat runs and on whose measurement; 0 from the check, or not 0: the stamps need features that
 * this CPU lacks. */
const tb_tune_row *{name}_tune_status(size_t *count);
void {name}_log_tune_status(FILE *to, const char *app);
int {name}_tune_check(void);
void {name}_tune_suppress(const char *knob);
{guard_line}
#ifdef __cplusplus
}}
#undef restrict
#endif
#endif
"""


# --- the tune binary -----------------------------------------------------------------------------


def _registry(function: PlannedFunction, suffixes: Iterable[str]) -> str:
    lines = "".join(
        f'    {{"{suffix}", (tb_fn){symbol(function.name, suffix)}}},\n' for suffix in (REFERENCE, *suffixes)
    )
    return (
        f"static const tb_variant {function.name}_rows[] = {{\n{lines}}};\n\n"
        f"TB_EXPORT const tb_variant *{function.name}_variants(size_t *count)\n{{\n"
        f"    *count = sizeof {function.name}_rows / sizeof *{function.name}_rows;\n"
        f"    return {function.name}_rows;\n}}\n"
    )


def buffers_of(function: PlannedFunction) -> tuple[str, ...]:
    """The arguments that are memory, in the order of a driver's `buffers`."""
    return tuple(argument.name for argument in function.args if argument.kind != "scalar")


def scalars_of(function: PlannedFunction) -> tuple[str, ...]:
    """The scalars of a driver: the prototype's in its order, then those that only workloads name."""
    own = [parameter.name for parameter in function.function.parameters if not parameter.pointer]
    check_names = [name for size in (function.check.sizes if function.check else ()) for name, _ in size]
    named = [name for workload in function.workloads for name, _ in workload.scalars]
    return tuple(dict.fromkeys((*own, *named, *check_names)))


def _scalar_c(parameter: Parameter, index: int) -> str:
    plain = parameter.ctype.replace("const", "").strip()
    part = "f" if plain in ("float", "double", "_Float16", "__bf16") else "i"
    return f"({plain})s[{index}].{part}"


def _argument_list(
    function: Function, buffers: tuple[str, ...], scalars: tuple[str, ...], names: Iterable[str], base: str
) -> str:
    """C expressions for a call of ``function`` with the named buffers and scalars of a driver."""
    parts = []
    for parameter, name in zip(function.parameters, names, strict=True):
        if parameter.pointer:
            parts.append(f"{base}[{buffers.index(name)}]")
        elif re.fullmatch(r"[+-]?\d+", name):
            parts.append(name)
        else:
            parts.append(_scalar_c(parameter, scalars.index(name)))
    return ", ".join(parts)


def _driver(planned: PlannedFamily, function: PlannedFunction, prototypes: Mapping[str, Function]) -> str:
    """The worker's driver of one function: thunks that know its C prototype."""
    name, own = function.name, function.function
    buffers, scalars = buffers_of(function), scalars_of(function)
    names = [parameter.name for parameter in own.parameters]
    result_c = own.returns if own.returns != "void" else ""
    call = f"(({name}_type *)fn)({_argument_list(own, buffers, scalars, names, 'b')})"
    stored = f"*({result_c} *)result = {call};" if result_c else f"(void)result;\n    {call};"
    # A result that nobody reads could not be dropped (the call is indirect), but is summed all the same
    # so that a row's store of it costs every row alike.
    repeated = f"last = {call};" if result_c else f"{call};"
    keep = f"    volatile {result_c} last;\n" if result_c else ""
    keep_end = "    (void)last;\n" if result_c else ""
    text = f"""
typedef {with_symbol(own, f"{name}_type")};

static void {name}_call(tb_fn fn, void *const *b, const tb_scalar *s, void *result)
{{
    (void)b, (void)s;
    {stored}
}}

static void {name}_loop(tb_fn fn, void *const *sets, size_t copies, const tb_scalar *s, uint64_t reps)
{{
    size_t set = 0;
{keep}    (void)s;
    for (uint64_t r = 0; r < reps; r++) {{
        void *const *b = sets + set * {max(len(buffers), 1)};
        (void)b;
        {repeated}
        if (++set == copies) set = 0;
    }}
{keep_end}}}
"""
    if function.prepare:
        text += f"\nstatic void {name}_prepare(size_t row, void *const *b, const tb_scalar *s)\n{{\n"
        text += "    (void)row, (void)b, (void)s;\n"
        for prepared in function.prepare:
            text += f"    {_prepare_call(planned, prepared, prototypes, buffers, scalars)}\n"
        text += "}\n"
    return text


def _prepare_call(
    planned: PlannedFamily,
    prepared: Call,
    prototypes: Mapping[str, Function],
    buffers: tuple[str, ...],
    scalars: tuple[str, ...],
) -> str:
    siblings = {function.name for function in planned.functions}
    target = prototypes[prepared.function]
    listed = _argument_list(target, buffers, scalars, prepared.arguments, "b")
    if prepared.function in siblings:
        return f"(({prepared.function}_type *){prepared.function}_rows[row].fn)({listed});"
    return f"{prepared.function}({listed});"


def _prepared(plan: Plan, planned: PlannedFamily) -> dict[str, Function]:
    """The prototypes of the families and companions that this family's `prepare` calls."""
    named = {call.function for function in planned.functions for call in function.prepare}
    if not named:
        return {}
    return {
        other.name: other.function
        for each in plan.families
        for other in each.functions
        if other.name in named
    }


def tune_source(
    plan: Plan, planned: PlannedFamily, suffixes: tuple[str, ...], support: Mapping[str, Function]
) -> str:
    """One family's part of the tune binary: base functions, registries and drivers over ``suffixes``.

    ``support``: the prototypes of the support functions that `prepare` may call.
    """
    family = planned.family
    prototypes = _prepared(plan, planned) | dict(support)
    text = (
        f"/* {family.name} in the tune binary: base functions on the reference body, every row, the driver. */\n"
        f'#include "tb_driver.h"\n{_constants_include(plan.manifest, family)}'
    )
    for function in planned.functions:
        for suffix in (REFERENCE, *suffixes):
            text += f"{with_symbol(function.function, symbol(function.name, suffix))};\n"
        text += f"TB_EXPORT {function.function.text};\n\n"
        text += _registry(function, suffixes)
        text += (
            f"\nTB_EXPORT {function.function.text}\n{{\n    "
            f"{_call(function.function, symbol(function.name, REFERENCE))}\n}}\n\n"
        )
    if family.oracle:
        text += f"{with_symbol(family.function, symbol(family.name, 'oracle'))};\n"
    siblings = {function.name for function in planned.functions}
    for name in dict.fromkeys(call.function for function in planned.functions for call in function.prepare):
        if name not in siblings:
            text += f"{prototypes[name].text};\n"
    # A prepare call casts companions' rows to their types, so those types come first.
    driven = [function for function in planned.functions if function.driven]
    for function in planned.functions:
        if function not in driven:
            text += f"typedef {with_symbol(function.function, f'{function.name}_type')};\n"
    for function in sorted(driven, key=lambda each: each.companion is None):
        text += _driver(planned, function, prototypes)
    text += f"\nconst tb_driver {identifier(family.name)}_drivers[{len(driven)}] = {{\n"
    for function in driven:
        text += _driver_record(planned, function)
    return text + "};\n"


def _strings(names: tuple[str, ...]) -> str:
    listed = ", ".join(f'"{name}"' for name in names) or "0"
    return f"(const char *const[]){{{listed}}}"


def _driver_record(planned: PlannedFamily, function: PlannedFunction) -> str:
    buffers, scalars, name = buffers_of(function), scalars_of(function), function.name
    own = function.companion is None
    oracle = f"(tb_fn){symbol(name, 'oracle')}" if own and planned.family.oracle else "NULL"
    result = _C_ELEMENT.get(function.function.returns, "") if function.function.returns != "void" else ""
    return (
        f'    {{"{name}", "{result}", {len(buffers)}, {_strings(buffers)}, {len(scalars)}, {_strings(scalars)},\n'
        f"     sizeof {name}_rows / sizeof *{name}_rows, {name}_rows, {name}_call, {name}_loop,\n"
        f"     {f'{name}_prepare' if function.prepare else 'NULL'}, {oracle}}},\n"
    )


def drivers_source(families: Iterable[PlannedFamily], fills: Iterable[str]) -> str:
    """The list of all drivers, which the worker asks for by name, and the support fills."""
    listed = [(identifier(each.family.name), sum(f.driven for f in each.functions)) for each in families]
    listed.append(("tb_probe", 1))
    total = sum(count for _, count in listed)
    text = '/* Every driver of the tune binary. */\n#include <string.h>\n#include "tb_driver.h"\n'
    text += "".join(f"extern const tb_driver {name}_drivers[{count}];\n" for name, count in listed)
    text += f"\nTB_EXPORT const tb_driver *tb_drivers(size_t *count)\n{{\n    static tb_driver all[{max(total, 1)}];\n"
    at = 0
    for name, count in listed:
        text += f"    memcpy(all + {at}, {name}_drivers, sizeof {name}_drivers);\n"
        at += count
    text += f"    *count = {total};\n    return all;\n}}\n\n"
    names = tuple(dict.fromkeys(fills))
    text += "".join(f"void {name}(void *data, size_t count, uint64_t seed);\n" for name in names)
    rows = "".join(f'        {{"{name}", {name}}},\n' for name in names) or "        {0, 0},\n"
    text += (
        f"\nTB_EXPORT const tb_support *tb_supports(size_t *count)\n{{\n    static const tb_support all[] = {{\n{rows}"
        f"    }};\n    *count = {len(names)};\n    return all;\n}}\n"
    )
    return text


# --- the normal build ----------------------------------------------------------------------------


def function_suffix(planned: PlannedFunction, stamps: Stamps) -> tuple[tuple[str, str], ...]:
    """(seat condition, suffix) of one function in seat order; the last condition is ""."""
    family = planned.family
    by_seat = {stamp.seat: stamp.suffix for stamp in stamps.seats if stamp.family == family.name}
    if planned.companion is None:
        return tuple((seat.when, by_seat.get(seat.name, REFERENCE)) for seat in family.seats)
    own = dict(stamps.companions).get(planned.name)
    return (("", own or by_seat.get(family.seats[0].name, REFERENCE)),)


def stamps_by_family(plan: Plan, stamps: Stamps) -> dict[str, Stamps]:
    """Each family's own part of ``stamps``, so that thousands of families do not search each other's."""
    owner = {function.name: each.family.name for each in plan.families for function in each.functions}
    seats: dict[str, list[Stamp]] = {}
    for stamp in stamps.seats:
        seats.setdefault(stamp.family, []).append(stamp)
    companions: dict[str, list[tuple[str, str]]] = {}
    for name, suffix in stamps.companions:
        companions.setdefault(owner.get(name, ""), []).append((name, suffix))
    return {
        name: replace(stamps, seats=tuple(seats.get(name, ())), companions=tuple(companions.get(name, ())))
        for name in (each.family.name for each in plan.families)
    }


def entry_source(plan: Plan, planned: PlannedFamily, stamps: Stamps) -> str:
    """The family under its own name: a jump to the winner, a comparison for each further seat."""
    family = planned.family
    text = (
        f"/* {family.name}: the stamped entry; which row it serves is in the status table. */\n"
        f'#include "tunebuild.h"\n{_constants_include(plan.manifest, family)}'
    )
    for function in planned.functions:
        seats = [(when, symbol(function.name, suffix)) for when, suffix in function_suffix(function, stamps)]
        for target in dict.fromkeys(target for _, target in seats):
            text += f"{with_symbol(function.function, target)};\n"
        text += f"\nTB_EXPORT {function.function.text};\nTB_EXPORT {function.function.text}\n{{\n"
        for when, target in seats[:-1]:
            condition = expressions.to_c(expressions.parse(when))
            call = _call(function.function, target)
            end = "" if function.function.returns != "void" else " return;"
            text += f"    if ({condition}) {{ {call}{end} }}\n"
        text += f"    {_call(function.function, seats[-1][1])}\n}}\n"
        text += (
            f"\nTB_EXPORT const tb_variant *{function.name}_variants(size_t *count);\n"
            f"TB_EXPORT const tb_variant *{function.name}_variants(size_t *count)\n{{\n"
            f'    static const tb_variant rows[] = {{{{"{REFERENCE}", (tb_fn){function.name}}}}};\n'
            f"    *count = 1;\n    return rows;\n}}\n"
        )
    return text

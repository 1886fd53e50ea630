"""Every key that tune.toml may hold: its type, its default and what it means. One table, many readers.

`records` checks a file against these records, `schema` derives the JSON Schema and the reference page from
them. A record is a TOML table; a field is a key (a trailing underscore of its name is dropped, for Python's
keywords). A field without a default is required. Documentation strings are Markdown.
"""
# ruff: noqa: RUF009  (`key` only wraps dataclasses.field)

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field
from typing import Any, Literal

from tunebuild.model import Value

Strings = tuple[str, ...]
Text = str | tuple[str, ...]  # one string, or an array of them
Number = int | float


def key(doc: str, default: Any = MISSING, *, empty: Any = None, rest: bool = False) -> Any:
    """A key: its documentation and default. ``empty``: the type of an empty default, such as dict.
    ``rest``: the field takes every key of the table that no other field names."""
    metadata = {"doc": doc, "rest": rest}
    if empty is not None:
        return field(default_factory=empty, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectTable:
    """The project. Required."""

    name: str = key("The project's name, and that of its default app: the library of all families.")


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildTable:
    """How C is compiled. A used project keeps its own."""

    cc: str = key('The compiler\'s command line. `"auto"`: `$CC`, else gcc, clang, cc, then zig cc.', "auto")
    cflags: Strings = key(
        "Flags of every compile, and all flags of the reference bodies.", ("-O3", "-std=c17")
    )
    include: Strings | None = key(
        "Folders of C headers, relative to this file. Default: kernels/include where it is a folder.", None
    )
    templates: str = key(
        "The folder that references, templates and support files are relative to.", "kernels/templates"
    )
    launcher: str = key("A compiler launcher: ccache, sccache, distcc.", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolchainTable:
    """A named compiler, usable as the axis `toolchain`."""

    cc: str = key("The compiler's command line.")
    cflags: Strings = key("Flags after those of `[build]`.", ())
    optional: bool = key(
        "Where it is absent, its rows are skipped with one line, instead of an error.", False
    )
    target: str = key("The architecture it compiles for; empty for this machine.", "")
    run: str = key("An emulator for its binaries, such as `qemu-aarch64`.", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class IsaTable:
    """A named instruction set, usable as the axis `isa`."""

    requires: Text = key("CPU features: `,` is AND, `|` is OR; an array is AND.", "")
    cflags: Strings = key("Flags of rows with this instruction set.", ())


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagsTable:
    """A named flag set, usable as the axis `flags`."""

    cflags: Strings = key("The flags.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleTable:
    """A module exists when a family or a `[module.X]` names it."""

    constants: Mapping[str, int] = key(
        "Integer constants, each also a `#define` for the C sources.", empty=dict
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeTable:
    """A library's word that these families are its own and that this program tunes them."""

    module: str = key("The declaring module. Default: the project's name.", "")
    covers: Strings = key("Modules in scope beside it; absent ones are dropped.", ())
    tuner: str = key(
        '`"builtin"`, `"none"` (made by hand), or a Python harness relative to this file.', "builtin"
    )
    version_of: str = key("`module/CONSTANT`: winners are valid for this value alone.", "")
    version_key: str = key("Its name in the sidecar. Default: the constant's name in lower case.", "")
    defaults: str = key("The folder of `<class>.tune-defaults.json`, relative to this file.", "")
    resolver: str = key(
        "Where winners of other boxes come from: `exchange:URL`, `entry:NAME` or `file.py:function`.", ""
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class UseTable:
    """Another project whose families, modules and scopes join this one."""

    path: str = key("Its folder or tune.toml, relative to this file.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmTable:
    """An end-to-end race of an app."""

    command: Text = key("What to run.")
    metric: str = key("A regular expression with one group on its output.")
    better: Literal["lower", "higher"] = key("Which direction is better.", "lower")
    margin: Number = key("Percent that winners must gain.", 2.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppTable:
    """What is built beside the default app."""

    kind: Literal["exe", "shared", "static"] = key("What it is.", "exe")
    sources: Strings = key("C sources, relative to this file.", ())
    cflags: Strings = key("Flags after those of `[build]`.", ())
    libs: Strings = key("Flags of the link line.", ())
    include: Strings = key("Folders of C headers, relative to this file.", ())
    scopes: Strings = key("The scopes whose families it carries. Default: all.", ())
    policy: Literal["fallback", "warn", "error", "auto", "restart"] | None = key(
        "What an untuned start does; `exe` only. Undeclared: `auto`, and `fallback` at `-O0`.", None
    )
    guard: Literal["auto", "manual"] = key("`manual` leaves the call of the guard to the author.", "auto")
    sidecar: str = key(
        "Share the winners of this app. Without it an app keeps winners of its own, in `<app>.tune.json`, and"
        " needs a mint of its own: `tunebuild mint --app NAME`.",
        "",
    )
    confirm: ConfirmTable | None = key("An end-to-end race.", None)


@dataclass(frozen=True, slots=True, kw_only=True)
class GridTable:
    """The rows of a family: the product of the axes."""

    axes: Mapping[str, tuple[Value, ...]] = key(
        "Values by name; the last axis changes fastest. `isa`, `toolchain` and `flags` name declared tables.",
        empty=dict,
    )
    where: str = key("An expression over the row's values; cells where it is false are left out.", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class RowTable:
    """One more row. Every other key is a value that the template sees."""

    suffix: str = key("Its name. Default: derived from its values.", "")
    requires: Text = key("CPU features, beside those of its `isa`.", "")
    cflags: Strings = key("Its own flags, last on its compile line.", ())
    values: Mapping[str, Value] = key("Values that the template sees.", empty=dict, rest=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgTable:
    """How one argument of a call is built. Exactly one of `in`, `out`, `inout`, `scratch`, `pointers`."""

    in_: str = key("Read by the row: `TYPE[ELEMENTS]`, such as `f32[n]`. Read-only memory.", "")
    out: str = key("Written by the row; holds one fixed pattern before each call.", "")
    inout: str = key("Read and written; restored before each call.", "")
    scratch: str = key("Never compared. Its size may use the row's values.", "")
    pointers: Strings = key("The addresses of these arguments' buffers, in order.", ())
    fill: str = key(
        "normal, uniform, zeros, ramp, extremes, denormal, max, special, or a support function.", "normal"
    )
    count: str = key("An expression: that many buffers, each guarded alone.", "")
    valid: str = key("An expression over scalars and `return`: elements from there on are not compared.", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadTable:
    """One point of use. Every other key is a scalar by name."""

    work: str = key("Operations a call, an expression over scalars; reports show rates.", "")
    cache: Literal["hot", "cold"] = key("`cold` walks copies of four times the last-level cache.", "hot")
    weight: Number = key("Its weight among the family's workloads.", 1.0)
    fill: Mapping[str, str] = key("Fills of arguments by name, instead of their own.", empty=dict)
    scalars: Mapping[str, Number] = key("Scalars by name.", empty=dict, rest=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareTable:
    """How results are judged: `ulp`, or `rtol` and `atol`."""

    ulp: int = key("Units in the last place.", 0)
    rtol: Number = key("Relative tolerance.", 0.0)
    atol: Number = key("Absolute tolerance.", 0.0)
    scale: Literal["", "abs", "max"] = key(
        "What `rtol` is relative to: the value, `abs` the magnitudes it is the sum of, `max` the largest.",
        "",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckTable:
    """The gate's cases: every size with every fill, the first twice; offsets go round. All of it has defaults."""

    sizes: tuple[Mapping[str, Number], ...] | None = key(
        "Scalars by name; the others are those of the first workload. Default: 0 1 2 3 7 8 15 16 17 31 33 63"
        " 65 1000 for every integer scalar that a buffer's size uses.",
        None,
    )
    offsets: tuple[int, ...] = key("Elements past an aligned start.", (0, 1, 3))
    fills: Strings | None = key(
        "Default: normal, extremes, max, and denormal for floats. They stand for each argument's own fill, but for"
        " one that a support function makes, which stays.",
        None,
    )
    compare: Literal["exact"] | CompareTable = key('`"exact"`, or a table of tolerances.', "exact")


@dataclass(frozen=True, slots=True, kw_only=True)
class SeatTable:
    """A size class with a winner of its own."""

    when: str = key(
        "A condition over the prototype's integers. The last seat has none: it takes the rest.", ""
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CompanionTable:
    """A sibling function stamped with the same row, always."""

    prototype: str = key("Its C prototype.")
    template: str = key("Its generator. Default: `<name>.c.j2` in the family's folder.", "")
    reference: str = key("Its plain C body. Default: `<name>.c` in the family's folder.", "")
    own_seat: bool = key("It may win its own row within the family's layout.", False)
    args: Mapping[str, ArgTable] = key(
        "How a call is built; with `own_seat`, or for one that its family never calls.", empty=dict
    )
    workload: Mapping[str, WorkloadTable] = key("Its points of use.", empty=dict)
    check: CheckTable | None = key("Its gate.", None)
    prepare: Strings = key("Calls before the window, untimed, as a family's.", ())


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyTable:
    """One tuned C function: a plain reference body and a grid of generated rows."""

    prototype: str = key("The C prototype. The function's name is the family's.")
    module: str = key("Its module. Default: the project's name.", "")
    reference: str = key("The plain C body. Default: `<family>/reference.c`.", "")
    template: str = key("The generator. Default: `<family>/kernel.c.j2`.", "")
    source: str = key("A loop-hint family's one source, which is also its reference.", "")
    hints: Literal["", "full", "short"] = key(
        "The built-in hints of a loop-hint family: `full` 20 rows, `short` 7. Default with `source`: `full`.",
        "",
    )
    fallback: Text = key(
        "The rows to run when nothing was measured, first eligible first: `suffix[:requires]` split at `;`,"
        " or an array. `reference` is legal. Default: the reference body; for loop hints `vec8_u2`.",
        (),
    )
    pin: str = key("The row that is stamped, always: not raced, not demanded.", "")
    layout: Strings = key("Rows that agree on these values share one packed layout.", ())
    prepare: Strings = key(
        "Calls before the window, untimed, each written `function(argument, argument)`: a companion, another"
        " family, a support function. See [Calls](#calls-buffers-and-prepare).",
        (),
    )
    support: Strings = key(
        "C files with functions for `prepare` and `fill`. No artifact holds them: a row may not call one.", ()
    )
    oracle: str = key("A second plain-C opinion: rows and reference are compared with it.", "")
    domain: str = key("The precondition, over scalars: sizes outside it are not tried.", "")
    state: bool = key("Rows may hold writable data.", False)
    grid: GridTable | None = key("The product of axes.", None)
    row: tuple[RowTable, ...] = key("Single rows, after the product.", ())
    args: Mapping[str, ArgTable] = key(
        "How a call is built, for the race and the gate. Without any, where the prototype has one integer: a"
        " pointer to const is `in`, another `inout`, of that many elements.",
        empty=dict,
    )
    workload: Mapping[str, WorkloadTable] = key(
        "Points of use. Default, where the prototype has one integer: one named `default` of 4096.",
        empty=dict,
    )
    check: CheckTable | None = key("The gate.", None)
    seat: Mapping[str, SeatTable] = key(
        "One seat per size class; the generated entry dispatches.", empty=dict
    )
    companion: Mapping[str, CompanionTable] = key("Siblings, stamped with the same row.", empty=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RootTable:
    """tune.toml."""

    project: ProjectTable = key("The project.")
    build: BuildTable | None = key("How C is compiled.", None)
    toolchain: Mapping[str, ToolchainTable] = key("Named compilers.", empty=dict)
    isa: Mapping[str, IsaTable] = key("Named instruction sets.", empty=dict)
    flags: Mapping[str, FlagsTable] = key("Named flag sets.", empty=dict)
    module: Mapping[str, ModuleTable] = key("Modules with constants.", empty=dict)
    scope: Mapping[str, ScopeTable] = key(
        "Scopes. Default: one, named after the project, with every module.", empty=dict
    )
    use: Mapping[str, UseTable] = key("Other projects.", empty=dict)
    app: Mapping[str, AppTable] = key("Apps beside the default one.", empty=dict)
    measure: Mapping[str, Value] = key("Constants of the race, by name.", empty=dict)
    family: Mapping[str, FamilyTable] = key("Families.", empty=dict)

"""The nouns: frozen records without behaviour, shared by every module.

A `Manifest` is what tune.toml (and the projects it uses) says, checked as a whole: the grid is already
expanded, every suffix is derived, every name resolves. Nothing past `manifest` reads TOML.
Paths are absolute. Tuples keep file order; an order is never taken from a set.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

REFERENCE = "reference"

Value = bool | int | float | str
Kind = Literal["in", "out", "inout", "scratch", "pointers", "scalar"]
ElementType = Literal["f16", "bf16", "f32", "f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"]
Policy = Literal["fallback", "reference", "warn", "error", "auto", "restart"]
Mode = Literal["normal", "tune", "test"]
StampSource = Literal["manifest", "profile", "fallback", "reference"]
Reason = Literal["none", "absent", "stale_binary", "foreign_box", "unreadable", "version", "missing"]
RowWord = Literal["passed", "rejected", "declined", "not run", "skipped"]
Stage = Literal["compile", "load", "gate", "race", "validate"]

FILLS = ("normal", "uniform", "zeros", "ramp", "extremes", "denormal", "max", "special")
"""The named fills; any other word is a support function."""

ELEMENT_BYTES: dict[str, int] = {
    "f16": 2, "bf16": 2, "f32": 4, "f64": 8, "i8": 1, "i16": 2, "i32": 4, "i64": 8,
    "u8": 1, "u16": 2, "u32": 4, "u64": 8,
}  # fmt: skip


# --- what compiles -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A named compiler. ``cc`` is a command line ("auto" for the default one's search)."""

    name: str
    cc: str
    cflags: tuple[str, ...] = ()
    optional: bool = False
    target: str = ""  # "" this machine; else an architecture, such as "aarch64"
    run: str = ""  # an emulator for its binaries, such as "qemu-aarch64"


@dataclass(frozen=True, slots=True)
class Isa:
    """A named instruction set: what a CPU must have, and what the compiler must be told."""

    name: str
    requires: str = ""
    cflags: tuple[str, ...] = ()
    arch: str = ""  # "" any; else "x86_64" or "aarch64", derived from `requires`


@dataclass(frozen=True, slots=True)
class FlagSet:
    name: str
    cflags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Project:
    """One tune.toml's own settings; a used project keeps its own."""

    name: str
    root: Path
    file: Path
    cc: str
    cflags: tuple[str, ...]
    include: tuple[Path, ...]
    templates: Path
    launcher: str
    toolchains: tuple[Toolchain, ...]
    isas: tuple[Isa, ...]  # the built-in ones and the project's own, by name unique
    flags: tuple[FlagSet, ...]


# --- what a family is ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a C prototype. ``element`` is the C element type of a pointer ("" for scalars)."""

    name: str
    ctype: str  # as written, without the name: "const float *restrict"
    pointer: bool
    const: bool


@dataclass(frozen=True, slots=True)
class Function:
    """A C prototype, taken apart. ``text`` is the prototype as written, without a semicolon."""

    name: str
    text: str
    returns: str  # the C return type, "void" for none
    parameters: tuple[Parameter, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One cell of the grid. ``requires`` joins its instruction set's expression and its own."""

    suffix: str
    values: tuple[tuple[str, Value], ...]  # what the template sees; declaration order
    requires: str = ""
    isa: str = ""  # "" none named
    toolchain: str = ""  # "" the default
    flags: str = ""  # "" none named
    cflags: tuple[str, ...] = ()  # the row's own, last on its compile line
    layout: tuple[Value, ...] = ()  # the values of the family's layout keys


@dataclass(frozen=True, slots=True)
class Argument:
    """How one argument of a call is built. ``size`` is an expression: elements of one buffer."""

    name: str
    kind: Kind
    element: ElementType | str = ""  # "" for pointers; for a scalar its C type's ElementType
    size: str = ""
    fill: str = "normal"  # a named fill or a support function
    count: str = ""  # "" one buffer; else an expression: that many, each guarded alone
    pointers: tuple[str, ...] = ()  # kind "pointers": the arguments whose addresses it holds
    valid: str = ""  # elements from this one on are not compared
    parameter: int = -1  # index in the prototype; -1: the prototype does not name it


@dataclass(frozen=True, slots=True)
class Workload:
    """One point of use: scalars by name, and how it is weighed and reported."""

    name: str
    scalars: tuple[tuple[str, int | float], ...]
    work: str = ""  # operations a call, an expression over scalars
    cache: Literal["hot", "cold"] = "hot"
    weight: float = 1.0
    fills: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Compare:
    """How results are judged. ``exact`` compares bytes, NaN matching NaN.

    ``tolerance``: |got - want| <= atol + rtol * S, where S is |want| for scale "", the largest |want| of the
    buffer for scale "max", and the sum over the inputs' magnitudes that the result is made of for "abs":
    approximated from the reference run on the absolute values of every floating input.
    """

    rule: Literal["exact", "ulp", "tolerance"] = "exact"
    ulp: int = 0
    rtol: float = 0.0
    atol: float = 0.0
    scale: Literal["", "abs", "max"] = ""


@dataclass(frozen=True, slots=True)
class Check:
    """The gate's cases. Every size names all integer scalars; defaults are filled in by `manifest`."""

    sizes: tuple[tuple[tuple[str, int | float], ...], ...]
    offsets: tuple[int, ...] = (0, 1, 3)  # elements past an aligned start
    fills: tuple[str, ...] = ("normal", "extremes", "max")
    compare: Compare = Compare()
    removed_by_domain: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    """A `prepare` call: a companion, another family, or a support function."""

    function: str
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChainEntry:
    suffix: str
    requires: str = ""  # the entry's own; the row's `requires` is tested as well


@dataclass(frozen=True, slots=True)
class Seat:
    """One slot with one winner. A family without declared seats has one, with name and when ""."""

    name: str
    when: str  # a condition over the prototype's integers; "" for the last, which takes the rest
    key: str  # FAMILY or FAMILY.SEAT: the word in sidecar, profile, race, demand, filter, status


@dataclass(frozen=True, slots=True)
class Companion:
    """A sibling stamped with its family's row. Only one with ``own_seat`` may win a row of its own."""

    name: str
    function: Function
    template: Path | None
    reference: Path
    own_seat: bool = False
    args: tuple[Argument, ...] = ()
    workloads: tuple[Workload, ...] = ()
    check: Check | None = None
    prepare: tuple[Call, ...] = ()


@dataclass(frozen=True, slots=True)
class Family:
    """One tuned C function: a reference body, a grid of rows, and everything said about them."""

    name: str
    module: str
    project: Project
    function: Function
    reference: Path
    template: Path | None  # None for a loop-hint family, whose `source` is also its reference
    rows: tuple[Row, ...]  # grid order, the reference not among them
    fallback: tuple[ChainEntry, ...]
    seats: tuple[Seat, ...]
    args: tuple[Argument, ...] = ()  # the prototype's first, in its order, then the others
    workloads: tuple[Workload, ...] = ()
    check: Check | None = None
    layout: tuple[str, ...] = ()
    prepare: tuple[Call, ...] = ()
    companions: tuple[Companion, ...] = ()
    support: tuple[Path, ...] = ()
    oracle: Path | None = None
    source: Path | None = None
    hints: Literal["", "full", "short"] = ""
    pin: str = ""
    domain: str = ""
    state: bool = False
    removed: tuple[tuple[str, int], ...] = ()  # (filter, rows it removed), for `check`


# --- who answers for families, and what is built -------------------------------------------------


@dataclass(frozen=True, slots=True)
class Module:
    name: str
    constants: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Scope:
    """A library's word that these families are its own and this program tunes them."""

    name: str
    module: str
    covers: tuple[str, ...]  # modules that exist; absent ones are dropped when read
    families: tuple[str, ...]  # names of the families in it, manifest order
    tuner: str = "builtin"  # "builtin", "none", or an absolute path of a harness
    version_key: str = ""  # "" no pin
    version: str = ""  # the expected value, as text
    defaults: Path | None = None
    resolver: str = ""
    root: Path = field(default_factory=Path)
    implicit: bool = False


@dataclass(frozen=True, slots=True)
class Confirm:
    """An end-to-end race of an app: the metric is a regular expression with one group on its output."""

    command: tuple[str, ...]
    metric: str
    better: Literal["lower", "higher"] = "lower"
    margin: float = 2.0  # percent


@dataclass(frozen=True, slots=True)
class App:
    name: str
    kind: Literal["exe", "shared", "static", "library"]  # "library": the project's own, shared and static
    scopes: tuple[str, ...]
    sources: tuple[Path, ...] = ()
    cflags: tuple[str, ...] = ()
    libs: tuple[str, ...] = ()
    include: tuple[Path, ...] = ()
    policy: Policy | None = None  # None: undeclared
    guard: Literal["auto", "manual"] = "auto"
    sidecar: str = ""  # the app whose winners it shares; "" its own
    confirm: Confirm | None = None
    root: Path = field(default_factory=Path)


@dataclass(frozen=True, slots=True)
class Manifest:
    project: Project  # the root's
    modules: tuple[Module, ...]
    scopes: tuple[Scope, ...]
    apps: tuple[App, ...]  # the default one (named after the project) first
    families: tuple[Family, ...]
    measure: tuple[tuple[str, Value], ...] = ()  # `[measure]` overrides, by constant name
    files: tuple[Path, ...] = ()  # every tune.toml read


# --- the box -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Box:
    """One machine. ``identity`` has five fields (platform|arch|model|OS build|CPU)."""

    identity: str
    arch: str  # "x86_64", "aarch64", or as reported
    features: frozenset[str]  # what the machine has and the system enabled; forced names excluded
    forced: tuple[str, ...] = ()  # names forced through the environment: generate only


# --- what is stamped -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Stamp:
    """The row one seat runs, and on whose word. ``suffix`` is "reference" for the reference body."""

    key: str  # FAMILY or FAMILY.SEAT
    family: str
    seat: str
    suffix: str
    source: StampSource
    path: str  # the sidecar or profile it came from; "" for the chain
    scope: str = ""
    note: str = ""  # why a candidate was dropped, in a sentence; "" none was


@dataclass(frozen=True, slots=True)
class Stamps:
    """Every stamp of one app. ``companions`` maps a companion that won a row of its own to its suffix."""

    app: str
    seats: tuple[Stamp, ...]
    companions: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """Is a sidecar still true for this demand? ``reason`` "none" means complete."""

    reason: Reason
    detail: str = ""
    missing: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()  # seats that are recorded, but measured with other inputs

    @property
    def complete(self) -> bool:
        return self.reason == "none"


# --- the race ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Slice:
    """One timed window of one row: ``reps`` calls back to back."""

    row: int
    reps: int


@dataclass(frozen=True, slots=True)
class MicroRound:
    """Measure these slices in this order, after one untimed lead-in slice of row ``lead_in``.

    ``placement`` chooses one of the placements of the shared buffers, the same for every row.
    """

    workload: int
    lead_in: int
    placement: int
    slices: tuple[Slice, ...]


@dataclass(frozen=True, slots=True)
class Sample:
    row: int
    reps: int
    wall_ns: int
    cpu_ns: int


@dataclass(frozen=True, slots=True)
class Rejected:
    """A row that is out, with the stage and the words of the report. ``replay`` is a command."""

    suffix: str
    stage: Stage
    why: str
    replay: str = ""


@dataclass(frozen=True, slots=True)
class Disturbed:
    """A slice of this row met a fault: the bench goes on without it."""

    row: int
    why: str


Measured = tuple[Sample, ...] | Disturbed


@dataclass(frozen=True, slots=True)
class Declined:
    """A template's word that it has no code for a row: the reference body serves it."""

    why: str

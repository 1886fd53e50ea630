"""Plan -> the edges of build.ninja. Pure.

One graph serves three modes: `rows` (every object of the grid), `tune` (the all-variants binary; `test` is
the same) and `normal` (each app). A row has one object: what was raced is what is linked. Paths are relative
to the project's root, where ninja runs.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from tunebuild import codegen, resolve
from tunebuild.model import REFERENCE, App, Family, Row, Stamps
from tunebuild.plan import Plan, PlannedFamily, flags_of_rows

BUILD = "build"
WORKER = f"{BUILD}/tune/worker"
WORKER_RULE = "worker"  # stands in local.ninja, since its sources are this machine's
PCH_NAME = "tb_system.h"
PCH_TEXT = (
    "/* System headers that cost more than a small row: compiled once a flag set. */\n"
    "#include <stddef.h>\n#include <stdint.h>\n#include <string.h>\n#include <math.h>\n"
    "#if defined(__x86_64__)\n#include <immintrin.h>\n#endif\n"
)
# Rows may be linked into any artifact, export nothing by themselves, and start on a cache line: function
# alignment once decided winners by its own.
BASE_FLAGS = ("-fPIC", "-fvisibility=hidden")
ROW_FLAGS = ("-falign-functions=64",)
# A symbol that nothing defines fails the link, not whoever loads the library.
SHARED_FLAGS = ("-shared", "-Wl,-z,defs")


@dataclass(frozen=True, slots=True)
class Edge:
    """One ninja edge. ``flags`` are shell words, unescaped; ``name`` is the file's name in TB_HITS."""

    rule: str
    output: str
    inputs: tuple[str, ...]
    flags: tuple[str, ...] = ()
    implicit: tuple[str, ...] = ()
    libs: tuple[str, ...] = ()
    toolchain: str = ""
    compiler: str = ""  # the compiler's name in this graph ("" for links: the default one's)
    symbol: str = ""  # the row's or reference's symbol, where it is one
    mode: str = ""
    stamps: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Graph:
    """``folder`` holds what it makes, its own ninja files and the state of its builds."""

    edges: tuple[Edge, ...]
    phony: tuple[tuple[str, tuple[str, ...]], ...]
    compilers: tuple[str, ...] = field(default=())
    folder: str = BUILD

    def by_output(self) -> Mapping[str, Edge]:
        return {edge.output: edge for edge in self.edges}


@dataclass(frozen=True, slots=True)
class AppSources:
    """An app's generated and own C files that are compiled beside the kernels."""

    generated: tuple[str, ...]  # status, main: relative paths
    own: tuple[str, ...]
    own_flags: tuple[str, ...]


def object_path(family: str, name: str) -> str:
    return f"{BUILD}/obj/{family}/{name}.o"


def hint_flags(kind: str, row: Row) -> tuple[str, ...]:
    """What a loop-hint row asks of a compiler of this kind, beside its pragma."""
    values = dict(row.values)
    if not values.get("vec"):
        return ()
    unroll = values.get("unroll", 0)
    if kind == "gcc" and isinstance(unroll, int) and unroll > 1:
        return ("-fopenmp-simd", "-funroll-loops", "--param", f"max-unroll-times={unroll}")
    return ("-fopenmp-simd",)


@functools.lru_cache(maxsize=64)
def _includes(include: tuple[Path, ...], root: Path) -> tuple[str, ...]:
    folders = [f"{codegen.GENERATED}/include"]
    folders += [Path(os.path.relpath(folder, root)).as_posix() for folder in include]
    return tuple(f"-I{folder}" for folder in dict.fromkeys(folders))


def build_flags(plan: Plan, family: Family, toolchain: str) -> tuple[str, ...]:
    """What every file of a family is compiled with; rows have flags of their own besides."""
    chosen = next((each for each in family.project.toolchains if each.name == toolchain), None)
    return (
        *BASE_FLAGS,
        *_includes(family.project.include, plan.manifest.project.root),
        *family.project.cflags,
        *(chosen.cflags if chosen else ()),
    )


CompilerOf = Mapping[tuple[str, str], tuple[str, str]]
"""(project name, toolchain name) -> (the compiler's name in this graph, its kind)."""


def _row_edges(
    plan: Plan, planned: PlannedFamily, rows: Iterable[Row], compiler_of: CompilerOf
) -> Iterable[Edge]:
    family = planned.family
    own = flags_of_rows(family)
    common: dict[str, tuple[str, ...]] = {}  # by toolchain
    sets: dict[tuple[str, ...], tuple[str, ...]] = {}  # one tuple a flag set, whatever the number of rows
    for row in rows:
        compiler, kind = compiler_of[family.project.name, row.toolchain]
        if row.toolchain not in common:
            common[row.toolchain] = (*build_flags(plan, family, row.toolchain), *ROW_FLAGS)
        hints = hint_flags(kind, row) if family.hints else ()
        flags = (*common[row.toolchain], *hints, *own(row))
        flags = sets.setdefault(flags, flags)
        for function in planned.functions:
            name = codegen.symbol(function.name, row.suffix)
            source = codegen.row_path(family.name, function.name, row.suffix)
            yield Edge(
                f"cc_{compiler}",
                object_path(family.name, name),
                (source,),
                flags,
                toolchain=row.toolchain,
                compiler=compiler,
                symbol=name,
            )


def _with_headers_precompiled(
    edges: list[Edge], heavy: frozenset[str], kinds: Mapping[str, str], least: int = 3
) -> list[Edge]:
    """Give edges whose source is in ``heavy`` a precompiled header, one for each compiler and flag set.

    Below ``least`` rows the header costs more than it saves.
    """
    groups: dict[tuple[str, tuple[str, ...]], list[Edge]] = {}
    for edge in edges:
        if edge.inputs[0] in heavy:
            groups.setdefault((edge.compiler, edge.flags), []).append(edge)
    replaced: dict[str, Edge] = {}
    headers: list[Edge] = []
    for (compiler, flags), users in groups.items():
        if len(users) < least:
            continue
        digest = hashlib.sha256("\0".join((compiler, *flags)).encode()).hexdigest()[:12]
        folder = f"{BUILD}/pch/{digest}"
        suffix = "gch" if kinds[compiler] == "gcc" else "pch"
        binary = f"{folder}/{PCH_NAME}.{suffix}"
        headers.append(
            Edge(
                f"pch_{compiler}",
                binary,
                (f"{codegen.GENERATED}/include/{PCH_NAME}",),
                flags,
                compiler=compiler,
            )
        )
        use = (
            (f"-I{folder}", "-include", PCH_NAME, "-Winvalid-pch")
            if suffix == "gch"
            else ("-include-pch", binary)
        )
        for edge in users:
            replaced[edge.output] = Edge(
                edge.rule,
                edge.output,
                edge.inputs,
                (*use, *edge.flags),
                (binary,),
                toolchain=edge.toolchain,
                compiler=compiler,
                symbol=edge.symbol,
            )
    return headers + [replaced.get(edge.output, edge) for edge in edges]


def _plain(plan: Plan, family: Family, source: str, output: str, compiler: str, symbol: str = "") -> Edge:
    return Edge(
        f"cc_{compiler}", output, (source,), build_flags(plan, family, ""), compiler=compiler, symbol=symbol
    )


def reference_objects(planned: PlannedFamily) -> tuple[str, ...]:
    return tuple(
        object_path(planned.family.name, codegen.symbol(function.name, REFERENCE))
        for function in planned.functions
    )


def support_object(family: Family, path: Path) -> str:
    return object_path(family.name, f"support_{path.stem}")


def tune_edges(
    plan: Plan,
    rows: Mapping[str, tuple[Row, ...]],
    linked: Mapping[str, tuple[Row, ...]],
    compiler_of: CompilerOf,
    kinds: Mapping[str, str],
    heavy: frozenset[str],
) -> tuple[list[Edge], str]:
    """Every row of ``rows`` compiled, those of ``linked`` (they compiled before) in the tune binary.

    ``heavy``: generated files that include system headers worth precompiling.
    """
    root = plan.manifest.project.root
    row_edges: list[Edge] = []
    others: list[Edge] = []
    objects: list[str] = []
    default, _ = compiler_of[plan.manifest.project.name, ""]
    supports: dict[Path, str] = {}
    for planned in plan.families:
        family = planned.family
        own, _ = compiler_of[family.project.name, ""]
        row_edges += _row_edges(plan, planned, rows[family.name], compiler_of)
        for row in linked[family.name]:
            objects += [
                object_path(family.name, codegen.symbol(function.name, row.suffix))
                for function in planned.functions
            ]
        for function in planned.functions:
            name = codegen.symbol(function.name, REFERENCE)
            source = f"{codegen.GENERATED}/reference/{name}.c"
            others.append(_plain(plan, family, source, object_path(family.name, name), own, name))
        objects += reference_objects(planned)
        extra = [(f"{codegen.GENERATED}/tune/{family.name}.c", object_path(family.name, "driver"))]
        if family.oracle:
            name = codegen.symbol(family.name, "oracle")
            extra.append((f"{codegen.GENERATED}/reference/{name}.c", object_path(family.name, name)))
        for path in family.support:
            if path not in supports:  # several families may share one file of fills
                supports[path] = support_object(family, path)
                extra.append((Path(os.path.relpath(path, root)).as_posix(), supports[path]))
        for source, output in extra:
            others.append(_plain(plan, family, source, output, own))
            objects.append(output)
    first = plan.families[0].family
    for name in ("drivers", "tb_probe"):
        output = f"{BUILD}/obj/{name}.o"
        others.append(_plain(plan, first, f"{codegen.GENERATED}/tune/{name}.c", output, default))
        objects.append(output)
    binary = tune_binary(plan)
    link = Edge("link", binary, tuple(objects), SHARED_FLAGS, libs=("-lm",), mode="tune")
    return [*_with_headers_precompiled(row_edges, heavy, kinds), *others, link], binary


def tune_binary(plan: Plan) -> str:
    return f"{BUILD}/tune/lib{codegen.identifier(plan.manifest.project.name)}_tune.so"


def stamped_objects(planned: PlannedFamily, stamps: Stamps) -> tuple[str, ...]:
    """The objects behind one family's entry: winners, or reference bodies where those serve."""
    names = (
        object_path(planned.family.name, codegen.symbol(function.name, suffix))
        for function in planned.functions
        for _, suffix in codegen.function_suffix(function, stamps)
    )
    return tuple(dict.fromkeys(names))


def app_outputs(app: App) -> tuple[str, ...]:
    """The public files of one app's normal build."""
    name = app.name
    match app.kind:
        case "exe":
            return (f"{BUILD}/normal/{name}",)
        case "shared":
            return (f"{BUILD}/normal/lib{name}.so",)
        case "static":
            return (f"{BUILD}/normal/lib{name}.a",)
        case "library":
            return (f"{BUILD}/normal/lib{name}.so", f"{BUILD}/normal/lib{name}.a")


def app_edges(
    plan: Plan,
    app: App,
    stamps: Stamps,
    compiler_of: CompilerOf,
    sources: AppSources,
) -> list[Edge]:
    """The normal build of one app: entries, status, its own sources, and what is linked of them."""
    default, _ = compiler_of[plan.manifest.project.name, ""]
    names = {family.name for family in resolve.app_families(plan.manifest, app)}
    of_family = codegen.stamps_by_family(plan, stamps)
    edges: list[Edge] = []
    objects: list[str] = []
    folder = f"{BUILD}/obj/app_{codegen.identifier(app.name)}"
    for planned in plan.families:
        family = planned.family
        if family.name not in names:
            continue
        objects += stamped_objects(planned, of_family[family.name])
        output = f"{folder}/{family.name}.o"
        source = f"{codegen.GENERATED}/normal/{app.name}/{family.name}.c"
        edges.append(_plain(plan, family, source, output, compiler_of[family.project.name, ""][0]))
        objects.append(output)
    first = plan.families[0].family
    for source in sources.generated:
        output = f"{folder}/{Path(source).stem}.o"
        edges.append(_plain(plan, first, source, output, default))
        objects.append(output)
    for source in sources.own:
        output = f"{folder}/own/{Path(source).with_suffix('').as_posix().replace('..', '_')}.o"
        flags = ("-fPIC", f"-I{codegen.GENERATED}/include", *plan.manifest.project.cflags, *sources.own_flags)
        edges.append(Edge(f"cc_{default}", output, (source,), flags, compiler=default))
        objects.append(output)
    stamped = tuple((stamp.key, stamp.suffix) for stamp in stamps.seats) + stamps.companions
    libs = (*app.libs, "-lm")
    for output in app_outputs(app):
        rule = "archive" if output.endswith(".a") else "link"
        shared = SHARED_FLAGS if output.endswith(".so") else ()
        edges.append(
            Edge(
                rule,
                output,
                tuple(objects),
                shared,
                libs=libs if rule == "link" else (),
                mode="normal",
                stamps=stamped,
            )
        )
    return edges


# --- the same graph under sanitizers ------------------------------------------------------------------

SANITIZED = f"{BUILD}/sanitize"
SANITIZE_FLAGS = (
    "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g",
)  # fmt: skip


def moved(path: str, folder: str) -> str:
    """A path below build/ as the graph in ``folder`` has it; any other path stays."""
    return f"{folder}{path.removeprefix(BUILD)}" if path.startswith(f"{BUILD}/") else path


def sanitized(graph: Graph) -> Graph:
    """The tune graph in a folder of its own, everything in it under ASan and UBSan."""
    kept = {"rows", "tune"}

    def move(path: str) -> str:
        return moved(path, SANITIZED)

    def flag(word: str) -> str:  # of precompiled headers
        return f"-I{move(word[2:])}" if word.startswith("-I") else move(word)

    edges = tuple(
        replace(
            edge,
            output=move(edge.output),
            inputs=tuple(map(move, edge.inputs)),
            implicit=tuple(map(move, edge.implicit)),
            flags=(*(flag(word) for word in edge.flags if word not in SHARED_FLAGS[1:]), *SANITIZE_FLAGS),
        )
        for edge in graph.edges
        if edge.mode != "normal"
    )
    phony = tuple((name, tuple(map(move, outputs))) for name, outputs in graph.phony if name in kept)
    return Graph(edges, phony, graph.compilers, SANITIZED)


# --- the text ------------------------------------------------------------------------------------


def escape_path(path: str) -> str:
    return path.replace("$", "$$").replace(" ", "$ ").replace(":", "$:").replace("\n", "")


def escape_words(words: Iterable[str]) -> str:
    """Shell words as the value of a ninja variable."""
    import shlex

    return " ".join(shlex.quote(word) for word in words).replace("$", "$$").replace("\n", " ")


def hit_name(output: str) -> str:
    """An output's file name in TB_HITS: flat, and one for each output."""
    return output.removeprefix(f"{BUILD}/").replace("/", "@")


def served(edge: Edge) -> bool:
    """Whether the cache may serve it. clang's precompiled headers know the paths and dates of what they hold."""
    return not edge.output.endswith(".pch")


def template_values(project: str, graph: Graph) -> dict[str, object]:
    """What ninja.build.j2 sees. Thousands of edges share a few flag sets: each is a variable of the file."""
    sets: dict[tuple[str, ...], str] = {}
    edges = []
    for edge in graph.edges:
        if edge.rule == WORKER_RULE:
            continue
        variables = ""
        if edge.flags:
            variables = f"  flags = ${sets.setdefault(edge.flags, f'flags_{len(sets)}')}\n"
        if edge.libs:
            variables += f"  libs = {escape_words(edge.libs)}\n"
        if served(edge):
            variables += f"  hit = {escape_words([hit_name(edge.output)])}\n"
        inputs = " ".join(map(escape_path, edge.inputs))
        if edge.implicit:
            inputs += " | " + " ".join(map(escape_path, edge.implicit))
        edges.append((escape_path(edge.output), edge.rule, inputs, variables))
    return {
        "project": project,
        "folder": graph.folder,
        "regenerates": graph.folder == BUILD,
        "compilers": graph.compilers,
        "flag_sets": [(name, escape_words(flags)) for flags, name in sets.items()],
        "edges": edges,
        "phony": [(name, " ".join(map(escape_path, outputs))) for name, outputs in graph.phony],
    }

"""A generated tree onto the disk: C files, build.ninja and what stands beside it.

A file is written when its content differs, and what is no longer generated is removed. build.ninja comes last,
so that plain ninja never runs on half a tree.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

import jinja2

from tunebuild import artifact, children, codegen, emit, graph, toolchain
from tunebuild.generate import Generated

DEPFILE = "build/generate.d"


def write(generated: Generated) -> tuple[str, ...]:
    """Write what changed, remove what is no longer generated; return the paths that changed."""
    root = generated.root
    changed = emit.write_tree(root, generated.files)
    _remove_orphans(root, generated.files)
    emit.sweep_temporaries(root / graph.BUILD, ".+")
    text, folder = _ninja_text(generated), root / generated.graph.folder
    emit.write_if_changed(folder / "local.ninja", _local_text(generated))
    if generated.graph.folder != graph.BUILD:  # a graph that only we run
        emit.write_if_changed(folder / "build.ninja", text)
        return tuple(changed)
    # Where an executable's guard finds the tool: one word a line.
    emit.write_if_changed(root / artifact.TOOL, "\n".join((*children.TOOL, "")))
    emit.write_if_changed(root / "build/compile_commands.json", _compile_commands(generated))
    emit.write_if_changed(root / DEPFILE, _depfile(generated))
    if emit.write_if_changed(root / "build/build.ninja", text):
        changed.append("build/build.ninja")
    os.utime(root / "build/build.ninja")
    return tuple(changed)


def _remove_orphans(root: Path, kept: Mapping[str, str]) -> None:
    top = os.path.join(root, codegen.GENERATED)
    for folder, _, names in os.walk(top):
        inside = codegen.GENERATED + folder[len(top) :]
        for name in names:
            if f"{inside}/{name}" not in kept:
                os.unlink(os.path.join(folder, name))


def template_path() -> Path:
    """ninja.build.j2: beside the package in a checkout, inside it in a wheel."""
    inside = Path(__file__).parent / "ninja.build.j2"
    return inside if inside.exists() else Path(__file__).parent.parent / "ninja.build.j2"


def _ninja_text(generated: Generated) -> str:
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    values = graph.template_values(generated.manifest.project.name, generated.graph)
    return environment.from_string(template_path().read_text()).render(values)


def _local_text(generated: Generated) -> str:
    tools = generated.tools
    lines = ["# What belongs to this machine."]
    launcher = generated.manifest.project.launcher
    for key, name in {name: key for key, name in tools.names.items()}.items():
        found = tools.compilers[name]
        assert isinstance(found, toolchain.Compiler)
        words = (*shlex.split(launcher), *found.argv, *found.flags)
        lines.append(f"cc_{key} = {graph.escape_words(words)}")
    default = tools.default(generated.manifest.project.name)
    lines.append(f"link = {graph.escape_words((*default.argv, *default.flags))}")
    lines.append(f"ar = {graph.escape_words(default.archiver)}")
    lines.append(f"tunebuild = {graph.escape_words(children.TOOL)}")
    lines.append(_worker_text(generated.graph.by_output()[graph.moved(graph.WORKER, generated.graph.folder)]))
    return "\n".join(lines) + "\n"


def _worker_text(edge: graph.Edge) -> str:
    words, hit = graph.escape_words(edge.flags), graph.hit_name(edge.output)
    return (
        f"rule {edge.rule}\n"
        f'  command = if [ -n "$$TB_HITS" ] && [ -e "$$TB_HITS/{hit}" ]; then mv -f "$$TB_HITS/{hit}" $out; '
        f"else {words} $in -o $out {' '.join(edge.libs)}; fi\n"
        "  description = WORKER $out\n"
        f"build {edge.output}: {edge.rule} {' '.join(map(graph.escape_path, edge.inputs))} | "
        f"{' '.join(map(graph.escape_path, edge.implicit))}"
    )


def _compile_commands(generated: Generated) -> str:
    lines: list[str] = []
    own = json.dumps(str(generated.root))
    before: dict[tuple[str, tuple[str, ...]], str] = {}  # the words that edges of equal flags share
    by_name = {name: key for key, name in generated.tools.names.items()}
    for edge in generated.graph.edges:
        if not edge.rule.startswith("cc_"):
            continue
        shared = edge.compiler, edge.flags
        if shared not in before:
            found = generated.tools.compilers[by_name[edge.compiler]]
            assert isinstance(found, toolchain.Compiler)
            before[shared] = json.dumps([*found.argv, *found.flags, *edge.flags, "-c"])[1:-1]
        file, output = json.dumps(edge.inputs[0]), json.dumps(edge.output)
        lines.append(
            f'{{"directory": {own}, "file": {file}, "arguments": [{before[shared]}, {file}, "-o", {output}]}}'
        )
    return "[\n" + ",\n".join(lines) + "\n]\n"


def _templates(generated: Generated) -> Iterable[Path]:
    """What templates may include or import, and the folders where it may come to be."""
    for top in dict.fromkeys(family.project.templates for family in generated.manifest.families):
        for above, _, names in os.walk(top):
            yield Path(above)
            yield from (Path(above, name) for name in names if not name.endswith((".c", ".h", ".md")))


def _depfile(generated: Generated) -> str:
    """What plain ninja watches. An absent file is expressed by its folder; a missing path never settles."""
    watched = []
    for path in map(os.fspath, (*generated.inputs, *_templates(generated))):
        there = path if os.path.exists(path) else os.path.dirname(path)
        if os.path.exists(there):
            watched.append(os.path.relpath(there, generated.root))
    escaped = (path.replace(" ", "\\ ").replace("$", "$$") for path in dict.fromkeys(watched))
    return "build/build.ninja: " + " ".join(escaped) + "\n"

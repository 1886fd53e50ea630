"""Runs ninja on a generated graph, with the artifact cache around it.

The front process knows every key, so it looks all of them up at once, lays the hits in a private folder
($TB_HITS) from which the rules take them, runs ninja, and publishes what ninja had to make. No wrapper stands
before the compiler: a Python launcher would cost 40 to 60 ms an edge. Plain ninja has no $TB_HITS and compiles.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tunebuild import cache, emit, graph, keys, toolchain
from tunebuild.errors import WorkFailed
from tunebuild.generate import Generated
from tunebuild.record import BINARY_STAMP

STATE = "build/state.json"
LINKED = ("link", "archive")
MAX_WORDS = 64_000  # bytes kept of a compiler's words


@dataclass(frozen=True, slots=True)
class Failure:
    """One edge that failed: its output, and the words of the tool."""

    output: str
    words: str


@dataclass(frozen=True, slots=True)
class Ran:
    """One run of ninja. ``made``: outputs that a tool had to make; ``hits``: taken from the cache."""

    code: int
    made: tuple[str, ...]
    hits: tuple[str, ...]
    failures: tuple[Failure, ...]
    notes: tuple[str, ...] = ()


def ninja_path() -> str:
    """The wheel's own binary: a distribution's older one discards a newer log and rebuilds everything."""
    beside = Path(sys.executable).with_name("ninja")
    if beside.exists():
        return str(beside)
    import ninja

    return str(Path(ninja.BIN_DIR) / "ninja")


# --- keys ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Keyed:
    """An edge with its key, and the inputs that the key was made of."""

    edge: graph.Edge
    key: str
    sources: Mapping[Path, str]


def reachable(made: graph.Graph, targets: Iterable[str]) -> tuple[graph.Edge, ...]:
    """The edges that ninja may run for these targets, in graph order."""
    by_output = made.by_output()
    phony = dict(made.phony)
    wanted: set[str] = set()
    pending = [output for target in targets for output in phony.get(target, (target,))]
    while pending:
        output = pending.pop()
        if output in wanted or output not in by_output:
            continue
        wanted.add(output)
        pending += (*by_output[output].inputs, *by_output[output].implicit)
    return tuple(edge for edge in made.edges if edge.output in wanted)


def keyed(generated: Generated, edges: Iterable[graph.Edge]) -> dict[str, Keyed]:
    """The key of every edge, by output. Links are keyed by the keys of what they link."""
    root = generated.root
    tools = {name: generated.tools.compilers[key] for key, name in generated.tools.names.items()}
    default = generated.tools.default(generated.manifest.project.name)
    environ = keys.environment(os.environ)
    scans: dict[tuple[str, ...], keys.Scan] = {}
    texts: dict[Path, str | None] = {}
    digests: dict[Path, str] = {}
    found: dict[str, Keyed] = {}

    def read(path: Path) -> str | None:
        if path not in texts:
            try:
                texts[path] = path.read_bytes().decode(errors="surrogateescape")
            except (OSError, IsADirectoryError):
                texts[path] = None
        return texts[path]

    def digest(path: Path) -> str:
        if path not in digests:
            digests[path] = keys.digest((read(path) or "").encode(errors="surrogateescape"))
        return digests[path]

    def compile_key(edge: graph.Edge) -> Keyed | None:
        compiler = tools[edge.compiler]
        if not isinstance(compiler, toolchain.Compiler):
            return None
        source = root / edge.inputs[0]
        text = read(source)
        if text is None:
            return None
        folders = tuple(flag[2:] for flag in edge.flags if flag.startswith("-I"))
        if folders not in scans:
            scans[folders] = keys.header_scanner([root / folder for folder in folders], read)
        headers = scans[folders](text, source.parent)
        precompiled = root / "generated/include" / graph.PCH_NAME
        if edge.implicit:
            headers = (*headers, precompiled)
        inputs = keys.Inputs(
            kind="pch" if edge.rule.startswith("pch_") else "object",
            compiler=compiler.identity,
            flags=keys.relative_flags((*compiler.flags, *edge.flags), root),
            source=digest(source),
            headers=tuple((os.path.relpath(header, root), digest(header)) for header in headers),
            environ=environ,
            # The depfile that is kept beside the object names both.
            salt=f"{edge.inputs[0]} {edge.output}",
        )
        return Keyed(edge, keys.key(inputs), {path: digest(path) for path in (source, *headers)})

    def worker_key(edge: graph.Edge) -> Keyed:
        sources = {Path(name): digest(Path(name)) for name in (*edge.inputs, *edge.implicit)}
        flags = tuple(flag for flag in edge.flags if not flag.startswith("-I"))
        inputs = keys.Inputs("worker", default.identity, flags, objects=tuple(sources.values()), environ=environ)
        return Keyed(edge, keys.key(inputs), sources)

    for edge in edges:
        if edge.rule == graph.WORKER_RULE:
            found[edge.output] = worker_key(edge)
        elif edge.rule not in LINKED and (one := compile_key(edge)) is not None:
            found[edge.output] = one
    for edge in edges:
        if edge.rule in LINKED and all(name in found for name in edge.inputs):
            inputs = keys.Inputs(
                kind=edge.rule,
                compiler=default.identity,
                flags=keys.relative_flags((*default.flags, *edge.flags, *edge.libs), root),
                objects=tuple(found[name].key for name in edge.inputs),
                stamps=edge.stamps,
                mode=edge.mode,
                tools=(default.archiver[:1] if edge.rule == "archive" else ()),
            )
            sources = {path: was for name in edge.inputs for path, was in found[name].sources.items()}
            found[edge.output] = Keyed(edge, keys.key(inputs), sources)
    return found


# --- running -------------------------------------------------------------------------------------


def run(
    generated: Generated,
    targets: tuple[str, ...],
    *,
    keep_going: bool = False,
    explain: bool = False,
    say: Callable[[str], None] = lambda line: print(line, file=sys.stderr, flush=True),
) -> Ran:
    """Build ``targets``. A failing edge is a `Failure`, not an exception. The caller holds the build lock."""
    root = generated.root
    edges = reachable(generated.graph, targets)
    state = _read_state(root)
    wanted = keyed(generated, edges)
    stale = {
        output: one
        for output, one in wanted.items()
        if state.get(output) != one.key or not (root / output).exists()
    }
    store = cache.store()
    hits_folder = root / "build/hits" / str(os.getpid())
    hits = _lay_hits(store, stale, hits_folder, root)
    environ = _environ(generated, hits_folder if hits else None)
    before = {edge.output: _stat(root / edge.output) for edge in edges}
    command = [ninja_path(), "-f", "build/build.ninja", "-d", "keepdepfile"]
    command += ["-d", "explain"] * explain + ["-k", "0"] * keep_going + list(targets)
    code, failures = _ninja(command, root, environ, say)
    shutil.rmtree(hits_folder, ignore_errors=True)
    changed = [edge.output for edge in edges if _stat(root / edge.output) not in (None, before[edge.output])]
    failed = {failure.output for failure in failures}
    notes: set[str] = set()
    for output, one in stale.items():
        there = (root / output).exists() and output not in failed
        if there and (code == 0 or output in changed):
            state[output] = one.key
            if output not in hits:
                notes.add(_publish(store, one, root))
    emit.write_if_changed(root / STATE, json.dumps({"version": 1, "keys": state}, sort_keys=True))
    made = tuple(output for output in changed if output not in hits)
    if any("__" in output and output.endswith(".o") for output in made):
        (root / BINARY_STAMP).touch()
    cache.gc_if_due(store)
    expected = ("", "the cache is switched off")
    return Ran(code, made, tuple(hits), failures, tuple(sorted(n for n in notes if n not in expected)))


def _stat(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_ino, found.st_size)


def _read_state(root: Path) -> dict[str, str]:
    try:
        found = json.loads((root / STATE).read_text())
        return dict(found["keys"]) if found.get("version") == 1 else {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _lay_hits(store: cache.Store, stale: Mapping[str, Keyed], folder: Path, root: Path) -> set[str]:
    """Put what the cache holds where the rules look for it; say which outputs those are."""
    if not stale or store.root is None:
        return set()
    folder.mkdir(parents=True, exist_ok=True)
    hits: set[str] = set()
    for output, one in stale.items():
        entry = cache.lookup(store, one.key, root)
        if entry is None:
            continue
        name = graph.hit_name(output)
        cache.fetch(entry, folder, {file.name: folder / (name + file.name[1:]) for file in entry.files})
        hits.add(output)
    return hits


def _publish(store: cache.Store, one: Keyed, root: Path) -> str:
    """Store one output, its depfile with it; return why it was not stored."""
    output = root / one.edge.output
    try:
        files = [cache.File("o", output.read_bytes(), output.stat().st_mode & 0o777)]
        read: tuple[str, ...] = ()
        if one.edge.rule not in (*LINKED, graph.WORKER_RULE):
            text = Path(f"{output}.d").read_bytes()
            files.append(cache.File("o.d", text))
            known = {os.path.relpath(path, root) for path in one.sources}
            read = tuple(
                name
                for name in keys.depfile(text.decode(errors="surrogateescape"))
                if os.path.normpath(name) not in known and not name.startswith("build/pch/")
            )
    except OSError as error:
        return f"{one.edge.output} was not cached: {error.strerror}"
    return cache.publish(store, one.key, files, root=root, read=read, sources=one.sources)


def _environ(generated: Generated, hits: Path | None) -> dict[str, str]:
    environ = {**os.environ, "TB_FRESH": "1", "LC_ALL": "C"}
    environ.pop("TB_HITS", None)
    for found in generated.tools.compilers.values():
        if isinstance(found, toolchain.Compiler):
            environ |= dict(found.environ)
    if hits:
        environ["TB_HITS"] = str(hits)
    return environ


_FAILED = re.compile(r"^FAILED: (?:\[code=\d+\] )?(\S+)")
_STEP = re.compile(r"^\[\d+/\d+\]|^ninja: ")


def _ninja(
    command: list[str], root: Path, environ: Mapping[str, str], say: Callable[[str], None]
) -> tuple[int, tuple[Failure, ...]]:
    """Run ninja in its own process group, relay what it says, and keep the words of what failed."""
    failures: list[tuple[str, list[str]]] = []
    with subprocess.Popen(
        command, cwd=root, env=dict(environ), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        try:
            for line in process.stdout:
                line = line.rstrip("\n")
                if (match := _FAILED.match(line)) is not None:
                    failures.append((match[1], []))
                elif _STEP.match(line):
                    if failures and failures[-1][1] is not None:
                        failures.append(("", []))
                elif failures and failures[-1][0]:
                    failures[-1][1].append(line)
                    if len(failures[-1][1]) == 1:
                        continue  # the command, which `tunebuild explain` gives better
                if line and "no work to do" not in line:
                    say(line)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 15)
            process.wait()
            raise
        code = process.wait()
    return code, tuple(
        # The first line repeats the command.
        Failure(output, "\n".join(words[1:])[:MAX_WORDS])
        for output, words in failures
        if output
    )


def must(ran: Ran, what: str) -> Ran:
    """:raises WorkFailed: with the words of what failed."""
    if ran.code:
        outputs = ", ".join(failure.output for failure in ran.failures) or "see above"
        raise WorkFailed(f"{what} failed: {outputs}")
    return ran

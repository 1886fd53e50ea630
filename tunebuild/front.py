"""Runs ninja on a generated graph, with the artifact cache around it.

The front process knows every key, so it looks all of them up at once, lays the hits in a private folder
($TB_HITS) from which the rules take them, runs ninja, and publishes what ninja had to make. No wrapper stands
before the compiler: a Python launcher would cost 40 to 60 ms an edge. Plain ninja has no $TB_HITS and compiles.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tunebuild import because, cache, emit, generate, graph, keys, ninjarun, toolchain
from tunebuild.errors import WorkFailed
from tunebuild.generate import Generated
from tunebuild.ninjarun import Failure as Failure
from tunebuild.ninjarun import ninja_path as ninja_path
from tunebuild.record import BINARY_STAMP

STATE = "state.json"  # in the graph's folder
INPUTS = "inputs.json"
NINJA_LOCK = "build/ninja"
_PRECOMPILED = re.compile(r"build/(sanitize/)?pch/")
LINKED = ("link", "archive")
SKEW_NS = 2_000_000_000  # a file's date may be this far ahead: coarse clocks, folders on other machines


@dataclass(frozen=True, slots=True)
class Ran:
    """One run of ninja. ``made``: outputs that a tool had to make; ``hits``: taken from the cache."""

    code: int
    made: tuple[str, ...]
    hits: tuple[str, ...]
    failures: tuple[Failure, ...]
    notes: tuple[str, ...] = ()


# --- keys ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Keyed:
    """An edge with its key, and the inputs that the key was made of."""

    edge: graph.Edge
    inputs: keys.Inputs
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
    precompiled = root / "generated/include" / graph.PCH_NAME
    tools = {name: generated.tools.compilers[key] for key, name in generated.tools.names.items()}
    default = generated.tools.default(generated.manifest.project.name)
    environ = keys.environment(os.environ)
    scans: dict[keys.Folders, keys.Scan] = {}
    scan_of: dict[tuple[str, tuple[str, ...]], keys.Scan] = {}
    native: dict[tuple[str, tuple[str, ...]], tuple[str, ...]] = {}  # the box, where a flag asks for it
    folder: dict[tuple[str, tuple[str, ...]], str] = {}  # the root, where a debugger reads it
    texts: dict[Path, str | None] = {}
    digests: dict[Path, str] = {}
    found: dict[str, Keyed] = {}
    relative: dict[tuple[str, tuple[str, ...]], tuple[str, ...]] = {}  # flags of each set, by compiler
    names: dict[
        tuple[Path, ...], tuple[tuple[str, str], ...]
    ] = {}  # and what rows that include the same share

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
        if (flags := (edge.compiler, edge.flags)) not in relative:
            words = (*compiler.flags, *edge.flags)
            relative[flags] = keys.relative_flags(words, root)
            folders = keys.folders_of(words, os.environ, root)
            if folders not in scans:
                scans[folders] = keys.header_scanner(folders, root, read)
            scan_of[flags] = scans[folders]
            if keys.asks_for_native(keys.expanded(words, root)):
                native[flags] = (generated.box.identity, *sorted(generated.box.features))
            folder[flags] = f" {root}" if any(re.match(r"-g(?!0)", word) for word in words) else ""
        headers = scan_of[flags](text, source.parent)
        if any(map(_PRECOMPILED.match, edge.implicit)):
            headers = (*headers, precompiled)
        if headers not in names:
            names[headers] = tuple((os.path.relpath(header, root), digest(header)) for header in headers)
        inputs = keys.Inputs(
            kind="pch" if edge.rule.startswith("pch_") else "object",
            compiler=compiler.identity,
            flags=relative[flags],
            source=digest(source),
            headers=names[headers],
            features=native.get(flags, ()),
            environ=environ,
            # The depfile that is kept beside the object names both, and what a debugger reads the folder.
            salt=f"{edge.inputs[0]} {edge.output}{folder[flags]}",
        )
        return Keyed(edge, inputs, keys.key(inputs), {path: digest(path) for path in (source, *headers)})

    def worker_key(edge: graph.Edge) -> Keyed:
        sources = {Path(name): digest(Path(name)) for name in (*edge.inputs, *edge.implicit)}
        flags = tuple(flag for flag in edge.flags if not flag.startswith("-I"))
        inputs = keys.Inputs(
            "worker", default.identity, flags, objects=tuple(sources.values()), environ=environ
        )
        return Keyed(edge, inputs, keys.key(inputs), sources)

    for edge in edges:
        if edge.rule == graph.WORKER_RULE:
            found[edge.output] = worker_key(edge)
        elif edge.rule not in LINKED and (one := compile_key(edge)) is not None:
            found[edge.output] = one
    for edge in edges:
        if edge.rule in LINKED and all(name in found for name in edge.inputs):
            libraries = {root / name: cache.file_digest(root / name) for name in edge.implicit}
            inputs = keys.Inputs(
                kind=edge.rule,
                compiler=default.identity,
                flags=keys.relative_flags((*default.flags, *edge.flags, *edge.libs), root),
                headers=tuple((os.path.relpath(path, root), was) for path, was in libraries.items()),
                objects=tuple(found[name].key for name in edge.inputs),
                stamps=edge.stamps,
                mode=edge.mode,
                tools=(default.archiver[:1] if edge.rule == "archive" else ()),
            )
            sources = {path: was for name in edge.inputs for path, was in found[name].sources.items()}
            found[edge.output] = Keyed(edge, inputs, keys.key(inputs), sources | libraries)
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
    state_path = root / generated.graph.folder / STATE
    state = _read_state(state_path)
    wanted = keyed(generated, edges)
    sources = {path for one in wanted.values() for path in one.sources}
    as_read = {path: _signature(path) for path in sources}
    _warn_of_skew(root, as_read, say)
    stale = {
        output: one
        for output, one in wanted.items()
        if state.get(output) != _noted(one, root) or not (root / output).exists()
    }
    inputs_path = state_path.with_name(INPUTS)
    if explain:
        for line in because.reasons(because.read(inputs_path), _inputs_of(stale)):
            say(f"tunebuild: {line}")
    store = cache.store()
    hits_folder = root / "build/hits" / str(os.getpid())
    hits = _lay_hits(store, stale, hits_folder, root)
    environ = _environ(generated, hits_folder if hits else None)
    _forget_outputs(root, stale, state, state_path)
    before = {edge.output: _stat(root / edge.output) for edge in edges}
    command = [ninja_path(), "-f", f"{generated.graph.folder}/build.ninja", "-d", "keepdepfile"]
    command += ["-k", "0"] * keep_going + list(targets)
    # Ninja and its tools hold this lock too: should we be killed, the next build waits for what still runs.
    with emit.locked(
        root / NINJA_LOCK, wait_message="the tools of a killed build still run, waiting"
    ) as held:
        _remove_old_hits(hits_folder)
        code, failures = ninjarun.run(command, root, environ, say, held)
    shutil.rmtree(hits_folder, ignore_errors=True)
    changed = [edge.output for edge in edges if _stat(root / edge.output) not in (None, before[edge.output])]
    edited = {path for path in sources if _signature(path) != as_read[path]}
    failed = {failure.output for failure in failures}
    fresh = {output: stale[output] for output in changed if output in stale and output not in failed}
    notes = _record(generated, fresh, state, hits, edited, failed=bool(code))
    _write_state(state_path, state)
    because.remember(
        inputs_path, _inputs_of({output: one for output, one in fresh.items() if output in state})
    )
    made = tuple(output for output in changed if output not in hits)
    raced = generated.graph.folder == graph.BUILD
    if raced and any("__" in output and output.endswith(".o") for output in made):
        (root / BINARY_STAMP).touch()
    cache.gc_if_due(store)
    return Ran(code, made, tuple(hits), failures, notes)


def _inputs_of(outputs: Mapping[str, Keyed]) -> dict[str, keys.Inputs]:
    return {output: one.inputs for output, one in outputs.items()}


def _noted(one: Keyed, root: Path) -> str:
    """What the state holds for an output that is there under its key. What people use is known by size and
    time as well: an artifact that something else overwrote is made again."""
    if one.edge.rule not in LINKED:
        return one.key
    found = _stat(root / one.edge.output)
    return f"{one.key} {found[2]} {found[0]}" if found else ""


def _forget_outputs(root: Path, stale: Mapping[str, Keyed], state: dict[str, str], path: Path) -> None:
    """Remove what is there under another key. Ninja goes by times, and an edit may carry an old one; what it
    would leave alone is then neither kept nor, worse, published under the new key.

    What people use stays until there is a new one: it is only dated back.
    """
    gone = False
    for output, one in stale.items():
        gone = state.pop(output, None) is not None or gone
        with contextlib.suppress(FileNotFoundError):
            if one.edge.rule in (*LINKED, graph.WORKER_RULE):
                os.utime(root / output, ns=(0, 0))
            else:
                os.unlink(root / output)
    if gone:  # should this build be killed, the next one must not trust the old keys
        _write_state(path, state)


def _record(
    generated: Generated,
    fresh: Mapping[str, Keyed],
    state: dict[str, str],
    hits: Container[str],
    edited: Container[Path],
    failed: bool,
) -> tuple[str, ...]:
    """Note the keys of what was made now, and publish what a tool made; return why something was not cached.

    What was made while its text or its compiler changed may be of either: it has no key. Nor is a row broken
    whose compiler went away.

    :raises UsageError: when a compiler is gone.
    :raises WorkFailed: when edges failed and a compiler is not what it was.
    """
    root, store = generated.root, cache.store()
    made = [output for output in fresh if output not in hits]
    if (made or failed) and _identities(
        generate.find_tools(generated.manifest, generated.tools.target)
    ) != _identities(generated.tools):
        if failed:
            raise WorkFailed("a compiler was replaced while it was at work", fix="build again")
        return (f"{len(made)} outputs were not cached: a compiler was replaced while it was at work",)
    notes: dict[str, None] = {}
    for output, one in fresh.items():
        changed = next((path for path in one.sources if path in edited), None)
        if changed is not None:
            notes[f"{changed.name} changed while it was compiled"] = None
            continue
        state[output] = _noted(one, root)
        if output not in hits:
            notes[_publish(store, one, root)] = None
    return tuple(sorted(note for note in notes if note not in ("", "the cache is switched off")))


def _identities(tools: generate.Tools) -> dict[tuple[str, str], str]:
    return {
        key: found.identity if isinstance(found, toolchain.Compiler) else ""
        for key, found in tools.compilers.items()
    }


def _warn_of_skew(root: Path, as_read: Mapping[Path, Signature], say: Callable[[str], None]) -> None:
    """Ninja goes by times: what reads a file dated ahead is made again each time, until that date."""
    limit = time.time_ns() + SKEW_NS
    ahead = sorted((was[1], path) for path, was in as_read.items() if was and was[1] > limit)
    if ahead:
        mtime_ns, path = ahead[-1]
        others = f" and {len(ahead) - 1} more" if len(ahead) > 1 else ""
        say(
            f"tunebuild: clock skew: {os.path.relpath(path, root)}{others} is dated "
            f"{(mtime_ns - limit + SKEW_NS) / 1e9:.0f} s ahead; what reads it is made again by every build"
        )


Signature = tuple[int, int, int, int] | None


def _signature(path: Path) -> Signature:
    """Size, times and inode: an edit under an old time still shows in the change time."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)


def _stat(path: Path) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_ino, found.st_size)


def _write_state(path: Path, state: Mapping[str, str]) -> None:
    emit.write_if_changed(path, json.dumps({"version": 1, "keys": state}, sort_keys=True))


def _read_state(path: Path) -> dict[str, str]:
    try:
        found = json.loads(path.read_text())
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
        entry = cache.lookup(store, one.key, root) if graph.served(one.edge) else None
        if entry is None:
            continue
        name = graph.hit_name(output)
        cache.fetch(entry, folder, {file.name: folder / (name + file.name[1:]) for file in entry.files})
        hits.add(output)
    return hits


def _remove_old_hits(own: Path) -> None:
    """Remove what killed builds laid out: their tools have ended, since the lock is ours."""
    with contextlib.suppress(OSError):
        for name in os.listdir(own.parent):
            if name != own.name:
                shutil.rmtree(own.with_name(name), ignore_errors=True)


def _publish(store: cache.Store, one: Keyed, root: Path) -> str:
    """Store one output, its depfile with it; return why it was not stored."""
    output = root / one.edge.output
    if not graph.served(one.edge):
        return ""
    try:
        files = [cache.File("o", output.read_bytes(), output.stat().st_mode & 0o777)]
        read: tuple[str, ...] = ()
        if one.edge.rule in LINKED:  # the keys of its objects hold no system headers
            read = _read_beside(one, root, one.edge.inputs)
        elif one.edge.rule != graph.WORKER_RULE:
            read = _read_beside(one, root, (one.edge.output,))
            files.append(cache.File("o.d", Path(f"{output}.d").read_bytes()))
    except OSError as error:
        return f"{one.edge.output} was not cached: {error.strerror}"
    return cache.publish(store, one.key, files, root=root, read=read, sources=one.sources)


def _read_beside(one: Keyed, root: Path, objects: Iterable[str]) -> tuple[str, ...]:
    """What the compiles of these objects read beside the inputs of a key, by their depfiles, each once."""
    inside = f"{root}{os.sep}"
    known = {os.fspath(path).removeprefix(inside) for path in one.sources}
    texts = (Path(f"{root / name}.d").read_bytes().decode(errors="surrogateescape") for name in objects)
    names = dict.fromkeys(name for text in texts for name in keys.depfile(text))
    return tuple(name for name in names if _plain(name) not in known and not _PRECOMPILED.match(name))


@functools.lru_cache(maxsize=4096)
def _plain(name: str) -> str:
    """Most compiles read the same files."""
    return os.path.normpath(name)


def _environ(generated: Generated, hits: Path | None) -> dict[str, str]:
    environ = {**os.environ, "TB_FRESH": "1", "LC_ALL": "C"}
    environ.pop("TB_HITS", None)
    for found in generated.tools.compilers.values():
        if isinstance(found, toolchain.Compiler):
            environ |= dict(found.environ)
    if hits:
        environ["TB_HITS"] = str(hits)
    return environ


def must(ran: Ran, what: str) -> Ran:
    """:raises WorkFailed: with the words of what failed."""
    if ran.code:
        outputs = ", ".join(_told(failure) for failure in ran.failures) or "see above"
        raise WorkFailed(f"{what} failed: {outputs}")
    return ran


def _told(failure: Failure) -> str:
    """An output, and of its tool's words the line that says why."""
    # collect2 says only that the linker has spoken.
    words = (line.strip() for line in failure.words.splitlines())
    lines = [line for line in words if line and not line.startswith("collect2:")]
    why = next((line for line in lines if "error:" in line), lines[-1] if lines else "")
    return f"{failure.output} ({why[:200]})" if why else failure.output

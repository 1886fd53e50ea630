"""Compilers: found, identified by content, and asked what they accept.

Starting a compiler costs 10 to 300 ms, and a no-op build may start none: what was learnt is kept in a small
file, keyed by the stat of every program that was looked at. A changed program, by content or by time, is
asked again.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from tunebuild.emit import write_if_changed
from tunebuild.errors import UsageError
from tunebuild.model import Toolchain

MEMO_VERSION = 3
PROBE_TIMEOUT_S = 60
COMPILERS = ("gcc", "clang", "cc")

Kind = Literal["gcc", "clang", "zig"]


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C compiler that is here. ``argv`` and ``flags`` begin every compile and link line, in that order."""

    name: str  # the toolchain's, "" for the default one
    argv: tuple[str, ...]
    flags: tuple[str, ...]  # the options it was named with, and what portable, reproducible objects need
    kind: Kind
    version: str  # the first line it says of itself
    target: str  # "x86_64", "aarch64", ...
    identity: str  # digest of its programs' content, version, target and the options it was named with
    archiver: tuple[str, ...]  # a command; "rcsD ARCHIVE OBJECTS" follows
    run: tuple[str, ...] = ()  # the emulator of its binaries
    runs: bool = True  # whether this machine can execute what it makes
    environ: tuple[tuple[str, str], ...] = ()  # what its processes need beside ours
    watched: tuple[str, ...] = ()  # its programs, and where another would be found before one of them


@dataclass(frozen=True, slots=True)
class Absent:
    """An optional toolchain that is not here: its rows are skipped, and this is why."""

    name: str
    why: str


# --- finding -------------------------------------------------------------------------------------


def find(
    toolchain: Toolchain, environ: Mapping[str, str] = os.environ, memo: Path | None = None
) -> Compiler | Absent:
    """The compiler of a toolchain. ``memo`` is the file that saves the next run from asking.

    :raises UsageError: when it is not here, or not for its target, and not optional.
    """
    command = _command(toolchain, environ)
    if isinstance(command, Absent):
        return _absent(toolchain, command.why)
    finds = [environ.get(name, "") for name in ("PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX")]
    key = json.dumps([toolchain.name, toolchain.target, toolchain.run, command, finds])
    known = _recall(memo, key)
    if known is not None:
        return known
    try:
        found = _identify(toolchain, command, environ)
    except (OSError, subprocess.SubprocessError) as error:
        return _absent(toolchain, f"{shlex.join(command)} does not run: {_first_line(str(error))}")
    if isinstance(found, Absent):
        return _absent(toolchain, found.why)
    _remember(memo, key, found)
    return found


def require_launcher(launcher: str, environ: Mapping[str, str] = os.environ) -> None:
    """Raise `UsageError` for a compiler launcher that is not on PATH; "" is none."""
    words = shlex.split(launcher)
    if words and shutil.which(words[0], path=environ.get("PATH", os.defpath)) is None:
        raise UsageError(
            f"the compiler launcher {words[0]} is not on PATH",
            where="tune.toml, build.launcher",
            fix=f"install {words[0]}, or remove `launcher` from [build]",
        )


def _absent(toolchain: Toolchain, why: str) -> Absent:
    if toolchain.optional:
        return Absent(toolchain.name, why)
    where = f"[toolchain.{toolchain.name}]" if toolchain.name else "[build] cc"
    fix = "install gcc or clang, or the Python package ziglang, or set CC"
    if toolchain.name:
        fix = "install it, correct its cc, or write optional = true: its rows are then skipped"
    raise UsageError(why, where=where, fix=fix)


def _command(toolchain: Toolchain, environ: Mapping[str, str]) -> tuple[str, ...] | Absent:
    """The command line to try, its program as an absolute path."""
    path = environ.get("PATH", os.defpath)
    if toolchain.cc not in ("", "auto"):
        return _resolved(toolchain.cc, path, "")
    if environ.get("CC") and not toolchain.target:
        return _resolved(environ["CC"], path, "$CC: ")
    names = (f"{toolchain.target}-linux-gnu-gcc", "clang") if toolchain.target else COMPILERS
    for name in names:
        program = shutil.which(name, path=path)
        if program:
            return (program,)
    import importlib.util

    if importlib.util.find_spec("ziglang"):
        return (sys.executable, "-m", "ziglang", "cc")
    return Absent(toolchain.name, f"no C compiler is here: tried {', '.join(names)} and zig cc")


def _resolved(command: str, path: str, said_by: str) -> tuple[str, ...] | Absent:
    try:
        words = shlex.split(command)
    except ValueError as error:
        return Absent("", f"{said_by}{command!r} is no command line: {error}")
    if not words:
        return Absent("", f"{said_by}the command is empty")
    program = shutil.which(words[0], path=path)
    if program is None:
        return Absent("", f"{said_by}{words[0]} is not on this machine")
    return (os.path.abspath(program), *words[1:])


# --- identifying ---------------------------------------------------------------------------------


def _identify(
    toolchain: Toolchain, command: tuple[str, ...], environ: Mapping[str, str]
) -> Compiler | Absent:
    ours = _zig_environ(command, environ)
    argv, options = _split(command)
    spoken = _ask((*command, "--version"), environ, ours)
    kind = _kind(command, spoken)
    flags = _target_flags(kind, toolchain.target)
    target = toolchain.target if flags else _arch(_ask((*command, "-dumpmachine"), environ, ours))
    if kind == "zig":
        target = toolchain.target or _arch(os.uname().machine)
        flags = (*flags, *_zig_flags(target))
    if toolchain.target and target != toolchain.target:
        return Absent("", f"{shlex.join(command)} makes code for {target}, not for {toolchain.target}")
    programs, before = _programs(command, kind, environ, ours)
    run, runs = _emulator(toolchain, target, environ)
    return Compiler(
        name=toolchain.name,
        argv=argv,
        flags=(*options, *flags),
        kind=kind,
        version=_first_line(spoken) or kind,
        target=target,
        identity=_content(programs, spoken, target, options),
        archiver=_archiver(command, kind, target, environ),
        run=run,
        runs=runs,
        environ=tuple(sorted(ours.items())),
        watched=tuple(sorted({argv[0], *run[:1], *programs, *before})),
    )


def _split(command: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """A compiler's command and the options behind it, as in `CC="gcc -m32"`."""
    first = command.index("cc") + 1 if _is_zig(command) else 1
    at = next((at for at in range(first, len(command)) if command[at][:1] in ("-", "@")), len(command))
    return command[:at], command[at:]


def _kind(command: tuple[str, ...], spoken: str) -> Kind:
    if _is_zig(command):
        return "zig"
    return "clang" if "clang" in spoken.lower() else "gcc"


def _is_zig(command: tuple[str, ...]) -> bool:
    return "cc" in command and ("ziglang" in command or Path(command[0]).name == "zig")


def _target_flags(kind: Kind, target: str) -> tuple[str, ...]:
    """A gcc has one target; the others are told theirs."""
    if not target or kind == "gcc":
        return ()
    return (f"--target={target}-linux-gnu",) if kind == "clang" else ("-target", f"{target}-linux-gnu")


def _zig_flags(target: str) -> tuple[str, ...]:
    """zig compiles for the CPU it stands on, and adds UBSan traps, unless told not to."""
    baseline = ("-mcpu=x86_64",) if target == "x86_64" else ("-mcpu=baseline",)
    return (*baseline, "-fno-sanitize=undefined")


def _zig_environ(command: tuple[str, ...], environ: Mapping[str, str]) -> dict[str, str]:
    """Without a home zig has nowhere to keep what it builds of its own C library."""
    if not _is_zig(command) or environ.get("HOME") or environ.get("ZIG_GLOBAL_CACHE_DIR"):
        return {}
    import tempfile

    return {"ZIG_GLOBAL_CACHE_DIR": str(Path(tempfile.gettempdir()) / f"tunebuild-zig-{os.getuid()}")}


def _arch(triple: str) -> str:
    arch = triple.strip().split("-")[0]
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(arch, arch)


def _programs(
    command: tuple[str, ...], kind: Kind, environ: Mapping[str, str], ours: Mapping[str, str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The files whose content decides what comes out: the command's own programs (`ccache clang` has two), the
    compiler proper, assembler, linker. Behind them the places of PATH that come first for those found there."""
    if kind == "zig":
        return (_zig_program(command, environ, ours),), ()
    folders = environ.get("PATH", os.defpath).split(os.pathsep)
    asked = ("cc1", "as", "ld") if kind == "gcc" else ("clang", "ld")
    said = (_ask((*command, f"-print-prog-name={name}"), environ, ours).strip() for name in asked)
    found, before = [os.path.realpath(command[0])], []
    for name in (*_split(command)[0][1:], *said):
        program = shutil.which(name, path=os.pathsep.join(folders)) if name else None
        if program:
            found.append(os.path.realpath(program))
        if program and not os.path.dirname(name):
            before += [os.path.join(folder, name) for folder in folders]
    return tuple(dict.fromkeys(found)), tuple(dict.fromkeys(before))


def _zig_program(command: tuple[str, ...], environ: Mapping[str, str], ours: Mapping[str, str]) -> str:
    if Path(command[0]).name == "zig":
        return os.path.realpath(command[0])
    where = "import os, ziglang; print(os.path.dirname(ziglang.__file__))"
    return str(Path(_ask((command[0], "-c", where), environ, ours).strip()) / "zig")


def _archiver(
    command: tuple[str, ...], kind: Kind, target: str, environ: Mapping[str, str]
) -> tuple[str, ...]:
    path = environ.get("PATH", os.defpath)
    if kind == "zig":
        return (*command[: command.index("cc")], "ar")
    foreign = target != _arch(os.uname().machine)
    for name in (f"{target}-linux-gnu-ar", "llvm-ar", "ar") if foreign else ("ar", "llvm-ar", "gcc-ar"):
        program = shutil.which(name, path=path)
        if program:
            return (program,)
    import importlib.util

    if importlib.util.find_spec("ziglang"):
        return (sys.executable, "-m", "ziglang", "ar")
    return ()


def _emulator(toolchain: Toolchain, target: str, environ: Mapping[str, str]) -> tuple[tuple[str, ...], bool]:
    if toolchain.run:
        run = _resolved(toolchain.run, environ.get("PATH", os.defpath), "")
        return ((), False) if isinstance(run, Absent) else (run, True)
    return (), target == _arch(os.uname().machine)


def _content(programs: Iterable[str], spoken: str, target: str, options: tuple[str, ...]) -> str:
    hashed = hashlib.sha256()
    for program in programs:
        with open(program, "rb") as stream:
            hashed.update(hashlib.file_digest(stream, "sha256").digest())
    hashed.update("\0".join((spoken, target, *options)).encode())
    return hashed.hexdigest()


def _ask(command: tuple[str, ...], environ: Mapping[str, str], ours: Mapping[str, str]) -> str:
    """What a compiler says, in the C locale, so that its words are the same for everyone."""
    done = subprocess.run(
        command,
        env={**environ, **ours, "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=PROBE_TIMEOUT_S,
        check=True,
    )
    return done.stdout


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0].strip() if text.strip() else ""


# --- probing -------------------------------------------------------------------------------------


def accepts(
    compiler: Compiler,
    flags: Iterable[str],
    environ: Mapping[str, str] = os.environ,
    memo: Path | None = None,
) -> bool:
    """Whether the compiler takes these flags, without so much as a warning about them."""
    asked = tuple(flags)
    if not asked:
        return True
    key = json.dumps(["accepts", compiler.identity, compiler.flags, asked])
    known = _load(memo).get(key)
    if isinstance(known, bool):
        return known
    answer = _makes(compiler, (*asked, "-Werror", "-c"), environ)
    _store(memo, key, answer)
    return answer


def links(compiler: Compiler, flags: Iterable[str], environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a shared library links with these flags: a compiler may take what its libraries lack."""
    return _makes(compiler, (*flags, "-fPIC", "-shared"), environ)


def _makes(compiler: Compiler, words: tuple[str, ...], environ: Mapping[str, str]) -> bool:
    """Whether the compiler makes something of a small file by these words."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="tunebuild-") as folder:
        source = Path(folder) / "probe.c"
        source.write_text("int tb_probe(int x) { return x + 1; }\n")
        try:
            done = subprocess.run(
                [*compiler.argv, *compiler.flags, *words, str(source), "-o", f"{folder}/probe"],
                env={**environ, **dict(compiler.environ), "LC_ALL": "C"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=PROBE_TIMEOUT_S,
            )
        except (OSError, subprocess.SubprocessError):
            return False
    return done.returncode == 0


# --- the memo ------------------------------------------------------------------------------------


def _recall(memo: Path | None, key: str) -> Compiler | None:
    entry: Any = _load(memo).get(key)
    try:
        if entry is None or any(_signature(path) != was for path, was in entry["stats"].items()):
            return None
        return Compiler(**{name: _tuples(value) for name, value in entry["compiler"].items()})
    except (KeyError, TypeError, AttributeError):
        return None


def _tuples(value: Any) -> Any:
    """JSON knows lists only."""
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


def _remember(memo: Path | None, key: str, found: Compiler) -> None:
    if memo is None:
        return
    stats = {path: _signature(path) for path in found.watched}
    _store(memo, key, {"compiler": asdict(found), "stats": stats})


def _signature(path: str) -> list[int] | None:
    try:
        facts = os.stat(path)
    except OSError:
        return None
    return [facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino]


def _load(memo: Path | None) -> dict[str, object]:
    if memo is None:
        return {}
    try:
        document = json.loads(memo.read_text())
        entries = document["entries"]
        return entries if document["version"] == MEMO_VERSION and isinstance(entries, dict) else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _store(memo: Path | None, key: str, value: object) -> None:
    if memo is not None:
        entries = {**_load(memo), key: value}
        document = {"version": MEMO_VERSION, "entries": entries}
        write_if_changed(memo, json.dumps(document, indent=0, sort_keys=True))

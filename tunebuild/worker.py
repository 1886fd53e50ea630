"""The process that runs rows: started, spoken to in lines, and gone when the block ends.

The worker (runtime/worker, C) survives its rows; this side survives the worker. It is a process group of
its own, so that ending it ends every child, and what it prints on standard error is kept to a limit.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO
from urllib.parse import unquote

from tunebuild.calls import Driver
from tunebuild.errors import WorkFailed

PROTOCOL = 2
SOURCES = Path(__file__).parent / "runtime" / "worker"
_ERROR_LIMIT = 64 << 10
_CHUNK = 32  # lines with replies in flight: both pipes stay far from full


def compile_command(cc: Sequence[str], output: Path, flags: Sequence[str] = ("-O2",)) -> tuple[str, ...]:
    """The command that builds the worker executable with compiler ``cc``."""
    sources = sorted(str(path) for path in SOURCES.glob("*.c"))
    return (*cc, "-std=gnu17", *flags, *sources, "-o", str(output), "-ldl", "-lm")


class WorkerDied(WorkFailed):
    """The worker itself is gone: what it loaded or ran reached beyond its own process."""


class Worker:
    """One tune library in one worker process. Use it in a `with` block.

    ``emulator`` is a command put before the executable, such as ``("qemu-aarch64",)``; under one, addresses
    stay as the emulator makes them. ``core`` is the CPU that timed code is pinned to, -1 none.
    """

    def __init__(
        self,
        executable: Path,
        library: Path,
        *,
        emulator: Sequence[str] = (),
        core: int = -1,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        fixed = () if emulator else ("fixed",)  # an emulator cannot restart itself
        self._command = (*emulator, str(executable), str(library.resolve()), *fixed)
        self._environ = dict(os.environ if environ is None else environ)
        self._environ.setdefault("ASAN_OPTIONS", "detect_leaks=0")
        if emulator and (prefix := _emulated_root(emulator[0])):
            self._environ.setdefault("QEMU_LD_PREFIX", prefix)
        self.emulated = bool(emulator)
        self._core = core
        self._library = library
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self.drivers: dict[str, Driver] = {}
        self.supports: tuple[str, ...] = ()
        self.randomised = True  # whether addresses differ from run to run
        self.pinned = -1
        self.job: object = None  # who described the job that the worker holds now

    def __enter__(self) -> Worker:
        self._errors = tempfile.TemporaryFile()
        try:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=self._environ,
                start_new_session=True,
            )
        except OSError as error:
            self._errors.close()
            raise WorkFailed(
                f"cannot start the worker: {error.strerror or error}", where=self._command[0]
            ) from error
        try:
            self._greet()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def restart(self) -> None:
        """A new process in the place of one that died; it knows no job."""
        self.close()
        self.job = None
        self.__enter__()

    def close(self) -> None:
        """End the process and every child of it; safe to repeat."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()
        if self._errors is not None:
            self._errors.close()
            self._errors = None

    def _greet(self) -> None:
        words = self._reply().split()
        known = dict(word.partition("=")[::2] for word in words[2:])
        if words[:2] != ["worker", str(PROTOCOL)]:
            raise WorkFailed(f"the worker speaks another protocol: {' '.join(words)}", fix="build it again")
        self.randomised = known["randomised"] == "1"
        for _ in range(int(known["drivers"])):
            driver = _driver(self._reply())
            self.drivers[driver.name] = driver
        self.supports = tuple(self._reply().split()[1] for _ in range(int(known["supports"])))
        if self._core >= 0:
            self.pinned = int(self.ask([f"pin {self._core}"], 1)[0].split()[1])

    def ask(self, lines: Sequence[str], replies: int) -> list[str]:
        """Send ``lines``; the next ``replies`` lines of answer. `WorkFailed`: it refuses; `WorkerDied`: it is gone."""
        self._send(lines)
        return [self._reply() for _ in range(replies)]

    def ask_each(self, lines: Sequence[str]) -> Iterator[str]:
        """One reply a line, in order, a few lines in flight at a time."""
        for start in range(0, len(lines), _CHUNK):
            chunk = lines[start : start + _CHUNK]
            self._send(chunk)
            for _ in chunk:
                yield self._reply()

    def _send(self, lines: Sequence[str]) -> None:
        if self._process is None or self._process.stdin is None:
            raise WorkFailed("the worker is not running")
        try:
            self._process.stdin.write("".join(f"{line}\n" for line in lines).encode())
            self._process.stdin.flush()
        except OSError:
            raise self._death() from None

    def _reply(self) -> str:
        if self._process is None or self._process.stdout is None:
            raise WorkFailed("the worker is not running")
        line = self._process.stdout.readline().decode(errors="replace")
        if not line.endswith("\n"):
            raise self._death()
        if line.startswith("refused load: "):
            raise WorkFailed(line.removeprefix("refused load: ").strip(), where=str(self._library))
        if line.startswith("refused "):
            raise WorkFailed(f"the worker refused: {line.removeprefix('refused ').strip()}")
        return line.rstrip("\n")

    def _death(self) -> WorkerDied:
        """Why it is gone; often a constructor of the library, which runs before any row is named."""
        assert self._process is not None and self._errors is not None
        status = self._process.wait()
        self._errors.seek(0)
        text = self._errors.read(_ERROR_LIMIT).decode(errors="replace").strip()
        how = f"signal {signal.Signals(-status).name}" if status < 0 else f"status {status}"
        return WorkerDied(
            f"the worker ended with {how}{': ' + text if text else ''}",
            where=str(self._library),
            fix="run the worker on this library by hand to see more",
        )


def parse_finding(reply: str) -> dict[str, str]:
    """The key=value words of a reply, texts decoded."""
    return {key: unquote(value) for key, equals, value in (w.partition("=") for w in reply.split()) if equals}


def _driver(line: str) -> Driver:
    name = line.split()[1]
    known = dict(word.partition("=")[::2] for word in line.split()[2:])
    listed = {key: tuple(filter(None, known[key].split(","))) for key in ("buffers", "scalars", "rows")}
    return Driver(name, known["result"], known["oracle"] == "1", **listed)


def _emulated_root(emulator: str) -> str:
    """Where Debian and Ubuntu keep another architecture's C library, "" where they do not."""
    arch = Path(emulator).name.removeprefix("qemu-").removesuffix("-static")
    root = Path(f"/usr/{arch}-linux-gnu")
    return str(root) if root.is_dir() else ""

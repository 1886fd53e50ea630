"""One run of ninja: its lines relayed, what failed kept in words, a hanging compiler ended.

Ninja has no time limit of its own. When nothing has finished for `TUNEBUILD_COMPILE_TIMEOUT` seconds (600;
0: never), the tools that run then are killed with all their children; ninja reports their edges as failed and
goes on as far as it was told to. What one edge prints is relayed up to `MAX_WORDS` bytes: a compiler that
prints a hundred megabytes fills neither the terminal nor the report.
"""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tunebuild import children
from tunebuild.errors import UsageError

MAX_WORDS = 64_000  # bytes kept of a compiler's words
TIMEOUT = "TUNEBUILD_COMPILE_TIMEOUT"
TIMEOUT_S = 600.0
TRUNCATED = "... truncated"

_FAILED = re.compile(r"^FAILED: (?:\[code=\d+\] )?(.+?) *$")
_STEP = re.compile(r"^\[\d+/\d+\]|^ninja: ")


@dataclass(frozen=True, slots=True)
class Failure:
    """One edge that failed: its output, and the words of the tool."""

    output: str
    words: str


def ninja_path() -> str:
    """The wheel's own binary: a distribution's older one discards a newer log and rebuilds everything."""
    beside = Path(sys.executable).with_name("ninja")
    if beside.exists():
        return str(beside)
    import ninja

    return str(Path(ninja.BIN_DIR) / "ninja")


def timeout_s(environ: Mapping[str, str]) -> float:
    """How long no edge may finish; 0 is for ever.

    :raises UsageError: when the variable is no number of seconds.
    """
    text = environ.get(TIMEOUT, "")
    try:
        seconds = float(text) if text else TIMEOUT_S
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise UsageError(
            f"{TIMEOUT}={text} is no number of seconds", fix="write one, such as 600, or 0: never"
        )
    return seconds


def run(
    command: list[str], root: Path, environ: Mapping[str, str], say: Callable[[str], None], held: int
) -> tuple[int, tuple[Failure, ...]]:
    """Run ninja in its own process group; its exit code, and the edges that failed. It inherits ``held``."""
    limit_s = timeout_s(environ)
    with subprocess.Popen(
        command, cwd=root, env=dict(environ), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, start_new_session=True, pass_fds=(held,),
    ) as process:  # fmt: skip
        try:
            failures = _relay(_lines(process, limit_s), say)
        except BaseException:
            tools = _children(process.pid)  # ninja gives each a group of its own, and asks it to end
            children.end(process, group=True)
            children.end_groups(tools)
            raise
        code = process.wait()
    return code, failures


def _relay(lines: Iterable[str], say: Callable[[str], None]) -> tuple[Failure, ...]:
    failures: list[tuple[str, list[str]]] = []
    said = 0  # bytes since the last step
    for line in lines:
        if (match := _FAILED.match(line)) is not None:
            failures.append((match[1], []))
            said = 0
        elif _STEP.match(line):
            failures.append(("", []))
            said = 0
        else:
            said += len(line) + 1
            if said > MAX_WORDS + len(line) + 1:
                continue  # said already that there is more
            if said > MAX_WORDS:
                line = TRUNCATED
            if failures and failures[-1][0]:
                failures[-1][1].append(line)
                if len(failures[-1][1]) == 1:
                    continue  # the command, which `tunebuild explain` gives better
        if line and "no work to do" not in line:
            say(line)
    return tuple(Failure(output, "\n".join(words[1:])) for output, words in failures if output)


def _lines(process: subprocess.Popen[bytes], limit_s: float) -> Iterator[str]:
    """What ninja prints, line by line; a line is cut at `MAX_WORDS`. Ends hanging tools on the way."""
    assert process.stdout is not None
    handle = process.stdout.fileno()
    pending = b""
    with selectors.DefaultSelector() as selector:
        selector.register(handle, selectors.EVENT_READ)
        while True:
            if not selector.select(limit_s or None):
                for tool in _kill_children(process.pid):
                    yield f"tunebuild: {tool} did not end in {limit_s:g} s and was killed ({TIMEOUT})"
                continue
            data = os.read(handle, 1 << 16)
            if not data:
                break
            *whole, pending = (pending + data).split(b"\n")
            pending = pending[: MAX_WORDS + 1]
            for line in whole:
                yield line.decode(errors="replace").rstrip("\r")
    if pending:
        yield pending.decode(errors="replace")


def _kill_children(pid: int) -> list[str]:
    """Kill the process group of each of ninja's children; return what they were."""
    killed = []
    for child in _children(pid):
        with contextlib.suppress(OSError):
            name = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            os.killpg(child, signal.SIGKILL)  # ninja gives each tool a group of its own
            killed.append(name.strip().removeprefix("/bin/sh -c ")[:200] or f"process {child}")
    return killed


def _children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []

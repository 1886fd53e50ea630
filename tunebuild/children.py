"""Ending what we started: asked first, killed when it does not listen, and soon enough for a person who waits."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tunebuild import emit

RELAYED = "TB_RELAYED"
"""The variable of a command whose words pass through another one's: the process id of that one."""
TUNES = "TB_TUNES"
"""The variable of a process that starts under the tuning lock: the tree of that lock."""
TOOL = (sys.executable, "-P", "-m", "tunebuild")
"""Our own command, as a child: -P, so that no file of the folder where it starts passes for one of our modules."""
PATIENCE_S = 0.5
"""From the request to the kill. A signal that nobody heard is raised again after `cli.HEARD_S`, which is longer."""


@contextlib.contextmanager
def tuning(root: Path, wait_message: str) -> Iterator[None]:
    """One race in a tree at a time: two would be each other's noise, and the second one may find its work done. Who
    was started under the lock does not wait for it."""
    tree = os.path.realpath(root)
    if os.environ.get(TUNES) == tree:
        yield
        return
    with emit.locked(Path(tree, "build/tuning"), wait_message=wait_message):
        os.environ[TUNES] = tree
        try:
            yield
        finally:
            del os.environ[TUNES]


def ours() -> dict[str, str]:
    """What a child whose words pass through ours is told of us."""
    held = {TUNES: os.environ[TUNES]} if TUNES in os.environ else {}
    return {RELAYED: str(os.getpid()), **held}


def end_with(pid: int) -> None:
    """End this process, as SIGTERM does, as soon as process ``pid`` is gone: one that is killed tells nobody. Where the
    system cannot watch a process nothing is done."""
    if not hasattr(os, "pidfd_open"):
        return
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        os.kill(os.getpid(), signal.SIGTERM)
        return
    except OSError:  # a kernel or a sandbox without it
        return
    main = threading.main_thread().ident
    assert main is not None
    gone = select.poll()
    gone.register(handle, select.POLLIN)

    def watch() -> None:
        gone.poll()
        signal.pthread_kill(main, signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def end(process: subprocess.Popen[Any], *, group: bool = False, patience_s: float = PATIENCE_S) -> None:
    """End a child and wait for it. ``group``: it leads a process group of its own, which is asked as a whole."""
    with contextlib.suppress(ProcessLookupError):
        if group:
            os.killpg(process.pid, signal.SIGTERM)
        else:
            process.terminate()
    try:
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def end_groups(groups: Iterable[int], patience_s: float = PATIENCE_S) -> None:
    """Kill process groups that were asked to end and have not after ``patience_s``."""
    until = time.monotonic() + patience_s
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            while time.monotonic() < until:
                os.killpg(group, 0)
                time.sleep(0.01)
            os.killpg(group, signal.SIGKILL)

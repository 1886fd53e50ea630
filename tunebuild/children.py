"""Ending what we started: asked first, killed when it does not listen, and soon enough for a person who waits."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from typing import Any

RELAYED = "TB_RELAYED"
"""The variable of a command whose words pass through another one's."""
TOOL = (sys.executable, "-P", "-m", "tunebuild")
"""Our own command, as a child: -P, so that no file of the folder where it starts passes for one of our modules."""
PATIENCE_S = 0.5
"""From the request to the kill. A signal that nobody heard is raised again after `cli.HEARD_S`, which is longer."""


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

"""Rows 25 and 26: closed output, odd terminals, homes and paths."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from faultlab.common import Result, Tally, environment, project, traceback_in, tunebuild, workshop

# --- output ---------------------------------------------------------------------------------------


def odd_output(quick: bool) -> Result:
    """Row 25. Output that is closed, in another encoding, without or on a strange terminal."""
    tally = Tally()
    with workshop() as folder:
        place = project(folder)
        commands = [("status",)] if quick else [
            ("status",), ("check",), ("box",), ("--help",), ("why", "scale_f32"), ("doctor",), ("history",),
            ("explain", "scale_f32__u2"), ("status", "--json"), ("cache", "info"), ("build", "--explain"),
            ("test",), ("mint", "--dry-run"), ("profile", "list"), ("diff",),
        ]  # fmt: skip
        tunebuild(place, "build", env=environment(folder))
        for words in commands:
            plain = tunebuild(place, *words, env=environment(folder)).returncode
            for name, settings in _SETTINGS.items():
                done = tunebuild(place, *words, env=environment(folder, **settings))
                same = done.returncode == plain
                why = traceback_in(done) or ("" if same else f"exit {done.returncode}, not {plain}")
                tally.add(f"{' '.join(words)}, {name}", why)
            tally.add(f"{' '.join(words)} | head", _closed(folder, place, words))
            tally.add(f"{' '.join(words)}, 20 columns", _on_terminal(folder, place, words))
    return tally.result(25, "closed stdout, other locale, no terminal, TERM=dumb, 20 columns")


_SETTINGS: Mapping[str, dict[str, str]] = {
    "LC_ALL=C": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "latin-1": {"PYTHONIOENCODING": "latin-1"},
    "ascii": {"PYTHONIOENCODING": "ascii"},
    "TERM=dumb": {"TERM": "dumb"},
    "NO_COLOR": {"NO_COLOR": "1"},
    "COLUMNS=20": {"COLUMNS": "20"},
}


def _closed(folder: Path, place: Path, words: tuple[str, ...]) -> str:
    """The reader goes away after the first byte."""
    running = subprocess.Popen(
        [sys.executable, "-m", "tunebuild", *words], cwd=place, env=environment(folder),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert running.stdout is not None
    running.stdout.close()
    assert running.stderr is not None
    error = running.stderr.read().decode(errors="replace")
    running.wait()
    return error.strip().splitlines()[-1] if "Traceback" in error or "BrokenPipe" in error else ""


def _on_terminal(folder: Path, place: Path, words: tuple[str, ...]) -> str:
    """On a real terminal of 20 columns and 5 lines."""
    import fcntl
    import struct
    import termios

    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 5, 20, 0, 0))
    running = subprocess.Popen(
        [sys.executable, "-m", "tunebuild", *words], cwd=place, env=environment(folder),
        stdin=child, stdout=child, stderr=child,
    )  # fmt: skip
    os.close(child)
    text = b""
    try:
        while part := os.read(parent, 65536):
            text += part
    except OSError:  # the other end is closed
        pass
    os.close(parent)
    running.wait()
    return text.decode(errors="replace").strip().splitlines()[-1] if b"Traceback" in text else ""


# --- homes and paths ------------------------------------------------------------------------------


def odd_places(quick: bool) -> Result:
    """Row 26. Projects and homes whose paths are missing, strange or long."""
    tally = Tally()
    names = {
        "spaces": "a b  c",
        "letters": "zwölf Kerne 日本",
        "quotes": 'it\'s "$HOME" & `x`; #1',
        "long": "x" * 200,
        "long letters": "é" * 120,
        "deep": "/".join(["d" * 60] * 16),
    }
    with workshop() as folder:
        for name, text in list(names.items())[1:2] if quick else names.items():
            place = project(folder, text)
            for words in (("check",), ("build",), ("test",), ("mint",), ("status",), ("release", "--quick")):
                done = tunebuild(place, *words, env=environment(folder))
                tally.add(f"project in {name}, {words[0]}", _worked(done))
        for name, change in list(_HOMES.items())[: 1 if quick else None]:
            place = project(folder, f"home {name}")
            env = environment(folder)
            change(env)
            for words in (
                ("build",),
                ("test",),
                ("mint",),
                ("history",),
                ("status",),
                ("release", "--quick"),
            ):
                tally.add(f"{name}, {words[0]}", _worked(tunebuild(place, *words, env=env)))
    return tally.result(26, "HOME unset or missing, TMPDIR missing, strange paths")


def _worked(done: subprocess.CompletedProcess[str]) -> str:
    return traceback_in(done) or (
        "" if done.returncode == 0 else f"exit {done.returncode}: {done.stderr[-300:]}"
    )


def _unset_home(env: dict[str, str]) -> None:
    for name in ("HOME", "USERPROFILE", "TUNEBUILD_CACHE", "TUNEBUILD_HISTORY"):
        env.pop(name, None)


def _missing_home(env: dict[str, str]) -> None:
    _unset_home(env)
    env["HOME"] = "/nonexistent/home"


def _missing_tmp(env: dict[str, str]) -> None:
    env["TMPDIR"] = "/nonexistent/tmp"


def _cache_off(env: dict[str, str]) -> None:
    env["TUNEBUILD_CACHE"] = "off"


_HOMES: Mapping[str, Callable[[dict[str, str]], None]] = {
    "HOME unset": _unset_home,
    "HOME missing": _missing_home,
    "TMPDIR missing": _missing_tmp,
    "cache off": _cache_off,
}

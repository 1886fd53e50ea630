"""Rows 2, 24, 25 and 26: killed or interrupted commands, closed output, odd terminals, homes and paths."""

from __future__ import annotations

import json
import os
import pty
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from faultlab.common import Result, Tally, environment, project, traceback_in, tunebuild, workshop


def _mintable(folder: Path) -> Path:
    """The small project with the built-in tuner, its tune binary built."""
    place = project(folder)
    text = (place / "tune.toml").read_text().replace('tuner = "tuner.py"', 'tuner = "builtin"')
    (place / "tune.toml").write_text(text)
    done = tunebuild(place, "build", "--mode", "tune", env=environment(folder))
    if done.returncode:
        raise RuntimeError(done.stderr)
    return place


def _start(place: Path, *words: str, env: Mapping[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tunebuild", *words], cwd=place, env=dict(env), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        preexec_fn=_default_signals,
    )  # fmt: skip


def _default_signals() -> None:
    """A background job of a shell ignores SIGINT, one under nohup SIGHUP; their children would as well."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def _orphans(place: Path) -> list[str]:
    """Processes that still run inside the project."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if Path(os.readlink(folder / "cwd")).is_relative_to(place):
                found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


def killed_mint(quick: bool) -> Result:
    """Row 2. SIGKILL at a random moment of a mint: the sidecar is as it was, and the next command works."""
    tally, chance = Tally(), random.Random(2)
    with workshop() as folder:
        place = _mintable(folder)
        path, env = place / "own_clock.tune.json", environment(folder)
        for number in range(1 if quick else 20):
            path.unlink(missing_ok=True)
            running = _start(place, "mint", env=env)
            time.sleep(chance.uniform(0.1, 3.0))
            running.kill()
            running.wait()
            late = _gone_within(place, 5)
            status = tunebuild(place, "status", "--json", env=env)
            reason = (
                json.loads(status.stdout.splitlines()[-1])["scopes"][0]["reason"]
                if status.stdout
                else "nothing"
            )
            why = late or traceback_in(status)
            tally.add(
                f"kill {number}", why or ("" if reason in ("absent", "none") else f"status says {reason}")
            )
    return tally.result(2, "kill -9 in the middle of a mint")


def _gone_within(place: Path, seconds: float) -> str:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if not _orphans(place):
            return ""
        time.sleep(0.02)
    return f"still running: {_orphans(place)[0][:100]}"


def _started(running: subprocess.Popen[str]) -> None:
    """Wait until the command catches signals: before that Python itself starts, and dies in its own words."""
    while running.poll() is None:
        caught = re.search(r"SigCgt:\s*(\w+)", Path(f"/proc/{running.pid}/status").read_text())
        if caught and int(caught[1], 16) & (1 << (signal.SIGTERM - 1)):
            return
        time.sleep(0.005)


def interrupted(quick: bool) -> Result:
    """Row 24. SIGINT, SIGTERM and SIGHUP in every phase of a mint and of a build."""
    tally = Tally()
    signals = (signal.SIGINT,) if quick else (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    moments = (1.0,) if quick else (0.0, 0.2, 0.5, 1.0, 2.0, 3.0)
    with workshop() as folder:
        place = _mintable(folder)
        for words in (("mint",),) if quick else (("mint",), ("build", "--mode", "tune")):
            for number in signals:
                for moment in moments:
                    if words[0] == "build":
                        shutil.rmtree(place / "build", ignore_errors=True)
                    why = _interrupt(folder, place, words, number, moment)
                    tally.add(f"{words[0]}, {number.name} after {moment} s", why)
    return tally.result(24, "Ctrl-C, SIGTERM, SIGHUP in every phase")


def _interrupt(
    folder: Path, place: Path, words: tuple[str, ...], number: signal.Signals, moment: float
) -> str:
    env = environment(folder, TUNEBUILD_CACHE="off")
    (place / "own_clock.tune.json").unlink(missing_ok=True)
    running = _start(place, *words, env=env)
    _started(running)
    time.sleep(moment)
    done_before = running.poll() is not None
    os.killpg(running.pid, number) if not done_before else None
    sent = time.monotonic()
    try:
        out, _ = running.communicate(timeout=10)
    except subprocess.TimeoutExpired:
        os.killpg(running.pid, signal.SIGKILL)
        running.communicate()
        return "did not end within 10 s"
    took = time.monotonic() - sent
    code = running.returncode
    if "Traceback (most recent call last)" in out:
        return out.strip().splitlines()[-1]
    if left := _gone_within(place, 2):
        return left
    if not done_before and code not in (0, 128 + number, -number):
        return f"exit {code}: {out[-200:]}"
    if took > 2:
        return f"took {took:.1f} s"
    again = tunebuild(place, "status", env=environment(folder))
    return traceback_in(again)


# --- output ---------------------------------------------------------------------------------------


def odd_output(quick: bool) -> Result:
    """Row 25. Output that is closed, in another encoding, without or on a strange terminal."""
    tally = Tally()
    with workshop() as folder:
        place = project(folder)
        commands = [("status",)] if quick else [
            ("status",), ("check",), ("box",), ("--help",), ("why", "scale_f32"), ("doctor",), ("history",),
            ("explain", "scale_f32__u2"), ("status", "--json"), ("cache", "info"),
        ]  # fmt: skip
        tunebuild(place, "build", env=environment(folder))
        for words in commands:
            for name, settings in _SETTINGS.items():
                done = tunebuild(place, *words, env=environment(folder, **settings))
                why = traceback_in(done) or (f"exit {done.returncode}" if done.returncode else "")
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
    }
    with workshop() as folder:
        for name, text in list(names.items())[1:2] if quick else names.items():
            place = project(folder, text)
            for words in (("check",), ("build",), ("status",)):
                done = tunebuild(place, *words, env=environment(folder))
                tally.add(f"project in {name}, {words[0]}", _worked(done))
        for name, change in list(_HOMES.items())[: 1 if quick else None]:
            place = project(folder, f"home {name}")
            env = environment(folder)
            change(env)
            for words in (("build",), ("status",)):
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

"""Rows 2 and 24: a mint that is killed at any of its events, and every signal in every phase, on a terminal."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import random
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from faultlab.common import Result, Tally, environment, holder, processes_in, traceback_in, workshop
from faultlab.tiny import Tiny
from tunebuild import sidecar
from tunebuild.document import Document

_LONG = {  # a race and a validation of a second each
    "settle_s": 0.0, "probe_windows": 6, "note_cv_pct": 1e4, "ceiling_cv_pct": 1e4, "max_rounds": 16,
    "seat_z": 1000.0,
    "far_pct": 1e9, "leave_z": 1e9, "validate_first_pairs": 48, "validate_max_pairs": 48,
}  # fmt: skip
_LOUD = {"TUNEBUILD_NOISE_OVERRIDE": "1"}


# --- killed in the middle of a mint ---------------------------------------------------------------


def killed_mint(quick: bool) -> Result:
    """Row 2. SIGKILL at every event of a mint and at random moments: the sidecar is the old one, or whole."""
    tally, chance = Tally(), random.Random(2)
    with workshop() as folder:
        tiny = Tiny(folder / "tiny", environment(folder, **_LOUD))
        tiny.write(_LONG)
        tiny.must("build", "--mode", "tune")
        tiny.record("slow40")
        path = tiny.sidecar
        old = path.read_bytes()
        started = time.monotonic()
        events = 0 if quick else _events(tiny, stop_at=0)
        took = time.monotonic() - started
        path.write_bytes(old)
        for number in (5,) if quick else range(1, events + 1):
            _events(tiny, stop_at=number)
            tally.add(f"at event {number}", _as_before(tiny, old, late=False))
            path.write_bytes(old)
        for number in range(0 if quick else 40):
            moment = chance.uniform(0.2, took)
            with _mint(tiny) as running:
                time.sleep(moment)
                running.kill()
            tally.add(f"{number}: after {moment:.2f} s", _as_before(tiny, old, late=True))
            path.write_bytes(old)
    return tally.result(2, "kill -9 at every event of a mint, and at random moments")


def _mint(tiny: Tiny) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tunebuild", "mint"], cwd=tiny.root, env=dict(tiny.env), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def _events(tiny: Tiny, stop_at: int) -> int:
    """Mint, and kill it at event ``stop_at``, 0: never; how many events there were."""
    seen = 0
    with _mint(tiny) as running:
        assert running.stdout is not None
        for line in running.stdout:
            seen += line.startswith("@tune ")
            if seen == stop_at:
                running.kill()
                break
    return seen


def _as_before(tiny: Tiny, old: bytes, *, late: bool) -> str:
    """The old file, byte for byte; a kill that came ``late`` may find the new one, whole."""
    if left := _gone_within(tiny.root, 5):
        return left
    path = tiny.sidecar
    if path.read_bytes() != old:
        found = sidecar.read(path)
        if (
            not late
            or not isinstance(found, Document)
            or found.race.get("scale", {}).get("winner") != "slow1"
        ):
            return f"the sidecar changed: {found}"
    done = tiny.run("status")
    return traceback_in(done) or (f"status: exit {done.returncode}" if done.returncode else "")


def _gone_within(place: Path, seconds: float) -> str:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if not processes_in(place):
            return ""
        time.sleep(0.02)
    left = processes_in(place)
    return f"still running: {left[0][1][:100]}" if left else ""


# --- a command on a terminal of its own -----------------------------------------------------------

# As a shell does: the command is a process group of its own, in the foreground of the session's terminal.
_LEADER = """
import os, signal, sys
told, command = int(sys.argv[1]), sys.argv[2:]
child = os.fork()
if not child:
    os.setpgid(0, 0)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    os.tcsetpgrp(0, os.getpid())
    for number in (signal.SIGTTOU, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP):
        signal.signal(number, signal.SIG_DFL)
    os.close(told)
    os.execv(command[0], command)
os.write(told, b"%d\\n" % child)
status = os.waitpid(child, 0)[1]
os.write(told, b"%d\\n" % (-os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)))
"""


class Terminal:
    """A command in the foreground of a terminal. Use it in a `with` block; what is left then is killed."""

    def __init__(self, root: Path, words: Sequence[str], env: Mapping[str, str]) -> None:
        self.root, self.words = root, words
        self._keys, screen = pty.openpty()
        told, tell = os.pipe()
        command = [sys.executable, "-c", _LEADER, str(tell), sys.executable, "-m", "tunebuild", *words]

        def in_front() -> None:
            os.setsid()
            fcntl.ioctl(0, 0x540E, 0)  # TIOCSCTTY: the session's terminal

        self._leader = subprocess.Popen(
            command, cwd=root, env=dict(env), stdin=screen, stdout=screen, stderr=screen, pass_fds=(tell,),
            preexec_fn=in_front,
        )  # fmt: skip
        os.close(screen)
        os.close(tell)
        self._told: IO[bytes] = os.fdopen(told, "rb")
        self.pid = int(self._told.readline())
        self.text = ""

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *error: object) -> None:
        for pid, _words in processes_in(self.root):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._leader.wait()
        self._told.close()
        os.close(self._keys)

    def read(self, seconds: float) -> bool:
        """Take what is on the screen within that time; False once the terminal is closed."""
        ready, _, _ = select.select([self._keys], [], [], seconds)
        if not ready:
            return True
        try:
            data = os.read(self._keys, 65536)
        except OSError:  # the last process has closed it
            return False
        self.text += data.decode(errors="replace")
        return bool(data)

    def until(self, reached: Callable[[Terminal], bool], seconds: float = 60) -> bool:
        """Read until the phase is reached; False when the command ended before."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if reached(self):
                return True
            if not self.read(0.005):
                return False
        return False

    def press(self, key: bytes) -> None:
        os.write(self._keys, key)

    def send(self, number: signal.Signals) -> None:
        """As it comes in life: Ctrl-C and Ctrl-Z from the keyboard, the others to the command alone."""
        keys = {signal.SIGINT: b"\x03", signal.SIGTSTP: b"\x1a"}
        if number in keys:
            self.press(keys[number])
        else:
            os.kill(self.pid, number)

    def stat(self) -> str:
        """The command's state, such as R, S, T; "" when it is gone."""
        try:
            return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return ""

    def catches(self) -> bool:
        """Whether it handles signals by now: before that Python itself starts, and dies in its own words."""
        try:
            caught = re.search(r"SigCgt:\s*(\w+)", Path(f"/proc/{self.pid}/status").read_text())
        except OSError:
            return False
        return caught is not None and bool(int(caught[1], 16) & (1 << (signal.SIGTERM - 1)))

    def code(self) -> int:
        """Read to the end; the exit code, negative for a signal."""
        while self.read(1.0):
            pass
        return int(self._told.readline())


# --- phases ---------------------------------------------------------------------------------------


Held = contextlib.AbstractContextManager["subprocess.Popen[bytes] | None"]


@dataclass(frozen=True, slots=True)
class Phase:
    """A command at one point of its work. ``clean``: from an empty build folder."""

    name: str
    words: tuple[str, ...]
    reached: Callable[[Terminal], bool]
    clean: bool = False
    before: Callable[[Path], Held] = lambda root: contextlib.nullcontext()


def _shows(*words: str) -> Callable[[Terminal], bool]:
    return lambda terminal: any(word in terminal.text for word in words)


def _runs(name: str) -> Callable[[Terminal], bool]:
    return lambda terminal: any(name in words for _, words in processes_in(terminal.root))


def _written(terminal: Terminal) -> bool:
    found = sidecar.read(terminal.root / "tiny.tune.json")
    return isinstance(found, Document) and found.kernels.get("scale") == "slow1"


@contextlib.contextmanager
def _lock_held(root: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process holds the build lock all the time."""
    with holder(root / "build/build") as holding:
        yield holding


_STUBBORN = "stubborn"  # a file of this name makes the compiler deaf to requests
_COMPILER = f"""#!/bin/sh
case " $* " in *" -c "*|*" -shared "*)
    [ -e {_STUBBORN} ] && trap '' TERM INT HUP && sleep 20
    sleep 0.4;;
esac
exec cc "$@"
"""
PHASES = (
    Phase("mint: starts", ("mint",), Terminal.catches),
    Phase("mint: compiles", ("mint",), _runs("slow cc"), clean=True),
    Phase("mint: gates and races", ("mint",), _runs("tune/worker")),
    Phase("mint: races", ("mint",), _shows(" live ")),
    Phase("mint: validates", ("mint",), _shows("1/1")),
    Phase("mint: has written", ("mint",), _written),
    Phase("build: starts", ("build",), Terminal.catches, clean=True),
    Phase("build: compiles", ("build",), _runs("slow cc"), clean=True),
    Phase("build: links", ("build",), _runs("-shared"), clean=True),
    Phase("build: waits for another", ("build",), _shows("waiting"), clean=True, before=_lock_held),
    Phase("test: gates", ("test",), _runs("tune/worker")),
    Phase("release: has minted", ("release",), _shows("release: ok")),
    Phase("release: mints", ("release",), _runs(" mint ")),
)
_RACES, _COMPILES = PHASES[3], PHASES[7]
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP)
_QUICK = ((_RACES, signal.SIGINT), (_COMPILES, signal.SIGTERM), (_COMPILES, signal.SIGTSTP))


def interrupted(quick: bool) -> Result:
    """Row 24. Every signal in every phase, on a terminal; stop and continue; a compiler that does not listen."""
    tally = Tally()
    with workshop() as folder:
        compiler = folder / "slow cc"
        compiler.write_text(_COMPILER)
        compiler.chmod(0o755)
        tiny = Tiny(folder / "tiny", environment(folder, **_LOUD, TUNEBUILD_CACHE="off", TERM="xterm"))
        tiny.write(_LONG, cc=f"'{compiler}'")
        tiny.must("build", "--mode", "tune")
        cases = [(phase, number) for phase in PHASES for number in _SIGNALS]
        for phase, number in _QUICK if quick else cases:
            tally.add(f"{phase.name}, {number.name}", _signalled(tiny, phase, number))
        (tiny.root / _STUBBORN).touch()
        for presses in (1, 2):
            why = _signalled(tiny, _COMPILES, signal.SIGINT, presses)
            tally.add(f"a deaf compiler, Ctrl-C {presses} times", why)
        (tiny.root / _STUBBORN).unlink()
        for phase in () if quick else PHASES:
            why = _signalled(tiny, phase, signal.SIGINT, presses=2)
            tally.add(f"{phase.name}, Ctrl-C twice", why)
    return tally.result(24, "Ctrl-C once and twice, Ctrl-Z, SIGTERM, SIGHUP in every phase, on a terminal")


def _signalled(tiny: Tiny, phase: Phase, number: signal.Signals, presses: int = 1) -> str:
    """What went wrong with one signal in one phase, "" nothing."""
    tiny.sidecar.unlink(missing_ok=True)
    if phase.clean:
        shutil.rmtree(tiny.root / "build", ignore_errors=True)
    with phase.before(tiny.root) as other, Terminal(tiny.root, phase.words, tiny.env) as terminal:
        if not terminal.until(phase.reached):
            return f"the phase was never reached: {terminal.text[-300:]}"
        if number == signal.SIGTSTP:
            return _stopped(terminal, other)
        return _ended(terminal, number, presses, other)


def _ended(
    terminal: Terminal, number: signal.Signals, presses: int, other: subprocess.Popen[bytes] | None
) -> str:
    shown = len(terminal.text)
    sent = time.monotonic()
    terminal.send(number)
    if presses > 1:
        time.sleep(0.05)
        terminal.send(number)
    code = terminal.code()
    took = time.monotonic() - sent
    said = terminal.text[shown:].replace("^C", "")
    lines = [line for line in re.split(r"[\r\n]+", said) if line.startswith("tunebuild: ")]
    if "Traceback" in said:
        return said.strip().splitlines()[-1]
    if presses == 1 and (code != 128 + number or len(lines) != 1):
        return f"exit {code}, said {lines}"
    if presses > 1 and code not in (128 + number, -number):
        return f"exit {code}"
    if took > 2:
        return f"took {took:.1f} s"
    if presses == 1 and (left := _gone_within(terminal.root, 0.5)):
        return left
    if other is not None:
        other.kill()
        other.wait()
    return _locks_held(terminal.root) if presses == 1 else ""


def _locks_held(root: Path) -> str:
    for lock in root.rglob(".*.lock"):
        with lock.open("rb") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return f"{lock.name} is held"
    return ""


def _stopped(terminal: Terminal, other: subprocess.Popen[bytes] | None) -> str:
    """Ctrl-Z stops it, and it goes on where it was: the same end as without."""
    terminal.send(signal.SIGTSTP)
    pressed = time.monotonic()
    while terminal.stat() != "T":
        if time.monotonic() - pressed > 2:
            return f"is not stopped but {terminal.stat() or 'gone'}"
        time.sleep(0.01)
    time.sleep(1.0)
    if other is not None:
        other.kill()
    os.killpg(terminal.pid, signal.SIGCONT)
    code = terminal.code()
    if code:
        return f"exit {code} after it went on: {terminal.text[-300:]}"
    if left := _gone_within(terminal.root, 2):
        return left
    wrong = terminal.words[0] in ("mint", "release") and not _written(terminal)
    return "the sidecar does not hold the winner" if wrong else ""

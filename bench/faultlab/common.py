"""What every row shares: its result, a project to harm, and the command under test."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tunebuild import scaffold
from tunebuild.model import Box

ROOT = Path(__file__).parents[2]
PROJECT = ROOT / "tests/projects/own_clock"
BOX = Box("linux|x86_64||6.8.0|A", "x86_64", frozenset({"avx2"}))


@dataclass(frozen=True, slots=True)
class Result:
    """One row's outcome. ``skipped``: what this machine lacks; ``failures``: the first few, in words."""

    row: int
    fault: str
    tried: int
    survived: int
    failures: tuple[str, ...] = ()
    skipped: str = ""


@dataclass(slots=True)
class Tally:
    """Counts trials; a trial is a name and the reason why it failed, "" when it survived."""

    tried: int = 0
    failures: list[str] = field(default_factory=list)

    def add(self, name: str, why: str) -> None:
        self.tried += 1
        if why:
            self.failures.append(f"{name}: {why}")

    def result(self, row: int, fault: str, skipped: str = "") -> Result:
        survived = self.tried - len(self.failures)
        return Result(row, fault, self.tried, survived, tuple(self.failures[:5]), skipped)


def environment(folder: Path, **changes: str) -> dict[str, str]:
    """A clean environment: nothing of ours from outside; home, cache and history in this folder."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TUNEBUILD_")}
    ours = {
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": str(folder / "home"),
        "TUNEBUILD_CACHE": str(folder / "cache"),
        "TUNEBUILD_HISTORY": str(folder / "history"),
    }
    return {**clean, **ours, **changes}


def tunebuild(
    cwd: Path, *words: str, env: Mapping[str, str], before: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """Run the command in a folder; ``before`` are words in front of it, such as strace's."""
    return subprocess.run(
        [*before, sys.executable, "-m", "tunebuild", *words],
        cwd=cwd, env=dict(env), capture_output=True, text=True, errors="replace", timeout=300, check=False,
    )  # fmt: skip


def python(
    code: str, *words: str, cwd: Path, env: Mapping[str, str], before: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*before, sys.executable, "-c", code, *words],
        cwd=cwd, env=dict(env), capture_output=True, text=True, errors="replace", timeout=300, check=False,
    )  # fmt: skip


@contextmanager
def workshop() -> Iterator[Path]:
    """A folder for one row, gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="tunebuild-faults-"))
    try:
        (folder / "home").mkdir()
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def project(folder: Path, name: str = "project") -> Path:
    """A copy of a small project."""
    target = folder / name
    shutil.copytree(PROJECT, target, ignore=shutil.ignore_patterns("build", "generated", "*.tune.json*"))
    return target


def small(folder: Path) -> Path:
    """The project that `tunebuild init` writes. It is named after its own folder, so that one is always alike."""
    root = folder / "project"
    root.mkdir(parents=True)
    scaffold.init(root)
    return root


def traceback_in(done: subprocess.CompletedProcess[str]) -> str:
    """The last line of a traceback, "" when there is none."""
    text = done.stdout + done.stderr
    return text.strip().splitlines()[-1] if "Traceback (most recent call last)" in text else ""


def missing(*programs: str) -> str:
    absent = [program for program in programs if shutil.which(program) is None]
    return f"needs {', '.join(absent)}" if absent else ""


def processes_in(place: Path) -> list[tuple[int, str]]:
    """(process, command) of what still runs inside a folder."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if Path(os.readlink(folder / "cwd")).is_relative_to(place):
                words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                found.append((int(folder.name), words.strip()))
        except OSError:
            continue
    return found


_HOLD = (
    "import sys, time, pathlib\nfrom tunebuild import emit\n"
    "with emit.locked(pathlib.Path(sys.argv[1])):\n    print('held', flush=True)\n    time.sleep(600)\n"
)


@contextmanager
def holder(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that holds the lock of ``path``, and is killed at the end."""
    words = [sys.executable, "-c", _HOLD, str(path)]
    with subprocess.Popen(words, cwd="/", env={"PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()

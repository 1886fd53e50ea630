"""A copy of the project of two scopes, built: real executables, real builds, a stub for a tuner."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tunebuild import policy
from tunebuild.features import BY_NAME, canonical_arch
from tunebuild.model import Box

HERE = Path(__file__).parents[2]
PROJECT = HERE / "tests/projects/two_scopes"
TUNED_STATUS = "demo: tune status (2/2 kernels tuned for this box):\n  f: u2 (manifest)\n  g: u2 (manifest)\n"
PLAIN_STATUS = (
    "demo: tune status (0/2 kernels tuned for this box):\n  f: u1 (fallback)\n  g: u1 (fallback)\n"
    "  to tune the rest: run it with -- --tune, or tunebuild mint --app demo\n"
)


class Tree:
    """How the commands and the executable of one checkout are called."""

    def __init__(self, root: Path, cache: Path) -> None:
        self.root, self.cache = root, cache
        self.exe = root / "build/normal/demo"
        self.sidecar = root / "demo.tune.json"

    def call(self, *command: str | Path, **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=self.root, env=self.environ(environ), capture_output=True, text=True
        )

    def begin(self, *command: str | Path, **environ: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command, cwd=self.root, env=self.environ(environ), stdout=-1, stderr=-1, text=True
        )

    def environ(self, extra: dict[str, str]) -> dict[str, str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("TUNEBUILD_")}
        ours = {
            "PYTHONPATH": str(HERE),
            "TUNEBUILD_CACHE": str(self.cache),
            "TUNEBUILD_HISTORY": str(self.root / "history"),
            "TUNEBUILD_NOISE_OVERRIDE": "1",
        }
        return {**clean, **ours, **extra}

    def tool(self, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return self.call(sys.executable, "-m", "tunebuild", *words, **environ)

    def build(self, **environ: str) -> str:
        """Build it; what the build said."""
        done = self.tool("build", **environ)
        assert done.returncode == 0, done.stderr
        return done.stderr

    def run(self, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return self.call(self.exe, *words, **environ)

    def edit(self, old: str, new: str) -> None:
        path = self.root / "tune.toml"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    @property
    def winners(self) -> dict[str, str]:
        found: dict[str, str] = json.loads(self.sidecar.read_text())["kernels"]
        return found


def copied(source: Path, target: Path, cache: Path) -> Tree:
    shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    return Tree(target, cache)


def built_in(folder: Path) -> Tree:
    """A copy that has been built, with a cache of its own."""
    tree = copied(PROJECT, folder / "built once", folder / "cache")
    for mode in ("tune", "normal"):
        done = tree.tool("build", "--mode", mode)
        assert done.returncode == 0, done.stderr
    return tree


def tree_bytes(folder: Path) -> dict[str, bytes]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def tuning_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(policy.TUNING_SCOPE) and " into " in line]


def tuner_lines(text: str) -> list[str]:
    """What each run of a tuner said of the filter and the relaunch depth that it saw."""
    return [line.removeprefix("tuner at work: ") for line in text.splitlines() if "tuner at work" in line]


def lacking_feature(box: Box) -> str:
    """A feature of this architecture that the box lacks."""
    arch = canonical_arch(box.arch)
    return next(name for name in reversed(BY_NAME) if BY_NAME[name].arch == arch and name not in box.features)

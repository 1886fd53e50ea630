"""Rows about size: projects, files and grids of a hundred times the usual measure."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

from buildlab import projects

from faultlab.common import ROOT, Result, Tally, environment, workshop

MOST_BYTES = 400_000_000
_CHECK = "import sys; sys.path.insert(0, sys.argv[1])\nfrom tunebuild.cli import main\nmain(['check'])\n"


def huge(quick: bool) -> Result:
    """`check` of large things: an answer, or a mistake that says how large; never more than 400 MB of memory."""
    tally = Tally()
    with workshop() as folder:
        many = projects.write(folder / "many", 500 if quick else 5_000)
        tally.add("100,000 rows", _checked(many, folder, 0, "families"))
        padded = projects.write(folder / "padded", 10)
        comment = f"# {'x' * 97}\n" * (10_000_000 // 100)
        (padded / "tune.toml").write_text(comment + (padded / "tune.toml").read_text())
        tally.add("10 MB of tune.toml", _checked(padded, folder, 0, "10 families"))
        for cells, code, words in (
            (10**6, 2, "a grid of 1,000,000 cells; at most"),
            (10**7, 2, "10,000,000 cells"),
        ):
            grid = projects.write(folder / f"grid_{cells}", 1)
            axes = "\n".join(f"x{index} = {list(range(10))}" for index in range(len(str(cells)) - 1))
            text = (grid / "tune.toml").read_text()
            start, end = text.index('isa = ["base"'), text.index("[family.dot_0.args]")
            (grid / "tune.toml").write_text(text[:start] + axes + "\n" + text[end:])
            tally.add(f"{cells:,} cells", _checked(grid, folder, code, words))
    return tally.result(21, "huge projects, files and grids")


def _checked(root: Path, folder: Path, code: int, words: str) -> str:
    """ "" when `check` ended with ``code``, said ``words`` and stayed within its memory."""
    done = subprocess.run(
        [sys.executable, "-c", _CHECK, str(ROOT)], cwd=root, env=environment(folder), capture_output=True,
        text=True, timeout=300, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES)),
    )  # fmt: skip
    said = done.stdout + done.stderr
    if done.returncode == code and words in said and "Traceback" not in said:
        return ""
    return f"exit code {done.returncode}: {said[-200:]}"

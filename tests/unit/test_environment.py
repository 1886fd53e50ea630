"""docs/environment.md names every variable that the code reads."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_page_of_the_environment_names_every_variable_of_ours() -> None:
    sources = [*ROOT.glob("tunebuild/*.py"), *ROOT.glob("tunebuild/runtime/**/*.[ch]")]
    read = {name for path in sources for name in re.findall(r'"(TUNEBUILD_[A-Z_]+)"', path.read_text())}
    told = set(re.findall(r"^\| `(TUNEBUILD_[A-Z_]+)`", (ROOT / "docs/environment.md").read_text(), re.M))
    assert len(read) > 10 and read == told

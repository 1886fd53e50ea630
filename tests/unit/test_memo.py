"""What a memo counts: another value of a variable that decides an answer, and it holds no longer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tunebuild import keys, memo


@pytest.fixture
def kept(tmp_path: Path) -> str:
    """A folder with a memo of one file."""
    (tmp_path / "build").mkdir()
    (tmp_path / "tune.toml").write_text("")
    root = str(tmp_path)
    memo.keep(root, "normal", memo.taken(root, "/bin/ninja", ["tune.toml"]))
    return root


def test_memo_holds_and_names_its_ninja_while_nothing_changes(kept: str) -> None:
    assert memo.holds(kept, "normal") == "/bin/ninja"


@pytest.mark.parametrize("name", [*memo.ENVIRONMENT, *keys.ENVIRONMENT])
@pytest.mark.parametrize("value", ["", "/elsewhere"])
def test_every_variable_that_a_build_reads_breaks_the_memo(
    kept: str, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    assert memo.holds(kept, "normal") == ""


def test_variable_that_no_build_reads_breaks_no_memo(kept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    assert memo.holds(kept, "normal") == "/bin/ninja"


@pytest.mark.parametrize(
    ("line", "changed", "holds"),
    [
        ("flags\t\t: fpu avx2", "flags\t\t: fpu", False),
        ("model name\t: One", "model name\t: Two", False),
        ("cpu MHz\t\t: 2400.1", "cpu MHz\t\t: 3100.7", True),
        ("processor\t: 0", "processor\t: 1", True),
    ],
)
def test_memo_of_another_cpu_holds_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, changed: str, holds: bool
) -> None:
    said = tmp_path / "cpuinfo"
    said.write_text(f"vendor_id\t: V\n{line}\n\nprocessor\t: 1\n")
    monkeypatch.setattr(memo, "CPUINFO", str(said))
    (tmp_path / "build").mkdir()
    root = str(tmp_path)
    memo.keep(root, "normal", memo.taken(root, "/bin/ninja", []))
    assert memo.holds(root, "normal") == "/bin/ninja"
    said.write_text(said.read_text().replace(line, changed, 1))
    assert bool(memo.holds(root, "normal")) == holds

"""The end-to-end confirm on real builds: an app whose metric is told, and a race that is decided beforehand."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tunebuild import calls, confirmflows, generate
from tunebuild.errors import WorkFailed
from tunebuild.heat import Bar, Heat, Outcome
from tunebuild.measure import Measure
from tunebuild.mint import Minted, Raced
from tunebuild.model import Check

PROJECT = Path(__file__).parents[1] / "projects/two_scopes"
pytestmark = [
    pytest.mark.cc,
    pytest.mark.skipif(not (shutil.which("gcc") or shutil.which("clang")), reason="no gcc and no clang"),
]
ROWS = ("u1", "u2", "reference")
BODY = """
#include <stdlib.h>
#include <string.h>
#include "demo.h"
/* Each seat costs 10 ms with u1; with u2 what its argument says, and -1 is a crash. */
int main(int argc, char **argv)
{
    size_t count;
    const tb_tune_row *rows = demo_tune_status(&count);
    int total = 0;
    for (size_t i = 0; i < count; i++) {
        int cost = strcmp(rows[i].suffix, "u2") ? 10 : atoi(argv[1 + (int)i]);
        if (cost < 0 || argc < 3) return 1;
        total += cost;
    }
    printf("took %d ms\\n", total);
}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("TUNEBUILD_POLICY", "TUNEBUILD_MANIFEST", "TUNEBUILD_MODE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TUNEBUILD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(PROJECT.parents[2]))
    root = tmp_path / "a tree"
    shutil.copytree(PROJECT, root, ignore=shutil.ignore_patterns("__pycache__"))
    (root / "apps/demo.c").write_text(BODY)
    return root


def raced(root: Path, *costs: str, metric: str = "took ([0-9]+) ms") -> Minted:
    """A mint in which u2 beat u1 in both families, not yet written."""
    with (root / "tune.toml").open("a") as stream:
        stream.write(
            f"[app.demo.confirm]\ncommand = {['build/normal/demo', *costs]!r}\nmetric = '{metric}'\n"
        )
    generated = generate.generate(root)
    found = []
    for planned in generated.plan.families:
        name = planned.family.name
        outcome = Outcome(Heat(name, ROWS, (0, 2)), 1, "margin", 20.0, Bar(3.0), 0, (1,), (), (), 9, 1.0, 1)
        found.append(Raced(name, name, outcome, calls.Subject(name, name, (), Check(()), (), ())))
    return Minted(
        generated, generated.app("demo"), tuple(found), (), (), "ok", Measure.from_overrides(()), 1, {}, 1
    )


def winners(minted: Minted) -> dict[str, str]:
    return {one.key: one.outcome.winner_suffix for one in minted.raced}


def test_each_family_is_held_to_the_apps_own_measure(project: Path) -> None:
    said: list[str] = []
    minted = confirmflows.confirmed(raced(project, "5", "10"), said.append)
    assert winners(minted) == {"f": "u2", "g": "u1"}
    lost = {one.key: one.outcome for one in minted.raced}["g"]
    assert lost.held_by == "confirm" and lost.demoted == "u2" and lost.margin_pct == 0.0
    assert minted.confirmations["f"]["kept"] and not minted.confirmations["g"]["kept"]
    assert any(line.startswith("tunebuild: g: not confirmed: +0.00 % end to end") for line in said)


def test_crash_with_the_winners_leaves_the_fallback(project: Path) -> None:
    minted = confirmflows.confirmed(raced(project, "-1", "10"), lambda line: None)
    assert winners(minted) == {"f": "u1", "g": "u1"}
    assert "exit code 1" in str(minted.confirmations["f"]["why"])


def test_metric_that_the_winners_do_not_print_leaves_the_fallback(project: Path) -> None:
    one = raced(project, "5", "10", metric="speed ([0-9]+)")
    only_f = replace(one, raced=one.raced[:1])
    minted = confirmflows.confirmed(only_f, lambda line: None)
    assert winners(minted) == {"f": "u1"} and "no number" in str(minted.confirmations["f"]["why"])


def test_arm_that_runs_other_rows_is_an_error_and_no_number(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    minted = raced(project, "5", "10")
    build = confirmflows._built

    def mixed_up(minted: Minted, arm: confirmflows.Arm) -> confirmflows.Arm:
        made = build(minted, arm)
        if arm.name == "f":
            shutil.copy(arm.folder.parent / "winners/demo", arm.folder / "demo")
        return made

    monkeypatch.setattr(confirmflows, "_built", mixed_up)
    with pytest.raises(WorkFailed, match=r"arm f of the confirm did not run its own rows: f ran u2, not u1"):
        confirmflows.confirmed(minted, lambda line: None)


def test_app_without_confirm_is_left_alone(project: Path) -> None:
    minted = raced(project, "5", "10")
    plain = replace(minted, app=replace(minted.app, confirm=None))
    assert confirmflows.confirmed(plain, lambda line: None) is plain

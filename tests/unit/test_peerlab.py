"""The bench beside other libraries: its intervals, its goals and its page."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from statistics import median
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

from peerlab import goals, page
from peerlab.duel import Ratio, ratio, warming
from peerlab.families import catalogue

from tunebuild import manifest

ROOT = Path(__file__).parents[2]


def row(family: str, shape: str, best: float, **ratios: float) -> dict[str, Any]:
    return {
        "family": family, "shape": shape, "ours_ns": 1500.0, "best": "OpenBLAS", "peers": {"OpenBLAS": 1500.0 * best},
        "ratio_best": best, "interval": [best - 0.01, best + 0.01], "ratios": {"OpenBLAS": best, **ratios},
        "reference_ratio": 4.0,
    }  # fmt: skip


def document(*rows: dict[str, Any], features: tuple[str, ...] = ("avx2",)) -> dict[str, Any]:
    library = {"OpenBLAS": {"version": "0.3", "note": "kernel Haswell"}}
    made = {"cpu": "A <CPU>", "compiler": "gcc 12", "written": "2026-01-01", "libraries": library}
    return {**made, "features": list(features), "rows": list(rows)}


# --- the interval -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "outside"), [(5, 0), (6, 0), (9, 1), (15, 3), (61, 22)], ids=lambda value: str(value)
)
def test_interval_leaves_out_as_many_at_each_end_as_a_two_sided_sign_test_of_5_percent(
    count: int, outside: int
) -> None:
    found = ratio([float(value) for value in range(count)])
    assert found == Ratio(median(range(count)), float(outside), float(count - 1 - outside))


def test_interval_of_a_known_median_covers_it_in_95_percent_of_samples() -> None:
    rng = random.Random(1)
    samples = [ratio([rng.lognormvariate(0.0, 0.1) for _ in range(31)]) for _ in range(2000)]
    covered = sum(sample.low <= 1.0 <= sample.high for sample in samples)
    assert covered >= 1900


# --- the window --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reps", "call_ns", "calls"),
    [(1600, 250.0, 100), (66, 6_000.0, 4), (1, 700_000.0, 4), (1, 3.7e6, 2), (1, 5e7, 1)],
)
def test_window_of_few_calls_follows_four_untimed_ones_unless_they_are_long(
    reps: int, call_ns: float, calls: int
) -> None:
    assert warming(reps, call_ns) == calls


# --- the goals --------------------------------------------------------------------------------------


def goal(line: str) -> goals.Goal:
    return next(each for each in goals.GOALS if each.line == line)


def test_every_goal_names_a_family_and_shapes_that_are_raced() -> None:
    raced = {family.name: {shape.name for shape in family.shapes} for family in catalogue()}
    for each in goals.GOALS:
        assert not each.family or set(each.shapes) <= raced[each.family], each.line
        if len(each.least) > 1:
            assert len(each.least) == len(each.shapes or raced[each.family]), each.line


def test_goal_over_named_peers_is_the_mean_of_the_best_of_them() -> None:
    rows = [
        row("sgemm", "4x1024x1024", 0.5, MKL=2.0, torch=0.1),
        row("sgemm", "16x1024x1024", 0.5, MKL=0.5),
    ]
    assert goals.reached(goal("sgemm of few rows, over MKL"), rows) == (1.0,)


def test_goal_is_not_raced_where_a_shape_is_missing() -> None:
    rows = [row("sgemm", "4x1024x1024", 0.5, MKL=2.0)]
    found = goals.reached(goal("sgemm of few rows, over MKL"), rows)
    assert goals.verdict(goal("sgemm of few rows, over MKL"), found, ()) == "not raced"


@pytest.mark.parametrize(
    ("features", "ratio_here", "said"),
    [
        (("avx2",), 2.0, "met"),
        (("avx2",), 1.1, "not decided: no avx512_vnni here; both widen to 16 bits, AVX2 has nothing better"),
        (("avx2", "avx512_vnni"), 1.1, "not met; both widen to 16 bits, AVX2 has nothing better"),
    ],
)  # fmt: skip
def test_goal_missed_without_its_instructions_is_undecided_and_with_them_not_met(
    features: tuple[str, ...], ratio_here: float, said: str
) -> None:
    assert goals.verdict(goal("dot i8"), [ratio_here], features) == said


def test_goal_of_every_shape_counts_the_shapes_that_miss_it() -> None:
    rows = [row("dot_f32", str(n), ratio_here) for n, ratio_here in ((64, 1.5), (100, 0.97), (1024, 0.9))]
    each = goal("dot f32, no shape under")
    figures = goals.reached(each, rows)
    assert figures == (1.5, 0.97, 0.9)
    assert goals.verdict(each, figures, ()) == "not met, 2 of 3"


# --- the page ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ns", "text"), [(9.27, "9.27 ns"), (1500.0, "1.5 us"), (4.37e6, "4.37 ms"), (2.5e9, "2.5 s")]
)
def test_time_is_told_in_the_unit_that_leaves_three_figures(ns: float, text: str) -> None:
    assert page.time_of(ns) == text


def test_table_marks_a_shape_that_is_surely_behind_and_counts_it() -> None:
    lines = list(page.markdown(document(row("sgemm", "64^3", 0.9, MKL=1.25), row("sgemm", "128^3", 1.6))))
    assert (
        "| sgemm | 64^3 | 1.5 us | OpenBLAS | 1.35 us | **0.90** | 0.89 to 0.91 | MKL 1.25 | 4.0 |" in lines
    )
    assert "| sgemm | 1.20 | 1 of 2 | 4.0 |" in lines
    assert lines[-1] == "| all, by shape | 1.20 | 1 of 2 | |"


def test_seat_of_a_companion_has_no_ratio_to_a_reference() -> None:
    seat = {"winner": "u4", "over_median": 1.5, "over_slowest": 3.0, "over_fallback": 1.0}
    lines = list(
        page.tuning(
            [{"seat": "dot", "over_reference": 7.5, **seat}, {"seat": "gemv", "over_reference": None, **seat}]
        )
    )
    assert lines[2:] == ["| dot | u4 | 1.50 | 3.00 | 7.50 | 1.00 |", "| gemv | u4 | 1.50 | 3.00 |  | 1.00 |"]


def test_picture_puts_the_bar_of_a_slower_shape_left_of_1_and_of_a_faster_one_right() -> None:
    def edge(best: float) -> tuple[float, float]:
        text = page.picture(document(row("sgemm", "64^3", best)))
        bar = next(line for line in text.splitlines() if f'height="{page.LINE - 7}"' in line)
        x, width = (float(bar.partition(f'{name}="')[2].partition('"')[0]) for name in ("x", "width"))
        return x, x + width

    assert edge(0.6)[1] == pytest.approx(edge(1.7)[0], abs=0.2)
    assert "A &lt;CPU&gt;" in page.picture(document(row("sgemm", "64^3", 1.0)))


def test_every_family_but_the_hinted_loops_is_raced_beside_others() -> None:
    families = manifest.read(ROOT).families
    raced = {family.name for family in catalogue()}
    alone = {family.name for family in families} - raced
    assert alone == {
        "add_loop_f32",
        "scale_loop_f32",
        "copy_loop_f32",
        "dot_loop_f32",
        "rope_f32",
        "quantize_q8",
    }

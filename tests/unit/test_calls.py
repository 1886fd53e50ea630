"""Cases, the worker's job lines, and what it finds in words; no process."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tunebuild import calls
from tunebuild.calls import Case, Driver, Subject
from tunebuild.errors import UsageError
from tunebuild.model import Argument, Check, Compare, Row, Workload

SIZES = tuple((("n", n),) for n in (0, 1, 7, 33))
FILLS = ("normal", "extremes", "max", "denormal")


def dot(**check: object) -> Subject:
    args = (
        Argument("a", "in", "f32", "n", parameter=0),
        Argument("y", "out", "f32", "n", parameter=1),
        Argument("n", "scalar", "u64", parameter=2),
        Argument("s", "scalar", "f32", parameter=3),
    )
    workloads = (
        Workload("hot", (("n", 64), ("s", 0.5))),
        Workload("cold", (("n", 1024), ("s", 1)), cache="cold"),
    )
    made = Check(SIZES, fills=FILLS, **check)  # type: ignore[arg-type]
    return Subject("dot", "dot", args, made, workloads, (Row("u1", ()), Row("u2", ())))


DOT = Driver("dot", "f32", False, ("a", "y"), ("n", "s"), ("reference", "u1", "u2"))


def packed() -> Subject:
    args = (
        Argument("w", "scratch", "i8", "ceil_div(m, mr) * mr", parameter=0),
        Argument("m", "scalar", "i32", parameter=1),
        Argument("w0", "in", "i8", "m", parameter=-1),
    )
    rows = tuple(Row(f"mr{mr}_u{u}", (("mr", mr), ("u", u)), layout=(mr,)) for mr in (4, 8) for u in (1, 2))
    check = Check(((("m", 5),),))
    return Subject("pack", "pack", args, check, (Workload("w", (("m", 5),), cache="cold"),), rows)


PACK = Driver("pack", "", False, ("w", "w0"), ("m",), ("reference", *(row.suffix for row in packed().rows)))


def test_every_size_meets_every_fill_and_the_first_one_twice() -> None:
    cases = calls.gate_cases(dot())
    for size in SIZES:
        fills = [case.fill for case in cases if case.scalars == size]
        assert set(fills) == set(FILLS) and fills.count("normal") == 2 and len(fills) == len(FILLS) + 1
    assert {case.offsets for case in cases} >= {(0,), (1,), (3,), (0, 1, 3), (1, 3, 0)}
    assert len({case.seed for case in cases}) == len(cases)


def test_workloads_are_gated_with_their_own_fills_unless_the_reference_is_slow_there() -> None:
    def gated(*workloads: Workload) -> list[Case]:
        cases = calls.gate_cases(replace(dot(), workloads=workloads))
        return [case for case in cases if case.fill == ""]

    quick = Workload("quick", (("n", 4096),), fills=(("a", "zeros"),))
    (case,) = gated(quick)
    assert case.scalars == (("n", 4096),) and case.fills == (("a", "zeros"),) and len(case.offsets) == 3
    assert gated(Workload("large", (("n", 10**8),))) == []
    assert gated(Workload("slow", (("n", 4096),), work="n * n * n")) == []


def test_one_fill_and_one_offset_make_two_cases_a_size_at_least() -> None:
    only = replace(dot(), check=Check(SIZES, offsets=(0,), fills=("normal",)))
    assert all(case.fill in ("normal", "") and case.offsets == (0,) for case in calls.gate_cases(only))


@pytest.mark.parametrize("case", calls.gate_cases(dot()))
def test_case_reads_back_as_it_was_written(case: Case) -> None:
    assert calls.parse_case(calls.case_text(case)) == case
    assert calls.parse_case(calls.case_text(case, "right")) == replace(case, placement="right")


def test_case_with_fills_of_single_arguments_reads_back() -> None:
    case = Case((("n", 3),), (0, 1), "", 7, fills=(("a", "zeros"), ("b", "mine")))
    assert calls.case_text(case) == "n=3 offset=0,1 fill=own fill.a=zeros fill.b=mine seed=7"
    assert calls.parse_case(calls.case_text(case)) == case


def test_case_reads_floats_and_defaults() -> None:
    assert calls.parse_case("n=3 a=1.5") == Case((("n", 3), ("a", 1.5)))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("n", "`n` is not NAME=VALUE"),
        ("n=x", "could not convert"),
        ("n=1 placement=up", "left, right or both"),
        ("n=1 offset=a", "invalid literal"),
    ],
)
def test_case_that_is_none_is_an_error(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        calls.parse_case(text)


def test_job_lines_say_arguments_groups_rule_and_cases() -> None:
    of = dot(compare=Compare("tolerance", rtol=1e-5, scale="abs"))
    case = Case((("n", 7), ("s", 0.5)), (1, 3), "max", seed=9, placement="right")
    assert calls.job_lines(of, DOT, [case], timeout_ms=500) == [
        "begin dot 500 1",
        "arg in f32 1",
        "arg out f32 1",
        "groups 0 0 0",
        "compare tolerance 0 1e-05 0.0 abs",
        "case 9 0 0 2 i7 f0x1.0000000000000p-1 7:1:1:max:-1 7:1:3:max:-1",
    ]


def test_rows_of_one_layout_share_a_group_and_the_reference_has_the_largest_buffers() -> None:
    lines = calls.job_lines(packed(), PACK, [Case((("m", 5),))], timeout_ms=1)
    assert lines[0] == "begin pack 1 3"
    assert "groups 2 0 0 1 1" in lines
    assert "arg source i8 1" in lines
    assert "case 1 0 0 3 i5 8:1:0:normal:-1 5:1:0:normal:-1" in lines
    assert not [line for line in lines if line.startswith("scratch")]  # 5 rounds up to 8 by 4 and by 8
    lines = calls.job_lines(packed(), PACK, [Case((("m", 4),))], timeout_ms=1)
    assert [line for line in lines if line.startswith("scratch")] == ["scratch 1 0 0 8", "scratch 2 0 0 8"]


def test_argument_with_a_support_function_keeps_it() -> None:
    of = dot()
    of = replace(of, args=(replace(of.args[0], fill="blocks"), *of.args[1:]))
    (line,) = [x for x in calls.job_lines(of, DOT, [Case((("n", 1),))], timeout_ms=1) if x.startswith("case")]
    assert line.endswith("1:1:0:blocks:-1 1:1:0:normal:-1")


def test_workload_case_keeps_each_argument_s_fill_unless_it_says_another() -> None:
    of = dot()
    args = (replace(of.args[0], fill="ramp"), *of.args[1:])
    workloads = (replace(of.workloads[0], fills=(("y", "zeros"),)), of.workloads[1])
    cases = calls.workload_cases(
        replace(of, args=args, workloads=workloads),
        cache_bytes=1 << 20,
        cold_bytes=1 << 28,
        memory_bytes=1 << 30,
    )
    lines = calls.job_lines(replace(of, args=args), DOT, cases, timeout_ms=1)
    assert "64:1:0:ramp:-1 64:1:0:zeros:-1" in next(line for line in lines if line.startswith("case 1000 0"))


@pytest.mark.parametrize(
    ("cache", "most", "memory", "copies"),
    [
        (1 << 20, 1 << 28, 1 << 30, 512),
        (1 << 30, 1 << 28, 1 << 30, 32768),
        (1, 1, 1, 2),
        (1 << 20, 1 << 28, 1 << 16, 4),
    ],
)
def test_cold_workload_walks_four_caches_within_its_limits(
    cache: int, most: int, memory: int, copies: int
) -> None:
    hot, cold = calls.workload_cases(dot(), cache_bytes=cache, cold_bytes=most, memory_bytes=memory)
    if memory == 1 << 16:
        copies = memory // 8192
    assert (hot.copies, cold.copies) == (0, copies)


def test_packed_copies_of_all_layouts_stay_within_memory() -> None:
    (cold,) = calls.workload_cases(packed(), cache_bytes=1 << 20, cold_bytes=1 << 20, memory_bytes=240)
    assert cold.copies == 240 // (8 + 8 + 8)


def test_limit_that_reads_the_return_value_is_said_for_both_data() -> None:
    of = dot()
    of = replace(of, args=(of.args[0], replace(of.args[1], valid="return * 2"), *of.args[2:]))
    cases = [Case((("n", 7),)), Case((("n", 9),))]
    assert calls.valid_lines(of, DOT, cases, [1, 2, 3, -4]) == [
        "valid 0 0 1 2", "valid 0 1 1 4", "valid 1 0 1 6", "valid 1 1 1 0",
    ]  # fmt: skip
    assert calls.valid_lines(dot(), DOT, cases, [1, 2, 3, 4]) == []


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"fault": "element", "buffer": "y", "part": "2", "element": "3", "got": "1", "want": "2"},
         "wrong result: element 3 of `y` of part 2 is 1, the reference has 2"),
        ({"fault": "canary", "buffer": "y", "part": "0", "element": "31", "side": "past"},
         "wrote past the end of `y`, element 31"),
        ({"fault": "signal", "signal": "SIGSEGV", "access": "r", "side": "jumped", "address": "0x41"},
         "SIGSEGV: jumped to 0x41, where no code is (a smashed stack?)"),
        ({"fault": "signal", "signal": "SIGABRT", "text": "\nfirst\nx: runtime error: y\n"},
         "SIGABRT: x: runtime error: y"),
        ({"fault": "exit", "code": "3"}, "ended the process with exit status 3"),
        ({"fault": "hang", "phase": "prepare"}, "in prepare: does not return (killed)"),
        ({"fault": "environment", "name": "MXCSR", "before": "0x1f80", "after": "0x3f80"},
         "leaves MXCSR changed: 0x1f80 before, 0x3f80 after, another rounding or trap"),
        ({"fault": "memory"}, "no memory for its buffers"),
    ],
)  # fmt: skip
def test_finding_reads_as_a_sentence(said: dict[str, str], words: str) -> None:
    assert calls.explain(said) == words

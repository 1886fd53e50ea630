"""The gate on rows that are wrong in every way we know, and on rows that are right."""

from __future__ import annotations

import platform
import shutil
from dataclasses import replace

import pytest
import worker_rows as made

from tunebuild import bench
from tunebuild.bench import GateReport, gate
from tunebuild.calls import Case, parse_case
from tunebuild.errors import WorkFailed
from tunebuild.model import Compare, Workload
from tunebuild.worker import Worker

pytestmark = [made.needs_cc]
X86 = platform.machine() in ("x86_64", "AMD64")

GOOD = (
    "backward", "chatty", "dies_later", "hangs_later", "drifts", "forks", "peeks_later", "borrows_later",
    "compares_later", "wrong_when_large",
)  # fmt: skip
BAD = {
    "segfaults": "SIGSEGV: wrote 0x8, outside every buffer; at n=17 ",
    "illegal": "SIGILL; at n=0 ",
    "aborts": "SIGABRT: giving up; at n=0 ",
    "divides": "SIGFPE; at n=0 ",
    "loops": "does not return (killed); at n=0 ",
    "exits": "ended the process with exit status 0; at n=0 ",
    "exits_late": "ended the process with exit status 7; at n=33 ",
    "killed": "SIGKILL; at n=0 ",
    "wrong": "wrong result: element 0 of `y` is ",
    "wrong_at_31": "wrong result: element 30 of `y` is 7, the reference has ",
    "skips_tail": "wrong result: element 0 of `y` is -391.5",
    "wrong_return": "wrong return value: ",
    "writes_past": "wrote past the end of `y`, element 0; at n=0 ",
    "writes_before": "SIGSEGV: wrote before the start of `y`, element -1; at n=0 ",
    "pads_to_eight": "wrote past the end of `y`, element 1; at n=1 ",
    "reads_past": "SIGSEGV: read past the end of `x`, element 0; at n=0 ",
    "reads_before": "SIGSEGV: read before the start of `x`, element -1; at n=0 ",
    "writes_input": "SIGSEGV: wrote to the const input `x`, element 2; at n=3 ",
    "borrows_input": "SIGSEGV: wrote to the const input `x`, element 0; at n=1 ",
    "smashes_stack": "SIG",
    "recurses": "SIGSEGV: wrote below the stack (endless recursion?); at n=0 ",
    "remembers": "wrong result: element 0 of `y` is ",
    "reads_output": "wrong result: element 0 of `y` is ",
    "assumes_alignment": "wrong result: element 0 of `y` is 0, ",
    "loses_denormals": "wrong result: element 0 of `y` is 5, the reference has 1; at n=1 ",
    "loses_large": "wrong result: element 0 of `y` is 1.00000002e+30, the reference has inf; at n=1 ",
    "leaves_rounding": "changed: ",
    "flushes": "changed: ",
    "tells": "SIGABRT: at 0x",
    "kills_parent": "ended the worker itself, not only its own process",
    "scribbles": "overwrote memory far from its buffers",
    "silent": "SIGSEGV: wrote 0x8, outside every buffer; at n=17 ",
}
BAD_X86 = {
    "leaves_precision": "leaves x87 control word changed: 0x37f before, 0x27f after; at n=0 ",
    "leaves_mmx": "leaves x87 tag word changed: ",
    "leaves_direction": "leaves direction flag changed: ",
    "misaligned": "SIGSEGV: an aligned access to a misaligned address, ",
    "flushes": "leaves MXCSR changed: 0x1f80 before, 0x9fc0 after, denormals are flushed; at n=0 ",
}


def judged(library: str, of: made.Subject, rows: tuple[str, ...] | None = None) -> GateReport:
    with Worker(made.executable(), made.library(library)) as worker:
        return gate(worker, of, rows, timeout_ms=300)


@pytest.mark.parametrize("cc", made.COMPILERS)
def test_every_bad_row_is_named_and_every_good_row_passes(cc: str) -> None:
    with Worker(made.executable(cc), made.library("bad")) as worker:
        report = gate(worker, made.ride(), timeout_ms=300)
    words = BAD | (BAD_X86 if X86 else {})
    found = {one.suffix: one for one in report.rejected}
    assert report.broken == "" and report.note == ""
    assert set(report.passed) == set(GOOD)
    assert set(found) == set(words)
    for suffix, said in words.items():
        assert said in found[suffix].why, found[suffix].why
        assert found[suffix].stage == "gate"
        assert found[suffix].replay.startswith(f"tunebuild test ride --row {suffix}")
        assert '--case "n=' in found[suffix].replay or suffix in ("scribbles", "kills_parent")


def test_second_data_at_the_same_addresses_is_said() -> None:
    (one,) = judged("bad", made.ride(), ("remembers",)).rejected
    assert one.why.endswith("second data at the same addresses")


LARGE = replace(made.ride(), workloads=(Workload("large", (("n", 600_000),)),))


def test_row_that_is_wrong_only_at_a_large_workload_is_rejected_there_and_replayed() -> None:
    with Worker(made.executable(), made.library("bad")) as worker:
        report = gate(worker, LARGE, ("wrong_when_large", "backward"))
        assert report.passed == ("backward",) and report.unseen == ()
        (one,) = report.rejected
        assert one.why.startswith("wrong result: element 4711 of `y` is 7, the reference has ")
        case = parse_case(one.replay.split('"')[1])
        (again,) = gate(worker, LARGE, ("wrong_when_large",), cases=(case,)).rejected
    assert again.why.startswith(one.why.split(", the reference")[0])


def test_large_workloads_that_the_time_does_not_allow_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "AT_SIZE_S", 0.0)
    report = judged("bad", LARGE, ("wrong_when_large", "backward"))
    assert report.passed == ("wrong_when_large", "backward")
    assert report.unseen == (bench.Unseen("large", report.passed, "0 s were spent"),)


def test_workload_that_no_memory_holds_is_named_and_blames_no_row() -> None:
    of = replace(LARGE, workloads=(Workload("vast", (("n", 1 << 44),)), *LARGE.workloads))
    report = judged("bad", of, ("backward", "wrong_when_large"))
    assert report.passed == ("backward",)
    assert report.unseen == (
        bench.Unseen("vast", ("backward", "wrong_when_large"), "there is no memory for its buffers"),
    )


def test_report_is_the_same_twice() -> None:
    rows = ("wrong", "wrong_at_31", "reads_past", "backward")
    assert judged("bad", made.ride(), rows) == judged("bad", made.ride(), rows)


def test_replayed_case_finds_the_same_fault_again() -> None:
    (one,) = judged("bad", made.ride(), ("wrong_at_31",)).rejected
    case = parse_case(one.replay.split('"')[1])
    with Worker(made.executable(), made.library("bad")) as worker:
        (again,) = gate(worker, made.ride(), ("wrong_at_31",), cases=(case,)).rejected
        harmless = replace(case, scalars=(("n", 30),))
        assert gate(worker, made.ride(), ("wrong_at_31",), cases=(harmless,)).rejected == ()
    assert again.why == one.why


@pytest.mark.parametrize(("placement", "found"), [("left", False), ("right", True)])
def test_over_read_shows_only_flush_right(placement: str, found: bool) -> None:
    case = Case((("n", 31),), placement=placement)  # type: ignore[arg-type]
    with Worker(made.executable(), made.library("bad")) as worker:
        report = gate(worker, made.ride(), ("reads_past",), cases=(case,))
    assert bool(report.rejected) is found


def test_packed_rows_get_buffers_of_their_own_size() -> None:
    report = judged("kinds", made.mul())
    assert report.passed == ("mr4", "mr16")
    pack, mul = report.rejected
    assert pack.why.startswith("in prepare: ") and "wrote past the end of `w`" in pack.why
    assert mul.why.startswith("SIGSEGV: read past the end of `w`")


def test_pointed_buffers_are_guarded_each_alone_and_results_end_at_the_return_value() -> None:
    report = judged("kinds", made.gather())
    assert report.broken == ""
    assert report.passed == ("blind",)
    assert "SIGSEGV: read past the end of `data` (part 1)" in report.rejected[0].why


@pytest.mark.parametrize(
    ("compare", "passed"),
    [
        (Compare("exact"), ()),
        (Compare("ulp", ulp=1), ("next",)),
        (Compare("ulp", ulp=8), ("next", "far")),
        (Compare("tolerance", rtol=1.1 / 1024), ("next",)),
        (Compare("tolerance", atol=1e9), ("next", "far")),
    ],
)
def test_half_precision_results_follow_the_compare_rule(compare: Compare, passed: tuple[str, ...]) -> None:
    of = made.half(compare)
    of = replace(of, check=replace(of.check, fills=("normal", "ramp")))
    assert judged("kinds", of).passed == passed


def test_rows_that_agree_against_the_reference_are_said_first() -> None:
    report = judged("kinds", made.bits("odd"))
    assert report.passed == () and len(report.rejected) == 2
    assert report.note.startswith("all 2 rows differ from the reference and agree with each other")


def test_reference_that_the_oracle_contradicts_is_an_error_of_its_own() -> None:
    report = judged("kinds", made.bits("judged"))
    assert report.passed == () and report.rejected == ()
    assert report.broken.startswith("the reference itself fails by the oracle's word: wrong result: ")


def test_oracle_that_agrees_judges_the_rows() -> None:
    of = made.half(Compare("ulp", ulp=1), "backed")
    assert judged("kinds", of).passed == ("next",)


def test_reference_that_crashes_is_an_error_of_its_own() -> None:
    report = judged("kinds", made.bits("broken"))
    assert report.rejected == ()
    assert report.broken.startswith("the reference itself fails: ")
    assert "past the end of `y`" in report.broken


def test_support_function_fills_its_argument_whatever_the_case_says() -> None:
    of = made.bits("odd")
    of = replace(of, args=(replace(of.args[0], fill="tens"), *of.args[1:]))
    (one, _) = judged("kinds", of).rejected
    assert one.why.split(";")[0] in (
        "wrong result: element 0 of `y` is 10, the reference has 11",
        "wrong result: element 0 of `y` is 20, the reference has 21",
    )


def test_library_that_is_no_library_is_said_with_its_path() -> None:
    path = made.ROWS / "bad.c"
    with pytest.raises(WorkFailed, match="invalid ELF header"), Worker(made.executable(), path):
        pass


@pytest.mark.skipif(not X86 or "gcc" not in made.CC, reason="-Ofast links start-up code with gcc on x86-64")
def test_library_linked_to_flush_denormals_is_refused() -> None:
    fast = made.library("kinds", made.CC, "-Ofast")
    with (
        pytest.raises(WorkFailed, match="loading the library changes MXCSR"),
        Worker(made.executable(), fast),
    ):
        pass


def test_sanitizer_speaks_through_the_report() -> None:
    flags = ("-O0", "-fsanitize=address")
    with Worker(made.executable(made.CC, *flags), made.library("bad", made.CC, *flags)) as worker:
        report = gate(worker, made.ride(), ("backward", "smashes_stack"), timeout_ms=3000)
    assert report.passed == ("backward",)
    assert "stack-buffer-overflow" in report.rejected[0].why


@pytest.mark.skipif(
    not shutil.which("aarch64-linux-gnu-gcc") or not shutil.which("qemu-aarch64"),
    reason="needs aarch64-linux-gnu-gcc and qemu-aarch64",
)
def test_gate_holds_under_an_emulator() -> None:
    cc = "aarch64-linux-gnu-gcc"
    rows = tuple(suffix for suffix in (*GOOD, *BAD) if suffix not in ("loops", "smashes_stack", "recurses"))
    with Worker(made.executable(cc, "-O0"), made.library("bad", cc), emulator=("qemu-aarch64",)) as worker:
        report = gate(worker, made.ride(), rows, timeout_ms=3000)
    assert set(report.passed) == set(GOOD)
    said = {one.suffix: one.why for one in report.rejected}
    assert said.keys() == BAD.keys() & set(rows)
    assert said["flushes"].startswith("leaves FPCR changed: 0 before, 0x1000000 after")
    assert "the end of `x`, element 0" in said["reads_past"]
    assert said["illegal"].startswith("SIGILL")

"""The live bench: what it answers, and how it survives rows that die under the clock. No time is judged."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import replace

import pytest
import worker_rows as made

from tunebuild import bench
from tunebuild.bench import LiveBench
from tunebuild.calls import parse_case
from tunebuild.errors import WorkFailed
from tunebuild.measure import Measure
from tunebuild.model import Disturbed, MicroRound, Slice
from tunebuild.worker import Worker

pytestmark = [made.needs_cc]
MEASURE = Measure(timeout_s=0.3, cold_max_mb=1.0, slice_retries=0)
RIDERS = ("backward", "dies_later", "hangs_later", "drifts", "reference")
MULS = ("mr4", "mr16", "reference")


def bench_of(worker: Worker, of: made.Subject, rows: tuple[str, ...]) -> LiveBench:
    return LiveBench(worker, of, rows, MEASURE, cache_bytes=1 << 18)


def micro_round(*slices: tuple[int, int], workload: int = 0, placement: int = 0) -> MicroRound:
    return MicroRound(workload, slices[0][0], placement, tuple(Slice(row, reps) for row, reps in slices))


@pytest.mark.parametrize("workload", [0, 1])
@pytest.mark.parametrize("placement", [0, 7, 12])
def test_micro_round_is_answered_slice_by_slice_in_order(workload: int, placement: int) -> None:
    with Worker(made.executable(), made.library("bad")) as worker:
        live = bench_of(worker, made.ride(), RIDERS)
        samples = live.run(micro_round((4, 3), (0, 50), (4, 3), workload=workload, placement=placement))
    assert not isinstance(samples, Disturbed)
    assert [(one.row, one.reps) for one in samples] == [(4, 3), (0, 50), (4, 3)]
    assert all(one.wall_ns > 0 and one.cpu_ns > 0 for one in samples)


@pytest.mark.parametrize("workload", [0, 1])
def test_packed_rows_and_changed_inputs_are_timed_and_stay_right(workload: int) -> None:
    with Worker(made.executable(), made.library("kinds")) as worker:
        live = bench_of(worker, made.mul(), MULS)
        for placement in (0, 3):
            samples = live.run(
                micro_round((0, 700), (1, 700), (2, 700), workload=workload, placement=placement)
            )
            assert not isinstance(samples, Disturbed)
        assert [live.recheck(workload, row, seed=5) for row in (0, 1, 2)] == [None, None, None]
        assert not isinstance(live.run(micro_round((1, 5), (0, 5), workload=workload)), Disturbed)


def test_arrays_of_pointers_are_timed_and_rechecked() -> None:
    with Worker(made.executable(), made.library("kinds")) as worker:
        live = bench_of(worker, made.gather(), ("blind", "reference"))
        assert not isinstance(live.run(micro_round((0, 20), (1, 20))), Disturbed)
        assert live.recheck(0, 0, seed=9) is None


@pytest.mark.parametrize(
    ("row", "why"), [(1, "SIGABRT (workload w)"), (2, "does not return (killed) (workload w)")]
)
def test_row_that_dies_in_the_race_is_named_and_the_others_go_on(row: int, why: str) -> None:
    with Worker(made.executable(), made.library("bad")) as worker:
        live = bench_of(worker, made.ride(), RIDERS)
        assert live.run(micro_round((4, 5), (row, 4000), (0, 5))) == Disturbed(row, why)
        assert not isinstance(live.run(micro_round((4, 5), (0, 5))), Disturbed)


def test_slice_of_a_stopped_process_is_taken_again() -> None:
    with Worker(made.executable(), made.library("bad")) as worker:
        measure = replace(MEASURE, slice_retries=3, timeout_s=10.0)
        live = LiveBench(worker, made.ride(), ("backward", "reference"), measure, cache_bytes=1 << 18)
        live.run(micro_round((1, 1)))
        assert worker._process is not None
        with open(f"/proc/{worker._process.pid}/task/{worker._process.pid}/children") as children:
            racer = int(children.read().split()[0])
        stopper = threading.Thread(target=_stop_for_a_while, args=(racer,))
        stopper.start()
        samples = live.run(micro_round((0, 60_000)))
        stopper.join()
    assert not isinstance(samples, Disturbed)
    assert live.reruns >= 1


def _stop_for_a_while(pid: int) -> None:
    time.sleep(0.05)
    os.kill(pid, signal.SIGSTOP)
    time.sleep(0.1)
    os.kill(pid, signal.SIGCONT)


def test_row_that_changes_the_environment_in_the_race_is_disturbed() -> None:
    with Worker(made.executable(), made.library("bad")) as worker:
        live = bench_of(worker, made.ride(), ("flushes", "reference"))
        told = live.run(micro_round((1, 5), (0, 5)))
    assert isinstance(told, Disturbed) and told.row == 0 and "changed: " in told.why


def test_row_that_is_wrong_after_its_last_slice_is_rejected() -> None:
    with Worker(made.executable(), made.library("bad")) as worker:
        live = bench_of(worker, made.ride(), RIDERS)
        live.run(micro_round((4, 5), (3, 4000)))
        told = live.recheck(0, 3, seed=5)
    assert told is not None and (told.suffix, told.stage) == ("drifts", "race")
    assert told.why.startswith("after its last slice: wrong result: element 0 of `y`")


def raced_until_disturbed(live: LiveBench, row: int) -> Disturbed:
    """Rounds until one is disturbed: a look is made when it costs a small part of what was timed."""
    for number in range(200):
        told = live.run(micro_round((1, 200), (row, 200), placement=number))
        if isinstance(told, Disturbed):
            return told
    raise AssertionError("no look found it")


def test_row_that_finds_its_result_there_and_does_nothing_is_found_after_its_window() -> None:
    with Worker(made.executable(), made.library("bad")) as worker:
        told = raced_until_disturbed(bench_of(worker, made.ride(), ("peeks_later", "reference")), 0)
    assert (
        told.row == 0 and told.why.startswith("wrong result: element ") and told.why.endswith("(workload w)")
    )


def test_race_of_an_unsound_row_ends_with_its_name_and_a_replay_that_finds_it_again() -> None:
    with Worker(made.executable(), made.library("bad")) as worker:
        live = LiveBench(
            worker, made.ride(), ("drifts", "reference"), MEASURE, cache_bytes=1 << 18, strict=True
        )
        with pytest.raises(bench.Unsound) as found:
            for number in range(200):
                live.run(micro_round((1, 200), (0, 4000), placement=number))
        fault = found.value.fault
        case = parse_case(fault.replay.split('"')[1])
        (again,) = bench.gate(worker, made.ride(), ("drifts",), cases=(case,)).rejected
    assert (fault.suffix, fault.stage) == ("drifts", "race")
    assert fault.why.startswith("after timed calls: wrong result: element 0 of `y`")
    assert again.why.startswith("wrong result: element 0 of `y`")


def test_row_that_writes_to_an_input_while_it_is_timed_is_named() -> None:
    with Worker(made.executable(), made.library("bad")) as worker:
        live = bench_of(worker, made.ride(), ("borrows_later", "reference"))
        assert not isinstance(live.run(micro_round((1, 5), (0, 5))), Disturbed)
        told = live.run(micro_round((1, 5), (0, 4000)))
    assert told == Disturbed(0, "SIGSEGV: wrote to the const input `x`, element 0 (workload w)")


def test_row_that_is_quick_only_at_what_it_has_met_is_rejected_beside_its_rival() -> None:
    with Worker(made.executable(), made.library("bad")) as worker:
        live = bench_of(worker, made.ride(), ("compares_later", "reference"))
        live.run(micro_round((1, 5), (0, 4000)))
        assert live.recheck(0, 0, seed=5) is None
        told = live.recheck(0, 0, seed=5, rival=1, gain_pct=60.0)
        assert live.recheck(0, 1, seed=5, rival=0) is None
    assert told is not None and (told.suffix, told.stage) == ("compares_later", "race")
    assert told.why.startswith("on data that it has not met it gains nothing of 60 % over reference in 2")
    assert told.replay == "tunebuild mint --only ride"


@pytest.mark.parametrize("looks", list(bench.Looks))
def test_looks_leave_sound_rows_alone_on_every_kind_of_workload(looks: bench.Looks) -> None:
    for library, of, rows in (("kinds", made.mul(), MULS), ("bad", made.ride(), ("backward", "chatty", "reference")),
                              ("kinds", made.gather(), ("blind", "reference"))):  # fmt: skip
        with Worker(made.executable(), made.library(library)) as worker:
            live = LiveBench(worker, of, rows, MEASURE, cache_bytes=1 << 18, looks=looks)
            for number in range(60):
                slices = [((number + at) % len(rows), 300) for at in range(len(rows))]
                told = live.run(micro_round(*slices, workload=number % len(of.workloads), placement=number))
                assert not isinstance(told, Disturbed), told


def test_renewed_bench_starts_a_new_process() -> None:
    with Worker(made.executable(), made.library("bad")) as worker:
        live = bench_of(worker, made.ride(), RIDERS)
        live.run(micro_round((4, 5), (1, 2000)))
        live.renew(3)
        assert not isinstance(live.run(micro_round((4, 5), (1, 2000))), Disturbed)


def told_addresses(live: LiveBench, placement: int) -> tuple[int, ...]:
    told = live.run(micro_round((1, 5), (0, 5), placement=placement))
    assert isinstance(told, Disturbed) and told.why.startswith("SIGABRT: at ")
    return tuple(int(word, 16) for word in told.why.split()[2:4])


def test_buffers_are_aligned_and_lie_elsewhere_for_another_placement_or_process() -> None:
    with Worker(made.executable(), made.library("bad")) as worker:
        live = bench_of(worker, made.ride(), ("tells", "reference"))
        first, other = told_addresses(live, 0), told_addresses(live, 5)
        again = told_addresses(live, 0)
        live.renew(7)
        moved = told_addresses(live, 0)
        randomised = worker.randomised
    pages = [tuple(address % 4096 for address in each) for each in (first, other, moved)]
    assert all(address % 64 == 0 for each in (first, other, moved) for address in each)
    assert all(x != y for x, y in pages)
    assert len(set(pages)) == 3
    assert [a % 4096 for a in again] == list(pages[0])
    assert randomised or again == first


def test_two_subjects_take_turns_on_one_worker() -> None:
    with Worker(made.executable(), made.library("kinds")) as worker:
        mul = bench_of(worker, made.mul(), ("bad_mul", "reference"))  # a row number that `gather` lacks
        gather = bench_of(worker, made.gather(), ("blind", "reference"))
        for _ in range(2):
            assert not isinstance(mul.run(micro_round((0, 5), (1, 5))), Disturbed)
            assert not isinstance(gather.run(micro_round((0, 5), (1, 5))), Disturbed)
        assert bench.gate(worker, made.gather(), ("blind",)).passed == ("blind",)
        assert not isinstance(mul.run(micro_round((0, 5), (1, 5))), Disturbed)


def test_probe_gives_as_many_windows_and_pairs_as_asked() -> None:
    with Worker(made.executable(), made.library("bad"), core=min(os.sched_getaffinity(0))) as worker:
        assert worker.pinned == min(os.sched_getaffinity(0))
        windows = bench.probe_windows(worker, 5, 200_000)
        pairs = bench.probe_pairs(worker, 4, 100_000)
        bench.probe_spin(worker, 1_000_000)
    assert len(windows) == 5 and len(pairs) == 4
    assert all(window > 0 for window in (*windows, *(ns for pair in pairs for ns in pair)))


def test_worker_that_dies_is_an_error_with_its_library() -> None:
    with Worker(made.executable(), made.library("bad")) as worker:
        live = bench_of(worker, made.ride(), RIDERS)
        process = worker._process
        assert process is not None
        os.kill(process.pid, signal.SIGKILL)
        with pytest.raises(WorkFailed, match="the worker ended with signal SIGKILL"):
            live.run(micro_round((4, 5)))


def test_children_are_gone_when_the_block_ends() -> None:
    with Worker(made.executable(), made.library("bad")) as worker:
        bench_of(worker, made.ride(), RIDERS).run(micro_round((4, 5)))
        process = worker._process
        assert process is not None
        group = process.pid
    for _ in range(500):
        if not _alive(group):
            return
        time.sleep(0.01)
    raise AssertionError("a child outlived its worker")


def test_processes_that_rows_left_are_gone_when_the_worker_s_input_ends() -> None:
    with Worker(made.executable(), made.library("bad")) as worker:
        assert bench.gate(worker, made.ride(), ("forks",)).passed == ("forks",)
        process = worker._process
        assert process is not None and process.stdin is not None
        process.stdin.close()
        for _ in range(500):
            if not _alive(process.pid):
                return
            time.sleep(0.01)
    raise AssertionError("a process outlived its worker")


def _alive(group: int) -> bool:
    """Whether a process of the group is more than a zombie."""
    for folder in os.listdir("/proc"):
        if folder.isdigit():
            try:
                with open(f"/proc/{folder}/stat") as stat:
                    state, _, its_group = stat.read().rpartition(")")[2].split()[:3]
            except OSError:
                continue
            if int(its_group) == group and state != "Z":
                return True
    return False

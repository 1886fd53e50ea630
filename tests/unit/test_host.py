"""The box as this machine tells it, and cores and caches of machines that are folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from tunebuild import host
from tunebuild.errors import UsageError
from tunebuild.features import BY_NAME, believed, closed
from tunebuild.host import Core


def test_this_box_has_five_fields_and_known_features() -> None:
    box = host.box({})
    assert len(box.identity.split("|")) == 5
    assert box.identity.split("|")[4]
    assert box.features <= set(BY_NAME)
    assert closed(box.features) == box.features
    assert host.box({}) == box


def test_forced_features_are_apart_from_the_machines_own() -> None:
    box = host.box({"TUNEBUILD_FORCE_FEATURES": "amx-int8,sve,,amx-int8"})
    assert set(box.forced) == {"amx-int8", "sve"} - box.features
    assert box.features == host.box({}).features
    assert believed(box) >= {"amx-int8", "sve"}


def test_unknown_forced_feature_is_an_error_that_lists_the_names() -> None:
    with pytest.raises(UsageError, match="TUNEBUILD_FORCE_FEATURES names unknown features: avx9") as caught:
        host.box({"TUNEBUILD_FORCE_FEATURES": "avx2,avx9"})
    assert "avx512f" in caught.value.fix


@pytest.mark.parametrize(
    ("text", "size"),
    [("512K\n", 512 << 10), ("32768K", 32 << 20), ("8M", 8 << 20), ("64", 64), ("", 0), ("x", 0)],
)
def test_cache_size_reads_its_unit(text: str, size: int) -> None:
    assert host.parse_size(text) == size


def test_cpu_list_reads_spans() -> None:
    assert host.parse_cpu_list("0-2,5,8-9\n") == (0, 1, 2, 5, 8, 9)
    assert host.parse_cpu_list("\n") == ()


def _cpu(root: Path, cpu: int, **files: str) -> None:
    for name, text in files.items():
        path = root / f"cpu{cpu}" / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")


def test_last_level_cache_is_the_deepest_that_holds_data(tmp_path: Path) -> None:
    _cpu(tmp_path, 0, cache__index0__level="1", cache__index0__size="48K", cache__index0__type="Data")
    _cpu(tmp_path, 0, cache__index1__level="3", cache__index1__size="32M", cache__index1__type="Unified")
    _cpu(tmp_path, 0, cache__index2__level="4", cache__index2__size="64M", cache__index2__type="Instruction")
    assert host.last_level_cache_bytes(tmp_path) == 32 << 20


def test_last_level_cache_of_a_machine_that_tells_nothing_has_a_default(tmp_path: Path) -> None:
    assert host.last_level_cache_bytes(tmp_path) == 32 << 20


def test_race_runs_on_the_last_of_the_fastest_cores_and_on_its_first_thread(tmp_path: Path) -> None:
    for cpu, siblings, speed in (
        (0, "0,2", "5000000"),
        (1, "1,3", "5000000"),
        (2, "0,2", "5000000"),
        (3, "1,3", "5000000"),
    ):
        _cpu(tmp_path, cpu, topology__thread_siblings_list=siblings, cpufreq__cpuinfo_max_freq=speed)
    _cpu(tmp_path, 4, topology__thread_siblings_list="4", cpufreq__cpuinfo_max_freq="3000000")
    assert host.race_core(host.cores(tmp_path, range(5))) == 1
    assert host.race_core(host.cores(tmp_path, (0, 4))) == 0
    assert host.race_core(host.cores(tmp_path, (2, 3))) == 3  # only second threads are allowed
    assert host.race_core(()) == -1


def test_arm_cores_are_compared_by_capacity(tmp_path: Path) -> None:
    _cpu(tmp_path, 0, cpu_capacity="1024")
    _cpu(tmp_path, 1, cpu_capacity="250")
    assert host.cores(tmp_path, (0, 1)) == (Core(0, (0,), 1024), Core(1, (1,), 250))
    assert host.race_core(host.cores(tmp_path, (0, 1))) == 0


def test_steal_is_a_share_of_all_ticks() -> None:
    assert host.steal_percent("cpu  50 0 20 20 5 0 0 5 0 0\ncpu0 1 2 3") == 5.0
    assert host.steal_percent("") == -1.0


def test_conditions_of_this_machine_are_told_without_failing() -> None:
    now = host.conditions()
    assert now.cpus >= 1
    assert now.race_cpu >= 0
    assert now.last_level_cache_bytes > 0

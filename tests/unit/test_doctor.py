"""What is said of the conditions of a box."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tunebuild import doctor
from tunebuild.host import Conditions

QUIET = Conditions(
    cpus=8,
    race_cpu=7,
    shares_core=False,
    governors=("performance",),
    turbo="off",
    load_1min=0.1,
    steal_percent=0.0,
    throttled_periods=0,
    cpu_quota="max 100000",
    aslr="2",
    last_level_cache_bytes=32 << 20,
    virtual=False,
)


def test_quiet_box_has_nothing_to_mind() -> None:
    assert all(found.good and not found.advice for found in doctor.findings(QUIET))
    assert "nothing known disturbs a mint" in doctor.text(QUIET)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"load_1min": 9.0}, "stop what else runs"),
        ({"governors": ("powersave",)}, "set it to performance"),
        ({"cpus": 1}, "allow it a second CPU"),
        ({"race_cpu": -1}, "nothing can be pinned"),
        ({"shares_core": True}, "keep the sibling idle"),
        ({"steal_percent": 4.0}, "a quieter hour"),
        ({"throttled_periods": 12}, "12 periods cut short"),
    ],
)
def test_condition_that_disturbs_is_named_with_what_to_do(changes: dict[str, object], words: str) -> None:
    now = replace(QUIET, **changes)  # type: ignore[arg-type]
    (bad,) = [line for line in doctor.text(now).splitlines() if line.startswith("mind")]
    assert words in bad
    assert doctor.text(now).splitlines()[-1].startswith("1 thing may disturb")


def test_system_that_tells_nothing_is_judged_by_what_is_known() -> None:
    now = replace(QUIET, governors=(), turbo="", load_1min=-1.0, steal_percent=-1.0, cpu_quota="")
    assert len(doctor.findings(now)) == 2

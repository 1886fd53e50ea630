"""Knobs: what a library may apply, under which verdict."""

from __future__ import annotations

from typing import Any

import pytest

from tunebuild.document import Document, Unreadable
from tunebuild.knobs import Applied, Knob, read
from tunebuild.model import Reason, Verdict

KNOWN = (
    Knob("budget", most=1 << 30),
    Knob("gate", most=1),
    Knob("ratio", "float", most=1),
    Knob("tensor", "text"),
    Knob("threads", receipt=True),
)


def apply(reason: Reason = "none", **runtime: Any) -> Applied:
    return read(Document(runtime=runtime), Verdict(reason), KNOWN)


def test_each_known_knob_is_applied_and_logged() -> None:
    found = apply(budget=65536, gate=1, ratio=0.5, tensor="auto")
    assert found.values == {"budget": 65536, "gate": 1, "ratio": 0.5, "tensor": "auto"}
    assert found.log == ("budget = 65536", "gate = 1", "ratio = 0.5", "tensor = auto")


def test_zero_is_a_value_and_a_negative_number_is_unset() -> None:
    assert apply(gate=0).values == {"gate": 0}
    assert apply(gate=-1) == Applied({})


def test_file_with_one_knob_changes_only_that_one() -> None:
    assert apply(budget=1).values == {"budget": 1}
    assert apply() == Applied({})


def test_informational_key_is_a_receipt_only() -> None:
    assert apply(threads=8) == Applied({}, ("threads = 8 (as recorded)",))


@pytest.mark.parametrize(
    ("runtime", "why"),
    [
        ({"warp": 9}, "warp: no knob of this library"),
        ({"gate": 2}, "gate = 2: must be from 0 to 1"),
        ({"gate": 0.5}, "gate = 0.5: expected a whole number"),
        ({"gate": True}, "gate = True: expected a number"),
        ({"gate": "1"}, "gate = '1': expected a number"),
        ({"gate": {"nested": 1}}, "gate = {'nested': 1}: expected a number"),
        ({"tensor": 1}, "tensor = 1: expected text"),
    ],
)
def test_refused_knob_says_why_and_the_others_apply(runtime: dict[str, Any], why: str) -> None:
    found = apply(budget=1, **runtime)
    assert found.refused == (why,)
    assert found.values == {"budget": 1}


@pytest.mark.parametrize("reason", ["none", "missing", "version", "stale_binary"])
def test_knobs_of_this_box_hold_whatever_became_of_the_winners(reason: Reason) -> None:
    assert apply(reason, gate=1).values == {"gate": 1}


@pytest.mark.parametrize("reason", ["foreign_box", "unreadable", "absent"])
def test_knobs_of_a_foreign_or_unreadable_file_are_left_alone(reason: Reason) -> None:
    assert apply(reason, gate=1) == Applied({})


def test_absent_and_unreadable_files_apply_nothing() -> None:
    assert read(None, Verdict("absent"), KNOWN) == Applied({})
    assert read(Unreadable("x"), Verdict("unreadable"), KNOWN) == Applied({})

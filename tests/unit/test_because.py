"""What outputs were made of last time, and the words for what differs now."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tunebuild import because
from tunebuild.keys import Inputs

ROW = Inputs("object", "cc", ("-O3",), "aa", (("a.h", "11"), ("b.h", "22")), environ=(("CPATH", "/x"),))


def test_inputs_come_back_as_they_were_and_stay_when_others_are_added(tmp_path: Path) -> None:
    path = tmp_path / "inputs.json"
    because.remember(path, {"one.o": ROW, "two.o": replace(ROW, source="bb")})
    because.remember(path, {"lib.so": Inputs("link", "cc", (), objects=("1", "2"), stamps=(("dot", "u4"),))})
    found = because.read(path)
    assert (
        found["one.o"] == ROW and found["two.o"].source == "bb" and found["lib.so"].stamps == (("dot", "u4"),)
    )
    assert path.read_text().count("a.h") == 1, "what outputs share is written once"


def test_damaged_or_foreign_file_says_nothing(tmp_path: Path) -> None:
    path = tmp_path / "inputs.json"
    assert because.read(path) == {}
    for text in ("", "[]", '{"names": ["kind"]}', '{"names": null, "shared": [], "outputs": {}}'):
        path.write_text(text)
        assert because.read(path) == {}


def test_reasons_name_the_header_the_first_make_and_what_is_gone() -> None:
    now = {"one.o": replace(ROW, headers=(("a.h", "11"), ("b.h", "23"))), "two.o": ROW, "three.o": ROW}
    assert list(because.reasons({"one.o": ROW, "three.o": ROW}, now)) == [
        "one.o: header b.h changed",
        "two.o: it was never made here",
        "three.o: it is gone, or was changed by hand",
    ]

"""The archive of mints, and two mints side by side."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tunebuild import history
from tunebuild.document import Document, Json
from tunebuild.mintdiff import MintDiff, diff, lines

IDENTITY = "linux|x86_64||6.8.0|AMD EPYC"
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture
def sidecar_file(tmp_path: Path) -> Path:
    path = tmp_path / "demo.tune.json"
    path.write_text('{"kernels": {"f": "a"}, "note": "as it is"}')
    return path


def test_explicit_directory_is_used_verbatim() -> None:
    assert history.directory(IDENTITY, {"TUNEBUILD_HISTORY": "x y/z"}) == Path("x y/z")


@pytest.mark.parametrize(
    ("environ", "home"),
    [({"HOME": "/h"}, "/h"), ({"USERPROFILE": "/u"}, "/u"), ({}, "."), ({"HOME": ""}, ".")],
)
def test_default_directory_names_the_box_in_the_home_folder(environ: dict[str, str], home: str) -> None:
    assert (
        history.directory(IDENTITY, environ) == Path(home) / ".tune-history" / "linux-x86-64--6-8-0-AMD-EPYC"
    )


def test_success_is_archived_as_the_sidecar_is(tmp_path: Path, sidecar_file: Path) -> None:
    environ = {"TUNEBUILD_HISTORY": str(tmp_path / "h")}
    path = history.archive(sidecar_file, IDENTITY, now=NOW, environ=environ)
    assert path == tmp_path / "h" / "20260102-030405_demo.tune.json"
    assert path.read_bytes() == sidecar_file.read_bytes()


def test_two_mints_of_one_second_are_two_entries(tmp_path: Path, sidecar_file: Path) -> None:
    environ = {"TUNEBUILD_HISTORY": str(tmp_path / "h")}
    paths = []
    for number in range(3):
        sidecar_file.write_text(f'{{"runtime": {{"n": {number}}}}}')
        paths.append(history.archive(sidecar_file, IDENTITY, now=NOW, environ=environ))
    assert [path.name for path in paths if path] == [
        "20260102-030405_demo.tune.json",
        "20260102-030405_demo-2.tune.json",
        "20260102-030405_demo-3.tune.json",
    ]
    assert [entry.path for entry in history.entries(IDENTITY, environ, "demo")] == paths  # in order


def test_same_write_is_archived_once(tmp_path: Path, sidecar_file: Path) -> None:
    environ = {"TUNEBUILD_HISTORY": str(tmp_path / "h")}
    first = history.archive(sidecar_file, IDENTITY, now=NOW, environ=environ)
    later = NOW.replace(hour=5)
    assert history.archive(sidecar_file, IDENTITY, now=later, environ=environ) == first
    sidecar_file.write_text("{}")
    assert history.archive(sidecar_file, IDENTITY, now=later, environ=environ) != first


def test_mint_keeps_what_it_wrote_though_another_has_written_since(
    tmp_path: Path, sidecar_file: Path
) -> None:
    environ = {"TUNEBUILD_HISTORY": str(tmp_path / "history")}
    own, others = sidecar_file.read_bytes(), sidecar_file.read_bytes() + b"\n"
    sidecar_file.write_bytes(others)
    first = history.archive(sidecar_file, "box", written=own, environ=environ)
    second = history.archive(sidecar_file, "box", written=others, environ=environ)
    assert first and second and first != second
    assert (first.read_bytes(), second.read_bytes()) == (own, others)
    assert history.archive(sidecar_file, "box", written=others, environ=environ) == second


def test_failure_is_a_stub_whose_words_are_escaped(tmp_path: Path, sidecar_file: Path) -> None:
    environ = {"TUNEBUILD_HISTORY": str(tmp_path / "h")}
    note = 'cc says "no"\n\\ end'
    path = history.archive_failed(
        sidecar_file, IDENTITY, verdict="noisy", note=note, now=NOW, environ=environ
    )
    assert path is not None
    assert path.name == "20260102-030405_demo.FAILED.json"
    assert json.loads(path.read_text()) == {
        "verdict": "noisy",
        "note": note,
        "box": IDENTITY,
        "written": "2026-01-02T03:04:05Z",
    }
    assert [(entry.kind, entry.stem) for entry in history.entries(IDENTITY, environ)] == [("failed", "demo")]


def test_archive_that_cannot_be_written_warns_and_goes_on(
    tmp_path: Path, sidecar_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    environ = {"TUNEBUILD_HISTORY": str(tmp_path / "file" / "h")}
    assert history.archive(sidecar_file, IDENTITY, environ=environ) is None
    assert "this mint is not archived in" in capsys.readouterr().err


def test_entries_of_another_app_and_strange_files_are_left_out(tmp_path: Path) -> None:
    for name in ("20260102-030405_demo.tune.json", "20260101-000000_other.tune.json", "notes.txt"):
        (tmp_path / name).write_text("{}")
    (tmp_path / "20260102-030406_demo.tune.json").touch()  # reserved, then killed
    environ = {"TUNEBUILD_HISTORY": str(tmp_path)}
    assert [entry.stem for entry in history.entries(IDENTITY, environ)] == ["other", "demo"]
    assert [entry.path.name for entry in history.entries(IDENTITY, environ, "demo")] == [
        "20260102-030405_demo.tune.json"
    ]
    assert history.entries(IDENTITY, {"TUNEBUILD_HISTORY": str(tmp_path / "none")}) == ()


def test_backup_is_a_copy(sidecar_file: Path) -> None:
    backup = history.backup(sidecar_file)
    assert backup == sidecar_file.with_name("demo.tune.json.bak")
    assert backup.read_bytes() == sidecar_file.read_bytes()
    sidecar_file.unlink()
    assert history.backup(sidecar_file) is None


# --- the diff -------------------------------------------------------------------------------------


def mint(winners: dict[str, str], times: dict[str, dict[str, float]], metric: str = "med_us") -> Document:
    race: dict[str, dict[str, Json]] = {
        key: {"rows": {row: {metric: time} for row, time in rows.items()}} for key, rows in times.items()
    }
    return Document(kernels=winners, race=race)


ROWS = {"a": 10.0, "b": 11.0, "c": 12.0}


def test_diff_counts_fresh_same_and_flips_with_their_gain() -> None:
    old = mint({"f": "a", "g": "a"}, {"f": ROWS})
    new = mint({"f": "b", "g": "a", "h": "a", "i": ""}, {"f": {"a": 12.0, "b": 10.0}})
    found = diff(old, new)
    assert [(flip.key, flip.old, flip.new, flip.gain_pct) for flip in found.flips] == [("f", "a", "b", 20.0)]
    assert (found.fresh, found.same, found.timed) == (2, 1, 2)
    assert lines(found)[0] == "f: a -> b (+20.0 %)"


def test_diff_times_only_the_seats_that_were_raced_anew() -> None:
    old = mint({"f": "a", "g": "a"}, {"f": ROWS, "g": ROWS})
    new = mint({"f": "a", "g": "a"}, {"f": ROWS, "g": {"a": 20.0, "b": 22.0}})
    found = diff(old, new)
    assert (found.timed, found.shift_pct) == (2, pytest.approx(100.0))
    assert diff(old, old).shift_pct is None


def test_flip_without_both_times_has_no_gain() -> None:
    found = diff(mint({"f": "a"}, {}), mint({"f": "b"}, {"f": {"b": 1.0}}))
    assert lines(found) == ("f: a -> b", "1 changed, 0 same, 0 fresh: winners changed")


@pytest.mark.parametrize("metric", ["med_us", "tile_us", "streamed_us"])
def test_any_recorded_metric_times_a_row(metric: str) -> None:
    found = diff(mint({"f": "a"}, {"f": ROWS}, metric), mint({"f": "a"}, {"f": {"a": 20.0}}, metric))
    assert found.shift_pct == pytest.approx(100.0)


def _reading(scale: dict[str, float], winners: dict[str, str]) -> MintDiff:
    keys = ("f", "g", "h")
    old = mint(dict.fromkeys(keys, "a"), dict.fromkeys(keys, ROWS))
    times = {key: {row: time * scale.get(row, 1.0) for row, time in ROWS.items()} for key in keys}
    return diff(old, mint({**dict.fromkeys(keys, "a"), **winners}, times))


def test_rows_that_all_moved_together_are_the_state_of_the_box() -> None:
    found = _reading({"a": 1.2, "b": 1.21, "c": 1.2}, {})
    assert (found.reading, lines(found)[0]) == (
        "uniform shift",
        "median shift +20.0 % over 9 rows timed in both",
    )


def test_flips_beyond_the_noise_are_a_noisy_mint() -> None:
    assert _reading({"b": 0.8}, {"f": "b", "g": "b"}).reading == "scattered flips"


def test_flips_among_equals_are_twins() -> None:
    assert _reading({"b": 0.905}, {"f": "b", "g": "b"}).reading == "twin flips"


def test_nothing_changed_is_the_same_and_no_old_entry_is_fresh() -> None:
    assert _reading({}, {}).reading == "same"
    assert diff(Document(), mint({"f": "a"}, {})).reading == "fresh"

"""Files of every format that was ever written: read as they are, or cleanly refused."""

from __future__ import annotations

from pathlib import Path

from tunebuild.document import FORMAT, Document, Unreadable, parse, render
from tunebuild.model import Box
from tunebuild.upsert import Change, Writer, merge
from tunebuild.verdict import Demand, verdict

FILES = Path(__file__).parents[1] / "data" / "sidecars"
BOX = Box("linux|x86_64||6.8.0-99-generic|AMD EPYC 7763", "x86_64", frozenset({"avx2", "fma", "f16c"}))


def read(number: int) -> Document | Unreadable:
    return parse((FILES / f"format-{number}.json").read_bytes(), mtime_s=100)


def test_file_of_every_format_is_kept() -> None:
    assert {path.stem for path in FILES.glob("*.json")} >= {f"format-{n}" for n in range(FORMAT + 1)}


def test_file_without_a_format_is_read_and_upgraded_by_the_next_write() -> None:
    found = read(0)
    assert isinstance(found, Document)
    assert found.kernels == {"dot_f32": "isa_avx2_u4", "axpy": ""}
    demand = Demand(("dot_f32", "axpy"), (("kernels_version", "3"),))
    assert verdict(found, demand, box=BOX, path="p", binary_s=100).complete
    merged = merge(found, Change(kernels={"axpy": "u2"}), Writer(BOX, "2026-01-02T03:04:05Z"), binary_s=100)
    assert merged.reset == ""
    assert merged.document.runtime == {"threads": 8}
    assert b'"format": 1' in render(merged.document)


def test_format_1_is_read_whole_and_written_byte_for_byte() -> None:
    found = read(1)
    assert isinstance(found, Document)
    assert set(found.kernels) == {"dot_f32", "gemm_q8.decode", "gemm_q8.prefill"}
    assert render(found) == (FILES / "format-1.json").read_bytes()
    assert verdict(found, Demand(tuple(found.kernels)), box=BOX, path="p").complete


def test_file_of_a_later_format_is_ignored_whole() -> None:
    found = read(2)
    assert isinstance(found, Unreadable)
    assert verdict(found, Demand(("dot_f32",)), box=BOX, path="p").reason == "unreadable"

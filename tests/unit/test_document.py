"""The document: whole or unreadable, whatever bytes arrive."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tunebuild.document import Document, Unreadable, digest_of, parse, render

DOCUMENT = Document(
    kernels={"dot_f32": "isa_avx2_u4", "gemm.decode": "mr8", "axpy": "reference"},
    runtime={"threads": 4, "q8_l2_budget": 0, "tensor": "auto"},
    race={"dot_f32": {"winner": "isa_avx2_u4", "margin_pct": 7.25, "rows": {"isa_avx2_u4": {"med_us": 1.5}}}},
    provenance={"box": "linux|x86_64||6.8|A", "written": "2026-01-02T03:04:05Z", "kernels_version": "3"},
    built={"dot_f32": {"source": "ab", "headers": {"vec.h": "cd"}, "compiler": "gcc 12.2 ef"}},
)
BYTES = render(DOCUMENT)


def _why(data: bytes | str) -> str:
    found = parse(data.encode() if isinstance(data, str) else data)
    assert isinstance(found, Unreadable), found
    return found.why


def test_rendered_document_reads_back_equal() -> None:
    assert parse(BYTES) == DOCUMENT
    assert render(parse(BYTES)) == BYTES  # type: ignore[arg-type]


def test_rendered_document_is_sorted_whatever_the_order_of_its_keys() -> None:
    turned = Document(
        dict(reversed(DOCUMENT.kernels.items())),
        DOCUMENT.runtime,
        DOCUMENT.race,
        dict(reversed(DOCUMENT.provenance.items())),
        DOCUMENT.built,
    )
    assert render(turned) == BYTES


def test_file_without_digest_and_format_is_read() -> None:
    found = parse(b'{"kernels": {"f": "a"}}')
    assert isinstance(found, Document)
    assert (found.kernels, found.runtime, found.box) == ({"f": "a"}, {}, "")


def test_reindented_file_keeps_its_digest() -> None:
    assert parse(json.dumps(json.loads(BYTES)).encode()) == DOCUMENT


def test_edited_file_with_its_old_digest_is_unreadable_and_without_it_read() -> None:
    edited = BYTES.replace(b"isa_avx2_u4", b"isa_avx2_u8")
    assert "edited without deleting `digest`" in _why(edited)
    root = json.loads(edited)
    del root["digest"]
    assert isinstance(parse(json.dumps(root).encode()), Document)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ("", "the file is empty"),
        (" \n", "the file is empty"),
        ("not json", "not JSON at line 1 column 1"),
        ("[]", "the outermost value is not an object"),
        (b"\xff\xfe{}", "not UTF-8 at byte 0"),
        ('{"kernels": []}', "`kernels` is not an object"),
        ('{"provenance": 3}', "`provenance` is not an object"),
        ('{"kernels": {"f": "a"}, "kernels": {"f": "b"}}', "the key 'kernels' stands twice"),
        ('{"kernels": {"f": "a", "f": "b"}}', "the key 'f' stands twice"),
        ('{"kernals": {}}', "'kernals' is no section"),
        ('{"kernels": {"../../etc/passwd": "a"}}', "which is no name"),
        ('{"kernels": {"f": "../evil.so"}}', "which is no name"),
        ('{"kernels": {"f": "a b"}}', "which is no name"),
        ('{"race": {"f": 3}}', "`race.f` is not an object"),
        ('{"built": {"f": "x"}}', "`built.f` is not an object"),
        ('{"race": {"f": {"margin_pct": NaN}}}', "NaN is not a number"),
        ('{"race": {"f": {"margin_pct": -Infinity}}}', "-Infinity is not a number"),
        ('{"race": {"f": {"margin_pct": 1e999}}}', "a number is too large"),
        ('{"runtime": {"k": ' + "9" * 5000 + "}}", "not a number that fits"),
        ('{"provenance": {"note": "\\ud800"}}', "half of a surrogate pair"),
        ('{"provenance": {"\\udfff": "x"}}', "half of a surrogate pair"),
        ('{"race": {"f": ' + '{"a":' * 20 + "1" + "}" * 20 + "}}", "nested deeper than 12"),
        ("[" * 200_000, "nested deeper than 12"),
        ('{"format": 2, "kernels": {"f": "a"}}', "written in format 2; this tunebuild reads up to 1"),
        ('{"format": "1"}', "`format` is not a number"),
        ('{"format": true}', "`format` is not a number"),
        ('{"digest": "sha256:0"}', "`digest` is not a sha256 digest"),
        ('{"digest": null}', "`digest` is not a sha256 digest"),
        ('{"kernels": {}, "digest": "sha256:' + "0" * 64 + '"}', "the digest differs"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "bytes",
)
def test_malformed_file_is_unreadable_with_its_reason(data: bytes | str, why: str) -> None:
    assert why in _why(data)


def test_file_over_the_size_limit_is_unreadable() -> None:
    assert "bytes are more than" in _why(b'{"kernels": {}}' + b" " * (16 << 20))


def test_entries_that_are_no_strings_are_ignored() -> None:
    found = parse(b'{"kernels": {"f": 3, "g": "", "h": null, "i": "a"}}')
    assert isinstance(found, Document)
    assert found.kernels == {"g": "", "i": "a"}


def test_claimed_box_is_the_applied_one_first() -> None:
    assert Document(provenance={"box": "a", "applied_box": "b"}).box == "b"
    assert Document(provenance={"box": "a", "applied_box": ""}).box == "a"
    assert Document(provenance={"box": 3}).box == ""


def test_every_truncation_is_unreadable_or_equal() -> None:
    for length in range(len(BYTES)):
        found = parse(BYTES[:length])
        assert isinstance(found, Unreadable) or found == DOCUMENT, length


def test_two_thousand_bit_flips_are_unreadable_or_equal() -> None:
    chance = random.Random(1)
    for _ in range(2000):
        data = bytearray(BYTES)
        place = chance.randrange(len(data))
        data[place] ^= 1 << chance.randrange(8)
        found = parse(bytes(data))
        assert isinstance(found, Unreadable) or found == DOCUMENT, (place, data[place])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)
SECTION = st.sampled_from(["kernels", "runtime", "race", "provenance", "built", "format", "digest", "other"])


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(SECTION, JSON, max_size=6))
def test_any_json_is_read_or_refused_and_what_is_read_can_be_written(root: dict[str, Any]) -> None:
    found = parse(json.dumps(root).encode())
    if isinstance(found, Document):
        assert parse(render(found)) == found


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=60), st.integers(0, len(BYTES)))
def test_any_bytes_inside_a_file_never_change_a_winner(noise: bytes, place: int) -> None:
    found = parse(BYTES[:place] + noise + BYTES[place + len(noise) :])
    assert isinstance(found, Unreadable) or found == DOCUMENT


def test_digest_does_not_depend_on_key_order() -> None:
    assert digest_of({"a": 1, "b": {"c": 2, "d": 3}}) == digest_of(
        {"b": {"d": 3, "c": 2}, "a": 1, "digest": "x"}
    )

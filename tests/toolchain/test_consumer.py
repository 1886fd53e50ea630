"""Python's door, on libraries compiled here from generated text."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tunebuild import codegen_artifact as artifacts
from tunebuild import consumer, host, prototype
from tunebuild.codegen_artifact import ArtifactFacts, ScopeFacts
from tunebuild.errors import UsageError
from tunebuild.model import Function, Stamp

CC = shutil.which("gcc") or shutil.which("clang") or ""
RUNTIME = Path(artifacts.__file__).parent / "runtime"
pytestmark = [pytest.mark.cc, pytest.mark.skipif(not CC, reason="no gcc and no clang")]

PROTOTYPES = (
    "float dot(const float *restrict a, const float *restrict b, size_t n)",
    "void scale(float *x, float by, int n)",
    "uint16_t first_half(const _Float16 *x)",
    "int sum_bytes(const void *data, int n)",
    "void opaque(struct handle *h)",
    "_Float16 by_value(_Float16 x)",
)
BODY = """
#include <stdint.h>
#include <stddef.h>
#define EXPORT __attribute__((visibility("default")))
EXPORT float dot(const float *a, const float *b, size_t n)
    { float s = 0; while (n--) s += a[n] * b[n]; return s; }
EXPORT void scale(float *x, float by, int n) { while (n--) x[n] *= by; }
EXPORT uint16_t first_half(const uint16_t *x) { return x[0]; }
EXPORT int sum_bytes(const unsigned char *x, int n) { int s = 0; while (n--) s += x[n]; return s; }
EXPORT void opaque(void *h) { (void)h; }
typedef struct { const char *suffix; void (*fn)(void); } row;
#define REGISTRY(f) EXPORT const row *f##_variants(size_t *count) \\
    { static const row rows[] = {{"reference", (void (*)(void))f}}; *count = 1; return rows; }
REGISTRY(dot) REGISTRY(scale) REGISTRY(first_half) REGISTRY(sum_bytes) REGISTRY(opaque)
"""


def baked(**changes: object) -> ArtifactFacts:
    box = host.box({})
    stamps = (
        Stamp("dot", "dot", "", "u4", "manifest", "my-lib.tune.json", "lib"),
        Stamp("scale", "scale", "", "reference", "reference", "", "lib"),
    )
    here = host.match_key(box.identity)
    scopes = (ScopeFacts("lib", "none", ""),)
    whole = ArtifactFacts(
        "my-lib", "built", "auto", here, box.arch, "../..", "my-lib.tune.json", "", stamps, scopes, ()
    )
    return replace(whole, **changes)  # type: ignore[arg-type]


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TUNEBUILD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def made(folder: Path, facts: ArtifactFacts) -> Path:
    functions = [_parsed(text) for text in PROTOTYPES]
    sources = {
        "status.c": artifacts.status_source(facts),
        "interface.c": artifacts.interface_source(facts.app, functions),
        "body.c": BODY,
    }
    for name, text in sources.items():
        (folder / name).write_text(text)
    library = folder / "libmy-lib.so"
    files = [str(folder / name) for name in sources]
    command = [
        CC,
        "-O1",
        "-fPIC",
        "-shared",
        "-fvisibility=hidden",
        f"-I{RUNTIME}",
        *files,
        "-o",
        str(library),
    ]
    subprocess.run(command, check=True)
    return library


def _parsed(text: str) -> Function:
    return prototype.parse(text.replace("struct handle", "handle_t"))


@pytest.fixture
def library(tmp_path: Path, cached: Path) -> consumer.Library:
    return consumer.load(made(tmp_path, baked()))


def floats(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


def test_functions_take_arrays_and_return_numbers(library: consumer.Library) -> None:
    x = floats(1, 2, 3)
    assert library.dot(x, x, 3) == 14 and library["dot"](x, x, np.int64(2)) == 5
    library.scale(x, 2.0, x.size)
    assert x.tolist() == [2, 4, 6]
    assert library.sum_bytes(b"\x01\x02", 2) == 3 and library.sum_bytes(np.arange(4, dtype=np.uint8), 4) == 6
    assert library.first_half(np.array([1], dtype=np.float16)) == 0x3C00
    assert library.first_half(np.array([7], dtype=np.uint16)) == 7
    assert library.opaque(None) is None
    assert library.dot(floats(), floats(), 0) == 0


def test_functions_are_listed_and_one_that_cannot_be_called_is_not(library: consumer.Library) -> None:
    assert list(library) == ["dot", "scale", "first_half", "sum_bytes", "opaque"]
    assert "dot" in dir(library) and library.dot.prototype.startswith("float dot(const float *a")
    with pytest.raises(AttributeError, match=r"libmy-lib.so has no function by_value"):
        library.by_value(1.0)


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        (np.ones(3), TypeError, "a: an array of f32 is wanted, not of float64"),
        (np.ones(3, dtype=">f4"), TypeError, "a: an array of f32 is wanted, not of >f4"),
        (np.ones((3, 2), dtype=np.float32)[:, 0], ValueError, "a: the array is not C-contiguous"),
        ([1.0, 2.0], TypeError, "a: a numpy array of f32 is wanted, not list"),
    ],
)
def test_an_array_that_does_not_fit_is_refused(
    library: consumer.Library, wrong: object, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        library.dot(wrong, floats(1, 2, 3), 3)


def test_a_read_only_array_is_refused_where_it_would_be_written(library: consumer.Library) -> None:
    x = floats(1)
    x.flags.writeable = False
    assert library.dot(x, x, 1) == 1
    with pytest.raises(ValueError, match="x: the function writes it"):
        library.scale(x, 2.0, 1)


def test_another_number_of_arguments_names_the_prototype(library: consumer.Library) -> None:
    with pytest.raises(TypeError, match=r"float dot\(.*\) takes 3 arguments, not 1"):
        library.dot(floats(1))


def test_status_scopes_variants_and_box_are_what_was_baked(library: consumer.Library) -> None:
    assert library.status() == (
        consumer.TuneRow("dot", "lib", "u4", "manifest", "my-lib.tune.json"),
        consumer.TuneRow("scale", "lib", "", "reference", ""),
    )
    assert library.scopes() == (consumer.TuneScope("lib", "none", "", ""),)
    assert library.variants("dot") == ("reference",)
    assert library.box == host.match_key(host.box({}).identity)


def test_untuned_scopes_are_warned_of_with_the_verdict(tmp_path: Path, cached: Path) -> None:
    scopes = (ScopeFacts("lib", "missing", "scale"), ScopeFacts("b", "absent", "x", "covered by a profile"))
    path = made(tmp_path, baked(scopes=scopes))
    with pytest.warns(consumer.TuneWarning) as caught:
        consumer.load(path)
    assert [str(each.message) for each in caught] == [
        "libmy-lib.so: scope lib is untuned for this box: missing (scale)"
    ]


def test_a_library_of_another_box_is_warned_of_and_a_frozen_one_is_not(tmp_path: Path, cached: Path) -> None:
    with pytest.warns(consumer.TuneWarning, match=r"was stamped on linux\|x86_64\|\|9.9\|other, this is"):
        consumer.load(made(tmp_path, baked(box="linux|x86_64||9.9|other")))
    (tmp_path / "f").mkdir()
    assert consumer.load(made(tmp_path / "f", baked(kind="frozen", box="", scopes=()))).box == ""


def test_lacking_features_are_an_import_error_and_loading_does_not_abort(
    tmp_path: Path, cached: Path
) -> None:
    box = host.box({})
    lacking = "avx512fp16" if box.arch == "x86_64" else "sve2"
    if lacking in box.features:
        pytest.skip(f"this machine has {lacking}")
    with pytest.raises(ImportError, match=f"libmy-lib.so needs {lacking}, which this CPU lacks"):
        consumer.load(made(tmp_path, baked(needs=(lacking,))))


def test_a_library_that_is_none_of_ours_is_an_import_error(tmp_path: Path, cached: Path) -> None:
    with pytest.raises(ImportError, match="cannot open shared object"):
        consumer.load(tmp_path / "none.so")
    renamed = made(tmp_path, baked()).rename(tmp_path / "libother.so")
    with pytest.raises(ImportError, match="was renamed"):
        consumer.load(renamed)


def test_the_generated_module_is_kept_in_the_cache(tmp_path: Path, cached: Path) -> None:
    path = made(tmp_path, baked())
    consumer.load(path)
    entries = list(cached.glob("entries/*/*"))
    consumer.load(path)
    assert len(entries) == 1 and entries == list(cached.glob("entries/*/*"))


def test_without_a_cache_a_library_still_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNEBUILD_CACHE", "off")
    assert consumer.load(made(tmp_path, baked())).dot(floats(2), floats(3), 1) == 6


def test_an_unknown_app_is_a_usage_error_that_lists_the_known(tmp_path: Path) -> None:
    (tmp_path / "r.c").write_text(
        "void f(float *x, size_t n) { for (size_t i = 0; i < n; i++) x[i] += 1; }\n"
    )
    (tmp_path / "k.c.j2").write_text("{{ prototype }}\n{\n    for (size_t i = 0; i < n; i++) x[i] += 1;\n}\n")
    (tmp_path / "tune.toml").write_text(
        '[project]\nname = "tiny"\n[build]\ntemplates = "."\n[family.f]\n'
        'prototype = "void f(float *x, size_t n)"\nreference = "r.c"\ntemplate = "k.c.j2"\n'
        'fallback = "u1"\n[family.f.grid.axes]\nu = [1]\n[family.f.args]\nx = { inout = "f32[n]" }\n'
        "[family.f.workload.l1]\nn = 64\n"
    )
    with pytest.raises(UsageError, match="there is no app other") as caught:
        consumer.load("other", root=tmp_path)
    assert "tiny" in caught.value.fix
    with pytest.raises(UsageError, match=r"libtiny.so is not built"):
        consumer.load("tiny", root=tmp_path)

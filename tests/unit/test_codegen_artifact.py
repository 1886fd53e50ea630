from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tunebuild import codegen_artifact as artifacts
from tunebuild.codegen_artifact import ArtifactFacts, ScopeFacts
from tunebuild.features import FEATURES
from tunebuild.model import App, Row, Stamp
from tunebuild.prototype import parse

FACTS = ArtifactFacts(
    app="my-app",
    kind="built",
    policy="auto",
    box="linux|x86_64||6.1|cpu",
    arch="x86_64",
    project="../..",
    sidecar="my-app.tune.json",
    sidecar_digest="ab",
    stamps=(Stamp("f.big", "f", "big", "u4", "manifest", "my-app.tune.json", "lib"),),
    scopes=(ScopeFacts("lib", "missing", 'seat "g"'),),
    needs=("avx2", "avxvnni|avx512vnni"),
)


def test_equal_facts_give_equal_text_without_an_absolute_path() -> None:
    text = artifacts.status_source(FACTS)
    assert text == artifacts.status_source(replace(FACTS)) and '"/' not in text
    assert "my_app_tune_status" in text and '{"f.big", "lib", "u4", "manifest", "my-app.tune.json"}' in text
    assert r'{"lib", "missing", "seat \"g\"", "", 0}' in text
    assert '{"avxvnni|avx512vnni", tb_any_1, 2}' in text


def test_an_artifact_without_seats_scopes_or_needs_has_no_empty_array() -> None:
    text = artifacts.status_source(replace(FACTS, stamps=(), scopes=(), needs=()))
    assert "[] = {\n}" not in text and ".rows = NULL" in text and ".need_count = 0" in text


def test_reference_body_has_an_empty_suffix() -> None:
    stamp = replace(FACTS.stamps[0], suffix="reference", source="reference", path="")
    assert '{"f.big", "lib", "", "reference", ""}' in artifacts.status_source(replace(FACTS, stamps=(stamp,)))


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.name)
def test_every_feature_has_a_probe(feature: object) -> None:
    name, arch = getattr(feature, "name"), getattr(feature, "arch")  # noqa: B009
    text = artifacts.artifact_table(replace(FACTS, arch=arch, needs=(name,)))
    assert f'{{"{name}", ' in text
    assert "TB_E" in text and (arch == "x86_64" or "UINT64_C(0x0)" not in text)


def test_needs_are_each_conjunct_once_of_the_stamps_own_architecture() -> None:
    rows = [Row("a", (), requires="avx2,fma"), Row("b", (), requires="fma,neon|avx512f,,nonsense")]
    assert artifacts.needs(rows, "x86_64") == ("avx2", "fma", "avx512f")
    assert artifacts.needs(rows, "aarch64") == ("neon",)


def test_paths_of_the_project_become_relative_in_sentences_too() -> None:
    assert artifacts.relative("absent (/p/q/a.json)", Path("/p/q")) == "absent (a.json)"
    assert artifacts.relative("/p/qq/a.json", Path("/p/q")) == "/p/qq/a.json"


@pytest.mark.parametrize(
    ("text", "literal"),
    [('a"b\\c', r'"a\"b\\c"'), ("é\n", r'"\303\251\012"'), ("what??/", r'"what\?\?/"'), ("", '""')],
)
def test_c_strings_are_quoted_byte_by_byte(text: str, literal: str) -> None:
    assert artifacts.quoted(text) == literal


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("float f(const float *restrict a, size_t n)", "float f(const float *a, size_t n)"),
        ("void f(_Float16 *y, const __bf16 *x)", "void f(tb_f16 *y, const tb_bf16 *x)"),
        ("void f(const void *p, handle_t *h)", "void f(const void *p, void *h)"),
        ("void f(void)", "void f(void)"),
        ("unsigned long long f(const unsigned char *x)", "unsigned long long f(const unsigned char *x)"),
        ("float f(_Float16 x)", ""),
        ("__bf16 f(int x)", ""),
    ],
)
def test_plain_prototypes_are_what_any_language_reads(text: str, plain: str) -> None:
    assert artifacts.plain_prototype(parse(text)) == plain


def test_an_automatic_guard_runs_before_the_authors_main() -> None:
    text = artifacts.main_source(App("my-app", "exe", ()))
    assert "int stop = my_app_tune_guard(argc, argv);" in text
    assert "return stop ? stop : tb_app_main(argc, argv, envp);" in text

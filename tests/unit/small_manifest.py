"""Builders of small manifests for the tests of deciding modules: only what a case is about is spelled."""

from __future__ import annotations

from pathlib import Path

from tunebuild.model import (
    App,
    Box,
    ChainEntry,
    Companion,
    Family,
    Function,
    Manifest,
    Module,
    Project,
    Row,
    Scope,
    Seat,
    Value,
)

ROOT = Path("/project")
PROJECT = Project("demo", ROOT, ROOT / "tune.toml", "cc", (), (), ROOT / "kernels", "", (), (), ())
AVX2_BOX = Box("linux|x86_64||6.1|Zen", "x86_64", frozenset({"avx", "avx2", "fma", "f16c"}))
PLAIN_BOX = Box("linux|x86_64||6.1|Old", "x86_64", frozenset({"sse4.2"}))
WIDE = frozenset({"avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vl", "avx512vnni"})
WIDE_BOX = Box("linux|x86_64||6.1|Ice", "x86_64", WIDE)


def row(suffix: str, requires: str = "", layout: tuple[Value, ...] = (), toolchain: str = "") -> Row:
    return Row(suffix, (("k", suffix),), requires, layout=layout, toolchain=toolchain)


def chain(text: str) -> tuple[ChainEntry, ...]:
    pairs = (entry.partition(":") for entry in text.split(";") if entry)
    return tuple(ChainEntry(suffix, requires) for suffix, _, requires in pairs)


def family(
    name: str = "f",
    rows: tuple[Row, ...] = (row("a"), row("b", "avx512f")),
    fallback: str = "b;a",
    seats: tuple[str, ...] = (),
    **more: object,
) -> Family:
    declared = tuple(Seat(seat, "n <= 8", f"{name}.{seat}") for seat in seats) or (Seat("", "", name),)
    function = Function(name, f"void {name}(void)", "void", ())
    return Family(
        name=name,
        module=str(more.pop("module", "blas")),
        project=PROJECT,
        function=function,
        reference=ROOT / "r.c",
        template=ROOT / "k.j2",
        rows=rows,
        fallback=chain(fallback),
        seats=declared,
        **more,  # type: ignore[arg-type]
    )


def companion(name: str, own_seat: bool = False) -> Companion:
    function = Function(name, f"void {name}(void)", "void", ())
    return Companion(name, function, ROOT / f"{name}.c.j2", ROOT / f"{name}.c", own_seat=own_seat)


def manifest(
    *families: Family,
    scopes: tuple[Scope, ...] | None = None,
    apps: tuple[App, ...] | None = None,
) -> Manifest:
    names = tuple(one.name for one in families)
    held = scopes if scopes is not None else (Scope("demo", "blas", (), names, defaults=ROOT / "profiles"),)
    held_apps = apps or (App("demo", "library", tuple(scope.name for scope in held)),)
    modules = tuple(Module(name) for name in dict.fromkeys(one.module for one in families))
    return Manifest(PROJECT, modules, held, held_apps, families)

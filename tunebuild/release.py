"""What may ship, and what is in the bundle. Pure: `releaseflows` does it.

A scope that has a tuner is minted for every release; `--quick` inherits a sidecar that is complete, fresh and
measured here, and mints otherwise. Every check is a line with its reason and, where it fails, a fix; one that
fails ships nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from tunebuild.codegen import identifier
from tunebuild.document import Document, Json
from tunebuild.model import REFERENCE, App, Manifest, Stamps
from tunebuild.policy import ScopeState
from tunebuild.resolve import race_filter, winner_keys
from tunebuild.upsert import by_hand, origin_of

SIDECAR_NEWER_S = 5
"""How much newer than what it describes a shipped sidecar is: some file systems keep whole seconds."""

Action = Literal["inherit", "mint", "by hand"]
Word = Literal["ok", "warning", "failed"]


@dataclass(frozen=True, slots=True)
class ScopePlan:
    """What a release does for one scope, and why, in words."""

    scope: str
    action: Action
    why: str


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that must hold for a bundle. ``fix`` is "" where it holds."""

    name: str
    word: Word
    why: str
    fix: str = ""

    @property
    def line(self) -> str:
        """As a release says it."""
        return f"{self.word}: {self.name}: {self.why}" + (f"; {self.fix}" if self.fix else "")


def plan_scope(
    state: ScopeState, document: Document | None, demanded: Collection[str], quick: bool
) -> ScopePlan:
    """Mint, inherit, or ship what was written by hand."""
    name = state.scope.name
    if state.scope.tuner == "none":
        return ScopePlan(name, "by hand", "it has no tuner")
    if not quick:
        return ScopePlan(name, "mint", "a release measures what it ships")
    if not state.verdict.complete:
        detail = state.verdict.detail or state.verdict.reason
        return ScopePlan(name, "mint", f"--quick inherits a complete sidecar only, this one is not: {detail}")
    foreign = tuple(key for key in demanded if document is not None and origin_of(document, key))
    if foreign:
        return ScopePlan(
            name, "mint", f"--quick inherits what was measured here only, not {', '.join(foreign)}"
        )
    return ScopePlan(name, "inherit", "its sidecar is complete, fresh and measured here")


# --- the checks -----------------------------------------------------------------------------------


def scope_check(state: ScopeState, plan: ScopePlan) -> Check:
    """Whether a scope may ship as it stands after minting."""
    name = f"scope {plan.scope}"
    detail = state.verdict.detail or state.verdict.reason
    if state.verdict.complete:
        told = {
            "inherit": f"inherited: {plan.why}",
            "mint": "minted for this release",
            "by hand": "written by hand",
        }
        return Check(name, "ok", told[plan.action])
    if plan.action == "by hand":
        return Check(
            name,
            "warning",
            f"it has no tuner and is incomplete ({detail}): its fallback rows ship",
            state.advice,
        )
    return Check(
        name, "failed", f"still untuned after its mint: {detail}", f"run `{state.command}` and read why"
    )


def gate_check(stamped: Iterable[tuple[str, str]], rejected: Mapping[tuple[str, str], str]) -> Check:
    """Every stamped row passed the gate on this box, as the object that ships."""
    cells = tuple(dict.fromkeys(stamped))
    bad = [
        f"{family}__{suffix}: {rejected[family, suffix]}"
        for family, suffix in cells
        if (family, suffix) in rejected
    ]
    if bad:
        return Check("gate", "failed", "; ".join(bad), "run `tunebuild test`, then mint again")
    return Check("gate", "ok", f"{len(cells)} stamped rows passed on this box")


def noise_check(document: Document | None) -> Check:
    """What the mint said of the box while it measured."""
    noise = str(document.provenance.get("noise", "")) if document else ""
    if noise in ("ok", ""):
        return Check("noise", "ok", f"the mint's probes: {noise or 'none recorded'}")
    return Check(
        "noise", "warning", f"the mint was {noise}", "mint on a quieter box: tunebuild doctor says what runs"
    )


def stamp_check(stamps: Stamps) -> Check:
    """What every seat runs, counted by who said so."""
    counts: dict[str, int] = {}
    for stamp in stamps.seats:
        counts[stamp.source] = counts.get(stamp.source, 0) + 1
    words = ", ".join(f"{count} by {source}" for source, count in counts.items()) or "no seats"
    plain = sum(stamp.suffix == REFERENCE for stamp in stamps.seats)
    return Check("stamps", "ok", f"{words}" + (f"; {plain} run the reference body" if plain else ""))


def hand_check(
    manifest: Manifest, document: Document | None, stamps: Stamps, states: Iterable[ScopeState]
) -> Check:
    """Winners that somebody wrote over what their race decided, or without one: nobody measured that they win. Those of
    companions are held to it as those of seats are. Where a scope has no tuner, a hand is all that can write them."""
    known = {state.scope.name: state for state in states}
    scopes = {stamp.family: stamp.scope for stamp in stamps.seats if stamp.source == "manifest"}
    found: list[str] = []
    written: list[str] = []
    for family in manifest.families:
        if document is None or family.name not in scopes:
            continue
        state = known.get(scopes[family.name])
        tuner = state.scope.tuner if state else "none"
        for key in winner_keys(family):
            if by_hand(document, key, tuner):
                alone = tuner == "none" and not document.outvoted(key)
                (written if alone else found).append(key)
    if found:
        command = next((state.command for state in known.values() if state.command), "")
        why = f"set by hand, not measured: {', '.join(found)}"
        mint = f"run `{command} --only {race_filter(manifest, found)}`"
        return Check("winners", "failed", why, mint if command else "take them out of the sidecar")
    if written:
        return Check(
            "winners", "warning", f"no tuner measured: {', '.join(written)}", "give its scope a tuner"
        )
    return Check("winners", "ok", "every recorded winner is the one its race decided")


def may_ship(checks: Iterable[Check]) -> bool:
    return all(check.word != "failed" for check in checks)


def provenance_line(document: Document | None) -> str:
    """Who measured what ships: noise verdict, mode, commit, date, box."""
    if document is None:
        return "no sidecar: fallback rows"
    known: Mapping[str, Json] = document.provenance
    words = {
        "noise": known.get("noise", "unknown"),
        "mode": known.get("mode", "unknown"),
        "commit": known.get("engine_sha", "unknown"),
        "written": known.get("written", "unknown"),
        "box": document.box or "unknown",
    }
    return ", ".join(f"{name} {value}" for name, value in words.items())


# --- the bundle -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle's files by their path in it: ``texts`` are written, ``copies`` come from the build."""

    texts: Mapping[str, str]
    copies: Mapping[str, str]  # target -> source, relative to the project's root
    sidecar: str


def bundle(app: App, headers: Iterable[str], version: str) -> Bundle:
    """The layout of one app's bundle. ``headers``: names in generated/include that its header needs."""
    sidecar = f"{app.name}.tune.json"
    if app.kind == "exe":
        return Bundle({}, {f"bin/{app.name}": f"build/normal/{app.name}"}, sidecar)
    shared, static = app.kind in ("shared", "library"), app.kind in ("static", "library")
    files = [f"lib{app.name}.so"] * shared + [f"lib{app.name}.a"] * static
    copies = {f"lib/{file}": f"build/normal/{file}" for file in files}
    copies |= {f"include/{app.name}/{name}": f"generated/include/{name}" for name in headers}
    texts = {
        f"lib/pkgconfig/{app.name}.pc": pkg_config(app, version),
        f"lib/cmake/{app.name}/{app.name}Config.cmake": cmake_config(app, shared=shared, static=static),
        f"lib/cmake/{app.name}/{app.name}ConfigVersion.cmake": _cmake_version(version),
    }
    return Bundle(texts, copies, sidecar)


def public_headers(app: App, constants: Iterable[str]) -> tuple[str, ...]:
    """The headers that a user of the library includes, its own first."""
    return (f"{identifier(app.name)}.h", "tunebuild.h", "tb_loop.h", *constants)


def pkg_config(app: App, version: str) -> str:
    """Relocatable: the prefix is where the file lies."""
    libs = " ".join((*app.libs, "-lm"))
    return f"""\
prefix=${{pcfiledir}}/../..
includedir=${{prefix}}/include
libdir=${{prefix}}/lib

Name: {app.name}
Description: tuned functions of {app.name}
Version: {version}
Cflags: -I${{includedir}}/{app.name}
Libs: -L${{libdir}} -l{app.name}
Libs.private: {libs}
"""


def cmake_config(app: App, *, shared: bool, static: bool) -> str:
    """Targets NAME::NAME, shared where there is a shared library, and NAME::static."""
    name = app.name
    text = f"""\
# {name}: {name}::{name}{f", and {name}::static" if shared and static else ""}. Relocatable.
get_filename_component(_{identifier(name)}_prefix "${{CMAKE_CURRENT_LIST_DIR}}/../../.." ABSOLUTE)
"""
    if shared:
        text += _cmake_target(app, name, "SHARED", f"lib{name}.so")
    if static:
        text += _cmake_target(app, "static" if shared else name, "STATIC", f"lib{name}.a")
    return text + f"unset(_{identifier(name)}_prefix)\n"


def _cmake_target(app: App, target: str, kind: str, file: str) -> str:
    prefix = f"${{_{identifier(app.name)}_prefix}}"
    full = f"{app.name}::{target}"
    libs = ";".join((*(lib.removeprefix("-l") for lib in app.libs), "m"))
    more = "    IMPORTED_NO_SONAME TRUE\n" if kind == "SHARED" else f'    INTERFACE_LINK_LIBRARIES "{libs}"\n'
    return f"""\
if(NOT TARGET {full})
  add_library({full} {kind} IMPORTED)
  set_target_properties({full} PROPERTIES
    IMPORTED_LOCATION "{prefix}/lib/{file}"
    INTERFACE_INCLUDE_DIRECTORIES "{prefix}/include/{app.name}"
{more}  )
endif()
"""


def _cmake_version(version: str) -> str:
    return f"""\
set(PACKAGE_VERSION "{version}")
if(PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE FALSE)
else()
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
  if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
    set(PACKAGE_VERSION_EXACT TRUE)
  endif()
endif()
"""

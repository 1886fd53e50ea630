"""What is baked into each app: how its scopes stand, its status table, an executable's guard."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from tunebuild import codegen, codegen_artifact, graph, host, plan, policy, profiles, record, resolve
from tunebuild.codegen_artifact import ArtifactKind
from tunebuild.errors import UsageError
from tunebuild.model import App, Box, Manifest, Mode, Stamps

TOOL = "build/tool"


def sidecar_digest(path: Path) -> str:
    """Digest of a sidecar's bytes, "" where there is no plain file. Taken before the sidecar is read for stamping: one
    that changes in between then differs from what is baked, and the next start stamps anew."""
    try:
        if not path.is_file():  # a pipe of that name would be waited for
            return ""
        return hashlib.blake2b(path.read_bytes(), digest_size=32).hexdigest()  # as tb_digest.h does
    except OSError:
        return ""


def scope_states(
    manifest: Manifest,
    app: App,
    read: record.Read,
    chosen: tuple[profiles.Chosen, ...],
    here: resolve.Here,
) -> tuple[policy.ScopeState, ...]:
    """Each scope of an app: the sidecar's verdict, and what a profile does where the sidecar is silent."""
    scopes = resolve.app_scopes(manifest, app)
    verdicts = {scope.name: read.verdict(policy.demand(manifest, scope)) for scope in scopes}
    fresh = read.source.entries if read.source else {}
    adoptions = {scope.name: profiles.adoption(manifest, scope, chosen, here, fresh) for scope in scopes}
    passed_over = {one.scope: tuple(skip.line for skip in one.skipped) for one in chosen}
    return policy.scope_states(manifest, app, verdicts, adoptions, str(read.path), passed_over)


def sources(
    manifest: Manifest,
    app: App,
    stamps: Stamps,
    states: tuple[policy.ScopeState, ...],
    *,
    box: Box,
    digest: str,
    kind: ArtifactKind,
) -> dict[str, str]:
    """{path: C text} of what an app says of itself. ``digest``: `sidecar_digest` of what was stamped from."""
    names = {family.name for family in resolve.app_families(manifest, app)}
    facts = codegen_artifact.facts(
        manifest,
        app,
        replace(stamps, seats=tuple(stamp for stamp in stamps.seats if stamp.family in names)),
        states,
        kind=kind,
        policy=policy.effective(manifest, app, "").policy,
        box=box,
        box_key=host.match_key(box.identity),
        sidecar=record.location(manifest, app, {}),
        sidecar_digest=digest,
    )
    folder = f"{codegen.GENERATED}/normal/{app.name}"
    files = {f"{folder}/status.c": codegen_artifact.status_source(facts)}
    if app.kind == "exe":
        files[f"{folder}/main.c"] = codegen_artifact.main_source(app)
    if app.kind in ("shared", "library"):
        functions = [
            function.function
            for family in resolve.app_families(manifest, app)
            for function in plan.functions_of(family)
        ]
        files[f"{folder}/interface.c"] = codegen_artifact.interface_source(app.name, functions)
    return files


def app_sources(manifest: Manifest, app: App, files: Mapping[str, str]) -> graph.AppSources:
    folder = f"{codegen.GENERATED}/normal/{app.name}/"
    names = {family.name for family in resolve.app_families(manifest, app)}
    generated = tuple(path for path in files if path.startswith(folder) and Path(path).stem not in names)
    own = tuple(_relative(path, manifest) for path in app.sources)
    include = tuple(f"-I{_relative(path, manifest)}" for path in app.include)
    renamed = codegen_artifact.MAIN_FLAGS if app.kind == "exe" and app.guard == "auto" else ()
    return graph.AppSources(generated, own, (*app.cflags, *include, *renamed))


def _relative(path: Path, manifest: Manifest) -> str:
    return Path(os.path.relpath(path, manifest.project.root)).as_posix()


# --- the policy at build --------------------------------------------------------------------------


def mode(environ: Mapping[str, str]) -> Mode:
    """The mode that the environment asks for. :raises UsageError: for a word that is none."""
    word = environ.get("TUNEBUILD_MODE") or "normal"
    known: dict[str, Mode] = {"normal": "normal", "tune": "tune", "test": "test"}
    if word not in known:
        raise UsageError(f"{word!r} is no mode", where="TUNEBUILD_MODE", fix="set normal, tune or test")
    return known[word]


def require_known(environ: Mapping[str, str]) -> None:
    """:raises UsageError: for a mode or a policy in the environment that is none: no command goes on under one."""
    mode(environ)
    policy.require_flavour(environ.get("TUNEBUILD_POLICY", ""))


def rail_off(environ: Mapping[str, str], *, frozen: bool) -> str:
    """Why no policy acts in this process, "" when one does."""
    explicit = environ.get("TUNEBUILD_MANIFEST", "")
    return policy.rail_off(frozen=frozen, mode=mode(environ), explicit_manifest=explicit)


def policy_lines(
    manifest: Manifest,
    apps: Iterable[App],
    states: Mapping[str, tuple[policy.ScopeState, ...]],
    environ: Mapping[str, str],
    *,
    frozen: bool,
) -> tuple[str, ...]:
    """What a build of these apps must say, each line once; nothing at verbosity silent.

    :raises Refused: for an untuned scope of an app whose policy forbids it.
    """
    off = rail_off(environ, frozen=frozen)
    explicit = environ.get("TUNEBUILD_MANIFEST", "")
    lines: dict[str, None] = {}
    for app in apps:
        asked = policy.effective(manifest, app, environ.get("TUNEBUILD_POLICY", ""))
        due = policy.at_build(app, asked, states[app.name], off=off, explicit_manifest=explicit)
        lines |= dict.fromkeys(due.lines)
    return () if environ.get("TUNEBUILD_VERBOSITY") == "silent" else tuple(lines)

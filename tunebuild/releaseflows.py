"""The straight line of a release: mint or inherit, gate, build without a rail, bundle; or nothing at all."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tunebuild import (
    building,
    children,
    codegen,
    emit,
    flows,
    gates,
    generate,
    policy,
    rail,
    release,
    resolve,
)
from tunebuild.document import Document
from tunebuild.errors import Refused, UsageError, WorkFailed
from tunebuild.generate import Generated
from tunebuild.model import REFERENCE, App, Stamps
from tunebuild.policy import ScopeState
from tunebuild.release import Check, ScopePlan

Say = Callable[[str], None]
DIST = "dist"


@dataclass(frozen=True, slots=True)
class Released:
    """A bundle that was written. ``plans``: what was done for each scope."""

    app: str
    folder: Path
    files: tuple[str, ...]
    plans: tuple[ScopePlan, ...]
    checks: tuple[Check, ...]
    provenance: str


def make(
    root: Path, name: str, *, quick: bool, output: str, environ: Mapping[str, str] = os.environ, say: Say
) -> Released:
    """Release one app.

    Where it fails nothing ships, and an older bundle stays as it was.

    :raises Refused: with the tuner's exit code 3, or when a check fails.
    :raises WorkFailed: when a tuner, the build or the gate's own run fails.
    """
    generated = generate.generate(root, environ=environ)
    app = generated.app(name)
    _must_be_plain(generated, environ)
    target = Path(output).absolute() if output else generated.root / DIST / app.name
    _must_be_ours(target, app)
    _must_be_writable(target)
    plans = _plans(generated, app, quick)
    for plan in plans:
        say(f"tunebuild: release: scope {plan.scope}: {plan.action}, {plan.why}")
    _mint(generated, app, plans, environ)
    generated = generate.generate(root, environ=environ)
    stamps = building.status_of(generated, app).stamps
    checks = _checks(generated, app, stamps, plans, say)
    for check in checks:
        say(f"tunebuild: release: {check.line}")
    if not release.may_ship(checks):
        bad = [check for check in checks if check.word == "failed"]
        raise Refused(
            f"{app.name} is not released: " + "; ".join(f"{check.name}: {check.why}" for check in bad),
            fix="; ".join(check.fix for check in bad),
        )
    files: list[str] = []

    def ship(built: Generated) -> None:
        if building.status_of(built, app).stamps != stamps:
            raise WorkFailed(
                f"the winners of {app.name} changed while it was released", fix="release it again"
            )
        files.extend(_ship(built, app, target))

    try:
        building.build(root, "normal", app=app.name, released=True, then=ship, say=say)
    finally:
        # The tree keeps its rail. What ships was decided above: no policy of the tree's is asked.
        building.build(root, "normal", app=app.name, enforce=False, say=lambda line: None)
    line = release.provenance_line(_document(generated, app))
    return Released(app.name, target, tuple(files), plans, checks, line)


def _must_be_plain(generated: Generated, environ: Mapping[str, str]) -> None:
    if generated.box.forced:
        raise Refused(
            f"features are forced ({', '.join(generated.box.forced)}): what is stamped now may not run here",
            fix="unset TUNEBUILD_FORCE_FEATURES",
        )
    if environ.get("TUNEBUILD_POLICY") == "reference":
        raise UsageError(
            "a release stamps winners", where="TUNEBUILD_POLICY=reference", fix="unset it, or build --frozen"
        )


def _must_be_ours(target: Path, app: App) -> None:
    """Only an empty folder or an earlier bundle is replaced."""
    if target.exists() and not target.is_dir():
        raise UsageError(f"{target} is no folder", fix="name an empty folder, or none, with -o")
    if target.exists() and not (target / f"{app.name}.tune.json").exists() and any(target.iterdir()):
        raise UsageError(f"{target} holds something else", fix="name an empty folder, or none, with -o")


def _must_be_writable(target: Path) -> None:
    """Made and taken away again where the bundle will be laid: no mint may run for one that cannot be. Rights alone do
    not tell, as on a file system that is read only, or /proc."""
    above = next(folder for folder in target.parents if folder.exists())
    try:
        with tempfile.TemporaryDirectory(prefix=f".{target.name}.", suffix=".tmp", dir=above):
            return
    except OSError as error:
        raise UsageError(
            f"{target} cannot be written: {error.strerror}", fix="name a folder elsewhere with -o"
        ) from None


def _document(generated: Generated, app: App) -> Document | None:
    found = generated.records[app.name].found
    return found if isinstance(found, Document) else None


def _plans(generated: Generated, app: App, quick: bool) -> tuple[ScopePlan, ...]:
    document = _document(generated, app)
    return tuple(
        release.plan_scope(state, document, policy.demand(generated.manifest, state.scope).keys, quick)
        for state in generated.states[app.name]
    )


def _mint(generated: Generated, app: App, plans: tuple[ScopePlan, ...], environ: Mapping[str, str]) -> None:
    """Run the tuner of every scope that must be measured: what it refuses or fails, the release does."""
    minted = {plan.scope for plan in plans if plan.action == "mint"}
    if not minted:
        return
    command = [*children.TOOL, "-C", str(generated.root), "mint", "--app", app.name]
    if len(minted) < len(plans):
        scopes = [scope for scope in generated.manifest.scopes if scope.name in minted]
        keys = [key for scope in scopes for key in policy.demand(generated.manifest, scope).keys]
        command += ["--only", ",".join(f"={key}" for key in keys)]
    code = rail.relayed(command, rail.tuner_environment(environ))
    if code == Refused.exit_code:
        raise Refused(f"the mint of {app.name} refused: nothing is released", fix="see its words above")
    if code:
        raise WorkFailed(
            f"the mint of {app.name} exited {code}: nothing is released", fix="see its words above"
        )


def _checks(
    generated: Generated, app: App, stamps: Stamps, plans: tuple[ScopePlan, ...], say: Say
) -> tuple[Check, ...]:
    states: Mapping[str, ScopeState] = {state.scope.name: state for state in generated.states[app.name]}
    cells = tuple((s.family, s.suffix) for s in stamps.seats if s.suffix != REFERENCE)
    return (
        *(release.scope_check(states[plan.scope], plan) for plan in plans),
        release.stamp_check(stamps),
        release.hand_check(generated.manifest, _document(generated, app), stamps, states.values()),
        release.gate_check(cells, _rejected(generated, stamps, cells, say)),
        release.noise_check(_document(generated, app)),
    )


def _rejected(
    generated: Generated, stamps: Stamps, cells: tuple[tuple[str, str], ...], say: Say
) -> dict[tuple[str, str], str]:
    """Gate the stamped rows that no gate on this box has seen; those that did not pass, with the reason."""
    unseen = gates.marks(generated.tree, stamps)
    if not unseen:
        return {}
    reports = flows.test(generated.root, sorted({family for family, _ in unseen}), say=say)
    passed = {(report.family, suffix) for report in reports for suffix in report.passed}
    words = {
        (report.family, row.suffix): f"{row.word}{f': {row.why}' if row.why else ''}"
        for report in reports
        for row in report.rows
    }
    return {cell: words.get(cell, "it was not judged") for cell in unseen if cell not in passed}


def _ship(generated: Generated, app: App, target: Path) -> tuple[str, ...]:
    """Lay the bundle beside its place, then let both change places: whole or not at all."""
    families = resolve.app_families(generated.manifest, app)
    modules = {family.module for family in families}
    constants = tuple(
        codegen.constants_header(module.name)
        for module in generated.manifest.modules
        if module.constants and module.name in modules
    )
    scopes = [scope for scope in generated.manifest.scopes if scope.name in app.scopes]
    version = next((scope.version for scope in scopes if scope.version), "0")
    layout = release.bundle(app, release.public_headers(app, constants), version)
    target.parent.mkdir(parents=True, exist_ok=True)
    emit.sweep_temporaries(target.parent, re.escape(target.name))
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent) as scratch:
        folder = Path(scratch) / "new"
        for path, text in layout.texts.items():
            _parent(folder / path).write_text(text)
        for path, source in layout.copies.items():
            shutil.copy(generated.root / source, _parent(folder / path))
        files = [*layout.texts, *layout.copies]
        sidecar = generated.records[app.name].path
        if sidecar.exists():
            shutil.copyfile(sidecar, folder / layout.sidecar)
            newest = max((folder / path).stat().st_mtime for path in files) + release.SIDECAR_NEWER_S
            os.utime(folder / layout.sidecar, (newest, newest))
            files.append(layout.sidecar)
        emit.replace_folder(folder, target)
    return tuple(sorted(files))


def _parent(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path

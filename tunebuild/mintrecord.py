"""What follows a race: the one write, the archive, the comparison with the last mint, scopes that bring a tuner
of their own, and the normal build."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tunebuild import (
    __version__,
    building,
    children,
    confirmflows,
    harness,
    history,
    manifest,
    mintdiff,
    noise,
    policy,
    racetable,
    refusals,
    resolve,
    sidecar,
)
from tunebuild.document import Document, Json, render
from tunebuild.errors import REFUSED, Refused, TooLoud, WorkFailed
from tunebuild.generate import Generated
from tunebuild.measure import PROTOCOL_VERSION
from tunebuild.mint import Asked, Minted, Progress, asked_of, mint, require_named, word
from tunebuild.model import REFERENCE, App, Scope
from tunebuild.upsert import Change
from tunebuild.verdict import Found, versions_of


@dataclass(frozen=True, slots=True)
class Finished:
    """A mint that was written. ``diff``: its report against the sidecar before, line by line."""

    minted: Minted
    status: building.Status
    path: Path
    diff: tuple[str, ...]
    archived: Path | None
    failed_tuners: tuple[tuple[str, int], ...] = ()  # (scope, exit code)


def run(root: Path, asked: Asked, progress: Progress, say: building.Say) -> Finished:
    """Mint, write, archive, rebuild. Starts and mints of one tree do not race at the same time.

    :raises UsageError: for a filter that names no seat.
    :raises Refused: with nothing changed but a stub in the history.
    """
    require_named(manifest.read(root), asked.only)
    with children.tuning(root, "another race runs here, waiting for it"):
        return _run(root, asked, progress, say)


def _run(root: Path, asked: Asked, progress: Progress, say: building.Say) -> Finished:
    try:
        minted = _confirmed(mint(root, asked, progress, say), say)
    except Refused as refused:
        _archive_refusal(root, asked, refused)
        raise
    _settle(minted, progress)
    read = minted.generated.records[minted.app.name]
    history.backup(read.path)
    written = _save(minted) if minted.raced else None
    codes = tuple(
        (scope.name, _run_tuner(minted.generated, minted.app, scope, only, asked, say))
        for scope, only in _custom_tuners(minted, asked)
    )
    failed = tuple((scope, code) for scope, code in codes if code)
    found = sidecar.read(read.path)
    diff: tuple[str, ...] = ()
    if isinstance(read.found, Document) and isinstance(found, Document):
        diff = tuple(mintdiff.lines(mintdiff.diff(read.found, found)))
    own = None if codes else written  # tuners of scopes have written since
    archived = _archive(read.path, minted.generated.box.identity, failed, asked, own)
    _note_refusals(minted, _left_open(minted, failed, found), asked)
    built = building.build(root, "normal", enforce=False, say=say)
    status = building.status_of(built.generated, built.generated.app(minted.app.name))
    return Finished(minted, status, read.path, diff, archived, failed)


def _confirmed(minted: Minted, say: building.Say) -> Minted:
    """The mint held to the app's own measure. Where that fails the race is lost: starts wait with the next."""
    try:
        return confirmflows.confirmed(minted, say)
    except WorkFailed as failed:
        why = failed.what.splitlines()[0]
        refusals.keep(minted.generated.root, minted.app.name, refusals.FAILED, why)
        raise


def _settle(minted: Minted, progress: Progress) -> None:
    """Take back what events said of winners that are not written."""
    for one in minted.raced:
        winner = one.outcome.winner_suffix
        if minted.told.get(one.key, winner) != winner:
            progress.settle(one.key, winner, word(one.outcome))


def _archive(
    path: Path, identity: str, failed: tuple[tuple[str, int], ...], asked: Asked, written: bytes | None
) -> Path | None:
    """Keep what was written, or a stub that says which tuner failed."""
    if not failed:
        return history.archive(path, identity, written=written, environ=asked.environ)
    note = "; ".join(f"the tuner of scope {scope} ended with {code}" for scope, code in failed)
    return history.archive_failed(path, identity, verdict="failed", note=note, environ=asked.environ)


def _left_open(
    minted: Minted, failed: tuple[tuple[str, int], ...], found: Found
) -> tuple[tuple[str, int], ...]:
    """Those of the tuners that failed whose scope is incomplete: what a tuner records decides, not its exit code."""
    now = replace(minted.generated.records[minted.app.name], found=found)
    scopes = {scope.name: scope for scope in minted.generated.manifest.scopes}
    return tuple(
        (name, code)
        for name, code in failed
        if not now.verdict(policy.demand(minted.generated.manifest, scopes[name])).complete
    )


def _note_refusals(minted: Minted, failed: tuple[tuple[str, int], ...], asked: Asked) -> None:
    """Starts try no mint for a while where a tuner of the app refused or failed, unless it was asked to stop."""
    refusing = [scope for scope, code in failed if code == REFUSED]
    failing = [f"the tuner of {scope} ended with {code}" for scope, code in failed if code != REFUSED]
    control = asked.environ.get("TUNEBUILD_CONTROL", "")
    root, app = minted.generated.root, minted.app.name
    if not failed or (control and os.path.exists(control)):
        refusals.forget(root, app)
        return
    refused = [f"the tuner of {' and of '.join(refusing)} refused to measure"] if refusing else []
    what = refusals.FAILED if failing else refusals.REFUSED
    refusals.keep(root, app, what, "; ".join((*failing, *refused)))


def _archive_refusal(root: Path, asked: Asked, refused: Refused) -> None:
    from tunebuild import generate

    generated = generate.generate(root)
    app = generated.app(asked.app)
    if isinstance(refused, TooLoud):
        refusals.keep(generated.root, app.name, refusals.REFUSED, refused.what)
    read = generated.records[app.name]
    history.archive_failed(
        read.path, generated.box.identity, verdict="refused", note=refused.what, environ=asked.environ
    )


def _save(minted: Minted) -> bytes:
    generated, read = minted.generated, minted.generated.records[minted.app.name]
    kernels: dict[str, str] = {}
    tables: dict[str, Mapping[str, Json]] = {}
    gate_rejections = {report.family: report.rejected for report in minted.reports}
    twins = {report.family: report.twins for report in minted.reports}
    for one in minted.raced:
        kernels[one.key] = one.outcome.winner_suffix or REFERENCE
        entry = racetable.table(one.outcome, minted.validations.get(one.key), minted.seed)
        if gated := gate_rejections.get(one.family):
            known = entry.get("rejections")
            entry["rejections"] = {
                **{each.suffix: f"{each.stage}: {each.why.splitlines()[0][:300]}" for each in gated},
                **(known if isinstance(known, dict) else {}),
            }
            names = [*(each.suffix for each in gated), *(each.suffix for each in one.outcome.rejected)]
            entry["rejected"] = "; ".join(dict.fromkeys(names))
        if same := twins.get(one.family):
            entry["same_code"] = dict(same)
        if one.family in minted.confirmations:
            entry["confirm"] = dict(minted.confirmations[one.family])
        tables[one.key] = entry
    scopes = [s for s in resolve.app_scopes(generated.manifest, minted.app) if s.tuner == "builtin"]
    demanded = {key for scope in scopes for key in policy.demand(generated.manifest, scope).keys}
    change = Change(
        kernels=kernels,
        race=tables,
        built={key: generated.built[key] for key in kernels if key in generated.built},
        notes={**_notes(minted), **versions_of(kernels, read.pins)},
        scope_keys=tuple(sorted(demanded)),
        full=demanded <= set(kernels),
    )
    app = minted.app
    merged = sidecar.save(
        read.path,
        change,
        box=generated.box,
        built_now=generated.built,
        binary=str(generated.root / f"build/normal/{app.name}"),
        binary_s=read.binary_s,
        pins=read.pins,
    )
    return render(merged.document)


def _notes(minted: Minted) -> dict[str, str | int | float]:
    demoted = [one.key for one in minted.raced if one.outcome.demoted]
    drifts = [abs(found.drift_pct) for found in minted.validations.values()]
    return {
        **noise.stamped(minted.readings, minted.measure, minted.word),
        "mode": "normal",
        "engine_sha": _commit(minted.generated.root),
        "tunebuild_version": __version__,
        "protocol": str(PROTOCOL_VERSION),
        "validation": "ok",
        "validation_demoted": str(len(demoted)),
        "validation_max_drift_pct": f"{max(drifts, default=0.0):.2f}",
        "mint_total_ms": str(minted.wall_ms),
        "seed": str(minted.seed),
    }


def _commit(root: Path) -> str:
    """The project's own commit, short, with `-dirty` where files that it tracks differ from it; sidecars are no part of
    what was measured. "unknown" outside a repository."""
    head = _git(root, "rev-parse", "--short", "HEAD")
    changed = head and _git(root, "status", "--porcelain", "--untracked-files=no", "--", ".", _NO_SIDECAR)
    return f"{head}-dirty" if changed else head or "unknown"


_NO_SIDECAR = f":(exclude,glob)**/*{sidecar.SUFFIX}*"


def _git(root: Path, *words: str) -> str:
    """What git says in this folder; "" where it is absent, slow or says no."""
    try:
        done = subprocess.run(
            ["git", "--no-optional-locks", "-C", str(root), *words],
            capture_output=True,
            text=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _custom_tuners(minted: Minted, asked: Asked) -> Iterator[tuple[Scope, str]]:
    """The scopes whose own tuners are due, with the filter for each. One of whose seats none is asked is left alone."""
    for scope in resolve.app_scopes(minted.generated.manifest, minted.app):
        if scope.tuner in ("builtin", "none"):
            continue
        keys = asked_of(minted.generated, minted.app, scope, asked)
        if keys or not (asked.only or asked.stale):
            exact = ",".join(f"={key}" for key in keys)
            yield scope, exact if asked.stale else asked.only


def _run_tuner(
    generated: Generated, app: App, scope: Scope, only: str, asked: Asked, say: building.Say
) -> int:
    """Run a scope's own harness; what it says is relayed as it comes. Its record decides, not its word."""
    path = generated.records[app.name].path
    environ = {
        **asked.environ,
        **children.ours(),
        "TUNEBUILD_MODE": "tune",
        "TUNEBUILD_MANIFEST": str(path),
        harness.PROJECT: str(generated.root),
    }
    if only:
        environ["TUNEBUILD_ONLY"] = only
    say(f"tunebuild: tuning scope {scope.name} with {os.path.basename(scope.tuner)}")
    command = [sys.executable, scope.tuner]
    if environ.get("TUNEBUILD_VERBOSITY") == "verbose":
        say(f"tunebuild: {shlex.join(command)}")
    try:
        with subprocess.Popen(
            command, cwd=scope.root or generated.root, env=environ, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        ) as process:  # fmt: skip
            assert process.stdout is not None
            try:
                for line in process.stdout:
                    say(line.rstrip("\n"))
            except BaseException:
                children.end(process)
                raise
    except OSError as error:
        raise WorkFailed(f"the tuner of scope {scope.name} does not start: {error.strerror}") from error
    if process.returncode:
        say(f"tunebuild: the tuner of scope {scope.name} ended with {process.returncode}")
    return process.returncode

"""The end-to-end race of an app (`[app.X.confirm]`): arms built, proved, run in turns, and the losers demoted.

Each arm is the app stamped from a sidecar of its own, named by TUNEBUILD_MANIFEST, which also keeps the rail off
in it. An arm proves from its own status what it ran: a number of a wrong arm is worse than none.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tunebuild import children, confirm, graph, rail, sidecar
from tunebuild.document import Json
from tunebuild.errors import WorkFailed
from tunebuild.heat import Outcome
from tunebuild.mint import Minted
from tunebuild.model import REFERENCE, Confirm
from tunebuild.race import demoted
from tunebuild.upsert import Change
from tunebuild.verdict import versions_of

Say = Callable[[str], None]
FOLDER = "build/confirm"
TIMEOUT_S = 3600
STAMPS = "TUNEBUILD_STAMPS"
"""Where an executable's guard appends what it was stamped with: app, seat, row and source, tab-separated."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One stamping of the app. ``kernels``: the winner of every seat and companion in it."""

    name: str
    folder: Path
    kernels: Mapping[str, str]


def confirmed(minted: Minted, say: Say) -> Minted:
    """The mint with those families demoted whose winners do not win in the app as well.

    :raises WorkFailed: when an arm cannot be built, does not run what it should, or the fallback arm fails.
    """
    app = minted.app
    differing = tuple(dict.fromkeys(one.family for one in minted.raced if _differs(one.outcome)))
    if app.confirm is None or not differing:
        return minted
    say(f"tunebuild: confirming {', '.join(differing)} end to end: {shlex.join(app.confirm.command)}")
    arms = [_built(minted, arm) for arm in _arms(minted, differing)]
    measured, crashed = _measure(minted, arms, app.confirm)
    found = {one.family: one for one in confirm.verdicts(app.confirm, measured, crashed)}
    for one in found.values():
        say(f"tunebuild: {one.family}: {one.why}")
    return replace(
        minted,
        raced=tuple(
            one
            if one.family not in found or found[one.family].kept
            else replace(one, outcome=demoted(one.outcome, "confirm"))
            for one in minted.raced
        ),
        confirmations={family: _entry(one) for family, one in found.items()},
    )


def _measure(minted: Minted, arms: list[Arm], asked: Confirm) -> tuple[dict[str, list[float]], str]:
    """Every arm's metrics, in turns; or why the app failed with the winners, which ends it at once."""
    measured: dict[str, list[float]] = {arm.name: [] for arm in arms}
    by_name = {arm.name: arm for arm in arms}
    for number in range(confirm.ROUNDS):
        for name in confirm.order(tuple(measured), number):
            answer = _run(minted, by_name[name], asked)
            if isinstance(answer, float):
                measured[name].append(answer)
            elif name == confirm.WINNERS:
                return measured, answer
            else:
                raise WorkFailed(f"{minted.app.name} fails with the fallback rows of {name}: {answer}")
    return measured, ""


def _differs(outcome: Outcome) -> bool:
    return outcome.winner != outcome.control


def _entry(one: confirm.Confirmed) -> dict[str, Json]:
    return {"kept": one.kept, "gain_pct": round(one.gain_pct, 3), "why": one.why, "rounds": confirm.ROUNDS}


# --- the arms -------------------------------------------------------------------------------------


def _arms(minted: Minted, differing: tuple[str, ...]) -> tuple[Arm, ...]:
    """All winners, and for each family all winners but its own. A family falls back as a whole: its seats and
    companions share a layout."""
    root, held = minted.generated.root, minted.generated.records[minted.app.name].serving
    winners = held | {one.key: one.outcome.winner_suffix or REFERENCE for one in minted.raced}
    arms = [Arm(confirm.WINNERS, root / FOLDER / confirm.WINNERS, winners)]
    for family in differing:
        back = {
            one.key: one.outcome.control_suffix or REFERENCE for one in minted.raced if one.family == family
        }
        arms.append(Arm(family, root / FOLDER / f"without_{family}", winners | back))
    return tuple(arms)


def _built(minted: Minted, arm: Arm) -> Arm:
    """Stamp and build an arm, and take its artifacts aside."""
    generated, app = minted.generated, minted.app
    arm.folder.mkdir(parents=True, exist_ok=True)
    built = {key: generated.built[key] for key in arm.kernels if key in generated.built}
    path = _sidecar(arm)
    path.unlink(missing_ok=True)
    versions = versions_of(arm.kernels, generated.records[app.name].pins)
    change = Change(kernels=arm.kernels, built=built, notes=versions)
    sidecar.save(path, change, box=generated.box, built_now=generated.built)
    command = [*children.TOOL, "-C", str(generated.root), "build", "--app", app.name]
    done = subprocess.run(
        command, env=_environ(arm), stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if done.returncode:
        raise WorkFailed(f"arm {arm.name} of the confirm does not build\n{done.stdout}{done.stderr}".rstrip())
    for output in graph.app_outputs(app):
        shutil.copy(generated.root / output, arm.folder / Path(output).name)
    return arm


def _sidecar(arm: Arm) -> Path:
    return arm.folder / "arm.tune.json"


def _environ(arm: Arm) -> dict[str, str]:
    stamps = {"TUNEBUILD_MANIFEST": str(_sidecar(arm)), STAMPS: str(arm.folder / "stamps")}
    return {**rail.tuner_environment(os.environ), **stamps, "TUNEBUILD_VERBOSITY": "silent"}


def _run(minted: Minted, arm: Arm, asked: Confirm) -> float | str:
    """Put an arm in the app's place and run the command: its metric, or why there is none."""
    root, app = minted.generated.root, minted.app
    for output in graph.app_outputs(app):
        fresh = root / f"{output}.arm"
        shutil.copy(arm.folder / Path(output).name, fresh)
        fresh.replace(root / output)
    proof = arm.folder / "stamps"
    proof.unlink(missing_ok=True)
    try:
        done = subprocess.run(
            asked.command,
            cwd=root,
            env=_environ(arm),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode:
        return f"exit code {done.returncode}: {done.stdout[-500:].strip()}"
    _prove(minted, arm, proof)
    found = confirm.metric(asked, done.stdout)
    return f"no number for {asked.metric!r} in its output" if found is None else found


def _prove(minted: Minted, arm: Arm, proof: Path) -> None:
    """:raises WorkFailed: when the arm ran other rows than its own."""
    app = minted.app
    if app.kind != "exe":  # a library has no guard; what is in place says itself what it is
        library = minted.generated.root / graph.app_outputs(app)[0]
        code = (
            f"import tunebuild.consumer as c; [print({app.name!r}, r.family, r.suffix, r.source, sep='\\t') "
        )
        code += f"for r in c.load({str(library)!r}).status()]"
        done = subprocess.run(
            [sys.executable, "-P", "-W", "ignore", "-c", code],
            env=_environ(arm),
            capture_output=True,
            text=True,
        )
        text = done.stdout
    else:
        text = proof.read_text() if proof.exists() else ""
    rows = [line.split("\t") for line in text.splitlines()]
    ran = {row[1]: row[2] or REFERENCE for row in rows if len(row) == 4 and row[0] == app.name}
    seats = _seats(minted)
    wrong = {
        key: ran.get(key, "nothing")
        for key, suffix in arm.kernels.items()
        if key in seats and ran.get(key) != suffix
    }
    if wrong:
        told = ", ".join(f"{key} ran {row}, not {arm.kernels[key]}" for key, row in wrong.items())
        raise WorkFailed(f"arm {arm.name} of the confirm did not run its own rows: {told}")


def _seats(minted: Minted) -> frozenset[str]:
    """Status has seats, not companions."""
    return frozenset(stamp.key for stamp in minted.generated.stamps[minted.app.name].seats)

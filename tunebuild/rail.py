"""The rail: one start of an app, from its scopes' verdicts to an executable that serves tuned kernels.

`prepare` is what both doors share: `tunebuild run`, and the guard of an executable, which calls the tool with
`--prepare`. `policy` decides what each scope is due; here it is done: a profile adopted, a resolver asked, a
tuner run in a process of its own. A tuner's exit code is told, completeness decides.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tunebuild import (
    artifact,
    building,
    children,
    generate,
    manifest,
    policy,
    record,
    refusals,
    sidecar,
    verdict,
)
from tunebuild.document import Built
from tunebuild.errors import UsageError, WorkFailed
from tunebuild.generate import Generated
from tunebuild.model import App, Manifest, Policy
from tunebuild.policy import Due, ScopeState
from tunebuild.profiles import Adoption, partial_message
from tunebuild.upsert import Change

Say = Callable[[str], None]
_NOT_FOR_TUNERS = ("TUNEBUILD_POLICY", "TUNEBUILD_RELAUNCH", "TUNEBUILD_MODE", "TUNEBUILD_ONLY")


@dataclass(frozen=True, slots=True)
class Prepared:
    """What came of a start. ``tuned``: scopes that became complete; ``left``: those that are still untuned.
    ``stop``: the app does not run in this start."""

    app: App
    tuned: tuple[str, ...]
    left: tuple[str, ...]
    stop: bool


def prepare(
    root: Path,
    name: str,
    *,
    forced: bool = False,
    only: str = "",
    suppressed: str = "",
    environ: Mapping[str, str] = os.environ,
    say: Say,
) -> Prepared:
    """Do what the policy asks of every scope of an app, then build the app. ``suppressed``: see `policy.Start`.

    :raises Refused: where the policy forbids an untuned scope. :raises WorkFailed: when the build fails.
    """
    generated = generate.generate(root, environ=environ)
    app = generated.app(name)
    tuned: tuple[str, ...] = ()
    stop = False
    if not artifact.rail_off(environ, frozen=False):
        wanted = only or environ.get("TUNEBUILD_ONLY", "")
        start = replace(_start(generated, app, forced or bool(only), wanted, environ), suppressed=suppressed)
        if start.forced and not app.scopes:
            say(f"tunebuild: {app.name} declares no scope: nothing to tune")
        tuned, stop = _serve(generated, app, start, environ, say)
    building.build(root, "normal", app=app.name, say=say)
    states = (_state(generated, app, scope, environ) for scope in app.scopes)
    left = tuple(state.scope.name for state in states if not state.answered)
    return Prepared(app, tuned, left, stop)


def _serve(
    generated: Generated, app: App, start: policy.Start, environ: Mapping[str, str], say: Say
) -> tuple[tuple[str, ...], bool]:
    """Do what each scope is due: the scopes that became complete, and whether the app must not run.

    What must be raced is raced in one mint at the end: one quiet box, one write.
    """
    tuned: list[str] = []
    racing: list[tuple[ScopeState, Due]] = []
    said: set[str] = set()  # one line may speak of several scopes
    stop = False
    for scope in app.scopes:
        state = _state(generated, app, scope, environ)
        due = policy.at_start(state, start)
        if "adopt" in due.actions and not _adopt(generated, state, say):
            state = replace(state, adoption=Adoption("none", scope))
            due = policy.at_start(state, start)
        if "resolve" in due.actions:
            _resolve(generated, state, say)
        if "resolve" in due.actions and _state(generated, app, scope, environ).verdict.complete:
            tuned.append(scope)
        else:
            for line in due.lines:
                if line not in said:
                    say(line)
                said.add(line)
            if "tune" in due.actions:
                racing.append((state, due))
        if due.stop:
            stop = True
            break  # one scope a start: the restart begins with the next
    tuned += _race(generated, app, racing, start, environ, say)
    return tuple(tuned), stop


def _race(
    generated: Generated,
    app: App,
    racing: list[tuple[ScopeState, Due]],
    start: policy.Start,
    environ: Mapping[str, str],
    say: Say,
) -> list[str]:
    """Race the scopes that are due; the names of those that are complete now."""
    racing = _named(generated.manifest, racing, start, say)
    if not racing:
        return []
    silent = environ.get("TUNEBUILD_VERBOSITY") == "silent"
    words = "" if silent else "another race runs here, waiting for it"
    with children.tuning(generated.root, words):
        done, left = _still_open(generated, app, racing, start, environ)
        if not left:
            return done
        if not start.forced and (waiting := _waiting(generated, app, start.policy, environ)):
            say(waiting)  # the other start's mint came to nothing, and so would this one's
            return done
        for state, _ in left:
            say(policy.tuning_line(state, start.policy))
        code = _tune(generated, app, left, environ, say)
    for state, _ in left:
        outcome = policy.after_tuning(_state(generated, app, state.scope.name, environ), code)
        if outcome.line:
            say(outcome.line)
        if outcome.tuned:
            done.append(state.scope.name)
    if waiting := _waiting(generated, app, start.policy, environ):
        say(waiting)
    return done


def _named(
    project: Manifest, racing: list[tuple[ScopeState, Due]], start: policy.Start, say: Say
) -> list[tuple[ScopeState, Due]]:
    """Those of which a seat is due and named by the start's filter, with the names of such seats; where it names none
    at all, that is said."""
    due_keys = {
        state.scope.name: [
            key
            for key in policy.demand(project, state.scope).keys
            if start.forced or policy.selected(due.only, key)
        ]
        for state, due in racing
    }
    named: list[tuple[ScopeState, Due]] = []
    for state, due in racing:
        keys = [key for key in due_keys[state.scope.name] if policy.selected(start.only, key)]
        if keys:
            named.append((state, replace(due, only=",".join(f"={key}" for key in keys))))
    if racing and not named:
        known = ", ".join(key for keys in due_keys.values() for key in keys)
        say(
            f"tunebuild: no seat's name holds a token of {start.only!r}: nothing to race; the seats are: {known}"
        )
    return named


def _still_open(
    generated: Generated,
    app: App,
    racing: list[tuple[ScopeState, Due]],
    start: policy.Start,
    environ: Mapping[str, str],
) -> tuple[list[str], list[tuple[ScopeState, Due]]]:
    """What another start has completed meanwhile, by name, and what is left to race. Asked for, all is raced."""
    now = {state.scope.name: _state(generated, app, state.scope.name, environ) for state, _ in racing}
    done = [name for name, state in now.items() if state.verdict.complete and not start.forced]
    return done, [(state, due) for state, due in racing if state.scope.name not in done]


def _start(
    generated: Generated, app: App, forced: bool, only: str, environ: Mapping[str, str]
) -> policy.Start:
    asked = policy.effective(generated.manifest, app, environ.get("TUNEBUILD_POLICY", ""))
    # A library has no policy of its own: who prepares one asks for it to be tuned.
    chosen = "auto" if asked.said_by == "library" else asked.policy
    depth = policy.relaunch_depth(environ.get("TUNEBUILD_RELAUNCH", ""), app.name)
    waiting = _waiting(generated, app, chosen, environ)
    return policy.Start(chosen, forced, only, depth, waiting=waiting)


def _waiting(generated: Generated, app: App, chosen: Policy, environ: Mapping[str, str]) -> str:
    """What a start says where the last mint was refused or failed a while ago; "" where another may be tried. Who loads
    a library asks for a mint by name, and who overrides the noise has no quiet to wait for."""
    note = refusals.read(generated.root, app.name)
    if note is None or app.kind != "exe":
        return ""
    if environ.get("TUNEBUILD_NOISE_OVERRIDE") == "1" and note.is_refusal:
        return ""
    return policy.waiting_line(app.name, chosen, note.until, note.what)


def _state(generated: Generated, app: App, scope: str, environ: Mapping[str, str]) -> ScopeState:
    """The scope as it stands now: an earlier scope's tuner wrote to the same sidecar."""
    manifest = generated.manifest
    read = record.read(manifest, app, generated.box, generated.built, generated.here, environ)
    chosen = record.profiles_of(manifest, app, generated.box)
    states = artifact.scope_states(manifest, app, read, chosen, generated.here)
    return next(state for state in states if state.scope.name == scope)


# --- the actions ----------------------------------------------------------------------------------


def _adopt(generated: Generated, state: ScopeState, say: Say) -> bool:
    """Fill what the sidecar does not hold fresh from the class profile. A failed write is told: nothing is adopted, and
    the scope is due what it is without a profile."""
    adoption = state.adoption
    entries = dict(adoption.entries)
    change = Change(
        kernels=entries,
        built={key: _adopted(generated, adoption, key) for key in entries if key in generated.built},
        notes=dict(adoption.notes),
        scope_keys=policy.demand(generated.manifest, state.scope).keys,
        origin=f"profile:{adoption.cpu_class}",
    )
    try:
        _save(generated, Path(state.sidecar), change)
    except WorkFailed as error:
        say(f"tunebuild: the {adoption.cpu_class} profile was not adopted: {error.what}")
        return False
    say(f"tunebuild: {partial_message(adoption)}")
    return True


def _adopted(generated: Generated, adoption: Adoption, key: str) -> Built:
    """The digests of the tree at hand, and those of what the donor measured."""
    donors = dict(adoption.origin_built)
    return {**generated.built[key], **({"origin_built": dict(donors[key])} if key in donors else {})}


def _save(generated: Generated, path: Path, change: Change) -> None:
    sidecar.save(
        path,
        change,
        box=generated.box,
        built_now=generated.built,
        binary=str(generated.root / record.BINARY_STAMP),
        binary_s=record.binary_stamp_s(generated.root),
        unfit=record.unfit(generated.manifest, generated.here),
        pins=record.pins(generated.manifest),
    )


def _resolve(generated: Generated, state: ScopeState, say: Say) -> None:
    """Ask the scope's resolver for winners; whatever it answers, the sidecar decides."""
    from tunebuild import exchange

    demand = verdict.demand_text(policy.demand(generated.manifest, state.scope))
    stamp_s = record.binary_stamp_s(generated.root)
    name, path = generated.manifest.project.name, Path(state.sidecar)
    unfit = record.unfit(generated.manifest, generated.here)
    here = exchange.Here(
        name, generated.box, path, generated.built, stamp_s, unfit, record.pins(generated.manifest)
    )
    try:
        resolver = exchange.resolver(state.scope, here)
        if resolver is not None:
            resolver(state.scope.name, state.sidecar, demand)
    except (Exception, SystemExit) as error:  # a resolver may be anybody's code: an app starts without it
        why = f"it ended the process with {error}" if isinstance(error, SystemExit) else str(error)
        say(f"tunebuild: the resolver of scope {state.scope.name} failed: {why}")


def _tune(
    generated: Generated,
    app: App,
    racing: list[tuple[ScopeState, Due]],
    environ: Mapping[str, str],
    say: Say,
) -> int:
    """Run the tuners in a process of its own and relay what they say, line by line as it comes."""
    manifest = generated.manifest
    keys = [
        key
        for state, due in racing
        for key in policy.demand(manifest, state.scope).keys
        if policy.selected(due.only, key)
    ]
    command = [*children.TOOL, "-C", str(generated.root), "mint", "--app", app.name]
    scopes = (scope for scope in manifest.scopes if scope.name in app.scopes)
    if len(keys) < sum(len(policy.demand(manifest, scope).keys) for scope in scopes):
        command += ["--only", ",".join(f"={key}" for key in keys)]
    quiet = {"silent": ["--quiet"], "verbose": ["--verbose"]}
    command += quiet.get(environ.get("TUNEBUILD_VERBOSITY", ""), [])
    if environ.get("TUNEBUILD_VERBOSITY") == "verbose":
        say("tunebuild: " + " ".join(command))
    return relayed(command, tuner_environment(environ))


def tuner_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """A tuner gets the user's environment, but no word about policy, filter or relaunch: those were heard."""
    return {name: value for name, value in environ.items() if name not in _NOT_FOR_TUNERS}


def relayed(command: list[str], environ: Mapping[str, str]) -> int:
    """Run a child on our standard error; end it with us. Standard output is the app's."""
    sys.stdout.flush()
    with subprocess.Popen(
        command, env={**environ, **children.ours()}, stdin=subprocess.DEVNULL, stdout=sys.stderr.fileno()
    ) as child:
        try:
            return _shell_code(child.wait())
        except BaseException:
            children.end(child, patience_s=2 * children.PATIENCE_S)  # it ends its own first
            raise


def _shell_code(code: int) -> int:
    return code if code >= 0 else 128 - code


# --- `tunebuild run` ------------------------------------------------------------------------------


def run(
    root: Path,
    name: str,
    arguments: tuple[str, ...],
    *,
    forced: bool = False,
    only: str = "",
    verbosity: policy.Verbosity | None = None,
    say: Say,
) -> int:
    """The rail, then the app in this process's place. Returns only when the app must not run.

    :raises UsageError: when the app is no executable, or which one is meant is not clear.
    """
    environ = dict(os.environ)
    if verbosity:
        environ["TUNEBUILD_VERBOSITY"] = os.environ["TUNEBUILD_VERBOSITY"] = verbosity
    told = quieter(say, environ)
    app = _executable(root, name)
    prepared = prepare(root, app, forced=forced, only=only, environ=environ, say=told)
    if prepared.stop:
        if prepared.tuned:
            print(policy.RESTART_MARKER, file=sys.stderr)
        return policy.RESTART_EXIT
    # The executable's own guard has nothing left to do, and nothing to say twice.
    environ["TUNEBUILD_RELAUNCH"] = policy.relaunch_text(prepared.app.name, 1)
    program = root / "build/normal" / prepared.app.name
    sys.stdout.flush()
    os.execve(program, [str(program), *arguments], environ)


def _executable(root: Path, name: str) -> str:
    """The app to run: the one named, or the only executable."""
    apps = manifest.read(root).apps
    programs = [app.name for app in apps if app.kind == "exe"]
    if name in programs or (not name and len(programs) == 1):
        return name or programs[0]
    known = f"this project's are: {', '.join(programs)}" if programs else "this project has none"
    if not name:
        raise UsageError("which executable?", fix=known)
    if name in (app.name for app in apps):
        load = f"load it from Python: tunebuild.consumer.load({name!r})"
        raise UsageError(f"app {name} is no executable", fix=f"{known}; {load}")
    raise UsageError(f"there is no app {name}", fix=known)


def prepared_code(prepared: Prepared) -> int:
    """The exit code of `run --prepare`: 1 tells the guard that nothing is served by it.

    Where the app stops, it is restarted for each scope: the one of this start decides.
    """
    return int(not prepared.tuned if prepared.stop else bool(prepared.left))


def quieter(say: Say, environ: Mapping[str, str]) -> Say:
    """``say``, or nothing where the environment says silent."""
    return (lambda line: None) if environ.get("TUNEBUILD_VERBOSITY") == "silent" else say

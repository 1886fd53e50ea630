"""What an untuned box may do: the flavours, the gates, and what each scope is due at build and at start.

Nothing here acts. A build asks `at_build` what to say and whether to stop; a start asks `at_start`, scope by
scope, which steps to take in which order, and `after_tuning` what came of them. The C guard of an executable
follows the same order.

Supervisors read two lines, which stay as they are, and exit code 3: `TUNING_SCOPE` when a tuner starts and
`RESTART_MARKER` when the start is over because winners must be applied.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from tunebuild.errors import Refused, UsageError
from tunebuild.model import App, Manifest, Mode, Policy, Scope, Verdict
from tunebuild.profiles import Adoption, demanded_families
from tunebuild.verdict import Demand

TUNING_SCOPE = "tunebuild: tuning scope"
RESTART_MARKER = "tunebuild: restart to apply the winners"
FLAVOURS: tuple[Policy, ...] = get_args(Policy)
RESTART_EXIT = 3

Verbosity = Literal["silent", "normal", "verbose"]


# --- which policy ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Effective:
    """The policy of one app, and who said so. ``announcement``: one line when the environment spoke."""

    policy: Policy
    said_by: Literal["tune.toml", "default", "environment", "library"]
    announcement: str = ""


def _optimisation(flags: Sequence[str]) -> str:
    return next((flag for flag in reversed(flags) if flag.startswith("-O")), "")


def effective(manifest: Manifest, app: App, environment: str) -> Effective:
    """The environment's policy over the declared one over the default, `auto`.

    ``environment``: the value of TUNEBUILD_POLICY. A library has no policy of its own to announce. Winners mean nothing
    at -O0, so an app built so gets `fallback` unless it declares one. Raises `UsageError` for an unknown
    flavour and for a declared `reference`, which only the environment may ask for.
    """
    require_flavour(environment)
    if app.policy == "reference" and environment != "reference":
        raise UsageError(
            f"app {app.name} declares policy `reference`, which only TUNEBUILD_POLICY may say",
            where="tune.toml",
            fix=f'write policy = "fallback" in [app.{app.name}], or set TUNEBUILD_POLICY=reference for a run',
        )
    declared = app.policy or _default(manifest, app)
    if environment:
        said = f"tunebuild: policy {environment} from TUNEBUILD_POLICY ({app.name} would have {declared})"
        return Effective(_flavour(environment), "environment", said if app.kind == "exe" else "")
    if app.kind != "exe":
        return Effective("fallback", "library")
    return Effective(declared, "tune.toml" if app.policy else "default")


def require_flavour(environment: str) -> None:
    """:raises UsageError: where TUNEBUILD_POLICY, if it is set, names no policy."""
    if environment and environment not in FLAVOURS:
        raise UsageError(
            f"{environment!r} is no policy",
            where="TUNEBUILD_POLICY",
            fix=f"set one of {', '.join(FLAVOURS)}, or unset it",
        )


def _flavour(word: str) -> Policy:
    return next(flavour for flavour in FLAVOURS if flavour == word)


def _default(manifest: Manifest, app: App) -> Policy:
    if app.kind != "exe":
        return "fallback"
    flags = (*manifest.project.cflags, *app.cflags)
    return "fallback" if _optimisation(flags) == "-O0" else "auto"


def rail_off(*, frozen: bool, mode: Mode, explicit_manifest: str) -> str:
    """Why no policy acts at all in this process, "" when one does. Recursion ends here: tuners set both."""
    if frozen:
        return "frozen"
    if mode != "normal":
        return f"mode {mode}"
    return "TUNEBUILD_MANIFEST is set" if explicit_manifest else ""


# --- the scopes -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ScopeState:
    """One scope of one app: what its sidecar says, and what a profile answers where it says nothing.

    ``passed_over``: the profiles on its ladder that are there and do not serve, a sentence each.
    """

    scope: Scope
    verdict: Verdict
    adoption: Adoption
    sidecar: str
    command: str  # what a person types to mint it; "" where it has no tuner
    passed_over: tuple[str, ...] = ()

    @property
    def covered(self) -> bool:
        return not self.verdict.complete and self.adoption.kind == "covered"

    @property
    def answered(self) -> bool:
        """Measured here, or answered by a class profile: every flavour is satisfied."""
        return self.verdict.complete or self.covered

    @property
    def answerable(self) -> bool:
        """Somebody may still answer for it without a mint: a profile in part, or a resolver."""
        return not self.answered and (self.adoption.kind == "partial" or bool(self.scope.resolver))

    @property
    def open_only(self) -> str:
        """The race filter of what the sidecar does not hold fresh, by exact name; "" where nothing in it counts."""
        if self.verdict.reason not in ("missing", "stale_binary"):
            return ""
        return ",".join(f"={key}" for key in (*self.verdict.missing, *self.verdict.stale))

    @property
    def untuned(self) -> str:
        """Why it is neither measured nor covered, and what to do; "" where it is."""
        if self.answered:
            return ""
        detail = f" ({self.verdict.detail})" if self.verdict.detail else ""
        return f"{self.verdict.reason}{detail}; {self.advice}"

    @property
    def advice(self) -> str:
        """What a person does about it while it is untuned: as little as it takes."""
        if not self.command:
            return f"write the winners of scope {self.scope.name} into {self.sidecar} by hand"
        return f"run `{self.open_command}`"

    @property
    def open_command(self) -> str:
        """The command that races what the sidecar does not hold fresh, and no more."""
        return f"{self.command} --stale" if self.command and self.open_only else self.command


def demand(manifest: Manifest, scope: Scope) -> Demand:
    """What a sidecar must hold for this scope: seat keys in manifest order, no companion, and its version.

    A scope whose families are all pinned demands nothing: no winner of it can be of another version."""
    keys = tuple(seat.key for family in demanded_families(manifest, scope) for seat in family.seats)
    return Demand(keys, ((scope.version_key, scope.version),) if keys and scope.version_key else ())


def app_command(manifest: Manifest, app: App) -> str:
    """What to type to mint an app. The tool's own race drives custom tuners as well."""
    return "tunebuild mint" if app == manifest.apps[0] else f"tunebuild mint --app {app.name}"


def mint_command(manifest: Manifest, app: App, scope: Scope) -> str:
    """What to type to tune a scope, "" for one without a tuner."""
    return "" if scope.tuner == "none" else app_command(manifest, app)


def scope_states(
    manifest: Manifest,
    app: App,
    verdicts: Mapping[str, Verdict],
    adoptions: Mapping[str, Adoption],
    sidecar: str,
    passed_over: Mapping[str, tuple[str, ...]],
) -> tuple[ScopeState, ...]:
    """The state of each of the app's scopes, its own order. The mappings are by scope name."""
    by_name = {scope.name: scope for scope in manifest.scopes}
    return tuple(
        ScopeState(
            by_name[name],
            verdicts[name],
            adoptions.get(name, Adoption("none", name)),
            sidecar,
            mint_command(manifest, app, by_name[name]),
            passed_over.get(name, ()),
        )
        for name in app.scopes
    )


def hint(app: App, states: Sequence[ScopeState], *, shipped: bool) -> str:
    """How to tune what an artifact runs untuned, for its own log; "" where nothing here could. A ``shipped`` one is
    built again where it runs."""
    untuned = [state for state in states if not state.answered]
    command = next(
        (state.command for state in (states if shipped else untuned or states) if state.command), ""
    )
    if shipped:
        return f"build it here: {command}" if command else ""
    if command:
        return f"run it with -- --tune, or {command}" if app.kind == "exe" else command
    return "; ".join(state.advice for state in untuned)


def not_serving(states: Iterable[ScopeState]) -> tuple[str, ...]:
    """The profiles that do not serve, each once: scopes may share a folder."""
    return tuple(dict.fromkeys(line for state in states for line in state.passed_over))


def left_lines(states: Iterable[ScopeState]) -> tuple[str, ...]:
    """What profiles leave to race in scopes that are open, and why."""
    open_states = (state for state in states if not state.answered and state.adoption.left_words)
    return tuple(f"scope {state.scope.name}: {state.adoption.left_words}" for state in open_states)


def untuned_line(state: ScopeState) -> str:
    """One sentence: which scope, that it is untuned, why."""
    return f"scope {state.scope.name} is untuned for this box: {_why(state.verdict)}"


def _why(verdict: Verdict) -> str:
    return f"{verdict.reason} ({verdict.detail})" if verdict.detail else verdict.reason


def explicit_manifest_lines(path: str, states: tuple[ScopeState, ...]) -> tuple[str, ...]:
    """With the rail off by an explicit sidecar, each scope that reads untuned is said once, loudly."""
    return tuple(
        f"tunebuild: WARNING: TUNEBUILD_MANIFEST={path}: {untuned_line(state)}; its stamps fall back; "
        "unset it, or mint under it"
        for state in states
        if not state.verdict.complete
    )


# --- at build -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AtBuild:
    """What a build says and does. ``guard``: the executable checks at every start."""

    lines: tuple[str, ...]
    guard: bool


def at_build(
    app: App,
    policy: Effective,
    states: tuple[ScopeState, ...],
    *,
    off: str = "",
    explicit_manifest: str = "",
) -> AtBuild:
    """The build's part of the policy. Raises `Refused` where an untuned scope must not be built.

    ``off`` is `rail_off`'s reason. The guard goes into every executable with a live rail, complete or not:
    `--tune` must work on a warm build. `error` stops on any scope that neither the sidecar nor a profile
    answers; `auto` stops only where nobody could tune the scope.
    """
    if off:
        loud = explicit_manifest and off.startswith("TUNEBUILD_MANIFEST")
        return AtBuild(explicit_manifest_lines(explicit_manifest, states) if loud else (), False)
    said: tuple[str, ...] = (policy.announcement,) if policy.announcement else ()
    if app.kind != "exe":
        return AtBuild(said, False)
    open_states = tuple(state for state in states if not state.answered)
    match policy.policy:
        case "error" if open_states:
            raise _refusal(open_states, "policy = error")
        case "auto":
            if by_hand := tuple(state for state in open_states if state.scope.tuner == "none"):
                raise _refusal(by_hand, "policy = auto, and the scope has no tuner")
        case "warn":
            said += tuple(_banner(state) for state in open_states)
        case _:
            pass
    return AtBuild(said, bool(app.scopes))


def _refusal(states: tuple[ScopeState, ...], because: str) -> Refused:
    fixes = tuple(dict.fromkeys(state.advice for state in states))
    return Refused(
        "; ".join(untuned_line(state) for state in states) + f" [{because}]",
        fix="; ".join(fixes) + ", or set TUNEBUILD_POLICY=fallback to build with the fallback rows",
    )


def _banner(state: ScopeState) -> str:
    return f"tunebuild: WARNING: {untuned_line(state)}; {state.advice}"


# --- at start -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Start:
    """What is the same for all scopes of one start.

    ``forced``: `--tune`. ``only``: the filter of `--tune-only`, else of TUNEBUILD_ONLY. ``depth``: relaunches of this
    very app so far. ``suppressed``: the knob that forbids minting, printed as it is. ``waiting``: what to say where the
    last mint was refused or failed a while ago and no other is tried yet, "" where one may be.
    """

    policy: Policy
    forced: bool = False
    only: str = ""
    depth: int = 0
    suppressed: str = ""
    waiting: str = ""


Action = Literal["adopt", "resolve", "tune"]


@dataclass(frozen=True, slots=True)
class Due:
    """What one scope is due: ``actions`` in order, until one makes it complete. Empty: go on as it is.

    ``lines`` are said unless the actions completed the scope. ``only`` is the race filter for the tuner and
    for nobody after it. ``stop``: the app does not run in this start, whatever comes of the actions; with a
    scope completed the start ends in `RESTART_MARKER`, and in either case with `RESTART_EXIT`.
    """

    actions: tuple[Action, ...] = ()
    lines: tuple[str, ...] = ()
    only: str = ""
    stop: bool = False


def at_start(state: ScopeState, start: Start) -> Due:
    """One scope's part of a start. Coverage is tested before the relaunch fuse, and forcing skips neither
    the fuse nor the tuner's absence, but everything else."""
    if not start.forced:
        if start.policy not in ("auto", "restart") or state.verdict.complete:
            return Due()
        if state.covered:
            return Due(lines=(f"tunebuild: {covered_line(state)}",))
    if start.depth > 0:
        return Due(lines=(_not_converged(state, start.depth),))
    stop = start.policy == "restart" and not start.forced
    adopt = state.adoption.kind == "partial" and not start.forced
    resolve = bool(state.scope.resolver) and not start.forced
    first: tuple[Action, ...] = ("adopt",) if adopt else ("resolve",) if resolve else ()
    if start.suppressed and not start.forced:
        line = f"tunebuild: scope {state.scope.name} stays untuned: no minting, by {start.suppressed}"
        return Due(first, (line,))
    if not state.command:
        return Due(first, (f"tunebuild: {untuned_line(state)}; {state.advice}",), stop=stop)
    if start.waiting and not start.forced:
        return Due(first, (start.waiting,), stop=stop)
    left = state.adoption.only if adopt else state.open_only
    return Due((*first, "tune"), only=start.only if start.forced else left, stop=stop)


def _not_converged(state: ScopeState, depth: int) -> str:
    return f"tunebuild: relaunch {depth} did not converge: {untuned_line(state)}; {state.advice}"


def covered_line(state: ScopeState) -> str:
    profile = state.adoption
    return (
        f"scope {profile.scope} is covered by the {profile.cpu_class} profile "
        f"({len(profile.entries)} entries), nothing to race"
    )


def waiting_line(app: str, policy: Policy, until: str, what: str) -> str:
    """Said where the last mint came to nothing: what happens, until when (a time of day), ``what`` became of that mint,
    and how to race at once."""
    does = "waits" if policy == "restart" else "runs the rows it has"
    return f"tunebuild: {app} {does} until {until}: its last mint {what}; start it with --tune to race now"


def tuning_line(state: ScopeState, policy: Policy) -> str:
    """Said before the wait: what runs, and what will happen at its end."""
    then = (
        "start it again afterwards" if policy == "restart" else "the program starts by itself when it is done"
    )
    return f"{TUNING_SCOPE} {state.scope.name} into {state.sidecar}; this takes a while, {then}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One scope after its tuner: ``tuned`` counts towards the relaunch."""

    tuned: bool
    line: str = ""


def after_tuning(state: ScopeState, exit_code: int) -> Outcome:
    """``state``: of the scope after its tuner. Whether it is answered decides, where some seats only were raced by a
    profile beside; the tuner's exit code is only told."""
    told = f"; the tuner exited {exit_code}" if exit_code else ""
    name = state.scope.name
    if state.answered:
        stands = "complete" if state.verdict.complete else "covered"
        return Outcome(True, f"tunebuild: scope {name} is {stands}{told}" if told else "")
    todo = f"run `{state.command}` to see why" if exit_code else state.advice
    return Outcome(False, f"tunebuild: scope {name} is left incomplete: {_why(state.verdict)}{told}, {todo}")


# --- the filter and the fuse ----------------------------------------------------------------------


def selected(only: str, key: str) -> bool:
    """Does a race filter name this seat? Tokens at commas: a substring, or `=NAME` for exactly that key.

    No filter selects all; a filter of separators alone selects none.
    """
    if not only:
        return True
    tokens = (token.strip() for token in only.split(","))
    return any(token and (key == token[1:] if token[0] == "=" else token in key) for token in tokens)


def relaunch_depth(environment: str, app: str) -> int:
    """How often this app was relaunched: TUNEBUILD_RELAUNCH is `<app>:<depth>`, another app's is not ours."""
    name, colon, depth = environment.rpartition(":")
    return int(depth) if depth.isdecimal() and depth.isascii() and (name == app or not colon) else 0


def relaunch_text(app: str, depth: int) -> str:
    return f"{app}:{depth}"

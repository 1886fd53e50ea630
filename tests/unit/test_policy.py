"""What an untuned box may do: the flavours at build and at start, the fuse, the flags, the filter."""

from __future__ import annotations

from dataclasses import replace

import pytest
from small_manifest import ROOT, family, manifest

from tunebuild import policy
from tunebuild.errors import Refused, UsageError
from tunebuild.model import App, Manifest, Policy, Reason, Scope, Verdict
from tunebuild.policy import Effective, ScopeState, Start, at_build, at_start, effective, selected
from tunebuild.profiles import Adoption
from tunebuild.verdict import Demand

SCOPE = Scope("blas", "blas", (), ("f",), defaults=ROOT / "profiles")
COMPLETE = Verdict("none")
ABSENT = Verdict("absent", "no demo.tune.json")
COVERED = Adoption("covered", "blas", "x86-avx2", "p.json", (("f", "a"), ("g", "b")))
PARTIAL = Adoption("partial", "blas", "x86-avx2", "p.json", (("f", "a"),), ("g", "h.big"))


def exe(declared: Policy | None = None, cflags: tuple[str, ...] = ()) -> App:
    return App("tool", "exe", ("blas",), policy=declared, cflags=cflags)


def project(app: App) -> Manifest:
    return manifest(family(), scopes=(SCOPE,), apps=(App("demo", "library", ("blas",)), app))


def state(
    verdict: Verdict = ABSENT, adoption: Adoption | None = None, tuner: str = "builtin", resolver: str = ""
) -> ScopeState:
    scope = replace(SCOPE, tuner=tuner, resolver=resolver)
    command = "" if tuner == "none" else "tunebuild mint --app tool"
    return ScopeState(scope, verdict, adoption or Adoption("none", "blas"), "tool.tune.json", command)


def build(
    flavour: Policy, *states: ScopeState, off: str = "", explicit: str = ""
) -> tuple[tuple[str, ...], bool]:
    app = exe(flavour)
    said = at_build(app, effective(project(app), app, ""), states, off=off, explicit_manifest=explicit)
    return said.lines, said.guard


# --- which policy ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("app", "environment", "flavour", "said_by"),
    [
        (exe(), "", "auto", "default"),
        (exe("warn"), "", "warn", "tune.toml"),
        (exe(cflags=("-O0", "-g")), "", "fallback", "default"),
        (exe(cflags=("-O0", "-O2")), "", "auto", "default"),
        (exe("auto", cflags=("-O0",)), "", "auto", "tune.toml"),
        (exe("error"), "fallback", "fallback", "environment"),
        (exe(cflags=("-O0",)), "auto", "auto", "environment"),
        (App("demo", "library", ("blas",)), "", "fallback", "library"),
        (App("demo", "library", ("blas",)), "reference", "reference", "environment"),
    ],
)
def test_policy_is_the_environments_then_the_declared_then_the_default(
    app: App, environment: str, flavour: str, said_by: str
) -> None:
    found = effective(project(app), app, environment)
    assert (found.policy, found.said_by) == (flavour, said_by)


def test_environments_policy_is_announced_with_the_one_it_replaces() -> None:
    app = exe("error")
    assert effective(project(app), app, "fallback").announcement == (
        "tunebuild: policy fallback from TUNEBUILD_POLICY (tool would have error)"
    )
    assert effective(project(app), app, "").announcement == ""
    library = replace(app, kind="library", policy=None)
    assert effective(project(library), library, "fallback").announcement == ""


def test_unknown_policy_in_the_environment_lists_the_flavours() -> None:
    app = exe()
    with pytest.raises(UsageError, match="'always' is no policy") as caught:
        effective(project(app), app, "always")
    assert "fallback, reference, warn, error, auto, restart" in caught.value.fix


def test_declared_reference_is_an_error_unless_the_environment_says_so_too() -> None:
    app = exe("reference")
    with pytest.raises(UsageError, match="only TUNEBUILD_POLICY may say"):
        effective(project(app), app, "")
    assert effective(project(app), app, "reference").policy == "reference"


def test_rail_is_off_in_frozen_builds_then_in_grid_modes_then_under_an_explicit_sidecar() -> None:
    assert policy.rail_off(frozen=True, mode="tune", explicit_manifest="x") == "frozen"
    assert policy.rail_off(frozen=False, mode="tune", explicit_manifest="x") == "mode tune"
    assert policy.rail_off(frozen=False, mode="normal", explicit_manifest="x") == "TUNEBUILD_MANIFEST is set"
    assert policy.rail_off(frozen=False, mode="normal", explicit_manifest="") == ""


# --- demand ---------------------------------------------------------------------------------------


def test_demand_lists_every_seat_of_the_scopes_unpinned_families() -> None:
    whole = manifest(family("f"), family("g", pin="a"), family("h", seats=("small", "large")))
    assert policy.demand(whole, whole.scopes[0]) == Demand(("f", "h.small", "h.large"))
    pinned = replace(whole.scopes[0], version_key="kernels_version", version="3")
    assert policy.demand(whole, pinned).pins == (("kernels_version", "3"),)


# --- at build -------------------------------------------------------------------------------------


@pytest.mark.parametrize("flavour", ["fallback", "auto", "restart"])
def test_untuned_scope_builds_silently_with_a_guard(flavour: Policy) -> None:
    assert build(flavour, state()) == ((), True)


def test_warn_names_scope_reason_and_the_command() -> None:
    lines, _ = build("warn", state())
    assert lines == (
        "tunebuild: WARNING: scope blas is untuned for this box: absent (no demo.tune.json); "
        "run `tunebuild mint --app tool`",
    )


def test_error_refuses_an_untuned_scope_with_exit_code_3() -> None:
    with pytest.raises(Refused, match="scope blas is untuned for this box: absent") as caught:
        build("error", state())
    assert caught.value.exit_code == 3
    assert "tunebuild mint --app tool" in caught.value.fix


def test_error_shows_recorded_and_expected_version() -> None:
    wrong = Verdict("version", "kernels_version: recorded 2, expected 3")
    with pytest.raises(Refused, match="recorded 2, expected 3"):
        build("error", state(wrong))


@pytest.mark.parametrize("flavour", ["warn", "error", "auto"])
@pytest.mark.parametrize("answered", [state(COMPLETE), state(adoption=COVERED)])
def test_measured_or_covered_scope_satisfies_every_flavour(flavour: Policy, answered: ScopeState) -> None:
    assert build(flavour, answered) == ((), True)


def test_advice_asks_for_as_little_as_it_takes_and_for_a_hand_where_there_is_no_tuner() -> None:
    assert state().advice == "run `tunebuild mint --app tool`"
    assert state(Verdict("version", "…", missing=("g",))).advice == "run `tunebuild mint --app tool`"
    assert state(Verdict("missing", "…", missing=("g",))).advice == "run `tunebuild mint --app tool --stale`"
    assert state(tuner="none").advice == "write the winners of scope blas into tool.tune.json by hand"


def test_hint_is_what_its_reader_can_do() -> None:
    app, library = exe(), App("tool", "library", ("blas",))
    by_hand = state(tuner="none")
    mint = "tunebuild mint --app tool"
    assert policy.hint(app, (state(COMPLETE), by_hand), shipped=False) == by_hand.advice
    assert policy.hint(app, (by_hand, state()), shipped=False) == f"run it with -- --tune, or {mint}"
    assert policy.hint(library, (state(),), shipped=False) == mint
    assert policy.hint(app, (by_hand, state(COMPLETE)), shipped=True) == f"build it here: {mint}"
    assert policy.hint(app, (by_hand,), shipped=True) == policy.hint(app, (), shipped=False) == ""


def test_partly_covered_scope_does_not_satisfy_error() -> None:
    with pytest.raises(Refused):
        build("error", state(adoption=PARTIAL))


def test_auto_refuses_a_scope_without_tuner_and_names_the_sidecar() -> None:
    with pytest.raises(Refused) as caught:
        build("auto", state(tuner="none"))
    assert "write the winners of scope blas into tool.tune.json by hand" in caught.value.fix


def test_restart_builds_a_scope_without_tuner() -> None:
    assert build("restart", state(tuner="none")) == ((), True)


def test_explicit_sidecar_gives_one_warning_per_untuned_scope_and_no_guard() -> None:
    off = policy.rail_off(frozen=False, mode="normal", explicit_manifest="my.json")
    other = replace(SCOPE, name="quant")
    states = (state(), ScopeState(other, ABSENT, COVERED, "my.json", ""), state(COMPLETE))
    lines, guard = build("error", *states, off=off, explicit="my.json")
    assert not guard
    assert [line.split(": absent")[0] for line in lines] == [
        "tunebuild: WARNING: TUNEBUILD_MANIFEST=my.json: scope blas is untuned for this box",
        "tunebuild: WARNING: TUNEBUILD_MANIFEST=my.json: scope quant is untuned for this box",
    ]


def test_frozen_and_grid_builds_are_silent_under_every_flavour() -> None:
    assert build("error", state(), off="frozen", explicit="my.json") == ((), False)
    assert build("error", state(), off="mode tune", explicit="my.json") == ((), False)


def test_library_is_never_refused() -> None:
    said = at_build(App("demo", "library", ("blas",)), Effective("error", "environment", "x"), (state(),))
    assert (said.lines, said.guard) == (("x",), False)


# --- at start -------------------------------------------------------------------------------------


@pytest.mark.parametrize("flavour", ["fallback", "reference", "warn", "error"])
def test_other_flavours_do_nothing_at_start_unless_forced(flavour: Policy) -> None:
    assert at_start(state(), Start(flavour)) == policy.Due()
    assert at_start(state(), Start(flavour, forced=True)).actions == ("tune",)


def test_complete_scope_is_left_alone_and_raced_when_forced() -> None:
    assert at_start(state(COMPLETE), Start("auto")) == policy.Due()
    assert at_start(state(COMPLETE), Start("auto", forced=True, only="f")) == policy.Due(("tune",), only="f")


def test_covered_scope_says_so_once_and_does_nothing() -> None:
    due = at_start(state(adoption=COVERED), Start("auto"))
    assert (due.actions, due.lines) == (
        (),
        ("tunebuild: scope blas is covered by the x86-avx2 profile (2 entries), nothing to race",),
    )


def test_forced_start_never_mentions_the_profile() -> None:
    due = at_start(state(adoption=COVERED), Start("auto", forced=True))
    assert (due.actions, due.lines, due.only) == (("tune",), (), "")
    assert at_start(state(adoption=PARTIAL), Start("auto", forced=True)) == policy.Due(("tune",))


def test_partly_covered_scope_adopts_and_races_the_residue_by_exact_name() -> None:
    due = at_start(state(adoption=PARTIAL, resolver="exchange:x"), Start("auto"))
    assert due == policy.Due(("adopt", "tune"), only="=g,=h.big")


def test_resolver_is_asked_before_the_tuner_where_no_profile_answers() -> None:
    assert at_start(state(resolver="exchange:x"), Start("auto")).actions == ("resolve", "tune")
    assert at_start(state(resolver="exchange:x"), Start("auto", forced=True)).actions == ("tune",)


@pytest.mark.parametrize("reason", ["missing", "stale_binary"])
def test_start_races_only_what_the_sidecar_does_not_hold_fresh(reason: Reason) -> None:
    left = state(Verdict(reason, "…", missing=("g",), stale=("h.big",)))
    assert at_start(left, Start("auto")) == policy.Due(("tune",), only="=g,=h.big")
    assert at_start(left, Start("auto", forced=True)) == policy.Due(("tune",))
    assert at_start(state(Verdict("version", "…", missing=("g",))), Start("auto")).only == ""


def test_scope_is_answerable_without_a_mint_by_part_of_a_profile_or_a_resolver() -> None:
    assert state(adoption=PARTIAL).answerable and state(resolver="r.py:f").answerable
    assert not state().answerable and not state(COMPLETE, resolver="r.py:f").answerable
    assert not state(adoption=COVERED).answerable


def test_relaunched_app_reports_non_convergence_and_does_not_tune_again() -> None:
    due = at_start(state(), Start("auto", depth=1))
    assert due.actions == ()
    assert due.lines == (
        "tunebuild: relaunch 1 did not converge: scope blas is untuned for this box: absent (no demo.tune.json); "
        "run `tunebuild mint --app tool`",
    )
    assert at_start(state(COMPLETE), Start("auto", forced=True, depth=1)).actions == ()


def test_relaunched_app_accepts_a_covered_scope_before_the_fuse() -> None:
    assert "covered" in at_start(state(adoption=COVERED), Start("auto", depth=1)).lines[0]


def test_suppressed_mint_names_the_knob_verbatim_and_forcing_ignores_it() -> None:
    due = at_start(state(), Start("auto", suppressed="APP_NO_TUNE=1 (config)"))
    assert due.actions == ()
    assert "APP_NO_TUNE=1 (config)" in due.lines[0]
    assert at_start(state(), Start("auto", forced=True, suppressed="x")).actions == ("tune",)


def test_suppressed_mint_still_adopts_and_resolves() -> None:
    assert at_start(state(adoption=PARTIAL), Start("auto", suppressed="x")).actions == ("adopt",)
    assert at_start(state(resolver="r.py:f"), Start("auto", suppressed="x")).actions == ("resolve",)


def test_refused_mint_keeps_adopting_and_resolving_and_forcing_ignores_it() -> None:
    waiting = policy.waiting_line("tool", "auto", "10:28", "was refused (too loud)")
    assert waiting.startswith(
        "tunebuild: tool runs the rows it has until 10:28: its last mint was refused (too loud)"
    )
    assert at_start(state(), Start("auto", waiting=waiting)) == policy.Due((), (waiting,))
    assert at_start(state(adoption=PARTIAL), Start("auto", waiting=waiting)).actions == ("adopt",)
    assert at_start(state(resolver="r.py:f"), Start("auto", waiting=waiting)).actions == ("resolve",)
    assert at_start(state(), Start("auto", forced=True, waiting=waiting)) == policy.Due(("tune",))
    assert at_start(state(), Start("restart", waiting=waiting)) == policy.Due((), (waiting,), stop=True)
    assert "tool waits until" in policy.waiting_line("tool", "restart", "10:28", "failed (x)")
    assert at_start(state(COMPLETE), Start("auto", waiting=waiting)) == policy.Due()


def test_restart_tunes_and_stops_the_start() -> None:
    assert at_start(state(), Start("restart")) == policy.Due(("tune",), stop=True)
    assert not at_start(state(), Start("restart", suppressed="x")).stop
    assert at_start(state(tuner="none"), Start("restart")).stop
    assert at_start(state(COMPLETE), Start("restart")) == policy.Due()
    assert not at_start(state(COMPLETE), Start("restart", forced=True)).stop


def test_tuning_line_starts_with_the_marker_supervisors_read() -> None:
    assert policy.tuning_line(state(), "auto").startswith("tunebuild: tuning scope blas into tool.tune.json")
    assert "start it again" in policy.tuning_line(state(), "restart")


def test_completeness_decides_after_tuning_and_the_exit_code_is_told() -> None:
    assert policy.after_tuning(state(COMPLETE), 0) == policy.Outcome(True)
    assert policy.after_tuning(state(COMPLETE), 1).tuned
    left = policy.after_tuning(state(Verdict("missing", "f;g")), 1)
    assert (left.tuned, left.line) == (
        False,
        "tunebuild: scope blas is left incomplete: missing (f;g); the tuner exited 1, "
        "run `tunebuild mint --app tool` to see why",
    )


def test_race_of_some_seats_of_a_covered_scope_leaves_it_answered() -> None:
    covered = state(Verdict("missing", "g", ("g",)), COVERED)
    assert policy.after_tuning(covered, 0) == policy.Outcome(True)
    assert policy.after_tuning(covered, 1) == policy.Outcome(
        True, "tunebuild: scope blas is covered; the tuner exited 1"
    )


# --- filter, fuse ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("only", "key", "chosen"),
    [
        ("", "dot", True),
        ("dot", "dot_f32", True),
        (" dot , gemm ", "gemm_q8.large", True),
        ("gemm", "dot", False),
        (" , ,", "dot", False),
        ("=gemm", "gemm", True),
        ("=gemm", "gemm_t", False),
        ("=gemm.large", "gemm.large", True),
        ("=", "gemm", False),
    ],
)
def test_filter_selects_by_substring_or_exact_name(only: str, key: str, chosen: bool) -> None:
    assert selected(only, key) is chosen


def test_relaunch_depth_counts_for_its_own_app_only() -> None:
    assert policy.relaunch_depth(policy.relaunch_text("tool", 1), "tool") == 1
    assert policy.relaunch_depth("other:1", "tool") == 0
    assert policy.relaunch_depth("1", "tool") == 1
    assert policy.relaunch_depth("nonsense", "tool") == policy.relaunch_depth("", "tool") == 0

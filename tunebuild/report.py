"""Records to text and JSON, for `status`, `why`, `check` and `box`. Decides nothing, reads nothing.

Texts are ASCII and fit 80 columns unless a name does not. JSON documents are for programs: the shape of
`status_json` is part of the interface and stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from tunebuild import features
from tunebuild.classdefaults import relative_times
from tunebuild.columns import Colour, ascii_only, padded, painted, shortened, table, wrapped
from tunebuild.document import Document, Json
from tunebuild.model import REFERENCE, Box, Family, Isa, Manifest, Stamp, Stamps
from tunebuild.policy import ScopeState, not_serving
from tunebuild.profiles import Profile
from tunebuild.resolve import Cell
from tunebuild.upsert import origin_of

_COLOURS: dict[str, Colour] = {
    "manifest": "green",
    "profile": "green",
    "fallback": "yellow",
    "reference": "yellow",
}

_PASSED_OVER = ("unreadable", "stale_binary", "foreign_box", "version")
"""Reasons that a sidecar which is there is not used; said even where a profile answers."""

FILTER_WIDTH = 90  # characters of a filter that `check` shows


# --- status ---------------------------------------------------------------------------------------


def tuned(stamps: Stamps) -> int:
    """How many seats run a measured row: on this box's word or on its class profile's."""
    return sum(stamp.source in ("manifest", "profile") for stamp in stamps.seats)


def status_json(stamps: Stamps, states: Sequence[ScopeState]) -> dict[str, Json]:
    """`{"app", "families": [...], "scopes": [...]}`. A suffix is "" for the reference body. A path is that of the file
    which named the row, and where none did that of the sidecar, which might.

    A scope's ``complete`` speaks of the sidecar alone; what a profile does for it stands in ``detail``: that it covers
    the scope, what it leaves to race and why, or that it is there and does not serve.
    """
    return {
        "app": stamps.app,
        "families": [
            {
                "family": stamp.key,
                "scope": stamp.scope,
                "suffix": "" if stamp.suffix == REFERENCE else stamp.suffix,
                "source": stamp.source,
                "path": stamp.path or next((state.sidecar for state in states), ""),
            }
            for stamp in stamps.seats
        ],
        "scopes": [
            {
                "scope": state.scope.name,
                "complete": state.verdict.complete,
                "reason": state.verdict.reason,
                "detail": _scope_detail(state),
            }
            for state in states
        ],
    }


def _scope_detail(state: ScopeState) -> str:
    covered = f"covered by the {state.adoption.cpu_class} profile" if state.covered else ""
    left = "" if state.verdict.complete else state.adoption.left_words
    return "; ".join(words for words in (covered, state.verdict.detail, left, *state.passed_over) if words)


def status_text(
    stamps: Stamps,
    states: Sequence[ScopeState],
    *,
    marks: Mapping[Cell, str] = MappingProxyType({}),
    colour: bool = False,
) -> str:
    """A row per seat, a verdict per scope, and what to type where seats are open.

    ``marks``: the word, ungated or rejected, of stamped (family, suffix) pairs that did not pass a gate here.
    """
    lines = [f"{stamps.app}: {tuned(stamps)}/{len(stamps.seats)} kernels tuned for this box"]
    rows = [_status_row(stamp, marks.get((stamp.family, stamp.suffix), "")) for stamp in stamps.seats]
    for stamp, (key, suffix, source, scope, mark) in zip(stamps.seats, padded(rows), strict=True):
        word = painted(source, _COLOURS[stamp.source], colour)
        lines.append("  ".join(("", key, suffix, word, scope, mark)).rstrip())
    for name, suffix in stamps.companions:
        lines.append(f"  {ascii_only(name)} runs its own row, {ascii_only(suffix)}")
    for stamp in stamps.seats:
        if stamp.note:
            lines += wrapped(f"{stamp.key}: {stamp.note}")
    for line in not_serving(states):
        lines += wrapped(line)
    for state in states:
        lines += _scope_lines(state, colour)
    return "\n".join(lines)


def _status_row(stamp: Stamp, mark: str) -> tuple[str, ...]:
    return (stamp.key, stamp.suffix, stamp.source, stamp.scope or "-", mark)


def _scope_lines(state: ScopeState, colour: bool) -> list[str]:
    name = ascii_only(state.scope.name)
    if state.verdict.complete:
        return [f"scope {name}: " + painted("complete", "green", colour)]
    if state.covered:
        said = f"covered by the {state.adoption.cpu_class} profile"
        lines = [f"scope {name}: " + painted(said, "green", colour)]
        if state.verdict.reason in _PASSED_OVER:
            words = f" ({state.verdict.detail})" if state.verdict.detail else ""
            lines += wrapped(f"its own sidecar does not count: {state.verdict.reason}{words}")
        return lines
    detail = f" ({state.verdict.detail})" if state.verdict.detail else ""
    lines = wrapped(f"scope {name}: {state.verdict.reason}{detail}", indent=0, hang=2)
    if left := state.adoption.left_words:
        lines += wrapped(left)
    return [*lines, f"  {ascii_only(state.advice)}"]


def others_text(others: Sequence[Stamps]) -> str:
    """How the apps stand that a status does not show, and how to see one; "" where there are none."""
    counts = ", ".join(f"{ascii_only(one.app)} {tuned(one)}/{len(one.seats)}" for one in others)
    return (
        "\n".join(wrapped(f"other apps: {counts} tuned; --app NAME shows one", indent=0, hang=2))
        if others
        else ""
    )


# --- check ----------------------------------------------------------------------------------------


def check_json(manifest: Manifest, rendered: int) -> dict[str, Json]:
    """What tune.toml declares: rows per family, what each filter removed, scopes and apps.

    ``rendered``: how many rows' templates were tried.
    """
    scopes = {family: scope.name for scope in manifest.scopes for family in scope.families}
    return {
        "project": manifest.project.name,
        "files": [str(path) for path in manifest.files],
        "rendered": rendered,
        "families": [_checked(family, scopes.get(family.name, "")) for family in manifest.families],
        "scopes": [
            {"scope": scope.name, "tuner": scope.tuner, "families": list(scope.families)}
            for scope in manifest.scopes
        ],
        "apps": [{"app": app.name, "kind": app.kind, "scopes": list(app.scopes)} for app in manifest.apps],
    }


def _checked(family: Family, scope: str) -> dict[str, Json]:
    return {
        "family": family.name,
        "module": family.module,
        "scope": scope,
        "rows": len(family.rows),
        "removed": dict(family.removed),
        "seats": [seat.key for seat in family.seats],
        "companions": [companion.name for companion in family.companions],
        "workloads": [workload.name for workload in family.workloads],
        "sizes": len(family.check.sizes) if family.check else 0,
        "sizes_removed_by_domain": family.check.removed_by_domain if family.check else 0,
        "pin": family.pin,
    }


def check_text(manifest: Manifest, rendered: int) -> str:
    count = sum(len(family.rows) for family in manifest.families)
    lines = [f"{manifest.project.name}: {len(manifest.families)} families, {count} rows"]
    scopes = {family: scope.name for scope in manifest.scopes for family in scope.families}
    rows = [
        (family.name, f"{len(family.rows)} rows", scopes.get(family.name, "-"), _declared(family))
        for family in manifest.families
    ]
    lines += table(rows)
    if rendered < count:
        lines += wrapped(
            f"templates tried on {rendered} rows, spread over every grid; a build renders them all"
        )
    for family in manifest.families:
        for name, removed in family.removed:
            rows_gone = f"{removed} row{'s' * (removed != 1)}"
            lines += wrapped(f"{family.name}: {rows_gone} removed: not `{shortened(name, FILTER_WIDTH)}`")
        if family.check and (gone := family.check.removed_by_domain):
            lines += wrapped(f"{family.name}: {gone} sizes outside the domain `{family.domain}`: not tried")
    return "\n".join(lines)


def _declared(family: Family) -> str:
    words = [f"{len(family.seats)} seats"] if len(family.seats) > 1 else []
    if family.companions:
        words.append("with " + ", ".join(companion.name for companion in family.companions))
    if family.pin:
        words.append(f"pinned to {family.pin}")
    return "; ".join(words)


# --- box ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BoxFacts:
    """A box and what is said of it beside its identity."""

    box: Box
    microarchitecture: str = ""
    last_level_cache_bytes: int = 0
    isas: tuple[Isa, ...] = features.BUILTIN_ISAS

    @property
    def platform(self) -> str:
        return self.box.identity.split("|", 1)[0]


def box_json(facts: BoxFacts) -> dict[str, Json]:
    """Identity, features, class, ladder, why not another class, and the instruction sets by name."""
    box = facts.box
    have = features.believed(box)
    own = features.cpu_class(have, facts.platform, box.arch)
    reasons = features.class_reasons(have, facts.platform, box.arch)
    names: list[Json] = [feature.name for feature in features.FEATURES if feature.name in box.features]
    return {
        "identity": box.identity,
        "arch": box.arch,
        "microarchitecture": facts.microarchitecture,
        "last_level_cache_bytes": facts.last_level_cache_bytes,
        "features": names,
        "forced": list(box.forced),
        "class": own,
        "ladder": list(features.ladder(own)),
        "not": {name: why for name, why in reasons if why},
        "isas": [
            {
                "isa": isa.name,
                "requires": isa.requires,
                "cflags": list(isa.cflags),
                "runs": _isa_runs(isa, box),
            }
            for isa in facts.isas
        ],
    }


def _isa_runs(isa: Isa, box: Box) -> bool:
    """Forced names may generate, never execute: they do not count here."""
    return isa.arch in ("", features.canonical_arch(box.arch)) and features.requires_ok(
        isa.requires, box.features
    )


def box_text(facts: BoxFacts) -> str:
    box = facts.box
    have = features.believed(box)
    own = features.cpu_class(have, facts.platform, box.arch)
    cache = f", last-level cache {facts.last_level_cache_bytes >> 20} MiB" * bool(
        facts.last_level_cache_bytes
    )
    lines = [
        f"identity: {ascii_only(box.identity)}",
        f"machine:  {facts.microarchitecture or box.arch}{cache}",
        f"class:    {own}",
        f"ladder:   {' > '.join(features.ladder(own))}",
        *wrapped(f"features: {features.fingerprint(box.features).replace(';', ' ')}", indent=0, hang=10),
    ]
    if box.forced:
        lines += wrapped(
            f"forced:   {' '.join(box.forced)} (generate only; a mint refuses)", indent=0, hang=10
        )
    lines.append("not this class:")
    reasons = features.class_reasons(have, facts.platform, box.arch)
    lines += table([(name, why) for name, why in reasons if why])
    lines.append("instruction sets:")
    for isa in facts.isas:
        lines += _isa_lines(isa, box)
    return "\n".join(lines)


def _isa_lines(isa: Isa, box: Box) -> list[str]:
    here = "runs here" if _isa_runs(isa, box) else "not here"
    words = "; ".join(part for part in (isa.requires, " ".join(isa.cflags)) if part)
    return wrapped(f"{isa.name:<8}  {here:<9}  {words or 'no flag of its own'}", indent=2, hang=23)


# --- why ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Why:
    """Everything that is known of one seat's row.

    ``race``: the sidecar's entry; ``by_hand``: why the entry is somebody's word and no measurement, "" for one that is;
    ``measured``: of `measured_by`; ``bound``: of `bound_of`; ``changed``: the inputs that differ from those
    measured, by which the seat is stale now; ``gate``: the word of the gate here, "" for the reference.
    ``follows``: the seat whose row a companion runs, "" for one with a row of its own. ``passed_over``: the profiles of
    its scope that are there and do not serve. ``untuned``: why nothing measured answers for its scope, and what to do.
    """

    stamp: Stamp
    chain: str
    race: Mapping[str, Json]
    measured: Mapping[str, Json]
    bound: Mapping[str, Json]
    inputs: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    gate: str = ""
    by_hand: str = ""
    follows: str = ""
    passed_over: tuple[str, ...] = ()
    untuned: str = ""


def measured_by(document: Document, key: str) -> dict[str, Json]:
    """Who measured one entry, when and how quiet it was; nothing for a key that the sidecar lacks."""
    if key not in document.kernels:
        return {}
    entry, notes = document.built.get(key, {}), document.provenance
    found: dict[str, Json] = {
        "box": document.box,
        "written": entry.get("written", notes.get("written")),
        "noise": notes.get("noise"),
        "noise_floor_cv_pct": notes.get("noise_floor_cv_pct"),
        "adopted_from": origin_of(document, key) or None,
    }
    return {name: value for name, value in found.items() if value is not None}


def bound_of(profile: Profile, family: str) -> dict[str, Json]:
    """What a merged profile promises for a family: worst loss in percent, and the boxes."""
    return dict(profile.bounds.get(family, {}))


def runner_up(race: Mapping[str, Json], winner: str) -> tuple[str, float] | None:
    """(suffix, percent slower than the winner) of the fastest other row that passed, None without times."""
    times = relative_times(race)
    others = [(time, name) for name, time in times.items() if name != winner]
    if winner not in times or not others:
        return None
    time, name = min(others)
    return name, 100 * (time / times[winner] - 1)


def why_json(why: Why) -> dict[str, Json]:
    second = runner_up(why.race, why.stamp.suffix)
    return {
        "family": why.stamp.key,
        "scope": why.stamp.scope,
        "suffix": "" if why.stamp.suffix == REFERENCE else why.stamp.suffix,
        "source": why.stamp.source,
        "path": why.stamp.path,
        "note": why.stamp.note,
        "chain": why.chain,
        "runner_up": {"suffix": second[0], "slower_pct": round(second[1], 2)} if second else None,
        "race": dict(why.race),
        "measured": dict(why.measured),
        "bound": dict(why.bound),
        "stale_when_changed": list(why.inputs),
        "changed": list(why.changed),
        "gated": why.gate == "passed" if why.gate else None,
        "set_by_hand": bool(why.by_hand),
        "follows": why.follows,
        "passed_over": list(why.passed_over),
    }


_SOURCE_WORDS = {
    "manifest": "raced on this box",
    "profile": "the shipped profile of its class",
    "fallback": "the fallback chain; nothing measured answers here",
    "reference": "the reference body; no row was chosen",
}


def whys_text(found: Sequence[Why]) -> str:
    """Several seats, and once what is said of the files of all."""
    notes = dict.fromkeys(line for why in found for line in why.passed_over)
    lines = [part for line in notes for part in wrapped(line, indent=0, hang=2)]
    return "\n\n".join((*(why_text(why) for why in found), *(["\n".join(lines)] if lines else [])))


def why_text(why: Why) -> str:
    stamp = why.stamp
    lines = wrapped(f"{stamp.key} runs {stamp.suffix}: {_source_words(why)}", indent=0)
    rows = [("from", stamp.path)] if stamp.path else []
    if stamp.suffix != why.chain:
        rows.append(("chain", f"{why.chain} would serve without a measurement"))
    winner = why.race.get("winner")
    if isinstance(winner, str) and stamp.source in ("fallback", "reference") and not stamp.note:
        rows.append(("recorded", f"{winner} by a race that does not count now; what it found:"))
    if not why.by_hand:  # what is known was measured of another row
        rows += _race_rows(why)
    if why.measured:
        rows.append(("measured", ", ".join(f"{key} {value}" for key, value in why.measured.items())))
    if why.bound:
        rows.append(("bound", _bound_words(why.bound)))
    if gate := _gate_words(why):
        rows.append(("gate", gate))
    if why.inputs:
        rows.append(("stale when", ", ".join(why.inputs) + " change"))
    if why.changed:
        rows.append(("stale now", ", ".join(why.changed)))
    if why.untuned and stamp.source != "manifest":
        rows.append(("untuned", why.untuned))
    if stamp.note:
        rows.append(("note", stamp.note))
    for name, words in rows:
        lines += wrapped(f"{name + ':':<12}{words}", indent=2, hang=14)
    return "\n".join(lines)


def _source_words(why: Why) -> str:
    if why.by_hand:
        return hand_words(why.by_hand)
    adopted = why.measured.get("adopted_from")
    if why.stamp.source == "manifest" and isinstance(adopted, str):
        return f"adopted from {adopted}, not raced on this box"
    return f"the row of {why.follows}, which it follows" if why.follows else _SOURCE_WORDS[why.stamp.source]


def mint_notes(rejected: Mapping[str, Sequence[str]], overridden_pct: float | None) -> list[str]:
    """What a mint says at its end beside its winners: how loud it was if that was overridden, and rejected rows."""
    lines = []
    if overridden_pct is not None:
        lines.append(
            f"measured on a loud box (the probe's cv reached {overridden_pct:.1f} %), "
            "since TUNEBUILD_NOISE_OVERRIDE=1 asks for it; release says so too"
        )
    for family, rows in rejected.items():
        named = ", ".join(rows[:3]) + (f" and {len(rows) - 3} more" if len(rows) > 3 else "")
        lines.append(f"{family}: rejected {named}; `tunebuild why {family}` says why")
    return lines


def hand_words(why: str) -> str:
    """What is said of an entry that no race put there. ``why``: of `upsert.by_hand`."""
    return f"set by hand in the sidecar, not measured: {why}"


def _gate_words(why: Why) -> str:
    """What the gate said of the row that runs; the reference is what others are gated by."""
    reasons = why.race.get("rejections")
    before = reasons.get(why.stamp.suffix) if isinstance(reasons, dict) else None
    if isinstance(before, str) and before.startswith("gate:") and why.gate != "rejected":
        return "rejected in the last mint" + (", passed since" if why.gate == "passed" else "")
    words = {
        "passed": "passed on this box",
        "ungated": "not gated on this box: run `tunebuild test`",
        "rejected": f"rejected on this box: `tunebuild test {why.stamp.family} --row {why.stamp.suffix}` says why",
    }
    return words.get(why.gate, "")


def _runner_up_words(race: Mapping[str, Json], name: str, slower_pct: float) -> str:
    if slower_pct >= 0:
        return f"{name}, {slower_pct:.2f} % slower"
    words = f"{name}, {-slower_pct:.2f} % faster in the race"
    if race.get("demoted") != name:
        return words
    if race.get("held_by") == "confirm":
        return f"{words}, not in the app"
    checked = race.get("validation")
    lost = isinstance(checked, dict) and not checked.get("kept")
    return f"{words}, demoted in validation" if lost else f"{words}, demoted"


def _race_rows(why: Why) -> list[tuple[str, str]]:
    """What the race recorded, as far as it did: files of other tuners hold less."""
    race = why.race
    rows: list[tuple[str, str]] = []
    if second := runner_up(race, why.stamp.suffix):
        rows.append(("runner-up", _runner_up_words(race, *second)))
    if (margin := _number(race.get("margin_pct"))) is not None:
        over = f" over {race['fallback']}" if isinstance(race.get("fallback"), str) else ""
        rows.append(("margin", f"{margin:.2f} %{over}{_interval(race, why.stamp.suffix, margin)}"))
    if (bar := _number(race.get("floor_pct"))) is not None:
        source = race.get("bar_source")
        rows.append(("noise", f"bar {bar:.2f} %" + (f", set by the {source}" if source else "")))
    if isinstance(held := race.get("held_by"), str) and held:
        rows.append(("held by", held))
    if isinstance(ties := race.get("tie"), list) and len(ties) > 1:
        rows.append(("tied with", ", ".join(str(name) for name in ties if name != why.stamp.suffix)))
    if isinstance(twins := race.get("same_code"), dict):
        known = [name for name, first in twins.items() if first == why.stamp.suffix]
        rows += [("same code", ", ".join(known))] if known else []
    if rounds := _number(race.get("rounds")):
        doses = _number(race.get("doses"))
        rows.append(("raced", f"{rounds:.0f} rounds" + (f", {doses:.0f} doses" if doses else "")))
    if isinstance(checked := race.get("validation"), dict):
        rows.append(("validated", _validation_words(checked)))
    if isinstance(felt := race.get("confirm"), dict) and isinstance(felt.get("why"), str):
        rows.append(("in the app", str(felt["why"])))
    if isinstance(demoted := race.get("demoted"), str) and demoted:
        rows.append(("demoted", demoted))
    return rows + _rejections(race)


def _interval(race: Mapping[str, Json], winner: str, margin: float) -> str:
    """The interval of the race; a winner that gained less in validation has the lesser margin."""
    rows = race.get("rows")
    row = rows.get(winner) if isinstance(rows, dict) else None
    edges = row.get("interval_pct") if isinstance(row, dict) else None
    numbers = [edge for edge in edges if isinstance(edge, int | float)] if isinstance(edges, list) else []
    if len(numbers) != 2:
        return ""
    edges_text = f"95 %: {numbers[0]:.2f} to {numbers[1]:.2f}"
    inside = numbers[0] - 0.01 <= margin <= numbers[1] + 0.01
    return f" ({edges_text})" if inside else f" (as validated; in the race {edges_text})"


def _validation_words(checked: Mapping[str, Json]) -> str:
    margin, pairs = _number(checked.get("margin_pct")), _number(checked.get("pairs"))
    words = "kept" if checked.get("kept") else "lost"
    if margin is not None and pairs is not None:
        words += f" with {margin:.2f} % in {pairs:.0f} pairs in another process"
    return f"{words}: {checked['why']}" if checked.get("why") else words


def _rejections(race: Mapping[str, Json]) -> list[tuple[str, str]]:
    """Every rejected row with its stage and reason; the names alone where none was recorded."""
    if isinstance(reasons := race.get("rejections"), dict) and reasons:
        return [("rejected", f"{suffix}, {why}") for suffix, why in reasons.items()]
    names = race.get("rejected")
    return [("rejected", names)] if isinstance(names, str) and names else []


def _number(value: Json) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _bound_words(bound: Mapping[str, Json]) -> str:
    loss = _number(bound.get("loss_pct"))
    boxes = bound.get("boxes")
    count = len(boxes) if isinstance(boxes, list | dict) else 0
    return f"at most {loss:.2f} % slower than the best row on {count} boxes" if loss is not None else "none"

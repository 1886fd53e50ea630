"""Records of classes to text and JSON: `status --fleet`, `profile list`, `profile show`. Decides nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tunebuild.columns import Colour, ascii_only, painted, table, wrapped
from tunebuild.document import Json
from tunebuild.fleet import Cover, Fleet, Remint
from tunebuild.profiles import Chosen, Profile, Unusable

# --- status --fleet -------------------------------------------------------------------------------

_COLOURS: dict[str, Colour] = {
    "measured": "green",
    "covered": "green",
    "stale": "red",
    "uncovered": "yellow",
}


def fleet_json(fleet: Fleet) -> dict[str, Json]:
    """Classes, records, one entry per seat and class, what is to mint and to export, and what the tree left behind."""
    records: list[Json] = [
        {"file": one.name, "box": one.box, "class": one.cpu_class} for one in fleet.witnesses
    ]
    records += [
        {"file": one.name, "box": one.box, "class": one.cpu_class, "problem": one.why}
        for one in fleet.problems
    ]
    records += [
        {"file": one.name, "box": one.box, "class": one.cpu_class, "spare": one.why} for one in fleet.spare
    ]
    return {
        "app": fleet.app,
        "class": fleet.here,
        "green": fleet.green,
        "records": records,
        "families": [_cover_json(cover) for cover in fleet.covers],
        "remint": [_pair_json(pair) for pair in fleet.remints],
        "affected": [_pair_json(pair) for pair in fleet.affected],
        "export": [
            {"box": one.box, "class": one.cpu_class, "covers": list(one.covers)} for one in fleet.exports
        ],
    }


def _pair_json(pair: Remint) -> dict[str, Json]:
    return {
        "box": pair.box,
        "scope": pair.scope,
        "class": pair.cpu_class,
        "families": list(pair.keys),
        "why": pair.why,
    }


def _cover_json(cover: Cover) -> dict[str, Json]:
    return {
        "family": cover.key,
        "scope": cover.scope,
        "class": cover.cpu_class,
        "state": cover.state,
        "suffix": cover.suffix,
        "reason": cover.reason,
        "boxes": list(cover.boxes),
        "bound_pct": cover.bound_pct,
        "gated": cover.gated,
    }


def fleet_text(fleet: Fleet, *, colour: bool = False) -> str:
    lines = [f"{fleet.app}: {_count(len(fleet.witnesses))}; this one is of class {fleet.here}"]
    for problem in fleet.problems:
        lines += wrapped(f"{problem.name} counts for nothing: {problem.why}")
    for spare in fleet.spare:
        lines += wrapped(f"{spare.name} adds nothing: {spare.why}")
    classes = dict.fromkeys(cover.cpu_class for cover in fleet.covers)
    for cpu_class in classes:
        boxes = [one.box for one in fleet.witnesses if one.cpu_class == cpu_class]
        lines.append(ascii_only(f"class {cpu_class}: {_count(len(boxes))}"))
        covers = [cover for cover in fleet.covers if cover.cpu_class == cpu_class]
        lines += _cover_lines(covers, colour)
    if fleet.green:
        return "\n".join([*lines, "green: every seat is measured or covered, and its row was gated"])
    count = len(fleet.remints)
    lines.append("to make it green" + (f", {count} mint{'s' * (count != 1)}:" if count else ":"))
    for remint in fleet.remints:
        lines += wrapped(f"{remint.box}: scope {remint.scope} ({remint.why})")
    for profile in fleet.exports:
        covered = f"its {profile.cpu_class} profile covers {', '.join(profile.covers)}"
        lines += wrapped(f"then `tunebuild profile export` on {profile.box}: {covered}")
    for problem in fleet.leave_out:
        lines += wrapped(f"leave {problem.name} out, or put a whole sidecar of its box there")
    minted = {(one.box, one.scope) for one in fleet.remints}
    for one in fleet.affected:
        if (one.box, one.scope) not in minted:
            lines += wrapped(f"need not mint again, others answer: {one.box}: scope {one.scope} ({one.why})")
    return "\n".join(lines)


def _cover_lines(covers: Sequence[Cover], colour: bool) -> list[str]:
    """A row per seat; a reason that neighbours share is said once, after the last of them."""
    lines: list[str] = []
    rows = table([_cover_row(cover) for cover in covers])
    for at, (cover, row) in enumerate(zip(covers, rows, strict=True)):
        lines.append(row.replace(cover.state, painted(cover.state, _COLOURS[cover.state], colour), 1))
        last = at + 1 == len(covers) or covers[at + 1].reason != cover.reason
        if cover.reason and last:
            lines += wrapped(cover.reason, indent=6, hang=6)
    return lines


def _count(boxes: int) -> str:
    return f"{boxes} box{'es' * (boxes != 1)}"


def _cover_row(cover: Cover) -> tuple[str, ...]:
    bound = "" if cover.bound_pct is None else f"within {cover.bound_pct:.1f} % on {_count(len(cover.boxes))}"
    return (cover.state, cover.key, cover.suffix, "" if cover.gated else "not gated", bound)


# --- profile list, profile show -------------------------------------------------------------------


def _worst_bound(profile: Profile) -> float | None:
    losses = [bound.get("loss_pct") for bound in profile.bounds.values()]
    return max((float(loss) for loss in losses if isinstance(loss, int | float)), default=None)


def _boxes(profile: Profile) -> int:
    named = {
        box for bound in profile.bounds.values() if isinstance(b := bound.get("boxes"), dict) for box in b
    }
    return len(named) or 1


def profiles_json(
    found: Mapping[str, Sequence[Profile | Unusable]], chosen: Sequence[Chosen]
) -> dict[str, Json]:
    """By scope, the files of its `defaults`, and which one answers here."""
    answer = {one.scope: one for one in chosen}
    return {
        "scopes": [
            {
                "scope": scope,
                "chosen": one.profile.cpu_class if (one := answer.get(scope)) and one.profile else "",
                "skipped": [_unusable_json(skip) for skip in one.skipped] if one else [],
                "profiles": [_profile_entry(profile) for profile in profiles],
            }
            for scope, profiles in found.items()
        ]
    }


def _unusable_json(one: Unusable) -> Json:
    return {"path": one.path, "why": one.why, "fix": one.fix}


def _profile_entry(profile: Profile | Unusable) -> dict[str, Json]:
    if isinstance(profile, Unusable):
        return {"path": profile.path, "unusable": profile.why, "fix": profile.fix}
    return {
        "path": profile.path,
        "class": profile.cpu_class,
        "entries": len(profile.kernels),
        "written": str(profile.provenance.get("written", "")),
        "noise": str(profile.provenance.get("noise", "")),
        "boxes": _boxes(profile),
        "bound_pct": _worst_bound(profile),
    }


def profiles_text(found: Mapping[str, Sequence[Profile | Unusable]], chosen: Sequence[Chosen]) -> str:
    """Every profile of every scope; the one that answers on this box is marked."""
    answer = {one.scope: one for one in chosen}
    lines: list[str] = []
    for scope, profiles in found.items():
        one = answer.get(scope)
        lines.append(f"scope {scope}: " + ("" if profiles else "no profile shipped"))
        own = one.profile.path if one and one.profile else ""
        usable = [profile for profile in profiles if isinstance(profile, Profile)]
        lines += table([_profile_row(profile, profile.path == own) for profile in usable])
        bad = [profile for profile in profiles if isinstance(profile, Unusable)]
        for line in dict.fromkeys(each.line for each in (*bad, *(one.skipped if one else ()))):
            lines += wrapped(line)
    return "\n".join(line.rstrip() for line in lines)


def _entries(profile: Profile) -> str:
    count = len(profile.kernels)
    return f"{count} entr{'y' if count == 1 else 'ies'}"


def _profile_row(profile: Profile, mine: bool) -> tuple[str, ...]:
    bound = _worst_bound(profile)
    claim = f"within {bound:.1f} % on {_count(_boxes(profile))}" if bound is not None else "one box"
    mark = "answers here" if mine else ""
    return (profile.cpu_class, _entries(profile), claim, mark)


def profile_json(profile: Profile) -> dict[str, Json]:
    """One profile whole."""
    return {
        "path": profile.path,
        "class": profile.cpu_class,
        "kernels": dict(profile.kernels),
        "provenance": dict(profile.provenance),
        "bounds": {family: dict(bound) for family, bound in profile.bounds.items()},
    }


def profile_text(profile: Profile) -> str:
    lines = [f"class {profile.cpu_class}: {_entries(profile)}"]
    rows = []
    for key, suffix in profile.kernels.items():
        bound = profile.bounds.get(key) or profile.bounds.get(key.partition(".")[0], {})
        loss = bound.get("loss_pct")
        rows.append((key, suffix, f"within {loss:.1f} %" if isinstance(loss, int | float) else ""))
    lines += table(rows)
    for name, value in profile.provenance.items():
        words = str(value).replace(";", " ") if name == "features" else value
        lines += wrapped(f"{name}: {words}")
    boxes = {
        box: None
        for bound in profile.bounds.values()
        if isinstance(b := bound.get("boxes"), dict)
        for box in b
    }
    for box in boxes:
        lines += wrapped(f"box: {box}")
    return "\n".join(lines)

"""The straight lines about classes: a fleet's evidence, and class profiles from sidecars and back."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from tunebuild import classdefaults, emit, evidence, fleet, generate, profiles, record, resolve
from tunebuild.classdefaults import BUDGET_PCT, Donor
from tunebuild.document import Built, Document, Json, is_name
from tunebuild.errors import Refused, UsageError
from tunebuild.features import canonical_arch
from tunebuild.generate import Generated
from tunebuild.model import App, Manifest, Scope
from tunebuild.profiles import Chosen, Profile, Unusable

# --- status --fleet -------------------------------------------------------------------------------


def fleet_status(root: Path, app: str, places: Sequence[Path]) -> fleet.Fleet:
    """Judge the sidecars in ``places``, and this box's own, against the tree at ``root``."""
    generated = generate.generate(root)
    chosen = generated.app(app)
    own = generated.records[chosen.name].path
    found = evidence.records((*places, *((own,) if own.exists() else ())))
    arches = {canonical_arch(_arch(one)) for one in found if isinstance(one.found, Document)}
    tree = fleet.Tree({arch: built for arch in arches if (built := _built_for(generated, arch)) is not None})
    files = evidence.profile_files(generated.manifest, chosen)
    return fleet.fleet(generated.manifest, chosen, found, files, generated.box, tree)


def _arch(one: fleet.Record) -> str:
    box = one.found.box if isinstance(one.found, Document) else ""
    return [*box.split("|"), "", ""][1]


def _built_for(generated: Generated, arch: str) -> Mapping[str, Built] | None:
    """The tree's digests for an architecture: by a named cross toolchain where it is not this one.

    A cross compiler is never the one that such a box has, so compilers are not compared then.
    """
    project = generated.manifest.project
    if canonical_arch(generated.tools.default(project.name).target) == arch:
        return generated.built
    named = next((one.name for one in project.toolchains if canonical_arch(one.target) == arch), "")
    if not named:
        return None
    try:
        crossed = generate.generate(generated.root, target=named).built
    except UsageError:
        return None
    return {
        key: {name: value for name, value in entry.items() if name != "compiler"}
        for key, entry in crossed.items()
    }


# --- profile export, merge ------------------------------------------------------------------------


def _shipping_scopes(generated: Generated, app: App, scope: str) -> tuple[Scope, ...]:
    """The scopes whose profile is meant: the one named, with those that share its folder and thereby its
    files, or all of the app's that declare `defaults`. One whose families are all pinned has no winner to ship."""
    scopes = tuple(one for one in resolve.app_scopes(generated.manifest, app) if one.defaults is not None)
    folders = {one.defaults for one in scopes if scope in ("", one.name)}
    if not folders:
        raise UsageError(
            f"scope {scope} of app {app.name} has no folder of profiles"
            if scope
            else f"no scope of app {app.name} has a folder of profiles",
            where=str(generated.manifest.project.file),
            fix='write defaults = "profiles" in its [scope] table',
        )
    meant = tuple(one for one in scopes if one.defaults in folders)
    if shipping := tuple(one for one in meant if classdefaults.keys_of(generated.manifest, one)):
        return shipping
    names = ", ".join(one.name for one in meant)
    raise Refused(
        f"no scope of app {app.name} demands a winner: every family of {names} is pinned",
        fix="take a `pin` out of tune.toml; a pinned row needs no profile",
    )


def _write(
    generated: Generated, scopes: Sequence[Scope], made: Sequence[tuple[Path, Mapping[str, Json]]]
) -> tuple[Path, ...]:
    """One file for each destination, with the entries of every scope that goes there.

    :raises Refused: where a file holds winners of other scopes, which would be lost.
    """
    for path, _ in made:
        _refuse_loss(generated.manifest, scopes, path)
    by_path: dict[Path, list[Mapping[str, Json]]] = {}
    for path, document in made:
        by_path.setdefault(path, []).append(document)
    for path, documents in by_path.items():
        emit.write_durable(path, classdefaults.render(classdefaults.joined(documents)))
    return tuple(by_path)


def _refuse_loss(manifest: Manifest, scopes: Sequence[Scope], path: Path) -> None:
    data = record.read_profile(path)
    found = (
        profiles.parse(str(path), path.name.removesuffix(profiles.SUFFIX), data)
        if isinstance(data, bytes)
        else None
    )
    held = found.kernels if isinstance(found, Profile) else {}
    meant = {name for scope in scopes for name in scope.families}
    for scope in manifest.scopes:
        others = (one for one in manifest.families if one.name in scope.families and one.name not in meant)
        if any(held.get(key) for family in others for key in resolve.winner_keys(family)):
            raise Refused(
                f"{path} holds winners of scope {scope.name} as well, which would be lost",
                fix="name an app that has both scopes with --app, or give the scopes folders of their own",
            )


def _destination(scope: Scope, cpu_class: str) -> Path:
    assert scope.defaults is not None
    return scope.defaults / profiles.file_name(cpu_class)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def export_profile(root: Path, app: str, scope: str = "") -> tuple[Path, ...]:
    """Write this box's winners as the profile of its class, for each scope meant; all or nothing.

    The features of the machine decide the class, never forced ones.
    """
    generated = generate.generate(root)
    chosen = generated.app(app)
    read = generated.records[chosen.name]
    cpu_class = profiles.box_class(replace(generated.box, forced=()))
    made: list[tuple[Path, dict[str, Json]]] = []
    shipping = _shipping_scopes(generated, chosen, scope)
    states = {state.scope.name: state for state in generated.states[chosen.name]}
    for one in shipping:
        document = classdefaults.export(
            generated.manifest,
            one,
            read.found,
            states[one.name].verdict,
            cpu_class=cpu_class,
            written=_now(),
            command=states[one.name].command,
        )
        made.append((_destination(one, cpu_class), document))
    return _write(generated, shipping, made)


def merge_profiles(
    root: Path, app: str, places: Sequence[Path], scope: str = "", budget_pct: float = BUDGET_PCT
) -> tuple[Path, ...]:
    """Write the profile of one class from several boxes' sidecars, for each scope meant; all or nothing.

    Donors must agree among each other on what they measured; whether they measured this very tree is for
    `status --fleet` to say.
    """
    generated = generate.generate(root)
    chosen = generated.app(app)
    donors = tuple(_donor(generated.manifest, one) for one in evidence.records(places))
    if not 0 <= budget_pct < math.inf:
        raise UsageError(
            f"--budget {budget_pct:g} is no loss", fix="write percent from 0 up, such as --budget 5"
        )
    if not donors:
        raise UsageError("no sidecar to merge", fix="name the sidecars of several boxes, or a folder of them")
    classes = tuple(dict.fromkeys(classdefaults.recorded_class(donor.document) for donor in donors))
    if odd := next((name for name in classes if not is_name(name)), ""):
        raise Refused(f"cannot merge: {odd!r:.80} is no class", fix="leave that box out")
    if len(classes) > 1:
        raise Refused(
            f"cannot merge boxes of {len(classes)} classes: {', '.join(classes)}",
            fix="name the sidecars of one class",
        )
    made: list[tuple[Path, dict[str, Json]]] = []
    shipping = _shipping_scopes(generated, chosen, scope)
    for one in shipping:
        document = classdefaults.merge(
            generated.manifest,
            one,
            donors,
            cpu_class=classes[0],
            written=_now(),
            budget_pct=budget_pct,
        )
        made.append((_destination(one, classes[0]), document))
    return _write(generated, shipping, made)


def _donor(manifest: Manifest, one: fleet.Record) -> Donor:
    """A record as a donor.

    :raises Refused: for one that proves nothing of the box that it names.
    """
    if isinstance(one.found, Document):
        if by_hand := [key for key in one.found.kernels if one.found.outvoted(key)]:
            raise Refused(
                f"{one.name}: {', '.join(by_hand)} was set by hand, not by its race",
                fix="mint that box again",
            )
        if why := fleet.distrust(manifest, one.found, one.signed):
            raise Refused(f"{one.name} proves nothing: {why}", fix="leave it out, or mint that box again")
        return Donor(one.name, one.found)
    raise Refused(f"{one.name} is unreadable: {one.found.why}", fix="leave it out, or mint that box again")


# --- profile list, show ---------------------------------------------------------------------------


def list_profiles(
    root: Path, app: str
) -> tuple[dict[str, tuple[Profile | Unusable, ...]], tuple[Chosen, ...]]:
    """By scope every profile shipped, best class first, and which one answers on this box."""
    generated = generate.generate(root)
    chosen = generated.app(app)
    files = evidence.profile_files(generated.manifest, chosen)
    found = {
        scope.name: _parsed(scope, files.get(scope.name, {}))
        for scope in resolve.app_scopes(generated.manifest, chosen)
    }
    return found, record.profiles_of(generated.manifest, chosen, generated.box)


def _parsed(scope: Scope, files: Mapping[str, bytes | Unusable]) -> tuple[Profile | Unusable, ...]:
    from tunebuild.features import CLASSES

    order = [name for name in CLASSES if name in files] + [name for name in files if name not in CLASSES]
    found = ((name, files[name]) for name in order)
    return tuple(
        data if isinstance(data, Unusable) else profiles.parse(str(_destination(scope, name)), name, data)
        for name, data in found
    )


def show_profile(root: Path, app: str, cpu_class: str = "") -> tuple[Profile, ...]:
    """The profile files of one class; without a class those that answer on this box."""
    found, chosen = list_profiles(root, app)
    if not cpu_class:
        return _each_file(one.profile for one in chosen if one.profile)
    usable = (one for shipped in found.values() for one in shipped if isinstance(one, Profile))
    named = _each_file(one for one in usable if one.cpu_class == cpu_class)
    torn = (one for shipped in found.values() for one in shipped if isinstance(one, Unusable))
    if bad := next((one for one in torn if Path(one.path).name == profiles.file_name(cpu_class)), None):
        raise UsageError(bad.why, where=bad.path, fix=bad.fix)
    if not named:
        known = sorted({one.cpu_class for two in found.values() for one in two if isinstance(one, Profile)})
        raise UsageError(
            f"no profile of class {cpu_class} is shipped",
            fix=f"there are: {', '.join(known)}" if known else "run `tunebuild profile export` on such a box",
        )
    return named


def _each_file(found: Iterable[Profile]) -> tuple[Profile, ...]:
    """Scopes that share a folder share its files."""
    return tuple({one.path: one for one in found}.values())

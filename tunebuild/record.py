"""One app's winners as the tree at hand sees them: its sidecar read and judged, and its scopes' profiles."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tunebuild import profiles, resolve, sidecar, verdict
from tunebuild.document import Built, Document
from tunebuild.model import App, Box, Manifest, Verdict

BINARY_STAMP = "build/rows.stamp"
"""Touched when a row's object is really recompiled: "the binary" of sidecars without digests."""


@dataclass(frozen=True, slots=True)
class Read:
    """A sidecar as found, and what a verdict on it needs."""

    path: Path
    found: verdict.Found
    box: Box
    built: Mapping[str, Built]
    binary_s: int | None
    unfit: verdict.Unfit = verdict.any_row
    pins: verdict.Pins = field(default_factory=dict)

    @property
    def document(self) -> Document:
        """What the file says; an empty document where none of it counts."""
        return self.found if isinstance(self.found, Document) else Document()

    @property
    def source(self) -> resolve.Source | None:
        """Its fresh winners for stamping, None when there are none. One that cannot serve here is among them: it drops
        its family to the chain, not to a profile."""
        entries = self._fresh(verdict.any_row)
        if not entries or not isinstance(self.found, Document):
            return None
        raced = resolve.raced_references(self.found.race)
        return resolve.Source("manifest", str(self.path), entries, raced)

    @property
    def serving(self) -> dict[str, str]:
        """Its fresh winners that can serve here."""
        return self._fresh(self.unfit)

    def _fresh(self, unfit: verdict.Unfit) -> dict[str, str]:
        return verdict.fresh_entries(
            self.found,
            box=self.box,
            built_now=self.built,
            binary_s=self.binary_s,
            unfit=unfit,
            pins=self.pins,
        )

    def verdict(self, demand: verdict.Demand) -> Verdict:
        return verdict.verdict(
            self.found,
            demand,
            box=self.box,
            path=str(self.path),
            built_now=self.built,
            binary_s=self.binary_s,
            unfit=self.unfit,
        )

    def changed(self, key: str) -> tuple[str, ...]:
        """By what a seat that the sidecar holds is stale now, one word or sentence each."""
        if not isinstance(self.found, Document) or key not in self.found.kernels:
            return ()
        if version := verdict.other_version(self.found, self.pins.get(key)):
            return (version,)
        unfit = verdict.misfit(self.found, key, self.unfit)
        return (unfit,) if unfit else verdict.changes(self.found, key, self.built, self.binary_s)


def location(manifest: Manifest, app: App, environ: Mapping[str, str] = os.environ) -> Path:
    """The sidecar of an app: beside the root tune.toml, unless the environment names another."""
    return sidecar.location(manifest.project.root, app.sidecar or app.name, environ)


def read(
    manifest: Manifest,
    app: App,
    box: Box,
    built: Mapping[str, Built],
    here: resolve.Here,
    environ: Mapping[str, str] = os.environ,
) -> Read:
    path = location(manifest, app, environ)
    stamp_s = binary_stamp_s(manifest.project.root)
    return Read(path, sidecar.read(path), box, built, stamp_s, unfit(manifest, here), pins(manifest))


def unfit(manifest: Manifest, here: resolve.Here) -> verdict.Unfit:
    """Judges a seat's winner by the grid and by what box and compilers have; keys of no seat are not judged."""
    families = {seat.key: family for family in manifest.families for seat in family.seats}

    def why(key: str, suffix: str) -> str:
        return resolve.why_not(families[key], suffix, here) if key in families else ""

    return why


def pins(manifest: Manifest) -> verdict.Pins:
    """The version that each winner must have been measured at, by key, where its scope pins one."""
    return {
        key: (scope.version_key, scope.version)
        for scope in manifest.scopes
        if scope.version_key
        for family in manifest.families
        if family.name in scope.families
        for key in resolve.winner_keys(family)
    }


def binary_stamp_s(root: Path) -> int | None:
    try:
        return int((root / BINARY_STAMP).stat().st_mtime)
    except OSError:
        return None


def profiles_of(manifest: Manifest, app: App, box: Box) -> tuple[profiles.Chosen, ...]:
    """What each scope of an app finds on its ladder of profiles."""
    tree = frozenset(seat.key for family in manifest.families for seat in family.seats)
    found: list[profiles.Chosen] = []
    for scope in resolve.app_scopes(manifest, app):
        ladder = ((cpu_class, path, read_profile(path)) for cpu_class, path in profiles.rungs(scope, box))
        option = "" if scope.name in manifest.apps[0].scopes else f" --app {app.name}"
        found.append(profiles.choose(scope, tuple(ladder), tree, option))
    return tuple(found)


def read_profile(path: Path) -> bytes | profiles.Unusable | None:
    """The bytes of a profile, or why there are none; None where there is no file. Waits for no pipe."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return profiles.Unusable(str(path), "it is no regular file", "remove it")
        with path.open("rb") as stream:
            return stream.read(profiles.MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        why = f"it cannot be read: {error.strerror or error}"
        return profiles.Unusable(str(path), why, "make it readable, or remove it")

"""What the commands of the rail do: `run`, with its `--prepare` for an executable's guard, and `release`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from tunebuild import children, policy, rail
from tunebuild.document import Json

Say = Callable[[str], None]


def run(
    root: Path,
    app: str,
    arguments: tuple[str, ...],
    *,
    tune: bool,
    only: str,
    quiet: bool,
    verbose: bool,
    prepare: int | None,
    suppressed: str,
    say: Say,
) -> int:
    """`run [APP] [--tune] [--tune-only TOK,…] [-- ARGS]`; the app replaces this process. ``prepare``: the process that
    waits for its executable to be made ready, 0 for one that does not say, None where the app is to be run."""
    verbosity: policy.Verbosity | None = "silent" if quiet else "verbose" if verbose else None
    if prepare is not None:
        if prepare:
            children.end_with(prepare)
        told = rail.quieter(say, os.environ)
        prepared = rail.prepare(root, app, forced=tune, only=only, suppressed=suppressed, say=told)
        return rail.prepared_code(prepared)
    return rail.run(root, app, arguments, forced=tune, only=only, verbosity=verbosity, say=say)


def release(root: Path, app: str, *, quick: bool, output: str, say: Say) -> tuple[dict[str, Json], str]:
    """`release [--quick] [-o DIR]`: (JSON document, text)."""
    from dataclasses import asdict

    from tunebuild import releaseflows

    done = releaseflows.make(root, app, quick=quick, output=output, say=say)
    document: dict[str, Json] = {
        "app": done.app,
        "folder": str(done.folder),
        "files": list(done.files),
        "scopes": [asdict(plan) for plan in done.plans],
        "checks": [asdict(check) for check in done.checks],
        "provenance": done.provenance,
    }
    listed = "\n".join(f"  {file}" for file in done.files)
    return document, f"released {done.app} in {done.folder}\n{listed}\nprovenance: {done.provenance}"

"""What the commands of the rail do: `run`, with its `--prepare` for an executable's guard, and `release`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tunebuild import policy, rail

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
    prepare: bool,
    say: Say,
) -> int:
    """`run [APP] [--tune] [--tune-only TOK,…] [-- ARGS]`; the app replaces this process."""
    verbosity: policy.Verbosity | None = "silent" if quiet else "verbose" if verbose else None
    if prepare:
        return rail.prepared_code(rail.prepare(root, app, forced=tune, only=only, say=say))
    return rail.run(root, app, arguments, forced=tune, only=only, verbosity=verbosity, say=say)

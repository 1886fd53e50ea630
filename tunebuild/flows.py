"""The straight lines: each command's work from top to bottom. Only `cli` prints and exits."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tunebuild import codegen, emit, front, generate, memo, plan
from tunebuild.front import Failure, Ran
from tunebuild.generate import Generated
from tunebuild.model import Mode, Rejected

Say = Callable[[str], None]
BUILD_LOCK = "build/build"


@dataclass(frozen=True, slots=True)
class Built:
    """What a build did. ``rejected``: rows that did not compile, with the compiler's words."""

    generated: Generated
    ran: tuple[Ran, ...]
    rejected: tuple[Rejected, ...] = ()

    @property
    def made(self) -> tuple[str, ...]:
        return tuple(output for ran in self.ran for output in ran.made)

    @property
    def hits(self) -> tuple[str, ...]:
        return tuple(output for ran in self.ran for output in ran.hits)


def build(
    root: Path, mode: Mode, *, app: str = "", frozen: bool = False, explain: bool = False, say: Say
) -> Built:
    """tune.toml -> C -> ninja -> artifacts. ``app`` "" builds all apps.

    :raises WorkFailed: when a compile or a link fails, with the tool's words.
    """
    with emit.locked(root / BUILD_LOCK, wait_message="another build runs here, waiting"):
        if mode != "normal":
            built = _build_tune(root, say=say, explain=explain)
        else:
            generated = generate.generate(root, frozen=frozen)
            generate.emit_all(generated)
            target = f"app_{codegen.identifier(generated.app(app).name)}" if app else "normal"
            ran = front.must(front.run(generated, (target,), explain=explain, say=say), "the build")
            built = Built(generated, (ran,))
        _remember(built.generated, mode if not app else "", frozen)
    return built


def build_tune(root: Path, *, say: Say, target: str = "") -> Built:
    """The all-variants binary; a row that does not compile is rejected and the others go on."""
    with emit.locked(root / BUILD_LOCK, wait_message="another build runs here, waiting"):
        built = _build_tune(root, say=say, target=target)
        if not target:
            _remember(built.generated, "tune", False)
    return built


def _build_tune(root: Path, *, say: Say, explain: bool = False, target: str = "") -> Built:
    generated = generate.generate(root, target=target, mode="tune")
    generate.emit_all(generated)
    rows = front.run(generated, ("rows",), keep_going=True, explain=explain, say=say)
    known = generate.read_broken(generated.root)
    broken = _broken(generated, rows.failures)
    if {name: entry["digest"] for name, entry in broken.items()} != {
        name: entry.get("digest") for name, entry in known.items()
    }:
        emit.write_if_changed(generated.root / generate.BROKEN, json.dumps(broken, sort_keys=True, indent=1))
        generated = generate.generate(root, target=target, mode="tune")
        generate.emit_all(generated)
    others = tuple(failure for failure in rows.failures if _symbol(failure) not in broken)
    if others:
        front.must(replace(rows, failures=others), "the tune build")
    linked = front.must(front.run(generated, ("tune",), explain=explain, say=say), "the tune build")
    rejected = tuple(
        Rejected(name.partition("__")[2], "compile", entry["why"], f"tunebuild explain {name}")
        for name, entry in broken.items()
    )
    return Built(generated, (rows, linked), rejected)


def _symbol(failure: Failure) -> str:
    return Path(failure.output).name.removesuffix(".o")


def _broken(generated: Generated, failures: Iterable[Failure]) -> dict[str, dict[str, str]]:
    """Of the edges that failed, the rows: their text's digest and the compiler's words."""
    rows: dict[str, tuple[str, tuple[str, ...]]] = {}
    for planned in generated.plan.families:
        for row in planned.built:
            for function in planned.functions:
                path = codegen.row_path(planned.family.name, function.name, row.suffix)
                rows[codegen.symbol(function.name, row.suffix)] = (path, plan.row_flags(planned.family, row))
    found = {}
    for failure in failures:
        name = _symbol(failure)
        if name in rows:
            path, flags = rows[name]
            digest = generate.row_digest(generated.files[path], flags)
            found[name] = {"digest": digest, "why": failure.words.strip()}
    return found


def _remember(generated: Generated, mode: str, frozen: bool) -> None:
    """Write the memo that lets the next build of this mode start ninja at once."""
    root = generated.root
    paths: list[Path] = [*generated.inputs, root / "build/build.ninja", root / "build/local.ninja"]
    for folder in generated.watched_folders():
        paths.append(folder)
        for above, folders, names in os.walk(folder):
            paths += [Path(above, name) for name in (*folders, *names)]
    paths.append(Path(__file__).parent)
    modes = [mode] if mode else []
    watched = {str(path): memo.signature(str(path)) for path in dict.fromkeys(paths)}
    old = _old_memo(root)
    if old.get("watched") == watched and old.get("frozen") == frozen:
        kept = old.get("modes")
        modes = sorted({*modes, *(kept if isinstance(kept, list) else ())})
    document = {
        "version": memo.VERSION,
        "frozen": frozen,
        "modes": modes,
        "ninja": front.ninja_path(),
        "kernel": os.uname().release,
        "environment": memo.environment(),
        "watched": watched,
    }
    emit.write_if_changed(root / memo.MEMO, json.dumps(document))


def _old_memo(root: Path) -> Mapping[str, object]:
    try:
        found = json.loads((root / memo.MEMO).read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}

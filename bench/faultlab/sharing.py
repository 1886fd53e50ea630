"""Rows 8 and 9: many writers of one sidecar, whole mints among them, and a lock whose holder dies."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import time
from pathlib import Path

from faultlab.common import BOX, Result, Tally, environment, holder, workshop
from faultlab.tiny import BRIEF, Tiny
from tunebuild import sidecar
from tunebuild.document import Document
from tunebuild.upsert import Change


def concurrent(quick: bool) -> Result:
    """Row 8. Eight mints of different scopes write one sidecar at once: every entry and note is there."""
    writers, rounds = 8, 10 if quick else 50
    tally = Tally()
    with workshop() as folder:
        path = folder / "a.tune.json"
        fork = multiprocessing.get_context("fork")
        running = [fork.Process(target=_mint, args=(path, number, rounds)) for number in range(writers)]
        for process in running:
            process.start()
        for process in running:
            process.join()
        found = sidecar.read(path)
        assert isinstance(found, Document), found
        for number in range(writers):
            for key in (f"w{number}_{turn}" for turn in range(rounds)):
                tally.add(key, "" if key in found.kernels and key in found.race else "lost")
            last = found.provenance.get(f"pin{number}")
            tally.add(f"pin{number}", "" if last == rounds - 1 else f"is {last}")
        mints = 1 if quick else 50
        _whole_mints(folder, mints, tally)
    fault = f"{writers} writers of different scopes, {rounds} rounds; {len(_SCOPES)} mints at once, {mints} rounds"
    return tally.result(8, fault)


_SCOPES = tuple(f"scale{number}" for number in range(8))


def _whole_mints(folder: Path, rounds: int, tally: Tally) -> None:
    """The command itself: a `tunebuild mint --only` for each of eight scopes, started together."""
    project = Tiny(folder / "tiny", environment(folder, TUNEBUILD_NOISE_OVERRIDE="1"))
    project.write(BRIEF, families=_SCOPES)
    project.must("build", "--mode", "tune")
    for number in range(rounds):
        project.sidecar.unlink(missing_ok=True)
        running = [_start(project, scope) for scope in _SCOPES]
        said = [process.communicate()[0] for process in running]
        found = sidecar.read(project.sidecar)
        assert isinstance(found, Document), found
        for scope, process, words in zip(_SCOPES, running, said, strict=True):
            kept = scope in found.kernels and scope in found.race and scope in found.built
            failed = f"exit {process.returncode}: {words[-200:]}" if process.returncode else ""
            tally.add(f"round {number}, mint of {scope}", failed or ("" if kept else "lost"))
        archived = sum(1 for path in (folder / "history").rglob("*.tune.json"))
        wanted = (number + 1) * len(_SCOPES)
        tally.add(
            f"round {number}, history", "" if archived == wanted else f"{archived} of {wanted} archived"
        )


def _start(project: Tiny, scope: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tunebuild", "mint", "--quiet", "--only", f"={scope}"], cwd=project.root,
        env=dict(project.env), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def _mint(path: Path, number: int, rounds: int) -> None:
    for turn in range(rounds):
        key = f"w{number}_{turn}"
        notes = {f"pin{number}": turn}
        change = Change({key: "a"}, {key: {"winner": "a"}}, {key: {"source": "s"}}, notes=notes)
        sidecar.save(path, change, box=BOX)


def dead_holder(quick: bool) -> Result:
    """Row 9. The holder of the lock is killed while another waits: the other goes on within a second."""
    tally = Tally()
    with workshop() as folder:
        path = folder / "a.tune.json"
        for number in range(3 if quick else 20):
            with holder(path) as holding:
                waiter = multiprocessing.get_context("fork").Process(target=_mint, args=(path, number, 1))
                waiter.start()
                time.sleep(0.05)
                waited = waiter.is_alive()
                holding.kill()
                killed = time.monotonic()
                waiter.join(10)
                took = time.monotonic() - killed
            free = took < 1 and waiter.exitcode == 0
            tally.add(f"holder {number}", "" if waited and free else f"waited: {waited}, took {took:.1f} s")
    return tally.result(9, "lock holder killed while another waits: free within a second")

"""Rows 8 and 9: many writers of one sidecar, and a lock whose holder dies."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import time
from pathlib import Path

from faultlab.common import BOX, ROOT, Result, Tally, workshop
from tunebuild import sidecar
from tunebuild.document import Document
from tunebuild.upsert import Change

_HOLD = (
    "import sys, time, pathlib\nfrom tunebuild import emit\n"
    "with emit.locked(pathlib.Path(sys.argv[1])):\n    print('held', flush=True)\n    time.sleep(600)\n"
)


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
    return tally.result(8, f"{writers} concurrent mints of different scopes, {rounds} rounds")


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
        words = [sys.executable, "-c", _HOLD, str(path)]
        for number in range(3 if quick else 20):
            with subprocess.Popen(words, stdout=subprocess.PIPE, env={"PYTHONPATH": str(ROOT)}) as holder:
                assert holder.stdout is not None
                holder.stdout.readline()
                waiter = multiprocessing.get_context("fork").Process(target=_mint, args=(path, number, 1))
                waiter.start()
                time.sleep(0.05)
                waited = waiter.is_alive()
                holder.kill()
                killed = time.monotonic()
                waiter.join(10)
                took = time.monotonic() - killed
            free = took < 1 and waiter.exitcode == 0
            tally.add(f"holder {number}", "" if waited and free else f"waited: {waited}, took {took:.1f} s")
    return tally.result(9, "lock holder killed while another waits: free within a second")

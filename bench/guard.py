"""What the guard costs when nothing is to do: starts of one program built with its rail live, and inert.

    python bench/guard.py [--starts N] [--json]

The program has 100 seats, and a sidecar as large as that of the catalogue with its races. Starts of both builds
alternate in one run; the difference is the guard: of medians, of the best starts, and of the median CPU time, the truer
ones on a busy machine. `ratio` is that of the median starts.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tunebuild import artifact, host
from tunebuild import codegen_artifact as artifacts
from tunebuild.model import App, Stamp

RUNTIME = Path(artifacts.__file__).parent / "runtime"
SIDECAR_BYTES = 220_000


def facts(sidecar: Path) -> artifacts.ArtifactFacts:
    box = host.box({})
    return artifacts.ArtifactFacts(
        app="demo",
        kind="built",
        policy="auto",
        box=host.match_key(box.identity),
        arch=box.arch,
        project="../..",
        sidecar=sidecar.name,
        sidecar_digest=artifact.sidecar_digest(sidecar),
        stamps=tuple(Stamp(f"f{i}", f"f{i}", "", "u4", "manifest", sidecar.name, "lib") for i in range(100)),
        scopes=(artifacts.ScopeFacts("lib", "none", ""),),
        needs=tuple(sorted(box.features))[:8],
    )


def executables(root: Path) -> dict[str, Path]:
    """The program with its rail live and inert, where a build would lay them, and the sidecar."""
    (root / "build/normal").mkdir(parents=True)
    (root / "tune.toml").touch()
    sidecar = root / "demo.tune.json"
    sidecar.write_bytes(b"{" + b" " * (SIDECAR_BYTES - 2) + b"}")
    live = facts(sidecar)
    inert = replace(live, kind="frozen", policy="fallback", box="", sidecar_digest="", scopes=(), needs=())
    return {name: compiled(root, name, one) for name, one in (("live", live), ("inert", inert))}


def compiled(root: Path, name: str, one: artifacts.ArtifactFacts) -> Path:
    texts = {
        "status.c": artifacts.status_source(one),
        "main.c": artifacts.main_source(App("demo", "exe", ())),
        "app.c": "int tb_app_main(void) { return 0; }\n",
    }
    (root / name).mkdir()
    for file, text in texts.items():
        (root / name / file).write_text(text)
    compiler = shutil.which("gcc") or shutil.which("clang") or "cc"
    target = root / "build/normal" / name
    files = [str(root / name / file) for file in texts]
    subprocess.run([compiler, "-O2", f"-I{RUNTIME}", *files, "-o", str(target)], check=True)
    return target


def start_ms(program: Path, environ: dict[str, str]) -> tuple[float, float]:
    """One start: wall clock and CPU time, milliseconds."""
    began = time.perf_counter_ns()
    child = os.posix_spawn(program, [str(program)], environ)
    _, status, used = os.wait4(child, 0)
    wall_ms = (time.perf_counter_ns() - began) / 1e6
    assert status == 0
    return wall_ms, 1e3 * (used.ru_utime + used.ru_stime)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--starts", type=int, default=400)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TUNEBUILD_")}
    with tempfile.TemporaryDirectory() as folder:
        programs = executables(Path(folder))
        for program in programs.values():
            done = subprocess.run([program], env=clean, capture_output=True)
            assert done.returncode == 0 and not done.stderr, "nothing is to do"
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in programs}
        for _ in range(options.starts):
            for name, program in programs.items():
                times[name].append(start_ms(program, clean))
    wall = {name: [one for one, _ in pairs] for name, pairs in times.items()}
    cpu = {name: [one for _, one in pairs] for name, pairs in times.items()}
    found: dict[str, float] = {}
    for name, pick, of in (
        ("median", statistics.median, wall),
        ("best", min, wall),
        ("cpu", statistics.median, cpu),
    ):
        live, inert = pick(of["live"]), pick(of["inert"])
        found |= {f"start_{name}_ms": round(live, 3), f"guard_{name}_ms": round(live - inert, 3)}
    found["ratio"] = round(statistics.median(wall["live"]) / statistics.median(wall["inert"]), 2)
    print(
        json.dumps(found) if options.json else "\n".join(f"{name}: {value}" for name, value in found.items())
    )


if __name__ == "__main__":
    main()

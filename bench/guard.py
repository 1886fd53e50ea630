"""What the guard costs when nothing is to do: starts of one executable with its rail live and switched off.

    python bench/guard.py [--starts N] [--json]

Both kinds of start alternate in one run; the difference is the guard, of medians and of best starts: on a busy
machine the second is the truer one. The sidecar has 40 KB.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tunebuild import codegen_artifact as artifacts
from tunebuild import host
from tunebuild.model import App, Stamp

RUNTIME = Path(artifacts.__file__).parent / "runtime"
SIDECAR_BYTES = 40_000


def executable(root: Path) -> Path:
    """A tuned executable with 100 seats, its sidecar beside the project's tune.toml."""
    (root / "build/normal").mkdir(parents=True)
    (root / "tune.toml").touch()
    sidecar = b"{" + b" " * (SIDECAR_BYTES - 2) + b"}"
    (root / "demo.tune.json").write_bytes(sidecar)
    box = host.box({})
    facts = artifacts.ArtifactFacts(
        app="demo",
        kind="built",
        policy="auto",
        box=host.match_key(box.identity),
        arch=box.arch,
        project="../..",
        sidecar="demo.tune.json",
        sidecar_digest=hashlib.sha256(sidecar).hexdigest(),
        stamps=tuple(
            Stamp(f"f{i}", f"f{i}", "", "u4", "manifest", "demo.tune.json", "lib") for i in range(100)
        ),
        scopes=(artifacts.ScopeFacts("lib", "none", ""),),
        needs=tuple(sorted(box.features))[:8],
    )
    texts = {
        "status.c": artifacts.status_source(facts),
        "main.c": artifacts.main_source(App("demo", "exe", ())),
        "app.c": "int tb_app_main(void) { return 0; }\n",
    }
    for name, text in texts.items():
        (root / name).write_text(text)
    compiler = shutil.which("gcc") or shutil.which("clang") or "cc"
    target = root / "build/normal/demo"
    files = [str(root / name) for name in texts]
    subprocess.run([compiler, "-O2", f"-I{RUNTIME}", *files, "-o", str(target)], check=True)
    return target


def start_ms(program: Path, environ: dict[str, str]) -> float:
    began = time.perf_counter_ns()
    child = os.posix_spawn(program, [str(program)], environ)
    _, status = os.waitpid(child, 0)
    assert status == 0
    return (time.perf_counter_ns() - began) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--starts", type=int, default=400)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TUNEBUILD_")}
    off = {**clean, "TUNEBUILD_MODE": "tune"}
    with tempfile.TemporaryDirectory() as folder:
        program = executable(Path(folder))
        times: dict[str, list[float]] = {"live": [], "off": []}
        for _ in range(options.starts):
            times["live"].append(start_ms(program, clean))
            times["off"].append(start_ms(program, off))
    found: dict[str, float] = {}
    for name, pick in (("median", statistics.median), ("best", min)):
        live, plain = pick(times["live"]), pick(times["off"])
        found |= {f"start_{name}_ms": round(live, 3), f"guard_{name}_ms": round(live - plain, 3)}
    print(
        json.dumps(found) if options.json else "\n".join(f"{name}: {value}" for name, value in found.items())
    )


if __name__ == "__main__":
    main()

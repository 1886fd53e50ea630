"""One tuning by Kernel Tuner's C backend, run by the interpreter of its own environment.

    python theirs.py JOB

JOB is a JSON document: the file of the timing function, the rows' count, the flags, the elements, the core. The
answer is a JSON document, the last line: the time of each row, what was compiled with, the library's version.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import sys

import numpy as np
from kernel_tuner import tune_kernel


def main() -> None:
    job = json.loads(sys.argv[1])
    os.sched_setaffinity(0, {job["core"]})
    os.chdir(job["folder"])  # it writes what it compiles where it runs
    random = np.random.default_rng(1)
    a, b = (random.standard_normal(job["elements"]).astype(np.float32) for _ in range(2))
    found, _ = tune_kernel(
        "timed",
        job["source"],
        1,
        [a, b, np.uint64(job["elements"]), np.float32(job["window_ms"])],
        {"tb_row": list(range(job["rows"]))},
        lang="C",
        compiler="gcc",
        compiler_options=[*job["flags"], f"-I{job['folder']}"],
        quiet=True,
    )
    times = {entry["tb_row"]: entry["time"] for entry in found if isinstance(entry["time"], float)}
    print(json.dumps({"times": times, "version": importlib.metadata.version("kernel-tuner")}))


if __name__ == "__main__":
    main()

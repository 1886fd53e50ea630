"""The libraries raced: where each one is, which version, and which kernels it chose for this CPU."""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
GGML = "@node-llama-cpp/linux-x64@3.21.1"  # its vendor's build of ggml, one library for each kind of CPU
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "MKL_THREADING_LAYER": "SEQUENTIAL"}
UNSET = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "MKL_DEBUG_CPU_TYPE", "MKL_ENABLE_INSTRUCTIONS")


@dataclass(frozen=True, slots=True)
class Library:
    """``note``: which kernels it runs, in its own words."""

    handles: tuple[ctypes.CDLL, ...]
    version: str
    note: str = ""
    prefix: str = ""

    def symbol(self, name: str) -> Any:
        for handle in self.handles:
            for each in (self.prefix + name, name):
                if hasattr(handle, each):
                    return getattr(handle, each)
        raise LookupError(name)

    def has(self, name: str) -> bool:
        try:
            self.symbol(name)
        except LookupError:
            return False
        return True


def environ() -> dict[str, str]:
    """One thread everywhere, and no library told what CPU it is on."""
    return {name: value for name, value in os.environ.items() if name not in UNSET} | ONE_THREAD


def _packages() -> Path:
    return next(Path(sys.prefix).glob("lib/python3*/site-packages"))


def _only(pattern: str, folder: Path | None = None) -> Path:
    found = sorted((folder or _packages()).glob(pattern))
    if not found:
        raise FileNotFoundError(f"{pattern} is not installed")
    return found[0]


def openblas(work: Path) -> Library:
    handle = ctypes.CDLL(str(_only("scipy_openblas32/lib/libscipy_openblas.so")))
    core = handle.scipy_openblas_get_corename
    core.restype = ctypes.c_char_p
    handle.scipy_openblas_set_num_threads(1)
    return Library((handle,), metadata.version("scipy-openblas32"), f"kernel {core().decode()}", "scipy_")


def mkl(work: Path) -> Library:
    handle = ctypes.CDLL(str(Path(sys.prefix) / "lib/libmkl_rt.so.3"))
    handle.MKL_Set_Num_Threads(1)
    return Library((handle,), metadata.version("mkl"), "its own choice for this CPU, sequential layer")


def simsimd(work: Path) -> Library:
    import simsimd as module  # type: ignore[import-not-found]

    on = ", ".join(name for name, has in module.get_capabilities().items() if has)
    return Library((ctypes.CDLL(str(_only("simsimd*.so"))),), metadata.version("simsimd"), on)


def numkong(work: Path) -> Library:
    import numkong as module  # type: ignore[import-not-found]

    on = ", ".join(name for name, has in module.get_capabilities().items() if has)
    return Library((ctypes.CDLL(str(_only("numkong/_numkong*.so"))),), metadata.version("numkong"), on)


def torch(work: Path) -> Library:
    """torch's C++ operators, behind the plain C names of torch_ops.cpp."""
    root = _only("torch")
    path, text = work / "libtorch_ops.so", HERE / "torch_ops.cpp"
    if not path.exists() or path.stat().st_mtime < text.stat().st_mtime:
        command = [
            "g++",
            "-O2",
            "-std=c++20",
            "-fPIC",
            "-shared",
            f"-I{root}/include",
            str(text),
            "-o",
            str(path),
        ]
        command += [f"-L{root}/lib", "-ltorch_cpu", "-lc10", f"-Wl,-rpath,{root}/lib"]
        subprocess.run(command, check=True)
    handle = ctypes.CDLL(str(path))
    handle.torch_one_thread()
    return Library((handle,), metadata.version("torch"), "C++ operators, dispatch included")


def ggml(work: Path) -> Library:
    """ggml's own functions and its graphs of ggml_ops.c. There when `--ggml` fetched it."""
    folder = work / "ggml/package/bins/linux-x64"
    kind = _ggml_kind()
    cpu = _only(f"libggml-cpu-{kind}.so", folder)
    path, text = work / "libggml_ops.so", HERE / "ggml_ops.c"
    if not path.exists() or path.stat().st_mtime < text.stat().st_mtime:
        command = ["gcc", "-O2", "-std=c17", "-fPIC", "-shared", str(text), "-o", str(path)]
        command += [str(cpu), str(folder / "libggml-base.so"), f"-Wl,-rpath,{folder}"]
        subprocess.run(command, check=True)
    handles = (ctypes.CDLL(str(path)), ctypes.CDLL(str(cpu)))
    handles[1].ggml_cpu_init()  # its tables of f16
    return Library(handles, GGML.rpartition("@")[2], f"ggml-cpu-{kind}, as built for node-llama-cpp")


def _ggml_kind() -> str:
    flags = set(cpu_flags())
    if {"amx_int8", "avx512_bf16"} <= flags:
        return "sapphirerapids"
    if "avx512_bf16" in flags:
        return "zen4"
    return "icelake" if "avx512_vnni" in flags else "haswell"


def fetch_ggml(work: Path) -> str:
    """Fetch ggml's libraries with npm; "" or why that failed."""
    folder = work / "ggml"
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / "package").exists():
        return ""
    if not shutil.which("npm"):
        return "ggml: npm is not installed"
    done = subprocess.run(["npm", "pack", "--silent", GGML], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        return f"ggml: npm could not fetch {GGML}"
    with tarfile.open(_only("*.tgz", folder)) as archive:
        archive.extractall(folder, filter="data")
    return ""


def libc(work: Path) -> Library:
    return Library((ctypes.CDLL(None),), " ".join(platform.libc_ver()))


OPENERS: dict[str, Callable[[Path], Library]] = {
    "OpenBLAS": openblas, "MKL": mkl, "SimSIMD": simsimd, "NumKong": numkong, "torch": torch, "ggml": ggml,
    "libc": libc,
}  # fmt: skip


def opened(work: Path) -> tuple[dict[str, Library], list[str]]:
    """Every library that can be opened, and a line for each that cannot."""
    found, missing = {}, []
    for name, opener in OPENERS.items():
        try:
            found[name] = opener(work)
        except (OSError, ImportError, LookupError, subprocess.CalledProcessError) as error:
            missing.append(f"{name}: {error}")
    return found, missing


def cpu_flags() -> list[str]:
    return next(_cpuinfo("flags"), "").split()


def cpu_name() -> str:
    return next(_cpuinfo("model name"), platform.processor())


def _cpuinfo(key: str) -> Iterator[str]:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            yield value.strip()

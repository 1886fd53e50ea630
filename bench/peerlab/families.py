"""What is raced: each family's shapes, buffers, and the calls that do its work, ours and the others'.

A call is C text over the family's buffers and sizes; ``symbols`` gives the types of the functions that it uses.
``state`` is what its setup leaves for it, ``spare`` is room for packed operands, ``keep`` is set when the result is
wanted: an operator that allocates its own result copies it out then, and never while it is timed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .truth import dotted, each, f64, from_bf16, largest, product, q4_0, q8_0, quantized, rmsnorm, softmax

Arrays = Mapping[str, Any]
Sizes = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Shape:
    name: str
    sizes: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Buffer:
    """``count``: elements, as a Python expression over the sizes. ``role``: in, out or scratch."""

    element: str
    count: str
    role: str = "in"
    fill: str = "normal"


@dataclass(frozen=True, slots=True)
class Call:
    library: str
    symbols: Mapping[str, str]
    call: str
    setup: str = ""
    label: str = ""
    limit: Callable[[Sizes], bool] = field(default=lambda sizes: True)  # the shapes where it takes part
    checked: bool = True  # a roof has no result

    def __post_init__(self) -> None:
        object.__setattr__(self, "label", self.label or self.library)


@dataclass(frozen=True, slots=True)
class Family:
    """``truth``: result and scale of error in float64; ``tolerance``: largest error over scale."""

    name: str
    shapes: tuple[Shape, ...]
    buffers: Mapping[str, Buffer]
    result: str
    truth: Callable[[Arrays, Sizes], tuple[Any, Any]]
    tolerance: float
    ours: Call
    reference: Call
    peers: tuple[Call, ...]


def shapes(**named: Mapping[str, int]) -> tuple[Shape, ...]:
    return tuple(Shape(name, sizes) for name, sizes in named.items())


def lengths(*values: int) -> tuple[Shape, ...]:
    return tuple(Shape(str(n), {"n": n}) for n in values)


def both(name: str, kind: str, call: str, setup: str = "", plain: str = "", **more: str) -> tuple[Call, Call]:
    """Our call, and the plain reference's under the same name. ``plain``: its call where no operand is packed."""
    ours = Call("ours", {name: kind, **more}, call, setup)
    return ours, Call("reference", {name: kind}, plain or call)


# --- C types ----------------------------------------------------------------------------------------

F32 = "const float *"
SDOT = f"float (int, {F32}, int, {F32}, int)"
SAXPY = f"void (int, float, {F32}, int, float *, int)"
SCOPY = f"void (int, {F32}, int, float *, int)"
SGEMM = f"void (int, int, int, int, int, int, float, {F32}, int, {F32}, int, float, float *, int)"
SGEMV = f"void (int, int, int, int, float, {F32}, int, {F32}, int, float, float *, int)"
JIT_MAKE = "int (void **, int, int, int, int, int, int, float, int, int, float, int)"
JIT_RUN = "void *(const void *)"
PACK = f"void (int, int, int, int, int, int, float, {F32}, int, float *)"
COMPUTE = f"void (int, int, int, int, int, int, {F32}, int, {F32}, int, float, float *, int)"
VML2 = f"void (int, {F32}, float *, long long)"
VML3 = f"void (int, {F32}, {F32}, float *, long long)"
COPY = f"void (char, char, size_t, size_t, float, {F32}, size_t, float *, size_t)"
PACK_SIZE = "size_t (int, int, int, int)"
PACK_F32 = f"void ({F32}, float *, size_t, size_t)"
PACK_I8 = "void (const int8_t *, int8_t *, size_t, size_t)"
PACK_Q8_0 = "void (const uint8_t *, uint8_t *, size_t, size_t)"
BF16 = "const uint16_t *"
BF16_GEMM = f"void (int, int, int, int, int, int, float, {BF16}, int, {BF16}, int, float, float *, int)"
INT_GEMM = (
    "void (int, int, int, int, int, int, int, float, const void *, int, int8_t, const void *, int, int8_t, "
    "float, int32_t *, int, const int32_t *)"
)
NK_PACK = "void (const int8_t *, size_t, size_t, size_t, void *)"
NK_PACKED = "void (const int8_t *, const void *, int32_t *, size_t, size_t, size_t, size_t, size_t)"
TENSOR = "void *(void *, long, long, int)"
TORCH2 = "void (void *, void *)"
TORCH3 = "void (void *, void *, void *)"
GGML_ROWS = f"void *(int, {F32}, {F32}, size_t, size_t, float)"
GGML_RUN = "void (void *, void *, int)"
GGML_DOT = "void (int, float *, size_t, const void *, size_t, const void *, size_t, int)"
# BLAS counts: 101 rows first, 111 as it lies, 112 transposed, 151 packed, 162 packed b, 173 one offset.


def blas(symbol: str, kind: str, call: str) -> tuple[Call, Call]:
    return Call("OpenBLAS", {symbol: kind}, call), Call("MKL", {symbol: kind}, call)


def torch(name: str, rows: str, cols: str) -> Call:
    """torch's operator of one operand, over matrices."""
    setup = f"tx = torch_tensor(x, {rows}, {cols}, 0), ty = torch_tensor(y, {rows}, {cols}, 0)"
    return Call("torch", {name: TORCH2, "torch_tensor": TENSOR}, f"{name}(ty, tx)", setup)


def ggml_rows(kind: int, rows: str, cols: str, w: str = "0", eps: str = "0") -> Call:
    return Call(
        "ggml",
        {"peer_ggml_rows": GGML_ROWS, "peer_ggml_run": GGML_RUN},
        "peer_ggml_run(state, y, keep)",
        f"state = peer_ggml_rows({kind}, x, {w}, {rows}, {cols}, {eps})",
    )


def jit(m: str, n: str, k: str) -> Call:
    """MKL's generated kernel for one shape. Larger shapes fall back to its ordinary sgemm."""
    return Call(
        "MKL",
        {"mkl_cblas_jit_create_sgemm": JIT_MAKE, "mkl_jit_get_sgemm_ptr": JIT_RUN},
        "((void (*)(void *, const float *, const float *, float *))spare)(state, a, b, c)",
        f"mkl_cblas_jit_create_sgemm(&state, 101, 111, 111, {m}, {n}, {k}, 1.0f, {k}, {n}, 0.0f, {n}), "
        "spare = mkl_jit_get_sgemm_ptr(state)",
        label="MKL JIT",
        limit=lambda sizes: max(sizes.values()) <= 128,
    )


# --- the families -----------------------------------------------------------------------------------


def _dot(
    element: str, ctype: str, simsimd: str, numkong: str, ours: str, truth: Any, more: Any = ()
) -> Family:
    """A dot product of narrow elements. The others write their sum through a pointer."""
    name = f"dot_{element}"
    mine, plain = both(name, f"{ours} (const {ctype} *, const {ctype} *, size_t)", f"r[0] = {name}(a, b, n)")
    kind = f"void (const {ctype} *, const {ctype} *, size_t, OUT *)"
    peers = (
        Call("SimSIMD", {f"simsimd_dot_{element}": kind.replace("OUT", simsimd)},
             f"{simsimd} s; simsimd_dot_{element}(a, b, n, &s); r[0] = s"),
        Call("NumKong", {f"nk_dot_{element}": kind.replace("OUT", numkong)},
             f"{numkong} s; nk_dot_{element}(a, b, n, &s); r[0] = s"),
        *more,
    )  # fmt: skip
    buffers = {"a": Buffer(element, "n"), "b": Buffer(element, "n"), "r": Buffer("f64", "1", "out")}
    sizes = lengths(1024, 4096, 65536)
    return Family(name, sizes, buffers, "r", truth, 0.0 if element == "i8" else 1e-5, mine, plain, peers)


def dots() -> tuple[Family, ...]:
    ours, plain = both("dot_f32", f"float ({F32}, {F32}, size_t)", "r[0] = dot_f32(a, b, n)")
    narrow = f"void ({F32}, {F32}, size_t, double *)"
    f32 = Family(
        "dot_f32",
        lengths(64, 100, 1024, 2048, 16384, 65536, 1048576, 4194304),
        {"a": Buffer("f32", "n"), "b": Buffer("f32", "n"), "r": Buffer("f64", "1", "out")},
        "r",
        lambda v, s: dotted(f64(v["a"]), f64(v["b"])),
        1e-5,
        ours,
        plain,
        (
            *blas("cblas_sdot", SDOT, "r[0] = cblas_sdot((int)n, a, 1, b, 1)"),
            Call("SimSIMD", {"simsimd_dot_f32": narrow}, "simsimd_dot_f32(a, b, n, r)"),
            Call("NumKong", {"nk_dot_f32": narrow}, "nk_dot_f32(a, b, n, r)"),
        ),
    )

    def half(name: str) -> tuple[Call]:
        call = f"float s; {name}((int)n, &s, 0, a, 0, b, 0, 1); r[0] = s"
        return (Call("ggml", {name: GGML_DOT}, call),)

    return (
        f32,
        _dot("f16", "uint16_t", "double", "float", "float",
             lambda v, s: dotted(f64(v["a"]), f64(v["b"])), half("ggml_vec_dot_f16")),
        _dot("bf16", "uint16_t", "double", "float", "float",
             lambda v, s: dotted(from_bf16(v["a"]), from_bf16(v["b"])), half("ggml_vec_dot_bf16")),
        _dot("i8", "int8_t", "double", "int32_t", "int32_t", lambda v, s: dotted(f64(v["a"]), f64(v["b"]))),
    )  # fmt: skip


def elementwise() -> tuple[Family, ...]:
    x, y = Buffer("f32", "n"), Buffer("f32", "n", "out")
    axpy = both("axpy", f"void (float *, {F32}, float, size_t)", "axpy(y, x, 1e-3f, n)")
    add = both("add_f32", f"void ({F32}, {F32}, float *, size_t)", "add_f32(a, b, y, n)")
    scale = both("scale_f32", f"void ({F32}, float *, float, size_t)", "scale_f32(x, y, 1.5f, n)")
    copy = both("copy_f32", f"void ({F32}, float *, size_t)", "copy_f32(x, y, n)")
    exp = both("exp_f32", f"void ({F32}, float *, size_t)", "exp_f32(x, y, n)")
    silu = both("silu_f32", f"void ({F32}, float *, size_t)", "silu_f32(x, y, n)")
    unary = "tx = torch_tensor(x, 1, (long)n, 0), ty = torch_tensor(y, 1, (long)n, 0)"
    return (
        Family(
            "axpy", lengths(2048, 16384, 65536, 4194304), {"x": x, "y": Buffer("f32", "n", "inout")}, "y",
            lambda v, s: largest(f64(v["y"]) + 1e-3 * f64(v["x"])), 1e-6, *axpy,
            blas("cblas_saxpy", SAXPY, "cblas_saxpy((int)n, 1e-3f, x, 1, y, 1)"),
        ),
        Family(
            "add_f32", lengths(2048, 65536, 4194304), {"a": x, "b": x, "y": y}, "y",
            lambda v, s: largest(f64(v["a"]) + f64(v["b"])), 1e-6, *add,
            (
                Call("MKL", {"vmsAdd": f"void (int, {F32}, {F32}, float *, long long)"}, "vmsAdd((int)n, a, b, y, 1)"),
                Call("NumKong", {"nk_each_sum_f32": f"void ({F32}, {F32}, size_t, float *)"},
                     "nk_each_sum_f32(a, b, n, y)"),
                Call("torch", {"torch_add": TORCH3, "torch_tensor": TENSOR}, "torch_add(ty, tx, tw)",
                     "tx = torch_tensor(a, 1, (long)n, 0), tw = torch_tensor(b, 1, (long)n, 0), "
                     "ty = torch_tensor(y, 1, (long)n, 0)"),
            ),
        ),
        Family(
            "scale_f32", lengths(2048, 65536, 4194304), {"x": x, "y": y}, "y",
            lambda v, s: largest(f64(v["x"]) * 1.5), 1e-6, *scale,
            (
                Call("MKL", {"MKL_Somatcopy": COPY},
                     "MKL_Somatcopy('R', 'N', 1, n, 1.5f, x, n, y, n)"),
                Call("NumKong", {"nk_each_scale_f32": f"void ({F32}, size_t, {F32}, {F32}, float *)"},
                     "const float by = 1.5f, plus = 0.0f; nk_each_scale_f32(x, n, &by, &plus, y)"),
                Call("torch", {"torch_scale": "void (void *, void *, double)", "torch_tensor": TENSOR},
                     "torch_scale(ty, tx, 1.5)", unary),
            ),
        ),
        Family(
            "copy_f32", lengths(2048, 65536, 8388608), {"x": x, "y": y}, "y",
            lambda v, s: largest(f64(v["x"])), 0.0, *copy,
            (
                Call("libc", {"memcpy": "void *(void *, const void *, size_t)"}, "memcpy(y, x, n * sizeof *x)"),
                *blas("cblas_scopy", SCOPY, "cblas_scopy((int)n, x, 1, y, 1)"),
                Call("torch", {"torch_copy": TORCH2, "torch_tensor": TENSOR}, "torch_copy(ty, tx)", unary),
            ),
        ),
        Family(
            "exp_f32", lengths(2048, 32768), {"x": x, "y": y}, "y",
            lambda v, s: each(np.exp(f64(v["x"]))), 5e-7, *exp,
            (
                Call("MKL", {"vmsExp": "void (int, const float *, float *, long long)"}, "vmsExp((int)n, x, y, 1)"),
                torch("torch_exp", "1", "(long)n"),
            ),
        ),
        Family(
            "silu_f32", lengths(2048, 32768), {"x": x, "y": y}, "y",
            lambda v, s: each(f64(v["x"]) / (1 + np.exp(-f64(v["x"])))), 1e-6, *silu,
            (
                torch("torch_silu", "1", "(long)n"),
                Call("ggml", {"ggml_vec_silu_f32": f"void (int, float *, {F32})"}, "ggml_vec_silu_f32((int)n, y, x)"),
            ),
        ),
    )  # fmt: skip


def rows() -> tuple[Family, ...]:
    x, y = Buffer("f32", "rows*cols"), Buffer("f32", "rows*cols", "out")
    soft = both("softmax_f32", f"void ({F32}, float *, size_t, size_t)", "softmax_f32(x, y, rows, cols)")
    norm = both(
        "rmsnorm_f32",
        f"void ({F32}, {F32}, float *, size_t, size_t, float)",
        "rmsnorm_f32(x, w, y, rows, cols, 1e-5f)",
    )
    return (
        Family(
            "softmax_f32",
            shapes(**{f"{r}x{c}": {"rows": r, "cols": c} for r, c in ((32, 1000), (64, 4096), (512, 4096))}),
            {"x": x, "y": y}, "y",
            lambda v, s: softmax(f64(v["x"]).reshape(s["rows"], -1)), 1e-5, *soft,
            (torch("torch_softmax", "(long)rows", "(long)cols"), ggml_rows(0, "rows", "cols")),
        ),
        Family(
            "rmsnorm_f32",
            shapes(**{f"{r}x{c}": {"rows": r, "cols": c} for r, c in ((1, 4096), (64, 4096), (1024, 4096))}),
            {"x": x, "w": Buffer("f32", "cols"), "y": y}, "y",
            lambda v, s: rmsnorm(f64(v["x"]).reshape(s["rows"], -1), f64(v["w"])), 1e-6, *norm,
            (
                Call("torch", {"torch_rms_norm": "void (void *, void *, void *, double, int)", "torch_tensor": TENSOR},
                     "torch_rms_norm(ty, tx, tw, 1e-5, keep)",
                     "tx = torch_tensor(x, (long)rows, (long)cols, 0), tw = torch_tensor(w, 1, (long)cols, 0), "
                     "ty = torch_tensor(y, (long)rows, (long)cols, 0)"),
                ggml_rows(2, "rows", "cols", "w", "1e-5f"),
            ),
        ),
    )  # fmt: skip


def cubes(*sides: int) -> dict[str, dict[str, int]]:
    return {f"{side}^3": {"m": side, "n": side, "k": side} for side in sides}


def cuboids(*sides: tuple[int, int, int]) -> dict[str, dict[str, int]]:
    return {f"{m}x{n}x{k}": {"m": m, "n": n, "k": k} for m, n, k in sides}


def matrices() -> tuple[Family, ...]:
    a, b, c = Buffer("f32", "m*k"), Buffer("f32", "k*n"), Buffer("f32", "m*n", "out")
    times = "101, 111, 111, (int)m, (int)n, (int)k"
    sgemm = both(
        "sgemm",
        f"void ({F32}, {F32}, float *, float *, size_t, size_t, size_t)",
        "sgemm(a, b, c, work, m, n, k)",
    )
    packed = both(
        "gemm_f32", f"void ({F32}, {F32}, float *, size_t, size_t, size_t)", "gemm_f32(a, b, c, m, n, k)",
        "gemm_f32_pack(b0, b, n, k)", "gemm_f32(a, b0, c, m, n, k)", gemm_f32_pack=PACK_F32,
    )  # fmt: skip
    gemv = both(
        "gemv_f32", f"void ({F32}, {F32}, float *, size_t, size_t)", "gemv_f32(x, b, y, n, k)",
        "gemm_f32_pack(b0, b, n, k)", "gemv_f32(x, b0, y, n, k)", gemm_f32_pack=PACK_F32,
    )  # fmt: skip
    tiny = both("sgemm_tiny", f"void ({F32}, {F32}, float *, size_t)", "sgemm_tiny(a, b, c, size)")
    square = "101, 111, 111, (int)size, (int)size, (int)size"
    room = Buffer("f32", "(n+64)*k", "scratch")
    return (
        Family(
            "sgemm",
            shapes(**cubes(64, 128, 256, 512, 1024), **cuboids((4, 1024, 1024), (16, 1024, 1024))),
            {"a": a, "b": b, "c": c, "work": Buffer("f32", "1024*(n+64)", "scratch")}, "c",
            lambda v, s: product(f64(v["a"]).reshape(s["m"], -1), f64(v["b"]).reshape(s["k"], -1)), 1e-5, *sgemm,
            (
                *blas("cblas_sgemm", SGEMM, f"cblas_sgemm({times}, 1, a, (int)k, b, (int)n, 0, c, (int)n)"),
                jit("m", "n", "k"),
            ),
        ),
        Family(
            "sgemm_tiny",
            shapes(**{f"{side}^3": {"size": side} for side in (8, 16, 32)}),
            {name: Buffer("f32", "size*size", role) for name, role in (("a", "in"), ("b", "in"), ("c", "out"))}, "c",
            lambda v, s: product(f64(v["a"]).reshape(s["size"], -1), f64(v["b"]).reshape(s["size"], -1)), 1e-5, *tiny,
            (
                *blas("cblas_sgemm", SGEMM, f"cblas_sgemm({square}, 1, a, (int)size, b, (int)size, 0, c, (int)size)"),
                jit("size", "size", "size"),
            ),
        ),
        Family(
            "gemm_f32", shapes(**cubes(64, 256, 512), **cuboids((64, 1024, 1024))),
            {"a": a, "b0": b, "b": room, "c": c}, "c",
            lambda v, s: product(f64(v["a"]).reshape(s["m"], -1), f64(v["b0"]).reshape(s["k"], -1)), 1e-5, *packed,
            (
                Call("OpenBLAS", {"cblas_sgemm": SGEMM},
                     f"cblas_sgemm({times}, 1, a, (int)k, b0, (int)n, 0, c, (int)n)", label="OpenBLAS, not packed"),
                Call("MKL", {"cblas_sgemm_pack": PACK, "cblas_sgemm_compute": COMPUTE,
                             "cblas_sgemm_pack_get_size": PACK_SIZE, "MKL_malloc": "void *(size_t, int)"},
                     "cblas_sgemm_compute(101, 111, 151, (int)m, (int)n, (int)k, a, (int)k, state, (int)n, 0, c, "
                     "(int)n)",
                     "state = MKL_malloc(cblas_sgemm_pack_get_size(162, (int)m, (int)n, (int)k), 64), "
                     "cblas_sgemm_pack(101, 162, 111, (int)m, (int)n, (int)k, 1, b0, (int)n, state)",
                     label="MKL, packed"),
            ),
        ),
        Family(
            "gemv_f32", shapes(**{f"{n}x{k}": {"n": n, "k": k} for n, k in ((1024, 1024), (4096, 1024))}),
            {"x": Buffer("f32", "k"), "b0": b, "b": room, "y": Buffer("f32", "n", "out")}, "y",
            lambda v, s: product(f64(v["x"]), f64(v["b0"]).reshape(s["k"], -1)), 1e-5, *gemv,
            blas("cblas_sgemv", SGEMV, "cblas_sgemv(101, 112, (int)k, (int)n, 1, b0, (int)n, x, 1, 0, y, 1)"),
        ),
    )  # fmt: skip


def narrow_matrices() -> tuple[Family, ...]:
    bf16 = both(
        "gemm_bf16", "void (const uint16_t *, const uint16_t *, float *, uint16_t *, size_t, size_t, size_t)",
        "gemm_bf16(a, b, c, work, m, n, k)",
    )  # fmt: skip
    u8s8 = both(
        "gemm_u8s8", "void (const uint8_t *, const int8_t *, int32_t *, int8_t *, size_t, size_t, size_t)",
        "gemm_u8s8(a, b, c, work, m, n, k)",
    )  # fmt: skip
    q8 = both(
        "gemm_q8", "void (const int8_t *, const int8_t *, float *, size_t, size_t, size_t)",
        "gemm_q8(w, x, y, m, n, k)", "gemm_q8_pack(w0, w, m, k)", "gemm_q8(w0, x, y, m, n, k)", gemm_q8_pack=PACK_I8,
    )  # fmt: skip
    times = "101, 111, 111, (int)m, (int)n, (int)k"
    return (
        Family(
            "gemm_bf16", shapes(**cubes(64, 256, 512)),
            {"a": Buffer("bf16", "m*k"), "b": Buffer("bf16", "k*n"), "c": Buffer("f32", "m*n", "out"),
             "work": Buffer("bf16", "2*(k+32)*(m+96)", "scratch")}, "c",
            lambda v, s: product(from_bf16(v["a"]).reshape(s["m"], -1), from_bf16(v["b"]).reshape(s["k"], -1)), 1e-5,
            *bf16,
            (
                Call("MKL", {"cblas_gemm_bf16bf16f32": BF16_GEMM},
                     f"cblas_gemm_bf16bf16f32({times}, 1, a, (int)k, b, (int)n, 0, c, (int)n)"),
            ),
        ),
        Family(
            "gemm_u8s8", shapes(**cubes(64, 256, 512)),
            {"a": Buffer("u8", "m*k", fill="codes"), "b": Buffer("i8", "k*n", fill="codes"),
             "c": Buffer("i32", "m*n", "out"), "work": Buffer("i8", "2*(k+64)*(m+96)", "scratch")}, "c",
            lambda v, s: product(f64(v["a"]).reshape(s["m"], -1), f64(v["b"]).reshape(s["k"], -1)), 0.0, *u8s8,
            (
                Call("MKL", {"cblas_gemm_s8u8s32": INT_GEMM},
                     "const int32_t none = 0; cblas_gemm_s8u8s32(101, 111, 111, 173, (int)m, (int)n, (int)k, 1, a, "
                     "(int)k, 0, b, (int)n, 0, 0, c, (int)n, &none)"),
            ),
        ),
        Family(
            "gemm_q8", shapes(**cuboids((1024, 4, 1024), (512, 64, 512))),
            {"w0": Buffer("i8", "m*k", fill="codes"), "w": Buffer("i8", "(m+64)*(k+4)", "scratch"),
             "x": Buffer("i8", "n*k", fill="codes"), "y": Buffer("f32", "n*m", "out"),
             "c": Buffer("i32", "n*m", "scratch")}, "y",
            lambda v, s: product(f64(v["x"]).reshape(s["n"], -1), f64(v["w0"]).reshape(s["m"], -1).T), 0.0, *q8,
            (
                Call("NumKong", {"nk_dots_packed_size_i8": "size_t (size_t, size_t)",
                                 "nk_dots_pack_i8": NK_PACK, "nk_dots_packed_i8": NK_PACKED},
                     "nk_dots_packed_i8(x, state, c, n, m, k, k, m * sizeof *c); "
                     "if (keep) for (size_t i = 0; i < m * n; i++) y[i] = (float)c[i]",
                     "state = room(nk_dots_packed_size_i8(m, k)), nk_dots_pack_i8(w0, m, k, k, state)",
                     label="NumKong, i32 results"),
                Call("torch", {"torch_int_mm": TORCH3, "torch_tensor": TENSOR, "torch_transposed": "void *(void *)"},
                     "torch_int_mm(ty, tx, tw); if (keep) for (size_t i = 0; i < m * n; i++) y[i] = (float)c[i]",
                     "tx = torch_tensor(x, (long)n, (long)k, 2), ty = torch_tensor(c, (long)n, (long)m, 3), "
                     "tw = torch_transposed(torch_tensor(w0, (long)m, (long)k, 2))",
                     label="torch, i32 results", limit=lambda s: s["n"] > 16),
            ),
        ),
    )  # fmt: skip


def quantized_families() -> tuple[Family, ...]:
    quantize = both(
        "quantize_row_q8_0", f"void ({F32}, uint8_t *, size_t)", "quantize_row_q8_0(x, y, blocks)"
    )
    q8 = both("dot_q8_0", "float (const uint8_t *, const uint8_t *, size_t)", "r[0] = dot_q8_0(x, y, blocks)")
    q4 = both("dot_q4_0", "float (const uint8_t *, const uint8_t *, size_t)", "r[0] = dot_q4_0(x, y, blocks)")
    matmul = both(
        "matmul_q8_0", f"void ({F32}, const uint8_t *, float *, uint8_t *, size_t, size_t, size_t)",
        "matmul_q8_0(x, w, y, work, tokens, n, k)", "matmul_q8_0_pack(w0, w, n, k)",
        "matmul_q8_0(x, w0, y, work, tokens, n, k)", matmul_q8_0_pack=PACK_Q8_0,
    )  # fmt: skip
    r, y = Buffer("f64", "1", "out"), Buffer("u8", "34*blocks", fill="q8_0")
    some = shapes(**{str(32 * blocks): {"blocks": blocks} for blocks in (32, 128, 2048)})

    def dot(name: str) -> tuple[Call]:
        return (
            Call(
                "ggml",
                {name: GGML_DOT},
                f"float s; {name}((int)(32 * blocks), &s, 0, x, 0, y, 0, 1); r[0] = s",
            ),
        )

    product_of = Call(
        "ggml",
        {
            "peer_ggml_matmul": f"void *(const uint8_t *, {F32}, size_t, size_t, size_t)",
            "peer_ggml_run": GGML_RUN,
        },
        "peer_ggml_run(state, y, keep)",
        "state = peer_ggml_matmul(w0, x, tokens, n, k)",
    )

    return (
        Family(
            "quantize_row_q8_0", some, {"x": Buffer("f32", "32*blocks"), "y": Buffer("u8", "34*blocks", "out")}, "y",
            lambda v, s: largest(f64(quantized(v["x"]))), 0.0, *quantize,
            (Call("ggml", {"quantize_row_q8_0": f"void ({F32}, void *, int64_t)"},
                  "quantize_row_q8_0(x, y, (int64_t)(32 * blocks))"),),
        ),
        Family(
            "dot_q8_0", some, {"x": y, "y": y, "r": r}, "r",
            lambda v, s: dotted(q8_0(v["x"]).ravel(), q8_0(v["y"]).ravel()), 1e-5, *q8, dot("ggml_vec_dot_q8_0_q8_0"),
        ),
        Family(
            "dot_q4_0", some, {"x": Buffer("u8", "18*blocks", fill="q4_0"), "y": y, "r": r}, "r",
            lambda v, s: dotted(q4_0(v["x"]).ravel(), q8_0(v["y"]).ravel()), 1e-5, *q4, dot("ggml_vec_dot_q4_0_q8_0"),
        ),
        Family(
            "matmul_q8_0",
            shapes(**{f"T={t}, 2048^2": {"tokens": t, "n": 2048, "k": 2048} for t in (1, 2, 4, 8, 16, 64, 512)}),
            {"x": Buffer("f32", "tokens*k"), "w0": Buffer("u8", "n*(k//32)*34", fill="q8_0"),
             "w": Buffer("u8", "(n+32)*(k//32)*36", "scratch"), "y": Buffer("f32", "tokens*n", "out"),
             "work": Buffer("u8", "3*k*(tokens+32)+131072", "scratch")}, "y",
            lambda v, s: largest(f64(v["x"]).reshape(s["tokens"], -1) @ q8_0(v["w0"]).reshape(s["n"], -1).T), 2e-2,
            *matmul, (product_of,),
        ),
    )  # fmt: skip


def catalogue() -> tuple[Family, ...]:
    return (*dots(), *elementwise(), *rows(), *matrices(), *narrow_matrices(), *quantized_families())

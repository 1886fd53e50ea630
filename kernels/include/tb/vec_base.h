/* Vectors of f32 on any machine: sixteen bytes of the compiler's own vector type.
 *
 * vec_base.h, vec_avx2.h, vec_avx512.h and vec_neon.h define the same names, so a template writes one line
 * for every instruction set. `_n` forms touch only the first n lanes (0 <= n <= VF32_LANES) and never read or
 * write past them. `vf32_min(a, b)` and `vf32_max(a, b)` give b when either is NaN, as x86 does. */
#ifndef TB_VEC_BASE_H
#define TB_VEC_BASE_H
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define VF32_LANES 4
#define TB_INLINE static inline __attribute__((always_inline, unused))

typedef float vf32 __attribute__((vector_size(16)));
typedef int32_t vi32 __attribute__((vector_size(16)));

TB_INLINE vf32 vf32_zero(void) { return (vf32){0}; }
TB_INLINE vf32 vf32_set(float s) { return (vf32){s, s, s, s}; }

TB_INLINE vf32 vf32_load(const float *p)
{
    vf32 v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* The first n lanes from p, the others `rest`. */
TB_INLINE vf32 vf32_load_n_or(const float *p, size_t n, float rest)
{
    vf32 v = vf32_set(rest);
    for (size_t i = 0; i < n; i++)
        v[i] = p[i];
    return v;
}

TB_INLINE vf32 vf32_load_n(const float *p, size_t n) { return vf32_load_n_or(p, n, 0.0f); }
TB_INLINE void vf32_store(float *p, vf32 v) { memcpy(p, &v, sizeof v); }

TB_INLINE void vf32_store_n(float *p, vf32 v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p[i] = v[i];
}

/* A store past the caches where the machine has one; p is aligned to the vector. */
TB_INLINE void vf32_stream(float *p, vf32 v) { vf32_store(p, v); }
TB_INLINE void vf32_stream_end(void) {}
TB_INLINE void tb_prefetch(const void *p) { __builtin_prefetch(p); }

TB_INLINE vf32 vf32_add(vf32 a, vf32 b) { return a + b; }
TB_INLINE vf32 vf32_sub(vf32 a, vf32 b) { return a - b; }
TB_INLINE vf32 vf32_mul(vf32 a, vf32 b) { return a * b; }
TB_INLINE vf32 vf32_div(vf32 a, vf32 b) { return a / b; }

/* 1 / a within 2 units of the last place, for normal a and 1 / a. */
TB_INLINE vf32 vf32_reciprocal(vf32 a) { return 1.0f / a; }

TB_INLINE vf32 vf32_select(vi32 mask, vf32 yes, vf32 no)
{
    return (vf32)(((vi32)yes & mask) | ((vi32)no & ~mask));
}

TB_INLINE vf32 vf32_min(vf32 a, vf32 b) { return vf32_select(a < b, a, b); }
TB_INLINE vf32 vf32_max(vf32 a, vf32 b) { return vf32_select(a > b, a, b); }
TB_INLINE vf32 vf32_abs(vf32 a) { return (vf32)((vi32)a & 0x7fffffff); }

/* a * b + c; fused where the machine fuses. */
TB_INLINE vf32 vf32_fma(vf32 a, vf32 b, vf32 c) { return a * b + c; }
/* c - a * b */
TB_INLINE vf32 vf32_fnma(vf32 a, vf32 b, vf32 c) { return c - a * b; }

/* The nearest integer, ties to even, for |a| < 2^22: adding 1.5 * 2^23 leaves no bit for a fraction. */
TB_INLINE vf32 vf32_round(vf32 a)
{
    const vf32 magic = vf32_set(12582912.0f);
    return (a + magic) - magic;
}

TB_INLINE vi32 vf32_to_i32(vf32 a)
{
    return (vi32){(int32_t)lrintf(a[0]), (int32_t)lrintf(a[1]), (int32_t)lrintf(a[2]), (int32_t)lrintf(a[3])};
}

/* a * 2^n for an integral n in [-252, 254]: in two halves, so that results near both ends stay right. */
TB_INLINE vf32 vf32_ldexp(vf32 a, vf32 n)
{
    const vi32 whole = (vi32)(n + vf32_set(12582912.0f)) - 0x4b400000;
    const vi32 half = whole >> 1;
    return a * (vf32)((half + 127) << 23) * (vf32)((whole - half + 127) << 23);
}

/* The bits of a, shifted into the exponent. */
TB_INLINE vf32 vf32_shl23(vf32 a) { return (vf32)((vi32)a << 23); }

TB_INLINE float vf32_sum(vf32 a) { return (a[0] + a[2]) + (a[1] + a[3]); }

TB_INLINE float vf32_hmax(vf32 a)
{
    const float x = a[0] > a[2] ? a[0] : a[2], y = a[1] > a[3] ? a[1] : a[3];
    return x > y ? x : y;
}
/* The largest lane of each of four vectors. */
TB_INLINE void vf32_hmax4(float *out, vf32 a, vf32 b, vf32 c, vf32 d)
{
    out[0] = vf32_hmax(a);
    out[1] = vf32_hmax(b);
    out[2] = vf32_hmax(c);
    out[3] = vf32_hmax(d);
}

/* 32 f32 in 32 / VF32_LANES vectors, rounded to nearest, ties to even, as i8. */
TB_INLINE void vf32_store_i8_32(int8_t *p, const vf32 *v)
{
    for (int i = 0; i < 32; i++)
        p[i] = (int8_t)lrintf(v[i / VF32_LANES][i % VF32_LANES]);
}

TB_INLINE vi32 vi32_set(int32_t s) { return (vi32){s, s, s, s}; }
TB_INLINE vi32 vi32_add(vi32 a, vi32 b) { return a + b; }
TB_INLINE vf32 vf32_from_i32(vi32 a) { return (vf32){(float)a[0], (float)a[1], (float)a[2], (float)a[3]}; }
TB_INLINE vf32 vf32_bits(vi32 a) { return (vf32)a; }
TB_INLINE vi32 vi32_bits(vf32 a) { return (vi32)a; }

TB_INLINE int32_t vi32_sum(vi32 a) { return a[0] + a[1] + a[2] + a[3]; }

#include "tb/vec_put.h"
#endif

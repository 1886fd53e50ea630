/* Vectors of f32 on x86 with AVX2 and FMA. The names are explained in vec_base.h. */
#ifndef TB_VEC_AVX2_H
#define TB_VEC_AVX2_H
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define VF32_LANES 8
#define TB_INLINE static inline __attribute__((always_inline, unused))

typedef __m256 vf32;
typedef __m256i vi32;

/* The first n lanes all ones: a window of eight words that slides over eight ones and eight zeros. */
TB_INLINE __m256i tb_lanes_below(size_t n)
{
    static const int32_t ones_then_zeros[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
    return _mm256_loadu_si256((const __m256i *)(ones_then_zeros + 8 - n));
}

TB_INLINE vf32 vf32_zero(void) { return _mm256_setzero_ps(); }
TB_INLINE vf32 vf32_set(float s) { return _mm256_set1_ps(s); }
TB_INLINE vf32 vf32_load(const float *p) { return _mm256_loadu_ps(p); }
TB_INLINE vf32 vf32_load_n(const float *p, size_t n) { return _mm256_maskload_ps(p, tb_lanes_below(n)); }

TB_INLINE vf32 vf32_load_n_or(const float *p, size_t n, float rest)
{
    const __m256i mask = tb_lanes_below(n);
    return _mm256_blendv_ps(_mm256_set1_ps(rest), _mm256_maskload_ps(p, mask), _mm256_castsi256_ps(mask));
}

TB_INLINE void vf32_store(float *p, vf32 v) { _mm256_storeu_ps(p, v); }

/* Not vmaskmovps: as a store it costs some twenty micro-operations on Zen. */
TB_INLINE void vf32_store_n(float *p, vf32 v, size_t n)
{
    if (n >= VF32_LANES) {
        _mm256_storeu_ps(p, v);
        return;
    }
    __m128 part = _mm256_castps256_ps128(v);
    if (n & 4) {
        _mm_storeu_ps(p, part);
        part = _mm256_extractf128_ps(v, 1);
        p += 4;
    }
    if (n & 2) {
        _mm_storel_pi((__m64 *)p, part);
        part = _mm_movehl_ps(part, part);
        p += 2;
    }
    if (n & 1)
        _mm_store_ss(p, part);
}

TB_INLINE void vf32_stream(float *p, vf32 v) { _mm256_stream_ps(p, v); }
TB_INLINE void vf32_stream_end(void) { _mm_sfence(); }
TB_INLINE void tb_prefetch(const void *p) { _mm_prefetch((const char *)p, _MM_HINT_T0); }

TB_INLINE vf32 vf32_add(vf32 a, vf32 b) { return _mm256_add_ps(a, b); }
TB_INLINE vf32 vf32_sub(vf32 a, vf32 b) { return _mm256_sub_ps(a, b); }
TB_INLINE vf32 vf32_mul(vf32 a, vf32 b) { return _mm256_mul_ps(a, b); }
TB_INLINE vf32 vf32_div(vf32 a, vf32 b) { return _mm256_div_ps(a, b); }
TB_INLINE vf32 vf32_min(vf32 a, vf32 b) { return _mm256_min_ps(a, b); }
TB_INLINE vf32 vf32_max(vf32 a, vf32 b) { return _mm256_max_ps(a, b); }
TB_INLINE vf32 vf32_abs(vf32 a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
TB_INLINE vf32 vf32_fma(vf32 a, vf32 b, vf32 c) { return _mm256_fmadd_ps(a, b, c); }
TB_INLINE vf32 vf32_fnma(vf32 a, vf32 b, vf32 c) { return _mm256_fnmadd_ps(a, b, c); }

TB_INLINE vf32 vf32_reciprocal(vf32 a)
{
    const __m256 r = _mm256_rcp_ps(a); /* 12 bits; a step of Newton's method doubles them */
    return _mm256_mul_ps(r, _mm256_fnmadd_ps(a, r, _mm256_set1_ps(2.0f)));
}

TB_INLINE vf32 vf32_round(vf32 a)
{
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

TB_INLINE vi32 vf32_to_i32(vf32 a) { return _mm256_cvtps_epi32(a); }

TB_INLINE vf32 vf32_ldexp(vf32 a, vf32 n)
{
    const __m256i whole = _mm256_cvtps_epi32(n), bias = _mm256_set1_epi32(127);
    const __m256i half = _mm256_srai_epi32(whole, 1), rest = _mm256_sub_epi32(whole, half);
    const __m256 first = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23));
    const __m256 second = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23));
    return _mm256_mul_ps(_mm256_mul_ps(a, first), second);
}

TB_INLINE vf32 vf32_shl23(vf32 a)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(a), 23));
}

TB_INLINE float vf32_sum(vf32 a)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

TB_INLINE float vf32_hmax(vf32 a)
{
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}
/* Transposed on the way: four blocks share the shuffles that one would need alone. */
TB_INLINE void vf32_hmax4(float *out, vf32 a, vf32 b, vf32 c, vf32 d)
{
    const __m256 ab = _mm256_max_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
    const __m256 cd = _mm256_max_ps(_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
    const __m256 abcd = _mm256_max_ps(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee));
    _mm_storeu_ps(out, _mm_max_ps(_mm256_castps256_ps128(abcd), _mm256_extractf128_ps(abcd, 1)));
}

/* The packs work on halves: the last permutation puts the groups of four bytes in order again. */
TB_INLINE void vf32_store_i8_32(int8_t *p, const vf32 *v)
{
    const __m256i ab = _mm256_packs_epi32(_mm256_cvtps_epi32(v[0]), _mm256_cvtps_epi32(v[1]));
    const __m256i cd = _mm256_packs_epi32(_mm256_cvtps_epi32(v[2]), _mm256_cvtps_epi32(v[3]));
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    _mm256_storeu_si256((__m256i *)p, _mm256_permutevar8x32_epi32(_mm256_packs_epi16(ab, cd), order));
}

TB_INLINE vi32 vi32_set(int32_t s) { return _mm256_set1_epi32(s); }
TB_INLINE vi32 vi32_add(vi32 a, vi32 b) { return _mm256_add_epi32(a, b); }
TB_INLINE vf32 vf32_from_i32(vi32 a) { return _mm256_cvtepi32_ps(a); }
TB_INLINE vf32 vf32_bits(vi32 a) { return _mm256_castsi256_ps(a); }
TB_INLINE vi32 vi32_bits(vf32 a) { return _mm256_castps_si256(a); }

TB_INLINE int32_t vi32_sum(vi32 a)
{
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}

/* Lanes of 32 bits that hold two of 16: the low one moved up, the high one alone. */
TB_INLINE vf32 vf32_shl16(vf32 a) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(a), 16)); }
TB_INLINE vf32 vf32_keep_high16(vf32 a)
{
    return _mm256_and_ps(a, _mm256_castsi256_ps(_mm256_set1_epi32((int)0xffff0000)));
}

#include "tb/vec_put.h"
#endif

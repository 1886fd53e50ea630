/* Vectors of f32 on x86 with AVX-512 (F, BW, VL, DQ). The names are explained in vec_base.h. */
#ifndef TB_VEC_AVX512_H
#define TB_VEC_AVX512_H
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define VF32_LANES 16
#define TB_INLINE static inline __attribute__((always_inline, unused))

typedef __m512 vf32;
typedef __m512i vi32;

TB_INLINE __mmask16 tb_lanes_below(size_t n) { return (__mmask16)((1u << n) - 1); }

TB_INLINE vf32 vf32_zero(void) { return _mm512_setzero_ps(); }
TB_INLINE vf32 vf32_set(float s) { return _mm512_set1_ps(s); }
TB_INLINE vf32 vf32_load(const float *p) { return _mm512_loadu_ps(p); }
TB_INLINE vf32 vf32_load_n(const float *p, size_t n) { return _mm512_maskz_loadu_ps(tb_lanes_below(n), p); }

TB_INLINE vf32 vf32_load_n_or(const float *p, size_t n, float rest)
{
    return _mm512_mask_loadu_ps(_mm512_set1_ps(rest), tb_lanes_below(n), p);
}

TB_INLINE void vf32_store(float *p, vf32 v) { _mm512_storeu_ps(p, v); }

TB_INLINE void vf32_store_n(float *p, vf32 v, size_t n) { _mm512_mask_storeu_ps(p, tb_lanes_below(n), v); }

TB_INLINE void vf32_stream(float *p, vf32 v) { _mm512_stream_ps(p, v); }
TB_INLINE void vf32_stream_end(void) { _mm_sfence(); }
TB_INLINE void tb_prefetch(const void *p) { _mm_prefetch((const char *)p, _MM_HINT_T0); }

TB_INLINE vf32 vf32_add(vf32 a, vf32 b) { return _mm512_add_ps(a, b); }
TB_INLINE vf32 vf32_sub(vf32 a, vf32 b) { return _mm512_sub_ps(a, b); }
TB_INLINE vf32 vf32_mul(vf32 a, vf32 b) { return _mm512_mul_ps(a, b); }
TB_INLINE vf32 vf32_div(vf32 a, vf32 b) { return _mm512_div_ps(a, b); }
TB_INLINE vf32 vf32_min(vf32 a, vf32 b) { return _mm512_min_ps(a, b); }
TB_INLINE vf32 vf32_max(vf32 a, vf32 b) { return _mm512_max_ps(a, b); }
TB_INLINE vf32 vf32_abs(vf32 a) { return _mm512_abs_ps(a); }
TB_INLINE vf32 vf32_fma(vf32 a, vf32 b, vf32 c) { return _mm512_fmadd_ps(a, b, c); }
TB_INLINE vf32 vf32_fnma(vf32 a, vf32 b, vf32 c) { return _mm512_fnmadd_ps(a, b, c); }

TB_INLINE vf32 vf32_reciprocal(vf32 a)
{
    const __m512 r = _mm512_rcp14_ps(a);
    return _mm512_mul_ps(r, _mm512_fnmadd_ps(a, r, _mm512_set1_ps(2.0f)));
}

TB_INLINE vf32 vf32_round(vf32 a)
{
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

TB_INLINE vi32 vf32_to_i32(vf32 a) { return _mm512_cvtps_epi32(a); }
#define VF32_LDEXP_IS_ONE_INSTRUCTION 1
TB_INLINE vf32 vf32_ldexp(vf32 a, vf32 n) { return _mm512_scalef_ps(a, n); }

TB_INLINE float vf32_sum(vf32 a) { return _mm512_reduce_add_ps(a); }
TB_INLINE float vf32_hmax(vf32 a) { return _mm512_reduce_max_ps(a); }
TB_INLINE __m256 tb_max_of_halves(__m512 a)
{
    const __m256 high = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(a), 1));
    return _mm256_max_ps(_mm512_castps512_ps256(a), high);
}

/* Transposed on the way: four blocks share the shuffles that one would need alone. */
TB_INLINE void vf32_hmax4(float *out, vf32 a, vf32 b, vf32 c, vf32 d)
{
    const __m256 a8 = tb_max_of_halves(a), b8 = tb_max_of_halves(b);
    const __m256 c8 = tb_max_of_halves(c), d8 = tb_max_of_halves(d);
    const __m256 ab = _mm256_max_ps(_mm256_unpacklo_ps(a8, b8), _mm256_unpackhi_ps(a8, b8));
    const __m256 cd = _mm256_max_ps(_mm256_unpacklo_ps(c8, d8), _mm256_unpackhi_ps(c8, d8));
    const __m256 abcd = _mm256_max_ps(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee));
    _mm_storeu_ps(out, _mm_max_ps(_mm256_castps256_ps128(abcd), _mm256_extractf128_ps(abcd, 1)));
}

TB_INLINE void vf32_store_i8_32(int8_t *p, const vf32 *v)
{
    _mm_storeu_si128((__m128i *)p, _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(v[0])));
    _mm_storeu_si128((__m128i *)(p + 16), _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(v[1])));
}

TB_INLINE vi32 vi32_set(int32_t s) { return _mm512_set1_epi32(s); }
TB_INLINE vi32 vi32_add(vi32 a, vi32 b) { return _mm512_add_epi32(a, b); }
TB_INLINE vf32 vf32_from_i32(vi32 a) { return _mm512_cvtepi32_ps(a); }
TB_INLINE vf32 vf32_bits(vi32 a) { return _mm512_castsi512_ps(a); }
TB_INLINE vi32 vi32_bits(vf32 a) { return _mm512_castps_si512(a); }

TB_INLINE int32_t vi32_sum(vi32 a) { return _mm512_reduce_add_epi32(a); }

/* Lanes of 32 bits that hold two of 16: the low one moved up, the high one alone. */
TB_INLINE vf32 vf32_shl16(vf32 a) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(a), 16)); }
TB_INLINE vf32 vf32_keep_high16(vf32 a)
{
    return _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(a), _mm512_set1_epi32((int)0xffff0000)));
}

#include "tb/vec_put.h"
#endif

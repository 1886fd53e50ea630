/* The steps of a dot product of f16 or bf16 with f32 sums, for whichever vec_*.h was included before. DOT_FORM is
 *   DOT_F16     f16, widened
 *   DOT_BF16    bf16, widened
 *   DOT_HALVES  bf16: the odd elements are f32 as they stand once the even ones below are masked away, and a shift
 *               makes the even ones f32, so that one load serves two products
 *   DOT_DPBF16  bf16 by the instruction made for it (AVX512-BF16): denormals count as 0 */
#ifndef TB_DOT_HALF_H
#define TB_DOT_HALF_H
#include "tb/half.h"

#define DOT_F16 1
#define DOT_BF16 2
#define DOT_HALVES 3
#define DOT_DPBF16 4

#if DOT_FORM == DOT_F16 || DOT_FORM == DOT_BF16
#define DOT_STEP VF32_LANES
#define dot_zero vf32_zero
#define dot_add vf32_add
#define dot_sum vf32_sum
typedef vf32 dot_acc;

TB_INLINE vf32 tb_widened(const uint16_t *p)
{
#if DOT_FORM == DOT_F16 && defined(__AVX512F__)
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
#elif DOT_FORM == DOT_F16 && defined(__F16C__)
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
#elif DOT_FORM == DOT_F16 && defined(TB_VEC_NEON)
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
#elif DOT_FORM == DOT_BF16 && defined(__AVX512F__)
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
#elif DOT_FORM == DOT_BF16 && defined(__AVX2__)
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)), 16));
#elif DOT_FORM == DOT_BF16 && defined(TB_VEC_NEON)
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16));
#elif DOT_FORM == DOT_F16
    return (vf32){tb_f32_from_f16(p[0]), tb_f32_from_f16(p[1]), tb_f32_from_f16(p[2]), tb_f32_from_f16(p[3])};
#else
    return (vf32){tb_f32_from_bf16(p[0]), tb_f32_from_bf16(p[1]), tb_f32_from_bf16(p[2]), tb_f32_from_bf16(p[3])};
#endif
}

TB_INLINE dot_acc dot_step(dot_acc sum, const uint16_t *a, const uint16_t *b)
{
    return vf32_fma(tb_widened(a), tb_widened(b), sum);
}

#elif DOT_FORM == DOT_HALVES
#define DOT_STEP (2 * VF32_LANES)
typedef struct dot_acc { vf32 even, odd; } dot_acc;

TB_INLINE dot_acc dot_zero(void) { return (dot_acc){vf32_zero(), vf32_zero()}; }

TB_INLINE dot_acc dot_add(dot_acc a, dot_acc b)
{
    return (dot_acc){vf32_add(a.even, b.even), vf32_add(a.odd, b.odd)};
}

TB_INLINE float dot_sum(dot_acc a) { return vf32_sum(vf32_add(a.even, a.odd)); }

TB_INLINE dot_acc dot_step(dot_acc sum, const uint16_t *a, const uint16_t *b)
{
    const vf32 both_a = vf32_load((const float *)(const void *)a), both_b = vf32_load((const float *)(const void *)b);
    return (dot_acc){
        vf32_fma(vf32_shl16(both_a), vf32_shl16(both_b), sum.even),
        vf32_fma(vf32_keep_high16(both_a), vf32_keep_high16(both_b), sum.odd),
    };
}

#else
#define DOT_STEP (2 * VF32_LANES)
#define dot_zero vf32_zero
#define dot_add vf32_add
#define dot_sum vf32_sum
typedef vf32 dot_acc;

TB_INLINE dot_acc dot_step(dot_acc sum, const uint16_t *a, const uint16_t *b)
{
    return _mm512_dpbf16_ps(sum, (__m512bh)_mm512_loadu_si512(a), (__m512bh)_mm512_loadu_si512(b));
}
#endif

TB_INLINE dot_acc dot_rest(dot_acc sum, const uint16_t *a, const uint16_t *b, size_t n)
{
    uint16_t last_a[DOT_STEP] = {0}, last_b[DOT_STEP] = {0};
    memcpy(last_a, a, n * sizeof *a);
    memcpy(last_b, b, n * sizeof *b);
    return dot_step(sum, last_a, last_b);
}
#endif

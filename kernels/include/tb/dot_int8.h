/* The steps of a dot product of i8 with exact i32 sums, for whichever vec_*.h was included before. */
#ifndef TB_DOT_INT8_H
#define TB_DOT_INT8_H

#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
/* vpdpbusd multiplies u8 by s8: a + 128 takes the place of a, and 128 sum(b) is subtracted at the end. */
#define DOT_STEP (4 * VF32_LANES)
typedef struct dot_acc { vi32 biased, bias; } dot_acc;

TB_INLINE dot_acc dot_zero(void) { return (dot_acc){vi32_set(0), vi32_set(0)}; }

#if VF32_LANES == 16
TB_INLINE dot_acc dot_step(dot_acc sum, const int8_t *a, const int8_t *b)
{
    const __m512i high = _mm512_set1_epi8(-128), va = _mm512_loadu_si512(a), vb = _mm512_loadu_si512(b);
    return (dot_acc){
        _mm512_dpbusd_epi32(sum.biased, _mm512_xor_si512(va, high), vb),
        _mm512_dpbusd_epi32(sum.bias, high, vb),
    };
}
TB_INLINE vi32 tb_difference(dot_acc a) { return _mm512_sub_epi32(a.biased, a.bias); }
#else
TB_INLINE dot_acc dot_step(dot_acc sum, const int8_t *a, const int8_t *b)
{
    const __m256i high = _mm256_set1_epi8(-128);
    const __m256i va = _mm256_loadu_si256((const __m256i *)a), vb = _mm256_loadu_si256((const __m256i *)b);
    return (dot_acc){
        _mm256_dpbusd_avx_epi32(sum.biased, _mm256_xor_si256(va, high), vb),
        _mm256_dpbusd_avx_epi32(sum.bias, high, vb),
    };
}
TB_INLINE vi32 tb_difference(dot_acc a) { return _mm256_sub_epi32(a.biased, a.bias); }
#endif

TB_INLINE dot_acc dot_add(dot_acc a, dot_acc b)
{
    return (dot_acc){vi32_add(a.biased, b.biased), vi32_add(a.bias, b.bias)};
}
TB_INLINE int32_t dot_sum(dot_acc a) { return vi32_sum(tb_difference(a)); }

#else
typedef vi32 dot_acc;
#define dot_add vi32_add
#define dot_sum vi32_sum
TB_INLINE dot_acc dot_zero(void) { return vi32_set(0); }

#if defined(__AVX512BW__)
#define DOT_STEP 32
TB_INLINE dot_acc dot_step(dot_acc sum, const int8_t *a, const int8_t *b)
{
    const __m512i wide_a = _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)a));
    const __m512i wide_b = _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)b));
    return _mm512_add_epi32(sum, _mm512_madd_epi16(wide_a, wide_b));
}
#elif defined(__AVX2__)
#define DOT_STEP 16
TB_INLINE dot_acc dot_step(dot_acc sum, const int8_t *a, const int8_t *b)
{
    const __m256i wide_a = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)a));
    const __m256i wide_b = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)b));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(wide_a, wide_b));
}
#elif defined(__ARM_FEATURE_DOTPROD)
#define DOT_STEP 16
TB_INLINE dot_acc dot_step(dot_acc sum, const int8_t *a, const int8_t *b)
{
    return vi32_sdot(sum, vld1q_s8(a), vld1q_s8(b));
}
#elif defined(TB_VEC_NEON)
#define DOT_STEP 16
TB_INLINE dot_acc dot_step(dot_acc sum, const int8_t *a, const int8_t *b)
{
    const int8x16_t va = vld1q_s8(a), vb = vld1q_s8(b);
    sum = vpadalq_s16(sum, vmull_s8(vget_low_s8(va), vget_low_s8(vb)));
    return vpadalq_s16(sum, vmull_s8(vget_high_s8(va), vget_high_s8(vb)));
}
#else
#define DOT_STEP 4
TB_INLINE dot_acc dot_step(dot_acc sum, const int8_t *a, const int8_t *b)
{
    return sum + (vi32){a[0] * b[0], a[1] * b[1], a[2] * b[2], a[3] * b[3]};
}
#endif
#endif

TB_INLINE dot_acc dot_rest(dot_acc sum, const int8_t *a, const int8_t *b, size_t n)
{
    int8_t last_a[DOT_STEP] = {0}, last_b[DOT_STEP] = {0};
    memcpy(last_a, a, n);
    memcpy(last_b, b, n);
    return dot_step(sum, last_a, last_b);
}
#endif

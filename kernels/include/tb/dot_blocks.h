/* The steps of a dot product of two rows of quantised blocks, for whichever vec_*.h was included before.
 * The first row is q8_0, or q4_0 if DOT_Q4_0 is defined; the second is q8_0. Values stay in -127..127, so that the
 * products of one u8 by s8 instruction, in pairs, fit into 16 bits. */
#ifndef TB_DOT_BLOCKS_H
#define TB_DOT_BLOCKS_H
#include "tb/q8_0.h"

#define DOT_STEP 1
#define dot_zero vf32_zero
#define dot_add vf32_add
#define dot_sum vf32_sum
typedef vf32 dot_acc;

#if defined(__AVX2__)
TB_INLINE __m256i tb_values_q8_0(const tb_block_q8_0 *x) { return _mm256_loadu_si256((const __m256i *)x->q); }

TB_INLINE __m256i tb_values_q4_0(const tb_block_q4_0 *x)
{
    const __m128i pairs = _mm_loadu_si128((const __m128i *)x->q);
    const __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(pairs), _mm_srli_epi16(pairs, 4), 1);
    return _mm256_sub_epi8(_mm256_and_si256(both, _mm256_set1_epi8(15)), _mm256_set1_epi8(8));
}

/* |x| times y with x's sign: the product of signed bytes out of one that wants its first operand unsigned. */
TB_INLINE __m256i tb_products(__m256i x, __m256i y)
{
    const __m256i magnitude = _mm256_abs_epi8(x), signed_y = _mm256_sign_epi8(y, x);
#if defined(__AVX512VNNI__)
    return _mm256_dpbusd_epi32(_mm256_setzero_si256(), magnitude, signed_y);
#elif defined(__AVXVNNI__)
    return _mm256_dpbusd_avx_epi32(_mm256_setzero_si256(), magnitude, signed_y);
#else
    return _mm256_madd_epi16(_mm256_maddubs_epi16(magnitude, signed_y), _mm256_set1_epi16(1));
#endif
}

#elif defined(__ARM_FEATURE_DOTPROD)
typedef struct tb_values { int8x16_t low, high; } tb_values;

TB_INLINE tb_values tb_values_q8_0(const tb_block_q8_0 *x) { return (tb_values){vld1q_s8(x->q), vld1q_s8(x->q + 16)}; }

TB_INLINE tb_values tb_values_q4_0(const tb_block_q4_0 *x)
{
    const uint8x16_t pairs = vld1q_u8(x->q);
    const int8x16_t low = vreinterpretq_s8_u8(vandq_u8(pairs, vdupq_n_u8(15)));
    const int8x16_t high = vreinterpretq_s8_u8(vshrq_n_u8(pairs, 4));
    return (tb_values){vsubq_s8(low, vdupq_n_s8(8)), vsubq_s8(high, vdupq_n_s8(8))};
}

TB_INLINE vi32 tb_products(tb_values x, tb_values y)
{
    return vi32_sdot(vi32_sdot(vi32_set(0), x.low, y.low), x.high, y.high);
}

#else
typedef struct tb_values { int8_t of[32]; } tb_values;

TB_INLINE tb_values tb_values_q8_0(const tb_block_q8_0 *x)
{
    tb_values values;
    memcpy(values.of, x->q, sizeof values.of);
    return values;
}

TB_INLINE tb_values tb_values_q4_0(const tb_block_q4_0 *x)
{
    tb_values values;
    for (int i = 0; i < 16; i++) {
        values.of[i] = (int8_t)((x->q[i] & 15) - 8);
        values.of[i + 16] = (int8_t)((x->q[i] >> 4) - 8);
    }
    return values;
}

TB_INLINE vi32 tb_products(tb_values x, tb_values y)
{
    int32_t sums[4] = {0};
    for (int i = 0; i < 32; i++)
        sums[i % 4] += x.of[i] * y.of[i];
    return (vi32){sums[0], sums[1], sums[2], sums[3]};
}
#endif

#ifdef DOT_Q4_0
typedef tb_block_q4_0 dot_weights;
#define tb_values_of_weights tb_values_q4_0
#else
typedef tb_block_q8_0 dot_weights;
#define tb_values_of_weights tb_values_q8_0
#endif

TB_INLINE dot_acc dot_step(dot_acc sum, const dot_weights *a, const tb_block_q8_0 *b)
{
    const vi32 products = tb_products(tb_values_of_weights(a), tb_values_q8_0(b));
    return vf32_fma(vf32_from_i32(products), vf32_set(tb_scale(a->d) * tb_scale(b->d)), sum);
}
#endif

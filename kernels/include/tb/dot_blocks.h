/* The steps of a dot product of two rows of quantised blocks, for whichever vec_*.h was included before.
 * The first row is q8_0, or q4_0 if DOT_Q4_0 is defined; the second is q8_0. Values stay in -127..127, so that the
 * products of one u8 by s8 instruction, in pairs, fit into 16 bits. A step is four blocks, whose scales are
 * converted together. */
#ifndef TB_DOT_BLOCKS_H
#define TB_DOT_BLOCKS_H
#include "tb/q8_0.h"

#define DOT_STEP 4
#define dot_zero vf32_zero
#define dot_add vf32_add
#define dot_sum vf32_sum
typedef vf32 dot_acc;

#ifdef DOT_Q4_0
typedef tb_block_q4_0 dot_weights;
#else
typedef tb_block_q8_0 dot_weights;
#endif

/* tb_products: the sums of a block's products, before its scale, spread over the lanes. */
#if defined(__AVX2__)
#if defined(__AVX512VNNI__)
#define tb_dpbusd _mm256_dpbusd_epi32
#elif defined(__AVXVNNI__)
#define tb_dpbusd _mm256_dpbusd_avx_epi32
#endif

#ifdef DOT_Q4_0
/* (x - 8) y is x y - 8 y: the values are unsigned as they lie. */
TB_INLINE vi32 tb_products(const dot_weights *a, const tb_block_q8_0 *b)
{
    const __m128i pairs = _mm_loadu_si128((const __m128i *)a->q);
    const __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(pairs), _mm_srli_epi16(pairs, 4), 1);
    const __m256i x = _mm256_and_si256(both, _mm256_set1_epi8(15)), eight = _mm256_set1_epi8(8);
    const __m256i y = _mm256_loadu_si256((const __m256i *)b->q);
#ifdef tb_dpbusd
    return _mm256_sub_epi32(tb_dpbusd(vi32_set(0), x, y), tb_dpbusd(vi32_set(0), eight, y));
#else
    const __m256i sums = _mm256_sub_epi16(_mm256_maddubs_epi16(x, y), _mm256_maddubs_epi16(eight, y));
    return _mm256_madd_epi16(sums, _mm256_set1_epi16(1));
#endif
}
#else
/* |x| times y with x's sign. */
TB_INLINE vi32 tb_products(const dot_weights *a, const tb_block_q8_0 *b)
{
    const __m256i x = _mm256_loadu_si256((const __m256i *)a->q), y = _mm256_loadu_si256((const __m256i *)b->q);
    const __m256i magnitude = _mm256_abs_epi8(x), signed_y = _mm256_sign_epi8(y, x);
#ifdef tb_dpbusd
    return tb_dpbusd(vi32_set(0), magnitude, signed_y);
#else
    return _mm256_madd_epi16(_mm256_maddubs_epi16(magnitude, signed_y), _mm256_set1_epi16(1));
#endif
}
#endif

/* The scales of four blocks that lie `stride` bytes apart: gathered as integers, which leaves the vector units free. */
TB_INLINE __m128 tb_four_scales(const uint8_t *d, size_t stride)
{
    uint64_t four = 0;
    for (int j = 3; j >= 0; j--) {
        uint16_t bits;
        memcpy(&bits, d + (size_t)j * stride, sizeof bits);
        four = four << 16 | bits;
    }
    return _mm_cvtph_ps(_mm_cvtsi64_si128((long long)four));
}

TB_INLINE dot_acc dot_step(dot_acc sum, const dot_weights *a, const tb_block_q8_0 *b)
{
    const __m128 scales = _mm_mul_ps(tb_four_scales(a->d, sizeof *a), tb_four_scales(b->d, sizeof *b));
    const __m256 twice = _mm256_set_m128(scales, scales);
    sum = vf32_fma(vf32_from_i32(tb_products(a, b)), _mm256_permute_ps(twice, 0x00), sum);
    sum = vf32_fma(vf32_from_i32(tb_products(a + 1, b + 1)), _mm256_permute_ps(twice, 0x55), sum);
    sum = vf32_fma(vf32_from_i32(tb_products(a + 2, b + 2)), _mm256_permute_ps(twice, 0xaa), sum);
    return vf32_fma(vf32_from_i32(tb_products(a + 3, b + 3)), _mm256_permute_ps(twice, 0xff), sum);
}

#else
#if defined(__ARM_FEATURE_DOTPROD)
typedef struct tb_values { int8x16_t low, high; } tb_values;

TB_INLINE tb_values tb_values_q8_0(const tb_block_q8_0 *x) { return (tb_values){vld1q_s8(x->q), vld1q_s8(x->q + 16)}; }

TB_INLINE tb_values tb_values_q4_0(const tb_block_q4_0 *x)
{
    const uint8x16_t pairs = vld1q_u8(x->q);
    const int8x16_t low = vreinterpretq_s8_u8(vandq_u8(pairs, vdupq_n_u8(15)));
    const int8x16_t high = vreinterpretq_s8_u8(vshrq_n_u8(pairs, 4));
    return (tb_values){vsubq_s8(low, vdupq_n_s8(8)), vsubq_s8(high, vdupq_n_s8(8))};
}

TB_INLINE vi32 tb_products_of(tb_values x, tb_values y)
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

TB_INLINE vi32 tb_products_of(tb_values x, tb_values y)
{
    int32_t sums[4] = {0};
    for (int i = 0; i < 32; i++)
        sums[i % 4] += x.of[i] * y.of[i];
    return (vi32){sums[0], sums[1], sums[2], sums[3]};
}
#endif

TB_INLINE vi32 tb_products(const dot_weights *a, const tb_block_q8_0 *b)
{
#ifdef DOT_Q4_0
    return tb_products_of(tb_values_q4_0(a), tb_values_q8_0(b));
#else
    return tb_products_of(tb_values_q8_0(a), tb_values_q8_0(b));
#endif
}

TB_INLINE dot_acc dot_step(dot_acc sum, const dot_weights *a, const tb_block_q8_0 *b)
{
    for (int j = 0; j < DOT_STEP; j++)
        sum = vf32_fma(vf32_from_i32(tb_products(a + j, b + j)), vf32_set(tb_scale(a[j].d) * tb_scale(b[j].d)), sum);
    return sum;
}
#endif

TB_INLINE dot_acc dot_rest(dot_acc sum, const dot_weights *a, const tb_block_q8_0 *b, size_t n)
{
    for (size_t j = 0; j < n; j++)
        sum = vf32_fma(vf32_from_i32(tb_products(a + j, b + j)), vf32_set(tb_scale(a[j].d) * tb_scale(b[j].d)), sum);
    return sum;
}
#endif

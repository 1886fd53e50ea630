/* Dot products of i8, four or two to a lane of i32, for whichever vec_*.h was included before.
 *
 * Packed weights hold, for TB_GROUP successive k, the values of one row side by side, row after row: a vector of
 * weights is VF32_LANES rows of one group. A column of x is staged in the form that the instruction wants:
 * tb_stage gives the value that its sums start from. */
#ifndef TB_TILE_I8_H
#define TB_TILE_I8_H

/* Scales of rows that lie side by side, as f32 among bytes. */
TB_INLINE vf32 tb_load_scales(const uint8_t *p) { return vf32_load((const float *)(const void *)p); }

#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
/* vpdpbusd multiplies u8 by s8: weights are packed as w + 128, and the sums start at -128 sum(x). */
#define TB_GROUP 4
typedef int8_t tb_staged;
typedef vi32 tb_weights, tb_column;

TB_INLINE int32_t tb_stage(tb_staged *staged, const int8_t *x, size_t k)
{
    int32_t sum = 0;
    for (size_t i = 0; i < k; i++) {
        staged[i] = x[i];
        sum += x[i];
    }
    return -128 * sum;
}

TB_INLINE tb_column tb_splat(const tb_staged *group)
{
    int32_t four;
    memcpy(&four, group, sizeof four);
    return vi32_set(four);
}

#if VF32_LANES == 16
TB_INLINE tb_weights tb_load_weights(const int8_t *w) { return _mm512_loadu_si512(w); }
TB_INLINE vi32 tb_dot(vi32 sum, tb_weights w, tb_column x) { return _mm512_dpbusd_epi32(sum, w, x); }
#else
TB_INLINE tb_weights tb_load_weights(const int8_t *w) { return _mm256_loadu_si256((const __m256i *)w); }
TB_INLINE vi32 tb_dot(vi32 sum, tb_weights w, tb_column x) { return _mm256_dpbusd_avx_epi32(sum, w, x); }
#endif

#elif defined(__ARM_FEATURE_DOTPROD)
#define TB_GROUP 4
typedef int8_t tb_staged;
typedef int8x16_t tb_weights, tb_column;

TB_INLINE int32_t tb_stage(tb_staged *staged, const int8_t *x, size_t k)
{
    memcpy(staged, x, k);
    return 0;
}

TB_INLINE tb_column tb_splat(const tb_staged *group)
{
    int32_t four;
    memcpy(&four, group, sizeof four);
    return vreinterpretq_s8_s32(vdupq_n_s32(four));
}

TB_INLINE tb_weights tb_load_weights(const int8_t *w) { return vld1q_s8(w); }

TB_INLINE vi32 tb_dot(vi32 sum, tb_weights w, tb_column x) { return vi32_sdot(sum, w, x); }

#else
/* Pairs of i16: exact for every i8, where the one-instruction u8 by s8 product of AVX2 saturates. */
#define TB_GROUP 2
typedef int16_t tb_staged;

TB_INLINE int32_t tb_stage(tb_staged *staged, const int8_t *x, size_t k)
{
    for (size_t i = 0; i < k; i++)
        staged[i] = x[i];
    return 0;
}

#if defined(__AVX2__)
typedef vi32 tb_weights, tb_column;

TB_INLINE tb_column tb_splat(const tb_staged *group)
{
    int32_t two;
    memcpy(&two, group, sizeof two);
    return vi32_set(two);
}

TB_INLINE tb_weights tb_load_weights(const int8_t *w)
{
    return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)w));
}

TB_INLINE vi32 tb_dot(vi32 sum, tb_weights w, tb_column x)
{
    return _mm256_add_epi32(sum, _mm256_madd_epi16(w, x));
}
#else
typedef struct tb_weights { vi32 even, odd; } tb_weights, tb_column;

TB_INLINE tb_column tb_splat(const tb_staged *group)
{
    return (tb_column){vi32_set(group[0]), vi32_set(group[1])};
}

TB_INLINE tb_weights tb_load_weights(const int8_t *w)
{
    return (tb_weights){{w[0], w[2], w[4], w[6]}, {w[1], w[3], w[5], w[7]}};
}

TB_INLINE vi32 tb_dot(vi32 sum, tb_weights w, tb_column x) { return sum + w.even * x.even + w.odd * x.odd; }
#endif
#endif

/* The same where a loop takes several groups a turn: gcc would add products first, with a register for each, or copy sums. */
TB_INLINE vi32 tb_dot_in_order(vi32 sum, tb_weights w, tb_column x)
{
    sum = tb_dot(sum, w, x);
#if defined(__AVX2__)
    __asm__("" : "+v"(sum));
#endif
    return sum;
}
#endif

/* The scales of four blocks of 32 at once, of whose values `max` holds the largest magnitudes. A division is as long for
 * four as for one. */
#ifndef TB_FOUR_SCALES_H
#define TB_FOUR_SCALES_H
#include "tb/half.h"

typedef float tb_four __attribute__((vector_size(16)));
typedef int32_t tb_four_i32 __attribute__((vector_size(16)));

/* 127 / max, and 0 below 2^-120, where that is not finite. */
TB_INLINE void tb_four_inverses(float *inverse, const float *max)
{
    tb_four m;
    memcpy(&m, max, sizeof m);
    const tb_four_i32 kept = (tb_four_i32)(127.0f / m) & (m >= 0x1p-120f);
    memcpy(inverse, &kept, sizeof kept);
}

/* max / 127 as f16. */
TB_INLINE void tb_four_scales_f16(uint16_t *d, const float *max)
{
    tb_four m;
    memcpy(&m, max, sizeof m);
    m /= 127.0f;
#if defined(__F16C__)
    const __m128i halves = _mm_cvtps_ph((__m128)m, 0);
    memcpy(d, &halves, 4 * sizeof *d);
#else
    for (int j = 0; j < 4; j++)
        d[j] = tb_f16_from_f32(m[j]);
#endif
}
#endif

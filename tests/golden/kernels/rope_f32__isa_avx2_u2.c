#include "tb/vec_avx2.h"

#define ROTATED_LOW(low, high, c, s) vf32_fnma(high, s, vf32_mul(low, c))
#define ROTATED_HIGH(low, high, c, s) vf32_fma(low, s, vf32_mul(high, c))

void rope_f32__isa_avx2_u2(const float *restrict x, const float *restrict cosines, const float *restrict sines, float *restrict y, size_t heads, size_t half)
{
    for (size_t h = 0; h < heads; h++, x += 2 * half, y += 2 * half) {
        const float *x_high = x + half;
        float *y_high = y + half;
        size_t i = 0;
        for (; half - i >= 2 * VF32_LANES; i += 2 * VF32_LANES) {
            const vf32 low0 = vf32_load(x + i), high0 = vf32_load(x_high + i);
            const vf32 c0 = vf32_load(cosines + i), s0 = vf32_load(sines + i);
            vf32_store(y + i, ROTATED_LOW(low0, high0, c0, s0));
            vf32_store(y_high + i, ROTATED_HIGH(low0, high0, c0, s0));
            const vf32 low1 = vf32_load(x + i + VF32_LANES), high1 = vf32_load(x_high + i + VF32_LANES);
            const vf32 c1 = vf32_load(cosines + i + VF32_LANES), s1 = vf32_load(sines + i + VF32_LANES);
            vf32_store(y + i + VF32_LANES, ROTATED_LOW(low1, high1, c1, s1));
            vf32_store(y_high + i + VF32_LANES, ROTATED_HIGH(low1, high1, c1, s1));
        }
        for (; half - i >= VF32_LANES; i += VF32_LANES) {
            const vf32 low0 = vf32_load(x + i), high0 = vf32_load(x_high + i);
            const vf32 c0 = vf32_load(cosines + i), s0 = vf32_load(sines + i);
            vf32_store(y + i, ROTATED_LOW(low0, high0, c0, s0));
            vf32_store(y_high + i, ROTATED_HIGH(low0, high0, c0, s0));
        }
        const size_t rest = half - i;
        if (rest) {
            const vf32 low = vf32_load_n(x + i, rest), high = vf32_load_n(x_high + i, rest);
            const vf32 c = vf32_load_n(cosines + i, rest), s = vf32_load_n(sines + i, rest);
            vf32_store_n(y + i, ROTATED_LOW(low, high, c, s), rest);
            vf32_store_n(y_high + i, ROTATED_HIGH(low, high, c, s), rest);
        }
    }
}

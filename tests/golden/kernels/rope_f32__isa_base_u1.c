#include "tb/vec_base.h"

#define ROTATED_LOW(low, high, c, s) vf32_fnma(high, s, vf32_mul(low, c))
#define ROTATED_HIGH(low, high, c, s) vf32_fma(low, s, vf32_mul(high, c))

void rope_f32__isa_base_u1(const float *restrict x, const float *restrict cosines, const float *restrict sines, float *restrict y, size_t heads, size_t half)
{
    for (size_t h = 0; h < heads; h++, x += 2 * half, y += 2 * half) {
        const float *x_high = x + half;
        float *y_high = y + half;
        size_t i = 0;
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

#include <math.h>
#include "tb/vec_avx2.h"

TB_INLINE void scaled(const float *x, const float *w, float *y, vf32 scale)
{
    vf32_store(y, vf32_mul(vf32_mul(vf32_load(x), scale), vf32_load(w)));
}

TB_INLINE void scaled_part(const float *x, const float *w, float *y, vf32 scale, size_t n)
{
    vf32_store_n(y, vf32_mul(vf32_mul(vf32_load_n(x, n), scale), vf32_load_n(w, n)), n);
}

TB_INLINE float squares(const float *x, size_t n)
{
    size_t i = 0;
    vf32 sum0 = vf32_zero();
    vf32 sum1 = vf32_zero();
    vf32 sum2 = vf32_zero();
    vf32 sum3 = vf32_zero();
    for (; n - i >= 4 * VF32_LANES; i += 4 * VF32_LANES) {
        const vf32 x0 = vf32_load(x + i);
        sum0 = vf32_fma(x0, x0, sum0);
        const vf32 x1 = vf32_load(x + i + VF32_LANES);
        sum1 = vf32_fma(x1, x1, sum1);
        const vf32 x2 = vf32_load(x + i + 2 * VF32_LANES);
        sum2 = vf32_fma(x2, x2, sum2);
        const vf32 x3 = vf32_load(x + i + 3 * VF32_LANES);
        sum3 = vf32_fma(x3, x3, sum3);
    }
    for (; n - i >= VF32_LANES; i += VF32_LANES) {
        const vf32 x0 = vf32_load(x + i);
        sum0 = vf32_fma(x0, x0, sum0);
    }
    const vf32 rest = vf32_load_n(x + i, n - i);
    sum0 = vf32_fma(rest, rest, sum0);
    sum0 = vf32_add(sum0, sum2);
    sum1 = vf32_add(sum1, sum3);
    sum0 = vf32_add(sum0, sum1);
    return vf32_sum(sum0);
}

void rmsnorm_f32__isa_avx2_u4_out_store(const float *restrict x, const float *restrict w, float *restrict y, size_t rows, size_t cols, float eps)
{
    for (size_t r = 0; r < rows; r++, x += cols, y += cols) {
        const vf32 scale = vf32_set(1.0f / sqrtf(squares(x, cols) / (float)cols + eps));
        size_t i = 0;
        for (; cols - i >= 4 * VF32_LANES; i += 4 * VF32_LANES) {
            scaled(x + i, w + i, y + i, scale);
            scaled(x + i + VF32_LANES, w + i + VF32_LANES, y + i + VF32_LANES, scale);
            scaled(x + i + 2 * VF32_LANES, w + i + 2 * VF32_LANES, y + i + 2 * VF32_LANES, scale);
            scaled(x + i + 3 * VF32_LANES, w + i + 3 * VF32_LANES, y + i + 3 * VF32_LANES, scale);
        }
        for (; cols - i >= VF32_LANES; i += VF32_LANES) {
            scaled(x + i, w + i, y + i, scale);
        }
        if (i < cols)
            scaled_part(x + i, w + i, y + i, scale, cols - i);
    }
}

#include <math.h>
#include "tb/vec_base.h"

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
    for (; n - i >= VF32_LANES; i += VF32_LANES) {
        const vf32 x0 = vf32_load(x + i);
        sum0 = vf32_fma(x0, x0, sum0);
    }
    const vf32 rest = vf32_load_n(x + i, n - i);
    sum0 = vf32_fma(rest, rest, sum0);
    return vf32_sum(sum0);
}

void rmsnorm_f32__isa_base_u1_out_store(const float *restrict x, const float *restrict w, float *restrict y, size_t rows, size_t cols, float eps)
{
    for (size_t r = 0; r < rows; r++, x += cols, y += cols) {
        const vf32 scale = vf32_set(1.0f / sqrtf(squares(x, cols) / (float)cols + eps));
        size_t i = 0;
        for (; cols - i >= VF32_LANES; i += VF32_LANES) {
            scaled(x + i, w + i, y + i, scale);
        }
        if (i < cols)
            scaled_part(x + i, w + i, y + i, scale, cols - i);
    }
}

#include <math.h>
#include "tb/vec_base.h"

TB_INLINE vf32 scaled(const float *x, const float *w, vf32 scale)
{
    return vf32_mul(vf32_mul(vf32_load(x), scale), vf32_load(w));
}

TB_INLINE void scale_part(const float *x, const float *w, float *y, vf32 scale, size_t n)
{
    vf32_store_n(y, vf32_mul(vf32_mul(vf32_load_n(x, n), scale), vf32_load_n(w, n)), n);
}

void rmsnorm_f32__isa_base_u1_out_store(const float *restrict x, const float *restrict w, float *restrict y, size_t rows, size_t cols, float eps)
{
    for (size_t r = 0; r < rows; r++, x += cols, y += cols) {
        size_t i = 0;
        vf32 sum0 = vf32_zero();
        for (; cols - i >= VF32_LANES; i += VF32_LANES) {
            const vf32 x0 = vf32_load(x + i);
            sum0 = vf32_fma(x0, x0, sum0);
        }
        const vf32 rest = vf32_load_n(x + i, cols - i);
        sum0 = vf32_fma(rest, rest, sum0);
        const vf32 scale = vf32_set(1.0f / sqrtf(vf32_sum(sum0) / (float)cols + eps));

        i = 0;
        for (; cols - i >= VF32_LANES; i += VF32_LANES) {
            vf32_store(y + i, scaled(x + i, w + i, scale));
        }
        if (i < cols)
            scale_part(x + i, w + i, y + i, scale, cols - i);
    }
}

#include <math.h>
#include "tb/vec_avx2.h"
#include "tb/exp.h"

void softmax_f32__isa_avx2_u2_exps_store(const float *restrict x, float *restrict y, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++, x += cols, y += cols) {
        size_t i = 0;
        vf32 max0 = vf32_set(-INFINITY), sum0 = vf32_zero();
        vf32 max1 = vf32_set(-INFINITY), sum1 = vf32_zero();

        for (; cols - i >= 2 * VF32_LANES; i += 2 * VF32_LANES) {
            max0 = vf32_max(vf32_load(x + i), max0);
            max1 = vf32_max(vf32_load(x + i + VF32_LANES), max1);
        }
        for (; cols - i >= VF32_LANES; i += VF32_LANES) {
            max0 = vf32_max(vf32_load(x + i), max0);
        }
        max0 = vf32_max(vf32_load_n_or(x + i, cols - i, -INFINITY), max0);
        max0 = vf32_max(max0, max1);
        const vf32 max = vf32_set(vf32_hmax(max0));

        i = 0;
        for (; cols - i >= 2 * VF32_LANES; i += 2 * VF32_LANES) {
            const vf32 e0 = vf32_exp_normal(vf32_sub(vf32_load(x + i), max), 5);
            vf32_store(y + i, e0);
            sum0 = vf32_add(sum0, e0);
            const vf32 e1 = vf32_exp_normal(vf32_sub(vf32_load(x + i + VF32_LANES), max), 5);
            vf32_store(y + i + VF32_LANES, e1);
            sum1 = vf32_add(sum1, e1);
        }
        for (; cols - i >= VF32_LANES; i += VF32_LANES) {
            const vf32 e0 = vf32_exp_normal(vf32_sub(vf32_load(x + i), max), 5);
            vf32_store(y + i, e0);
            sum0 = vf32_add(sum0, e0);
        }
        if (i < cols) {
            const vf32 e = vf32_exp_normal(vf32_sub(vf32_load_n_or(x + i, cols - i, -INFINITY), max), 5);
            vf32_store_n(y + i, e, cols - i);
            sum0 = vf32_add(sum0, e);
        }
        sum0 = vf32_add(sum0, sum1);
        const vf32 scale = vf32_set(1.0f / vf32_sum(sum0));

        i = 0;
        for (; cols - i >= 2 * VF32_LANES; i += 2 * VF32_LANES) {
            vf32_store(y + i, vf32_mul(vf32_load(y + i), scale));
            vf32_store(y + i + VF32_LANES, vf32_mul(vf32_load(y + i + VF32_LANES), scale));
        }
        for (; cols - i >= VF32_LANES; i += VF32_LANES) {
            vf32_store(y + i, vf32_mul(vf32_load(y + i), scale));
        }
        if (i < cols)
            vf32_store_n(y + i, vf32_mul(vf32_load_n(y + i, cols - i), scale), cols - i);
    }
}

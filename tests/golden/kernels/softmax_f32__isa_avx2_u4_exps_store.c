#include <math.h>
#include "tb/vec_avx2.h"
#include "tb/exp.h"

/* e^(x - max) of `count` vectors, kept at e; their sum. */
TB_INLINE vf32 exponentials(const float *x, vf32 max, float *e, int count)
{
    vf32 v[4];
    TB_EACH(j, count)
        v[j] = vf32_sub(vf32_load(x + j * VF32_LANES), max);
    vf32_exp_below_one_each(v, count, 5);
    TB_EACH(j, count)
        vf32_store(e + j * VF32_LANES, v[j]);
    for (int half = count / 2; half > 0; half /= 2)
        TB_EACH(j, half)
            v[j] = vf32_add(v[j], v[j + half]);
    return v[0];
}

TB_INLINE void scale_part(const float *e, float *y, vf32 scale, size_t n)
{
    vf32_store_n(y, vf32_mul(vf32_load_n(e, n), scale), n);
}

void softmax_f32__isa_avx2_u4_exps_store(const float *restrict x, float *restrict y, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++, x += cols, y += cols) {
        size_t i = 0;
        vf32 max0 = vf32_set(-INFINITY);
        vf32 max1 = vf32_set(-INFINITY);
        vf32 max2 = vf32_set(-INFINITY);
        vf32 max3 = vf32_set(-INFINITY);
        for (; cols - i >= 4 * VF32_LANES; i += 4 * VF32_LANES) {
            max0 = vf32_max(vf32_load(x + i), max0);
            max1 = vf32_max(vf32_load(x + i + VF32_LANES), max1);
            max2 = vf32_max(vf32_load(x + i + 2 * VF32_LANES), max2);
            max3 = vf32_max(vf32_load(x + i + 3 * VF32_LANES), max3);
        }
        for (; cols - i >= VF32_LANES; i += VF32_LANES) {
            max0 = vf32_max(vf32_load(x + i), max0);
        }
        max0 = vf32_max(vf32_load_n_or(x + i, cols - i, -INFINITY), max0);
        max0 = vf32_max(max0, max2);
        max1 = vf32_max(max1, max3);
        max0 = vf32_max(max0, max1);
        const vf32 max = vf32_set(vf32_hmax(max0));

        vf32 sum = vf32_zero();
        for (i = 0; cols - i >= 4 * VF32_LANES; i += 4 * VF32_LANES) {
            sum = vf32_add(sum, exponentials(x + i, max, y + i, 4));
        }
        for (; cols - i >= VF32_LANES; i += VF32_LANES)
            sum = vf32_add(sum, exponentials(x + i, max, y + i, 1));
        if (i < cols) {
            vf32 rest = vf32_sub(vf32_load_n_or(x + i, cols - i, -INFINITY), max);
            vf32_exp_below_one_each(&rest, 1, 5);
            vf32_store_n(y + i, rest, cols - i);
            sum = vf32_add(sum, rest);
        }
        const vf32 scale = vf32_set(1.0f / vf32_sum(sum));

        i = 0;
        for (; cols - i >= 4 * VF32_LANES; i += 4 * VF32_LANES) {
            vf32_store(y + i, vf32_mul(vf32_load(y + i), scale));
            vf32_store(y + i + VF32_LANES, vf32_mul(vf32_load(y + i + VF32_LANES), scale));
            vf32_store(y + i + 2 * VF32_LANES, vf32_mul(vf32_load(y + i + 2 * VF32_LANES), scale));
            vf32_store(y + i + 3 * VF32_LANES, vf32_mul(vf32_load(y + i + 3 * VF32_LANES), scale));
        }
        for (; cols - i >= VF32_LANES; i += VF32_LANES) {
            vf32_store(y + i, vf32_mul(vf32_load(y + i), scale));
        }
        if (i < cols)
            scale_part(y + i, y + i, scale, cols - i);
    }
}

#include "tb/vec_avx2.h"
#include "tb/exp.h"

TB_INLINE void become(vf32 *x, int count)
{
    vf32 m[2], power[2];
    TB_EACH(j, count)
        x[j] = vf32_max(vf32_set(-88.0f), x[j]);
    TB_EACH(j, count)
        m[j] = vf32_min(vf32_set(88.0f), x[j]);
    vf32_exp_parts(m, power, count, -1, 5);
    TB_EACH(j, count)
        m[j] = tb_times_plus(m[j], power[j], vf32_set(1.0f));
    TB_EACH(j, count)
        x[j] = vf32_div(x[j], m[j]);
}

void silu_f32__isa_avx2_u2_quotient_divide(const float *restrict x, float *restrict y, size_t n)
{
    size_t i = 0;
    for (; n - i >= 2 * VF32_LANES; i += 2 * VF32_LANES) {
        vf32 v[2];
        TB_EACH(j, 2)
            v[j] = vf32_load(x + i + j * VF32_LANES);
        become(v, 2);
        TB_EACH(j, 2)
            vf32_store(y + i + j * VF32_LANES, v[j]);
    }
    for (; n - i >= VF32_LANES; i += VF32_LANES) {
        vf32 v[1];
        TB_EACH(j, 1)
            v[j] = vf32_load(x + i + j * VF32_LANES);
        become(v, 1);
        TB_EACH(j, 1)
            vf32_store(y + i + j * VF32_LANES, v[j]);
    }
    if (i < n) {
        vf32 rest = vf32_load_n(x + i, n - i);
        become(&rest, 1);
        vf32_store_n(y + i, rest, n - i);
    }
}

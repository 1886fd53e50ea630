#include "tb/vec_base.h"
#include "tb/exp.h"

TB_INLINE void become(vf32 *x, int count) { vf32_exp_each(x, count, 5); }

void exp_f32__isa_base_u1_degree5(const float *restrict x, float *restrict y, size_t n)
{
    size_t i = 0;
    for (; n - i >= 1 * VF32_LANES; i += 1 * VF32_LANES) {
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

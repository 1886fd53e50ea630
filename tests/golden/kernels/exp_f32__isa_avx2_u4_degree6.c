#include "tb/vec_avx2.h"
#include "tb/exp.h"

TB_INLINE void become(vf32 *x, int count) { vf32_exp_each(x, count, 6); }

void exp_f32__isa_avx2_u4_degree6(const float *restrict x, float *restrict y, size_t n)
{
    size_t i = 0;
    for (; n - i >= 4 * VF32_LANES; i += 4 * VF32_LANES) {
        vf32 v[4];
        TB_EACH(j, 4)
            v[j] = vf32_load(x + i + j * VF32_LANES);
        become(v, 4);
        TB_EACH(j, 4)
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

#include "tb/vec_avx2.h"

#define value(x) vf32_mul(vf32_set(a), x)

void scale_f32__isa_avx2_u4_out_store(const float *restrict x, float *restrict y, float a, size_t n)
{
    size_t i = 0;
    for (; n - i >= 4 * VF32_LANES; i += 4 * VF32_LANES) {
        vf32_store(y + i, value(vf32_load(x + i)));
        vf32_store(y + i + VF32_LANES, value(vf32_load(x + i + VF32_LANES)));
        vf32_store(y + i + 2 * VF32_LANES, value(vf32_load(x + i + 2 * VF32_LANES)));
        vf32_store(y + i + 3 * VF32_LANES, value(vf32_load(x + i + 3 * VF32_LANES)));
    }
    for (; n - i >= VF32_LANES; i += VF32_LANES) {
        vf32_store(y + i, value(vf32_load(x + i)));
    }
    if (i < n)
        vf32_store_n(y + i, value(vf32_load_n(x + i, n - i)), n - i);
}

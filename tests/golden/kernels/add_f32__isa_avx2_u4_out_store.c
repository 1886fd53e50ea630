#include "tb/vec_avx2.h"

TB_INLINE vf32 value(vf32 a, vf32 b) { return vf32_add(a, b); }

void add_f32__isa_avx2_u4_out_store(const float *restrict a, const float *restrict b, float *restrict y, size_t n)
{
    size_t i = 0;
    for (; n - i >= 4 * VF32_LANES; i += 4 * VF32_LANES) {
        vf32_store(y + i, value(vf32_load(a + i), vf32_load(b + i)));
        vf32_store(y + i + VF32_LANES, value(vf32_load(a + i + VF32_LANES), vf32_load(b + i + VF32_LANES)));
        vf32_store(y + i + 2 * VF32_LANES, value(vf32_load(a + i + 2 * VF32_LANES), vf32_load(b + i + 2 * VF32_LANES)));
        vf32_store(y + i + 3 * VF32_LANES, value(vf32_load(a + i + 3 * VF32_LANES), vf32_load(b + i + 3 * VF32_LANES)));
    }
    for (; n - i >= VF32_LANES; i += VF32_LANES) {
        vf32_store(y + i, value(vf32_load(a + i), vf32_load(b + i)));
    }
    if (i < n)
        vf32_store_n(y + i, value(vf32_load_n(a + i, n - i), vf32_load_n(b + i, n - i)), n - i);
}

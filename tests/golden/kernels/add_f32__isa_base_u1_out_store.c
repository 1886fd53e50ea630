#include "tb/vec_base.h"

TB_INLINE vf32 value(vf32 a, vf32 b) { return vf32_add(a, b); }

void add_f32__isa_base_u1_out_store(const float *restrict a, const float *restrict b, float *restrict y, size_t n)
{
    size_t i = 0;
    for (; n - i >= VF32_LANES; i += VF32_LANES) {
        vf32_store(y + i, value(vf32_load(a + i), vf32_load(b + i)));
    }
    if (i < n)
        vf32_store_n(y + i, value(vf32_load_n(a + i, n - i), vf32_load_n(b + i, n - i)), n - i);
}

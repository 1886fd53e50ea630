#include "tb/vec_base.h"

TB_INLINE vf32 value(vf32 x) { return x; }

void copy_f32__isa_base_u1_out_store(const float *restrict x, float *restrict y, size_t n)
{
    size_t i = 0;
    for (; n - i >= VF32_LANES; i += VF32_LANES) {
        vf32_store(y + i, value(vf32_load(x + i)));
    }
    if (i < n)
        vf32_store_n(y + i, value(vf32_load_n(x + i, n - i)), n - i);
}

#include "tb/vec_base.h"
#include "tb/exp.h"

TB_INLINE vf32 value(vf32 x)
{
    x = vf32_max(vf32_set(-100.0f), x);
    const vf32 d = vf32_add(vf32_set(1.0f), vf32_exp_normal(vf32_sub(vf32_zero(), x), 5));
    return vf32_div(x, d);
}

void silu_f32__isa_base_u1_quotient_divide(const float *restrict x, float *restrict y, size_t n)
{
    size_t i = 0;
    for (; n - i >= VF32_LANES; i += VF32_LANES) {
        vf32_store(y + i, value(vf32_load(x + i)));
    }
    if (i < n)
        vf32_store_n(y + i, value(vf32_load_n(x + i, n - i)), n - i);
}

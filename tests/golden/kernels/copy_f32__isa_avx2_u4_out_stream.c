#include "tb/vec_avx2.h"

TB_INLINE vf32 value(vf32 x) { return x; }

void copy_f32__isa_avx2_u4_out_stream(const float *restrict x, float *restrict y, size_t n)
{
    size_t i = 0;
    const size_t to_boundary = -((uintptr_t)y / sizeof *y) % VF32_LANES;
    i = to_boundary < n ? to_boundary : n;
    vf32_store_n(y, value(vf32_load_n(x, i)), i);
    for (; n - i >= 4 * VF32_LANES; i += 4 * VF32_LANES) {
        vf32_stream(y + i, value(vf32_load(x + i)));
        vf32_stream(y + i + VF32_LANES, value(vf32_load(x + i + VF32_LANES)));
        vf32_stream(y + i + 2 * VF32_LANES, value(vf32_load(x + i + 2 * VF32_LANES)));
        vf32_stream(y + i + 3 * VF32_LANES, value(vf32_load(x + i + 3 * VF32_LANES)));
    }
    for (; n - i >= VF32_LANES; i += VF32_LANES) {
        vf32_stream(y + i, value(vf32_load(x + i)));
    }
    if (i < n)
        vf32_store_n(y + i, value(vf32_load_n(x + i, n - i)), n - i);
    vf32_stream_end();
}

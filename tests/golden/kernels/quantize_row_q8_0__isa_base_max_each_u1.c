#include "tb/vec_base.h"
#include "tb/q8_0.h"

TB_INLINE void quantize1(const float *x, tb_block_q8_0 *y)
{
    uint16_t d[1];
    float max[1], inverse[1];
    const vf32 x0_0 = vf32_load(x + 0);
    const vf32 x0_1 = vf32_load(x + 4);
    const vf32 x0_2 = vf32_load(x + 8);
    const vf32 x0_3 = vf32_load(x + 12);
    const vf32 x0_4 = vf32_load(x + 16);
    const vf32 x0_5 = vf32_load(x + 20);
    const vf32 x0_6 = vf32_load(x + 24);
    const vf32 x0_7 = vf32_load(x + 28);
    vf32 max0 = vf32_abs(x0_0);
    max0 = vf32_max(max0, vf32_abs(x0_1));
    max0 = vf32_max(max0, vf32_abs(x0_2));
    max0 = vf32_max(max0, vf32_abs(x0_3));
    max0 = vf32_max(max0, vf32_abs(x0_4));
    max0 = vf32_max(max0, vf32_abs(x0_5));
    max0 = vf32_max(max0, vf32_abs(x0_6));
    max0 = vf32_max(max0, vf32_abs(x0_7));

    max[0] = vf32_hmax(max0);
    for (int j = 0; j < 1; j++)
        inverse[j] = max[j] >= 0x1p-120f ? 127.0f / max[j] : 0.0f;

    const vf32 inverse0 = vf32_set(inverse[0]);
    const vf32 scaled0[] = {
        vf32_mul(x0_0, inverse0),
        vf32_mul(x0_1, inverse0),
        vf32_mul(x0_2, inverse0),
        vf32_mul(x0_3, inverse0),
        vf32_mul(x0_4, inverse0),
        vf32_mul(x0_5, inverse0),
        vf32_mul(x0_6, inverse0),
        vf32_mul(x0_7, inverse0),
    };

    for (int j = 0; j < 1; j++)
        d[j] = tb_f16_from_f32(max[j] / 127.0f);
    memcpy(y[0].d, d + 0, sizeof *d);
    vf32_store_i8_32(y[0].q, scaled0);
}

void quantize_row_q8_0__isa_base_max_each_u1(const float *restrict x, uint8_t *restrict y, size_t blocks)
{
    tb_block_q8_0 *to = (void *)y;
    size_t b = 0;
    for (; blocks - b >= 1; b += 1)
        quantize1(x + 32 * b, to + b);
}

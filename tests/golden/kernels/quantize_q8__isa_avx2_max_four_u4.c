#include "tb/vec_avx2.h"
#include "tb/four_scales.h"

TB_INLINE void quantize4(const float *x, int8_t *q, float *d)
{
    float max[4], inverse[4];
    const vf32 x0_0 = vf32_load(x + 0);
    const vf32 x0_1 = vf32_load(x + 8);
    const vf32 x0_2 = vf32_load(x + 16);
    const vf32 x0_3 = vf32_load(x + 24);
    vf32 max0 = vf32_abs(x0_0);
    max0 = vf32_max(max0, vf32_abs(x0_1));
    max0 = vf32_max(max0, vf32_abs(x0_2));
    max0 = vf32_max(max0, vf32_abs(x0_3));
    const vf32 x1_0 = vf32_load(x + 32);
    const vf32 x1_1 = vf32_load(x + 40);
    const vf32 x1_2 = vf32_load(x + 48);
    const vf32 x1_3 = vf32_load(x + 56);
    vf32 max1 = vf32_abs(x1_0);
    max1 = vf32_max(max1, vf32_abs(x1_1));
    max1 = vf32_max(max1, vf32_abs(x1_2));
    max1 = vf32_max(max1, vf32_abs(x1_3));
    const vf32 x2_0 = vf32_load(x + 64);
    const vf32 x2_1 = vf32_load(x + 72);
    const vf32 x2_2 = vf32_load(x + 80);
    const vf32 x2_3 = vf32_load(x + 88);
    vf32 max2 = vf32_abs(x2_0);
    max2 = vf32_max(max2, vf32_abs(x2_1));
    max2 = vf32_max(max2, vf32_abs(x2_2));
    max2 = vf32_max(max2, vf32_abs(x2_3));
    const vf32 x3_0 = vf32_load(x + 96);
    const vf32 x3_1 = vf32_load(x + 104);
    const vf32 x3_2 = vf32_load(x + 112);
    const vf32 x3_3 = vf32_load(x + 120);
    vf32 max3 = vf32_abs(x3_0);
    max3 = vf32_max(max3, vf32_abs(x3_1));
    max3 = vf32_max(max3, vf32_abs(x3_2));
    max3 = vf32_max(max3, vf32_abs(x3_3));

    vf32_hmax4(max, max0, max1, max2, max3);
    tb_four_inverses(inverse, max);

    const vf32 inverse0 = vf32_set(inverse[0]);
    const vf32 scaled0[] = {
        vf32_mul(x0_0, inverse0),
        vf32_mul(x0_1, inverse0),
        vf32_mul(x0_2, inverse0),
        vf32_mul(x0_3, inverse0),
    };
    const vf32 inverse1 = vf32_set(inverse[1]);
    const vf32 scaled1[] = {
        vf32_mul(x1_0, inverse1),
        vf32_mul(x1_1, inverse1),
        vf32_mul(x1_2, inverse1),
        vf32_mul(x1_3, inverse1),
    };
    const vf32 inverse2 = vf32_set(inverse[2]);
    const vf32 scaled2[] = {
        vf32_mul(x2_0, inverse2),
        vf32_mul(x2_1, inverse2),
        vf32_mul(x2_2, inverse2),
        vf32_mul(x2_3, inverse2),
    };
    const vf32 inverse3 = vf32_set(inverse[3]);
    const vf32 scaled3[] = {
        vf32_mul(x3_0, inverse3),
        vf32_mul(x3_1, inverse3),
        vf32_mul(x3_2, inverse3),
        vf32_mul(x3_3, inverse3),
    };

    d[0] = max[0] / 127.0f;
    vf32_store_i8_32(q + 0, scaled0);
    d[1] = max[1] / 127.0f;
    vf32_store_i8_32(q + 32, scaled1);
    d[2] = max[2] / 127.0f;
    vf32_store_i8_32(q + 64, scaled2);
    d[3] = max[3] / 127.0f;
    vf32_store_i8_32(q + 96, scaled3);
}

TB_INLINE void quantize1(const float *x, int8_t *q, float *d)
{
    float max[1], inverse[1];
    const vf32 x0_0 = vf32_load(x + 0);
    const vf32 x0_1 = vf32_load(x + 8);
    const vf32 x0_2 = vf32_load(x + 16);
    const vf32 x0_3 = vf32_load(x + 24);
    vf32 max0 = vf32_abs(x0_0);
    max0 = vf32_max(max0, vf32_abs(x0_1));
    max0 = vf32_max(max0, vf32_abs(x0_2));
    max0 = vf32_max(max0, vf32_abs(x0_3));

    max[0] = vf32_hmax(max0);
    for (int j = 0; j < 1; j++)
        inverse[j] = max[j] >= 0x1p-120f ? 127.0f / max[j] : 0.0f;

    const vf32 inverse0 = vf32_set(inverse[0]);
    const vf32 scaled0[] = {
        vf32_mul(x0_0, inverse0),
        vf32_mul(x0_1, inverse0),
        vf32_mul(x0_2, inverse0),
        vf32_mul(x0_3, inverse0),
    };

    d[0] = max[0] / 127.0f;
    vf32_store_i8_32(q + 0, scaled0);
}

void quantize_q8__isa_avx2_max_four_u4(const float *restrict x, int8_t *restrict q, float *restrict d, size_t blocks)
{
    size_t b = 0;
    for (; blocks - b >= 4; b += 4)
        quantize4(x + 32 * b, q + 32 * b, d + b);
    for (; b < blocks; b++)
        quantize1(x + 32 * b, q + 32 * b, d + b);
}

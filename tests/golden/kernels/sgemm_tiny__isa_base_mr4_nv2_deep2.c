#include "tb/vec_base.h"
#include "tb/keep_loop.h"

/* 4 x 8 of c, 8 x 8. */
TB_INLINE void tile8_4(const float *a, const float *b, float *c)
{
    vf32 c0_0 = vf32_zero(), c0_1 = vf32_zero();
    vf32 c1_0 = vf32_zero(), c1_1 = vf32_zero();
    vf32 c2_0 = vf32_zero(), c2_1 = vf32_zero();
    vf32 c3_0 = vf32_zero(), c3_1 = vf32_zero();
    TB_KEEP_LOOP
    for (size_t p = 0; p < 8; p += 2, a += 2, b += 16) {
        const vf32 b0_0 = vf32_load(b + 0);
        const vf32 b0_1 = vf32_load(b + 4);
        c0_0 = vf32_fma(vf32_set(a[0]), b0_0, c0_0);
        c0_1 = vf32_fma(vf32_set(a[0]), b0_1, c0_1);
        c1_0 = vf32_fma(vf32_set(a[8]), b0_0, c1_0);
        c1_1 = vf32_fma(vf32_set(a[8]), b0_1, c1_1);
        c2_0 = vf32_fma(vf32_set(a[16]), b0_0, c2_0);
        c2_1 = vf32_fma(vf32_set(a[16]), b0_1, c2_1);
        c3_0 = vf32_fma(vf32_set(a[24]), b0_0, c3_0);
        c3_1 = vf32_fma(vf32_set(a[24]), b0_1, c3_1);
        const vf32 b1_0 = vf32_load(b + 8);
        const vf32 b1_1 = vf32_load(b + 12);
        c0_0 = vf32_fma(vf32_set(a[1]), b1_0, c0_0);
        c0_1 = vf32_fma(vf32_set(a[1]), b1_1, c0_1);
        c1_0 = vf32_fma(vf32_set(a[9]), b1_0, c1_0);
        c1_1 = vf32_fma(vf32_set(a[9]), b1_1, c1_1);
        c2_0 = vf32_fma(vf32_set(a[17]), b1_0, c2_0);
        c2_1 = vf32_fma(vf32_set(a[17]), b1_1, c2_1);
        c3_0 = vf32_fma(vf32_set(a[25]), b1_0, c3_0);
        c3_1 = vf32_fma(vf32_set(a[25]), b1_1, c3_1);
    }
    vf32_store(c + 0, c0_0);
    vf32_store(c + 4, c0_1);
    vf32_store(c + 8, c1_0);
    vf32_store(c + 12, c1_1);
    vf32_store(c + 16, c2_0);
    vf32_store(c + 20, c2_1);
    vf32_store(c + 24, c3_0);
    vf32_store(c + 28, c3_1);
}

static void multiply8(const float *a, const float *b, float *c)
{
    for (size_t j = 0; j < 8; j += 8) {
        size_t i = 0;
        for (; i < 8; i += 4)
            tile8_4(a + 8 * i, b + j, c + 8 * i + j);
    }
}

/* 4 x 8 of c, 16 x 16. */
TB_INLINE void tile16_4(const float *a, const float *b, float *c)
{
    vf32 c0_0 = vf32_zero(), c0_1 = vf32_zero();
    vf32 c1_0 = vf32_zero(), c1_1 = vf32_zero();
    vf32 c2_0 = vf32_zero(), c2_1 = vf32_zero();
    vf32 c3_0 = vf32_zero(), c3_1 = vf32_zero();
    TB_KEEP_LOOP
    for (size_t p = 0; p < 16; p += 2, a += 2, b += 32) {
        const vf32 b0_0 = vf32_load(b + 0);
        const vf32 b0_1 = vf32_load(b + 4);
        c0_0 = vf32_fma(vf32_set(a[0]), b0_0, c0_0);
        c0_1 = vf32_fma(vf32_set(a[0]), b0_1, c0_1);
        c1_0 = vf32_fma(vf32_set(a[16]), b0_0, c1_0);
        c1_1 = vf32_fma(vf32_set(a[16]), b0_1, c1_1);
        c2_0 = vf32_fma(vf32_set(a[32]), b0_0, c2_0);
        c2_1 = vf32_fma(vf32_set(a[32]), b0_1, c2_1);
        c3_0 = vf32_fma(vf32_set(a[48]), b0_0, c3_0);
        c3_1 = vf32_fma(vf32_set(a[48]), b0_1, c3_1);
        const vf32 b1_0 = vf32_load(b + 16);
        const vf32 b1_1 = vf32_load(b + 20);
        c0_0 = vf32_fma(vf32_set(a[1]), b1_0, c0_0);
        c0_1 = vf32_fma(vf32_set(a[1]), b1_1, c0_1);
        c1_0 = vf32_fma(vf32_set(a[17]), b1_0, c1_0);
        c1_1 = vf32_fma(vf32_set(a[17]), b1_1, c1_1);
        c2_0 = vf32_fma(vf32_set(a[33]), b1_0, c2_0);
        c2_1 = vf32_fma(vf32_set(a[33]), b1_1, c2_1);
        c3_0 = vf32_fma(vf32_set(a[49]), b1_0, c3_0);
        c3_1 = vf32_fma(vf32_set(a[49]), b1_1, c3_1);
    }
    vf32_store(c + 0, c0_0);
    vf32_store(c + 4, c0_1);
    vf32_store(c + 16, c1_0);
    vf32_store(c + 20, c1_1);
    vf32_store(c + 32, c2_0);
    vf32_store(c + 36, c2_1);
    vf32_store(c + 48, c3_0);
    vf32_store(c + 52, c3_1);
}

static void multiply16(const float *a, const float *b, float *c)
{
    for (size_t j = 0; j < 16; j += 8) {
        size_t i = 0;
        for (; i < 16; i += 4)
            tile16_4(a + 16 * i, b + j, c + 16 * i + j);
    }
}

/* 4 x 8 of c, 32 x 32. */
TB_INLINE void tile32_4(const float *a, const float *b, float *c)
{
    vf32 c0_0 = vf32_zero(), c0_1 = vf32_zero();
    vf32 c1_0 = vf32_zero(), c1_1 = vf32_zero();
    vf32 c2_0 = vf32_zero(), c2_1 = vf32_zero();
    vf32 c3_0 = vf32_zero(), c3_1 = vf32_zero();
    TB_KEEP_LOOP
    for (size_t p = 0; p < 32; p += 2, a += 2, b += 64) {
        const vf32 b0_0 = vf32_load(b + 0);
        const vf32 b0_1 = vf32_load(b + 4);
        c0_0 = vf32_fma(vf32_set(a[0]), b0_0, c0_0);
        c0_1 = vf32_fma(vf32_set(a[0]), b0_1, c0_1);
        c1_0 = vf32_fma(vf32_set(a[32]), b0_0, c1_0);
        c1_1 = vf32_fma(vf32_set(a[32]), b0_1, c1_1);
        c2_0 = vf32_fma(vf32_set(a[64]), b0_0, c2_0);
        c2_1 = vf32_fma(vf32_set(a[64]), b0_1, c2_1);
        c3_0 = vf32_fma(vf32_set(a[96]), b0_0, c3_0);
        c3_1 = vf32_fma(vf32_set(a[96]), b0_1, c3_1);
        const vf32 b1_0 = vf32_load(b + 32);
        const vf32 b1_1 = vf32_load(b + 36);
        c0_0 = vf32_fma(vf32_set(a[1]), b1_0, c0_0);
        c0_1 = vf32_fma(vf32_set(a[1]), b1_1, c0_1);
        c1_0 = vf32_fma(vf32_set(a[33]), b1_0, c1_0);
        c1_1 = vf32_fma(vf32_set(a[33]), b1_1, c1_1);
        c2_0 = vf32_fma(vf32_set(a[65]), b1_0, c2_0);
        c2_1 = vf32_fma(vf32_set(a[65]), b1_1, c2_1);
        c3_0 = vf32_fma(vf32_set(a[97]), b1_0, c3_0);
        c3_1 = vf32_fma(vf32_set(a[97]), b1_1, c3_1);
    }
    vf32_store(c + 0, c0_0);
    vf32_store(c + 4, c0_1);
    vf32_store(c + 32, c1_0);
    vf32_store(c + 36, c1_1);
    vf32_store(c + 64, c2_0);
    vf32_store(c + 68, c2_1);
    vf32_store(c + 96, c3_0);
    vf32_store(c + 100, c3_1);
}

static void multiply32(const float *a, const float *b, float *c)
{
    for (size_t j = 0; j < 32; j += 8) {
        size_t i = 0;
        for (; i < 32; i += 4)
            tile32_4(a + 32 * i, b + j, c + 32 * i + j);
    }
}

void sgemm_tiny__isa_base_mr4_nv2_deep2(const float *restrict a, const float *restrict b, float *restrict c, size_t size)
{
    if (size == 8)
        multiply8(a, b, c);
    else if (size == 16)
        multiply16(a, b, c);
    else
        multiply32(a, b, c);
}

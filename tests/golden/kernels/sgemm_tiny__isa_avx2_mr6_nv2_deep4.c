#include "tb/vec_avx2.h"
#include "tb/keep_loop.h"

/* 4 x 8 of c, 8 x 8. */
TB_INLINE void tile8_4(const float *a, const float *b, float *c)
{
    vf32 c0_0 = vf32_zero();
    vf32 c1_0 = vf32_zero();
    vf32 c2_0 = vf32_zero();
    vf32 c3_0 = vf32_zero();
    TB_KEEP_LOOP
    for (size_t p = 0; p < 8; p += 4, a += 4, b += 32) {
        const vf32 b0_0 = vf32_load(b + 0);
        c0_0 = vf32_fma(vf32_set(a[0]), b0_0, c0_0);
        c1_0 = vf32_fma(vf32_set(a[8]), b0_0, c1_0);
        c2_0 = vf32_fma(vf32_set(a[16]), b0_0, c2_0);
        c3_0 = vf32_fma(vf32_set(a[24]), b0_0, c3_0);
        const vf32 b1_0 = vf32_load(b + 8);
        c0_0 = vf32_fma(vf32_set(a[1]), b1_0, c0_0);
        c1_0 = vf32_fma(vf32_set(a[9]), b1_0, c1_0);
        c2_0 = vf32_fma(vf32_set(a[17]), b1_0, c2_0);
        c3_0 = vf32_fma(vf32_set(a[25]), b1_0, c3_0);
        const vf32 b2_0 = vf32_load(b + 16);
        c0_0 = vf32_fma(vf32_set(a[2]), b2_0, c0_0);
        c1_0 = vf32_fma(vf32_set(a[10]), b2_0, c1_0);
        c2_0 = vf32_fma(vf32_set(a[18]), b2_0, c2_0);
        c3_0 = vf32_fma(vf32_set(a[26]), b2_0, c3_0);
        const vf32 b3_0 = vf32_load(b + 24);
        c0_0 = vf32_fma(vf32_set(a[3]), b3_0, c0_0);
        c1_0 = vf32_fma(vf32_set(a[11]), b3_0, c1_0);
        c2_0 = vf32_fma(vf32_set(a[19]), b3_0, c2_0);
        c3_0 = vf32_fma(vf32_set(a[27]), b3_0, c3_0);
    }
    vf32_store(c + 0, c0_0);
    vf32_store(c + 8, c1_0);
    vf32_store(c + 16, c2_0);
    vf32_store(c + 24, c3_0);
}

static void multiply8(const float *a, const float *b, float *c)
{
    for (size_t j = 0; j < 8; j += 8) {
        size_t i = 0;
        for (; i < 8; i += 4)
            tile8_4(a + 8 * i, b + j, c + 8 * i + j);
    }
}

/* 6 x 16 of c, 16 x 16. */
TB_INLINE void tile16_6(const float *a, const float *b, float *c)
{
    vf32 c0_0 = vf32_zero(), c0_1 = vf32_zero();
    vf32 c1_0 = vf32_zero(), c1_1 = vf32_zero();
    vf32 c2_0 = vf32_zero(), c2_1 = vf32_zero();
    vf32 c3_0 = vf32_zero(), c3_1 = vf32_zero();
    vf32 c4_0 = vf32_zero(), c4_1 = vf32_zero();
    vf32 c5_0 = vf32_zero(), c5_1 = vf32_zero();
    TB_KEEP_LOOP
    for (size_t p = 0; p < 16; p += 4, a += 4, b += 64) {
        const vf32 b0_0 = vf32_load(b + 0);
        const vf32 b0_1 = vf32_load(b + 8);
        c0_0 = vf32_fma(vf32_set(a[0]), b0_0, c0_0);
        c0_1 = vf32_fma(vf32_set(a[0]), b0_1, c0_1);
        c1_0 = vf32_fma(vf32_set(a[16]), b0_0, c1_0);
        c1_1 = vf32_fma(vf32_set(a[16]), b0_1, c1_1);
        c2_0 = vf32_fma(vf32_set(a[32]), b0_0, c2_0);
        c2_1 = vf32_fma(vf32_set(a[32]), b0_1, c2_1);
        c3_0 = vf32_fma(vf32_set(a[48]), b0_0, c3_0);
        c3_1 = vf32_fma(vf32_set(a[48]), b0_1, c3_1);
        c4_0 = vf32_fma(vf32_set(a[64]), b0_0, c4_0);
        c4_1 = vf32_fma(vf32_set(a[64]), b0_1, c4_1);
        c5_0 = vf32_fma(vf32_set(a[80]), b0_0, c5_0);
        c5_1 = vf32_fma(vf32_set(a[80]), b0_1, c5_1);
        const vf32 b1_0 = vf32_load(b + 16);
        const vf32 b1_1 = vf32_load(b + 24);
        c0_0 = vf32_fma(vf32_set(a[1]), b1_0, c0_0);
        c0_1 = vf32_fma(vf32_set(a[1]), b1_1, c0_1);
        c1_0 = vf32_fma(vf32_set(a[17]), b1_0, c1_0);
        c1_1 = vf32_fma(vf32_set(a[17]), b1_1, c1_1);
        c2_0 = vf32_fma(vf32_set(a[33]), b1_0, c2_0);
        c2_1 = vf32_fma(vf32_set(a[33]), b1_1, c2_1);
        c3_0 = vf32_fma(vf32_set(a[49]), b1_0, c3_0);
        c3_1 = vf32_fma(vf32_set(a[49]), b1_1, c3_1);
        c4_0 = vf32_fma(vf32_set(a[65]), b1_0, c4_0);
        c4_1 = vf32_fma(vf32_set(a[65]), b1_1, c4_1);
        c5_0 = vf32_fma(vf32_set(a[81]), b1_0, c5_0);
        c5_1 = vf32_fma(vf32_set(a[81]), b1_1, c5_1);
        const vf32 b2_0 = vf32_load(b + 32);
        const vf32 b2_1 = vf32_load(b + 40);
        c0_0 = vf32_fma(vf32_set(a[2]), b2_0, c0_0);
        c0_1 = vf32_fma(vf32_set(a[2]), b2_1, c0_1);
        c1_0 = vf32_fma(vf32_set(a[18]), b2_0, c1_0);
        c1_1 = vf32_fma(vf32_set(a[18]), b2_1, c1_1);
        c2_0 = vf32_fma(vf32_set(a[34]), b2_0, c2_0);
        c2_1 = vf32_fma(vf32_set(a[34]), b2_1, c2_1);
        c3_0 = vf32_fma(vf32_set(a[50]), b2_0, c3_0);
        c3_1 = vf32_fma(vf32_set(a[50]), b2_1, c3_1);
        c4_0 = vf32_fma(vf32_set(a[66]), b2_0, c4_0);
        c4_1 = vf32_fma(vf32_set(a[66]), b2_1, c4_1);
        c5_0 = vf32_fma(vf32_set(a[82]), b2_0, c5_0);
        c5_1 = vf32_fma(vf32_set(a[82]), b2_1, c5_1);
        const vf32 b3_0 = vf32_load(b + 48);
        const vf32 b3_1 = vf32_load(b + 56);
        c0_0 = vf32_fma(vf32_set(a[3]), b3_0, c0_0);
        c0_1 = vf32_fma(vf32_set(a[3]), b3_1, c0_1);
        c1_0 = vf32_fma(vf32_set(a[19]), b3_0, c1_0);
        c1_1 = vf32_fma(vf32_set(a[19]), b3_1, c1_1);
        c2_0 = vf32_fma(vf32_set(a[35]), b3_0, c2_0);
        c2_1 = vf32_fma(vf32_set(a[35]), b3_1, c2_1);
        c3_0 = vf32_fma(vf32_set(a[51]), b3_0, c3_0);
        c3_1 = vf32_fma(vf32_set(a[51]), b3_1, c3_1);
        c4_0 = vf32_fma(vf32_set(a[67]), b3_0, c4_0);
        c4_1 = vf32_fma(vf32_set(a[67]), b3_1, c4_1);
        c5_0 = vf32_fma(vf32_set(a[83]), b3_0, c5_0);
        c5_1 = vf32_fma(vf32_set(a[83]), b3_1, c5_1);
    }
    vf32_store(c + 0, c0_0);
    vf32_store(c + 8, c0_1);
    vf32_store(c + 16, c1_0);
    vf32_store(c + 24, c1_1);
    vf32_store(c + 32, c2_0);
    vf32_store(c + 40, c2_1);
    vf32_store(c + 48, c3_0);
    vf32_store(c + 56, c3_1);
    vf32_store(c + 64, c4_0);
    vf32_store(c + 72, c4_1);
    vf32_store(c + 80, c5_0);
    vf32_store(c + 88, c5_1);
}

/* 5 x 16 of c, 16 x 16. */
TB_INLINE void tile16_5(const float *a, const float *b, float *c)
{
    vf32 c0_0 = vf32_zero(), c0_1 = vf32_zero();
    vf32 c1_0 = vf32_zero(), c1_1 = vf32_zero();
    vf32 c2_0 = vf32_zero(), c2_1 = vf32_zero();
    vf32 c3_0 = vf32_zero(), c3_1 = vf32_zero();
    vf32 c4_0 = vf32_zero(), c4_1 = vf32_zero();
    TB_KEEP_LOOP
    for (size_t p = 0; p < 16; p += 4, a += 4, b += 64) {
        const vf32 b0_0 = vf32_load(b + 0);
        const vf32 b0_1 = vf32_load(b + 8);
        c0_0 = vf32_fma(vf32_set(a[0]), b0_0, c0_0);
        c0_1 = vf32_fma(vf32_set(a[0]), b0_1, c0_1);
        c1_0 = vf32_fma(vf32_set(a[16]), b0_0, c1_0);
        c1_1 = vf32_fma(vf32_set(a[16]), b0_1, c1_1);
        c2_0 = vf32_fma(vf32_set(a[32]), b0_0, c2_0);
        c2_1 = vf32_fma(vf32_set(a[32]), b0_1, c2_1);
        c3_0 = vf32_fma(vf32_set(a[48]), b0_0, c3_0);
        c3_1 = vf32_fma(vf32_set(a[48]), b0_1, c3_1);
        c4_0 = vf32_fma(vf32_set(a[64]), b0_0, c4_0);
        c4_1 = vf32_fma(vf32_set(a[64]), b0_1, c4_1);
        const vf32 b1_0 = vf32_load(b + 16);
        const vf32 b1_1 = vf32_load(b + 24);
        c0_0 = vf32_fma(vf32_set(a[1]), b1_0, c0_0);
        c0_1 = vf32_fma(vf32_set(a[1]), b1_1, c0_1);
        c1_0 = vf32_fma(vf32_set(a[17]), b1_0, c1_0);
        c1_1 = vf32_fma(vf32_set(a[17]), b1_1, c1_1);
        c2_0 = vf32_fma(vf32_set(a[33]), b1_0, c2_0);
        c2_1 = vf32_fma(vf32_set(a[33]), b1_1, c2_1);
        c3_0 = vf32_fma(vf32_set(a[49]), b1_0, c3_0);
        c3_1 = vf32_fma(vf32_set(a[49]), b1_1, c3_1);
        c4_0 = vf32_fma(vf32_set(a[65]), b1_0, c4_0);
        c4_1 = vf32_fma(vf32_set(a[65]), b1_1, c4_1);
        const vf32 b2_0 = vf32_load(b + 32);
        const vf32 b2_1 = vf32_load(b + 40);
        c0_0 = vf32_fma(vf32_set(a[2]), b2_0, c0_0);
        c0_1 = vf32_fma(vf32_set(a[2]), b2_1, c0_1);
        c1_0 = vf32_fma(vf32_set(a[18]), b2_0, c1_0);
        c1_1 = vf32_fma(vf32_set(a[18]), b2_1, c1_1);
        c2_0 = vf32_fma(vf32_set(a[34]), b2_0, c2_0);
        c2_1 = vf32_fma(vf32_set(a[34]), b2_1, c2_1);
        c3_0 = vf32_fma(vf32_set(a[50]), b2_0, c3_0);
        c3_1 = vf32_fma(vf32_set(a[50]), b2_1, c3_1);
        c4_0 = vf32_fma(vf32_set(a[66]), b2_0, c4_0);
        c4_1 = vf32_fma(vf32_set(a[66]), b2_1, c4_1);
        const vf32 b3_0 = vf32_load(b + 48);
        const vf32 b3_1 = vf32_load(b + 56);
        c0_0 = vf32_fma(vf32_set(a[3]), b3_0, c0_0);
        c0_1 = vf32_fma(vf32_set(a[3]), b3_1, c0_1);
        c1_0 = vf32_fma(vf32_set(a[19]), b3_0, c1_0);
        c1_1 = vf32_fma(vf32_set(a[19]), b3_1, c1_1);
        c2_0 = vf32_fma(vf32_set(a[35]), b3_0, c2_0);
        c2_1 = vf32_fma(vf32_set(a[35]), b3_1, c2_1);
        c3_0 = vf32_fma(vf32_set(a[51]), b3_0, c3_0);
        c3_1 = vf32_fma(vf32_set(a[51]), b3_1, c3_1);
        c4_0 = vf32_fma(vf32_set(a[67]), b3_0, c4_0);
        c4_1 = vf32_fma(vf32_set(a[67]), b3_1, c4_1);
    }
    vf32_store(c + 0, c0_0);
    vf32_store(c + 8, c0_1);
    vf32_store(c + 16, c1_0);
    vf32_store(c + 24, c1_1);
    vf32_store(c + 32, c2_0);
    vf32_store(c + 40, c2_1);
    vf32_store(c + 48, c3_0);
    vf32_store(c + 56, c3_1);
    vf32_store(c + 64, c4_0);
    vf32_store(c + 72, c4_1);
}

static void multiply16(const float *a, const float *b, float *c)
{
    for (size_t j = 0; j < 16; j += 16) {
        size_t i = 0;
        for (; i < 6; i += 6)
            tile16_6(a + 16 * i, b + j, c + 16 * i + j);
        for (; i < 16; i += 5)
            tile16_5(a + 16 * i, b + j, c + 16 * i + j);
    }
}

/* 6 x 16 of c, 32 x 32. */
TB_INLINE void tile32_6(const float *a, const float *b, float *c)
{
    vf32 c0_0 = vf32_zero(), c0_1 = vf32_zero();
    vf32 c1_0 = vf32_zero(), c1_1 = vf32_zero();
    vf32 c2_0 = vf32_zero(), c2_1 = vf32_zero();
    vf32 c3_0 = vf32_zero(), c3_1 = vf32_zero();
    vf32 c4_0 = vf32_zero(), c4_1 = vf32_zero();
    vf32 c5_0 = vf32_zero(), c5_1 = vf32_zero();
    TB_KEEP_LOOP
    for (size_t p = 0; p < 32; p += 4, a += 4, b += 128) {
        const vf32 b0_0 = vf32_load(b + 0);
        const vf32 b0_1 = vf32_load(b + 8);
        c0_0 = vf32_fma(vf32_set(a[0]), b0_0, c0_0);
        c0_1 = vf32_fma(vf32_set(a[0]), b0_1, c0_1);
        c1_0 = vf32_fma(vf32_set(a[32]), b0_0, c1_0);
        c1_1 = vf32_fma(vf32_set(a[32]), b0_1, c1_1);
        c2_0 = vf32_fma(vf32_set(a[64]), b0_0, c2_0);
        c2_1 = vf32_fma(vf32_set(a[64]), b0_1, c2_1);
        c3_0 = vf32_fma(vf32_set(a[96]), b0_0, c3_0);
        c3_1 = vf32_fma(vf32_set(a[96]), b0_1, c3_1);
        c4_0 = vf32_fma(vf32_set(a[128]), b0_0, c4_0);
        c4_1 = vf32_fma(vf32_set(a[128]), b0_1, c4_1);
        c5_0 = vf32_fma(vf32_set(a[160]), b0_0, c5_0);
        c5_1 = vf32_fma(vf32_set(a[160]), b0_1, c5_1);
        const vf32 b1_0 = vf32_load(b + 32);
        const vf32 b1_1 = vf32_load(b + 40);
        c0_0 = vf32_fma(vf32_set(a[1]), b1_0, c0_0);
        c0_1 = vf32_fma(vf32_set(a[1]), b1_1, c0_1);
        c1_0 = vf32_fma(vf32_set(a[33]), b1_0, c1_0);
        c1_1 = vf32_fma(vf32_set(a[33]), b1_1, c1_1);
        c2_0 = vf32_fma(vf32_set(a[65]), b1_0, c2_0);
        c2_1 = vf32_fma(vf32_set(a[65]), b1_1, c2_1);
        c3_0 = vf32_fma(vf32_set(a[97]), b1_0, c3_0);
        c3_1 = vf32_fma(vf32_set(a[97]), b1_1, c3_1);
        c4_0 = vf32_fma(vf32_set(a[129]), b1_0, c4_0);
        c4_1 = vf32_fma(vf32_set(a[129]), b1_1, c4_1);
        c5_0 = vf32_fma(vf32_set(a[161]), b1_0, c5_0);
        c5_1 = vf32_fma(vf32_set(a[161]), b1_1, c5_1);
        const vf32 b2_0 = vf32_load(b + 64);
        const vf32 b2_1 = vf32_load(b + 72);
        c0_0 = vf32_fma(vf32_set(a[2]), b2_0, c0_0);
        c0_1 = vf32_fma(vf32_set(a[2]), b2_1, c0_1);
        c1_0 = vf32_fma(vf32_set(a[34]), b2_0, c1_0);
        c1_1 = vf32_fma(vf32_set(a[34]), b2_1, c1_1);
        c2_0 = vf32_fma(vf32_set(a[66]), b2_0, c2_0);
        c2_1 = vf32_fma(vf32_set(a[66]), b2_1, c2_1);
        c3_0 = vf32_fma(vf32_set(a[98]), b2_0, c3_0);
        c3_1 = vf32_fma(vf32_set(a[98]), b2_1, c3_1);
        c4_0 = vf32_fma(vf32_set(a[130]), b2_0, c4_0);
        c4_1 = vf32_fma(vf32_set(a[130]), b2_1, c4_1);
        c5_0 = vf32_fma(vf32_set(a[162]), b2_0, c5_0);
        c5_1 = vf32_fma(vf32_set(a[162]), b2_1, c5_1);
        const vf32 b3_0 = vf32_load(b + 96);
        const vf32 b3_1 = vf32_load(b + 104);
        c0_0 = vf32_fma(vf32_set(a[3]), b3_0, c0_0);
        c0_1 = vf32_fma(vf32_set(a[3]), b3_1, c0_1);
        c1_0 = vf32_fma(vf32_set(a[35]), b3_0, c1_0);
        c1_1 = vf32_fma(vf32_set(a[35]), b3_1, c1_1);
        c2_0 = vf32_fma(vf32_set(a[67]), b3_0, c2_0);
        c2_1 = vf32_fma(vf32_set(a[67]), b3_1, c2_1);
        c3_0 = vf32_fma(vf32_set(a[99]), b3_0, c3_0);
        c3_1 = vf32_fma(vf32_set(a[99]), b3_1, c3_1);
        c4_0 = vf32_fma(vf32_set(a[131]), b3_0, c4_0);
        c4_1 = vf32_fma(vf32_set(a[131]), b3_1, c4_1);
        c5_0 = vf32_fma(vf32_set(a[163]), b3_0, c5_0);
        c5_1 = vf32_fma(vf32_set(a[163]), b3_1, c5_1);
    }
    vf32_store(c + 0, c0_0);
    vf32_store(c + 8, c0_1);
    vf32_store(c + 32, c1_0);
    vf32_store(c + 40, c1_1);
    vf32_store(c + 64, c2_0);
    vf32_store(c + 72, c2_1);
    vf32_store(c + 96, c3_0);
    vf32_store(c + 104, c3_1);
    vf32_store(c + 128, c4_0);
    vf32_store(c + 136, c4_1);
    vf32_store(c + 160, c5_0);
    vf32_store(c + 168, c5_1);
}

/* 5 x 16 of c, 32 x 32. */
TB_INLINE void tile32_5(const float *a, const float *b, float *c)
{
    vf32 c0_0 = vf32_zero(), c0_1 = vf32_zero();
    vf32 c1_0 = vf32_zero(), c1_1 = vf32_zero();
    vf32 c2_0 = vf32_zero(), c2_1 = vf32_zero();
    vf32 c3_0 = vf32_zero(), c3_1 = vf32_zero();
    vf32 c4_0 = vf32_zero(), c4_1 = vf32_zero();
    TB_KEEP_LOOP
    for (size_t p = 0; p < 32; p += 4, a += 4, b += 128) {
        const vf32 b0_0 = vf32_load(b + 0);
        const vf32 b0_1 = vf32_load(b + 8);
        c0_0 = vf32_fma(vf32_set(a[0]), b0_0, c0_0);
        c0_1 = vf32_fma(vf32_set(a[0]), b0_1, c0_1);
        c1_0 = vf32_fma(vf32_set(a[32]), b0_0, c1_0);
        c1_1 = vf32_fma(vf32_set(a[32]), b0_1, c1_1);
        c2_0 = vf32_fma(vf32_set(a[64]), b0_0, c2_0);
        c2_1 = vf32_fma(vf32_set(a[64]), b0_1, c2_1);
        c3_0 = vf32_fma(vf32_set(a[96]), b0_0, c3_0);
        c3_1 = vf32_fma(vf32_set(a[96]), b0_1, c3_1);
        c4_0 = vf32_fma(vf32_set(a[128]), b0_0, c4_0);
        c4_1 = vf32_fma(vf32_set(a[128]), b0_1, c4_1);
        const vf32 b1_0 = vf32_load(b + 32);
        const vf32 b1_1 = vf32_load(b + 40);
        c0_0 = vf32_fma(vf32_set(a[1]), b1_0, c0_0);
        c0_1 = vf32_fma(vf32_set(a[1]), b1_1, c0_1);
        c1_0 = vf32_fma(vf32_set(a[33]), b1_0, c1_0);
        c1_1 = vf32_fma(vf32_set(a[33]), b1_1, c1_1);
        c2_0 = vf32_fma(vf32_set(a[65]), b1_0, c2_0);
        c2_1 = vf32_fma(vf32_set(a[65]), b1_1, c2_1);
        c3_0 = vf32_fma(vf32_set(a[97]), b1_0, c3_0);
        c3_1 = vf32_fma(vf32_set(a[97]), b1_1, c3_1);
        c4_0 = vf32_fma(vf32_set(a[129]), b1_0, c4_0);
        c4_1 = vf32_fma(vf32_set(a[129]), b1_1, c4_1);
        const vf32 b2_0 = vf32_load(b + 64);
        const vf32 b2_1 = vf32_load(b + 72);
        c0_0 = vf32_fma(vf32_set(a[2]), b2_0, c0_0);
        c0_1 = vf32_fma(vf32_set(a[2]), b2_1, c0_1);
        c1_0 = vf32_fma(vf32_set(a[34]), b2_0, c1_0);
        c1_1 = vf32_fma(vf32_set(a[34]), b2_1, c1_1);
        c2_0 = vf32_fma(vf32_set(a[66]), b2_0, c2_0);
        c2_1 = vf32_fma(vf32_set(a[66]), b2_1, c2_1);
        c3_0 = vf32_fma(vf32_set(a[98]), b2_0, c3_0);
        c3_1 = vf32_fma(vf32_set(a[98]), b2_1, c3_1);
        c4_0 = vf32_fma(vf32_set(a[130]), b2_0, c4_0);
        c4_1 = vf32_fma(vf32_set(a[130]), b2_1, c4_1);
        const vf32 b3_0 = vf32_load(b + 96);
        const vf32 b3_1 = vf32_load(b + 104);
        c0_0 = vf32_fma(vf32_set(a[3]), b3_0, c0_0);
        c0_1 = vf32_fma(vf32_set(a[3]), b3_1, c0_1);
        c1_0 = vf32_fma(vf32_set(a[35]), b3_0, c1_0);
        c1_1 = vf32_fma(vf32_set(a[35]), b3_1, c1_1);
        c2_0 = vf32_fma(vf32_set(a[67]), b3_0, c2_0);
        c2_1 = vf32_fma(vf32_set(a[67]), b3_1, c2_1);
        c3_0 = vf32_fma(vf32_set(a[99]), b3_0, c3_0);
        c3_1 = vf32_fma(vf32_set(a[99]), b3_1, c3_1);
        c4_0 = vf32_fma(vf32_set(a[131]), b3_0, c4_0);
        c4_1 = vf32_fma(vf32_set(a[131]), b3_1, c4_1);
    }
    vf32_store(c + 0, c0_0);
    vf32_store(c + 8, c0_1);
    vf32_store(c + 32, c1_0);
    vf32_store(c + 40, c1_1);
    vf32_store(c + 64, c2_0);
    vf32_store(c + 72, c2_1);
    vf32_store(c + 96, c3_0);
    vf32_store(c + 104, c3_1);
    vf32_store(c + 128, c4_0);
    vf32_store(c + 136, c4_1);
}

static void multiply32(const float *a, const float *b, float *c)
{
    for (size_t j = 0; j < 32; j += 16) {
        size_t i = 0;
        for (; i < 12; i += 6)
            tile32_6(a + 32 * i, b + j, c + 32 * i + j);
        for (; i < 32; i += 5)
            tile32_5(a + 32 * i, b + j, c + 32 * i + j);
    }
}

void sgemm_tiny__isa_avx2_mr6_nv2_deep4(const float *restrict a, const float *restrict b, float *restrict c, size_t size)
{
    if (size == 8)
        multiply8(a, b, c);
    else if (size == 16)
        multiply16(a, b, c);
    else
        multiply32(a, b, c);
}

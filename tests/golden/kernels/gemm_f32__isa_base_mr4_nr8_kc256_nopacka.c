#include <stdbool.h>
#include "tb/vec_base.h"

/* 4 x 8 sums over k; `cols` of them are stored, on top of what c holds if `more`. */
static void tile4(const float *a, size_t lda, const float *b, size_t ldb, float *c, size_t ldc, size_t k, size_t cols, bool more)
{
    vf32 c0_0 = vf32_zero(), c0_1 = vf32_zero();
    vf32 c1_0 = vf32_zero(), c1_1 = vf32_zero();
    vf32 c2_0 = vf32_zero(), c2_1 = vf32_zero();
    vf32 c3_0 = vf32_zero(), c3_1 = vf32_zero();
    tb_prefetch(c + 0 * ldc);
    tb_prefetch(c + 1 * ldc);
    tb_prefetch(c + 2 * ldc);
    tb_prefetch(c + 3 * ldc);

    size_t p = 0;
    for (; k - p >= 2; p += 2, a += 2, b += 2 * ldb) {
        const vf32 b0_0 = vf32_load(b + 0);
        const vf32 b0_1 = vf32_load(b + 4);
        const vf32 a0_0 = vf32_set(a[0 * lda + 0]);
        c0_0 = vf32_fma(a0_0, b0_0, c0_0);
        c0_1 = vf32_fma(a0_0, b0_1, c0_1);
        const vf32 a0_1 = vf32_set(a[1 * lda + 0]);
        c1_0 = vf32_fma(a0_1, b0_0, c1_0);
        c1_1 = vf32_fma(a0_1, b0_1, c1_1);
        const vf32 a0_2 = vf32_set(a[2 * lda + 0]);
        c2_0 = vf32_fma(a0_2, b0_0, c2_0);
        c2_1 = vf32_fma(a0_2, b0_1, c2_1);
        const vf32 a0_3 = vf32_set(a[3 * lda + 0]);
        c3_0 = vf32_fma(a0_3, b0_0, c3_0);
        c3_1 = vf32_fma(a0_3, b0_1, c3_1);
        const vf32 b1_0 = vf32_load(b + 1 * ldb + 0);
        const vf32 b1_1 = vf32_load(b + 1 * ldb + 4);
        const vf32 a1_0 = vf32_set(a[0 * lda + 1]);
        c0_0 = vf32_fma(a1_0, b1_0, c0_0);
        c0_1 = vf32_fma(a1_0, b1_1, c0_1);
        const vf32 a1_1 = vf32_set(a[1 * lda + 1]);
        c1_0 = vf32_fma(a1_1, b1_0, c1_0);
        c1_1 = vf32_fma(a1_1, b1_1, c1_1);
        const vf32 a1_2 = vf32_set(a[2 * lda + 1]);
        c2_0 = vf32_fma(a1_2, b1_0, c2_0);
        c2_1 = vf32_fma(a1_2, b1_1, c2_1);
        const vf32 a1_3 = vf32_set(a[3 * lda + 1]);
        c3_0 = vf32_fma(a1_3, b1_0, c3_0);
        c3_1 = vf32_fma(a1_3, b1_1, c3_1);
    }
    if (p < k) {
        const vf32 b0_0 = vf32_load(b + 0);
        const vf32 b0_1 = vf32_load(b + 4);
        const vf32 a0_0 = vf32_set(a[0 * lda + 0]);
        c0_0 = vf32_fma(a0_0, b0_0, c0_0);
        c0_1 = vf32_fma(a0_0, b0_1, c0_1);
        const vf32 a0_1 = vf32_set(a[1 * lda + 0]);
        c1_0 = vf32_fma(a0_1, b0_0, c1_0);
        c1_1 = vf32_fma(a0_1, b0_1, c1_1);
        const vf32 a0_2 = vf32_set(a[2 * lda + 0]);
        c2_0 = vf32_fma(a0_2, b0_0, c2_0);
        c2_1 = vf32_fma(a0_2, b0_1, c2_1);
        const vf32 a0_3 = vf32_set(a[3 * lda + 0]);
        c3_0 = vf32_fma(a0_3, b0_0, c3_0);
        c3_1 = vf32_fma(a0_3, b0_1, c3_1);
    }

    vf32_put_more(c + 0 * ldc + 0, c0_0, cols, 0, more);
    vf32_put_more(c + 0 * ldc + 4, c0_1, cols, 4, more);
    vf32_put_more(c + 1 * ldc + 0, c1_0, cols, 0, more);
    vf32_put_more(c + 1 * ldc + 4, c1_1, cols, 4, more);
    vf32_put_more(c + 2 * ldc + 0, c2_0, cols, 0, more);
    vf32_put_more(c + 2 * ldc + 4, c2_1, cols, 4, more);
    vf32_put_more(c + 3 * ldc + 0, c3_0, cols, 0, more);
    vf32_put_more(c + 3 * ldc + 4, c3_1, cols, 4, more);
}

/* 2 x 8 sums over k; `cols` of them are stored, on top of what c holds if `more`. */
static void tile2(const float *a, size_t lda, const float *b, size_t ldb, float *c, size_t ldc, size_t k, size_t cols, bool more)
{
    vf32 c0_0 = vf32_zero(), c0_1 = vf32_zero();
    vf32 c1_0 = vf32_zero(), c1_1 = vf32_zero();
    tb_prefetch(c + 0 * ldc);
    tb_prefetch(c + 1 * ldc);

    size_t p = 0;
    for (; k - p >= 2; p += 2, a += 2, b += 2 * ldb) {
        const vf32 b0_0 = vf32_load(b + 0);
        const vf32 b0_1 = vf32_load(b + 4);
        const vf32 a0_0 = vf32_set(a[0 * lda + 0]);
        c0_0 = vf32_fma(a0_0, b0_0, c0_0);
        c0_1 = vf32_fma(a0_0, b0_1, c0_1);
        const vf32 a0_1 = vf32_set(a[1 * lda + 0]);
        c1_0 = vf32_fma(a0_1, b0_0, c1_0);
        c1_1 = vf32_fma(a0_1, b0_1, c1_1);
        const vf32 b1_0 = vf32_load(b + 1 * ldb + 0);
        const vf32 b1_1 = vf32_load(b + 1 * ldb + 4);
        const vf32 a1_0 = vf32_set(a[0 * lda + 1]);
        c0_0 = vf32_fma(a1_0, b1_0, c0_0);
        c0_1 = vf32_fma(a1_0, b1_1, c0_1);
        const vf32 a1_1 = vf32_set(a[1 * lda + 1]);
        c1_0 = vf32_fma(a1_1, b1_0, c1_0);
        c1_1 = vf32_fma(a1_1, b1_1, c1_1);
    }
    if (p < k) {
        const vf32 b0_0 = vf32_load(b + 0);
        const vf32 b0_1 = vf32_load(b + 4);
        const vf32 a0_0 = vf32_set(a[0 * lda + 0]);
        c0_0 = vf32_fma(a0_0, b0_0, c0_0);
        c0_1 = vf32_fma(a0_0, b0_1, c0_1);
        const vf32 a0_1 = vf32_set(a[1 * lda + 0]);
        c1_0 = vf32_fma(a0_1, b0_0, c1_0);
        c1_1 = vf32_fma(a0_1, b0_1, c1_1);
    }

    vf32_put_more(c + 0 * ldc + 0, c0_0, cols, 0, more);
    vf32_put_more(c + 0 * ldc + 4, c0_1, cols, 4, more);
    vf32_put_more(c + 1 * ldc + 0, c1_0, cols, 0, more);
    vf32_put_more(c + 1 * ldc + 4, c1_1, cols, 4, more);
}

/* 1 x 8 sums over k; `cols` of them are stored, on top of what c holds if `more`. */
static void tile1(const float *a, size_t lda, const float *b, size_t ldb, float *c, size_t ldc, size_t k, size_t cols, bool more)
{
    vf32 c0_0 = vf32_zero(), c0_1 = vf32_zero();
    tb_prefetch(c + 0 * ldc);

    size_t p = 0;
    for (; k - p >= 2; p += 2, a += 2, b += 2 * ldb) {
        const vf32 b0_0 = vf32_load(b + 0);
        const vf32 b0_1 = vf32_load(b + 4);
        const vf32 a0_0 = vf32_set(a[0 * lda + 0]);
        c0_0 = vf32_fma(a0_0, b0_0, c0_0);
        c0_1 = vf32_fma(a0_0, b0_1, c0_1);
        const vf32 b1_0 = vf32_load(b + 1 * ldb + 0);
        const vf32 b1_1 = vf32_load(b + 1 * ldb + 4);
        const vf32 a1_0 = vf32_set(a[0 * lda + 1]);
        c0_0 = vf32_fma(a1_0, b1_0, c0_0);
        c0_1 = vf32_fma(a1_0, b1_1, c0_1);
    }
    if (p < k) {
        const vf32 b0_0 = vf32_load(b + 0);
        const vf32 b0_1 = vf32_load(b + 4);
        const vf32 a0_0 = vf32_set(a[0 * lda + 0]);
        c0_0 = vf32_fma(a0_0, b0_0, c0_0);
        c0_1 = vf32_fma(a0_0, b0_1, c0_1);
    }

    vf32_put_more(c + 0 * ldc + 0, c0_0, cols, 0, more);
    vf32_put_more(c + 0 * ldc + 4, c0_1, cols, 4, more);
}

void gemm_f32__isa_base_mr4_nr8_kc256_nopacka(const float *restrict a, const float *restrict b, float *restrict c, size_t m, size_t n, size_t k)
{
    size_t k0 = 0;
    do { /* once also for k = 0, which stores zeros */
        const size_t depth = k - k0 < 256 ? k - k0 : 256;
        for (size_t i0 = 0; i0 < m; i0 += 96) {
            const size_t rows = m - i0 < 96 ? m - i0 : 96;
            const float *close = a + i0 * k + k0;
            const size_t lda = k;
            for (size_t j = 0; j < n; j += 8) {
                const float *panel = b + j * k + k0 * 8;
                size_t i = 0;
                for (; rows - i >= 4; i += 4)
                    tile4(close + i * lda, lda, panel, 8, c + (i0 + i) * n + j, n, depth, n - j, k0 > 0);
                for (; rows - i >= 2; i += 2)
                    tile2(close + i * lda, lda, panel, 8, c + (i0 + i) * n + j, n, depth, n - j, k0 > 0);
                for (; rows - i >= 1; i += 1)
                    tile1(close + i * lda, lda, panel, 8, c + (i0 + i) * n + j, n, depth, n - j, k0 > 0);
            }
        }
        k0 += 256;
    } while (k0 < k);
}

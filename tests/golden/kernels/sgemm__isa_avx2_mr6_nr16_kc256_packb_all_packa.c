#include <stdbool.h>
#include "tb/vec_avx2.h"

/* 6 x 16 sums over k; `cols` of them are stored, on top of what c holds if `more`. */
static void tile6(const float *a, size_t lda, const float *b, size_t ldb, float *c, size_t ldc, size_t k, size_t cols, bool more)
{
    vf32 c0_0 = vf32_zero(), c0_1 = vf32_zero();
    vf32 c1_0 = vf32_zero(), c1_1 = vf32_zero();
    vf32 c2_0 = vf32_zero(), c2_1 = vf32_zero();
    vf32 c3_0 = vf32_zero(), c3_1 = vf32_zero();
    vf32 c4_0 = vf32_zero(), c4_1 = vf32_zero();
    vf32 c5_0 = vf32_zero(), c5_1 = vf32_zero();
    tb_prefetch(c + 0 * ldc);
    tb_prefetch(c + 1 * ldc);
    tb_prefetch(c + 2 * ldc);
    tb_prefetch(c + 3 * ldc);
    tb_prefetch(c + 4 * ldc);
    tb_prefetch(c + 5 * ldc);

    size_t p = 0;
    for (; k - p >= 2; p += 2, a += 2, b += 2 * ldb) {
        const vf32 b0_0 = vf32_load(b + 0);
        const vf32 b0_1 = vf32_load(b + 8);
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
        const vf32 a0_4 = vf32_set(a[4 * lda + 0]);
        c4_0 = vf32_fma(a0_4, b0_0, c4_0);
        c4_1 = vf32_fma(a0_4, b0_1, c4_1);
        const vf32 a0_5 = vf32_set(a[5 * lda + 0]);
        c5_0 = vf32_fma(a0_5, b0_0, c5_0);
        c5_1 = vf32_fma(a0_5, b0_1, c5_1);
        const vf32 b1_0 = vf32_load(b + 1 * ldb + 0);
        const vf32 b1_1 = vf32_load(b + 1 * ldb + 8);
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
        const vf32 a1_4 = vf32_set(a[4 * lda + 1]);
        c4_0 = vf32_fma(a1_4, b1_0, c4_0);
        c4_1 = vf32_fma(a1_4, b1_1, c4_1);
        const vf32 a1_5 = vf32_set(a[5 * lda + 1]);
        c5_0 = vf32_fma(a1_5, b1_0, c5_0);
        c5_1 = vf32_fma(a1_5, b1_1, c5_1);
    }
    if (p < k) {
        const vf32 b0_0 = vf32_load(b + 0);
        const vf32 b0_1 = vf32_load(b + 8);
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
        const vf32 a0_4 = vf32_set(a[4 * lda + 0]);
        c4_0 = vf32_fma(a0_4, b0_0, c4_0);
        c4_1 = vf32_fma(a0_4, b0_1, c4_1);
        const vf32 a0_5 = vf32_set(a[5 * lda + 0]);
        c5_0 = vf32_fma(a0_5, b0_0, c5_0);
        c5_1 = vf32_fma(a0_5, b0_1, c5_1);
    }

    vf32_put_more(c + 0 * ldc + 0, c0_0, cols, 0, more);
    vf32_put_more(c + 0 * ldc + 8, c0_1, cols, 8, more);
    vf32_put_more(c + 1 * ldc + 0, c1_0, cols, 0, more);
    vf32_put_more(c + 1 * ldc + 8, c1_1, cols, 8, more);
    vf32_put_more(c + 2 * ldc + 0, c2_0, cols, 0, more);
    vf32_put_more(c + 2 * ldc + 8, c2_1, cols, 8, more);
    vf32_put_more(c + 3 * ldc + 0, c3_0, cols, 0, more);
    vf32_put_more(c + 3 * ldc + 8, c3_1, cols, 8, more);
    vf32_put_more(c + 4 * ldc + 0, c4_0, cols, 0, more);
    vf32_put_more(c + 4 * ldc + 8, c4_1, cols, 8, more);
    vf32_put_more(c + 5 * ldc + 0, c5_0, cols, 0, more);
    vf32_put_more(c + 5 * ldc + 8, c5_1, cols, 8, more);
}

/* 4 x 16 sums over k; `cols` of them are stored, on top of what c holds if `more`. */
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
        const vf32 b0_1 = vf32_load(b + 8);
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
        const vf32 b1_1 = vf32_load(b + 1 * ldb + 8);
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
        const vf32 b0_1 = vf32_load(b + 8);
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
    vf32_put_more(c + 0 * ldc + 8, c0_1, cols, 8, more);
    vf32_put_more(c + 1 * ldc + 0, c1_0, cols, 0, more);
    vf32_put_more(c + 1 * ldc + 8, c1_1, cols, 8, more);
    vf32_put_more(c + 2 * ldc + 0, c2_0, cols, 0, more);
    vf32_put_more(c + 2 * ldc + 8, c2_1, cols, 8, more);
    vf32_put_more(c + 3 * ldc + 0, c3_0, cols, 0, more);
    vf32_put_more(c + 3 * ldc + 8, c3_1, cols, 8, more);
}

/* 2 x 16 sums over k; `cols` of them are stored, on top of what c holds if `more`. */
static void tile2(const float *a, size_t lda, const float *b, size_t ldb, float *c, size_t ldc, size_t k, size_t cols, bool more)
{
    vf32 c0_0 = vf32_zero(), c0_1 = vf32_zero();
    vf32 c1_0 = vf32_zero(), c1_1 = vf32_zero();
    tb_prefetch(c + 0 * ldc);
    tb_prefetch(c + 1 * ldc);

    size_t p = 0;
    for (; k - p >= 2; p += 2, a += 2, b += 2 * ldb) {
        const vf32 b0_0 = vf32_load(b + 0);
        const vf32 b0_1 = vf32_load(b + 8);
        const vf32 a0_0 = vf32_set(a[0 * lda + 0]);
        c0_0 = vf32_fma(a0_0, b0_0, c0_0);
        c0_1 = vf32_fma(a0_0, b0_1, c0_1);
        const vf32 a0_1 = vf32_set(a[1 * lda + 0]);
        c1_0 = vf32_fma(a0_1, b0_0, c1_0);
        c1_1 = vf32_fma(a0_1, b0_1, c1_1);
        const vf32 b1_0 = vf32_load(b + 1 * ldb + 0);
        const vf32 b1_1 = vf32_load(b + 1 * ldb + 8);
        const vf32 a1_0 = vf32_set(a[0 * lda + 1]);
        c0_0 = vf32_fma(a1_0, b1_0, c0_0);
        c0_1 = vf32_fma(a1_0, b1_1, c0_1);
        const vf32 a1_1 = vf32_set(a[1 * lda + 1]);
        c1_0 = vf32_fma(a1_1, b1_0, c1_0);
        c1_1 = vf32_fma(a1_1, b1_1, c1_1);
    }
    if (p < k) {
        const vf32 b0_0 = vf32_load(b + 0);
        const vf32 b0_1 = vf32_load(b + 8);
        const vf32 a0_0 = vf32_set(a[0 * lda + 0]);
        c0_0 = vf32_fma(a0_0, b0_0, c0_0);
        c0_1 = vf32_fma(a0_0, b0_1, c0_1);
        const vf32 a0_1 = vf32_set(a[1 * lda + 0]);
        c1_0 = vf32_fma(a0_1, b0_0, c1_0);
        c1_1 = vf32_fma(a0_1, b0_1, c1_1);
    }

    vf32_put_more(c + 0 * ldc + 0, c0_0, cols, 0, more);
    vf32_put_more(c + 0 * ldc + 8, c0_1, cols, 8, more);
    vf32_put_more(c + 1 * ldc + 0, c1_0, cols, 0, more);
    vf32_put_more(c + 1 * ldc + 8, c1_1, cols, 8, more);
}

/* 1 x 16 sums over k; `cols` of them are stored, on top of what c holds if `more`. */
static void tile1(const float *a, size_t lda, const float *b, size_t ldb, float *c, size_t ldc, size_t k, size_t cols, bool more)
{
    vf32 c0_0 = vf32_zero(), c0_1 = vf32_zero();
    tb_prefetch(c + 0 * ldc);

    size_t p = 0;
    for (; k - p >= 2; p += 2, a += 2, b += 2 * ldb) {
        const vf32 b0_0 = vf32_load(b + 0);
        const vf32 b0_1 = vf32_load(b + 8);
        const vf32 a0_0 = vf32_set(a[0 * lda + 0]);
        c0_0 = vf32_fma(a0_0, b0_0, c0_0);
        c0_1 = vf32_fma(a0_0, b0_1, c0_1);
        const vf32 b1_0 = vf32_load(b + 1 * ldb + 0);
        const vf32 b1_1 = vf32_load(b + 1 * ldb + 8);
        const vf32 a1_0 = vf32_set(a[0 * lda + 1]);
        c0_0 = vf32_fma(a1_0, b1_0, c0_0);
        c0_1 = vf32_fma(a1_0, b1_1, c0_1);
    }
    if (p < k) {
        const vf32 b0_0 = vf32_load(b + 0);
        const vf32 b0_1 = vf32_load(b + 8);
        const vf32 a0_0 = vf32_set(a[0 * lda + 0]);
        c0_0 = vf32_fma(a0_0, b0_0, c0_0);
        c0_1 = vf32_fma(a0_0, b0_1, c0_1);
    }

    vf32_put_more(c + 0 * ldc + 0, c0_0, cols, 0, more);
    vf32_put_more(c + 0 * ldc + 8, c0_1, cols, 8, more);
}

/* k rows and `cols` columns of b as panels of 16 columns, each without gaps; missing columns are zero. Row after row,
   since its rows may lie a page apart. */
static void pack_panels(const float *b, size_t n, float *to, size_t cols, size_t k)
{
    for (size_t p = 0; p < k; p++, b += n, to += 16)
        for (size_t j = 0; j < cols; j += 16) {
            float *panel_row = to + j * k;
            if (cols - j >= 16) {
                vf32_store(panel_row + 0, vf32_load(b + j + 0));
                vf32_store(panel_row + 8, vf32_load(b + j + 8));
            } else {
                for (size_t i = 0; i < 16; i++)
                    panel_row[i] = i < cols - j ? b[j + i] : 0.0f;
            }
        }
}

void sgemm__isa_avx2_mr6_nr16_kc256_packb_all_packa(const float *restrict a, const float *restrict b, float *restrict c, float *restrict work, size_t m, size_t n, size_t k)
{
    float *panels = work + (0 - (uintptr_t)work / sizeof *work) % 16; /* from a cache line on */
    size_t k0 = 0;
    do { /* once also for k = 0, which stores zeros */
        const size_t depth = k - k0 < 256 ? k - k0 : 256;
        const float *b_rows = b + k0 * n;
        pack_panels(b_rows, n, panels, n, depth);

        for (size_t i0 = 0; i0 < m; i0 += 96) {
            const size_t rows = m - i0 < 96 ? m - i0 : 96;
            float *close = panels + (n + 15) / 16 * 4096;
            const size_t lda = 264; /* not a power of two: rows meet in other sets and banks of the cache */
            for (size_t i = 0; i < rows; i++)
                memcpy(close + i * lda, a + (i0 + i) * k + k0, depth * sizeof *a);
            for (size_t j = 0; j < n; j += 16) {
                const float *panel = panels + j * depth;
                const size_t ldb = 16;
                size_t i = 0;
                for (; rows - i >= 6; i += 6)
                    tile6(close + i * lda, lda, panel, ldb, c + (i0 + i) * n + j, n, depth, n - j, k0 > 0);
                for (; rows - i >= 4; i += 4)
                    tile4(close + i * lda, lda, panel, ldb, c + (i0 + i) * n + j, n, depth, n - j, k0 > 0);
                for (; rows - i >= 2; i += 2)
                    tile2(close + i * lda, lda, panel, ldb, c + (i0 + i) * n + j, n, depth, n - j, k0 > 0);
                for (; rows - i >= 1; i += 1)
                    tile1(close + i * lda, lda, panel, ldb, c + (i0 + i) * n + j, n, depth, n - j, k0 > 0);
            }
        }
        k0 += 256;
    } while (k0 < k);
}

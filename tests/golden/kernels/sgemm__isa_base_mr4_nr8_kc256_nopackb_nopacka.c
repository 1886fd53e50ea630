#include <stdbool.h>
#include "tb/vec_base.h"

/* 4 x 8 sums over k; `cols` of them are stored, on top of what c holds if `more`. */
static void tile4(const float *a, size_t lda, const float *b, size_t ldb, float *c, size_t ldc, size_t k, size_t cols, bool more)
{
    vf32 c0_0 = vf32_zero(), c0_1 = vf32_zero();
    vf32 c1_0 = vf32_zero(), c1_1 = vf32_zero();
    vf32 c2_0 = vf32_zero(), c2_1 = vf32_zero();
    vf32 c3_0 = vf32_zero(), c3_1 = vf32_zero();

    for (size_t p = 0; p < k; p++, a++, b += ldb) {
        const vf32 b0 = vf32_load(b + 0);
        const vf32 b1 = vf32_load(b + 4);
        const vf32 a0 = vf32_set(a[0 * lda]);
        c0_0 = vf32_fma(a0, b0, c0_0);
        c0_1 = vf32_fma(a0, b1, c0_1);
        const vf32 a1 = vf32_set(a[1 * lda]);
        c1_0 = vf32_fma(a1, b0, c1_0);
        c1_1 = vf32_fma(a1, b1, c1_1);
        const vf32 a2 = vf32_set(a[2 * lda]);
        c2_0 = vf32_fma(a2, b0, c2_0);
        c2_1 = vf32_fma(a2, b1, c2_1);
        const vf32 a3 = vf32_set(a[3 * lda]);
        c3_0 = vf32_fma(a3, b0, c3_0);
        c3_1 = vf32_fma(a3, b1, c3_1);
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

    for (size_t p = 0; p < k; p++, a++, b += ldb) {
        const vf32 b0 = vf32_load(b + 0);
        const vf32 b1 = vf32_load(b + 4);
        const vf32 a0 = vf32_set(a[0 * lda]);
        c0_0 = vf32_fma(a0, b0, c0_0);
        c0_1 = vf32_fma(a0, b1, c0_1);
        const vf32 a1 = vf32_set(a[1 * lda]);
        c1_0 = vf32_fma(a1, b0, c1_0);
        c1_1 = vf32_fma(a1, b1, c1_1);
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

    for (size_t p = 0; p < k; p++, a++, b += ldb) {
        const vf32 b0 = vf32_load(b + 0);
        const vf32 b1 = vf32_load(b + 4);
        const vf32 a0 = vf32_set(a[0 * lda]);
        c0_0 = vf32_fma(a0, b0, c0_0);
        c0_1 = vf32_fma(a0, b1, c0_1);
    }

    vf32_put_more(c + 0 * ldc + 0, c0_0, cols, 0, more);
    vf32_put_more(c + 0 * ldc + 4, c0_1, cols, 4, more);
}

/* k rows and up to 8 columns of b, without gaps; missing columns are zero. */
static void pack_panel(const float *b, size_t n, float *to, size_t cols, size_t k)
{
    for (size_t p = 0; cols >= 8 && p < k; p++, b += n, to += 8) {
        vf32_store(to + 0, vf32_load(b + 0));
        vf32_store(to + 4, vf32_load(b + 4));
    }
    for (size_t p = 0; cols < 8 && p < k; p++, b += n, to += 8) {
        for (size_t j = 0; j < 8 && j < cols; j++)
            to[j] = b[j];
        for (size_t j = cols; j < 8; j++)
            to[j] = 0.0f;
    }
}

void sgemm__isa_base_mr4_nr8_kc256_nopackb_nopacka(const float *restrict a, const float *restrict b, float *restrict c, float *restrict work, size_t m, size_t n, size_t k)
{
    size_t k0 = 0;
    do { /* once also for k = 0, which stores zeros */
        const size_t depth = k - k0 < 256 ? k - k0 : 256;
        const float *b_rows = b + k0 * n;
        const size_t unpacked = n / 8 * 8; /* columns that are read where they are */
        for (size_t j = unpacked; j < n; j += 8)
            pack_panel(b_rows + j, n, work + (j - unpacked) * depth, n - j, depth);

        for (size_t i0 = 0; i0 < m; i0 += 96) {
            const size_t rows = m - i0 < 96 ? m - i0 : 96;
            for (size_t j = 0; j < n; j += 8) {
                const bool packed_panel = j >= unpacked;
                const float *panel = packed_panel ? work + (j - unpacked) * depth : b_rows + j;
                const size_t ldb = packed_panel ? 8 : n;
                size_t i = 0;
                for (; rows - i >= 4; i += 4)
                    tile4(a + (i0 + i) * k + k0, k, panel, ldb, c + (i0 + i) * n + j, n, depth, n - j, k0 > 0);
                for (; rows - i >= 2; i += 2)
                    tile2(a + (i0 + i) * k + k0, k, panel, ldb, c + (i0 + i) * n + j, n, depth, n - j, k0 > 0);
                for (; rows - i >= 1; i += 1)
                    tile1(a + (i0 + i) * k + k0, k, panel, ldb, c + (i0 + i) * n + j, n, depth, n - j, k0 > 0);
            }
        }
        k0 += 256;
    } while (k0 < k);
}

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

    for (size_t p = 0; p < k; p++, a += 6, b += ldb) {
        const vf32 b0 = vf32_load(b + 0);
        const vf32 b1 = vf32_load(b + 8);
        const vf32 a0 = vf32_set(a[0]);
        c0_0 = vf32_fma(a0, b0, c0_0);
        c0_1 = vf32_fma(a0, b1, c0_1);
        const vf32 a1 = vf32_set(a[1]);
        c1_0 = vf32_fma(a1, b0, c1_0);
        c1_1 = vf32_fma(a1, b1, c1_1);
        const vf32 a2 = vf32_set(a[2]);
        c2_0 = vf32_fma(a2, b0, c2_0);
        c2_1 = vf32_fma(a2, b1, c2_1);
        const vf32 a3 = vf32_set(a[3]);
        c3_0 = vf32_fma(a3, b0, c3_0);
        c3_1 = vf32_fma(a3, b1, c3_1);
        const vf32 a4 = vf32_set(a[4]);
        c4_0 = vf32_fma(a4, b0, c4_0);
        c4_1 = vf32_fma(a4, b1, c4_1);
        const vf32 a5 = vf32_set(a[5]);
        c5_0 = vf32_fma(a5, b0, c5_0);
        c5_1 = vf32_fma(a5, b1, c5_1);
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
    (void)lda;
}

/* 4 x 16 sums over k; `cols` of them are stored, on top of what c holds if `more`. */
static void tile4(const float *a, size_t lda, const float *b, size_t ldb, float *c, size_t ldc, size_t k, size_t cols, bool more)
{
    vf32 c0_0 = vf32_zero(), c0_1 = vf32_zero();
    vf32 c1_0 = vf32_zero(), c1_1 = vf32_zero();
    vf32 c2_0 = vf32_zero(), c2_1 = vf32_zero();
    vf32 c3_0 = vf32_zero(), c3_1 = vf32_zero();

    for (size_t p = 0; p < k; p++, a += 4, b += ldb) {
        const vf32 b0 = vf32_load(b + 0);
        const vf32 b1 = vf32_load(b + 8);
        const vf32 a0 = vf32_set(a[0]);
        c0_0 = vf32_fma(a0, b0, c0_0);
        c0_1 = vf32_fma(a0, b1, c0_1);
        const vf32 a1 = vf32_set(a[1]);
        c1_0 = vf32_fma(a1, b0, c1_0);
        c1_1 = vf32_fma(a1, b1, c1_1);
        const vf32 a2 = vf32_set(a[2]);
        c2_0 = vf32_fma(a2, b0, c2_0);
        c2_1 = vf32_fma(a2, b1, c2_1);
        const vf32 a3 = vf32_set(a[3]);
        c3_0 = vf32_fma(a3, b0, c3_0);
        c3_1 = vf32_fma(a3, b1, c3_1);
    }

    vf32_put_more(c + 0 * ldc + 0, c0_0, cols, 0, more);
    vf32_put_more(c + 0 * ldc + 8, c0_1, cols, 8, more);
    vf32_put_more(c + 1 * ldc + 0, c1_0, cols, 0, more);
    vf32_put_more(c + 1 * ldc + 8, c1_1, cols, 8, more);
    vf32_put_more(c + 2 * ldc + 0, c2_0, cols, 0, more);
    vf32_put_more(c + 2 * ldc + 8, c2_1, cols, 8, more);
    vf32_put_more(c + 3 * ldc + 0, c3_0, cols, 0, more);
    vf32_put_more(c + 3 * ldc + 8, c3_1, cols, 8, more);
    (void)lda;
}

/* 2 x 16 sums over k; `cols` of them are stored, on top of what c holds if `more`. */
static void tile2(const float *a, size_t lda, const float *b, size_t ldb, float *c, size_t ldc, size_t k, size_t cols, bool more)
{
    vf32 c0_0 = vf32_zero(), c0_1 = vf32_zero();
    vf32 c1_0 = vf32_zero(), c1_1 = vf32_zero();

    for (size_t p = 0; p < k; p++, a += 2, b += ldb) {
        const vf32 b0 = vf32_load(b + 0);
        const vf32 b1 = vf32_load(b + 8);
        const vf32 a0 = vf32_set(a[0]);
        c0_0 = vf32_fma(a0, b0, c0_0);
        c0_1 = vf32_fma(a0, b1, c0_1);
        const vf32 a1 = vf32_set(a[1]);
        c1_0 = vf32_fma(a1, b0, c1_0);
        c1_1 = vf32_fma(a1, b1, c1_1);
    }

    vf32_put_more(c + 0 * ldc + 0, c0_0, cols, 0, more);
    vf32_put_more(c + 0 * ldc + 8, c0_1, cols, 8, more);
    vf32_put_more(c + 1 * ldc + 0, c1_0, cols, 0, more);
    vf32_put_more(c + 1 * ldc + 8, c1_1, cols, 8, more);
    (void)lda;
}

/* 1 x 16 sums over k; `cols` of them are stored, on top of what c holds if `more`. */
static void tile1(const float *a, size_t lda, const float *b, size_t ldb, float *c, size_t ldc, size_t k, size_t cols, bool more)
{
    vf32 c0_0 = vf32_zero(), c0_1 = vf32_zero();

    for (size_t p = 0; p < k; p++, a += 1, b += ldb) {
        const vf32 b0 = vf32_load(b + 0);
        const vf32 b1 = vf32_load(b + 8);
        const vf32 a0 = vf32_set(a[0]);
        c0_0 = vf32_fma(a0, b0, c0_0);
        c0_1 = vf32_fma(a0, b1, c0_1);
    }

    vf32_put_more(c + 0 * ldc + 0, c0_0, cols, 0, more);
    vf32_put_more(c + 0 * ldc + 8, c0_1, cols, 8, more);
    (void)lda;
}

/* `rows` rows of a, k long: tile after tile, each column by column. */
static void pack_rows(const float *a, size_t lda, float *packed, size_t rows, size_t k)
{
    size_t i = 0;
    for (; rows - i >= 6; i += 6)
        for (size_t p = 0; p < k; p++)
            for (size_t r = 0; r < 6; r++)
                *packed++ = a[(i + r) * lda + p];
    for (; rows - i >= 4; i += 4)
        for (size_t p = 0; p < k; p++)
            for (size_t r = 0; r < 4; r++)
                *packed++ = a[(i + r) * lda + p];
    for (; rows - i >= 2; i += 2)
        for (size_t p = 0; p < k; p++)
            for (size_t r = 0; r < 2; r++)
                *packed++ = a[(i + r) * lda + p];
    for (; rows - i >= 1; i += 1)
        for (size_t p = 0; p < k; p++)
            for (size_t r = 0; r < 1; r++)
                *packed++ = a[(i + r) * lda + p];
}

/* k rows and up to 16 columns of b, without gaps; missing columns are zero. */
static void pack_panel(const float *b, size_t n, float *to, size_t cols, size_t k)
{
    for (size_t p = 0; cols >= 16 && p < k; p++, b += n, to += 16) {
        vf32_store(to + 0, vf32_load(b + 0));
        vf32_store(to + 8, vf32_load(b + 8));
    }
    for (size_t p = 0; cols < 16 && p < k; p++, b += n, to += 16) {
        for (size_t j = 0; j < 16 && j < cols; j++)
            to[j] = b[j];
        for (size_t j = cols; j < 16; j++)
            to[j] = 0.0f;
    }
}

void sgemm__isa_avx2_mr6_nr16_kc256_packb_packa(const float *restrict a, const float *restrict b, float *restrict c, float *restrict work, size_t m, size_t n, size_t k)
{
    _Alignas(64) float packed[96 * 256];
    size_t k0 = 0;
    do { /* once also for k = 0, which stores zeros */
        const size_t depth = k - k0 < 256 ? k - k0 : 256;
        const float *b_rows = b + k0 * n;
        const size_t unpacked = 0; /* columns that are read where they are */
        for (size_t j = unpacked; j < n; j += 16)
            pack_panel(b_rows + j, n, work + (j - unpacked) * depth, n - j, depth);

        for (size_t i0 = 0; i0 < m; i0 += 96) {
            const size_t rows = m - i0 < 96 ? m - i0 : 96;
            pack_rows(a + i0 * k + k0, k, packed, rows, depth);
            for (size_t j = 0; j < n; j += 16) {
                const bool packed_panel = j >= unpacked;
                const float *panel = packed_panel ? work + (j - unpacked) * depth : b_rows + j;
                const size_t ldb = packed_panel ? 16 : n;
                size_t i = 0;
                for (; rows - i >= 6; i += 6)
                    tile6(packed + i * depth, k, panel, ldb, c + (i0 + i) * n + j, n, depth, n - j, k0 > 0);
                for (; rows - i >= 4; i += 4)
                    tile4(packed + i * depth, k, panel, ldb, c + (i0 + i) * n + j, n, depth, n - j, k0 > 0);
                for (; rows - i >= 2; i += 2)
                    tile2(packed + i * depth, k, panel, ldb, c + (i0 + i) * n + j, n, depth, n - j, k0 > 0);
                for (; rows - i >= 1; i += 1)
                    tile1(packed + i * depth, k, panel, ldb, c + (i0 + i) * n + j, n, depth, n - j, k0 > 0);
            }
        }
        k0 += 256;
    } while (k0 < k);
}

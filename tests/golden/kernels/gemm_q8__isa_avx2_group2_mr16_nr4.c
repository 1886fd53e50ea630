#include <stdbool.h>
#include "tb/vec_avx2.h"
#include "tb/tile_i8.h"

/* 16 x 4 sums over `groups` groups of k; y holds earlier ones if `more` and is finished if `last`. */
static void tile4(const int8_t *w, const tb_staged *x, const int32_t *start, float *y, size_t m, size_t groups,
                  size_t rows, bool more, bool last)
{
    vi32 s0_0 = vi32_set(start[0]), s0_1 = vi32_set(start[0]);
    vi32 s1_0 = vi32_set(start[1]), s1_1 = vi32_set(start[1]);
    vi32 s2_0 = vi32_set(start[2]), s2_1 = vi32_set(start[2]);
    vi32 s3_0 = vi32_set(start[3]), s3_1 = vi32_set(start[3]);

    for (size_t g = 0; g < groups; g++, w += 16 * TB_GROUP, x += TB_GROUP) {
        const tb_weights w0 = tb_load_weights(w + 0 * TB_GROUP);
        const tb_weights w1 = tb_load_weights(w + 8 * TB_GROUP);
        s0_0 = tb_dot(s0_0, w0, tb_splat(x + 0));
        s0_1 = tb_dot(s0_1, w1, tb_splat(x + 0));
        s1_0 = tb_dot(s1_0, w0, tb_splat(x + 1024));
        s1_1 = tb_dot(s1_1, w1, tb_splat(x + 1024));
        s2_0 = tb_dot(s2_0, w0, tb_splat(x + 2048));
        s2_1 = tb_dot(s2_1, w1, tb_splat(x + 2048));
        s3_0 = tb_dot(s3_0, w0, tb_splat(x + 3072));
        s3_1 = tb_dot(s3_1, w1, tb_splat(x + 3072));
    }

    vi32_put_part(y + 0 * m + 0, s0_0, rows, 0, more, last);
    vi32_put_part(y + 0 * m + 8, s0_1, rows, 8, more, last);
    vi32_put_part(y + 1 * m + 0, s1_0, rows, 0, more, last);
    vi32_put_part(y + 1 * m + 8, s1_1, rows, 8, more, last);
    vi32_put_part(y + 2 * m + 0, s2_0, rows, 0, more, last);
    vi32_put_part(y + 2 * m + 8, s2_1, rows, 8, more, last);
    vi32_put_part(y + 3 * m + 0, s3_0, rows, 0, more, last);
    vi32_put_part(y + 3 * m + 8, s3_1, rows, 8, more, last);
}

/* 16 x 2 sums over `groups` groups of k; y holds earlier ones if `more` and is finished if `last`. */
static void tile2(const int8_t *w, const tb_staged *x, const int32_t *start, float *y, size_t m, size_t groups,
                  size_t rows, bool more, bool last)
{
    vi32 s0_0 = vi32_set(start[0]), s0_1 = vi32_set(start[0]);
    vi32 s1_0 = vi32_set(start[1]), s1_1 = vi32_set(start[1]);

    for (size_t g = 0; g < groups; g++, w += 16 * TB_GROUP, x += TB_GROUP) {
        const tb_weights w0 = tb_load_weights(w + 0 * TB_GROUP);
        const tb_weights w1 = tb_load_weights(w + 8 * TB_GROUP);
        s0_0 = tb_dot(s0_0, w0, tb_splat(x + 0));
        s0_1 = tb_dot(s0_1, w1, tb_splat(x + 0));
        s1_0 = tb_dot(s1_0, w0, tb_splat(x + 1024));
        s1_1 = tb_dot(s1_1, w1, tb_splat(x + 1024));
    }

    vi32_put_part(y + 0 * m + 0, s0_0, rows, 0, more, last);
    vi32_put_part(y + 0 * m + 8, s0_1, rows, 8, more, last);
    vi32_put_part(y + 1 * m + 0, s1_0, rows, 0, more, last);
    vi32_put_part(y + 1 * m + 8, s1_1, rows, 8, more, last);
}

/* 16 x 1 sums over `groups` groups of k; y holds earlier ones if `more` and is finished if `last`. */
static void tile1(const int8_t *w, const tb_staged *x, const int32_t *start, float *y, size_t m, size_t groups,
                  size_t rows, bool more, bool last)
{
    vi32 s0_0 = vi32_set(start[0]), s0_1 = vi32_set(start[0]);

    for (size_t g = 0; g < groups; g++, w += 16 * TB_GROUP, x += TB_GROUP) {
        const tb_weights w0 = tb_load_weights(w + 0 * TB_GROUP);
        const tb_weights w1 = tb_load_weights(w + 8 * TB_GROUP);
        s0_0 = tb_dot(s0_0, w0, tb_splat(x + 0));
        s0_1 = tb_dot(s0_1, w1, tb_splat(x + 0));
    }

    vi32_put_part(y + 0 * m + 0, s0_0, rows, 0, more, last);
    vi32_put_part(y + 0 * m + 8, s0_1, rows, 8, more, last);
}

void gemm_q8__isa_avx2_group2_mr16_nr4(const int8_t *restrict w, const int8_t *restrict x, float *restrict y, size_t m, size_t n, size_t k)
{
    _Alignas(64) tb_staged staged[32 * 1024];
    int32_t start[32];
    const size_t padded_k = (k + TB_GROUP - 1) / TB_GROUP * TB_GROUP;

    for (size_t j0 = 0; j0 < n; j0 += 32) {
        const size_t cols = n - j0 < 32 ? n - j0 : 32;
        size_t k0 = 0;
        do { /* once also for k = 0, which stores zeros */
            const size_t depth = k - k0 < 1024 ? k - k0 : 1024;
            const size_t groups = (depth + TB_GROUP - 1) / TB_GROUP;
            const bool more = k0 > 0, last = k - k0 <= 1024;

            for (size_t j = 0; j < cols; j++) {
                start[j] = tb_stage(staged + j * 1024, x + (j0 + j) * k + k0, depth);
                for (size_t p = depth; p < groups * TB_GROUP; p++)
                    staged[j * 1024 + p] = 0;
            }
            for (size_t i = 0; i < m; i += 16) {
                const int8_t *panel = w + i * padded_k + k0 * 16;
                float *to = y + j0 * m + i;
                size_t j = 0;
                for (; cols - j >= 4; j += 4)
                    tile4(panel, staged + j * 1024, start + j, to + j * m, m, groups, m - i, more, last);
                for (; cols - j >= 2; j += 2)
                    tile2(panel, staged + j * 1024, start + j, to + j * m, m, groups, m - i, more, last);
                for (; cols - j >= 1; j += 1)
                    tile1(panel, staged + j * 1024, start + j, to + j * m, m, groups, m - i, more, last);
            }
            k0 += 1024;
        } while (k0 < k);
    }
}

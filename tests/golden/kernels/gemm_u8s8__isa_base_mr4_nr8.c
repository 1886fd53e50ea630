#include "tb/vec_base.h"

/* The first `cols` columns of b: for 1 successive values of k 8 columns side by side; missing ones are zero. */
static void arrange(const int8_t *b, int8_t *to, size_t cols, size_t n, size_t k)
{
    for (size_t p0 = 0; p0 < k; p0 += 1)
        for (size_t p1 = p0; p1 < p0 + 1; p1 += 1)
            for (size_t j = 0; j < 8; j++)
                for (size_t p = p1; p < p1 + 1; p++)
                    *to++ = p < k && j < cols ? b[p * n + j] : 0;
}

typedef uint8_t element;

TB_INLINE vi32 splat(const element *group) { return vi32_set(group[0]); }
TB_INLINE vi32 dot(vi32 sum, vi32 a, const int8_t *b) { return sum + a * (vi32){b[0], b[1], b[2], b[3]}; }

static void tile4(const element *a, const int8_t *panel, int32_t *c, size_t n, size_t padded_k, size_t cols)
{
    vi32 c0_0 = vi32_set(0), c0_1 = vi32_set(0);
    vi32 c1_0 = vi32_set(0), c1_1 = vi32_set(0);
    vi32 c2_0 = vi32_set(0), c2_1 = vi32_set(0);
    vi32 c3_0 = vi32_set(0), c3_1 = vi32_set(0);
    for (size_t p = 0; p < padded_k; p += 1, panel += 8) {
        const vi32 a0 = splat(a + 0 * padded_k + p);
        c0_0 = dot(c0_0, a0, panel + 0);
        c0_1 = dot(c0_1, a0, panel + 4);
        const vi32 a1 = splat(a + 1 * padded_k + p);
        c1_0 = dot(c1_0, a1, panel + 0);
        c1_1 = dot(c1_1, a1, panel + 4);
        const vi32 a2 = splat(a + 2 * padded_k + p);
        c2_0 = dot(c2_0, a2, panel + 0);
        c2_1 = dot(c2_1, a2, panel + 4);
        const vi32 a3 = splat(a + 3 * padded_k + p);
        c3_0 = dot(c3_0, a3, panel + 0);
        c3_1 = dot(c3_1, a3, panel + 4);
    }
    vi32_put(c + 0 * n + 0, c0_0, cols, 0);
    vi32_put(c + 0 * n + 4, c0_1, cols, 4);
    vi32_put(c + 1 * n + 0, c1_0, cols, 0);
    vi32_put(c + 1 * n + 4, c1_1, cols, 4);
    vi32_put(c + 2 * n + 0, c2_0, cols, 0);
    vi32_put(c + 2 * n + 4, c2_1, cols, 4);
    vi32_put(c + 3 * n + 0, c3_0, cols, 0);
    vi32_put(c + 3 * n + 4, c3_1, cols, 4);
}

static void tile2(const element *a, const int8_t *panel, int32_t *c, size_t n, size_t padded_k, size_t cols)
{
    vi32 c0_0 = vi32_set(0), c0_1 = vi32_set(0);
    vi32 c1_0 = vi32_set(0), c1_1 = vi32_set(0);
    for (size_t p = 0; p < padded_k; p += 1, panel += 8) {
        const vi32 a0 = splat(a + 0 * padded_k + p);
        c0_0 = dot(c0_0, a0, panel + 0);
        c0_1 = dot(c0_1, a0, panel + 4);
        const vi32 a1 = splat(a + 1 * padded_k + p);
        c1_0 = dot(c1_0, a1, panel + 0);
        c1_1 = dot(c1_1, a1, panel + 4);
    }
    vi32_put(c + 0 * n + 0, c0_0, cols, 0);
    vi32_put(c + 0 * n + 4, c0_1, cols, 4);
    vi32_put(c + 1 * n + 0, c1_0, cols, 0);
    vi32_put(c + 1 * n + 4, c1_1, cols, 4);
}

static void tile1(const element *a, const int8_t *panel, int32_t *c, size_t n, size_t padded_k, size_t cols)
{
    vi32 c0_0 = vi32_set(0), c0_1 = vi32_set(0);
    for (size_t p = 0; p < padded_k; p += 1, panel += 8) {
        const vi32 a0 = splat(a + 0 * padded_k + p);
        c0_0 = dot(c0_0, a0, panel + 0);
        c0_1 = dot(c0_1, a0, panel + 4);
    }
    vi32_put(c + 0 * n + 0, c0_0, cols, 0);
    vi32_put(c + 0 * n + 4, c0_1, cols, 4);
}

void gemm_u8s8__isa_base_mr4_nr8(const uint8_t *restrict a, const int8_t *restrict b, int32_t *restrict c, int8_t *restrict work, size_t m, size_t n, size_t k)
{
    const size_t padded_k = (k + 0) / 1 * 1;
    element *rows = (element *)(void *)(work + padded_k * 8);
    for (size_t i = 0; i < m; i++)
        for (size_t p = 0; p < padded_k; p++)
            rows[i * padded_k + p] = p < k ? a[i * k + p] : 0;

    for (size_t j = 0; j < n; j += 8) {
        size_t i = 0;
        arrange(b + j, work, n - j, n, k);
        for (; m - i >= 4; i += 4)
            tile4(rows + i * padded_k, work, c + i * n + j, n, padded_k, n - j);
        for (; m - i >= 2; i += 2)
            tile2(rows + i * padded_k, work, c + i * n + j, n, padded_k, n - j);
        for (; m - i >= 1; i += 1)
            tile1(rows + i * padded_k, work, c + i * n + j, n, padded_k, n - j);
    }
}

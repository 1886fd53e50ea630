#include "tb/vec_avx2.h"
#include "tb/half.h"

/* The first `cols` columns of b: for two successive values of k 16 columns side by side; missing ones are zero. */
static void arrange(const uint16_t *b, uint16_t *to, size_t cols, size_t n, size_t k)
{
    for (size_t p0 = 0; p0 < k; p0 += 2)
        for (size_t p1 = p0; p1 < p0 + 2; p1 += 2)
            for (size_t j = 0; j < 16; j++)
                for (size_t p = p1; p < p1 + 2; p++)
                    *to++ = p < k && j < cols ? b[p * n + j] : 0;
}

typedef float element;
typedef struct pair { vf32 even, odd; } pair;

TB_INLINE pair splat(const element *two) { return (pair){vf32_set(two[0]), vf32_set(two[1])}; }

TB_INLINE vf32 dot(vf32 sum, pair a, const uint16_t *b)
{
    const vf32 both = vf32_load((const float *)(const void *)b);
    sum = vf32_fma(a.even, vf32_shl16(both), sum);
    return vf32_fma(a.odd, vf32_keep_high16(both), sum);
}

static void tile4(const element *a, const uint16_t *panel, float *c, size_t n, size_t padded_k, size_t cols)
{
    vf32 c0_0 = vf32_zero(), c0_1 = vf32_zero();
    vf32 c1_0 = vf32_zero(), c1_1 = vf32_zero();
    vf32 c2_0 = vf32_zero(), c2_1 = vf32_zero();
    vf32 c3_0 = vf32_zero(), c3_1 = vf32_zero();
    for (size_t p = 0; p < padded_k; p += 2, panel += 32) {
        const pair a0 = splat(a + 0 * padded_k + p);
        c0_0 = dot(c0_0, a0, panel + 0);
        c0_1 = dot(c0_1, a0, panel + 16);
        const pair a1 = splat(a + 1 * padded_k + p);
        c1_0 = dot(c1_0, a1, panel + 0);
        c1_1 = dot(c1_1, a1, panel + 16);
        const pair a2 = splat(a + 2 * padded_k + p);
        c2_0 = dot(c2_0, a2, panel + 0);
        c2_1 = dot(c2_1, a2, panel + 16);
        const pair a3 = splat(a + 3 * padded_k + p);
        c3_0 = dot(c3_0, a3, panel + 0);
        c3_1 = dot(c3_1, a3, panel + 16);
    }
    vf32_put(c + 0 * n + 0, c0_0, cols, 0);
    vf32_put(c + 0 * n + 8, c0_1, cols, 8);
    vf32_put(c + 1 * n + 0, c1_0, cols, 0);
    vf32_put(c + 1 * n + 8, c1_1, cols, 8);
    vf32_put(c + 2 * n + 0, c2_0, cols, 0);
    vf32_put(c + 2 * n + 8, c2_1, cols, 8);
    vf32_put(c + 3 * n + 0, c3_0, cols, 0);
    vf32_put(c + 3 * n + 8, c3_1, cols, 8);
}

static void tile2(const element *a, const uint16_t *panel, float *c, size_t n, size_t padded_k, size_t cols)
{
    vf32 c0_0 = vf32_zero(), c0_1 = vf32_zero();
    vf32 c1_0 = vf32_zero(), c1_1 = vf32_zero();
    for (size_t p = 0; p < padded_k; p += 2, panel += 32) {
        const pair a0 = splat(a + 0 * padded_k + p);
        c0_0 = dot(c0_0, a0, panel + 0);
        c0_1 = dot(c0_1, a0, panel + 16);
        const pair a1 = splat(a + 1 * padded_k + p);
        c1_0 = dot(c1_0, a1, panel + 0);
        c1_1 = dot(c1_1, a1, panel + 16);
    }
    vf32_put(c + 0 * n + 0, c0_0, cols, 0);
    vf32_put(c + 0 * n + 8, c0_1, cols, 8);
    vf32_put(c + 1 * n + 0, c1_0, cols, 0);
    vf32_put(c + 1 * n + 8, c1_1, cols, 8);
}

static void tile1(const element *a, const uint16_t *panel, float *c, size_t n, size_t padded_k, size_t cols)
{
    vf32 c0_0 = vf32_zero(), c0_1 = vf32_zero();
    for (size_t p = 0; p < padded_k; p += 2, panel += 32) {
        const pair a0 = splat(a + 0 * padded_k + p);
        c0_0 = dot(c0_0, a0, panel + 0);
        c0_1 = dot(c0_1, a0, panel + 16);
    }
    vf32_put(c + 0 * n + 0, c0_0, cols, 0);
    vf32_put(c + 0 * n + 8, c0_1, cols, 8);
}

void gemm_bf16__isa_avx2_form_halves_mr4_nr16(const uint16_t *restrict a, const uint16_t *restrict b, float *restrict c, uint16_t *restrict work, size_t m, size_t n, size_t k)
{
    const size_t padded_k = (k + 1) / 2 * 2;
    element *rows = (element *)(void *)(work + padded_k * 16);
    for (size_t i = 0; i < m; i++)
        for (size_t p = 0; p < padded_k; p++)
            rows[i * padded_k + p] = p < k ? tb_f32_from_bf16(a[i * k + p]) : 0.0f;

    for (size_t j = 0; j < n; j += 16) {
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

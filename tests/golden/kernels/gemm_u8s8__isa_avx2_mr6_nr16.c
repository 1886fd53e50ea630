#include "tb/vec_avx2.h"

/* The first `cols` columns of b: for 2 successive values of k 16 columns side by side; missing ones are zero. */
static void arrange(const int8_t *b, int8_t *to, size_t cols, size_t n, size_t k)
{
    for (size_t p0 = 0; p0 < k; p0 += 2)
        for (size_t p1 = p0; p1 < p0 + 2; p1 += 2)
            for (size_t j = 0; j < 16; j++)
                for (size_t p = p1; p < p1 + 2; p++)
                    *to++ = p < k && j < cols ? b[p * n + j] : 0;
}

typedef int16_t element;

TB_INLINE vi32 splat(const element *group)
{
    int32_t lane;
    memcpy(&lane, group, sizeof lane);
    return vi32_set(lane);
}

TB_INLINE vi32 dot(vi32 sum, vi32 a, const int8_t *b)
{
    const __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)b));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(wide, a));
}

static void tile6(const element *a, const int8_t *panel, int32_t *c, size_t n, size_t padded_k, size_t cols)
{
    vi32 c0_0 = vi32_set(0), c0_1 = vi32_set(0);
    vi32 c1_0 = vi32_set(0), c1_1 = vi32_set(0);
    vi32 c2_0 = vi32_set(0), c2_1 = vi32_set(0);
    vi32 c3_0 = vi32_set(0), c3_1 = vi32_set(0);
    vi32 c4_0 = vi32_set(0), c4_1 = vi32_set(0);
    vi32 c5_0 = vi32_set(0), c5_1 = vi32_set(0);
    for (size_t p = 0; p < padded_k; p += 2, panel += 32) {
        const vi32 a0 = splat(a + 0 * padded_k + p);
        c0_0 = dot(c0_0, a0, panel + 0);
        c0_1 = dot(c0_1, a0, panel + 16);
        const vi32 a1 = splat(a + 1 * padded_k + p);
        c1_0 = dot(c1_0, a1, panel + 0);
        c1_1 = dot(c1_1, a1, panel + 16);
        const vi32 a2 = splat(a + 2 * padded_k + p);
        c2_0 = dot(c2_0, a2, panel + 0);
        c2_1 = dot(c2_1, a2, panel + 16);
        const vi32 a3 = splat(a + 3 * padded_k + p);
        c3_0 = dot(c3_0, a3, panel + 0);
        c3_1 = dot(c3_1, a3, panel + 16);
        const vi32 a4 = splat(a + 4 * padded_k + p);
        c4_0 = dot(c4_0, a4, panel + 0);
        c4_1 = dot(c4_1, a4, panel + 16);
        const vi32 a5 = splat(a + 5 * padded_k + p);
        c5_0 = dot(c5_0, a5, panel + 0);
        c5_1 = dot(c5_1, a5, panel + 16);
    }
    vi32_put(c + 0 * n + 0, c0_0, cols, 0);
    vi32_put(c + 0 * n + 8, c0_1, cols, 8);
    vi32_put(c + 1 * n + 0, c1_0, cols, 0);
    vi32_put(c + 1 * n + 8, c1_1, cols, 8);
    vi32_put(c + 2 * n + 0, c2_0, cols, 0);
    vi32_put(c + 2 * n + 8, c2_1, cols, 8);
    vi32_put(c + 3 * n + 0, c3_0, cols, 0);
    vi32_put(c + 3 * n + 8, c3_1, cols, 8);
    vi32_put(c + 4 * n + 0, c4_0, cols, 0);
    vi32_put(c + 4 * n + 8, c4_1, cols, 8);
    vi32_put(c + 5 * n + 0, c5_0, cols, 0);
    vi32_put(c + 5 * n + 8, c5_1, cols, 8);
}

static void tile4(const element *a, const int8_t *panel, int32_t *c, size_t n, size_t padded_k, size_t cols)
{
    vi32 c0_0 = vi32_set(0), c0_1 = vi32_set(0);
    vi32 c1_0 = vi32_set(0), c1_1 = vi32_set(0);
    vi32 c2_0 = vi32_set(0), c2_1 = vi32_set(0);
    vi32 c3_0 = vi32_set(0), c3_1 = vi32_set(0);
    for (size_t p = 0; p < padded_k; p += 2, panel += 32) {
        const vi32 a0 = splat(a + 0 * padded_k + p);
        c0_0 = dot(c0_0, a0, panel + 0);
        c0_1 = dot(c0_1, a0, panel + 16);
        const vi32 a1 = splat(a + 1 * padded_k + p);
        c1_0 = dot(c1_0, a1, panel + 0);
        c1_1 = dot(c1_1, a1, panel + 16);
        const vi32 a2 = splat(a + 2 * padded_k + p);
        c2_0 = dot(c2_0, a2, panel + 0);
        c2_1 = dot(c2_1, a2, panel + 16);
        const vi32 a3 = splat(a + 3 * padded_k + p);
        c3_0 = dot(c3_0, a3, panel + 0);
        c3_1 = dot(c3_1, a3, panel + 16);
    }
    vi32_put(c + 0 * n + 0, c0_0, cols, 0);
    vi32_put(c + 0 * n + 8, c0_1, cols, 8);
    vi32_put(c + 1 * n + 0, c1_0, cols, 0);
    vi32_put(c + 1 * n + 8, c1_1, cols, 8);
    vi32_put(c + 2 * n + 0, c2_0, cols, 0);
    vi32_put(c + 2 * n + 8, c2_1, cols, 8);
    vi32_put(c + 3 * n + 0, c3_0, cols, 0);
    vi32_put(c + 3 * n + 8, c3_1, cols, 8);
}

static void tile2(const element *a, const int8_t *panel, int32_t *c, size_t n, size_t padded_k, size_t cols)
{
    vi32 c0_0 = vi32_set(0), c0_1 = vi32_set(0);
    vi32 c1_0 = vi32_set(0), c1_1 = vi32_set(0);
    for (size_t p = 0; p < padded_k; p += 2, panel += 32) {
        const vi32 a0 = splat(a + 0 * padded_k + p);
        c0_0 = dot(c0_0, a0, panel + 0);
        c0_1 = dot(c0_1, a0, panel + 16);
        const vi32 a1 = splat(a + 1 * padded_k + p);
        c1_0 = dot(c1_0, a1, panel + 0);
        c1_1 = dot(c1_1, a1, panel + 16);
    }
    vi32_put(c + 0 * n + 0, c0_0, cols, 0);
    vi32_put(c + 0 * n + 8, c0_1, cols, 8);
    vi32_put(c + 1 * n + 0, c1_0, cols, 0);
    vi32_put(c + 1 * n + 8, c1_1, cols, 8);
}

static void tile1(const element *a, const int8_t *panel, int32_t *c, size_t n, size_t padded_k, size_t cols)
{
    vi32 c0_0 = vi32_set(0), c0_1 = vi32_set(0);
    for (size_t p = 0; p < padded_k; p += 2, panel += 32) {
        const vi32 a0 = splat(a + 0 * padded_k + p);
        c0_0 = dot(c0_0, a0, panel + 0);
        c0_1 = dot(c0_1, a0, panel + 16);
    }
    vi32_put(c + 0 * n + 0, c0_0, cols, 0);
    vi32_put(c + 0 * n + 8, c0_1, cols, 8);
}

void gemm_u8s8__isa_avx2_mr6_nr16(const uint8_t *restrict a, const int8_t *restrict b, int32_t *restrict c, int8_t *restrict work, size_t m, size_t n, size_t k)
{
    const size_t padded_k = (k + 1) / 2 * 2;
    element *rows = (element *)(void *)(work + padded_k * 16);
    for (size_t i = 0; i < m; i++)
        for (size_t p = 0; p < padded_k; p++)
            rows[i * padded_k + p] = p < k ? a[i * k + p] : 0;

    for (size_t j = 0; j < n; j += 16) {
        size_t i = 0;
        arrange(b + j, work, n - j, n, k);
        for (; m - i >= 6; i += 6)
            tile6(rows + i * padded_k, work, c + i * n + j, n, padded_k, n - j);
        for (; m - i >= 4; i += 4)
            tile4(rows + i * padded_k, work, c + i * n + j, n, padded_k, n - j);
        for (; m - i >= 2; i += 2)
            tile2(rows + i * padded_k, work, c + i * n + j, n, padded_k, n - j);
        for (; m - i >= 1; i += 1)
            tile1(rows + i * padded_k, work, c + i * n + j, n, padded_k, n - j);
    }
}

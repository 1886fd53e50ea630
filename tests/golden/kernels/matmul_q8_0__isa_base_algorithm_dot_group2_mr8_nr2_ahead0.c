#include "tb/vec_base.h"
#include "tb/tile_i8.h"

enum { PANEL_BLOCK = 8 * 36 }; /* bytes: 32 values and a scale for each of 8 rows */

TB_INLINE void stage_block(const float *x, tb_staged *staged, float *scale, int32_t *start)
{
    int8_t q[32];
    float max[1], inverse[1];
    const vf32 x0_0 = vf32_load(x + 0);
    const vf32 x0_1 = vf32_load(x + 4);
    const vf32 x0_2 = vf32_load(x + 8);
    const vf32 x0_3 = vf32_load(x + 12);
    const vf32 x0_4 = vf32_load(x + 16);
    const vf32 x0_5 = vf32_load(x + 20);
    const vf32 x0_6 = vf32_load(x + 24);
    const vf32 x0_7 = vf32_load(x + 28);
    vf32 max0 = vf32_abs(x0_0);
    max0 = vf32_max(max0, vf32_abs(x0_1));
    max0 = vf32_max(max0, vf32_abs(x0_2));
    max0 = vf32_max(max0, vf32_abs(x0_3));
    max0 = vf32_max(max0, vf32_abs(x0_4));
    max0 = vf32_max(max0, vf32_abs(x0_5));
    max0 = vf32_max(max0, vf32_abs(x0_6));
    max0 = vf32_max(max0, vf32_abs(x0_7));

    max[0] = vf32_hmax(max0);
    for (int j = 0; j < 1; j++)
        inverse[j] = max[j] >= 0x1p-120f ? 127.0f / max[j] : 0.0f;

    const vf32 inverse0 = vf32_set(inverse[0]);
    const vf32 scaled0[] = {
        vf32_mul(x0_0, inverse0),
        vf32_mul(x0_1, inverse0),
        vf32_mul(x0_2, inverse0),
        vf32_mul(x0_3, inverse0),
        vf32_mul(x0_4, inverse0),
        vf32_mul(x0_5, inverse0),
        vf32_mul(x0_6, inverse0),
        vf32_mul(x0_7, inverse0),
    };

    vf32_store_i8_32(q, scaled0);
    *scale = max[0] / 127.0f;
    *start = tb_stage(staged, q, 32);
}

static void stage(const float *x, tb_staged *staged, float *scales, int32_t *starts, size_t blocks)
{
    for (size_t b = 0; b < blocks; b++)
        stage_block(x + 32 * b, staged + 32 * b, scales + b, starts + b);
}

static void tile2(const uint8_t *panel, const tb_staged *x, const float *scales, const int32_t *starts, size_t blocks,
                  float *y, size_t n, size_t rows)
{
    vf32 y0_0 = vf32_zero(), y0_1 = vf32_zero();
    vf32 y1_0 = vf32_zero(), y1_1 = vf32_zero();
    for (size_t b = 0; b < blocks; b++, panel += PANEL_BLOCK, x += 32) {
        vi32 s0_0 = vi32_set(starts[0 * blocks + b]), s0_1 = vi32_set(starts[0 * blocks + b]);
        vi32 s1_0 = vi32_set(starts[1 * blocks + b]), s1_1 = vi32_set(starts[1 * blocks + b]);
        for (int g = 0; g < 32; g += TB_GROUP) {
            const tb_weights w0 = tb_load_weights((const int8_t *)panel + g * 8 + 0 * TB_GROUP);
            const tb_weights w1 = tb_load_weights((const int8_t *)panel + g * 8 + 4 * TB_GROUP);
            s0_0 = tb_dot(s0_0, w0, tb_splat(x + 0 * 32 * blocks + g));
            s0_1 = tb_dot(s0_1, w1, tb_splat(x + 0 * 32 * blocks + g));
            s1_0 = tb_dot(s1_0, w0, tb_splat(x + 1 * 32 * blocks + g));
            s1_1 = tb_dot(s1_1, w1, tb_splat(x + 1 * 32 * blocks + g));
        }
        const float *w_scales = (const float *)(const void *)(panel + 32 * 8);
        const vf32 x_scale0 = vf32_set(scales[0 * blocks + b]);
        y0_0 = vf32_fma(vf32_from_i32(s0_0), vf32_mul(vf32_load(w_scales + 0), x_scale0), y0_0);
        y0_1 = vf32_fma(vf32_from_i32(s0_1), vf32_mul(vf32_load(w_scales + 4), x_scale0), y0_1);
        const vf32 x_scale1 = vf32_set(scales[1 * blocks + b]);
        y1_0 = vf32_fma(vf32_from_i32(s1_0), vf32_mul(vf32_load(w_scales + 0), x_scale1), y1_0);
        y1_1 = vf32_fma(vf32_from_i32(s1_1), vf32_mul(vf32_load(w_scales + 4), x_scale1), y1_1);
    }
    vf32_put(y + 0 * n + 0, y0_0, rows, 0);
    vf32_put(y + 0 * n + 4, y0_1, rows, 4);
    vf32_put(y + 1 * n + 0, y1_0, rows, 0);
    vf32_put(y + 1 * n + 4, y1_1, rows, 4);
}

static void tile1(const uint8_t *panel, const tb_staged *x, const float *scales, const int32_t *starts, size_t blocks,
                  float *y, size_t n, size_t rows)
{
    vf32 y0_0 = vf32_zero(), y0_1 = vf32_zero();
    for (size_t b = 0; b < blocks; b++, panel += PANEL_BLOCK, x += 32) {
        vi32 s0_0 = vi32_set(starts[0 * blocks + b]), s0_1 = vi32_set(starts[0 * blocks + b]);
        for (int g = 0; g < 32; g += TB_GROUP) {
            const tb_weights w0 = tb_load_weights((const int8_t *)panel + g * 8 + 0 * TB_GROUP);
            const tb_weights w1 = tb_load_weights((const int8_t *)panel + g * 8 + 4 * TB_GROUP);
            s0_0 = tb_dot(s0_0, w0, tb_splat(x + 0 * 32 * blocks + g));
            s0_1 = tb_dot(s0_1, w1, tb_splat(x + 0 * 32 * blocks + g));
        }
        const float *w_scales = (const float *)(const void *)(panel + 32 * 8);
        const vf32 x_scale0 = vf32_set(scales[0 * blocks + b]);
        y0_0 = vf32_fma(vf32_from_i32(s0_0), vf32_mul(vf32_load(w_scales + 0), x_scale0), y0_0);
        y0_1 = vf32_fma(vf32_from_i32(s0_1), vf32_mul(vf32_load(w_scales + 4), x_scale0), y0_1);
    }
    vf32_put(y + 0 * n + 0, y0_0, rows, 0);
    vf32_put(y + 0 * n + 4, y0_1, rows, 4);
}

void matmul_q8_0__isa_base_algorithm_dot_group2_mr8_nr2_ahead0(const float *restrict x, const uint8_t *restrict w, float *restrict y, uint8_t *restrict work, size_t tokens, size_t n, size_t k)
{
    const size_t blocks = k / 32;
    float *scales = (float *)(void *)work;
    int32_t *starts = (int32_t *)(void *)(scales + tokens * blocks);
    tb_staged *staged = (tb_staged *)(void *)(starts + tokens * blocks);
    for (size_t t = 0; t < tokens; t++)
        stage(x + t * k, staged + t * k, scales + t * blocks, starts + t * blocks, blocks);

    for (size_t j = 0; j < n; j += 8) {
        const uint8_t *panel = w + j / 8 * blocks * PANEL_BLOCK;
        size_t t = 0;
        for (; tokens - t >= 2; t += 2)
            tile2(panel, staged + t * k, scales + t * blocks, starts + t * blocks, blocks, y + t * n + j, n, n - j);
        for (; tokens - t >= 1; t += 1)
            tile1(panel, staged + t * k, scales + t * blocks, starts + t * blocks, blocks, y + t * n + j, n, n - j);
    }
}

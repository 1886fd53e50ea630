#include "tb/vec_base.h"
#include "tb/tile_i8.h"
#include "tb/keep_loop.h"

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

enum { TILE2_ROWS = 8 };
static void tile2(const uint8_t *panel, const tb_staged *x, const float *scales, const int32_t *starts, size_t blocks,
                  float *y, size_t n, size_t rows)
{
    vf32 y0_0 = vf32_zero(), y0_1 = vf32_zero();
    vf32 y1_0 = vf32_zero(), y1_1 = vf32_zero();
    for (size_t b = 0; b < blocks; b++, panel += PANEL_BLOCK, x += 32) {
        const uint8_t *w0 = panel;
        vi32 s0_0 = vi32_set(starts[0 * blocks + b]), s0_1 = vi32_set(starts[0 * blocks + b]);
        vi32 s1_0 = vi32_set(starts[1 * blocks + b]), s1_1 = vi32_set(starts[1 * blocks + b]);
        TB_KEEP_LOOP
        for (int g = 0; g < 32; g += 2 * TB_GROUP) {
            const tb_weights v0_0 = tb_load_weights((const int8_t *)w0 + (g + 0 * TB_GROUP) * 8 + 0 * TB_GROUP);
            s0_0 = tb_dot_in_order(s0_0, v0_0, tb_splat(x + 0 * 32 * blocks + g + 0 * TB_GROUP));
            s1_0 = tb_dot_in_order(s1_0, v0_0, tb_splat(x + 1 * 32 * blocks + g + 0 * TB_GROUP));
            const tb_weights v0_1 = tb_load_weights((const int8_t *)w0 + (g + 0 * TB_GROUP) * 8 + 4 * TB_GROUP);
            s0_1 = tb_dot_in_order(s0_1, v0_1, tb_splat(x + 0 * 32 * blocks + g + 0 * TB_GROUP));
            s1_1 = tb_dot_in_order(s1_1, v0_1, tb_splat(x + 1 * 32 * blocks + g + 0 * TB_GROUP));
            const tb_weights v1_0 = tb_load_weights((const int8_t *)w0 + (g + 1 * TB_GROUP) * 8 + 0 * TB_GROUP);
            s0_0 = tb_dot_in_order(s0_0, v1_0, tb_splat(x + 0 * 32 * blocks + g + 1 * TB_GROUP));
            s1_0 = tb_dot_in_order(s1_0, v1_0, tb_splat(x + 1 * 32 * blocks + g + 1 * TB_GROUP));
            const tb_weights v1_1 = tb_load_weights((const int8_t *)w0 + (g + 1 * TB_GROUP) * 8 + 4 * TB_GROUP);
            s0_1 = tb_dot_in_order(s0_1, v1_1, tb_splat(x + 0 * 32 * blocks + g + 1 * TB_GROUP));
            s1_1 = tb_dot_in_order(s1_1, v1_1, tb_splat(x + 1 * 32 * blocks + g + 1 * TB_GROUP));
        }
        const vf32 x_scale0 = vf32_set(scales[0 * blocks + b]);
        y0_0 = vf32_fma(vf32_from_i32(s0_0), vf32_mul(tb_load_scales(w0 + 256), x_scale0), y0_0);
        y0_1 = vf32_fma(vf32_from_i32(s0_1), vf32_mul(tb_load_scales(w0 + 272), x_scale0), y0_1);
        const vf32 x_scale1 = vf32_set(scales[1 * blocks + b]);
        y1_0 = vf32_fma(vf32_from_i32(s1_0), vf32_mul(tb_load_scales(w0 + 256), x_scale1), y1_0);
        y1_1 = vf32_fma(vf32_from_i32(s1_1), vf32_mul(tb_load_scales(w0 + 272), x_scale1), y1_1);
    }
    vf32_put(y + 0 * n + 0, y0_0, rows, 0);
    vf32_put(y + 0 * n + 4, y0_1, rows, 4);
    vf32_put(y + 1 * n + 0, y1_0, rows, 0);
    vf32_put(y + 1 * n + 4, y1_1, rows, 4);
}

enum { TILE1_ROWS = 32 };
static void tile1(const uint8_t *panel, const tb_staged *x, const float *scales, const int32_t *starts, size_t blocks,
                  float *y, size_t n, size_t rows)
{
    const size_t to1 = rows > 8 ? 1 * blocks * PANEL_BLOCK : 0;
    const size_t to2 = rows > 16 ? 2 * blocks * PANEL_BLOCK : 0;
    const size_t to3 = rows > 24 ? 3 * blocks * PANEL_BLOCK : 0;
    vf32 y0_0 = vf32_zero(), y0_1 = vf32_zero(), y0_2 = vf32_zero(), y0_3 = vf32_zero(), y0_4 = vf32_zero(), y0_5 = vf32_zero(), y0_6 = vf32_zero(), y0_7 = vf32_zero();
    for (size_t b = 0; b < blocks; b++, panel += PANEL_BLOCK, x += 32) {
        const uint8_t *w0 = panel, *w1 = panel + to1, *w2 = panel + to2, *w3 = panel + to3;
        vi32 s0_0 = vi32_set(starts[0 * blocks + b]), s0_1 = vi32_set(starts[0 * blocks + b]), s0_2 = vi32_set(starts[0 * blocks + b]), s0_3 = vi32_set(starts[0 * blocks + b]), s0_4 = vi32_set(starts[0 * blocks + b]), s0_5 = vi32_set(starts[0 * blocks + b]), s0_6 = vi32_set(starts[0 * blocks + b]), s0_7 = vi32_set(starts[0 * blocks + b]);
        TB_KEEP_LOOP
        for (int g = 0; g < 32; g += 2 * TB_GROUP) {
            const tb_weights v0_0 = tb_load_weights((const int8_t *)w0 + (g + 0 * TB_GROUP) * 8 + 0 * TB_GROUP);
            s0_0 = tb_dot_in_order(s0_0, v0_0, tb_splat(x + 0 * 32 * blocks + g + 0 * TB_GROUP));
            const tb_weights v0_1 = tb_load_weights((const int8_t *)w0 + (g + 0 * TB_GROUP) * 8 + 4 * TB_GROUP);
            s0_1 = tb_dot_in_order(s0_1, v0_1, tb_splat(x + 0 * 32 * blocks + g + 0 * TB_GROUP));
            const tb_weights v0_2 = tb_load_weights((const int8_t *)w1 + (g + 0 * TB_GROUP) * 8 + 0 * TB_GROUP);
            s0_2 = tb_dot_in_order(s0_2, v0_2, tb_splat(x + 0 * 32 * blocks + g + 0 * TB_GROUP));
            const tb_weights v0_3 = tb_load_weights((const int8_t *)w1 + (g + 0 * TB_GROUP) * 8 + 4 * TB_GROUP);
            s0_3 = tb_dot_in_order(s0_3, v0_3, tb_splat(x + 0 * 32 * blocks + g + 0 * TB_GROUP));
            const tb_weights v0_4 = tb_load_weights((const int8_t *)w2 + (g + 0 * TB_GROUP) * 8 + 0 * TB_GROUP);
            s0_4 = tb_dot_in_order(s0_4, v0_4, tb_splat(x + 0 * 32 * blocks + g + 0 * TB_GROUP));
            const tb_weights v0_5 = tb_load_weights((const int8_t *)w2 + (g + 0 * TB_GROUP) * 8 + 4 * TB_GROUP);
            s0_5 = tb_dot_in_order(s0_5, v0_5, tb_splat(x + 0 * 32 * blocks + g + 0 * TB_GROUP));
            const tb_weights v0_6 = tb_load_weights((const int8_t *)w3 + (g + 0 * TB_GROUP) * 8 + 0 * TB_GROUP);
            s0_6 = tb_dot_in_order(s0_6, v0_6, tb_splat(x + 0 * 32 * blocks + g + 0 * TB_GROUP));
            const tb_weights v0_7 = tb_load_weights((const int8_t *)w3 + (g + 0 * TB_GROUP) * 8 + 4 * TB_GROUP);
            s0_7 = tb_dot_in_order(s0_7, v0_7, tb_splat(x + 0 * 32 * blocks + g + 0 * TB_GROUP));
            const tb_weights v1_0 = tb_load_weights((const int8_t *)w0 + (g + 1 * TB_GROUP) * 8 + 0 * TB_GROUP);
            s0_0 = tb_dot_in_order(s0_0, v1_0, tb_splat(x + 0 * 32 * blocks + g + 1 * TB_GROUP));
            const tb_weights v1_1 = tb_load_weights((const int8_t *)w0 + (g + 1 * TB_GROUP) * 8 + 4 * TB_GROUP);
            s0_1 = tb_dot_in_order(s0_1, v1_1, tb_splat(x + 0 * 32 * blocks + g + 1 * TB_GROUP));
            const tb_weights v1_2 = tb_load_weights((const int8_t *)w1 + (g + 1 * TB_GROUP) * 8 + 0 * TB_GROUP);
            s0_2 = tb_dot_in_order(s0_2, v1_2, tb_splat(x + 0 * 32 * blocks + g + 1 * TB_GROUP));
            const tb_weights v1_3 = tb_load_weights((const int8_t *)w1 + (g + 1 * TB_GROUP) * 8 + 4 * TB_GROUP);
            s0_3 = tb_dot_in_order(s0_3, v1_3, tb_splat(x + 0 * 32 * blocks + g + 1 * TB_GROUP));
            const tb_weights v1_4 = tb_load_weights((const int8_t *)w2 + (g + 1 * TB_GROUP) * 8 + 0 * TB_GROUP);
            s0_4 = tb_dot_in_order(s0_4, v1_4, tb_splat(x + 0 * 32 * blocks + g + 1 * TB_GROUP));
            const tb_weights v1_5 = tb_load_weights((const int8_t *)w2 + (g + 1 * TB_GROUP) * 8 + 4 * TB_GROUP);
            s0_5 = tb_dot_in_order(s0_5, v1_5, tb_splat(x + 0 * 32 * blocks + g + 1 * TB_GROUP));
            const tb_weights v1_6 = tb_load_weights((const int8_t *)w3 + (g + 1 * TB_GROUP) * 8 + 0 * TB_GROUP);
            s0_6 = tb_dot_in_order(s0_6, v1_6, tb_splat(x + 0 * 32 * blocks + g + 1 * TB_GROUP));
            const tb_weights v1_7 = tb_load_weights((const int8_t *)w3 + (g + 1 * TB_GROUP) * 8 + 4 * TB_GROUP);
            s0_7 = tb_dot_in_order(s0_7, v1_7, tb_splat(x + 0 * 32 * blocks + g + 1 * TB_GROUP));
        }
        const vf32 x_scale0 = vf32_set(scales[0 * blocks + b]);
        y0_0 = vf32_fma(vf32_from_i32(s0_0), vf32_mul(tb_load_scales(w0 + 256), x_scale0), y0_0);
        y0_1 = vf32_fma(vf32_from_i32(s0_1), vf32_mul(tb_load_scales(w0 + 272), x_scale0), y0_1);
        y0_2 = vf32_fma(vf32_from_i32(s0_2), vf32_mul(tb_load_scales(w1 + 256), x_scale0), y0_2);
        y0_3 = vf32_fma(vf32_from_i32(s0_3), vf32_mul(tb_load_scales(w1 + 272), x_scale0), y0_3);
        y0_4 = vf32_fma(vf32_from_i32(s0_4), vf32_mul(tb_load_scales(w2 + 256), x_scale0), y0_4);
        y0_5 = vf32_fma(vf32_from_i32(s0_5), vf32_mul(tb_load_scales(w2 + 272), x_scale0), y0_5);
        y0_6 = vf32_fma(vf32_from_i32(s0_6), vf32_mul(tb_load_scales(w3 + 256), x_scale0), y0_6);
        y0_7 = vf32_fma(vf32_from_i32(s0_7), vf32_mul(tb_load_scales(w3 + 272), x_scale0), y0_7);
    }
    vf32_put(y + 0 * n + 0, y0_0, rows, 0);
    vf32_put(y + 0 * n + 4, y0_1, rows, 4);
    vf32_put(y + 0 * n + 8, y0_2, rows, 8);
    vf32_put(y + 0 * n + 12, y0_3, rows, 12);
    vf32_put(y + 0 * n + 16, y0_4, rows, 16);
    vf32_put(y + 0 * n + 20, y0_5, rows, 20);
    vf32_put(y + 0 * n + 24, y0_6, rows, 24);
    vf32_put(y + 0 * n + 28, y0_7, rows, 28);
}

void matmul_q8_0__isa_base_algorithm_dot_group2_mr8_nr2_ahead0(const float *restrict x, const uint8_t *restrict w, float *restrict y, uint8_t *restrict work, size_t tokens, size_t n, size_t k)
{
    const size_t blocks = k / 32;
    float *scales = (float *)(void *)work;
    int32_t *starts = (int32_t *)(void *)(scales + tokens * blocks);
    tb_staged *staged = (tb_staged *)(void *)(starts + tokens * blocks);
    for (size_t t = 0; t < tokens; t++)
        stage(x + t * k, staged + t * k, scales + t * blocks, starts + t * blocks, blocks);

    for (size_t j0 = 0; j0 < n; j0 += 32) {
        const size_t end = n - j0 < 32 ? n : j0 + 32;
        size_t left = tokens;
        for (size_t j = j0; j < end; j += TILE2_ROWS)
            for (size_t t = tokens - left; tokens - t >= 2; t += 2)
                tile2(w + j / 8 * blocks * PANEL_BLOCK, staged + t * k, scales + t * blocks, starts + t * blocks, blocks, y + t * n + j, n, n - j);
        left %= 2;
        for (size_t j = j0; j < end; j += TILE1_ROWS)
            for (size_t t = tokens - left; tokens - t >= 1; t += 1)
                tile1(w + j / 8 * blocks * PANEL_BLOCK, staged + t * k, scales + t * blocks, starts + t * blocks, blocks, y + t * n + j, n, n - j);
    }
}

#include "tb/vec_avx2.h"
#include "tb/dot_blocks.h"

float dot_q8_0__isa_avx2_u4(const uint8_t *restrict x, const uint8_t *restrict y, size_t blocks)
{
    const dot_weights *a = (const void *)x;
    const tb_block_q8_0 *b = (const void *)y;
    dot_acc sum0 = dot_zero();
    dot_acc sum1 = dot_zero();
    dot_acc sum2 = dot_zero();
    dot_acc sum3 = dot_zero();
    size_t i = 0;

    for (; blocks - i >= 4 * DOT_STEP; i += 4 * DOT_STEP) {
        sum0 = dot_step(sum0, a + i, b + i);
        sum1 = dot_step(sum1, a + i + 1 * DOT_STEP, b + i + 1 * DOT_STEP);
        sum2 = dot_step(sum2, a + i + 2 * DOT_STEP, b + i + 2 * DOT_STEP);
        sum3 = dot_step(sum3, a + i + 3 * DOT_STEP, b + i + 3 * DOT_STEP);
    }
    if (blocks - i >= 2 * DOT_STEP) {
        sum0 = dot_step(sum0, a + i, b + i);
        sum1 = dot_step(sum1, a + i + 1 * DOT_STEP, b + i + 1 * DOT_STEP);
        i += 2 * DOT_STEP;
    }
    if (blocks - i >= 1 * DOT_STEP) {
        sum0 = dot_step(sum0, a + i, b + i);
        i += 1 * DOT_STEP;
    }
    if (i < blocks)
        sum0 = dot_rest(sum0, a + i, b + i, blocks - i);
    sum0 = dot_add(sum0, sum2);
    sum1 = dot_add(sum1, sum3);
    sum0 = dot_add(sum0, sum1);
    return dot_sum(sum0);
}

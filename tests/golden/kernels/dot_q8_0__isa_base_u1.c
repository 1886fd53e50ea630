#include "tb/vec_base.h"
#include "tb/dot_blocks.h"

float dot_q8_0__isa_base_u1(const uint8_t *restrict x, const uint8_t *restrict y, size_t blocks)
{
    const dot_weights *a = (const void *)x;
    const tb_block_q8_0 *b = (const void *)y;
    dot_acc sum0 = dot_zero();
    size_t i = 0;

    for (; blocks - i >= 1 * DOT_STEP; i += 1 * DOT_STEP) {
        sum0 = dot_step(sum0, a + i, b + i);
    }
    if (i < blocks)
        sum0 = dot_rest(sum0, a + i, b + i, blocks - i);
    return dot_sum(sum0);
}

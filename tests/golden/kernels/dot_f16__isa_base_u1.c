#include "tb/vec_base.h"
#define DOT_FORM DOT_F16
#include "tb/dot_half.h"

float dot_f16__isa_base_u1(const uint16_t *restrict a, const uint16_t *restrict b, size_t n)
{
    dot_acc sum0 = dot_zero();
    size_t i = 0;

    for (; n - i >= 1 * DOT_STEP; i += 1 * DOT_STEP) {
        sum0 = dot_step(sum0, a + i, b + i);
    }
    if (i < n)
        sum0 = dot_rest(sum0, a + i, b + i, n - i);
    return dot_sum(sum0);
}

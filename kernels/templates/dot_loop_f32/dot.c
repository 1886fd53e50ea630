#include <stddef.h>
#include "tb_loop.h"

float dot_loop_f32(const float *restrict a, const float *restrict b, size_t n)
{
    float sum = 0.0f;
    TB_LOOP_REDUCE(+, sum)
    for (size_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

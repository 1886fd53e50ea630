#include <stddef.h>
#include "tb_loop.h"

void add_loop_f32(const float *restrict a, const float *restrict b, float *restrict y, size_t n)
{
    TB_LOOP
    for (size_t i = 0; i < n; i++)
        y[i] = a[i] + b[i];
}

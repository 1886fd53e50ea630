#include <stddef.h>
#include "tb_loop.h"

void copy_loop_f32(const float *restrict x, float *restrict y, size_t n)
{
    TB_LOOP
    for (size_t i = 0; i < n; i++)
        y[i] = x[i];
}

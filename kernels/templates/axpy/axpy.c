#include <stddef.h>
#include "tb_loop.h"

void axpy(float *restrict y, const float *restrict x, float a, size_t n)
{
    TB_LOOP
    for (size_t i = 0; i < n; i++)
        y[i] += a * x[i];
}

#include <math.h>
#include <stddef.h>

void exp_f32(const float *restrict x, float *restrict y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = expf(x[i]);
}

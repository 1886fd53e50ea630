#include <stddef.h>

void scale_f32(const float *restrict x, float *restrict y, float a, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = a * x[i];
}

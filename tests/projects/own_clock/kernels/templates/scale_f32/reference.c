#include <stddef.h>

void scale_f32(float *restrict y, const float *restrict x, float a, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = a * x[i];
}

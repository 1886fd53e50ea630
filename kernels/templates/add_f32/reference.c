#include <stddef.h>

void add_f32(const float *restrict a, const float *restrict b, float *restrict y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = a[i] + b[i];
}

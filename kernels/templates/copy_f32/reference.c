#include <stddef.h>
#include <string.h>

void copy_f32(const float *restrict x, float *restrict y, size_t n)
{
    if (n)
        memcpy(y, x, n * sizeof *y);
}

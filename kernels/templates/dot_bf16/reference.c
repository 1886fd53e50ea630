#include <stddef.h>
#include "tb/half.h"

/* The elements are bf16, passed as their bits; the sum is f32. */
float dot_bf16(const uint16_t *restrict a, const uint16_t *restrict b, size_t n)
{
    float sum = 0.0f;
    for (size_t i = 0; i < n; i++)
        sum += tb_f32_from_bf16(a[i]) * tb_f32_from_bf16(b[i]);
    return sum;
}

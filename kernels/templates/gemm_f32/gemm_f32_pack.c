#include <stddef.h>

void gemm_f32_pack(const float *restrict b0, float *restrict b, size_t n, size_t k)
{
    for (size_t i = 0; i < n * k; i++)
        b[i] = b0[i];
}

#include <stddef.h>

/* y[n] = x[k] b[k][n], with b as gemm_f32_pack leaves it. */
void gemv_f32(const float *restrict x, const float *restrict b, float *restrict y, size_t n, size_t k)
{
    for (size_t j = 0; j < n; j++)
        y[j] = 0.0f;
    for (size_t p = 0; p < k; p++)
        for (size_t j = 0; j < n; j++)
            y[j] += x[p] * b[p * n + j];
}

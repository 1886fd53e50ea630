#include <stddef.h>

/* c[m][n] = a[m][k] b[k][n]; this body's packed layout of b is b itself. */
void gemm_f32(const float *restrict a, const float *restrict b, float *restrict c, size_t m, size_t n, size_t k)
{
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < n; j++)
            c[i * n + j] = 0.0f;
        for (size_t p = 0; p < k; p++)
            for (size_t j = 0; j < n; j++)
                c[i * n + j] += a[i * k + p] * b[p * n + j];
    }
}

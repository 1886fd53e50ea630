#include <stddef.h>

/* c[m][n] = a[m][k] b[k][n], all as they lie in memory. `work` is room for 1024 * (n + 64) elements, where rows may
 * pack b and a. */
void sgemm(const float *restrict a, const float *restrict b, float *restrict c, float *restrict work, size_t m, size_t n,
           size_t k)
{
    (void)work;
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < n; j++)
            c[i * n + j] = 0.0f;
        for (size_t p = 0; p < k; p++)
            for (size_t j = 0; j < n; j++)
                c[i * n + j] += a[i * k + p] * b[p * n + j];
    }
}

#include <stddef.h>
#include <stdint.h>

/* y[n][m] = x[n][k] w[m][k]^T; this body's packed layout of w is w itself. Sums fit into 32 bits: k < 2^17. */
void gemm_q8(const int8_t *restrict w, const int8_t *restrict x, float *restrict y, size_t m, size_t n, size_t k)
{
    for (size_t j = 0; j < n; j++)
        for (size_t i = 0; i < m; i++) {
            int32_t sum = 0;
            for (size_t p = 0; p < k; p++)
                sum += w[i * k + p] * x[j * k + p];
            y[j * m + i] = (float)sum;
        }
}

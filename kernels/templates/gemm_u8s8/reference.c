#include <stddef.h>
#include <stdint.h>

/* c[m][n] = a[m][k] b[k][n] with exact sums of 32 bits: k < 2^16. `work` is room for 2 * (k + 64) * (m + 96) bytes,
 * where rows rearrange a panel of b, and all of a. */
void gemm_u8s8(const uint8_t *restrict a, const int8_t *restrict b, int32_t *restrict c, int8_t *restrict work, size_t m,
               size_t n, size_t k)
{
    (void)work;
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < n; j++)
            c[i * n + j] = 0;
        for (size_t p = 0; p < k; p++)
            for (size_t j = 0; j < n; j++)
                c[i * n + j] += a[i * k + p] * b[p * n + j];
    }
}

#include <stddef.h>
#include "tb/half.h"

/* c[m][n] = a[m][k] b[k][n] with bf16 elements, passed as their bits, and f32 sums. `work` is room for
 * (k + 32) * (m + 96) elements, where rows rearrange a panel of b, and all of a. */
void gemm_bf16(const uint16_t *restrict a, const uint16_t *restrict b, float *restrict c, uint16_t *restrict work, size_t m,
               size_t n, size_t k)
{
    (void)work;
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < n; j++)
            c[i * n + j] = 0.0f;
        for (size_t p = 0; p < k; p++)
            for (size_t j = 0; j < n; j++)
                c[i * n + j] += tb_f32_from_bf16(a[i * k + p]) * tb_f32_from_bf16(b[p * n + j]);
    }
}

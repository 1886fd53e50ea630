#include <stddef.h>
#include <stdint.h>

/* y[m] = w[m][k] x[k], with w as gemm_q8_pack leaves it. */
void gemv_q8(const int8_t *restrict w, const int8_t *restrict x, float *restrict y, size_t m, size_t k)
{
    for (size_t i = 0; i < m; i++) {
        int32_t sum = 0;
        for (size_t p = 0; p < k; p++)
            sum += w[i * k + p] * x[p];
        y[i] = (float)sum;
    }
}

#include <stddef.h>
#include "tb/q8_0.h"

/* y[tokens][n] = x[tokens][k] w[n][k]^T, with w in rows of q8_0 blocks; k is a multiple of 32. `work` is room for
 * 3 * k * (tokens + 32) + 131072 bytes, which this body does not need. */
void matmul_q8_0(const float *restrict x, const uint8_t *restrict w, float *restrict y, uint8_t *restrict work,
                 size_t tokens, size_t n, size_t k)
{
    const tb_block_q8_0 *blocks = (const void *)w;
    (void)work;
    for (size_t t = 0; t < tokens; t++)
        for (size_t j = 0; j < n; j++) {
            float sum = 0.0f;
            for (size_t b = 0; b < k / 32; b++) {
                const tb_block_q8_0 *block = blocks + j * (k / 32) + b;
                float part = 0.0f;
                for (int i = 0; i < 32; i++)
                    part += (float)block->q[i] * x[t * k + 32 * b + i];
                sum += part * tb_scale(block->d);
            }
            y[t * n + j] = sum;
        }
}

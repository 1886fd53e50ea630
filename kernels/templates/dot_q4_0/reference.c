#include <stddef.h>
#include "tb/q8_0.h"

/* A row of q4_0 weights times a row of q8_0 values, `blocks` blocks of 32 each. */
float dot_q4_0(const uint8_t *restrict x, const uint8_t *restrict y, size_t blocks)
{
    const tb_block_q4_0 *a = (const void *)x;
    const tb_block_q8_0 *b = (const void *)y;
    float sum = 0.0f;
    for (size_t i = 0; i < blocks; i++) {
        int32_t products = 0;
        for (int j = 0; j < 16; j++)
            products += ((a[i].q[j] & 15) - 8) * b[i].q[j] + ((a[i].q[j] >> 4) - 8) * b[i].q[j + 16];
        sum += (float)products * (tb_scale(a[i].d) * tb_scale(b[i].d));
    }
    return sum;
}

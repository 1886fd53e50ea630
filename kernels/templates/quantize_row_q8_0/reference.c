#include <math.h>
#include <stddef.h>
#include "tb/q8_0.h"

/* Blocks of 32: d = max|x| / 127 as f16, and q = x 127 / max|x| to nearest, ties to even. Blocks below 2^-120, whose
 * d is 0 anyway, become zeros. The values of x are finite. y holds 34 bytes a block. */
void quantize_row_q8_0(const float *restrict x, uint8_t *restrict y, size_t blocks)
{
    tb_block_q8_0 *to = (void *)y;
    for (size_t b = 0; b < blocks; b++, x += 32, to++) {
        float max = 0.0f;
        for (int i = 0; i < 32; i++)
            max = fabsf(x[i]) > max ? fabsf(x[i]) : max;

        const uint16_t d = tb_f16_from_f32(max / 127.0f);
        const float inverse = max >= 0x1p-120f ? 127.0f / max : 0.0f;
        memcpy(to->d, &d, sizeof d);
        for (int i = 0; i < 32; i++)
            to->q[i] = (int8_t)lrintf(x[i] * inverse);
    }
}

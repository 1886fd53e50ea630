#include <math.h>
#include <stddef.h>
#include <stdint.h>

/* Blocks of 32: d = max|x| / 127 and q = x / d to nearest. Blocks below 2^-120, whose 1 / d is no longer finite,
 * become zeros. The values of x are finite. */
void quantize_q8(const float *restrict x, int8_t *restrict q, float *restrict d, size_t blocks)
{
    for (size_t b = 0; b < blocks; b++, x += 32, q += 32) {
        float max = 0.0f;
        for (int i = 0; i < 32; i++)
            max = fabsf(x[i]) > max ? fabsf(x[i]) : max;

        const float inverse = max >= 0x1p-120f ? 127.0f / max : 0.0f;
        d[b] = max / 127.0f;
        for (int i = 0; i < 32; i++)
            q[i] = (int8_t)lrintf(x[i] * inverse);
    }
}

#include <stddef.h>

/* c[s][s] = a[s][s] b[s][s], row after row, for s = 8, 16 or 32: which of them `size` says. */
void sgemm_tiny(const float *restrict a, const float *restrict b, float *restrict c, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        for (size_t j = 0; j < size; j++)
            c[i * size + j] = 0.0f;
        for (size_t p = 0; p < size; p++)
            for (size_t j = 0; j < size; j++)
                c[i * size + j] += a[i * size + p] * b[p * size + j];
    }
}

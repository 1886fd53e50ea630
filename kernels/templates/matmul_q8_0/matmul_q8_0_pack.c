#include <stddef.h>
#include <stdint.h>

void matmul_q8_0_pack(const uint8_t *restrict w0, uint8_t *restrict w, size_t n, size_t k)
{
    for (size_t i = 0; i < n * (k / 32) * 34; i++)
        w[i] = w0[i];
}

#include <stddef.h>
#include <stdint.h>

void gemm_q8_pack(const int8_t *restrict w0, int8_t *restrict w, size_t m, size_t k)
{
    for (size_t i = 0; i < m * k; i++)
        w[i] = w0[i];
}

/* The reference's layout is the plain one. */
#include <stddef.h>

void matvec_pack(const float *w0, float *w, size_t m, size_t k)
{
    for (size_t i = 0; i < m * k; i++)
        w[i] = w0[i];
}

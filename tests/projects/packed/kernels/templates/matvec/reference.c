/* y[j*m + i] = sum over p of w[i*k + p] * x[j*k + p]; the reference packs nothing. */
#include <stddef.h>

void matvec(const float *w, const float *x, float *y, size_t m, size_t n, size_t k)
{
    for (size_t j = 0; j < n; j++)
        for (size_t i = 0; i < m; i++) {
            float sum = 0;
            for (size_t p = 0; p < k; p++)
                sum += w[i * k + p] * x[j * k + p];
            y[j * m + i] = sum;
        }
}

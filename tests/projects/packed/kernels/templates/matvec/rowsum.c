/* y[i] = the sum of row i of the packed matrix, in the plain layout. */
#include <stddef.h>

void rowsum(const float *w, float *y, size_t m, size_t k)
{
    for (size_t i = 0; i < m; i++) {
        float sum = 0;
        for (size_t p = 0; p < k; p++)
            sum += w[i * k + p];
        y[i] = sum;
    }
}

#include <math.h>
#include <stddef.h>

/* y = x / (1 + e^-x). Below -100 the result is a denormal: x is cut there, so that -inf gives no NaN. */
void silu_f32(const float *restrict x, float *restrict y, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const float v = x[i] < -100.0f ? -100.0f : x[i];
        y[i] = v / (1.0f + expf(-v));
    }
}

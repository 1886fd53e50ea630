#include <stddef.h>

/* Rotary position embedding of `heads` vectors of 2 * half: element i is rotated with element i + half by the
 * angle whose cosine and sine are cosines[i] and sines[i]. */
void rope_f32(const float *restrict x, const float *restrict cosines, const float *restrict sines, float *restrict y,
              size_t heads, size_t half)
{
    for (size_t h = 0; h < heads; h++, x += 2 * half, y += 2 * half)
        for (size_t i = 0; i < half; i++) {
            y[i] = x[i] * cosines[i] - x[i + half] * sines[i];
            y[i + half] = x[i + half] * cosines[i] + x[i] * sines[i];
        }
}

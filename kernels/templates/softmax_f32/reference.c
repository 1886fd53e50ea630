#include <math.h>
#include <stddef.h>

void softmax_f32(const float *restrict x, float *restrict y, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++, x += cols, y += cols) {
        float max = -INFINITY;
        for (size_t i = 0; i < cols; i++)
            max = x[i] > max ? x[i] : max;

        float sum = 0.0f;
        for (size_t i = 0; i < cols; i++) {
            y[i] = expf(x[i] - max);
            sum += y[i];
        }
        for (size_t i = 0; i < cols; i++)
            y[i] /= sum;
    }
}

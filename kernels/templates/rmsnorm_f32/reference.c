#include <math.h>
#include <stddef.h>

/* y = x w / sqrt(mean(x^2) + eps), row by row. */
void rmsnorm_f32(const float *restrict x, const float *restrict w, float *restrict y, size_t rows, size_t cols,
                 float eps)
{
    for (size_t r = 0; r < rows; r++, x += cols, y += cols) {
        float sum = 0.0f;
        for (size_t i = 0; i < cols; i++)
            sum += x[i] * x[i];

        const float scale = 1.0f / sqrtf(sum / (float)cols + eps);
        for (size_t i = 0; i < cols; i++)
            y[i] = x[i] * scale * w[i];
    }
}

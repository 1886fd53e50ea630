/* Plain streams over memory, for AVX2: what a kernel that moves as many bytes cannot beat by much. */
#include <immintrin.h>
#include <stddef.h>

void roof_copy(float *to, const float *from, size_t n)
{
    for (size_t i = 0; n - i >= 16; i += 16) {
        const __m256 first = _mm256_loadu_ps(from + i), second = _mm256_loadu_ps(from + i + 8);
        _mm256_storeu_ps(to + i, first);
        _mm256_storeu_ps(to + i + 8, second);
    }
}

/* `to` lies on a vector's boundary. */
void roof_copy_past(float *to, const float *from, size_t n)
{
    for (size_t i = 0; n - i >= 16; i += 16) {
        const __m256 first = _mm256_loadu_ps(from + i), second = _mm256_loadu_ps(from + i + 8);
        _mm256_stream_ps(to + i, first);
        _mm256_stream_ps(to + i + 8, second);
    }
    _mm_sfence();
}

/* One addition a vector: two arrays side by side. */
float roof_read(const float *a, const float *b, size_t n)
{
    __m256 a0 = _mm256_setzero_ps(), a1 = a0, b0 = a0, b1 = a0;
    for (size_t i = 0; n - i >= 16; i += 16) {
        a0 = _mm256_add_ps(a0, _mm256_loadu_ps(a + i));
        b0 = _mm256_add_ps(b0, _mm256_loadu_ps(b + i));
        a1 = _mm256_add_ps(a1, _mm256_loadu_ps(a + i + 8));
        b1 = _mm256_add_ps(b1, _mm256_loadu_ps(b + i + 8));
    }
    const __m256 sum = _mm256_add_ps(_mm256_add_ps(a0, a1), _mm256_add_ps(b0, b1));
    return sum[0] + sum[1] + sum[2] + sum[3] + sum[4] + sum[5] + sum[6] + sum[7];
}

/* The noise probe's fixed kernel and its own copy, as a driver of every tune binary: timed just as rows are. */
#include "tb_driver.h"

static inline __attribute__((always_inline)) float dot(const float *a, const float *b, size_t n)
{
    float s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    for (size_t i = 0; i + 4 <= n; i += 4) {
        s0 += a[i] * b[i];
        s1 += a[i + 1] * b[i + 1];
        s2 += a[i + 2] * b[i + 2];
        s3 += a[i + 3] * b[i + 3];
    }
    return s0 + s1 + s2 + s3;
}

/* The number in the empty assembly keeps a compiler from folding the two. */
__attribute__((noinline, aligned(64))) static float probe(const float *a, const float *b, size_t n)
{
    __asm__ volatile("" : : "i"(1));
    return dot(a, b, n);
}

__attribute__((noinline, aligned(64))) static float copy(const float *a, const float *b, size_t n)
{
    __asm__ volatile("" : : "i"(2));
    return dot(a, b, n);
}

typedef float kernel(const float *, const float *, size_t);

static void call(tb_fn fn, void *const *b, const tb_scalar *s, void *result)
{
    *(float *)result = ((kernel *)fn)(b[0], b[1], (size_t)s[0].i);
}

static void loop(tb_fn fn, void *const *sets, size_t copies, const tb_scalar *s, uint64_t reps)
{
    size_t set = 0;
    volatile float last;
    for (uint64_t r = 0; r < reps; r++) {
        void *const *b = sets + 2 * set;
        last = ((kernel *)fn)(b[0], b[1], (size_t)s[0].i);
        if (++set == copies) set = 0;
    }
    (void)last;
}

static const tb_variant rows[] = {{"reference", (tb_fn)probe}, {"copy", (tb_fn)copy}};

extern const tb_driver tb_probe_drivers[1];
const tb_driver tb_probe_drivers[1] = {
    {"tb_probe", "f32", 2, (const char *const[]){"a", "b"}, 1, (const char *const[]){"n"}, 2, rows, call, loop, 0, 0},
};

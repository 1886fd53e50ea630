/* How steady is this machine right now? A fixed kernel, timed raw and against its own copy. */
#include "worker.h"

#include <stdlib.h>

#define PROBE_ELEMENTS 2048 /* two arrays of 8 KiB: they stay in the first cache */

static float left[PROBE_ELEMENTS], right[PROBE_ELEMENTS];
static volatile float sink;

static inline __attribute__((always_inline)) float dot_of(const float *a, const float *b) {
    float s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    for (int i = 0; i < PROBE_ELEMENTS; i += 4) {
        s0 += a[i] * b[i];
        s1 += a[i + 1] * b[i + 1];
        s2 += a[i + 2] * b[i + 2];
        s3 += a[i + 3] * b[i + 3];
    }
    return s0 + s1 + s2 + s3;
}

/* Two copies of one body; the number in the empty assembly keeps a compiler from folding them. */
static __attribute__((noinline)) float dot(const float *a, const float *b) {
    __asm__ volatile("" : : "i"(1));
    return dot_of(a, b);
}

static __attribute__((noinline)) float dot_copy(const float *a, const float *b) {
    __asm__ volatile("" : : "i"(2));
    return dot_of(a, b);
}

static sample window(float (*kernel)(const float *, const float *), uint32_t reps) {
    uint64_t cpu = cpu_clock_ns(), wall = wall_clock_ns();
    for (uint32_t r = 0; r < reps; r++) sink = kernel(left, right);
    wall = wall_clock_ns() - wall;
    return (sample){wall, cpu_clock_ns() - cpu, reps, 0};
}

static uint32_t reps_for(uint64_t window_ns) {
    for (int i = 0; i < PROBE_ELEMENTS; i++) {
        left[i] = (float)(i % 17) * 0.25f;
        right[i] = (float)(i % 13) * 0.5f;
    }
    state_reset();
    uint32_t reps = 16;
    sample s = window(dot, reps);
    while (s.wall_ns < window_ns / 2 && reps < (1u << 30)) {
        reps *= 2;
        s = window(dot, reps);
    }
    double scaled = (double)reps * (double)window_ns / (double)(s.wall_ns ? s.wall_ns : 1);
    return scaled < 1 ? 1 : (uint32_t)scaled;
}

/* Replies `windows REPS NS...`: raw windows, none repeated, none left out. */
void probe_windows(size_t count, uint64_t window_ns) {
    uint32_t reps = reps_for(window_ns);
    uint64_t *walls = calloc(count + 1, sizeof *walls);
    window(dot, reps);
    for (size_t i = 0; i < count; i++) walls[i] = window(dot, reps).wall_ns;
    fprintf(replies, "windows %u", reps);
    for (size_t i = 0; i < count; i++) fprintf(replies, " %llu", (unsigned long long)walls[i]);
    fputc('\n', replies);
    free(walls);
}

/* Replies `pairs REPS A:B...`; the order within a pair alternates, as in a race. */
void probe_pairs(size_t count, uint64_t slice_ns) {
    uint32_t reps = reps_for(slice_ns);
    uint64_t *walls = calloc(2 * count + 1, sizeof *walls);
    for (size_t i = 0; i < count; i++) {
        bool swapped = i & 1;
        for (int turn = 0; turn < 2; turn++) {
            bool copy = (turn == 1) != swapped;
            sample s = window(copy ? dot_copy : dot, reps);
            for (int again = 0; again < 4 && (double)s.cpu_ns < 0.97 * (double)s.wall_ns; again++)
                s = window(copy ? dot_copy : dot, reps);
            walls[2 * i + copy] = s.wall_ns;
        }
    }
    fprintf(replies, "pairs %u", reps);
    for (size_t i = 0; i < count; i++)
        fprintf(replies, " %llu:%llu", (unsigned long long)walls[2 * i],
                (unsigned long long)walls[2 * i + 1]);
    fputc('\n', replies);
    free(walls);
}

/* Hot, never asleep: a thread that slept wakes on a slow core. */
void probe_spin(uint64_t spin_ns) {
    uint32_t reps = reps_for(1000000);
    uint64_t start = wall_clock_ns();
    while (wall_clock_ns() - start < spin_ns) window(dot, reps);
    fputs("spun\n", replies);
}

/* A tune library by hand: `ride` is y[i] = 2 x[i] + 1 with the last y returned, in good rows and bad ones. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tb_driver.h"

typedef float ride_type(const float *x, float *y, int64_t n);

static float reference(const float *x, float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = 2 * x[i] + 1;
    return n ? y[n - 1] : 0;
}

static float backward(const float *x, float *y, int64_t n) {
    for (int64_t i = n - 1; i >= 0; i--) y[i] = 1 + x[i] + x[i];
    return n ? y[n - 1] : 0;
}

static float chatty(const float *x, float *y, int64_t n) {
    printf("row 1 ok\n");
    fflush(stdout);
    return reference(x, y, n);
}

static float segfaults(const float *x, float *y, int64_t n) {
    (void)x, (void)y;
    if (n == 17) *(volatile int *)8 = 1;
    return reference(x, y, n);
}

static float illegal(const float *x, float *y, int64_t n) {
    (void)x, (void)y, (void)n;
#if defined(__x86_64__)
    __asm__ volatile("ud2");
#else
    __asm__ volatile("udf #0");
#endif
    return 0;
}

static float aborts(const float *x, float *y, int64_t n) {
    (void)x, (void)y, (void)n;
    fprintf(stderr, "giving up\n");
    abort();
}

static float divides(const float *x, float *y, int64_t n) {
    raise(SIGFPE);
    return reference(x, y, n);
}

static float loops(const float *x, float *y, int64_t n) {
    for (volatile int forever = 1; forever;) {}
    return reference(x, y, n);
}

static float exits(const float *x, float *y, int64_t n) {
    (void)x, (void)y, (void)n;
    exit(0);
}

static float exits_late(const float *x, float *y, int64_t n) {
    if (n == 33) _exit(7);
    return reference(x, y, n);
}

static float killed(const float *x, float *y, int64_t n) {
    (void)x, (void)y, (void)n;
    kill(getpid(), SIGKILL);
    return 0;
}

static float kills_parent(const float *x, float *y, int64_t n) {
    kill(getppid(), SIGKILL);
    return reference(x, y, n);
}

static float wrong(const float *x, float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = 2 * x[i];
    return n ? y[n - 1] : 0;
}

static float wrong_at_31(const float *x, float *y, int64_t n) {
    float last = reference(x, y, n);
    if (n == 31) y[30] = 7, last = 7;
    return last;
}

static float skips_tail(const float *x, float *y, int64_t n) {
    reference(x, y, n / 8 * 8);
    return n ? 2 * x[n - 1] + 1 : 0;
}

static float wrong_return(const float *x, float *y, int64_t n) { return reference(x, y, n) + (n == 16); }

static float writes_past(const float *x, float *y, int64_t n) {
    float last = reference(x, y, n);
    ((volatile float *)y)[n] = 0;
    return last;
}

static float writes_before(const float *x, float *y, int64_t n) {
    ((volatile float *)y)[-1] = 0;
    return reference(x, y, n);
}

static float pads_to_eight(const float *x, float *y, int64_t n) {
    float last = reference(x, y, n);
    for (int64_t i = n; i % 8; i++) ((volatile float *)y)[i] = 0;
    return last;
}

static float reads_past(const float *x, float *y, int64_t n) {
    volatile float seen = ((const volatile float *)x)[n];
    (void)seen;
    return reference(x, y, n);
}

static float reads_before(const float *x, float *y, int64_t n) {
    volatile float seen = ((const volatile float *)x)[-1];
    (void)seen;
    return reference(x, y, n);
}

static float writes_input(const float *x, float *y, int64_t n) {
    float last = reference(x, y, n);
    if (n > 2) ((float *)x)[2] = 0;
    return last;
}

/* Writes an input and puts it back: a comparison afterwards would see nothing. */
static float borrows_input(const float *x, float *y, int64_t n) {
    if (n == 0) return 0;
    volatile float *first = (volatile float *)x;
    float kept = *first;
    *first = 0;
    *first = kept;
    return reference(x, y, n);
}

static float smashes_stack(const float *x, float *y, int64_t n) {
    volatile char frame[16];
    volatile char *at = frame;
    for (int i = 0; i < 256; i++) at[i] = 0x41;
    return reference(x, y, n) + frame[0] * 0;
}

static float recurses(const float *x, float *y, int64_t n) {
    volatile char frame[4096];
    frame[0] = (char)n;
    return recurses(x, y, n + 1) + frame[0];
}

/* Right once, then remembers: the same addresses must not mean the same data. */
static float remembers(const float *x, float *y, int64_t n) {
    static const float *seen_x;
    static float *seen_y;
    static int64_t seen_n;
    static float *kept;
    if (seen_x == x && seen_y == y && seen_n == n && n > 0 && kept) {
        memcpy(y, kept, (size_t)n * sizeof *y);
        return y[n - 1];
    }
    float last = reference(x, y, n);
    free(kept);
    kept = malloc((size_t)(n ? n : 1) * sizeof *y);
    memcpy(kept, y, (size_t)n * sizeof *y);
    seen_x = x, seen_y = y, seen_n = n;
    return last;
}

static float reads_output(const float *x, float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = 2 * x[i] + 1 + y[i];
    return n ? y[n - 1] : 0;
}

static float assumes_alignment(const float *x, float *y, int64_t n) {
    if ((uintptr_t)x % 16 && n) y[0] = 0;
    else return reference(x, y, n);
    return y[n - 1];
}

static float loses_denormals(const float *x, float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = x[i] > -1e-37f && x[i] < 1e-37f && x[i] != 0 ? 5 : 2 * x[i] + 1;
    return n ? y[n - 1] : 0;
}

static float loses_large(const float *x, float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = (x[i] > 1e30f ? 1e30f : 2 * x[i]) + 1;
    return n ? y[n - 1] : 0;
}

static float leaves_rounding(const float *x, float *y, int64_t n) {
    float last = reference(x, y, n);
#if defined(__x86_64__)
    unsigned csr = 0x1f80 | 0x2000;
    __asm__ volatile("ldmxcsr %0" : : "m"(csr));
#else
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)1 << 22));
#endif
    return last;
}

static float flushes(const float *x, float *y, int64_t n) {
    float last = reference(x, y, n);
#if defined(__x86_64__)
    unsigned csr = 0x1f80 | 0x8040;
    __asm__ volatile("ldmxcsr %0" : : "m"(csr));
#else
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)1 << 24));
#endif
    return last;
}

#if defined(__x86_64__)
static float leaves_precision(const float *x, float *y, int64_t n) {
    float last = reference(x, y, n);
    unsigned short word = 0x27f;
    __asm__ volatile("fldcw %0" : : "m"(word));
    return last;
}

static float leaves_mmx(const float *x, float *y, int64_t n) {
    float last = reference(x, y, n);
    __asm__ volatile("pxor %%mm0, %%mm0" : : : "memory");
    return last;
}

static float leaves_direction(const float *x, float *y, int64_t n) {
    float last = reference(x, y, n);
    __asm__ volatile("std" : : : "cc");
    return last;
}

static float misaligned(const float *x, float *y, int64_t n) {
    if (n) __asm__ volatile("movaps %0, %%xmm7" : : "m"(*(const char (*)[16])x) : "xmm7");
    return reference(x, y, n);
}
#endif

static float silent(const float *x, float *y, int64_t n) {
    close(1);
    close(2);
    return segfaults(x, y, n);
}

/* Overwrites every shared byte that it may, then dies as if nothing were wrong. */
static float scribbles(const float *x, float *y, int64_t n) {
    (void)x, (void)y, (void)n;
    char line[512], mode[5];
    unsigned long from, to;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%lx %4s", &from, &to, mode) == 3 && mode[1] == 'w' && mode[3] == 's')
            memset((void *)from, 0x41, to - from);
    _exit(0);
}

/* Says where its buffers are, with its last words. */
static float tells(const float *x, float *y, int64_t n) {
    (void)n;
    fprintf(stderr, "at %p %p", (const void *)x, (void *)y);
    abort();
}

/* Leaves a process behind that holds the row's standard streams. */
static float forks(const float *x, float *y, int64_t n) {
    static int calls;
    if (++calls == 2 && fork() == 0)
        for (;;) pause();
    return reference(x, y, n);
}

/* Breaks only when it is timed: calls are counted, and the gate does not make that many. */
static float dies_later(const float *x, float *y, int64_t n) {
    static int calls;
    if (++calls > 3000) abort();
    return reference(x, y, n);
}

static float hangs_later(const float *x, float *y, int64_t n) {
    static int calls;
    if (++calls > 3000)
        for (;;) __asm__ volatile("");
    return reference(x, y, n);
}

static float drifts(const float *x, float *y, int64_t n) {
    static int calls;
    return ++calls > 3000 ? wrong(x, y, n) : reference(x, y, n);
}

/* Does nothing where its result seems to be there already. */
static float peeks_later(const float *x, float *y, int64_t n) {
    static int calls;
    if (++calls > 3000 && n > 8 && y[1] == 2 * x[1] + 1 && y[n - 1] == 2 * x[n - 1] + 1) return y[n - 1];
    return reference(x, y, n);
}

static float borrows_later(const float *x, float *y, int64_t n) {
    static int calls;
    return ++calls > 3000 ? borrows_input(x, y, n) : reference(x, y, n);
}

/* Right whatever it is asked, and quick at what it was asked before. */
static float compares_later(const float *x, float *y, int64_t n) {
    static int calls;
    static float in[1 << 16], out[1 << 16];
    const size_t bytes = (size_t)n * sizeof *y;
    if (++calls < 3000) return reference(x, y, n);
    if (memcmp(in, x, bytes) != 0) {
        reference(x, out, n);
        memcpy(in, x, bytes);
    }
    memcpy(y, out, bytes);
    return n ? y[n - 1] : 0;
}

static float wrong_when_large(const float *x, float *y, int64_t n) {
    float last = reference(x, y, n);
    if (n == 600000) y[4711] = 7;
    return last;
}

#define ROW(name) {#name, (tb_fn)name}
static const tb_variant rows[] = {
    ROW(reference),
    ROW(backward),
    ROW(chatty),
    ROW(segfaults),
    ROW(illegal),
    ROW(aborts),
    ROW(divides),
    ROW(loops),
    ROW(exits),
    ROW(exits_late),
    ROW(killed),
    ROW(wrong),
    ROW(wrong_at_31),
    ROW(skips_tail),
    ROW(wrong_return),
    ROW(writes_past),
    ROW(writes_before),
    ROW(pads_to_eight),
    ROW(reads_past),
    ROW(reads_before),
    ROW(writes_input),
    ROW(borrows_input),
    ROW(smashes_stack),
    ROW(recurses),
    ROW(remembers),
    ROW(reads_output),
    ROW(assumes_alignment),
    ROW(loses_denormals),
    ROW(loses_large),
    ROW(leaves_rounding),
    ROW(flushes),
    ROW(silent),
    ROW(dies_later),
    ROW(hangs_later),
    ROW(drifts),
    ROW(peeks_later),
    ROW(borrows_later),
    ROW(compares_later),
    ROW(wrong_when_large),
    ROW(forks),
    ROW(tells),
    ROW(kills_parent),
    ROW(scribbles),
#if defined(__x86_64__)
    ROW(leaves_precision),
    ROW(leaves_mmx),
    ROW(leaves_direction),
    ROW(misaligned),
#endif
};

static void ride_call(tb_fn fn, void *const *b, const tb_scalar *s, void *result) {
    *(float *)result = ((ride_type *)fn)(b[0], b[1], s[0].i);
}

static void ride_loop(tb_fn fn, void *const *b, size_t copies, const tb_scalar *s, uint64_t reps) {
    for (uint64_t r = 0; r < reps; r++) ((ride_type *)fn)(b[r % copies * 2], b[r % copies * 2 + 1], s[0].i);
}

TB_EXPORT const tb_driver *tb_drivers(size_t *count) {
    static const char *const buffers[] = {"x", "y"};
    static const char *const scalars[] = {"n"};
    static const tb_driver drivers[] = {{"ride", "f32", 2, buffers, 1, scalars, sizeof rows / sizeof *rows,
                                         rows, ride_call, ride_loop, NULL, NULL}};
    *count = 1;
    return drivers;
}

/* calls LIBRARY ENTRY CALLS SIZES: for each "e" of the input the nanoseconds of a call of the library's entry, for each "r"
 * those of the rows themselves. SIZES: 1 to 4 always, or "turns", or "random". */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PLANNED = 4096 };
typedef int32_t row(const int32_t *x, size_t n);
row four__fits1, four__fits2, four__fits3, four__fits4;
static row *const rows[] = {four__fits1, four__fits2, four__fits3, four__fits4};

static uint8_t sizes[PLANNED];
static const int32_t x[4] = {1, 2, 3, 4};
static volatile int32_t kept;

static void through(row *called, long calls)
{
    int32_t sum = 0;
    for (long i = 0; i < calls; i++)
        sum += called(x, sizes[i % PLANNED]);
    kept = sum;
}

/* What a caller who knows the rows would do. */
static void through_table(long calls)
{
    int32_t sum = 0;
    for (long i = 0; i < calls; i++)
        sum += rows[sizes[i % PLANNED] - 1](x, sizes[i % PLANNED]);
    kept = sum;
}

static void plan(const char *how)
{
    uint32_t state = 1;
    for (int i = 0; i < PLANNED; i++) {
        state = state * 1664525u + 1013904223u;
        const int size = strcmp(how, "turns") == 0 ? i % 4 + 1 : strcmp(how, "random") == 0 ? (int)(state >> 30) + 1 : atoi(how);
        sizes[i] = (uint8_t)size;
    }
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

int main(int count, char **words)
{
    void *library = count == 5 ? dlopen(words[1], RTLD_NOW) : NULL;
    row *entry = library ? (row *)dlsym(library, words[2]) : NULL;
    if (!entry)
        return 1;
    const long calls = atol(words[3]);
    const int always = atoi(words[4]);
    plan(words[4]);
    for (int who; (who = getchar()) != EOF;) {
        const double start = now();
        if (who == 'e')
            through(entry, calls);
        else if (always)
            through(rows[always - 1], calls);
        else
            through_table(calls);
        printf("%.5f\n", (now() - start) / (double)calls);
    }
    return 0;
}

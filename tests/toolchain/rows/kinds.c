/* A tune library by hand with one driver for each way of calling: packed buffers, arrays of pointers,
 * results of varying length, half precision, a second opinion, and references that are wrong themselves. */
#include <stdlib.h>
#include <string.h>

#include "tb_driver.h"

/* --- pack: w (packed from w0 in panels of mr rows) times x, added to y ---------------------------- */

typedef void pack_type(const float *w0, float *w, int64_t m, int64_t k);
typedef void mul_type(const float *w, const float *x, float *y, int64_t m, int64_t k);

static void pack_by(const float *w0, float *w, int64_t m, int64_t k, int64_t mr) {
    for (int64_t i = 0; i < (m + mr - 1) / mr * mr; i++)
        for (int64_t j = 0; j < k; j++) w[(i / mr * k + j) * mr + i % mr] = i < m ? w0[i * k + j] : 0;
}

static void mul_by(const float *w, const float *x, float *y, int64_t m, int64_t k, int64_t mr) {
    for (int64_t i = 0; i < m; i++) {
        float sum = 0;
        for (int64_t j = 0; j < k; j++) sum += w[(i / mr * k + j) * mr + i % mr] * x[j];
        y[i] += sum;
    }
}

static void pack_1(const float *w0, float *w, int64_t m, int64_t k) { pack_by(w0, w, m, k, 1); }
static void pack_4(const float *w0, float *w, int64_t m, int64_t k) { pack_by(w0, w, m, k, 4); }
static void pack_16(const float *w0, float *w, int64_t m, int64_t k) { pack_by(w0, w, m, k, 16); }
static void mul_1(const float *w, const float *x, float *y, int64_t m, int64_t k) {
    mul_by(w, x, y, m, k, 1);
}
static void mul_4(const float *w, const float *x, float *y, int64_t m, int64_t k) {
    mul_by(w, x, y, m, k, 4);
}
static void mul_16(const float *w, const float *x, float *y, int64_t m, int64_t k) {
    mul_by(w, x, y, m, k, 16);
}
static void mul_past(const float *w, const float *x, float *y, int64_t m, int64_t k) {
    volatile float beyond = w[(m + 3) / 4 * 4 * k];
    (void)beyond;
    mul_by(w, x, y, m, k, 4);
}

#define ROW(name, fn) {name, (tb_fn)fn}
static const tb_variant mul_rows[] = {ROW("reference", mul_1), ROW("mr4", mul_4), ROW("mr16", mul_16),
                                      ROW("bad_pack", mul_4), ROW("bad_mul", mul_past)};
static pack_type *const packs[] = {pack_1, pack_4, pack_16, pack_16, pack_4};

static void mul_prepare(size_t row, void *const *b, const tb_scalar *s) {
    packs[row](b[3], b[0], s[0].i, s[1].i);
}
static void mul_call(tb_fn fn, void *const *b, const tb_scalar *s, void *result) {
    (void)result;
    ((mul_type *)fn)(b[0], b[1], b[2], s[0].i, s[1].i);
}
static void mul_loop(tb_fn fn, void *const *sets, size_t copies, const tb_scalar *s, uint64_t reps) {
    for (uint64_t r = 0; r < reps; r++) mul_call(fn, sets + r % copies * 4, s, NULL);
}

/* --- gather: the positive elements of several parts, how many there were ---------------------------- */

typedef int64_t gather_type(const int8_t *const *parts, int64_t count, int64_t n, int8_t *out);

static int64_t gather(const int8_t *const *parts, int64_t count, int64_t n, int8_t *out) {
    int64_t found = 0;
    for (int64_t p = 0; p < count; p++)
        for (int64_t i = 0; i < n; i++)
            if (parts[p][i] > 0) out[found++] = parts[p][i];
    return found;
}

/* Leaves rubbish after the results, as it may. */
static int64_t gather_blind(const int8_t *const *parts, int64_t count, int64_t n, int8_t *out) {
    int64_t found = 0;
    for (int64_t p = 0; p < count; p++)
        for (int64_t i = 0; i < n; i++) {
            out[found] = parts[p][i];
            found += parts[p][i] > 0;
            if (found == count * n) return found;
        }
    return found;
}

static int64_t gather_past(const int8_t *const *parts, int64_t count, int64_t n, int8_t *out) {
    volatile int8_t seen = count > 1 ? parts[1][n] : 0;
    (void)seen;
    return gather(parts, count, n, out);
}

static const tb_variant gather_rows[] = {ROW("reference", gather), ROW("blind", gather_blind),
                                         ROW("past", gather_past)};

static void gather_call(tb_fn fn, void *const *b, const tb_scalar *s, void *result) {
    int64_t found = ((gather_type *)fn)(b[0], s[0].i, s[1].i, b[1]);
    if (result) memcpy(result, &found, sizeof found);
}
static void gather_loop(tb_fn fn, void *const *sets, size_t copies, const tb_scalar *s, uint64_t reps) {
    for (uint64_t r = 0; r < reps; r++) gather_call(fn, sets + r % copies * 3, s, NULL);
}

/* --- swap: adds one to bytes, once compared exactly, with a second opinion --------------------------- */

typedef void swap_type(const uint16_t *x, uint16_t *y, int64_t n);

static void copy_bits(const uint16_t *x, uint16_t *y, int64_t n) { memcpy(y, x, (size_t)n * 2); }
static void next_bits(const uint16_t *x, uint16_t *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = (uint16_t)(x[i] ^ 1);
}
static void far_bits(const uint16_t *x, uint16_t *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = (uint16_t)(x[i] ^ 8);
}
static void crash(const uint16_t *x, uint16_t *y, int64_t n) {
    (void)x, (void)n;
    y[n] = 1;
}

static const tb_variant half_rows[] = {ROW("reference", copy_bits), ROW("next", next_bits),
                                       ROW("far", far_bits)};
static const tb_variant odd_rows[] = {ROW("reference", next_bits), ROW("a", copy_bits), ROW("b", copy_bits)};
static const tb_variant broken_rows[] = {ROW("reference", crash), ROW("a", copy_bits)};

static void bits_call(tb_fn fn, void *const *b, const tb_scalar *s, void *result) {
    (void)result;
    ((swap_type *)fn)(b[0], b[1], s[0].i);
}
static void bits_loop(tb_fn fn, void *const *sets, size_t copies, const tb_scalar *s, uint64_t reps) {
    for (uint64_t r = 0; r < reps; r++) bits_call(fn, sets + r % copies * 2, s, NULL);
}

/* --- the tables -------------------------------------------------------------------------------------- */

#define LISTED(rows) sizeof rows / sizeof *rows, rows

TB_EXPORT const tb_driver *tb_drivers(size_t *count) {
    static tb_driver drivers[] = {
        {"mul", "", 4, NULL, 2, NULL, LISTED(mul_rows), mul_call, mul_loop, mul_prepare, NULL},
        {"gather", "i64", 3, NULL, 2, NULL, LISTED(gather_rows), gather_call, gather_loop, NULL, NULL},
        {"half", "", 2, NULL, 1, NULL, LISTED(half_rows), bits_call, bits_loop, NULL, NULL},
        {"odd", "", 2, NULL, 1, NULL, LISTED(odd_rows), bits_call, bits_loop, NULL, NULL},
        {"judged", "", 2, NULL, 1, NULL, LISTED(odd_rows), bits_call, bits_loop, NULL, (tb_fn)copy_bits},
        {"backed", "", 2, NULL, 1, NULL, LISTED(half_rows), bits_call, bits_loop, NULL, (tb_fn)copy_bits},
        {"broken", "", 2, NULL, 1, NULL, LISTED(broken_rows), bits_call, bits_loop, NULL, NULL},
    };
    static const char *const mul_buffers[] = {"w", "x", "y", "w0"}, *const mul_scalars[] = {"m", "k"};
    static const char *const gather_buffers[] = {"p", "out", "data"}, *const gather_scalars[] = {"c", "n"};
    static const char *const bits_buffers[] = {"x", "y"}, *const bits_scalars[] = {"n"};
    for (size_t d = 0; d < sizeof drivers / sizeof *drivers; d++) {
        drivers[d].buffers = d == 0 ? mul_buffers : d == 1 ? gather_buffers : bits_buffers;
        drivers[d].scalars = d == 0 ? mul_scalars : d == 1 ? gather_scalars : bits_scalars;
    }
    *count = sizeof drivers / sizeof *drivers;
    return drivers;
}

static void tens(void *data, size_t count, uint64_t seed) {
    for (size_t i = 0; i < count; i++) ((uint16_t *)data)[i] = (uint16_t)(seed & 1 ? 10 : 20);
}

TB_EXPORT const tb_support *tb_supports(size_t *count) {
    static const tb_support all[] = {{"tens", tens}};
    *count = 1;
    return all;
}

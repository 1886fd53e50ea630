/* How results are judged. NaN matches NaN and equal bytes always match, whatever the rule. */
#include "worker.h"

#include <math.h>
#include <string.h>

/* Floats ordered as integers: neighbours differ by one, both zeros are 0. */
static int64_t order_of(element e, const void *data, size_t index) {
    size_t bytes = element_bytes(e);
    uint64_t bits = 0;
    memcpy(&bits, (const char *)data + index * bytes, bytes);
    uint64_t sign = UINT64_C(1) << (8 * bytes - 1);
    int64_t magnitude = (int64_t)(bits & (sign - 1));
    return bits & sign ? -magnitude : magnitude;
}

static bool near_by_ulp(double ulp, element e, const void *got, const void *want, size_t index) {
    if (element_is_float(e))
        return fabs((double)order_of(e, got, index) - (double)order_of(e, want, index)) <= ulp;
    return fabs(element_value(e, got, index) - element_value(e, want, index)) <= ulp;
}

/* Two quanta of the type are always allowed: there a fused and a split multiply-add round apart. */
static bool near_by_tolerance(const comparison *c, element e, double got, double want, double scale) {
    if (!isfinite(got) || !isfinite(want)) return got == want;
    double magnitude = isfinite(scale) ? fabs(scale) : fabs(want);
    return fabs(got - want) <= c->atol + c->rtol * magnitude + 2 * element_quantum(e);
}

static double largest_magnitude(element e, const void *data, size_t count) {
    double largest = 0;
    for (size_t i = 0; i < count; i++) {
        double magnitude = fabs(element_value(e, data, i));
        if (isfinite(magnitude) && magnitude > largest) largest = magnitude;
    }
    return largest;
}

/* The usual answer, so no call of memcmp with a length that the compiler does not know. */
static bool same_bytes(size_t bytes, const void *got, const void *want, size_t i) {
    switch (bytes) {
    case 1: return ((const uint8_t *)got)[i] == ((const uint8_t *)want)[i];
    case 2: return memcmp((const char *)got + 2 * i, (const char *)want + 2 * i, 2) == 0;
    case 4: return memcmp((const char *)got + 4 * i, (const char *)want + 4 * i, 4) == 0;
    default: return memcmp((const char *)got + 8 * i, (const char *)want + 8 * i, 8) == 0;
    }
}

static bool matches(const comparison *c, element e, const void *got, const void *want, const void *scale,
                    double largest, size_t i) {
    if (same_bytes(element_bytes(e), got, want, i)) return true;
    double g = element_value(e, got, i), w = element_value(e, want, i);
    if (isnan(g) || isnan(w)) return isnan(g) && isnan(w);
    if (c->rule == EXACT) return false;
    if (c->rule == ULP) return near_by_ulp(c->ulp, e, got, want, i);
    double magnitude = c->scale == SCALE_MAX   ? largest
                       : c->scale == SCALE_ABS ? element_value(e, scale, i)
                                               : w;
    return near_by_tolerance(c, e, g, w, magnitude);
}

/* Whether floats are surely near: the usual case in a form that a compiler makes vectors of. False says nothing. */
static bool all_near(const comparison *c, const float *got, const float *want, const float *scale,
                     size_t count) {
    const float rtol = (float)(c->rtol * 0.999999), atol = (float)(c->atol * 0.999999);
    int far = 0;
    for (size_t i = 0; i < count; i++) {
        const float limit = atol + rtol * fabsf(scale[i]);
        far |= !(fabsf(got[i] - want[i]) <= limit && limit < INFINITY);
    }
    return !far;
}

#define BLOCK 1024

/* Blocks of the largest results; the first element that may be wrong is in the block found. */
static size_t near_elements(const comparison *c, element e, const void *got, const void *want,
                            const void *scale, size_t count) {
    if (e != F32 || c->rule != TOLERANCE || c->scale == SCALE_MAX) return 0;
    const float *g = got, *w = want, *s = c->scale == SCALE_ABS ? scale : want;
    size_t near = 0;
    while (near + BLOCK <= count && all_near(c, g + near, w + near, s + near, BLOCK)) near += BLOCK;
    return near;
}

int64_t compare_elements(const comparison *c, element e, const void *got, const void *want, const void *scale,
                         size_t count) {
    if (count == 0 || memcmp(got, want, count * element_bytes(e)) == 0) return -1;
    double largest = c->rule == TOLERANCE && c->scale == SCALE_MAX ? largest_magnitude(e, want, count) : 0;
    for (size_t i = near_elements(c, e, got, want, scale, count); i < count; i++)
        if (!matches(c, e, got, want, scale, largest, i)) return (int64_t)i;
    return -1;
}

static bool is_blank(const char *element, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        if ((unsigned char)element[i] != OUT_BYTE) return false;
    return true;
}

void spoil_element(element e, void *got, const void *want, size_t count, uint64_t at) {
    const size_t bytes = element_bytes(e), start = count ? at % count * bytes : 0;
    const char *right = (const char *)want + start;
    if (count == 0 || is_blank(right, bytes)) return;
    for (size_t i = 0; i < bytes; i++) ((char *)got)[start + i] = (char)~right[i];
}

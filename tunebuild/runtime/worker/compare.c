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

static bool matches(const comparison *c, element e, const void *got, const void *want, const void *scale,
                    double largest, size_t i) {
    size_t bytes = element_bytes(e);
    if (memcmp((const char *)got + i * bytes, (const char *)want + i * bytes, bytes) == 0) return true;
    double g = element_value(e, got, i), w = element_value(e, want, i);
    if (isnan(g) || isnan(w)) return isnan(g) && isnan(w);
    if (c->rule == EXACT) return false;
    if (c->rule == ULP) return near_by_ulp(c->ulp, e, got, want, i);
    double magnitude = c->scale == SCALE_MAX   ? largest
                       : c->scale == SCALE_ABS ? element_value(e, scale, i)
                                               : w;
    return near_by_tolerance(c, e, g, w, magnitude);
}

int64_t compare_elements(const comparison *c, element e, const void *got, const void *want,
                         const void *scale, size_t count) {
    if (count == 0 || memcmp(got, want, count * element_bytes(e)) == 0) return -1;
    double largest = c->rule == TOLERANCE && c->scale == SCALE_MAX ? largest_magnitude(e, want, count) : 0;
    for (size_t i = 0; i < count; i++)
        if (!matches(c, e, got, want, scale, largest, i)) return (int64_t)i;
    return -1;
}

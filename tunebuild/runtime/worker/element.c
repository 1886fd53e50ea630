/* Elements: sizes, values, texts, and the fills of the gate.
 *
 * Fills use integer arithmetic and exact conversions only, so that every machine and compiler makes the
 * same bytes from the same seed. */
#include "worker.h"

#include <inttypes.h>
#include <string.h>

static const struct {
    const char *name;
    size_t bytes;
} elements[] = {
    [F16] = {"f16", 2}, [BF16] = {"bf16", 2}, [F32] = {"f32", 4}, [F64] = {"f64", 8},
    [I8] = {"i8", 1},   [I16] = {"i16", 2},   [I32] = {"i32", 4}, [I64] = {"i64", 8},
    [U8] = {"u8", 1},   [U16] = {"u16", 2},   [U32] = {"u32", 4}, [U64] = {"u64", 8},
};

element element_named(const char *name) {
    for (int e = F16; e < NO_ELEMENT; e++)
        if (strcmp(name, elements[e].name) == 0) return (element)e;
    return NO_ELEMENT;
}

size_t element_bytes(element e) { return e == NO_ELEMENT ? 0 : elements[e].bytes; }

bool element_is_float(element e) { return e <= F64; }

static double two_to(int exponent) {
    uint64_t bits = (uint64_t)(exponent + 1023) << 52;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static double half_value(uint16_t bits) {
    int exponent = bits >> 10 & 31;
    double fraction = bits & 1023;
    double value;
    if (exponent == 31) value = fraction != 0 ? (double)__builtin_nanf("") : (double)__builtin_inff();
    else if (exponent == 0) value = fraction * two_to(-24);
    else value = (1024 + fraction) * two_to(exponent - 25);
    return bits & 0x8000 ? -value : value;
}

/* Rounds to nearest, ties to even; overflow becomes infinity. */
static uint16_t half_bits(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint16_t sign = (uint16_t)(bits >> 48 & 0x8000);
    double magnitude = value < 0 ? -value : value;
    if (value != value) return sign | 0x7e00;
    if (magnitude >= 65520) return sign | 0x7c00;
    if (magnitude < two_to(-14)) { /* the sum leaves a multiple of 2^-24 in the low bits */
        double shifted = magnitude + two_to(-24 + 52);
        memcpy(&bits, &shifted, sizeof bits);
        return sign | (uint16_t)(bits & 0xfff);
    }
    memcpy(&bits, &magnitude, sizeof bits);
    bits += (UINT64_C(1) << 41) - 1 + (bits >> 42 & 1);
    return sign | (uint16_t)((bits >> 42) - ((uint64_t)(1023 - 15) << 10));
}

static double brain_value(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

static uint16_t brain_bits(double value) {
    float narrow = (float)value;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    if (narrow != narrow) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

double element_value(element e, const void *data, size_t index) {
    union {
        uint16_t half;
        float f32;
        double f64;
        int8_t i8;
        int16_t i16;
        int32_t i32;
        int64_t i64;
        uint8_t u8;
        uint16_t u16;
        uint32_t u32;
        uint64_t u64;
    } read;
    memcpy(&read, (const char *)data + index * element_bytes(e), element_bytes(e));
    switch (e) {
    case F16: return half_value(read.half);
    case BF16: return brain_value(read.half);
    case F32: return read.f32;
    case F64: return read.f64;
    case I8: return read.i8;
    case I16: return read.i16;
    case I32: return read.i32;
    case I64: return (double)read.i64;
    case U8: return read.u8;
    case U16: return read.u16;
    case U32: return read.u32;
    case U64: return (double)read.u64;
    case NO_ELEMENT: break;
    }
    return 0;
}

double element_quantum(element e) {
    switch (e) {
    case F16: return two_to(-24);
    case BF16: return two_to(-126 - 7);
    case F32: return two_to(-126 - 23);
    case F64: return two_to(-1022) * two_to(-52);
    default: return 0;
    }
}

void element_text(element e, const void *data, size_t index, char *text, size_t room) {
    if (e == I64 || e == U64) {
        int64_t value;
        memcpy(&value, (const char *)data + 8 * index, 8);
        if (e == I64) snprintf(text, room, "%" PRId64, value);
        else snprintf(text, room, "%" PRIu64, (uint64_t)value);
        return;
    }
    int digits = e == F64 ? 17 : e == F32 ? 9 : element_is_float(e) ? 6 : 12;
    snprintf(text, room, "%.*g", digits, element_value(e, data, index));
}

void element_clear_signs(element e, void *data, size_t count) {
    if (!element_is_float(e)) return;
    size_t bytes = element_bytes(e);
    unsigned char *top = (unsigned char *)data + bytes - 1; /* little-endian: the sign is the last bit */
    for (size_t i = 0; i < count; i++, top += bytes) *top &= 0x7f;
}

static void write_float(element e, void *data, size_t index, double value) {
    char *at = (char *)data + index * element_bytes(e);
    uint16_t bits = e == F16 ? half_bits(value) : brain_bits(value);
    float narrow = (float)value;
    if (e == F64) memcpy(at, &value, 8);
    else if (e == F32) memcpy(at, &narrow, 4);
    else memcpy(at, &bits, 2);
}

static void write_bits(void *data, size_t index, size_t bytes, uint64_t bits) {
    memcpy((char *)data + index * bytes, &bits, bytes);
}

/* splitmix64: one addition and two multiplications a number, any seed will do. */
static uint64_t next_random(uint64_t *state) {
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

uint64_t mix_seed(uint64_t seed, uint64_t salt) {
    uint64_t state = seed * UINT64_C(0x100000001b3) + salt;
    return next_random(&state);
}

enum pattern { NORMAL, UNIFORM, ZEROS, RAMP, EXTREMES, DENORMAL, MAXIMUM, SPECIAL };
static const char *const pattern_names[] = {"normal",   "uniform",  "zeros", "ramp",
                                            "extremes", "denormal", "max",   "special"};

bool fill_named(const char *name, fill *found) {
    for (int p = NORMAL; p <= SPECIAL; p++)
        if (strcmp(name, pattern_names[p]) == 0) {
            *found = (fill){p, NULL};
            return true;
        }
    for (size_t s = 0; s < support_count; s++)
        if (strcmp(name, supports[s].name) == 0) {
            *found = (fill){-1, &supports[s]};
            return true;
        }
    return false;
}

/* Mean 0, variance 1: the sum of four 16-bit uniforms (Irwin-Hall), which needs no libm. */
static double near_normal(uint64_t bits) {
    double sum = (double)((bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48));
    return (sum / 65536.0 - 2.0) * 1.7320508075688772;
}

/* Magnitudes far apart, whose products summed over 60,000 elements are still finite in the type. */
static double far_apart(element e, uint64_t bits) {
    int reach = e == F64 ? 300 : e == F16 ? 3 : 40;
    double magnitude = two_to(bits & 1 ? reach : -reach) * (1.0 + (double)(bits >> 40) * two_to(-24));
    return bits & 2 ? -magnitude : magnitude;
}

static double largest(element e) {
    switch (e) {
    case F16: return 65504;
    case BF16: return two_to(127) * (2 - two_to(-7));
    case F32: return two_to(127) * (2 - two_to(-23));
    default: return two_to(1023) * (2 - two_to(-52));
    }
}

static void fill_floats(int pattern, element e, void *data, size_t count, uint64_t seed) {
    const int fraction_bits = e == F16 ? 10 : e == BF16 ? 7 : e == F32 ? 23 : 52;
    const uint64_t sign = UINT64_C(1) << (8 * element_bytes(e) - 1);
    uint64_t state = seed;
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = pattern == ZEROS || pattern == RAMP || pattern == MAXIMUM ? 0 : next_random(&state);
        switch (pattern) {
        case NORMAL: write_float(e, data, i, near_normal(bits)); break;
        case UNIFORM: write_float(e, data, i, (double)(bits >> 11) * two_to(-52) - 1.0); break;
        case ZEROS: write_float(e, data, i, 0); break;
        case RAMP: write_float(e, data, i, ((double)((i + seed) % 255) - 127.0) / 64.0); break;
        case EXTREMES: write_float(e, data, i, far_apart(e, bits)); break;
        case DENORMAL:
            write_bits(data, i, element_bytes(e),
                       (bits >> 1 & ((UINT64_C(1) << fraction_bits) - 1)) | (bits & 1 ? sign : 0));
            break;
        case MAXIMUM: write_float(e, data, i, largest(e)); break;
        case SPECIAL: {
            double rare[] = {(double)__builtin_nanf(""), (double)__builtin_inff(), -(double)__builtin_inff(),
                             -0.0};
            write_float(e, data, i, (bits & 7) < 4 ? near_normal(bits) : rare[bits & 3]);
            break;
        }
        }
    }
}

static void fill_integers(int pattern, element e, void *data, size_t count, uint64_t seed) {
    const size_t bytes = element_bytes(e);
    const bool is_signed = e <= I64;
    const uint64_t mask = bytes == 8 ? UINT64_MAX : (UINT64_C(1) << 8 * bytes) - 1;
    const uint64_t top = is_signed ? mask >> 1 : mask;
    const uint64_t bottom = is_signed ? top + 1 : 0;
    uint64_t state = seed;
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = pattern == NORMAL || pattern == UNIFORM || pattern == EXTREMES || pattern == SPECIAL
                            ? next_random(&state)
                            : 0;
        uint64_t value = 0;
        switch (pattern) {
        case NORMAL: /* three deviations reach the ends of a byte; wider types keep products in range */
            value = (uint64_t)(int64_t)(near_normal(bits) * 36.0) + (is_signed ? 0 : 127);
            break;
        case UNIFORM: value = bits; break;
        case RAMP: value = i + seed % 251; break;
        case EXTREMES:
        case SPECIAL: value = bits & 1 ? top : bottom; break;
        case DENORMAL: value = 1; break;
        case MAXIMUM: value = top; break;
        default: break;
        }
        write_bits(data, i, bytes, value & mask);
    }
}

void fill_buffer(fill how, element e, void *data, size_t count, uint64_t seed) {
    if (how.support) how.support->fill(data, count, seed);
    else if (element_is_float(e)) fill_floats(how.pattern, e, data, count, seed);
    else fill_integers(how.pattern, e, data, count, seed);
}

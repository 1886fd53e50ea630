/* 16-bit floats as their bits, in plain C; with the machine's own conversion where its header was included. */
#ifndef TB_HALF_H
#define TB_HALF_H
#include <stdint.h>
#include <string.h>

#define TB_HALF_INLINE static inline __attribute__((always_inline, unused))

TB_HALF_INLINE float tb_f32_from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

TB_HALF_INLINE uint32_t tb_bits_from_f32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

TB_HALF_INLINE float tb_f32_from_bf16(uint16_t bits) { return tb_f32_from_bits((uint32_t)bits << 16); }

/* To nearest, ties to even; NaN stays NaN. */
TB_HALF_INLINE uint16_t tb_bf16_from_f32(float value)
{
    const uint32_t bits = tb_bits_from_f32(value);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)((bits >> 16) | 0x40);
    return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

#if defined(__F16C__) && defined(_IMMINTRIN_H_INCLUDED) || defined(__F16C__) && defined(__IMMINTRIN_H)
TB_HALF_INLINE float tb_f32_from_f16(uint16_t bits) { return _cvtsh_ss(bits); }
TB_HALF_INLINE uint16_t tb_f16_from_f32(float value) { return _cvtss_sh(value, 0); }
#elif defined(__aarch64__)
TB_HALF_INLINE float tb_f32_from_f16(uint16_t bits)
{
    __fp16 half;
    memcpy(&half, &bits, sizeof half);
    return (float)half;
}

TB_HALF_INLINE uint16_t tb_f16_from_f32(float value)
{
    const __fp16 half = (__fp16)value;
    uint16_t bits;
    memcpy(&bits, &half, sizeof bits);
    return bits;
}
#else
/* The exponent moves from bias 15 to 127 by a multiplication, which makes denormals right as well. */
TB_HALF_INLINE float tb_f32_from_f16(uint16_t bits)
{
    const uint32_t sign = (uint32_t)(bits & 0x8000) << 16;
    const uint32_t rest = (uint32_t)(bits & 0x7fff) << 13;
    const float magnitude = rest >= 0x7c00u << 13 ? tb_f32_from_bits(rest | 0x7f800000) : tb_f32_from_bits(rest) * 0x1p112f;
    return tb_f32_from_bits(tb_bits_from_f32(magnitude) | sign);
}

/* To nearest, ties to even: the sum with a power of two leaves just the bits that a half has. */
TB_HALF_INLINE uint16_t tb_f16_from_f32(float value)
{
    const uint32_t bits = tb_bits_from_f32(value), sign = (bits >> 16) & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | ((magnitude >> 13) & 0x3ff));
    if (magnitude >= 0x477ff000) /* rounds to 2^16 or more */
        return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x38800000) /* below 2^-14: a denormal half */
        return (uint16_t)(sign | (tb_bits_from_f32(tb_f32_from_bits(magnitude) + 0.5f) - 0x3f000000));
    return (uint16_t)(sign | ((magnitude + 0xfff + ((magnitude >> 13) & 1) - 0x38000000) >> 13));
}
#endif
#endif

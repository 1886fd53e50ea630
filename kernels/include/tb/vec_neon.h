/* Vectors of f32 on AArch64. The names are explained in vec_base.h. */
#ifndef TB_VEC_NEON_H
#define TB_VEC_NEON_H
#define TB_VEC_NEON 1 /* base rows run on AArch64 too: this says that these are not */
#include <arm_neon.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define VF32_LANES 4
#define TB_INLINE static inline __attribute__((always_inline, unused))

typedef float32x4_t vf32;
typedef int32x4_t vi32;

TB_INLINE vf32 vf32_zero(void) { return vdupq_n_f32(0.0f); }
TB_INLINE vf32 vf32_set(float s) { return vdupq_n_f32(s); }
TB_INLINE vf32 vf32_load(const float *p) { return vld1q_f32(p); }

TB_INLINE vf32 vf32_load_n_or(const float *p, size_t n, float rest)
{
    float lanes[4] = {rest, rest, rest, rest};
    memcpy(lanes, p, n * sizeof *p);
    return vld1q_f32(lanes);
}

TB_INLINE vf32 vf32_load_n(const float *p, size_t n) { return vf32_load_n_or(p, n, 0.0f); }
TB_INLINE void vf32_store(float *p, vf32 v) { vst1q_f32(p, v); }

TB_INLINE void vf32_store_n(float *p, vf32 v, size_t n)
{
    float lanes[4];
    vst1q_f32(lanes, v);
    memcpy(p, lanes, n * sizeof *p);
}

TB_INLINE void vf32_stream(float *p, vf32 v) { vst1q_f32(p, v); }
TB_INLINE void vf32_stream_end(void) {}
TB_INLINE void tb_prefetch(const void *p) { __builtin_prefetch(p); }

TB_INLINE vf32 vf32_add(vf32 a, vf32 b) { return vaddq_f32(a, b); }
TB_INLINE vf32 vf32_sub(vf32 a, vf32 b) { return vsubq_f32(a, b); }
TB_INLINE vf32 vf32_mul(vf32 a, vf32 b) { return vmulq_f32(a, b); }
TB_INLINE vf32 vf32_div(vf32 a, vf32 b) { return vdivq_f32(a, b); }
TB_INLINE vf32 vf32_min(vf32 a, vf32 b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
TB_INLINE vf32 vf32_max(vf32 a, vf32 b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
TB_INLINE vf32 vf32_abs(vf32 a) { return vabsq_f32(a); }
TB_INLINE vf32 vf32_fma(vf32 a, vf32 b, vf32 c) { return vfmaq_f32(c, a, b); }
TB_INLINE vf32 vf32_fnma(vf32 a, vf32 b, vf32 c) { return vfmsq_f32(c, a, b); }
TB_INLINE vf32 vf32_reciprocal(vf32 a)
{
    float32x4_t r = vrecpeq_f32(a); /* 8 bits; each step doubles them */
    r = vmulq_f32(r, vrecpsq_f32(a, r));
    return vmulq_f32(r, vrecpsq_f32(a, r));
}

TB_INLINE vf32 vf32_round(vf32 a) { return vrndnq_f32(a); }
TB_INLINE vi32 vf32_to_i32(vf32 a) { return vcvtnq_s32_f32(a); }

TB_INLINE vf32 vf32_ldexp(vf32 a, vf32 n)
{
    const int32x4_t whole = vcvtnq_s32_f32(n), bias = vdupq_n_s32(127);
    const int32x4_t half = vshrq_n_s32(whole, 1), rest = vsubq_s32(whole, half);
    const float32x4_t first = vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(half, bias), 23));
    const float32x4_t second = vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(rest, bias), 23));
    return vmulq_f32(vmulq_f32(a, first), second);
}

TB_INLINE vf32 vf32_shl23(vf32 a) { return vreinterpretq_f32_s32(vshlq_n_s32(vreinterpretq_s32_f32(a), 23)); }

TB_INLINE float vf32_sum(vf32 a) { return vaddvq_f32(a); }
TB_INLINE float vf32_hmax(vf32 a) { return vmaxnmvq_f32(a); }
TB_INLINE void vf32_hmax4(float *out, vf32 a, vf32 b, vf32 c, vf32 d)
{
    vst1q_f32(out, vpmaxq_f32(vpmaxq_f32(a, b), vpmaxq_f32(c, d)));
}

TB_INLINE void vf32_store_i8_32(int8_t *p, const vf32 *v)
{
    for (int i = 0; i < 4; i++, p += 8) {
        const int16x4_t low = vqmovn_s32(vcvtnq_s32_f32(v[2 * i]));
        const int16x4_t high = vqmovn_s32(vcvtnq_s32_f32(v[2 * i + 1]));
        vst1_s8(p, vqmovn_s16(vcombine_s16(low, high)));
    }
}

TB_INLINE vi32 vi32_set(int32_t s) { return vdupq_n_s32(s); }
TB_INLINE vi32 vi32_add(vi32 a, vi32 b) { return vaddq_s32(a, b); }
TB_INLINE vf32 vf32_from_i32(vi32 a) { return vcvtq_f32_s32(a); }
TB_INLINE vf32 vf32_bits(vi32 a) { return vreinterpretq_f32_s32(a); }
TB_INLINE vi32 vi32_bits(vf32 a) { return vreinterpretq_s32_f32(a); }

TB_INLINE int32_t vi32_sum(vi32 a) { return vaddvq_s32(a); }

#ifdef __ARM_FEATURE_DOTPROD
/* sum + the products of a and b, four bytes to a lane. */
TB_INLINE vi32 vi32_sdot(vi32 sum, int8x16_t a, int8x16_t b)
{
#ifdef __clang__
    return vdotq_s32(sum, a, b);
#else /* gcc 12 and its assembler want all of armv8.2-a for this one instruction */
    __asm__(".arch armv8.2-a+dotprod\n\tsdot %0.4s, %1.16b, %2.16b" : "+w"(sum) : "w"(a), "w"(b));
    return sum;
#endif
}
#endif

#include "tb/vec_put.h"
#endif

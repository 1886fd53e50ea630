/* e^x on several vectors of f32 side by side, for whichever vec_*.h was included before.
 *
 * The steps of one vector wait for each other. Each is therefore taken by all vectors before the next one is: vectors
 * one after the other would fill a core's schedulers with steps that wait.
 *
 * x = n ln 2 + r with |r| <= ln 2 / 2, and e^x = 2^n e^r. ln 2 is split in two, so that r is right to the last
 * bit; e^r is 1 + r + r^2 q(r) with a minimax q. Largest relative error over [-87, 88], in units of the last
 * place: 1.5 for degree 5, 0.7 for degree 6. NaN gives NaN. */
#ifndef TB_EXP_H
#define TB_EXP_H

#define TB_LOG2E 1.44269504f
#define TB_LN2_HIGH 0.693359375f /* nine bits: n times this is exact */
#define TB_LN2_LOW -2.12194440e-4f
#define TB_MOST_VECTORS 4
#define TB_EACH(j, count) for (int j = 0; j < (count); j++)

/* c + sign a b, for a sign of 1 or -1. */
TB_INLINE vf32 tb_signed_fma(int sign, vf32 a, vf32 b, vf32 c) { return sign < 0 ? vf32_fnma(a, b, c) : vf32_fma(a, b, c); }

/* One step of Horner's scheme: q becomes q (sign r) + c. */
TB_INLINE void tb_horner(vf32 *q, const vf32 *r, int count, int sign, float c)
{
    TB_EACH(j, count)
        q[j] = tb_signed_fma(sign, q[j], r[j], vf32_set(c));
}

/* x becomes e^(sign x - n ln 2): e^(sign x) without its factor 2^n. */
TB_INLINE void tb_exp_reduced(vf32 *x, const vf32 *n, int count, int sign, int degree)
{
    TB_EACH(j, count)
        x[j] = tb_signed_fma(-sign, n[j], vf32_set(TB_LN2_HIGH), x[j]);
    TB_EACH(j, count)
        x[j] = tb_signed_fma(-sign, n[j], vf32_set(TB_LN2_LOW), x[j]);
    vf32 q[TB_MOST_VECTORS];
    if (degree == 5) {
        TB_EACH(j, count)
            q[j] = tb_signed_fma(sign, vf32_set(0x1.10627cp-7f), x[j], vf32_set(0x1.572a08p-5f));
        tb_horner(q, x, count, sign, 0x1.5557aep-3f);
        tb_horner(q, x, count, sign, 0x1.fffdfcp-2f);
    } else {
        TB_EACH(j, count)
            q[j] = tb_signed_fma(sign, vf32_set(0x1.6a2432p-10f), x[j], vf32_set(0x1.1239e4p-7f));
        tb_horner(q, x, count, sign, 0x1.5558f2p-5f);
        tb_horner(q, x, count, sign, 0x1.555492p-3f);
        tb_horner(q, x, count, sign, 0x1.fffffcp-2f);
    }
    tb_horner(q, x, count, sign, 1.0f);
    tb_horner(q, x, count, sign, 1.0f);
    TB_EACH(j, count)
        x[j] = q[j];
}

/* x becomes e^x for every x: overflow gives infinity, results below 2^-126 are denormal. */
TB_INLINE void vf32_exp_each(vf32 *x, int count, int degree)
{
    vf32 n[TB_MOST_VECTORS];
    TB_EACH(j, count)
        x[j] = vf32_max(vf32_set(-104.0f), vf32_min(vf32_set(89.0f), x[j]));
    TB_EACH(j, count)
        n[j] = vf32_round(vf32_mul(x[j], vf32_set(TB_LOG2E)));
    tb_exp_reduced(x, n, count, 1, degree);
    TB_EACH(j, count)
        x[j] = vf32_ldexp(x[j], n[j]);
}

/* For x in [-88, 88], x becomes m and `power` is such that tb_times(m, power) is e^(sign x); it may be 0 for results
 * below 2^-126, and 2^127 for those above: what sums and ratios need.
 *
 * Adding 1.5 * 2^23 + 127 to x log2 e leaves n + 127 in the lowest bits, rounded to nearest: shifted into the
 * exponent they are 2^n at once, and 0 for n = -127. */
TB_INLINE void vf32_exp_parts(vf32 *x, vf32 *power, int count, int sign, int degree)
{
    vf32 n[TB_MOST_VECTORS];
#ifdef VF32_LDEXP_IS_ONE_INSTRUCTION
    TB_EACH(j, count)
        power[j] = n[j] = vf32_round(vf32_mul(x[j], vf32_set((float)sign * TB_LOG2E)));
#else
    const vf32 biased = vf32_set(12582912.0f + 127.0f);
    TB_EACH(j, count)
        power[j] = tb_signed_fma(sign, x[j], vf32_set(TB_LOG2E), biased);
    TB_EACH(j, count)
        n[j] = vf32_sub(power[j], biased);
    TB_EACH(j, count)
        power[j] = vf32_shl23(power[j]);
#endif
    tb_exp_reduced(x, n, count, sign, degree);
}

/* m times a power of vf32_exp_parts; the same plus c. */
#ifdef VF32_LDEXP_IS_ONE_INSTRUCTION
TB_INLINE vf32 tb_times(vf32 m, vf32 power) { return vf32_ldexp(m, power); }
TB_INLINE vf32 tb_times_plus(vf32 m, vf32 power, vf32 c) { return vf32_add(vf32_ldexp(m, power), c); }
#else
TB_INLINE vf32 tb_times(vf32 m, vf32 power) { return vf32_mul(m, power); }
TB_INLINE vf32 tb_times_plus(vf32 m, vf32 power, vf32 c) { return vf32_fma(m, power, c); }
#endif

/* x becomes e^x, for x <= 0; results below 2^-126 may be 0. */
TB_INLINE void vf32_exp_below_one_each(vf32 *x, int count, int degree)
{
    vf32 power[TB_MOST_VECTORS];
    TB_EACH(j, count)
        x[j] = vf32_max(vf32_set(-88.0f), x[j]);
    vf32_exp_parts(x, power, count, 1, degree);
    TB_EACH(j, count)
        x[j] = tb_times(x[j], power[j]);
}
#endif

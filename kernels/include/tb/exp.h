/* e^x on a vector of f32, for whichever vec_*.h was included before.
 *
 * x = n ln 2 + r with |r| <= ln 2 / 2, and e^x = 2^n e^r. ln 2 is split in two, so that r is right to the last
 * bit; e^r is 1 + r + r^2 q(r) with a minimax q. Largest relative error over [-87, 88], in units of the last
 * place: 1.5 for degree 5, 0.7 for degree 6. NaN gives NaN. */
#ifndef TB_EXP_H
#define TB_EXP_H

#define TB_LOG2E 1.44269504f
#define TB_LN2_HIGH 0.693359375f /* nine bits: n times this is exact */
#define TB_LN2_LOW -2.12194440e-4f

/* e^(x - n ln 2), without the factor 2^n. */
TB_INLINE vf32 tb_exp_reduced(vf32 x, vf32 n, int degree)
{
    const vf32 r = vf32_fnma(n, vf32_set(TB_LN2_LOW), vf32_fnma(n, vf32_set(TB_LN2_HIGH), x));
    vf32 q;
    if (degree == 5) {
        q = vf32_fma(vf32_set(0x1.10627cp-7f), r, vf32_set(0x1.572a08p-5f));
        q = vf32_fma(q, r, vf32_set(0x1.5557aep-3f));
        q = vf32_fma(q, r, vf32_set(0x1.fffdfcp-2f));
    } else {
        q = vf32_fma(vf32_set(0x1.6a2432p-10f), r, vf32_set(0x1.1239e4p-7f));
        q = vf32_fma(q, r, vf32_set(0x1.5558f2p-5f));
        q = vf32_fma(q, r, vf32_set(0x1.555492p-3f));
        q = vf32_fma(q, r, vf32_set(0x1.fffffcp-2f));
    }
    q = vf32_fma(q, r, vf32_set(1.0f));
    return vf32_fma(q, r, vf32_set(1.0f));
}

/* e^x for every x: overflow gives infinity, results below 2^-126 are denormal. */
TB_INLINE vf32 vf32_exp(vf32 x, int degree)
{
    x = vf32_max(vf32_set(-104.0f), vf32_min(vf32_set(89.0f), x));
    const vf32 n = vf32_round(vf32_mul(x, vf32_set(TB_LOG2E)));
    return vf32_ldexp(tb_exp_reduced(x, n, degree), n);
}

/* e^x where results below 2^-126 may be 0 and those above 2^127 may stay there: what sums and ratios need.
 *
 * Adding 1.5 * 2^23 + 127 to x log2 e leaves n + 127 in the lowest bits, rounded to nearest: shifted into the
 * exponent they are 2^n at once, and 0 for n = -127. */
TB_INLINE vf32 vf32_exp_normal(vf32 x, int degree)
{
    x = vf32_max(vf32_set(-88.0f), vf32_min(vf32_set(88.0f), x));
#ifdef VF32_LDEXP_IS_ONE_INSTRUCTION
    const vf32 n = vf32_round(vf32_mul(x, vf32_set(TB_LOG2E)));
    return vf32_ldexp(tb_exp_reduced(x, n, degree), n);
#else
    const vf32 biased = vf32_set(12582912.0f + 127.0f);
    const vf32 shifted = vf32_fma(x, vf32_set(TB_LOG2E), biased);
    const vf32 n = vf32_sub(shifted, biased);
    return vf32_mul(tb_exp_reduced(x, n, degree), vf32_shl23(shifted));
#endif
}
#endif

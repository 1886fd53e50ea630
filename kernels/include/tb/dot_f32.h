/* The steps of a dot product of f32, for whichever vec_*.h was included before. */
#ifndef TB_DOT_F32_H
#define TB_DOT_F32_H
#define DOT_STEP VF32_LANES
#define dot_zero vf32_zero
#define dot_add vf32_add
#define dot_sum vf32_sum
typedef vf32 dot_acc;

TB_INLINE dot_acc dot_step(dot_acc sum, const float *a, const float *b)
{
    return vf32_fma(vf32_load(a), vf32_load(b), sum);
}

TB_INLINE dot_acc dot_rest(dot_acc sum, const float *a, const float *b, size_t n)
{
    return vf32_fma(vf32_load_n(a, n), vf32_load_n(b, n), sum);
}
#endif

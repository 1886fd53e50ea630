/* Stores at the right edge of a matrix, for every instruction set; included by the vec_*.h. */
#ifndef TB_VEC_PUT_H
#define TB_VEC_PUT_H

/* A row of results has `cols` columns left; v holds those from `first` on. Store what exists of them. */
TB_INLINE void vf32_put(float *p, vf32 v, size_t cols, size_t first)
{
    if (cols >= first + VF32_LANES)
        vf32_store(p, v);
    else if (cols > first)
        vf32_store_n(p, v, cols - first);
}

/* Integers: stored as they are, since gcc would make them floats within the loop that sums them. */
TB_INLINE void vi32_put(int32_t *p, vi32 v, size_t cols, size_t first)
{
    if (cols >= first + VF32_LANES)
        memcpy(p, &v, sizeof v);
    else if (cols > first)
        vf32_store_n((float *)(void *)p, vf32_bits(v), cols - first);
}

/* The same, on top of what p holds if `more`. */
TB_INLINE void vf32_put_more(float *p, vf32 v, size_t cols, size_t first, int more)
{
    if (more && cols >= first + VF32_LANES)
        v = vf32_add(v, vf32_load(p));
    else if (more && cols > first)
        v = vf32_add(v, vf32_load_n(p, cols - first));
    vf32_put(p, v, cols, first);
}
/* Integer sums of which `more` says that p holds an earlier part, as integers, and `last` that they are whole:
 * only then they are stored as f32. */
TB_INLINE void vi32_put_part(float *p, vi32 v, size_t cols, size_t first, int more, int last)
{
    if (more && cols >= first + VF32_LANES)
        v = vi32_add(v, vi32_bits(vf32_load(p)));
    else if (more && cols > first)
        v = vi32_add(v, vi32_bits(vf32_load_n(p, cols - first)));
    vf32_put(p, last ? vf32_from_i32(v) : vf32_bits(v), cols, first);
}
#endif

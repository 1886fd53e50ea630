/* Products of i8 on AArch64 with the matrix instructions; included after vec_neon.h.
 *
 * Packed weights hold, for TB_GROUP successive k, the values of one row side by side, row after row: a vector of
 * weights is two rows of one group. It meets two columns of x at once, for a sum of four lanes:
 *     row 0 column 0, row 0 column 1, row 1 column 0, row 1 column 1. */
#ifndef TB_TILE_I8MM_H
#define TB_TILE_I8MM_H

#define TB_GROUP 8
typedef int8_t tb_staged;
typedef int8x16_t tb_weights, tb_column, tb_columns;

/* Signed times signed: x is staged as it is, and sums start from 0. */
TB_INLINE int32_t tb_stage(tb_staged *staged, const int8_t *x, size_t k)
{
    memcpy(staged, x, k);
    return 0;
}

TB_INLINE tb_weights tb_load_weights(const int8_t *w) { return vld1q_s8(w); }

TB_INLINE tb_columns tb_two_columns(const tb_staged *x0, const tb_staged *x1)
{
    return vcombine_s8(vld1_s8(x0), vld1_s8(x1));
}

TB_INLINE vi32 tb_multiply(vi32 sum, tb_weights w, tb_columns x) { return vmmlaq_s32(sum, w, x); }

/* Of the sums of four successive rows, those of the first or of the second column. */
TB_INLINE vi32 tb_first_column(vi32 rows01, vi32 rows23) { return vuzp1q_s32(rows01, rows23); }
TB_INLINE vi32 tb_second_column(vi32 rows01, vi32 rows23) { return vuzp2q_s32(rows01, rows23); }

/* One column alone, twice in a vector: the sum of each row lies in two lanes, added up for four rows at the end. */
TB_INLINE tb_column tb_splat(const tb_staged *group) { return tb_two_columns(group, group); }
TB_INLINE vi32 tb_dot(vi32 sum, tb_weights w, tb_column x) { return vdotq_s32(sum, w, x); }
TB_INLINE vi32 tb_add_halves(vi32 rows01, vi32 rows23) { return vpaddq_s32(rows01, rows23); }
#endif

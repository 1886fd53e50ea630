/* The loop hints: TB_LOOP or TB_LOOP_REDUCE(op, variable) stands before a `for` in a loop-hint source.
 *
 * A row sets TB_VEC (lanes, 0: no say) and TB_UNROLL (copies of the body, 0 or 1: no say) before this file is
 * included; the reference body sets neither, and the markers vanish. gcc refuses `GCC unroll` and `omp simd`
 * on one loop, so a gcc row with both takes its unrolling from the compile line. */
#undef TB_LOOP
#undef TB_LOOP_REDUCE
#ifndef TB_PRAGMA
#define TB_PRAGMA_TEXT(text) _Pragma(#text)
#define TB_PRAGMA(text) TB_PRAGMA_TEXT(text)
#endif
#ifndef TB_VEC
#define TB_VEC 0
#endif
#ifndef TB_UNROLL
#define TB_UNROLL 0
#endif

#if TB_VEC > 0
#if defined(__clang__) && TB_UNROLL > 1
#define TB_LOOP TB_PRAGMA(clang loop vectorize_width(TB_VEC) interleave_count(TB_UNROLL))
#else
#define TB_LOOP TB_PRAGMA(omp simd simdlen(TB_VEC))
#endif
#define TB_LOOP_REDUCE(op, variable) TB_PRAGMA(omp simd simdlen(TB_VEC) reduction(op : variable))
#elif TB_UNROLL > 1
#if defined(__clang__)
#define TB_LOOP TB_PRAGMA(clang loop unroll_count(TB_UNROLL))
#else
#define TB_LOOP TB_PRAGMA(GCC unroll TB_UNROLL)
#endif
#define TB_LOOP_REDUCE(op, variable) TB_LOOP
#else
#define TB_LOOP
#define TB_LOOP_REDUCE(op, variable)
#endif

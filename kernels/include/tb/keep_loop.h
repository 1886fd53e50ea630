/* TB_KEEP_LOOP before a loop: it stays one, however short. Written out, gcc loads ahead or adds in another order until
 * the registers do not suffice. */
#ifndef TB_KEEP_LOOP
#ifdef __clang__
#define TB_KEEP_LOOP _Pragma("clang loop unroll(disable)")
#else
#define TB_KEEP_LOOP _Pragma("GCC unroll 1")
#endif
#endif

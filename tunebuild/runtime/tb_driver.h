/* What a tune binary tells the worker: one driver for each function that is gated or raced.
 *
 * The generator writes the drivers (generated/tune/); runtime/worker.c reads them with dlsym("tb_drivers").
 * A driver knows the C prototype; the worker knows buffers and scalars by index only. */
#ifndef TB_DRIVER_H
#define TB_DRIVER_H
#include <stddef.h>
#include <stdint.h>
#include "tunebuild.h"

#define TB_DRIVER_VERSION 1

typedef union tb_scalar { int64_t i; double f; } tb_scalar;

typedef struct tb_driver {
    const char *name;               /* the function: a family, or a companion with args of its own */
    const char *result;             /* element type of the return value, "" for void */
    size_t buffer_count;            /* arguments that are not scalars, in the order of `args` */
    const char *const *buffers;     /* their names */
    size_t scalar_count;            /* scalars: the prototype's in its order, then the workloads' others */
    const char *const *scalars;
    size_t row_count;
    const tb_variant *rows;         /* "reference" first, then grid order */
    /* One call. `result` has room for 8 bytes. */
    void (*call)(tb_fn fn, void *const *buffers, const tb_scalar *scalars, void *result);
    /* `reps` calls back to back; call r uses the buffers at `buffers + (r % copies) * buffer_count`. */
    void (*loop)(tb_fn fn, void *const *buffers, size_t copies, const tb_scalar *scalars, uint64_t reps);
    /* The `prepare` calls of row `row` (an index of `rows`), untimed; NULL when there are none. */
    void (*prepare)(size_t row, void *const *buffers, const tb_scalar *scalars);
    tb_fn oracle;                   /* the second opinion, or NULL */
} tb_driver;

/* A support function that fills a buffer: `count` elements, a pure function of the seed. */
typedef struct tb_support {
    const char *name;
    void (*fill)(void *data, size_t count, uint64_t seed);
} tb_support;

TB_EXPORT const tb_driver *tb_drivers(size_t *count);
TB_EXPORT const tb_support *tb_supports(size_t *count);
#endif

/* The C interface of an artifact that tunebuild stamped. Every generated header includes it. */
#ifndef TUNEBUILD_H
#define TUNEBUILD_H
#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define TB_EXPORT __declspec(dllexport)
#else
#define TB_EXPORT __attribute__((visibility("default")))
#endif

typedef void (*tb_fn)(void);

/* One row of a registry: cast `fn` to the function's own prototype before the call. */
typedef struct tb_variant {
    const char *suffix;
    tb_fn fn;
} tb_variant;

/* What one seat runs and on whose word. `suffix` is "" for the reference body; `source` is one of
 * manifest, profile, fallback, reference; `path` is the file it came from, "" for the chain. */
typedef struct tb_tune_row {
    const char *family;
    const char *scope;
    const char *suffix;
    const char *source;
    const char *path;
} tb_tune_row;
#endif

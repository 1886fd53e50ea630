/* What an artifact knows of itself: baked when it was stamped, read by tb_status.h and tb_guard.h.
 *
 * The generator writes one `tb_artifact` an app. It holds no absolute path: the project is found from the
 * executable's own folder, so equal stamps give equal bytes in every checkout. */
#ifndef TB_ARTIFACT_H
#define TB_ARTIFACT_H
#include "tunebuild.h"

typedef enum tb_kind {
    TB_BUILT,    /* built here: the rail is live */
    TB_RELEASED, /* shipped: stamps, status and feature check, no rail */
    TB_FROZEN    /* made for other boxes: reference bodies, reads nothing, says nothing */
} tb_kind;

/* One CPU feature. x86: a bit of cpuid, and the XCR0 bits that say the system saves its registers.
 * aarch64: `leaf` is the auxiliary vector's word (AT_HWCAP, AT_HWCAP2) and `mask` its bits. */
typedef struct tb_feature {
    const char *name;
    uint32_t leaf, subleaf;
    enum { TB_EAX, TB_EBX, TB_ECX, TB_EDX } reg;
    uint32_t bit;
    uint64_t mask;
} tb_feature;

/* The stamps need one of these; `words` is how a person writes it: "avx512f" or "avxvnni|avx512vnni". */
typedef struct tb_need {
    const char *words;
    const tb_feature *any;
    size_t count;
} tb_need;

/* One scope as judged when the artifact was stamped. */
typedef struct tb_tune_scope {
    const char *scope;
    const char *reason;  /* "none": complete; else absent, stale_binary, foreign_box, ... */
    const char *detail;
    const char *covered; /* what to say when a class profile answers for it; "" when none does */
    int answerable;         /* a profile or a resolver may still answer, without any mint */
} tb_tune_scope;

typedef struct tb_artifact {
    const char *app;
    tb_kind kind;
    const char *policy;         /* without the environment's say */
    const char *box;            /* whose stamps these are: the match key of an identity */
    const char *project;        /* the folder of tune.toml, from the executable's folder */
    const char *sidecar;        /* from the project's folder */
    const char *sidecar_digest; /* of its bytes when stamped, see tb_digest.h; "" there was none */
    const tb_tune_row *rows;
    size_t row_count;
    const tb_tune_scope *scopes;
    size_t scope_count;
    const char *const *advice;  /* for each scope: what a person does about it while it is untuned */
    const char *hint;           /* how to tune what this artifact runs untuned; "" where nothing could */
    const tb_need *needs;
    size_t need_count;
} tb_artifact;
#endif

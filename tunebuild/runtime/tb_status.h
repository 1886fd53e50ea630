/* The status of one artifact, as its log function prints it. */
#ifndef TB_STATUS_H
#define TB_STATUS_H
#include <stdio.h>
#include <string.h>
#include "tb_artifact.h"

/* A row counts as tuned on this box's own measurement, or on its class's. */
static int tb_is_tuned(const tb_tune_row *row)
{
    return strcmp(row->source, "manifest") == 0 || strcmp(row->source, "profile") == 0;
}

static void tb_log_status(const tb_artifact *artifact, FILE *to, const char *app)
{
    size_t tuned = 0;
    if (!artifact->row_count) return;
    for (size_t i = 0; i < artifact->row_count; i++) tuned += (size_t)tb_is_tuned(&artifact->rows[i]);
    fprintf(to, "%s: tune status (%zu/%zu kernels tuned for this box):\n", app, tuned, artifact->row_count);
    for (size_t i = 0; i < artifact->row_count; i++) {
        const tb_tune_row *row = &artifact->rows[i];
        fprintf(to, "  %s: %s (%s)\n", row->family, *row->suffix ? row->suffix : "reference", row->source);
    }
    if (tuned < artifact->row_count && *artifact->hint) fprintf(to, "  to tune the rest: %s\n", artifact->hint);
}
#endif

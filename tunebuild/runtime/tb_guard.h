/* The guard: what an executable does before its own `main`. On Linux it has a rail, tb_rail.h; on other systems, and
 * with TB_NO_RAIL defined, the rail is compiled out and an untuned program says so. Everywhere it judges whether the
 * CPU has what the stamped rows need. */
#ifndef TB_GUARD_H
#define TB_GUARD_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tb_features.h"

enum { TB_GO_ON = 0, TB_USAGE = 2, TB_STOP = 3 };

static const char *tb_variable(const char *name)
{
    const char *value = getenv(name);
    return value ? value : "";
}

static int tb_is(const char *text, const char *word) { return strcmp(text, word) == 0; }

/* Does this program act with rights that whoever started it lacks (set-user-ID, set-group-ID, capabilities)? Then the
 * environment, and the tool that it leads to, are a stranger's word. */
#if defined(__linux__)
#include <sys/auxv.h>
static int tb_is_privileged(void) { return getauxval(AT_SECURE) != 0; }
#else
static int tb_is_privileged(void) { return 0; }
#endif

#if defined(__linux__) && !defined(TB_NO_RAIL)
#include "tb_rail.h"
#else
static int tb_act(const tb_artifact *artifact, const tb_need *unmet, const char *suppressed, int argc, char **argv)
{
    int open = 0;
    (void)unmet, (void)suppressed, (void)argc, (void)argv;
    for (size_t i = 0; i < artifact->scope_count; i++)
        open |= !tb_is(artifact->scopes[i].reason, "none") && !*artifact->scopes[i].covered;
    if (open && artifact->kind == TB_BUILT && !tb_is(tb_variable("TUNEBUILD_VERBOSITY"), "silent"))
        fprintf(stderr, "tunebuild: %s is untuned and was built without a rail: tune it with `tunebuild run %s`\n",
                artifact->app, artifact->app);
    return TB_GO_ON;
}
#endif

/* A measurement's arm proves what it ran: a row a seat, for whoever named the file. */
static void tb_prove(const tb_artifact *artifact)
{
    const char *path = tb_variable("TUNEBUILD_STAMPS");
    FILE *file = *path ? fopen(path, "a") : NULL;
    if (!file) return;
    for (size_t i = 0; i < artifact->row_count; i++) {
        const tb_tune_row *row = &artifact->rows[i];
        fprintf(file, "%s\t%s\t%s\t%s\n", artifact->app, row->family, row->suffix, row->source);
    }
    fclose(file);
}

/* 0, or the exit code with which the program must stop. */
static int tb_guard(const tb_artifact *artifact, const char *suppressed, int argc, char **argv)
{
    const tb_need *unmet;
    int result = TB_GO_ON;
    if (artifact->kind == TB_FROZEN) return TB_GO_ON;
    unmet = tb_unmet(artifact);
    if (!tb_is_privileged()) { /* else no variable is read, no file written, no tool called */
        tb_prove(artifact);
        result = tb_act(artifact, unmet, suppressed, argc, argv);
    }
    if (result != TB_GO_ON || !unmet) return result;
    fprintf(stderr, "%s: its rows need %s, which this CPU lacks; build it on this machine\n", artifact->app,
            unmet->words);
    return TB_STOP;
}
#endif

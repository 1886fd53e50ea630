/* The rail of an executable that was built here. It judges what was baked, the box and the sidecar's digest, which
 * takes well under a millisecond; where tuning is due it calls the tool, and then runs the rebuilt executable in its
 * own place, with the same arguments, environment and descriptors. All that needs JSON, a race or a compiler is the
 * tool's business. Linux; tb_guard.h includes it. */
#ifndef TB_RAIL_H
#define TB_RAIL_H
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "tb_box.h"
#include "tb_digest.h"

/* Supervisors look for this line together with exit code 3. */
#define TB_RESTART_MARKER "tunebuild: restart to apply the winners"

enum { TB_MAX_WORDS = 16, TB_NO_TOOL = -1, TB_CALL_TOOL = -1, TB_REFUSAL_HOLDS_S = 600 };

extern char **environ;

typedef struct tb_start {
    const tb_artifact *artifact;
    const char *policy;
    const char *suppressed; /* the knob that forbids minting, or "" */
    const char *only;       /* the tokens of every --tune-only, or "" */
    char *only_word;        /* ... in memory of their own, after the name of the flag */
    int is_silent;
    int forced;             /* --tune */
    int acts;               /* the policy, or --tune, tunes what is untuned */
    int separator;          /* the index of `--` in argv, argc without one */
    long depth;             /* relaunches of this very app so far; above 0 another door has spoken */
    int is_foreign;         /* stamped for another box, or for features that this CPU lacks */
    int is_changed;         /* the sidecar is not the one that was stamped */
    int is_gone;            /* ... it was, and there is none now */
    char why_foreign[512];
    char refusal[512];      /* what became of the last mint, "" where another may be tried */
    char until[8];          /* ... the time of day until which none is */
    char executable[PATH_MAX];
    char project[PATH_MAX]; /* "" when tune.toml is not where it was */
} tb_start;

__attribute__((format(printf, 2, 3))) static void tb_say(const tb_start *start, const char *format, ...)
{
    va_list arguments;
    if (start->is_silent) return;
    va_start(arguments, format);
    fputs("tunebuild: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
}

/* --- what is asked: flags after `--`, and the environment --- */

#define TB_ONLY "--tune-only"

/* Filters add up, as those of the command do. */
static void tb_add_only(tb_start *start, const char *tokens)
{
    static const char flag[] = TB_ONLY "=";
    size_t had = start->only_word ? strlen(start->only_word) : 0;
    char *longer = *tokens ? realloc(start->only_word, sizeof flag + had + 1 + strlen(tokens)) : NULL;
    if (!longer) return;
    sprintf(longer + had, "%s%s", had ? "," : flag, tokens);
    start->only_word = longer;
    start->only = longer + sizeof flag - 1;
}

static void tb_read_flags(tb_start *start, int argc, char **argv)
{
    const char *verbosity = "";
    for (start->separator = 1; start->separator < argc; start->separator++)
        if (tb_is(argv[start->separator], "--")) break;
    for (int i = start->separator + 1; i < argc; i++) {
        if (tb_is(argv[i], "--tune")) start->forced = 1;
        else if (strncmp(argv[i], TB_ONLY "=", sizeof TB_ONLY) == 0) tb_add_only(start, argv[i] + sizeof TB_ONLY);
        else if (tb_is(argv[i], TB_ONLY) && i + 1 < argc) tb_add_only(start, argv[++i]);
        else if (tb_is(argv[i], "--tune-quiet")) verbosity = "silent";
        else if (tb_is(argv[i], "--tune-verbose") && !*verbosity) verbosity = "verbose";
    }
    if (*start->only) start->forced = 1;
    if (*verbosity) setenv("TUNEBUILD_VERBOSITY", verbosity, 1);
    verbosity = tb_variable("TUNEBUILD_VERBOSITY");
    start->is_silent = tb_is(verbosity, "silent");
}

/* TUNEBUILD_RELAUNCH is `app:depth`. Ours is taken out again: what this program starts begins at 0. */
static long tb_take_depth(const char *app)
{
    const char *text = tb_variable("TUNEBUILD_RELAUNCH"), *colon = strrchr(text, ':');
    char *end;
    long depth;
    if (!*text) return 0;
    if (colon && (strlen(app) != (size_t)(colon - text) || strncmp(text, app, strlen(app)) != 0)) return 0;
    depth = strtol(colon ? colon + 1 : text, &end, 10);
    depth = *end || depth < 0 ? 0 : depth;
    unsetenv("TUNEBUILD_RELAUNCH");
    return depth;
}

static int tb_read_policy(tb_start *start)
{
    static const char *const flavours[] = {"fallback", "reference", "warn", "error", "auto", "restart"};
    const char *asked = tb_variable("TUNEBUILD_POLICY");
    start->policy = start->artifact->policy;
    if (!*asked) return TB_GO_ON;
    for (size_t i = 0; i < sizeof flavours / sizeof *flavours; i++) {
        if (!tb_is(asked, flavours[i])) continue;
        start->policy = flavours[i];
        if (start->depth == 0)
            tb_say(start, "policy %s from TUNEBUILD_POLICY (%s would have %s)", asked, start->artifact->app,
                   start->artifact->policy);
        return TB_GO_ON;
    }
    fprintf(stderr, "TUNEBUILD_POLICY: '%s' is no policy\n", asked);
    fputs("  set one of fallback, reference, warn, error, auto, restart\n", stderr);
    return TB_USAGE;
}

/* --- what is true --- */

/* Saved before any rebuild: afterwards the link names a file that is gone. */
static void tb_find_executable(tb_start *start)
{
    static const char gone[] = " (deleted)";
    ssize_t length = readlink("/proc/self/exe", start->executable, sizeof start->executable - 1);
    start->executable[length > 0 ? length : 0] = '\0';
    if (length > (ssize_t)sizeof gone && tb_is(start->executable + length - (sizeof gone - 1), gone))
        start->executable[length - (ssize_t)(sizeof gone - 1)] = '\0';
}

static void tb_find_project(tb_start *start)
{
    const char *slash = strrchr(start->executable, '/');
    char path[2 * PATH_MAX];
    if (!slash) return;
    snprintf(path, sizeof path, "%.*s/%s", (int)(slash - start->executable), start->executable,
             start->artifact->project);
    if (!realpath(path, start->project)) {
        start->project[0] = '\0';
        return;
    }
    snprintf(path, sizeof path, "%s/tune.toml", start->project);
    if (access(path, R_OK) != 0) start->project[0] = '\0';
}

static void tb_judge_box(tb_start *start, const tb_need *unmet)
{
    char box[512];
    start->is_foreign = !tb_is_box(start->artifact->box, box, sizeof box) || unmet;
    if (unmet)
        snprintf(start->why_foreign, sizeof start->why_foreign, "stamped for %s, which this CPU lacks",
                 unmet->words);
    else if (start->is_foreign)
        snprintf(start->why_foreign, sizeof start->why_foreign, "stamped on %.200s, this is %.200s",
                 start->artifact->box, box);
}

static void tb_judge_sidecar(tb_start *start)
{
    const char *stamped = start->artifact->sidecar_digest;
    char path[2 * PATH_MAX], digest[TB_DIGEST_TEXT];
    if (!*start->project) return;
    snprintf(path, sizeof path, "%s/%s", start->project, start->artifact->sidecar);
    start->is_gone = *stamped && access(path, R_OK) != 0;
    if (!start->acts) return; /* who stamps nothing anew need not know what is in it */
    tb_file_digest(path, digest);
    start->is_changed = !tb_is(digest, stamped);
}

/* Why a scope is untuned here, or NULL; `detail` is set to the rest of the sentence. */
static const char *tb_untuned(const tb_start *start, const tb_tune_scope *scope, const char **detail)
{
    *detail = start->why_foreign;
    if (start->is_foreign) return "foreign_box";
    *detail = start->artifact->sidecar;
    if (start->is_gone && tb_is(scope->reason, "none")) return "absent";
    *detail = scope->detail;
    return tb_is(scope->reason, "none") || *scope->covered ? NULL : scope->reason;
}

/* How many scopes are untuned; each is said, with what to do and `after`, unless `before` is NULL. */
static size_t tb_say_untuned(const tb_start *start, const char *before, const char *after)
{
    size_t count = 0;
    for (size_t i = 0; i < start->artifact->scope_count; i++) {
        const tb_tune_scope *scope = &start->artifact->scopes[i];
        const char *detail, *reason = tb_untuned(start, scope, &detail);
        if (!reason) continue;
        count++;
        if (before)
            tb_say(start, "%sscope %s is untuned for this box: %s (%s); %s%s", before, scope->scope, reason, detail,
                   start->artifact->advice[i], after);
    }
    return count;
}

static size_t tb_count_untuned(const tb_start *start) { return tb_say_untuned(start, NULL, ""); }

static int tb_is_suppressed(const tb_start *start) { return *start->suppressed && !start->forced; }

/* May the tool find winners without a mint: in a changed sidecar, a profile, from a resolver? */
static int tb_is_answerable(const tb_start *start)
{
    const char *detail;
    if (start->is_foreign || start->is_changed) return 1;
    for (size_t i = 0; i < start->artifact->scope_count; i++) {
        const tb_tune_scope *scope = &start->artifact->scopes[i];
        if (scope->answerable && tb_untuned(start, scope, &detail)) return 1;
    }
    return 0;
}

static int tb_is_stamped(const tb_artifact *artifact)
{
    for (size_t i = 0; i < artifact->row_count; i++)
        if (*artifact->rows[i].suffix) return 1;
    return 0;
}

static void tb_say_covered(const tb_start *start)
{
    for (size_t i = 0; i < start->artifact->scope_count && !start->is_foreign; i++)
        if (*start->artifact->scopes[i].covered) tb_say(start, "%s", start->artifact->scopes[i].covered);
}

static void tb_say_suppressed(const tb_start *start)
{
    const char *detail;
    for (size_t i = 0; i < start->artifact->scope_count; i++)
        if (tb_untuned(start, &start->artifact->scopes[i], &detail))
            tb_say(start, "scope %s stays untuned: no minting, by %s", start->artifact->scopes[i].scope,
                   start->suppressed);
}

/* A mint that was refused or failed a while ago, noted by tunebuild/refusals.py: until when it holds, and why. */
static void tb_read_refusal(tb_start *start)
{
    static const char refused[] = "was refused";
    char path[2 * PATH_MAX], until[32] = "";
    double left_s = 0;
    struct tm day;
    time_t then = 0;
    FILE *file;
    if (start->forced) return;
    snprintf(path, sizeof path, "%s/build/refused.%s", start->project, start->artifact->app);
    file = fopen(path, "re");
    if (!file) return;
    if (fgets(until, sizeof until, file) && fgets(start->refusal, sizeof start->refusal, file)) {
        then = (time_t)strtoll(until, NULL, 10);
        left_s = difftime(then, time(NULL));
    }
    fclose(file);
    start->refusal[strcspn(start->refusal, "\n")] = '\0';
    if (left_s <= 0 || left_s > TB_REFUSAL_HOLDS_S) start->refusal[0] = '\0'; /* over, or the clock was set back */
    else strftime(start->until, sizeof start->until, "%H:%M", localtime_r(&then, &day));
    if (tb_is(tb_variable("TUNEBUILD_NOISE_OVERRIDE"), "1") && strncmp(start->refusal, refused, sizeof refused - 1) == 0)
        start->refusal[0] = '\0'; /* who overrides the noise has no quiet to wait for */
}

static int tb_is_restart(const tb_start *start) { return tb_is(start->policy, "restart") && !start->forced; }

/* The stamps were made from another sidecar than the one now asked for, which only a build can read. */
static void tb_say_explicit(const tb_start *start, const char *path)
{
    const tb_artifact *artifact = start->artifact;
    char digest[TB_DIGEST_TEXT];
    tb_file_digest(path, digest);
    for (size_t i = 0; i < artifact->scope_count; i++) {
        const tb_tune_scope *scope = &artifact->scopes[i];
        const char *reason = scope->reason, *detail = scope->detail;
        if (!*digest) {
            reason = "absent";
            detail = path;
        } else if (!tb_is(digest, artifact->sidecar_digest)) {
            reason = "missing";
            detail = "this executable was stamped from another file; build again under this one";
        }
        if (!tb_is(reason, "none"))
            tb_say(start, "WARNING: TUNEBUILD_MANIFEST=%s: scope %s is untuned for this box: %s (%s); "
                   "its stamps fall back; unset it, or mint under it", path, scope->scope, reason, detail);
    }
}

/* --- what is done --- */

/* The tool's command: one word a line in the build folder, else `tunebuild` from PATH. */
static size_t tb_tool_words(const tb_start *start, char *text, size_t size, const char **words, size_t room)
{
    char path[2 * PATH_MAX];
    size_t count = 0, length = 0;
    FILE *file;
    snprintf(path, sizeof path, "%s/build/tool", start->project);
    file = fopen(path, "re");
    if (file) {
        length = fread(text, 1, size - 1, file);
        fclose(file);
    }
    text[length] = '\0';
    for (char *word = strtok(text, "\n"); word && count < room; word = strtok(NULL, "\n"))
        words[count++] = word;
    if (count && access(words[0], X_OK) == 0) return count;
    words[0] = "tunebuild";
    return 1;
}

static const int tb_ending[] = {SIGINT, SIGTERM, SIGHUP};
enum { TB_ENDING = sizeof tb_ending / sizeof *tb_ending };
static volatile sig_atomic_t tb_ended_by; /* the signal that came while the tool ran, or 0 */
static volatile pid_t tb_tool;

/* Whoever ends the program ends the tool. A terminal tells both, and the tool ends in order on whichever comes first. */
static void tb_pass_on(int number)
{
    tb_ended_by = number;
    if (tb_tool > 0) kill(tb_tool, SIGTERM);
}

/* Wait for the tool, whatever the program does with its children and with signals. Its wait status, -1 without one. */
static int tb_wait(void)
{
    int status;
    while (waitpid(tb_tool, &status, 0) < 0)
        if (errno != EINTR) return -1;
    return status;
}

/* Let the tool adopt, resolve, race and rebuild. Its exit code, or TB_NO_TOOL. What it says goes to standard
 * error: standard output belongs to the program, and standard input too. */
static int tb_call_tool(const tb_start *start)
{
    char text[PATH_MAX], knob[512], prepare[32];
    const char *words[TB_MAX_WORDS + 12];
    size_t count = tb_tool_words(start, text, sizeof text, words, TB_MAX_WORDS);
    posix_spawn_file_actions_t streams;
    struct sigaction before[TB_ENDING], children, ours = {.sa_handler = tb_pass_on}, plain = {.sa_handler = SIG_DFL};
    int status, failed;
    pid_t child;
    const char *more[] = {"-C", start->project, "run", start->artifact->app, prepare};
    snprintf(prepare, sizeof prepare, "--prepare=%ld", (long)getpid()); /* killed, it tells the tool nothing */
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) words[count++] = more[i];
    if (start->forced && !*start->only) words[count++] = "--tune";
    if (*start->only) words[count++] = start->only_word;
    if (tb_is_suppressed(start)) {
        snprintf(knob, sizeof knob, "--no-mint=%s", start->suppressed);
        words[count++] = knob;
    }
    words[count] = NULL;
    posix_spawn_file_actions_init(&streams);
    posix_spawn_file_actions_addopen(&streams, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (fcntl(STDERR_FILENO, F_GETFD) < 0) /* closed: nobody listens */
        posix_spawn_file_actions_addopen(&streams, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&streams, STDERR_FILENO, STDOUT_FILENO);
    fflush(NULL);
    sigaction(SIGCHLD, &plain, &children); /* one who ignores it would lose the exit code */
    for (int i = 0; i < TB_ENDING; i++) {
        sigaction(tb_ending[i], NULL, &before[i]);
        if (before[i].sa_handler != SIG_IGN) sigaction(tb_ending[i], &ours, NULL);
    }
    failed = posix_spawnp(&child, words[0], &streams, NULL, (char *const *)words, environ);
    tb_tool = failed ? 0 : child;
    if (tb_ended_by) tb_pass_on(tb_ended_by); /* it came before there was a tool to tell */
    status = failed ? -1 : tb_wait();
    for (int i = 0; i < TB_ENDING; i++) sigaction(tb_ending[i], &before[i], NULL);
    sigaction(SIGCHLD, &children, NULL);
    posix_spawn_file_actions_destroy(&streams);
    if (tb_ended_by) raise(tb_ended_by);
    if (failed) return TB_NO_TOOL;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Run the new executable in this one's place; returns only where that fails. It must not tune again. */
static void tb_exec_anew(const tb_start *start, int argc, char **argv)
{
    char depth[512];
    char **kept = calloc((size_t)argc + 1, sizeof *kept);
    int count = 0;
    if (!kept) return;
    for (int i = 0; i < argc; i++) {
        int is_ours = i > start->separator;
        if (is_ours && tb_is(argv[i], TB_ONLY)) i++;
        else if (is_ours && (tb_is(argv[i], "--tune") || strncmp(argv[i], TB_ONLY "=", sizeof TB_ONLY) == 0)) continue;
        else kept[count++] = argv[i];
    }
    snprintf(depth, sizeof depth, "%s:%ld", start->artifact->app, start->depth + 1);
    setenv("TUNEBUILD_RELAUNCH", depth, 1);
    fflush(NULL);
    execv(start->executable, kept);
    unsetenv("TUNEBUILD_RELAUNCH");
    free(kept);
}

static int tb_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static int tb_tune(tb_start *start, int argc, char **argv)
{
    int restart = tb_is_restart(start), suppressed = tb_is_suppressed(start);
    struct stat before = {0}, now = {0};
    int result;
    stat(start->executable, &before);
    result = tb_call_tool(start);
    tb_read_refusal(start); /* of this mint, where there was one: the tool has said it */
    if (result == TB_NO_TOOL) {
        if (!start->forced) tb_say_covered(start);
        tb_say(start, "the tunebuild command is not on this machine: %s runs with the rows it has; install it, or set "
               "TUNEBUILD_POLICY=fallback", start->artifact->app);
        return TB_GO_ON;
    }
    if (restart && suppressed && result != 0) return TB_GO_ON;
    if (restart) {
        if (result == 0) fputs(TB_RESTART_MARKER "\n", stderr);
        return TB_STOP;
    }
    if (stat(start->executable, &now) == 0 && !tb_same_file(&before, &now)) {
        tb_exec_anew(start, argc, argv);
        tb_say(start, "%s cannot be started anew (%s): it runs with the rows it had, start it again",
               start->artifact->app, strerror(errno));
    } else if (result != 0 && !suppressed && !*start->refusal) { /* else the tool has said what is left */
        tb_say(start, "%s runs with the rows it has (the tool exited %d, its words are above); "
               "TUNEBUILD_POLICY=fallback starts it without", start->artifact->app, result);
    }
    return TB_GO_ON;
}

/* What an executable that was built here is due: TB_CALL_TOOL, or what it does without. Coverage is judged before the
 * fuse. */
static int tb_due(tb_start *start)
{
    size_t untuned = tb_count_untuned(start);
    char before[64];
    if (tb_is(start->policy, "reference") && tb_is_stamped(start->artifact))
        tb_say(start, "rows are stamped at build: TUNEBUILD_POLICY=reference tunebuild build clears them");
    if (!start->acts) {
        if (tb_is(start->policy, "warn") && start->depth == 0) tb_say_untuned(start, "WARNING: ", "");
        if (!untuned || !tb_is(start->policy, "error")) return TB_GO_ON;
        start->is_silent = 0;
        tb_say_untuned(start, "", ", or set TUNEBUILD_POLICY=fallback");
        return TB_STOP;
    }
    if (!start->forced && !untuned && !start->is_changed) return TB_GO_ON;
    if (untuned) tb_read_refusal(start);
    if (start->depth > 0 && (tb_is_suppressed(start) || *start->refusal)) return TB_GO_ON; /* the tool has said it */
    if (start->depth > 0) {
        snprintf(before, sizeof before, "relaunch %ld did not converge: ", start->depth);
        tb_say_untuned(start, before, "");
        return TB_GO_ON;
    }
    if (!*start->project) {
        tb_say(start, "%s is not in its project's folder: it runs with the rows it has; build it there, or ship it by "
               "`tunebuild release`", start->artifact->app);
        return TB_GO_ON;
    }
    if (untuned && tb_is_suppressed(start) && !tb_is_answerable(start)) {
        tb_say_suppressed(start);
        return TB_GO_ON;
    }
    if (*start->refusal && !tb_is_answerable(start)) {
        tb_say(start, "%s %s until %s: its last mint %s; start it with --tune to race now",
               start->artifact->app, tb_is_restart(start) ? "waits" : "runs the rows it has", start->until,
               start->refusal);
        return tb_is_restart(start) ? TB_STOP : TB_GO_ON;
    }
    return TB_CALL_TOOL;
}

/* One start. What a profile covers is said once: by the tool where it is called, and above depth 0 it was said. */
static int tb_rail(tb_start *start, int argc, char **argv)
{
    int due = tb_due(start);
    if (due == TB_CALL_TOOL) return tb_tune(start, argc, argv);
    if (start->acts && !start->forced && start->depth == 0) tb_say_covered(start);
    return due;
}

static int tb_judge(tb_start *start, const tb_need *unmet, int argc, char **argv)
{
    const tb_artifact *artifact = start->artifact;
    const char *mode = tb_variable("TUNEBUILD_MODE"), *explicit_path = tb_variable("TUNEBUILD_MANIFEST");
    int result;
    tb_read_flags(start, argc, argv);
    start->depth = tb_take_depth(artifact->app);
    if (artifact->kind == TB_RELEASED) {
        tb_judge_box(start, unmet);
        if (start->is_foreign)
            tb_say(start, "%s was %s; build it here to tune it for this box", artifact->app, start->why_foreign);
        return TB_GO_ON;
    }
    if (tb_is(mode, "tune") || tb_is(mode, "test")) return TB_GO_ON; /* a tuner's own process: no recursion */
    if (*mode && !tb_is(mode, "normal")) {
        if (start->depth == 0) tb_say(start, "TUNEBUILD_MODE: '%s' is no mode and says nothing; set normal, tune or test", mode);
        unsetenv("TUNEBUILD_MODE"); /* the tool would refuse it */
    }
    if (*explicit_path) {
        if (start->depth == 0) tb_say_explicit(start, explicit_path); /* else the other door has said it */
        return TB_GO_ON;
    }
    if (!artifact->scope_count) {
        if (start->forced) tb_say(start, "%s declares no scope: nothing to tune", artifact->app);
        return TB_GO_ON;
    }
    if ((result = tb_read_policy(start)) != TB_GO_ON) return result;
    start->acts = start->forced || tb_is(start->policy, "auto") || tb_is(start->policy, "restart");
    tb_find_executable(start);
    tb_find_project(start);
    tb_judge_box(start, unmet);
    tb_judge_sidecar(start);
    return tb_rail(start, argc, argv);
}

/* What is due before the program's own main: TB_GO_ON, or the exit code with which it must stop. `unmet`: what the
 * stamps need and this CPU lacks, or NULL. */
static int tb_act(const tb_artifact *artifact, const tb_need *unmet, const char *suppressed, int argc, char **argv)
{
    tb_start start = {.artifact = artifact, .policy = artifact->policy, .suppressed = suppressed, .only = ""};
    int result = tb_judge(&start, unmet, argc, argv);
    free(start.only_word);
    return result;
}
#endif

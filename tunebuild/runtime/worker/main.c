/* The server: loads one tune library, then answers lines until its input ends. */
#include "worker.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <unistd.h>

FILE *replies;
size_t driver_count, support_count;
const tb_driver *drivers;
const tb_support *supports;
int race_core = -1, allowed_cores = 1;
static cpu_set_t allowed;

void refuse(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("refused ", replies);
    vfprintf(replies, format, arguments);
    fputc('\n', replies);
    fflush(replies);
    va_end(arguments);
}

/* Replies get a stream of their own; whatever a row prints must not look like one. */
static void take_streams(void) {
    int own = fcntl(1, F_DUPFD_CLOEXEC, 16);
    replies = fdopen(own, "w");
    if (!replies) exit(1);
    setvbuf(replies, NULL, _IOFBF, 1 << 16);
    dup2(2, 1);
}

/* Address randomisation moves buffers from run to run, and winners with them. Not where it is forbidden. */
static void fix_addresses(char **arguments) {
    int now = personality(0xffffffff);
    if (now == -1 || now & ADDR_NO_RANDOMIZE || getenv("TB_WORKER_AGAIN")) return;
    if (personality((unsigned long)now | ADDR_NO_RANDOMIZE) == -1) return;
    setenv("TB_WORKER_AGAIN", "1", 1);
    execv("/proc/self/exe", arguments);
}

static bool load(const char *path) {
    finding f = {0};
    state_reset();
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        refuse("load: %s", dlerror());
        return false;
    }
    if (state_changed(&f)) {
        refuse("load: loading the library changes %s from %#x to %#x (linked with -Ofast or -ffast-math?)",
               f.name, f.before, f.after);
        return false;
    }
    const tb_driver *(*find_drivers)(size_t *);
    const tb_support *(*find_supports)(size_t *);
    *(void **)&find_drivers = dlsym(library, "tb_drivers");
    *(void **)&find_supports = dlsym(library, "tb_supports");
    if (!find_drivers) {
        refuse("load: the library has no tb_drivers");
        return false;
    }
    drivers = find_drivers(&driver_count);
    if (find_supports) supports = find_supports(&support_count);
    return true;
}

static void say_drivers(void) {
    int randomised = personality(0xffffffff);
    fprintf(replies, "worker %d drivers=%zu supports=%zu randomised=%d\n", WORKER_PROTOCOL, driver_count,
            support_count, randomised == -1 || !(randomised & ADDR_NO_RANDOMIZE));
    for (size_t i = 0; i < driver_count; i++) {
        const tb_driver *d = &drivers[i];
        fprintf(replies, "driver %s result=%s oracle=%d buffers=", d->name, d->result, d->oracle != NULL);
        for (size_t b = 0; b < d->buffer_count; b++) fprintf(replies, "%s%s", b ? "," : "", d->buffers[b]);
        fputs(" scalars=", replies);
        for (size_t s = 0; s < d->scalar_count; s++) fprintf(replies, "%s%s", s ? "," : "", d->scalars[s]);
        fputs(" rows=", replies);
        for (size_t r = 0; r < d->row_count; r++) fprintf(replies, "%s%s", r ? "," : "", d->rows[r].suffix);
        fputc('\n', replies);
    }
    for (size_t s = 0; s < support_count; s++) fprintf(replies, "support %s\n", supports[s].name);
}

bool pin_to_race_core(void) {
    cpu_set_t one;
    CPU_ZERO(&one);
    if (race_core < 0 || race_core >= CPU_SETSIZE) return false;
    CPU_SET((unsigned)race_core, &one);
    return sched_setaffinity(0, sizeof one, &one) == 0;
}

void unpin(void) { sched_setaffinity(0, sizeof allowed, &allowed); }

/* Only what is timed is pinned: the server's own wake-ups then need not fall on the race's core. */
static void pin(int core) {
    race_core = core;
    if (!pin_to_race_core()) race_core = -1;
    unpin();
    fprintf(replies, "pinned %d\n", race_core);
}

static void probe(char *words) {
    const char *what = strsep(&words, " ");
    uint64_t numbers[2] = {0};
    for (int i = 0; i < 2 && words; i++) numbers[i] = strtoull(strsep(&words, " "), NULL, 10);
    pin_to_race_core();
    if (strcmp(what, "windows") == 0) probe_windows(numbers[0], numbers[1]);
    else if (strcmp(what, "pairs") == 0) probe_pairs(numbers[0], numbers[1]);
    else probe_spin(numbers[0]);
    unpin();
}

static void answer(job *j, char *line) {
    if (job_line(j, line)) return;
    char *words = line;
    const char *word = strsep(&words, " ");
    char none[] = "";
    if (!words) words = none;
    if (strcmp(word, "pin") == 0) pin(atoi(words));
    else if (strcmp(word, "probe") == 0) probe(words);
    else if (strcmp(word, "renew") == 0) race_renew((unsigned)atoi(words));
    else if (!j->driver) refuse("%s needs a job", word);
    else if (strcmp(word, "reference") == 0) gate_reference(j);
    else if (strcmp(word, "row") == 0) gate_row(j, strtoull(words, NULL, 10));
    else if (strcmp(word, "round") == 0) race_round(j, words);
    else if (strcmp(word, "recheck") == 0) race_recheck(j, words);
    else if (strcmp(word, "confirm") == 0) race_confirm(j, words);
    else refuse("unknown word %s", word);
}

int main(int count, char **arguments) {
    if (count < 2) {
        fputs("usage: worker LIBRARY [fixed]\n", stderr);
        return 2;
    }
    if (count > 2) fix_addresses(arguments);
    take_streams();
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) allowed_cores = CPU_COUNT(&allowed);
    children_prepare();
    if (!load(arguments[1])) return 1;
    say_drivers();
    fflush(replies);
    job j = {0};
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    while ((length = getline(&line, &room, stdin)) > 0) {
        if (line[length - 1] == '\n') line[length - 1] = '\0';
        answer(&j, line);
        fflush(replies);
    }
    race_close();
    leave_nobody();
}

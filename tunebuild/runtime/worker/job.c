/* A job's description, line by line:
 *
 *   begin DRIVER TIMEOUT_MS GROUPS
 *   arg KIND ELEMENT PARTS [POINTED...]         one an argument, in the driver's order
 *   groups GROUP...                             one a row
 *   compare exact|ulp|tolerance ULP RTOL ATOL want|abs|max
 *   case SEED COPIES CALLS PLACEMENTS SCALAR... EXTENT...
 *       PLACEMENTS 1 left, 2 right, 3 both; SCALAR i31 or f0x1p-1; EXTENT ELEMENTS:PARTS:OFFSET:FILL:VALID
 *   scratch GROUP CASE ARG ELEMENTS             where a group's size is another than that of group 0
 *   valid CASE PASS ARG LIMIT                   where the limit depends on the return value */
#include "worker.h"

#include <stdlib.h>
#include <string.h>

static void *room_for(size_t count, size_t bytes) {
    void *made = calloc(count ? count : 1, bytes);
    if (!made) {
        refuse("no memory for a job");
        exit(1);
    }
    return made;
}

static void job_clear(job *j) {
    for (size_t a = 0; a < j->argument_count; a++) free(j->arguments[a].pointed);
    for (size_t c = 0; c < j->case_count; c++) {
        free(j->cases[c].scalars);
        free(j->cases[c].magnitudes);
        free(j->cases[c].extents);
        free(j->cases[c].group_sizes);
    }
    free(j->arguments);
    free(j->row_groups);
    free(j->cases);
    *j = (job){0};
}

static const tb_driver *driver_named(const char *name) {
    for (size_t d = 0; d < driver_count; d++)
        if (strcmp(drivers[d].name, name) == 0) return &drivers[d];
    return NULL;
}

static size_t next_number(char **words) {
    char *word = strsep(words, " ");
    return word ? strtoull(word, NULL, 10) : 0;
}

static void take_begin(job *j, char *words) {
    gate_close();
    race_close();
    job_clear(j);
    char *name = strsep(&words, " ");
    j->driver = name ? driver_named(name) : NULL;
    if (!j->driver) {
        refuse("no driver named %s in this library", name ? name : "");
        return;
    }
    j->timeout_ms = (int)next_number(&words);
    j->group_count = next_number(&words);
    j->result = element_named(j->driver->result);
    j->arguments = room_for(j->driver->buffer_count, sizeof *j->arguments);
    j->row_groups = room_for(j->driver->row_count, sizeof *j->row_groups);
}

static void take_argument(job *j, char *words) {
    static const char *const kinds[] = {"in", "out", "inout", "scratch", "pointers", "source"};
    char *kind_word = strsep(&words, " "), *element_word = strsep(&words, " ");
    if (j->argument_count == j->driver->buffer_count || !element_word) {
        refuse("more arguments than the driver of %s has", j->driver->name);
        return;
    }
    argument *a = &j->arguments[j->argument_count++];
    for (int k = IN; k <= SOURCE; k++)
        if (strcmp(kind_word, kinds[k]) == 0) a->kind = (kind)k;
    a->element = a->kind == POINTERS ? U64 : element_named(element_word);
    a->parts = next_number(&words);
    a->pointed = room_for(j->driver->buffer_count, sizeof *a->pointed);
    while (words && a->pointed_count < j->driver->buffer_count)
        a->pointed[a->pointed_count++] = next_number(&words);
}

static void take_groups(job *j, char *words) {
    for (size_t r = 0; words && r < j->driver->row_count; r++) j->row_groups[r] = next_number(&words);
}

static void take_compare(job *j, char *words) {
    const char *rule = strsep(&words, " ");
    double numbers[3] = {0};
    for (int i = 0; i < 3 && words; i++) numbers[i] = strtod(strsep(&words, " "), NULL);
    j->compare = (comparison){
        .rule = strcmp(rule, "ulp") == 0         ? ULP
                : strcmp(rule, "tolerance") == 0 ? TOLERANCE
                                                 : EXACT,
        .ulp = numbers[0],
        .rtol = numbers[1],
        .atol = numbers[2],
        .scale = !words                      ? SCALE_WANT
                 : strcmp(words, "abs") == 0 ? SCALE_ABS
                 : strcmp(words, "max") == 0 ? SCALE_MAX
                                             : SCALE_WANT,
    };
}

static bool take_extent(extent *x, char *word) {
    x->elements = strtoull(word, &word, 10);
    if (*word++ != ':') return false;
    x->parts = strtoull(word, &word, 10);
    if (*word++ != ':') return false;
    x->offset = strtoull(word, &word, 10);
    if (*word++ != ':') return false;
    char *name = strsep(&word, ":");
    if (!fill_named(name, &x->fill)) {
        refuse("no fill or support function named %s", name);
        return false;
    }
    for (int pass = 0; pass < PASSES; pass++) x->valid[pass] = word ? strtoll(word, NULL, 10) : -1;
    return true;
}

static void take_case(job *j, char *words) {
    const tb_driver *d = j->driver;
    if (j->case_count == j->case_room) {
        j->case_room = j->case_room ? 2 * j->case_room : 64;
        j->cases = realloc(j->cases, j->case_room * sizeof *j->cases);
        if (!j->cases) abort();
    }
    call_case *c = &j->cases[j->case_count++];
    *c = (call_case){0};
    c->seed = next_number(&words);
    c->copies = next_number(&words);
    c->calls = next_number(&words);
    c->placements = (int)next_number(&words);
    c->scalars = room_for(d->scalar_count, sizeof *c->scalars);
    c->magnitudes = room_for(d->scalar_count, sizeof *c->magnitudes);
    c->extents = room_for(d->buffer_count, sizeof *c->extents);
    c->group_sizes = room_for(j->group_count * d->buffer_count, sizeof *c->group_sizes);
    for (size_t s = 0; s < d->scalar_count && words; s++) {
        const char *word = strsep(&words, " ");
        tb_scalar value = {.i = 0}, magnitude;
        if (*word == 'f') value.f = strtod(word + 1, NULL);
        else value.i = strtoll(word + 1, NULL, 10);
        magnitude = value;
        if (*word == 'f' && value.f < 0) magnitude.f = -value.f;
        c->scalars[s] = value;
        c->magnitudes[s] = magnitude;
    }
    for (size_t a = 0; a < d->buffer_count; a++) {
        if (!words || !take_extent(&c->extents[a], strsep(&words, " "))) {
            refuse("case %zu of %s says too little", j->case_count - 1, d->name);
            return;
        }
        for (size_t g = 0; g < j->group_count; g++)
            c->group_sizes[g * d->buffer_count + a] = c->extents[a].elements;
    }
}

static void take_scratch(job *j, char *words) {
    size_t group = next_number(&words), index = next_number(&words), argument = next_number(&words);
    if (group < j->group_count && index < j->case_count && argument < j->argument_count)
        j->cases[index].group_sizes[group * j->driver->buffer_count + argument] = next_number(&words);
}

static void take_valid(job *j, char *words) {
    size_t index = next_number(&words), pass = next_number(&words), argument = next_number(&words);
    if (index < j->case_count && pass < PASSES && argument < j->argument_count)
        j->cases[index].extents[argument].valid[pass] = (int64_t)next_number(&words);
}

bool job_line(job *j, char *line) {
    static const struct {
        const char *word;
        void (*take)(job *, char *);
    } lines[] = {{"begin", take_begin},     {"arg", take_argument}, {"groups", take_groups},
                 {"compare", take_compare}, {"case", take_case},    {"scratch", take_scratch},
                 {"valid", take_valid}};
    char *words = line;
    const char *word = strsep(&words, " ");
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        if (strcmp(word, lines[i].word) != 0) continue;
        if (i > 0 && !j->driver) refuse("%s before begin", word);
        else lines[i].take(j, words);
        return true;
    }
    if (words) words[-1] = ' '; /* not ours: give the line back whole */
    return false;
}

size_t extent_elements(const job *j, const call_case *c, size_t group, size_t argument) {
    if (j->arguments[argument].kind == POINTERS) return pointed_parts(j, c, argument);
    return c->group_sizes[group * j->driver->buffer_count + argument];
}

size_t pointed_parts(const job *j, const call_case *c, size_t argument) {
    size_t total = 0;
    for (size_t i = 0; i < j->arguments[argument].pointed_count; i++)
        total += c->extents[j->arguments[argument].pointed[i]].parts;
    return total;
}

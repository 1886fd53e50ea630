/* The race: slices of many rows on the same buffers, in one long-lived child.
 *
 * A *place* is one set of a workload's buffers; a micro-round uses one place for all its rows, and places
 * differ in their offsets and physical pages. Inside a place every row shares the buffers, and every group
 * of rows the packed ones. An *entry* is one call's pointers: a hot workload has one (or a few, where calls
 * change their `inout` buffers, so that each starts from fresh data), a cold one as many as outgrow the
 * caches. */
#include "worker.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PLACES 8
#define PLACES_BYTES ((size_t)256 << 20) /* places are fewer where they would take more */
#define ALIGNMENT ((size_t)1 << 20)
#define STAGGER (4096 + 64)      /* between streams: neither one page offset nor one line */
#define PLACE_STEP (9 * 64)
#define SMALL_BYTES ((size_t)16 << 10)  /* half of the usual first cache */
#define MEDIUM_BYTES ((size_t)128 << 10) /* half of the smallest usual second cache */
#define FRESH_CALLS 256
#define WARM_SHARE 100 /* one call in so many is made before the clock starts */

typedef struct area {
    char *start;
    size_t stride, copies, bytes;
    size_t argument, part;
} area;

typedef struct table {
    void **entries; /* [2 * copies][stride]: doubled, so that a walk may begin anywhere */
    bool prepared;
} table;

typedef struct place {
    size_t *areas; /* of each spot, 0: none yet (scratch is per group) */
    table *tables; /* per group */
} place;

typedef struct course { /* one workload's state */
    call_case *call;
    size_t entries, cursor, place_count;
    bool fresh; /* calls change their inputs */
    void **pristine; /* inputs by spot */
    place places[PLACES];
} course;

static child racer;
static unsigned salt;

/* In the child only. */
static job *the_job;
static course *courses;
static size_t *first_spot, spot_count, area_count, area_room;
static area *areas;
static uint64_t clock_cost_ns;

static void *must(void *made) {
    if (made) return made;
    the_board->finding = (finding){.fault = OUT_OF_MEMORY, .argument = -1};
    _Exit(201);
}

/* --- areas ---------------------------------------------------------------------------------------- */

static bool copied(kind k, const course *c) {
    if (k == SOURCE || k == POINTERS) return false;
    return c->call->copies > 0 || k == INOUT;
}

static size_t stride_of(size_t bytes) { return (bytes + 63) / 64 * 64 + 64; }

static size_t make_area(const course *c, size_t argument, size_t part, size_t elements, size_t place_number) {
    const size_t page = page_bytes();
    const size_t bytes = elements * element_bytes(the_job->arguments[argument].element);
    const size_t copies = copied(the_job->arguments[argument].kind, c) ? c->entries : 1;
    const size_t slot = first_spot[argument] + part;
    const size_t shift = slot * STAGGER + place_number * (slot + 1) * PLACE_STEP + (salt % 64) * (3 * 64);
    const size_t length = copies * stride_of(bytes);
    const size_t reserved = length + shift + ALIGNMENT + 2 * GUARD_BYTES;
    char *base = mmap(NULL, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) must(NULL);
    uintptr_t aligned = ((uintptr_t)base + GUARD_BYTES + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    char *start = base + (aligned - (uintptr_t)base) + shift;
    char *first_page = start - (uintptr_t)start % page;
    if (mprotect(first_page, (size_t)(start - first_page) + length, PROT_READ | PROT_WRITE)) must(NULL);
    if (area_count == area_room) {
        area_room = area_room ? 2 * area_room : 64;
        areas = must(realloc(areas, area_room * sizeof *areas));
        if (area_count == 0) areas[area_count++] = (area){0}; /* number 0 means none */
    }
    areas[area_count] = (area){start, stride_of(bytes), copies, bytes, argument, part};
    return area_count++;
}

static void *address_in(size_t number, size_t entry) {
    const area *a = &areas[number];
    return a->start + entry % a->copies * a->stride;
}

static bool locate_area(uintptr_t address, finding *f) {
    for (size_t i = 1; i < area_count; i++) {
        const area *a = &areas[i];
        const uintptr_t start = (uintptr_t)a->start, end = start + a->copies * a->stride;
        if (address < start - GUARD_BYTES || address >= end + GUARD_BYTES) continue;
        const int64_t width = (int64_t)element_bytes(the_job->arguments[a->argument].element);
        const int64_t past = (int64_t)(address - start) - (int64_t)((a->copies - 1) * a->stride);
        f->argument = (int)a->argument;
        f->part = a->part;
        f->side = address < start ? BEFORE : past >= (int64_t)a->bytes ? PAST : INSIDE;
        f->element = f->side == PAST ? past / width : ((int64_t)(address - start) - width + 1) / width;
        return true;
    }
    return false;
}

/* --- courses and places --------------------------------------------------------------------------- */

static bool is_input(kind k) { return k == IN || k == INOUT || k == SOURCE; }

static void fill_inputs(const course *c, void **inputs, uint64_t seed) {
    the_board->phase = PHASE_FILL;
    for (size_t a = 0; a < the_job->argument_count; a++)
        for (size_t part = 0; is_input(the_job->arguments[a].kind) && part < c->call->extents[a].parts; part++)
            fill_buffer(c->call->extents[a].fill, the_job->arguments[a].element, inputs[first_spot[a] + part],
                        c->call->extents[a].elements, mix_seed(seed, a << 16 | part));
}

static size_t spot_bytes(const course *c, size_t argument) {
    return c->call->extents[argument].elements * element_bytes(the_job->arguments[argument].element);
}

static void **new_inputs(const course *c) {
    void **inputs = must(calloc(spot_count + 1, sizeof *inputs));
    for (size_t a = 0; a < the_job->argument_count; a++)
        for (size_t part = 0; is_input(the_job->arguments[a].kind) && part < c->call->extents[a].parts; part++)
            inputs[first_spot[a] + part] = must(malloc(spot_bytes(c, a) + 64));
    return inputs;
}

static void drop_inputs(void **inputs) {
    for (size_t s = 0; s < spot_count; s++) free(inputs[s]);
    free(inputs);
}

/* Copies of the `inout` buffers of a hot workload: as many as leave the data in the cache that one set fits. */
static size_t fresh_entries(size_t changed, size_t total) {
    const size_t room = total <= SMALL_BYTES ? SMALL_BYTES : total <= MEDIUM_BYTES ? MEDIUM_BYTES : 0;
    const size_t entries = (room > total ? room - total : 0) / (changed ? changed : 1) + 1;
    return entries > FRESH_CALLS ? FRESH_CALLS : entries;
}

static void open_course(course *c, size_t workload) {
    size_t changed = 0, total = 0;
    c->call = &the_job->cases[workload];
    for (size_t a = 0; a < the_job->argument_count; a++) {
        size_t largest = 0;
        for (size_t g = 0; g < the_job->group_count; g++) {
            size_t elements = extent_elements(the_job, c->call, g, a);
            if (elements > largest) largest = elements;
        }
        const size_t bytes = largest * element_bytes(the_job->arguments[a].element) * c->call->extents[a].parts;
        total += bytes;
        if (the_job->arguments[a].kind == INOUT) changed += bytes;
        c->fresh |= the_job->arguments[a].kind == INOUT;
    }
    c->entries = c->call->copies;
    if (c->entries == 0) c->entries = c->fresh ? fresh_entries(changed, total) : 1;
    c->place_count = c->call->copies ? 1 : PLACES_BYTES / (total ? total : 1);
    if (c->place_count > PLACES) c->place_count = PLACES;
    if (c->place_count < 1) c->place_count = 1;
    c->pristine = new_inputs(c);
    fill_inputs(c, c->pristine, c->call->seed);
}

static void copy_inputs(const course *c, const place *p, void *const *inputs, size_t entry, bool changed_only) {
    for (size_t a = 0; a < the_job->argument_count; a++) {
        const kind k = the_job->arguments[a].kind;
        if (changed_only ? k != INOUT : !is_input(k)) continue;
        for (size_t part = 0; part < c->call->extents[a].parts; part++) {
            const size_t s = first_spot[a] + part;
            if (entry < areas[p->areas[s]].copies)
                memcpy(address_in(p->areas[s], entry), inputs[s], spot_bytes(c, a));
        }
    }
}

static place *open_place(course *c, size_t number) {
    place *p = &c->places[number];
    if (p->areas) return p;
    p->areas = must(calloc(spot_count + 1, sizeof *p->areas));
    p->tables = must(calloc(the_job->group_count, sizeof *p->tables));
    for (size_t a = 0; a < the_job->argument_count; a++) {
        const kind k = the_job->arguments[a].kind;
        for (size_t part = 0; k != SCRATCH && k != POINTERS && part < c->call->extents[a].parts; part++) {
            size_t area_number = make_area(c, a, part, c->call->extents[a].elements, number);
            p->areas[first_spot[a] + part] = area_number;
            if (k == OUT) /* touched, so that no timed call meets a page for the first time */
                memset(areas[area_number].start, 0, areas[area_number].copies * areas[area_number].stride);
        }
    }
    for (size_t entry = 0; entry < c->entries; entry++) {
        the_board->heartbeat++;
        copy_inputs(c, p, c->pristine, entry, false);
    }
    return p;
}

/* Addresses for one entry; a POINTERS argument gets an array of its own for each. */
static void *pointer_array(const course *c, void *const *entry_spots, size_t argument) {
    const struct argument *arg = &the_job->arguments[argument];
    void **array = must(calloc(pointed_parts(the_job, c->call, argument) + 1, sizeof *array));
    size_t at = 0;
    for (size_t i = 0; i < arg->pointed_count; i++)
        for (size_t part = 0; part < c->call->extents[arg->pointed[i]].parts; part++)
            array[at++] = entry_spots[first_spot[arg->pointed[i]] + part];
    return array;
}

static void build_table(course *c, place *p, size_t place_number, size_t group) {
    const size_t width = the_job->argument_count ? the_job->argument_count : 1;
    table *t = &p->tables[group];
    size_t *numbers = must(calloc(spot_count + 1, sizeof *numbers));
    memcpy(numbers, p->areas, spot_count * sizeof *numbers);
    for (size_t a = 0; a < the_job->argument_count; a++)
        for (size_t part = 0; the_job->arguments[a].kind == SCRATCH && part < c->call->extents[a].parts; part++) {
            size_t n = make_area(c, a, part, extent_elements(the_job, c->call, group, a), place_number);
            memset(areas[n].start, 0, areas[n].copies * areas[n].stride);
            numbers[first_spot[a] + part] = n;
        }
    t->entries = must(calloc(2 * c->entries * width, sizeof *t->entries));
    void **spots = must(calloc(spot_count + 1, sizeof *spots));
    for (size_t entry = 0; entry < c->entries; entry++) {
        for (size_t s = 0; s < spot_count; s++)
            if (numbers[s]) spots[s] = address_in(numbers[s], entry);
        for (size_t a = 0; a < the_job->argument_count; a++)
            t->entries[entry * width + a] = the_job->arguments[a].kind == POINTERS
                                                ? pointer_array(c, spots, a)
                                                : spots[first_spot[a]];
    }
    memcpy(t->entries + c->entries * width, t->entries, c->entries * width * sizeof *t->entries);
    free(numbers);
    free(spots);
}

/* The table of a row at a place, its packed buffers filled; all of it untimed. */
static void *const *table_for(course *c, size_t place_number, size_t row) {
    const size_t group = the_job->row_groups[row];
    const size_t width = the_job->argument_count ? the_job->argument_count : 1;
    place *p = open_place(c, place_number);
    table *t = &p->tables[group];
    if (!t->entries) build_table(c, p, place_number, group);
    if (!t->prepared && the_job->driver->prepare) {
        the_board->phase = PHASE_PREPARE;
        const size_t prepared = c->call->copies ? c->entries : 1;
        for (size_t entry = 0; entry < prepared; entry++) {
            the_board->heartbeat++;
            the_job->driver->prepare(row, t->entries + entry * width, c->call->scalars);
        }
    }
    t->prepared = true;
    return t->entries;
}

/* --- slices --------------------------------------------------------------------------------------- */

static uint64_t clock_cost(void) {
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 200; i++) {
        uint64_t start = wall_clock_ns();
        uint64_t cost = wall_clock_ns() - start;
        if (cost < least) least = cost;
    }
    return least;
}

static void restore(const course *c, const place *p, size_t first, size_t count) {
    for (size_t i = 0; i < count; i++) copy_inputs(c, p, c->pristine, (first + i) % c->entries, true);
}

/* `reps` calls; their time. Where calls change their inputs they are made in runs over fresh copies, which
 * are restored between the runs, outside the clock. */
static uint64_t timed_calls(course *c, const place *p, void *const *entries, tb_fn fn, uint64_t reps) {
    const size_t width = the_job->argument_count ? the_job->argument_count : 1;
    uint64_t timed = 0;
    while (reps > 0) {
        const uint64_t run = c->fresh && reps > c->entries ? c->entries : reps;
        const uint64_t before = wall_clock_ns();
        the_job->driver->loop(fn, entries + c->cursor * width, c->entries, c->call->scalars, run);
        const uint64_t took = wall_clock_ns() - before;
        timed += took > clock_cost_ns ? took - clock_cost_ns : 1;
        if (c->fresh) restore(c, p, c->cursor, run);
        c->cursor = (c->cursor + run) % c->entries;
        reps -= run;
    }
    return timed;
}

/* One attempt. A hundredth of the calls comes first, untimed: wide registers take microseconds to power
 * up, and whatever the row before left in caches and predictors is gone. */
static sample attempt(course *c, size_t place_number, size_t row, uint32_t reps) {
    const tb_fn fn = the_job->driver->rows[row].fn;
    void *const *entries = table_for(c, place_number, row);
    const place *p = &c->places[place_number];
    if (!c->call->copies) c->cursor = 0;
    the_board->phase = PHASE_CALL;
    state_reset();
    timed_calls(c, p, entries, fn, reps / WARM_SHARE);
    const uint64_t cpu_start = cpu_clock_ns(), start = wall_clock_ns();
    const uint64_t timed = timed_calls(c, p, entries, fn, reps);
    const uint64_t wall = wall_clock_ns() - start, cpu = cpu_clock_ns() - cpu_start;
    const double share = wall ? (double)cpu / (double)wall : 1;
    return (sample){timed, (uint64_t)(share * (double)timed), reps, 0};
}

static sample slice(course *c, const request *r, size_t row, uint32_t reps) {
    the_board->row = row;
    the_board->heartbeat++;
    sample s = attempt(c, r->placement, row, reps);
    while (s.reruns < r->retries && (double)s.cpu_ns < r->cpu_share * (double)s.wall_ns) {
        the_board->heartbeat++;
        const uint32_t reruns = s.reruns + 1;
        s = attempt(c, r->placement, row, reps);
        s.reruns = reruns;
    }
    finding f = {.argument = -1};
    if (state_changed(&f)) {
        the_board->finding = f;
        _Exit(201);
    }
    return s;
}

static void serve_round(request *r) {
    course *c = &courses[r->workload];
    r->placement = r->placement % c->place_count;
    request untaken = *r;
    untaken.retries = 0;
    slice(c, &untaken, r->lead_row, r->lead_reps);
    for (size_t i = 0; i < r->count; i++) the_board->samples[i] = slice(c, r, r->rows[i], r->reps[i]);
}

/* --- a last look at the results ------------------------------------------------------------------- */

/* One call on entry 0 of place 0 with these inputs; outputs are copied to `outputs`. */
static void call_once(course *c, size_t row, tb_fn fn, void *const *inputs, void **outputs, char result[8],
                      bool magnitudes) {
    the_board->row = row;
    the_board->heartbeat++;
    place *p = open_place(c, 0);
    p->tables[the_job->row_groups[row]].prepared = false;
    copy_inputs(c, p, inputs, 0, false);
    for (size_t a = 0; a < the_job->argument_count; a++)
        for (size_t part = 0; part < c->call->extents[a].parts; part++) {
            const size_t number = p->areas[first_spot[a] + part];
            const kind k = the_job->arguments[a].kind;
            if (k == OUT) memset(address_in(number, 0), 0xc3, spot_bytes(c, a));
            else if (is_input(k) && magnitudes)
                element_clear_signs(the_job->arguments[a].element, address_in(number, 0), c->call->extents[a].elements);
        }
    state_reset();
    void *const *entries = table_for(c, 0, row);
    the_board->phase = PHASE_CALL;
    memset(result, 0, 8);
    the_job->driver->call(fn, entries, magnitudes ? c->call->magnitudes : c->call->scalars, result);
    for (size_t a = 0; a < the_job->argument_count; a++)
        for (size_t part = 0; part < c->call->extents[a].parts; part++) {
            const size_t s = first_spot[a] + part;
            if (the_job->arguments[a].kind == OUT || the_job->arguments[a].kind == INOUT)
                memcpy(outputs[s], address_in(p->areas[s], 0), spot_bytes(c, a));
        }
}

static void **new_outputs(const course *c) {
    void **outputs = must(calloc(spot_count + 1, sizeof *outputs));
    for (size_t a = 0; a < the_job->argument_count; a++)
        for (size_t part = 0; part < c->call->extents[a].parts; part++)
            if (the_job->arguments[a].kind == OUT || the_job->arguments[a].kind == INOUT)
                outputs[first_spot[a] + part] = must(malloc(spot_bytes(c, a) + 64));
    return outputs;
}

typedef struct answer {
    void **outputs;
    char result[8];
} answer;

static bool answers_differ(const course *c, const answer *got, const answer *want, const answer *scale, finding *f) {
    const comparison *rule = &the_job->compare;
    for (size_t a = 0; a < the_job->argument_count; a++)
        for (size_t part = 0; part < c->call->extents[a].parts; part++) {
            const size_t s = first_spot[a] + part;
            if (!want->outputs[s]) continue;
            const element e = the_job->arguments[a].element;
            int64_t limit = c->call->extents[a].valid[0];
            if (limit == -2) limit = (int64_t)element_value(the_job->result, want->result, 0);
            const size_t all = c->call->extents[a].elements;
            const size_t count = limit >= 0 && (size_t)limit < all ? (size_t)limit : all;
            int64_t bad = compare_elements(rule, e, got->outputs[s], want->outputs[s], scale->outputs[s], count);
            if (bad < 0) continue;
            *f = (finding){.fault = WRONG_ELEMENT, .argument = (int)a, .part = part, .element = bad};
            element_text(e, got->outputs[s], (size_t)bad, f->got, sizeof f->got);
            element_text(e, want->outputs[s], (size_t)bad, f->want, sizeof f->want);
            return true;
        }
    if (the_job->result == NO_ELEMENT ||
        compare_elements(rule, the_job->result, got->result, want->result, scale->result, 1) < 0)
        return false;
    *f = (finding){.fault = WRONG_RESULT, .argument = -1};
    element_text(the_job->result, got->result, 0, f->got, sizeof f->got);
    element_text(the_job->result, want->result, 0, f->want, sizeof f->want);
    return true;
}

static void serve_recheck(const request *r) {
    course *c = &courses[r->workload];
    const tb_driver *d = the_job->driver;
    void **inputs = new_inputs(c);
    answer got = {new_outputs(c), ""}, want = {new_outputs(c), ""}, scale = {new_outputs(c), ""};
    finding f = {.argument = -1};
    fill_inputs(c, inputs, r->seed);
    if (the_job->compare.scale == SCALE_ABS)
        call_once(c, 0, d->rows[0].fn, inputs, scale.outputs, scale.result, true);
    call_once(c, 0, d->oracle ? d->oracle : d->rows[0].fn, inputs, want.outputs, want.result, false);
    call_once(c, r->rows[0], d->rows[r->rows[0]].fn, inputs, got.outputs, got.result, false);
    if (state_changed(&f) || answers_differ(c, &got, &want, &scale, &f)) the_board->finding = f;
    copy_inputs(c, &c->places[0], c->pristine, 0, false);
    for (size_t g = 0; g < the_job->group_count; g++) c->places[0].tables[g].prepared = false;
    drop_inputs(inputs);
    drop_inputs(got.outputs);
    drop_inputs(want.outputs);
    drop_inputs(scale.outputs);
}

/* --- the child, and the server's side ------------------------------------------------------------- */

static void racer_body(void *context) {
    the_job = context;
    pin_to_race_core();
    first_spot = must(calloc(the_job->argument_count + 1, sizeof *first_spot));
    for (size_t a = 0; a < the_job->argument_count; a++)
        first_spot[a + 1] = first_spot[a] + the_job->arguments[a].parts;
    spot_count = first_spot[the_job->argument_count];
    courses = must(calloc(the_job->case_count, sizeof *courses));
    clock_cost_ns = clock_cost();
    while (child_order()) {
        request *r = &the_board->request;
        course *c = &courses[r->workload];
        the_board->row = r->what == RECHECK ? r->rows[0] : r->lead_row;
        if (!c->call) open_course(c, r->workload);
        if (r->what == RECHECK) serve_recheck(r);
        else serve_round(r);
        child_replied();
    }
}

/* Sends the board's request; true when it was served. Otherwise ` bad row=…` was said and the child is gone. */
static bool served(job *j) {
    the_board->finding = (finding){.argument = -1};
    if (!racer.pid) child_start(&racer, racer_body, j, locate_area);
    event how = ENDED;
    char order = 1;
    if (racer.pid && write(racer.orders, &order, 1) == 1) how = child_watch(&racer, j->timeout_ms);
    if (how == REPLIED && the_board->finding.fault == NO_FAULT) return true;
    finding f = how == REPLIED ? the_board->finding : racer.pid ? child_finding(&racer, how)
              : (finding){.fault = OUT_OF_MEMORY, .argument = -1};
    the_board->case_index = (int)the_board->request.workload;
    the_board->pass = 0;
    the_board->flush_right = false;
    fprintf(replies, " bad row=%zu", the_board->row < j->driver->row_count ? the_board->row : 0);
    report_finding(j, &f, &racer);
    return false;
}

static uint64_t next_word(char **words) {
    char *word = strsep(words, " ");
    return word ? strtoull(word, NULL, 10) : 0;
}

/* `round WORKLOAD PLACEMENT SHARE RETRIES LEAD:REPS ROW:REPS...`: replies `round ok WALL:CPU:RERUNS...`. */
void race_round(job *j, char *words) {
    request *r = &the_board->request;
    r->what = ROUND;
    r->workload = next_word(&words);
    r->placement = next_word(&words);
    r->cpu_share = words ? strtod(strsep(&words, " "), NULL) : 0;
    r->retries = (uint32_t)next_word(&words);
    r->count = 0;
    bool sound = r->workload < j->case_count;
    for (bool lead = true; words && r->count < MAX_SLICES; lead = false) {
        char *word = strsep(&words, " ");
        uint32_t row = (uint32_t)strtoul(word, &word, 10);
        uint32_t reps = *word == ':' ? (uint32_t)strtoul(word + 1, NULL, 10) : 0;
        sound = sound && row < j->driver->row_count && reps > 0;
        if (lead) {
            r->lead_row = row;
            r->lead_reps = reps;
        } else {
            r->rows[r->count] = row;
            r->reps[r->count++] = reps;
        }
    }
    if (!sound || words) {
        refuse("a round of unknown rows, or of more than %d slices", MAX_SLICES);
        return;
    }
    fputs("round", replies);
    if (served(j)) {
        fputs(" ok", replies);
        for (size_t i = 0; i < r->count; i++)
            fprintf(replies, " %llu:%llu:%u", (unsigned long long)the_board->samples[i].wall_ns,
                    (unsigned long long)the_board->samples[i].cpu_ns, the_board->samples[i].reruns);
    }
    fputc('\n', replies);
}

/* `recheck WORKLOAD ROW SEED`: one call on new data, compared with the reference. */
void race_recheck(job *j, char *words) {
    request *r = &the_board->request;
    r->what = RECHECK;
    r->workload = next_word(&words);
    r->rows[0] = (uint32_t)next_word(&words);
    r->seed = next_word(&words);
    if (r->workload >= j->case_count || r->rows[0] >= j->driver->row_count) {
        refuse("a recheck of an unknown row");
        return;
    }
    fputs("recheck", replies);
    if (served(j)) fputs(" ok", replies);
    fputc('\n', replies);
}

void race_close(void) {
    if (racer.pid) child_stop(&racer);
}

void race_renew(unsigned new_salt) {
    race_close();
    salt = new_salt;
    fputs("renewed\n", replies);
}

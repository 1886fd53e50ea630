/* The race: slices of many rows on the same buffers (course.h), in one long-lived child. */
#include "course.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WARM_SHARE 100 /* one call in so many is made before the clock starts */

static child racer;
static unsigned salt;
static uint64_t clock_cost_ns; /* of one reading, in the child */

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
    for (size_t i = 0; i < count; i++) inputs_laid(c, p, c->pristine, (first + i) % c->entries, true);
}

/* `reps` calls; their time. Where calls change their inputs they are made in runs over fresh copies, which
 * are restored between the runs, outside the clock. */
static uint64_t timed_calls(course *c, const place *p, void *const *entries, tb_fn fn, uint64_t reps) {
    uint64_t timed = 0;
    while (reps > 0) {
        const uint64_t run = c->fresh && reps > c->entries ? c->entries : reps;
        const uint64_t before = wall_clock_ns();
        the_job->driver->loop(fn, entries + c->cursor * entry_width(), c->entries, c->call->scalars, run);
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
    void *const *entries = entries_for(c, place_number, row);
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
        _exit(201);
    }
    return s;
}

static void serve_round(request *r) {
    course *c = course_at(r->workload);
    r->placement = r->placement % c->place_count;
    request untaken = *r;
    untaken.retries = 0;
    slice(c, &untaken, r->lead_row, r->lead_reps);
    for (size_t i = 0; i < r->count; i++) the_board->samples[i] = slice(c, r, r->rows[i], r->reps[i]);
}

/* --- a last look at the results ------------------------------------------------------------------- */

typedef struct answer {
    void **outputs; /* by spot */
    char result[8];
} answer;

/* One call on entry 0 of place 0 with these inputs. */
static answer answer_of(course *c, size_t row, tb_fn fn, void *const *inputs, bool magnitudes) {
    const size_t packed = the_job->row_groups[row];
    answer made = {.outputs = spots_made(c, is_output)};
    place *p = place_at(c, 0);
    the_board->row = row;
    the_board->heartbeat++;
    p->tables[packed].prepared = false;
    inputs_laid(c, p, inputs, 0, false);
    for (size_t s = 0; s < spot_count; s++) {
        if (spot_used(c, s) && spot_kind(s) == OUT) memset(spot_address(p, s, 0), 0xc3, spot_bytes(c, s));
        if (magnitudes && inputs[s])
            element_clear_signs(spot_element(s), spot_address(p, s, 0), spot_extent(c, s)->elements);
    }
    state_reset();
    void *const *entries = entries_for(c, 0, row);
    the_board->phase = PHASE_CALL;
    the_job->driver->call(fn, entries, magnitudes ? c->call->magnitudes : c->call->scalars, made.result);
    for (size_t s = 0; s < spot_count; s++)
        if (made.outputs[s]) memcpy(made.outputs[s], spot_address(p, s, 0), spot_bytes(c, s));
    return made;
}

/* A limit of -2 is the return value itself. */
static size_t compared_elements(const extent *x, const answer *want) {
    const double returned = element_value(the_job->result, want->result, 0);
    const int64_t limit = x->valid[0] == -2 ? (int64_t)returned : x->valid[0];
    return limit >= 0 && (size_t)limit < x->elements ? (size_t)limit : x->elements;
}

static bool answers_differ(const course *c, const answer *got, const answer *want, const answer *scale,
                           finding *f) {
    const comparison *rule = &the_job->compare;
    for (size_t s = 0; s < spot_count; s++) {
        if (!want->outputs[s]) continue;
        const element e = spot_element(s);
        const size_t count = compared_elements(spot_extent(c, s), want);
        int64_t bad = compare_elements(rule, e, got->outputs[s], want->outputs[s], scale->outputs[s], count);
        if (bad < 0) continue;
        *f = (finding){.fault = WRONG_ELEMENT, .element = bad};
        f->argument = (int)spot_argument(s, &f->part);
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
    course *c = course_at(r->workload);
    const tb_driver *d = the_job->driver;
    const tb_fn judge = d->oracle ? d->oracle : d->rows[0].fn;
    finding f = {.argument = -1};
    void **inputs = spots_made(c, is_input);
    inputs_filled(c, inputs, r->seed);
    answer scale = answer_of(c, 0, d->rows[0].fn, inputs, the_job->compare.scale == SCALE_ABS);
    answer want = answer_of(c, 0, judge, inputs, false);
    answer got = answer_of(c, r->rows[0], d->rows[r->rows[0]].fn, inputs, false);
    if (state_changed(&f) || answers_differ(c, &got, &want, &scale, &f)) the_board->finding = f;
    inputs_laid(c, place_at(c, 0), c->pristine, 0, false);
    packed_forgotten(place_at(c, 0));
    spots_dropped(inputs);
    spots_dropped(scale.outputs);
    spots_dropped(want.outputs);
    spots_dropped(got.outputs);
}

/* --- the child, and the server's side ------------------------------------------------------------- */

static void racer_body(void *context) {
    pin_to_race_core();
    courses_open(context, salt);
    clock_cost_ns = clock_cost();
    while (child_order()) {
        request *r = &the_board->request;
        the_board->row = r->what == RECHECK ? r->rows[0] : r->lead_row;
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
    if (child_ordered(&racer)) how = child_watch(&racer, j->timeout_ms);
    if (how == REPLIED && the_board->finding.fault == NO_FAULT) return true;
    finding f = how == REPLIED ? the_board->finding
                : racer.pid    ? child_finding(&racer, how)
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

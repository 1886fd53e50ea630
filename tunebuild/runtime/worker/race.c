/* The race: slices of many rows on the same buffers (course.h), in one long-lived child. */
#include "proof.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WARM_SHARE 100 /* one call in so many is made before the clock starts */
#define LOOK_SHARE 50  /* windows take so many times as long as looking at what they computed */
#define RECHECK_TURNS 4
#define RECHECK_NS 30000000u

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

static void restore(const course *c, place *p, size_t first, size_t count) {
    for (size_t i = 0; i < count; i++) inputs_laid(c, p, c->pristine, (first + i) % c->entries, true);
}

/* `reps` calls; their time. Where calls change their inputs they are made in runs over fresh copies, which
 * are restored between the runs, outside the clock. */
static uint64_t timed_calls(course *c, place *p, void *const *entries, tb_fn fn, uint64_t reps) {
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
    place *p = &c->places[place_number];
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

/* --- rounds --------------------------------------------------------------------------------------- */

/* Before the first answer a guess: two calls, and a nanosecond for each byte that is laid, compared and kept. */
static uint64_t answer_cost(const course *c) {
    if (c->answered == c->version) return 0;
    return c->answering_ns ? c->answering_ns : 2 * (c->reference_ns + c->set_bytes);
}

static bool affordable(const course *c, uint64_t cost_ns) {
    return c->timed_ns > 0 && c->spent_ns + cost_ns <= c->timed_ns / LOOK_SHARE;
}

/* All that the windows need lies ready before the lead-in. */
static void round_laid(course *c, const request *r, bool looking) {
    const uint64_t start = wall_clock_ns();
    const bool first = c->places[r->placement].version == 0;
    if (looking) answer_known(c, r->placement);
    const uint64_t answered = wall_clock_ns();
    entries_for(c, r->placement, r->lead_row);
    for (size_t i = 0; i < r->count; i++) entries_for(c, r->placement, r->rows[i]);
    const uint64_t end = wall_clock_ns();
    *(first ? &c->laying_ns : &c->spent_ns) += end - answered;
    c->spent_ns += answered - start;
}

/* What the last window computed, and one call more of its row; then, once all places have had the same data as often,
 * other data. */
static void round_looked_at(course *c, const request *r) {
    const uint64_t start = wall_clock_ns(), seed = c->call->seed + start;
    const uint32_t row = r->rows[r->count - 1];
    finding f = {.argument = -1};
    if (!window_proved(c, r->placement, &f) || !call_proved(c, r->placement, row, false, seed, &f)) {
        the_board->row = row;
        the_board->finding = f;
    }
    if (r->looks == LOOK_AND_ALTER && c->rounds_alike >= c->place_count &&
        affordable(c, c->laying_ns + c->answering_ns))
        inputs_altered(c, c->call->seed);
    c->spent_ns += wall_clock_ns() - start;
}

static void serve_round(request *r) {
    course *c = course_at(r->workload);
    r->placement = r->placement % c->place_count;
    const bool looking = r->looks != NO_LOOK && affordable(c, answer_cost(c));
    request untaken = *r;
    untaken.retries = 0;
    round_laid(c, r, looking);
    c->timed_ns += slice(c, &untaken, r->lead_row, r->lead_reps).wall_ns;
    for (size_t i = 0; i < r->count; i++) {
        if (looking && i + 1 == r->count) outputs_spoiled(c, r->placement, c->timed_ns);
        the_board->samples[i] = slice(c, r, r->rows[i], r->reps[i]);
        c->timed_ns += the_board->samples[i].wall_ns;
        if (r->rows[i] == 0) c->reference_ns = the_board->samples[i].wall_ns / r->reps[i];
    }
    c->rounds_alike++;
    if (looking) round_looked_at(c, r);
}

/* --- one row alone -------------------------------------------------------------------------------- */

/* The first call on new data, in place of what the race had; then on data that differ from the last in part, as far
 * as that is soon done. */
static bool still_right(course *c, uint32_t row, uint64_t seed, finding *f) {
    const uint64_t start = wall_clock_ns();
    inputs_renewed(c, seed);
    bool sound = call_proved(c, 0, row, true, seed, f);
    for (uint64_t turn = 0; sound && turn < RECHECK_TURNS; turn++) {
        sound = call_proved(c, 0, row, false, seed + turn, f);
        if (!sound || wall_clock_ns() - start > RECHECK_NS) break;
        inputs_altered(c, seed);
        sound = call_proved(c, 0, row, false, seed - turn, f);
    }
    return sound;
}

static void serve_recheck(const request *r) {
    course *c = course_at(r->workload);
    finding f = {.argument = -1};
    the_board->fresh = (pairs){0, 0};
    if (!still_right(c, r->rows[0], r->seed, &f)) the_board->finding = f;
    else if (r->lead_row != r->rows[0] && !c->call->copies)
        the_board->fresh = fresh_pairs(c, 0, r->rows[0], r->lead_row, r->gain_permille, r->seed);
}

static void serve_confirm(const request *r) {
    finding f = {.argument = -1};
    if (!call_proved(course_at(r->workload), 0, r->rows[0], true, 0, &f)) the_board->finding = f;
}

/* --- the child, and the server's side ------------------------------------------------------------- */

static void racer_body(void *context) {
    pin_to_race_core();
    courses_open(context, salt);
    clock_cost_ns = clock_cost();
    while (child_order()) {
        request *r = &the_board->request;
        the_board->row = r->what == ROUND ? r->lead_row : r->rows[0];
        if (r->what == RECHECK) serve_recheck(r);
        else if (r->what == CONFIRM) serve_confirm(r);
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

/* `round WORKLOAD PLACEMENT SHARE RETRIES LOOKS LEAD:REPS ROW:REPS...`: replies `round ok WALL:CPU:RERUNS...`, or
 * `round bad row=…` with a wrong element or result where a look at what was computed found one. */
void race_round(job *j, char *words) {
    request *r = &the_board->request;
    r->what = ROUND;
    r->workload = next_word(&words);
    r->placement = next_word(&words);
    r->cpu_share = words ? strtod(strsep(&words, " "), NULL) : 0;
    r->retries = (uint32_t)next_word(&words);
    r->looks = (looks)next_word(&words);
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

/* `recheck WORKLOAD ROW SEED OTHER GAIN`: calls on new data, compared with the reference, then single calls on data
 * never met, the row's and OTHER's (none where they are the same), over which it gained so many thousandths of the
 * time. Replies `recheck ok KEPT PAIRS`. */
void race_recheck(job *j, char *words) {
    request *r = &the_board->request;
    r->what = RECHECK;
    r->workload = next_word(&words);
    r->rows[0] = (uint32_t)next_word(&words);
    r->seed = next_word(&words);
    r->lead_row = next_word(&words);
    r->gain_permille = (uint32_t)next_word(&words);
    if (r->workload >= j->case_count || r->rows[0] >= j->driver->row_count ||
        r->lead_row >= j->driver->row_count) {
        refuse("a recheck of an unknown row");
        return;
    }
    fputs("recheck", replies);
    if (served(j)) fprintf(replies, " ok %u %u", the_board->fresh.kept, the_board->fresh.count);
    fputc('\n', replies);
}

/* `confirm CASE ROW`: one call, compared with the reference. */
void race_confirm(job *j, char *words) {
    request *r = &the_board->request;
    r->what = CONFIRM;
    r->workload = next_word(&words);
    r->rows[0] = (uint32_t)next_word(&words);
    if (r->workload >= j->case_count || r->rows[0] >= j->driver->row_count) {
        refuse("a call of an unknown row");
        return;
    }
    fputs("confirm", replies);
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

/* What rows compute after they were timed. See proof.h for the reasons. */
#include "proof.h"

#include <stdlib.h>
#include <string.h>

#define FRESH_PAIRS 24 /* two at most of so many are chance once in 50,000 where every second one would do */
#define FRESH_ENOUGH 3
#define FRESH_LIMIT_NS 100000000u /* of trying; fewer pairs say nothing */
#define SHORT_CALL_NS 500u
#define WARM_NS 20000u            /* wide registers power up, and the row's own code is in the caches */

/* --- answers -------------------------------------------------------------------------------------- */

static void answer_dropped(answer *a) {
    if (a->outputs) spots_dropped(a->outputs);
    *a = (answer){0};
}

/* One call on entry 0, on whatever lies in its inputs. */
static void called(course *c, size_t place_number, size_t row, tb_fn fn, bool magnitudes, char *result) {
    void *const *entries = entries_for(c, place_number, row);
    memset(result, 0, 8);
    the_board->row = row;
    the_board->heartbeat++;
    the_board->phase = PHASE_CALL;
    state_reset();
    the_job->driver->call(fn, entries, magnitudes ? c->call->magnitudes : c->call->scalars, result);
}

static answer answer_of(course *c, size_t place_number, tb_fn fn, bool magnitudes) {
    answer made = {.outputs = spots_made(c, is_output)};
    place *p = place_at(c, place_number);
    entries_for(c, place_number, 0); /* packs, where that was not done */
    inputs_laid(c, p, c->pristine, 0, false);
    for (size_t s = 0; magnitudes && s < spot_count; s++)
        if (c->pristine[s])
            element_clear_signs(spot_element(s), spot_address(p, s, 0), spot_extent(c, s)->elements);
    entry_packed(c, p, the_job->row_groups[0], 0);
    outputs_blank(c, p);
    called(c, place_number, 0, fn, magnitudes, made.result);
    for (size_t s = 0; s < spot_count; s++)
        if (made.outputs[s]) memcpy(made.outputs[s], spot_address(p, s, 0), spot_bytes(c, s));
    return made;
}

void answer_known(course *c, size_t place_number) {
    const tb_driver *d = the_job->driver;
    const uint64_t start = wall_clock_ns();
    if (c->answered == c->version) return;
    answer_dropped(&c->want);
    answer_dropped(&c->scale);
    if (the_job->compare.scale == SCALE_ABS) c->scale = answer_of(c, place_number, d->rows[0].fn, true);
    c->want = answer_of(c, place_number, d->oracle ? d->oracle : d->rows[0].fn, false);
    inputs_laid(c, &c->places[place_number], c->pristine, 0, true);
    outputs_blank(c, &c->places[place_number]);
    c->answered = c->version;
    c->answering_ns = wall_clock_ns() - start;
}

/* --- comparing ------------------------------------------------------------------------------------ */

/* A limit of -2 is the return value itself. */
static size_t compared_elements(const course *c, size_t spot) {
    const extent *x = spot_extent(c, spot);
    const double returned = element_value(the_job->result, c->want.result, 0);
    const int64_t limit = x->valid[0] == -2 ? (int64_t)returned : x->valid[0];
    return limit >= 0 && (size_t)limit < x->elements ? (size_t)limit : x->elements;
}

static bool spot_differs(const course *c, const place *p, size_t spot, finding *f) {
    const element e = spot_element(spot);
    const void *got = spot_address(p, spot, 0), *want = c->want.outputs[spot];
    const void *scale = c->scale.outputs ? c->scale.outputs[spot] : NULL;
    const int64_t bad =
        compare_elements(&the_job->compare, e, got, want, scale, compared_elements(c, spot));
    if (bad < 0) return false;
    *f = (finding){.fault = WRONG_ELEMENT, .element = bad};
    f->argument = (int)spot_argument(spot, &f->part);
    element_text(e, got, (size_t)bad, f->got, sizeof f->got);
    element_text(e, want, (size_t)bad, f->want, sizeof f->want);
    return true;
}

static bool result_differs(const course *c, const char *result, finding *f) {
    const element e = the_job->result;
    if (e == NO_ELEMENT ||
        compare_elements(&the_job->compare, e, result, c->want.result, c->scale.result, 1) < 0)
        return false;
    *f = (finding){.fault = WRONG_RESULT, .argument = -1};
    element_text(e, result, 0, f->got, sizeof f->got);
    element_text(e, c->want.result, 0, f->want, sizeof f->want);
    return true;
}

bool window_proved(const course *c, size_t place_number, finding *f) {
    const place *p = &c->places[place_number];
    for (size_t s = 0; !c->call->copies && s < spot_count; s++)
        if (c->want.outputs[s] && spot_kind(s) == OUT && spot_differs(c, p, s, f)) return false;
    return true;
}

/* --- one more call -------------------------------------------------------------------------------- */

void outputs_spoiled(const course *c, size_t place_number, uint64_t seed) {
    const place *p = &c->places[place_number];
    for (size_t s = 0; s < spot_count; s++) {
        if (!c->want.outputs[s] || spot_kind(s) != OUT) continue;
        spoil_element(spot_element(s), spot_address(p, s, 0), c->want.outputs[s], compared_elements(c, s),
                      mix_seed(seed, s));
    }
}

bool call_proved(course *c, size_t place_number, size_t row, bool blank, uint64_t seed, finding *f) {
    char result[8];
    answer_known(c, place_number);
    place *p = place_at(c, place_number);
    if (blank) outputs_blank(c, p);
    else outputs_spoiled(c, place_number, seed);
    inputs_laid(c, p, c->pristine, 0, true);
    called(c, place_number, row, the_job->driver->rows[row].fn, false, result);
    bool sound = !state_changed(f);
    for (size_t s = 0; sound && s < spot_count; s++)
        sound = !c->want.outputs[s] || !spot_differs(c, p, s, f);
    sound = sound && !result_differs(c, result, f);
    inputs_laid(c, p, c->pristine, 0, true);
    return sound;
}

/* --- on data never met ---------------------------------------------------------------------------- */

static uint64_t one_call_ns(course *c, size_t place_number, size_t row) {
    char result[8];
    void *const *entries = entries_for(c, place_number, row);
    inputs_laid(c, place_at(c, place_number), c->pristine, 0, true);
    state_reset();
    const uint64_t start = wall_clock_ns();
    the_job->driver->call(the_job->driver->rows[row].fn, entries, c->call->scalars, result);
    return wall_clock_ns() - start;
}

static void warmed(course *c, size_t place_number, size_t row) {
    uint64_t spent = 0;
    the_board->row = row;
    the_board->heartbeat++;
    for (int calls = 0; spent < WARM_NS && calls < 1000; calls++) spent += one_call_ns(c, place_number, row) + 1;
}

/* Where a reading of the clock is much of a call, any gain will do. */
static bool gain_kept(uint64_t own_ns, uint64_t others_ns, uint32_t gain_permille) {
    const uint64_t asked = others_ns < SHORT_CALL_NS ? 0 : gain_permille / 4;
    return own_ns * 1000 <= others_ns * (1000 - asked);
}

pairs fresh_pairs(course *c, size_t place_number, size_t row, size_t other, uint32_t gain_permille,
                  uint64_t seed) {
    pairs found = {0, 0};
    const uint64_t start = wall_clock_ns();
    the_board->phase = PHASE_CALL;
    while (found.count < FRESH_PAIRS && found.kept < FRESH_ENOUGH &&
           wall_clock_ns() - start < FRESH_LIMIT_NS) {
        const bool first = found.count % 2 == 0;
        warmed(c, place_number, first ? other : row);
        warmed(c, place_number, first ? row : other);
        inputs_altered(c, seed + found.count);
        place_at(c, place_number);
        entries_for(c, place_number, row);
        entries_for(c, place_number, other);
        const uint64_t a = one_call_ns(c, place_number, first ? row : other);
        const uint64_t b = one_call_ns(c, place_number, first ? other : row);
        const uint64_t own = first ? a : b, others = first ? b : a;
        found.kept += gain_kept(own, others, gain_permille);
        found.count++;
    }
    return found;
}

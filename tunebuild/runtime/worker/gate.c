/* The gate: every row against the reference body, on every case.
 *
 * One child runs the reference and leaves inputs and wanted outputs in the arena; then each row has a
 * child of its own, to which the arena is read-only. A case is called four times: flush left (after an
 * offset, between canaries) and flush right against a guard page, each twice at the same addresses with
 * other data, and once more on data it has just had, one element of what it made spoiled: a row that finds its
 * result there, or remembers it, and does nothing is wrong then. Of every other case the second data are the first
 * but for a stretch. */
#include "worker.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define CANARY_BYTES 256
#define CANARY_BYTE 0xd7
#define ARENA_LIMIT ((size_t)4 << 30)

/* Where one part's data lie in the arena, for one case and pass. */
typedef struct slot {
    size_t input, want, scale;
} slot;

/* One part as it lies for the call in progress. */
typedef struct spot {
    region memory;
    char *row, *harness;
    size_t bytes;
} spot;

typedef struct outcome_bits {
    char want[8], scale[8];
} outcome_bits;

typedef struct gate {
    job *job;
    size_t *first_spot; /* of each argument */
    size_t spot_count;
    spot *spots;
    slot *slots;           /* [case][pass][spot] */
    outcome_bits *results; /* [case][pass], at the start of the arena */
    char *arena;
    size_t arena_bytes;
    void **row_buffers, **prepare_buffers;
    size_t row;
} gate;

static gate g;

static size_t slot_index(size_t index, int pass, size_t spot_number) {
    return (index * PASSES + (size_t)pass) * g.spot_count + spot_number;
}

static bool has_input(kind k) { return k == IN || k == INOUT || k == SOURCE; }
static bool has_output(kind k) { return k == OUT || k == INOUT; }
static bool is_writable(kind k) { return k == OUT || k == INOUT || k == SCRATCH; }

/* --- laying out ---------------------------------------------------------------------------------- */

static size_t largest_bytes(const job *j, size_t argument_index) {
    const size_t width = element_bytes(j->arguments[argument_index].element);
    size_t largest = 0;
    for (size_t i = 0; i < j->case_count; i++)
        for (size_t group = 0; group < j->group_count; group++) {
            const call_case *c = &j->cases[i];
            size_t elements = extent_elements(j, c, group, argument_index);
            size_t bytes = (elements + c->extents[argument_index].offset) * width;
            if (bytes > largest) largest = bytes;
        }
    return largest + CANARY_BYTES;
}

static bool map_spots(job *j) {
    g.first_spot = calloc(j->argument_count + 1, sizeof *g.first_spot);
    for (size_t a = 0; a < j->argument_count; a++)
        g.first_spot[a + 1] = g.first_spot[a] + j->arguments[a].parts;
    g.spot_count = g.first_spot[j->argument_count];
    g.spots = calloc(g.spot_count + 1, sizeof *g.spots);
    for (size_t a = 0; a < j->argument_count; a++) {
        const size_t bytes = largest_bytes(j, a);
        for (size_t s = g.first_spot[a]; s < g.first_spot[a + 1]; s++)
            if (!region_map(&g.spots[s].memory, bytes, !is_writable(j->arguments[a].kind))) return false;
    }
    return true;
}

static size_t take_bytes(size_t *used, size_t bytes) {
    size_t at = *used;
    *used += (bytes + 63) / 64 * 64;
    return at;
}

static bool map_arena(job *j) {
    size_t used = 0;
    take_bytes(&used, j->case_count * PASSES * sizeof *g.results);
    g.slots = calloc(j->case_count * PASSES * g.spot_count + 1, sizeof *g.slots);
    for (size_t i = 0; i < j->case_count; i++)
        for (int pass = 0; pass < PASSES; pass++)
            for (size_t a = 0; a < j->argument_count; a++)
                for (size_t part = 0; part < j->cases[i].extents[a].parts; part++) {
                    const kind k = j->arguments[a].kind;
                    const size_t bytes =
                        j->cases[i].extents[a].elements * element_bytes(j->arguments[a].element);
                    slot *at = &g.slots[slot_index(i, pass, g.first_spot[a] + part)];
                    if (has_input(k)) at->input = take_bytes(&used, bytes);
                    if (has_output(k)) at->want = take_bytes(&used, bytes);
                    if (has_output(k) && j->compare.scale == SCALE_ABS) at->scale = take_bytes(&used, bytes);
                }
    if (used > ARENA_LIMIT) return false;
    g.arena_bytes = used;
    g.arena = shared_map(used);
    g.results = (outcome_bits *)g.arena;
    return g.arena != NULL;
}

static bool gate_open(job *j) {
    gate_close();
    g.job = j;
    g.row_buffers = calloc(j->argument_count + 1, sizeof *g.row_buffers);
    g.prepare_buffers = calloc(j->argument_count + 1, sizeof *g.prepare_buffers);
    return map_spots(j) && map_arena(j);
}

void gate_close(void) {
    for (size_t s = 0; g.spots && s < g.spot_count; s++) region_unmap(&g.spots[s].memory);
    if (g.arena) munmap(g.arena, g.arena_bytes);
    free(g.first_spot);
    free(g.spots);
    free(g.slots);
    free(g.row_buffers);
    free(g.prepare_buffers);
    g = (gate){0};
}

/* --- one call ------------------------------------------------------------------------------------ */

typedef struct call {
    size_t index; /* of the case */
    int pass;
    bool right;
    bool magnitudes; /* signs cleared: the scale of the results */
    bool again;      /* the same data as in the call before, and what it left */
    size_t row, group;
    tb_fn fn;
} call;

static void lay_canaries(const spot *s) {
    char *end = s->harness + s->bytes;
    size_t before = (size_t)(s->harness - s->memory.harness);
    size_t after = (size_t)(s->memory.harness + s->memory.bytes - end);
    if (before > CANARY_BYTES) before = CANARY_BYTES;
    if (after > CANARY_BYTES) after = CANARY_BYTES;
    memset(s->harness - before, CANARY_BYTE, before);
    memset(end, CANARY_BYTE, after);
}

static bool canaries_damaged(const spot *s, size_t width, finding *f) {
    const char *start = s->harness, *end = s->harness + s->bytes;
    for (const char *at = end; at < end + CANARY_BYTES && at < s->memory.harness + s->memory.bytes; at++)
        if ((unsigned char)*at != CANARY_BYTE) {
            f->side = PAST;
            f->element = (int64_t)((size_t)(at - start) / width);
            return true;
        }
    for (const char *at = start - 1; at >= start - CANARY_BYTES && at >= s->memory.harness; at--)
        if ((unsigned char)*at != CANARY_BYTE) {
            f->side = BEFORE;
            f->element = -(int64_t)((size_t)(start - at + (ptrdiff_t)width - 1) / width);
            return true;
        }
    return false;
}

static size_t compared_elements(const extent *x, int pass) {
    const int64_t limit = x->valid[pass];
    return limit >= 0 && (size_t)limit < x->elements ? (size_t)limit : x->elements;
}

static void set_spot(const call *c, size_t a, size_t part) {
    const job *j = g.job;
    const argument *arg = &j->arguments[a];
    const size_t number = g.first_spot[a] + part;
    spot *s = &g.spots[number];
    const size_t width = element_bytes(arg->element);
    const size_t elements = extent_elements(j, &j->cases[c->index], c->group, a);
    s->bytes = elements * width;
    const size_t start = c->right ? s->memory.bytes - s->bytes : j->cases[c->index].extents[a].offset * width;
    s->row = s->memory.row + start;
    s->harness = s->memory.harness + start;
    if (arg->kind == POINTERS) return;
    lay_canaries(s);
    if (has_input(arg->kind)) {
        memcpy(s->harness, g.arena + g.slots[slot_index(c->index, c->pass, number)].input, s->bytes);
        if (c->magnitudes) element_clear_signs(arg->element, s->harness, elements);
    } else if (!c->again) {
        memset(s->harness, arg->kind == OUT ? OUT_BYTE : c->pass ? 0xff : 0x5a, s->bytes);
    } else if (arg->kind == OUT) {
        spoil_element(arg->element, s->harness, g.arena + g.slots[slot_index(c->index, c->pass, number)].want,
                      compared_elements(&j->cases[c->index].extents[a], c->pass),
                      mix_seed(c->index, number));
    }
}

/* `prepare` may write inputs, so it gets the harness's view of them; the row gets its own. */
static void point(size_t a, const call_case *c, bool harness_inputs) {
    const argument *arg = &g.job->arguments[a];
    void **addresses = (void **)g.spots[g.first_spot[a]].harness;
    for (size_t i = 0; i < arg->pointed_count; i++) {
        const size_t to = arg->pointed[i];
        const bool harness = harness_inputs && has_input(g.job->arguments[to].kind);
        for (size_t part = 0; part < c->extents[to].parts; part++) {
            const spot *s = &g.spots[g.first_spot[to] + part];
            void *address = harness ? s->harness : s->row;
            memcpy(addresses++, &address, sizeof address);
        }
    }
}

static void point_all(const call *c, bool harness_inputs) {
    for (size_t a = 0; a < g.job->argument_count; a++)
        if (g.job->arguments[a].kind == POINTERS) point(a, &g.job->cases[c->index], harness_inputs);
}

static void set_up(const call *c) {
    const job *j = g.job;
    const call_case *k = &j->cases[c->index];
    the_board->phase = PHASE_SETUP;
    the_board->case_index = (int)c->index;
    the_board->pass = c->again ? PASSES : c->pass;
    the_board->flush_right = c->right;
    the_board->heartbeat++;
    for (size_t a = 0; a < j->argument_count; a++) {
        for (size_t part = 0; part < k->extents[a].parts; part++) set_spot(c, a, part);
        const spot *first = &g.spots[g.first_spot[a]];
        g.row_buffers[a] = first->row;
        g.prepare_buffers[a] = has_input(j->arguments[a].kind) ? first->harness : first->row;
    }
    state_reset();
}

/* --- judging ------------------------------------------------------------------------------------- */

static bool memory_damaged(const call *c, finding *f) {
    const job *j = g.job;
    for (size_t a = 0; a < j->argument_count; a++) {
        if (!is_writable(j->arguments[a].kind)) continue;
        for (size_t part = 0; part < j->cases[c->index].extents[a].parts; part++)
            if (canaries_damaged(&g.spots[g.first_spot[a] + part], element_bytes(j->arguments[a].element),
                                 f)) {
                f->fault = CANARY;
                f->argument = (int)a;
                f->part = part;
                return true;
            }
    }
    return false;
}

static bool element_wrong(const call *c, size_t a, size_t part, finding *f) {
    const job *j = g.job;
    const element e = j->arguments[a].element;
    const extent *x = &j->cases[c->index].extents[a];
    const size_t number = g.first_spot[a] + part;
    const slot *at = &g.slots[slot_index(c->index, c->pass, number)];
    const size_t count = compared_elements(x, c->pass);
    const char *got = g.spots[number].harness, *want = g.arena + at->want;
    int64_t bad = compare_elements(&j->compare, e, got, want, g.arena + at->scale, count);
    if (bad < 0) return false;
    *f = (finding){.fault = WRONG_ELEMENT, .argument = (int)a, .part = part, .element = bad};
    element_text(e, got, (size_t)bad, f->got, sizeof f->got);
    element_text(e, want, (size_t)bad, f->want, sizeof f->want);
    return true;
}

static bool outcome_wrong(const call *c, const void *result, finding *f) {
    const job *j = g.job;
    for (size_t a = 0; a < j->argument_count; a++)
        for (size_t part = 0; has_output(j->arguments[a].kind) && part < j->cases[c->index].extents[a].parts;
             part++)
            if (element_wrong(c, a, part, f)) return true;
    const outcome_bits *wanted = &g.results[c->index * PASSES + (size_t)c->pass];
    if (j->result == NO_ELEMENT ||
        compare_elements(&j->compare, j->result, result, wanted->want, wanted->scale, 1) < 0)
        return false;
    *f = (finding){.fault = WRONG_RESULT, .argument = -1};
    element_text(j->result, result, 0, f->got, sizeof f->got);
    element_text(j->result, wanted->want, 0, f->want, sizeof f->want);
    return true;
}

static bool prepare_fails(const call *c, const tb_scalar *scalars, finding *f) {
    const job *j = g.job;
    if (!j->driver->prepare) return false;
    point_all(c, true);
    the_board->phase = PHASE_PREPARE;
    j->driver->prepare(c->row, g.prepare_buffers, scalars);
    return state_changed(f) || memory_damaged(c, f);
}

/* What a race did before it found a row wrong: calls on the same data, whose results nobody asks for. */
static void call_before(const call *c, const call_case *k, void *result) {
    for (size_t i = 0; c->row && i < k->calls; i++) {
        the_board->heartbeat++;
        g.job->driver->call(c->fn, g.row_buffers, k->scalars, result);
        for (size_t a = 0; a < g.job->argument_count; a++)
            for (size_t part = 0; g.job->arguments[a].kind == INOUT && part < k->extents[a].parts; part++)
                set_spot(c, a, part);
    }
}

static bool call_fails(const call *c, bool judge_outcome, void *result) {
    const call_case *k = &g.job->cases[c->index];
    const tb_scalar *scalars = c->magnitudes ? k->magnitudes : k->scalars;
    finding f = {.argument = -1};
    set_up(c);
    bool failed = prepare_fails(c, scalars, &f);
    if (!failed) {
        point_all(c, false);
        memset(result, 0, 8);
        the_board->phase = PHASE_CALL;
        call_before(c, k, result);
        g.job->driver->call(c->fn, g.row_buffers, scalars, result);
        failed =
            state_changed(&f) || memory_damaged(c, &f) || (judge_outcome && outcome_wrong(c, result, &f));
    }
    if (failed) the_board->finding = f;
    return failed;
}

/* --- the reference's child ----------------------------------------------------------------------- */

/* The first data but for a stretch, so that a row which knows its data by some elements mistakes them. */
static void make_alike(size_t index, element e, size_t spot_number, const extent *x) {
    const size_t bytes = element_bytes(e), length = (x->elements + 1) / 2;
    const uint64_t seed = mix_seed(g.job->cases[index].seed, spot_number);
    char *second = g.arena + g.slots[slot_index(index, 1, spot_number)].input;
    memcpy(second, g.arena + g.slots[slot_index(index, 0, spot_number)].input, x->elements * bytes);
    fill_buffer(x->fill, e, second + seed % (x->elements - length + 1) * bytes, length, seed);
}

static void make_inputs(size_t index, int pass) {
    const job *j = g.job;
    the_board->phase = PHASE_FILL;
    the_board->case_index = (int)index;
    for (size_t a = 0; a < j->argument_count; a++) {
        const extent *x = &j->cases[index].extents[a];
        for (size_t part = 0; has_input(j->arguments[a].kind) && part < x->parts; part++) {
            const uint64_t seed = mix_seed(j->cases[index].seed * PASSES + (uint64_t)pass, a << 16 | part);
            const size_t number = g.first_spot[a] + part;
            if (pass && j->cases[index].seed % 2 && !x->fill.support)
                make_alike(index, j->arguments[a].element, number, x);
            else
                fill_buffer(x->fill, j->arguments[a].element,
                            g.arena + g.slots[slot_index(index, pass, number)].input, x->elements, seed);
        }
    }
}

static void keep_outcome(const call *c, const void *result) {
    const job *j = g.job;
    outcome_bits *wanted = &g.results[c->index * PASSES + (size_t)c->pass];
    memcpy(c->magnitudes ? wanted->scale : wanted->want, result, 8);
    for (size_t a = 0; a < j->argument_count; a++)
        for (size_t part = 0; has_output(j->arguments[a].kind) && part < j->cases[c->index].extents[a].parts;
             part++) {
            const size_t number = g.first_spot[a] + part;
            const slot *at = &g.slots[slot_index(c->index, c->pass, number)];
            memcpy(g.arena + (c->magnitudes ? at->scale : at->want), g.spots[number].harness,
                   g.spots[number].bytes);
        }
}

/* Flush right on the first pass and left on the second: the reference meets the guards as well. */
static bool reference_fails(size_t index, int pass) {
    char result[8];
    const tb_driver *d = g.job->driver;
    call c = {
        .index = index, .pass = pass, .right = pass == 0, .group = g.job->row_groups[0], .fn = d->rows[0].fn};
    if (g.job->compare.scale == SCALE_ABS) {
        c.magnitudes = true;
        if (call_fails(&c, false, result)) return true;
        keep_outcome(&c, result);
        c.magnitudes = false;
    }
    if (d->oracle) {
        c.fn = d->oracle;
        if (call_fails(&c, false, result)) return true;
        keep_outcome(&c, result);
        c.fn = d->rows[0].fn;
        return call_fails(&c, true, result);
    }
    if (call_fails(&c, false, result)) return true;
    keep_outcome(&c, result);
    return false;
}

static void reference_body(void *context) {
    (void)context;
    for (size_t i = 0; i < g.job->case_count; i++)
        for (int pass = 0; pass < PASSES; pass++) {
            make_inputs(i, pass);
            if (reference_fails(i, pass)) return;
        }
    child_finished();
}

/* --- a row's child ------------------------------------------------------------------------------- */

static void row_body(void *context) {
    (void)context;
    char result[8];
    mprotect(g.arena, g.arena_bytes, PROT_READ);
    call c = {.row = g.row, .group = g.job->row_groups[g.row], .fn = g.job->driver->rows[g.row].fn};
    for (c.index = 0; c.index < g.job->case_count; c.index++)
        for (int placement = LEFT; placement <= RIGHT; placement++)
            for (c.pass = 0; c.pass < PASSES; c.pass++) {
                if (!(g.job->cases[c.index].placements & placement)) continue;
                c.right = placement == RIGHT;
                c.again = false;
                if (call_fails(&c, true, result)) return;
                c.again = true;
                if (c.pass && (!c.right || g.job->cases[c.index].placements == RIGHT) &&
                    call_fails(&c, true, result))
                    return;
            }
    child_finished();
}

static bool locate_spot(uintptr_t address, finding *f) {
    for (size_t a = 0; a < g.job->argument_count; a++)
        for (size_t number = g.first_spot[a]; number < g.first_spot[a + 1]; number++) {
            const spot *s = &g.spots[number];
            const uintptr_t starts[] = {(uintptr_t)s->row, (uintptr_t)s->harness};
            const uintptr_t views[] = {(uintptr_t)s->memory.row, (uintptr_t)s->memory.harness};
            for (int v = 0; v < 2; v++) {
                if (address < views[v] - GUARD_BYTES || address >= views[v] + s->memory.bytes + GUARD_BYTES)
                    continue;
                const int64_t bytes = (int64_t)(address - starts[v]);
                const int64_t width = (int64_t)element_bytes(g.job->arguments[a].element);
                f->argument = (int)a;
                f->part = number - g.first_spot[a];
                f->element = bytes >= 0 ? bytes / width : -((-bytes + width - 1) / width);
                f->side = bytes < 0 ? BEFORE : bytes < (int64_t)s->bytes ? INSIDE : PAST;
                return true;
            }
        }
    return false;
}

/* --- the server's side --------------------------------------------------------------------------- */

static bool run_child(const char *what, void (*body)(void *)) {
    child c;
    fputs(what, replies);
    child_start(&c, body, NULL, locate_spot);
    if (!c.pid) {
        finding f = {.fault = OUT_OF_MEMORY, .argument = -1};
        fputs(" bad", replies);
        report_finding(g.job, &f, &c);
        return false;
    }
    event how = child_watch(&c, g.job->timeout_ms);
    finding f = child_finding(&c, how);
    fputs(f.fault == NO_FAULT ? " ok" : " bad", replies);
    if (f.fault != NO_FAULT) report_finding(g.job, &f, &c);
    return f.fault == NO_FAULT;
}

/* Replies `reference ok RETURN...` (one a case and pass), or `reference bad …`. */
void gate_reference(job *j) {
    if (!gate_open(j)) {
        fputs("reference bad fault=memory\n", replies);
        gate_close();
        return;
    }
    if (run_child("reference", reference_body) && j->result != NO_ELEMENT)
        for (size_t i = 0; i < j->case_count * PASSES; i++) {
            char text[40];
            element_text(j->result, g.results[i].want, 0, text, sizeof text);
            fprintf(replies, " %s", text);
        }
    fputc('\n', replies);
}

void gate_row(job *j, size_t row) {
    char what[40];
    if (!g.job || row >= j->driver->row_count) {
        refuse("row %zu before the reference", row);
        return;
    }
    g.row = row;
    snprintf(what, sizeof what, "row %zu", row);
    run_child(what, row_body);
    fputc('\n', replies);
}

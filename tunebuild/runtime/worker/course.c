/* Courses: where the buffers of a race lie, and what is in them. See course.h for the words. */
#include "course.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PLACES_BYTES ((size_t)256 << 20) /* places are fewer where they would take more */
#define ALIGNMENT ((size_t)1 << 20)
#define STAGGER (4096 + 64) /* between streams: neither one page offset nor one line */
#define PLACE_STEP (9 * 64)
#define SALT_STEP (3 * 64)
#define SMALL_BYTES ((size_t)16 << 10)   /* half of the usual first cache */
#define MEDIUM_BYTES ((size_t)128 << 10) /* half of the smallest usual second cache */
#define FRESH_CALLS 256

typedef struct area {
    char *start, *first_page;
    size_t stride, copies, bytes, page_bytes;
    size_t spot;
} area;

typedef struct spot_name {
    size_t argument, part;
} spot_name;

job *the_job;
size_t spot_count;

static spot_name *names;
static size_t *first_spot;
static course *courses;
static area *areas; /* number 0 is none */
static size_t area_count, area_room;
static unsigned the_salt;

static void *must(void *made) {
    if (made) return made;
    the_board->finding = (finding){.fault = OUT_OF_MEMORY, .argument = -1};
    _exit(201);
}

static void *room_for(size_t count, size_t bytes) { return must(calloc(count + 1, bytes)); }

/* --- spots ---------------------------------------------------------------------------------------- */

bool is_input(kind k) { return k == IN || k == INOUT || k == SOURCE; }
bool is_output(kind k) { return k == OUT || k == INOUT; }

kind spot_kind(size_t spot) { return the_job->arguments[names[spot].argument].kind; }
element spot_element(size_t spot) { return the_job->arguments[names[spot].argument].element; }
extent *spot_extent(const course *c, size_t spot) { return &c->call->extents[names[spot].argument]; }
bool spot_used(const course *c, size_t spot) { return names[spot].part < spot_extent(c, spot)->parts; }

size_t spot_bytes(const course *c, size_t spot) {
    return spot_extent(c, spot)->elements * element_bytes(spot_element(spot));
}

size_t spot_argument(size_t spot, size_t *part) {
    *part = names[spot].part;
    return names[spot].argument;
}

static void *address_in(size_t number, size_t entry) {
    const area *a = &areas[number];
    return a->start + entry % a->copies * a->stride;
}

void *spot_address(const place *p, size_t spot, size_t entry) { return address_in(p->areas[spot], entry); }

void **spots_made(const course *c, bool of_kind(kind)) {
    void **made = room_for(spot_count, sizeof *made);
    for (size_t s = 0; s < spot_count; s++)
        if (of_kind(spot_kind(s)) && spot_used(c, s)) made[s] = must(malloc(spot_bytes(c, s) + 64));
    return made;
}

void spots_dropped(void **spots) {
    for (size_t s = 0; s < spot_count; s++) free(spots[s]);
    free(spots);
}

void inputs_filled(const course *c, void **inputs, uint64_t seed) {
    the_board->phase = PHASE_FILL;
    for (size_t s = 0; s < spot_count; s++)
        if (inputs[s])
            fill_buffer(spot_extent(c, s)->fill, spot_element(s), inputs[s], spot_extent(c, s)->elements,
                        mix_seed(seed, names[s].argument << 16 | names[s].part));
}

/* --- areas ---------------------------------------------------------------------------------------- */

static bool copied(const course *c, kind k) {
    if (k == SOURCE || k == POINTERS) return false;
    return c->call->copies > 0 || k == INOUT;
}

/* One spot's copies side by side, a line apart, forbidden ranges on both sides. */
static size_t area_made(const course *c, size_t spot, size_t elements, size_t place_number) {
    const size_t page = page_bytes();
    const size_t bytes = elements * element_bytes(spot_element(spot));
    const size_t stride = (bytes + 63) / 64 * 64 + 64;
    const size_t copies = copied(c, spot_kind(spot)) ? c->entries : 1;
    const size_t shift = spot * STAGGER + place_number * (spot + 1) * PLACE_STEP + the_salt % 64 * SALT_STEP;
    const size_t reserved = copies * stride + shift + ALIGNMENT + 2 * GUARD_BYTES;
    char *base = mmap(NULL, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) must(NULL);
    const size_t slack = ALIGNMENT - ((uintptr_t)base + GUARD_BYTES) % ALIGNMENT;
    char *start = base + GUARD_BYTES + slack % ALIGNMENT + shift;
    char *first_page = start - (uintptr_t)start % page;
    const size_t span = (size_t)(start - first_page) + copies * stride;
    if (mprotect(first_page, span, PROT_READ | PROT_WRITE)) must(NULL);
    if (area_count == area_room) {
        area_room = area_room ? 2 * area_room : 64;
        areas = must(realloc(areas, area_room * sizeof *areas));
        if (area_count == 0) areas[area_count++] = (area){0};
    }
    areas[area_count] = (area){start, first_page, stride, copies, bytes, span, spot};
    if (!is_input(spot_kind(spot))) /* touched, so that no timed call meets a page for the first time */
        memset(start, spot_kind(spot) == OUT ? OUT_BYTE : 0, copies * stride);
    return area_count++;
}

static void protect(const place *p, int access) {
    for (size_t s = 0; s < spot_count; s++) {
        const area *a = &areas[p->areas[s]];
        if (p->areas[s] && spot_kind(s) == IN && mprotect(a->first_page, a->page_bytes, access)) must(NULL);
    }
}

void place_opened(place *p) {
    if (p->sealed) protect(p, PROT_READ | PROT_WRITE);
    p->sealed = false;
}

/* A row that writes to an input is stopped at once, and costs the others nothing. */
static void place_sealed(place *p) {
    if (!p->sealed) protect(p, PROT_READ);
    p->sealed = true;
}

bool locate_area(uintptr_t address, finding *f) {
    for (size_t i = 1; i < area_count; i++) {
        const area *a = &areas[i];
        const uintptr_t start = (uintptr_t)a->start, end = start + a->copies * a->stride;
        if (address < start - GUARD_BYTES || address >= end + GUARD_BYTES) continue;
        const int64_t width = (int64_t)element_bytes(spot_element(a->spot));
        const int64_t within = (int64_t)(address - start);
        const int64_t past = within - (int64_t)((a->copies - 1) * a->stride);
        f->argument = (int)names[a->spot].argument;
        f->part = names[a->spot].part;
        f->side = within < 0 ? BEFORE : past >= (int64_t)a->bytes ? PAST : INSIDE;
        f->element =
            within < 0 ? -((-within + width - 1) / width) : (f->side == PAST ? past : within) / width;
        return true;
    }
    return false;
}

/* --- courses and places --------------------------------------------------------------------------- */

void courses_open(job *j, unsigned salt) {
    the_job = j;
    the_salt = salt;
    first_spot = room_for(j->argument_count, sizeof *first_spot);
    for (size_t a = 0; a < j->argument_count; a++) first_spot[a + 1] = first_spot[a] + j->arguments[a].parts;
    spot_count = first_spot[j->argument_count];
    names = room_for(spot_count, sizeof *names);
    for (size_t a = 0; a < j->argument_count; a++)
        for (size_t s = first_spot[a]; s < first_spot[a + 1]; s++)
            names[s] = (spot_name){a, s - first_spot[a]};
    courses = room_for(j->case_count, sizeof *courses);
}

/* Copies of a hot workload's `inout` buffers: as many as leave the data in the cache that one set fits. */
static size_t fresh_entries(size_t changed, size_t total) {
    const size_t room = total <= SMALL_BYTES ? SMALL_BYTES : total <= MEDIUM_BYTES ? MEDIUM_BYTES : 0;
    const size_t entries = (room > total ? room - total : 0) / (changed ? changed : 1) + 1;
    return entries > FRESH_CALLS ? FRESH_CALLS : entries;
}

static size_t largest_elements(const call_case *call, size_t argument) {
    size_t largest = 0;
    for (size_t g = 0; g < the_job->group_count; g++) {
        const size_t elements = extent_elements(the_job, call, g, argument);
        if (elements > largest) largest = elements;
    }
    return largest;
}

static void course_open(course *c, call_case *call) {
    size_t changed = 0, total = 0;
    c->call = call;
    for (size_t s = 0; s < spot_count; s++) {
        if (!spot_used(c, s)) continue;
        const size_t bytes = largest_elements(call, names[s].argument) * element_bytes(spot_element(s));
        total += bytes;
        if (spot_kind(s) == INOUT) changed += bytes;
        c->fresh |= spot_kind(s) == INOUT;
    }
    c->set_bytes = total;
    c->entries = call->copies ? call->copies : c->fresh ? fresh_entries(changed, total) : 1;
    c->place_count = call->copies ? 1 : PLACES_BYTES / (total ? total : 1);
    if (c->place_count > PLACES) c->place_count = PLACES;
    if (c->place_count < 1) c->place_count = 1;
    c->pristine = spots_made(c, is_input);
    inputs_filled(c, c->pristine, call->seed);
    c->version = 1;
}

course *course_at(size_t workload) {
    course *c = &courses[workload];
    if (!c->call) course_open(c, &the_job->cases[workload]);
    return c;
}

void inputs_laid(const course *c, place *p, void *const *inputs, size_t entry, bool changed_only) {
    if (!changed_only) place_opened(p);
    for (size_t s = 0; s < spot_count; s++) {
        if (!inputs[s] || (changed_only && spot_kind(s) != INOUT)) continue;
        if (entry < areas[p->areas[s]].copies) memcpy(spot_address(p, s, entry), inputs[s], spot_bytes(c, s));
    }
}

void inputs_renewed(course *c, uint64_t seed) {
    inputs_filled(c, c->pristine, seed);
    c->version++;
    c->rounds_alike = 0;
}

/* A stretch of each input is replaced, long or short by turns: a row that knows its data again by some of the
 * elements mistakes the new for the old. */
void inputs_altered(course *c, uint64_t seed) {
    static const unsigned shares[] = {1, 3, 1, 6}; /* binary logarithms of the parts */
    the_board->phase = PHASE_FILL;
    for (size_t s = 0; s < spot_count; s++) {
        if (!c->pristine[s]) continue;
        const extent *x = spot_extent(c, s);
        const uint64_t own = mix_seed(seed + c->version, names[s].argument << 16 | names[s].part);
        const bool whole = x->fill.support || x->elements < 2;
        const size_t part = x->elements >> shares[c->version % 4];
        const size_t length = whole ? x->elements : part ? part : 1;
        const size_t first = whole ? 0 : own % (x->elements - length + 1);
        fill_buffer(x->fill, spot_element(s),
                    (char *)c->pristine[s] + first * element_bytes(spot_element(s)), length, own);
    }
    c->version++;
    c->rounds_alike = 0;
}

void outputs_blank(const course *c, place *p) {
    for (size_t s = 0; s < spot_count; s++)
        if (spot_used(c, s) && spot_kind(s) == OUT)
            memset(spot_address(p, s, 0), OUT_BYTE, spot_bytes(c, s));
}

/* The course's inputs at a place. Later versions of a cold workload lie in its first entry alone, which is the
 * one that is looked at: the rest would be as much memory as outgrows the caches. */
static void place_laid(course *c, place *p) {
    const bool again = p->version > 0;
    const size_t count = again && c->call->copies ? 1 : c->entries;
    for (size_t entry = 0; entry < count; entry++) {
        the_board->heartbeat++;
        inputs_laid(c, p, c->pristine, entry, false);
    }
    p->version = c->version;
    if (!again) return;
    outputs_blank(c, p);
    for (size_t g = 0; g < the_job->group_count; g++)
        if (c->call->copies) entry_packed(c, p, g, 0);
        else p->tables[g].prepared = false;
}

static void place_made(const course *c, place *p, size_t number) {
    p->areas = room_for(spot_count, sizeof *p->areas);
    p->tables = room_for(the_job->group_count, sizeof *p->tables);
    for (size_t s = 0; s < spot_count; s++)
        if (spot_used(c, s) && spot_kind(s) != SCRATCH && spot_kind(s) != POINTERS)
            p->areas[s] = area_made(c, s, spot_extent(c, s)->elements, number);
}

place *place_at(course *c, size_t number) {
    place *p = &c->places[number];
    if (!p->areas) place_made(c, p, number);
    if (p->version != c->version) place_laid(c, p);
    return p;
}

/* --- entries -------------------------------------------------------------------------------------- */

size_t entry_width(void) { return the_job->argument_count ? the_job->argument_count : 1; }

/* The array that a POINTERS argument stands for; every entry has its own. */
static void *addresses_of(const course *c, void *const *spots, const argument *pointers) {
    size_t count = 0;
    for (size_t i = 0; i < pointers->pointed_count; i++)
        count += c->call->extents[pointers->pointed[i]].parts;
    void **array = room_for(count, sizeof *array), **at = array;
    for (size_t i = 0; i < pointers->pointed_count; i++)
        for (size_t part = 0; part < c->call->extents[pointers->pointed[i]].parts; part++)
            *at++ = spots[first_spot[pointers->pointed[i]] + part];
    return array;
}

static void table_build(table *t, const course *c, const place *p, size_t place_number, size_t group) {
    const size_t width = entry_width();
    size_t *numbers = room_for(spot_count, sizeof *numbers);
    void **spots = room_for(spot_count, sizeof *spots);
    for (size_t s = 0; s < spot_count; s++) {
        numbers[s] = p->areas[s];
        if (spot_kind(s) == SCRATCH && spot_used(c, s))
            numbers[s] =
                area_made(c, s, extent_elements(the_job, c->call, group, names[s].argument), place_number);
    }
    t->entries = room_for(2 * c->entries * width, sizeof *t->entries);
    for (size_t entry = 0; entry < c->entries; entry++) {
        for (size_t s = 0; s < spot_count; s++) spots[s] = numbers[s] ? address_in(numbers[s], entry) : NULL;
        for (size_t a = 0; a < the_job->argument_count; a++) {
            const argument *arg = &the_job->arguments[a];
            void **pointer = &t->entries[entry * width + a];
            *pointer = arg->kind == POINTERS ? addresses_of(c, spots, arg) : spots[first_spot[a]];
        }
    }
    memcpy(t->entries + c->entries * width, t->entries, c->entries * width * sizeof *t->entries);
    free(numbers);
    free(spots);
}

/* `prepare` may write inputs, which are read-only for rows alone. */
static void pack_entry(const course *c, place *p, size_t row, size_t entry) {
    place_opened(p);
    the_board->row = row;
    the_board->heartbeat++;
    the_board->phase = PHASE_PREPARE;
    the_job->driver->prepare(row, p->tables[the_job->row_groups[row]].entries + entry * entry_width(),
                             c->call->scalars);
}

void *const *entries_for(course *c, size_t place_number, size_t row) {
    const size_t group = the_job->row_groups[row];
    place *p = place_at(c, place_number);
    table *t = &p->tables[group];
    if (!t->entries) table_build(t, c, p, place_number, group);
    if (!t->prepared && the_job->driver->prepare) {
        const size_t apart = c->call->copies ? c->entries : 1; /* hot entries share their packed buffers */
        for (size_t entry = 0; entry < apart; entry++) pack_entry(c, p, row, entry);
        t->packer = row;
    }
    t->prepared = true;
    place_sealed(p);
    return t->entries;
}

void entry_packed(const course *c, place *p, size_t group, size_t entry) {
    const table *t = &p->tables[group];
    if (t->prepared && the_job->driver->prepare) pack_entry(c, p, t->packer, entry);
}

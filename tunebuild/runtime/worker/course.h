/* The buffers of a race, in its child.
 *
 * A *course* is one workload. A *place* is one set of its buffers; a micro-round uses one place for all its
 * rows, and places differ in their offsets and physical pages. Inside a place every row shares the buffers,
 * and every group of rows the packed ones. An *entry* is one call's pointers: a hot workload has one (or a
 * few, where calls change their `inout` buffers, so that each starts from fresh data), a cold one as many as
 * outgrow the caches. A *spot* is one part of one argument. */
#ifndef TB_COURSE_H
#define TB_COURSE_H
#include "worker.h"

#define PLACES 8

typedef struct table {
    void **entries; /* [2 * copies][entry_width()]: doubled, so that a walk may begin anywhere */
    bool prepared;
    size_t packer; /* the row that prepared it */
} table;

typedef struct place {
    size_t *areas;    /* by spot; 0: none, as scratch is per group */
    table *tables;    /* by group */
    uint32_t version; /* of the inputs that lie here; 0: none do */
    bool sealed;      /* the `in` buffers are read-only */
} place;

/* What a call computes. */
typedef struct answer {
    void **outputs; /* by spot; NULL: not known */
    char result[8];
} answer;

typedef struct course {
    call_case *call;
    size_t entries, cursor, place_count;
    bool fresh;       /* calls change their inputs */
    void **pristine;  /* inputs by spot */
    uint32_t version; /* of them, from 1 */
    answer want, scale;
    uint32_t answered;           /* the version that `want` belongs to */
    size_t rounds_alike;         /* served since the inputs last changed */
    uint64_t timed_ns, spent_ns; /* in windows, and in looking at what they computed */
    uint64_t laying_ns;          /* what it took to lay the first inputs everywhere */
    uint64_t answering_ns;       /* the last time */
    uint64_t set_bytes;          /* of all buffers of a call */
    uint64_t reference_ns;       /* a call of it, in its last window */
    place places[PLACES];
} course;

extern job *the_job; /* what this child races */
extern size_t spot_count;

void courses_open(job *j, unsigned salt); /* once in the child; `salt` moves every buffer */
course *course_at(size_t workload);
place *place_at(course *c, size_t number);

/* The entries of a row at a place, its packed buffers filled; all of it untimed. */
void *const *entries_for(course *c, size_t place_number, size_t row);
size_t entry_width(void);
void entry_packed(const course *c, place *p, size_t group, size_t entry); /* `prepare` once more, where it has been */
void place_opened(place *p);                                /* until the next `entries_for`, inputs can be written */
void outputs_blank(const course *c, place *p);              /* entry 0's `out` buffers hold the pattern again */

kind spot_kind(size_t spot);
bool spot_used(const course *c, size_t spot);
extent *spot_extent(const course *c, size_t spot);
element spot_element(size_t spot);
size_t spot_argument(size_t spot, size_t *part);
size_t spot_bytes(const course *c, size_t spot);
void *spot_address(const place *p, size_t spot, size_t entry);

bool is_input(kind k);
bool is_output(kind k);

/* Buffers by spot, those of one kind; NULL elsewhere. */
void **spots_made(const course *c, bool of_kind(kind));
void spots_dropped(void **spots);
void inputs_filled(const course *c, void **inputs, uint64_t seed);
void inputs_laid(const course *c, place *p, void *const *inputs, size_t entry, bool changed_only);
void inputs_renewed(course *c, uint64_t seed); /* others altogether */
void inputs_altered(course *c, uint64_t seed); /* others in part; all of them where a support function makes them */

bool locate_area(uintptr_t address, finding *f);
#endif

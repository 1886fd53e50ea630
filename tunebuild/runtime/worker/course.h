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
} table;

typedef struct place {
    size_t *areas; /* by spot; 0: none, as scratch is per group */
    table *tables; /* by group */
} place;

typedef struct course {
    call_case *call;
    size_t entries, cursor, place_count;
    bool fresh;      /* calls change their inputs */
    void **pristine; /* inputs by spot */
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
void packed_forgotten(place *p); /* `prepare` runs again before the next call */

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
void inputs_laid(const course *c, const place *p, void *const *inputs, size_t entry, bool changed_only);

bool locate_area(uintptr_t address, finding *f);
#endif

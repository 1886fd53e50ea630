/* The worker: judges and times the rows of one tune library.
 *
 * A server process reads text lines and never calls a row itself. Every row runs in a forked child
 * (child.c): the gate (gate.c) forks one per row, the race (race.c) keeps one until it dies. What a child
 * has to say it writes to the board, a shared mapping, so that its last words outlive it.
 *
 * Words: a *job* is one driver with its arguments and cases; a *case* is one call's scalars, sizes and
 * data; a *part* is one of the buffers of an argument that has several; a *group* is a set of rows that
 * share one packed layout, hence the sizes of their scratch buffers. */
#ifndef TB_WORKER_H
#define TB_WORKER_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "../tb_driver.h"

#define WORKER_PROTOCOL 2
#define PASSES 2 /* calls at the same addresses, with other data */
#define MAX_SLICES 8192
#define OUT_BYTE 0xc3 /* what `out` holds before a call that is judged */

/* --- elements and their fills (element.c) ------------------------------------------------------- */

typedef enum element { F16, BF16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64, NO_ELEMENT } element;

element element_named(const char *name); /* NO_ELEMENT when there is none */
size_t element_bytes(element e);
bool element_is_float(element e);
double element_value(element e, const void *data, size_t index); /* wide integers lose low bits */
double element_quantum(element e);                               /* the smallest positive value */
void element_text(element e, const void *data, size_t index, char *text, size_t room);
void element_clear_signs(element e, void *data, size_t count);

/* A fill is a name of `fill_named` or a support function of the library. */
typedef struct fill {
    int pattern; /* -1: `support` */
    const tb_support *support;
} fill;

bool fill_named(const char *name, fill *found);
void fill_buffer(fill how, element e, void *data, size_t count, uint64_t seed);
uint64_t mix_seed(uint64_t seed, uint64_t salt);

/* --- jobs (job.c) ------------------------------------------------------------------------------- */

typedef enum kind { IN, OUT, INOUT, SCRATCH, POINTERS, SOURCE } kind; /* SOURCE: read by `prepare` alone */

typedef struct argument {
    kind kind;
    element element;
    size_t parts;         /* the largest number of buffers in any case */
    size_t pointed_count; /* POINTERS: the arguments whose addresses it holds */
    size_t *pointed;
} argument;

typedef struct extent {
    size_t elements; /* of one part */
    size_t parts;
    size_t offset; /* elements past an aligned start, when flush left */
    fill fill;
    int64_t valid[PASSES]; /* elements from there on are not compared; -1: all are */
} extent;

enum { LEFT = 1, RIGHT = 2 }; /* placements, a set */

typedef struct call_case {
    uint64_t seed;
    int placements;
    tb_scalar *scalars;
    tb_scalar *magnitudes; /* the same with floating scalars made positive */
    extent *extents;       /* one an argument; scratch sizes are those of group 0 */
    size_t *group_sizes;   /* [group][argument] elements */
    size_t copies;         /* race: 0 hot, else the copies that a cold slice walks */
    size_t calls;          /* gate: of the row, unjudged, before each that is judged */
} call_case;

typedef struct comparison {
    enum { EXACT, ULP, TOLERANCE } rule;
    double ulp, rtol, atol;
    enum { SCALE_WANT, SCALE_ABS, SCALE_MAX } scale;
} comparison;

typedef struct job {
    const tb_driver *driver;
    element result; /* NO_ELEMENT for void */
    size_t argument_count;
    argument *arguments;
    size_t group_count;
    size_t *row_groups; /* one a row */
    size_t case_count, case_room;
    call_case *cases;
    comparison compare;
    int timeout_ms;
} job;

bool job_line(job *j, char *line); /* takes one line of a job's description; false: not one */
size_t extent_elements(const job *j, const call_case *c, size_t group, size_t argument);
size_t pointed_parts(const job *j, const call_case *c, size_t argument); /* addresses in a POINTERS buffer */

/* --- comparing (compare.c) ---------------------------------------------------------------------- */

/* The index of the first element that differs too much, or -1. `scale` may be NULL but for SCALE_ABS. */
int64_t compare_elements(const comparison *c, element e, const void *got, const void *want, const void *scale,
                         size_t count);

/* Makes element `at % count` of `got` wrong, unless the reference left that one blank. */
void spoil_element(element e, void *got, const void *want, size_t count, uint64_t at);

/* --- the board and findings --------------------------------------------------------------------- */

typedef enum fault {
    NO_FAULT,
    WRONG_ELEMENT,
    WRONG_RESULT,
    CANARY,
    ENVIRONMENT,
    SIGNALLED,
    EXITED,
    HUNG,
    OUT_OF_MEMORY,
    SCRIBBLED
} fault;

typedef enum phase { PHASE_SETUP, PHASE_FILL, PHASE_PREPARE, PHASE_CALL } phase;
typedef enum side { NOWHERE, BEFORE, INSIDE, PAST, JUMPED, NEAR_STACK } side;

typedef struct finding {
    fault fault;
    int signal, code; /* `code`: the exit status */
    char access;      /* r, w, or ? */
    side side;
    int argument; /* -1: none */
    size_t part;
    int64_t element;
    uintptr_t address;
    char name[24]; /* the register that changed */
    unsigned before, after;
    char got[40], want[40];
} finding;

typedef struct sample {
    uint64_t wall_ns, cpu_ns;
    uint32_t reps, reruns;
} sample;

/* Whether a round ends with a look at what its last window computed, and whether the data may change after it. */
typedef enum looks { NO_LOOK, LOOK, LOOK_AND_ALTER } looks;

/* Of single calls on data never met: how many there were, and in how many the row kept what it gains. */
typedef struct pairs {
    uint32_t kept, count;
} pairs;

/* What the race's child is asked; the answer is `samples`, `fresh` or a finding. */
typedef struct request {
    enum { ROUND, RECHECK, CONFIRM } what;
    looks looks;
    size_t workload, placement, lead_row, count;
    uint32_t lead_reps, retries, gain_permille;
    double cpu_share; /* a slice with less thread CPU time than this much of its wall time is retaken */
    uint64_t seed;
    uint32_t rows[MAX_SLICES], reps[MAX_SLICES];
} request;

typedef struct board {
    volatile uint32_t heartbeat; /* moves whenever the child does */
    volatile uint32_t finished;  /* a number that a row scribbling over the board does not hit on */
    volatile phase phase;
    volatile int case_index, pass;
    volatile bool flush_right;
    volatile uint32_t orders; /* given so far */
    volatile size_t row;      /* race: whose code runs */
    volatile uintptr_t stack;
    finding finding;
    request request;
    pairs fresh;
    sample samples[MAX_SLICES];
} board;

extern board *the_board;

/* --- children (child.c) ------------------------------------------------------------------------- */

typedef struct child {
    pid_t pid; /* 0: none */
    int output, reply, orders;
    char text[2048]; /* the first of what it printed */
    size_t text_length;
} child;

typedef enum event { REPLIED, ENDED, STUCK } event;

_Noreturn void leave_nobody(void); /* ends the worker and all that its rows left behind */

/* Turns a faulting address into argument, part, element and side. */
typedef bool locate(uintptr_t address, finding *found);

void children_prepare(void); /* once, in the server: signal handlers on an alternate stack, AMX */
/* `c->pid` is 0 afterwards when there was no room for a process. */
void child_start(child *c, void (*body)(void *), void *context, locate *where);
event child_watch(child *c, int timeout_ms);
void child_stop(child *c);
/* After `ENDED` or `STUCK`: what became of it, from the board or from its wait status; NO_FAULT when it
 * finished. */
finding child_finding(child *c, event how);
bool child_ordered(child *c); /* gives an order; false: nobody is there to take it */
bool child_order(void);       /* in a child that takes orders: waits for one; false at the end */
void child_finished(void);    /* in a child that takes none: all is done, and well */
void child_replied(void);     /* in the child: the order is done */
void report_finding(const job *j, const finding *f, const child *c);

/* --- processor state (state.c) ------------------------------------------------------------------ */

void state_reset(void); /* rounding, denormals, x87, direction; wide registers and tiles idle */
bool state_changed(finding *f);
void state_allow_tiles(void);

/* --- guarded memory (memory.c) ------------------------------------------------------------------ */

#define GUARD_BYTES ((size_t)64 << 10) /* a multiple of every page size; costs addresses, not memory */

typedef struct region {
    char *harness; /* read-write */
    char *row;     /* the same bytes between two forbidden ranges; read-only for inputs */
    size_t bytes;  /* whole pages */
} region;

bool region_map(region *r, size_t bytes, bool read_only);
void region_unmap(region *r);
void *shared_map(size_t bytes);
size_t page_bytes(void);

/* --- what the server does ----------------------------------------------------------------------- */

void gate_reference(job *j);
void gate_row(job *j, size_t row);
void gate_close(void);
void race_round(job *j, char *words);
void race_recheck(job *j, char *words);
void race_confirm(job *j, char *words);
void race_renew(unsigned salt); /* the next child is a new one, with its buffers elsewhere */
void race_close(void);
void probe_windows(size_t count, uint64_t window_ns);
void probe_pairs(size_t count, uint64_t slice_ns);
void probe_spin(uint64_t spin_ns);
uint64_t wall_clock_ns(void);
uint64_t cpu_clock_ns(void);

/* The reply stream: lines, flushed by `say_end`. */
extern FILE *replies;
void refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

extern size_t driver_count;
extern const tb_driver *drivers;
extern size_t support_count;
extern const tb_support *supports;
extern int race_core; /* -1: any */
extern int allowed_cores;
bool pin_to_race_core(void);
void unpin(void);
#endif

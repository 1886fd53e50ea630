/* Whether rows still compute what the reference does, after they were timed and on the data that they were timed on.
 *
 * A row that remembers an earlier result, in its output, in memory of its own, in errno, is right at every first call
 * and fast at the others. So `out` is spoiled in one element, which a row that does nothing leaves as it is; and the
 * inputs change in part between rounds, at the same addresses, which makes a result that is remembered wrong. None of
 * it falls between two windows. */
#ifndef TB_PROOF_H
#define TB_PROOF_H
#include "course.h"

/* The reference's (or the oracle's) answer on the inputs of now; computed once for each version of them. */
void answer_known(course *c, size_t place_number);

/* One element of each `out` buffer of entry 0 is made wrong, one that the reference writes. */
void outputs_spoiled(const course *c, size_t place_number, uint64_t seed);

/* What the last window left in the `out` buffers of a hot workload. */
bool window_proved(const course *c, size_t place_number, finding *f);

/* One more call; before it `out` is spoiled, or blank as it is in the gate. */
bool call_proved(course *c, size_t place_number, size_t row, bool blank, uint64_t seed, finding *f);

/* Single calls of a row and of another on inputs that neither has met, in pairs, until the row kept a quarter of its
 * gain over the other in three of them: one that is quick only at what it has met before is none to win. */
pairs fresh_pairs(course *c, size_t place_number, size_t row, size_t other, uint32_t gain_permille, uint64_t seed);
#endif

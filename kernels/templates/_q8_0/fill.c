#include <stddef.h>
#include "tb/q8_0.h"

/* Rows of blocks as a quantiser leaves them: scales around 0.01, values of eight bits in -127..127. `count` is in
 * bytes; a last block that is cut off is filled as far as it goes. */

static uint32_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

static void fill_blocks(uint8_t *bytes, size_t count, uint64_t seed, size_t block, int eight_bits)
{
    uint64_t state = seed * 2 + 1;
    for (size_t i = 0; i < count; i++) {
        const size_t place = i % block;
        if (place == 0)
            bytes[i] = (uint8_t)next(&state);
        else if (place == 1)
            bytes[i] = (uint8_t)(0x20 + next(&state) % 3); /* 0.008 to 0.02 */
        else
            bytes[i] = eight_bits ? (uint8_t)((int)(next(&state) % 255) - 127) : (uint8_t)next(&state);
    }
}

void fill_q8_0(void *data, size_t count, uint64_t seed) { fill_blocks(data, count, seed, sizeof(tb_block_q8_0), 1); }
void fill_q4_0(void *data, size_t count, uint64_t seed) { fill_blocks(data, count, seed, sizeof(tb_block_q4_0), 0); }

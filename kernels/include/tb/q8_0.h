/* The blocks of 32 weights that quantised models are stored in: a scale in f16, then 32 values of eight or four
 * bits. A value of eight bits is in -127..127; four-bit values are stored plus 8, 0..15 low and 16..31 high. */
#ifndef TB_Q8_0_H
#define TB_Q8_0_H
#include "tb/half.h"

typedef struct tb_block_q8_0 { uint8_t d[2]; int8_t q[32]; } tb_block_q8_0;
typedef struct tb_block_q4_0 { uint8_t d[2]; uint8_t q[16]; } tb_block_q4_0;

TB_HALF_INLINE float tb_scale(const uint8_t *d)
{
    uint16_t bits;
    memcpy(&bits, d, sizeof bits);
    return tb_f32_from_f16(bits);
}
#endif

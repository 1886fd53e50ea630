/* Tiles of AMX. Who calls a kernel has asked the system for tile state (arch_prctl) once; the kernel configures the
 * eight tiles and releases them before it returns, so that nothing of it stays in the thread.
 *
 * The intrinsics say nothing to the compiler about the memory that they read and write, and gcc 12 believes that a
 * configuration is eight bytes long: tb_tiles_fence() stands wherever tiles and ordinary code meet in memory. */
#ifndef TB_AMX_H
#define TB_AMX_H
#include <immintrin.h>
#include <stdint.h>
#include <string.h>

typedef struct tb_tile_shapes { uint8_t rows[8], bytes[8]; } tb_tile_shapes;

static inline __attribute__((always_inline)) void tb_tiles_fence(void) { __asm__ volatile("" ::: "memory"); }

static inline __attribute__((always_inline)) void tb_tiles_begin(tb_tile_shapes shapes)
{
    _Alignas(64) uint8_t config[64] = {1}; /* palette 1 */
    for (int i = 0; i < 8; i++) {
        config[16 + 2 * i] = shapes.bytes[i];
        config[48 + i] = shapes.rows[i];
    }
    __asm__ volatile("" ::"r"(config) : "memory");
    _tile_loadconfig(config);
}

static inline __attribute__((always_inline)) void tb_tiles_end(void)
{
    _tile_release();
    tb_tiles_fence();
}
#endif

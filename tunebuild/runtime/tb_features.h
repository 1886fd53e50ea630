/* Does this CPU have what the stamps need? Static functions: artifacts in one process share nothing. */
#ifndef TB_FEATURES_H
#define TB_FEATURES_H
#include <string.h>
#include "tb_artifact.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__linux__)
#include <sys/auxv.h>
#endif
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#define TB_TILE_STATE UINT64_C(0x60000)

/* What cpuid answered in one check, each leaf asked once: under a hypervisor an answer takes microseconds. */
typedef struct tb_cpu {
    struct { uint32_t leaf, subleaf, regs[4]; } seen[8];
    size_t count;
} tb_cpu;

#if defined(__x86_64__)
static uint64_t tb_xcr0(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

/* The registers of a leaf; zeros where the CPU has none. */
static const uint32_t *tb_leaf(tb_cpu *cpu, uint32_t leaf, uint32_t subleaf)
{
    const size_t room = sizeof cpu->seen / sizeof *cpu->seen;
    size_t at = 0;
    uint32_t *regs;
    for (; at < cpu->count; at++)
        if (cpu->seen[at].leaf == leaf && cpu->seen[at].subleaf == subleaf) return cpu->seen[at].regs;
    if (at == room) at--;
    cpu->count = at + 1;
    cpu->seen[at].leaf = leaf, cpu->seen[at].subleaf = subleaf;
    regs = cpu->seen[at].regs;
    if (!__get_cpuid_count(leaf, subleaf, &regs[0], &regs[1], &regs[2], &regs[3])) memset(regs, 0, 4 * sizeof *regs);
    return regs;
}

/* Register state that the system saves; 0 where it does not even say. */
static uint64_t tb_saved_state(tb_cpu *cpu)
{
    const uint32_t osxsave = UINT32_C(1) << 27;
    return tb_leaf(cpu, 1, 0)[TB_ECX] & osxsave ? tb_xcr0() : 0;
}

static int tb_has_feature(tb_cpu *cpu, const tb_feature *feature)
{
    if (!(tb_leaf(cpu, feature->leaf, feature->subleaf)[feature->reg] >> feature->bit & 1)) return 0;
    return !feature->mask || (tb_saved_state(cpu) & feature->mask) == feature->mask;
}
#elif defined(__linux__)
static int tb_has_feature(tb_cpu *cpu, const tb_feature *feature)
{
    (void)cpu;
    return (getauxval(feature->leaf) & feature->mask) == feature->mask;
}
#else
static int tb_has_feature(tb_cpu *cpu, const tb_feature *feature)
{
    (void)cpu, (void)feature;
    return 1; /* no way to ask: the build looked */
}
#endif

static int tb_meets(tb_cpu *cpu, const tb_need *need)
{
    for (size_t i = 0; i < need->count; i++)
        if (tb_has_feature(cpu, &need->any[i])) return 1;
    return 0;
}

/* Tile registers must be asked for before the first tile instruction; children inherit the grant. */
static int tb_ask_for_tiles(void)
{
#if defined(__linux__) && defined(__x86_64__)
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XTILEDATA = 18 };
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XTILEDATA) == 0;
#else
    return 0;
#endif
}

static int tb_needs_tiles(const tb_need *need)
{
#if defined(__x86_64__)
    for (size_t i = 0; i < need->count; i++)
        if (need->any[i].mask & TB_TILE_STATE) return 1;
#else
    (void)need;
#endif
    return 0;
}

/* The first need that this CPU does not meet, or NULL. */
static const tb_need *tb_unmet(const tb_artifact *artifact)
{
    tb_cpu cpu = {.count = 0};
    int tiles = 0;
    for (size_t i = 0; i < artifact->need_count; i++) {
        const tb_need *need = &artifact->needs[i];
        if (!tb_meets(&cpu, need)) return need;
        if (tb_needs_tiles(need)) {
            if (!tiles && !tb_ask_for_tiles()) return need;
            tiles = 1;
        }
    }
    return NULL;
}
#endif

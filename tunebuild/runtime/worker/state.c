/* Processor state that a row must leave as it found it, and that one row must not hand to the next. */
#include "worker.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>

#define MXCSR_DEFAULT 0x1f80u /* round to nearest, denormals kept, all exceptions masked */
#define MXCSR_MODES 0xffc0u   /* the low six bits are sticky flags that any arithmetic sets */
#define X87_DEFAULT 0x37fu
#define DIRECTION 0x400u
#define ARCH_REQ_XCOMP_PERM 0x1023
#define TILE_DATA 18

static bool tiles_allowed;

static bool has_avx(void) {
    static int known = -1;
    if (known < 0) known = __builtin_cpu_supports("avx") ? 1 : 0;
    return known == 1;
}

/* Once, before any alternate stack exists: the kernel refuses a process whose stacks are too small. */
void state_allow_tiles(void) {
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d >> 24 & 1)) return;
    tiles_allowed = syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, TILE_DATA) == 0;
}

void state_reset(void) {
    unsigned csr = MXCSR_DEFAULT;
    __asm__ volatile("cld\n\tfninit\n\tldmxcsr %0" : : "m"(csr) : "memory");
    if (has_avx()) __asm__ volatile("vzeroupper" : : : "memory");
    if (tiles_allowed)
        __asm__ volatile(".byte 0xc4, 0xe2, 0x78, 0x49, 0xc0" : : : "memory"); /* tilerelease */
}

static bool changed(finding *f, const char *name, unsigned before, unsigned after) {
    if (before == after) return false;
    f->fault = ENVIRONMENT;
    snprintf(f->name, sizeof f->name, "%s", name);
    f->before = before;
    f->after = after;
    return true;
}

bool state_changed(finding *f) {
    unsigned csr;
    /* The builtin, not pushfq in assembly: that would overwrite the red zone, where `csr` may live. */
    const uint64_t flags = __builtin_ia32_readeflags_u64();
    uint16_t x87[14] = {0}; /* control word first, tag word fifth */
    __asm__ volatile("cld\n\tstmxcsr %0\n\tfnstenv %1\n\tfldenv %1" : "=m"(csr), "+m"(x87) : : "memory");
    return changed(f, "MXCSR", MXCSR_DEFAULT & MXCSR_MODES, csr & MXCSR_MODES) ||
           changed(f, "x87 control word", X87_DEFAULT, x87[0]) ||
           changed(f, "x87 tag word", 0xffff, x87[4]) ||
           changed(f, "direction flag", 0, (unsigned)(flags & DIRECTION));
}

#elif defined(__aarch64__)

void state_allow_tiles(void) {}

void state_reset(void) {
    uint64_t zero = 0;
    __asm__ volatile("msr fpcr, %0" : : "r"(zero) : "memory");
}

bool state_changed(finding *f) {
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    if (control == 0) return false;
    f->fault = ENVIRONMENT;
    snprintf(f->name, sizeof f->name, "FPCR");
    f->before = 0;
    f->after = (unsigned)control;
    return true;
}

#else

void state_allow_tiles(void) {}
void state_reset(void) {}
bool state_changed(finding *f) {
    (void)f;
    return false;
}
#endif

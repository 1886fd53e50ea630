/* Memory that answers back: a buffer mapped twice, once for the harness and once, guarded, for the row. */
#include "worker.h"

#include <sys/mman.h>
#include <unistd.h>

size_t page_bytes(void) {
    static size_t bytes;
    if (!bytes) bytes = (size_t)sysconf(_SC_PAGESIZE);
    return bytes;
}

/* Layout: guard, harness view, guard, row view, guard. Never unprotected again, so a row's stray access
 * faults whatever the case, and no system call is spent per call. */
bool region_map(region *r, size_t bytes, bool read_only) {
    const size_t page = page_bytes();
    *r = (region){0};
    bytes = (bytes + page - 1) / page * page + (bytes == 0 ? page : 0);
    int file = memfd_create("tunebuild-buffer", MFD_CLOEXEC);
    if (file < 0) return false;
    char *base = MAP_FAILED;
    if (ftruncate(file, (off_t)bytes) == 0)
        base = mmap(NULL, 2 * bytes + 3 * GUARD_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                    -1, 0);
    bool mapped = base != MAP_FAILED;
    if (mapped) {
        r->harness = base + GUARD_BYTES;
        r->row = base + 2 * GUARD_BYTES + bytes;
        r->bytes = bytes;
        int row_access = read_only ? PROT_READ : PROT_READ | PROT_WRITE;
        mapped =
            mmap(r->harness, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) != MAP_FAILED &&
            mmap(r->row, bytes, row_access, MAP_SHARED | MAP_FIXED, file, 0) != MAP_FAILED;
        if (!mapped) region_unmap(r);
    }
    close(file);
    return mapped;
}

void region_unmap(region *r) {
    if (r->harness) munmap(r->harness - GUARD_BYTES, 2 * r->bytes + 3 * GUARD_BYTES);
    *r = (region){0};
}

void *shared_map(size_t bytes) {
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

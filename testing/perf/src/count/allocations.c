/* Counts allocations of a program. The file named by WINDLASS_PERF_ALLOCATIONS is mapped and holds two 64-bit numbers: blocks and bytes. A block that
 * grows counts again with all its bytes. Works with glibc, through LD_PRELOAD. */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

struct counts {
    uint64_t blocks, bytes;
};

/* Used until the file is mapped. */
static struct counts unseen;
static struct counts *counts = &unseen;

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("WINDLASS_PERF_ALLOCATIONS");
    int file = path ? open(path, O_RDWR) : -1;
    if (file < 0)
        return;
    void *shared = mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (shared != MAP_FAILED)
        counts = shared;
}

static void count(size_t bytes)
{
    __atomic_fetch_add(&counts->blocks, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&counts->bytes, bytes, __ATOMIC_RELAXED);
}

void *malloc(size_t bytes)
{
    count(bytes);
    return __libc_malloc(bytes);
}

void *calloc(size_t items, size_t bytes)
{
    count(items * bytes);
    return __libc_calloc(items, bytes);
}

void *realloc(void *block, size_t bytes)
{
    count(bytes);
    return __libc_realloc(block, bytes);
}

void *memalign(size_t alignment, size_t bytes)
{
    count(bytes);
    return __libc_memalign(alignment, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    return memalign(alignment, bytes);
}

int posix_memalign(void **block, size_t alignment, size_t bytes)
{
    *block = memalign(alignment, bytes);
    return *block ? 0 : ENOMEM;
}

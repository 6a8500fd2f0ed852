/* meta_jemalloc.c: the metadata contract (meta.h) on an arena of jemalloc's.
 *
 * One arena per runtime, made with "arenas.create", so that the runtime's metadata shares neither
 * pages nor locks with the host's own allocations, and "arena.<i>.destroy" frees everything at
 * once. Allocations go past the thread caches (MALLOCX_TCACHE_NONE): a thread's cache would keep
 * blocks of an arena that is gone, and metadata is not allocated often enough to need one.
 *
 * Only for programs that are linked to jemalloc: Debian's library cannot be loaded later ("static
 * TLS block"), which is why the shared library has meta_mmap.c instead.
 *
 * What stays of a closed arena is 2 MiB of address space without memory (jemalloc keeps its
 * mappings unless it is told retain:false).
 *
 * Locks: jemalloc's own. `bytes` is the only shared field.
 */
#include "base/assert.h"
#include "base/atomic.h"
#include "base/bits.h"
#include "base/format.h"
#include "base/meta.h"
#include "base/os_fault.h"

#include <jemalloc/jemalloc.h>
#include <stdbool.h>

struct hg_meta {
    unsigned arena;       /* its index; fixed */
    _Atomic size_t bytes; /* handed out and not freed; any thread adds, any thread reads (a
                           * statistic, so relaxed) */
};

/* Flags for a block of `bytes`, the same when it is freed. */
static int flags_for(const struct hg_meta *a, size_t bytes)
{
    return MALLOCX_ARENA(a->arena) | MALLOCX_TCACHE_NONE |
           (bytes >= 64 ? MALLOCX_ALIGN(64) : MALLOCX_ALIGN(16));
}

static void destroy_arena(unsigned arena)
{
    char name[64];
    hg__format(name, sizeof name, "arena.%u.destroy", arena);
    int error = mallctl(name, NULL, NULL, NULL, 0);
    HG_CHECK(error == 0, "%s failed: error %d", name, error);
}

struct hg_meta *hg__meta_open(void)
{
    struct hg_meta made = {0};
    size_t n = sizeof made.arena;
    if (hg__os_fails(HG_OS_META) || mallctl("arenas.create", &made.arena, &n, NULL, 0) != 0)
        return NULL;
    struct hg_meta *a = mallocx(sizeof *a, flags_for(&made, sizeof *a));
    if (a == NULL) {
        destroy_arena(made.arena);
        return NULL;
    }
    a->arena = made.arena;
    hg_store_rlx(&a->bytes, (size_t)0); /* the arena is published to other threads by its owner */
    return a;
}

void hg__meta_close(struct hg_meta *a) { destroy_arena(a->arena); /* `a` itself lies in it */ }

void *hg__meta_alloc(struct hg_meta *a, size_t bytes)
{
    size_t wanted = bytes != 0 ? bytes : 1;
    if (wanted > (size_t)PTRDIFF_MAX || hg__os_fails(HG_OS_META))
        return NULL;
    void *p = mallocx(wanted, flags_for(a, wanted) | MALLOCX_ZERO);
    if (p != NULL)
        hg_add_rlx(&a->bytes, bytes);
    return p;
}

void hg__meta_free(struct hg_meta *a, void *p, size_t bytes)
{
    if (p == NULL)
        return;
    hg_sub_rlx(&a->bytes, bytes);
    size_t given = bytes != 0 ? bytes : 1;
    sdallocx(p, given, flags_for(a, given));
}

size_t hg__meta_bytes(struct hg_meta *a) { return hg_load_rlx(&a->bytes); }

const char *hg__meta_backend(void) { return "jemalloc"; }

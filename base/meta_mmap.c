/* meta_mmap.c: the metadata contract (meta.h) on memory mapped from the kernel. For sanitizer
 * builds and the shared library, which must leave the host's malloc alone.
 *
 * Structures:
 *   region   a mapping of 1 to 16 MiB, chained from the arena; blocks are cut off its front and
 *            never go back to it
 *   class    a block size; a freed block goes on its class's list and is handed out again. Sizes:
 *            16, 32, 48, 64, 128, 192, 256, then four to a doubling up to 32 KiB
 *   large    a block above 32 KiB has a mapping of its own, after a header of 64 bytes, and goes
 *            back when it is freed
 *
 * Invariants:
 *   1. Class sizes from 64 up are multiples of 64, and so is where such a block is cut: blocks of
 *      64 bytes and more never share a cache line with another block.
 *   2. Memory in a region beyond `at` has never been handed out and is zero. A block on a free list
 *      may hold anything and is cleared when it is handed out.
 *   3. `bytes` is the sum of the sizes asked for, of all blocks handed out.
 *
 * Why no coalescing: metadata sizes are few and recur (spans, tasks, buffers), so a freed block
 * finds a taker of its own size; the high-water mark per size is what stays.
 *
 * Locks: one per arena, rank META, held for everything but mapping and unmapping large blocks and
 * clearing memory. Under AddressSanitizer, blocks that are free are poisoned, so that a use after
 * free is reported as in malloc's heap.
 */
#include "base/assert.h"
#include "base/bits.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/meta.h"
#include "base/os.h"
#include "base/os_fault.h"

#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define META_POISONS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define META_POISONS 1
#endif
#endif
#if defined(META_POISONS)
#include <sanitizer/asan_interface.h>
#define poison(p, n)   ASAN_POISON_MEMORY_REGION((p), (n))
#define unpoison(p, n) ASAN_UNPOISON_MEMORY_REGION((p), (n))
#else
#define poison(p, n)   ((void)(p), (void)(n))
#define unpoison(p, n) ((void)(p), (void)(n))
#endif

enum {
    LINE = 64,
    SMALL_MAX = 32 * 1024,
    CLASSES = 7 + 4 * 7, /* up to 256; then four in each doubling from 256 to 32 KiB */
    REGION_MIN = 1 << 20,
    REGION_MAX = 16 << 20
};

struct region {
    struct region *next;
    size_t bytes; /* of the mapping, this header included */
};

struct free_block {
    struct free_block *next;
};

struct large {
    struct hg_list link; /* in the arena's list */
    size_t bytes;        /* of the mapping */
};

/* Lies at the front of the first region, behind its header. */
struct hg_meta {
    struct hg_lock lock;    /* guards all that follows */
    struct region *regions; /* newest first; blocks are cut from it */
    char *at, *end;         /* what is left of the newest region */
    struct hg_list larges;
    struct free_block *free[CLASSES];
    _Atomic size_t bytes; /* handed out; written under the lock, read by anyone */
};

static unsigned class_of(size_t bytes)
{
    if (bytes <= 64)
        return bytes <= 16 ? 0 : (unsigned)((bytes - 1) / 16);
    if (bytes <= 256)
        return 3 + (unsigned)((bytes - 1) / 64);
    unsigned doubling = hg_log2(bytes - 1); /* 2^doubling < bytes <= 2^(doubling + 1) */
    return 7 + 4 * (doubling - 8) + (unsigned)(((bytes - 1) >> (doubling - 2)) & 3);
}

static size_t class_size(unsigned c)
{
    if (c < 4)
        return (size_t)(c + 1) * 16;
    if (c < 7)
        return (size_t)(c - 2) * 64;
    unsigned doubling = 8 + (c - 7) / 4;
    return ((size_t)(c - 7) % 4 + 5) << (doubling - 2);
}

/* A new region; NULL when there is no memory. */
static struct region *map_region(size_t bytes)
{
    struct region *r = hg__os_map(bytes, hg__os_page_size());
    if (r != NULL)
        r->bytes = bytes;
    return r;
}

struct hg_meta *hg__meta_open(void)
{
    struct region *r = map_region(REGION_MIN);
    if (r == NULL)
        return NULL;
    struct hg_meta *a = (struct hg_meta *)(void *)((char *)r + LINE);
    hg__lock_init(&a->lock, HG_RANK_META);
    a->regions = r;
    a->at = (char *)a + hg_round_up(sizeof *a, LINE);
    a->end = (char *)r + r->bytes;
    hg_list_init(&a->larges);
    return a;
}

void hg__meta_close(struct hg_meta *a)
{
    struct hg_list *link;
    while ((link = hg_list_pop_front(&a->larges)) != NULL) {
        struct large *big = hg_container_of(link, struct large, link);
        hg__os_unmap(big, big->bytes);
    }
    for (struct region *r = a->regions, *next; r != NULL; r = next) {
        next = r->next;
        unpoison(r, r->bytes); /* another mapping may get this address */
        hg__os_unmap(r, r->bytes);
    }
}

static void *alloc_large(struct hg_meta *a, size_t bytes)
{
    size_t page = hg__os_page_size();
    if (bytes > (size_t)PTRDIFF_MAX - page - LINE)
        return NULL;
    size_t all = hg_round_up(bytes + LINE, page);
    struct large *big = hg__os_map(all, page);
    if (big == NULL)
        return NULL;
    big->bytes = all;
    hg__lock(&a->lock);
    hg_list_push_back(&a->larges, &big->link);
    hg_add_rlx(&a->bytes, bytes);
    hg__unlock(&a->lock);
    return (char *)big + LINE;
}

static void free_large(struct hg_meta *a, void *p, size_t bytes)
{
    struct large *big = (struct large *)(void *)((char *)p - LINE);
    HG_ASSERT(big->bytes == hg_round_up(bytes + LINE, hg__os_page_size()));
    hg__lock(&a->lock);
    hg_list_remove(&big->link);
    hg_sub_rlx(&a->bytes, bytes);
    hg__unlock(&a->lock);
    hg__os_unmap(big, big->bytes);
}

/* Cuts `size` bytes off the newest region, or off a new one twice as large; what is left of the old
 * one, less than the largest class, is given up. */
static void *cut_locked(struct hg_meta *a, size_t size)
{
    HG_ASSERT_HELD(&a->lock);
    size_t align = size < LINE ? 16 : LINE;
    char *p = (char *)hg_round_up((size_t)a->at, align);
    if (p > a->end || (size_t)(a->end - p) < size) {
        size_t bytes = hg_min_size(a->regions->bytes * 2, REGION_MAX);
        struct region *r = map_region(bytes);
        if (r == NULL)
            return NULL;
        r->next = a->regions;
        a->regions = r;
        a->end = (char *)r + bytes;
        p = (char *)r + LINE;
    }
    a->at = p + size;
    return p;
}

void *hg__meta_alloc(struct hg_meta *a, size_t bytes)
{
    if (hg__os_fails(HG_OS_META))
        return NULL;
    if (bytes > SMALL_MAX)
        return alloc_large(a, bytes);
    unsigned c = class_of(bytes);
    size_t size = class_size(c);
    hg__lock(&a->lock);
    struct free_block *f = a->free[c];
    void *p = f;
    if (f != NULL) {
        unpoison(f, size);
        a->free[c] = f->next;
    } else {
        p = cut_locked(a, size);
    }
    if (p != NULL)
        hg_add_rlx(&a->bytes, bytes);
    hg__unlock(&a->lock);
    if (f != NULL)
        memset(f, 0, size);
    return p;
}

void hg__meta_free(struct hg_meta *a, void *p, size_t bytes)
{
    if (p == NULL)
        return;
    if (bytes > SMALL_MAX) {
        free_large(a, p, bytes);
        return;
    }
    unsigned c = class_of(bytes);
    struct free_block *f = p;
    hg__lock(&a->lock);
    f->next = a->free[c];
    a->free[c] = f;
    hg_sub_rlx(&a->bytes, bytes);
    poison(f, class_size(c));
    hg__unlock(&a->lock);
}

size_t hg__meta_bytes(struct hg_meta *a) { return hg_load_rlx(&a->bytes); }

const char *hg__meta_backend(void) { return "mmap"; }

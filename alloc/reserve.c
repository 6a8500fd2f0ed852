/* reserve.c: address space of a heap and its side tables; opening and closing.
 *
 * A heap is one reservation (no memory behind it) and one mapping of tables indexed by address
 * alone, whose pages the kernel fills in with zeros as they are touched:
 *
 *   table         per           of 256 GiB
 *   marks         bit/16 bytes  2 GiB       first, on a 2 MiB boundary: it may have huge pages
 *   desc          8/page        256 MiB
 *   spans         8/page        256 MiB
 *   codes         1/page        32 MiB
 *   dirty         bit/page      4 MiB
 *   block_live    4/block       512 KiB     a block is 2 MiB
 *   block_tried   1/block       128 KiB
 *
 * Under a limit on address space (RLIMIT_AS) the size is halved until everything fits and a quarter
 * of it is still to be had for stacks, metadata and the host, but not below 64 MiB.
 *
 * Huge pages. AUTO: advised for the mark table only, which is dense and read at random. ALWAYS: for
 * the heap too. NEVER: advised against for both, whatever the system's default is.
 *
 * Ordering: a heap is opened and closed by one thread; other threads get it through a release.
 */
#include "alloc/internal.h"

#include <errno.h>

#define RESERVE_DEFAULT ((size_t)256 * HG_GIB)
#define RESERVE_MIN     ((size_t)64 * HG_MIB)
#define RESERVE_MAX     ((size_t)1 << 44) /* page numbers have 32 bits */

static size_t marks_bytes(size_t size) { return size / (HG_GRAIN * 8); }

static size_t tables_bytes(size_t size)
{
    size_t pages = size >> HG_PAGE_SHIFT, blocks = size >> HG_BLOCK_SHIFT;
    return marks_bytes(size) + pages * (sizeof(uint64_t) + sizeof(void *) + sizeof(uint8_t)) +
           pages / 8 + blocks * (sizeof(int32_t) + sizeof(uint8_t));
}

static void place_tables(struct hg_heap *h, char *at)
{
    size_t pages = h->size >> HG_PAGE_SHIFT, blocks = h->size >> HG_BLOCK_SHIFT;
    h->marks = (void *)at;
    h->desc = (void *)(at += marks_bytes(h->size));
    h->spans = (void *)(at += pages * sizeof(uint64_t));
    h->codes = (void *)(at += pages * sizeof(void *));
    h->pages->dirty = (void *)(at += pages * sizeof(uint8_t));
    h->pages->block_live = (void *)(at += pages / 8);
    h->pages->block_tried = (void *)(at + blocks * sizeof(int32_t));
}

#define HALF       ((uintptr_t)1 << 32)
#define LOW_HALF   ((uintptr_t)0x60000000)
#define HALF_LEAST ((size_t)8 * HG_GIB)

/* Address space for the heap. Where there is plenty it begins at LOW_HALF of a 4 GiB block: a small
 * 32-bit integer, stored over half of a dead reference, then makes no word that looks like a live
 * one to a conservative scan. */
static void *reserve_heap(size_t size)
{
    if (size < HALF_LEAST)
        return hg__os_reserve(size, HG_BLOCK_BYTES);
    char *all = hg__os_reserve(size + HALF, HG_BLOCK_BYTES);
    if (all == NULL)
        return NULL;
    size_t skip = (LOW_HALF - (uintptr_t)all) & (HALF - 1);
    if (skip != 0)
        hg__os_unmap(all, skip);
    hg__os_unmap(all + skip + size, HALF - skip);
    return all + skip;
}

/* Reserves `size` bytes and their tables. */
static bool reserve(struct hg_heap *h, size_t size)
{
    void *heap = reserve_heap(size);
    void *tables = heap != NULL ? hg__os_map(tables_bytes(size), HG_BLOCK_BYTES) : NULL;
    void *room = NULL;
    if (tables != NULL && size > RESERVE_MIN)
        room = hg__os_reserve(size / 4, HG_PAGE_BYTES);
    if (room != NULL)
        hg__os_unmap(room, size / 4);
    if (tables != NULL && (room != NULL || size <= RESERVE_MIN)) {
        h->base = (uintptr_t)heap;
        h->size = size;
        place_tables(h, tables);
        return true;
    }
    if (tables != NULL)
        hg__os_unmap(tables, tables_bytes(size));
    if (heap != NULL)
        hg__os_unmap(heap, size);
    return false;
}

static bool reserve_halving(struct hg_heap *h, size_t wanted)
{
    size_t size = wanted != 0 ? wanted : RESERVE_DEFAULT;
    size = hg_round_up(hg_min_size(hg_max_size(size, RESERVE_MIN), RESERVE_MAX), HG_BLOCK_BYTES);
    while (!reserve(h, size)) {
        if (size <= RESERVE_MIN)
            return false;
        size = hg_max_size(hg_round_up(size / 2, HG_BLOCK_BYTES), RESERVE_MIN);
    }
    return true;
}

static void advise(struct hg_heap *h)
{
    if (h->config.hugepages == HG_HUGEPAGES_NEVER) {
        hg__os_hugepage((void *)h->marks, marks_bytes(h->size), false);
        hg__os_hugepage((void *)h->base, h->size, false);
        return;
    }
    hg__os_hugepage((void *)h->marks, marks_bytes(h->size), true);
    if (h->config.hugepages == HG_HUGEPAGES_ALWAYS)
        hg__os_hugepage((void *)h->base, h->size, true);
}

int hg__heap_open(struct hg_heap **out, struct hg_meta *meta, const struct hg_heap_config *config)
{
    struct hg_heap *h = hg__meta_alloc(meta, sizeof *h);
    struct hg_pages *pages = hg__meta_alloc(meta, sizeof *pages);
    struct hg_central *central = hg__meta_alloc(meta, HG_SPAN_CLASSES * sizeof *central);
    if (h == NULL || pages == NULL || central == NULL)
        goto fail;
    h->config = *config;
    h->meta = meta;
    h->pages = pages;
    h->central = central;
    if (!reserve_halving(h, config->reserve_bytes))
        goto fail;
    advise(h);
    hg__lock_init(&pages->lock, HG_RANK_PAGES);
    pages->high_start = (uint32_t)(h->size >> HG_PAGE_SHIFT);
    hg_store_rlx(&h->high_start, h->size);
    hg_store_rlx(&h->gen, 1u);
    hg__central_init(h);
    *out = h;
    return 0;
fail:
    hg__meta_free(meta, central, HG_SPAN_CLASSES * sizeof *central);
    hg__meta_free(meta, pages, sizeof *pages);
    hg__meta_free(meta, h, sizeof *h);
    return -ENOMEM;
}

void hg__heap_close(struct hg_heap *h)
{
    hg__os_unmap((void *)h->marks, tables_bytes(h->size));
    hg__os_unmap((void *)h->base, h->size);
    hg__meta_free(h->meta, h->central, HG_SPAN_CLASSES * sizeof *h->central);
    hg__meta_free(h->meta, h->pages, sizeof *h->pages);
    hg__meta_free(h->meta, h, sizeof *h);
}

/* Heap bytes per 2 MiB of mark table. */
#define TOUCH_STEP ((size_t)2 * HG_MIB * 8 * HG_GRAIN)
#define PROBE      ((size_t)128 << 10)

/* Whether marks are likely to be set in [at, at + TOUCH_STEP): an object begins there, as far as a
 * look at a page here and there tells. None does in what is free, nor in the inside of a large
 * object, whose part of the table then costs no memory. */
static bool has_objects(const struct hg_heap *h, size_t at)
{
    size_t end = hg_min_size(at + TOUCH_STEP, h->size);
    for (size_t p = at; p < end; p += PROBE) {
        uint64_t desc = hg_load_rlx(&h->desc[p >> HG_PAGE_SHIFT]);
        if (desc != 0 && (size_t)hg__desc_index(desc) << HG_PAGE_SHIFT <= p - at)
            return true;
    }
    return false;
}

/* Of [from, to), what spans have reached and a little more; edge: the end of that, which is used
 * next. */
static void touch_marks(struct hg_heap *h, size_t from, size_t to, size_t edge)
{
    for (size_t at = hg_round_down(from, TOUCH_STEP); at < to && at < h->size; at += TOUCH_STEP)
        if ((edge >= at && edge - at < TOUCH_STEP) || has_objects(h, at))
            /* a write, or it would map the zero page */
            hg_or_rlx(&h->marks[at / (HG_GRAIN * 64)], 0u);
}

void hg__heap_touch_marks(struct hg_heap *h)
{
    size_t ahead = TOUCH_STEP / 8, low = hg_load_rlx(&h->low_end),
           high = hg_load_rlx(&h->high_start);
    size_t below = high > ahead ? high - ahead : 0;
    if (low != 0)
        touch_marks(h, 0, low + ahead, low + ahead - 1);
    if (high != h->size)
        touch_marks(h, below, h->size, below);
}

/* scavenge.c: giving free pages back to the kernel, and collapsing full blocks into huge pages.
 *
 * Both work in blocks of 2 MiB, the size of a huge page. A step gives back at most one block's
 * pages and ends at its border, so that an empty block goes back whole, huge page and all. Where
 * only part of a block is free, giving that part back breaks a huge page up; the block may then be
 * collapsed again later.
 *
 * No lock is held during a system call: the pages are taken out of the page heap first, and put
 * back as clean ones. The allocator finds other pages meanwhile.
 *
 * Collapsing (AUTO only) costs milliseconds, so it is for the background thread, one block a step,
 * and only for blocks that sweeps found nearly full of live objects: those that marking will walk
 * through again and again. A block is tried once, until pages of it have been given back.
 *
 * Rejected: advice for huge pages on the whole heap. It inflates the memory of a process whose live
 * objects are spread thin, and the kernel then fights the giving back (HG_HUGEPAGES_ALWAYS is for
 * those who know).
 */
#include "alloc/internal.h"

/* Live bytes from which a block is worth a huge page: size classes waste up to an eighth of a full
 * one. */
#define COLLAPSE_LIVE  ((int32_t)(HG_BLOCK_BYTES / 8 * 7))
#define COLLAPSE_TRIES 4 /* refusals by the kernel in one step */

size_t hg__scavenge(struct hg_heap *h, size_t bytes)
{
    size_t done = 0;
    while (bytes - done >= HG_PAGE_BYTES) {
        size_t most = hg_min_size((bytes - done) >> HG_PAGE_SHIFT, HG_BLOCK_PAGES);
        struct hg_span *s = hg__pages_take_dirty(h, (uint32_t)most);
        if (s == NULL) {
            if (hg__empties_dissolve(h, HG_BLOCK_PAGES) == 0)
                break;
            continue;
        }
        size_t n = (size_t)hg__bytes_of(s->pages);
        hg__os_discard((void *)s->start, n);
        hg_store_rlx(&h->pages->block_tried[(s->start - h->base) >> HG_BLOCK_SHIFT], 0);
        hg__pages_put_clean(h, s);
        done += n;
    }
    hg_add_rlx(&h->released_bytes, done);
    return done;
}

/* Whether block b lies whole in an area, is nearly full of live objects, and was not tried yet. */
static bool worth_collapsing(const struct hg_heap *h, size_t b)
{
    size_t begin = b << HG_BLOCK_SHIFT, end = begin + HG_BLOCK_BYTES;
    return (end <= hg_load_rlx(&h->low_end) || begin >= hg_load_rlx(&h->high_start)) &&
           hg_load_rlx(&h->pages->block_live[b]) >= COLLAPSE_LIVE &&
           hg_load_rlx(&h->pages->block_tried[b]) == 0;
}

/* The block after b; the gap between the areas is left out. */
static size_t next_block(const struct hg_heap *h, size_t b)
{
    size_t low = hg_load_rlx(&h->low_end) >> HG_BLOCK_SHIFT;
    size_t high = hg_load_rlx(&h->high_start) >> HG_BLOCK_SHIFT;
    b++;
    if (b >= low && b < high)
        b = high;
    return b < h->size >> HG_BLOCK_SHIFT ? b : 0;
}

bool hg__collapse_step(struct hg_heap *h)
{
    if (h->config.hugepages != HG_HUGEPAGES_AUTO)
        return false;
    size_t first = h->pages->collapse_cursor, b = first;
    int tries = 0;
    bool done = false;
    do {
        if (worth_collapsing(h, b)) {
            hg_store_rlx(&h->pages->block_tried[b], 1);
            done = hg__os_collapse((void *)(h->base + (b << HG_BLOCK_SHIFT)), HG_BLOCK_BYTES) == 0;
            tries++;
        }
        b = next_block(h, b);
    } while (!done && tries < COLLAPSE_TRIES && b != first);
    h->pages->collapse_cursor = (uint32_t)b;
    return done;
}

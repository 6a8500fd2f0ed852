/* pages.c: the page heap: extents of 8 KiB pages, taken, put back, merged.
 *
 * The low area [0, low_end) and the high area [high_start, size) grow towards each other in steps.
 * Each page of an area lies in one extent, described by one struct hg_span:
 *
 *   free run   struct->free; in a bin; maximal: no two free runs of an area touch
 *   taken      a span, or a chunk in a cache that spans are carved from
 *
 * Invariants (lock PAGES, checked by hg__heap_verify):
 *   1. A free run's first and last entry of heap->spans is its struct. Other free pages' entries
 *   are
 *      stale, and an entry is trusted only if its struct is free and really ends, or begins, there.
 *   2. bit p of `dirty`, for a free page p: the page may hold old contents, and counts as
 *   free_bytes.
 *      A clean page reads as zero and costs no memory. Bits of taken pages mean nothing.
 *   3. run->dirty is the number of its dirty pages. Runs with any are in the DIRTY bins.
 *   4. Marks of free pages are clear, and their desc entries 0.
 *
 * Putting back never allocates: the struct of an extent becomes the struct of its run. So memory
 * can always be freed, also when metadata cannot grow.
 *
 * Which run: the smallest bin that is sure to hold one, dirty runs before clean ones, so that pages
 * the process has are used before it gets more. A chunk takes a smaller dirty run before a large
 * clean one, for the same reason. Extents are cut from the end of the run that is older (low:
 * first, high: last).
 *
 * Locks: PAGES, held for bin and bitmap work and for growing (one system call per 4 MiB); never for
 * giving memory back.
 */
#include "alloc/internal.h"

/* ---- bins ---- */

unsigned hg__pages_bin(uint32_t pages)
{
    if (pages < HG_EXACT_BINS)
        return pages;
    unsigned log = hg_log2(pages);
    return HG_EXACT_BINS + (log - 5) * 8 + (pages >> (log - 3) & 7);
}

static struct hg_bins *bins_of(struct hg_pages *p, enum hg_area area, const struct hg_span *run)
{
    return &p->bins[area][run->dirty > 0 ? HG_DIRTY : HG_CLEAN];
}

static void bin_insert(struct hg_pages *p, enum hg_area area, struct hg_span *run)
{
    struct hg_bins *b = bins_of(p, area, run);
    unsigned bin = hg__pages_bin(run->pages);
    hg__span_push(&b->head[bin], run);
    b->used[bin / 64] |= (uint64_t)1 << (bin % 64);
    run->free = true;
}

static void bin_remove(struct hg_pages *p, enum hg_area area, struct hg_span *run)
{
    struct hg_bins *b = bins_of(p, area, run);
    unsigned bin = hg__pages_bin(run->pages);
    hg__span_remove(&b->head[bin], run);
    if (b->head[bin] == NULL)
        b->used[bin / 64] &= ~((uint64_t)1 << (bin % 64));
    run->free = false;
}

/* Lowest used bin from `bin` on, or HG_BINS. */
static unsigned bin_from(const struct hg_bins *b, unsigned bin)
{
    for (unsigned w = bin / 64; w < HG_BINS / 64; w++) {
        uint64_t used = b->used[w];
        if (w == bin / 64)
            used &= UINT64_MAX << (bin % 64);
        if (used != 0)
            return w * 64 + hg_ctz64(used);
    }
    return HG_BINS;
}

/* Highest used bin, or HG_BINS. */
static unsigned bin_highest(const struct hg_bins *b)
{
    for (unsigned w = HG_BINS / 64; w-- > 0;)
        if (b->used[w] != 0)
            return w * 64 + hg_log2(b->used[w]);
    return HG_BINS;
}

/* A run of at least n pages. Runs of n's own bin may be too small, and `tries` of them are looked
 * at; those of higher bins all do. */
static struct hg_span *find_run(const struct hg_bins *b, uint32_t n, unsigned tries)
{
    unsigned bin = hg__pages_bin(n);
    for (struct hg_span *r = b->head[bin]; r != NULL && tries > 0; r = r->next, tries--)
        if (r->pages >= n)
            return r;
    bin = bin_from(b, bin + 1);
    return bin < HG_BINS ? b->head[bin] : NULL;
}

/* ---- the dirty bitmap ---- */

/* Bits of pages [page, page + n) that lie in the bitmap's word of `page`. */
static uint64_t word_bits(uint32_t page, uint32_t n)
{
    uint32_t bit = page % 64;
    uint64_t bits = n >= 64 - bit ? UINT64_MAX : ((uint64_t)1 << n) - 1;
    return bit == 0 ? bits : bits << bit;
}

static uint32_t dirty_count(const struct hg_pages *p, uint32_t page, uint32_t n)
{
    uint32_t count = 0;
    while (n > 0) {
        uint32_t step = 64 - page % 64 < n ? 64 - page % 64 : n;
        count += hg_popcount64(p->dirty[page / 64] & word_bits(page, step));
        page += step;
        n -= step;
    }
    return count;
}

static void dirty_set(struct hg_pages *p, uint32_t page, uint32_t n, bool dirty)
{
    while (n > 0) {
        uint32_t step = 64 - page % 64 < n ? 64 - page % 64 : n;
        uint64_t bits = word_bits(page, step), *word = &p->dirty[page / 64];
        if (dirty)
            *word |= bits;
        else if ((*word & bits) != 0)
            *word &= ~bits;
        page += step;
        n -= step;
    }
}

/* ---- runs ---- */

static void set_entry(struct hg_heap *h, uint32_t page, struct hg_span *s)
{
    hg_store_rlx(&h->spans[page], s);
}

/* Makes an extent a free run, merged with the runs it touches. run->dirty is set. Requires: PAGES.
 * */
static void insert_run(struct hg_heap *h, enum hg_area area, struct hg_span *run)
{
    struct hg_pages *p = h->pages;
    uint32_t page = hg__page_of(h, run->start), end = page + run->pages;
    HG_ASSERT_HELD(&p->lock);
    uint32_t area_first = area == HG_LOW ? 0 : p->high_start;
    uint32_t area_end = area == HG_LOW ? p->low_end : (uint32_t)(h->size >> HG_PAGE_SHIFT);
    struct hg_span *before = page > area_first ? hg_load_rlx(&h->spans[page - 1]) : NULL;
    if (before != NULL && before->free && hg__page_of(h, before->start) + before->pages == page) {
        bin_remove(p, area, before);
        run->start = before->start;
        run->pages += before->pages;
        run->dirty += before->dirty;
        hg__span_push(&p->structs, before);
    }
    struct hg_span *after = end < area_end ? hg_load_rlx(&h->spans[end]) : NULL;
    if (after != NULL && after->free && hg__page_of(h, after->start) == end) {
        bin_remove(p, area, after);
        run->pages += after->pages;
        run->dirty += after->dirty;
        hg__span_push(&p->structs, after);
    }
    page = hg__page_of(h, run->start);
    set_entry(h, page, run);
    set_entry(h, page + run->pages - 1, run);
    bin_insert(p, area, run);
}

/* One struct more than the spare ones; refills them from the metadata arena. Requires: PAGES. */
static struct hg_span *new_struct(struct hg_heap *h)
{
    enum { BATCH = 32 };
    struct hg_pages *p = h->pages;
    HG_ASSERT_HELD(&p->lock);
    if (p->structs == NULL) {
        struct hg_span *block = hg__meta_alloc(h->meta, BATCH * sizeof *block);
        if (block == NULL)
            return NULL;
        for (int i = 0; i < BATCH; i++)
            hg__span_push(&p->structs, &block[i]);
    }
    struct hg_span *s = p->structs;
    hg__span_remove(&p->structs, s);
    hg__span_prefetch(p->structs);
    return s;
}

/* Cuts pages [page, page + n) out of a free run; what is left of it on both sides stays free. NULL:
 * no memory for a struct. Requires: PAGES. */
static struct hg_span *carve(struct hg_heap *h, enum hg_area area, struct hg_span *run,
                             uint32_t page, uint32_t n)
{
    struct hg_pages *p = h->pages;
    uint32_t first = hg__page_of(h, run->start), end = first + run->pages;
    struct hg_span *right = NULL, *out = run;
    if (page > first && (out = new_struct(h)) == NULL)
        return NULL;
    if (page + n < end && (right = new_struct(h)) == NULL) {
        if (out != run)
            hg__span_push(&p->structs, out);
        return NULL;
    }
    bin_remove(p, area, run);
    /* The bits of one of the three parts need no counting; of two if one is empty. */
    uint32_t mine = dirty_count(p, page, n), others = run->dirty - mine, left = 0;
    if (page > first)
        left = right != NULL ? dirty_count(p, first, page - first) : others;
    if (right != NULL) {
        right->start = hg__page_address(h, page + n);
        right->pages = end - page - n;
        right->dirty = others - left;
        set_entry(h, page + n, right);
        set_entry(h, end - 1, right);
        bin_insert(p, area, right);
    }
    if (out != run) {
        run->pages = page - first;
        run->dirty = left;
        set_entry(h, page - 1, run);
        bin_insert(p, area, run);
    }
    out->start = hg__page_address(h, page);
    out->pages = n;
    out->dirty = mine;
    return out;
}

/* The free run at the growing end of an area, or NULL. */
static struct hg_span *run_at_edge(struct hg_heap *h, enum hg_area area)
{
    struct hg_pages *p = h->pages;
    if (area == HG_LOW ? p->low_end == 0 : p->high_start == h->size >> HG_PAGE_SHIFT)
        return NULL;
    struct hg_span *r = hg_load_rlx(&h->spans[area == HG_LOW ? p->low_end - 1 : p->high_start]);
    if (r == NULL || !r->free)
        return NULL;
    uint32_t first = hg__page_of(h, r->start);
    bool touches = area == HG_LOW ? first + r->pages == p->low_end : first == p->high_start;
    return touches ? r : NULL;
}

/* Grows an area so that a run of n pages is free at its edge. Requires: PAGES. */
static bool grow(struct hg_heap *h, enum hg_area area, uint32_t n)
{
    struct hg_pages *p = h->pages;
    struct hg_span *edge = run_at_edge(h, area), *run;
    if (edge != NULL && edge->pages >= n)
        return true;
    uint32_t room = p->high_start - p->low_end, need = n - (edge != NULL ? edge->pages : 0);
    if (need > room)
        return false;
    uint64_t step = hg_round_up(need, HG_GROW_PAGES);
    if (step > room)
        step = room;
    uint32_t page = area == HG_LOW ? p->low_end : p->high_start - (uint32_t)step;
    size_t bytes = (size_t)step << HG_PAGE_SHIFT;
    if ((run = new_struct(h)) == NULL)
        return false;
    if (hg__os_commit((void *)hg__page_address(h, page), bytes) != 0) {
        hg__span_push(&p->structs, run);
        return false;
    }
    /* Markers compare against these relaxed: an object beyond the bound they see was allocated
     * after their own mutators' SCAN, so it is black and needs nothing from them. */
    if (area == HG_LOW) {
        p->low_end += (uint32_t)step;
        hg_store_rel(&h->low_end, (size_t)p->low_end << HG_PAGE_SHIFT);
    } else {
        p->high_start = page;
        hg_store_rel(&h->high_start, (size_t)page << HG_PAGE_SHIFT);
    }
    run->start = hg__page_address(h, page);
    run->pages = (uint32_t)step;
    run->dirty = 0;
    insert_run(h, area, run);
    return true;
}

/* Largest run of at least `least` pages, of the highest bin that has any. */
static struct hg_span *find_largest(const struct hg_bins *b, uint32_t least)
{
    unsigned bin = bin_highest(b);
    return bin < HG_BINS && b->head[bin]->pages >= least ? b->head[bin] : NULL;
}

enum { FEW = 16 };

bool hg__pages_has_old(struct hg_heap *h, enum hg_area area, uint32_t n)
{
    struct hg_pages *p = h->pages;
    hg__lock(&p->lock);
    bool has = find_run(&p->bins[area][HG_DIRTY], n, FEW) != NULL;
    hg__unlock(&p->lock);
    return has;
}

static struct hg_span *choose_run(struct hg_heap *h, enum hg_area area, uint32_t min, uint32_t want)
{
    const struct hg_bins *dirty = &h->pages->bins[area][HG_DIRTY];
    const struct hg_bins *clean = &h->pages->bins[area][HG_CLEAN];
    struct hg_span *r;
    if ((r = find_run(dirty, want, FEW)) != NULL || (r = find_largest(dirty, min)) != NULL ||
        (r = find_run(dirty, min, FEW)) != NULL || (r = find_run(clean, want, FEW)) != NULL)
        return r;
    if (grow(h, area, want))
        return run_at_edge(h, area);
    if ((r = find_run(clean, min, FEW)) != NULL)
        return r;
    if (grow(h, area, min))
        return run_at_edge(h, area);
    r = find_run(dirty, min, UINT32_MAX);
    return r != NULL ? r : find_run(clean, min, UINT32_MAX);
}

struct hg_span *hg__pages_take(struct hg_heap *h, enum hg_area area, uint32_t min, uint32_t want)
{
    struct hg_pages *p = h->pages;
    hg__lock(&p->lock);
    struct hg_span *s = NULL, *run = choose_run(h, area, min, want);
    if (run != NULL) {
        uint32_t n = run->pages < want ? run->pages : want;
        uint32_t first = hg__page_of(h, run->start);
        s = carve(h, area, run, area == HG_LOW ? first : first + run->pages - n, n);
    }
    hg__unlock(&p->lock);
    if (s != NULL) {
        s->needs_zero = s->dirty > 0;
        hg_add_rlx(&h->mapped_bytes, hg__bytes_of(s->pages - s->dirty));
        hg_sub_rlx(&h->free_bytes, hg__bytes_of(s->dirty));
    }
    return s;
}

static enum hg_area area_at(const struct hg_heap *h, uintptr_t start)
{
    return start - h->base < hg_load_rlx(&h->low_end) ? HG_LOW : HG_HIGH;
}

void hg__pages_put(struct hg_heap *h, struct hg_span *s)
{
    struct hg_pages *p = h->pages;
    hg_add_rlx(&h->free_bytes, hg__bytes_of(s->pages));
    hg__lock(&p->lock);
    dirty_set(p, hg__page_of(h, s->start), s->pages, true);
    s->dirty = s->pages;
    insert_run(h, area_at(h, s->start), s);
    hg__unlock(&p->lock);
}

/* ---- structs ---- */

struct hg_span *hg__structs_take(struct hg_heap *h, unsigned n)
{
    struct hg_span *chain = NULL, *s;
    hg__lock(&h->pages->lock);
    while (n-- > 0 && (s = new_struct(h)) != NULL)
        hg__span_push(&chain, s);
    hg__unlock(&h->pages->lock);
    return chain;
}

void hg__structs_put(struct hg_heap *h, struct hg_span *chain)
{
    hg__lock(&h->pages->lock);
    while (chain != NULL) {
        struct hg_span *next = chain->next;
        hg__span_push(&h->pages->structs, chain);
        chain = next;
    }
    hg__unlock(&h->pages->lock);
}

/* ---- giving back ---- */

/* First dirty page of a run that has one. */
static uint32_t first_dirty(const struct hg_pages *p, uint32_t page)
{
    while (true) {
        uint64_t bits = p->dirty[page / 64] & (UINT64_MAX << (page % 64));
        if (bits != 0)
            return page / 64 * 64 + hg_ctz64(bits);
        page = (page / 64 + 1) * 64;
    }
}

struct hg_span *hg__pages_take_dirty(struct hg_heap *h, uint32_t most)
{
    struct hg_pages *p = h->pages;
    struct hg_span *s = NULL;
    hg__lock(&p->lock);
    struct hg_span *low = find_largest(&p->bins[HG_LOW][HG_DIRTY], 1);
    struct hg_span *high = find_largest(&p->bins[HG_HIGH][HG_DIRTY], 1);
    bool in_low = high == NULL || (low != NULL && low->pages >= high->pages);
    enum hg_area area = in_low ? HG_LOW : HG_HIGH;
    struct hg_span *run = in_low ? low : high;
    if (run != NULL && most > 0) {
        uint32_t page = first_dirty(p, hg__page_of(h, run->start));
        uint32_t end = hg__page_of(h, run->start) + run->pages, n = 0;
        uint32_t block_end = (page / HG_BLOCK_PAGES + 1) * HG_BLOCK_PAGES;
        while (n < most && page + n < end && page + n < block_end && hg__page_dirty(p, page + n))
            n++;
        s = carve(h, area, run, page, n);
    }
    hg__unlock(&p->lock);
    if (s != NULL) {
        hg_sub_rlx(&h->mapped_bytes, hg__bytes_of(s->pages));
        hg_sub_rlx(&h->free_bytes, hg__bytes_of(s->pages));
    }
    return s;
}

void hg__pages_put_clean(struct hg_heap *h, struct hg_span *s)
{
    struct hg_pages *p = h->pages;
    hg__lock(&p->lock);
    dirty_set(p, hg__page_of(h, s->start), s->pages, false);
    s->dirty = 0;
    insert_run(h, area_at(h, s->start), s);
    hg__unlock(&p->lock);
}

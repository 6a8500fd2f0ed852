/* cache.c: a mutator's cache: refill, stash, release.
 *
 * For each span class a cache holds one span and works through its allocation words (64 slots each)
 * from the first to the last. cache_slot.mask is the private copy of what is free in the word in
 * use, span->mask the published one.
 *
 *              refill: next word             refill: no word left
 *   [mask] ------------------------> [mask] ----------------------> full list, another span
 *      |  stash (SCAN)
 *      v        refill: marks it if black
 *   [stash] ------------------------> [mask]
 *
 * Colours. The free slots of a word are marked when a black mutator takes the word, or its stash,
 * never later. So for a black mutator the marks of a cached span are: those of `mask` set and
 * unused, those of `stash` clear. Release clears the former, or the sweep would find slots marked
 * that hold nothing.
 *
 * Note [MASK], the changes of word. Going from one word to another the owner stores, each with
 * release:
 *   1. the old word's allocation bits   2. word = HG_NO_WORD   3. mask of the new word   4. word =
 *   new
 * hg__slot_allocated reads, with acquire: bits, word, mask, word. If it reads mask between two
 * equal reads of its word, the mask is that word's: a mask of another word is preceded by (2). If
 * it reads another word, its second look at the bits sees (1). Without (2) it could take the new
 * mask for the old word and miss an object, or the old mask (0: all allocated) for the new word and
 * mark a slot that is not clear.
 *
 * Where refill looks, in this order: the stash; the next word of the span; a swept span with free
 * slots; an empty one; unswept spans of the class, up to a bound, of which it keeps one with free
 * slots; new pages; more unswept spans, of any class, until there are pages or none is left. So
 * memory that the last cycle freed is used before there is more, and one refill costs a bounded
 * amount as long as there are pages.
 *
 * Clearing is done by who takes a slot, for each slot alone: clearing a word's slots ahead, in the
 * refill, was slower (48 and 64 bytes: by 2 ns), as the stores then wait for memory in one place
 * instead of beside the program. Pages that are clean from the kernel are not cleared again, until
 * a sweep has freed a slot of the span.
 *
 * Owner: the mutator, or the driver that has taken it. Locks: none across a step; CENTRAL and PAGES
 * inside.
 */
#include "alloc/internal.h"

#include <string.h>

/* Most that one refill sweeps before it takes new pages. */
#define SWEEP_PAGES 16u

void hg__cache_init(struct hg_cache *c, struct hg_heap *h)
{
    memset(c, 0, sizeof *c);
    c->heap = h;
    for (unsigned i = 0; i < HG_SPAN_CLASSES; i++) {
        c->slot[i].size = hg__class[i / HG_SPAN_KINDS].size;
        c->slot[i].heap_base = h->base;
    }
}

/* ---- marks of a word's slots ---- */

/* The low half of x, spread to the even bits. */
static uint64_t spread_even(uint64_t x)
{
    x &= UINT64_C(0x00000000ffffffff);
    x = (x | x << 16) & UINT64_C(0x0000ffff0000ffff);
    x = (x | x << 8) & UINT64_C(0x00ff00ff00ff00ff);
    x = (x | x << 4) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    x = (x | x << 2) & UINT64_C(0x3333333333333333);
    return (x | x << 1) & UINT64_C(0x5555555555555555);
}

static void change_marks(_Atomic uint64_t *marks, uint64_t bits, bool set)
{
    if (bits == 0)
        return;
    if (set)
        hg_or_rlx(marks, bits);
    else
        hg_and_rlx(marks, ~bits);
}

/* Sets or clears the marks of the slots `mask` of the word in use, with one atomic operation for
 * each word of marks that is concerned. The word's 64 slots begin at the first bit of a word of
 * marks, as spans begin at pages, and take as many words of marks as their stride is. Relaxed: the
 * slots are free, so nobody looks at their marks before they are handed out. */
static void mark_slots(struct hg_heap *h, const struct hg_cache_slot *slot, uint64_t mask, bool set)
{
    _Atomic uint64_t *marks = hg__mark_word(h, h->base + slot->offset);
    unsigned stride = slot->size / HG_GRAIN;
    if (stride == 1) {
        change_marks(marks, mask, set);
    } else if (stride == 2) {
        for (int i = 0; i < 2; i++)
            change_marks(marks + i, spread_even(mask >> (32 * i)), set);
    } else if (stride == 4) {
        for (int i = 0; i < 4; i++)
            change_marks(marks + i, spread_even(spread_even(mask >> (16 * i) & 0xffff)), set);
    } else {
        uint64_t bits = 0;
        size_t at = 0;
        for (; mask != 0; mask &= mask - 1) {
            size_t grain = (size_t)hg_ctz64(mask) * stride;
            if (grain / 64 != at) {
                change_marks(marks + at, bits, set);
                at = grain / 64;
                bits = 0;
            }
            bits |= (uint64_t)1 << (grain % 64);
        }
        change_marks(marks + at, bits, set);
    }
}

/* ---- words of a span ---- */

/* Makes word w the word in use, unless it has no free slot. Requires: no word in use. */
static bool open_word(struct hg_cache_slot *slot, uint32_t w)
{
    struct hg_span *s = slot->span;
    uint64_t mask = hg__word_slots(s, w) & ~hg_load_rlx(&s->alloc_bits[w]);
    if (mask == 0)
        return false;
    hg_store_rel(&s->mask, mask); /* Note [MASK] 3 */
    hg_store_rel(&s->word, w);    /* Note [MASK] 4 */
    slot->mask = mask;
    slot->offset = s->start - slot->heap_base + (size_t)w * 64 * s->size;
    slot->ids = (uint16_t *)(s->start + s->bytes) - 1 - (size_t)w * 64;
    slot->layout = s->layout;
    slot->dirty = s->needs_zero;
    return true;
}

static bool open_word_from(struct hg_cache_slot *slot, uint32_t w)
{
    uint32_t words = hg__span_words(slot->span);
    while (w < words && !open_word(slot, w))
        w++;
    return w < words;
}

/* Folds the word in use into the allocation bits, but for its slots `unused`. */
static void close_word(struct hg_span *s, uint32_t w, uint64_t unused)
{
    uint64_t bits = hg_load_rlx(&s->alloc_bits[w]) | (hg__word_slots(s, w) & ~unused);
    hg_store_rel(&s->alloc_bits[w], bits); /* Note [MASK] 1 */
    hg_store_rel(&s->word, HG_NO_WORD);    /* Note [MASK] 2 */
}

uintptr_t hg__cache_take(struct hg_cache_slot *s, uint16_t layout)
{
    if (s->mask == 0 || (s->layout != layout && s->layout != 0))
        return 0;
    return hg__cache_pick(s, s->layout == 0 ? layout : 0, false);
}

/* ---- refill ---- */

/* Goes on to the next word of the span in the cache, or lets the span go. */
static bool next_word(struct hg_heap *h, struct hg_cache_slot *slot)
{
    struct hg_span *s = slot->span;
    if (s == NULL)
        return false;
    uint32_t w = hg_load_rlx(&s->word);
    close_word(s, w, 0);
    if (open_word_from(slot, w + 1))
        return true;
    slot->span = NULL;
    hg__central_push(h, s, HG_FULL);
    return false;
}

/* Takes the first span with free slots out of a batch that was swept, or returns NULL. */
static struct hg_span *pick_span(struct hg_batch *b)
{
    for (unsigned i = 0; i < b->n; i++) {
        struct hg_span *s = b->span[i];
        if (s->live < s->count) {
            memmove(&b->span[i], &b->span[i + 1], (--b->n - i) * sizeof b->span[0]);
            return s;
        }
    }
    return NULL;
}

/* Sweeps unswept spans of one class, up to the bound; one with free slots, or NULL. */
static struct hg_span *sweep_own(struct hg_heap *h, struct hg_central *c, uint32_t gen,
                                 uint32_t *swept)
{
    struct hg_span *found = NULL;
    struct hg_batch b;
    size_t pages = 0, n = 1;
    if (hg_load_rlx(&c->listed[(gen - 1) & 1]) == 0)
        return NULL;
    hg__sweep_enter(h);
    while (found == NULL && n > 0 && pages < SWEEP_PAGES) {
        n = hg__sweep_batch(h, c, gen, SWEEP_PAGES - pages, &b);
        pages += n;
        found = pick_span(&b);
        hg__sweep_file(h, &b);
    }
    hg__sweep_leave(h, pages);
    *swept += (uint32_t)pages;
    return found;
}

/* Sweeps what is left of one class until a span has free slots. */
static struct hg_span *sweep_all_own(struct hg_heap *h, struct hg_central *c, uint32_t gen,
                                     uint32_t *swept)
{
    struct hg_span *s;
    uint32_t before;
    do {
        before = *swept;
        s = sweep_own(h, c, gen, swept);
    } while (s == NULL && *swept != before);
    return s;
}

/* No pages were to be had: sweeps what is left, of this class first, until a span has free slots or
 * pages are free. */
static struct hg_span *sweep_for_room(struct hg_cache *c, unsigned span_class, uint16_t layout,
                                      uint32_t gen, uint32_t *swept)
{
    enum { STEP = 64 };
    struct hg_heap *h = c->heap;
    struct hg_span *s;
    size_t pages;
    do {
        if ((s = sweep_all_own(h, &h->central[span_class], gen, swept)) != NULL)
            return s;
        hg__sweep_enter(h);
        pages = hg__sweep_into(h, gen, STEP);
        hg__sweep_leave(h, pages);
        *swept += (uint32_t)pages;
        if ((s = hg__span_new(c, span_class, layout, gen)) != NULL)
            return s;
    } while (pages > 0);
    return NULL;
}

static struct hg_span *find_span(struct hg_cache *c, unsigned span_class, uint16_t layout,
                                 uint32_t gen, uint32_t *swept)
{
    struct hg_heap *h = c->heap;
    struct hg_span *s;
    struct hg_central *own = &h->central[span_class];
    if ((s = hg__central_pop(h, own, gen, HG_PARTIAL)) != NULL)
        return s;
    if (c->tight)
        return sweep_all_own(h, own, gen, swept);
    if ((s = hg__central_pop_empty(h, own, gen)) != NULL ||
        (s = sweep_own(h, own, gen, swept)) != NULL ||
        (s = hg__span_new(c, span_class, layout, gen)) != NULL)
        return s;
    return sweep_for_room(c, span_class, layout, gen, swept);
}

/* A word with free slots, in the span at hand or another. */
static bool take_word(struct hg_cache *c, unsigned span_class, uint16_t layout, uint32_t gen,
                      uint32_t *swept)
{
    struct hg_cache_slot *slot = &c->slot[span_class];
    if (!next_word(c->heap, slot)) {
        struct hg_span *s = slot->span = find_span(c, span_class, layout, gen, swept);
        if (s == NULL)
            return false;
        if (s->layout != layout && hg__span_is_empty(s)) { /* nothing refers to it: Note [LAYOUT] */
            s->layout = layout;
            hg__span_describe(c->heap, s);
        }
        bool opened = open_word_from(slot, 0);
        HG_CHECK(opened, "a span without free slots was taken for allocation");
    }
    unsigned n = hg_popcount64(slot->mask);
    c->alloc_slots += n;
    c->alloc_bytes += (int64_t)n * slot->size;
    return true;
}

/* Note [LAYOUT] */
static void mix(struct hg_heap *h, struct hg_cache_slot *slot)
{
    struct hg_span *s = slot->span;
    uint16_t *ids = (uint16_t *)(s->start + s->bytes);
    HG_ASSERT(s->kind == HG_SPAN_DESCRIBED);
    for (uint32_t i = 0; i < s->count; i++)
        *--ids = s->layout;
    s->layout = slot->layout = 0;
    hg__span_describe(h, s);
}

enum hg_refill hg__cache_refill(struct hg_cache *c, unsigned span_class, uint16_t layout,
                                bool black, uint32_t gen, uint32_t *swept)
{
    struct hg_cache_slot *slot = &c->slot[span_class];
    uint32_t pages = 0;
    bool found = true, filled = slot->mask == 0;
    HG_ASSERT(slot->size != 0);
    if (slot->mask == 0 && slot->stash != 0) {
        slot->mask = slot->stash; /* counted when its word was taken */
        slot->stash = 0;
    } else if (slot->mask == 0) {
        found = take_word(c, span_class, layout, gen, &pages);
    }
    if (found && filled && black)
        mark_slots(c->heap, slot, slot->mask, true);
    if (found && slot->layout != layout && slot->layout != 0)
        mix(c->heap, slot);
    if (swept != NULL)
        *swept = pages;
    return found ? HG_REFILL_OK : HG_REFILL_NO_MEMORY;
}

/* ---- stash, release ---- */

void hg__cache_stash(struct hg_cache *c)
{
    for (unsigned i = 0; i < HG_SPAN_CLASSES; i++) {
        struct hg_cache_slot *slot = &c->slot[i];
        slot->stash |= slot->mask;
        slot->mask = 0;
    }
}

static void release_slot(struct hg_cache *c, struct hg_cache_slot *slot, bool black)
{
    struct hg_span *s = slot->span;
    uint32_t w = hg_load_rlx(&s->word);
    uint64_t unused = slot->mask | slot->stash;
    if (black)
        mark_slots(c->heap, slot, slot->mask, false);
    unsigned n = hg_popcount64(unused);
    c->alloc_slots -= n;
    c->alloc_bytes -= (int64_t)n * slot->size;
    close_word(s, w, unused);
    slot->span = NULL;
    slot->mask = slot->stash = 0;
    bool full = true;
    for (w = 0; full && w < hg__span_words(s); w++)
        full = hg_load_rlx(&s->alloc_bits[w]) == hg__word_slots(s, w);
    hg__central_push(c->heap, s, full ? HG_FULL : HG_PARTIAL);
}

void hg__cache_release(struct hg_cache *c, bool black)
{
    for (unsigned i = 0; i < HG_SPAN_CLASSES; i++)
        if (c->slot[i].span != NULL)
            release_slot(c, &c->slot[i], black);
    hg__chunks_release(c);
}

/* verify.c: walks a heap at rest: each object, and each equation of alloc.h and pages.c.
 *
 * "At rest": no allocation, no sweep, no marking meanwhile, and the caller sees what the mutators
 * wrote. Spans may lie in caches. Equations, by what is walked:
 *
 *   pages    each page of an area lies in one extent: a free run, a span that is shown, a chunk or
 *   a large
 *            span that is not shown yet; desc and spans[] agree with the span on each of its pages
 *   runs     maximal; in the bin of their size and group; dirty count = bits; marks clear; desc 0
 *   spans    alloc bits of slots only; each mark is a slot's, and that slot is allocated or lies in
 *   a word
 *            in use; a listed span has no word in use
 *   lists    generation g or g - 1 and its parity; partial lists have a free slot, full ones none
 *   counts   mapped = span + free;  free = dirty pages of runs + cached;  span = shown + not shown
 *   yet;
 *            unswept = pages listed in g - 1;  listed + in caches = shown
 */
#include "alloc/internal.h"

#include <inttypes.h>

struct sums {
    uint64_t free_pages, dirty_pages; /* of free runs */
    uint64_t shown_pages, used_pages; /* of spans shown; of those with a word in use */
    uint64_t other_pages;             /* of neither: chunks, large spans not shown yet */
    uint64_t listed_pages, unswept_pages, empty_pages;
};

static void check_equal(const char *what, int64_t counted, uint64_t found)
{
    HG_CHECK(counted >= 0 && (uint64_t)counted == found,
             "heap: %s: counted %" PRId64 ", found %" PRIu64, what, counted, found);
}

/* ---- spans ---- */

static bool has_free_slot(const struct hg_span *s)
{
    for (uint32_t w = 0; w < hg__span_words(s); w++)
        if (hg_load_rlx(&s->alloc_bits[w]) != hg__word_slots(s, w))
            return true;
    return false;
}

/* Whether slot i may be marked without being allocated: a black mutator's word. */
static bool in_word_in_use(const struct hg_span *s, uint32_t i)
{
    return hg_load_acq(&s->word) == i / 64;
}

static void check_marks(const struct hg_heap *h, const struct hg_span *s)
{
    const _Atomic uint64_t *marks = hg__mark_word(h, s->start);
    for (size_t w = 0; w < s->bytes / (HG_GRAIN * 64); w++)
        for (uint64_t bits = hg_load_rlx(&marks[w]); bits != 0; bits &= bits - 1) {
            size_t offset = (w * 64 + hg_ctz64(bits)) * HG_GRAIN;
            size_t i = s->size_class != 0 ? offset / s->size : 0;
            HG_CHECK(i < s->count && offset == i * s->size,
                     "heap: span 0x%" PRIxPTR ": a mark at %zu, where no object begins", s->start,
                     offset);
            HG_CHECK(hg__slot_allocated(s, (uint32_t)i) || in_word_in_use(s, (uint32_t)i),
                     "heap: span 0x%" PRIxPTR ": slot %zu is free and marked", s->start, i);
        }
}

static void check_span(const struct hg_heap *h, const struct hg_span *s, uint32_t page)
{
    HG_CHECK(s->start == hg__page_address(h, page) && s->pages > 0 && !s->free,
             "heap: page %u: its span does not begin here", page);
    HG_CHECK((hg__area_of(s->kind) == HG_LOW) == (s->start - h->base < hg_load_rlx(&h->low_end)),
             "heap: page %u: a span of kind %u lies in the wrong area", page, s->kind);
    for (uint32_t i = 0; i < s->pages; i++) {
        HG_CHECK(hg_load_acq(&h->desc[page + i]) == hg__span_desc(s, i) &&
                     (hg_load_acq(&h->spans[page + i]) == s || (s->size_class == 0 && i > 0)),
                 "heap: page %u does not agree with its span", page + i);
    }
    bool coded = s->size_class != 0 && s->pages == 1;
    HG_CHECK(hg_load_rlx(&h->codes[page]) == (coded ? hg__code(s->size_class, s->kind) : 0),
             "heap: page %u has another span's code", page);
    HG_CHECK(!s->full || !has_free_slot(s), "heap: span 0x%" PRIxPTR ": full, with a free slot",
             s->start);
    for (uint32_t w = 0; w < hg__span_words(s); w++)
        HG_CHECK((hg_load_rlx(&s->alloc_bits[w]) & ~hg__word_slots(s, w)) == 0,
                 "heap: span 0x%" PRIxPTR ": a slot beyond its last is allocated", s->start);
    check_marks(h, s);
}

/* ---- pages ---- */

static void check_run(struct hg_heap *h, enum hg_area area, const struct hg_span *run,
                      uint32_t page)
{
    const struct hg_pages *p = h->pages;
    uint32_t dirty = 0, last = page + run->pages - 1;
    HG_CHECK(run->start == hg__page_address(h, page) && hg_load_rlx(&h->spans[last]) == run,
             "heap: page %u: its free run does not agree", page);
    for (uint32_t i = page; i <= last; i++) {
        dirty += hg__page_dirty(p, i);
        HG_CHECK(hg_load_rlx(&h->desc[i]) == 0 && hg_load_rlx(&h->codes[i]) == 0,
                 "heap: free page %u has a descriptor", i);
        for (size_t w = 0; w < HG_PAGE_BYTES / (HG_GRAIN * 64); w++)
            HG_CHECK(hg_load_rlx(&hg__mark_word(h, hg__page_address(h, i))[w]) == 0,
                     "heap: free page %u has marks", i);
    }
    HG_CHECK(dirty == run->dirty, "heap: page %u: a free run counts %u dirty pages, has %u", page,
             run->dirty, dirty);
    const struct hg_bins *b = &p->bins[area][dirty > 0 ? HG_DIRTY : HG_CLEAN];
    unsigned bin = hg__pages_bin(run->pages);
    const struct hg_span *s = b->head[bin];
    while (s != NULL && s != run)
        s = s->next;
    HG_CHECK(s == run && (b->used[bin / 64] >> (bin % 64) & 1) != 0,
             "heap: page %u: a free run of %u pages is not in its bin", page, run->pages);
}

/* Walks pages [page, end) of an area. */
static void walk_area(struct hg_heap *h, enum hg_area area, uint32_t page, uint32_t end,
                      struct sums *sums)
{
    bool after_run = false;
    while (page < end) {
        struct hg_span *s = hg_load_acq(&h->spans[page]);
        bool shown = hg_load_acq(&h->desc[page]) != 0;
        bool run = !shown && s != NULL && s->free && s->start == hg__page_address(h, page);
        HG_CHECK(!(run && after_run), "heap: page %u: two free runs touch", page);
        after_run = run;
        if (shown) {
            check_span(h, s, page);
            sums->shown_pages += s->pages;
            sums->used_pages += hg_load_rlx(&s->word) != HG_NO_WORD ? s->pages : 0;
            page += s->pages;
        } else if (run) {
            check_run(h, area, s, page);
            sums->free_pages += s->pages;
            sums->dirty_pages += s->dirty;
            page += s->pages;
        } else {
            sums->other_pages++;
            page++;
        }
    }
    HG_CHECK(page == end, "heap: an extent reaches beyond its area's end");
}

/* ---- lists ---- */

static void check_listed(const struct hg_heap *h, const struct hg_central *c,
                         const struct hg_span *s)
{
    HG_CHECK(hg__central_of(h, s) == c,
             "heap: span 0x%" PRIxPTR " is in a list where it does not belong", s->start);
    HG_CHECK(hg_load_rlx(&s->word) == HG_NO_WORD,
             "heap: span 0x%" PRIxPTR " is listed and has a word in use", s->start);
    HG_CHECK(hg_load_acq(&h->spans[hg__page_of(h, s->start)]) == s,
             "heap: span 0x%" PRIxPTR " is listed, but not that of its pages", s->start);
}

static void check_list(struct hg_heap *h, unsigned span_class, unsigned parity, unsigned fill,
                       struct sums *sums)
{
    const struct hg_central *c = &h->central[span_class];
    uint32_t gen = hg_load_rlx(&h->gen);
    for (const struct hg_span *s = c->list[parity][fill].first; s != NULL; s = s->next) {
        check_listed(h, c, s);
        HG_CHECK(s->gen % 2 == parity,
                 "heap: span 0x%" PRIxPTR " is in a list where it does not belong", s->start);
        HG_CHECK(s->gen == gen || s->gen == gen - 1,
                 "heap: span 0x%" PRIxPTR ": generation %u, heap %u", s->start, s->gen, gen);
        HG_CHECK(has_free_slot(s) == (fill == HG_PARTIAL) && s->full == (fill == HG_FULL),
                 "heap: span 0x%" PRIxPTR " is in the wrong list for its free slots", s->start);
        sums->listed_pages += s->pages;
        sums->unswept_pages += s->gen == gen - 1 ? s->pages : 0;
    }
}

static void check_empty(struct hg_heap *h, const struct hg_central *c, struct sums *sums)
{
    uint32_t n = 0;
    for (const struct hg_span *s = c->empty.first; s != NULL; s = s->next, n++) {
        check_listed(h, c, s);
        HG_CHECK(s->gen == hg_load_rlx(&h->gen) && s->live == 0 && hg__span_is_empty(s),
                 "heap: span 0x%" PRIxPTR " is listed as empty and is not", s->start);
        sums->empty_pages += s->pages;
    }
    check_equal("empty spans of a class", hg_load_rlx(&c->empties), n);
}

void hg__heap_verify(struct hg_heap *h)
{
    struct sums s = {0};
    uint32_t low_end = (uint32_t)(hg_load_acq(&h->low_end) >> HG_PAGE_SHIFT);
    uint32_t high_start = (uint32_t)(hg_load_acq(&h->high_start) >> HG_PAGE_SHIFT);
    walk_area(h, HG_LOW, 0, low_end, &s);
    walk_area(h, HG_HIGH, high_start, (uint32_t)(h->size >> HG_PAGE_SHIFT), &s);
    for (unsigned i = 0; i < HG_SPAN_CLASSES * 4; i++)
        check_list(h, i / 4, i / 2 % 2, i % 2, &s);
    for (unsigned i = 0; i < HG_SPAN_CLASSES; i++)
        check_empty(h, &h->central[i], &s);
    s.listed_pages += s.empty_pages;

    int64_t page = (int64_t)HG_PAGE_BYTES, cached = hg_load_rlx(&h->cached_pages);
    int64_t in_spans = hg_load_rlx(&h->span_bytes) / page;
    int64_t free = hg_load_rlx(&h->free_bytes) / page, empty = hg_load_rlx(&h->empty_pages);
    check_equal("mapped pages", hg_load_rlx(&h->mapped_bytes) / page, (uint64_t)(in_spans + free));
    check_equal("free pages", free - cached - empty, s.dirty_pages);
    check_equal("pages of empty spans", empty, s.empty_pages);
    check_equal("pages in spans and caches", in_spans + cached + empty,
                s.shown_pages + s.other_pages);
    check_equal("unswept pages", hg_load_rlx(&h->unswept_pages), s.unswept_pages);
    check_equal("pages listed", (int64_t)s.listed_pages, s.shown_pages - s.used_pages);
}

void hg__heap_each(struct hg_heap *h,
                   void (*fn)(void *arg, uintptr_t obj, const struct hg_span *span), void *arg)
{
    uint32_t low_end = (uint32_t)(hg_load_acq(&h->low_end) >> HG_PAGE_SHIFT);
    uint32_t high_start = (uint32_t)(hg_load_acq(&h->high_start) >> HG_PAGE_SHIFT);
    uint32_t end = (uint32_t)(h->size >> HG_PAGE_SHIFT);
    for (uint32_t page = 0; page < end;) {
        if (page == low_end && page < high_start)
            page = high_start;
        else if (hg_load_acq(&h->desc[page]) == 0)
            page++;
        else {
            const struct hg_span *s = hg_load_acq(&h->spans[page]);
            for (uint32_t i = 0; i < s->count; i++)
                if (hg__slot_allocated(s, i))
                    fn(arg, s->start + i * s->size, s);
            page += s->pages;
        }
    }
}

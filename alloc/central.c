/* central.c: lists of the spans that no cache has, one set per span class.
 *
 * A set has four lists: {spans of even, of odd generation} x {with, without free slots}. With heap
 * generation g the lists of g's parity hold swept spans and the others unswept ones of g - 1; when
 * g + 1 opens the former become the latter, with no span touched. All spans of a list have one
 * generation:
 *
 *   g - 1 is swept to the end before g + 1 opens, so its lists are empty by then
 *
 * A mutator that has not met RESET yet is still in g - 1 while g is open. It asks for g - 1 as
 * swept, finds the lists that others now sweep, and may take from them: its spans are as good as
 * unswept, and come back to the same lists. It asks for g - 2 as unswept and finds g's lists: each
 * taker therefore says which generation it wants and gets nothing if the list holds another.
 *
 * Counting. heap->unswept_pages counts the pages of unswept spans in lists. "Unswept" is judged by
 * the set's own `gen`, which opening changes under the set's lock, together with the count, so that
 * the sum is exact however opening, listing and taking interleave.
 *
 * Locks: CENTRAL, one per set, on a cache line of its own.
 */
#include "alloc/internal.h"

void hg__central_init(struct hg_heap *h)
{
    for (unsigned i = 0; i < HG_SPAN_CLASSES; i++) {
        hg__lock_init(&h->central[i].lock, HG_RANK_CENTRAL);
        h->central[i].gen = hg_load_rlx(&h->gen);
    }
}

void hg__central_open(struct hg_heap *h, struct hg_central *c, uint32_t gen)
{
    hg__lock(&c->lock);
    HG_CHECK(c->pages[gen & 1] == 0, "a span of two generations ago was not swept");
    c->gen = gen;
    hg_add_sc(&h->unswept_pages, c->pages[(gen - 1) & 1]);
    hg__unlock(&c->lock);
}

void hg__central_push(struct hg_heap *h, struct hg_span *s, enum hg_fill fill)
{
    struct hg_central *c = hg__central_of(h, s);
    unsigned parity = s->gen & 1;
    if (fill == HG_FULL && !s->full) {
        s->full = true;
        hg__span_describe(h, s);
    }
    hg__lock(&c->lock);
    HG_ASSERT(s->gen == c->gen || s->gen == c->gen - 1);
    if (s->gen == c->gen - 1)
        hg_add_sc(&h->unswept_pages, (int64_t)s->pages);
    hg__span_push(&c->list[parity][fill], s);
    c->pages[parity] += s->pages;
    hg_store_rlx(&c->listed[parity], hg_load_rlx(&c->listed[parity]) + 1);
    hg__unlock(&c->lock);
}

struct hg_span *hg__central_pop(struct hg_heap *h, struct hg_central *c, uint32_t gen,
                                enum hg_fill fill)
{
    unsigned parity = gen & 1;
    if (hg_load_rlx(&c->listed[parity]) == 0)
        return NULL; /* a hint: a span listed at this moment is found the next time */
    hg__lock(&c->lock);
    struct hg_span *s = c->list[parity][fill];
    if (s != NULL && s->gen == gen) {
        hg__span_remove(&c->list[parity][fill], s);
        hg__span_prefetch(c->list[parity][fill]); /* the next one is often wanted next */
        c->pages[parity] -= s->pages;
        hg_store_rlx(&c->listed[parity], hg_load_rlx(&c->listed[parity]) - 1);
        if (gen == c->gen - 1)
            hg_sub_sc(&h->unswept_pages, (int64_t)s->pages);
    } else {
        s = NULL;
    }
    hg__unlock(&c->lock);
    return s;
}

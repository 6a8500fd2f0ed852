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
 * Spans that a sweep leaves empty are listed apart, in the open generation only: Note [EMPTY] in
 * span.c.
 *
 * Lists are queues: spans are swept, and empty ones filled again, in the order in which they were
 * filled, which mostly is that of their addresses, as the allocator's prefetching has it. A span
 * knows the one some places after it, whose struct is asked for in time (`ahead`).
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
    HG_CHECK(c->empty.first == NULL, "an empty span was not dissolved");
    c->gen = gen;
    hg_add_sc(&h->unswept_pages, c->pages[(gen - 1) & 1]);
    hg__unlock(&c->lock);
}

static void queue_push(struct hg_queue *q, struct hg_span *s)
{
    enum { AHEAD = 4 };
    struct hg_span *behind = q->last;
    s->prev = q->last;
    s->next = s->ahead = NULL;
    *(q->last != NULL ? &q->last->next : &q->first) = s;
    q->last = s;
    for (int i = 1; i < AHEAD && behind != NULL; i++)
        behind = behind->prev;
    if (behind != NULL)
        behind->ahead = s;
}

/* Who takes one span mostly takes those after it next, as sweeping does. Their structs and marks
 * are cold, and to follow the links would be to wait for each. */
static void queue_pop(const struct hg_heap *h, struct hg_queue *q)
{
    const struct hg_span *s = q->first;
    q->first = s->next;
    if (s->next == NULL) {
        q->last = NULL;
        return;
    }
    s->next->prev = NULL;
    if (s->ahead != NULL)
        hg__span_prefetch(s->ahead);
    __builtin_prefetch((const void *)hg__mark_word(h, s->next->start), 1);
}

static void enlist(struct hg_central *c, struct hg_span *s, enum hg_fill fill)
{
    unsigned parity = s->gen & 1;
    queue_push(&c->list[parity][fill], s);
    c->pages[parity] += s->pages;
    hg_store_rlx(&c->listed[parity], hg_load_rlx(&c->listed[parity]) + 1);
}

void hg__central_push(struct hg_heap *h, struct hg_span *s, enum hg_fill fill)
{
    struct hg_central *c = hg__central_of(h, s);
    if (fill == HG_FULL && !s->full) {
        s->full = true;
        hg__span_describe(h, s);
    }
    hg__lock(&c->lock);
    HG_ASSERT(s->gen == c->gen || s->gen == c->gen - 1);
    if (s->gen == c->gen - 1)
        hg_add_sc(&h->unswept_pages, (int64_t)s->pages);
    enlist(c, s, fill);
    hg__unlock(&c->lock);
}

/* Takes the first span of a list, if the list is of generation `gen`. Requires: CENTRAL. */
static struct hg_span *delist(struct hg_heap *h, struct hg_central *c, uint32_t gen,
                              enum hg_fill fill)
{
    unsigned parity = gen & 1;
    struct hg_span *s = c->list[parity][fill].first;
    if (s == NULL || s->gen != gen)
        return NULL;
    queue_pop(h, &c->list[parity][fill]);
    c->pages[parity] -= s->pages;
    hg_store_rlx(&c->listed[parity], hg_load_rlx(&c->listed[parity]) - 1);
    return s;
}

/* Takes spans off the count of unswept ones, if they were in it. Requires: CENTRAL, from before
 * they were taken off their list. */
static void uncount(struct hg_heap *h, const struct hg_central *c, uint32_t gen, size_t pages)
{
    if (gen == c->gen - 1 && pages > 0)
        hg_sub_sc(&h->unswept_pages, (int64_t)pages);
}

struct hg_span *hg__central_pop(struct hg_heap *h, struct hg_central *c, uint32_t gen,
                                enum hg_fill fill)
{
    if (hg_load_rlx(&c->listed[gen & 1]) == 0)
        return NULL; /* a hint: a span listed at this moment is found the next time */
    hg__lock(&c->lock);
    struct hg_span *s = delist(h, c, gen, fill);
    uncount(h, c, gen, s != NULL ? s->pages : 0);
    hg__unlock(&c->lock);
    return s;
}

size_t hg__central_take(struct hg_heap *h, struct hg_central *c, uint32_t gen, size_t pages,
                        struct hg_batch *out)
{
    size_t taken = 0;
    out->n = 0;
    if (hg_load_rlx(&c->listed[gen & 1]) == 0)
        return 0; /* as in hg__central_pop */
    hg__lock(&c->lock);
    for (int fill = HG_PARTIAL; fill <= HG_FULL; fill++) {
        struct hg_span *s;
        while (out->n < HG_BATCH && taken < pages &&
               (s = delist(h, c, gen, (enum hg_fill)fill)) != NULL) {
            out->span[out->n++] = s;
            taken += s->pages;
        }
    }
    uncount(h, c, gen, taken);
    hg__unlock(&c->lock);
    return taken;
}

void hg__central_file(struct hg_heap *h, struct hg_central *c, const struct hg_batch *b)
{
    int64_t empty = 0;
    hg__lock(&c->lock);
    for (unsigned i = 0; i < b->n; i++) {
        struct hg_span *s = b->span[i];
        HG_ASSERT(s->gen == c->gen); /* no generation opens while spans are swept */
        if (s->live > 0) {
            enlist(c, s, s->live < s->count ? HG_PARTIAL : HG_FULL);
            continue;
        }
        queue_push(&c->empty, s);
        hg_store_rlx(&c->empties, hg_load_rlx(&c->empties) + 1);
        empty += s->pages;
    }
    hg__unlock(&c->lock);
    if (empty > 0) {
        hg_sub_rlx(&h->span_bytes, hg__bytes_of((uint32_t)empty));
        hg_add_rlx(&h->free_bytes, hg__bytes_of((uint32_t)empty));
        hg_add_rlx(&h->empty_pages, empty);
    }
}

struct hg_span *hg__central_pop_empty(struct hg_heap *h, struct hg_central *c, uint32_t gen)
{
    if (hg_load_rlx(&c->empties) == 0)
        return NULL; /* as in hg__central_pop */
    hg__lock(&c->lock);
    struct hg_span *s = c->empty.first;
    if (s != NULL && s->gen != gen)
        s = NULL;
    if (s != NULL) {
        queue_pop(h, &c->empty);
        hg_store_rlx(&c->empties, hg_load_rlx(&c->empties) - 1);
    }
    hg__unlock(&c->lock);
    if (s != NULL) {
        hg_sub_rlx(&h->empty_pages, (int64_t)s->pages);
        hg_sub_rlx(&h->free_bytes, hg__bytes_of(s->pages));
        hg_add_rlx(&h->span_bytes, hg__bytes_of(s->pages));
    }
    return s;
}

/* mark.c: tracing: from grey objects to what they refer to.
 *
 * A worker is a proc, for a slice. It counts itself in (Note [QUIET] in mut/grey.c), takes buffers
 * from the shared queue, and passes their entries through a short ring in which each object's line
 * is prefetched before it is scanned:
 *
 *     buffer (LIFO) --> ring of RING objects (FIFO, lines prefetched) --> scan
 *        ^                                                                 |
 *        +-- if unmarked: mark -- delay line of DELAY references <---------+
 *                                 (FIFO, mark words prefetched)
 *
 * A reference's mark bit is tested and set before the reference is pushed, so an object is pushed
 * once. Leaf objects are marked and never pushed. Large objects are scanned in chunks: the rest of
 * one is pushed, and shared, before its first chunk is scanned, so that no slice is long and
 * several workers share a huge array.
 *
 * Loads from objects are relaxed, beside mutators that store with release; the address dependency
 * orders what is read through them. Everything a mutator overwrites meanwhile it has shaded.
 */
#include "runtime/gc/gc.h"
#include "runtime/mut/sanitize.h"
#include <string.h>

#define RING        HG_MARK_RING
#define DELAY       HG_MARK_DELAY
#define CHECK_EVERY 32u  /* objects between two looks at the clock and the run queue: about 2 us */
#define CHECK_BYTES 8192 /* likewise: large objects take longer */

static __attribute__((noinline)) struct hg_grey *publish(struct hg_tracer *t)
{
    hg__grey_publish(t->m);
    return t->m->grey;
}

static inline void push(struct hg_tracer *t, uintptr_t entry)
{
    struct hg_grey *g = t->m->grey;
    if (hg_unlikely(g->n == HG_GREY_ENTRIES))
        g = publish(t);
    g->entry[g->n++] = entry;
}

/* Flags in the delay line, in bits that object addresses have clear. */
#define DELAY_LEAF      1u
#define DELAY_AMBIGUOUS 2u
#define DELAY_FLAGS     15u

static __attribute__((noinline)) int64_t size_at(const struct hg_tracer *t, uintptr_t obj)
{
    struct hg_object o = hg__find(t->heap, obj);
    return (int64_t)hg__object_size(t->heap, &o);
}

static __attribute__((noinline)) bool is_allocated(const struct hg_tracer *t, uintptr_t obj)
{
    if (hg_load_acq(&t->desc[(obj - t->base) >> HG_PAGE_SHIFT]) & HG_DESC_FULL)
        return true;
    struct hg_object o = hg__find(t->heap, obj);
    return hg__slot_allocated(hg__span_of(t->heap, obj), o.index);
}

/* Tests and sets an object's mark; pushes it if this was the first to get there. */
static inline __attribute__((always_inline)) HG_SCANS void settle(struct hg_tracer *t,
                                                                  uintptr_t candidate)
{
    uintptr_t obj = candidate & ~(uintptr_t)DELAY_FLAGS;
    size_t grain = (obj - t->base) / HG_GRAIN;
    _Atomic uint64_t *word = &t->marks[grain / 64];
    uint64_t bit = (uint64_t)1 << (grain % 64);
    if (hg_load_rlx(word) & bit)
        return;
    if (hg_unlikely(candidate & DELAY_AMBIGUOUS) && !is_allocated(t, obj))
        return;
    if (hg_or_rlx(word, bit) & bit)
        return; /* another worker was first */
    if (candidate & DELAY_LEAF)
        t->leafs += size_at(t, obj);
    else
        push(t, obj);
}

/* Puts an object into the delay line, and settles the one that has been there longest. Its mark
 * word is asked for now and tested DELAY references later: the test is a branch nobody can predict,
 * and would otherwise wait for memory each time. */
static inline __attribute__((always_inline)) HG_SCANS void delay(struct hg_tracer *t, uintptr_t obj,
                                                                 unsigned kind, bool ambiguous)
{
    __builtin_prefetch((const void *)&t->marks[(obj - t->base) / (HG_GRAIN * 64)]);
    if (ambiguous)
        __builtin_prefetch((const void *)&t->desc[(obj - t->base) >> HG_PAGE_SHIFT]);
    uintptr_t *slot = &t->delay[t->delay_at++ % DELAY], oldest = *slot;
    *slot = obj | (kind == HG_SPAN_LEAF ? DELAY_LEAF : 0) | (ambiguous ? DELAY_AMBIGUOUS : 0);
    if (hg_likely(oldest != 0))
        settle(t, oldest);
}

/* What its page's code does not tell. */
static __attribute__((noinline)) HG_SCANS void mark_by_desc(struct hg_tracer *t, uintptr_t w,
                                                            bool ambiguous)
{
    struct hg_object o = hg__find(t->heap, w);
    if (o.base != 0)
        delay(t, o.base, hg__desc_kind(o.desc), ambiguous);
}

/* One word that is a reference or NULL, or (ambiguous) anything. Finds what it means as hg__find
 * does, but by its page's code where there is one. */
static inline __attribute__((always_inline)) HG_SCANS void mark_ref(struct hg_tracer *t,
                                                                    uintptr_t w, bool ambiguous)
{
    size_t offset = w - t->base;
    if (offset >= (ambiguous ? t->low_end : t->size) &&
        (!ambiguous || offset - t->high_start >= t->high_bytes))
        return;
    uint8_t code = hg_load_rlx(&t->codes[offset >> HG_PAGE_SHIFT]);
    if (hg_unlikely(code == 0)) {
        mark_by_desc(t, w, ambiguous);
        return;
    }
    const struct hg_class *c = &hg__class[hg__code_class(code)];
    unsigned kind = hg__code_kind(code);
    uint32_t index = (uint32_t)(((w & (HG_PAGE_BYTES - 1)) * c->inverse) >> 32);
    if (hg_unlikely(index >= (kind == HG_SPAN_DESCRIBED ? c->count_described : c->count)))
        return; /* the tail of the span */
    delay(t, (w & ~(uintptr_t)(HG_PAGE_BYTES - 1)) + index * c->size, kind, ambiguous);
}

static __attribute__((noinline)) HG_SCANS void visit_instead(struct hg_tracer *t, uintptr_t w,
                                                             bool ambiguous)
{
    struct hg_object o = hg__find(t->heap, w);
    if (o.base != 0)
        t->instead(t, &o, ambiguous);
}

static inline HG_SCANS void visit(struct hg_tracer *t, uintptr_t w, bool ambiguous)
{
    if (hg_unlikely(t->instead != NULL))
        visit_instead(t, w, ambiguous);
    else
        mark_ref(t, w, ambiguous);
}

/* Settles all that is delayed. */
static void settle_all(struct hg_tracer *t)
{
    for (unsigned i = 0; i < DELAY; i++) {
        uintptr_t *slot = &t->delay[t->delay_at++ % DELAY], candidate = *slot;
        *slot = 0;
        if (candidate != 0)
            settle(t, candidate);
    }
}

void hg_trace_ref(hg_tracer *t, const void *ref) { visit(t, (uintptr_t)ref, false); }

static inline HG_SCANS uintptr_t word_at(uintptr_t p)
{
    return __atomic_load_n((const uintptr_t *)p, __ATOMIC_RELAXED);
}

static HG_SCANS void scan_range(struct hg_tracer *t, uintptr_t lo, uintptr_t hi, bool ambiguous)
{
    for (uintptr_t p = lo; p < hi; p += sizeof(uintptr_t))
        visit(t, word_at(p), ambiguous);
}

static HG_SCANS void scan_fields(struct hg_tracer *t, uintptr_t obj, const struct hg_layout_info *l,
                                 size_t from, size_t to)
{
    for (uint32_t i = 0; i < l->nfields; i++)
        if (l->fields[i] >= from && l->fields[i] + sizeof(uintptr_t) <= to)
            visit(t, word_at(obj + l->fields[i]), false);
    if (l->stride == 0)
        return;
    size_t at = l->tail;
    if (at < from)
        at += (from - at + l->stride - 1) / l->stride * l->stride;
    for (; at + sizeof(uintptr_t) <= to; at += l->stride)
        visit(t, word_at(obj + at), false);
}

/* The words of an object of `size` bytes, at most 512. */
static inline uint64_t words_below(size_t size) { return UINT64_MAX >> (64 - size / 8); }

static HG_SCANS void scan_described(struct hg_tracer *t, uintptr_t obj,
                                    const struct hg_layout_info *l, size_t from, size_t to)
{
    if (l->kind == HG_KIND_TRACED) {
        l->trace(t, (const void *)obj, from, to);
    } else if (l->only_bits && from == 0) {
        /* a layout may be longer than its object */
        uint64_t bits = to < 512 ? l->ref_bits & words_below(to) : l->ref_bits;
        for (; bits != 0; bits &= bits - 1)
            visit(t, word_at(obj + 8u * hg_ctz64(bits)), false);
    } else {
        scan_fields(t, obj, l, from, to);
    }
}

/* Scans bytes from..to of an object. The slot's whole size counts: callers may use all of it. */
static HG_SCANS void scan_object(struct hg_tracer *t, const struct hg_object *o, size_t from,
                                 size_t to)
{
    switch (hg__desc_kind(o->desc)) {
    case HG_SPAN_REFS:
        scan_range(t, o->base + from, o->base + to, false);
        break;
    case HG_SPAN_CONSERVATIVE:
        scan_range(t, o->base + from, o->base + to, true);
        break;
    case HG_SPAN_DESCRIBED:
        scan_described(t, o->base, &t->layouts[hg__object_layout(o)], from, to);
        break;
    case HG_SPAN_LEAF:
    case HG_SPAN_KINDS:
        break;
    }
    t->bytes += (int64_t)(to - from);
}

void hg__trace_object(struct hg_tracer *t, const struct hg_object *o)
{
    scan_object(t, o, 0, hg__object_size(t->heap, o));
}

/* ---- the ring ---- */

/* Shares the rest of a large object at once, for other workers. */
static void share_rest(struct hg_tracer *t, uintptr_t at)
{
    struct hg_grey *g = hg__grey_empty(t->m->world);
    g->entry[g->n++] = at;
    hg__grey_give(t->m->world, g);
}

/* An object above HG_SMALL_MAX: a chunk of it. */
static void scan_large(struct hg_tracer *t, const struct hg_grey_object *g)
{
    struct hg_object o = hg__find(t->heap, g->at);
    size_t from = g->at - o.base, to = hg__span_of(t->heap, o.base)->size;
    if (to - from > HG_CHUNK_BYTES) {
        to = from + HG_CHUNK_BYTES;
        share_rest(t, o.base + to);
    }
    scan_object(t, &o, from, to);
}

static __attribute__((noinline)) void scan_by_desc(struct hg_tracer *t,
                                                   const struct hg_grey_object *g)
{
    struct hg_object o = {g->at, g->desc, g->index};
    if (hg_likely(hg__desc_class(g->desc) != 0))
        scan_object(t, &o, 0, g->size);
    else
        scan_large(t, g);
}

static inline HG_SCANS void scan_grey(struct hg_tracer *t, const struct hg_grey_object *g)
{
    if (hg_unlikely(g->refs == 0)) {
        scan_by_desc(t, g);
        return;
    }
    for (uint64_t refs = g->refs; refs != 0; refs &= refs - 1)
        mark_ref(t, word_at(g->at + 8u * hg_ctz64(refs)), false);
    t->bytes += g->size;
}

/* As an entry enters the ring its first line is asked for, and what its page says. */
static inline void enter_ring(struct hg_tracer *t, uintptr_t entry)
{
    __builtin_prefetch((const void *)entry);
    __builtin_prefetch((const void *)&t->desc[(entry - t->base) >> HG_PAGE_SHIFT]);
    t->ring[(t->head + t->count++) % RING].at = entry;
}

/* What scanning an entry will need. For most small objects all is known from their page; in a mixed
 * span the object's id is asked for. Acquire: Note [LAYOUT]. */
static inline void look_up(struct hg_tracer *t, struct hg_grey_object *g)
{
    uint64_t desc = hg_load_acq(&t->desc[(g->at - t->base) >> HG_PAGE_SHIFT]);
    const struct hg_class *c = &hg__class[hg__desc_class(desc)];
    g->desc = desc;
    g->size = c->size;
    g->refs = 0;
    if (hg__desc_kind(desc) == HG_SPAN_REFS && c->size - 1u < 512) {
        g->refs = words_below(c->size);
    } else if (hg__desc_kind(desc) == HG_SPAN_DESCRIBED && c->size != 0) {
        const struct hg_layout_info *l = &t->layouts[hg__desc_layout(desc)];
        if (hg_unlikely(hg__desc_layout(desc) == 0)) {
            struct hg_object o = hg__find(t->heap, g->at);
            g->index = o.index;
            __builtin_prefetch(hg__slot_id(&o));
        } else if (l->only_bits && c->size <= 512) {
            g->refs = l->ref_bits & words_below(c->size);
        }
    }
}

/* A buffer with entries for this worker; false: there is nothing at all. */
static bool find_grey(struct hg_tracer *t)
{
    if (t->count != 0)
        return false; /* first what is on its way: it will bring more */
    settle_all(t);
    struct hg_grey *g = t->m->grey;
    if (g->n != 0)
        return true;
    struct hg_grey *more = hg__grey_take(t->m->world);
    if (more == NULL)
        return false;
    t->m->grey = more;
    hg__grey_give(t->m->world, g);
    return true;
}

/* Moves entries from buffers to the ring, half a ring at a time: prefetches that follow each other
 * closely have their address translations overlap, which one prefetch per object scanned has not.
 * Those that came in the last time are looked up, and are ready. False: there is nothing at all. */
static inline bool fill_ring(struct hg_tracer *t)
{
    while (hg_unlikely(t->ready == 0)) {
        t->ready = t->count;
        for (unsigned i = 0; i < t->ready; i++)
            look_up(t, &t->ring[(t->head + i) % RING]);
        while (t->count < t->ready + RING / 2) {
            struct hg_grey *g = t->m->grey;
            if (hg_likely(g->n != 0))
                enter_ring(t, g->entry[--g->n]);
            else if (!find_grey(t))
                break;
        }
        if (t->count == 0)
            return false;
    }
    return true;
}

/* Gives half of what this worker has to others that have nothing. */
static void balance(struct hg_tracer *t)
{
    struct hg_world *w = t->m->world;
    struct hg_grey *g = t->m->grey;
    if (w->count < 2 || g->n < 2 * RING || hg_load_rlx(&w->grey.full_count) != 0)
        return;
    struct hg_grey *half = hg__grey_empty(w);
    half->n = g->n / 2;
    g->n -= half->n;
    memcpy(half->entry, g->entry + g->n, half->n * sizeof *half->entry);
    hg__grey_give(w, half);
}

static bool must_stop(struct hg_tracer *t, enum hg_work_kind kind, int64_t until, int64_t bytes)
{
    int64_t now = hg__os_now();
    return t->bytes >= bytes || now >= until || hg__worker_wanted(t->m, kind, now, &t->look_at);
}

/* The work is counted in the statistics of m; what the ring still holds goes back to the buffer. */
static void finish(struct hg_tracer *t)
{
    settle_all(t);
    while (t->count != 0) {
        push(t, t->ring[t->head++ % RING].at);
        t->count--;
    }
    struct hg_mut_stats *s = &t->m->stats;
    hg_own_add(&s->scanned_heap, t->bytes);
    hg_own_add(&s->marked_bytes, t->bytes + t->leafs);
}

static void trace(struct hg_tracer *t, enum hg_work_kind kind, int64_t until, int64_t bytes)
{
    int64_t look_at = CHECK_BYTES;
    for (unsigned n = 1; fill_ring(t); n++) {
        const struct hg_grey_object *g = &t->ring[t->head++ % RING];
        t->ready--;
        t->count--;
        scan_grey(t, g);
        if (n % CHECK_EVERY == 0 || hg_unlikely(t->bytes >= look_at)) {
            look_at = t->bytes + CHECK_BYTES;
            balance(t);
            if (must_stop(t, kind, until, bytes))
                return;
        }
    }
}

void hg__tracer_init(struct hg_tracer *t, struct hg_gc *g, struct hg_mutator *m)
{
    struct hg_heap *h = g->world->heap;
    memset(t->delay, 0, sizeof t->delay); /* of the ring nothing is looked at before it is set */
    t->delay_at = t->head = t->count = t->ready = 0;
    t->look_at = t->bytes = t->leafs = 0;
    t->instead = NULL;
    t->base = h->base;
    t->size = h->size;
    t->low_end = hg_load_rlx(&h->low_end);
    t->high_start = hg_load_rlx(&h->high_start);
    t->high_bytes = h->size - t->high_start;
    t->desc = h->desc;
    t->codes = h->codes;
    t->marks = h->marks;
    t->m = m;
    t->heap = h;
    t->layouts = hg__layouts_table(g->world->layouts);
}

bool hg__mark_available(struct hg_gc *g, const struct hg_mutator *m)
{
    return m->grey->n != 0 || hg_load_rlx(&g->world->grey.full_count) != 0 || hg__stacks_left(g);
}

int64_t hg__mark_some(struct hg_gc *g, struct hg_mutator *m, enum hg_work_kind kind, int64_t until,
                      int64_t bytes)
{
    struct hg_grey_queue *q = &g->world->grey;
    if (!hg__mark_available(g, m))
        return 0;
    hg_add_sc(&q->workers, 1u); /* Note [QUIET] */
    hg_add_sc(&q->activity, 1u);
    struct hg_tracer t;
    hg__tracer_init(&t, g, m);
    int64_t stacks = hg__scan_stacks(g, m, kind, until);
    trace(&t, kind, until, bytes - stacks);
    finish(&t);
    bool left = hg__grey_publish(m);
    if (hg_sub_sc(&q->workers, 1u) == 1 && !left && hg_load_sc(&q->full_count) == 0 &&
        !hg__stacks_left(g))
        hg__gc_wake_driver(g); /* nothing more is seen: it may look */
    return t.bytes + stacks + 1;
}

/* alloc.c: hg_alloc: the fast path, and the slow path on the scheduler stack.
 *
 * Fast path: the current mutator from one thread-local word (nothing in it switches, so the word
 * cannot go stale), the span class from size and layout, a slot from the cache, cleared,
 * then published. It reads no phase and no colour: a black mutator's free
 * slots are marked when its word is taken. A layout id is written only where objects of several
 * layouts share a span (alloc/cache.c).
 *
 * Slow path, in this order, on the scheduler stack:
 *   1. a safepoint: answers requests, gives the proc to others if it is asked to
 *   2. tells the collector what was handed out since the last time (hooks.allocated: trigger,
 *      slices, sweep, assist)
 *   3. asks whether the heap may grow (hooks.refuse); if not, only slots of spans in use are to be
 *      had
 *   4. refills, in the mutator's own generation; takes the slot, with no safepoint from the refill
 *      to the publication
 * If a hook parks the task, hg__on_scheduler returns with nothing done and the task begins again,
 * on whatever proc.
 */
#include "runtime/mut/mut.h"
#include <string.h>

/* Lies on the task's stack, which is scanned: no field leaves part of an older word beside it that
 * could be taken for a reference. */
struct request {
    size_t size;
    const hg_layout *layout;
    uintptr_t cleared; /* large objects: how far they are */
    struct hg_span *span;
    void *result;
    enum hg_span_kind kind;
    uint16_t id;
    bool no_room; /* the task must see to memory (hooks.no_memory) and begin again */
};
_Static_assert(sizeof(struct request) == 6 * sizeof(uintptr_t), "fields share one word");

static inline struct hg_layout_cache *layout_entry(struct hg_mutator *m, const hg_layout *layout)
{
    return &m->layouts[((uintptr_t)layout >> 5 ^ (uintptr_t)layout >> 11) % HG_LAYOUT_CACHE];
}

static inline struct hg_cache_slot *slot_of(struct hg_mutator *m, size_t size,
                                            enum hg_span_kind kind)
{
    return &m->cache.slot[hg__span_class(hg__class_of(size), kind)];
}

int64_t hg__alloc_account(struct hg_mutator *m)
{
    int64_t bytes = m->cache.alloc_bytes;
    hg_own_add(&m->stats.alloc_bytes, (uint64_t)bytes);
    hg_own_add(&m->stats.alloc_slots, (uint64_t)m->cache.alloc_slots);
    m->cache.alloc_bytes = m->cache.alloc_slots = 0;
    m->pending_alloc += bytes;
    return bytes;
}

static void resolve_layout(struct hg_mutator *m, struct request *r)
{
    uintptr_t built_in = (uintptr_t)r->layout;
    if (built_in <= (uintptr_t)HG_REFS) {
        r->kind = (enum hg_span_kind)built_in; /* HG_LEAF, HG_CONSERVATIVE, HG_REFS are numbered
                                                * like the kinds */
        r->id = 0;
        return;
    }
    struct hg_layout_cache *e = layout_entry(m, r->layout);
    if (e->layout != r->layout) {
        const char *why = NULL;
        uint16_t id = hg__layouts_id(m->world->layouts, r->layout, &why);
        HG_CHECK(id != 0, "hg_alloc: invalid layout %p: %s", (const void *)r->layout, why);
        *e = (struct hg_layout_cache){r->layout, id};
    }
    r->kind = HG_SPAN_DESCRIBED;
    r->id = e->id;
}

static void slow_safepoint(struct hg_mutator *m)
{
    hg__poll(m);
    uint32_t reasons = hg_load_rlx(&m->attention) & ~HG_ATTENTION_HANDSHAKE;
    if (reasons != 0)
        m->world->hooks.attention(m, reasons);
}

static void small_slow(struct hg_mutator *m, struct request *r)
{
    unsigned span_class = hg__span_class(hg__class_of(r->size), r->kind);
    struct hg_cache_slot *s = &m->cache.slot[span_class];
    r->result = (void *)hg__cache_take(s, r->id);
    if (r->result != NULL)
        return; /* a safepoint has filled it */
    enum hg_refill got = hg__cache_refill(&m->cache, span_class, r->id, m->black, m->gen, NULL);
    hg__alloc_account(m);
    r->no_room = got != HG_REFILL_OK;
    if (got == HG_REFILL_OK)
        r->result = (void *)hg__cache_take(s, r->id);
}

#define HG_CLEAR_CHUNK ((size_t)256 << 10)
#define HG_DISCARD_MIN ((size_t)32 << 20)

/* Makes part of a large object read as zero. Old contents of a very large one go back to the kernel
 * instead of being cleared, as malloc does it at this size: such objects are often used in part,
 * or not at all, and clearing would make each of their pages resident. */
static void clear_chunk(const struct hg_span *s, size_t from, size_t bytes)
{
    void *p = (void *)(s->start + from);
    if (s->bytes >= HG_DISCARD_MIN)
        hg__os_discard(p, bytes);
    else
        memset(p, 0, bytes);
}

/* A large object is cleared in chunks, with a safepoint after each; it is invisible until it is
 * cleared. */
static void large_slow(struct hg_mutator *m, struct request *r)
{
    struct hg_heap *h = m->world->heap;
    if (r->span == NULL) {
        r->span = hg__large_alloc(h, r->size, r->kind, r->id, m->gen);
        if (r->span == NULL) {
            r->no_room = true;
            return;
        }
        r->cleared = r->span->needs_zero ? 0 : r->span->bytes;
        m->cache.alloc_bytes += (int64_t)r->span->bytes;
        m->cache.alloc_slots++;
        hg__alloc_account(m);
    }
    size_t end = r->span->bytes;
    while (r->cleared < end) {
        size_t chunk = hg_min_size(end - r->cleared, HG_CLEAR_CHUNK);
        clear_chunk(r->span, r->cleared, chunk);
        r->cleared += chunk;
        slow_safepoint(m); /* may give the task up: then it begins again here, with its span */
    }
    r->span->gen = m->gen;
    hg__large_publish(h, r->span, m->black);
    r->result = (void *)r->span->start;
}

static void *alloc_on_scheduler(void *a, void *b)
{
    struct hg_mutator *m = a;
    struct request *r = b;
    struct hg_hooks *hooks = &m->world->hooks;
    slow_safepoint(m);
    resolve_layout(m, r);
    if (r->span == NULL) {
        hooks->allocated(m, r->size > HG_SMALL_MAX ? r->size : 0);
        /* Refused, a small object may still have a free slot of a span that is in use. */
        m->cache.tight = hooks->refuse(m, r->size);
        if (m->cache.tight && r->size > HG_SMALL_MAX) {
            r->no_room = true;
            return NULL;
        }
    }
    if (r->size <= HG_SMALL_MAX)
        small_slow(m, r);
    else
        large_slow(m, r);
    return NULL;
}

static __attribute__((noinline)) void *alloc_slow(size_t size, const hg_layout *layout,
                                                  bool may_fail)
{
    struct request r = {.size = size, .layout = layout};
    unsigned tries = 0;
    while (r.result == NULL) {
        struct hg_mutator *m = hg__self();
        HG_CHECK(m != NULL && m->stack != NULL,
                 "hg_alloc: called outside of a task, or inside a blocking region");
        r.no_room = false;
        hg__on_scheduler(m, alloc_on_scheduler, &r);
        m = hg__self();
        if (r.no_room && !m->world->hooks.no_memory(m, size, &tries, may_fail))
            return NULL;
    }
    return r.result;
}

/* The cache slot for an object, and in *id its layout's (a whole word: see struct request); NULL:
 * the layout is not known here yet. */
static inline struct hg_cache_slot *slot_for(struct hg_mutator *m, size_t size,
                                             const hg_layout *layout, uintptr_t *id)
{
    *id = 0;
    if ((uintptr_t)layout <= (uintptr_t)HG_REFS)
        return slot_of(m, size, (enum hg_span_kind)(uintptr_t)layout);
    struct hg_layout_cache *e = layout_entry(m, layout);
    if (hg_unlikely(e->layout != layout))
        return NULL;
    *id = e->id;
    return slot_of(m, size, HG_SPAN_DESCRIBED);
}

/* Sizes above HG_CLEAR_INLINE, and objects in spans of several layouts. */
static __attribute__((noinline)) void *alloc_medium(size_t size, const hg_layout *layout,
                                                    bool may_fail)
{
    struct hg_mutator *m = hg__tls_mutator;
    uintptr_t p = 0;
    if (hg_likely(m != NULL && size <= HG_SMALL_MAX)) {
        uintptr_t id;
        struct hg_cache_slot *s = slot_for(m, size, layout, &id);
        p = s != NULL ? hg__cache_take(s, (uint16_t)id) : 0;
    }
    return hg_likely(p != 0) ? (void *)p : alloc_slow(size, layout, may_fail);
}

/* A leaf function for small objects: nothing is called but in tail position, so that no register
 * has to be saved. */
static inline __attribute__((always_inline)) void *
alloc_fast(struct hg_mutator *m, size_t size, const hg_layout *layout, bool may_fail)
{
    uintptr_t id;
    if (hg_unlikely(m == NULL || size > HG_CLEAR_INLINE))
        return alloc_medium(size, layout, may_fail);
    struct hg_cache_slot *s = slot_for(m, size, layout, &id);
    if (hg_unlikely(s == NULL))
        return alloc_slow(size, layout, may_fail);
    if (hg_unlikely(s->layout != id))
        return alloc_medium(size, layout, may_fail);
    if (hg_unlikely(s->mask == 0))
        return alloc_slow(size, layout, may_fail);
    return (void *)hg__cache_pick(s, 0, true);
}

void *hg__alloc(struct hg_mutator *m, size_t size, const hg_layout *layout, bool may_fail)
{
    return alloc_fast(m, size, layout, may_fail);
}

void *hg_alloc(size_t size, const hg_layout *layout)
{
    return alloc_fast(hg__tls_mutator, size, layout, false);
}

void *hg_try_alloc(size_t size, const hg_layout *layout)
{
    return alloc_fast(hg__tls_mutator, size, layout, true);
}

static struct hg_object find_here(const void *ref)
{
    struct hg_mutator *m = hg__self();
    struct hg_object none = {0, 0, 0};
    if (m == NULL)
        return none;
    struct hg_object o = hg__find(m->world->heap, (uintptr_t)ref);
    if (o.base != 0 && !hg__slot_allocated(hg__span_of(m->world->heap, o.base), o.index))
        return none;
    return o;
}

size_t hg_size_of(const void *ref)
{
    struct hg_object o = find_here(ref);
    return o.base != 0 ? hg__object_size(hg__self()->world->heap, &o) : 0;
}

void *hg_base_of(const void *ref) { return (void *)find_here(ref).base; }

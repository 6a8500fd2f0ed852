/* test_alloc_race.c: Note [MASK]: markers that meet ambiguous words while mutators allocate.
 *
 * The heap is filled with dead, poisoned slots in spans that a few live objects keep. Then mutators
 * allocate from these spans (clear, layout id, publish), give spans back half used, and take over
 * each other's, while readers ask for slots at random, as a conservative scan does. Two things must
 * hold:
 *
 *   1. a slot that is reported as allocated is clear: it holds its owner's values or 0, never
 *   poison,
 *      and its layout id is there
 *   2. an object whose address was published is reported as allocated, from then on
 *
 * No sweep runs meanwhile, as none does while marking.
 */
#include "tests/unit/test_alloc.h"

#include <pthread.h>
#include <stdlib.h>

TestSuite(alloc_race, .timeout = 110);

enum { MUTATORS = 2, READERS = 2, SHOWN = 256, LAYOUT_ID = 4711, KINDS = 3 };

/* Sizes with several words to a span, one with one, and one described; index: of `spans`. */
static const struct {
    size_t size;
    enum hg_span_kind kind;
} mix[KINDS] = {{16, HG_SPAN_CONSERVATIVE}, {48, HG_SPAN_DESCRIBED}, {256, HG_SPAN_CONSERVATIVE}};

struct shared {
    struct test_heap t;
    uintptr_t *span;                    /* starts of the prepared spans */
    size_t spans;
    _Atomic uintptr_t shown[SHOWN];     /* objects published by mutators (release) */
    _Atomic uint64_t found, not_yet;    /* what readers met */
    _Atomic bool stop;
    uint64_t seed;
};

static void clear_atomically(uintptr_t p, size_t size)
{
    for (size_t i = 0; i < size / 8; i++)
        hg_store_rlx((_Atomic uint64_t *)(p + i * 8), 0u);
}

/* As test_alloc_slot, but with stores that may be read meanwhile. */
static uintptr_t allocate(struct hg_cache *c, unsigned k, uint32_t gen)
{
    struct hg_cache_slot *s = &c->slot[k];
    unsigned i = 0;
    uintptr_t p = hg__cache_take(s, &i);
    if (p == 0) {
        HG_CHECK(hg__cache_refill(c, k, false, gen, NULL) == HG_REFILL_OK, "out of memory");
        p = hg__cache_take(s, &i);
    }
    clear_atomically(p, s->size);
    if (k % HG_SPAN_KINDS == HG_SPAN_DESCRIBED)
        __atomic_store_n(s->ids - i, LAYOUT_ID, __ATOMIC_RELAXED);
    hg__cache_publish(s);
    return p;
}

/* ---- preparation ---- */

static void note_span(void *arg, uintptr_t p, const struct hg_span *s)
{
    struct shared *w = arg;
    if (p == s->start)
        w->span[w->spans++] = s->start;
}

/* Spans of which only slot 0 lives; all other slots are poisoned, and layout ids are wrong. */
static void prepare(struct shared *w, size_t spans_each)
{
    static struct hg_cache c;
    struct hg_heap *h = w->t.heap;
    hg__cache_init(&c, h);
    w->span = malloc(KINDS * spans_each * sizeof *w->span);
    for (int k = 0; k < KINDS; k++) {
        const struct hg_class *class = &hg__class[hg__class_of(mix[k].size)];
        bool described = mix[k].kind == HG_SPAN_DESCRIBED;
        size_t slots = described ? class->count_described : class->count;
        for (size_t n = spans_each * slots; n > 0; n--) {
            uintptr_t p = test_alloc_slot(&c, test_class(mix[k].size, mix[k].kind), false,
                                          test_gen(h), 1);
            if (p == hg__span_of(h, p)->start)
                hg__set_mark(h, p);
        }
    }
    hg__sweep_open(h);
    hg__cache_release(&c, false);
    test_sweep_all(h);
    hg__heap_each(h, note_span, w);
    cr_assert_eq(w->spans, KINDS * spans_each);
}

/* ---- threads ---- */

struct actor {
    struct shared *w;
    struct hg_rand rand;
    uint64_t rounds;
    struct hg_cache cache;
};

static void *mutate(void *arg)
{
    struct actor *a = arg;
    struct shared *w = a->w;
    uint32_t gen = test_gen(w->t.heap);
    for (uint64_t n = a->rounds; n > 0; n--) {
        int m = (int)hg_rand_below(&a->rand, KINDS);
        unsigned k = test_class(mix[m].size, mix[m].kind);
        for (uint32_t i = hg_rand_below(&a->rand, 100); i > 0; i--) {
            uintptr_t p = allocate(&a->cache, k, gen);
            hg_store_rlx((_Atomic uint64_t *)p, (uint64_t)p);
            hg_store_rel(&w->shown[hg_rand_below(&a->rand, SHOWN)], p);
        }
        if (hg_rand_below(&a->rand, 20) == 0)
            hg__cache_release(&a->cache, false);
    }
    return NULL;
}

static void check_clear(struct hg_heap *h, const struct hg_object *o)
{
    size_t size = hg__object_size(h, o);
    for (size_t i = 0; i < size / 8; i++) {
        uint64_t v = hg_load_rlx((_Atomic uint64_t *)(o->base + i * 8));
        HG_CHECK(v == 0 || (i == 0 && v == o->base),
                 "slot %p is allocated and not clear: word %zu: %lx", (void *)o->base, i,
                 (unsigned long)v);
    }
    HG_CHECK(hg__desc_kind(o->desc) != HG_SPAN_DESCRIBED || hg__object_layout(h, o) == LAYOUT_ID,
             "slot %p is allocated and has no layout", (void *)o->base);
}

static void *read_words(void *arg)
{
    struct actor *a = arg;
    struct shared *w = a->w;
    struct hg_heap *h = w->t.heap;
    while (!hg_load_acq(&w->stop)) {
        /* 1: any word; slot 0 of a span is one of the live objects, filled before. */
        uintptr_t start = w->span[hg_rand_below(&a->rand, (uint32_t)w->spans)];
        struct hg_object o = hg__find(h, start + hg_rand_below(&a->rand, HG_PAGE_BYTES));
        if (o.base != 0 && o.index != 0) {
            bool allocated = hg__slot_allocated(hg__span_of(h, o.base), o.index);
            hg_add_rlx(allocated ? &w->found : &w->not_yet, 1u);
            if (allocated)
                check_clear(h, &o);
        }
        /* 2: a word that was published. */
        uintptr_t p = hg_load_acq(&w->shown[hg_rand_below(&a->rand, SHOWN)]);
        o = hg__find(h, p + 8);
        HG_CHECK(p == 0 || (o.base == p && hg__slot_allocated(hg__span_of(h, p), o.index)),
                 "object %p is published and not allocated", (void *)p);
    }
    return NULL;
}

static struct actor *new_actor(struct shared *w, uint64_t number, uint64_t rounds)
{
    struct actor *a = aligned_alloc(64, hg_round_up(sizeof *a, 64));
    memset(a, 0, sizeof *a);
    a->w = w;
    a->rand.state = w->seed + number;
    a->rounds = rounds;
    hg__cache_init(&a->cache, w->t.heap);
    return a;
}

Test(alloc_race, allocated_means_clear_and_published_means_allocated)
{
    static struct shared w;
    struct actor *actor[MUTATORS + READERS];
    pthread_t thread[MUTATORS + READERS];
    w.seed = test_seed("allocated_means_clear_and_published_means_allocated");
    w.t = test_heap_open((size_t)1 << 30, true);
    prepare(&w, 150);
    for (uint64_t i = 0; i < MUTATORS + READERS; i++) {
        actor[i] = new_actor(&w, i, test_scaled(3000));
        void *(*run)(void *) = i < MUTATORS ? mutate : read_words;
        cr_assert_eq(pthread_create(&thread[i], NULL, run, actor[i]), 0);
    }
    for (int i = 0; i < MUTATORS; i++)
        pthread_join(thread[i], NULL);
    hg_store_rel(&w.stop, true);
    for (int i = 0; i < READERS; i++)
        pthread_join(thread[MUTATORS + i], NULL);
    cr_assert_gt(hg_load_rlx(&w.found), 0);
    cr_assert_gt(hg_load_rlx(&w.not_yet), 0);
    hg__heap_verify(w.t.heap);
    for (int i = 0; i < MUTATORS + READERS; i++)
        free(actor[i]);
    free(w.span);
    test_heap_close(&w.t);
}

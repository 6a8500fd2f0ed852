/* test_alloc_race.c: Notes [MASK] and [LAYOUT]: markers that meet ambiguous words while mutators
 * allocate.
 *
 * The heap is filled with dead, poisoned slots in spans that live objects keep. Then mutators
 * allocate from these spans, give spans back half used, and take over each other's, while readers
 * ask for slots at random, as a conservative scan does. Three things must hold:
 *
 *   1. a slot that is reported as allocated is clear: it holds its owner's values or 0, never
 *      poison
 *   2. its page, looked at after that, gives its layout, whether the span is uniform or mixed
 *   3. an object whose address was published is reported as allocated, from then on
 *
 * No sweep runs meanwhile, as none does while marking.
 *
 * Three heaps: one with nearly all slots free; one with two free slots in each word of 64, so that
 * mutators change words all the time, while readers look at the spans where that happens; and one
 * of fresh spans, which begin uniform and become mixed.
 */
#include "tests/unit/test_alloc.h"

#include <pthread.h>
#include <stdlib.h>

TestSuite(alloc_race, .timeout = 110);

enum { MUTATORS = 2, READERS = 2, SHOWN = 256, LAYOUT_IDS = 3, KINDS = 3 };
enum heap_of { DENSE, SPARSE, FRESH };

/* Sizes with several words to a span, one with one, and one described; index: of `spans`. */
static const struct {
    size_t size;
    enum hg_span_kind kind;
} mix[KINDS] = {{16, HG_SPAN_CONSERVATIVE}, {48, HG_SPAN_DESCRIBED}, {256, HG_SPAN_CONSERVATIVE}};

enum { SLOT_A = 5, SLOT_B = 40 }; /* of each word, the free slots of the second heap */

struct shared {
    struct test_heap t;
    uintptr_t *span; /* starts of the prepared spans */
    size_t spans;
    _Atomic uintptr_t shown[SHOWN];  /* objects published by mutators (release); first: newest */
    _Atomic uint64_t found, not_yet; /* what readers met */
    _Atomic bool stop;
    enum heap_of heap;
    uint64_t seed;
};

/* ---- preparation ---- */

static bool lives(const struct shared *w, uint32_t index)
{
    if (w->heap == FRESH)
        return false;
    return w->heap == SPARSE ? index % 64 != SLOT_A && index % 64 != SLOT_B : index == 0;
}

/* Full spans, all of whose slots hold objects. */
static void fill(struct shared *w, size_t spans_each)
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
            uintptr_t p =
                test_alloc_slot(&c, test_class(mix[k].size, mix[k].kind), false, test_gen(h), 1);
            if (p == hg__span_of(h, p)->start)
                w->span[w->spans++] = p;
        }
    }
    hg__cache_release(&c, false);
    cr_assert_eq(w->spans, KINDS * spans_each);
}

/* A cycle that keeps of the first spans what `lives` says, and nothing else: free slots are
 * poisoned. The caches are released. */
static void prepare(struct shared *w)
{
    struct hg_heap *h = w->t.heap;
    for (size_t n = 0; n < w->spans; n++) {
        struct hg_span *s = hg__span_of(h, w->span[n]);
        for (uint32_t i = 0; i < s->count; i++)
            if (lives(w, i))
                hg__set_mark(h, s->start + i * s->size);
    }
    test_next_generation(h);
    test_sweep_all(h);
    for (int i = 0; i < SHOWN; i++)
        hg_store_rlx(&w->shown[i], 0u);
    hg_store_rlx(&w->stop, false);
}

/* ---- threads ---- */

struct actor {
    struct shared *w;
    uint64_t number, rounds;
    struct hg_rand rand;
    uint16_t layout; /* of the next object; changes now and then */
    struct hg_cache cache;
};

/* An object whose second word says its layout, if it has one, before anybody is shown it. */
static uintptr_t allocate(struct actor *a, int kind, uint32_t gen)
{
    unsigned k = test_class(mix[kind].size, mix[kind].kind);
    if (hg_rand_below(&a->rand, 32) == 0)
        a->layout = (uint16_t)(1 + hg_rand_below(&a->rand, LAYOUT_IDS));
    uintptr_t p = test_alloc_slot(&a->cache, k, false, gen, a->layout);
    HG_CHECK(p != 0, "out of memory");
    hg_store_rlx((_Atomic uint64_t *)p, (uint64_t)p);
    if (mix[kind].kind == HG_SPAN_DESCRIBED)
        hg_store_rlx((_Atomic uint64_t *)p + 1, (uint64_t)a->layout);
    return p;
}

static void *mutate(void *arg)
{
    struct actor *a = arg;
    struct shared *w = a->w;
    uint32_t gen = test_gen(w->t.heap);
    for (uint64_t n = a->rounds; n > 0; n--) {
        int m = (int)hg_rand_below(&a->rand, KINDS);
        for (uint32_t i = hg_rand_below(&a->rand, 100); i > 0; i--) {
            uintptr_t p = allocate(a, m, gen);
            hg_store_rel(&w->shown[a->number], p);
            hg_store_rel(&w->shown[hg_rand_below(&a->rand, SHOWN)], p);
        }
        if (hg_rand_below(&a->rand, 20) == 0)
            hg__cache_release(&a->cache, false);
    }
    hg__cache_release(&a->cache, false);
    return NULL;
}

/* o was found again after it had been reported as allocated. */
static void check_object(struct hg_heap *h, const struct hg_object *o)
{
    bool described = hg__desc_kind(o->desc) == HG_SPAN_DESCRIBED;
    uint64_t layout = described ? hg__object_layout(o) : 0;
    size_t size = hg__object_size(h, o);
    for (size_t i = 0; i < size / 8; i++) {
        uint64_t v = hg_load_rlx((_Atomic uint64_t *)(o->base + i * 8));
        HG_CHECK(v == 0 || (i == 0 && v == o->base) || (i == 1 && v == layout),
                 "slot %p is allocated, has layout %u, and holds in word %zu: %lx", (void *)o->base,
                 (unsigned)layout, i, (unsigned long)v);
    }
}

/* A published object, the newest ones often: their words are about to change. Or 0. */
static uintptr_t random_shown(struct actor *a)
{
    uint32_t among = hg_rand_below(&a->rand, 2) == 0 ? MUTATORS : SHOWN;
    return hg_load_acq(&a->w->shown[hg_rand_below(&a->rand, among)]);
}

/* An ambiguous word: into the span where a mutator was last seen, or any. */
static uintptr_t random_word(struct actor *a)
{
    struct shared *w = a->w;
    uintptr_t p = random_shown(a);
    if (w->spans != 0 && (p == 0 || hg_rand_below(&a->rand, 4) == 0))
        p = w->span[hg_rand_below(&a->rand, (uint32_t)w->spans)];
    if (w->heap != SPARSE)
        return (p & ~(uintptr_t)(HG_PAGE_BYTES - 1)) + hg_rand_below(&a->rand, HG_PAGE_BYTES);
    struct hg_span *s = hg__span_of(w->t.heap, p);
    uint32_t i = hg_rand_below(&a->rand, ((uint32_t)s->count + 63) / 64) * 64;
    i += hg_rand_below(&a->rand, 2) == 0 ? SLOT_A : SLOT_B;
    return s->start + hg_min_size(i, s->count - 1u) * s->size;
}

static void *read_words(void *arg)
{
    struct actor *a = arg;
    struct shared *w = a->w;
    struct hg_heap *h = w->t.heap;
    while (!hg_load_acq(&w->stop)) {
        /* 1: any word that points to none of the objects that lived before. */
        struct hg_object o = hg__find(h, random_word(a));
        if (o.base != 0 && !lives(w, o.index)) {
            bool allocated = hg__slot_allocated(hg__span_of(h, o.base), o.index);
            hg_add_rlx(allocated ? &w->found : &w->not_yet, 1u);
            o = hg__find(h, o.base); /* Note [LAYOUT]: desc is read after it is known to be one */
            if (allocated)
                check_object(h, &o);
        }
        /* 2: a word that was published. */
        uintptr_t p = random_shown(a);
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
    a->number = number;
    a->rand.state = w->seed + number;
    a->rounds = rounds;
    a->layout = 1;
    hg__cache_init(&a->cache, w->t.heap);
    return a;
}

static void run_threads(struct shared *w, struct actor **actor)
{
    pthread_t thread[MUTATORS + READERS];
    for (int i = 0; i < MUTATORS + READERS; i++) {
        void *(*run)(void *) = i < MUTATORS ? mutate : read_words;
        cr_assert_eq(pthread_create(&thread[i], NULL, run, actor[i]), 0);
    }
    for (int i = 0; i < MUTATORS; i++)
        pthread_join(thread[i], NULL);
    hg_store_rel(&w->stop, true);
    for (int i = 0; i < READERS; i++)
        pthread_join(thread[MUTATORS + i], NULL);
}

static bool met_both(struct shared *w)
{
    return hg_load_rlx(&w->found) != 0 && hg_load_rlx(&w->not_yet) != 0;
}

static void race(const char *test, enum heap_of heap, uint64_t cycles)
{
    struct shared w = {0};
    struct actor *actor[MUTATORS + READERS];
    w.seed = test_seed(test);
    w.heap = heap;
    w.t = test_heap_open((size_t)1 << 30, true);
    if (heap != FRESH)
        fill(&w, 400);
    for (uint64_t i = 0; i < MUTATORS + READERS; i++)
        actor[i] = new_actor(&w, i, 200);
    /* A machine that runs the threads one after the other shows the readers nothing: some more. */
    for (uint64_t n = 0; n < cycles || (!met_both(&w) && n < cycles + 2000); n++) {
        prepare(&w);
        run_threads(&w, actor);
        hg__heap_verify(w.t.heap);
    }
    cr_assert_gt(hg_load_rlx(&w.found), 0);
    cr_assert_gt(hg_load_rlx(&w.not_yet), 0);
    for (int i = 0; i < MUTATORS + READERS; i++)
        free(actor[i]);
    free(w.span);
    test_heap_close(&w.t);
}

Test(alloc_race, words_with_many_free_slots)
{
    race("words_with_many_free_slots", DENSE, test_scaled(40));
}

Test(alloc_race, words_that_change_all_the_time)
{
    race("words_that_change_all_the_time", SPARSE, test_scaled(200));
}

Test(alloc_race, spans_that_become_mixed)
{
    race("spans_that_become_mixed", FRESH, test_scaled(100));
}

/* test_alloc.h: what the tests of alloc/ share: a heap of their own, and allocation as hg_alloc
 * does it, without a runtime: the caller says which cache, colour and generation.
 *
 * Criterion's assertions may only fail on a test's own thread and cost a message each, so loops and
 * threads use HG_CHECK, which prints and ends the process; each test has a process of its own. */
#ifndef HG_TESTS_UNIT_TEST_ALLOC_H
#define HG_TESTS_UNIT_TEST_ALLOC_H
#include "alloc/alloc.h"
#include "base/rand.h"
#include "tests/support/test.h"

#include <criterion/criterion.h>
#include <sched.h>
#include <string.h>

struct test_heap {
    struct hg_heap *heap;
    struct hg_meta *meta;
};

static inline struct test_heap test_heap_open(size_t reserve_bytes, bool poison)
{
    struct hg_heap_config config = {reserve_bytes, HG_HUGEPAGES_NEVER, poison};
    struct test_heap t = {NULL, hg__meta_open()};
    cr_assert_not_null(t.meta);
    cr_assert_eq(hg__heap_open(&t.heap, t.meta, &config), 0);
    return t;
}

static inline void test_heap_close(struct test_heap *t)
{
    hg__heap_close(t->heap);
    hg__meta_close(t->meta);
}

static inline uint32_t test_gen(const struct hg_heap *h) { return hg_load_acq(&h->gen); }

/* A cleared slot of a span class; id: of its layout, if it is DESCRIBED; 0: no memory. */
static inline uintptr_t test_alloc_slot(struct hg_cache *c, unsigned span_class, bool black,
                                        uint32_t gen, uint16_t id)
{
    struct hg_cache_slot *s = &c->slot[span_class];
    uint16_t layout = span_class % HG_SPAN_KINDS == HG_SPAN_DESCRIBED ? id : 0;
    uintptr_t p = hg__cache_take(s, layout);
    if (p != 0)
        return p;
    if (hg__cache_refill(c, span_class, layout, black, gen, NULL) != HG_REFILL_OK)
        return 0;
    p = hg__cache_take(s, layout);
    HG_CHECK(p != 0, "a refill gave no slot");
    return p;
}

static inline unsigned test_class(size_t size, enum hg_span_kind kind)
{
    return hg__span_class(hg__class_of(size), kind);
}

static inline void test_sweep_all(struct hg_heap *h)
{
    while (hg__sweep_some(h, 64) != 0)
        ;
    HG_CHECK(hg__sweep_done(h), "nothing is left to sweep, but sweeping is not done");
}

/* What the driver does between sweeping and the next generation. */
static inline void test_next_generation(struct hg_heap *h)
{
    hg__empties_dissolve(h, SIZE_MAX);
    while (!hg__sweep_done(h)) /* others may be at empty spans */
        sched_yield();
    hg__sweep_open(h);
}

static inline void test_count_one(void *arg, uintptr_t obj, const struct hg_span *span)
{
    (void)obj;
    (void)span;
    ++*(size_t *)arg;
}

static inline size_t test_objects(struct hg_heap *h)
{
    size_t n = 0;
    hg__heap_each(h, test_count_one, &n);
    return n;
}

/* Marks set in the whole table. */
static inline size_t test_marks(const struct hg_heap *h)
{
    size_t n = 0, low = hg_load_acq(&h->low_end), high = hg_load_acq(&h->high_start);
    for (size_t at = 0; at < h->size; at += HG_GRAIN * 64) {
        if (at == low && low < high)
            at = high;
        if (at < h->size)
            n += hg_popcount64(hg_load_rlx(hg__mark_word(h, h->base + at)));
    }
    return n;
}

#endif

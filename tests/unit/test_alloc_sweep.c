/* test_alloc_sweep.c: colours and generations, step by step: what a sweep keeps, what marks are
 * left, whose spans are swept when, and when sweeping is done. */
#include "tests/unit/test_alloc.h"

#include <stdlib.h>

TestSuite(alloc_sweep, .timeout = 60);

static struct test_heap t;
static struct hg_heap *h;
static struct hg_cache c;

static void open_heap(void)
{
    t = test_heap_open((size_t)1 << 30, false);
    h = t.heap;
    hg__cache_init(&c, h);
}

static void close_heap(void) { test_heap_close(&t); }

/* A whole cycle of one mutator that is white: opens a generation and gives the cache back. */
static void cycle(bool black)
{
    test_next_generation(h);
    hg__cache_release(&c, black);
    test_sweep_all(h);
}

/* ---- which objects live ---- */

Test(alloc_sweep, keeps_exactly_the_marked_of_every_class, .init = open_heap, .fini = close_heap)
{
    struct hg_rand r = {test_seed("keeps_exactly_the_marked_of_every_class")};
    enum { EACH = 600 };
    size_t n = (HG_CLASSES - 1) * HG_SPAN_KINDS * EACH, kept = 0, i = 0;
    uintptr_t *p = malloc(n * sizeof *p);
    bool *keep = malloc(n * sizeof *keep);
    for (unsigned k = HG_SPAN_KINDS; k < HG_SPAN_CLASSES; k++) {
        uint32_t share = hg_rand_below(&r, 101);
        for (unsigned e = 0; e < EACH; e++, i++) {
            p[i] = test_alloc_slot(&c, k, false, test_gen(h), 1);
            keep[i] = hg_rand_below(&r, 100) < share;
            kept += keep[i];
            if (keep[i])
                HG_CHECK(hg__set_mark(h, p[i]) && !hg__set_mark(h, p[i]), "marked once");
        }
    }
    hg__heap_verify(h);
    cr_assert_eq(test_objects(h), n);
    cycle(false);
    hg__heap_verify(h);
    cr_assert_eq(test_objects(h), kept);
    cr_assert_eq(test_marks(h), 0);
    for (i = 0; i < n; i++) {
        struct hg_object o = hg__find(h, p[i]);
        bool there = o.base == p[i] && hg__slot_allocated(hg__span_of(h, o.base), o.index);
        HG_CHECK(there == keep[i], "object %zu is %s", i, there ? "there" : "gone");
    }
    cycle(false);
    cr_assert_eq(test_objects(h), 0);
    cr_assert_eq(hg_load_rlx(&h->span_bytes), 0);
    free(p);
    free(keep);
}

Test(alloc_sweep, dead_slots_are_poisoned_and_live_ones_are_not)
{
    t = test_heap_open((size_t)1 << 30, true);
    h = t.heap;
    hg__cache_init(&c, h);
    enum { N = 100, SIZE = 96 };
    uintptr_t p[N];
    for (int i = 0; i < N; i++) {
        p[i] = test_alloc_slot(&c, test_class(SIZE, HG_SPAN_LEAF), false, test_gen(h), 0);
        memset((void *)p[i], 0x11, SIZE);
        if (i % 2 == 0)
            hg__set_mark(h, p[i]);
    }
    cycle(false);
    for (int i = 0; i < N; i++)
        for (int w = 0; w < SIZE / 8; w++) {
            uint64_t want = i % 2 == 0 ? UINT64_C(0x1111111111111111) : HG_POISON;
            HG_CHECK(((uint64_t *)p[i])[w] == want, "object %d, word %d", i, w);
        }
    close_heap();
}

/* ---- what a span's pages say ---- */

static uint64_t desc_of(uintptr_t p) { return hg__find(h, p).desc; }

Test(alloc_sweep, a_span_is_uniform_until_it_is_mixed, .init = open_heap, .fini = close_heap)
{
    enum { N = 40 };
    unsigned k = test_class(64, HG_SPAN_DESCRIBED);
    uintptr_t p[N];
    for (int i = 0; i < N; i++) {
        p[i] = test_alloc_slot(&c, k, false, test_gen(h), i < N / 2 ? 5 : 6);
        cr_assert_eq(hg__desc_layout(desc_of(p[0])), i < N / 2 ? 5 : 0, "object %d", i);
    }
    for (int i = 0; i < N; i++) {
        struct hg_object o = hg__find(h, p[i]);
        cr_assert_eq(hg__object_layout(&o), i < N / 2 ? 5 : 6, "object %d", i);
    }
    hg__set_mark(h, p[N - 1]);
    cycle(false); /* one lives: it stays mixed, and keeps its id */
    struct hg_object o = hg__find(h, p[N - 1]);
    cr_assert_eq(hg__desc_layout(o.desc), 0);
    cr_assert_eq(hg__object_layout(&o), 6);
    hg__heap_verify(h);
    test_next_generation(h);
    uintptr_t q = test_alloc_slot(&c, k, false, test_gen(h), 9); /* sweeps it, finds it empty */
    cr_assert_eq(hg__span_of(h, q), hg__span_of(h, p[0]));
    cr_assert_eq(hg__desc_layout(desc_of(q)), 9, "an empty span begins uniform");
    hg__heap_verify(h);
}

Test(alloc_sweep, a_full_span_says_so, .init = open_heap, .fini = close_heap)
{
    unsigned k = test_class(48, HG_SPAN_CONSERVATIVE);
    uint32_t n = hg__class[k / HG_SPAN_KINDS].count;
    uintptr_t first = test_alloc_slot(&c, k, false, test_gen(h), 0);
    for (uint32_t i = 1; i < n; i++)
        test_alloc_slot(&c, k, false, test_gen(h), 0);
    cr_assert_eq(desc_of(first) & HG_DESC_FULL, 0, "its last word is in use");
    hg__cache_release(&c, false);
    cr_assert_neq(desc_of(first) & HG_DESC_FULL, 0);
    hg__heap_verify(h);
    for (uint32_t i = 0; i < n; i++)
        hg__set_mark(h, first + i * (uintptr_t)48);
    cycle(false);
    cr_assert_neq(desc_of(first) & HG_DESC_FULL, 0, "all of it lives");
    for (uint32_t i = 0; i < n - 1; i++)
        hg__set_mark(h, first + i * (uintptr_t)48);
    cycle(false);
    cr_assert_eq(desc_of(first) & HG_DESC_FULL, 0, "its last slot is free");
    hg__heap_verify(h);
    struct hg_span *large = hg__large_alloc(h, 100000, HG_SPAN_CONSERVATIVE, 0, test_gen(h));
    hg__large_publish(h, large, false);
    cr_assert_neq(desc_of(large->start) & HG_DESC_FULL, 0);
}

/* ---- colours ---- */

Test(alloc_sweep, what_a_black_mutator_allocates_lives, .init = open_heap, .fini = close_heap)
{
    size_t n = 0;
    for (unsigned k = HG_SPAN_KINDS; k < HG_SPAN_CLASSES; k++)
        for (unsigned i = 0; i < 100; i++, n++) {
            uintptr_t p = test_alloc_slot(&c, k, true, test_gen(h), 1);
            HG_CHECK(hg__is_marked(h, p), "class %u: a black object is not marked", k);
        }
    hg__heap_verify(h);
    cycle(true);
    cr_assert_eq(test_objects(h), n);
    cr_assert_eq(test_marks(h), 0, "free slots of a black cache kept their marks");
    hg__heap_verify(h);
}

Test(alloc_sweep, stash_turns_a_white_cache_black, .init = open_heap, .fini = close_heap)
{
    enum { WHITE = 10, BLACK = 70 }; /* a word has 64 slots; the stash comes first */
    unsigned k = test_class(48, HG_SPAN_REFS);
    uint32_t gen = test_gen(h);
    for (int i = 0; i < WHITE; i++)
        HG_CHECK(!hg__is_marked(h, test_alloc_slot(&c, k, false, gen, 0)), "white");
    uint64_t free_slots = c.slot[k].mask;
    int64_t counted = c.alloc_slots;
    hg__cache_stash(&c);
    cr_assert_eq(c.slot[k].mask, 0);
    cr_assert_eq(c.slot[k].stash, free_slots);
    cr_assert_eq(test_marks(h), 0, "marked before they are taken from the stash");
    cr_assert_eq(hg__cache_refill(&c, k, 0, true, gen, NULL), HG_REFILL_OK);
    cr_assert_eq(c.slot[k].mask, free_slots);
    cr_assert_eq(c.alloc_slots, counted, "the stash was counted twice");
    for (int i = 0; i < BLACK; i++)
        HG_CHECK(hg__is_marked(h, test_alloc_slot(&c, k, true, gen, 0)), "black");
    cycle(true);
    cr_assert_eq(test_objects(h), BLACK);
    cr_assert_eq(test_marks(h), 0);
}

/* Whatever a mutator does between two cycles, a sweep with nothing marked leaves no mark and no
 * object. */
Test(alloc_sweep, no_stray_marks, .init = open_heap, .fini = close_heap)
{
    struct hg_rand r = {test_seed("no_stray_marks")};
    for (uint64_t round = test_scaled(100); round > 0; round--) {
        uint32_t gen = test_gen(h);
        bool black = false;
        for (int n = 0; n < 400; n++) {
            unsigned k = HG_SPAN_KINDS + hg_rand_below(&r, HG_SPAN_CLASSES - HG_SPAN_KINDS);
            uint32_t what = hg_rand_below(&r, 100);
            for (uint32_t i = hg_rand_below(&r, 40); i > 0; i--)
                test_alloc_slot(&c, k, black, gen, 1);
            if (what < 2)
                hg__cache_release(&c, black);
            if (what == 2 && !black) {
                hg__cache_stash(&c);
                black = true;
            }
        }
        hg__heap_verify(h);
        cycle(black);
        cycle(false); /* nothing was marked since */
        cr_assert_eq(test_marks(h), 0);
        cr_assert_eq(test_objects(h), 0);
        hg__heap_verify(h);
    }
}

Test(alloc_sweep, unused_slots_are_not_counted, .init = open_heap, .fini = close_heap)
{
    unsigned k = test_class(64, HG_SPAN_LEAF);
    for (int i = 0; i < 3; i++)
        test_alloc_slot(&c, k, false, test_gen(h), 0);
    cr_assert_eq(c.alloc_slots, 64, "a word at a time");
    hg__cache_stash(&c);
    hg__cache_release(&c, true);
    cr_assert_eq(c.alloc_slots, 3);
    cr_assert_eq(c.alloc_bytes, 3 * 64);
    cr_assert_eq(test_objects(h), 3);
    test_alloc_slot(&c, k, false, test_gen(h), 0);
    cr_assert_eq(c.alloc_slots, 3 + 61, "the word was taken again without its used slots");
    cr_assert_eq(test_objects(h), 4);
}

/* ---- generations ---- */

/* Two mutators: one answers RESET at once, one works on in the old generation for a while. */
Test(alloc_sweep, a_late_mutator_works_on_in_its_generation, .init = open_heap, .fini = close_heap)
{
    static struct hg_cache late;
    hg__cache_init(&late, h);
    unsigned k = test_class(32, HG_SPAN_REFS), slots = hg__class[k / HG_SPAN_KINDS].count;
    uint32_t old = test_gen(h);
    /* A partial span of the old generation, listed, with marked objects. */
    for (int i = 0; i < 5; i++)
        hg__set_mark(h, test_alloc_slot(&c, k, false, old, 0));
    hg__cache_release(&c, false);
    test_next_generation(h);
    uint32_t new = test_gen(h);
    cr_assert_eq(new, old + 1);
    cr_assert_gt(hg_load_rlx(&h->unswept_pages), 0);

    /* The late one takes it as it is, black, and sweeps nothing. */
    uint32_t swept = 99;
    cr_assert_eq(hg__cache_refill(&late, k, 0, true, old, &swept), HG_REFILL_OK);
    cr_assert_eq(swept, 0);
    cr_assert_eq(late.slot[k].span->gen, old);
    cr_assert_eq(hg_load_rlx(&h->unswept_pages), 0, "the span is in no list now");
    for (int i = 0; i < 7; i++)
        test_alloc_slot(&late, k, true, old, 0);

    /* The early one gets a span of the new generation and gives it back; the late one must not take
     * it. */
    test_alloc_slot(&c, k, false, new, 0);
    struct hg_span *fresh = c.slot[k].span;
    cr_assert_eq(fresh->gen, new);
    hg__cache_release(&c, false);
    for (unsigned i = 0; i < 2 * slots; i++) {
        test_alloc_slot(&late, k, true, old, 0);
        HG_CHECK(late.slot[k].span != fresh, "a span of a newer generation was taken");
    }
    cr_assert_eq(fresh->gen, new, "a span of a newer generation was swept");
    hg__heap_verify(h);

    hg__cache_release(&late, true);
    cr_assert_gt(hg_load_rlx(&h->unswept_pages), 0, "what the late one gives back is unswept");
    cr_assert_not(hg__sweep_done(h));
    test_sweep_all(h);
    cr_assert_eq(test_objects(h), 5 + 7 + 2 * (size_t)slots + 1);
    hg__heap_verify(h);
}

static void open_generation(void *arg) { hg__sweep_open(arg); }

Test(alloc_sweep, a_generation_opens_only_when_the_last_is_swept)
{
    struct test_child child;
    open_heap();
    hg__set_mark(h, test_alloc_slot(&c, test_class(16, HG_SPAN_REFS), false, test_gen(h), 0));
    hg__cache_release(&c, false);
    test_next_generation(h);
    test_child_run(&child, 10, open_generation, h);
    cr_assert_neq(child.signal, 0);
    cr_assert_not_null(strstr(child.text, "before the last one was swept"));
    close_heap();
}

/* Marks each `step`-th object. */
struct every {
    size_t n, step;
};
static void mark_every(void *arg, uintptr_t p, const struct hg_span *s)
{
    struct every *e = arg;
    (void)s;
    if (e->step != 0 && e->n++ % e->step == 0)
        hg__set_mark(h, p);
}

enum { SPANS = 300 };

/* SPANS full spans of one class, of which each `step`-th object is marked (0: none); a new
 * generation. */
static unsigned fill_spans(size_t step)
{
    unsigned k = test_class(64, HG_SPAN_REFS), slots = hg__class[k / HG_SPAN_KINDS].count;
    struct every e = {0, step};
    for (unsigned i = 0; i < SPANS * slots; i++)
        test_alloc_slot(&c, k, false, test_gen(h), 0);
    hg__heap_each(h, mark_every, &e);
    test_next_generation(h);
    hg__cache_release(&c, false);
    return k;
}

Test(alloc_sweep, a_refill_sweeps_a_bounded_number, .init = open_heap, .fini = close_heap)
{
    unsigned k = fill_spans(1); /* no span has room */
    uint32_t swept;
    cr_assert_eq(hg_load_rlx(&h->unswept_pages), SPANS);
    cr_assert_eq(hg__cache_refill(&c, k, 0, false, test_gen(h), &swept), HG_REFILL_OK);
    cr_assert(swept >= 1 && swept <= 16, "swept %u pages", swept);
    cr_assert_eq(hg_load_rlx(&h->unswept_pages), SPANS - (int64_t)swept);
}

Test(alloc_sweep, spans_with_room_are_used_before_new_pages, .init = open_heap, .fini = close_heap)
{
    unsigned k = fill_spans(10), slots = hg__class[k / HG_SPAN_KINDS].count;
    int64_t before = hg_load_rlx(&h->span_bytes);
    for (unsigned i = 0; i < SPANS * slots / 10 * 8; i++)
        test_alloc_slot(&c, k, false, test_gen(h), 0);
    cr_assert_eq(hg_load_rlx(&h->span_bytes), before);
    hg__heap_verify(h);
}

Test(alloc_sweep, sweep_some_does_about_what_it_is_asked, .init = open_heap, .fini = close_heap)
{
    fill_spans(10);
    cr_assert_eq(hg__sweep_some(h, 0), 0);
    cr_assert_eq(hg__sweep_some(h, 1), 1);
    cr_assert_eq(hg__sweep_some(h, 100), 100);
    cr_assert_eq(hg_load_rlx(&h->unswept_pages), SPANS - 101);
    cr_assert_not(hg__sweep_done(h));
    cr_assert_eq(hg__sweep_some(h, 10 * SPANS), SPANS - 101);
    cr_assert_eq(hg__sweep_some(h, 1), 0);
    cr_assert(hg__sweep_done(h));
    cr_assert_eq(hg_load_rlx(&h->swept_pages), SPANS);
}

/* ---- empty spans ---- */

/* SPANS spans with nothing in them. */
static unsigned leave_empty(void)
{
    unsigned k = fill_spans(0);
    test_sweep_all(h);
    cr_assert_eq(hg_load_rlx(&h->empty_pages), SPANS);
    cr_assert_eq(hg_load_rlx(&h->span_bytes), 0);
    hg__heap_verify(h);
    return k;
}

Test(alloc_sweep, empty_spans_are_filled_again, .init = open_heap, .fini = close_heap)
{
    unsigned k = leave_empty(), slots = hg__class[k / HG_SPAN_KINDS].count;
    int64_t mapped = hg_load_rlx(&h->mapped_bytes);
    for (unsigned i = 0; i < SPANS * slots; i++) {
        unsigned char *p = (void *)test_alloc_slot(&c, k, false, test_gen(h), 0);
        HG_CHECK(p[0] == 0 && memcmp(p, p + 1, hg__class[k / HG_SPAN_KINDS].size - 1) == 0,
                 "slot %u is not clear", i);
    }
    cr_assert_eq(hg_load_rlx(&h->empty_pages), 0);
    cr_assert_eq(hg_load_rlx(&h->mapped_bytes), mapped);
    hg__heap_verify(h);
    cr_assert_eq(test_objects(h), SPANS * slots);
}

Test(alloc_sweep, empty_spans_serve_other_classes_before_the_process_grows, .init = open_heap,
     .fini = close_heap)
{
    unsigned k = leave_empty(), other = test_class(208, (enum hg_span_kind)(k % HG_SPAN_KINDS));
    int64_t mapped = hg_load_rlx(&h->mapped_bytes);
    size_t bytes = (size_t)SPANS * HG_PAGE_BYTES / 8 * 7;
    for (size_t done = 0; done < bytes; done += hg__class[other / HG_SPAN_KINDS].size)
        cr_assert_neq(test_alloc_slot(&c, other, false, test_gen(h), 0), 0);
    /* But for one chunk: it may be cut from where used pages touch new ones. */
    cr_assert_lt(hg_load_rlx(&h->mapped_bytes), mapped + 32 * (int64_t)HG_PAGE_BYTES);
    hg__heap_verify(h);
}

Test(alloc_sweep, empty_spans_serve_large_objects, .init = open_heap, .fini = close_heap)
{
    unsigned k = leave_empty();
    int64_t mapped = hg_load_rlx(&h->mapped_bytes);
    size_t size = (size_t)SPANS * HG_PAGE_BYTES / 8 * 7;
    struct hg_span *s =
        hg__large_alloc(h, size, (enum hg_span_kind)(k % HG_SPAN_KINDS), 0, test_gen(h));
    cr_assert_not_null(s);
    cr_assert_eq(hg_load_rlx(&h->mapped_bytes), mapped);
    hg__large_publish(h, s, false);
    hg__heap_verify(h);
}

Test(alloc_sweep, empty_spans_go_back_to_the_kernel, .init = open_heap, .fini = close_heap)
{
    leave_empty();
    hg__scavenge(h, SIZE_MAX);
    cr_assert_eq(hg_load_rlx(&h->empty_pages), 0);
    cr_assert_eq(hg_load_rlx(&h->free_bytes), 0);
    hg__heap_verify(h);
}

Test(alloc_sweep, no_generation_opens_over_an_empty_span, .init = open_heap, .fini = close_heap)
{
    leave_empty();
    struct test_child child;
    test_child_run(&child, 10, open_generation, h);
    cr_assert_not_null(strstr(child.text, "an empty span was not dissolved"));
}

/* ---- large objects ---- */

Test(alloc_sweep, large_objects_appear_when_published, .init = open_heap, .fini = close_heap)
{
    const size_t size = 3 * HG_PAGE_BYTES + 20000;
    for (int kind = 0; kind < HG_SPAN_KINDS; kind++) {
        struct hg_span *s = hg__large_alloc(h, size, (enum hg_span_kind)kind, 77, test_gen(h));
        cr_assert_not_null(s);
        cr_assert(s->size >= size && s->size < size + HG_GRAIN);
        cr_assert_eq(hg__find(h, s->start).base, 0);
        cr_assert_eq(hg__find(h, s->start + size - 1).base, 0);
        hg__heap_verify(h);
        hg__large_publish(h, s, false);
        struct hg_object o = hg__find(h, s->start + size - 1);
        cr_assert(o.base == s->start && o.index == 0 && (int)hg__desc_kind(o.desc) == kind);
        cr_assert_eq(hg__object_size(h, &o), s->size);
        cr_assert_eq(hg__object_layout(&o), 77);
        cr_assert(hg__slot_allocated(hg__span_of(h, o.base), 0));
        cr_assert_not(hg__is_marked(h, o.base));
        hg__heap_verify(h);
    }
    cycle(false);
    cr_assert_eq(test_objects(h), 0);
    cr_assert_eq(hg_load_rlx(&h->span_bytes), 0);
    hg__heap_verify(h);
}

/* A generation opens while a large object is being cleared: it is not swept, and lives if it is
 * black. */
Test(alloc_sweep, large_objects_outlast_a_reset_before_they_are_published, .init = open_heap,
     .fini = close_heap)
{
    struct hg_span *s = hg__large_alloc(h, 100000, HG_SPAN_REFS, 0, test_gen(h));
    for (int i = 0; i < 3; i++)
        cycle(false);
    hg__heap_verify(h);
    s->gen = test_gen(h);
    hg__large_publish(h, s, true);
    cr_assert(hg__is_marked(h, s->start));
    cycle(true);
    cr_assert_eq(test_objects(h), 1);
    cr_assert_eq(test_marks(h), 0);
    cycle(false);
    cr_assert_eq(test_objects(h), 0);
}

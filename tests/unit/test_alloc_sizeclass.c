/* test_alloc_sizeclass.c: the generated table, checked by other means than the generator's, and
 * hg__find for every byte of a span of every class. */
#include "tests/unit/test_alloc.h"

TestSuite(alloc_sizeclass, .timeout = 60);

Test(alloc_sizeclass, every_size_has_the_smallest_class_that_holds_it)
{
    cr_assert_eq(hg__class_of(0), hg__class_of(1));
    for (size_t size = 1; size <= HG_SMALL_MAX; size++) {
        unsigned c = hg__class_of(size);
        HG_CHECK(c >= 1 && c < HG_CLASSES, "size %zu: class %u", size, c);
        HG_CHECK(hg__class[c].size >= size, "size %zu does not fit class %u", size, c);
        HG_CHECK(hg__class[c - 1].size < size, "size %zu fits class %u too", size, c - 1);
    }
    cr_assert_eq(hg__class[HG_CLASSES - 1].size, HG_SMALL_MAX);
    cr_assert_eq(hg__class[0].size, 0);
}

static bool holds(size_t pages, size_t count, size_t slot_bytes)
{
    return count >= 1 && count <= HG_SPAN_SLOTS && count * slot_bytes <= pages * HG_PAGE_BYTES;
}

Test(alloc_sizeclass, spans_hold_their_slots_and_ids)
{
    for (unsigned i = 1; i < HG_CLASSES; i++) {
        const struct hg_class *c = &hg__class[i];
        HG_CHECK(c->size % HG_GRAIN == 0, "class %u: %u bytes", i, c->size);
        HG_CHECK(holds(c->pages, c->count, c->size), "class %u", i);
        HG_CHECK(holds(c->pages_described, c->count_described, c->size + 2u), "class %u", i);
    }
}

/* Whether `used` bytes in each of `count` slots leave at most an eighth of the pages unused. */
static bool within_an_eighth(size_t pages, size_t count, size_t used)
{
    size_t bytes = pages * HG_PAGE_BYTES;
    return (bytes - count * used) * 8 <= bytes;
}

/* The bound that gen-sizeclass states, for every request. */
Test(alloc_sizeclass, waste_is_at_most_an_eighth)
{
    for (size_t size = 1; size <= HG_SMALL_MAX; size++) {
        const struct hg_class *c = &hg__class[hg__class_of(size)];
        size_t used = hg_round_up(size, HG_GRAIN);
        HG_CHECK(within_an_eighth(c->pages, c->count, used), "size %zu", size);
        HG_CHECK(within_an_eighth(c->pages_described, c->count_described, used + 2),
                 "size %zu, described", size);
    }
}

static void check_every_byte(struct hg_heap *h, uintptr_t first, unsigned size_class,
                             enum hg_span_kind kind)
{
    const struct hg_class *c = &hg__class[size_class];
    struct hg_span *s = hg__span_of(h, first);
    cr_assert_eq(s->start, first);
    for (size_t offset = 0; offset < s->bytes; offset++) {
        struct hg_object o = hg__find(h, first + offset);
        size_t index = offset / c->size;
        if (index >= s->count) {
            HG_CHECK(o.base == 0, "class %u, offset %zu: in the tail", size_class, offset);
            continue;
        }
        HG_CHECK(o.base == first + index * c->size && o.index == index &&
                     hg__object_size(h, &o) == c->size && hg__desc_kind(o.desc) == kind,
                 "class %u, kind %d, offset %zu", size_class, (int)kind, offset);
    }
}

Test(alloc_sizeclass, find_for_every_byte_of_every_class)
{
    struct test_heap t = test_heap_open(0, false);
    static struct hg_cache c;
    hg__cache_init(&c, t.heap);
    for (unsigned size_class = 1; size_class < HG_CLASSES; size_class++)
        for (int kind = 0; kind < HG_SPAN_KINDS; kind++) {
            unsigned span_class = hg__span_class(size_class, (enum hg_span_kind)kind);
            uintptr_t p = test_alloc_slot(&c, span_class, false, test_gen(t.heap), 1);
            cr_assert_neq(p, 0);
            check_every_byte(t.heap, p, size_class, (enum hg_span_kind)kind);
        }
    test_heap_close(&t);
}

Test(alloc_sizeclass, find_knows_what_is_no_object)
{
    struct test_heap t = test_heap_open(0, false);
    struct hg_heap *h = t.heap;
    static struct hg_cache c;
    hg__cache_init(&c, h);
    uintptr_t p = test_alloc_slot(&c, test_class(64, HG_SPAN_REFS), false, test_gen(h), 0);
    cr_assert_eq(hg__find(h, p + 63).base, p);
    const uintptr_t words[] = {0,
                               1,
                               h->base - 1,
                               h->base + h->size,
                               h->base + h->size / 2,
                               p + HG_PAGE_BYTES,
                               UINTPTR_MAX,
                               (uintptr_t)&t};
    for (size_t i = 0; i < HG_COUNT_OF(words); i++)
        cr_assert_eq(hg__find(h, words[i]).base, 0, "word %zu", i);
    test_heap_close(&t);
}

/* Layout ids lie at the span's end and belong to their slots. */
Test(alloc_sizeclass, each_slot_has_its_own_id)
{
    struct test_heap t = test_heap_open(0, false);
    static struct hg_cache c;
    hg__cache_init(&c, t.heap);
    for (unsigned size_class = 1; size_class < HG_CLASSES; size_class++) {
        unsigned span_class = hg__span_class(size_class, HG_SPAN_DESCRIBED);
        static uintptr_t p[HG_SPAN_SLOTS];
        unsigned n = hg__class[size_class].count_described;
        for (unsigned i = 0; i < n; i++) {
            p[i] = test_alloc_slot(&c, span_class, false, test_gen(t.heap), (uint16_t)(i + 7));
            memset((void *)p[i], 0xff, hg__class[size_class].size);
        }
        cr_assert_eq(hg__span_of(t.heap, p[0]), hg__span_of(t.heap, p[n - 1]));
        for (unsigned i = 0; i < n; i++) {
            struct hg_object o = hg__find(t.heap, p[i]);
            cr_assert_eq(hg__object_layout(&o), i + 7);
        }
    }
    test_heap_close(&t);
}

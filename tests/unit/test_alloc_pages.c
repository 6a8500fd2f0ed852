/* test_alloc_pages.c: the page heap through spans and large objects: merging, giving back, running
 * out, huge pages. */
#include "tests/unit/test_alloc.h"

#include "base/os.h"

#include <stdlib.h>
#include <sys/resource.h>

TestSuite(alloc_pages, .timeout = 60);

static struct test_heap t;
static struct hg_heap *h;
static struct hg_cache c;

static void open_reserve(size_t bytes)
{
    t = test_heap_open(bytes, false);
    h = t.heap;
    hg__cache_init(&c, h);
}

static void open_small(void) { open_reserve((size_t)64 * HG_MIB); }

static void open_big(void) { open_reserve(0); }

static void close_heap(void) { test_heap_close(&t); }

static void cycle(void)
{
    test_next_generation(h);
    hg__cache_release(&c, false);
    test_sweep_all(h);
}

static struct hg_span *large(size_t size, enum hg_span_kind kind)
{
    struct hg_span *s = hg__large_alloc(h, size, kind, 0, test_gen(h));
    if (s != NULL)
        hg__large_publish(h, s, false);
    return s;
}

static bool is_zero(const struct hg_span *s)
{
    const uint64_t *w = (const uint64_t *)s->start;
    for (size_t i = 0; i < s->bytes / 8; i++)
        if (w[i] != 0)
            return false;
    return true;
}

/* ---- runs ---- */

/* Random large objects come and go; what is left free merges to one run, whose size tells. */
Test(alloc_pages, free_runs_merge, .init = open_small, .fini = close_heap)
{
    struct hg_rand r = {test_seed("free_runs_merge")};
    for (uint64_t round = test_scaled(60); round > 0; round--) {
        struct hg_span *s[64];
        for (int i = 0; i < 64; i++) {
            size_t size = HG_SMALL_MAX + 1 + hg_rand_below(&r, 40 * HG_PAGE_BYTES);
            s[i] = large(size, hg_rand_below(&r, 2) == 0 ? HG_SPAN_LEAF : HG_SPAN_REFS);
            HG_CHECK(s[i] != NULL, "out of memory");
        }
        for (int i = 0; i < 64; i++)
            if (hg_rand_below(&r, 2) == 0)
                hg__set_mark(h, s[i]->start);
        cycle();
        hg__heap_verify(h); /* no two free runs touch */
        cycle();
        hg__heap_verify(h);
        cr_assert_eq(hg_load_rlx(&h->span_bytes), 0);
    }
    size_t low = hg_load_rlx(&h->low_end), high = h->size - hg_load_rlx(&h->high_start);
    struct hg_span *a = large(low, HG_SPAN_REFS), *b = large(high, HG_SPAN_LEAF);
    cr_assert(a != NULL && a->start == h->base && a->bytes == low, "one run");
    cr_assert(b != NULL && b->start + b->bytes == h->base + h->size && b->bytes == high);
    cr_assert_eq(hg_load_rlx(&h->low_end), low, "an area grew with all of it free");
    hg__heap_verify(h);
}

Test(alloc_pages, scannable_spans_are_low_and_leaf_spans_high, .init = open_big, .fini = close_heap)
{
    for (unsigned k = HG_SPAN_KINDS; k < HG_SPAN_CLASSES; k++) {
        uintptr_t p = test_alloc_slot(&c, k, false, test_gen(h), 1);
        size_t offset = p - h->base;
        if (k % HG_SPAN_KINDS == HG_SPAN_LEAF)
            HG_CHECK(offset >= hg_load_rlx(&h->high_start) && offset < h->size, "class %u", k);
        else
            HG_CHECK(offset < hg_load_rlx(&h->low_end), "class %u", k);
    }
    cr_assert_leq(hg_load_rlx(&h->low_end), hg_load_rlx(&h->high_start));
}

/* ---- contents ---- */

Test(alloc_pages, fresh_pages_are_known_to_be_zero, .init = open_big, .fini = close_heap)
{
    struct hg_span *a = large(HG_MIB, HG_SPAN_LEAF);
    cr_assert(!a->needs_zero && is_zero(a));
    uintptr_t at = a->start;
    memset((void *)a->start, 0xee, a->bytes);
    cycle();
    struct hg_span *b = large(HG_MIB, HG_SPAN_LEAF);
    cr_assert_eq(b->start, at, "used pages are taken before fresh ones");
    cr_assert(b->needs_zero && !is_zero(b));
    cycle();
    cr_assert_eq(hg__scavenge(h, SIZE_MAX), HG_MIB);
    struct hg_span *d = large(HG_MIB, HG_SPAN_LEAF);
    cr_assert(!d->needs_zero && is_zero(d), "pages that were given back read as zero");
    hg__heap_verify(h);
}

/* Random takes, writes and scavenges: a span that says it needs no clearing is zero. */
Test(alloc_pages, needs_zero_is_never_wrong, .init = open_small, .fini = close_heap)
{
    struct hg_rand r = {test_seed("needs_zero_is_never_wrong")};
    for (uint64_t round = test_scaled(150); round > 0; round--) {
        for (int i = 0; i < 10; i++) {
            size_t size = HG_SMALL_MAX + 1 + hg_rand_below(&r, 60 * HG_PAGE_BYTES);
            struct hg_span *s = large(size, HG_SPAN_REFS);
            HG_CHECK(s != NULL && (s->needs_zero || is_zero(s)), "a span is not zero");
            memset((void *)s->start, 0x77, s->bytes);
            if (hg_rand_below(&r, 3) == 0)
                hg__set_mark(h, s->start);
        }
        test_alloc_slot(&c, test_class(1000, HG_SPAN_REFS), false, test_gen(h), 0);
        cycle();
        size_t most = hg_rand_below(&r, 3) == 0 ? SIZE_MAX : hg_rand_below(&r, 1 << 20);
        int64_t mapped = hg_load_rlx(&h->mapped_bytes);
        size_t given = hg__scavenge(h, most);
        HG_CHECK(given <= most, "more was given back than asked for");
        HG_CHECK(hg_load_rlx(&h->mapped_bytes) == mapped - (int64_t)given, "mapped_bytes is off");
        HG_CHECK(most != SIZE_MAX || hg_load_rlx(&h->free_bytes) == 0, "free pages are left");
        hg__heap_verify(h);
    }
}

/* ---- running out ---- */

static uint64_t fill_with(unsigned span_class)
{
    uint64_t n = 0;
    while (test_alloc_slot(&c, span_class, false, test_gen(h), 1) != 0)
        n++;
    return n;
}

Test(alloc_pages, a_full_heap_says_so_and_stays_usable, .init = open_small, .fini = close_heap)
{
    unsigned k = test_class(1024, HG_SPAN_DESCRIBED);
    uint64_t first = fill_with(k);
    cr_assert_gt(first * 1024, h->size / 8 * 7, "at most an eighth was wasted");
    cr_assert_eq(fill_with(k), 0);
    cr_assert_eq(fill_with(test_class(16, HG_SPAN_LEAF)), 0, "the areas have met");
    cr_assert_null(large(HG_SMALL_MAX + 1, HG_SPAN_LEAF));
    hg__heap_verify(h);

    /* Garbage that is not swept yet: a refill in need sweeps, other classes too. */
    test_next_generation(h);
    hg__cache_release(&c, false);
    int64_t unswept = hg_load_rlx(&h->unswept_pages);
    unsigned other = test_class(64, HG_SPAN_REFS);
    for (uint64_t n = h->size / 64 / 2; n > 0; n--)
        HG_CHECK(test_alloc_slot(&c, other, false, test_gen(h), 0) != 0, "garbage is left");
    cr_assert_lt(hg_load_rlx(&h->unswept_pages), unswept / 8 * 5);
    test_sweep_all(h);
    cycle();
    test_sweep_all(h);
    cr_assert_gt(fill_with(k), first - first / 50);
    hg__heap_verify(h);
}

/* Only small free runs are left: an object fits one of them, and one that fits none is refused. */
Test(alloc_pages, the_last_fitting_run_is_found, .init = open_small, .fini = close_heap)
{
    enum { PAGES = 70 };
    size_t size = (PAGES - 1) * HG_PAGE_BYTES, n = 0;
    static struct hg_span *all[1000];
    while ((all[n] = large(size, HG_SPAN_REFS)) != NULL)
        n++;
    for (size_t i = 0; i < n; i++)
        if (i % 2 == 0 || i + 1 == n) /* the last touches what is left of the area */
            hg__set_mark(h, all[i]->start);
    cycle();
    cr_assert_null(large((PAGES + 20) * HG_PAGE_BYTES, HG_SPAN_REFS));
    for (size_t i = 1; i + 1 < n; i += 2)
        HG_CHECK(large(size, HG_SPAN_REFS) != NULL, "hole %zu was not found", i);
    hg__heap_verify(h);
}

static struct hg_span *large_pages(size_t pages)
{
    struct hg_span *s = large(pages * HG_PAGE_BYTES, HG_SPAN_REFS);
    HG_CHECK(s != NULL, "out of memory");
    return s;
}

/* Many runs that are a little too small hide one that fits: no more than a few are looked at as
 * long as there is other memory, but all before memory is said to be out. */
Test(alloc_pages, a_fitting_run_among_many_too_small_is_found, .init = open_small,
     .fini = close_heap)
{
    enum { TOO_SMALL = 40, PAGES = 70 };
    for (int i = 0; i < TOO_SMALL; i++) {
        large_pages(PAGES - 6);
        hg__set_mark(h, large_pages(5)->start); /* keeps its neighbours apart */
    }
    uintptr_t fits = large_pages(PAGES + 1)->start; /* the youngest is swept first */
    struct hg_span *s;
    while ((s = large(5 * HG_PAGE_BYTES, HG_SPAN_REFS)) != NULL)
        hg__set_mark(h, s->start);
    cycle();
    cr_assert_eq(large_pages(PAGES)->start, fits);
    cr_assert_null(large(PAGES * HG_PAGE_BYTES, HG_SPAN_REFS));
    hg__heap_verify(h);
}

Test(alloc_pages, absurd_sizes_are_refused_at_once, .init = open_big, .fini = close_heap)
{
    const size_t sizes[] = {SIZE_MAX,     SIZE_MAX - 8,    SIZE_MAX - HG_PAGE_BYTES + 1,
                            SIZE_MAX / 2, (size_t)1 << 45, h->size,
                            h->size + 1,  h->size - 1,     h->size - HG_PAGE_BYTES + 1};
    int64_t start = hg__os_now();
    for (size_t i = 0; i < HG_COUNT_OF(sizes); i++)
        for (int kind = 0; kind < HG_SPAN_KINDS; kind++)
            HG_CHECK(hg__large_alloc(h, sizes[i], (enum hg_span_kind)kind, 0, 1) == NULL,
                     "%zu bytes were given", sizes[i]);
    cr_assert_lt(hg__os_now() - start, 100000000);
    cr_assert_eq(hg_load_rlx(&h->mapped_bytes), 0);
    hg__heap_verify(h);
}

Test(alloc_pages, gigabytes_are_given_and_come_back, .init = open_big, .fini = close_heap)
{
    for (size_t gib = 1; gib <= 16; gib *= 4) {
        struct hg_span *s = large(gib * HG_GIB, HG_SPAN_LEAF);
        if (s == NULL)
            cr_skip_test("this machine commits less than %zu GiB", gib);
        cr_assert_eq(hg__find(h, s->start + gib * HG_GIB - 1).base, s->start);
        cr_assert_eq(hg_load_rlx(&h->mapped_bytes), (int64_t)(gib * HG_GIB));
        cycle();
        cr_assert_eq(hg_load_rlx(&h->span_bytes), 0);
        cr_assert_eq(hg__scavenge(h, SIZE_MAX), gib * HG_GIB);
        cr_assert_eq(hg_load_rlx(&h->mapped_bytes), 0);
    }
}

/* Sanitizers map terabytes for themselves. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static void open_under_limit(void *arg)
{
    struct rlimit limit = {*(size_t *)arg, *(size_t *)arg};
    HG_CHECK(setrlimit(RLIMIT_AS, &limit) == 0, "no limit");
    open_reserve(0);
    HG_CHECK(h->size < limit.rlim_cur && h->size >= 64 * HG_MIB, "reserved %zu", h->size);
    HG_CHECK(hg_is_pow2(h->size), "halved");
    void *room = hg__os_map(h->size / 8, HG_PAGE_BYTES);
    HG_CHECK(room != NULL, "nothing is left for others");
    HG_CHECK(test_alloc_slot(&c, test_class(64, HG_SPAN_REFS), false, test_gen(h), 0) != 0, "slot");
    close_heap();
}

Test(alloc_pages, the_reservation_fits_a_limit_on_address_space)
{
    for (size_t gib = 1; gib <= 200; gib = gib * 3 + 1) {
        size_t limit = gib * HG_GIB;
        struct test_child child;
        test_child_run(&child, 20, open_under_limit, &limit);
        cr_assert(child.exit_code == 0, "%zu GiB: %s", gib, child.text);
    }
}
#endif

/* ---- huge pages ---- */

static void fill_blocks(enum hg_span_kind kind, size_t bytes)
{
    for (size_t n = 0; n < bytes; n += 512) {
        uintptr_t p = test_alloc_slot(&c, test_class(512, kind), false, test_gen(h), 0);
        *(uintptr_t *)p = p;
        hg__set_mark(h, p);
    }
}

static void check_content(void *arg, uintptr_t p, const struct hg_span *s)
{
    (void)s;
    HG_CHECK(*(uintptr_t *)p == p, "an object changed");
    ++*(size_t *)arg;
}

Test(alloc_pages, collapsing_ends_and_changes_nothing)
{
    struct hg_heap_config config = {0, HG_HUGEPAGES_AUTO, false};
    t.meta = hg__meta_open();
    cr_assert_eq(hg__heap_open(&t.heap, t.meta, &config), 0);
    h = t.heap;
    hg__cache_init(&c, h);
    const size_t bytes = 16 * HG_MIB;
    fill_blocks(HG_SPAN_REFS, bytes / 2);
    fill_blocks(HG_SPAN_LEAF, bytes / 2);
    cr_assert_not(hg__collapse_step(h), "nothing is known to live before a sweep");
    cycle();
    int steps = 0, max = (int)(bytes / (2 * HG_MIB)), full = 0;
    for (size_t b = 0; b < h->size / (2 * HG_MIB); b++)
        full += hg__heap_has(h, h->base + b * 2 * HG_MIB) &&
                hg__heap_has(h, h->base + (b + 1) * 2 * HG_MIB - 1);
    for (int calls = 0; calls < 2 * full + 2; calls++)
        steps += hg__collapse_step(h);
    cr_assert_leq(steps, max, "%d blocks were collapsed, of %d full ones", steps, max);
    cr_assert_not(hg__collapse_step(h), "it goes on for ever");
    size_t n = 0;
    hg__heap_each(h, check_content, &n);
    cr_assert_eq(n, bytes / 512);
    cycle(); /* nothing lives: no block is full any more */
    cr_assert_not(hg__collapse_step(h));
    hg__heap_verify(h);
    close_heap();
}

Test(alloc_pages, never_means_no_collapsing, .init = open_big, .fini = close_heap)
{
    fill_blocks(HG_SPAN_REFS, 8 * HG_MIB);
    cycle();
    cr_assert_not(hg__collapse_step(h));
}

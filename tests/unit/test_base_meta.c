/* test_base_meta.c: the contract of meta.h. Built once for each backend. */
#include "base/bits.h"
#include "base/meta.h"
#include "base/os.h"
#include "base/rand.h"
#include "tests/support/test.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

TestSuite(meta, .timeout = 60);

Test(meta, the_backend_that_was_asked_for)
{
    cr_assert_str_eq(hg__meta_backend(), HEDGE_TEST_META);
}

Test(meta, every_size_is_zero_aligned_and_counted)
{
    struct hg_meta *a = hg__meta_open();
    cr_assert_not_null(a);
    cr_assert_eq(hg__meta_bytes(a), 0);
    for (size_t bytes = 1; bytes < 200000; bytes += bytes < 1200 ? 1 : bytes / 13) {
        unsigned char *p[3];
        for (int k = 0; k < 3; k++) {
            p[k] = hg__meta_alloc(a, bytes);
            cr_assert_not_null(p[k]);
            cr_assert_eq((uintptr_t)p[k] % (bytes >= 64 ? 64 : 16), 0, "%zu bytes at %p", bytes,
                         (void *)p[k]);
            for (size_t i = 0; i < bytes; i++)
                cr_assert_eq(p[k][i], 0, "byte %zu of %zu", i, bytes);
            memset(p[k], 0xee, bytes);
        }
        cr_assert_eq(hg__meta_bytes(a), 3 * bytes);
        for (int k = 0; k < 3; k++) /* freed dirty: the next round may get them again and must find
                                     * zero */
            hg__meta_free(a, p[k], bytes);
        cr_assert_eq(hg__meta_bytes(a), 0);
    }
    hg__meta_close(a);
}

Test(meta, zero_bytes_and_null)
{
    struct hg_meta *a = hg__meta_open();
    void *p = hg__meta_alloc(a, 0), *q = hg__meta_alloc(a, 0);
    cr_assert(p != NULL && q != NULL && p != q);
    hg__meta_free(a, p, 0);
    hg__meta_free(a, q, 0);
    hg__meta_free(a, NULL, 100);
    cr_assert_eq(hg__meta_bytes(a), 0);
    hg__meta_close(a);
}

Test(meta, absurd_sizes_give_null_and_harm_nothing)
{
    struct hg_meta *a = hg__meta_open();
    const size_t absurd[] = {SIZE_MAX, SIZE_MAX - 63, (size_t)PTRDIFF_MAX + 1, PTRDIFF_MAX,
                             (size_t)1 << 50};
    for (size_t i = 0; i < HG_COUNT_OF(absurd); i++)
        cr_assert_null(hg__meta_alloc(a, absurd[i]), "%zu", absurd[i]);
    cr_assert_eq(hg__meta_bytes(a), 0);
    cr_assert_not_null(hg__meta_alloc(a, 100));
    hg__meta_close(a);
}

/* A block of a random test: its bytes are all equal to `fill`. */
struct block {
    unsigned char *p;
    size_t bytes;
    unsigned char fill;
};

static void check_block(const struct block *b)
{
    for (size_t i = 0; i < b->bytes; i++)
        cr_assert_eq(b->p[i], b->fill, "byte %zu of %zu", i, b->bytes);
}

static size_t random_size(struct hg_rand *r)
{
    unsigned shift = hg_rand_below(r, 18);
    return 1 + hg_rand_below(r, 1u << shift);
}

Test(meta, random_blocks_never_overlap)
{
    enum { BLOCKS = 400 };
    static struct block blocks[BLOCKS];
    struct hg_rand r = {test_seed("meta random_blocks_never_overlap")};
    struct hg_meta *a = hg__meta_open();
    size_t live = 0;
    for (int round = 0; round < 20000; round++) {
        struct block *b = &blocks[hg_rand_below(&r, BLOCKS)];
        if (b->p != NULL) {
            check_block(b);
            hg__meta_free(a, b->p, b->bytes);
            live -= b->bytes;
            b->p = NULL;
        } else {
            *b = (struct block){.bytes = random_size(&r)};
            b->p = hg__meta_alloc(a, b->bytes);
            cr_assert_not_null(b->p);
            check_block(b);
            b->fill = (unsigned char)hg_rand_next(&r);
            memset(b->p, b->fill, b->bytes);
            live += b->bytes;
        }
        cr_assert_eq(hg__meta_bytes(a), live);
    }
    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i].p != NULL)
            check_block(&blocks[i]);
    hg__meta_close(a);
}

Test(meta, two_arenas_are_apart)
{
    struct hg_meta *a = hg__meta_open(), *b = hg__meta_open();
    unsigned char *p = hg__meta_alloc(b, 1000);
    memset(p, 0x77, 1000);
    for (int i = 0; i < 1000; i++)
        memset(hg__meta_alloc(a, 1000), 0x11, 1000);
    cr_assert_eq(hg__meta_bytes(a), 1000 * 1000);
    cr_assert_eq(hg__meta_bytes(b), 1000);
    hg__meta_close(a);
    for (int i = 0; i < 1000; i++)
        cr_assert_eq(p[i], 0x77);
    hg__meta_close(b);
}

/* Resident memory of the process, from /proc/self/statm. */
static size_t resident_bytes(void)
{
    unsigned long all = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    cr_assert_not_null(f);
    cr_assert_eq(fscanf(f, "%lu %lu", &all, &resident), 2);
    fclose(f);
    return resident * hg__os_page_size();
}

static void alloc_and_touch(struct hg_meta *a, int times, size_t bytes)
{
    for (int i = 0; i < times; i++) {
        void *p = hg__meta_alloc(a, bytes);
        cr_assert_not_null(p);
        memset(p, 1, bytes);
    }
}

Test(meta, closing_frees_everything)
{
    size_t before = 0;
    for (int round = 0; round < 12; round++) {
        struct hg_meta *a = hg__meta_open();
        alloc_and_touch(a, 2000, 3000);
        alloc_and_touch(a, 20, 500000);
        hg__meta_close(a);
        if (round == 1)
            before = resident_bytes();
    }
    /* 10 rounds of 16 MB would be far above it */
    cr_assert_lt(resident_bytes(), before + 8 * HG_MIB);
}

#if defined(__SANITIZE_ADDRESS__)
static void read_after_free(void *arg)
{
    struct hg_meta *a = arg;
    volatile char *p = hg__meta_alloc(a, 200);
    hg__meta_free(a, (void *)p, 200);
    (void)p[100];
}

Test(meta, a_use_after_free_is_reported)
{
    static struct test_child c;
    struct hg_meta *a = hg__meta_open();
    test_child_run(&c, 30, read_after_free, a);
    cr_assert(c.exit_code != 0 && strstr(c.text, "use-after-poison") != NULL, "%s", c.text);
    hg__meta_close(a);
}
#endif

struct worker {
    struct hg_meta *meta;
    uint64_t seed, bad;
};

static void *churn(void *arg)
{
    enum { BLOCKS = 64 };
    struct worker *w = arg;
    struct hg_rand r = {w->seed};
    struct block blocks[BLOCKS] = {0};
    for (int round = 0; round < 20000; round++) {
        struct block *b = &blocks[hg_rand_below(&r, BLOCKS)];
        if (b->p != NULL) {
            w->bad += b->p[0] != b->fill || b->p[b->bytes - 1] != b->fill;
            hg__meta_free(w->meta, b->p, b->bytes);
            b->p = NULL;
            continue;
        }
        b->bytes = random_size(&r) / 8 + 1;
        b->p = hg__meta_alloc(w->meta, b->bytes);
        w->bad += b->p[0] != 0 || b->p[b->bytes - 1] != 0;
        b->fill = (unsigned char)hg_rand_next(&r);
        memset(b->p, b->fill, b->bytes);
    }
    for (int i = 0; i < BLOCKS; i++)
        hg__meta_free(w->meta, blocks[i].p, blocks[i].bytes);
    return NULL;
}

Test(meta, many_threads)
{
    enum { THREADS = 4 };
    static struct worker workers[THREADS];
    pthread_t threads[THREADS];
    uint64_t seed = test_seed("meta many_threads");
    struct hg_meta *a = hg__meta_open();
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){a, seed + (uint64_t)i, 0};
        cr_assert_eq(hg__os_thread(&threads[i], "churn", 0, churn, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        hg__os_thread_join(threads[i]);
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(workers[i].bad, 0);
    cr_assert_eq(hg__meta_bytes(a), 0);
    hg__meta_close(a);
}

/* test_base_histogram.c: the bounds of <hedge/histogram.h>, and the small pure headers of base:
 * bits, list, rand. */
#include "base/bits.h"
#include "base/list.h"
#include "base/rand.h"
#include "tests/support/test.h"

#include <criterion/criterion.h>
#include <hedge/histogram.h>
#include <stdlib.h>

TestSuite(histogram, .timeout = 60);

/* Any size of number, each power of two as likely. */
static int64_t random_value(struct hg_rand *r)
{
    return (int64_t)(hg_rand_next(r) >> (1 + hg_rand_below(r, 63)));
}

/* A bucket's value is never below a value of it and less than 1 % above. */
static void check_value(int64_t v)
{
    unsigned b = hg_histogram_bucket(v);
    cr_assert_lt(b, HG_HISTOGRAM_BUCKETS, "%lld", (long long)v);
    int64_t high = hg_histogram_bucket_high(b);
    cr_assert_geq(high, v);
    cr_assert((double)(high - v) < 0.01 * (double)v || high == v, "%lld stands for %lld",
              (long long)high, (long long)v);
    cr_assert_eq(hg_histogram_bucket(high), b);
    if (b > 0)
        cr_assert_lt(hg_histogram_bucket_high(b - 1), v);
}

Test(histogram, buckets_cover_all_values_without_gaps)
{
    int64_t before = -1;
    for (unsigned b = 0; b < HG_HISTOGRAM_BUCKETS; b++) {
        int64_t high = hg_histogram_bucket_high(b);
        cr_assert_gt(high, before, "bucket %u", b);
        cr_assert_eq(hg_histogram_bucket(high), b);
        cr_assert_eq(hg_histogram_bucket(before + 1), b, "the first value of bucket %u", b);
        before = high;
    }
    cr_assert_eq(before, INT64_MAX);
}

Test(histogram, relative_error_below_one_per_cent)
{
    struct hg_rand r = {test_seed("histogram relative_error")};
    for (int64_t v = 0; v < 70000; v++)
        check_value(v);
    for (int i = 0; i < 1000000; i++)
        check_value(random_value(&r));
    check_value(INT64_MAX);
    cr_assert_eq(hg_histogram_bucket(-5), 0);
    cr_assert_eq(hg_histogram_bucket(INT64_MIN), 0);
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

Test(histogram, quantiles_agree_with_sorting)
{
    enum { VALUES = 20000 };
    static int64_t values[VALUES];
    static hg_histogram h;
    struct hg_rand r = {test_seed("histogram quantiles")};
    hg_histogram_reset(&h);
    cr_assert_eq(hg_histogram_quantile(&h, 0.5), 0);
    for (int i = 0; i < VALUES; i++) {
        values[i] = random_value(&r);
        hg_histogram_add(&h, values[i]);
    }
    qsort(values, VALUES, sizeof *values, by_value);
    static const double shares[] = {0, 0.001, 0.25, 0.5, 0.9, 0.99, 0.999, 0.9999, 1};
    for (size_t i = 0; i < HG_COUNT_OF(shares); i++) {
        double rank = shares[i] * VALUES;
        size_t at = (size_t)rank + ((double)(size_t)rank < rank);
        int64_t exact = values[at > 0 ? at - 1 : 0], got = hg_histogram_quantile(&h, shares[i]);
        cr_assert(got >= exact && (double)(got - exact) <= 0.01 * (double)exact,
                  "q %f: %lld for %lld", shares[i], (long long)got, (long long)exact);
    }
    /* never above the largest value */
    cr_assert_eq(hg_histogram_quantile(&h, 1), values[VALUES - 1]);
}

Test(histogram, merging_is_adding)
{
    static hg_histogram a, b, both;
    struct hg_rand r = {test_seed("histogram merging")};
    for (int i = 0; i < 10000; i++) {
        int64_t v = random_value(&r);
        hg_histogram_add(i % 3 == 0 ? &a : &b, v);
        hg_histogram_add(&both, v);
    }
    hg_histogram_merge(&a, &b);
    cr_assert_arr_eq(&a, &both, sizeof a);
}

/* ---- bits, list, rand ---- */

TestSuite(base, .timeout = 60);

Test(base, bits)
{
    for (unsigned i = 0; i < 64; i++) {
        uint64_t v = UINT64_C(1) << i;
        cr_assert_eq(hg_ctz64(v), i);
        cr_assert_eq(hg_log2(v), i);
        cr_assert_eq(hg_log2(v | (v - 1)), i);
        cr_assert_eq(hg_popcount64(v - 1), i);
        cr_assert(hg_is_pow2(v));
        cr_assert_eq(hg_is_pow2(v + 1), i == 0);
    }
    cr_assert_not(hg_is_pow2(0));
    cr_assert_eq(hg_round_up(0, 16), 0);
    cr_assert_eq(hg_round_up(1, 16), 16);
    cr_assert_eq(hg_round_up(16, 16), 16);
    cr_assert_eq(hg_round_down(31, 16), 16);
}

struct item {
    int id;
    struct hg_list link;
};

Test(base, list)
{
    struct hg_list head;
    struct item items[4];
    hg_list_init(&head);
    cr_assert(hg_list_empty(&head));
    cr_assert_null(hg_list_pop_front(&head));
    for (int i = 0; i < 4; i++) {
        items[i].id = i;
        if (i % 2 == 0)
            hg_list_push_back(&head, &items[i].link);
        else
            hg_list_push_front(&head, &items[i].link);
    }
    hg_list_remove(&items[0].link);
    hg_list_remove(&items[0].link); /* twice is harmless */
    static const int order[] = {3, 1, 2};
    for (int i = 0; i < 3; i++) {
        struct hg_list *n = hg_list_pop_front(&head);
        cr_assert_not_null(n);
        cr_assert_eq(hg_container_of(n, struct item, link)->id, order[i]);
    }
    cr_assert(hg_list_empty(&head));
}

Test(base, rand_repeats_and_stays_below)
{
    struct hg_rand a = {42}, b = {42};
    unsigned seen = 0;
    for (int i = 0; i < 1000; i++) {
        uint32_t v = hg_rand_below(&a, 7);
        cr_assert_lt(v, 7);
        cr_assert_eq(v, hg_rand_below(&b, 7));
        seen |= 1u << v;
    }
    cr_assert_eq(seen, 0x7f);
    cr_assert_eq(hg_rand_below(&a, 1), 0);
}

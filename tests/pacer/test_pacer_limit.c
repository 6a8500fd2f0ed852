/* test_pacer_limit.c: the limiter holds GC at half of CPU time. */
#include <criterion/criterion.h>

#include "pacer/pacer.h"
#include "tests/pacer/seed.h"

#define MS INT64_C(1000000)

static struct hg_pacer pacer(int procs)
{
    struct hg_pacer_config c = {.gc_percent = 100, .memory_limit = 0};
    struct hg_pacer_cycle m = {.procs = procs};
    struct hg_pacer_memory mem = {0};
    struct hg_pacer p;

    hg__pacer_init(&p, &c);
    hg__pacer_cycle_end(&p, &m, &mem);
    return p;
}

Test(pacer_limiter, ordinary_gc_is_left_alone)
{
    struct hg_pacer p = pacer(4);

    for (int i = 0; i < 10000; i++)
        cr_assert_not(hg__pacer_limiter_update(&p, 4 * 10 * MS, 18 * MS), "45 %% for ever");
    for (int i = 0; i < 15; i++)
        cr_assert_not(hg__pacer_limiter_update(&p, 4 * 10 * MS, 40 * MS), "a burst of 150 ms");
    cr_expect_eq(p.limiter.limited_ns, 0);
}

Test(pacer_limiter, gc_that_takes_all_it_may_gets_half)
{
    struct hg_rand r = test_rand("gc_that_takes_all_it_may_gets_half");

    for (int procs = 1; procs <= 64; procs *= 2) {
        struct hg_pacer p = pacer(procs);
        int64_t all = 0, gc = 0, wall = 0, limited = 0;
        bool held = false;

        while (wall < 5000 * MS) {
            int64_t window = MS + hg_rand_below(&r, 20) * MS;
            int64_t used = held ? 0 : window * procs;

            limited += held ? window : 0;
            held = hg__pacer_limiter_update(&p, window * procs, used);
            all += window * procs;
            gc += used;
            wall += window;
        }
        cr_expect_leq(gc * 100, all * 50, "at most half over 5 s: %lld of %lld", (long long)gc,
                      (long long)all);
        cr_expect_geq(gc * 100, all * 40, "and not much less: %lld of %lld", (long long)gc,
                      (long long)all);
        cr_expect_eq(p.limiter.limited_ns, limited);
    }
}

/* Three procs to a CPU: the bucket is sized for what there is. */
Test(pacer_limiter, procs_that_share_cpus)
{
    struct hg_pacer p = pacer(6), q = pacer(2);
    struct hg_pacer_config c = p.config;
    struct hg_pacer_cycle m = {.procs = 6};
    struct hg_pacer_memory mem = {0};

    c.cpus = 2;
    hg__pacer_configure(&p, &c);
    hg__pacer_cycle_end(&p, &m, &mem);
    for (int i = 0; i < 100; i++) {
        int64_t gc = i % 40 < 30 ? 20 * MS : 0;

        cr_assert_eq(hg__pacer_limiter_update(&p, 20 * MS, gc),
                     hg__pacer_limiter_update(&q, 20 * MS, gc), "window %d", i);
    }
    cr_expect_gt(q.limiter.limited_ns, 0);
    cr_expect_eq(p.limiter.limited_ns, q.limiter.limited_ns);
}

Test(pacer_limiter, lets_go_when_gc_does)
{
    struct hg_pacer p = pacer(2);
    int windows = 0;

    while (!hg__pacer_limiter_update(&p, 20 * MS, 20 * MS))
        windows++;
    cr_expect(windows >= 10 && windows <= 30, "after %d windows of 10 ms", windows);
    windows = 0;
    while (hg__pacer_limiter_update(&p, 20 * MS, 0))
        windows++;
    cr_expect(windows >= 2 && windows <= 10, "after %d windows of 10 ms", windows);
}

Test(pacer_limiter, a_long_window_is_not_forgiven)
{
    struct hg_pacer p = pacer(1);
    int windows = 0;

    cr_expect(hg__pacer_limiter_update(&p, 500 * MS, 500 * MS));
    while (hg__pacer_limiter_update(&p, 10 * MS, 0))
        windows++;
    cr_expect(windows >= 35 && windows <= 65, "after %d windows of 10 ms", windows);
}

Test(pacer_limiter, wild_windows)
{
    struct hg_rand r = test_rand("wild_windows");
    struct hg_pacer p = pacer(INT32_MAX);

    for (int i = 0; i < 100000; i++) {
        int64_t before = p.limiter.limited_ns;

        hg__pacer_limiter_update(&p, test_wild(&r, 50), test_wild(&r, 50));
        cr_assert(p.limiter.fill_ns >= 0 && p.limiter.fill_ns <= 10 * p.limiter.capacity_ns);
        cr_assert_geq(p.limiter.limited_ns, before);
    }
}

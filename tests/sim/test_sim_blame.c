/* test_sim_blame.c: which requests are kept as slow, and how their time is taken apart. */
#include "sim/kv_blame.h"
#include "sim/rng.h"
#include "tests/support/test.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct kv_slow request(int64_t intended, int64_t latency)
{
    struct kv_slow s;
    memset(&s, 0, sizeof s);
    s.intended = s.issued = intended;
    s.end = intended + latency;
    return s;
}

static int falling(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

/* The heap keeps exactly the slowest, whatever their order, and its threshold never lets one of
 * them by. */
Test(sim_blame, keeps_the_slowest)
{
    enum { N = 5000, ROOM = 64 };
    static int64_t all[N];
    struct sim_rng rng = {test_seed("sim_blame/keeps_the_slowest")};
    struct kv_slowest slowest;
    kv_slowest_init(&slowest, ROOM);
    for (int i = 0; i < N; i++) {
        all[i] = (int64_t)sim_rng_below(&rng, 1000000) * N + i; /* no two alike */
        struct kv_slow s = request(1000, all[i]);
        if (kv_slowest_wants(&slowest, all[i]))
            kv_slowest_add(&slowest, &s);
    }
    qsort(all, N, sizeof *all, falling);
    cr_assert_eq(slowest.n, ROOM);
    const struct kv_slowest *shard[] = {&slowest};
    struct kv_table t = {0};
    kv_blame_slowest(shard, 1, ROOM, NULL, 0, 0, &t);
    cr_assert_eq(t.rows, ROOM);
    for (size_t i = 0; i < ROOM; i++)
        cr_assert_eq((int64_t)t.cell[i * t.columns + 4], all[i], "rank %zu", i);
    cr_assert_not(kv_slowest_wants(&slowest, all[ROOM - 1]));
    cr_assert(kv_slowest_wants(&slowest, all[ROOM - 1] + 1));
    kv_table_free(&t);
    kv_slowest_free(&slowest);
}

static double sum(const double part[KV_PARTS])
{
    double s = 0;
    for (int i = 0; i < KV_PARTS; i++) {
        cr_assert_geq(part[i], 0);
        s += part[i];
    }
    return s;
}

Test(sim_blame, split)
{
    struct kv_slow s = request(1000, 1000);
    double part[KV_PARTS];
    s.free_at = 500;
    s.issued = 1200; /* 200 late: 120 in a run queue, 50 of it marking */
    s.waiting = (hg_task_times){.runq_ns = 120, .mark_ns = 50};
    s.client = (hg_task_times){.runq_ns = 100, .mark_ns = 30, .slice_ns = 20, .hold_ns = 5};
    s.server = (hg_task_times){.runq_ns = 200, .assist_ns = 40, .sweep_ns = 10};
    s.lock_ns = 15;
    kv_blame_split(&s, part);
    cr_assert_eq(part[KV_PART_MARK], 50 + 30 + 20);
    cr_assert_eq(part[KV_PART_LOCK], 15);
    cr_assert_eq(part[KV_PART_RUNQ], 70 + 70 + 200);
    cr_assert_eq(part[KV_PART_TIMER], 80);
    cr_assert_eq(part[KV_PART_ASSIST], 40);
    cr_assert_eq(part[KV_PART_SWEEP], 10);
    cr_assert_eq(part[KV_PART_HOLD], 5);
    cr_assert_eq(part[KV_PART_WORK], 800 - 390);
    cr_assert_eq(sum(part), 1000);
}

/* What a task did before the request's turn (a slice on its way to sleep) is not the request's. */
Test(sim_blame, what_does_not_fit_is_cut)
{
    struct kv_slow s = request(1000, 100);
    double part[KV_PARTS];
    s.issued = 1010;
    s.waiting = (hg_task_times){.slice_ns = 90000, .hold_ns = 4};
    s.client = (hg_task_times){.runq_ns = 300};
    s.server = (hg_task_times){.slice_ns = 100};
    kv_blame_split(&s, part);
    cr_assert_eq(part[KV_PART_HOLD], 4);
    cr_assert_float_eq(part[KV_PART_MARK], 6 + 90 * 0.25, 1e-9);
    cr_assert_float_eq(part[KV_PART_RUNQ], 90 * 0.75, 1e-9);
    cr_assert_eq(part[KV_PART_TIMER] + part[KV_PART_WORK], 0);
    cr_assert_float_eq(sum(part), 100, 1e-9);
}

/* A request behind another one shares in what delayed that one. */
Test(sim_blame, behind_an_earlier_one)
{
    struct kv_busy busy = {0, {0}};
    struct kv_slow first = request(1000, 1000), second = request(1100, 1000);
    double part[KV_PARTS];
    first.server.assist_ns = 750;
    kv_busy_add(&busy, &first, second.earlier);
    second.free_at = second.issued = first.end;
    kv_blame_split(&second, part);
    cr_assert_float_eq(part[KV_PART_ASSIST], 900 * 0.75, 1e-3);
    cr_assert_float_eq(part[KV_PART_WORK], 900 * 0.25 + 100, 1e-3);
    cr_assert_float_eq(sum(part), 1000, 1e-3);
    memset(second.earlier, 0, sizeof second.earlier);
    kv_blame_split(&second, part);
    cr_assert_float_eq(sum(part), 1000, 1e-3, "also when nothing is known of the earlier one");
}

/* Whatever the counters say, the parts are not negative and sum up to the latency. */
Test(sim_blame, parts_sum_up)
{
    struct sim_rng rng = {test_seed("sim_blame/parts_sum_up")};
    for (int t = 0; t < 20000; t++) {
        struct kv_slow s = request(1000000, 1 + sim_rng_below(&rng, 1000000));
        double part[KV_PARTS];
        uint32_t latency = (uint32_t)(s.end - s.intended);
        s.issued = s.intended + sim_rng_below(&rng, latency);
        s.free_at = s.issued - sim_rng_below(&rng, 1000000);
        hg_task_times *times[] = {&s.waiting, &s.client, &s.server};
        for (int i = 0; i < 3; i++) {
            times[i]->runq_ns = sim_rng_below(&rng, latency);
            times[i]->mark_ns = sim_rng_below(&rng, latency / 2 + 1);
            times[i]->slice_ns = sim_rng_below(&rng, 2) ? 0 : sim_rng_below(&rng, latency);
            times[i]->assist_ns = sim_rng_below(&rng, 3) ? 0 : sim_rng_below(&rng, latency);
        }
        for (int i = 0; i < KV_PARTS && t % 2; i++)
            s.earlier[i] = (float)sim_rng_below(&rng, 100) / 100;
        kv_blame_split(&s, part);
        cr_assert_float_eq(sum(part), latency, 1e-6 * latency + 1e-6);
    }
}

Test(sim_blame, inside_and_outside)
{
    hg_cycle cycles[2];
    memset(cycles, 0, sizeof cycles);
    cycles[0] = (hg_cycle){.number = 7, .start_ns = 1000, .end_ns = 2000};
    cycles[1] = (hg_cycle){.number = 8, .start_ns = 5000, .end_ns = 6000};
    cr_assert_eq(kv_blame_cycle(cycles, 2, 2001, 4999), 0);
    cr_assert_eq(kv_blame_cycle(cycles, 2, 0, 1000), 7, "touching counts");
    cr_assert_eq(kv_blame_cycle(cycles, 2, 5500, 5600), 8);
    cr_assert_eq(kv_blame_cycle(cycles, 2, 2001, 9000), 8, "one within it");
    struct kv_slowest a, b;
    kv_slowest_init(&a, 8);
    kv_slowest_init(&b, 8);
    struct kv_slow in = request(1500, 3000), out = request(2500, 300), quick = request(1500, 10);
    kv_slowest_add(&a, &in);
    kv_slowest_add(&a, &quick);
    kv_slowest_add(&b, &out);
    const struct kv_slowest *shard[] = {&a, &b};
    struct kv_blame blame[2];
    kv_blame_sum(shard, 2, 300, cycles, 2, blame);
    cr_assert_eq(blame[0].requests, 1);
    cr_assert_eq(blame[0].ns[KV_PART_WORK], 300);
    cr_assert_eq(blame[1].requests, 1, "the quick one does not count");
    cr_assert_eq(blame[1].ns[KV_PART_WORK], 3000);
    kv_slowest_free(&a);
    kv_slowest_free(&b);
}

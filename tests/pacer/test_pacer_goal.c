/* test_pacer_goal.c: goal, trigger and hard limit: the equations on chosen numbers, the invariants
 * P1 and P2 over the whole range of inputs.
 */
#include <criterion/criterion.h>
#include <math.h>

#include "pacer/pacer.h"
#include "tests/pacer/seed.h"

#define KIB (INT64_C(1) << 10)
#define MIB (INT64_C(1) << 20)
#define GIB (INT64_C(1) << 30)

static struct hg_pacer_config config(int gc_percent, int64_t limit)
{
    return (struct hg_pacer_config){.gc_percent = gc_percent,
                                    .memory_limit = limit,
                                    .policy = {.kind = HG_POLICY_MAX, .param = {5}}};
}

/* A cycle that scanned and kept `live` bytes; the mutators allocated c * 1/1 of what GC scanned. */
static struct hg_pacer_cycle cycle(int64_t live, double c)
{
    return (struct hg_pacer_cycle){.heap_at_start = live,
                                   .heap_at_end = live,
                                   .marked = live,
                                   .scanned_heap = live,
                                   .alloc_bytes = (int64_t)((double)live * c),
                                   .background_ns = 50000000,
                                   .mutator_ns = 50000000,
                                   .mark_wall_ns = 100000000,
                                   .cycle_wall_ns = 100000000,
                                   .procs = 1};
}

static struct hg_pacer after(struct hg_pacer_config c, struct hg_pacer_cycle m,
                             struct hg_pacer_memory mem)
{
    struct hg_pacer p;

    hg__pacer_init(&p, &c);
    hg__pacer_cycle_end(&p, &m, &mem);
    return p;
}

static const struct hg_pacer_memory no_memory;

Test(pacer_goal, by_percent)
{
    struct hg_pacer_cycle m = cycle(100 * MIB, 0.1);

    cr_expect_eq(after(config(100, INT64_MAX), m, no_memory).plan.goal, 200 * MIB);
    cr_expect_eq(after(config(300, INT64_MAX), m, no_memory).plan.goal, 400 * MIB);
    m.stack_bytes = 30 * MIB;
    m.root_bytes = 10 * MIB;
    cr_expect_eq(after(config(50, INT64_MAX), m, no_memory).plan.goal, 170 * MIB);
}

Test(pacer_goal, minimum_heap_scales_with_percent)
{
    struct hg_pacer_cycle m = cycle(100 * KIB, 0.1);
    struct hg_pacer_config c = config(100, INT64_MAX);

    cr_expect_eq(after(c, m, no_memory).plan.goal, 4 * MIB);
    cr_expect_eq(after(config(400, INT64_MAX), m, no_memory).plan.goal, 16 * MIB);
    c.min_heap = 64 * MIB;
    cr_expect_eq(after(c, m, no_memory).plan.goal, 64 * MIB);
}

Test(pacer_goal, off_means_no_goal_unless_there_is_a_limit)
{
    struct hg_pacer_cycle m = cycle(100 * MIB, 0.1);
    struct hg_pacer p = after(config(-1, INT64_MAX), m, no_memory);

    cr_expect_eq(p.plan.goal, HG_PACER_NO_GOAL);
    cr_expect_eq(p.plan.trigger, HG_PACER_NO_GOAL);
    cr_expect_eq(p.plan.hard, HG_PACER_NO_GOAL);
    cr_expect_not(p.plan.limited);
    p = after(config(-1, GIB), m, (struct hg_pacer_memory){.mapped = 0, .overhead = 24 * MIB});
    cr_expect(p.plan.limited);
    cr_expect_eq(p.plan.goal, GIB - 24 * MIB - 32 * MIB, "limit less overhead less headroom");
}

Test(pacer_goal, limit_lowers_the_goal_and_pages_above_it_lower_it_further)
{
    struct hg_pacer_cycle m = cycle(600 * MIB, 0.1);
    struct hg_pacer_memory mem = {.mapped = 900 * MIB, .overhead = 24 * MIB};
    struct hg_pacer p = after(config(100, GIB), m, mem);
    int64_t goal = GIB - 24 * MIB - 32 * MIB;

    cr_expect(p.plan.limited);
    cr_expect_eq(p.plan.goal, goal);
    cr_expect_leq(p.plan.hard + mem.overhead, GIB, "tasks wait before the limit is passed");
    cr_expect_gt(p.plan.hard, p.plan.goal);
    mem.mapped = 1100 * MIB; /* 100 MiB over, with the overhead */
    hg__pacer_plan(&p, &mem);
    cr_expect_eq(p.plan.goal, goal - 100 * MIB);
    cr_expect_not(after(config(50, GIB), m, no_memory).plan.limited);
}

Test(pacer_goal, limit_below_the_live_heap_keeps_cycles_apart)
{
    static const int64_t limits[] = {0, 1, 64 * KIB, 20 * MIB, 500 * MIB};

    for (unsigned i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        struct hg_pacer p = after(config(100, limits[i]), cycle(600 * MIB, 4),
                                  (struct hg_pacer_memory){.mapped = 800 * MIB, .overhead = MIB});

        cr_expect(p.plan.limited);
        cr_expect_geq(p.plan.trigger - 600 * MIB, 512 * KIB, "limit %lld", (long long)limits[i]);
        cr_expect_geq(p.plan.goal, p.plan.trigger);
        cr_expect_gt(p.plan.hard, p.plan.goal);
    }
}

Test(pacer_goal, percent_zero_keeps_cycles_apart)
{
    struct hg_pacer p = after(config(0, INT64_MAX), cycle(GIB, 2), no_memory);

    cr_expect_eq(p.plan.goal, GIB + MIB);
    cr_expect_geq(p.plan.trigger, GIB + 512 * KIB);
}

Test(pacer_goal, hard_limit)
{
    struct hg_pacer p = after(config(100, INT64_MAX), cycle(100 * MIB, 0.1), no_memory);

    cr_expect_eq(p.plan.hard, 264 * MIB, "64 MiB above a small goal");
    p = after(config(100, INT64_MAX), cycle(10 * GIB, 0.1), no_memory);
    cr_expect_eq(p.plan.hard, 22 * GIB, "a tenth above a large goal");
}

Test(pacer_trigger, runway)
{
    struct hg_pacer p = after(config(100, INT64_MAX), cycle(100 * MIB, 0.08), no_memory);

    cr_expect_float_eq(p.plan.cons_mark, 0.08, 1e-6);
    cr_expect_float_eq((double)p.plan.runway, 0.08 * 100 * MIB * 3, 64.0);
    cr_expect_eq(p.plan.trigger, 200 * MIB - p.plan.runway);
}

Test(pacer_trigger, quiet_time_is_allocated_through)
{
    struct hg_pacer_cycle m = cycle(100 * MIB, 0.08);
    struct hg_pacer_config c = config(100, INT64_MAX);
    struct hg_pacer p;
    double rate = (double)m.alloc_bytes / (double)m.cycle_wall_ns;
    double runway = 0.08 * 100 * MIB * 3;

    m.quiet_ns = 3000000;
    hg__pacer_init(&p, &c);
    hg__pacer_cycle_end(&p, &m, &no_memory);
    cr_expect_float_eq((double)p.plan.runway, runway + rate * 3e6, 64.0);
    m.quiet_ns = 0; /* the longest of the last five counts, then it is gone */
    for (int i = 0; i < 4; i++) {
        hg__pacer_cycle_end(&p, &m, &no_memory);
        cr_expect_float_eq((double)p.plan.runway, runway + rate * 3e6, 64.0, "cycle %d", i);
    }
    hg__pacer_cycle_end(&p, &m, &no_memory);
    cr_expect_float_eq((double)p.plan.runway, runway, 64.0);
}

Test(pacer_trigger, bounds)
{
    struct hg_pacer_config c = config(100, INT64_MAX);
    struct hg_pacer p;

    hg__pacer_init(&p, &c);
    cr_expect_eq(p.plan.goal, 4 * MIB);
    cr_expect_eq(p.plan.runway, (int64_t)(0.3 * 4 * MIB), "no measurement yet");
    p = after(c, cycle(100 * MIB, 0), no_memory);
    cr_expect_eq(p.plan.trigger, 195 * MIB, "never later than a twentieth before the goal");
    p = after(c, cycle(160 * MIB, 0.25), no_memory);
    cr_expect_eq(p.plan.trigger, 200 * MIB, "a measured runway of 0.75 D is given");
    p = after(c, cycle(160 * MIB, 50), no_memory);
    cr_expect_eq(p.plan.trigger, 180 * MIB, "an eighth of D is always left");
}

Test(pacer_trigger, one_outlier_does_not_hold_the_trigger_down)
{
    struct hg_pacer_config c = config(100, INT64_MAX);
    struct hg_pacer_cycle usual = cycle(100 * MIB, 0.05), outlier = cycle(100 * MIB, 2);
    struct hg_pacer p;

    hg__pacer_init(&p, &c);
    for (int i = 0; i < 5; i++)
        hg__pacer_cycle_end(&p, &usual, &no_memory);
    hg__pacer_cycle_end(&p, &outlier, &no_memory);
    cr_expect_leq(p.plan.trigger, 120 * MIB, "it may be a step: the next cycle believes it");
    hg__pacer_cycle_end(&p, &usual, &no_memory);
    cr_expect_float_eq(p.plan.cons_mark, 2, 1e-3, "the policy still has it");
    cr_expect_eq(p.plan.trigger, 170 * MIB, "but nothing else backs it");
}

/* A random configuration and cycle, anything a caller could pass, sane or not. */
static struct hg_pacer_config random_config(struct hg_rand *r)
{
    static const int64_t limits[] = {0, 1, 100000, INT64_MAX, INT64_MAX - 1, -5};
    struct hg_pacer_config c = config(-1, INT64_MAX);

    if (hg_rand_below(r, 8) > 0)
        c.gc_percent = (int)hg_rand_below(r, hg_rand_below(r, 2) ? 10001 : 200);
    if (hg_rand_below(r, 50) == 0)
        c.gc_percent = hg_rand_below(r, 2) ? INT32_MAX : INT32_MIN;
    if (hg_rand_below(r, 2))
        c.memory_limit = hg_rand_below(r, 3) ? test_count(r, 42) : limits[hg_rand_below(r, 6)];
    if (hg_rand_below(r, 4) == 0)
        c.min_heap = test_wild(r, 36);
    c.policy.kind = (enum hg_policy_kind)hg_rand_below(r, HG_POLICY_KINDS);
    for (int i = 0; i < HG_POLICY_PARAMS; i++)
        c.policy.param[i] = hg_rand_below(r, 8) ? 40 * test_uniform(r) : (double)NAN;
    c.study =
        (struct hg_pacer_study){hg_rand_below(r, 2), hg_rand_below(r, 2), hg_rand_below(r, 2)};
    return c;
}

static struct hg_pacer_cycle random_cycle(struct hg_rand *r)
{
    struct hg_pacer_cycle m = {
        .heap_at_start = test_wild(r, 40),
        .heap_at_end = test_wild(r, 40),
        .marked = test_count(r, 41),
        .scanned_heap = test_wild(r, 40),
        .scanned_stack = test_wild(r, 36),
        .scanned_roots = test_wild(r, 30),
        .stack_bytes = test_wild(r, 36),
        .root_bytes = test_wild(r, 30),
        .alloc_bytes = test_wild(r, 40),
        .assist_ns = test_wild(r, 40),
        .background_ns = test_wild(r, 40),
        .idle_ns = test_wild(r, 40),
        .mark_wall_ns = test_wild(r, 40),
        .cycle_wall_ns = test_wild(r, 40),
        .quiet_ns = test_wild(r, 36),
        .mutator_ns = test_wild(r, 40),
        .procs = (int)hg_rand_below(r, 260) - 2,
    };

    return m;
}

static void expect_plan(const struct hg_pacer *p)
{
    const struct hg_pacer_plan *plan = &p->plan;
    int64_t live = p->last.marked;

    cr_assert(isfinite(plan->cons_mark) && plan->cons_mark >= 0, "%g", plan->cons_mark);
    cr_assert(isfinite(plan->measured) && plan->measured >= 0, "%g", plan->measured);
    cr_assert(plan->u > 0 && plan->u <= HG_PACER_U);
    cr_assert_geq(plan->work, 0);
    cr_assert_geq(plan->runway, 0);
    cr_assert_leq(live, plan->trigger);
    cr_assert_leq(plan->trigger, plan->goal);
    cr_assert_leq(plan->goal, plan->hard);
    if (plan->goal == HG_PACER_NO_GOAL) {
        cr_assert_eq(plan->trigger, HG_PACER_NO_GOAL);
        return;
    }
    cr_assert_lt(plan->hard, HG_PACER_NO_GOAL);
    cr_assert_geq(plan->trigger - live, 512 * KIB, "cycles are apart");
    cr_assert_geq(plan->goal - plan->trigger, 64 * KIB);
    cr_assert_gt(plan->hard, plan->goal);
}

Test(pacer_property, p1_order_and_range)
{
    struct hg_rand r = test_rand("p1_order_and_range");

    for (int i = 0; i < 20000; i++) {
        struct hg_pacer_config c = random_config(&r);
        struct hg_pacer p;

        hg__pacer_init(&p, &c);
        expect_plan(&p);
        for (int k = 0; k < 8; k++) {
            struct hg_pacer_cycle m = random_cycle(&r);
            struct hg_pacer_memory mem = {test_wild(&r, 42), test_wild(&r, 38)};

            hg__pacer_cycle_end(&p, &m, &mem);
            expect_plan(&p);
            if (k == 4) {
                c = random_config(&r);
                hg__pacer_configure(&p, &c);
                hg__pacer_plan(&p, &mem);
                expect_plan(&p);
            }
        }
    }
}

Test(pacer_property, p2_goal_is_monotone)
{
    struct hg_rand r = test_rand("p2_goal_is_monotone");

    for (int i = 0; i < 20000; i++) {
        struct hg_pacer_config c = random_config(&r), more = c;
        struct hg_pacer_cycle m = random_cycle(&r), larger = m;
        struct hg_pacer_memory mem = {test_wild(&r, 42), test_wild(&r, 38)};
        int64_t goal = after(c, m, mem).plan.goal;

        larger.marked += test_count(&r, 40);
        cr_assert_leq(goal, after(c, larger, mem).plan.goal, "in the live heap");
        more.gc_percent = -1;
        if (c.gc_percent >= 0 && c.gc_percent < INT32_MAX - 10000 && hg_rand_below(&r, 4))
            more.gc_percent = c.gc_percent + (int)hg_rand_below(&r, 10000);
        cr_assert_leq(goal, after(more, m, mem).plan.goal, "in gc_percent");
    }
}

/* As long as there is room above the live heap, the limit covers the hard limit too. */
Test(pacer_property, heap_and_overhead_stay_below_the_limit)
{
    struct hg_rand r = test_rand("heap_and_overhead_stay_below_the_limit");

    for (int i = 0; i < 20000; i++) {
        int64_t limit = 64 * MIB + test_count(&r, 40);
        struct hg_pacer_memory mem = {.overhead = test_count(&r, 40) % (limit / 4 + 1)};
        struct hg_pacer_cycle m = random_cycle(&r);
        struct hg_pacer p;

        m.marked %= limit / 2;
        mem.mapped = m.marked;
        p = after(config((int)hg_rand_below(&r, 10001) - 1, limit), m, mem);
        cr_assert_leq(p.plan.goal + mem.overhead, limit);
        cr_assert_leq(p.plan.hard + mem.overhead, limit + p.plan.goal / 32 + MIB);
    }
}

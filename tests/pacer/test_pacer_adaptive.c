/* test_pacer_adaptive.c: policy adaptive and what it looks ahead with: forecasts, the hedge,
 * changes of level, the rate before the trigger; and its invariants over the whole range of inputs.
 */
#include <criterion/criterion.h>
#include <math.h>

#include "pacer/internal.h"
#include "pacer/policy.h"
#include "tests/pacer/seed.h"

#define MIB (INT64_C(1) << 20)

static struct hg_pacer pacer(const char *policy)
{
    struct hg_pacer_config c = {.gc_percent = 100, .memory_limit = INT64_MAX};
    struct hg_pacer p;
    char why[200] = "";

    cr_assert_eq(hg__policy_parse(policy, &c.policy, why, sizeof why), 0, "%s", why);
    hg__pacer_init(&p, &c);
    return p;
}

/* A cycle of 64 MiB with ratio c; the tolerance is 2 MiB, the runway c * 192 MiB. */
static void feed(struct hg_pacer *p, double c)
{
    struct hg_pacer_cycle m = {.marked = 64 * MIB,
                               .scanned_heap = 64 * MIB,
                               .alloc_bytes = (int64_t)(c * 64 * (double)MIB + 0.5),
                               .background_ns = 10000000,
                               .mutator_ns = 10000000,
                               .cycle_wall_ns = 20000000,
                               .procs = 1};

    hg__pacer_cycle_end(p, &m, NULL);
}

/* A calm with allocation of `rate` bytes per CPU-ns up to the trigger. Returns how often it moved
 * the trigger. */
static int calm(struct hg_pacer *p, double rate)
{
    int moved = 0;

    for (int64_t bytes = MIB; p->last.marked + bytes < p->plan.trigger; bytes += MIB)
        moved += hg__pacer_observe(p, bytes, (int64_t)((double)bytes / rate), NULL);
    return moved;
}

Test(pacer_adaptive, nothing_is_added_without_noise)
{
    struct hg_pacer p = pacer("adaptive");

    for (int i = 0; i < 30; i++) {
        feed(&p, 0.1);
        cr_expect_float_eq(p.plan.cons_mark, 0.1, 1e-6);
    }
}

Test(pacer_adaptive, noise_that_nobody_notices_is_not_hedged)
{
    struct hg_pacer p = pacer("adaptive");
    double tolerance = 0.75 * (double)hg__pacer_tolerance(&p);

    for (int i = 0; i < 40; i++)
        feed(&p, i % 2 ? 0.098 : 0.102);
    tolerance = 0.75 * (double)hg__pacer_tolerance(&p);
    cr_expect_gt(tolerance, 0.02 * 0.1 * 192 * (double)MIB,
                 "four per cent of the runway are within it");
    cr_expect_float_eq(p.plan.cons_mark, 0.1, 0.002);
}

Test(pacer_adaptive, the_hedge_is_what_forecasts_were_wrong_by)
{
    struct hg_pacer p = pacer("adaptive");
    double allowed;

    for (int i = 0; i < 60; i++)
        feed(&p, i % 3 == 0 ? 0.13 : 0.09);
    allowed = hg__policy_ratio_of_runway(&p, 0.75 * (double)hg__pacer_tolerance(&p));
    cr_expect(p.plan.cons_mark > 0.125 - allowed && p.plan.cons_mark < 0.16 - allowed, "%g",
              p.plan.cons_mark);
}

Test(pacer_adaptive, a_fall_is_followed_after_two_cycles)
{
    struct hg_pacer p = pacer("adaptive");

    for (int i = 0; i < 30; i++)
        feed(&p, i % 2 ? 0.38 : 0.42);
    feed(&p, 0.1);
    cr_expect_gt(p.plan.cons_mark, 0.35, "one may be an outlier");
    feed(&p, 0.1);
    cr_expect_lt(p.plan.cons_mark, 0.12, "%g", p.plan.cons_mark);
}

Test(pacer_adaptive, a_rise_is_expected_to_last)
{
    struct hg_pacer p = pacer("adaptive");

    for (int i = 0; i < 30; i++)
        feed(&p, 0.1);
    feed(&p, 0.3);
    cr_expect_geq(p.plan.cons_mark, 0.299);
    for (int i = 0; i < HG_ADAPTIVE_ERRORS; i++)
        feed(&p, 0.1);
    cr_expect_lt(p.plan.cons_mark, 0.11, "it was an outlier: %g", p.plan.cons_mark);
    feed(&p, 0.3);
    feed(&p, 0.3);
    cr_expect_geq(p.plan.cons_mark, 0.299, "now it is the level");
}

/* A program that has started: its errors were large, and are not any more. */
/* An outlier that the next forecast expects again is not its error too: neither the first one, nor
 * one of many that the hedge already knows, nor one after a single ratio. */
Test(pacer_adaptive, an_outlier_is_not_counted_twice)
{
    for (int calm_cycles = 1; calm_cycles <= 12; calm_cycles++) {
        struct hg_pacer p = pacer("adaptive");

        /* Every other ratio is no outlier any more. */
        for (int outlier = 0; outlier < (calm_cycles > 1 ? 4 : 1); outlier++) {
            for (int i = 0; i < calm_cycles; i++)
                feed(&p, i & 1 ? 0.1 : 0.12);
            feed(&p, 6);
            cr_expect_lt(p.plan.cons_mark, 12, "%d calm, outlier %d: %g", calm_cycles, outlier,
                         p.plan.cons_mark);
            cr_expect_geq(p.plan.cons_mark, 1, "%d calm, outlier %d: %g", calm_cycles, outlier,
                          p.plan.cons_mark);
        }
    }
}

Test(pacer_adaptive, the_hedge_is_given_back_when_noise_ends)
{
    struct hg_pacer p = pacer("adaptive");

    for (int i = 0; i < 20; i++)
        feed(&p, i % 3 ? 0.06 : 0.14);
    cr_expect_gt(p.plan.cons_mark, 0.1);
    for (int i = 0; i < 3 * HG_ADAPTIVE_ERRORS; i++)
        feed(&p, i % 2 ? 0.098 : 0.102);
    cr_expect_lt(p.plan.cons_mark, 0.105, "%g", p.plan.cons_mark);
}

/* A forced cycle may measure no allocation at all. */
Test(pacer_adaptive, a_ratio_of_nothing_is_no_level)
{
    struct hg_pacer p = pacer("adaptive");

    for (int i = 0; i < 10; i++)
        feed(&p, 0.1);
    feed(&p, 0);
    cr_expect_geq(p.plan.cons_mark, 0.099);
    feed(&p, 0.04);
    cr_expect_geq(p.plan.cons_mark, 0.039, "%g", p.plan.cons_mark);
}

Test(pacer_adaptive, a_rise_before_the_trigger_moves_it)
{
    struct hg_pacer p = pacer("adaptive"), q;
    int64_t usual;

    for (int i = 0; i < 10; i++) {
        feed(&p, 0.1);
        cr_expect_eq(calm(&p, 1.0), 0);
    }
    feed(&p, 0.1);
    usual = p.plan.trigger;
    q = p;
    cr_expect_gt(calm(&q, 3.0), 0);
    cr_expect_lt(q.plan.trigger, usual - 20 * MIB);
    cr_expect_float_eq(q.plan.cons_mark, 0.3, 0.01);
    feed(&q, 0.3);
    cr_expect_float_eq(q.plan.cons_mark, 0.3, 0.03, "confirmed: %g", q.plan.cons_mark);
    q = p;
    cr_expect_eq(calm(&q, 0.3), 0, "a fall says nothing yet");
    feed(&q, 0.03);
    cr_expect_lt(q.plan.cons_mark, 0.04, "but confirms the first low ratio: %g", q.plan.cons_mark);
}

Test(pacer_adaptive, a_rate_that_misleads_is_not_heeded_again)
{
    struct hg_pacer p = pacer("adaptive");

    for (int i = 0; i < 10; i++) {
        feed(&p, 0.1);
        calm(&p, 1.0);
    }
    feed(&p, 0.1);
    cr_expect_gt(calm(&p, 2.0), 0, "the first time");
    for (int i = 0; i < 10; i++) {
        feed(&p, 0.1);
        cr_expect_eq(calm(&p, i % 2 ? 2.0 : 1.0), 0, "cycle %d", i);
    }
    cr_expect_lt(p.plan.cons_mark, 0.11);
}

Test(pacer_adaptive, others_do_not_look_ahead)
{
    struct hg_pacer p = pacer("max:5");

    for (int i = 0; i < 10; i++) {
        feed(&p, 0.1);
        cr_expect_not(hg__pacer_looks_ahead(&p));
        cr_expect_eq(calm(&p, i < 5 ? 1.0 : 5.0), 0);
    }
}

/* P1 with observations at any time and of any size, and a switch of policy now and then. */
Test(pacer_property, p1_holds_whatever_is_observed)
{
    struct hg_rand r = test_rand("p1_observed");
    struct hg_pacer p = pacer("adaptive");
    int moved = 0;

    for (int i = 0; i < 200000; i++) {
        int64_t before;
        bool says;

        if (hg_rand_below(&r, 4) == 0) {
            double c = ldexp(test_uniform(&r), (int)hg_rand_below(&r, 24) - 12);

            feed(&p, hg_rand_below(&r, 2) ? c : 0.1 + 0.05 * test_uniform(&r));
        }
        if (hg_rand_below(&r, 1000) == 0) {
            struct hg_pacer_config c = p.config;

            c.policy.kind = (enum hg_policy_kind)hg_rand_below(&r, HG_POLICY_KINDS);
            hg__pacer_configure(&p, &c);
            hg__pacer_plan(&p, NULL);
            c.policy.kind = HG_POLICY_ADAPTIVE;
            hg__pacer_configure(&p, &c);
            hg__pacer_plan(&p, NULL);
        }
        before = p.plan.trigger;
        says = hg__pacer_observe(&p, test_wild(&r, 30), test_wild(&r, 30), NULL);
        cr_assert_eq(says, p.plan.trigger != before);
        moved += says;
        cr_assert(p.last.marked <= p.plan.trigger && p.plan.trigger <= p.plan.goal);
        cr_assert(isfinite(p.plan.cons_mark) && p.plan.cons_mark >= 0);
    }
    cr_expect_gt(moved, 100);
}

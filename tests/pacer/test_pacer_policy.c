/* test_pacer_policy.c: names of policies, what each estimates, and what a cycle measures. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "pacer/policy.h"
#include "tests/pacer/seed.h"

#define KIB (INT64_C(1) << 10)
#define MIB (INT64_C(1) << 20)

static struct hg_pacer pacer(const char *policy)
{
    struct hg_pacer_config c = {.gc_percent = 100, .memory_limit = INT64_MAX};
    struct hg_pacer p;
    char why[100] = "";

    cr_assert_eq(hg__policy_parse(policy, &c.policy, why, sizeof why), 0, "%s: %s", policy, why);
    hg__pacer_init(&p, &c);
    return p;
}

static void feed(struct hg_pacer *p, double c)
{
    struct hg_pacer_cycle m = {.marked = 64 * MIB,
                               .scanned_heap = 64 * MIB,
                               .alloc_bytes = (int64_t)(c * 64 * MIB + 0.5),
                               .background_ns = 10000000,
                               .mutator_ns = 10000000,
                               .cycle_wall_ns = 20000000,
                               .procs = 1};
    struct hg_pacer_memory mem = {0};

    hg__pacer_cycle_end(p, &m, &mem);
}

Test(pacer_policy, names)
{
    static const struct {
        const char *given, *canonical;
    } good[] = {{"mean:2", "mean:2"}, {"mean", "mean:2"},   {"pi", "pi"},        {"max:5", "max:5"},
                {"max", "max:5"},     {"max:32", "max:32"}, {"mean:1", "mean:1"}};
    struct hg_policy_spec spec;
    char buf[32], why[100];

    for (unsigned i = 0; i < sizeof good / sizeof good[0]; i++) {
        cr_expect_eq(hg__policy_parse(good[i].given, &spec, why, sizeof why), 0);
        hg__policy_name(&spec, buf, sizeof buf);
        cr_expect_str_eq(buf, good[i].canonical);
    }
    hg__policy_name(&spec, buf, 3);
    cr_expect_str_eq(buf, "me", "cut to the room there is");
}

Test(pacer_policy, bad_names_say_what_was_expected)
{
    static const char *const bad[] = {
        "",
        "maximum",
        "ma",
        "max:",
        "max:0",
        "max:33",
        "max:-1",
        "max:5x",
        "max: 5",
        ":5",
        "pi:3",
        "MAX:5",
        "mean2",
        "max:5:5",
        "max:4294967301",
        "max:999999999999999999999999999999",
    };
    struct hg_policy_spec spec = {.kind = HG_POLICY_PI, .n = 77};
    char why[100];

    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        why[0] = 0;
        cr_expect_eq(hg__policy_parse(bad[i], &spec, why, sizeof why), -1, "%s", bad[i]);
        cr_expect_eq(strncmp(why, "expected ", 9), 0, "%s: %s", bad[i], why);
    }
    cr_expect_eq(hg__policy_parse(NULL, &spec, why, sizeof why), -1);
    cr_expect_eq(hg__policy_parse("x", &spec, NULL, 0), -1);
    cr_expect(spec.kind == HG_POLICY_PI && spec.n == 77, "a refused name changes nothing");
    cr_expect(strstr(hg__policy_choices(), "max:N"));
}

Test(pacer_policy, table_is_complete)
{
    for (int k = 0; k < HG_POLICY_KINDS; k++) {
        const struct hg_policy *policy = hg__policy_of((enum hg_policy_kind)k);

        cr_assert_not_null(policy);
        cr_expect(strstr(hg__policy_choices(), policy->name));
        cr_expect_gt(strlen(policy->help), 10);
    }
    cr_expect_null(hg__policy_of(HG_POLICY_KINDS));
}

Test(pacer_policy, mean)
{
    struct hg_pacer p = pacer("mean:2");

    feed(&p, 0.5);
    cr_expect_float_eq(p.plan.cons_mark, 0.5, 1e-6);
    feed(&p, 1.5);
    cr_expect_float_eq(p.plan.cons_mark, 1.0, 1e-6);
    feed(&p, 0.5);
    feed(&p, 0.5);
    cr_expect_float_eq(p.plan.cons_mark, 0.5, 1e-6);
}

Test(pacer_policy, max_holds_a_peak_for_n_cycles)
{
    struct hg_pacer p = pacer("max:5");

    feed(&p, 1.0);
    for (int i = 0; i < 4; i++) {
        feed(&p, 0.25);
        cr_expect_float_eq(p.plan.cons_mark, 1.0, 1e-6, "%d cycles after the peak", i + 1);
    }
    feed(&p, 0.25);
    cr_expect_float_eq(p.plan.cons_mark, 0.25, 1e-6);
    feed(&p, 3.0);
    cr_expect_float_eq(p.plan.cons_mark, 3.0, 1e-6, "the current cycle is included");
}

Test(pacer_policy, pi_follows_a_step_and_settles)
{
    struct hg_pacer p = pacer("pi");

    feed(&p, 0.5);
    cr_expect_float_eq(p.plan.cons_mark, 0.5, 1e-6, "the first measurement is taken over");
    feed(&p, 1.0);
    cr_expect_float_eq(p.plan.cons_mark, 0.5 + 0.9 * 0.5, 1e-6);
    for (int i = 0; i < 60; i++)
        feed(&p, 1.0);
    cr_expect_float_eq(p.plan.cons_mark, 1.0, 1e-2);
}

Test(pacer_policy, pi_does_not_wind_up_at_zero)
{
    struct hg_pacer p = pacer("pi");
    int cycles = 0;

    for (int i = 0; i < 5; i++)
        feed(&p, 8.0);
    for (int i = 0; i < 200; i++)
        feed(&p, 0.0);
    cr_expect_float_eq(p.plan.cons_mark, 0, 1e-3);
    cr_expect_geq(p.pi_integral, 0.0);
    while (cycles < 100 && p.plan.cons_mark < 0.8) {
        feed(&p, 1.0);
        cycles++;
    }
    cr_expect_leq(cycles, 2, "the proportional term alone would do it in one; took %d", cycles);
}

Test(pacer_policy, pi_integral_stands_still_while_the_output_is_clamped)
{
    struct hg_pacer p = pacer("pi");

    feed(&p, 0);
    feed(&p, 8);
    cr_expect_float_eq(p.plan.cons_mark, 7.2, 1e-6);
    cr_expect_float_eq(p.pi_integral, 0.9 / 4 * 8, 1e-6);
    feed(&p, 0); /* 0.9 * -7.2 + 1.8 is below nothing */
    cr_expect_eq(p.plan.cons_mark, 0);
    cr_expect_float_eq(p.pi_integral, 0.9 / 4 * 8, 1e-6);
}

Test(pacer_policy, a_new_policy_takes_over_the_window)
{
    struct hg_pacer p = pacer("mean:2");
    struct hg_pacer_config c = p.config;

    feed(&p, 2.0);
    feed(&p, 1.0);
    feed(&p, 1.0);
    cr_expect_float_eq(p.plan.cons_mark, 1.0, 1e-6);
    c.policy = (struct hg_policy_spec){.kind = HG_POLICY_MAX, .n = 5};
    hg__pacer_configure(&p, &c);
    cr_expect_float_eq(p.plan.cons_mark, 2.0, 1e-6);
    c.policy.kind = HG_POLICY_PI;
    hg__pacer_configure(&p, &c);
    cr_expect_float_eq(p.plan.cons_mark, 1.0, 1e-6);
}

Test(pacer_policy, estimates_are_finite_whatever_was_measured)
{
    struct hg_rand r = test_rand("estimates_are_finite");
    static const char *const names[] = {"mean:1", "mean:32", "pi", "max:1", "max:32"};

    for (unsigned k = 0; k < sizeof names / sizeof names[0]; k++) {
        struct hg_pacer p = pacer(names[k]);
        double most = 0;

        for (int i = 0; i < 2000; i++) {
            feed(&p, hg_rand_below(&r, 3) ? test_uniform(&r) : ldexp(1, (int)hg_rand_below(&r, 9)));
            most = fmax(most, p.plan.measured);
            cr_assert(p.plan.cons_mark >= 0 && p.plan.cons_mark <= 2.2 * most, "%s: %g", names[k],
                      p.plan.cons_mark);
        }
    }
}

Test(pacer_measure, idle_marking_is_gc_time_and_not_mutator_time)
{
    struct hg_pacer p = pacer("mean:1");
    struct hg_pacer_memory mem = {0};
    struct hg_pacer_cycle m = {.marked = 6 * MIB,
                               .scanned_heap = 3 * MIB,
                               .scanned_stack = 2 * MIB,
                               .scanned_roots = 1 * MIB,
                               .alloc_bytes = 8 * MIB,
                               .assist_ns = 1000000,
                               .background_ns = 2000000,
                               .idle_ns = 3000000,
                               .mutator_ns = 4000000,
                               .cycle_wall_ns = 2500000,
                               .procs = 4,
                               .forced = true};

    hg__pacer_cycle_end(&p, &m, &mem);
    cr_expect_float_eq(p.plan.measured, (8.0 / 4) / (6.0 / 6), 1e-9, "forced cycles count too");
    cr_expect_eq(p.plan.work, 6 * MIB);
    cr_expect_float_eq(p.alloc_rate, 8.0 * MIB / 2500000, 1e-9);
}

Test(pacer_measure, a_cycle_without_data_does_not_poison_the_window)
{
    struct hg_pacer p = pacer("max:5");
    struct hg_pacer_memory mem = {0};
    struct hg_pacer_cycle usual = {.marked = 64 * MIB,
                                   .scanned_heap = 64 * MIB,
                                   .alloc_bytes = 6 * MIB,
                                   .background_ns = 10000000,
                                   .mutator_ns = 10000000,
                                   .cycle_wall_ns = 20000000,
                                   .procs = 1};
    struct hg_pacer_cycle poor[6] = {usual, usual, usual, usual, usual, usual};

    poor[0].scanned_heap = 100;
    poor[1].background_ns = 3;
    poor[2].mutator_ns = 0;
    poor[3].mutator_ns = -5;
    poor[4].background_ns = INT64_MIN;
    poor[5] = (struct hg_pacer_cycle){0};
    hg__pacer_cycle_end(&p, &usual, &mem);
    for (int i = 0; i < 6; i++) {
        hg__pacer_cycle_end(&p, &poor[i], &mem);
        cr_expect_float_eq(p.plan.cons_mark, 6.0 / 64, 1e-9, "cycle %d", i);
        cr_expect_eq(p.window_len, 1);
    }
    cr_expect_eq(p.plan.work, 0, "its sizes are facts all the same");
    cr_expect_eq(p.cycles, 7);
    usual.alloc_bytes = INT64_MAX;
    hg__pacer_cycle_end(&p, &usual, &mem);
    cr_expect_eq(p.plan.cons_mark, 1024.0, "an absurd ratio is clamped");
}

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
    char why[200] = "";

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
    } good[] = {{"mean:2", "mean:2"},
                {"mean", "mean:2"},
                {"pi", "pi"},
                {"max:5", "max:5"},
                {"max", "max:5"},
                {"max:32", "max:32"},
                {"mean:1", "mean:1"},
                {"ewma", "ewma:2"},
                {"ewma:0", "ewma:0"},
                {"ewma:2.50", "ewma:2.5"},
                {"ewma:0.0625", "ewma:0.0625"},
                {"ewma:10", "ewma:10"},
                {"quantile", "quantile:8:0.9"},
                {"quantile:12", "quantile:12:0.9"},
                {"quantile:8:1", "quantile:8:1"},
                {"quantile:32:0.9999", "quantile:32:0.9999"},
                {"director", "director:2"},
                {"director:1.5", "director:1.5"},
                {"ihop", "ihop"},
                {"adaptive", "adaptive"}};
    struct hg_policy_spec spec;
    char buf[32], why[200];

    for (unsigned i = 0; i < sizeof good / sizeof good[0]; i++) {
        cr_expect_eq(hg__policy_parse(good[i].given, &spec, why, sizeof why), 0);
        hg__policy_name(&spec, buf, sizeof buf);
        cr_expect_str_eq(buf, good[i].canonical);
    }
    hg__policy_name(&spec, buf, 3);
    cr_expect_str_eq(buf, "ad", "cut to the room there is");
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
        "max:5.0",
        "max:5:",
        "ewma:",
        "ewma:.5",
        "ewma:5.",
        "ewma:1.5.5",
        "ewma:1,5",
        "ewma:-1",
        "ewma:10.1",
        "ewma:1e1",
        "ewma:0.00001",
        "ewma:nan",
        "quantile:8:",
        "quantile::0.9",
        "quantile:0:0.9",
        "quantile:8:1.1",
        "quantile:8:0.9:1",
        "quantile:0.9",
        "director:0.9",
        "ihop:1",
        "adaptive:",
        "adaptive:2",
    };
    struct hg_policy_spec spec = {.kind = HG_POLICY_PI, .param = {77}};
    char why[200];

    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        why[0] = 0;
        cr_expect_eq(hg__policy_parse(bad[i], &spec, why, sizeof why), -1, "%s", bad[i]);
        cr_expect_eq(strncmp(why, "expected ", 9), 0, "%s: %s", bad[i], why);
        cr_expect_lt(strlen(why), sizeof why - 1, "a message is cut: %s", why);
    }
    cr_expect_eq(hg__policy_parse(NULL, &spec, why, sizeof why), -1);
    cr_expect_eq(hg__policy_parse("x", &spec, NULL, 0), -1);
    cr_expect(spec.kind == HG_POLICY_PI && spec.param[0] == 77, "a refused name changes nothing");
    cr_expect(strstr(hg__policy_choices(), "max:N"));
}

Test(pacer_policy, table_is_complete)
{
    for (int k = 0; k < HG_POLICY_KINDS; k++) {
        const struct hg_policy *policy = hg__policy_of((enum hg_policy_kind)k);

        cr_assert_not_null(policy);
        cr_expect(strstr(hg__policy_choices(), policy->name));
        cr_expect_eq(hg__policy_help((enum hg_policy_kind)k), policy->help);
        cr_expect_gt(strlen(policy->help), 10);
        for (int i = 0; i < policy->params; i++) {
            const struct hg_policy_param *range = &policy->param[i];

            cr_expect(range->low <= range->standard && range->standard <= range->high);
        }
        cr_expect(policy->window > 0 || policy->param[0].whole, "%s", policy->name);
    }
    cr_expect_null(hg__policy_of(HG_POLICY_KINDS));
    cr_expect_null(hg__policy_help(HG_POLICY_KINDS));
}

Test(pacer_policy, parameters_out_of_range_are_brought_into_it)
{
    static const struct {
        struct hg_policy_spec given;
        const char *name;
    } specs[] = {
        {{.kind = HG_POLICY_MAX}, "max:5"},
        {{.kind = HG_POLICY_MAX, .param = {99}}, "max:32"},
        {{.kind = HG_POLICY_MAX, .param = {-3}}, "max:1"},
        {{.kind = HG_POLICY_MAX, .param = {2.9, 7}}, "max:2"},
        {{.kind = HG_POLICY_EWMA}, "ewma:0"},
        {{.kind = HG_POLICY_EWMA, .param = {INFINITY}}, "ewma:10"},
        {{.kind = HG_POLICY_QUANTILE, .param = {0, 2}}, "quantile:8:1"},
        {{.kind = HG_POLICY_KINDS, .param = {3}}, "max:5"},
    };

    for (unsigned i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        struct hg_policy_spec spec = specs[i].given;
        char buf[32];

        hg__policy_clean(&spec);
        hg__policy_name(&spec, buf, sizeof buf);
        cr_expect_str_eq(buf, specs[i].name);
    }
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
    c.policy = (struct hg_policy_spec){.kind = HG_POLICY_MAX, .param = {5}};
    hg__pacer_configure(&p, &c);
    cr_expect_float_eq(p.plan.cons_mark, 2.0, 1e-6);
    c.policy = (struct hg_policy_spec){.kind = HG_POLICY_QUANTILE, .param = {3, 0.5}};
    hg__pacer_configure(&p, &c);
    cr_expect_float_eq(p.plan.cons_mark, 1.0, 1e-6);
}

/* Whatever the policies: what one has learnt does not depend on which one was in use before. */
Test(pacer_policy, a_policy_chosen_late_is_as_if_it_had_been_there_all_along)
{
    struct hg_rand r = test_rand("a_policy_chosen_late");
    struct hg_pacer early, late;

    for (int k = 0; k < HG_POLICY_KINDS; k++) {
        struct hg_policy_spec spec = hg__policy_standard((enum hg_policy_kind)k);
        char name[32];
        struct hg_pacer_config c;

        hg__policy_name(&spec, name, sizeof name);
        early = pacer(name);
        late = pacer(k == HG_POLICY_MAX ? "pi" : "max:5");
        for (int i = 0; i < HG_PACER_WINDOW; i++) {
            double ratio = 0.05 + test_uniform(&r);

            feed(&early, ratio);
            feed(&late, ratio);
        }
        c = early.config;
        hg__pacer_configure(&late, &c);
        cr_expect_eq(late.plan.cons_mark, early.plan.cons_mark, "%s: %g, not %g", name,
                     late.plan.cons_mark, early.plan.cons_mark);
    }
}

Test(pacer_policy, ewma)
{
    struct hg_pacer p = pacer("ewma:0");

    feed(&p, 1.0);
    cr_expect_float_eq(p.plan.cons_mark, 1.0, 1e-6);
    feed(&p, 2.0);
    cr_expect_float_eq(p.plan.cons_mark, (2.0 + 0.7 * 1.0) / 1.7, 1e-6);
    p = pacer("ewma:2");
    for (int i = 0; i < 40; i++)
        feed(&p, 1.0);
    cr_expect_float_eq(p.plan.cons_mark, 1.0, 1e-6, "without noise there is nothing to add");
    for (int i = 0; i < 40; i++)
        feed(&p, i % 2 ? 0.5 : 1.5);
    cr_expect(p.plan.cons_mark > 1.7 && p.plan.cons_mark < 2.1, "%g", p.plan.cons_mark);
}

Test(pacer_policy, quantile)
{
    struct hg_pacer p = pacer("quantile:5:0.5"), q = pacer("quantile:5:0.875"),
                    top = pacer("quantile:5:1");
    static const double ratio[] = {9, 4, 1, 5, 2, 3};

    for (unsigned i = 0; i < sizeof ratio / sizeof ratio[0]; i++) {
        feed(&p, ratio[i]);
        feed(&q, ratio[i]);
        feed(&top, ratio[i]);
    }
    cr_expect_float_eq(p.plan.cons_mark, 3, 1e-6);
    cr_expect_float_eq(q.plan.cons_mark, 4.5, 1e-6, "half way between 4 and 5");
    cr_expect_float_eq(top.plan.cons_mark, 5, 1e-6, "the 9 has left the window");
}

/* Steady, the runway of both is what they say: rate times time, which is c * W * (1 - u) / u for
 * mutators that have three quarters of the CPU. feed() gives both procs' halves: a rate of
 * c * 64 MiB in 20 ms and a marking of 10 ms of CPU, 40 ms at the full share. */
Test(pacer_policy, director_and_ihop_predict_rate_and_time)
{
    struct hg_pacer ihop = pacer("ihop"), director = pacer("director:1"),
                    twice = pacer("director:2");
    double bytes = 0.01 * 64 * MIB / 20e6 * 40e6, ratio = bytes / (64.0 * MIB) / 3;

    for (int i = 0; i < 20; i++) {
        feed(&ihop, 0.01);
        feed(&director, 0.01);
        feed(&twice, 0.01);
    }
    cr_expect_float_eq(ihop.plan.cons_mark, ratio, 1e-5);
    cr_expect_float_eq(director.plan.cons_mark, ratio, 1e-5);
    cr_expect_float_eq(twice.plan.cons_mark, 2 * ratio, 1e-5);
    feed(&ihop, 0.02);
    feed(&director, 0.02);
    cr_expect_gt(ihop.plan.cons_mark, 1.2 * ratio, "spread is added");
    cr_expect_gt(director.plan.cons_mark, 1.5 * ratio);
}

/* Over the whole range of ratios, and none far above what was ever measured: the policies that add
 * spreads may add several of them, for both factors. */
Test(pacer_policy, estimates_are_finite_whatever_was_measured)
{
    struct hg_rand r = test_rand("estimates_are_finite");
    static const struct {
        const char *name;
        double most;
    } policies[] = {{"mean:1", 1},   {"mean:32", 1},      {"pi", 2.2},        {"max:1", 1},
                    {"max:32", 1},   {"ewma:0", 1},       {"ewma:10", 6},     {"quantile:32:0", 1},
                    {"ihop", 30},    {"quantile:1:1", 1}, {"director:1", 60}, {"director:10", 200},
                    {"adaptive", 50}};

    for (unsigned k = 0; k < sizeof policies / sizeof policies[0]; k++) {
        struct hg_pacer p = pacer(policies[k].name);
        double most = 0;

        for (int i = 0; i < 2000; i++) {
            feed(&p, hg_rand_below(&r, 3) ? test_uniform(&r) : ldexp(1, (int)hg_rand_below(&r, 9)));
            most = fmax(most, p.plan.measured);
            cr_assert(p.plan.cons_mark >= 0 && p.plan.cons_mark <= policies[k].most * most,
                      "%s: %g of %g", policies[k].name, p.plan.cons_mark, most);
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

/* test_sim_pacer.c: the closed loop of `hedge-sim pacer`: that it adds up, the published findings
 * about averages and maxima, what the dampers do, and what is claimed of policy adaptive
 * (docs/design/adaptive.md), on fixed seeds. */
#include "sim/pacer.h"
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#define SEEDS  30
#define CYCLES 400

static const struct hg_pacer_study all_on, no_deadband = {.no_deadband = true},
                                           no_credit = {.no_credit = true},
                                           no_landing = {.no_landing = true};

static struct hg_policy_spec policy_of(const char *name)
{
    struct hg_policy_spec spec = {.kind = HG_POLICY_KINDS};
    char why[200] = "";
    cr_assert_eq(hg__policy_parse(name, &spec, why, sizeof why), 0, "%s: %s", name, why);
    return spec;
}

static struct hg_pacer_config config(const char *policy, const struct pacer_model *model,
                                     struct hg_pacer_study study)
{
    struct pacer_options opt = {.gogc = 100};
    struct hg_policy_spec spec = policy_of(policy);
    return pacer_config(&opt, &spec, &study, model);
}

/* Figures of SEEDS runs. */
struct table {
    double run[SEEDS][PACER_MEASURED];
};

static void run_all(struct table *t, const char *policy, const char *model_name,
                    struct hg_pacer_study study)
{
    const struct pacer_model *model = pacer_model_find(model_name);
    cr_assert_not_null(model, "%s", model_name);
    struct hg_pacer_config c = config(policy, model, study);
    for (int s = 0; s < SEEDS; s++) {
        struct pacer_source source;
        pacer_source_init(&source, model, 1000 + (uint64_t)s);
        pacer_run(&c, &source, CYCLES, t->run[s]);
    }
}

/* Against another table, or itself. */
static struct pacer_summary summary_of(const struct table *t, const struct table *edge)
{
    const double *run[SEEDS], *other[SEEDS];
    struct pacer_summary s = {0};
    for (int i = 0; i < SEEDS; i++) {
        run[i] = t->run[i];
        other[i] = edge->run[i];
    }
    pacer_summarise(&s, run, other, SEEDS);
    cr_assert_eq(s.seeds, SEEDS);
    return s;
}

static double mean_of(const char *policy, const char *model, struct hg_pacer_study study,
                      enum pacer_figure figure)
{
    struct table t;
    run_all(&t, policy, model, study);
    return summary_of(&t, &t).figure[figure].mean;
}

/* ---- the loop ---- */

Test(sim_pacer, same_seed_same_figures)
{
    struct table a, b;
    run_all(&a, "adaptive", "within", all_on);
    run_all(&b, "adaptive", "within", all_on);
    cr_expect_eq(memcmp(a.run[0], b.run[0], sizeof a.run[0] - sizeof(double)), 0);
    cr_expect_neq(a.run[0][PACER_LATE_SHARE], a.run[1][PACER_LATE_SHARE]);
}

/* The loads of a model with a seed, whoever asks. */
Test(sim_pacer, loads_depend_on_the_seed_alone)
{
    for (int m = 0; m < pacer_model_count; m++) {
        struct pacer_source a, b;
        pacer_source_init(&a, &pacer_models[m], 7);
        pacer_source_init(&b, &pacer_models[m], 7);
        for (int i = 0; i < 300; i++, a.cycle++, b.cycle++) {
            struct pacer_load x, y;
            a.next(&a, &x);
            b.next(&b, &y);
            cr_assert(x.rate == y.rate && x.live == y.live && x.change_at == y.change_at);
            cr_assert(x.rate > 0 && x.speed > 0 && x.calm_before > 0 && x.calm_after > 0);
            cr_assert(x.demand > 0 && x.demand <= 1 && x.change_at >= 0 && x.change_at <= 1);
            cr_assert(x.live > 0 && x.stack >= 0 && x.level > 0);
        }
    }
}

Test(sim_pacer, a_cycle_adds_up)
{
    for (int m = 0; m < pacer_model_count; m++) {
        struct hg_pacer_config c = config("max:5", &pacer_models[m], all_on);
        struct pacer_source source;
        struct pacer_loop l;
        pacer_source_init(&source, &pacer_models[m], 3);
        pacer_loop_init(&l, &c);
        for (int i = 0; i < 300; i++, source.cycle++) {
            struct pacer_load load;
            double before = l.heap;
            source.next(&source, &load);
            struct pacer_cycle d = pacer_loop_cycle(&l, &load);
            cr_assert_leq(d.gc_ns, d.cpu_ns * (1 + 1e-9));
            cr_assert(d.assist_ns >= 0 && d.assist_ns < d.gc_ns);
            cr_assert_float_eq(d.gc_ns * load.speed, d.live, 1e-6 * d.live,
                               "all of the work is done, and no more");
            cr_assert_float_eq(d.allocated, d.heap_at_end - before, 1);
            cr_assert_leq(d.heap_at_end, (double)d.plan.hard + 4e6, "the hard limit holds");
            cr_assert_leq(l.heap, d.heap_at_end + 1, "marking finds nothing that is not there");
        }
    }
}

Test(sim_pacer, without_noise_nobody_assists)
{
    static const char *const policies[] = {"mean:2", "pi", "max:5", "ewma:2", "ihop", "adaptive"};
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        cr_expect_eq(mean_of(policies[i], "constant", all_on, PACER_ASSIST_SHARE), 0, "%s",
                     policies[i]);
        cr_expect_lt(mean_of(policies[i], "constant", all_on, PACER_PEAK_OVER_GOAL), 1.001, "%s",
                     policies[i]);
    }
}

/* A source that is no model: loads from a series, as a recorded trace gives them. */
static void next_of_series(struct pacer_source *s, struct pacer_load *out)
{
    const double *rate = s->data;
    *out = (struct pacer_load){.calm_before = 0.1,
                               .calm_after = 0.1,
                               .change_at = 1,
                               .rate = rate[s->cycle % 4],
                               .speed = 1,
                               .live = 64e6,
                               .scan = 1,
                               .demand = 1,
                               .level = 0.1};
}

Test(sim_pacer, a_series_is_a_source)
{
    static const double rate[] = {0.05, 0.05, 0.05, 0.2};
    struct pacer_source s = {.next = next_of_series, .data = rate};
    struct hg_pacer_config c = config("max:5", &pacer_models[0], all_on);
    double figure[PACER_MEASURED];
    pacer_run(&c, &s, 100, figure);
    cr_expect_eq(s.cycle, 100 + PACER_WARMUP);
    cr_expect_float_eq(figure[PACER_LATE_SHARE], 0.25, 1e-9, "equal to the maximum: a hair late");
    cr_expect(isnan(figure[PACER_RELEASE]), "its load never fell");
}

/* ---- model replay ---- */

static void read_data(struct pacer_trace *t, const char *file, const char *pid)
{
    char path[400], why[400] = "";
    struct sim_trace_how how = {.pid = pid, .assume_scan = NAN};
    snprintf(path, sizeof path, "%s/%s", HEDGE_TEST_DATA, file);
    cr_assert_eq(pacer_trace_read(t, path, &how, why, sizeof why), 0, "%s", why);
}

Test(sim_pacer, a_trace_is_a_source_that_goes_round)
{
    /* Ratio, scanned heap and stacks of the log's cycles 1, 2 and last, by hand. */
    static const double ratio[] = {0.4760, 0.5303}, work[] = {884832, 2226416};
    struct pacer_trace t;
    struct pacer_source s, later;
    struct pacer_load load, other;
    read_data(&t, "hedge.log", NULL);
    cr_assert_eq(t.recorded, 30);
    cr_assert_eq(t.cycles, 28, "two were forced");
    cr_assert_str_eq(t.process, "#1");
    pacer_trace_source(&s, &t, 28 * 5);
    for (int i = 0; i < 2; i++, s.cycle++) {
        s.next(&s, &load);
        cr_expect_float_eq(load.rate / load.speed, ratio[i], 1e-9);
        cr_expect_float_eq(load.scan * load.live, work[i], 1e-3);
        cr_expect_eq(load.stack, 848 + 8);
        cr_expect(load.demand > 0 && load.demand < 1, "the log has idle marking: %g", load.demand);
    }
    pacer_trace_source(&later, &t, 28 * 5 + 2);
    for (int i = 0; i < 60; i++, s.cycle++, later.cycle++) {
        double before = load.rate;
        s.next(&s, &load);
        later.next(&later, &other);
        cr_expect_eq(load.rate, other.rate, "seeds differ in where they begin");
        cr_expect_eq(load.calm_before, before, "a calm goes on as the last cycle did");
    }
    pacer_trace_free(&t);
}

Test(sim_pacer, a_trace_scans_what_was_scanned)
{
    static const char *const file[] = {"hedge.log", "go1.19.log"};
    for (int f = 0; f < 2; f++) {
        struct pacer_trace t;
        struct pacer_loop l;
        struct pacer_source s;
        struct hg_pacer_config c = config("max:5", &pacer_model_replay, all_on);
        read_data(&t, file[f], NULL);
        pacer_loop_init(&l, &c);
        pacer_trace_source(&s, &t, 0);
        for (size_t i = 0; i < 2 * t.cycles; i++, s.cycle++) {
            struct pacer_load load;
            s.next(&s, &load);
            struct pacer_cycle done = pacer_loop_cycle(&l, &load);
            double live = done.live - load.stack; /* less than was recorded in a smaller heap */
            cr_expect_leq(live, load.live);
            cr_expect_float_eq(done.gc_ns, (live * load.scan + load.stack) / load.speed, 2,
                               "%s, cycle %zu: %g ns", file[f], i, done.gc_ns);
        }
        pacer_trace_free(&t);
    }
}

Test(sim_pacer, a_trace_without_scan_work_is_refused)
{
    struct pacer_trace t;
    struct sim_trace_how how = {.assume_scan = NAN};
    char why[400] = "";
    cr_expect_eq(pacer_trace_read(&t, HEDGE_TEST_DATA "/gctrace-only.log", &how, why, sizeof why),
                 -1);
    cr_expect_not_null(strstr(why, "gcpacertrace=1"), "%s", why);
    cr_expect_not_null(strstr(why, "--assume scan=BYTES"), "%s", why);
    cr_expect_eq(pacer_trace_read(&t, HEDGE_TEST_DATA "/journald.log", &how, why, sizeof why), -1);
    cr_expect_not_null(strstr(why, "--pid NAME: expected one of: api[4711]"), "%s", why);
    read_data(&t, "journald.log", "812");
    cr_expect_str_eq(t.process, "cache[812]");
    pacer_trace_free(&t);
}

/* Each load has the scan work that was assumed, where the log has none, and there alone. */
Test(sim_pacer, scan_work_can_be_assumed)
{
    struct sim_trace_how how = {.assume_scan = 2 * 1048576.0};
    struct pacer_trace t, plain;
    char why[400] = "";
    cr_assert_eq(pacer_trace_read(&t, HEDGE_TEST_DATA "/gctrace-only.log", &how, why, sizeof why),
                 0, "%s", why);
    cr_assert_eq(t.cycles, 18);
    cr_assert_eq(t.assumed, t.cycles);
    for (size_t i = 0; i < t.cycles; i++)
        cr_expect_float_eq(t.load[i].scan * t.load[i].live, how.assume_scan, 1e-3);
    pacer_trace_free(&t);
    cr_assert_eq(pacer_trace_read(&t, HEDGE_TEST_DATA "/hedge.log", &how, why, sizeof why), 0);
    read_data(&plain, "hedge.log", NULL);
    cr_assert_eq(t.assumed, 0);
    cr_assert_eq(t.cycles, plain.cycles);
    cr_assert_arr_eq(t.load, plain.load, t.cycles * sizeof *t.load);
    pacer_trace_free(&t);
    pacer_trace_free(&plain);
}

/* ---- what is published of averages and maxima ---- */

Test(sim_pacer, averages_sit_on_the_edge)
{
    double late = mean_of("mean:2", "uniform", all_on, PACER_LATE_SHARE);
    cr_expect(late > 0.45 && late < 0.55, "mean:2 is late in %g", late);
    /* Our soft landing lets a late cycle pass its goal a little, for nothing. Without it late means
     * assist. */
    double edge = mean_of("mean:2", "uniform", no_landing, PACER_ASSIST_CYCLES);
    cr_expect(edge > 0.40 && edge < 0.60, "mean:2 has assist in %g", edge);
    edge = mean_of("pi", "uniform", no_landing, PACER_ASSIST_CYCLES);
    cr_expect(edge > 0.40 && edge < 0.60, "pi has assist in %g", edge);
    double damped = mean_of("mean:2", "uniform", all_on, PACER_ASSIST_CYCLES);
    cr_expect_lt(damped, 0.1, "%g", damped);
}

Test(sim_pacer, a_maximum_of_two_is_clearly_worse_than_one_of_five)
{
    static const struct hg_pacer_study *const studies[] = {&all_on, &no_landing, &no_deadband};
    for (size_t i = 0; i < sizeof studies / sizeof *studies; i++) {
        double mean = mean_of("mean:2", "uniform", *studies[i], PACER_ASSIST_SHARE);
        double two = mean_of("max:2", "uniform", *studies[i], PACER_ASSIST_SHARE);
        double five = mean_of("max:5", "uniform", *studies[i], PACER_ASSIST_SHARE);
        cr_expect_gt(mean, 1.5 * two, "mean %g, two %g", mean, two);
        cr_expect_gt(two, 2 * five, "two %g, five %g", two, five);
    }
    double two = mean_of("max:2", "uniform", all_on, PACER_LATE_SHARE);
    double five = mean_of("max:5", "uniform", all_on, PACER_LATE_SHARE);
    cr_expect_float_eq(two, 1.0 / 3, 0.02, "late once in N + 1 cycles: %g", two);
    cr_expect_float_eq(five, 1.0 / 6, 0.02, "%g", five);
}

Test(sim_pacer, a_maximum_of_five_takes_five_cycles_to_let_go)
{
    static const char *const falls[] = {"idle", "step"};
    for (size_t i = 0; i < 2; i++) {
        cr_expect_float_eq(mean_of("max:5", falls[i], all_on, PACER_RELEASE), 5, 0.01);
        cr_expect_float_eq(mean_of("max:2", falls[i], all_on, PACER_RELEASE), 2, 0.01);
        cr_expect_leq(mean_of("adaptive", falls[i], all_on, PACER_RELEASE), 2.0);
        cr_expect_gt(mean_of("quantile:8:0.9", falls[i], all_on, PACER_RELEASE), 5.0);
    }
}

/* ---- the dampers ---- */

Test(sim_pacer, each_damper_saves_assist)
{
    double with = mean_of("mean:2", "uniform", all_on, PACER_ASSIST_SHARE);
    double deadband = mean_of("mean:2", "uniform", no_deadband, PACER_ASSIST_SHARE);
    double credit = mean_of("mean:2", "uniform", no_credit, PACER_ASSIST_CYCLES);
    double landing = mean_of("mean:2", "uniform", no_landing, PACER_ASSIST_SHARE);
    cr_expect_gt(deadband, 3 * with, "dead band: %g, %g", with, deadband);
    cr_expect_gt(credit, 2 * mean_of("mean:2", "uniform", all_on, PACER_ASSIST_CYCLES));
    cr_expect_gt(landing, 5 * with, "landing: %g, %g", with, landing);
}

Test(sim_pacer, the_soft_landing_is_paid_for_with_overshoot)
{
    double with = mean_of("mean:2", "uniform", all_on, PACER_OVERSHOOT_P99);
    double without = mean_of("mean:2", "uniform", no_landing, PACER_OVERSHOOT_P99);
    cr_expect_lt(without, 0.01, "%g", without);
    cr_expect(with > 0.03 && with < 0.10, "%g: between goal and hard limit", with);
}

/* ---- what is claimed of adaptive ---- */

static bool has_low_noise(const struct pacer_model *m)
{
    static const char *const loud[] = {"uniform", "settling", "tail", "within"};
    for (size_t i = 0; i < sizeof loud / sizeof *loud; i++)
        if (strcmp(m->name, loud[i]) == 0)
            return false;
    return true;
}

Test(sim_pacer, adaptive_beats_a_maximum_of_five)
{
    double ours = 0, theirs = 0;
    struct table adaptive, five, edge;
    for (int m = 0; m < pacer_model_count; m++) {
        const char *name = pacer_models[m].name;
        run_all(&adaptive, "adaptive", name, all_on);
        run_all(&five, "max:5", name, all_on);
        run_all(&edge, PACER_EDGE, name, all_on);
        struct pacer_summary a = summary_of(&adaptive, &edge), f = summary_of(&five, &edge);
        const struct pacer_estimate *assist = &a.figure[PACER_ASSIST_SHARE];
        cr_expect_leq(assist->low, f.figure[PACER_ASSIST_SHARE].mean + 1e-9,
                      "%s: assist %g, max:5 %g", name, assist->mean,
                      f.figure[PACER_ASSIST_SHARE].mean);
        double extra = a.figure[PACER_EXTRA_SHARE].mean;
        if (has_low_noise(&pacer_models[m]))
            cr_expect_leq(extra, 0.02, "%s: %g more cycles", name, extra);
        ours += extra;
        theirs += f.figure[PACER_EXTRA_SHARE].mean;
    }
    cr_expect_lt(ours, 0.85 * theirs, "extra cycles: %g, max:5 %g", ours, theirs);
}

/* ---- summaries ---- */

Test(sim_pacer, runs_that_were_not_made_are_left_out)
{
    double row[8][PACER_MEASURED], none[PACER_MEASURED];
    const double *run[9], *edge[9];
    struct pacer_summary s = {0};
    for (int f = 0; f < PACER_MEASURED; f++)
        none[f] = NAN;
    for (int i = 0; i < 8; i++) {
        for (int f = 0; f < PACER_MEASURED; f++)
            row[i][f] = 1 + i % 2;
        run[i] = edge[i] = row[i];
    }
    run[8] = edge[8] = none;
    pacer_summarise(&s, run, edge, 9);
    cr_expect_eq(s.seeds, 8);
    cr_expect_float_eq(s.figure[PACER_ASSIST_SHARE].mean, 1.5, 1e-12);
    cr_expect_lt(s.figure[PACER_ASSIST_SHARE].low, 1.5);
    cr_expect_gt(s.figure[PACER_ASSIST_SHARE].high, 1.5);
    cr_expect_eq(s.figure[PACER_EXTRA_CYCLES].mean, 0);
    cr_expect_eq(s.figure[PACER_EXTRA_CYCLES].high, 0, "pairs are alike");
}

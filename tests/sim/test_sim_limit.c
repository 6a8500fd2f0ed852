/* test_sim_limit.c: memory limits in virtual time, on fixed seeds, and live: that GC is held at
 * half of CPU time with the limit below what is alive, the program goes on, the callback comes, and
 * a hard limit refuses and recovers.
 *
 * Live bounds are on CPU time as the runtime counts it, so a busy machine does not fail them. Live
 * runs take 5 s in all. */
#include "sim/limit.h"
#include "sim/pacer.h"
#include "sim/size.h"
#include <criterion/criterion.h>
#include <string.h>

#define HALF     (15.0 / 32) /* what the limiter lets GC have, in the long run, */
#define BURST_S  0.1         /* on top, per proc: the bucket, and a window */
#define WINDOW_S 0.02

static struct hg_pacer_config config(const struct pacer_model *m, int64_t limit)
{
    struct pacer_options opt = {.gogc = 100, .limit = limit};
    struct hg_policy_spec spec = hg__policy_standard(HG_POLICY_MAX);
    struct hg_pacer_study study = {0};
    return pacer_config(&opt, &spec, &study, m);
}

static void run(const char *model, int64_t limit, uint64_t seed, int cycles,
                double figure[PACER_MEASURED])
{
    const struct pacer_model *m = pacer_model_find(model);
    struct pacer_source source;
    cr_assert_not_null(m, "%s", model);
    struct hg_pacer_config c = config(m, limit);
    pacer_source_init(&source, m, seed);
    if (limit > 0)
        source.limit = (double)limit;
    pacer_run(&c, &source, cycles, figure);
}

/* ---- sizes ---- */

Test(sim_limit, sizes)
{
    static const struct {
        const char *text;
        int64_t bytes;
    } rows[] = {
        {"64MiB", 64 << 20},
        {"1048576", 1 << 20},
        {"1.5GiB", INT64_C(3) << 29},
        {"1TiB", INT64_C(1) << 40},
        {"2048KiB", 2 << 20},
        {"1048576B", 1 << 20},
        {"1MB", -1},
        {"64", -1},
        {"", -1},
        {"MiB", -1},
        {"-64MiB", -1},
        {"1e9", -1},
        {"0x40000000", -1},
        {"64 MiB", -1},
        {"1.2.3GiB", -1},
        {"1025TiB", -1},
        {"nan", -1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        cr_expect_eq(sim_size_parse(rows[i].text), rows[i].bytes, "\"%s\"", rows[i].text);
    cr_expect_eq(sim_size_within("1", 1, 10), 1);
    cr_expect_eq(sim_size_within("0.5", 1, 10), -1);
    cr_expect_eq(sim_size_within("10B", 1, 10), 10);
    cr_expect_eq(sim_size_within("11", 1, 10), -1);
    cr_expect_eq(sim_size_within("2KiB", 1, 1 << 20), 2048);
    char text[32];
    cr_expect_str_eq(sim_size_text(1.5 * 1073741824, text), "1.5 GiB");
}

/* ---- in virtual time ---- */

Test(sim_limit, gc_is_held_at_half)
{
    static const int64_t limits[] = {INT64_C(16) << 20, INT64_C(256) << 20, INT64_C(4) << 30};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        for (uint64_t seed = 1; seed <= 5; seed++) {
            double f[PACER_MEASURED];
            run("limit-below", limits[i], seed, 400, f);
            cr_expect_leq(f[PACER_GC_CPU_SHARE], 0.5, "%g", f[PACER_GC_CPU_SHARE]);
            cr_expect_geq(f[PACER_GC_CPU_SHARE], 0.4, "the limiter is what holds it: %g",
                          f[PACER_GC_CPU_SHARE]);
            cr_expect_leq(f[PACER_GC_WORST], HALF + BURST_S + WINDOW_S, "%g", f[PACER_GC_WORST]);
            if (limits[i] > 64 << 20) /* in a small heap the least distance of 1 MiB does much */
                cr_expect_gt(f[PACER_LIMITER_SHARE], 0.3, "%g", f[PACER_LIMITER_SHARE]);
            cr_expect_gt(f[PACER_OVER_LIMIT], 1.25, "what is alive is not given up");
            cr_expect_eq(f[PACER_LIMIT_PASSED], 0, "it was passed before the run, once for all");
        }
}

/* A sixteenth of the limit alive: the goal of GOGC is far below it. */
Test(sim_limit, a_wide_limit_does_nothing)
{
    double without[PACER_MEASURED], with[PACER_MEASURED];
    run("uniform", 0, 3, 300, without);
    run("uniform", INT64_C(256) << 24, 3, 300, with);
    for (int f = 0; f < PACER_GC_WORST; f++)
        cr_expect(without[f] == with[f] || (isnan(without[f]) && isnan(with[f])), "%s: %g, %g",
                  pacer_figure_info[f].key, without[f], with[f]);
    cr_expect(isnan(without[PACER_OVER_LIMIT]) && isnan(without[PACER_LIMITER_SHARE]));
    cr_expect_eq(with[PACER_LIMITER_SHARE], 0);
    cr_expect_lt(with[PACER_OVER_LIMIT], 0.2);
    cr_expect_eq(with[PACER_LIMIT_PASSED], 0);
}

/* A limit that what is alive fits into: more cycles instead of more memory. */
Test(sim_limit, a_narrow_limit_is_kept)
{
    double without[PACER_MEASURED], with[PACER_MEASURED];
    run("low", 0, 3, 300, without);
    run("low", INT64_C(450) << 20, 3, 300, with);
    cr_expect_leq(with[PACER_OVER_LIMIT], 1, "%g", with[PACER_OVER_LIMIT]);
    cr_expect_eq(with[PACER_LIMITER_SHARE], 0);
    cr_expect_gt(with[PACER_CYCLES_PER_GIB], 1.2 * without[PACER_CYCLES_PER_GIB]);
}

Test(sim_limit, a_leak_is_told_once_and_the_program_goes_on)
{
    const struct pacer_model *m = pacer_model_find("limit-leak");
    struct hg_pacer_config c = config(m, 0);
    struct pacer_source source;
    struct pacer_loop l;
    double late_cpu = 0, late_gc = 0;
    bool was_below = false;
    pacer_source_init(&source, m, 9);
    pacer_loop_init(&l, &c);
    for (int i = 0; i < 200; i++, source.cycle++) {
        struct pacer_load load;
        source.next(&source, &load);
        struct pacer_cycle d = pacer_loop_cycle(&l, &load);
        if (load.live < 0.6 * source.limit) {
            cr_assert_eq(l.limit.passed, 0, "told at cycle %d", i);
            was_below = true;
        }
        if (load.live > 1.2 * source.limit) {
            cr_assert_eq(l.limit.passed, 1, "told %d times at cycle %d", l.limit.passed, i);
            late_cpu += d.cpu_ns;
            late_gc += d.gc_ns;
        }
    }
    cr_expect(was_below);
    cr_expect_gt(late_cpu, 5e9);
    cr_expect_leq(late_gc, (HALF + 0.01) * late_cpu + 1e8 * PACER_PROCS, "%g of %g", late_gc,
                  late_cpu);
}

static const struct limit_program program = {.procs = 2,
                                             .calm_rate = 0.2,
                                             .rate = 0.2,
                                             .scan = 0.9,
                                             .speed = 1.5,
                                             .sweep = 0.02,
                                             .late_ns = 4e5,
                                             .quiet_ns = 5e5,
                                             .stack = 4096,
                                             .overhead = 1.5e6};

static struct limit_options options(double seconds)
{
    struct limit_options o = {.limit = INT64_C(32) << 20, .procs = 2, .duration_s = seconds};
    strcpy(o.policy, "max:5");
    return o;
}

Test(sim_limit, predictions)
{
    struct limit_options o = options(10);
    for (int k = 0; k < LIMIT_KINDS; k++) {
        struct limit_result r;
        for (int f = 0; f < LIMIT_FIGURES; f++)
            r.figure[f] = (double)NAN;
        limit_predict(&o, &limit_scenarios[k], &program, &r);
        double gc = r.figure[LIMIT_PREDICTED_GC], progress = r.figure[LIMIT_PREDICTED_PROGRESS];
        double peak = r.figure[LIMIT_PREDICTED_PEAK];
        cr_expect(gc > 0.3 && gc <= HALF + (BURST_S + WINDOW_S) / 10, "%s: %g",
                  limit_scenarios[k].name, gc);
        cr_expect(progress > 0.4 && progress < 1, "%s: %g", limit_scenarios[k].name, progress);
        cr_expect(limit_scenarios[k].hard == (peak < 1.001), "%s: %g", limit_scenarios[k].name,
                  peak);
    }
    struct limit_program unknown = {.rate = 0.2, .speed = (double)NAN};
    struct limit_result r = {.figure[LIMIT_PREDICTED_GC] = -1};
    limit_predict(&o, &limit_scenarios[LIMIT_BELOW], &unknown, &r);
    cr_expect_eq(r.figure[LIMIT_PREDICTED_GC], -1, "nothing is made up");
}

static struct limit_result predicted(enum limit_kind kind, const struct limit_program *p)
{
    struct limit_options o = options(10);
    struct limit_result r;
    limit_predict(&o, &limit_scenarios[kind], p, &r);
    return r;
}

/* While the limiter is on the heap grows by what all procs allocate. */
Test(sim_limit, more_procs_pass_the_limit_further)
{
    double last = 1.25;
    for (int procs = 1; procs <= 8; procs *= 2) {
        struct limit_program p = program;
        p.procs = procs;
        double peak = predicted(LIMIT_BELOW, &p).figure[LIMIT_PREDICTED_PEAK];
        cr_expect_gt(peak, last + 0.1, "%d procs: %g after %g", procs, peak, last);
        last = peak;
    }
}

/* Each of these costs the program something where cycles follow each other. */
Test(sim_limit, what_slows_a_program_down)
{
    struct limit_program slow = program, sweeps = program;
    double at_first = predicted(LIMIT_BELOW, &program).figure[LIMIT_PREDICTED_PROGRESS];
    slow.rate = 0.8 * program.rate;
    sweeps.sweep = 10 * program.sweep;
    double slower = predicted(LIMIT_BELOW, &slow).figure[LIMIT_PREDICTED_PROGRESS];
    double sweeping = predicted(LIMIT_BELOW, &sweeps).figure[LIMIT_PREDICTED_PROGRESS];
    cr_expect_lt(slower, 0.97 * at_first, "%g and %g", slower, at_first);
    cr_expect_lt(sweeping, 0.97 * at_first, "%g and %g", sweeping, at_first);
}

/* A driver that is late leaves time without GC: the limiter has less to do. */
Test(sim_limit, a_late_driver_spares_the_limiter)
{
    struct limit_program late = program;
    late.late_ns = 10 * program.late_ns;
    double before = predicted(LIMIT_BELOW, &program).figure[LIMIT_PREDICTED_LIMITER];
    double after = predicted(LIMIT_BELOW, &late).figure[LIMIT_PREDICTED_LIMITER];
    cr_expect_lt(after, 0.9 * before, "%g and %g", after, before);
}

/* At the hard limit with nothing to free: the limit holds, and GC is held at half of all CPU time,
 * while nobody can do anything but wait. */
Test(sim_limit, a_hard_limit_with_everything_alive)
{
    struct hg_pacer_config c = {.gc_percent = 100, .memory_limit = INT64_C(32) << 20};
    struct pacer_load load = {.calm_before = 0.2,
                              .calm_after = 0.2,
                              .change_at = 1,
                              .rate = 0.2,
                              .speed = 1.5,
                              .live = 1e9,
                              .scan = 1,
                              .demand = 1,
                              .level = 0.13};
    struct pacer_loop l;
    double cpu = 0, gc = 0, asleep = 0;
    c.policy = hg__policy_standard(HG_POLICY_MAX);
    pacer_loop_init(&l, &c);
    l.limit.hard = true;
    struct pacer_cycle d = {0};
    for (int i = 0; i < 100 && !d.full; i++)
        d = pacer_loop_cycle(&l, &load);
    cr_assert(d.full);
    while (cpu < 20e9) {
        d = pacer_loop_cycle(&l, &load);
        cr_assert(d.full && d.allocated == 0, "%g bytes were allocated", d.allocated);
        cpu += d.cpu_ns;
        gc += d.gc_ns;
        asleep += d.asleep_ns;
    }
    cr_expect_leq(l.limit.peak, (double)(32 << 20), "%g", l.limit.peak);
    cr_expect(gc > 0.4 * cpu && gc < 0.5 * cpu, "%g of %g", gc, cpu);
    cr_expect_float_eq(gc + asleep, cpu, 1e-6 * cpu, "%g and %g of %g", gc, asleep, cpu);
}

/* ---- live ---- */

static struct limit_result live(enum limit_kind kind, bool limited, double seconds)
{
    struct limit_options o = options(seconds);
    struct limit_result r = {0};
    char why[200] = "";
    enum limit_end end =
        limit_child(&o, &limit_scenarios[kind], limited, NULL, NULL, &r, why, sizeof why);
    cr_assert_eq(end, LIMIT_END_RESULT, "%s", why);
    cr_assert(r.done);
    return r;
}

/* The bucket holds BURST_S of each proc's time, which may be more of what a busy machine gives. */
static void expect_half(const struct limit_result *r)
{
    const double *f = r->figure;
    double burst = (BURST_S + WINDOW_S) / f[LIMIT_SECONDS];
    cr_expect_leq(f[LIMIT_GC_SHARE], HALF + burst, "%g of all", f[LIMIT_GC_SHARE]);
    cr_expect_leq(f[LIMIT_GC_USED], 0.05 + HALF + burst / f[LIMIT_CPU_USED], "%g of what was used",
                  f[LIMIT_GC_USED]);
}

Test(sim_limit, live_below, .timeout = 120)
{
    struct limit_result off = live(LIMIT_BELOW, false, 0.5), on = live(LIMIT_BELOW, true, 1.2);
    expect_half(&on);
    cr_expect_eq(off.figure[LIMIT_PASSED], 0);
    cr_expect_eq(off.figure[LIMIT_LIMITER_NS], 0);
    cr_expect_eq(on.figure[LIMIT_PASSED], 1, "told %g times", on.figure[LIMIT_PASSED]);
    cr_expect_gt(on.figure[LIMIT_CYCLES], 0);
    cr_expect_gt(on.figure[LIMIT_PEAK_OVER], 1);
    cr_expect_gt(on.figure[LIMIT_OPS_PER_CPU], 0.15 * off.figure[LIMIT_OPS_PER_CPU],
                 "no progress: %g of %g", on.figure[LIMIT_OPS_PER_CPU],
                 off.figure[LIMIT_OPS_PER_CPU]);
    cr_expect(isnan(on.figure[LIMIT_OTHER_OPS]));
}

Test(sim_limit, live_leak, .timeout = 120)
{
    struct limit_result off = live(LIMIT_LEAK, false, 0.5), on = live(LIMIT_LEAK, true, 1.2);
    expect_half(&on);
    cr_expect_geq(on.figure[LIMIT_PASSED], 1);
    cr_expect_gt(on.figure[LIMIT_PEAK_OVER], 1);
    cr_expect_gt(on.figure[LIMIT_AFTER_OPS], 0.15 * off.figure[LIMIT_AFTER_OPS],
                 "no progress past the limit: %g of %g", on.figure[LIMIT_AFTER_OPS],
                 off.figure[LIMIT_AFTER_OPS]);
}

Test(sim_limit, live_hard, .timeout = 120)
{
    struct limit_result on = live(LIMIT_HARD, true, 1.5);
    cr_expect_leq(on.figure[LIMIT_GC_SHARE], HALF + (BURST_S + WINDOW_S) / 1.5, "%g of all",
                  on.figure[LIMIT_GC_SHARE]);
    cr_expect_geq(on.figure[LIMIT_REFUSED], 1);
    cr_expect_geq(on.figure[LIMIT_NO_MEMORY], 1);
    cr_expect_eq(on.figure[LIMIT_LET_GO], on.figure[LIMIT_NO_MEMORY],
                 "each call of the hook lets the cache go once, and that is enough: %g, %g",
                 on.figure[LIMIT_LET_GO], on.figure[LIMIT_NO_MEMORY]);
    cr_expect_gt(on.figure[LIMIT_AFTER_OPS], 0, "it goes on");
    cr_expect_leq(on.figure[LIMIT_PEAK_OVER], 1.25, "%g", on.figure[LIMIT_PEAK_OVER]);
    cr_expect_gt(on.figure[LIMIT_OTHER_OPS], 50, "the other runtime stood still: %g",
                 on.figure[LIMIT_OTHER_OPS]);
}

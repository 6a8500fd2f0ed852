/* scale_check.c: predicted latency beside that of live kv runs, at 1 and 2 procs and three loads.
 *
 * The live run and the simulation have the same parameters; the loads are shares of what the
 * machine's profile says a proc can serve. A live run on a disturbed machine proves nothing: how
 * busy others were is printed beside it. --report draws the pairs, with the line on which they
 * would lie if all predictions were exact.
 */
#include "sim/kv_child.h"
#include "sim/memory.h"
#include "sim/report.h"
#include "sim/scale.h"
#include "sim/sim.h"
#include "sim/stats.h"
#include "sim/text.h"
#include <math.h>
#include <string.h>

#define LIVE_SECONDS  4
#define ROUNDS        3 /* live runs of each */
#define LOADS         3
#define TOLERANCE     0.25
#define PROCS         2
#define CHECKED_MAX   (PROCS * LOADS)
#define CHECK_COLUMNS 13

static const double load_at[LOADS] = {0.25, 0.4, 0.55};

struct checked {
    int procs;
    double rate;
    struct kv_result live, predicted;
};

static int stop_asked(void) { return sim_interrupts(NULL) > 0; }

/* One live run. */
static bool run_live(const struct scale_options *here, int round, struct kv_result *r)
{
    char why[240];
    struct kv_policy policy = {"max:5", false};
    if (kv_child(&here->load, &policy, round + 1, NULL, NULL, r, why, sizeof why) ==
        KV_CHILD_RESULT)
        return true;
    fprintf(stderr, "hedge-sim scale: --check: the live run failed: %s\n", why);
    return false;
}

/* A machine that others share has bad moments: each figure is the median of the live runs. */
static void take_medians(const struct kv_result live[ROUNDS], struct kv_result *r)
{
    double v[ROUNDS];
    for (int m = 0; m < KV_METRICS; m++) {
        for (int i = 0; i < ROUNDS; i++)
            v[i] = live[i].metric[m];
        r->metric[m] = sim_median(v, ROUNDS);
    }
}

static bool run_both(const struct scale_options *opt, struct checked *c)
{
    struct kv_result live[ROUNDS];
    struct scale_options here = *opt;
    bool ok = true;
    memset(live, 0, sizeof live);
    struct kv_policy policy = {"max:5", false};
    here.load.procs = c->procs;
    here.load.rate = c->rate;
    here.load.duration_s = LIVE_SECONDS;
    here.load.warmup_s = 1;
    here.load.report = NULL;
    for (int i = 0; i < ROUNDS && ok; i++)
        ok = run_live(&here, i, &live[i]);
    if (ok)
        take_medians(live, &c->live);
    for (int i = 0; i < ROUNDS; i++)
        kv_result_free(&live[i]);
    if (!ok)
        return false;
    scale_run(&here, &policy, 1, stop_asked, &c->predicted, NULL);
    return !c->predicted.interrupted;
}

/* Prints one quantile of both; returns whether they agree. */
static bool print_pair(const struct checked *c, enum kv_metric m)
{
    char a[32], b[32];
    double predicted = c->predicted.metric[m], live = c->live.metric[m];
    printf(" %8s %8s %5.2f", text_ms(predicted, a), text_ms(live, b), predicted / live);
    return fabs(predicted / live - 1) <= TOLERANCE;
}

static int print_line(const struct checked *c)
{
    char count[32];
    int agree = 0;
    printf("%5d %8s", c->procs, text_count(c->rate, count));
    agree += print_pair(c, KV_P50);
    agree += print_pair(c, KV_P99);
    print_pair(c, KV_P999);
    printf(
        "\n%8s cycles %.0f live %.0f; GC CPU %.1f live %.1f %%; others %.2f CPUs, stolen %.1f %%\n",
        "", c->predicted.metric[KV_CYCLES], c->live.metric[KV_CYCLES],
        100 * c->predicted.metric[KV_GC_CPU_SHARE], 100 * c->live.metric[KV_GC_CPU_SHARE],
        c->live.metric[KV_FOREIGN_CPU], 100 * c->live.metric[KV_STEAL_SHARE]);
    fflush(stdout);
    return agree;
}

/* ---- the page ---- */

#define QUANTILES 3
static const enum kv_metric quantile_at[QUANTILES] = {KV_P50, KV_P99, KV_P999};
static const char *const quantile_name[QUANTILES] = {"p50", "p99", "p99.9"};

static void plot_checked(struct sim_report *page, const struct checked *c, size_t n)
{
    double x[QUANTILES][CHECKED_MAX], y[QUANTILES][CHECKED_MAX];
    struct sim_series series[QUANTILES];
    for (int k = 0; k < QUANTILES; k++) {
        for (size_t i = 0; i < n; i++) {
            x[k][i] = c[i].live.metric[quantile_at[k]] / 1e6;
            y[k][i] = c[i].predicted.metric[quantile_at[k]] / 1e6;
        }
        series[k] = (struct sim_series){quantile_name[k], x[k], y[k], n, SIM_PLOT_POINTS};
    }
    struct sim_plot plot = {.title = "Predicted against measured latency",
                            .x_label = "measured, ms",
                            .y_label = "predicted, ms",
                            .series = series,
                            .n = QUANTILES,
                            .log_x = true,
                            .log_y = true,
                            .diagonal = true};
    sim_report_plot(page, &plot);
}

static void table_checked(struct sim_report *page, const struct checked *c, size_t n)
{
    static const char *const head[CHECK_COLUMNS] = {
        "procs",    "op/s",      "p50, ms",  "measured",    "p99, ms",  "measured",    "p99.9, ms",
        "measured", "GC CPU, %", "measured", "collections", "measured", "others, CPUs"};
    const char *cell[(CHECKED_MAX + 1) * CHECK_COLUMNS];
    char text[CHECKED_MAX][CHECK_COLUMNS][32];
    memcpy(cell, head, sizeof head);
    for (size_t i = 0; i < n; i++) {
        const double *p = c[i].predicted.metric, *l = c[i].live.metric;
        char(*t)[32] = text[i];
        snprintf(t[0], 32, "%d", c[i].procs);
        text_count(c[i].rate, t[1]);
        for (int k = 0; k < QUANTILES; k++) {
            text_ms(p[quantile_at[k]], t[2 + 2 * k]);
            text_ms(l[quantile_at[k]], t[3 + 2 * k]);
        }
        snprintf(t[8], 32, "%.1f", 100 * p[KV_GC_CPU_SHARE]);
        snprintf(t[9], 32, "%.1f", 100 * l[KV_GC_CPU_SHARE]);
        snprintf(t[10], 32, "%.0f", p[KV_CYCLES]);
        snprintf(t[11], 32, "%.0f", l[KV_CYCLES]);
        snprintf(t[12], 32, "%.2f", l[KV_FOREIGN_CPU]);
        for (int k = 0; k < CHECK_COLUMNS; k++)
            cell[(i + 1) * CHECK_COLUMNS + (size_t)k] = t[k];
    }
    sim_report_table(page, "Predicted, and beside it measured", CHECK_COLUMNS, n + 1, cell);
}

/* 0 or -1. */
static int write_page(const struct scale_options *opt, const struct checked *c, size_t n, int agree)
{
    char why[400], subtitle[200];
    snprintf(subtitle, sizeof subtitle, "machine %.80s; %d connections, policy max:5, %d s each",
             opt->machine.name, opt->load.conns, LIVE_SECONDS);
    struct sim_report *page = sim_report_begin("hedge-sim scale --check", subtitle);
    sim_report_textf(page, "%d of %zu p50 and p99 are within %.0f %% of what was measured.", agree,
                     2 * n, 100 * TOLERANCE);
    plot_checked(page, c, n);
    table_checked(page, c, n);
    if (sim_report_end(page, opt->load.report, why, sizeof why) == 0)
        return 0;
    fprintf(stderr, "hedge-sim scale: --report: cannot write \"%s\": %s\n", opt->load.report, why);
    return -1;
}

/* ---- all runs ---- */

int scale_check(const struct scale_options *opt)
{
    int agree = 0, signal = 0;
    size_t done = 0;
    struct checked all[CHECKED_MAX];
    bool failed = false;
    printf("machine   %.69s\n", opt->machine.name);
    printf("latency, ms: predicted, live, their ratio; %d connections, policy max:5\n\n",
           opt->load.conns);
    printf("%5s %8s %17s %5s %17s %5s %17s %5s\n", "procs", "op/s", "p50", "", "p99", "", "p99.9",
           "");
    for (int procs = 1; procs <= PROCS && !failed; procs++)
        for (int i = 0; i < LOADS && !failed && !stop_asked(); i++) {
            struct checked *c = &all[done];
            *c = (struct checked){.procs = procs};
            c->rate = round(load_at[i] * procs * 1e6 / scale_service_ns(opt)) * 1e3;
            failed = !run_both(opt, c);
            if (!failed) {
                agree += print_line(c);
                done++;
            }
            kv_result_free(&c->live);
            kv_result_free(&c->predicted);
        }
    printf("\n%d of %zu p50 and p99 are within %.0f %%\n", agree, 2 * done, 100 * TOLERANCE);
    if (opt->load.report != NULL && done > 0)
        failed |= write_page(opt, all, done, agree) != 0;
    if (sim_interrupts(&signal) > 0)
        return SIM_SIGNAL + signal;
    return failed ? SIM_FAILED : SIM_OK;
}

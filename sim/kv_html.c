/* kv_html.c: the page of a comparison (--report) of kv or scale: where a recorded program's
 * quantities come from, latency percentiles, figures of
 * each policy, heap and goal over time or by cycle, the collector's share, and where the time of
 * slow requests went. What a program does not know takes no place on its page. */
#include "sim/hist.h"
#include "sim/kv.h"
#include "sim/memory.h"
#include "sim/report.h"
#include "sim/stats.h"
#include "sim/text.h"
#include <math.h>
#include <string.h>

#define CURVE_POINTS 200
#define HEAP_POINTS  2000 /* a plot of more is slow to show and no clearer */
#define HEAP_CURVES  4
#define MIB          1048576.0

/* ---- percentiles ---- */

/* All requests of a policy, over its repetitions. */
static void merge_histograms(const struct kv_runs *runs, const char *policy, hg_histogram *h)
{
    hg_histogram_reset(h);
    for (int i = 0; i < runs->n; i++) {
        const struct kv_result *r = &runs->run[i];
        if (strcmp(r->policy, policy) != 0)
            continue;
        for (size_t k = 0; k < r->histogram.rows; k++) {
            const double *row = &r->histogram.cell[k * KV_HIST_COLUMNS];
            if (!(row[0] >= 0 && row[0] < HG_HISTOGRAM_BUCKETS))
                continue;
            h->count[(unsigned)row[0]] += (uint64_t)row[1];
            h->total += (uint64_t)row[1];
        }
        h->max = r->metric[KV_MAX] > (double)h->max ? (int64_t)r->metric[KV_MAX] : h->max;
    }
}

/* Quantiles at even steps of log(1 / (1 - q)), as far as there are requests for them. */
static size_t curve(const hg_histogram *h, double *x, double *y)
{
    size_t n = 0;
    double most = (double)h->total;
    for (; n < CURVE_POINTS && h->total > 0; n++) {
        x[n] = pow(most, (double)n / (CURVE_POINTS - 1));
        double q = 1 - 1 / x[n];
        y[n] = (double)hg_histogram_quantile(h, q) / 1e6;
    }
    return n;
}

static void latency_plot(struct sim_report *page, const struct kv_runs *runs,
                         const struct kv_summary *s)
{
    static const struct sim_tick tick[] = {{1, "0"},           {2, "50"},       {10, "90"},
                                           {100, "99"},        {1000, "99.9"},  {10000, "99.99"},
                                           {100000, "99.999"}, {1e6, "99.9999"}};
    struct sim_series series[KV_POLICIES_MAX];
    double(*x)[CURVE_POINTS] = sim_alloc(KV_POLICIES_MAX, sizeof *x);
    double(*y)[CURVE_POINTS] = sim_alloc(KV_POLICIES_MAX, sizeof *y);
    hg_histogram *h = sim_alloc(1, sizeof *h);
    for (int i = 0; i < s->policies; i++) {
        merge_histograms(runs, s->policy[i].policy, h);
        size_t n = curve(h, x[i], y[i]);
        series[i] = (struct sim_series){s->policy[i].policy, x[i], y[i], n, SIM_PLOT_LINES};
    }
    struct sim_plot plot = {.title = "Latency from the intended start",
                            .x_label = "percentile",
                            .y_label = "ms",
                            .series = series,
                            .n = (size_t)s->policies,
                            .x_tick = tick,
                            .x_ticks = sizeof tick / sizeof *tick,
                            .log_x = true,
                            .log_y = true};
    sim_report_plot(page, &plot);
    free(h);
    free(x);
    free(y);
}

/* ---- the table ---- */

static const struct {
    const char *label;
    enum kv_metric metric;
    double unit;
    const char *format;
} lines[] = {{"p50, ms", KV_P50, 1e6, "%.3f"},
             {"p99, ms", KV_P99, 1e6, "%.3f"},
             {"p99.9, ms", KV_P999, 1e6, "%.3f"},
             {"max, ms", KV_MAX, 1e6, "%.3f"},
             {"achieved, op/s", KV_ACHIEVED_RATE, 1, "%.0f"},
             {"collections", KV_CYCLES, 1, "%.0f"},
             {"GC CPU, %", KV_GC_CPU_SHARE, 0.01, "%.2f"},
             {"assist, % of GC", KV_ASSIST_SHARE, 0.01, "%.2f"},
             {"hold p99.9, us", KV_HOLD_P999, 1e3, "%.1f"},
             {"live heap, MiB", KV_LIVE_HEAP, MIB, "%.1f"},
             {"peak heap, MiB", KV_PEAK_HEAP, MIB, "%.1f"},
             {"resident, MiB", KV_MAX_RSS, MIB, "%.1f"}};
#define LINES (sizeof lines / sizeof *lines)

/* Which figures any policy has; returns how many. */
static size_t known_lines(const struct kv_summary *s, size_t *known)
{
    size_t n = 0;
    for (size_t k = 0; k < LINES; k++) {
        bool any = false;
        for (int i = 0; i < s->policies; i++)
            any |= !isnan(s->policy[i].median[lines[k].metric]);
        if (any)
            known[n++] = k;
    }
    return n;
}

static void put_figure(char *into, const struct kv_policy_summary *p, size_t line)
{
    double v = p->median[lines[line].metric] / lines[line].unit;
    if (lines[line].metric == KV_P999 && p->few_cycles)
        snprintf(into, 32, "too few");
    else if (isnan(v))
        snprintf(into, 32, "-");
    else
        snprintf(into, 32, lines[line].format, v);
}

static void figures_table(struct sim_report *page, const struct kv_summary *s)
{
    size_t known[LINES], columns = known_lines(s, known) + 1, rows = (size_t)s->policies + 1;
    const char **cell = sim_alloc(columns * rows, sizeof *cell);
    char(*text)[32] = sim_alloc(columns * rows, sizeof *text);
    cell[0] = "policy";
    for (size_t k = 1; k < columns; k++)
        cell[k] = lines[known[k - 1]].label;
    for (size_t i = 1; i < rows; i++) {
        cell[i * columns] = s->policy[i - 1].policy;
        for (size_t k = 1; k < columns; k++) {
            put_figure(text[i * columns + k], &s->policy[i - 1], known[k - 1]);
            cell[i * columns + k] = text[i * columns + k];
        }
    }
    sim_report_table(page, "Medians of the repetitions", columns, rows, cell);
    free(cell);
    free(text);
}

/* ---- heap over time ---- */

struct heap_curve {
    const char *name;
    int column; /* of the table, kv_files.c */
};

/* n curves over the seconds in column `at`, of at most HEAP_POINTS rows. */
static void heap_plot(struct sim_report *page, const char *title, const struct kv_table *t, int at,
                      const struct heap_curve *curve, size_t n)
{
    size_t points = t->rows < HEAP_POINTS ? t->rows : HEAP_POINTS;
    struct sim_series series[HEAP_CURVES];
    double *x = sim_alloc(points, sizeof *x), *y[HEAP_CURVES];
    for (size_t k = 0; k < n; k++) {
        y[k] = sim_alloc(points, sizeof **y);
        for (size_t i = 0; i < points; i++) {
            const double *row = &t->cell[i * t->columns];
            x[i] = row[at];
            y[k][i] = row[curve[k].column] < 1e15 ? row[curve[k].column] / MIB : (double)NAN;
        }
        series[k] = (struct sim_series){curve[k].name, x, y[k], points, SIM_PLOT_LINES};
    }
    struct sim_plot plot = {.title = title,
                            .x_label = "seconds",
                            .y_label = "MiB",
                            .series = series,
                            .n = n,
                            .from_zero = true};
    sim_report_plot(page, &plot);
    for (size_t k = 0; k < n; k++)
        free(y[k]);
    free(x);
}

/* Over time, where that was sampled, or else at each collection. */
static bool heap_of(struct sim_report *page, const struct kv_result *r)
{
    static const struct heap_curve over_time[] = {
        {"goal", 6}, {"trigger", 7}, {"allocated or live", 5}};
    static const struct heap_curve by_cycle[] = {
        {"goal", 8}, {"trigger", 9}, {"at the end of marking", 6}, {"live after it", 7}};
    char title[160], few[32], all[32], part[80] = "";
    const struct kv_table *t = &r->cycles;
    if (r->series.rows > 0) {
        snprintf(title, sizeof title, "Heap, trigger and goal: %s", r->policy);
        heap_plot(page, title, &r->series, 0, over_time, 3);
        return true;
    }
    if (t->rows == 0)
        return false;
    if (t->rows > HEAP_POINTS)
        snprintf(part, sizeof part, " (the first %s of %s)", text_count(HEAP_POINTS, few),
                 text_count((double)t->rows, all));
    snprintf(title, sizeof title, "Heap and goal at each collection: %s%s", r->policy, part);
    heap_plot(page, title, t, 3, by_cycle, 4);
    return true;
}

/* The first repetition of each policy. */
static void heap_plots(struct sim_report *page, const struct kv_runs *runs)
{
    bool any = false;
    for (int i = 0; i < runs->n; i++) {
        const struct kv_result *r = &runs->run[i];
        if (!r->gc || r->repetition != 1)
            continue;
        if (!any && r->series.rows + r->cycles.rows > 0)
            sim_report_heading(page, "Heap");
        any |= heap_of(page, r);
    }
}

/* ---- bars ---- */

static void share_plot(struct sim_report *page, const struct kv_summary *s)
{
    struct sim_tick tick[KV_POLICIES_MAX];
    double x[KV_POLICIES_MAX], assist[KV_POLICIES_MAX], gc[KV_POLICIES_MAX];
    size_t n = 0;
    for (int i = 0; i < s->policies; i++) {
        if (!s->policy[i].gc)
            continue;
        x[n] = (double)n;
        assist[n] = 100 * s->policy[i].median[KV_ASSIST_SHARE];
        gc[n] = 100 * s->policy[i].median[KV_GC_CPU_SHARE];
        tick[n] = (struct sim_tick){(double)n, s->policy[i].policy};
        n++;
    }
    if (n == 0)
        return;
    sim_report_heading(page, "Collector");
    struct sim_series series[2] = {{"assist, % of GC CPU", x, assist, n, SIM_PLOT_BARS},
                                   {"GC CPU, % of procs", x, gc, n, SIM_PLOT_BARS}};
    struct sim_plot plot = {.title = "Assist share by policy",
                            .x_label = "",
                            .y_label = "%",
                            .series = series,
                            .n = 2,
                            .x_tick = tick,
                            .x_ticks = n,
                            .from_zero = true};
    sim_report_plot(page, &plot);
}

/* Of a policy's slow time, the share of one part, in per cent. */
static double blame_share(const struct kv_policy_summary *p, int part)
{
    double all = 0;
    for (int k = 0; k < KV_PARTS; k++)
        all += p->blame[0].ns[k] + p->blame[1].ns[k];
    return all > 0 ? 100 * (p->blame[0].ns[part] + p->blame[1].ns[part]) / all : (double)NAN;
}

static void blame_plot(struct sim_report *page, const struct kv_summary *s)
{
    struct sim_tick tick[KV_POLICIES_MAX];
    struct sim_series series[KV_PARTS];
    double x[KV_POLICIES_MAX], y[KV_PARTS][KV_POLICIES_MAX];
    bool known = false;
    for (int i = 0; i < s->policies; i++) {
        known |= !isnan(blame_share(&s->policy[i], 0));
        x[i] = i;
        tick[i] = (struct sim_tick){i, s->policy[i].policy};
        for (int k = 0; k < KV_PARTS; k++)
            y[k][i] = blame_share(&s->policy[i], k);
    }
    if (!known)
        return;
    sim_report_heading(page, "Blame");
    for (int k = 0; k < KV_PARTS; k++)
        series[k] =
            (struct sim_series){kv_part_text[k], x, y[k], (size_t)s->policies, SIM_PLOT_BARS};
    struct sim_plot plot = {.title = "Where requests above p99 spent their time",
                            .x_label = "",
                            .y_label = "% of their time",
                            .series = series,
                            .n = KV_PARTS,
                            .x_tick = tick,
                            .x_ticks = (size_t)s->policies,
                            .from_zero = true};
    sim_report_plot(page, &plot);
}

/* The text report's comparison and warnings say what may be concluded: they belong on the page. */
static void remarks(struct sim_report *page, const struct kv_options *opt,
                    const struct kv_runs *runs, const struct kv_summary *s)
{
    char *text = NULL, *rest, *line;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    if (out == NULL)
        return;
    kv_report_warnings(out, opt, runs);
    fclose(out);
    rest = text;
    while ((line = strsep(&rest, "\n")) != NULL)
        if (line[0] != 0)
            sim_report_text(page, line);
    free(text);
    if (s->reference < 0)
        return;
    const char *reference = s->policy[s->reference].policy;
    double *a = sim_alloc((size_t)runs->n, sizeof *a), *b = sim_alloc((size_t)runs->n, sizeof *b);
    for (int i = 0; i < s->policies; i++) {
        if (i == s->reference)
            continue;
        size_t n = kv_pairs(runs, s->policy[i].policy, reference, KV_P99, a, b);
        struct sim_ratio r = sim_compare(a, b, n);
        if (r.verdict == SIM_TOO_FEW)
            sim_report_textf(page, "p99 of %s is %.3g times that of %s (too few repetitions).",
                             s->policy[i].policy, r.ratio, reference);
        else
            sim_report_textf(page, "p99 of %s is %.3g times that of %s (95 %%: %.3g to %.3g): %s.",
                             s->policy[i].policy, r.ratio, reference, r.low, r.high,
                             sim_verdict_text(r.verdict));
    }
    free(a);
    free(b);
}

/* Where the program comes from, if it was recorded. */
static void recorded(struct sim_report *page, const struct kv_options *opt)
{
    size_t rows = (size_t)opt->notes + 1;
    if (opt->recorded == NULL)
        return;
    const char **cell = sim_alloc(2 * rows, sizeof *cell);
    cell[0] = "source";
    cell[1] = "quantity";
    for (size_t i = 1; i < rows; i++) {
        cell[2 * i] = opt->note[i - 1].source;
        cell[2 * i + 1] = opt->note[i - 1].text;
    }
    sim_report_heading(page, "The recorded program");
    sim_report_text(page, opt->recorded);
    sim_report_table(page, "", 2, rows, cell);
    free(cell);
}

int kv_html_write(const struct kv_options *opt, const struct sim_machine *m,
                  const struct kv_runs *runs, char *why, size_t room)
{
    struct kv_summary s;
    char subtitle[400], conns[32], rate[32], store[64];
    kv_summarise(runs, &s);
    snprintf(store, sizeof store, "%d keys of %d bytes", opt->keys, opt->value_bytes);
    snprintf(subtitle, sizeof subtitle,
             "%s connections, %s op/s, %.120s, GOGC %d; %d CPUs (%.60s), %.60s",
             text_count(opt->conns, conns), text_count(opt->rate, rate),
             opt->about != NULL ? opt->about : store, opt->gogc, m->cpus,
             m->cpu[0] != 0 ? m->cpu : "unknown", m->kernel);
    struct sim_report *page = sim_report_begin(opt->program, subtitle);
    if (runs->skipped[0] != 0)
        sim_report_text(page, runs->skipped);
    recorded(page, opt);
    sim_report_heading(page, "Latency");
    latency_plot(page, runs, &s);
    remarks(page, opt, runs, &s);
    figures_table(page, &s);
    heap_plots(page, runs);
    share_plot(page, &s);
    blame_plot(page, &s);
    return sim_report_end(page, opt->report, why, room);
}

/* replay_report.c: the page of a replay: what was read, heaps and goals over time, ratios and
 * estimates, where the collector's CPU time went, and the policies. */
#include "sim/memory.h"
#include "sim/replay.h"
#include "sim/report.h"
#include "sim/text.h"
#include <math.h>
#include <string.h>

#define DRAWN 6 /* processes; more are in the table alone */

/* One figure of all cycles, scaled; forced ones are gaps. For the caller to free. */
static double *column(const struct sim_trace_process *p,
                      double (*of)(const struct sim_trace_cycle *), double unit)
{
    double *v = sim_alloc(p->cycles, sizeof *v);
    for (size_t i = 0; i < p->cycles; i++)
        v[i] = p->cycle[i].forced ? (double)NAN : of(&p->cycle[i]) / unit;
    return v;
}

/* The x axis: seconds where every cycle has its time, else the cycles counted. */
static double *times(const struct sim_trace_process *p, const char **label)
{
    double *x = sim_alloc(p->cycles, sizeof *x);
    bool known = true;
    for (size_t i = 0; i < p->cycles; i++)
        known &= isfinite(p->cycle[i].at_s);
    for (size_t i = 0; i < p->cycles; i++)
        x[i] = known ? p->cycle[i].at_s : (double)(i + 1);
    *label = known ? "seconds since the start" : "cycle";
    return x;
}

static double (*figure(const char *name))(const struct sim_trace_cycle *)
{
    for (int i = 0; i < REPLAY_FIGURES; i++)
        if (strcmp(replay_figure[i].name, name) == 0)
            return replay_figure[i].of;
    abort(); /* a name below that is not in the table */
}

struct curve {
    const char *name, *figure;
};

static void plot_figures(struct sim_report *page, const struct sim_trace_process *p,
                         const char *title, const char *y_label, double unit,
                         const struct curve *curve, size_t n)
{
    struct sim_series s[4];
    struct sim_plot plot = {.title = title, .y_label = y_label, .series = s, .n = n};
    double *x = times(p, &plot.x_label), *y[4];
    plot.from_zero = true;
    for (size_t k = 0; k < n; k++) {
        y[k] = column(p, figure(curve[k].figure), unit);
        s[k] = (struct sim_series){curve[k].name, x, y[k], p->cycles, SIM_PLOT_LINES};
    }
    sim_report_plot(page, &plot);
    for (size_t k = 0; k < n; k++)
        free(y[k]);
    free(x);
}

static void plot_ratios(struct sim_report *page, const struct replay_result *r)
{
    const struct sim_trace_process *p = r->process;
    struct sim_series s[REPLAY_POLICIES_MAX + 2];
    struct sim_plot plot = {.title = "cons/mark: measured, and what policies expected",
                            .y_label = "cons/mark",
                            .series = s,
                            .n = 1 + (size_t)r->verdicts,
                            .log_y = true};
    double *x = times(p, &plot.x_label), *measured = column(p, figure("cons_mark"), 1);
    s[0] = (struct sim_series){"measured", x, measured, p->cycles, SIM_PLOT_POINTS};
    for (int i = 0; i < r->verdicts; i++)
        s[i + 1] = (struct sim_series){r->verdict[i].policy, x, r->verdict[i].estimate, p->cycles,
                                       SIM_PLOT_LINES};
    sim_report_plot(page, &plot);
    free(measured);
    free(x);
}

static void plot_late(struct sim_report *page, const struct replay_result *r)
{
    struct sim_tick tick[REPLAY_POLICIES_MAX + 1];
    double x[REPLAY_POLICIES_MAX + 1], late[REPLAY_POLICIES_MAX + 1],
        missed[REPLAY_POLICIES_MAX + 1];
    size_t n = 0;
    for (int i = 0; i < r->verdicts; i++) {
        if (r->verdict[i].judged == 0)
            continue;
        x[n] = (double)n;
        late[n] = 100 * r->verdict[i].late_share;
        missed[n] = 100 * r->verdict[i].short_share;
        tick[n] = (struct sim_tick){(double)n, r->verdict[i].policy};
        n++;
    }
    struct sim_series s[2] = {{"estimate too low", x, late, n, SIM_PLOT_BARS},
                              {"runway too short", x, missed, n, SIM_PLOT_BARS}};
    struct sim_plot plot = {.title = "Cycles that would have been late",
                            .x_label = "",
                            .y_label = "% of cycles",
                            .series = s,
                            .n = 2,
                            .x_tick = tick,
                            .x_ticks = n,
                            .from_zero = true};
    sim_report_plot(page, &plot);
}

#define VERDICT_COLUMNS 7

static void cell(char *buffer, double v, double unit, const char *format)
{
    if (isnan(v))
        snprintf(buffer, 32, "-");
    else
        snprintf(buffer, 32, format, v / unit);
}

static void verdict_table(struct sim_report *page, const struct replay_result *r)
{
    static const char *const head[VERDICT_COLUMNS] = {
        "policy", "cycles", "late, %", "short, %", "worst by, %", "est./meas.", "unused, %"};
    const char *cells[(REPLAY_POLICIES_MAX + 2) * VERDICT_COLUMNS];
    char text[REPLAY_POLICIES_MAX + 1][VERDICT_COLUMNS][32];
    memcpy(cells, head, sizeof head);
    for (int i = 0; i < r->verdicts; i++) {
        const struct replay_verdict *v = &r->verdict[i];
        snprintf(text[i][1], 32, "%zu", v->judged);
        cell(text[i][2], v->late_share, 0.01, "%.1f");
        cell(text[i][3], v->short_share, 0.01, "%.1f");
        cell(text[i][4], v->short_worst, 0.01, "%.0f");
        cell(text[i][5], v->early, 1, "%.2f");
        cell(text[i][6], v->unused, 0.01, "%.1f");
        const char **row = &cells[(i + 1) * VERDICT_COLUMNS];
        row[0] = v->policy;
        for (int k = 1; k < VERDICT_COLUMNS; k++)
            row[k] = text[i][k];
    }
    sim_report_table(page, "What each policy would have expected", VERDICT_COLUMNS,
                     (size_t)r->verdicts + 1, cells);
}

static void process_section(struct sim_report *page, const struct replay_result *r)
{
    static const struct curve heap[] = {{"goal", "goal"},
                                        {"at the end of marking", "heap_at_end"},
                                        {"at its start", "heap_at_start"},
                                        {"live", "live"}};
    static const struct curve cpu[] = {
        {"assist", "assist_ms"}, {"background", "background_ms"}, {"idle", "idle_ms"}};
    static const struct curve work[] = {{"heap", "scanned_heap"}, {"stacks", "scanned_stack"}};
    char name[200];
    snprintf(name, sizeof name, "Process %s", r->process->name);
    sim_report_heading(page, name);
    sim_report_textf(page,
                     "%zu cycles, %zu of them forced, %zu not in the log; %zu with a line of "
                     "gcpacertrace.",
                     r->process->cycles, r->forced, r->process->missing, r->paced);
    plot_figures(page, r->process, "Heap and goal", "MiB", 1048576, heap, 4);
    plot_figures(page, r->process, "The collector's CPU time, per cycle", "CPU ms", 1, cpu, 3);
    if (r->paced > 0)
        plot_figures(page, r->process, "Scan work, per cycle", "MiB", 1048576, work, 2);
    if (r->verdicts == 0) {
        sim_report_text(page, "Policies were not asked: that needs lines of gcpacertrace, or "
                              "scan work that is assumed (--assume).");
        return;
    }
    plot_ratios(page, r);
    plot_late(page, r);
    verdict_table(page, r);
}

int replay_write_report(const struct replay *r, char *why, size_t room)
{
    char subtitle[200];
    const struct sim_trace *t = &r->trace;
    snprintf(subtitle, sizeof subtitle,
             "%zu lines read: %zu of gctrace, %zu of gcpacertrace, %zu skipped", t->lines,
             t->gc_lines, t->pacer_lines, t->skipped);
    struct sim_report *page = sim_report_begin("hedge-sim replay", subtitle);
    if (!isnan(r->opt.how.assume_scan))
        sim_report_text(page, "Scan work was assumed where the log does not give it, and sizes are "
                              "rounded to MB there: such ratios may be off several times.");
    for (size_t i = 0; i < r->results && i < DRAWN; i++)
        process_section(page, &r->result[i]);
    if (r->results > DRAWN)
        sim_report_textf(page, "%zu more processes are not drawn; --pid picks one.",
                         r->results - DRAWN);
    return sim_report_end(page, r->opt.report, why, room);
}

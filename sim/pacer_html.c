/* pacer_html.c: the page of `hedge-sim pacer` (--report): for each model what policies cost, as
 * bars with their intervals, and the table that is also printed.
 *
 * Policies lie at whole numbers of the x axis; each set of dampers is a series of bars. An interval
 * is a line from its low to its high end at its bar's place, and all of them are one series.
 */
#include "sim/machine.h"
#include "sim/memory.h"
#include "sim/pacer.h"
#include "sim/report.h"
#include "sim/stats.h"
#include "sim/text.h"
#include <math.h>
#include <string.h>

#define GROUP 0.8 /* width of the bars of one policy, as report_plot.c draws them */

static const struct {
    const char *title, *y_label;
    enum pacer_figure figure;
} plots[] = {{"Assist", "% of GC CPU", PACER_ASSIST_SHARE},
             {"Cycles that end above their goal", "% of cycles", PACER_LATE_SHARE},
             {"Cycles more than " PACER_EDGE, "% per GiB", PACER_EXTRA_SHARE}};

/* Series and their points, in per cent. */
struct bars {
    struct sim_series series[PACER_DAMPINGS_MAX + 1];
    double x[PACER_POLICIES_MAX], y[PACER_DAMPINGS_MAX][PACER_POLICIES_MAX];
    double end_x[3 * PACER_DAMPINGS_MAX * PACER_POLICIES_MAX]; /* low end, high end, a break */
    double end_y[3 * PACER_DAMPINGS_MAX * PACER_POLICIES_MAX];
    size_t ends;
    double least;
};

static void add_interval(struct bars *b, double x, const struct pacer_estimate *e)
{
    const double y[] = {100 * e->low, 100 * e->high, NAN};
    if (isnan(e->low) || isnan(e->high))
        return;
    b->least = fmin(b->least, y[0]);
    for (size_t i = 0; i < 3; i++) {
        b->end_x[b->ends] = x;
        b->end_y[b->ends++] = y[i];
    }
}

/* summary: the model's, dampings x policies. */
static void fill(struct bars *b, const struct pacer_options *opt,
                 const struct pacer_summary *summary, enum pacer_figure figure)
{
    double wide = GROUP / opt->dampings;
    size_t policies = (size_t)opt->policies;
    for (int d = 0; d < opt->dampings; d++) {
        double off = (d - (opt->dampings - 1) / 2.0) * wide;
        for (int p = 0; p < opt->policies; p++, summary++) {
            const struct pacer_estimate *e = &summary->figure[figure];
            b->x[p] = p;
            b->y[d][p] = 100 * e->mean;
            b->least = fmin(b->least, b->y[d][p]);
            add_interval(b, p + off, e);
        }
        b->series[d] = (struct sim_series){opt->dampings > 1 ? opt->damping[d].name : "mean", b->x,
                                           b->y[d], policies, SIM_PLOT_BARS};
    }
    b->series[opt->dampings] =
        (struct sim_series){"95 % interval", b->end_x, b->end_y, b->ends, SIM_PLOT_LINES};
}

static void draw_plots(struct sim_report *page, const struct pacer_options *opt,
                       const struct pacer_summary *summary)
{
    struct sim_tick tick[PACER_POLICIES_MAX];
    for (int p = 0; p < opt->policies; p++)
        tick[p] = (struct sim_tick){p, opt->policy[p].name};
    for (size_t i = 0; i < sizeof plots / sizeof *plots; i++) {
        struct bars *b = sim_alloc(1, sizeof *b);
        char title[120];
        fill(b, opt, summary, plots[i].figure);
        snprintf(title, sizeof title, "%s: %s", summary->model->name, plots[i].title);
        struct sim_plot plot = {.title = title,
                                .x_label = "",
                                .y_label = plots[i].y_label,
                                .series = b->series,
                                .n = (size_t)opt->dampings + 1,
                                .x_tick = tick,
                                .x_ticks = (size_t)opt->policies,
                                .from_zero = b->least > -1e-6};
        sim_report_plot(page, &plot);
        free(b);
    }
}

/* ---- the table ---- */

static const char *const heads[] = {"policy",       "dampers on",   "late, %",   "with assist, %",
                                    "assist, %",    "overshoot, %", "peak/goal", "more cycles, %",
                                    "more heap, %", "GC CPU, %",    "waits, %",  "let go"};
#define COLUMNS (sizeof heads / sizeof *heads)

static void set_row(const char **cell, char (*text)[32], const struct pacer_summary *s)
{
    const struct pacer_estimate *f = s->figure;
    const char *row[COLUMNS] = {
        s->policy,
        s->damping->name,
        pacer_percent(f[PACER_LATE_SHARE].mean, 1, text[0]),
        pacer_percent(f[PACER_ASSIST_CYCLES].mean, 1, text[1]),
        pacer_percent_pm(&f[PACER_ASSIST_SHARE], text[2]),
        pacer_percent(f[PACER_OVERSHOOT_P99].mean, 1, text[3]),
        pacer_number(f[PACER_PEAK_OVER_GOAL].mean, 2, text[4]),
        pacer_percent_pm(&f[PACER_EXTRA_SHARE], text[5]),
        pacer_percent(f[PACER_EXTRA_HEAP].mean, 1, text[6]),
        pacer_percent(f[PACER_GC_CPU_SHARE].mean, 1, text[7]),
        pacer_percent(f[PACER_WAIT_SHARE].mean, 2, text[8]),
        pacer_number(f[PACER_RELEASE].mean, 1, text[9]),
    };
    memcpy(cell, row, sizeof row);
}

static void table(struct sim_report *page, const struct pacer_options *opt,
                  const struct pacer_summary *summary)
{
    size_t rows = (size_t)(opt->dampings * opt->policies);
    const char **cell = sim_alloc((rows + 1) * COLUMNS, sizeof *cell);
    char(*text)[COLUMNS][32] = sim_alloc(rows, sizeof *text);
    memcpy(cell, heads, sizeof heads);
    for (size_t i = 0; i < rows; i++)
        set_row(&cell[(i + 1) * COLUMNS], text[i], &summary[i]);
    sim_report_table(page, "Means over seeds, \xc2\xb1 half of the 95 % interval", COLUMNS,
                     rows + 1, cell);
    free(cell);
    free(text);
}

/* ---- the page ---- */

static void section(struct sim_report *page, const struct pacer_options *opt,
                    const struct pacer_summary *summary)
{
    char heading[160];
    snprintf(heading, sizeof heading, "%s: %s", summary->model->name, summary->model->help);
    sim_report_heading(page, heading);
    if (summary->model == &pacer_model_replay) {
        char *line = pacer_trace_text(opt);
        if (line != NULL)
            sim_report_text(page, line);
        free(line);
    }
    draw_plots(page, opt, summary);
    table(page, opt, summary);
}

int pacer_html_write(const struct pacer_options *opt, const struct pacer_summary *summary,
                     char *why, size_t room)
{
    char subtitle[240], cycles[32];
    int whole = pacer_whole_seeds(opt, summary);
    snprintf(subtitle, sizeof subtitle, "%s cycles, GOGC %d, seeds from %llu on: %d; commit %.50s",
             text_count(opt->cycles, cycles), opt->gogc, (unsigned long long)opt->seed, opt->seeds,
             sim_commit());
    struct sim_report *page = sim_report_begin("hedge-sim pacer", subtitle);
    if (whole < opt->seeds)
        sim_report_textf(page, "The run was ended early: all runs were made of %d seeds.", whole);
    if (opt->seeds < SIM_FEWEST_FOR_INTERVAL)
        sim_report_textf(page, "Intervals need %d seeds or more.", SIM_FEWEST_FOR_INTERVAL);
    sim_report_text(page, "Late cycles end above their goal. Overshoot of the goal is the 99th "
                          "percentile, peak the largest heap over goal. Cycles per GiB of "
                          "allocation, and heap at their end, are compared with " PACER_EDGE
                          ", seed by seed. Let go: cycles that begin too early after the load "
                          "fell.");
    for (int m = 0; m < opt->models; m++)
        section(page, opt, &summary[m * opt->dampings * opt->policies]);
    return sim_report_end(page, opt->report, why, room);
}

/* joined_report.c: joined results as a page: each telling figure over the swept option, a curve for
 * each of the other labels, with the intervals that are known; then the table.
 *
 * The x axis is the first param: a number where all its values are (GOGC), else its values in order
 * of appearance, as ticks.
 */
#include "sim/joined.h"
#include "sim/memory.h"
#include "sim/report.h"
#include <errno.h>
#include <math.h>
#include <string.h>

#define PLOTS  6
#define CURVES 10

struct axis {
    bool numeric;
    struct sim_tick *tick; /* unless numeric: the values */
    size_t ticks;
    double *x; /* of each group */
};

static double number_of(const char *text)
{
    char *end;
    errno = 0;
    double v = strtod(text, &end);
    return *text != 0 && *end == 0 && errno == 0 && isfinite(v) ? v : (double)NAN;
}

static size_t tick_of(struct axis *a, const char *label)
{
    size_t i = 0;
    while (i < a->ticks && strcmp(a->tick[i].label, label) != 0)
        i++;
    if (i == a->ticks)
        a->tick[a->ticks++] = (struct sim_tick){(double)i, label};
    return i;
}

static void lay_axis(const struct sim_joined *j, size_t label, struct axis *a)
{
    a->numeric = true;
    a->x = sim_alloc(j->groups, sizeof *a->x);
    a->tick = sim_alloc(j->groups, sizeof *a->tick);
    a->ticks = 0;
    for (size_t g = 0; g < j->groups; g++) {
        a->x[g] = number_of(j->group[g].label[label]);
        a->numeric &= isfinite(a->x[g]);
    }
    for (size_t g = 0; g < j->groups && !a->numeric; g++)
        a->x[g] = (double)tick_of(a, j->group[g].label[label]);
}

/* A curve's name: the labels but the axis. For the caller to free. */
static char *curve_name(const struct sim_joined *j, const struct sim_row *g, size_t axis)
{
    char *name = NULL;
    size_t length;
    FILE *out = open_memstream(&name, &length);
    if (out == NULL)
        return NULL;
    for (size_t i = 0; i < j->labels; i++) {
        if (i == axis || g->label[i][0] == 0)
            continue;
        fprintf(out, "%s", ftell(out) > 0 ? ", " : "");
        if (i < j->params)
            fprintf(out, "%s ", j->label[i]);
        fputs(g->label[i], out);
    }
    fclose(out);
    return name;
}

/* Curves: groups of one name, by x. */
struct curves {
    char *name[CURVES];
    double *x[CURVES], *y[CURVES], *low[CURVES], *high[CURVES];
    size_t n[CURVES], count, left_out;
};

/* The place at x in curve k: those further on move along. */
static size_t make_place(struct curves *c, size_t k, double x)
{
    size_t at = c->n[k]++;
    for (; at > 0 && c->x[k][at - 1] > x; at--) {
        c->x[k][at] = c->x[k][at - 1];
        c->y[k][at] = c->y[k][at - 1];
        c->low[k][at] = c->low[k][at - 1];
        c->high[k][at] = c->high[k][at - 1];
    }
    return at;
}

/* A group's figure, in units of which each is so many of the figure's own. */
static void enter(struct curves *c, const struct sim_joined *j, char *name, double x,
                  const struct sim_row *g, size_t figure, double unit)
{
    size_t k = 0;
    while (k < c->count && strcmp(c->name[k], name) != 0)
        k++;
    if (k == CURVES) {
        c->left_out++;
        free(name);
        return;
    }
    if (k == c->count) {
        c->name[c->count++] = name;
        double **const column[] = {&c->x[k], &c->y[k], &c->low[k], &c->high[k]};
        for (size_t i = 0; i < sizeof column / sizeof *column; i++)
            *column[i] = sim_alloc(j->groups, sizeof(double));
    } else {
        free(name);
    }
    size_t at = make_place(c, k, x);
    c->x[k][at] = x;
    c->y[k][at] = g->figure[figure] / unit;
    c->low[k][at] = g->low[figure] / unit;
    c->high[k][at] = g->high[figure] / unit;
}

static void free_curves(struct curves *c)
{
    for (size_t k = 0; k < c->count; k++) {
        free(c->name[k]);
        free(c->x[k]);
        free(c->y[k]);
        free(c->low[k]);
        free(c->high[k]);
    }
}

static void plot_figure(struct sim_report *page, const struct sim_joined *j, size_t label,
                        const struct axis *a, size_t figure)
{
    static const char *const unit[] = {"", ", ms", ", MiB", ", %"};
    static const double scale[] = {1, 1e6, 1048576, 0.01};
    struct curves c = {.count = 0};
    struct sim_series s[CURVES];
    struct sim_ends ends[CURVES];
    char y_label[120];
    snprintf(y_label, sizeof y_label, "%.80s%s", j->figure[figure], unit[j->unit[figure]]);
    for (size_t g = 0; g < j->groups; g++) {
        char *name = curve_name(j, &j->group[g], label);
        if (name != NULL)
            enter(&c, j, name, a->x[g], &j->group[g], figure, scale[j->unit[figure]]);
    }
    for (size_t k = 0; k < c.count; k++) {
        s[k] = (struct sim_series){c.name[k], c.x[k], c.y[k], c.n[k], SIM_PLOT_BOTH};
        ends[k] = (struct sim_ends){c.low[k], c.high[k]};
    }
    struct sim_plot plot = {.title = j->figure[figure],
                            .x_label = j->label[label],
                            .y_label = y_label,
                            .series = s,
                            .n = c.count,
                            .ends = ends,
                            .x_tick = a->tick,
                            .x_ticks = a->ticks,
                            .from_zero = true};
    sim_report_plot(page, &plot);
    if (c.left_out > 0)
        sim_report_textf(page, "%zu more points are in the table alone.", c.left_out);
    free_curves(&c);
}

#define SHOWN 12

/* Two rows a group where there are intervals: the figures, and their intervals. */
static void table(struct sim_report *page, const struct sim_joined *j)
{
    static const char *const unit[] = {"", ", ms", ", MiB", ", %"};
    size_t show[SHOWN], n = sim_joined_shown(j, show, SHOWN), columns = j->labels + n;
    bool intervals = sim_joined_has_interval(j, show, n);
    size_t lines = intervals ? 2 : 1, rows = lines * j->groups + 1;
    const char **cell = sim_alloc(rows * columns, sizeof *cell);
    char(*text)[32] = sim_alloc(rows * n, sizeof *text), caption[100];
    char(*head)[120] = sim_alloc(n, sizeof *head);
    for (size_t i = 0; i < j->labels; i++)
        cell[i] = j->label[i];
    for (size_t k = 0; k < n; k++) {
        snprintf(head[k], sizeof head[k], "%.80s%s", j->figure[show[k]], unit[j->unit[show[k]]]);
        cell[j->labels + k] = head[k];
    }
    for (size_t r = 1; r < rows; r++) {
        const struct sim_row *g = &j->group[(r - 1) / lines];
        const char **row = &cell[r * columns];
        bool ends = (r - 1) % lines == 1;
        for (size_t i = 0; i < j->labels; i++)
            row[i] = ends ? "" : g->label[i];
        for (size_t k = 0; k < n; k++) {
            enum sim_unit of = j->unit[show[k]];
            char *into = text[r * n + k];
            row[j->labels + k] = ends ? sim_joined_interval(g, show[k], of, into)
                                      : sim_joined_text(g->figure[show[k]], of, into);
        }
    }
    sim_report_table(page, sim_joined_legend(j, intervals, caption, sizeof caption), columns, rows,
                     cell);
    free(cell);
    free(text);
    free(head);
}

int sim_joined_write_report(const struct sim_joined *j, const char *path, char *why, size_t room)
{
    char subtitle[120];
    size_t show[PLOTS], n = sim_joined_shown(j, show, PLOTS);
    snprintf(subtitle, sizeof subtitle, "%zu runs of %zu results%s", j->rows, j->documents,
             j->interrupted ? "; not all points were made" : "");
    struct sim_report *page = sim_report_begin(j->program, subtitle);
    sim_joined_report_notes(page, j);
    if (j->params > 0 && j->groups > 0) {
        char heading[120];
        struct axis a;
        snprintf(heading, sizeof heading, "Over %.80s", j->label[0]);
        sim_report_heading(page, heading);
        lay_axis(j, 0, &a);
        for (size_t k = 0; k < n; k++)
            plot_figure(page, j, 0, &a, show[k]);
        free(a.x);
        free(a.tick);
    }
    sim_report_heading(page, "All points");
    if (j->groups > 0)
        table(page, j);
    else
        sim_report_text(page, "There are no runs.");
    return sim_report_end(page, path, why, room);
}

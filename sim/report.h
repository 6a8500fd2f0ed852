/* report.h: --report FILE.html: one page that needs nothing but itself: text, tables, and plots
 * that gnuplot draws as SVG into it.
 *
 *   struct sim_report *r = sim_report_begin("hedge-sim kv", subtitle);
 *   sim_report_heading(r, "Latency");
 *   sim_report_text(r, "...");            a paragraph
 *   sim_report_table(r, caption, columns, rows, cells);
 *   sim_report_plot(r, &plot);            series of points, or bars
 *   if (sim_report_end(r, path, why, sizeof why) != 0) ...
 *
 * Invariants
 *   1. The page is well-formed XML as well as HTML, asks for nothing over a network, and has no
 *      script. It reads on a screen of 360 pixels: wide tables scroll by themselves, plots shrink.
 *   2. All text that is passed in is text: it is escaped here, for the page and for gnuplot, and a
 *      character that XML cannot hold becomes U+FFFD.
 *   3. A failure on the way (no memory for gnuplot, a plot it would not draw) is remembered, and
 *      sim_report_end says it; the page at `path` is then as it was before.
 */
#ifndef HG_SIM_REPORT_H
#define HG_SIM_REPORT_H
#include <stdbool.h>
#include <stddef.h>

struct sim_report;

/* Is gnuplot there? 0, or -1 and `why` says what to install. Asked when options are parsed, so that
 * a run of minutes does not end with it. */
int sim_report_possible(char *why, size_t room);

/* subtitle: a line below the title, "" for none. */
struct sim_report *sim_report_begin(const char *title, const char *subtitle);
void sim_report_heading(struct sim_report *r, const char *text);
void sim_report_text(struct sim_report *r, const char *text);
/* A paragraph made like printf's. */
__attribute__((format(printf, 2, 3))) void sim_report_textf(struct sim_report *r,
                                                            const char *format, ...);
/* cells: rows x columns texts, row by row; the first row is the head. Cells that look like numbers
 * are set to the right. caption: "" for none. */
void sim_report_table(struct sim_report *r, const char *caption, size_t columns, size_t rows,
                      const char *const *cells);
/* Puts the page at path by rename and frees r. 0, or -1: `why` says what went wrong. */
int sim_report_end(struct sim_report *r, const char *path, char *why, size_t room);
/* Frees r and writes nothing. */
void sim_report_abandon(struct sim_report *r);

/* ---- plots (report_plot.c) ---- */

enum sim_plot_style {
    SIM_PLOT_LINES,
    SIM_PLOT_STEPS,
    SIM_PLOT_POINTS,
    SIM_PLOT_BOTH, /* points joined by lines */
    SIM_PLOT_BARS  /* x counts from 0; tick labels name them */
};

struct sim_series {
    const char *name;
    const double *x, *y; /* NaN breaks a line */
    size_t n;
    enum sim_plot_style style;
};

/* Of an interval at each point of a series; NaN: there is none. */
struct sim_ends {
    const double *low, *high;
};

struct sim_tick {
    double at;
    const char *label;
};

struct sim_plot {
    const char *title, *x_label, *y_label;
    const struct sim_series *series;
    size_t n;
    const struct sim_ends *ends;   /* of each series; NULL: no intervals */
    const struct sim_tick *x_tick; /* instead of the axis's own; NULL: its own */
    size_t x_ticks;
    bool log_x, log_y;
    bool diagonal;  /* the line y = x, for predicted against measured */
    bool from_zero; /* the y axis begins at 0 */
};

/* Draws p and puts it into the page. A plot without a point becomes a sentence that says so. */
void sim_report_plot(struct sim_report *r, const struct sim_plot *p);

#endif

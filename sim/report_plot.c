/* report_plot.c: plots for a report, drawn by gnuplot (report.h).
 *
 * gnuplot runs as a child without a shell and without its initialisation files. Its script goes
 * into an anonymous file that becomes its standard input, so neither side ever waits for the other
 * to read; its standard output is the SVG, read to its end; what it says on standard error goes
 * into the message of a failure. Data are blocks within the script.
 *
 * An SVG that stands in a page is not a file of its own: its XML declaration and its document type
 * go, and its identifiers get the plot's number in front, since an identifier is one element's in
 * the whole page.
 */
#include "sim/memory.h"
#include "sim/report_internal.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define COLOURS 8
#define LABELS  50 /* characters that fit below a plot; more are set aslant */
/* Dark enough on white, and told apart by those who see red and green alike (after Okabe and Ito's
 * palette of 2008). */
static const char *const colour[COLOURS] = {"#0072b2", "#d55e00", "#00795a", "#8a3b8f",
                                            "#7a5c00", "#000000", "#3d6fd6", "#a3123a"};

/* ---- is it there? ---- */

int sim_report_possible(char *why, size_t room)
{
    const char *path = getenv("PATH");
    char name[4096];
    for (const char *at = path != NULL ? path : "/usr/bin:/bin"; *at != 0;) {
        size_t n = strcspn(at, ":");
        snprintf(name, sizeof name, "%.*s/gnuplot", (int)n, n > 0 ? at : ".");
        if (access(name, X_OK) == 0)
            return 0;
        at += n + (at[n] == ':');
    }
    snprintf(why, room,
             "expected the program gnuplot, which draws the plots, and it is not there (Debian "
             "package gnuplot-nox)");
    return -1;
}

/* ---- the script ---- */

/* A text in single quotes, in which gnuplot takes everything but the quote and the line's end as it
 * is; but a tick's label is a format, in which % is doubled. */
static void quote(FILE *out, const char *text, bool format)
{
    fputc('\'', out);
    while (*text != 0) {
        size_t n = sim_report_character(text);
        if (n == 0)
            fputs("\xef\xbf\xbd", out);
        else if (*text == '\'')
            fputs("''", out);
        else if (*text == '%' && format)
            fputs("%%", out);
        else if (*text == '\n' || *text == '\r')
            fputc(' ', out);
        else
            fwrite(text, 1, n, out);
        text += n > 0 ? n : 1;
    }
    fputc('\'', out);
}

static bool drawable(const struct sim_plot *p, double x, double y)
{
    return isfinite(x) && isfinite(y) && (!p->log_x || x > 0) && (!p->log_y || y > 0);
}

static size_t points_of(const struct sim_plot *p, const struct sim_series *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++)
        n += drawable(p, s->x[i], s->y[i]);
    return n;
}

/* The series as a data block; a point that cannot be drawn is an empty line, which breaks a
 * line. */
static void put_data(FILE *out, const struct sim_plot *p, size_t k)
{
    const struct sim_series *s = &p->series[k];
    fprintf(out, "$d%zu << end_of_data\n", k);
    for (size_t i = 0; i < s->n; i++) {
        if (drawable(p, s->x[i], s->y[i]))
            fprintf(out, "%.9g %.9g\n", s->x[i], s->y[i]);
        else
            fputc('\n', out);
    }
    fputs("end_of_data\n", out);
}

/* The series's intervals as a data block; returns whether there are any. */
static bool put_intervals(FILE *out, const struct sim_plot *p, size_t k)
{
    const struct sim_series *s = &p->series[k];
    bool any = false;
    for (size_t i = 0; i < s->n && p->ends != NULL; i++) {
        double low = p->ends[k].low[i], high = p->ends[k].high[i];
        if (!drawable(p, s->x[i], s->y[i]) || !drawable(p, s->x[i], low) ||
            !drawable(p, s->x[i], high))
            continue;
        if (!any)
            fprintf(out, "$e%zu << end_of_data\n", k);
        any = true;
        fprintf(out, "%.9g %.9g %.9g %.9g\n", s->x[i], s->y[i], low, high);
    }
    if (any)
        fputs("end_of_data\n", out);
    return any;
}

static void put_axes(FILE *out, const struct sim_plot *p)
{
    fputs("set title ", out);
    quote(out, p->title, false);
    fputs("\nset xlabel ", out);
    quote(out, p->x_label, false);
    fputs("\nset ylabel ", out);
    quote(out, p->y_label, false);
    fprintf(out, "\n%s%s%s", p->log_x ? "set logscale x\n" : "", p->log_y ? "set logscale y\n" : "",
            p->from_zero && !p->log_y ? "set yrange [0:*]\n" : "");
    size_t wide = 0; /* characters that labels side by side take */
    for (size_t i = 0; i < p->x_ticks; i++)
        wide += strlen(p->x_tick[i].label) + 1;
    for (size_t i = 0; i < p->x_ticks; i++) {
        fputs(i > 0 ? ", " : wide > LABELS ? "set xtics rotate by -30 (" : "set xtics (", out);
        quote(out, p->x_tick[i].label, true);
        fprintf(out, " %.9g", p->x_tick[i].at);
    }
    if (p->x_ticks > 0)
        fputs(")\n", out);
}

/* Bars of several series stand side by side: the groups at whole numbers, 0.8 wide in all. */
static void put_series(FILE *out, const struct sim_plot *p, size_t k, size_t bars)
{
    static const char *const style[] = {[SIM_PLOT_LINES] = "lines lw 2",
                                        [SIM_PLOT_STEPS] = "steps lw 2",
                                        [SIM_PLOT_POINTS] = "points pt 7 ps 0.5",
                                        [SIM_PLOT_BOTH] = "linespoints lw 2 pt 7 ps 0.5",
                                        [SIM_PLOT_BARS] = "boxes"};
    const struct sim_series *s = &p->series[k];
    if (s->style == SIM_PLOT_BARS) {
        double wide = 0.8 / (double)bars, off = ((double)k - ((double)bars - 1) / 2) * wide;
        fprintf(out, "$d%zu using ($1+%.4f):2:(%.4f) with boxes", k, off, wide);
    } else {
        fprintf(out, "$d%zu using 1:2 with %s", k, style[s->style]);
    }
    fprintf(out, " lc rgb '%s'", colour[k % COLOURS]);
}

static void put_script(FILE *out, const struct sim_plot *p, size_t bars)
{
    fputs("set terminal svg size 480,320 dynamic noenhanced font 'sans-serif,15' "
          "background '#ffffff' rounded\n"
          "set encoding utf8\nset grid lc rgb '#dddddd'\nset border 3\nset tics nomirror\n"
          "set style fill solid 0.85 border\nunset key\n",
          out);
    put_axes(out, p);
    if (bars > 0 && p->x_ticks > 0)
        fprintf(out, "set xrange [-0.6:%.1f]\n", (double)p->x_ticks - 0.4);
    bool *interval = sim_alloc(p->n, sizeof *interval);
    for (size_t k = 0; k < p->n; k++) {
        put_data(out, p, k);
        interval[k] = put_intervals(out, p, k);
    }
    const char *separator = "plot ";
    for (size_t k = 0; k < p->n; k++) {
        if (points_of(p, &p->series[k]) == 0)
            continue;
        fputs(separator, out);
        put_series(out, p, k, bars);
        if (interval[k])
            fprintf(out, ", $e%zu using 1:2:3:4 with yerrorbars lw 1 pt 7 ps 0.5 lc rgb '%s'", k,
                    colour[k % COLOURS]);
        separator = ", ";
    }
    free(interval);
    if (p->diagonal)
        fputs(", x with lines lw 1 dt 2 lc rgb '#666666'", out);
    fputs("\n", out);
}

/* ---- the child ---- */

_Noreturn static void become_gnuplot(int script, int svg, int errors)
{
    char *const argv[] = {(char *)(uintptr_t) "gnuplot", (char *)(uintptr_t) "-d",
                          (char *)(uintptr_t) "-", NULL};
    dup2(script, STDIN_FILENO);
    dup2(svg, STDOUT_FILENO);
    dup2(errors, STDERR_FILENO);
    signal(SIGINT, SIG_IGN); /* Ctrl-C ends a run early; its report is still drawn */
    execvp("gnuplot", argv);
    _exit(127);
}

/* All of a file or pipe as a string, for the caller to free. */
static char *read_all(int fd)
{
    size_t length = 0, room = 65536;
    char *text = sim_alloc(room, 1);
    ssize_t n;
    while ((n = read(fd, text + length, room - length - 1)) != 0) {
        if (n < 0 && errno != EINTR)
            break;
        length += n > 0 ? (size_t)n : 0;
        if (room - length < 4096)
            text = sim_grow(text, room *= 2, 1);
    }
    text[length] = 0;
    return text;
}

static void describe_failure(struct sim_report *r, const char *title, int status, int errors)
{
    lseek(errors, 0, SEEK_SET);
    char *said = read_all(errors), why[200];
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127) {
        sim_report_possible(why, sizeof why);
        sim_report_fail(r, "%s", why);
    } else {
        size_t start = strspn(said, " \n");
        said[start + strcspn(said + start, "\n")] = 0;
        sim_report_fail(r, "gnuplot did not draw \"%.60s\": %.150s", title,
                        said[start] != 0 ? said + start : "it gave no reason");
    }
    free(said);
}

/* Runs gnuplot on the script file; the SVG for the caller to free, or NULL. */
static char *draw(struct sim_report *r, const char *title, int script)
{
    int out[2], status = 0;
    int errors = memfd_create("gnuplot-errors", MFD_CLOEXEC);
    if (errors < 0 || pipe2(out, O_CLOEXEC) != 0) {
        sim_report_fail(r, "no pipe to gnuplot: %s", strerror(errno));
        if (errors >= 0)
            close(errors);
        return NULL;
    }
    lseek(script, 0, SEEK_SET);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        become_gnuplot(script, out[1], errors);
    close(out[1]);
    char *svg = read_all(out[0]);
    close(out[0]);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    if (pid < 0 || status != 0 || strstr(svg, "</svg>") == NULL) {
        describe_failure(r, title, pid < 0 ? 0 : status, errors);
        free(svg);
        svg = NULL;
    }
    close(errors);
    return svg;
}

/* ---- into the page ---- */

/* The key is the page's: it flows with the screen's width, and gnuplot's would take its place from
 * the plot. */
static void put_key(struct sim_report *r, const struct sim_plot *p)
{
    if (p->n < 2)
        return;
    fputs("<figcaption>", r->out);
    for (size_t k = 0; k < p->n; k++) {
        if (points_of(p, &p->series[k]) == 0)
            continue;
        fprintf(r->out, "<span><i style=\"background: %s\"></i>", colour[k % COLOURS]);
        sim_report_escape(r->out, p->series[k].name);
        fputs("</span> ", r->out);
    }
    fputs("</figcaption>\n", r->out);
}

/* Copies the SVG from its element on; identifiers, where they are made and where they are used, get
 * the plot's number. Each plot also gets its title for those who do not see it. */
static void put_svg(struct sim_report *r, const char *svg, const struct sim_plot *p)
{
    static const char *const before[] = {" id=\"", " id='", "href='#", "href=\"#", "url(#"};
    const char *at = strstr(svg, "<svg");
    size_t count = sizeof before / sizeof *before;
    fputs("<figure>\n<svg role=\"img\" aria-label=\"", r->out);
    sim_report_escape(r->out, p->title);
    fputc('"', r->out);
    for (at += strlen("<svg"); *at != 0;) {
        size_t k = 0;
        while (k < count && strncmp(at, before[k], strlen(before[k])) != 0)
            k++;
        if (k == count) {
            fputc(*at++, r->out);
            continue;
        }
        fprintf(r->out, "%sp%u-", before[k], r->plots);
        at += strlen(before[k]);
    }
    put_key(r, p);
    fputs("</figure>\n", r->out);
}

void sim_report_plot(struct sim_report *r, const struct sim_plot *p)
{
    size_t points = 0, bars = 0;
    for (size_t k = 0; k < p->n; k++) {
        points += points_of(p, &p->series[k]);
        bars += p->series[k].style == SIM_PLOT_BARS;
    }
    if (points == 0) {
        sim_report_textf(r, "%s: nothing to draw.", p->title);
        return;
    }
    int fd = memfd_create("gnuplot-script", MFD_CLOEXEC);
    FILE *script = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (script == NULL) {
        sim_report_fail(r, "no file for gnuplot's script: %s", strerror(errno));
        if (fd >= 0)
            close(fd);
        return;
    }
    put_script(script, p, bars);
    fflush(script);
    r->plots++;
    char *svg = draw(r, p->title, fd);
    if (svg != NULL)
        put_svg(r, svg, p);
    free(svg);
    fclose(script);
}

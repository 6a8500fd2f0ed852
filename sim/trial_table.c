/* trial_table.c: all runs of a comparison, and the table of medians (trial.h). In the parent. */
#include "sim/machine.h"
#include "sim/option.h"
#include "sim/sim.h"
#include "sim/stats.h"
#include "sim/text.h"
#include "sim/trial.h"
#include <math.h>
#include <string.h>
#include <unistd.h>

/* ---- options ---- */

bool trial_option(struct trial_table *t, bool *check, int key, const char *arg,
                  struct argp_state *state)
{
    switch (key) {
    case TRIAL_KEY_REPETITIONS:
        t->repetitions =
            (int)sim_option_number(state, "repetitions", arg, 1, TRIAL_REPETITIONS_MAX, true);
        return true;
    case TRIAL_KEY_CHECK:
        *check = true;
        return true;
    case TRIAL_KEY_JSON:
        t->json = sim_option_file(state, "json", arg);
        return true;
    case TRIAL_KEY_CSV:
        t->csv = sim_option_file(state, "csv", arg);
        return true;
    default:
        return false;
    }
}

void trial_row_add(struct trial_table *t, const char *first, const char *second, const void *arg)
{
    if (t->rows == TRIAL_ROWS_MAX)
        abort(); /* a command has fewer ways than that */
    t->row[t->rows++] = (struct trial_row){.label = {first, second}, .arg = arg};
}

int trial_row_find(const struct trial_table *t, const char *first, const char *second)
{
    for (int i = 0; i < t->rows; i++)
        if (strcmp(t->row[i].label[0], first) == 0 && strcmp(t->row[i].label[1], second) == 0)
            return i;
    return -1;
}

double trial_median(const struct trial_table *t, int row, enum trial_figure f)
{
    double v[TRIAL_REPETITIONS_MAX];
    if (row < 0 || t->row[row].runs == 0)
        return NAN;
    for (int i = 0; i < t->row[row].runs; i++)
        v[i] = t->row[row].run[i].figure[f];
    return sim_median(v, (size_t)t->row[row].runs);
}

/* ---- runs ---- */

struct progress {
    const struct trial_table *t;
    int run; /* from 0 */
    bool terminal;
};

static void draw(void *arg, int64_t operations)
{
    const struct progress *p = arg;
    const struct trial_row *row = &p->t->row[p->run % p->t->rows];
    char done[32];
    if (p->terminal)
        fprintf(stderr, "\r%d/%d %s %s: %s %ss of %.0f %%\033[K", p->run + 1,
                p->t->rows * p->t->repetitions, row->label[0], row->label[1],
                text_count((double)operations, done), p->t->unit,
                fmin(100 * (double)operations / p->t->operations, 100));
}

static void erase(const struct progress *p)
{
    if (p->terminal)
        fputs("\r\033[K", stderr);
}

static const char *fixed(double v, char *text)
{
    if (isnan(v))
        return "-";
    snprintf(text, 32, "%.*f", v < 99.995 && v > 0 ? 2 : v < 999.95 && v > 0 ? 1 : 0, v);
    return text;
}

static void print_row(const struct trial_table *t, int row)
{
    char text[32];
    const struct trial_row *r = &t->row[row];
    bool early = false;
    for (int i = 0; i < r->runs; i++)
        early |= r->run[i].interrupted;
    printf("%-9s%-8s", r->label[0], r->label[1]);
    printf(" %8s", fixed(trial_median(t, row, TRIAL_NS) / 1e3, text));
    printf(" %8s", fixed(trial_median(t, row, TRIAL_CPU_NS) / 1e3, text));
    printf(" %8s", fixed(trial_median(t, row, TRIAL_ALLOCS), text));
    printf(" %8s", text_count(trial_median(t, row, TRIAL_BYTES), text));
    printf(" %6s", text_count(trial_median(t, row, TRIAL_CYCLES), text));
    printf(" %8s", fixed(trial_median(t, row, TRIAL_P50) / 1e3, text));
    printf(" %8s", fixed(trial_median(t, row, TRIAL_P99) / 1e3, text));
    printf("%s\n", early ? " *" : "");
}

static void print_table(const struct trial_table *t)
{
    printf("\n%-9s%-8s %8s %8s %8s %8s %6s %8s %8s\n", t->label[0], t->label[1], "time", "CPU",
           "allocs", "bytes", "GCs", "p50", "p99");
    printf("%-17s %8s %8s %8s %8s %6s %8s %8s\n", "", "us/op", "us/op", "/op", "/op", "", "us",
           "us");
    for (int i = 0; i < t->rows; i++)
        if (t->row[i].runs > 0)
            print_row(t, i);
    printf("\nper %s; medians of %d run%s; * ended early\n", t->unit, t->repetitions,
           t->repetitions == 1 ? "" : "s");
}

void trial_header(const struct trial_table *t)
{
    struct sim_machine m;
    sim_machine_read(&m);
    printf("%s, commit %.50s\n", t->program, sim_commit());
    printf("machine   %d CPUs, %.1f GiB, %.50s\n", m.cpus, (double)m.memory_bytes / 1073741824.0,
           m.kernel);
}

bool trial_runs(struct trial_table *t)
{
    struct progress p = {t, 0, isatty(STDERR_FILENO) != 0};
    bool fine = true, more = true;
    char why[200] = "";
    for (p.run = 0; p.run < t->rows * t->repetitions && more; p.run++) {
        struct trial_row *row = &t->row[p.run % t->rows];
        enum trial_ending e = trial_child(t->fn, row->arg, t->seconds, draw, &p,
                                          &row->run[row->runs], why, sizeof why);
        erase(&p);
        if (e == TRIAL_RESULT)
            row->runs++;
        if (e == TRIAL_FAILED) {
            fprintf(stderr, "%s: %s %s failed: %s\n", t->program, row->label[0], row->label[1],
                    why);
            fine = false;
        }
        more = fine && sim_interrupts(NULL) == 0;
    }
    print_table(t);
    return fine;
}

/* ---- the end ---- */

int trial_target(const char *text, double value, double bound, bool at_most, bool percent)
{
    if (isnan(value))
        return 0;
    bool met = at_most ? value <= bound : value >= bound;
    double scale = percent ? 100 : 1;
    printf("target    %s, at %s %g%s: %.4g%s, %s\n", text, at_most ? "most" : "least",
           scale * bound, percent ? " %" : "", scale * value, percent ? " %" : "",
           met ? "met" : "MISSED");
    return met ? 0 : 1;
}

int trial_finish(struct trial_table *t, bool runs_done, bool check, int missed)
{
    int signal = 0, failed = trial_files_write(t);
    json_decref(t->params);
    fflush(stdout);
    if (sim_interrupts(&signal) > 0)
        return SIM_SIGNAL + signal;
    if (!runs_done || failed > 0)
        return SIM_FAILED;
    return check && missed > 0 ? SIM_CHECK : SIM_OK;
}

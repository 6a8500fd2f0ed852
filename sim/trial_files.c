/* trial_files.c: JSON and CSV of a comparison (trial.h), and the names of its figures. A figure
 * that is not known is null, or empty in CSV. */
#include "sim/machine.h"
#include "sim/outfile.h"
#include "sim/trial.h"
#include <math.h>
#include <string.h>

const char *const trial_figure_name[TRIAL_FIGURES] = {
    [TRIAL_SECONDS] = "seconds",      [TRIAL_OPS] = "operations",
    [TRIAL_NS] = "ns_per_op",         [TRIAL_CPU_NS] = "cpu_ns_per_op",
    [TRIAL_ALLOCS] = "allocs_per_op", [TRIAL_BYTES] = "bytes_per_op",
    [TRIAL_CYCLES] = "cycles",        [TRIAL_GC_SHARE] = "gc_share_of_cpu",
    [TRIAL_P50] = "p50_ns",           [TRIAL_P99] = "p99_ns",
    [TRIAL_P999] = "p999_ns",         [TRIAL_MAX] = "max_ns",
    [TRIAL_TASKS] = "tasks_per_op",
};

/* NULL: the table has no such figure. */
static const char *name_of(const struct trial_table *t, int f)
{
    return f == TRIAL_EXTRA ? t->extra : trial_figure_name[f];
}

static json_t *number(double v) { return isfinite(v) ? json_real(v) : json_null(); }

static json_t *run_json(const struct trial_table *t, const struct trial_result *r)
{
    json_t *run = json_pack("{s:b}", "interrupted", r->interrupted);
    for (int f = 0; f < TRIAL_FIGURES; f++)
        if (name_of(t, f) != NULL)
            json_object_set_new(run, name_of(t, f), number(r->figure[f]));
    return run;
}

static json_t *row_json(const struct trial_table *t, int row)
{
    const struct trial_row *r = &t->row[row];
    json_t *runs = json_array(), *median = json_object(), *o = json_object();
    for (int i = 0; i < r->runs; i++)
        json_array_append_new(runs, run_json(t, &r->run[i]));
    for (int f = 0; f < TRIAL_FIGURES; f++)
        if (name_of(t, f) != NULL)
            json_object_set_new(median, name_of(t, f),
                                number(trial_median(t, row, (enum trial_figure)f)));
    for (int k = 0; k < 2; k++)
        if (t->label[k][0] != 0)
            json_object_set_new(o, t->label[k], json_string(r->label[k]));
    json_object_set_new(o, "median", median);
    json_object_set_new(o, "runs", runs);
    return o;
}

static int write_json(FILE *out, const void *data)
{
    const struct trial_table *t = data;
    json_t *rows = json_array();
    struct sim_machine m;
    sim_machine_read(&m);
    for (int i = 0; i < t->rows; i++)
        json_array_append_new(rows, row_json(t, i));
    json_t *document = json_pack("{s:s, s:s, s:{s:i, s:s}, s:O, s:o}", "program", t->program,
                                 "commit", sim_commit(), "machine", "cpus", m.cpus, "kernel",
                                 m.kernel, "params", t->params, "rows", rows);
    int err = document == NULL ||
              json_dumpf(document, out, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) != 0 ||
              fputc('\n', out) == EOF;
    json_decref(document);
    return err ? -1 : 0;
}

static void put_run(FILE *out, const struct trial_table *t, const struct trial_row *row, int run)
{
    for (int k = 0; k < 2; k++)
        if (t->label[k][0] != 0)
            fprintf(out, "%s,", row->label[k]);
    fprintf(out, "%d", run + 1);
    for (int f = 0; f < TRIAL_FIGURES; f++) {
        if (name_of(t, f) == NULL)
            continue;
        if (isfinite(row->run[run].figure[f]))
            fprintf(out, ",%.9g", row->run[run].figure[f]);
        else
            fputc(',', out);
    }
    fputc('\n', out);
}

static int write_csv(FILE *out, const void *data)
{
    const struct trial_table *t = data;
    for (int k = 0; k < 2; k++)
        if (t->label[k][0] != 0)
            fprintf(out, "%s,", t->label[k]);
    fprintf(out, "run");
    for (int f = 0; f < TRIAL_FIGURES; f++)
        if (name_of(t, f) != NULL)
            fprintf(out, ",%s", name_of(t, f));
    fputc('\n', out);
    for (int i = 0; i < t->rows; i++)
        for (int k = 0; k < t->row[i].runs; k++)
            put_run(out, t, &t->row[i], k);
    return 0;
}

int trial_files_write(const struct trial_table *t)
{
    return sim_outfile_put(t->program, "json", t->json, write_json, t) +
           sim_outfile_put(t->program, "csv", t->csv, write_csv, t);
}

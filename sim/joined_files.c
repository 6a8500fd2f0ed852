/* joined_files.c: joined results as JSON, all runs and the medians of each point with their
 * intervals, and as CSV, all runs. */
#include "sim/joined.h"
#include "sim/machine.h"
#include "sim/outfile.h"
#include <math.h>
#include <string.h>

/* The params that all documents have alike; those that differ are in the points. */
static json_t *common_params(const struct sim_joined *j)
{
    json_t *common = json_object();
    const char *key;
    json_t *value;
    if (j->documents == 0)
        return common;
    json_object_foreach(json_object_get(j->document[0], "params"), key, value)
    {
        bool same = true;
        for (size_t i = 1; i < j->documents && same; i++)
            same =
                json_equal(value, json_object_get(json_object_get(j->document[i], "params"), key));
        if (same)
            json_object_set(common, key, value);
    }
    return common;
}

/* A run as it came, with its point. */
static json_t *run_at(json_t *run, json_t *point)
{
    json_t *copy = json_copy(run), *at = json_object();
    json_object_update(at, point);
    json_object_update(at, json_object_get(run, "point"));
    json_object_set_new(copy, "point", at);
    return copy;
}

/* What the table shows: each group's labels, medians and intervals. Figures that are themselves the
 * ends of an interval are left out. */
static json_t *group_json(const struct sim_joined *j, const struct sim_row *g)
{
    json_t *labels = json_object(), *medians = json_object(), *intervals = json_object();
    for (size_t i = 0; i < j->labels; i++)
        if (g->label[i][0] != 0)
            json_object_set_new(labels, j->label[i], json_string(g->label[i]));
    for (size_t f = 0; f < j->figures; f++) {
        if (isnan(g->figure[f]) || strncmp(j->figure[f], "ci95_", 5) == 0)
            continue;
        json_object_set_new(medians, j->figure[f], json_real(g->figure[f]));
        if (!isnan(g->low[f]) && !isnan(g->high[f]))
            json_object_set_new(intervals, j->figure[f],
                                json_pack("[f, f]", g->low[f], g->high[f]));
    }
    return json_pack("{s:o, s:I, s:o, s:o}", "at", labels, "runs", (json_int_t)g->runs, "median",
                     medians, "ci95", intervals);
}

static int write_json(FILE *out, const void *data)
{
    const struct sim_joined *j = data;
    json_t *d = json_object(), *runs = json_array(), *groups = json_array();
    for (size_t i = 0; i < j->documents; i++) {
        json_t *of = json_object_get(j->document[i], "runs");
        for (size_t k = 0; k < json_array_size(of); k++)
            json_array_append_new(runs, run_at(json_array_get(of, k), j->point[i]));
    }
    for (size_t g = 0; g < j->groups; g++)
        json_array_append_new(groups, group_json(j, &j->group[g]));
    json_object_set_new(d, "program", json_string(j->program));
    json_object_set_new(d, "joined", json_integer((json_int_t)j->documents));
    json_object_set_new(d, "commit", json_string(sim_commit()));
    if (j->documents > 0)
        json_object_set(d, "machine", json_object_get(j->document[0], "machine"));
    json_object_set_new(d, "params", common_params(j));
    json_t *recorded = sim_joined_recorded(j);
    if (recorded != NULL)
        json_object_set_new(d, "recorded", recorded);
    json_object_set_new(d, "medians", groups);
    json_object_set_new(d, "runs", runs);
    bool written =
        json_dumpf(d, out, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) == 0 && fputc('\n', out) != EOF;
    json_decref(d);
    return written ? 0 : -1;
}

/* Quoted where it has to be. */
static void put_text(FILE *out, const char *text)
{
    if (strpbrk(text, ",\"\r\n") == NULL) {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (; *text != 0; text++) {
        if (*text == '"')
            fputc('"', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

static int write_csv(FILE *out, const void *data)
{
    const struct sim_joined *j = data;
    for (size_t i = 0; i < j->labels; i++) {
        fputs(i > 0 ? "," : "", out);
        put_text(out, j->label[i]);
    }
    for (size_t i = 0; i < j->figures; i++) {
        fputs(i + j->labels > 0 ? "," : "", out);
        put_text(out, j->figure[i]);
    }
    for (size_t r = 0; r < j->rows; r++) {
        fputc('\n', out);
        for (size_t i = 0; i < j->labels; i++) {
            fputs(i > 0 ? "," : "", out);
            put_text(out, j->row[r].label[i]);
        }
        for (size_t i = 0; i < j->figures; i++) {
            fputs(i + j->labels > 0 ? "," : "", out);
            if (!isnan(j->row[r].figure[i]))
                fprintf(out, "%.12g", j->row[r].figure[i]);
        }
    }
    fputc('\n', out);
    return 0;
}

int sim_joined_write_json(const struct sim_joined *j, const char *path)
{
    return sim_outfile_write(path, write_json, j);
}

int sim_joined_write_csv(const struct sim_joined *j, const char *path)
{
    return sim_outfile_write(path, write_csv, j);
}

int sim_joined_write(const struct sim_joined *j, const char *program, const char *json,
                     const char *csv, const char *report)
{
    char why[400];
    int failed = sim_outfile_put(program, "json", json, write_json, j) +
                 sim_outfile_put(program, "csv", csv, write_csv, j);
    if (report != NULL && sim_joined_write_report(j, report, why, sizeof why) != 0)
        failed += sim_outfile_complain(program, "report", report, why);
    return failed;
}

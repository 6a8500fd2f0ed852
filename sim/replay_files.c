/* replay_files.c: JSON and CSV of a replay. What a log did not say is null, or empty. */
#include "sim/machine.h"
#include "sim/outfile.h"
#include "sim/replay.h"
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

static json_t *number(double v) { return isfinite(v) ? json_real(v) : json_null(); }

static json_t *count(size_t n) { return json_integer((json_int_t)n); }

static json_t *cycle_json(const struct sim_trace_cycle *c)
{
    json_t *j = json_object();
    json_object_set_new(j, "number", c->number > 0 ? count((size_t)c->number) : json_null());
    json_object_set_new(j, "at_s", number(c->at_s));
    for (int i = 0; i < REPLAY_FIGURES; i++)
        json_object_set_new(j, replay_figure[i].name, number(replay_figure[i].of(c)));
    json_object_set_new(j, "ratio_from", json_string(replay_source_text(c->source)));
    json_object_set_new(j, "forced", json_boolean(c->forced));
    return j;
}

static json_t *process_json(const struct replay_result *r)
{
    json_t *median = json_object(), *cycles = json_array(), *j = json_object();
    for (int i = 0; i < REPLAY_FIGURES; i++)
        json_object_set_new(median, replay_figure[i].name,
                            number(replay_quantile(r->process, replay_figure[i].of, 0.5)));
    for (size_t i = 0; i < r->process->cycles; i++)
        json_array_append_new(cycles, cycle_json(&r->process->cycle[i]));
    json_object_set_new(j, "name", json_string(r->process->name));
    json_object_set_new(j, "cycles", count(r->process->cycles));
    json_object_set_new(j, "forced", count(r->forced));
    json_object_set_new(j, "missing", count(r->process->missing));
    json_object_set_new(j, "with_pacer_line", count(r->paced));
    json_object_set_new(j, "gogc", number(r->gogc));
    json_object_set_new(j, "median", median);
    json_object_set_new(j, "series", cycles);
    return j;
}

static json_t *verdict_json(const struct replay_result *r, const struct replay_verdict *v)
{
    json_t *j = json_object();
    json_object_set_new(j, "policy", json_string(v->policy));
    json_object_set_new(j, "process", json_string(r->process->name));
    json_object_set_new(j, "cycles", count(v->judged));
    json_object_set_new(j, "late_share", number(v->late_share));
    json_object_set_new(j, "short_share", number(v->short_share));
    json_object_set_new(j, "short_worst", number(v->short_worst));
    json_object_set_new(j, "estimate_over_measured", number(v->early));
    json_object_set_new(j, "unused_runway_share", number(v->unused));
    return j;
}

static json_t *document(const struct replay *r)
{
    json_t *j = json_object(), *runs = json_array(), *processes = json_array();
    json_t *files = json_array(), *params = json_object(), *lines = json_object();
    const struct sim_trace *t = &r->trace;
    for (int i = 0; i < r->opt.files; i++)
        json_array_append_new(files, json_string(r->opt.file[i]));
    json_object_set_new(params, "files", files);
    json_object_set_new(params, "assume_scan_bytes", number(r->opt.how.assume_scan));
    json_object_set_new(lines, "read", count(t->lines));
    json_object_set_new(lines, "gctrace", count(t->gc_lines));
    json_object_set_new(lines, "gcpacertrace", count(t->pacer_lines));
    json_object_set_new(lines, "other", count(t->other_lines));
    json_object_set_new(lines, "skipped", count(t->skipped));
    json_object_set_new(lines, "broken", count(t->broken));
    for (size_t i = 0; i < r->results; i++) {
        json_array_append_new(processes, process_json(&r->result[i]));
        for (int k = 0; k < r->result[i].verdicts; k++)
            json_array_append_new(runs, verdict_json(&r->result[i], &r->result[i].verdict[k]));
    }
    json_object_set_new(j, "program", json_string("hedge-sim replay"));
    json_object_set_new(j, "commit", json_string(sim_commit()));
    json_object_set_new(j, "params", params);
    json_object_set_new(j, "lines", lines);
    json_object_set_new(j, "runs", runs);
    json_object_set_new(j, "processes", processes);
    return j;
}

static int write_json(FILE *out, const void *data)
{
    json_t *j = document(data);
    bool written =
        json_dumpf(j, out, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) == 0 && fputc('\n', out) != EOF;
    json_decref(j);
    return written ? 0 : -1;
}

/* A field of CSV: names may hold anything that a log's prefix held. */
static void put_text(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text != 0; text++) {
        if (*text == '"')
            fputc('"', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

static void put(FILE *out, double v)
{
    if (isfinite(v))
        fprintf(out, ",%.9g", v);
    else
        fputc(',', out);
}

static void csv_rows(FILE *out, const struct replay_result *r, int policies)
{
    for (size_t i = 0; i < r->process->cycles; i++) {
        const struct sim_trace_cycle *c = &r->process->cycle[i];
        put_text(out, r->process->name);
        put(out, c->number > 0 ? (double)c->number : NAN);
        put(out, c->at_s);
        for (int k = 0; k < REPLAY_FIGURES; k++)
            put(out, replay_figure[k].of(c));
        fprintf(out, ",%s,%d", replay_source_text(c->source), c->forced);
        for (int k = 0; k < policies; k++)
            put(out, k < r->verdicts ? r->verdict[k].estimate[i] : NAN);
        fputc('\n', out);
    }
}

static int write_csv(FILE *out, const void *data)
{
    const struct replay *r = data;
    fprintf(out, "process,number,at_s");
    for (int k = 0; k < REPLAY_FIGURES; k++)
        fprintf(out, ",%s", replay_figure[k].name);
    fprintf(out, ",ratio_from,forced");
    for (int k = 0; k < r->opt.policies; k++)
        fprintf(out, ",%s", r->opt.policy[k].name);
    fputc('\n', out);
    for (size_t i = 0; i < r->results; i++)
        csv_rows(out, &r->result[i], r->opt.policies);
    return 0;
}

int replay_write_files(const struct replay *r)
{
    static const char program[] = "hedge-sim replay";
    return sim_outfile_put(program, "json", r->opt.json, write_json, r) +
           sim_outfile_put(program, "csv", r->opt.csv, write_csv, r);
}

/* pacer_files.c: JSON and CSV of `hedge-sim pacer`, each written under a temporary name that is
 * renamed when it is whole. A figure that is not known is null, or empty in CSV. */
#include "sim/machine.h"
#include "sim/outfile.h"
#include "sim/pacer.h"
#include <jansson.h>
#include <math.h>

/* What the writers are given. */
struct files {
    const struct pacer_options *opt;
    const struct pacer_summary *summary;
};

static json_t *number(double v) { return isfinite(v) ? json_real(v) : json_null(); }

/* A name from outside: JSON has no bytes that are not UTF-8. */
static json_t *text(const char *name)
{
    json_t *s = json_string(name);
    return s != NULL ? s : json_null();
}

static json_t *run_json(const struct pacer_summary *s)
{
    json_t *run = json_pack("{s:s, s:s, s:s, s:i}", "policy", s->policy, "model", s->model->name,
                            "damping", s->damping->name, "seeds", s->seeds);
    json_t *intervals = json_object();
    for (int f = 0; f < PACER_FIGURES; f++) {
        const struct pacer_estimate *e = &s->figure[f];
        json_t *ends = json_array();
        json_array_append_new(ends, number(e->low));
        json_array_append_new(ends, number(e->high));
        json_object_set_new(run, pacer_figure_info[f].key, number(e->mean));
        json_object_set_new(intervals, pacer_figure_info[f].key, ends);
    }
    json_object_set_new(run, "ci95", intervals);
    return run;
}

static json_t *params_json(const struct pacer_options *o)
{
    json_t *models = json_array(), *policies = json_array(), *dampings = json_array();
    for (int i = 0; i < o->models; i++)
        json_array_append_new(models, json_string(o->model[i]->name));
    for (int i = 0; i < o->policies; i++)
        json_array_append_new(policies, json_string(o->policy[i].name));
    for (int i = 0; i < o->dampings; i++)
        json_array_append_new(dampings, json_string(o->damping[i].name));
    json_t *params =
        json_pack("{s:o, s:o, s:o, s:i, s:I, s:i, s:I, s:i}", "models", models, "policies",
                  policies, "dampings", dampings, "gogc", o->gogc, "limit", (json_int_t)o->limit,
                  "cycles", o->cycles, "seed", (json_int_t)o->seed, "seeds", o->seeds);
    if (o->trace_file != NULL) {
        json_object_set_new(params, "trace", text(o->trace_file));
        json_object_set_new(params, "process", text(o->trace.process));
        json_object_set_new(params, "assume_scan_bytes", number(o->how.assume_scan));
    }
    return params;
}

static int count(const struct pacer_options *o) { return o->models * o->dampings * o->policies; }

static int write_json(FILE *out, const void *data)
{
    const struct pacer_options *opt = ((const struct files *)data)->opt;
    const struct pacer_summary *summary = ((const struct files *)data)->summary;
    json_t *runs = json_array();
    for (int i = 0; i < count(opt); i++)
        json_array_append_new(runs, run_json(&summary[i]));
    json_t *document = json_pack("{s:s, s:s, s:o, s:o}", "program", "hedge-sim pacer", "commit",
                                 sim_commit(), "params", params_json(opt), "runs", runs);
    if (opt->trace_file != NULL) {
        json_object_set_new(document, "trace_cycles", json_integer((json_int_t)opt->trace.cycles));
        json_object_set_new(document, "trace_assumed",
                            json_integer((json_int_t)opt->trace.assumed));
        json_object_set_new(document, "trace_broken", json_integer((json_int_t)opt->trace.broken));
    }
    int err = document == NULL ||
              json_dumpf(document, out, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) != 0 ||
              fputc('\n', out) == EOF;
    json_decref(document);
    return err ? -1 : 0;
}

static void put(FILE *out, double v)
{
    if (isfinite(v))
        fprintf(out, ",%.9g", v);
    else
        fputc(',', out);
}

static int write_csv(FILE *out, const void *data)
{
    const struct pacer_options *opt = ((const struct files *)data)->opt;
    const struct pacer_summary *summary = ((const struct files *)data)->summary;
    fprintf(out, "model,damping,policy,seeds");
    for (int f = 0; f < PACER_FIGURES; f++)
        fprintf(out, ",%s,%s_low,%s_high", pacer_figure_info[f].key, pacer_figure_info[f].key,
                pacer_figure_info[f].key);
    for (int i = 0; i < count(opt); i++) {
        const struct pacer_summary *s = &summary[i];
        fprintf(out, "\n%s,%s,%s,%d", s->model->name, s->damping->name, s->policy, s->seeds);
        for (int f = 0; f < PACER_FIGURES; f++) {
            put(out, s->figure[f].mean);
            put(out, s->figure[f].low);
            put(out, s->figure[f].high);
        }
    }
    fputc('\n', out);
    return 0;
}

int pacer_files_write(const struct pacer_options *opt, const struct pacer_summary *summary)
{
    static const char program[] = "hedge-sim pacer";
    const struct files f = {opt, summary};
    return sim_outfile_put(program, "json", opt->json, write_json, &f) +
           sim_outfile_put(program, "csv", opt->csv, write_csv, &f);
}

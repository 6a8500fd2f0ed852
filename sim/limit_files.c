/* limit_files.c: JSON and CSV of `hedge-sim limit`, and the names of its figures. A figure that is
 * not known is null, or empty in CSV. */
#include "sim/limit.h"
#include "sim/machine.h"
#include "sim/outfile.h"
#include <jansson.h>

const char *const limit_figure_name[LIMIT_FIGURES] = {
    [LIMIT_SECONDS] = "seconds",
    [LIMIT_GC_SHARE] = "gc_cpu_share",
    [LIMIT_GC_WORST] = "gc_cpu_share_worst_second",
    [LIMIT_GC_USED] = "gc_share_of_cpu_used",
    [LIMIT_CPU_USED] = "cpu_used_share",
    [LIMIT_CYCLES] = "cycles",
    [LIMIT_OPS] = "ops",
    [LIMIT_OPS_PER_CPU] = "ops_per_cpu_second",
    [LIMIT_PROGRESS] = "progress",
    [LIMIT_LIMITER_NS] = "limiter_ns",
    [LIMIT_LIMITER_SHARE] = "limiter_share",
    [LIMIT_PEAK] = "peak_bytes",
    [LIMIT_PEAK_OVER] = "peak_over_limit",
    [LIMIT_PASSED] = "limit_passed",
    [LIMIT_AFTER_OPS] = "ops_per_cpu_second_at_end",
    [LIMIT_REFUSED] = "refused",
    [LIMIT_NO_MEMORY] = "out_of_memory",
    [LIMIT_LET_GO] = "let_go",
    [LIMIT_OTHER_OPS] = "other_ops",
    [LIMIT_OTHER_WAIT_NS] = "other_longest_wait_ns",
    [LIMIT_PREDICTED_GC] = "predicted_gc_cpu_share",
    [LIMIT_PREDICTED_WORST] = "predicted_gc_cpu_share_worst_second",
    [LIMIT_PREDICTED_PROGRESS] = "predicted_progress",
    [LIMIT_PREDICTED_LIMITER] = "predicted_limiter_share",
    [LIMIT_PREDICTED_PEAK] = "predicted_peak_over_limit",
};

/* What the writers are given. */
struct files {
    const struct limit_options *opt;
    const struct limit_pair *pairs;
};

/* ---- JSON ---- */

static json_t *number(double v) { return isfinite(v) ? json_real(v) : json_null(); }

static json_t *run_json(const struct limit_pair *p, const struct limit_result *r)
{
    json_t *run = json_pack("{s:s, s:b, s:b}", "scenario", p->scenario->name, "limited", r->limited,
                            "interrupted", r->interrupted);
    for (int f = 0; f < LIMIT_FIGURES; f++)
        json_object_set_new(run, limit_figure_name[f], number(r->figure[f]));
    if (!r->limited)
        json_object_set_new(
            run, "program",
            json_pack("{s:o, s:o, s:o, s:o}", "alloc_bytes_per_ns", number(r->program.rate),
                      "scan_bytes_per_ns", number(r->program.speed), "stack_bytes",
                      number(r->program.stack), "overhead_bytes", number(r->program.overhead)));
    return run;
}

static int write_json(FILE *out, const void *data)
{
    const struct limit_options *opt = ((const struct files *)data)->opt;
    const struct limit_pair *pairs = ((const struct files *)data)->pairs;
    json_t *runs = json_array();
    struct sim_machine m;
    sim_machine_read(&m);
    for (int i = 0; i < opt->scenarios; i++) {
        if (pairs[i].free.done)
            json_array_append_new(runs, run_json(&pairs[i], &pairs[i].free));
        if (pairs[i].limited.done)
            json_array_append_new(runs, run_json(&pairs[i], &pairs[i].limited));
    }
    json_t *document =
        json_pack("{s:s, s:s, s:{s:i, s:s}, s:{s:I, s:i, s:f, s:s}, s:o}", "program",
                  "hedge-sim limit", "commit", sim_commit(), "machine", "cpus", m.cpus, "kernel",
                  m.kernel, "params", "limit", (json_int_t)opt->limit, "procs", opt->procs,
                  "duration", opt->duration_s, "policy", opt->policy, "runs", runs);
    int err = document == NULL ||
              json_dumpf(document, out, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) != 0 ||
              fputc('\n', out) == EOF;
    json_decref(document);
    return err ? -1 : 0;
}

/* ---- CSV ---- */

static void put_run(FILE *out, const struct limit_pair *p, const struct limit_result *r)
{
    if (!r->done)
        return;
    fprintf(out, "%s,%s", p->scenario->name, r->limited ? "on" : "off");
    for (int f = 0; f < LIMIT_FIGURES; f++) {
        if (isfinite(r->figure[f]))
            fprintf(out, ",%.9g", r->figure[f]);
        else
            fputc(',', out);
    }
    fputc('\n', out);
}

static int write_csv(FILE *out, const void *data)
{
    const struct limit_options *opt = ((const struct files *)data)->opt;
    const struct limit_pair *pairs = ((const struct files *)data)->pairs;
    fprintf(out, "scenario,limit");
    for (int f = 0; f < LIMIT_FIGURES; f++)
        fprintf(out, ",%s", limit_figure_name[f]);
    fputc('\n', out);
    for (int i = 0; i < opt->scenarios; i++) {
        put_run(out, &pairs[i], &pairs[i].free);
        put_run(out, &pairs[i], &pairs[i].limited);
    }
    return 0;
}

int limit_files_write(const struct limit_options *opt, const struct limit_pair *pairs)
{
    static const char program[] = "hedge-sim limit";
    const struct files f = {opt, pairs};
    return sim_outfile_put(program, "json", opt->json, write_json, &f) +
           sim_outfile_put(program, "csv", opt->csv, write_csv, &f);
}

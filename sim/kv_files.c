/* kv_files.c: the files of a comparison: JSON, CSV, series, cycles, slowest requests, percentiles.
 * Written at the end, by the parent, each under a temporary name that is renamed when it is whole.
 */
#include "sim/hist.h"
#include "sim/kv.h"
#include "sim/memory.h"
#include "sim/outfile.h"
#include <math.h>
#include <string.h>

/* A figure in CSV: empty where it is not known. */
static void put(FILE *out, double v, bool whole)
{
    if (isnan(v))
        fputc(',', out);
    else
        fprintf(out, whole ? ",%.0f" : ",%.9g", v);
}

/* What the writers are given. */
struct files {
    const struct kv_options *opt;
    const struct sim_machine *machine;
    const struct kv_runs *runs;
};

static int write_json(FILE *out, const void *data)
{
    const struct files *f = data;
    return kv_json_document(out, f->opt, f->machine, f->runs);
}

static int write_csv(FILE *out, const void *data)
{
    const struct kv_runs *runs = ((const struct files *)data)->runs;
    fprintf(out, "policy,gc,repetition");
    for (int m = 0; m < KV_METRICS; m++)
        fprintf(out, ",%s", kv_metric_info[m].name);
    for (int i = 0; i < runs->n; i++) {
        const struct kv_result *r = &runs->run[i];
        fprintf(out, "\n%s,%s,%d", r->policy, r->gc ? "on" : "off", r->repetition);
        for (int m = 0; m < KV_METRICS; m++)
            put(out, r->metric[m], kv_metric_info[m].whole);
    }
    fputc('\n', out);
    return 0;
}

static int write_series(FILE *out, const void *data)
{
    static const char *const phase[] = {"off", "roots", "mark", "sweep"};
    const struct kv_runs *runs = ((const struct files *)data)->runs;
    fprintf(out, "policy,repetition,time_s,rate,p50_ns,p99_ns,max_ns,live_bytes,goal_bytes,"
                 "trigger_bytes,rss_bytes,phase\n");
    for (int i = 0; i < runs->n; i++) {
        const struct kv_table *t = &runs->run[i].series;
        for (size_t k = 0; k < t->rows; k++) {
            const double *row = &t->cell[k * t->columns];
            fprintf(out, "%s,%d,%.3f", runs->run[i].policy, runs->run[i].repetition, row[0]);
            for (int c = 1; c < KV_SERIES_COLUMNS - 1; c++)
                put(out, row[c], true);
            fprintf(out, ",%s\n", phase[(int)row[KV_SERIES_COLUMNS - 1] & 3]);
        }
    }
    return 0;
}

static int write_cycles(FILE *out, const void *data)
{
    const struct kv_runs *runs = ((const struct files *)data)->runs;
    fprintf(out, "policy,repetition,number,start_s,mark_s,end_s,swept_s,heap_at_start,heap_at_end,"
                 "heap_marked,goal,trigger,scanned_heap,scanned_stack,scanned_roots,assist_ns,"
                 "background_ns,idle_ns,forced\n");
    for (int i = 0; i < runs->n; i++) {
        const struct kv_table *t = &runs->run[i].cycles;
        for (size_t k = 0; k < t->rows; k++) {
            fprintf(out, "%s,%d", runs->run[i].policy, runs->run[i].repetition);
            for (int c = 0; c < KV_CYCLE_COLUMNS; c++)
                put(out, t->cell[k * t->columns + (size_t)c], c == 0 || c > 4);
            fputc('\n', out);
        }
    }
    return 0;
}

static int write_slowest(FILE *out, const void *data)
{
    const struct kv_runs *runs = ((const struct files *)data)->runs;
    fprintf(out, "policy,repetition,rank,conn,seq,write,intended_s,latency_ns,cycle,behind_ns");
    for (int p = 0; p < KV_PARTS; p++)
        fprintf(out, ",%s", kv_part_key[p]);
    fputc('\n', out);
    for (int i = 0; i < runs->n; i++) {
        const struct kv_table *t = &runs->run[i].slowest;
        for (size_t k = 0; k < t->rows; k++) {
            fprintf(out, "%s,%d,%zu", runs->run[i].policy, runs->run[i].repetition, k + 1);
            for (int c = 0; c < KV_SLOWEST_COLUMNS; c++)
                put(out, t->cell[k * t->columns + (size_t)c], c != 3);
            fputc('\n', out);
        }
    }
    return 0;
}

void kv_hgrm_name(const struct kv_result *r, char *buffer, size_t room)
{
    snprintf(buffer, room, "%s.%d.hgrm", r->policy, r->repetition);
    for (char *c = buffer; *c != 0; c++)
        if (*c == ':' || *c == '/')
            *c = '-';
}

/* A run's latencies; data: the run. */
static int write_percentiles(FILE *out, const void *data)
{
    const struct kv_result *r = data;
    hg_histogram *h = sim_alloc(1, sizeof *h);
    for (size_t i = 0; i < r->histogram.rows; i++) {
        const double *row = &r->histogram.cell[i * KV_HIST_COLUMNS];
        if (row[0] >= 0 && row[0] < HG_HISTOGRAM_BUCKETS) {
            h->count[(unsigned)row[0]] = (uint64_t)row[1];
            h->total += (uint64_t)row[1];
        }
    }
    h->max = (int64_t)r->metric[KV_MAX];
    sim_hist_write_hgrm(out, h, 1e6);
    free(h);
    return 0;
}

static int write_hgrm(const struct kv_options *opt, const struct kv_result *r)
{
    char name[64];
    kv_hgrm_name(r, name, sizeof name);
    size_t room = strlen(opt->hgrm) + sizeof name + 2;
    char *path = sim_alloc(room, 1);
    snprintf(path, room, "%s/%s", opt->hgrm, name);
    int failed = sim_outfile_put(opt->program, "hgrm", path, write_percentiles, r);
    free(path);
    return failed;
}

int kv_files_write(const struct kv_options *opt, const struct sim_machine *m,
                   const struct kv_runs *runs)
{
    const struct files f = {opt, m, runs};
    const struct {
        const char *option, *path;
        sim_outfile_writer *write;
    } files[] = {{"json", opt->json, write_json},
                 {"csv", opt->csv, write_csv},
                 {"series", opt->series, write_series},
                 {"cycles", opt->cycles, write_cycles},
                 {"slowest", opt->slowest, write_slowest}};
    char why[400];
    int failed = 0;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        failed += sim_outfile_put(opt->program, files[i].option, files[i].path, files[i].write, &f);
    if (opt->report != NULL && kv_html_write(opt, m, runs, why, sizeof why) != 0)
        failed += sim_outfile_complain(opt->program, "report", opt->report, why);
    for (int i = 0; i < runs->n && opt->hgrm != NULL; i++)
        failed += write_hgrm(opt, &runs->run[i]);
    return failed;
}

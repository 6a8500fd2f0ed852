/* kv_result.c: the figures of a run (kv_result.h).
 *
 * Counters are differences between the two snapshots; latencies are of all requests that were to
 * start between begin and end, those that finished later included. "Longest" and "max" of the
 * runtime's histograms within the measurement are exact to their bucket (below 1 %).
 *
 *   assist_share = assist / (assist + background + idle)            marking by kind
 *   gc_cpu_share = (assist + background + idle + sweep + scan) / (procs x wall time)
 */
#include "sim/kv_result.h"
#include "sim/memory.h"
#include <math.h>
#include <string.h>

static double ratio(double a, double b) { return b > 0 ? a / b : 0; }

static void latency_figures(struct kv_result *r, const struct kv_live *live, struct kv_samples *s)
{
    static const double q[] = {0.99, 0.999};
    double low[2], high[2];
    kv_latency_collect(live, &s->scratch, false);
    double *m = r->metric;
    m[KV_P50] = (double)hg_histogram_quantile(&s->scratch, 0.5);
    m[KV_P90] = (double)hg_histogram_quantile(&s->scratch, 0.9);
    m[KV_P99] = (double)hg_histogram_quantile(&s->scratch, 0.99);
    m[KV_P999] = (double)hg_histogram_quantile(&s->scratch, 0.999);
    m[KV_MAX] = (double)s->scratch.max;
    sim_bootstrap(&s->blocks, q, 2, low, high, live->seed);
    /* An interval by resampling a handful of cycles would be too narrow to mean anything. */
    bool p99 = s->blocks.n >= 10, p999 = s->blocks.n >= KV_FEWEST_CYCLES;
    m[KV_P99_LOW] = p99 ? low[0] : (double)NAN;
    m[KV_P99_HIGH] = p99 ? high[0] : (double)NAN;
    m[KV_P999_LOW] = p999 ? low[1] : (double)NAN;
    m[KV_P999_HIGH] = p999 ? high[1] : (double)NAN;
}

static void load_figures(struct kv_result *r, const struct kv_options *opt,
                         const struct kv_live *live, const struct kv_samples *s)
{
    double *m = r->metric;
    double seconds =
        (double)(atomic_load_explicit(&live->end, memory_order_relaxed) - live->begin) / 1e9;
    double wall = (double)(s->to.at - s->from.at) / 1e9, given_up = 0;
    for (int i = 0; i < KV_MEASURE_SHARDS; i++)
        given_up += (double)atomic_load_explicit(&live->measure[i].given_up, memory_order_relaxed);
    m[KV_OPS] = (double)kv_done(live);
    m[KV_WANTED_RATE] = opt->rate;
    m[KV_ACHIEVED_RATE] = ratio(m[KV_OPS], seconds);
    m[KV_DROPPED] = given_up;
    m[KV_SECONDS] = seconds;
    m[KV_PROCS] = s->to.stats.procs;
    m[KV_BYTES_PER_OP] =
        ratio((double)(s->to.stats.alloc_bytes - s->from.stats.alloc_bytes), m[KV_OPS]);
    double own = s->to.cpu.own - s->from.cpu.own, busy = s->to.cpu.busy - s->from.cpu.busy;
    double steal = s->to.cpu.steal - s->from.cpu.steal;
    m[KV_OWN_CPU] = ratio(own, wall);
    m[KV_FOREIGN_CPU] = ratio(fmax(0, busy - own), wall);
    m[KV_STEAL_SHARE] = ratio(steal, busy + steal);
    m[KV_MAX_RSS] = (double)sim_rss_peak();
}

/* The largest (heap at the end of marking) / goal, and heap, of the cycles that ended while
 * measuring. */
static void cycle_figures(struct kv_result *r, const struct kv_samples *s)
{
    double peak = fmax((double)s->peak_heap, (double)s->to.stats.heap_live_bytes), over = 0;
    for (size_t i = 0; i < s->cycles; i++) {
        const hg_cycle *c = &s->cycle[i];
        if (c->end_ns < s->from.at || c->end_ns > s->to.at)
            continue;
        peak = fmax(peak, (double)c->heap_at_end);
        if (c->goal > 0 && !c->forced)
            over = fmax(over, (double)c->heap_at_end / (double)c->goal);
    }
    r->metric[KV_PEAK_HEAP] = peak;
    r->metric[KV_PEAK_OVER_GOAL] = over;
}

static void collector_figures(struct kv_result *r, const struct kv_samples *s)
{
    const hg_stats *a = &s->from.stats, *b = &s->to.stats;
    double *m = r->metric, wall = (double)(s->to.at - s->from.at);
    m[KV_CYCLES] = (double)(b->cycles - a->cycles);
    m[KV_ASSISTS] = (double)(b->assists - a->assists);
    m[KV_OVERSHOOT_CYCLES] = (double)(b->overshoot_cycles - a->overshoot_cycles);
    m[KV_LIVE_HEAP] = (double)b->heap_marked_bytes;
    m[KV_ASSIST_CPU] = (double)(b->assist_ns - a->assist_ns);
    m[KV_BACKGROUND_CPU] = (double)(b->background_ns - a->background_ns);
    m[KV_IDLE_CPU] = (double)(b->idle_ns - a->idle_ns);
    m[KV_SWEEP_CPU] = (double)(b->sweep_ns - a->sweep_ns);
    m[KV_SCAN_CPU] = (double)(b->scan_ns - a->scan_ns);
    double marking = m[KV_ASSIST_CPU] + m[KV_BACKGROUND_CPU] + m[KV_IDLE_CPU];
    m[KV_ASSIST_SHARE] = ratio(m[KV_ASSIST_CPU], marking);
    m[KV_GC_CPU_SHARE] = ratio(marking + m[KV_SWEEP_CPU] + m[KV_SCAN_CPU], b->procs * wall);
    cycle_figures(r, s);
}

static void runtime_histograms(struct kv_result *r, struct kv_samples *s)
{
    static const struct {
        enum hg_histogram_id id;
        int p50, p99, p999, max; /* metrics; -1: none */
    } made[] = {{HG_HIST_HOLD, KV_HOLD_P50, KV_HOLD_P99, KV_HOLD_P999, KV_HOLD_MAX},
                {HG_HIST_HANDSHAKE, KV_HANDSHAKE_P50, KV_HANDSHAKE_P99, -1, KV_HANDSHAKE_MAX},
                {HG_HIST_RUNQ, KV_RUNQ_P50, KV_RUNQ_P99, -1, KV_RUNQ_MAX},
                {HG_HIST_ASSIST, -1, -1, -1, KV_LONGEST_ASSIST}};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        hg_histogram *h = &s->scratch;
        sim_hist_delta(h, &s->to.histogram[made[i].id], &s->from.histogram[made[i].id]);
        if (made[i].p50 >= 0)
            r->metric[made[i].p50] = (double)hg_histogram_quantile(h, 0.5);
        if (made[i].p99 >= 0)
            r->metric[made[i].p99] = (double)hg_histogram_quantile(h, 0.99);
        if (made[i].p999 >= 0)
            r->metric[made[i].p999] = (double)hg_histogram_quantile(h, 0.999);
        r->metric[made[i].max] = (double)h->max;
    }
}

/* One row per cycle that was running at some time while measuring. */
static void cycle_rows(struct kv_table *t, const struct kv_samples *s, int64_t origin)
{
    for (size_t i = 0; i < s->cycles; i++) {
        const hg_cycle *c = &s->cycle[i];
        if (c->end_ns < s->from.at || c->start_ns > s->to.at)
            continue;
        double row[KV_CYCLE_COLUMNS] = {(double)c->number,
                                        (double)(c->start_ns - origin) / 1e9,
                                        (double)(c->mark_ns - origin) / 1e9,
                                        (double)(c->end_ns - origin) / 1e9,
                                        c->swept_ns != 0 ? (double)(c->swept_ns - origin) / 1e9
                                                         : (double)NAN,
                                        (double)c->heap_at_start,
                                        (double)c->heap_at_end,
                                        (double)c->heap_marked,
                                        (double)c->goal,
                                        (double)c->trigger,
                                        (double)c->scanned_heap,
                                        (double)c->scanned_stack,
                                        (double)c->scanned_roots,
                                        (double)c->assist_ns,
                                        (double)c->background_ns,
                                        (double)c->idle_ns,
                                        c->forced};
        kv_table_row(t, KV_CYCLE_COLUMNS, row);
    }
}

static void tables(struct kv_result *r, const struct kv_options *opt, const struct kv_live *live,
                   struct kv_samples *s)
{
    if (opt->hgrm != NULL || opt->report != NULL) {
        kv_latency_collect(live, &s->scratch, false);
        for (unsigned i = 0; i < HG_HISTOGRAM_BUCKETS; i++) {
            double row[KV_HIST_COLUMNS] = {i, (double)s->scratch.count[i]};
            if (row[1] > 0)
                kv_table_row(&r->histogram, KV_HIST_COLUMNS, row);
        }
    }
    if (opt->cycles != NULL)
        cycle_rows(&r->cycles, s, live->begin);
    if (opt->series != NULL || opt->report != NULL) {
        kv_samples_phases(s, live->begin);
        r->series = s->series;
        memset(&s->series, 0, sizeof s->series);
    }
}

static void blame(struct kv_result *r, const struct kv_options *opt, const struct kv_live *live,
                  const struct kv_samples *s)
{
    const struct kv_slowest *shard[KV_MEASURE_SHARDS];
    for (int i = 0; i < KV_MEASURE_SHARDS; i++)
        shard[i] = &live->measure[i].slowest;
    int64_t p99 = (int64_t)r->metric[KV_P99];
    kv_blame_sum(shard, KV_MEASURE_SHARDS, p99, s->cycle, s->cycles, r->blame);
    if (opt->slowest != NULL)
        kv_blame_slowest(shard, KV_MEASURE_SHARDS, 10, s->cycle, s->cycles, live->begin,
                         &r->slowest);
}

void kv_result_make(struct kv_result *r, const struct kv_options *opt,
                    const struct kv_policy *policy, int repetition, bool interrupted,
                    const struct kv_live *live, struct kv_samples *s)
{
    memset(r, 0, sizeof *r);
    memcpy(r->policy, policy->name, sizeof r->policy);
    r->gc = !policy->off;
    r->repetition = repetition;
    r->interrupted = interrupted;
    latency_figures(r, live, s);
    load_figures(r, opt, live, s);
    collector_figures(r, s);
    runtime_histograms(r, s);
    blame(r, opt, live, s);
    tables(r, opt, live, s);
}

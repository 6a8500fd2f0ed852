/* figure.c: samples, looks at the counters, and the lines on which figures are printed (bench.h).
 */
#include "bench/bench.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- lines ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Four figures or all digits before the point. */
static const char *number(double v, char buffer[32])
{
    double size = v < 0 ? -v : v;
    int decimals = size >= 1000 || v == 0 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : 3;
    snprintf(buffer, 32, "%.*f", decimals, v);
    return buffer;
}

static void line(const struct bench_samples *s, const char *unit, const char *name, va_list args)
{
    char text[80], middle[32], low[32], high[32];
    double sorted[BENCH_ROUNDS_MAX];
    if (s->n == 0)
        return;
    memcpy(sorted, s->v, (size_t)s->n * sizeof *sorted);
    qsort(sorted, (size_t)s->n, sizeof *sorted, by_value);
    double median = (sorted[(s->n - 1) / 2] + sorted[s->n / 2]) / 2;
    vsnprintf(text, sizeof text, name, args);
    printf("%-42s  %9s ", text, number(median, middle));
    if (s->n > 1)
        printf("%-6s %s..%s\n", unit, number(sorted[0], low), number(sorted[s->n - 1], high));
    else
        printf("%s\n", unit);
    fflush(stdout);
}

void bench_figure(const struct bench_samples *s, const char *unit, const char *name, ...)
{
    va_list args;
    va_start(args, name);
    line(s, unit, name, args);
    va_end(args);
}

void bench_value(double v, const char *unit, const char *name, ...)
{
    struct bench_samples s = {1, {v}};
    va_list args;
    va_start(args, name);
    line(&s, unit, name, args);
    va_end(args);
}

void bench_percentiles(const hg_histogram *h, const char *name)
{
    bench_value((double)h->total, "times", "%s", name);
    bench_value((double)hg_histogram_quantile(h, 0.5) / 1e3, "us", "%s p50", name);
    bench_value((double)hg_histogram_quantile(h, 0.9) / 1e3, "us", "%s p90", name);
    bench_value((double)hg_histogram_quantile(h, 0.99) / 1e3, "us", "%s p99", name);
    bench_value((double)hg_histogram_quantile(h, 0.999) / 1e3, "us", "%s p99.9", name);
    bench_value((double)h->max / 1e3, "us", "%s max", name);
}

/* ---- looks ---- */

struct bench_look *bench_look_new(void)
{
    struct bench_look *l = calloc(1, sizeof *l);
    if (l == NULL)
        bench_fail("no memory");
    return l;
}

void bench_look(struct bench_look *l, hg_runtime *rt)
{
    l->stats.size = sizeof l->stats;
    hg_stats_read(rt, &l->stats);
    for (int i = 0; i < HG_HIST_COUNT; i++)
        hg_stats_histogram(rt, (enum hg_histogram_id)i, &l->hist[i]);
    l->cpu = bench_cpu();
    l->wall = hg_now();
}

static void histogram_between(hg_histogram *from, const hg_histogram *to)
{
    unsigned last = 0;
    for (unsigned i = 0; i < HG_HISTOGRAM_BUCKETS; i++) {
        from->count[i] = to->count[i] - from->count[i];
        if (from->count[i] > 0)
            last = i;
    }
    from->total = to->total - from->total;
    int64_t high = hg_histogram_bucket_high(last);
    from->max = from->total == 0 ? 0 : high < to->max ? high : to->max;
}

void bench_between(struct bench_look *from, const struct bench_look *to)
{
    hg_stats then = from->stats, *st = &from->stats;
    *st = to->stats;
    st->alloc_bytes -= then.alloc_bytes;
    st->alloc_objects -= then.alloc_objects;
    st->cycles -= then.cycles;
    st->forced_cycles -= then.forced_cycles;
    st->overshoot_cycles -= then.overshoot_cycles;
    st->mark_wall_ns -= then.mark_wall_ns;
    st->cycle_wall_ns -= then.cycle_wall_ns;
    st->background_ns -= then.background_ns;
    st->idle_ns -= then.idle_ns;
    st->assist_ns -= then.assist_ns;
    st->sweep_ns -= then.sweep_ns;
    st->scan_ns -= then.scan_ns;
    st->assists -= then.assists;
    st->assist_waits -= then.assist_waits;
    st->handshakes -= then.handshakes;
    st->tasks_started -= then.tasks_started;
    st->switches -= then.switches;
    st->steals -= then.steals;
    st->limiter_ns -= then.limiter_ns;
    for (int i = 0; i < HG_HIST_COUNT; i++)
        histogram_between(&from->hist[i], &to->hist[i]);
    from->wall = to->wall - from->wall;
    from->cpu = to->cpu - from->cpu;
}

int64_t bench_marking(const hg_stats *st)
{
    return st->background_ns + st->idle_ns + st->assist_ns;
}

void bench_collector(const struct bench_look *l)
{
    const hg_stats *st = &l->stats;
    double marking = (double)bench_marking(st);
    double offered = (double)l->wall * (st->procs > 0 ? st->procs : 1);
    bench_value((double)st->cycles, "cycles", "collections");
    bench_value((double)st->overshoot_cycles, "cycles", "collections that ended above their goal");
    bench_value(100 * marking / offered, "%", "marking, share of the procs' time");
    bench_value((double)st->background_ns / 1e6, "ms", "marking, background CPU");
    bench_value((double)st->idle_ns / 1e6, "ms", "marking, idle CPU");
    bench_value((double)st->assist_ns / 1e6, "ms", "marking, assist CPU");
    bench_value(marking > 0 ? 100 * (double)st->assist_ns / marking : 0, "%",
                "assist, share of marking");
    bench_value((double)st->assists, "times", "assists");
    bench_value((double)st->longest_assist_ns / 1e3, "us", "longest assist");
    bench_value((double)st->sweep_ns / 1e6, "ms", "sweeping by allocation, CPU");
    bench_percentiles(&l->hist[HG_HIST_HOLD], "hold");
}

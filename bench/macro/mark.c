/* mark.c: how fast the collector marks.
 *
 * 8,388,608 nodes of 64 bytes (0.5 GiB) in random linkage (bench_graph) are collected by force, a
 * number of times, by a program that does nothing else. Three rates are given for each layout, all
 * for the bytes of the nodes:
 *
 *   per core-second   by the CPU time of the whole process over the collection: marking, sweeping
 *                     and everything else that it takes. This is what to hold against a peer's
 *                     rate, as it can be measured the same way there.
 *   marking alone     by the CPU time of marking, as the runtime counts it
 *   elapsed           by the time that hg_collect took
 *
 * Layouts: typed (3 references of 8 words), refs (every word is a reference or NULL), conservative.
 */
#include "bench/bench.h"
#include <stdlib.h>

enum { LAYOUTS = 3 };
static const char *const layout_name[LAYOUTS] = {"typed", "refs", "conservative"};

static int64_t nodes = 8388608, rounds = 5, procs;
static unsigned layouts = 1;

static const struct bench_option options[] = {
    {"nodes", BENCH_NUMBER, &nodes, 1, INT64_C(1) << 31, NULL, "nodes of 64 bytes"},
    {"rounds", BENCH_NUMBER, &rounds, 1, BENCH_ROUNDS_MAX, NULL, "forced collections"},
    {"layout", BENCH_WORDS, &layouts, 0, 0, "typed refs conservative", "layouts of the nodes"},
    BENCH_OPTION_PROCS(procs),
    {0}};

struct measurement {
    const hg_layout *layout;
    const char *name;
    int64_t build_ns;
    struct bench_samples rate_cpu, rate_marking, rate_wall, wall_ms, cpu_ms, marking_ms, sweep_ms;
    struct bench_look *before, *after;
};

static void sample(struct measurement *m)
{
    const struct bench_look *l = m->before;
    double bytes = (double)nodes * (double)sizeof(struct bench_node);
    double marking = (double)bench_marking(&l->stats);
    bench_add(&m->rate_cpu, bytes / (double)l->cpu);
    bench_add(&m->rate_marking, marking > 0 ? bytes / marking : 0);
    bench_add(&m->rate_wall, bytes / (double)l->wall);
    bench_add(&m->wall_ms, (double)l->wall / 1e6);
    bench_add(&m->cpu_ms, (double)l->cpu / 1e6);
    bench_add(&m->marking_ms, marking / 1e6);
    bench_add(&m->sweep_ms, (double)l->stats.sweep_ns / 1e6);
}

/* The first collection, which frees the builder's table and touches the marks, is not counted. */
static int main_task(void *arg)
{
    struct measurement *m = arg;
    hg_runtime *rt = hg_current();
    int64_t t = hg_now();
    hg_set_gc_percent(rt, -1);
    struct bench_node *root = bench_graph(nodes, m->layout);
    m->build_ns = hg_now() - t;
    hg_collect(rt);
    for (int64_t i = 0; i < rounds; i++) {
        bench_look(m->before, rt);
        hg_collect(rt);
        bench_look(m->after, rt);
        bench_between(m->before, m->after);
        sample(m);
    }
    uint64_t live = m->after->stats.heap_marked_bytes;
    if (live < (uint64_t)nodes * sizeof *root)
        bench_fail("%llu bytes were found live, less than the nodes are", (unsigned long long)live);
    hg_keep_alive(root);
    return 0;
}

static void run(void *arg)
{
    struct measurement *m = arg;
    const char *n = m->name;
    hg_options opt;
    bench_options(&opt, procs);
    m->before = bench_look_new();
    m->after = bench_look_new();
    bench_run(main_task, m, &opt);
    bench_figure(&m->rate_cpu, "GB/s", "mark %s, per core-second", n);
    bench_figure(&m->rate_marking, "GB/s", "mark %s, marking alone", n);
    bench_figure(&m->rate_wall, "GB/s", "mark %s, elapsed rate", n);
    bench_figure(&m->wall_ms, "ms", "mark %s, elapsed", n);
    bench_figure(&m->cpu_ms, "ms", "mark %s, CPU of all", n);
    bench_figure(&m->marking_ms, "ms", "mark %s, CPU of marking", n);
    bench_figure(&m->sweep_ms, "ms", "mark %s, CPU of sweeping", n);
    bench_value((double)m->build_ns / 1e9, "s", "mark %s, building", n);
    bench_value((double)bench_rss_peak() / 1048576, "MiB", "mark %s, peak resident", n);
}

int main(int argc, char **argv)
{
    bench_begin(argc, argv, "Rate of marking 64-byte nodes in random linkage.", options);
    const hg_layout *const layout[LAYOUTS] = {&bench_node_layout, HG_REFS, HG_CONSERVATIVE};
    for (int i = 0; i < LAYOUTS; i++) {
        if ((layouts >> i & 1) == 0)
            continue;
        struct measurement m = {.layout = layout[i], .name = layout_name[i]};
        bench_isolated(run, &m);
    }
    return bench_end();
}

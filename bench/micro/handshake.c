/* handshake.c: how long a handshake takes while the procs are busy.
 *
 * `busy` tasks allocate without a pause, each into a ring of 1,024 references, and never wait, so
 * that the procs only answer at the safepoints of their allocations. The main task forces one
 * collection after the other. The time from a handshake's request to its last answer is the
 * runtime's own histogram; the collections that the busy tasks bring about by themselves are in it
 * as well.
 */
#include "bench/bench.h"
#include <stdatomic.h>

#define RING 1024

static int64_t busy = 2, collections = 200, live_mib = 64, object_bytes = 64, procs;

static const struct bench_option options[] = {
    {"busy", BENCH_NUMBER, &busy, 0, 10000, NULL, "tasks that allocate without a pause"},
    {"collections", BENCH_NUMBER, &collections, 1, 1000000, NULL, "forced collections"},
    {"live", BENCH_NUMBER, &live_mib, 1, 1 << 20, NULL, "MiB of live nodes in random linkage"},
    {"size", BENCH_NUMBER, &object_bytes, 8, 32768, NULL, "bytes of an object"},
    BENCH_OPTION_PROCS(procs),
    {0}};

struct state {
    _Atomic bool stop; /* written by the main task once, read by the busy ones */
    hg_waitgroup done;
    struct bench_look *before, *after;
};

static void busy_task(void *arg)
{
    struct state *s = arg;
    void **ring = hg_alloc(RING * sizeof *ring, HG_REFS);
    while (!atomic_load_explicit(&s->stop, memory_order_relaxed))
        for (int i = 0; i < RING; i++)
            hg_ref_store(&ring[i], hg_alloc((size_t)object_bytes, HG_REFS));
    hg_waitgroup_done(&s->done);
}

static int main_task(void *arg)
{
    struct state *s = arg;
    hg_runtime *rt = hg_current();
    struct bench_node *root =
        bench_graph(live_mib * (1 << 20) / (int64_t)sizeof *root, &bench_node_layout);
    hg_collect(rt);
    hg_waitgroup_add(&s->done, (int)busy);
    for (int64_t i = 0; i < busy; i++)
        bench_check(hg_go(busy_task, s), "a task");
    hg_sleep(50000000);
    bench_look(s->before, rt);
    for (int64_t i = 0; i < collections; i++)
        hg_collect(rt);
    bench_look(s->after, rt);
    atomic_store_explicit(&s->stop, true, memory_order_relaxed);
    hg_waitgroup_wait(&s->done, HG_FOREVER);
    hg_keep_alive(root);
    return 0;
}

int main(int argc, char **argv)
{
    static struct state s;
    bench_begin(argc, argv,
                "Time of the collector's handshakes while tasks keep the procs busy, over forced\n"
                "collections.",
                options);
    hg_options opt;
    bench_options(&opt, procs);
    s.before = bench_look_new();
    s.after = bench_look_new();
    bench_run(main_task, &s, &opt);
    bench_between(s.before, s.after);
    const hg_stats *st = &s.before->stats;
    bench_percentiles(&s.before->hist[HG_HIST_HANDSHAKE], "handshake");
    bench_value((double)s.before->wall / 1e6 / (double)st->cycles, "ms", "elapsed per collection");
    bench_value((double)st->alloc_objects / (double)s.before->wall * 1e3, "M/s",
                "allocated meanwhile");
    bench_collector(s.before);
    return bench_end();
}

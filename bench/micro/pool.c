/* pool.c: what an object pool costs, against making the object anew each time.
 *
 *   get+put      one task takes an object and gives it back: the fast slot of its proc
 *   get 4+put 4  four at once: the proc's stack too, under its lock
 *   all procs    one such task per proc at the same time, on one pool: ns of each, so a pool that
 *                scales has the figure of one proc
 *   allocate     hg_alloc of the same size instead, collections included
 *
 * Each with collections from a heap that other garbage keeps busy would measure the collector; here
 * nothing else allocates.
 */
#include "bench/bench.h"

static int64_t operations = 20000000, bytes = 4096, rounds = 5, procs;

static const struct bench_option options[] = {
    {"operations", BENCH_NUMBER, &operations, 4, INT64_C(1) << 40, NULL, "pairs in a round"},
    {"bytes", BENCH_NUMBER, &bytes, 16, 1 << 20, NULL, "size of an object"},
    {"rounds", BENCH_NUMBER, &rounds, 1, BENCH_ROUNDS_MAX, NULL, "rounds of each"},
    BENCH_OPTION_PROCS(procs),
    {0}};

static void *make(void *arg)
{
    (void)arg;
    return hg_alloc((size_t)bytes, HG_LEAF);
}

struct worker {
    hg_objpool *pool; /* NULL: allocates */
    int64_t n;
    int at_once;
    int64_t *ns;
    hg_waitgroup *done;
};

static void touch(void *object) { __atomic_store_n((char *)object, 1, __ATOMIC_RELAXED); }

static void pairs(const struct worker *w)
{
    void *held[4];
    for (int64_t i = 0; i < w->n; i += w->at_once) {
        for (int k = 0; k < w->at_once; k++) {
            held[k] = w->pool != NULL ? hg_objpool_get(w->pool) : make(NULL);
            touch(held[k]);
        }
        for (int k = 0; k < w->at_once && w->pool != NULL; k++)
            hg_objpool_put(w->pool, held[k]);
    }
}

static void work(void *arg)
{
    const struct worker *w = arg;
    int64_t t = hg_now();
    pairs(w);
    __atomic_fetch_add(w->ns, hg_now() - t, __ATOMIC_RELAXED);
    hg_waitgroup_done(w->done);
}

/* ns per pair, of each of `tasks` tasks. */
static double measure(hg_objpool *pool, int64_t n, int at_once, int tasks)
{
    int64_t ns = 0;
    hg_waitgroup done = {{0}};
    struct worker w = {pool, n, at_once, &ns, &done};
    hg_waitgroup_add(&done, tasks);
    for (int i = 0; i < tasks; i++)
        bench_check(hg_go_copy(work, &w, sizeof w), "a task");
    hg_waitgroup_wait(&done, HG_FOREVER);
    return (double)__atomic_load_n(&ns, __ATOMIC_RELAXED) / (double)(n * tasks);
}

static int run(void *arg)
{
    static struct bench_samples one, four, all, fresh;
    hg_objpool_attr a = {.size = sizeof a, .max_object_bytes = 2 << 20, .make = make};
    hg_stats st = {.size = sizeof st};
    hg_objpool *pool;
    (void)arg;
    bench_check(hg_objpool_new(hg_current(), &a, &pool), "a pool");
    hg_stats_read(hg_current(), &st);
    for (int64_t round = 0; round < rounds; round++) {
        bench_add(&one, measure(pool, operations, 1, 1));
        bench_add(&four, measure(pool, operations, 4, 1));
        bench_add(&all, measure(pool, operations, 1, st.procs));
        bench_add(&fresh, measure(NULL, operations / 16, 1, 1));
    }
    bench_figure(&one, "ns", "get+put, one task");
    bench_figure(&four, "ns", "get+put, four at once, one task");
    bench_figure(&all, "ns", "get+put, a task on each of %d procs", st.procs);
    bench_figure(&fresh, "ns", "allocate %lld bytes instead", (long long)bytes);
    return 0;
}

int main(int argc, char **argv)
{
    hg_options opt;
    bench_begin(argc, argv, "The cost of taking an object from a pool and giving it back.",
                options);
    bench_options(&opt, procs);
    bench_run(run, NULL, &opt);
    return bench_end();
}

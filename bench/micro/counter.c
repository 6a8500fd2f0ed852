/* counter.c: hg_counter_add against one atomic word that all share, by one task and by one per
 * proc.
 *
 * A task adds in a loop with nothing else in it, so the shared word is as contended as it can be.
 */
#include "bench/bench.h"

static int64_t operations = 50000000, rounds = 5, procs;

static const struct bench_option options[] = {
    {"operations", BENCH_NUMBER, &operations, 1, INT64_C(1) << 40, NULL, "additions in a round"},
    {"rounds", BENCH_NUMBER, &rounds, 1, BENCH_ROUNDS_MAX, NULL, "rounds of each"},
    BENCH_OPTION_PROCS(procs),
    {0}};

static _Alignas(64) int64_t shared_word;

struct worker {
    hg_counter *counter; /* NULL: the shared word */
    int64_t *ns;
    hg_waitgroup *done;
};

static void work(void *arg)
{
    const struct worker *w = arg;
    int64_t t = hg_now();
    if (w->counter != NULL)
        for (int64_t i = 0; i < operations; i++)
            hg_counter_add(w->counter, 1);
    else
        for (int64_t i = 0; i < operations; i++)
            __atomic_fetch_add(&shared_word, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(w->ns, hg_now() - t, __ATOMIC_RELAXED);
    hg_waitgroup_done(w->done);
}

/* ns per addition, of each of `tasks` tasks. */
static double measure(hg_counter *counter, int tasks)
{
    int64_t ns = 0;
    hg_waitgroup done = {{0}};
    struct worker w = {counter, &ns, &done};
    hg_waitgroup_add(&done, tasks);
    for (int i = 0; i < tasks; i++)
        bench_check(hg_go_copy(work, &w, sizeof w), "a task");
    hg_waitgroup_wait(&done, HG_FOREVER);
    return (double)__atomic_load_n(&ns, __ATOMIC_RELAXED) / ((double)operations * tasks);
}

static int run(void *arg)
{
    static struct bench_samples counter_one, counter_all, shared_one, shared_all;
    hg_stats st = {.size = sizeof st};
    hg_counter *c;
    (void)arg;
    bench_check(hg_counter_new(hg_current(), "/bench/counter:count", &c), "a counter");
    hg_stats_read(hg_current(), &st);
    for (int64_t round = 0; round < rounds; round++) {
        bench_add(&counter_one, measure(c, 1));
        bench_add(&counter_all, measure(c, st.procs));
        bench_add(&shared_one, measure(NULL, 1));
        bench_add(&shared_all, measure(NULL, st.procs));
    }
    if (hg_counter_read(c) != rounds * operations * (1 + st.procs))
        bench_fail("the counter says %lld", (long long)hg_counter_read(c));
    bench_figure(&counter_one, "ns", "hg_counter_add, one task");
    bench_figure(&counter_all, "ns", "hg_counter_add, a task on each of %d procs", st.procs);
    bench_figure(&shared_one, "ns", "shared atomic word, one task");
    bench_figure(&shared_all, "ns", "shared atomic word, a task on each of %d procs", st.procs);
    return 0;
}

int main(int argc, char **argv)
{
    hg_options opt;
    bench_begin(argc, argv, "A counter with a cell per proc against one shared word.", options);
    bench_options(&opt, procs);
    bench_run(run, NULL, &opt);
    return bench_end();
}

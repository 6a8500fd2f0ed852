/* tasks.c: what tasks cost: switching, starting, meeting over a channel, lying parked, sleeping.
 *
 *   yield      two tasks on one proc yield in turn: elapsed time per yield. The count of switches
 *              that the runtime made for each yield is printed beside it: it has to be 1.
 *   spawn      batches of 256 tasks that only count themselves off in a wait group; per task, with
 *              the wait for the batch. By hg_go, and by hg_go_copy with 32 bytes of arguments.
 *   roundtrip  8 bytes there and 8 bytes back over two unbuffered channels.
 *   parked     tasks that wait on one channel: resident bytes and page tables per task, and the
 *              time from the first start until the last one waits; then until all have ended.
 *   sleep      tasks that sleep 1 to 10 ms each time: how late they go on.
 *
 * Each measurement has a process and a runtime of its own, so that its procs and its memory are its
 * own too.
 */
#include "bench/bench.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH 256

enum { YIELD, SPAWN, ROUNDTRIP, PARKED, SLEEP, KINDS };

static unsigned kinds = (1u << KINDS) - 1;
static struct bench_list parked_tasks = {2, {100000, 200000}};
static int64_t yields = 20000000, spawns = 2000000, trips = 2000000, rounds = 5;
static int64_t sleepers = 1000, sleeps = 200, procs;

static const struct bench_option options[] = {
    {"only", BENCH_WORDS, &kinds, 0, 0, "yield spawn roundtrip parked sleep", "measurements"},
    {"rounds", BENCH_NUMBER, &rounds, 1, BENCH_ROUNDS_MAX, NULL, "rounds of each"},
    {"yields", BENCH_NUMBER, &yields, 2, INT64_C(1) << 40, NULL, "yields in a round"},
    {"spawns", BENCH_NUMBER, &spawns, BATCH, INT64_C(1) << 40, NULL, "tasks started in a round"},
    {"trips", BENCH_NUMBER, &trips, 1, INT64_C(1) << 40, NULL, "round trips in a round"},
    {"parked", BENCH_LIST, &parked_tasks, 1, 10000000, NULL, "tasks that lie parked"},
    {"sleepers", BENCH_NUMBER, &sleepers, 1, 1000000, NULL, "tasks that sleep"},
    {"sleeps", BENCH_NUMBER, &sleeps, 1, 1000000, NULL, "sleeps of each"},
    BENCH_OPTION_PROCS(procs),
    {0}};

/* How many procs the open runtime has, for the figures' names. */
static const char *procs_text(void)
{
    static char text[32];
    hg_stats st = {.size = sizeof st};
    hg_stats_read(hg_current(), &st);
    snprintf(text, sizeof text, "%d proc%s", st.procs, st.procs == 1 ? "" : "s");
    return text;
}

static void start(void (*fn)(void *), const void *args, size_t bytes)
{
    bench_check(hg_go_copy(fn, args, bytes), "a task");
}

/* ---- yield ---- */

struct yielder {
    int64_t n;
    hg_waitgroup *done;
};

static void yield_task(void *arg)
{
    const struct yielder *y = arg;
    for (int64_t i = 0; i < y->n; i++)
        hg_yield();
    hg_waitgroup_done(y->done);
}

static int yield_main(void *arg)
{
    static struct bench_samples ns, switches;
    hg_runtime *rt = hg_current();
    (void)arg;
    for (int64_t round = 0; round < rounds; round++) {
        hg_waitgroup done = {{0}};
        struct yielder y = {yields / 2, &done};
        hg_stats before = {.size = sizeof before}, after = {.size = sizeof after};
        hg_waitgroup_add(&done, 2);
        hg_stats_read(rt, &before);
        int64_t t = hg_now();
        start(yield_task, &y, sizeof y);
        start(yield_task, &y, sizeof y);
        hg_waitgroup_wait(&done, HG_FOREVER);
        t = hg_now() - t;
        hg_stats_read(rt, &after);
        bench_add(&ns, (double)t / (double)(2 * y.n));
        bench_add(&switches, (double)(after.switches - before.switches) / (double)(2 * y.n));
    }
    bench_figure(&ns, "ns", "yield 2 tasks, %s", procs_text());
    bench_figure(&switches, "times", "yield 2 tasks, %s, switches", procs_text());
    return 0;
}

/* ---- spawn ---- */

struct spawned {
    hg_waitgroup *done;
    uint64_t more[3]; /* 32 bytes in all */
};

static void spawn_task(void *arg) { hg_waitgroup_done(arg); }

static void spawn_copy_task(void *arg)
{
    const struct spawned *s = arg;
    hg_waitgroup_done(s->done);
}

/* ns per task. */
static double spawn_round(bool copy)
{
    hg_waitgroup done = {{0}};
    struct spawned args = {&done, {1, 2, 3}};
    int64_t batches = spawns / BATCH, t = hg_now();
    for (int64_t b = 0; b < batches; b++) {
        hg_waitgroup_add(&done, BATCH);
        for (int i = 0; i < BATCH; i++)
            bench_check(copy ? hg_go_copy(spawn_copy_task, &args, sizeof args)
                             : hg_go(spawn_task, &done),
                        "a task");
        hg_waitgroup_wait(&done, HG_FOREVER);
    }
    return (double)(hg_now() - t) / (double)(batches * BATCH);
}

static int spawn_main(void *arg)
{
    static struct bench_samples plain, copy;
    (void)arg;
    for (int64_t round = 0; round < rounds; round++) {
        bench_add(&plain, spawn_round(false));
        bench_add(&copy, spawn_round(true));
    }
    bench_figure(&plain, "ns", "spawn and exit, %s", procs_text());
    bench_figure(&copy, "ns", "spawn and exit, %s, 32 bytes copied", procs_text());
    return 0;
}

/* ---- round trip ---- */

struct pair {
    hg_chan *there, *back;
};

static void echo_task(void *arg)
{
    const struct pair *p = arg;
    int64_t v;
    while (hg_chan_recv(p->there, &v, HG_FOREVER) == 0)
        if (hg_chan_send(p->back, &v, HG_FOREVER) != 0)
            return;
}

static int roundtrip_main(void *arg)
{
    static struct bench_samples ns;
    (void)arg;
    for (int64_t round = 0; round < rounds; round++) {
        struct pair p;
        bench_check(hg_chan_new(sizeof(int64_t), 0, HG_LEAF, &p.there), "a channel");
        bench_check(hg_chan_new(sizeof(int64_t), 0, HG_LEAF, &p.back), "a channel");
        start(echo_task, &p, sizeof p);
        int64_t t = hg_now(), answer = 0;
        for (int64_t i = 0; i < trips; i++) {
            hg_chan_send(p.there, &i, HG_FOREVER);
            hg_chan_recv(p.back, &answer, HG_FOREVER);
            if (answer != i)
                bench_fail("round trip %lld came back as %lld", (long long)i, (long long)answer);
        }
        bench_add(&ns, (double)(hg_now() - t) / (double)trips);
        hg_chan_close(p.there);
    }
    bench_figure(&ns, "ns", "unbuffered round trip, %s", procs_text());
    return 0;
}

/* ---- parked ---- */

struct parked {
    hg_chan *gate;
    hg_waitgroup *up, *down;
};

static void parked_task(void *arg)
{
    const struct parked *p = arg;
    hg_waitgroup_done(p->up);
    hg_chan_recv(p->gate, NULL, HG_FOREVER);
    hg_waitgroup_done(p->down);
}

static int parked_main(void *arg)
{
    const int64_t *n = arg;
    hg_waitgroup up = {{0}}, down = {{0}};
    struct parked p = {NULL, &up, &down};
    bench_check(hg_chan_new(0, 0, HG_LEAF, &p.gate), "a channel");
    hg_collect(hg_current());
    uint64_t rss = bench_rss(), tables = bench_page_tables();
    hg_waitgroup_add(&up, (int)*n);
    hg_waitgroup_add(&down, (int)*n);
    int64_t t = hg_now();
    for (int64_t i = 0; i < *n; i++) {
        int err = hg_go_copy(parked_task, &p, sizeof p);
        if (err != 0)
            bench_fail("task %lld of %lld: %s", (long long)i, (long long)*n, strerror(-err));
    }
    int64_t started = hg_now() - t;
    hg_waitgroup_wait(&up, HG_FOREVER);
    int64_t parked = hg_now() - t;
    hg_sleep(200000000); /* the last of them reach the channel */
    double each = (double)*n, task_rss = (double)bench_rss() - (double)rss;
    double task_tables = (double)bench_page_tables() - (double)tables;
    t = hg_now();
    hg_chan_close(p.gate);
    hg_waitgroup_wait(&down, HG_FOREVER);
    int64_t ended = hg_now() - t;
    long long count = *n;
    bench_value(task_rss / each, "B", "parked %lld tasks, resident per task", count);
    bench_value(task_tables / each, "B", "parked %lld tasks, page tables per task", count);
    bench_value((double)started / 1e9, "s", "parked %lld tasks, all started", count);
    bench_value((double)parked / 1e9, "s", "parked %lld tasks, all parked", count);
    bench_value((double)ended / 1e9, "s", "parked %lld tasks, all ended", count);
    return 0;
}

/* ---- sleep ---- */

struct sleeper {
    int64_t id;
    int64_t *late; /* sleeps of them, in C memory; this task's own */
    hg_waitgroup *done;
};

static void sleep_task(void *arg)
{
    const struct sleeper *s = arg;
    uint64_t state = BENCH_SEED + (uint64_t)s->id * 0x9e3779b97f4a7c15u;
    for (int64_t i = 0; i < sleeps; i++) {
        int64_t until = hg_in(1000000 + (int64_t)(bench_random(&state) % 9000000));
        hg_sleep_until(until);
        s->late[i] = hg_now() - until;
    }
    hg_waitgroup_done(s->done);
}

static int sleep_main(void *arg)
{
    static hg_histogram late;
    int64_t *all = arg, early = 0;
    hg_waitgroup done = {{0}};
    hg_waitgroup_add(&done, (int)sleepers);
    for (struct sleeper s = {0, all, &done}; s.id < sleepers; s.id++, s.late += sleeps)
        start(sleep_task, &s, sizeof s);
    hg_waitgroup_wait(&done, HG_FOREVER);
    for (int64_t i = 0; i < sleepers * sleeps; i++) {
        hg_histogram_add(&late, all[i]);
        early += all[i] < 0;
    }
    if (early > 0)
        bench_fail("%lld sleeps ended early", (long long)early);
    bench_percentiles(&late, "sleep, too late");
    return 0;
}

/* ---- all ---- */

struct run {
    int (*fn)(void *);
    void *arg;
    int64_t procs;
};

static void in_child(void *arg)
{
    const struct run *r = arg;
    hg_options opt;
    bench_options(&opt, r->procs);
    bench_run(r->fn, r->arg, &opt);
}

static void run(int (*fn)(void *), void *arg, int64_t n)
{
    struct run r = {fn, arg, n};
    bench_isolated(in_child, &r);
}

/* On one proc, and on as many as asked for. */
static void run_both(int (*fn)(void *))
{
    if (procs != 1)
        run(fn, NULL, 1);
    run(fn, NULL, procs);
}

int main(int argc, char **argv)
{
    bench_begin(argc, argv,
                "Cost of switching, starting and parking tasks, of channel round trips, and how\n"
                "late sleeping tasks go on.",
                options);
    if ((kinds >> YIELD & 1) != 0)
        run(yield_main, NULL, 1);
    if ((kinds >> SPAWN & 1) != 0)
        run_both(spawn_main);
    if ((kinds >> ROUNDTRIP & 1) != 0)
        run_both(roundtrip_main);
    for (int i = 0; i < parked_tasks.n && (kinds >> PARKED & 1) != 0; i++)
        run(parked_main, &parked_tasks.v[i], procs);
    if ((kinds >> SLEEP & 1) != 0) {
        int64_t *late = calloc((size_t)(sleepers * sleeps), sizeof *late);
        if (late == NULL)
            bench_fail("no memory for %lld sleeps", (long long)(sleepers * sleeps));
        run(sleep_main, late, procs);
        free(late);
    }
    return bench_end();
}

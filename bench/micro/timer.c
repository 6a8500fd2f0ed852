/* timer.c: what timers cost: memory, arming, moving, stopping and firing, by how many are armed;
 * and how late they fire.
 *
 *   cost      n timers lie armed, in an order of memory that is random against their times. Then,
 *             for one timer more or one of them, chosen at random: arm and stop, move, and a timer
 *             on a task's stack that is made, armed and stopped. Per operation, mean of many.
 *             Before and after: arming all, and stopping all, per timer
 *   memory    what the library keeps for an armed timer, beside the struct
 *   fire      n timers that are due at random times within a short span: CPU time per timer that
 *             fires
 *   late      one timer at a time, 0.2 to 5 ms ahead, on a machine that is otherwise idle: from the
 *             time that it was set to, to its function; and to a task that waits for it
 *
 * Each measurement has a process and a runtime of its own.
 */
#include "bench/bench.h"
#include <stdio.h>
#include <stdlib.h>

#define HOUR INT64_C(3600000000000)

enum { COST, FIRE, LATE, KINDS };

static unsigned kinds = (1u << KINDS) - 1;
static struct bench_list armed = {3, {1000, 100000, 5000000}};
static int64_t ops = 2000000, rounds = 3, shots = 2000, fires = 1000000, procs;

static const struct bench_option options[] = {
    {"only", BENCH_WORDS, &kinds, 0, 0, "cost fire late", "measurements"},
    {"armed", BENCH_LIST, &armed, 1, 50000000, NULL, "timers that lie armed"},
    {"ops", BENCH_NUMBER, &ops, 1000, INT64_C(1) << 40, NULL, "operations in a round"},
    {"rounds", BENCH_NUMBER, &rounds, 1, BENCH_ROUNDS_MAX, NULL, "rounds of each"},
    {"fires", BENCH_NUMBER, &fires, 1000, 50000000, NULL, "timers that fire"},
    {"shots", BENCH_NUMBER, &shots, 10, INT64_C(1) << 30, NULL, "timers whose lateness is taken"},
    BENCH_OPTION_PROCS(procs),
    {0}};

static uint64_t state = BENCH_SEED;

/* C memory of n timers with a function. */
static hg_timer *new_timers(int64_t n, void (*fn)(hg_timer *, void *), void *arg)
{
    hg_timer *t = calloc((size_t)n, sizeof *t);
    if (t == NULL)
        bench_fail("no memory for %lld timers", (long long)n);
    for (int64_t i = 0; i < n; i++)
        hg_timer_init(&t[i], fn, arg);
    return t;
}

static int64_t some_time(void) { return hg_in(HOUR + (int64_t)(bench_random(&state) % HOUR)); }

static void arm(hg_timer *t, int64_t when)
{
    int r = hg_timer_reset(t, when);
    if (r < 0)
        bench_check(r, "a timer");
}

static void never(hg_timer *t, void *arg)
{
    (void)t;
    (void)arg;
    bench_fail("a timer that is due in an hour fired");
}

/* ---- cost ---- */

/* ns for each of `ops` calls of op. */
static double per_op(void (*op)(hg_timer *, int64_t), hg_timer *all, int64_t n)
{
    int64_t t = hg_now();
    for (int64_t i = 0; i < ops; i++)
        op(all, n);
    return (double)(hg_now() - t) / (double)ops;
}
static void op_nothing(hg_timer *all, int64_t n)
{
    hg_keep_alive(&all[bench_random(&state) % (uint64_t)n]);
    hg_keep_alive((void *)(uintptr_t)some_time());
}
/* One of them is stopped and armed for another time. */
static void op_again(hg_timer *all, int64_t n)
{
    hg_timer *t = &all[bench_random(&state) % (uint64_t)n];
    if (!hg_timer_stop(t))
        bench_fail("a timer was not armed");
    arm(t, some_time());
}
static void op_move(hg_timer *all, int64_t n)
{
    arm(&all[bench_random(&state) % (uint64_t)n], some_time());
}
/* What a deadline of a call is: the last of all by its time, and stopped soon. */
static void op_stack(hg_timer *all, int64_t n)
{
    hg_timer t;
    (void)all;
    (void)n;
    hg_timer_init(&t, never, NULL);
    arm(&t, some_time() + HOUR);
    if (!hg_timer_stop(&t))
        bench_fail("a timer was not armed");
}

static int cost_main(void *arg)
{
    static struct bench_samples nothing, again, move, stack;
    int64_t n = *(const int64_t *)arg;
    hg_timer *all = new_timers(n, never, NULL);
    hg_stats before = {.size = sizeof before}, after = {.size = sizeof after};
    hg_stats_read(hg_current(), &before);
    uint64_t rss = bench_rss();
    int64_t t = hg_now();
    for (int64_t i = 0; i < n; i++)
        arm(&all[i], some_time());
    t = hg_now() - t;
    double resident = (double)bench_rss() - (double)rss;
    hg_stats_read(hg_current(), &after);
    if (after.timers_now - before.timers_now < (uint64_t)n)
        bench_fail("only %llu timers are armed", (unsigned long long)after.timers_now);
    long long count = n;
    bench_value((double)t / (double)n, "ns", "%lld armed: arming all, each", count);
    bench_value(resident / (double)n, "B", "%lld armed: resident, beside the struct, each", count);
    for (int64_t round = 0; round < rounds; round++) {
        bench_add(&nothing, per_op(op_nothing, all, n));
        bench_add(&again, per_op(op_again, all, n));
        bench_add(&move, per_op(op_move, all, n));
        bench_add(&stack, per_op(op_stack, all, n));
    }
    bench_figure(&nothing, "ns", "%lld armed: choosing timer and time", count);
    bench_figure(&again, "ns", "%lld armed: stop and arm one, with that", count);
    bench_figure(&move, "ns", "%lld armed: move one, with that", count);
    bench_figure(&stack, "ns", "%lld armed: make, arm, stop on stack, with that", count);
    t = hg_now();
    for (int64_t i = 0; i < n; i++)
        if (!hg_timer_stop(&all[i]))
            bench_fail("a timer was not armed");
    bench_value((double)(hg_now() - t) / (double)n, "ns", "%lld armed: stopping all, each", count);
    free(all);
    return 0;
}

/* ---- fire ---- */

static int64_t fired; /* callbacks run on one proc here */
static void count(hg_timer *t, void *arg)
{
    (void)t;
    (void)arg;
    fired++;
}

static int fire_main(void *arg)
{
    static struct bench_samples ns;
    (void)arg;
    hg_timer *all = new_timers(fires, count, NULL);
    for (int64_t round = 0; round < rounds; round++) {
        fired = 0;
        int64_t from = hg_now() + fires * 600, span = fires * 100;
        for (int64_t i = 0; i < fires; i++)
            arm(&all[i], from + (int64_t)(bench_random(&state) % (uint64_t)span));
        hg_sleep_until(from);
        int64_t cpu = bench_cpu();
        while (fired < fires)
            hg_sleep(1000000);
        bench_add(&ns, (double)(bench_cpu() - cpu) / (double)fires);
    }
    bench_figure(&ns, "ns", "%lld fire: CPU each", (long long)fires);
    free(all);
    return 0;
}

/* ---- late ---- */

static int64_t late_at;
static void note(hg_timer *t, void *arg)
{
    (void)t;
    late_at = hg_now();
    hg_sema_release(arg, 1);
}

static int late_main(void *arg)
{
    static hg_histogram to_function, to_task, to_waiter;
    hg_sema fell = {{0}};
    hg_timer t, w = {{0}};
    (void)arg;
    hg_timer_init(&t, note, &fell);
    for (int64_t i = 0; i < shots; i++) {
        int64_t when = hg_in(200000 + (int64_t)(bench_random(&state) % 4800000));
        arm(&t, when);
        bench_check(hg_sema_acquire(&fell, 1, HG_FOREVER), "a semaphore");
        hg_histogram_add(&to_task, hg_now() - when);
        hg_histogram_add(&to_function, late_at - when);
        when = hg_in(200000 + (int64_t)(bench_random(&state) % 4800000));
        arm(&w, when);
        bench_check(hg_timer_wait(&w, HG_FOREVER), "a timer that is waited for");
        hg_histogram_add(&to_waiter, hg_now() - when);
    }
    bench_percentiles(&to_function, "late: its function");
    bench_percentiles(&to_task, "late: a task that its function wakes");
    bench_percentiles(&to_waiter, "late: a task that waits for it");
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

int main(int argc, char **argv)
{
    bench_begin(
        argc, argv,
        "Cost of timers: memory, arming, moving, stopping and firing, by how many are armed;\n"
        "and how late they fire.",
        options);
    for (int i = 0; i < armed.n && (kinds >> COST & 1) != 0; i++)
        run(cost_main, &armed.v[i], 1);
    if ((kinds >> FIRE & 1) != 0)
        run(fire_main, NULL, 1);
    if ((kinds >> LATE & 1) != 0)
        run(late_main, NULL, procs);
    return bench_end();
}

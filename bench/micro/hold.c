/* hold.c: for how long the collector holds a task up in one piece, by how many tasks there are and
 * how much is live.
 *
 * Each of `tasks` tasks wakes up, allocates `garbage` nodes of 64 bytes into a list, and sleeps
 * again, at random, so that all together wake up `rate` times a second. It sleeps under `depth`
 * frames of 16 references, which the collector has to scan. Beside them live nodes in random
 * linkage. Collections are forced, with a short pause between, so that nearly all of the time one
 * is under way.
 *
 * The hold is the runtime's own histogram of CPU time: handshake callbacks, scans of a task that is
 * switched to, slices of marking between two tasks, assists, sweeping by an allocation. Its p99.9
 * should depend neither on the number of tasks nor on the size of the heap, which is why all
 * combinations are run, each in a process of its own.
 */
#include "bench/bench.h"
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>

#define FRAME_REFS 16
#define PAUSE_NS   10000000 /* between two collections */

static struct bench_list tasks_list = {2, {1000, 20000}}, live_list = {2, {64, 2048}};
static int64_t rate = 50000, garbage = 12, depth = 8, seconds = 10, procs;

static const struct bench_option options[] = {
    {"tasks", BENCH_LIST, &tasks_list, 1, 10000000, NULL, "tasks that sleep and allocate"},
    {"live", BENCH_LIST, &live_list, 1, 1 << 20, NULL, "MiB of live nodes in random linkage"},
    {"rate", BENCH_NUMBER, &rate, 1, 100000000, NULL, "wake-ups per second, all tasks together"},
    {"garbage", BENCH_NUMBER, &garbage, 0, 100000, NULL, "nodes that a wake-up allocates"},
    {"depth", BENCH_NUMBER, &depth, 0, 200, NULL, "frames of 16 references under each sleep"},
    {"seconds", BENCH_NUMBER, &seconds, 1, 100000, NULL, "time that each combination is measured"},
    BENCH_OPTION_PROCS(procs),
    {0}};

/* One combination. Lies in C memory. */
struct combination {
    int64_t tasks, live_mib;
    _Atomic bool stop;        /* written by the main task once */
    _Atomic uint64_t wakeups; /* of all tasks */
    hg_waitgroup done;
    struct bench_look *before, *after;
    uint64_t wakeups_before, wakeups_after;
};

struct sleeper {
    struct combination *c;
    int64_t id;
};

/* One wake-up's work. Returns the list's head, which the caller drops. */
__attribute__((noinline)) static struct bench_node *make_garbage(void)
{
    struct bench_node *list = NULL;
    for (int64_t i = 0; i < garbage; i++) {
        struct bench_node *n = hg_alloc(sizeof *n, &bench_node_layout);
        n->left = list;
        list = n;
    }
    return list;
}

static void sleep_and_allocate(const struct sleeper *s)
{
    uint64_t state = BENCH_SEED + (uint64_t)s->id * 0x9e3779b97f4a7c15u;
    double mean = (double)s->c->tasks / (double)rate * 1e9;
    int64_t at = hg_now();
    while (!atomic_load_explicit(&s->c->stop, memory_order_relaxed)) {
        double u = ((double)(bench_random(&state) >> 11) + 1) / 9007199254740992.0;
        at += (int64_t)(-log(u) * mean);
        hg_sleep_until(at);
        hg_keep_alive(make_garbage());
        atomic_fetch_add_explicit(&s->c->wakeups, 1, memory_order_relaxed);
    }
}

/* The frames stay in memory: the compiler must believe that they are read and changed elsewhere. */
static inline void frame_used(struct bench_node **frame)
{
    __asm__ volatile("" : : "r"(frame) : "memory");
}

__attribute__((noinline)) static struct bench_node *
under_frames(int64_t left, const struct sleeper *s, struct bench_node *up)
{
    struct bench_node *frame[FRAME_REFS];
    if (left == 0) {
        sleep_and_allocate(s);
        return up;
    }
    for (int i = 0; i < FRAME_REFS; i++)
        frame[i] = up;
    frame_used(frame);
    frame[0] = under_frames(left - 1, s, frame[left % FRAME_REFS]);
    frame_used(frame);
    return frame[left % FRAME_REFS];
}

static void sleeper_task(void *arg)
{
    const struct sleeper *s = arg;
    struct bench_node *up = hg_alloc(sizeof *up, &bench_node_layout);
    hg_keep_alive(under_frames(depth, s, up));
    hg_waitgroup_done(&s->c->done);
}

static void measure(struct combination *c, hg_runtime *rt)
{
    bench_look(c->before, rt);
    c->wakeups_before = atomic_load_explicit(&c->wakeups, memory_order_relaxed);
    int64_t end = hg_in(seconds * 1000000000);
    while (hg_now() < end) {
        hg_collect(rt);
        hg_sleep(PAUSE_NS);
    }
    bench_look(c->after, rt);
    c->wakeups_after = atomic_load_explicit(&c->wakeups, memory_order_relaxed);
}

static int main_task(void *arg)
{
    struct combination *c = arg;
    hg_runtime *rt = hg_current();
    int percent = hg_set_gc_percent(rt, -1);
    struct bench_node *root =
        bench_graph(c->live_mib * (1 << 20) / (int64_t)sizeof *root, &bench_node_layout);
    hg_set_gc_percent(rt, percent);
    hg_collect(rt);
    hg_waitgroup_add(&c->done, (int)c->tasks);
    for (struct sleeper s = {c, 0}; s.id < c->tasks; s.id++)
        bench_check(hg_go_copy(sleeper_task, &s, sizeof s), "a task");
    hg_sleep(1000000000);
    measure(c, rt);
    atomic_store_explicit(&c->stop, true, memory_order_relaxed);
    hg_waitgroup_wait(&c->done, HG_FOREVER);
    hg_keep_alive(root);
    return 0;
}

static void run(void *arg)
{
    struct combination *c = arg;
    char name[40];
    hg_options opt;
    bench_options(&opt, procs);
    if (opt.stack_bytes < 32768 + (size_t)depth * 256)
        opt.stack_bytes = 32768 + (size_t)depth * 256;
    c->before = bench_look_new();
    c->after = bench_look_new();
    bench_run(main_task, c, &opt);
    bench_between(c->before, c->after);
    const hg_stats *st = &c->before->stats;
    snprintf(name, sizeof name, "%lld tasks %lld MiB hold", (long long)c->tasks,
             (long long)c->live_mib);
    bench_percentiles(&c->before->hist[HG_HIST_HOLD], name);
    snprintf(name, sizeof name, "%lld tasks %lld MiB", (long long)c->tasks, (long long)c->live_mib);
    bench_value((double)st->cycles, "cycles", "%s, collections", name);
    bench_value((double)st->assists, "times", "%s, assists", name);
    bench_value((double)st->longest_assist_ns / 1e3, "us", "%s, longest assist", name);
    bench_value((double)(c->wakeups_after - c->wakeups_before) / (double)c->before->wall * 1e9,
                "/s", "%s, wake-ups", name);
}

int main(int argc, char **argv)
{
    bench_begin(
        argc, argv,
        "How long the collector holds a task up in one piece (CPU time), while collections\n"
        "run one after the other, by the number of tasks and the size of the live heap.",
        options);
    for (int i = 0; i < tasks_list.n; i++)
        for (int k = 0; k < live_list.n; k++) {
            struct combination c = {.tasks = tasks_list.v[i], .live_mib = live_list.v[k]};
            bench_isolated(run, &c);
        }
    return bench_end();
}

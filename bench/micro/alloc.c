/* alloc.c: what an allocation costs.
 *
 * Each task allocates objects of one size and stores them in turn into a ring of 1,024 references,
 * so that an object lives for 1,024 allocations; beside them lies a leaf object of 64 MiB, which
 * gives the collector the heap of a real program to grow by. Memory comes zeroed; the first word is
 * written. A figure is the elapsed time per allocation, with the store into the ring.
 *
 *   steady   GOGC=100: with all collections, sweeping and assists that fall into it. Its CPU figure
 *            is the time of all threads per allocation: what other procs do for it is in there.
 *   gc off   no collection runs: the fast path, refilling from swept spans, zeroing. Memory that
 *            was touched before is used again: a collection frees it before each measurement.
 *
 * Rounds go over all combinations in turn, so that a disturbance does not fall on one alone.
 */
#include "bench/bench.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RING       1024
#define WARM_UP    100000
#define TASKS_MAX  64
#define OFF_BUDGET (INT64_C(256) << 20) /* bytes that the tasks may allocate with gc off */

enum mode { MODE_STEADY, MODE_OFF, MODES };
static const char *const mode_name[MODES] = {"steady", "gc off"};

static const uint32_t pair_refs[] = {0, 8};
static const hg_layout pair_layout = HG_TYPED("pair", pair_refs);
enum { LAYOUTS = 3 };
static const char *const layout_name[LAYOUTS] = {"leaf", "refs", "typed"};

static struct bench_list sizes = {6, {16, 32, 48, 64, 128, 1024}};
static unsigned layouts = (1u << LAYOUTS) - 1, modes = (1u << MODES) - 1;
static int64_t count = 20000000, tasks = 1, rounds = 3, ballast_mib = 64, procs;

static const struct bench_option options[] = {
    {"size", BENCH_LIST, &sizes, 8, 32768, NULL, "bytes of an object"},
    {"layout", BENCH_WORDS, &layouts, 0, 0, "leaf refs typed", "layouts"},
    {"mode", BENCH_WORDS, &modes, 0, 0, "steady off", "with collections, without"},
    {"count", BENCH_NUMBER, &count, 1, INT64_C(1) << 40, NULL,
     "allocations of a task in a round; of large objects, as many as 2 GiB hold"},
    {"tasks", BENCH_NUMBER, &tasks, 1, TASKS_MAX, NULL, "tasks that allocate at once"},
    {"rounds", BENCH_NUMBER, &rounds, 1, BENCH_ROUNDS_MAX, NULL, "rounds"},
    {"ballast", BENCH_NUMBER, &ballast_mib, 0, 1 << 20, NULL, "MiB of the leaf object beside them"},
    BENCH_OPTION_PROCS(procs),
    {0}};

/* What came of one combination. */
struct cell {
    struct bench_samples wall, cpu, cycles;
};
static struct cell cells[BENCH_LIST_MAX][LAYOUTS][MODES];

struct job {
    size_t size;
    const hg_layout *layout;
    int64_t n;
    hg_waitgroup ready, go, done;
    int64_t wall[TASKS_MAX]; /* each written by its task, read after `done` */
};

struct worker {
    struct job *job;
    int64_t id;
};

static const hg_layout *layout_of(int i)
{
    return i == 0 ? HG_LEAF : i == 1 ? HG_REFS : &pair_layout;
}

/* The first word is NULL: in every layout a legal reference. */
__attribute__((noinline)) static void allocate(void **ring, size_t size, const hg_layout *layout,
                                               int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        void **object = hg_alloc(size, layout);
        *object = NULL;
        hg_ref_store(&ring[i % RING], object);
    }
}

static void worker_task(void *arg)
{
    const struct worker *w = arg;
    struct job *job = w->job;
    void **ring = hg_alloc(RING * sizeof *ring, HG_REFS);
    allocate(ring, job->size, job->layout, job->n < WARM_UP ? job->n : WARM_UP);
    hg_waitgroup_done(&job->ready);
    hg_waitgroup_wait(&job->go, HG_FOREVER);
    int64_t t = hg_now();
    allocate(ring, job->size, job->layout, job->n);
    job->wall[w->id] = hg_now() - t;
    hg_keep_alive(ring);
    hg_waitgroup_done(&job->done);
}

static int64_t count_of(size_t size, enum mode mode)
{
    int64_t room = (mode == MODE_OFF ? OFF_BUDGET / tasks : INT64_C(2) << 30) / (int64_t)size;
    return count < room ? count : room;
}

/* One combination once. The job lies in C memory: tasks write to it. */
static void measure(struct cell *cell, size_t size, int layout, enum mode mode, bool keep)
{
    static struct job job;
    static struct bench_look before, after;
    hg_runtime *rt = hg_current();
    memset(&job, 0, sizeof job);
    job.size = size;
    job.layout = layout_of(layout);
    job.n = count_of(size, mode);
    hg_set_gc_percent(rt, mode == MODE_OFF ? -1 : 100);
    hg_collect(rt);
    hg_waitgroup_add(&job.ready, (int)tasks);
    hg_waitgroup_add(&job.done, (int)tasks);
    hg_waitgroup_add(&job.go, 1);
    for (struct worker w = {&job, 0}; w.id < tasks; w.id++)
        bench_check(hg_go_copy(worker_task, &w, sizeof w), "a task");
    hg_waitgroup_wait(&job.ready, HG_FOREVER);
    bench_look(&before, rt);
    hg_waitgroup_done(&job.go);
    hg_waitgroup_wait(&job.done, HG_FOREVER);
    bench_look(&after, rt);
    bench_between(&before, &after);
    double wall = 0;
    for (int64_t i = 0; i < tasks; i++)
        wall += (double)job.wall[i] / (double)tasks;
    if (!keep)
        return;
    bench_add(&cell->wall, wall / (double)job.n);
    bench_add(&cell->cpu, (double)before.cpu / (double)(job.n * tasks));
    bench_add(&cell->cycles, (double)before.stats.cycles);
}

/* Round 0 is not counted: it touches the memory and warms the CPU up. */
static int main_task(void *arg)
{
    (void)arg;
    char *ballast = hg_alloc((size_t)ballast_mib << 20, HG_LEAF);
    memset(ballast, 1, (size_t)ballast_mib << 20);
    for (int64_t round = 0; round <= rounds; round++)
        for (int size = 0; size < sizes.n; size++)
            for (int layout = 0; layout < LAYOUTS; layout++)
                for (int mode = 0; mode < MODES; mode++)
                    if ((layouts >> layout & 1) != 0 && (modes >> mode & 1) != 0)
                        measure(&cells[size][layout][mode], (size_t)sizes.v[size], layout,
                                (enum mode)mode, round > 0);
    hg_keep_alive(ballast);
    return 0;
}

static void report(void)
{
    for (int mode = 0; mode < MODES; mode++)
        for (int layout = 0; layout < LAYOUTS; layout++)
            for (int size = 0; size < sizes.n; size++) {
                const struct cell *c = &cells[size][layout][mode];
                const char *l = layout_name[layout], *m = mode_name[mode];
                long long bytes = sizes.v[size];
                bench_figure(&c->wall, "ns", "allocate %s %lld B, %s", l, bytes, m);
                if (mode == MODE_STEADY) {
                    bench_figure(&c->cpu, "ns", "allocate %s %lld B, %s, CPU", l, bytes, m);
                    bench_figure(&c->cycles, "cycles", "allocate %s %lld B, %s, collections", l,
                                 bytes, m);
                }
            }
}

int main(int argc, char **argv)
{
    bench_begin(argc, argv,
                "Time per allocation of small zeroed objects, of which 1,024 per task live, with\n"
                "collections and without.",
                options);
    hg_options opt;
    bench_options(&opt, procs);
    bench_run(main_task, NULL, &opt);
    report();
    return bench_end();
}

/* bintree.c: binary trees, the allocation of many short-lived trees beside one that lives.
 *
 * A stretch tree of depth + 1 is built and dropped; a tree of the full depth lives to the end; for
 * depths 4, 8, ... up to it, 2^(depth - d + 4) trees of depth d are built, counted and dropped by
 * `workers` tasks. A node is two references, 16 bytes (HG_REFS). The count of nodes is checked.
 *
 * One run per process, so that its peak of resident memory is its own; bench/compare repeats it.
 */
#include "bench/bench.h"

#define STEP        4
#define WORKERS_MAX 64

static int64_t depth_max = 18, workers = 2, procs;

static const struct bench_option options[] = {
    {"depth", BENCH_NUMBER, &depth_max, STEP, 30, NULL, "depth of the tree that lives"},
    {"workers", BENCH_NUMBER, &workers, 1, WORKERS_MAX, NULL, "tasks that build trees"},
    BENCH_OPTION_PROCS(procs),
    {0}};

struct tree {
    struct tree *left, *right;
};

struct result {
    struct bench_look *before, *after;
    int64_t nodes;
};

/* Nobody else can reach a tree that is being built: plain stores. */
static struct tree *make(int64_t depth)
{
    struct tree *t = hg_alloc(sizeof *t, HG_REFS);
    if (depth > 0) {
        t->left = make(depth - 1);
        t->right = make(depth - 1);
    }
    return t;
}

static int64_t count(const struct tree *t)
{
    return t->left == NULL ? 1 : 1 + count(t->left) + count(t->right);
}

struct worker {
    int64_t depth, trees;
    int64_t *nodes; /* in C memory, this worker's own */
    hg_waitgroup *done;
};

static void worker_task(void *arg)
{
    const struct worker *w = arg;
    int64_t nodes = 0;
    for (int64_t i = 0; i < w->trees; i++)
        nodes += count(make(w->depth));
    *w->nodes = nodes;
    hg_waitgroup_done(w->done);
}

static int64_t trees_per_worker(int64_t depth)
{
    return (INT64_C(1) << (depth_max - depth + STEP)) / workers;
}

static int64_t at_depth(int64_t depth)
{
    static int64_t nodes[WORKERS_MAX];
    hg_waitgroup done = {{0}};
    int64_t sum = 0;
    hg_waitgroup_add(&done, (int)workers);
    for (int64_t i = 0; i < workers; i++) {
        struct worker w = {depth, trees_per_worker(depth), &nodes[i], &done};
        bench_check(hg_go_copy(worker_task, &w, sizeof w), "a task");
    }
    hg_waitgroup_wait(&done, HG_FOREVER);
    for (int64_t i = 0; i < workers; i++)
        sum += nodes[i];
    return sum;
}

static int main_task(void *arg)
{
    struct result *r = arg;
    hg_runtime *rt = hg_current();
    bench_look(r->before, rt);
    r->nodes = count(make(depth_max + 1));
    struct tree *lives = make(depth_max);
    for (int64_t depth = STEP; depth <= depth_max; depth += STEP)
        r->nodes += at_depth(depth);
    r->nodes += count(lives);
    bench_look(r->after, rt);
    return 0;
}

static int64_t expected_nodes(void)
{
    int64_t nodes = (INT64_C(4) << depth_max) - 1 + (INT64_C(2) << depth_max) - 1;
    for (int64_t depth = STEP; depth <= depth_max; depth += STEP)
        nodes += workers * trees_per_worker(depth) * ((INT64_C(2) << depth) - 1);
    return nodes;
}

int main(int argc, char **argv)
{
    bench_begin(argc, argv, "Binary trees on tasks: elapsed time, CPU, memory, the collector.",
                options);
    struct result r = {bench_look_new(), bench_look_new(), 0};
    hg_options opt;
    bench_options(&opt, procs);
    bench_run(main_task, &r, &opt);
    if (r.nodes != expected_nodes())
        bench_fail("%lld nodes were counted, %lld expected", (long long)r.nodes,
                   (long long)expected_nodes());
    bench_between(r.before, r.after);
    bench_value((double)r.before->wall / 1e9, "s", "binary trees, elapsed");
    bench_value((double)r.before->cpu / 1e9, "s", "binary trees, CPU");
    bench_value((double)bench_rss_peak() / 1048576, "MiB", "binary trees, peak resident");
    bench_value((double)r.before->stats.heap_peak_bytes / 1048576, "MiB",
                "binary trees, peak heap");
    bench_collector(r.before);
    return bench_end();
}

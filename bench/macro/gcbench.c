/* gcbench.c: the benchmark GCBench by Ellis, Kovac and Boehm, with several workers.
 *
 * A tree of depth `stretch` is built and dropped; a tree of depth `long` and an array of 4,000,000
 * doubles live to the end; beside them `workers` tasks build trees of depths 4, 6, ... up to
 * `long`, each depth as many nodes as two stretch trees have: top down (a node, then its children
 * into it) and bottom up (children first). A node is two references and two ints, 24 bytes.
 *
 * One run per process, so that its peak of resident memory is its own; bench/compare repeats it.
 */
#include "bench/bench.h"

#define SHALLOWEST 4
#define DOUBLES    4000000

static int64_t workers = 2, stretch_depth = 20, long_depth = 18, procs;

static const struct bench_option options[] = {
    {"workers", BENCH_NUMBER, &workers, 1, 1000, NULL, "tasks that build trees"},
    {"stretch", BENCH_NUMBER, &stretch_depth, 0, 30, NULL, "depth of the stretch tree"},
    {"long", BENCH_NUMBER, &long_depth, 0, 30, NULL, "depth of the tree that lives"},
    BENCH_OPTION_PROCS(procs),
    {0}};

struct node {
    struct node *left, *right;
    int i, j;
};

static const uint32_t node_refs[] = {(uint32_t)offsetof(struct node, left),
                                     (uint32_t)offsetof(struct node, right)};
static const hg_layout node_layout = HG_TYPED("gcbench node", node_refs);

static struct node *node_new(void) { return hg_alloc(sizeof(struct node), &node_layout); }

static int64_t tree_nodes(int64_t depth) { return (INT64_C(2) << depth) - 1; }

/* Nobody else can reach a tree that is being built: plain stores. */
static void populate(int64_t depth, struct node *n)
{
    if (depth <= 0)
        return;
    n->left = node_new();
    n->right = node_new();
    populate(depth - 1, n->left);
    populate(depth - 1, n->right);
}

static struct node *make(int64_t depth)
{
    struct node *left = NULL, *right = NULL;
    if (depth > 0) {
        left = make(depth - 1);
        right = make(depth - 1);
    }
    struct node *n = node_new();
    n->left = left;
    n->right = right;
    return n;
}

static int64_t count(const struct node *n)
{
    return n->left == NULL ? 1 : 1 + count(n->left) + count(n->right);
}

static void worker_task(void *arg)
{
    hg_waitgroup *done = arg;
    for (int64_t depth = SHALLOWEST; depth <= long_depth; depth += 2) {
        int64_t trees = 2 * tree_nodes(stretch_depth) / tree_nodes(depth) / workers;
        if (trees < 1)
            trees = 1;
        for (int64_t i = 0; i < trees; i++) {
            struct node *n = node_new();
            populate(depth, n);
            hg_keep_alive(n);
        }
        for (int64_t i = 0; i < trees; i++)
            hg_keep_alive(make(depth));
    }
    hg_waitgroup_done(done);
}

struct result {
    struct bench_look *before, *after;
    bool wrong;
};

static int main_task(void *arg)
{
    struct result *r = arg;
    hg_waitgroup done = {{0}};
    bench_look(r->before, hg_current());
    hg_keep_alive(make(stretch_depth));
    struct node *lives = node_new();
    populate(long_depth, lives);
    double *array = hg_alloc(DOUBLES * sizeof *array, HG_LEAF);
    for (int i = 1; i < DOUBLES; i++)
        array[i] = 1.0 / i;
    hg_waitgroup_add(&done, (int)workers);
    for (int64_t i = 0; i < workers; i++)
        bench_check(hg_go(worker_task, &done), "a task");
    hg_waitgroup_wait(&done, HG_FOREVER);
    bench_look(r->after, hg_current());
    r->wrong = array[1000] != 1.0 / 1000 || count(lives) != tree_nodes(long_depth);
    return 0;
}

int main(int argc, char **argv)
{
    bench_begin(argc, argv, "GCBench on tasks: elapsed time, CPU, memory, the collector.", options);
    struct result r = {bench_look_new(), bench_look_new(), false};
    hg_options opt;
    bench_options(&opt, procs);
    bench_run(main_task, &r, &opt);
    if (r.wrong)
        bench_fail("what lived has changed");
    bench_between(r.before, r.after);
    bench_value((double)r.before->wall / 1e9, "s", "gcbench, elapsed");
    bench_value((double)r.before->cpu / 1e9, "s", "gcbench, CPU");
    bench_value((double)bench_rss_peak() / 1048576, "MiB", "gcbench, peak resident");
    bench_value((double)r.before->stats.heap_peak_bytes / 1048576, "MiB", "gcbench, peak heap");
    bench_collector(r.before);
    return bench_end();
}

/* test_graph.c: random object graphs, mutated by many tasks while cycles run and the verifier
 * compares each marking with a trace of its own.
 *
 * Objects carry a magic number that is checked whenever one is visited, so a freed and reused (or
 * poisoned) object is found also by its reader. Tasks share one table of references; each works on
 * it and on objects that it holds on its own stack only, by every kind of store there is: plain
 * into fresh objects, barriered, compare-and-swap, exchange, bulk copies, struct copies. They
 * yield, sleep, hand references over through channels and recurse while they hold some.
 */
#include "base/rand.h"
#include "tests/support/test.h"
#include <criterion/criterion.h>
#include <hedge/hedge.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

/* Criterion's assertions leave a failed test by a jump, which is not possible on a task's stack:
 * abort instead. */
#define MUST(c, ...) ((c) ? (void)0 : (fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), abort()))

#define MAGIC UINT64_C(0x6865646765)

struct node {
    uint64_t magic;
    struct node *left, *right;
    struct node *const *array; /* NULL, or WIDTH references */
    uint64_t *leaf;            /* NULL, or two words: value and its complement */
    struct node *next;
};
#define WIDTH 40

static const uint32_t node_fields[] = {8, 16, 24, 32, 40};
static const hg_layout node_layout = HG_TYPED("node", node_fields);

static void trace_node(hg_tracer *t, const void *obj, size_t from, size_t to)
{
    const uintptr_t *word = obj;
    for (size_t i = 1; i < 6; i++)
        if (i * 8 >= from && i * 8 + 8 <= to)
            hg_trace_ref(t, (const void *)__atomic_load_n(word + i, __ATOMIC_RELAXED));
}
static const hg_layout traced_layout = HG_TRACED("traced node", trace_node);

struct world {
    hg_chan *handover;
    struct node **table; /* REFS */
    size_t size;
};
struct job {
    struct world *w; /* on the main task's stack */
    uint64_t seed;
    uint64_t steps;
    hg_waitgroup *done;
};

static void check(const struct node *n)
{
    if (n == NULL)
        return;
    MUST(n->magic == MAGIC, "object %p was freed while it was reachable (magic %lx)",
         (const void *)n, (unsigned long)n->magic);
    uint64_t *leaf = __atomic_load_n(&n->leaf, __ATOMIC_ACQUIRE);
    if (leaf != NULL)
        MUST(leaf[0] == ~leaf[1], "a leaf was freed while it was reachable");
}

static struct node *load(struct node *const *slot)
{
    struct node *n = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
    check(n);
    return n;
}

static struct node *fresh(struct hg_rand *r, struct node *a, struct node *b)
{
    static const hg_layout *const layouts[] = {&node_layout, &traced_layout, HG_CONSERVATIVE};
    struct node *n = hg_alloc(sizeof *n, layouts[hg_rand_below(r, 3)]);
    n->magic = MAGIC;
    n->left = a; /* nobody else can reach n yet: plain stores */
    n->right = b;
    if (hg_rand_below(r, 4) == 0) {
        uint64_t *leaf = hg_alloc(16 + hg_rand_below(r, 300), HG_LEAF);
        leaf[0] = hg_rand_next(r);
        leaf[1] = ~leaf[0];
        n->leaf = leaf;
    }
    if (hg_rand_below(r, 16) == 0) {
        struct node **array = hg_alloc(WIDTH * sizeof *array, HG_REFS);
        for (int i = 0; i < 4; i++)
            array[hg_rand_below(r, WIDTH)] = i % 2 ? a : b;
        n->array = array;
    }
    return n;
}

/* Walks at random from n; returns where it stops. */
static struct node *walk(struct hg_rand *r, struct node *n)
{
    for (unsigned i = 0; n != NULL && i < 12; i++) {
        struct node *next;
        switch (hg_rand_below(r, 4)) {
        case 0:
            next = load(&n->left);
            break;
        case 1:
            next = load(&n->right);
            break;
        case 2:
            next = n->array != NULL ? load(&n->array[hg_rand_below(r, WIDTH)]) : NULL;
            break;
        default:
            next = load(&n->next);
            break;
        }
        if (next == NULL)
            break;
        n = next;
    }
    return n;
}

static struct node *any(struct hg_rand *r, const struct world *w)
{
    return walk(r, load(&w->table[hg_rand_below(r, (uint32_t)w->size)]));
}

/* Holds references in frames, allocates below them, and looks at them on the way back. */
static __attribute__((noinline)) void deep(struct hg_rand *r, const struct world *w, unsigned depth)
{
    struct node *held[6];
    for (unsigned i = 0; i < 6; i++)
        held[i] = i % 2 ? any(r, w) : fresh(r, NULL, NULL);
    if (depth > 0)
        deep(r, w, depth - 1);
    else
        hg_yield();
    for (unsigned i = 0; i < 6; i++)
        check(held[i]);
}

static void store_somewhere(struct hg_rand *r, const struct world *w, struct node *n)
{
    struct node **slot = &w->table[hg_rand_below(r, (uint32_t)w->size)];
    struct node *at = any(r, w);
    switch (hg_rand_below(r, 8)) {
    case 0:
        hg_ref_store(slot, n);
        break;
    case 1:
        hg_ref_cas(slot, load(slot), n);
        break;
    case 2:
        check(hg_ref_swap(slot, n));
        break;
    case 3:
        if (at != NULL)
            hg_ref_store(&at->left, n);
        break;
    case 4:
        if (at != NULL)
            hg_ref_store(&at->right, n);
        break;
    case 5:
        if (at != NULL)
            hg_ref_store(&at->next, n);
        break;
    case 6:
        if (at != NULL && at->array != NULL)
            hg_ref_store((void *)&at->array[hg_rand_below(r, WIDTH)], n);
        break;
    default:
        hg_ref_store(slot, NULL);
        break;
    }
}

static void bulk(struct hg_rand *r, const struct world *w)
{
    uint32_t size = (uint32_t)w->size, n = hg_rand_below(r, size / 4) + 1;
    hg_refs_copy(w->table + hg_rand_below(r, size - n), w->table + hg_rand_below(r, size - n), n);
}

static void hand_over(struct hg_rand *r, const struct world *w, struct node *n)
{
    struct node *got = NULL;
    if (hg_rand_below(r, 2))
        hg_chan_send(w->handover, &n, hg_in(20000));
    else if (hg_chan_recv(w->handover, &got, hg_in(20000)) == 0)
        store_somewhere(r, w, got);
    check(got);
    check(n);
}

static int mutate(void *arg)
{
    struct job *job = arg;
    const struct world *w = job->w;
    struct hg_rand r = {job->seed};
    struct node *mine[8] = {NULL};
    for (uint64_t i = 0; i < job->steps; i++) {
        unsigned k = hg_rand_below(&r, 8);
        switch (hg_rand_below(&r, 10)) {
        case 0:
        case 1:
        case 2:
            mine[k] = fresh(&r, mine[hg_rand_below(&r, 8)], any(&r, w));
            break;
        case 3:
        case 4:
            store_somewhere(&r, w, mine[k]);
            break;
        case 5:
            mine[k] = any(&r, w);
            break;
        case 6:
            mine[k] = walk(&r, mine[hg_rand_below(&r, 8)]);
            break;
        case 7:
            if (hg_rand_below(&r, 8) == 0)
                bulk(&r, w);
            break;
        case 8:
            if (hg_rand_below(&r, 16) == 0)
                deep(&r, w, hg_rand_below(&r, 12));
            break;
        default:
            if (hg_rand_below(&r, 8) == 0)
                hand_over(&r, w, mine[k]);
            else if (hg_rand_below(&r, 64) == 0)
                hg_sleep(hg_rand_below(&r, 50000));
            break;
        }
        check(mine[k]);
    }
    for (unsigned k = 0; k < 8; k++)
        check(mine[k]);
    hg_waitgroup_done(job->done);
    return 0;
}

struct plan {
    uint64_t seed;
    unsigned tasks;
    uint64_t steps;
    size_t table;
};

/* One cycle after the other, so that mutators meet every phase often. */
static int collect_again(void *arg)
{
    _Atomic int *stop = arg;
    do
        hg_collect(hg_current());
    while (atomic_load(stop) == 0);
    return 0;
}

static int run(void *arg)
{
    const struct plan *plan = arg;
    struct world w = {.size = plan->table};
    hg_waitgroup done = {{0}};
    struct hg_rand r = {plan->seed};
    MUST(hg_chan_new(sizeof(struct node *), 0, HG_REFS, &w.handover) == 0, "hg_chan_new");
    w.table = hg_alloc(w.size * sizeof *w.table, HG_REFS);
    hg_waitgroup_add(&done, (int)plan->tasks);
    struct job jobs[64];
    for (unsigned i = 0; i < plan->tasks; i++) {
        jobs[i] = (struct job){&w, hg_rand_next(&r), plan->steps, &done};
        hg_task_attr attr = {.size = sizeof attr, .name = "mutator"};
        MUST(hg_go_with(&attr, mutate, &jobs[i], NULL) == 0, "hg_go_with");
    }
    _Atomic int stop = 0;
    hg_task *collector;
    MUST(hg_go_with(NULL, collect_again, &stop, &collector) == 0, "hg_go_with");
    hg_waitgroup_wait(&done, HG_FOREVER);
    atomic_store(&stop, 1);
    hg_join(collector, HG_FOREVER, NULL);
    hg_stats st = {.size = sizeof st};
    hg_stats_read(hg_current(), &st);
    fprintf(stderr, "  %lu cycles, %lu MB allocated\n", (unsigned long)st.cycles,
            (unsigned long)(st.alloc_bytes >> 20));
    MUST(st.cycles > 0, "no cycle ran: the test tested nothing");
    return 7;
}

static void go(const char *name, int procs, unsigned tasks, uint64_t steps, int stress,
               uint64_t sched_seed)
{
    struct plan plan = {test_seed(name), tasks, test_scaled(steps), 512};
    hg_options o;
    hg_options_init(&o, sizeof o);
    o.procs = procs;
    o.check = true;
    o.poison = true;
    o.stress = stress;
    o.reserve_bytes = (size_t)4 << 30;
    o.min_heap_bytes = (size_t)1 << 20;
    o.sched_seed = sched_seed != 0 ? plan.seed | 1 : 0;
    cr_assert_eq(hg_run(run, &plan, &o), 7);
}

TestSuite(graph, .timeout = 120);

Test(graph, one_proc) { go("graph/one_proc", 1, 16, 400000, 0, 0); }
Test(graph, two_procs) { go("graph/two_procs", 2, 16, 400000, 0, 0); }
Test(graph, four_procs) { go("graph/four_procs", 4, 32, 200000, 0, 0); }
Test(graph, many_tasks_seeded_scheduling) { go("graph/seeded", 2, 64, 100000, 0, 1); }
Test(graph, stress_one_proc) { go("graph/stress_one_proc", 1, 8, 200000, 3, 1); }
Test(graph, stress_two_procs) { go("graph/stress_two_procs", 2, 8, 200000, 3, 0); }
Test(graph, stress_four_procs) { go("graph/stress_four_procs", 4, 16, 100000, 2, 1); }

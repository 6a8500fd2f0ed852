/* test_sched_stress.c: the scheduler under load: fairness, wakes that must not be lost or doubled,
 * many tasks, seeded disorder, collections meanwhile. Bounds of time are generous, as the machine
 * may be busy; what they would catch is a wait without end. */
#include "runtime/rt.h"
#include "runtime/sched/internal.h"
#include "tests/support/test.h"
#include "tests/unit/test_sync.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <sys/resource.h>
#include <time.h>

TestSuite(sched_stress, .timeout = 300);

#define SECONDS(n) ((n)*INT64_C(1000000000))

static uint64_t seed;

static int run_seeded(int procs, uint64_t sched_seed, int stress, int (*first)(void *), void *arg)
{
    hg_options o;
    hg_options_init(&o, sizeof o);
    o.procs = procs;
    o.sched_seed = sched_seed;
    o.stress = stress;
    o.check = o.poison = stress != 0;
    return hg_run(first, arg, &o);
}

/* ---- S01 ---- */

static _Atomic int arrived;
static void arrive_and_spin(void *arg)
{
    int all = (int)(intptr_t)arg;
    hg_add_acqrel(&arrived, 1);
    while (hg_load_acq(&arrived) < all)
        hg_safepoint();
}
static int all_arrive(void *arg)
{
    int64_t until = hg_now() + SECONDS(20);
    (void)arg;
    hg_store_rlx(&arrived, 0);
    for (int i = 0; i < 4; i++)
        go(arrive_and_spin, (void *)4);
    while (hg_load_acq(&arrived) < 4) {
        CHECK(hg_now() < until);
        hg_yield();
    }
    return 0;
}
Test(sched_stress, nobody_is_kept_from_running)
{
    for (int procs = 1; procs <= 4; procs *= 2)
        cr_assert_eq(run_on(procs, all_arrive, NULL), 0);
}

/* ---- S02 ---- */

static _Atomic int chain_goes_on;
static _Atomic uint64_t links;
static void link_in_chain(void *arg)
{
    hg_add_rlx(&links, 1u);
    if (hg_load_acq(&chain_goes_on) != 0)
        go(link_in_chain, arg);
}
static void set_flag(void *arg) { hg_store_rel((_Atomic int *)arg, 1); }

static int older_first(void *arg)
{
    _Atomic int flag = 0;
    (void)arg;
    hg_store_rlx(&chain_goes_on, 1);
    go(set_flag, (void *)&flag);
    go(link_in_chain, NULL);
    int64_t until = hg_now() + SECONDS(20);
    while (hg_load_acq(&flag) == 0) {
        CHECK(hg_now() < until);
        hg_yield();
    }
    for (int i = 0; i < 100; i++) { /* and this task, each time again */
        CHECK(hg_now() < until);
        hg_yield();
    }
    hg_store_rel(&chain_goes_on, 0);
    CHECK(hg_load_rlx(&links) > 100);
    return 0;
}
Test(sched_stress, fresh_work_does_not_overtake_for_ever)
{
    for (int procs = 1; procs <= 4; procs *= 2)
        cr_assert_eq(run_on(procs, older_first, NULL), 0);
}

/* A task that computes between safepoints, and one that only wants to run now and then. */
static int preempted(void *arg)
{
    (void)arg;
    hg_store_rlx(&arrived, 0);
    for (int i = 0; i < 3; i++)
        go(arrive_and_spin, (void *)100);
    int64_t until = hg_now() + SECONDS(30);
    for (int i = 0; i < 20; i++) {
        hg_sleep(1000000);
        CHECK(hg_now() < until);
    }
    hg_store_rel(&arrived, 100);
    return 0;
}
Test(sched_stress, tasks_that_compute_give_way)
{
    for (int procs = 1; procs <= 4; procs *= 2)
        cr_assert_eq(run_on(procs, preempted, NULL), 0);
}

/* ---- S07 ---- */

static int yield_alone(void *arg)
{
    struct rusage before, after;
    int n = (int)test_scaled(1000000);
    (void)arg;
    hg_sleep(20000000); /* the other procs go idle */
    int64_t start = hg_now();
    getrusage(RUSAGE_SELF, &before);
    for (int i = 0; i < n; i++)
        hg_yield();
    getrusage(RUSAGE_SELF, &after);
    long switches = after.ru_nvcsw - before.ru_nvcsw;
    long of_monitor = (long)((hg_now() - start) / 500000) + 10;
    CHECK(switches < n / 100 + of_monitor);
    return 0;
}
Test(sched_stress, yielding_wakes_nobody) { cr_assert_eq(run_on(8, yield_alone, NULL), 0); }

/* ---- S08 ---- */

static _Atomic int ended;
static void end(void *arg)
{
    (void)arg;
    hg_add_rlx(&ended, 1);
}
static int64_t time_spawns(void)
{
    int64_t start = hg__os_thread_cpu();
    for (int i = 0; i < 1000; i++)
        go(end, NULL);
    return hg__os_thread_cpu() - start;
}
static void let_end(int n)
{
    while (hg_load_acq(&ended) < n)
        hg_yield();
    hg_store_rlx(&ended, 0);
}
/* The least of several rounds, each with n tasks ready. */
static int64_t spawns_beside(int n)
{
    int64_t least = INT64_MAX;
    for (int round = 0; round < 7; round++) {
        for (int i = 0; i < n; i++)
            go(end, NULL);
        int64_t ns = time_spawns();
        least = ns < least ? ns : least;
        let_end(n + 1000);
    }
    return least;
}
/* Against a tenth as many, not against none: the stacks of those lie in the cache, and where memory
 * is slow that alone makes a factor of ten. */
static int spawn_cost(void *arg)
{
    int many = (int)test_scaled(100000);
    (void)arg;
    spawns_beside(many); /* all stacks exist */
    int64_t few_ns = spawns_beside(many / 10), many_ns = spawns_beside(many);
    if (many_ns >= 3 * few_ns + 200000)
        fprintf(stderr, "%ld ns beside a tenth, %ld ns beside all\n", (long)few_ns, (long)many_ns);
    CHECK(many_ns < 3 * few_ns + 200000);
    return 0;
}
Test(sched_stress, spawning_costs_the_same_with_many_ready)
{
    cr_assert_eq(run_on(1, spawn_cost, NULL), 0);
}

/* ---- S09: 200,000 tasks start, talk, and end ---- */

static hg_chan *to_main, *gate;
static void report_and_wait(void *arg)
{
    int v = (int)(intptr_t)arg;
    CHECK(hg_chan_send(to_main, &v, HG_FOREVER) == 0);
    CHECK(hg_chan_recv(gate, &v, HG_FOREVER) == -EPIPE);
    v = 1;
    CHECK(hg_chan_send(to_main, &v, HG_FOREVER) == 0);
}
static int many(void *arg)
{
    int n = (int)test_scaled(200000), v;
    int64_t sum = 0;
    hg_chan *c = new_chan(sizeof(int), 0, HG_LEAF), *g = new_chan(sizeof(int), 0, HG_LEAF);
    (void)arg;
    to_main = c;
    gate = g;
    for (int i = 0; i < n; i++)
        go(report_and_wait, (void *)(intptr_t)i);
    for (int i = 0; i < n; i++) {
        CHECK(hg_chan_recv(c, &v, HG_FOREVER) == 0);
        sum += v;
    }
    CHECK(sum == (int64_t)n * (n - 1) / 2);
    CHECK(hg__sched_tasks(&hg_current()->sched) == (uint64_t)n + 1);
    CHECK(hg_chan_close(g) == 0);
    for (int i = 0; i < n; i++)
        CHECK(hg_chan_recv(c, &v, HG_FOREVER) == 0 && v == 1);
    hg_keep_alive(c);
    hg_keep_alive(g);
    return 0;
}
Test(sched_stress, two_hundred_thousand_tasks) { cr_assert_eq(run_on(2, many, NULL), 0); }

/* ---- parks: one winner each, none lost ---- */

#define PLACES  64
#define WAITERS 100
#define WAKERS  20

static struct place {
    struct hg_lock lock;
    struct hg_tcb *task; /* NULL: nobody waits here; lock */
    uint64_t ticket;
} places[PLACES];
static _Atomic int waiting_tasks, waking_tasks;
static _Atomic uint64_t woken_by_us, woken_by_value, woken_by_time;
static uint64_t rounds;

static void unlock_place(void *p) { hg__unlock(&((struct place *)p)->lock); }

static void wait_once(struct hg_rand *r)
{
    struct place *p = &places[hg_rand_below(r, PLACES)];
    hg__lock(&p->lock);
    if (p->task != NULL) {
        hg__unlock(&p->lock);
        hg_yield();
        return;
    }
    struct hg_tcb *self = hg__task_self();
    uint64_t ticket = hg__park_begin(self);
    int64_t deadline =
        hg_rand_below(r, 3) == 0 ? HG_FOREVER : hg_now() + hg_rand_below(r, 200000) - 5000;
    p->task = self;
    p->ticket = ticket;
    enum hg_wake why = hg__park(self, ticket, deadline, unlock_place, p, "test");
    CHECK(why == HG_WAKE_VALUE || why == HG_WAKE_TIMEOUT);
    if (why == HG_WAKE_VALUE) {
        hg_add_rlx(&woken_by_value, 1u);
        return;
    }
    CHECK(deadline != HG_FOREVER && hg_now() >= deadline);
    hg_add_rlx(&woken_by_time, 1u);
    hg__lock(&p->lock);
    if (p->task == self && p->ticket == ticket)
        p->task = NULL;
    hg__unlock(&p->lock);
}
static void waiter(void *arg)
{
    struct hg_rand r = {seed + (uint64_t)(uintptr_t)arg};
    for (uint64_t i = 0; i < rounds; i++)
        wait_once(&r);
    hg_sub_acqrel(&waiting_tasks, 1);
}
static void waker(void *arg)
{
    struct hg_rand r = {seed - (uint64_t)(uintptr_t)arg};
    while (hg_load_acq(&waiting_tasks) > 0) {
        struct place *p = &places[hg_rand_below(&r, PLACES)];
        hg__lock(&p->lock);
        struct hg_tcb *t = p->task;
        bool won = t != NULL && hg__park_claim(t, p->ticket, HG_WAKE_VALUE);
        p->task = NULL;
        hg__unlock(&p->lock);
        if (won) {
            hg_add_rlx(&woken_by_us, 1u);
            hg__ready(t, hg_rand_below(&r, 2) != 0);
        }
        uint32_t what = hg_rand_below(&r, 16);
        if (what < 4)
            hg_yield();
        else if (what == 4)
            hg_sleep(hg_rand_below(&r, 100000));
        else if (what == 5)
            hg_keep_alive(hg_alloc(4000, HG_LEAF));
    }
    hg_sub_acqrel(&waking_tasks, 1);
}
static int storm(void *arg)
{
    (void)arg;
    hg_store_rlx(&waiting_tasks, WAITERS);
    hg_store_rlx(&waking_tasks, WAKERS);
    hg_store_rlx(&woken_by_us, 0);
    hg_store_rlx(&woken_by_value, 0);
    for (int i = 0; i < PLACES; i++) {
        hg__lock_init(&places[i].lock, HG_RANK_SYNC);
        places[i].task = NULL;
    }
    for (uintptr_t i = 0; i < WAITERS; i++)
        go(waiter, (void *)i);
    for (uintptr_t i = 0; i < WAKERS; i++)
        go(waker, (void *)i);
    while (hg_load_acq(&waking_tasks) > 0)
        hg_sleep(1000000);
    CHECK(hg_load_acq(&woken_by_us) == hg_load_acq(&woken_by_value));
    CHECK(hg_load_acq(&woken_by_value) > 0);
    return 0;
}
Test(sched_stress, each_park_has_one_winner)
{
    seed = test_seed("each_park_has_one_winner");
    rounds = test_scaled(400);
    for (int procs = 1; procs <= 4; procs *= 2) {
        cr_assert_eq(run_seeded(procs, 0, 0, storm, NULL), 0);
        cr_assert_eq(run_seeded(procs, seed | 1, 0, storm, NULL), 0);
    }
    cr_assert_gt(hg_load_rlx(&woken_by_time), 0);
}
Test(sched_stress, each_park_has_one_winner_while_collecting)
{
    seed = test_seed("each_park_has_one_winner_while_collecting");
    rounds = test_scaled(100);
    for (int procs = 1; procs <= 4; procs *= 2)
        cr_assert_eq(run_seeded(procs, seed | 1, 4, storm, NULL), 0);
}

/* ---- births, deaths, joins, regions and sleeps, with arguments only the tasks hold ---- */

struct tree {
    HG_REF(struct tree *) left;
    HG_REF(struct tree *) right;
    uint64_t value;
};
static const uint32_t tree_fields[] = {offsetof(struct tree, left), offsetof(struct tree, right)};
static const hg_layout tree_layout = HG_TYPED("tree", tree_fields);

static struct tree *grow(int depth)
{
    if (depth == 0)
        return NULL;
    struct tree *left = grow(depth - 1), *right = grow(depth - 1);
    struct tree *t = hg_alloc(sizeof *t, &tree_layout);
    hg_init(t->left, left);
    hg_init(t->right, right);
    t->value = (uint64_t)depth;
    return t;
}
static uint64_t total(const struct tree *t)
{
    return t == NULL ? 0 : t->value + total(hg_get(t->left)) + total(hg_get(t->right));
}

struct family {
    struct tree *tree;
    struct hg_rand rand;
    int depth;
};

static void something(struct hg_rand *r)
{
    switch (hg_rand_below(r, 6)) {
    case 0:
        hg_yield();
        break;
    case 1:
        hg_sleep(hg_rand_below(r, 50000));
        break;
    case 2: {
        struct timespec t = {0, hg_rand_below(r, 60000)};
        hg_block_enter();
        nanosleep(&t, NULL);
        hg_block_leave();
        break;
    }
    case 3:
        grow(4);
        break;
    default:
        hg_safepoint();
    }
}

static int raise_family(void *arg)
{
    struct family *f = arg;
    uint64_t before = total(f->tree);
    hg_task *child[3];
    int children = f->depth > 0 ? (int)hg_rand_below(&f->rand, 4) : 0, descendants = 1, n;
    hg_task_attr a = {.size = sizeof a, .copy_bytes = sizeof *f};
    for (int i = 0; i < children; i++) {
        struct family g = {grow(3 + i), {hg_rand_next(&f->rand)}, f->depth - 1};
        a.stack_bytes = hg_rand_below(&f->rand, 2) * 32768;
        CHECK(hg_go_with(&a, raise_family, &g, &child[i]) == 0);
        g.tree = NULL;
        something(&f->rand);
    }
    for (int i = 0; i < children; i++) {
        if (hg_join(child[i], hg_in(hg_rand_below(&f->rand, 100000)), &n) == -ETIMEDOUT)
            CHECK(hg_join(child[i], HG_FOREVER, &n) == 0);
        descendants += n;
    }
    something(&f->rand);
    CHECK(total(f->tree) == before);
    return descendants;
}
static int families(void *arg)
{
    struct hg_rand r = {seed};
    int n, all = 0;
    (void)arg;
    for (uint64_t i = 0; i < rounds; i++) {
        struct family f = {grow(5), {hg_rand_next(&r)}, 6};
        hg_task_attr a = {.size = sizeof a, .name = "family", .copy_bytes = sizeof f};
        hg_task *h;
        CHECK(hg_go_with(&a, raise_family, &f, &h) == 0);
        CHECK(hg_join(h, HG_FOREVER, &n) == 0);
        all += n;
    }
    CHECK((uint64_t)all >= rounds);
    return 0;
}
Test(sched_stress, families)
{
    seed = test_seed("families");
    rounds = test_scaled(200);
    for (int procs = 1; procs <= 4; procs *= 2) {
        cr_assert_eq(run_seeded(procs, 0, 0, families, NULL), 0);
        cr_assert_eq(run_seeded(procs, seed | 1, 0, families, NULL), 0);
    }
}
Test(sched_stress, families_while_collecting)
{
    seed = test_seed("families_while_collecting");
    rounds = test_scaled(30);
    for (int procs = 1; procs <= 4; procs *= 2)
        cr_assert_eq(run_seeded(procs, seed | 1, 1, families, NULL), 0);
}

/* ---- T10, a thousand times ---- */

struct reset {
    struct hg_timer_node node;
    _Atomic int64_t at;
};
static void note_time(struct hg_timer_node *node, int64_t now)
{
    hg_store_rel(&hg_container_of(node, struct reset, node)->at, now);
}
static int resets(void *arg)
{
    struct hg_sched *s = &hg_current()->sched;
    int n = (int)test_scaled(1000);
    (void)arg;
    for (int i = 0; i < n; i++) {
        struct reset r = {.node.fire = note_time};
        struct hg_proc *home = s->procs[i & 1];
        hg__timer_arm(home, &r.node, hg_now() + SECONDS(3600));
        hg_sleep(50000);
        CHECK(hg__timer_stop(&r.node));
        hg__timer_arm(home, &r.node, hg_now() + 500000);
        for (int64_t until = hg_now() + SECONDS(10); hg_load_acq(&r.at) == 0; hg_sleep(100000))
            CHECK(hg_now() < until);
    }
    return 0;
}
Test(sched_stress, timers_reset_on_any_proc) { cr_assert_eq(run_on(2, resets, NULL), 0); }

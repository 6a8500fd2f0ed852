/* test_objpool.c: object pools: what comes back, what is dropped and when, the two bounds, use on
 * several procs while collections run, misuse. */
#include "tests/support/test.h"
#include "tests/unit/test_sync.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

TestSuite(objpool, .timeout = 60);

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static hg_objpool *new_pool(size_t most, size_t budget, void *(*make)(void *), void *arg)
{
    hg_objpool_attr a = {.size = sizeof a,
                         .max_object_bytes = most,
                         .budget_bytes = budget,
                         .make = make,
                         .arg = arg};
    hg_objpool *p = NULL;
    CHECK(hg_objpool_new(hg_current(), &a, &p) == 0);
    CHECK(p != NULL);
    return p;
}

static hg_objpool_stats stats_of(hg_objpool *p)
{
    hg_objpool_stats st = {.size = sizeof st};
    hg_objpool_stats_read(p, &st);
    return st;
}

static uint64_t marked(void)
{
    hg_stats st = {.size = sizeof st};
    hg_stats_read(hg_current(), &st);
    return st.heap_marked_bytes;
}

/* Old words on the stack must not look like references to what was put. */
static __attribute__((noinline)) void clear_stack(void)
{
    volatile char room[4096];
    for (size_t i = 0; i < sizeof room; i++)
        room[i] = 0;
}

/* ---- get and put ---- */

static void *make_counted(void *arg)
{
    ++*(int *)arg;
    return hg_alloc(100, HG_LEAF);
}

static int gives_back(void *arg)
{
    int made = 0;
    (void)arg;
    hg_objpool *empty, *p = new_pool(0, 0, make_counted, &made);
    CHECK(hg_objpool_new(hg_current(), NULL, &empty) == 0);
    CHECK(hg_objpool_get(empty) == NULL);
    void *a = hg_objpool_get(p), *b = hg_objpool_get(p), *c = hg_objpool_get(p);
    CHECK(made == 3 && a != b && b != c && a != c);
    hg_objpool_put(p, NULL);
    hg_objpool_put(p, a);
    hg_objpool_put(p, b);
    hg_objpool_put(p, c);
    hg_objpool_stats st = stats_of(p);
    CHECK(st.objects == 3 && st.bytes == 3 * hg_size_of(a) && st.puts == 3);
    void *got[3];
    for (int i = 0; i < 3; i++) {
        got[i] = hg_objpool_get(p);
        CHECK(got[i] == a || got[i] == b || got[i] == c);
    }
    CHECK(made == 3 && got[0] != got[1] && got[1] != got[2] && got[0] != got[2]);
    st = stats_of(p);
    CHECK(st.gets == 6 && st.hits == 3 && st.made == 3 && st.objects == 0 && st.bytes == 0);
    hg_objpool_put(p, a);
    hg_objpool_free(p);
    hg_objpool_free(empty);
    hg_objpool_free(NULL);
    return 0;
}
Test(objpool, gives_back) { cr_assert_eq(run_on(1, gives_back, NULL), 0); }

static int checks_attr(void *arg)
{
    hg_objpool_attr a = {.size = 3};
    hg_objpool *p = NULL;
    (void)arg;
    CHECK(hg_objpool_new(hg_current(), &a, &p) == -EINVAL);
    a.size = sizeof a + 8;
    CHECK(hg_objpool_new(hg_current(), &a, &p) == -EINVAL);
    CHECK(p == NULL);
    return 0;
}
Test(objpool, checks_attr) { cr_assert_eq(run_on(1, checks_attr, NULL), 0); }

/* ---- the bounds ---- */

static __attribute__((noinline)) void put_new(hg_objpool *p, size_t bytes)
{
    hg_objpool_put(p, hg_alloc(bytes, HG_LEAF));
}

/* One huge buffer among small ones is not kept, and so it is garbage at once. */
static int drops_huge(void *arg)
{
    hg_objpool *p = new_pool(256 * KIB, 64 * MIB, NULL, NULL);
    (void)arg;
    put_new(p, 32 * MIB);
    put_new(p, 4 * KIB);
    clear_stack();
    hg_objpool_stats st = stats_of(p);
    CHECK(st.puts == 2 && st.too_large == 1 && st.objects == 1);
    hg_collect(hg_current());
    CHECK(marked() < 4 * MIB);
    hg_objpool_free(p);
    return 0;
}
Test(objpool, drops_huge) { cr_assert_eq(run_on(1, drops_huge, NULL), 0); }

/* What is at the cap is kept, but not for ever: two collections without a get. */
static int expires(void *arg)
{
    hg_objpool *p = new_pool(32 * MIB, 64 * MIB, NULL, NULL);
    (void)arg;
    put_new(p, 16 * MIB); /* in the fast slot */
    put_new(p, 16 * MIB); /* in the stack */
    CHECK(stats_of(p).objects == 2);
    clear_stack();
    hg_collect(hg_current());
    CHECK(marked() >= 32 * MIB);
    CHECK(stats_of(p).objects == 2);
    clear_stack();
    hg_collect(hg_current());
    CHECK(marked() < 4 * MIB);
    hg_objpool_stats st = stats_of(p);
    CHECK(st.objects == 0 && st.bytes == 0 && st.expired == 2);
    /* The budget is whole again. */
    for (int i = 0; i < 4; i++)
        put_new(p, 15 * MIB);
    CHECK(stats_of(p).over_budget == 0);
    hg_objpool_free(p);
    return 0;
}
Test(objpool, expires) { cr_assert_eq(run_on(1, expires, NULL), 0); }

static int keeps_budget(void *arg)
{
    const size_t budget = 64 * KIB;
    hg_objpool *p = new_pool(8 * KIB, budget, NULL, NULL);
    uint64_t seed = test_seed("keeps_budget");
    (void)arg;
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 200; i++) {
            seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
            put_new(p, 16 + (size_t)(seed >> 33) % (8 * KIB - 16));
            CHECK(stats_of(p).bytes <= budget);
        }
        hg_objpool_stats st = stats_of(p);
        CHECK(st.over_budget > 0);
        CHECK(st.bytes >= budget / 4 * 3 - 8 * KIB);
        for (uint64_t i = 0; i < st.objects / 2; i++)
            CHECK(hg_objpool_get(p) != NULL);
        if (round % 5 == 4)
            hg_collect(hg_current());
    }
    hg_objpool_free(p);
    return 0;
}
Test(objpool, keeps_budget) { cr_assert_eq(run_on(2, keeps_budget, NULL), 0); }

/* A collection does not empty the pool: a thousand objects are in use and returned again and again,
 * with a collection between the rounds (golang/go issues 22950 and 11834). */
static int no_storm(void *arg)
{
    enum { OBJECTS = 1000, ROUNDS = 20 };
    int made = 0;
    void **all = hg_alloc(OBJECTS * sizeof *all, HG_REFS);
    hg_objpool *p = new_pool(0, 0, make_counted, &made);
    (void)arg;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < OBJECTS; i++)
            hg_ref_store(&all[i], hg_objpool_get(p));
        for (int i = 0; i < OBJECTS; i++) {
            hg_objpool_put(p, all[i]);
            hg_ref_store(&all[i], NULL);
        }
        hg_collect(hg_current());
    }
    hg_objpool_stats st = stats_of(p);
    CHECK(made == OBJECTS);
    CHECK(st.gets == (uint64_t)OBJECTS * ROUNDS);
    CHECK(st.gets - st.hits == OBJECTS);
    CHECK(st.victims > 0);
    /* Half of them are not needed any more: they go, the other half stays. */
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < OBJECTS / 2; i++)
            hg_ref_store(&all[i], hg_objpool_get(p));
        for (int i = 0; i < OBJECTS / 2; i++) {
            hg_objpool_put(p, all[i]);
            hg_ref_store(&all[i], NULL);
        }
        hg_collect(hg_current());
    }
    CHECK(stats_of(p).objects == OBJECTS / 2);
    CHECK(made == OBJECTS);
    hg_objpool_free(p);
    return 0;
}
Test(objpool, no_storm) { cr_assert_eq(run_on(2, no_storm, NULL), 0); }

/* ---- several procs, and collections ---- */

#define MAGIC UINT64_C(0x5ca1ab1e5ca1ab1e)

/* What a pooled object refers to has to be there when it comes out again. */
struct item {
    struct leaf {
        uint64_t magic;
    } * leaf;
    _Atomic uint64_t user; /* 0: nobody */
};
static const uint32_t item_fields[] = {offsetof(struct item, leaf)};
static const hg_layout item_layout = HG_TYPED("item", item_fields);

static void *make_item(void *arg)
{
    (void)arg;
    struct leaf *l = hg_alloc(sizeof *l, HG_LEAF);
    l->magic = MAGIC;
    struct item *it = hg_alloc(sizeof *it, &item_layout);
    it->leaf = l;
    return it;
}

struct load {
    hg_objpool *p;
    hg_waitgroup done;
    int rounds;
    _Atomic uint64_t gets;
};

static void use_pool(void *arg)
{
    struct load *l = arg;
    uint64_t me = hg_task_id();
    struct item *held[4] = {NULL, NULL, NULL, NULL};
    for (int i = 0; i < l->rounds; i++) {
        int k = i % 4;
        if (held[k] != NULL) {
            uint64_t mine = me;
            CHECK(hg_cas_acqrel(&held[k]->user, &mine, UINT64_C(0)));
            hg_objpool_put(l->p, held[k]);
        }
        struct item *it = hg_objpool_get(l->p);
        uint64_t nobody = 0;
        CHECK(hg_cas_acqrel(&it->user, &nobody, me));
        CHECK(it->leaf->magic == MAGIC);
        if (i % 7 == 0) { /* its last user's leaf is replaced: garbage keeps coming */
            struct leaf *fresh = hg_alloc(sizeof *fresh, HG_LEAF);
            fresh->magic = MAGIC;
            hg_ref_store(&it->leaf, fresh);
        }
        held[k] = it;
        if (i % 5 == 0)
            hg_yield();
    }
    hg_add_rlx(&l->gets, (uint64_t)l->rounds);
    hg_waitgroup_done(&l->done);
}

static int used_by_many(void *arg)
{
    enum { TASKS = 16 };
    struct load l = {.rounds = *(const int *)arg};
    l.p = new_pool(0, 0, make_item, NULL);
    hg_waitgroup_add(&l.done, TASKS);
    for (int i = 0; i < TASKS; i++)
        go(use_pool, &l);
    CHECK(hg_waitgroup_wait(&l.done, HG_FOREVER) == 0);
    hg_objpool_stats st = stats_of(l.p);
    CHECK(st.gets == hg_load_rlx(&l.gets) && st.hits + st.made == st.gets);
    hg_objpool_free(l.p);
    return 0;
}
Test(objpool, many_tasks)
{
    int rounds = (int)test_scaled(20000);
    cr_assert_eq(run_on(2, used_by_many, &rounds), 0);
}
Test(objpool, many_tasks_collecting)
{
    int rounds = (int)test_scaled(600);
    cr_assert_eq(run_collecting(2, used_by_many, &rounds), 0);
}
/* The verifier's second trace finds what the marker has missed. */
Test(objpool, many_tasks_checked)
{
    int rounds = (int)test_scaled(200);
    hg_options o;
    hg_options_init(&o, sizeof o);
    o.procs = 2;
    o.stress = 1;
    o.poison = true;
    o.check = true;
    cr_assert_eq(hg_run(used_by_many, &rounds, &o), 0);
}

/* A task on one proc lives on what a task on the other one puts. */
struct giving {
    hg_objpool *p;
    _Atomic int given, taken, stop;
};
static void giver(void *arg)
{
    struct giving *g = arg;
    while (hg_load_acq(&g->stop) == 0) {
        if (hg_load_acq(&g->given) - hg_load_acq(&g->taken) < 8) {
            put_new(g->p, 64);
            hg_add_rlx(&g->given, 1);
        }
        hg_safepoint();
    }
    hg_store_rel(&g->stop, 2);
}
static int stolen(void *arg)
{
    static struct giving g;
    (void)arg;
    g.p = new_pool(0, 0, NULL, NULL);
    go(giver, &g);
    /* The giver never waits, and this task neither but to let it start: on two procs both run. */
    hg_yield();
    int64_t until = hg_in(INT64_C(20000000000));
    while (stats_of(g.p).steals < 1000 && hg_now() < until) {
        if (hg_objpool_get(g.p) != NULL)
            hg_add_rlx(&g.taken, 1);
        hg_safepoint();
    }
    CHECK(stats_of(g.p).steals >= 1000);
    hg_store_rel(&g.stop, 1);
    yield_until(&g.stop, 2);
    hg_objpool_free(g.p);
    return 0;
}
Test(objpool, steals) { cr_assert_eq(run_on(2, stolen, NULL), 0); }

/* Pools come, go and are looked at from another thread while cycles run. */
struct outside {
    hg_runtime *rt;
    _Atomic int stop;
    int made;
};
static void *make_pools(void *arg)
{
    struct outside *x = arg;
    while (hg_load_acq(&x->stop) == 0) {
        hg_objpool *p;
        if (hg_objpool_new(x->rt, NULL, &p) != 0)
            return NULL;
        if (stats_of(p).objects != 0)
            return NULL;
        hg_objpool_free(p);
        x->made++;
    }
    return x;
}
static int beside_cycles(void *arg)
{
    struct outside x = {.rt = hg_current()};
    pthread_t other;
    void *fine;
    (void)arg;
    CHECK(pthread_create(&other, NULL, make_pools, &x) == 0);
    for (int i = 0; i < 50; i++) {
        hg_objpool *p = new_pool(0, 0, make_item, NULL);
        for (int k = 0; k < 50; k++)
            hg_objpool_put(p, make_item(NULL));
        hg_collect_start(hg_current());
        struct item *it = hg_objpool_get(p);
        hg_objpool_free(p); /* perhaps while a cycle marks */
        CHECK(it->leaf->magic == MAGIC);
        hg_collect(hg_current());
        CHECK(it->leaf->magic == MAGIC);
    }
    hg_store_rel(&x.stop, 1);
    CHECK(pthread_join(other, &fine) == 0);
    CHECK(fine == &x);
    return 0;
}
Test(objpool, beside_cycles) { cr_assert_eq(run_on(2, beside_cycles, NULL), 0); }

/* ---- misuse ---- */

static int put_inside(void *arg)
{
    char *obj = hg_alloc(100, HG_LEAF);
    (void)arg;
    hg_objpool_put(new_pool(0, 0, NULL, NULL), obj + 8);
    return 0;
}
static void run_put_inside(void *arg)
{
    (void)arg;
    run_on(1, put_inside, NULL);
}
Test(objpool, put_of_no_object)
{
    struct test_child child;
    test_child_run(&child, 20, run_put_inside, NULL);
    cr_assert_eq(child.signal, SIGABRT);
    cr_assert_not_null(strstr(child.text, "is not the start of an object"), "%s", child.text);
}

static hg_objpool *outer;
static void run_get_outside(void *arg)
{
    hg_runtime *rt;
    (void)arg;
    if (hg_runtime_open(NULL, &rt) == 0 && hg_objpool_new(rt, NULL, &outer) == 0 &&
        hg_objpool_get(outer) != NULL)
        return;
}
Test(objpool, get_outside_of_tasks)
{
    struct test_child child;
    test_child_run(&child, 20, run_get_outside, NULL);
    cr_assert_eq(child.signal, SIGABRT);
    cr_assert_not_null(strstr(child.text, "called outside of a task"), "%s", child.text);
}

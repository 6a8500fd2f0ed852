/* test_sync_more.c: condition variable, semaphore, once: against simple models, with deadlines that
 * race with wake-ups, and disorder from a seed. */
#include "base/rand.h"
#include "tests/support/test.h"
#include "tests/unit/test_sync.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <string.h>

TestSuite(cond, .timeout = 60);
TestSuite(sema, .timeout = 60);
TestSuite(once, .timeout = 60);

#define MS INT64_C(1000000)
#define S  (1000 * MS)

/* Random programs run in order, and in the disorder of a seed. */
static void run_random(const char *name, int (*first)(void *))
{
    uint64_t seed = test_seed(name);
    for (int procs = 1; procs <= 4; procs *= 2) {
        cr_assert_eq(run_on(procs, first, &seed), 0);
        cr_assert_eq(run_on_seed(procs, seed | 1, first, &seed), 0);
    }
}

/* ---- condition variable ---- */

struct gate {
    hg_mutex m;
    hg_cond c;
    int waiting, woken; /* m */
    int order[8];       /* m */
    _Atomic int up;
};
static void wait_at_gate(void *arg)
{
    struct gate *g = arg;
    hg_mutex_lock(&g->m);
    int me = g->waiting++;
    hg_add_acqrel(&g->up, 1);
    CHECK(hg_cond_wait(&g->c, &g->m, HG_FOREVER) == 0);
    g->order[g->woken++] = me;
    hg_mutex_unlock(&g->m);
}
static int woken_now(struct gate *g)
{
    for (int i = 0; i < 20; i++)
        hg_yield();
    hg_mutex_lock(&g->m);
    int n = g->woken;
    hg_mutex_unlock(&g->m);
    return n;
}
static int signals(void *arg)
{
    struct gate g = {.waiting = 0};
    (void)arg;
    hg_cond_signal(&g.c); /* nobody waits: nothing is kept */
    for (int i = 0; i < 8; i++) {
        go(wait_at_gate, &g);
        yield_until(&g.up, i + 1);
    }
    hg_mutex_lock(&g.m); /* so that the last one has let it go */
    hg_mutex_unlock(&g.m);
    CHECK(woken_now(&g) == 0);
    for (int i = 1; i <= 3; i++) {
        hg_cond_signal(&g.c);
        CHECK(woken_now(&g) == i && g.order[i - 1] == i - 1);
    }
    hg_cond_broadcast(&g.c);
    CHECK(woken_now(&g) == 8);
    CHECK(g.c.w[0] == 0 && g.m.w[0] == 0);
    return 0;
}
Test(cond, signal_and_broadcast) { cr_assert_eq(run_on(1, signals, NULL), 0); }

static int cond_deadlines(void *arg)
{
    hg_mutex m = {{0}};
    hg_cond c = {{0}};
    (void)arg;
    hg_mutex_lock(&m);
    CHECK(hg_cond_wait(&c, &m, HG_NOW) == -EAGAIN);
    int64_t until = hg_in(MS);
    CHECK(hg_cond_wait(&c, &m, until) == -ETIMEDOUT && hg_now() >= until);
    CHECK(hg_mutex_lock_until(&m, HG_NOW) == -EAGAIN); /* held in each case */
    hg_mutex_unlock(&m);
    CHECK(c.w[0] == 0 && m.w[0] == 0);
    return 0;
}
Test(cond, deadlines) { cr_assert_eq(run_on(1, cond_deadlines, NULL), 0); }
Test(cond, needs_a_task)
{
    hg_mutex m = {{0}};
    hg_cond c = {{0}};
    hg_mutex_lock(&m);
    cr_assert_eq(hg_cond_wait(&c, &m, HG_FOREVER), -EPERM);
    cr_assert_eq(hg_mutex_lock_until(&m, HG_NOW), -EAGAIN);
    hg_cond_signal(&c);
    hg_cond_broadcast(&c);
}

/* A bounded buffer with one signal for each change. Consumers and producers give up after short
 * times and come again. A lost wake-up ends in a deadlock of those that wait for ever; a spurious
 * one is seen as more wake-ups than signals. */
struct buffer {
    hg_mutex m;
    hg_cond not_empty, not_full;
    int items, room;          /* m */
    int64_t put, taken;       /* m */
    int64_t signalled, woken; /* m: not_empty's */
    int64_t total;
    uint64_t seed;
    hg_waitgroup g;
};
static int64_t patience(struct hg_rand *rand)
{
    return hg_rand_below(rand, 2) == 0 ? HG_FOREVER : hg_in(hg_rand_below(rand, 10000));
}
static void produce(void *arg)
{
    struct buffer *b = arg;
    struct hg_rand rand = {b->seed + hg_task_id()};
    hg_mutex_lock(&b->m);
    while (b->put < b->total) {
        if (b->items == b->room) {
            (void)hg_cond_wait(&b->not_full, &b->m, patience(&rand));
            continue;
        }
        b->items++;
        b->put++;
        b->signalled++;
        hg_cond_signal(&b->not_empty);
        if (hg_rand_below(&rand, 4) == 0) {
            hg_mutex_unlock(&b->m);
            hg_yield();
            hg_mutex_lock(&b->m);
        }
    }
    hg_cond_broadcast(&b->not_full); /* other producers wait for nothing */
    hg_mutex_unlock(&b->m);
    hg_waitgroup_done(&b->g);
}
static void consume(void *arg)
{
    struct buffer *b = arg;
    struct hg_rand rand = {b->seed - hg_task_id()};
    hg_mutex_lock(&b->m);
    while (b->taken < b->total) {
        if (b->items == 0) {
            int r = hg_cond_wait(&b->not_empty, &b->m, patience(&rand));
            CHECK(r == 0 || r == -ETIMEDOUT);
            if (r == 0)
                CHECK(++b->woken <= b->signalled);
            continue;
        }
        b->items--;
        b->taken++;
        hg_cond_signal(&b->not_full);
        if (b->taken == b->total) {
            b->signalled += 100;
            hg_cond_broadcast(&b->not_empty);
        }
        if (hg_rand_below(&rand, 4) == 0) {
            hg_mutex_unlock(&b->m);
            hg_yield();
            hg_mutex_lock(&b->m);
        }
    }
    hg_mutex_unlock(&b->m);
    hg_waitgroup_done(&b->g);
}
static int bounded_buffer(void *arg)
{
    struct buffer b = {.room = 3, .total = (int64_t)test_scaled(50000), .seed = *(uint64_t *)arg};
    hg_waitgroup_add(&b.g, 16);
    for (int i = 0; i < 8; i++) {
        go(produce, &b);
        go(consume, &b);
    }
    CHECK(hg_waitgroup_wait(&b.g, hg_in(50 * S)) == 0);
    CHECK(b.put == b.total && b.taken == b.total && b.items == 0);
    CHECK(b.not_empty.w[0] == 0 && b.not_full.w[0] == 0 && b.m.w[0] == 0);
    return 0;
}
Test(cond, bounded_buffer) { run_random("bounded_buffer", bounded_buffer); }

/* Each signal is sent while somebody waits whose wait will end in no other way, and so wakes
 * exactly one, however many others give up at the same moment. */
struct turns {
    hg_mutex m;
    hg_cond c;
    uint64_t seed;
    int forever; /* m: that wait without a deadline */
    int64_t sent, received;
    bool over; /* m */
    hg_waitgroup g;
};
static void give_up_often(void *arg)
{
    struct turns *t = arg;
    struct hg_rand rand = {t->seed + hg_task_id()};
    hg_mutex_lock(&t->m);
    while (!t->over) {
        int r = hg_cond_wait(&t->c, &t->m, hg_in(hg_rand_below(&rand, 3000)));
        t->received += r == 0;
    }
    hg_mutex_unlock(&t->m);
    hg_waitgroup_done(&t->g);
}
static void wait_for_ever(void *arg)
{
    struct turns *t = arg;
    hg_mutex_lock(&t->m);
    while (!t->over) {
        t->forever++;
        CHECK(hg_cond_wait(&t->c, &t->m, HG_FOREVER) == 0);
        t->forever--;
        t->received++;
    }
    hg_mutex_unlock(&t->m);
    hg_waitgroup_done(&t->g);
}
static int no_signal_is_lost(void *arg)
{
    struct turns t = {.seed = *(uint64_t *)arg};
    hg_waitgroup_add(&t.g, 10);
    for (int i = 0; i < 5; i++) {
        go(give_up_often, &t);
        go(wait_for_ever, &t);
    }
    for (int64_t i = 0, n = (int64_t)test_scaled(20000); i < n; i++) {
        hg_mutex_lock(&t.m);
        /* All that was sent has been received; so who counts as waiting for ever does. */
        while (t.forever == 0 || t.received != t.sent) {
            hg_mutex_unlock(&t.m);
            hg_yield();
            hg_mutex_lock(&t.m);
        }
        t.sent++;
        hg_cond_signal(&t.c);
        hg_mutex_unlock(&t.m);
    }
    hg_mutex_lock(&t.m);
    t.over = true;
    hg_cond_broadcast(&t.c);
    hg_mutex_unlock(&t.m);
    CHECK(hg_waitgroup_wait(&t.g, hg_in(50 * S)) == 0);
    return 0;
}
Test(cond, no_signal_is_lost) { run_random("no_signal_is_lost", no_signal_is_lost); }

/* ---- semaphore ---- */

static int sema_basics(void *arg)
{
    hg_sema s = {{0}};
    (void)arg;
    CHECK(hg_sema_acquire(&s, 0, HG_NOW) == 0);
    CHECK(hg_sema_acquire(&s, 1, HG_NOW) == -EAGAIN);
    CHECK(hg_sema_acquire(&s, -1, HG_NOW) == -EINVAL);
    hg_sema_release(&s, 5);
    CHECK(hg_sema_units(&s) == 5);
    CHECK(hg_sema_acquire(&s, 6, hg_in(100000)) == -ETIMEDOUT);
    CHECK(hg_sema_acquire(&s, 5, HG_FOREVER) == 0 && hg_sema_units(&s) == 0);
    hg_sema_release(&s, 0);
    CHECK(hg_sema_acquire(&s, 1, hg_in(100000)) == -ETIMEDOUT);
    CHECK(s.w[0] == 0 && s.w[1] == 0);
    return 0;
}
Test(sema, basics) { cr_assert_eq(run_on(1, sema_basics, NULL), 0); }

struct claim {
    hg_sema *s;
    int64_t n, deadline;
    _Atomic int *got;
    int expected, result;
};
static void acquire_one(void *arg)
{
    struct claim *c = arg;
    CHECK(hg_sema_acquire(c->s, c->n, c->deadline) == c->result);
    int at = hg_add_acqrel(c->got, 1);
    CHECK(c->expected < 0 || at == c->expected);
}
/* Who wants many is not overtaken; when it gives up, those behind it are served at once. */
static int sema_order(void *arg)
{
    hg_sema s = {{0}};
    _Atomic int got = 0;
    struct claim c[] = {{&s, 10, HG_FOREVER, &got, 0, 0},
                        {&s, 1, HG_FOREVER, &got, 1, 0},
                        {&s, 2, HG_FOREVER, &got, 2, 0}};
    struct claim d[] = {{&s, 50, hg_in(20 * MS), &got, -1, -ETIMEDOUT},
                        {&s, 1, HG_FOREVER, &got, -1, 0}};
    (void)arg;
    hg_sema_release(&s, 9);
    for (int i = 0; i < 3; i++) {
        go(acquire_one, &c[i]);
        hg_yield();
    }
    CHECK(hg_sema_acquire(&s, 1, HG_NOW) == -EAGAIN); /* though there are units */
    CHECK(hg_load_acq(&got) == 0);
    hg_sema_release(&s, 1);
    yield_until(&got, 1);
    hg_sema_release(&s, 3);
    yield_until(&got, 3);
    hg_store_rel(&got, 0);
    CHECK(s.w[0] == 0);
    hg_sema_release(&s, 3);
    for (int i = 0; i < 2; i++) {
        d[0].deadline = hg_in(20 * MS);
        go(acquire_one, &d[i]);
        hg_yield();
    }
    CHECK(hg_load_acq(&got) == 0);
    for (int64_t until = hg_in(20 * S); hg_load_acq(&got) != 2; hg_sleep(MS))
        CHECK(hg_now() < until);
    CHECK(hg_sema_units(&s) == 2 && (s.w[0] & 1) == 0);
    return 0;
}
Test(sema, first_come_first_served) { cr_assert_eq(run_on(1, sema_order, NULL), 0); }

struct pool {
    hg_sema s;
    hg_waitgroup g;
    uint64_t seed;
    int rounds;
    int64_t units;
    _Atomic int64_t out;
    _Atomic int got, gave_up;
};
static void use_pool(void *arg)
{
    struct pool *p = arg;
    struct hg_rand rand = {p->seed + hg_task_id()};
    for (int i = 0; i < p->rounds; i++) {
        int64_t n = hg_rand_below(&rand, (uint32_t)p->units + 1);
        bool forever = hg_rand_below(&rand, 3) == 0;
        int r =
            hg_sema_acquire(&p->s, n, forever ? HG_FOREVER : hg_in(hg_rand_below(&rand, 10000)));
        hg_add_acqrel(r == 0 ? &p->got : &p->gave_up, 1);
        CHECK(r == 0 || (!forever && r == -ETIMEDOUT));
        if (r != 0)
            continue;
        CHECK(hg_add_acqrel(&p->out, n) + n <= p->units);
        if (hg_rand_below(&rand, 2) == 0)
            hg_yield();
        hg_sub_acqrel(&p->out, n);
        int64_t first = hg_rand_below(&rand, (uint32_t)n + 1); /* in two parts */
        hg_sema_release(&p->s, first);
        hg_sema_release(&p->s, n - first);
    }
    hg_waitgroup_done(&p->g);
}
static int sema_pool(void *arg)
{
    struct pool p = {.seed = *(uint64_t *)arg, .rounds = (int)test_scaled(8000), .units = 7};
    hg_sema_release(&p.s, p.units);
    hg_waitgroup_add(&p.g, 20);
    for (int i = 0; i < 20; i++)
        go(use_pool, &p);
    CHECK(hg_waitgroup_wait(&p.g, hg_in(50 * S)) == 0);
    CHECK(hg_sema_units(&p.s) == p.units && (p.s.w[0] & 1) == 0 && p.s.w[1] == 0);
    CHECK(p.got > 0 && p.gave_up > 0);
    return 0;
}
Test(sema, pool_of_units) { run_random("pool_of_units", sema_pool); }

/* ---- once ---- */

struct init {
    hg_once o;
    hg_waitgroup g;
    _Atomic int calls, inside, done, failed, value, timed_out;
    int fail_first;
};
static int initialise(void *arg)
{
    struct init *x = arg;
    CHECK(hg_add_acqrel(&x->inside, 1) == 0);
    int n = hg_add_acqrel(&x->calls, 1);
    for (int i = 0; i < 3; i++)
        hg_yield();
    CHECK(hg_once_do(&x->o, initialise, x, HG_FOREVER) == -EDEADLK);
    hg_sub_acqrel(&x->inside, 1);
    if (n < x->fail_first)
        return -EIO;
    hg_store_rlx(&x->value, 42);
    return 0;
}
static void need(void *arg)
{
    struct init *x = arg;
    int64_t deadline = hg_task_id() % 3 == 0 ? hg_in(2000) : HG_FOREVER;
    int r = hg_once_do(&x->o, initialise, x, deadline);
    if (r == 0)
        CHECK(hg_load_rlx(&x->value) == 42);
    hg_add_acqrel(r == 0 ? &x->done : r == -EIO ? &x->failed : &x->timed_out, 1);
    CHECK(r == 0 || r == -EIO || (deadline != HG_FOREVER && r == -ETIMEDOUT));
    hg_waitgroup_done(&x->g);
}
static int once_race(void *arg)
{
    (void)arg;
    for (int round = 0; round < (int)test_scaled(200); round++) {
        struct init x = {.fail_first = round % 5};
        hg_waitgroup_add(&x.g, 30);
        for (int i = 0; i < 30; i++)
            go(need, &x);
        CHECK(hg_waitgroup_wait(&x.g, hg_in(50 * S)) == 0);
        CHECK(x.calls == x.fail_first + 1 && x.failed == x.fail_first);
        CHECK(x.done + x.failed + x.timed_out == 30 && x.done > 0);
        CHECK(hg_once_do(&x.o, initialise, &x, HG_NOW) == 0 && x.calls == x.fail_first + 1);
    }
    return 0;
}
Test(once, one_succeeds) { run_random("one_succeeds", once_race); }

static int slow(void *arg) { return hg_chan_recv(arg, NULL, HG_FOREVER); }
struct first {
    hg_once o;
    hg_chan *c;
    _Atomic int over;
};
static void go_first(void *arg)
{
    struct first *f = arg;
    CHECK(hg_once_do(&f->o, slow, f->c, HG_FOREVER) == 0);
    hg_store_rel(&f->over, 1);
}
static int once_deadlines(void *arg)
{
    struct first f = {.c = new_chan(0, 0, HG_LEAF)};
    (void)arg;
    go(go_first, &f);
    hg_yield();
    CHECK(hg_once_do(&f.o, slow, f.c, HG_NOW) == -EAGAIN);
    CHECK(hg_once_do(&f.o, slow, f.c, hg_in(MS)) == -ETIMEDOUT);
    CHECK(hg_chan_send(f.c, NULL, HG_FOREVER) == 0);
    yield_until(&f.over, 1);
    CHECK(hg_once_do(&f.o, slow, f.c, HG_NOW) == 0);
    return 0;
}
Test(once, deadlines) { cr_assert_eq(run_on(1, once_deadlines, NULL), 0); }
static int answer(void *arg) { return *(int *)arg; }
Test(once, outside_of_tasks)
{
    hg_once o = {{0}};
    int r = -EIO;
    cr_assert_eq(hg_once_do(&o, answer, &r, HG_FOREVER), -EIO);
    r = 0;
    cr_assert_eq(hg_once_do(&o, answer, &r, HG_FOREVER), 0);
    r = -EIO;
    cr_assert_eq(hg_once_do(&o, answer, &r, HG_FOREVER), 0);
}

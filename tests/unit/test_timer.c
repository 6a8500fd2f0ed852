/* test_timer.c: the timers of programs: the contract of stop and reset, callbacks that arm and stop
 * timers themselves, timers in the collected heap (T04), on stacks, reset from elsewhere (T10). */
#include "base/rand.h"
#include "tests/support/test.h"
#include "tests/unit/test_sync.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <signal.h>
#include <string.h>

TestSuite(timer, .timeout = 60);

#define MS INT64_C(1000000)
#define S  (1000 * MS)

static int on_procs[] = {1, 2, 4};

static void wait_for(_Atomic int *value, int wanted)
{
    for (int64_t until = hg_in(20 * S); hg_load_acq(value) != wanted; hg_sleep(100000))
        CHECK(hg_now() < until);
}

static void count(hg_timer *t, void *arg)
{
    (void)t;
    hg_add_acqrel((_Atomic int *)arg, 1);
}

/* ---- callbacks ---- */

static int contract(void *arg)
{
    _Atomic int n = 0;
    hg_timer t;
    (void)arg;
    hg_timer_init(&t, count, &n);
    CHECK(!hg_timer_stop(&t) && hg_timer_when(&t) == HG_FOREVER);
    CHECK(hg_timer_wait(&t, HG_NOW) == -EINVAL);
    /* it fires, once, not before its time */
    int64_t when = hg_in(2 * MS);
    CHECK(hg_timer_reset(&t, when) == 0);
    wait_for(&n, 1);
    CHECK(hg_now() >= when && hg_timer_when(&t) == HG_FOREVER);
    CHECK(!hg_timer_stop(&t));
    /* stopped */
    when = hg_in(3600 * S);
    CHECK(hg_timer_reset(&t, when) == 0 && hg_timer_when(&t) == when);
    CHECK(hg_timer_stop(&t) && !hg_timer_stop(&t));
    /* moved, both ways, and to never */
    CHECK(hg_timer_reset(&t, hg_in(3600 * S)) == 0);
    CHECK(hg_timer_reset(&t, hg_in(7200 * S)) == 1);
    CHECK(hg_timer_reset(&t, HG_FOREVER) == 1);
    CHECK(hg_timer_reset(&t, HG_FOREVER) == 0);
    CHECK(hg_timer_reset(&t, 1) == 0); /* long ago: at once */
    wait_for(&n, 2);
    hg_sleep(2 * MS);
    CHECK(hg_load_acq(&n) == 2);
    return 0;
}
ParameterizedTestParameters(timer, contract) { return cr_make_param_array(int, on_procs, 3); }
ParameterizedTest(int *procs, timer, contract) { cr_assert_eq(run_on(*procs, contract, NULL), 0); }

/* A stop races with the firing: true exactly when the callback does not run. T02, T03. */
struct raced {
    hg_timer t;
    _Atomic int running, fired;
};
static void race_fire(hg_timer *t, void *arg)
{
    struct raced *r = arg;
    CHECK(t == &r->t);
    hg_store_rel(&r->running, 1);
    for (int i = 0; i < 300; i++)
        hg_cpu_relax();
    hg_add_acqrel(&r->fired, 1);
    hg_store_rel(&r->running, 0);
}
static int stop_xor_fired(void *arg)
{
    struct hg_rand rand = {*(uint64_t *)arg};
    int prevented = 0, rounds = (int)test_scaled(20000);
    for (int i = 0; i < rounds; i++) {
        struct raced r = {.fired = 0};
        hg_timer_init(&r.t, race_fire, &r);
        CHECK(hg_timer_reset(&r.t, hg_in(hg_rand_below(&rand, 3000))) == 0);
        for (uint32_t k = hg_rand_below(&rand, 1500); k > 0; k--)
            hg_cpu_relax();
        if (hg_rand_below(&rand, 4) == 0)
            hg_yield();
        int expected = 1;
        if (hg_rand_below(&rand, 4) == 0) {
            int was = hg_timer_reset(&r.t, hg_in(hg_rand_below(&rand, 3000)));
            expected += 1 - was;
            CHECK(was == 1 || hg_load_acq(&r.fired) == 1);
        }
        bool stopped = hg_timer_stop(&r.t);
        CHECK(hg_load_acq(&r.running) == 0);
        CHECK(hg_load_acq(&r.fired) == expected - stopped);
        prevented += stopped;
    }
    CHECK(prevented > 0 && prevented < rounds);
    return 0;
}
Test(timer, stop_says_whether_it_fired)
{
    uint64_t seed = test_seed("stop_says_whether_it_fired");
    for (int procs = 1; procs <= 4; procs *= 2) {
        cr_assert_eq(run_on(procs, stop_xor_fired, &seed), 0);
        cr_assert_eq(run_on_seed(procs, seed | 1, stop_xor_fired, &seed), 0);
    }
}

/* T07 */
static int due_after_a_busy_stretch(void *arg)
{
    _Atomic int n = 0;
    hg_timer t;
    (void)arg;
    hg_timer_init(&t, count, &n);
    hg_timer_reset(&t, hg_in(5 * MS));
    for (int64_t until = hg_in(50 * MS); hg_now() < until;)
        continue;
    CHECK(hg_load_acq(&n) == 0);
    hg_yield();
    CHECK(hg_load_acq(&n) == 1);
    return 0;
}
Test(timer, due_after_a_busy_stretch)
{
    cr_assert_eq(run_on(1, due_after_a_busy_stretch, NULL), 0);
}

/* ---- a callback and its own timer ---- */

struct periodic {
    hg_timer t;
    int64_t first;
    _Atomic int n;
    int limit, was[8];
};
static void again(hg_timer *t, void *arg)
{
    struct periodic *p = arg;
    int n = hg_load_rlx(&p->n);
    if (n + 1 < p->limit) {
        p->was[n % 8] = hg_timer_reset(t, hg_in(100000));
        CHECK(hg_timer_reset(t, hg_in(200000)) == 1);
        CHECK(hg_timer_stop(t) &&
              !hg_timer_stop(t)); /* takes it back, without waiting for itself */
        CHECK(hg_timer_reset(t, hg_in(100000)) == 0);
    }
    hg_add_acqrel(&p->n, 1);
}
static int arms_itself(void *arg)
{
    struct periodic p = {.limit = 8};
    (void)arg;
    hg_timer_init(&p.t, again, &p);
    CHECK(hg_timer_reset(&p.t, hg_in(100000)) == 0);
    wait_for(&p.n, 8);
    for (int i = 0; i < 7; i++)
        CHECK(p.was[i] == 0);
    CHECK(!hg_timer_stop(&p.t));
    /* stopped from outside, for good, at whatever moment */
    for (int i = 0; i < 200; i++) {
        p.limit = INT32_MAX;
        hg_store_rlx(&p.n, 8);
        CHECK(hg_timer_reset(&p.t, hg_now()) == 0);
        if (i % 2 == 0)
            hg_sleep(i * 3000);
        CHECK(hg_timer_stop(&p.t)); /* it always is armed, or will be when its callback returns */
        int n = hg_load_acq(&p.n);
        if (i % 16 == 0)
            hg_sleep(300000);
        CHECK(hg_load_acq(&p.n) == n);
    }
    return 0;
}
ParameterizedTestParameters(timer, arms_itself) { return cr_make_param_array(int, on_procs, 3); }
ParameterizedTest(int *procs, timer, arms_itself)
{
    cr_assert_eq(run_on(*procs, arms_itself, NULL), 0);
}

/* Callbacks may stop and arm others, also those that run at this moment: no deadlock. */
struct crossed {
    hg_timer a, b;
    _Atomic int calls;
};
static void cross(hg_timer *t, void *arg)
{
    struct crossed *c = arg;
    hg_timer *other = t == &c->a ? &c->b : &c->a;
    hg_add_acqrel(&c->calls, 1);
    for (int i = 0; i < 200; i++)
        hg_cpu_relax();
    int r = hg_timer_reset(other, hg_in(1000));
    CHECK(r == 0 || r == 1 || r == -EBUSY);
    if (r == -EBUSY)
        (void)hg_timer_stop(other); /* does not wait; true if it has armed itself by now */
    CHECK(hg_timer_reset(t, hg_in(2000)) >= 0);
}
static int crossing(void *arg)
{
    struct crossed c = {.calls = 0};
    (void)arg;
    hg_timer_init(&c.a, cross, &c);
    hg_timer_init(&c.b, cross, &c);
    hg_timer_reset(&c.a, hg_now());
    hg_timer_reset(&c.b, hg_now());
    for (int64_t until = hg_in(20 * S); hg_load_acq(&c.calls) < 5000; hg_yield())
        CHECK(hg_now() < until);
    /* One may arm the other again after that was stopped: until both are. */
    while (hg_timer_stop(&c.a) | hg_timer_stop(&c.b))
        continue;
    int n = hg_load_acq(&c.calls);
    hg_sleep(2 * MS);
    CHECK(hg_load_acq(&c.calls) == n);
    return 0;
}
ParameterizedTestParameters(timer, crossing) { return cr_make_param_array(int, on_procs, 3); }
ParameterizedTest(int *procs, timer, crossing) { cr_assert_eq(run_on(*procs, crossing, NULL), 0); }

/* What a callback may call, and what refuses. */
struct caller {
    hg_timer t;
    hg_chan *c, *full;
    hg_waitgroup g;
    hg_sema s;
    hg_mutex m;
    hg_cond cond;
    int refused[6];
    _Atomic int done;
};
static void call_things(hg_timer *t, void *arg)
{
    struct caller *c = arg;
    int64_t v = 42;
    (void)t;
    CHECK(hg_chan_send(c->c, &v, HG_NOW) == 0);
    CHECK(hg_chan_send(c->full, &v, HG_NOW) == -EAGAIN);
    c->refused[0] = hg_chan_send(c->full, &v, HG_FOREVER);
    c->refused[1] = hg_chan_recv(c->c, &v, HG_NOW);
    c->refused[2] = hg_sema_acquire(&c->s, 5, HG_FOREVER);
    c->refused[3] = hg_cond_wait(&c->cond, &c->m, HG_FOREVER);
    c->refused[4] = hg_go((void (*)(void *))(uintptr_t)abort, NULL);
    c->refused[5] = hg_waitgroup_wait(&c->g, HG_FOREVER);
    hg_sema_release(&c->s, 1);
    hg_cond_broadcast(&c->cond);
    hg_waitgroup_done(&c->g);
    hg_store_rel(&c->done, 1);
}
static int from_callback(void *arg)
{
    struct caller c = {.done = 0};
    int64_t v;
    (void)arg;
    c.c = new_chan(sizeof v, 0, HG_LEAF);
    c.full = new_chan(sizeof v, 0, HG_LEAF);
    hg_waitgroup_add(&c.g, 1);
    hg_timer_init(&c.t, call_things, &c);
    hg_timer_reset(&c.t, hg_in(MS));
    CHECK(hg_chan_recv(c.c, &v, HG_FOREVER) == 0 && v == 42); /* to a receiver that waits */
    CHECK(hg_sema_acquire(&c.s, 1, HG_FOREVER) == 0);
    CHECK(hg_waitgroup_wait(&c.g, HG_FOREVER) == 0);
    wait_for(&c.done, 1);
    CHECK(!hg_timer_stop(&c.t));
    for (int i = 0; i < 6; i++)
        CHECK(c.refused[i] == -EPERM);
    return 0;
}
ParameterizedTestParameters(timer, from_callback) { return cr_make_param_array(int, on_procs, 3); }
ParameterizedTest(int *procs, timer, from_callback)
{
    cr_assert_eq(run_on(*procs, from_callback, NULL), 0);
}

/* ---- without a function ---- */

static int waited_for(void *arg)
{
    hg_timer t = {{0}};
    (void)arg;
    CHECK(hg_timer_when(&t) == HG_FOREVER);
    CHECK(hg_timer_wait(&t, HG_FOREVER) == -EPIPE && !hg_timer_stop(&t)); /* T02: never blocks */
    CHECK(hg_timer_reset(&t, hg_in(3600 * S)) == 0);
    CHECK(hg_timer_wait(&t, HG_NOW) == -EAGAIN);
    CHECK(hg_timer_wait(&t, hg_in(100000)) == -ETIMEDOUT);
    int64_t when = hg_in(3 * MS);
    CHECK(hg_timer_reset(&t, when) == 1 && hg_timer_when(&t) == when);
    CHECK(hg_timer_wait(&t, HG_FOREVER) == 0 && hg_now() >= when);
    CHECK(hg_timer_wait(&t, HG_NOW) == -EPIPE && !hg_timer_stop(&t)); /* delivered: not prevented */
    /* T03: a firing that nobody took is gone after a reset */
    CHECK(hg_timer_reset(&t, hg_in(MS)) == 0);
    hg_sleep(2 * MS);
    CHECK(hg_timer_reset(&t, hg_in(3600 * S)) == 1);
    CHECK(hg_timer_wait(&t, hg_in(10 * MS)) == -ETIMEDOUT);
    /* and after a stop, which prevented it */
    CHECK(hg_timer_reset(&t, hg_in(MS)) == 1);
    hg_sleep(2 * MS);
    CHECK(hg_timer_stop(&t) && hg_timer_wait(&t, HG_NOW) == -EPIPE);
    /* beside a channel, without a channel of its own */
    hg_chan *c = new_chan(0, 0, HG_LEAF);
    hg_case k = {.chan = c};
    hg_timer_reset(&t, hg_in(MS));
    CHECK(hg_select(&k, 1, hg_timer_when(&t)) == -ETIMEDOUT && hg_timer_wait(&t, HG_NOW) == 0);
    return 0;
}
ParameterizedTestParameters(timer, waited_for) { return cr_make_param_array(int, on_procs, 3); }
ParameterizedTest(int *procs, timer, waited_for)
{
    cr_assert_eq(run_on(*procs, waited_for, NULL), 0);
}

/* Tasks wait while others move and stop it: each firing goes to one of them, or a stop or reset
 * says that it was prevented. */
struct shared {
    hg_timer t;
    hg_waitgroup g;
    _Atomic int delivered, over;
};
static void take_all(void *arg)
{
    struct shared *x = arg;
    while (hg_load_acq(&x->over) == 0) {
        int r = hg_timer_wait(&x->t, hg_in(50000));
        CHECK(r == 0 || r == -ETIMEDOUT || r == -EPIPE);
        if (r == 0)
            hg_add_acqrel(&x->delivered, 1);
        if (r == -EPIPE)
            hg_yield();
    }
    hg_waitgroup_done(&x->g);
}
static int shared_by_many(void *arg)
{
    enum { TASKS = 8 };
    struct hg_rand rand = {*(uint64_t *)arg};
    struct shared x = {.over = 0};
    int armed = 0, prevented = 0;
    hg_waitgroup_add(&x.g, TASKS);
    for (int i = 0; i < TASKS; i++)
        go(take_all, &x);
    for (int i = (int)test_scaled(20000); i > 0; i--) {
        if (hg_rand_below(&rand, 3) != 0) {
            prevented += hg_timer_reset(&x.t, hg_in(hg_rand_below(&rand, 5000)));
            armed++;
        } else {
            prevented += hg_timer_stop(&x.t);
        }
        if (hg_rand_below(&rand, 3) == 0)
            hg_sleep(hg_rand_below(&rand, 3000));
    }
    prevented += hg_timer_stop(&x.t);
    CHECK(hg_timer_wait(&x.t, HG_NOW) == -EPIPE);
    hg_store_rel(&x.over, 1);
    CHECK(hg_waitgroup_wait(&x.g, HG_FOREVER) == 0);
    CHECK(armed == prevented + hg_load_acq(&x.delivered));
    CHECK(hg_load_acq(&x.delivered) > 0 && prevented > 0);
    return 0;
}
Test(timer, each_firing_is_delivered_or_prevented)
{
    uint64_t seed = test_seed("each_firing_is_delivered_or_prevented");
    for (int procs = 1; procs <= 4; procs *= 2) {
        cr_assert_eq(run_on(procs, shared_by_many, &seed), 0);
        cr_assert_eq(run_on_seed(procs, seed | 1, shared_by_many, &seed), 0);
    }
}

/* ---- T10 ---- */

static void note_time(hg_timer *t, void *arg)
{
    (void)t;
    hg_store_rel((_Atomic int64_t *)arg, hg_now());
}
struct far {
    hg_timer t;
    _Atomic int64_t at;
    _Atomic int armed;
};
static void arm_far(void *arg)
{
    struct far *f = arg;
    CHECK(hg_timer_reset(&f->t, hg_in(3600 * S)) == 0);
    hg_store_rel(&f->armed, 1);
}
static int reset_from_elsewhere(void *arg)
{
    int late = 0;
    (void)arg;
    for (int i = 0; i < 1000; i++) {
        struct far f = {.armed = 0};
        hg_timer_init(&f.t, note_time, &f.at);
        go(arm_far, &f);
        for (int64_t until = hg_in(50000); hg_load_acq(&f.armed) == 0 && hg_now() < until;)
            hg_cpu_relax(); /* the other proc may take it; or this one does */
        while (hg_load_acq(&f.armed) == 0)
            hg_yield();
        int64_t when = hg_in(500000);
        CHECK(hg_timer_reset(&f.t, when) == 1);
        for (int64_t until = hg_in(20 * S); hg_load_acq(&f.at) == 0; hg_sleep(100000))
            CHECK(hg_now() < until);
        CHECK(hg_load_acq(&f.at) >= when);
        late += hg_load_acq(&f.at) - when > 10 * MS;
    }
    CHECK(late < 100); /* others may keep the machine busy; a lost reset would be an hour late */
    return 0;
}
Test(timer, reset_from_another_proc) { cr_assert_eq(run_on(2, reset_from_elsewhere, NULL), 0); }

/* ---- in the collected heap ---- */

static uint64_t timers_now(void)
{
    hg_stats st = {.size = sizeof st};
    hg_stats_read(hg_current(), &st);
    return st.timers_now;
}
static uint64_t live_bytes(void)
{
    hg_stats st = {.size = sizeof st};
    hg_stats_read(hg_current(), &st);
    return st.heap_marked_bytes;
}

struct owner {
    struct owner *next;
    hg_timer t;
    void *what;
    _Atomic int fired;
};
static const uint32_t owner_fields[] = {offsetof(struct owner, next), offsetof(struct owner, what),
                                        HG_TIMER_ARG(offsetof(struct owner, t))};
static const hg_layout owner_layout = HG_TYPED("owner", owner_fields);
static _Atomic int fired;

static void fire_owner(hg_timer *t, void *arg)
{
    struct owner *o = arg;
    CHECK(&o->t == t);
    CHECK(o->what == NULL || *(uint64_t *)o->what == 77);
    hg_add_acqrel(&o->fired, 1);
    hg_add_acqrel(&fired, 1);
}
static struct owner *new_owner(int64_t when)
{
    struct owner *o = hg_alloc(sizeof *o, &owner_layout);
    hg_timer_init(&o->t, fire_owner, o);
    CHECK(hg_timer_reset(&o->t, when) == 0);
    return o;
}

/* T04: some are kept, one in a thousand; the others are dropped in between. */
static __attribute__((noinline)) struct owner *drop_many(int n)
{
    struct owner *kept = NULL;
    for (int i = 0; i < n; i++) {
        struct owner *o = new_owner(hg_in(3600 * S + (int64_t)i * 7919 % 1000003));
        if (i % 1000 == 0) {
            o->next = kept;
            kept = o;
        }
    }
    return kept;
}
/* Moves what is in the heap while it is walked. */
static void churn(void *over)
{
    struct hg_rand rand = {hg_task_id()};
    hg_timer t[64];
    for (int i = 0; i < 64; i++)
        hg_timer_init(&t[i], count, over);
    while (hg_load_acq((_Atomic int *)over) == 0) {
        hg_timer_reset(&t[hg_rand_below(&rand, 64)],
                       hg_in(3600 * S + hg_rand_below(&rand, 1000003)));
        hg_timer_stop(&t[hg_rand_below(&rand, 64)]);
        hg_yield();
    }
    for (int i = 0; i < 64; i++)
        hg_timer_stop(&t[i]);
    hg_add_acqrel((_Atomic int *)over, 1);
}
static int forgotten(void *arg)
{
    int n = (int)test_scaled(400000);
    static _Atomic int over;
    (void)arg;
    hg_collect(hg_current());
    uint64_t before = timers_now(), bytes = live_bytes();
    go(churn, &over);
    struct owner *kept = drop_many(n);
    CHECK(timers_now() - before >= (uint64_t)n / 1000);
    for (int i = 0; i < 3; i++)
        hg_collect(hg_current());
    hg_add_acqrel(&over, 1);
    wait_for(&over, 2);
    uint64_t left = timers_now() - before, want = ((uint64_t)n + 999) / 1000;
    CHECK(left >= want && left < want + 100);
    CHECK(live_bytes() < bytes + 200 * want + 100000);
    int in_list = 0;
    for (struct owner *o = kept; o != NULL; o = o->next, in_list++)
        CHECK(hg_timer_stop(&o->t));
    CHECK((uint64_t)in_list == want);
    CHECK(hg_load_acq(&fired) == 0);
    return 0;
}
ParameterizedTestParameters(timer, forgotten) { return cr_make_param_array(int, on_procs, 3); }
ParameterizedTest(int *procs, timer, forgotten)
{
    cr_assert_eq(run_on(*procs, forgotten, NULL), 0);
}

/* Dropped and kept ones that are due soon, with cycles all the time: kept ones fire once, dropped
 * ones fire or do not, and none that fires has lost what it holds. */
static struct owner *new_due(struct hg_rand *rand)
{
    struct owner *o = new_owner(hg_in(hg_rand_below(rand, 400000)));
    uint64_t *what = hg_alloc(sizeof *what, HG_LEAF);
    *what = 77;
    hg_ref_store(&o->what, what);
    return o;
}
static int due_while_collecting(void *arg)
{
    struct hg_rand rand = {*(uint64_t *)arg};
    for (int round = 0; round < (int)test_scaled(40); round++) {
        struct owner *kept = NULL;
        for (int i = 0; i < 64; i++) {
            struct owner *o = new_due(&rand);
            hg_ref_store(&o->next, kept);
            kept = o;
            for (uint32_t k = hg_rand_below(&rand, 4); k > 0; k--)
                (void)new_due(&rand);
        }
        hg_sleep(hg_rand_below(&rand, 300000));
        for (struct owner *o = kept; o != NULL; o = o->next) {
            for (int64_t until = hg_in(20 * S); hg_timer_when(&o->t) != HG_FOREVER; hg_sleep(20000))
                CHECK(hg_now() < until);
            CHECK(!hg_timer_stop(&o->t) && hg_load_acq(&o->fired) == 1);
        }
    }
    return 0;
}
Test(timer, due_while_collecting)
{
    uint64_t seed = test_seed("due_while_collecting");
    for (int procs = 1; procs <= 4; procs *= 2)
        cr_assert_eq(run_collecting(procs, due_while_collecting, &seed), 0);
}

/* An argument that nothing but the timer's own object holds, through its layout. */
static _Atomic(void *) got;
static void take_argument(hg_timer *t, void *arg)
{
    (void)t;
    CHECK(*(uint64_t *)arg == 99);
    hg_store_rel(&got, arg);
}
static int argument_lives(void *arg)
{
    (void)arg;
    for (int i = 0; i < 50; i++) {
        struct owner *o = hg_alloc(sizeof *o, &owner_layout);
        uint64_t *a = hg_alloc(sizeof *a, HG_LEAF);
        *a = 99;
        hg_timer_init(&o->t, take_argument, a);
        a = NULL;
        hg_store_rlx(&got, NULL);
        CHECK(hg_timer_reset(&o->t, hg_in(300000)) == 0);
        while (hg_load_acq(&got) == NULL)
            hg_collect(hg_current());
        hg_keep_alive(o);
    }
    return 0;
}
Test(timer, its_argument_lives) { cr_assert_eq(run_collecting(2, argument_lives, NULL), 0); }

/* ---- misuse ---- */

static void leave_armed(void *arg)
{
    hg_timer t;
    hg_timer_init(&t, count, arg);
    hg_timer_reset(&t, hg_in(3600 * S));
}
static int leaves_armed(void *arg)
{
    static _Atomic int n;
    (void)arg;
    go(leave_armed, &n);
    hg_sleep(2 * S);
    return 0;
}
static void leaves_armed_run(void *arg)
{
    (void)arg;
    run_on(1, leaves_armed, NULL);
}
Test(timer, task_that_ends_with_an_armed_timer)
{
    struct test_child child;
    test_child_run(&child, 20, leaves_armed_run, NULL);
    cr_assert_eq(child.signal, SIGABRT);
    cr_assert(strstr(child.text, "ended with armed timers on its stack: 1") != NULL, "%s",
              child.text);
}

/* ---- tickers ---- */

static int ticks(void *arg)
{
    hg_ticker k = {{0}};
    uint64_t missed;
    (void)arg;
    CHECK(hg_ticker_wait(&k, HG_FOREVER, NULL) == -EPIPE && !hg_ticker_stop(&k));
    CHECK(hg_ticker_next(&k) == HG_FOREVER);
    CHECK(hg_ticker_start(&k, 0, 0) == -EINVAL && hg_ticker_start(&k, 0, -5) == -EINVAL);
    CHECK(hg_ticker_start(&k, hg_in(3600 * S), S) == 0);
    CHECK(hg_ticker_wait(&k, HG_NOW, NULL) == -EAGAIN);
    int64_t first = hg_in(MS), period = 2 * MS;
    CHECK(hg_ticker_start(&k, first, period) == 0);
    int64_t due = first;
    for (int i = 0; i < 20; i++) {
        CHECK(hg_ticker_next(&k) == due);
        CHECK(hg_ticker_wait(&k, HG_FOREVER, &missed) == 0);
        due += (int64_t)missed * period; /* late machines miss some; no drift, whatever happens */
        CHECK(hg_now() >= due);
        due += period;
    }
    /* missed ones become one */
    hg_sleep_until(due + 10 * period + 1);
    CHECK(hg_ticker_wait(&k, HG_NOW, &missed) == 0 && missed >= 10);
    due += ((int64_t)missed + 1) * period;
    CHECK(hg_ticker_next(&k) == due);
    /* nothing of an earlier start is left */
    hg_sleep_until(due);
    CHECK(hg_ticker_start(&k, hg_in(3600 * S), 1) == 0);
    CHECK(hg_ticker_wait(&k, hg_in(2 * MS), NULL) == -ETIMEDOUT);
    CHECK(hg_ticker_stop(&k) && hg_ticker_wait(&k, HG_NOW, NULL) == -EPIPE);
    /* the largest numbers there are */
    CHECK(hg_ticker_start(&k, INT64_MIN, INT64_MAX) == 0);
    CHECK(hg_ticker_wait(&k, HG_NOW, &missed) == 0 && missed == 0);
    CHECK(hg_ticker_wait(&k, HG_NOW, &missed) == -EAGAIN);
    return 0;
}
ParameterizedTestParameters(timer, ticks) { return cr_make_param_array(int, on_procs, 3); }
ParameterizedTest(int *procs, timer, ticks) { cr_assert_eq(run_on(*procs, ticks, NULL), 0); }

/* T05: thousands of tasks that reset short timers do not starve a ticker. */
struct storm {
    _Atomic int over;
    hg_waitgroup g;
};
static void reset_often(void *arg)
{
    struct storm *s = arg;
    _Atomic int n = 0;
    hg_timer t;
    hg_timer_init(&t, count, &n);
    while (hg_load_acq(&s->over) == 0) {
        hg_timer_reset(&t, hg_in(100000));
        hg_yield();
    }
    hg_timer_stop(&t);
    hg_waitgroup_done(&s->g);
}
static int storm(void *arg)
{
    struct storm s = {.over = 0};
    int tasks = (int)test_scaled(4000);
    int64_t late[100], period = 10 * MS, due;
    hg_ticker k = {{0}};
    int n = 0;
    (void)arg;
    uint64_t before = timers_now(), missed;
    hg_waitgroup_add(&s.g, tasks);
    for (int i = 0; i < tasks; i++)
        go(reset_often, &s);
    due = hg_in(period);
    hg_ticker_start(&k, due, period);
    for (int64_t end = hg_in(S); hg_now() < end && n < 100; due += period) {
        CHECK(hg_ticker_wait(&k, hg_in(20 * S), &missed) == 0);
        int64_t by = hg_now() - due; /* the first of those that became one */
        due += (int64_t)missed * period;
        int at = n++;
        for (; at > 0 && late[at - 1] > by; at--)
            late[at] = late[at - 1];
        late[at] = by;
    }
    CHECK(timers_now() <= before + (uint64_t)tasks + 16); /* memory is flat */
    hg_store_rel(&s.over, 1);
    CHECK(hg_waitgroup_wait(&s.g, HG_FOREVER) == 0);
    fprintf(stderr, "ticks late by %.1f ms in the middle, %.1f ms of 9 in 10, %.1f ms at most\n",
            (double)late[n / 2] / 1e6, (double)late[n * 9 / 10] / 1e6, (double)late[n - 1] / 1e6);
    CHECK(late[n / 2] <
          200 * MS); /* 5 ms on a machine of one's own; a starved one would never come */
    return 0;
}
Test(timer, resets_do_not_starve_a_ticker) { cr_assert_eq(run_on(2, storm, NULL), 0); }

/* test_timer.c: the timers of programs: the contract of stop and reset, callbacks that arm and stop
 * timers themselves, timers on stacks, reset from elsewhere (T10). */
#include "tests/unit/test_timer.h"
#include "base/rand.h"
#include "tests/support/test.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <signal.h>
#include <string.h>

TestSuite(timer, .timeout = 60);

static int on_procs[] = {1, 2, 4};

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
    while ((int)hg_timer_stop(&c.a) + (int)hg_timer_stop(&c.b) > 0)
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

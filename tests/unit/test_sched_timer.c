/* test_sched_timer.c: the timer heap against a sorted reference, and sleeping: order, a timer that
 * is due when its proc is busy (T07), one that is set to an earlier time on a sleeping proc
 * (T10). */
#include "runtime/rt.h"
#include "runtime/sched/internal.h"
#include "tests/support/test.h"
#include "tests/unit/test_sync.h"

#include <criterion/criterion.h>

TestSuite(sched_timer, .timeout = 60);

/* ---- the heap alone ---- */

struct timed {
    struct hg_timer_node node;
    int64_t when;
    int64_t fired_at; /* 0: not yet */
    bool armed;
};

static int64_t last_when;
static unsigned fired;

static void fire(struct hg_timer_node *node, int64_t now)
{
    struct timed *t = hg_container_of(node, struct timed, node);
    cr_assert(t->armed && t->when <= now);
    cr_assert(t->when >= last_when, "fired out of order");
    last_when = t->when;
    t->armed = false;
    t->fired_at = now;
    fired++;
}

static void check_heap(const struct hg_timers *h)
{
    for (uint32_t i = 0; i < h->n; i++) {
        cr_assert_eq(hg__timer_at(h, i)->node->index, i);
        cr_assert(i == 0 || hg__timer_at(h, (i - 1) / 4)->when <= hg__timer_at(h, i)->when);
    }
    cr_assert_eq(hg_load_rlx(&h->next), h->n > 0 ? hg__timer_at(h, 0)->when : INT64_MAX);
}

#define NODES 300u

Test(sched_timer, heap_against_reference)
{
    static struct timed timers[NODES];
    static struct hg_proc p;
    static struct hg_sched s;
    static struct hg_world w;
    struct hg_rand r = {test_seed("heap_against_reference")};
    w.meta = hg__meta_open();
    s.world = &w;
    p.sched = &s;
    hg__timers_init(&p.timers);
    int64_t now = 1000;
    unsigned expected = 0;
    for (int step = 0; step < 20000; step++) {
        struct timed *t = &timers[hg_rand_below(&r, NODES)];
        if (hg_rand_below(&r, 3) != 0) {
            bool was = t->armed;
            cr_assert_eq(hg__timer_stop(&t->node), was);
            t->node.fire = fire;
            t->when = now + 1 + hg_rand_below(&r, 500);
            t->armed = true;
            hg__timer_arm(&p, &t->node, t->when);
        } else if (hg_rand_below(&r, 2) != 0) {
            bool was = t->armed;
            t->armed = false;
            cr_assert_eq(hg__timer_stop(&t->node), was);
            cr_assert_eq(hg__timer_stop(&t->node), false);
        } else {
            now += hg_rand_below(&r, 50);
            for (unsigned i = 0; i < NODES; i++)
                expected += timers[i].armed && timers[i].when <= now;
            last_when = 0;
            while (hg__timers_run(&p, now) <= now)
                continue;
            cr_assert_eq(fired, expected);
        }
        check_heap(&p.timers);
    }
    cr_assert(fired > 0);
    hg__meta_close(w.meta);
}

/* ---- sleeping ---- */

static int woken[8];
static _Atomic int nwoken;

static void sleeper(void *arg)
{
    int k = (int)(intptr_t)arg;
    int64_t until = hg_now() + (8 - k) * INT64_C(20000000);
    hg_sleep_until(until);
    CHECK(hg_now() >= until);
    woken[hg_add_acqrel(&nwoken, 1)] = k;
}

static int in_order(void *arg)
{
    (void)arg;
    for (intptr_t k = 0; k < 8; k++)
        go(sleeper, (void *)k);
    hg_sleep(300000000);
    yield_until(&nwoken, 8);
    for (int i = 0; i < 8; i++)
        CHECK(woken[i] == 7 - i);
    return 0;
}
Test(sched_timer, sleepers_wake_in_order) { cr_assert_eq(run_on(1, in_order, NULL), 0); }

static int no_time(void *arg)
{
    int64_t start = hg_now();
    (void)arg;
    for (int i = 0; i < 1000; i++) {
        hg_sleep(0);
        hg_sleep(-5);
        hg_sleep(INT64_MIN);
        hg_sleep_until(0);
        hg_sleep_until(start);
    }
    return 0;
}
Test(sched_timer, sleeping_for_no_time_yields) { cr_assert_eq(run_on(1, no_time, NULL), 0); }

static _Atomic int ran;
static void short_sleep(void *arg)
{
    (void)arg;
    hg_sleep(5000000);
    hg_store_rel(&ran, 1);
}

/* T07 */
static int busy_then_yield(void *arg)
{
    (void)arg;
    go(short_sleep, NULL);
    hg_yield();
    for (int64_t until = hg_in(50000000); hg_now() < until;)
        continue;
    CHECK(hg_load_acq(&ran) == 0);
    hg_yield();
    CHECK(hg_load_acq(&ran) == 1);
    return 0;
}
Test(sched_timer, due_after_a_busy_stretch) { cr_assert_eq(run_on(1, busy_then_yield, NULL), 0); }

/* ---- T10 ---- */

struct reset {
    struct hg_timer_node node;
    _Atomic int64_t at;
};
static void note_time(struct hg_timer_node *node, int64_t now)
{
    (void)now;
    hg_store_rel(&hg_container_of(node, struct reset, node)->at, hg_now());
}

static int reset_on_an_idle_proc(void *arg)
{
    struct hg_sched *s = &hg_current()->sched;
    (void)arg;
    for (int i = 0; i < 100; i++) {
        struct reset r = {.node.fire = note_time};
        /* The proc that is not running this task. */
        struct hg_proc *other = s->procs[hg__proc_of(hg__self()) == s->procs[0]];
        hg__timer_arm(other, &r.node, hg_now() + INT64_C(3600000000000));
        hg_sleep(200000);
        int64_t when = hg_now() + 1000000;
        CHECK(hg__timer_stop(&r.node));
        hg__timer_arm(other, &r.node, when);
        for (int64_t until = hg_now() + INT64_C(2000000000); hg_load_acq(&r.at) == 0;) {
            CHECK(hg_now() < until);
            hg_sleep(100000);
        }
        CHECK(hg_load_acq(&r.at) >= when);
    }
    return 0;
}
Test(sched_timer, set_earlier_on_an_idle_proc)
{
    cr_assert_eq(run_on(2, reset_on_an_idle_proc, NULL), 0);
}

/* ---- late on a busy proc ---- */

static _Atomic int ticking;
static void tick(struct hg_timer_node *node, int64_t now)
{
    (void)now;
    if (hg_load_acq(&ticking) != 0)
        hg__timer_arm(hg__proc_of(hg__self()), node, hg_now() + 15000);
    else
        hg_add_acqrel(&ran, 1);
}

/* The other proc has a timer every 15 us, which it spins for. */
static int late_on_a_busy_proc(void *arg)
{
    enum { N = 101 };
    static int64_t late[N];
    struct hg_sched *s = &hg_current()->sched;
    struct hg_timer_node ticker = {.fire = tick};
    struct hg_proc *here = hg__proc_of(hg__self());
    (void)arg;
    hg_store_rel(&ticking, 1);
    hg__timer_arm(s->procs[here == s->procs[0]], &ticker, hg_now() + 15000);
    for (int i = 0; i < N; i++) {
        struct reset r = {.node.fire = note_time};
        int64_t when = hg_now() + 100000;
        hg__timer_arm(here, &r.node, when);
        while (hg_load_acq(&r.at) == 0) /* no call into the runtime */
            CHECK(hg_now() < when + INT64_C(2000000000));
        int at = i;
        for (; at > 0 && late[at - 1] > hg_load_acq(&r.at) - when; at--)
            late[at] = late[at - 1];
        late[at] = hg_load_acq(&r.at) - when;
    }
    hg_store_rel(&ticking, 0);
    while (hg_load_acq(&ran) == 0)
        hg_sleep(100000);
    fprintf(stderr, "late by %lld ns in the middle\n", (long long)late[N / 2]);
    return 0;
}
Test(sched_timer, a_proc_that_waits_takes_over_late_ones)
{
    cr_assert_eq(run_on(2, late_on_a_busy_proc, NULL), 0);
}

/* ---- many at once ---- */

static void nap(void *arg)
{
    hg_sleep_until((int64_t)(intptr_t)arg);
    hg_add_acqrel(&nwoken, 1);
}

static int all_at_once(void *arg)
{
    int64_t when = hg_in(30000000);
    (void)arg;
    for (int i = 0; i < 3000; i++)
        go(nap, (void *)(intptr_t)when);
    hg_sleep_until(when);
    for (int64_t until = hg_in(INT64_C(5000000000)); hg_load_acq(&nwoken) != 3000; hg_yield())
        CHECK(hg_now() < until);
    return 0;
}
Test(sched_timer, many_due_at_once)
{
    for (int procs = 1; procs <= 4; procs *= 2) {
        hg_store_rlx(&nwoken, 0);
        cr_assert_eq(run_on(procs, all_at_once, NULL), 0);
    }
}

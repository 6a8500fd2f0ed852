/* test_sched_yield.c: yielding in turn, and that tasks which do nothing but yield to each other
 * hold nobody back: timers, the global queue, the collector, what was handed over. */
#include "runtime/rt.h"
#include "runtime/sched/internal.h"
#include "tests/support/test.h"
#include "tests/unit/test_sync.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fenv.h>

TestSuite(sched_yield, .timeout = 60);

#define TURNS 10000

static _Atomic int stop, ended;

/* ---- in turn ---- */

static int turn, tasks; /* on one proc */

static void takes_turns(void *arg)
{
    int mine = (int)(intptr_t)arg;
    for (int i = 0; i < TURNS; i++) {
        CHECK(turn % tasks == mine);
        turn++;
        hg_yield();
    }
    hg_add_acqrel(&ended, 1);
}

/* Close wakes them in the order in which they came to wait. */
static hg_chan *gate;
static void waits_at_gate(void *arg)
{
    CHECK(hg_chan_recv(gate, NULL, HG_FOREVER) == -EPIPE);
    takes_turns(arg);
}

static int in_turn(void *arg)
{
    tasks = *(int *)arg;
    turn = 0;
    hg_store_rel(&ended, 0);
    gate = new_chan(0, 0, HG_LEAF);
    for (int i = 0; i < tasks; i++) {
        go(waits_at_gate, (void *)(intptr_t)i);
        hg_sleep(1000);
    }
    CHECK(hg_chan_close(gate) == 0);
    while (hg_load_acq(&ended) < tasks)
        hg_sleep(1000000); /* it takes no turns itself */
    return 0;
}
Test(sched_yield, each_in_its_turn)
{
    static const int numbers[] = {2, 3, 7};
    for (int i = 0; i < 3; i++)
        cr_assert_eq(run_on(1, in_turn, (void *)&numbers[i]), 0, "%d tasks", numbers[i]);
}

/* ---- what must come between ---- */

static void yields(void *arg)
{
    int *turns = arg;
    while (hg_load_acq(&stop) == 0) {
        ++*turns;
        hg_yield();
    }
    hg_add_acqrel(&ended, 1);
}

static int turns[2];

static void start_yielders(void)
{
    hg_store_rel(&stop, 0);
    hg_store_rel(&ended, 0);
    for (int i = 0; i < 2; i++)
        go(yields, &turns[i]);
}
static int stop_yielders(void)
{
    hg_store_rel(&stop, 1);
    yield_until(&ended, 2);
    return 0;
}

static int sleeps_among_yielders(void *arg)
{
    (void)arg;
    start_yielders();
    for (int i = 0; i < 20; i++) {
        int before = turns[0];
        int64_t until = hg_in(2000000);
        hg_sleep_until(until);
        CHECK(hg_now() >= until);
        CHECK(turns[0] > before);
    }
    return stop_yielders();
}
Test(sched_yield, timers) { cr_assert_eq(run_on(1, sleeps_among_yielders, NULL), 0); }

static _Atomic int posted;
static void note(void *arg) { hg_add_acqrel((_Atomic int *)arg, 1); }
static void *poster(void *rt)
{
    for (int i = 0; i < 100; i++)
        CHECK(hg__task_post(&((hg_runtime *)rt)->sched, note, &posted) == 0);
    return NULL;
}

static int posts_among_yielders(void *arg)
{
    pthread_t th;
    (void)arg;
    start_yielders();
    CHECK(pthread_create(&th, NULL, poster, hg_current()) == 0);
    yield_until(&posted, 100);
    CHECK(pthread_join(th, NULL) == 0);
    return stop_yielders();
}
Test(sched_yield, the_global_queue) { cr_assert_eq(run_on(1, posts_among_yielders, NULL), 0); }

static int collects_among_yielders(void *arg)
{
    (void)arg;
    start_yielders();
    for (int i = 0; i < 5; i++)
        hg_collect(hg_current());
    return stop_yielders();
}
Test(sched_yield, the_collector)
{
    for (int procs = 1; procs <= 2; procs++)
        cr_assert_eq(run_on(procs, collects_among_yielders, NULL), 0, "on %d procs", procs);
}

static void receives(void *c)
{
    int64_t v;
    for (int i = 0; i < 100; i++)
        CHECK(hg_chan_recv(c, &v, HG_FOREVER) == 0);
    hg_add_acqrel(&posted, 1);
}

static int hands_over_and_yields(void *arg)
{
    hg_chan *c = new_chan(sizeof(int64_t), 0, HG_LEAF);
    (void)arg;
    hg_store_rel(&posted, 0);
    start_yielders();
    go(receives, c);
    for (int64_t i = 0; i < 100; i++) {
        hg_yield();
        CHECK(hg_chan_send(c, &i, HG_FOREVER) == 0);
    }
    yield_until(&posted, 1);
    return stop_yielders();
}
Test(sched_yield, what_was_handed_over)
{
    for (int procs = 1; procs <= 2; procs++)
        cr_assert_eq(run_on(procs, hands_over_and_yields, NULL), 0, "on %d procs", procs);
}

/* ---- the modes of the floating point unit are a task's own ---- */

static void rounds(void *mode)
{
    int mine = (int)(intptr_t)mode;
    CHECK(fesetround(mine) == 0);
    for (int i = 0; i < TURNS; i++) {
        hg_yield();
        CHECK(fegetround() == mine);
    }
    hg_add_acqrel(&ended, 1);
}

static int rounding(void *arg)
{
    (void)arg;
    hg_store_rel(&ended, 0);
    go(rounds, (void *)(intptr_t)FE_UPWARD);
    go(rounds, (void *)(intptr_t)FE_TOWARDZERO);
    go(rounds, (void *)(intptr_t)FE_TONEAREST);
    yield_until(&ended, 3);
    CHECK(fegetround() == FE_TONEAREST);
    return 0;
}
Test(sched_yield, rounding_modes_stay)
{
    for (int procs = 1; procs <= 2; procs++)
        cr_assert_eq(run_on(procs, rounding, NULL), 0, "on %d procs", procs);
}

/* test_sched_ready.c: hand-overs: who may count on a task in runnext, and that a task which is
 * handed over never waits long for one that does not park, whatever that one does instead. */
#include "runtime/sched/internal.h"
#include "tests/support/test.h"
#include "tests/unit/test_sync.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(sched_ready, .timeout = 60);

/* ---- what others see, without a running scheduler ---- */

static struct hg_sched sched;
static struct hg_proc owner, thief;
static struct hg_tcb tasks[3];

static void make(int procs)
{
    sched = (struct hg_sched){.nprocs = procs};
    memset(&owner, 0, sizeof owner);
    memset(&thief, 0, sizeof thief);
    owner.sched = thief.sched = &sched;
}

/* As hg__hand_over leaves it. */
static void put_untold(struct hg_tcb *t)
{
    hg_store_rlx(&owner.untold, true);
    hg_store_rel(&owner.runnext, t);
}

Test(sched_ready, what_is_untold_is_not_counted_on)
{
    bool inherit;
    make(2);
    put_untold(&tasks[0]);
    cr_assert_not(hg__runq_empty(&owner));
    cr_assert_not(hg__runq_offers(&owner));
    cr_assert_eq(hg__runnext_lingers(&owner), &tasks[0]);
    cr_assert_eq(hg__runq_get(&owner, &inherit), &tasks[0]);
    cr_assert(inherit);
    cr_assert_not(hg_load_rlx(&owner.untold));
    cr_assert_null(hg__runnext_lingers(&owner));
    hg__runq_put(&owner, &tasks[1], true);
    cr_assert(hg__runq_offers(&owner), "told");
}

Test(sched_ready, a_second_one_makes_both_count)
{
    make(2);
    put_untold(&tasks[0]);
    hg__runq_put(&owner, &tasks[1], true);
    cr_assert(hg__runq_offers(&owner));
    cr_assert_eq(hg__runq_steal(&thief, &owner, true), &tasks[0]);
    cr_assert(hg__runq_offers(&owner), "the one in runnext");
    cr_assert_eq(hg__runq_steal(&thief, &owner, true), &tasks[1]);
    cr_assert_not(hg__runq_offers(&owner));
}

Test(sched_ready, a_late_hand_over_is_learned_and_forgotten)
{
    struct hg_tcb *by = &tasks[2];
    make(2);
    by->late = HG_HAND_OVER_UNKNOWN;
    put_untold(&tasks[0]);
    cr_assert_eq(hg__runq_steal(&thief, &owner, true), &tasks[0]);
    hg__hand_over_judge(&owner, by);
    unsigned first = by->eager;
    cr_assert_gt(first, 0);
    cr_assert_not(hg_load_rlx(&owner.untold));
    /* Its likes begin as it goes on. */
    hg__hand_over_newborn(&owner, &tasks[1]);
    cr_assert_gt(tasks[1].eager, 0);
    hg__hand_over_newborn(&thief, &tasks[0]);
    cr_assert_eq(tasks[0].eager, 0, "born elsewhere");
    /* Late again, by the clock: told of more often. In time: tried again, as at first. */
    put_untold(&tasks[0]);
    owner.handed_at = hg__os_now() - 1000000;
    hg__hand_over_judge(&owner, by);
    cr_assert_gt(by->eager, first);
    by->eager = 0;
    for (int i = 0; i < 2; i++) {
        owner.handed_at = hg__os_now() + 1000000000;
        hg__hand_over_judge(&owner, by);
    }
    cr_assert_eq(by->late, 0);
    cr_assert_eq(by->eager, 0);
    cr_assert_eq(hg_load_rlx(&owner.runnext), &tasks[0], "judging takes nothing away");
}

/* ---- with procs ---- */

static hg_chan *requests;
static _Atomic int64_t served;

static void server(void *arg)
{
    int64_t v;
    (void)arg;
    while (hg_chan_recv(requests, &v, HG_FOREVER) == 0)
        hg_store_rel(&served, v);
}

static void compute_until_served(int64_t v)
{
    while (hg_load_acq(&served) != v)
        hg_cpu_relax(); /* no call into the runtime */
}

/* The server waits again, so that the next send is a hand-over. */
static void server_waits(void) { hg_sleep(20000); }

static void start_server(void)
{
    requests = new_chan(sizeof(int64_t), 0, HG_LEAF);
    hg_store_rel(&served, 0);
    go(server, NULL);
}

/* Sends, and then computes until somebody else has run the receiver. */
static int sender_runs_on(void *arg)
{
    int rounds = *(int *)arg, told = 0;
    int64_t worst_untold = 0;
    start_server();
    for (int64_t i = 1; i <= rounds; i++) {
        server_waits();
        int64_t t = hg_now();
        CHECK(hg_chan_send(requests, &i, HG_FOREVER) == 0);
        bool eager = hg__task_self()->eager > 0;
        compute_until_served(i);
        t = hg_now() - t;
        told += eager;
        worst_untold = !eager && t > worst_untold ? t : worst_untold;
    }
    CHECK(hg_chan_close(requests) == 0);
    fprintf(stderr, "%d of %d rounds told, the worst of the others took %.3f ms\n", told, rounds,
            (double)worst_untold / 1e6);
    /* All but the tries; where the machine is busy a try may look good now and then. */
    CHECK(told > rounds / 2);
    return 0;
}
Test(sched_ready, a_sender_that_runs_on_delays_nobody_for_long)
{
    int rounds = (int)test_scaled(400);
    for (int procs = 2; procs <= 4; procs *= 2)
        cr_assert_eq(run_on(procs, sender_runs_on, &rounds), 0, "on %d procs", procs);
}

static void one_request(void *arg)
{
    int64_t v = (int64_t)(intptr_t)arg;
    CHECK(hg_chan_send(requests, &v, HG_FOREVER) == 0);
    compute_until_served(v);
}

/* Each sender lives for one hand-over. */
static int senders_run_on(void *arg)
{
    int rounds = *(int *)arg;
    start_server();
    for (int64_t i = 1; i <= rounds; i++) {
        server_waits();
        go(one_request, (void *)(intptr_t)i);
        while (hg_load_acq(&served) != i)
            hg_sleep(10000);
    }
    return hg_chan_close(requests);
}
Test(sched_ready, short_lived_senders_too)
{
    int rounds = (int)test_scaled(400);
    cr_assert_eq(run_on(3, senders_run_on, &rounds), 0);
}

/* Instead of parking the sender yields, or blocks its thread, or spawns a task and runs on. */
static void idle_task(void *arg) { (void)arg; }

static int sender_does_something_else(void *arg)
{
    int rounds = *(int *)arg;
    start_server();
    for (int64_t i = 1; i <= rounds; i++) {
        server_waits();
        hg__task_self()->eager = 0;
        CHECK(hg_chan_send(requests, &i, HG_FOREVER) == 0);
        switch (i % 3) {
        case 0:
            while (hg_load_acq(&served) != i)
                hg_yield();
            break;
        case 1:
            hg_block_enter();
            compute_until_served(i);
            hg_block_leave();
            break;
        default:
            go(idle_task, NULL);
            compute_until_served(i);
        }
    }
    return hg_chan_close(requests);
}
Test(sched_ready, whatever_the_sender_does_instead)
{
    int rounds = (int)test_scaled(300);
    for (int procs = 1; procs <= 4; procs *= 2) {
        int n =
            procs == 1 ? 1 : rounds; /* 1: round 1 blocks, where the monitor hands the proc on */
        cr_assert_eq(run_on(procs, sender_does_something_else, &n), 0, "on %d procs", procs);
    }
}

/* ---- hand-overs that are in time ---- */

static hg_chan *answers;

static void echo(void *arg)
{
    int64_t v;
    (void)arg;
    while (hg_chan_recv(requests, &v, HG_FOREVER) == 0)
        CHECK(hg_chan_send(answers, &v, HG_FOREVER) == 0);
}

static int to_and_fro(void *arg)
{
    int rounds = *(int *)arg, told = 0;
    requests = new_chan(sizeof(int64_t), 0, HG_LEAF);
    answers = new_chan(sizeof(int64_t), 0, HG_LEAF);
    go(echo, NULL);
    for (int64_t i = 1; i <= rounds; i++) {
        int64_t v = 0;
        CHECK(hg_chan_send(requests, &i, HG_FOREVER) == 0);
        told += hg__task_self()->eager > 0;
        CHECK(hg_chan_recv(answers, &v, HG_FOREVER) == 0);
        CHECK(v == i);
    }
    CHECK(hg_chan_close(requests) == 0);
    /* A thread that the system took its processor from looks late now and then. */
    CHECK(told < rounds / 2);
    return 0;
}
Test(sched_ready, who_parks_at_once_tells_nobody)
{
    int rounds = (int)test_scaled(100000);
    for (int procs = 2; procs <= 4; procs *= 2)
        cr_assert_eq(run_on(procs, to_and_fro, &rounds), 0, "on %d procs", procs);
}

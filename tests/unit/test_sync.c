/* test_sync.c: mutex and wait group: exclusion, order, handing over, deadlines, misuse. */
#include "tests/unit/test_sync.h"
#include "base/atomic.h"
#include "tests/support/test.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <signal.h>
#include <string.h>

TestSuite(mutex, .timeout = 60);
TestSuite(waitgroup, .timeout = 60);

static int on_procs[] = {1, 2, 4};

/* ---- mutex ---- */

struct counter {
    hg_mutex m;
    hg_waitgroup g;
    int rounds;
    int64_t n;  /* m */
    int inside; /* m */
    _Atomic int timed_out;
};
static void count_up(void *arg)
{
    struct counter *c = arg;
    for (int i = 0; i < c->rounds; i++) {
        hg_mutex_lock(&c->m);
        CHECK(c->inside++ == 0);
        c->n++;
        if (i % 16 == 0)
            hg_yield();
        CHECK(--c->inside == 0);
        hg_mutex_unlock(&c->m);
    }
    hg_waitgroup_done(&c->g);
}
static int excludes(void *arg)
{
    enum { TASKS = 20 };
    struct counter c = {.rounds = (int)test_scaled(2000)};
    (void)arg;
    hg_waitgroup_add(&c.g, TASKS);
    for (int i = 0; i < TASKS; i++)
        go(count_up, &c);
    CHECK(hg_waitgroup_wait(&c.g, HG_FOREVER) == 0);
    CHECK(c.n == (int64_t)TASKS * c.rounds);
    CHECK(c.m.w[0] == 0 && c.m.w[1] == 0);
    return 0;
}
ParameterizedTestParameters(mutex, excludes) { return cr_make_param_array(int, on_procs, 3); }
ParameterizedTest(int *procs, mutex, excludes) { cr_assert_eq(run_on(*procs, excludes, NULL), 0); }

static int mutex_deadlines(void *arg)
{
    hg_mutex m = {{0}};
    (void)arg;
    CHECK(hg_mutex_lock_until(&m, HG_NOW) == 0);
    CHECK(hg_mutex_lock_until(&m, HG_NOW) == -EAGAIN);
    int64_t until = hg_in(2000000);
    CHECK(hg_mutex_lock_until(&m, until) == -ETIMEDOUT);
    CHECK(hg_now() >= until);
    hg_mutex_unlock(&m);
    /* The waiter that timed out has left nothing behind. */
    CHECK(m.w[0] == 0 && m.w[1] == 0);
    CHECK(hg_mutex_lock_until(&m, hg_in(1)) == 0);
    hg_mutex_unlock(&m);
    return 0;
}
Test(mutex, deadlines) { cr_assert_eq(run_on(1, mutex_deadlines, NULL), 0); }

/* Uncontended, a mutex works anywhere; waiting needs a task. */
Test(mutex, outside_of_tasks)
{
    hg_mutex m = {{0}};
    hg_mutex_lock(&m);
    cr_assert_eq(hg_mutex_lock_until(&m, HG_NOW), -EAGAIN);
    cr_assert_eq(hg_mutex_lock_until(&m, HG_FOREVER), -EPERM);
    hg_mutex_unlock(&m);
    cr_assert_eq(hg_mutex_lock_until(&m, HG_FOREVER), 0);
}

/* A task that takes the mutex again at once, always before the other one runs, hands it over in the
 * end. */
struct greedy {
    hg_mutex m;
    _Atomic int waiting, got;
};
static void wait_for_turn(void *arg)
{
    struct greedy *g = arg;
    hg_add_acqrel(&g->waiting, 1);
    hg_mutex_lock(&g->m);
    hg_add_acqrel(&g->got, 1);
    hg_mutex_unlock(&g->m);
}
static int hands_over(void *arg)
{
    enum { TASKS = 5 };
    struct greedy g = {.waiting = 0};
    (void)arg;
    hg_mutex_lock(&g.m);
    for (int i = 0; i < TASKS; i++)
        go(wait_for_turn, &g);
    yield_until(&g.waiting, TASKS);
    int64_t since = hg_now();
    while (hg_load_acq(&g.got) < TASKS) {
        hg_yield(); /* everyone who is awake finds it held */
        hg_mutex_unlock(&g.m);
        hg_mutex_lock(&g.m);
        CHECK(hg_now() - since < INT64_C(5000000000));
    }
    hg_mutex_unlock(&g.m);
    CHECK(g.m.w[0] == 0);
    return 0;
}
ParameterizedTestParameters(mutex, hands_over) { return cr_make_param_array(int, on_procs, 3); }
ParameterizedTest(int *procs, mutex, hands_over)
{
    cr_assert_eq(run_on(*procs, hands_over, NULL), 0);
}

/* Short deadlines against holders: nobody is lost, and nobody is let in twice. */
static void try_often(void *arg)
{
    struct counter *c = arg;
    for (int i = 0; i < c->rounds; i++) {
        int r = hg_mutex_lock_until(&c->m, i % 3 == 0 ? HG_FOREVER : hg_in(i % 7 * 1000));
        if (r != 0) {
            CHECK(r == -ETIMEDOUT);
            hg_add_acqrel(&c->timed_out, 1);
            hg_yield();
            continue;
        }
        CHECK(c->inside++ == 0);
        c->n++;
        if (i % 4 == 0)
            hg_yield();
        CHECK(--c->inside == 0);
        hg_mutex_unlock(&c->m);
    }
    hg_waitgroup_done(&c->g);
}
static int deadlines_against_holders(void *arg)
{
    enum { TASKS = 10 };
    struct counter c = {.rounds = (int)test_scaled(1000)};
    (void)arg;
    hg_waitgroup_add(&c.g, TASKS);
    for (int i = 0; i < TASKS; i++)
        go(try_often, &c);
    CHECK(hg_waitgroup_wait(&c.g, HG_FOREVER) == 0);
    CHECK(c.n + hg_load_acq(&c.timed_out) == (int64_t)TASKS * c.rounds);
    CHECK(c.m.w[0] == 0 && c.m.w[1] == 0);
    return 0;
}
ParameterizedTestParameters(mutex, deadlines_against_holders)
{
    return cr_make_param_array(int, on_procs, 3);
}
ParameterizedTest(int *procs, mutex, deadlines_against_holders)
{
    cr_assert_eq(run_on(*procs, deadlines_against_holders, NULL), 0);
}

static void unlock_free(void *arg)
{
    hg_mutex m = {{0}};
    (void)arg;
    hg_mutex_unlock(&m);
}
Test(mutex, unlock_of_a_free_one_is_fatal)
{
    struct test_child child;
    test_child_run(&child, 10, unlock_free, NULL);
    cr_assert_eq(child.signal, SIGABRT);
    cr_assert(strstr(child.text, "is not locked") != NULL, "%s", child.text);
}

/* ---- wait group ---- */

static void one_done(void *arg) { hg_waitgroup_done(arg); }
static int again_and_again(void *arg)
{
    hg_waitgroup g = {{0}};
    (void)arg;
    CHECK(hg_waitgroup_wait(&g, HG_NOW) == 0);
    for (int round = 0; round < 300; round++) {
        int n = round % 10 + 1;
        hg_waitgroup_add(&g, n);
        CHECK(hg_waitgroup_wait(&g, HG_NOW) == -EAGAIN);
        for (int i = 0; i < n; i++)
            go(one_done, &g);
        CHECK(hg_waitgroup_wait(&g, HG_FOREVER) == 0);
        CHECK(g.w[0] == 0 && g.w[1] == 0);
    }
    hg_waitgroup_add(&g, 3);
    CHECK(hg_waitgroup_wait(&g, hg_in(1000000)) == -ETIMEDOUT);
    hg_waitgroup_add(&g, -3);
    CHECK(hg_waitgroup_wait(&g, hg_in(1000000)) == 0);
    CHECK(g.w[0] == 0);
    return 0;
}
ParameterizedTestParameters(waitgroup, again_and_again)
{
    return cr_make_param_array(int, on_procs, 3);
}
ParameterizedTest(int *procs, waitgroup, again_and_again)
{
    cr_assert_eq(run_on(*procs, again_and_again, NULL), 0);
}

struct crowd {
    hg_waitgroup gate, left;
    _Atomic int waiting, open;
};
static void wait_at_gate(void *arg)
{
    struct crowd *c = arg;
    hg_add_acqrel(&c->waiting, 1);
    CHECK(hg_waitgroup_wait(&c->gate, HG_FOREVER) == 0);
    CHECK(hg_load_acq(&c->open) == 1);
    hg_waitgroup_done(&c->left);
}
static int many_wait(void *arg)
{
    enum { TASKS = 200 };
    struct crowd c = {.waiting = 0};
    (void)arg;
    hg_waitgroup_add(&c.gate, 1);
    hg_waitgroup_add(&c.left, TASKS);
    for (int i = 0; i < TASKS; i++)
        go(wait_at_gate, &c);
    yield_until(&c.waiting, TASKS);
    hg_store_rel(&c.open, 1);
    hg_waitgroup_done(&c.gate);
    CHECK(hg_waitgroup_wait(&c.left, HG_FOREVER) == 0);
    return 0;
}
ParameterizedTestParameters(waitgroup, many_wait) { return cr_make_param_array(int, on_procs, 3); }
ParameterizedTest(int *procs, waitgroup, many_wait)
{
    cr_assert_eq(run_on(*procs, many_wait, NULL), 0);
}

/* The group lies in the frame of the task that waits and is gone at once: the last done must have
 * let go of it. */
static __attribute__((noinline)) void short_life(int n, int64_t deadline)
{
    hg_waitgroup g = {{0}};
    hg_waitgroup_add(&g, n);
    for (int i = 0; i < n; i++)
        go(one_done, &g);
    while (hg_waitgroup_wait(&g, deadline) != 0)
        deadline = hg_in(1000);
    memset(&g, 0xff, sizeof g);
    __asm__ volatile("" : : "r"(&g) : "memory");
}
static int short_lives(void *arg)
{
    (void)arg;
    for (int i = 0; i < 3000; i++)
        short_life(i % 4 + 1, i % 2 == 0 ? HG_FOREVER : hg_in(i % 50 * 100));
    return 0;
}
ParameterizedTestParameters(waitgroup, short_lives)
{
    return cr_make_param_array(int, on_procs, 3);
}
ParameterizedTest(int *procs, waitgroup, short_lives)
{
    cr_assert_eq(run_on(*procs, short_lives, NULL), 0);
}

Test(waitgroup, outside_of_tasks)
{
    hg_waitgroup g = {{0}};
    hg_waitgroup_add(&g, 2);
    cr_assert_eq(hg_waitgroup_wait(&g, HG_NOW), -EAGAIN);
    cr_assert_eq(hg_waitgroup_wait(&g, HG_FOREVER), -EPERM);
    hg_waitgroup_done(&g);
    hg_waitgroup_done(&g);
    cr_assert_eq(hg_waitgroup_wait(&g, HG_FOREVER), 0);
}

static void below_zero(void *arg)
{
    hg_waitgroup g = {{0}};
    (void)arg;
    hg_waitgroup_add(&g, 1);
    hg_waitgroup_add(&g, -2);
}
Test(waitgroup, below_zero_is_fatal)
{
    struct test_child child;
    test_child_run(&child, 10, below_zero, NULL);
    cr_assert_eq(child.signal, SIGABRT);
    cr_assert(strstr(child.text, "below 0") != NULL, "%s", child.text);
}

/* test_blocking_end.c: programs that end and runtimes that are closed while blocking calls run:
 * they wait for none, what a call uses stays until it has ended, and then nothing is left. */
#include "tests/support/test.h"
#include "tests/unit/test_sync.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

TestSuite(blocking_end, .timeout = 60);

#define MS  INT64_C(1000000)
#define SEC (1000 * MS)

static int run_with(int procs, int threads, int (*first)(void *), void *arg)
{
    hg_options o;
    hg_options_init(&o, sizeof o);
    o.procs = procs;
    o.blocking_threads = threads;
    return hg_run(first, arg, &o);
}

static int count_threads(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/task");
    cr_assert_not_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

/* Outside of tasks: until *value is `wanted`, for at most ten seconds. */
static bool comes_to_be(_Atomic int *value, int wanted)
{
    for (int64_t end = hg_in(10 * SEC); hg_now() < end; usleep(500))
        if (hg_load_acq(value) == wanted)
            return true;
    return false;
}
static bool threads_come_to_be(int wanted)
{
    for (int64_t end = hg_in(10 * SEC); hg_now() < end; usleep(500))
        if (count_threads() == wanted)
            return true;
    return false;
}

static _Atomic int inside, open_gate, ended, drops;

struct given {
    char *made;
    int value;
};
static int wait_at_gate(void *arg)
{
    struct given *g = arg;
    hg_add_acqrel(&inside, 1);
    while (hg_load_acq(&open_gate) == 0)
        usleep(500);
    g->made = strdup("made");
    g->value++;
    hg_add_acqrel(&ended, 1);
    return 0;
}
static void free_made(void *arg)
{
    struct given *g = arg;
    free(g->made);
    memset(g, 0xee, sizeof *g);
    hg_add_acqrel(&drops, 1);
}

/* ---- a program ends ---- */

static char *made_on_stack;
static int keep_made(void *arg)
{
    int r = wait_at_gate(arg);
    made_on_stack = ((struct given *)arg)->made;
    return r;
}
static void call_on_stack(void *arg)
{
    struct given g = {NULL, 1};
    (void)arg;
    (void)!hg_blocking(keep_made, &g);
}
static void call_with_copy(void *arg)
{
    struct given g = {NULL, 1};
    (void)arg;
    (void)!hg_blocking_copy(wait_at_gate, &g, sizeof g, free_made, HG_FOREVER, NULL);
}
static int leave_when_inside(void *arg)
{
    int n = *(int *)arg;
    while (hg_load_acq(&inside) < n)
        hg_sleep(MS);
    return 17;
}

static int start_on_stack(void *arg)
{
    int one = 1;
    (void)arg;
    go(call_on_stack, NULL);
    go(call_on_stack, NULL); /* stays in the queue */
    return leave_when_inside(&one);
}
Test(blocking_end, a_program_ends_with_a_call_on_a_stack)
{
    int before = count_threads();
    int64_t start = hg_now();
    cr_assert_eq(run_with(2, 1, start_on_stack, NULL), 17);
    cr_assert_lt(hg_now() - start, 5 * SEC);
    cr_assert_eq(hg_load_acq(&ended), 0);
    hg_store_rel(&open_gate, 1);
    cr_assert(threads_come_to_be(before));
    cr_assert_eq(hg_load_acq(&ended), 1, "the queued one began after the end");
    free(made_on_stack);
}

static int start_copies(void *arg)
{
    int two = 2;
    (void)arg;
    for (int i = 0; i < 5; i++)
        go(call_with_copy, NULL);
    hg_yield();
    return leave_when_inside(&two);
}
Test(blocking_end, a_program_ends_with_copies_that_run_and_wait)
{
    int before = count_threads();
    int64_t start = hg_now();
    cr_assert_eq(run_with(1, 2, start_copies, NULL), 17);
    cr_assert_lt(hg_now() - start, 5 * SEC);
    cr_assert_eq(hg_load_acq(&ended), 0);
    cr_assert_eq(hg_load_acq(&drops), 3, "those in the queue are dropped at the end");
    cr_assert_geq(count_threads(), before + 2);
    hg_store_rel(&open_gate, 1);
    cr_assert(comes_to_be(&drops, 5));
    cr_assert(threads_come_to_be(before));
    cr_assert_eq(hg_load_acq(&ended), 2);
}

static int use_and_leave(void *arg)
{
    struct given g = {NULL, 1};
    (void)arg;
    hg_store_rel(&open_gate, 1);
    CHECK(hg_blocking(wait_at_gate, &g) == 0);
    free(g.made);
    return 17;
}
Test(blocking_end, idle_threads_end_with_the_program)
{
    int before = count_threads();
    for (int i = 0; i < 20; i++)
        cr_assert_eq(run_with(2, 4, use_and_leave, NULL), 17);
    cr_assert_eq(count_threads(), before);
}

/* Calls come and go while the program ends, and the procs with it. */
static int nap(void *arg)
{
    usleep(*(const useconds_t *)arg);
    return 0;
}
static void nothing_to_drop(void *arg) { hg_add_acqrel(&drops, arg != NULL); }
static void nap_for_ever(void *arg)
{
    useconds_t us = (useconds_t)(intptr_t)arg;
    for (unsigned i = 0;; i++) {
        int64_t deadline = hg_in(i % 3 * 20000);
        if (i % 2 == 0)
            (void)!hg_blocking(nap, &us);
        else
            (void)!hg_blocking_copy(nap, &us, sizeof us, nothing_to_drop, deadline, NULL);
    }
}
static int leave_napping(void *arg)
{
    int64_t after = *(int64_t *)arg;
    for (intptr_t i = 0; i < 12; i++)
        go(nap_for_ever, (void *)(20 + i * 15));
    hg_sleep(after);
    return 17;
}
Test(blocking_end, programs_end_while_calls_come_and_go)
{
    int before = count_threads();
    for (int i = 0; i < 40; i++) {
        int64_t after = MS / 2 + i * 37000;
        cr_assert_eq(run_with(1 + i % 3, 1 + i % 6, leave_napping, &after), 17);
    }
    cr_assert(threads_come_to_be(before));
}

/* ---- a runtime is closed ---- */

static void give_up(void *arg)
{
    struct given g = {NULL, 1};
    (void)arg;
    CHECK(hg_blocking_copy(wait_at_gate, &g, sizeof g, free_made, hg_in(5 * MS), NULL) ==
          -ETIMEDOUT);
    CHECK(g.made == NULL && g.value == 1);
}
Test(blocking_end, close_does_not_wait_for_calls_that_were_given_up)
{
    int before = count_threads();
    hg_options o;
    hg_options_init(&o, sizeof o);
    o.procs = 2;
    o.blocking_threads = 2;
    for (int round = 0; round < 3; round++) {
        hg_runtime *rt;
        int closed;
        hg_store_rel(&open_gate, 0);
        hg_store_rel(&ended, 0);
        hg_store_rel(&drops, 0);
        hg_store_rel(&inside, 0);
        cr_assert_eq(hg_runtime_open(&o, &rt), 0);
        for (int i = 0; i < 4; i++)
            cr_assert_eq(hg_post(rt, give_up, NULL), 0);
        while ((closed = hg_runtime_close(rt)) == -EBUSY)
            usleep(1000);
        cr_assert_eq(closed, 0);
        cr_assert_eq(hg_load_acq(&ended), 0);
        int late = hg_load_acq(&inside);
        cr_assert_eq(late, 2);
        cr_assert_eq(hg_load_acq(&drops), 2);
        cr_assert_eq(count_threads(), before + late);
        hg_store_rel(&open_gate, 1);
        cr_assert(comes_to_be(&drops, 4));
        cr_assert(threads_come_to_be(before));
        cr_assert_eq(hg_load_acq(&ended), 2);
    }
}

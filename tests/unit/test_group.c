/* test_group.c: groups: places, the first error, cancelling, nesting, waiting; and the end of tasks
 * from any depth. */
#include "tests/support/test.h"
#include "tests/unit/test_sync.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define MS(n)   ((int64_t)(n)*1000000)
#define SECS(n) MS((n)*1000)

/* ---- limit ---- */

struct job {
    _Atomic int *now, *most, *done;
    int n;
};
static int job(void *arg)
{
    struct job j = *(struct job *)arg;
    int now = hg_add_acqrel(j.now, 1) + 1, most = hg_load_rlx(j.most);
    while (now > most && !hg_cas_acqrel(j.most, &most, now))
        ;
    if (j.n % 3 == 0)
        hg_sleep(1000);
    else
        hg_yield();
    hg_sub_acqrel(j.now, 1);
    hg_add_acqrel(j.done, 1);
    return 0;
}
static int limited(void *arg)
{
    _Atomic int now = 0, most = 0, done = 0;
    int n = (int)test_scaled(5000), limit = *(int *)arg;
    hg_group g;
    hg_group_init(&g, limit);
    CHECK(hg_group_wait(&g, HG_NOW) == 0); /* none lives */
    for (int i = 0; i < n; i++) {
        struct job j = {&now, &most, &done, i};
        CHECK(hg_group_go(&g, job, &j, sizeof j) == 0);
        CHECK(limit == 0 || hg_load_rlx(&now) <= limit);
    }
    CHECK(hg_group_wait(&g, HG_FOREVER) == 0);
    CHECK(hg_load_acq(&done) == n);
    CHECK(limit == 0 || hg_load_acq(&most) <= limit);
    CHECK(limit != 3 || hg_load_acq(&most) == 3);
    return 0;
}
Test(group, no_more_than_the_limit_live)
{
    static const int limits[] = {1, 3, 100, 0};
    for (int procs = 1; procs <= 3; procs++)
        for (int i = 0; i < 4; i++)
            cr_assert_eq(run_on(procs, limited, (void *)(uintptr_t)&limits[i]), 0);
}

/* ---- errors ---- */

static int wait_to_be_canceled(void *arg)
{
    int r = hg_chan_recv(NULL, NULL, HG_FOREVER);
    CHECK(r == -ECANCELED);
    if (arg != NULL)
        hg_add_acqrel((_Atomic int *)arg, 1);
    return r;
}
static int fail_with(void *arg) { return *(int *)arg; }
static int first_error(void *arg)
{
    _Atomic int canceled = 0;
    hg_group g;
    int io = -EIO, proto = -EPROTO;
    (void)arg;
    hg_group_init(&g, 0);
    for (int i = 0; i < 200; i++)
        CHECK(hg_group_go(&g, wait_to_be_canceled, &canceled, 0) == 0);
    CHECK(hg_group_wait(&g, HG_NOW) == -EAGAIN);
    CHECK(hg_group_wait(&g, hg_in(MS(1))) == -ETIMEDOUT);
    CHECK(hg_group_go(&g, fail_with, &io, sizeof io) == 0);
    CHECK(hg_group_wait(&g, HG_FOREVER) == -EIO);
    CHECK(hg_load_acq(&canceled) == 200);
    CHECK(hg_group_go(&g, fail_with, &proto, sizeof proto) == -ECANCELED);
    CHECK(hg_group_wait(&g, HG_FOREVER) == -EIO); /* it stays */
    hg_group_init(&g, 0);
    CHECK(hg_group_go(&g, fail_with, &proto, sizeof proto) == 0);
    CHECK(hg_group_wait(&g, HG_FOREVER) == -EPROTO);
    return 0;
}
Test(group, the_first_error_cancels_the_others)
{
    for (int procs = 1; procs <= 2; procs++)
        cr_assert_eq(run_on(procs, first_error, NULL), 0);
}

static int bad_calls(void *arg)
{
    static char big[1025];
    hg_group g;
    (void)arg;
    hg_group_init(&g, -3);
    CHECK(hg_group_go(&g, fail_with, big, sizeof big) == -EINVAL);
    CHECK(hg_group_wait(&g, HG_NOW) == 0); /* no place was lost */
    return 0;
}
Test(group, misuse)
{
    hg_group g;
    hg_group_init(&g, 1);
    int v = 0;
    cr_assert_eq(hg_group_go(&g, fail_with, &v, sizeof v), -EPERM);
    cr_assert_eq(hg_group_wait(&g, HG_FOREVER), 0);
    hg_group_cancel(&g);
    cr_assert_eq(run_on(1, bad_calls, NULL), 0);
}

/* ---- cancelling ---- */

static void *cancel_group(void *g)
{
    hg_group_cancel(g);
    return NULL;
}
static int go_into(void *arg) { return hg_group_go(arg, wait_to_be_canceled, NULL, 0); }
static int canceled_from_outside(void *arg)
{
    int n = (int)test_scaled(1000);
    hg_group g;
    (void)arg;
    hg_group_init(&g, n);
    for (int i = 0; i < n; i++)
        CHECK(hg_group_go(&g, wait_to_be_canceled, NULL, 0) == 0);
    hg_task *h; /* waits for a place */
    CHECK(hg_go_with(NULL, go_into, &g, &h) == 0);
    CHECK(hg_join(h, hg_in(MS(2)), NULL) == -ETIMEDOUT);
    pthread_t t;
    CHECK(pthread_create(&t, NULL, cancel_group, &g) == 0);
    int r;
    CHECK(hg_join(h, HG_FOREVER, &r) == 0 && r == -ECANCELED);
    CHECK(hg_group_wait(&g, HG_FOREVER) == -ECANCELED);
    CHECK(hg_group_go(&g, fail_with, &n, sizeof n) == -ECANCELED);
    pthread_join(t, NULL);
    return 0;
}
Test(group, cancelled_by_any_thread)
{
    hg_options o;
    hg_options_init(&o, sizeof o);
    for (o.procs = 1; o.procs <= 2; o.procs++)
        cr_assert_eq(run_hosted(&o, canceled_from_outside, NULL), 0);
}

/* A tree: each task starts a group of `width` more and waits for it. */
struct tree {
    int depth, width;
    _Atomic int *waiting, *ended;
};
static int grow(void *arg)
{
    struct tree x = *(struct tree *)arg, child = x;
    hg_group g;
    hg_add_acqrel(x.waiting, 1);
    int r;
    if (--child.depth == 0) {
        r = hg_chan_recv(NULL, NULL, HG_FOREVER);
    } else {
        hg_group_init(&g, 0);
        r = 0;
        for (int i = 0; i < x.width && r == 0; i++)
            r = hg_group_go(&g, grow, &child, sizeof child);
        int w = hg_group_wait(&g, HG_FOREVER);
        r = r != 0 ? r : w;
    }
    CHECK(r == -ECANCELED);
    hg_add_acqrel(x.ended, 1);
    return r;
}
static int tree_size(int depth, int width)
{
    return depth == 0 ? 0 : 1 + width * tree_size(depth - 1, width);
}
static int nested(void *arg)
{
    for (int round = 0; round < 60; round++) {
        _Atomic int waiting = 0, ended = 0;
        struct tree x = {5, 3, &waiting, &ended};
        int size = tree_size(5, 3), until = round < 40 ? size * (round % 10) / 10 : size;
        hg_group g;
        (void)arg;
        hg_group_init(&g, 0);
        CHECK(hg_group_go(&g, grow, &x, sizeof x) == 0);
        while (hg_load_acq(&waiting) < until) /* in most rounds it is still growing */
            hg_yield();
        hg_group_cancel(&g);
        CHECK(hg_group_wait(&g, hg_in(SECS(60))) == -ECANCELED);
        CHECK(hg_load_acq(&ended) == hg_load_acq(&waiting));
    }
    return 0;
}
Test(group, cancelling_reaches_the_groups_of_members)
{
    for (int procs = 1; procs <= 3; procs++)
        cr_assert_eq(run_on(procs, nested, NULL), 0);
}

/* The owner is busy elsewhere: its group is cancelled all the same, unless it is shielded. */
struct owner {
    bool shield;
    _Atomic int *canceled, *started, *stop;
};
static int own_and_compute(void *arg)
{
    struct owner o = *(struct owner *)arg;
    hg_group g;
    hg_group_init(&g, 0);
    hg_shield(o.shield);
    CHECK(hg_group_go(&g, wait_to_be_canceled, o.canceled, 0) == 0);
    hg_store_rel(o.started, 1);
    while (hg_load_acq(o.stop) == 0)
        hg_yield();
    hg_shield(false);
    CHECK(hg_group_wait(&g, HG_FOREVER) == -ECANCELED);
    CHECK(hg_load_acq(o.canceled) == 1);
    return 0;
}
static int busy_owner(void *arg)
{
    (void)arg;
    for (int shield = 0; shield < 2; shield++) {
        _Atomic int canceled = 0, started = 0, stop = 0;
        struct owner o = {shield != 0, &canceled, &started, &stop};
        hg_task_attr a = {.size = sizeof a, .copy_bytes = sizeof o};
        hg_task *h;
        CHECK(hg_go_with(&a, own_and_compute, &o, &h) == 0);
        yield_until(&started, 1);
        hg_cancel(h);
        if (!o.shield)
            yield_until(&canceled, 1);
        else
            for (int i = 0; i < 1000; i++)
                hg_yield();
        CHECK(hg_load_acq(&canceled) == !o.shield);
        hg_store_rel(&stop, 1);
        CHECK(hg_join(h, HG_FOREVER, NULL) == 0);
    }
    return 0;
}
Test(group, cancelling_an_owner_that_computes) { cr_assert_eq(run_on(2, busy_owner, NULL), 0); }

/* The wait returns only when all have ended, whatever ends it; members use its frame until then. */
static int slow_to_end(void *arg)
{
    _Atomic int *left = arg;
    CHECK(hg_chan_recv(NULL, NULL, HG_FOREVER) != 0);
    hg_shield(true);
    hg_sleep(MS(3));
    hg_sub_acqrel(left, 1);
    return 0;
}
static int wait_for_slow(void *arg)
{
    _Atomic int left = 10;
    hg_group g;
    int64_t was = hg_deadline_push(*(int64_t *)arg);
    hg_group_init(&g, 0);
    for (int i = 0; i < 10; i++)
        CHECK(hg_group_go(&g, slow_to_end, &left, 0) == 0);
    int r = hg_group_wait(&g, HG_FOREVER);
    hg_deadline_pop(was);
    CHECK(hg_load_acq(&left) == 0);
    return r;
}
static int waits_to_the_end(void *arg)
{
    int64_t never = HG_FOREVER, soon = hg_in(MS(2));
    hg_task *h;
    int r;
    (void)arg;
    CHECK(hg_go_with(NULL, wait_for_slow, &never, &h) == 0);
    CHECK(hg_join(h, hg_in(MS(1)), NULL) == -ETIMEDOUT);
    hg_cancel(h);
    CHECK(hg_join(h, HG_FOREVER, &r) == 0 && r == -ECANCELED);
    CHECK(hg_go_with(NULL, wait_for_slow, &soon, &h) == 0);
    CHECK(hg_join(h, HG_FOREVER, &r) == 0 && r == -ETIMEDOUT);
    return 0;
}
Test(group, the_wait_returns_when_all_have_ended)
{
    cr_assert_eq(run_on(2, waits_to_the_end, NULL), 0);
}

/* hg_go_with into a group: counted, limited, joined. */
static int with_attr(void *arg)
{
    hg_group g;
    hg_task_attr a = {.size = sizeof a, .group = &g, .name = "member"};
    hg_task *h;
    int r;
    (void)arg;
    hg_group_init(&g, 1);
    CHECK(hg_go_with(&a, wait_to_be_canceled, NULL, &h) == 0);
    int64_t was = hg_deadline_push(hg_in(MS(1)));
    CHECK(hg_go_with(&a, wait_to_be_canceled, NULL, &h) == -ETIMEDOUT);
    hg_deadline_pop(was);
    hg_cancel(h);
    CHECK(hg_join(h, HG_FOREVER, &r) == 0 && r == -ECANCELED);
    CHECK(hg_group_wait(&g, HG_FOREVER) == -ECANCELED);
    return 0;
}
Test(group, tasks_with_attributes_are_members) { cr_assert_eq(run_on(2, with_attr, NULL), 0); }

/* ---- deferred calls, exit ---- */

struct log {
    int n, at[16];
};
static struct log *log_here;
static void note(void *arg)
{
    hg_yield();
    CHECK(!hg_cancelled());
    CHECK(hg_sleep(1000) == 0); /* shielded */
    log_here->at[log_here->n++] = (int)(intptr_t)arg;
}
static void exit_in_defer(void *arg)
{
    note(arg);
    hg_task_exit(8);
}
static void deep(int n)
{
    hg_defer_node d;
    if (n > 4)
        return;
    hg_defer(&d, n == 2 ? exit_in_defer : note, (void *)(intptr_t)n);
    if (n == 4)
        hg_task_exit(7);
    else
        deep(n + 1);
    hg_defer_run(&d);
}
static int exits(void *arg)
{
    hg_defer_node a, b;
    (void)arg;
    hg_defer(&a, note, (void *)10);
    hg_defer(&b, note, (void *)11);
    hg_defer_run(&b);
    if (arg != NULL)
        CHECK(hg_sleep(SECS(100)) == -ECANCELED);
    deep(1);
    hg_defer_run(&a);
    return 1;
}
static int exit_from_any_depth(void *arg)
{
    (void)arg;
    for (int cancel = 0; cancel < 2; cancel++) {
        struct log l = {0};
        hg_task *h;
        int r;
        log_here = &l;
        CHECK(hg_go_with(NULL, exits, (void *)(intptr_t)cancel, &h) == 0);
        hg_yield();
        if (cancel)
            hg_cancel(h);
        CHECK(hg_join(h, HG_FOREVER, &r) == 0 && r == 8);
        static const int right[] = {11, 4, 3, 2, 1, 10};
        CHECK(l.n == 6 && memcmp(l.at, right, sizeof right) == 0);
    }
    hg_task_exit(42); /* the main task's result */
}
Test(unwind, exit_runs_what_is_deferred)
{
    cr_assert_eq(run_on(1, exit_from_any_depth, NULL), 42);
    cr_assert_eq(run_on(2, exit_from_any_depth, NULL), 42);
}

/* What lies outside of the task's frames runs when it returns. */
static int leaves_defer(void *node)
{
    hg_defer(node, note, (void *)3);
    return 2;
}
static int left_behind(void *arg)
{
    struct log l = {0};
    hg_defer_node node;
    hg_task *h;
    int r;
    (void)arg;
    log_here = &l;
    CHECK(hg_go_with(NULL, leaves_defer, &node, &h) == 0);
    CHECK(hg_join(h, HG_FOREVER, &r) == 0 && r == 2);
    CHECK(l.n == 1 && l.at[0] == 3);
    return 0;
}
Test(unwind, what_is_left_outside_of_frames_runs) { cr_assert_eq(run_on(1, left_behind, NULL), 0); }

static int wrong_order(void *arg)
{
    hg_defer_node a, b;
    (void)arg;
    hg_defer(&a, note, NULL);
    hg_defer(&b, note, NULL);
    hg_defer_run(&a);
    return 0;
}
static void run_wrong_order(void *arg)
{
    (void)arg;
    _exit(run_on(1, wrong_order, NULL));
}
Test(unwind, the_wrong_order_is_fatal)
{
    struct test_child c;
    test_child_run(&c, 60, run_wrong_order, NULL);
    cr_assert_eq(c.signal, SIGABRT);
    cr_assert(strstr(c.text, "is not what task 1 deferred last") != NULL, "%s", c.text);
}

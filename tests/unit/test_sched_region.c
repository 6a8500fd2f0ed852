/* test_sched_region.c: blocking regions: the proc goes to others, references stay alive,
 * collections do not wait, many at once with few threads, misuse, and a program that ends with a
 * task inside. */
#include "runtime/rt.h"
#include "runtime/sched/internal.h"
#include "tests/support/test.h"
#include "tests/unit/test_sync.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

TestSuite(sched_region, .timeout = 60);

static void kernel_sleep(int64_t ns)
{
    struct timespec t = {ns / 1000000000, ns % 1000000000};
    nanosleep(&t, NULL);
}

/* ---- the proc goes to others ---- */

static _Atomic int turns, stop;
static void turn(void *arg)
{
    (void)arg;
    while (hg_load_acq(&stop) == 0) {
        hg_add_acqrel(&turns, 1);
        hg_yield();
    }
    hg_store_rel(&stop, 2);
}

static int others_run(void *arg)
{
    (void)arg;
    go(turn, NULL);
    hg_yield();
    uint64_t id = hg_task_id();
    hg_block_enter();
    int before = hg_load_acq(&turns);
    kernel_sleep(100000000);
    int during = hg_load_acq(&turns) - before;
    hg_block_leave();
    CHECK(during > 10);
    CHECK(hg_task_id() == id);
    hg_store_rel(&stop, 1);
    yield_until(&stop, 2);
    return 0;
}
Test(sched_region, others_run_on_the_only_proc) { cr_assert_eq(run_on(1, others_run, NULL), 0); }

static _Atomic int slept;
static void sleeps(void *arg)
{
    (void)arg;
    hg_sleep(5000000);
    hg_store_rel(&slept, 1);
}
static int timers_fire(void *arg)
{
    (void)arg;
    go(sleeps, NULL);
    hg_yield();
    hg_block_enter();
    kernel_sleep(200000000);
    bool fired = hg_load_acq(&slept) == 1;
    hg_block_leave();
    CHECK(fired);
    return 0;
}
Test(sched_region, timers_of_the_proc_fire) { cr_assert_eq(run_on(1, timers_fire, NULL), 0); }

static int short_ones(void *arg)
{
    (void)arg;
    for (int i = 0; i < 20000; i++) {
        uint64_t id = hg_task_id();
        hg_block_enter();
        hg_block_leave();
        CHECK(hg_task_id() == id);
    }
    return 0;
}
Test(sched_region, short_ones)
{
    for (int procs = 1; procs <= 4; procs *= 2)
        cr_assert_eq(run_on(procs, short_ones, NULL), 0);
}

/* ---- references ---- */

/* Objects that only this frame and callee-saved registers hold, while collections run. */
static __attribute__((noinline)) void hold_over_region(int64_t ns, int deep)
{
    uint64_t *a = hg_alloc(64, HG_LEAF), *b = hg_alloc(64, HG_LEAF), *c = hg_alloc(64, HG_LEAF);
    uint64_t *d = hg_alloc(64, HG_LEAF), *e = hg_alloc(64, HG_LEAF), *f = hg_alloc(64, HG_LEAF);
    char room[512];
    __asm__ volatile("" : : "r"(room) : "memory");
    *a = 1, *b = 2, *c = 3, *d = 4, *e = 5, *f = 6;
    if (deep > 0)
        hold_over_region(ns, deep - 1);
    hg_block_enter();
    kernel_sleep(ns);
    hg_block_leave();
    CHECK(*a == 1 && *b == 2 && *c == 3 && *d == 4 && *e == 5 && *f == 6);
}

static _Atomic int holders;
static void holder(void *arg)
{
    int deep = (int)(intptr_t)arg;
    for (int i = 0; i < 20; i++)
        hold_over_region((i % 5) * 200000, deep);
    hg_add_acqrel(&holders, -1);
}
static int references(void *arg)
{
    (void)arg;
    hg_store_rlx(&holders, 8);
    for (intptr_t i = 0; i < 8; i++)
        go(holder, (void *)(i % 2 == 0 ? 0 : i * 4)); /* up to 18 KiB deep: more than is scanned at
                                                         once */
    while (hg_load_acq(&holders) > 0) {
        for (int i = 0; i < 100; i++)
            hg_keep_alive(hg_alloc(2048, HG_LEAF));
        hg_collect(hg_current());
    }
    return 0;
}
Test(sched_region, references_stay_alive)
{
    for (int procs = 1; procs <= 4; procs *= 2)
        cr_assert_eq(run_collecting(procs, references, NULL), 0);
}

/* S04 */
static void block_long(void *arg)
{
    (void)arg;
    hg_block_enter();
    kernel_sleep(1000000000);
    hg_block_leave();
    hg_store_rel(&stop, 1);
}
static int collections_do_not_wait(void *arg)
{
    (void)arg;
    go(block_long, NULL);
    hg_sleep(20000000);
    for (int i = 0; i < 10; i++)
        hg_collect(hg_current());
    CHECK(hg_load_acq(&stop) == 0);
    while (hg_load_acq(&stop) == 0)
        hg_sleep(1000000);
    return 0;
}
Test(sched_region, collections_do_not_wait)
{
    for (int procs = 1; procs <= 2; procs++) {
        hg_store_rlx(&stop, 0);
        cr_assert_eq(run_on(procs, collections_do_not_wait, NULL), 0);
    }
}

/* ---- S05 ---- */

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

static _Atomic int left, most_threads;
static void block_5ms(void *arg)
{
    (void)arg;
    hg_block_enter();
    kernel_sleep(5000000);
    hg_block_leave();
    hg_sub_acqrel(&left, 1);
}
static int many_regions(void *arg)
{
    int n = *(int *)arg;
    hg_current()->sched.max_threads = 64;
    hg_store_rlx(&left, n);
    for (int i = 0; i < n; i++)
        go(block_5ms, NULL);
    while (hg_load_acq(&left) > 0)
        hg_sleep(5000000);
    return 0;
}

static void *watch_threads(void *arg)
{
    (void)arg;
    while (hg_load_acq(&stop) == 0) {
        int n = count_threads();
        if (n > hg_load_rlx(&most_threads))
            hg_store_rlx(&most_threads, n);
        usleep(2000);
    }
    return NULL;
}
Test(sched_region, many_at_once_with_few_threads)
{
    pthread_t watcher;
    int n = (int)test_scaled(4000), before = count_threads();
    cr_assert_eq(pthread_create(&watcher, NULL, watch_threads, NULL), 0);
    cr_assert_eq(run_on(2, many_regions, &n), 0);
    hg_store_rel(&stop, 1);
    pthread_join(watcher, NULL);
    /* The watcher, monitor, driver; and those of procs and regions. */
    cr_assert_leq(hg_load_rlx(&most_threads), before + 3 + 64);
    cr_assert_gt(hg_load_rlx(&most_threads), before + 3 + 2, "no proc was handed on");
}

/* ---- misuse ---- */

static int alloc_inside(void *arg)
{
    (void)arg;
    hg_block_enter();
    hg_keep_alive(hg_alloc(16, HG_LEAF));
    return 0;
}
static int enter_twice(void *arg)
{
    (void)arg;
    hg_block_enter();
    hg_block_enter();
    return 0;
}
static int leave_only(void *arg)
{
    (void)arg;
    hg_block_leave();
    return 0;
}
static void run_child(void *first) { _exit(run_on(1, (int (*)(void *))first, NULL)); }
static void enter_outside(void *arg)
{
    (void)arg;
    hg_block_enter();
}

Test(sched_region, misuse_is_fatal)
{
    struct test_child c;
    test_child_run(&c, 10, run_child, (void *)alloc_inside);
    cr_assert(c.signal != 0 && strstr(c.text, "hedge:") != NULL, "%s", c.text);
    test_child_run(&c, 10, run_child, (void *)enter_twice);
    cr_assert(c.signal != 0 && strstr(c.text, "in a blocking region already") != NULL, "%s",
              c.text);
    test_child_run(&c, 10, run_child, (void *)leave_only);
    cr_assert(c.signal != 0 && strstr(c.text, "not in a blocking region") != NULL, "%s", c.text);
    test_child_run(&c, 10, enter_outside, NULL);
    cr_assert(c.signal != 0 && strstr(c.text, "hg_block_enter: not on a task") != NULL, "%s",
              c.text);
}

/* ---- the end of a program ---- */

static void block_for_ever(void *arg)
{
    (void)arg;
    hg_block_enter();
    for (;;)
        pause();
}
static int leave_one_inside(void *arg)
{
    (void)arg;
    go(block_for_ever, NULL);
    hg_sleep(30000000);
    return 17;
}
static void returns_soon(void *arg)
{
    (void)arg;
    int64_t start = hg_now();
    int r = run_on(2, leave_one_inside, NULL);
    _exit(r == 17 && hg_now() - start < INT64_C(5000000000) ? 0 : 1);
}
Test(sched_region, the_program_ends_with_a_task_inside)
{
    struct test_child c;
    test_child_run(&c, 20, returns_soon, NULL);
    cr_assert_eq(c.exit_code, 0);
}

/* Blocks briefly while the program ends, and comes back to a scheduler that stops. */
static void block_briefly(void *arg)
{
    (void)arg;
    for (;;) {
        hg_block_enter();
        kernel_sleep(50000);
        hg_block_leave();
    }
}
static int leave_many_inside(void *arg)
{
    (void)arg;
    for (int i = 0; i < 10; i++)
        go(block_briefly, NULL);
    hg_sleep(3000000);
    return 0;
}
Test(sched_region, ends_while_regions_come_and_go)
{
    for (int i = 0; i < 20; i++)
        cr_assert_eq(run_on(2, leave_many_inside, NULL), 0);
    usleep(100000); /* threads that were given up may come back now: they sleep */
}

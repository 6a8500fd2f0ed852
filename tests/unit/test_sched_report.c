/* test_sched_report.c: the deadlock report and what must not be taken for one, the stack overflow
 * reporter, the dump of tasks. */
#include "runtime/rt.h"
#include "runtime/sched/internal.h"
#include "tests/support/test.h"
#include "tests/unit/test_sync.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

TestSuite(sched_report, .timeout = 60);

static void run_child_1(void *first) { _exit(run_on(1, (int (*)(void *))first, NULL)); }
static void run_child_2(void *first) { _exit(run_on(2, (int (*)(void *))first, NULL)); }

/* ---- S15 ---- */

static int wait_for_nothing(void *arg)
{
    int v;
    hg_sleep(2000000);
    return hg_chan_recv(arg, &v, HG_FOREVER);
}
static int deadlock(void *arg)
{
    hg_task_attr a = {.size = sizeof a, .name = "first"};
    hg_task *h;
    int v;
    (void)arg;
    CHECK(hg_go_with(&a, wait_for_nothing, new_chan(4, 0, HG_LEAF), &h) == 0);
    a.name = "second";
    CHECK(hg_go_with(&a, wait_for_nothing, new_chan(4, 0, HG_LEAF), &h) == 0);
    return hg_join(h, HG_FOREVER, &v);
}
Test(sched_report, a_deadlock_names_the_tasks)
{
    for (int procs = 1; procs <= 2; procs++) {
        struct test_child c;
        test_child_run(&c, 20, procs == 1 ? run_child_1 : run_child_2, (void *)deadlock);
        cr_assert_eq(c.signal, SIGABRT, "%s", c.text);
        cr_assert(strstr(c.text, "all tasks are asleep - deadlock") != NULL, "%s", c.text);
        cr_assert(strstr(c.text, " first: ") != NULL && strstr(c.text, " second: ") != NULL, "%s",
                  c.text);
        cr_assert(strstr(c.text, "task 1: join") != NULL, "%s", c.text);
    }
}

/* Everything that can wake a task though all procs are idle, one after the other. */
static void other(void *c)
{
    int v = 1;
    hg_block_enter();
    usleep(20000);
    hg_block_leave();
    CHECK(hg_chan_send(c, &v, HG_FOREVER) == 0);
}
static int no_deadlock(void *arg)
{
    hg_chan *c = new_chan(4, 0, HG_LEAF);
    int v;
    (void)arg;
    for (int i = 0; i < 30; i++) {
        hg_sleep(1000000);
        CHECK(hg_chan_recv(c, &v, hg_in(500000)) == -ETIMEDOUT);
        go(other, c);
        CHECK(hg_chan_recv(c, &v, HG_FOREVER) == 0);
        hg_collect(hg_current());
        hg_block_enter();
        usleep(3000);
        hg_block_leave();
    }
    return 0;
}
Test(sched_report, no_false_alarm)
{
    for (int procs = 1; procs <= 4; procs *= 2)
        cr_assert_eq(run_on(procs, no_deadlock, NULL), 0);
}

/* The first task is posted while procs that have just started look whether there is any. Wrong once
 * in some thousand runs. */
static int nothing(void *arg)
{
    (void)arg;
    return 0;
}
Test(sched_report, no_false_alarm_at_the_start)
{
    hg_options o;
    hg_options_init(&o, sizeof o);
    o.procs = 8;
    o.reserve_bytes = (size_t)64 << 20;
    for (int i = 0; i < 1500; i++)
        cr_assert_eq(hg_run(nothing, NULL, &o), 0);
}

/* In a host of its own a post may come at any time. */
static void wait_for_ever(void *arg)
{
    int v;
    hg_store_rel((_Atomic int *)arg, 1);
    hg_chan_recv(new_chan(4, 0, HG_LEAF), &v, HG_FOREVER);
}
static void opened(void *arg)
{
    hg_runtime *rt;
    _Atomic int there = 0;
    (void)arg;
    if (hg_runtime_open(NULL, &rt) != 0 || hg_post(rt, wait_for_ever, &there) != 0)
        _exit(1);
    while (hg_load_acq(&there) == 0)
        usleep(1000);
    usleep(100000);
    _exit(hg_runtime_close(rt) == -EBUSY ? 0 : 2);
}
Test(sched_report, no_report_in_an_embedded_runtime)
{
    struct test_child c;
    test_child_run(&c, 20, opened, NULL);
    cr_assert_eq(c.exit_code, 0, "%s", c.text);
}

/* ---- S10 ---- */

static __attribute__((noinline)) int recurse(int n)
{
    volatile char room[200];
    room[0] = (char)n;
    return n == 0 ? 0 : recurse(n - 1) + room[0];
}
static int overflow(void *arg)
{
    (void)arg;
    return recurse(1000000);
}
static int overflowing(void *arg)
{
    hg_task_attr a = {.size = sizeof a, .name = "deep", .stack_bytes = 32 << 10};
    hg_task *h;
    (void)arg;
    CHECK(hg_go_with(&a, overflow, NULL, &h) == 0);
    return hg_join(h, HG_FOREVER, NULL);
}
Test(sched_report, an_overflow_names_the_task)
{
    struct test_child c;
    test_child_run(&c, 20, run_child_1, (void *)overflowing);
    cr_assert_eq(c.signal, SIGABRT, "%s", c.text);
    cr_assert(strstr(c.text, "stack overflow in task 2 deep: its stack has 32 KiB") != NULL, "%s",
              c.text);
}

/* The task whose stack lies below is untouched when the other has overflowed. */
static int *canary_at;
static int canary(void *arg)
{
    int words[200];
    (void)arg;
    for (int i = 0; i < 200; i++)
        words[i] = i * 3;
    canary_at = words;
    hg_sleep(INT64_C(1000000000));
    return 0;
}
static void check_canary(int signal)
{
    static const char intact[] = "canary intact\n";
    (void)signal;
    for (int i = 0; i < 200; i++) {
        if (canary_at[i] != i * 3)
            _exit(3);
    }
    (void)!write(STDERR_FILENO, intact, sizeof intact - 1);
    _exit(0);
}
static int overflow_beside_canary(void *arg)
{
    hg_task *h;
    signal(SIGABRT, check_canary);
    CHECK(hg_go_with(NULL, canary, NULL, &h) == 0);
    hg_yield();
    CHECK(hg_go_with(NULL, overflow, arg, &h) == 0);
    return hg_join(h, HG_FOREVER, NULL);
}
Test(sched_report, an_overflow_leaves_the_neighbour_alone)
{
    struct test_child c;
    test_child_run(&c, 20, run_child_1, (void *)overflow_beside_canary);
    cr_assert_eq(c.exit_code, 0, "%s", c.text);
    cr_assert(strstr(c.text, "stack overflow in task 3") != NULL, "%s", c.text);
    cr_assert(strstr(c.text, "canary intact") != NULL, "%s", c.text);
}

static void own_handler(int signal, siginfo_t *info, void *context)
{
    (void)context;
    _exit(signal == SIGSEGV && info->si_addr == (void *)64 ? 9 : 1);
}
static void *volatile bad_address = (void *)64; /* volatile: no compiler knows what it is */
static int fault_at_64(void *arg)
{
    (void)arg;
    return *(volatile int *)bad_address;
}
static void fault_with_own_handler(void *arg)
{
    struct sigaction a = {.sa_sigaction = own_handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &a, NULL);
    _exit(run_on(1, fault_at_64, arg));
}
static void fault_without_handler(void *arg)
{
    signal(SIGSEGV, SIG_DFL);
    _exit(run_on(1, fault_at_64, arg));
}
Test(sched_report, other_faults_are_passed_on)
{
    struct test_child c;
    test_child_run(&c, 20, fault_with_own_handler, NULL);
    cr_assert_eq(c.exit_code, 9, "%s", c.text);
    test_child_run(&c, 20, fault_without_handler, NULL);
    cr_assert_eq(c.signal, SIGSEGV, "%s", c.text);
}

/* ---- dump ---- */

static char dumped[4096];
static void collect_log(void *user, int level, const char *text)
{
    (void)user;
    (void)level;
    size_t n = strlen(dumped);
    snprintf(dumped + n, sizeof dumped - n, "%s\n", text);
}
static int dump(void *arg)
{
    hg_task_attr a = {.size = sizeof a, .name = "parked"};
    hg_task *h;
    hg_chan *c = new_chan(4, 0, HG_LEAF);
    (void)arg;
    CHECK(hg_go_with(&a, wait_for_nothing, c, &h) == 0);
    hg_sleep(50000000);
    hg__task_dump(&hg_current()->sched);
    CHECK(hg_chan_close(c) == 0);
    return hg_join(h, HG_FOREVER, NULL);
}
Test(sched_report, the_dump_lists_tasks)
{
    hg_options o;
    hg_options_init(&o, sizeof o);
    o.procs = 2;
    o.log = collect_log;
    cr_assert_eq(hg_run(dump, NULL, &o), 0);
    cr_assert(strstr(dumped, "2 tasks") != NULL, "%s", dumped);
    cr_assert(strstr(dumped, "task 1: running") != NULL, "%s", dumped);
    cr_assert(strstr(dumped, " parked: chan") != NULL, "%s", dumped);
}

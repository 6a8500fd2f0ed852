/* test_shutdown.c: shutting a runtime down, tasks posted by other threads, waiting for signals. */
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

static hg_runtime *open_on(int procs)
{
    hg_options o;
    hg_runtime *rt;
    hg_options_init(&o, sizeof o);
    o.procs = procs;
    CHECK(hg_runtime_open(&o, &rt) == 0);
    return rt;
}

/* ---- shutdown ---- */

static _Atomic int begun, ended;
static void wait_and_end(void *unused)
{
    (void)unused;
    hg_add_acqrel(&begun, 1);
    CHECK(hg_chan_recv(NULL, NULL, HG_FOREVER) == -ECANCELED);
    hg_add_acqrel(&ended, 1);
}
static void spawn_while_ending(void *unused)
{
    (void)unused;
    CHECK(hg_sleep(SECS(1000)) == -ECANCELED);
    for (int i = 0; i < 10; i++) /* allowed; born cancelled */
        CHECK(hg_go(wait_and_end, NULL) == 0);
}
static void start_many(void *n)
{
    for (intptr_t i = 0; i < (intptr_t)n; i++)
        CHECK(hg_go(i % 2 == 0 ? wait_and_end : spawn_while_ending, NULL) == 0);
}

Test(shutdown, ends_all_tasks)
{
    for (int procs = 1; procs <= 3; procs++) {
        intptr_t n = (intptr_t)test_scaled(2000) / 2 * 2;
        hg_runtime *rt = open_on(procs);
        hg_store_rlx(&begun, 0);
        hg_store_rlx(&ended, 0);
        /* none is there; those to come begin so */
        cr_assert_eq(hg_runtime_shutdown(rt, HG_NOW), 0);
        cr_assert_eq(hg_post(rt, start_many, (void *)n), 0);
        cr_assert_eq(hg_runtime_shutdown(rt, hg_in(SECS(60))), 0);
        cr_assert_eq(hg_load_acq(&ended), n / 2 + 10 * (n / 2));
        cr_assert_eq(hg_runtime_close(rt), 0);
        rt = open_on(procs);
        hg_store_rlx(&ended, 0);
        cr_assert_eq(hg_post(rt, start_many, (void *)n), 0);
        cr_assert_eq(hg_runtime_close(rt), -EBUSY);
        cr_assert_eq(hg_runtime_shutdown(rt, hg_in(SECS(60))), 0);
        cr_assert_eq(hg_load_acq(&ended), n / 2 + 10 * (n / 2));
        cr_assert_eq(hg_runtime_close(rt), 0);
    }
}

static _Atomic int let_end;
static void ignores_cancellation(void *unused)
{
    (void)unused;
    hg_store_rel(&begun, 1);
    hg_shield(true);
    while (hg_load_acq(&let_end) == 0)
        hg_sleep(100000);
}
Test(shutdown, stops_waiting_at_its_deadline)
{
    hg_runtime *rt = open_on(2);
    cr_assert_eq(hg_post(rt, ignores_cancellation, NULL), 0);
    cr_assert_eq(hg_runtime_shutdown(rt, HG_NOW), -EAGAIN);
    int64_t end = hg_in(MS(20));
    cr_assert_eq(hg_runtime_shutdown(rt, end), -ETIMEDOUT);
    cr_assert_geq(hg_now(), end);
    cr_assert_eq(hg_runtime_close(rt), -EBUSY);
    hg_store_rel(&let_end, 1);
    cr_assert_eq(hg_runtime_shutdown(rt, hg_in(SECS(60))), 0);
    cr_assert_eq(hg_runtime_close(rt), 0);
}

/* From a task: it goes on; a second one is cancelled like the others. */
static int shut_down(void *unused)
{
    (void)unused;
    return hg_runtime_shutdown(hg_current(), HG_FOREVER);
}
static int from_tasks(void *arg)
{
    hg_task *first, *second;
    int a, b;
    (void)arg;
    for (int i = 0; i < 100; i++)
        CHECK(hg_go(wait_and_end, NULL) == 0);
    CHECK(hg_go_with(NULL, shut_down, NULL, &first) == 0);
    CHECK(hg_go_with(NULL, shut_down, NULL, &second) == 0);
    CHECK(hg_chan_recv(NULL, NULL, HG_FOREVER) == -ECANCELED);
    hg_shield(true);
    int64_t until = hg_in(MS(30)); /* the one that goes on waits for this task */
    int ra = hg_join(first, until, &a), rb = hg_join(second, until, &b);
    CHECK((ra == 0 && a == -ECANCELED && rb == -ETIMEDOUT) ||
          (rb == 0 && b == -ECANCELED && ra == -ETIMEDOUT));
    return 6;
}
Test(shutdown, by_a_task)
{
    for (int procs = 1; procs <= 2; procs++)
        cr_assert_eq(run_on(procs, from_tasks, NULL), 6);
}

/* ---- posting ---- */

static _Atomic int posted;
static void count(void *unused)
{
    (void)unused;
    hg_yield();
    hg_add_acqrel(&posted, 1);
}
static void *post_many(void *rt)
{
    sigset_t all; /* a thread that takes no signals, of which the runtime knows nothing */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    for (int i = 0; i < (int)test_scaled(2000); i++)
        CHECK(hg_post(rt, count, NULL) == 0);
    return NULL;
}
Test(shutdown, posts_from_many_threads)
{
    enum { THREADS = 4 };
    pthread_t t[THREADS];
    hg_runtime *rt = open_on(2);
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&t[i], NULL, post_many, rt), 0);
    (void)hg_runtime_shutdown(rt, hg_in(MS(1))); /* posts go on, and run, cancelled */
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    cr_assert_eq(hg_runtime_shutdown(rt, hg_in(SECS(60))), 0);
    cr_assert_eq(hg_load_acq(&posted), THREADS * (int)test_scaled(2000));
    cr_assert_eq(hg_runtime_close(rt), 0);
}

/* ---- signals ---- */

static int signals_come(void *arg)
{
    static const int set[] = {SIGUSR1, SIGINT, SIGTERM}, bad[] = {SIGKILL}, worse[] = {0},
                     odd[] = {65};
    (void)arg;
    CHECK(hg_signal_wait(bad, 1, HG_NOW) == -EINVAL);
    CHECK(hg_signal_wait(worse, 1, HG_NOW) == -EINVAL);
    CHECK(hg_signal_wait(odd, 1, HG_NOW) == -EINVAL);
    CHECK(hg_signal_wait(set, 0, HG_NOW) == -EINVAL);
    CHECK(hg_signal_wait(set, 3, HG_NOW) == -EAGAIN);
    CHECK(hg_signal_wait(set, 3, hg_in(MS(2))) == -ETIMEDOUT);
    kill(getpid(), SIGTERM);
    CHECK(hg_signal_wait(set, 3, HG_FOREVER) == SIGTERM);
    kill(getpid(), SIGUSR1); /* between two waits: kept */
    kill(getpid(), SIGUSR1);
    CHECK(hg_signal_wait(set, 2, HG_FOREVER) == SIGUSR1);
    CHECK(hg_signal_wait(set, 3, HG_NOW) == -EAGAIN); /* once */
    return 0;
}
Test(signal, they_are_taken)
{
    for (int procs = 1; procs <= 2; procs++)
        cr_assert_eq(run_on(procs, signals_come, NULL), 0);
}

struct taker {
    int n;
    _Atomic int *taken;
};
static int take(void *arg)
{
    struct taker k = *(struct taker *)arg;
    int r;
    while ((r = hg_signal_wait(&k.n, 1, HG_FOREVER)) == k.n)
        hg_add_acqrel(k.taken, 1);
    return r;
}
static int several_wait(void *arg)
{
    _Atomic int one = 0, two = 0;
    struct taker a = {SIGUSR1, &one}, b = {SIGUSR2, &two};
    hg_group g;
    (void)arg;
    hg_group_init(&g, 0);
    for (int i = 0; i < 20; i++) {
        CHECK(hg_group_go(&g, take, &a, sizeof a) == 0);
        CHECK(hg_group_go(&g, take, &b, sizeof b) == 0);
    }
    CHECK(hg_signal_wait((const int[]){SIGUSR1, SIGUSR2}, 2, hg_in(MS(1))) == -ETIMEDOUT);
    for (int i = 1; i <= 100; i++) {
        kill(getpid(), i % 2 ? SIGUSR1 : SIGUSR2);
        yield_until(i % 2 ? &one : &two, (i + 1) / 2);
    }
    hg_group_cancel(&g);
    CHECK(hg_group_wait(&g, HG_FOREVER) == -ECANCELED);
    return hg_load_acq(&one) == 50 && hg_load_acq(&two) == 50 ? 0 : 1;
}
Test(signal, one_of_those_who_wait_gets_it)
{
    for (int procs = 1; procs <= 2; procs++)
        cr_assert_eq(run_on(procs, several_wait, NULL), 0);
}

/* The guide's way to end a program: Ctrl-C cancels what it does. And the mask of hg_run's thread is
 * as before afterwards, so that the next one ends the process as ever. */
static void stop_on_signal(void *unused)
{
    static const int stop[] = {SIGINT, SIGTERM};
    (void)unused;
    CHECK(hg_signal_wait(stop, 2, HG_NOW) == -EAGAIN);
    hg_store_rel(&begun, 1); /* they are blocked now */
    CHECK(hg_signal_wait(stop, 2, HG_FOREVER) == SIGINT);
    (void)hg_runtime_shutdown(hg_current(), hg_in(SECS(5)));
}
static int interrupted_main(void *arg)
{
    (void)arg;
    CHECK(hg_go(stop_on_signal, NULL) == 0);
    yield_until(&begun, 1);
    kill(getpid(), SIGINT);
    CHECK(hg_sleep(SECS(1000)) == -ECANCELED);
    return 9;
}
static void run_interrupted(void *arg)
{
    (void)arg;
    if (run_on(2, interrupted_main, NULL) != 9)
        _exit(1);
    raise(SIGINT);
    _exit(2);
}
Test(signal, ends_a_program_in_order)
{
    struct test_child c;
    test_child_run(&c, 60, run_interrupted, NULL);
    cr_assert_eq(c.signal, SIGINT, "exit code %d: %s", c.exit_code, c.text);
}

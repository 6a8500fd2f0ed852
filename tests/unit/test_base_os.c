/* test_base_os.c: the contract of os.h: memory, guards, clocks, waiting, threads. */
#include "base/assert.h"
#include "base/bits.h"
#include "base/os.h"
#include "tests/support/test.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

TestSuite(os, .timeout = 60);

enum { MS = 1000000 };

/* ---- memory ---- */

Test(os, mappings_are_aligned_and_zero)
{
    for (size_t align = hg__os_page_size(); align <= 64 * HG_MIB; align *= 4) {
        size_t bytes = 3 * hg__os_page_size();
        unsigned char *p = hg__os_map(bytes, align);
        cr_assert_not_null(p);
        cr_assert_eq((uintptr_t)p & (align - 1), 0, "align %zu", align);
        for (size_t i = 0; i < bytes; i++)
            cr_assert_eq(p[i], 0);
        memset(p, 0x5a, bytes);
        hg__os_unmap(p, bytes);
    }
}

Test(os, a_reservation_is_committed_piece_by_piece)
{
    size_t page = hg__os_page_size(), bytes = 64 * HG_GIB;
    char *p = hg__os_reserve(bytes, 2 * HG_MIB);
    cr_assert_not_null(p);
    cr_assert_eq(hg__os_commit(p + HG_GIB, 4 * page), 0);
    memset(p + HG_GIB, 1, 4 * page);
    cr_assert_eq(p[HG_GIB + 4 * page - 1], 1);
    hg__os_unmap(p, bytes);
}

Test(os, sizes_that_cannot_be_are_refused)
{
    size_t page = hg__os_page_size();
    cr_assert_null(hg__os_reserve(SIZE_MAX, page));
    cr_assert_null(hg__os_reserve((size_t)PTRDIFF_MAX - page, 1 * HG_GIB));
    cr_assert_null(hg__os_reserve((size_t)1 << 60, page));
    cr_assert_null(hg__os_map(0, page));
}

/* these have terabytes of shadow already */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static void reserve_under_a_limit(void *arg)
{
    (void)arg;
    struct rlimit limit = {4 * HG_GIB, 4 * HG_GIB};
    HG_CHECK(setrlimit(RLIMIT_AS, &limit) == 0, "setrlimit");
    HG_CHECK(hg__os_reserve(8 * HG_GIB, hg__os_page_size()) == NULL, "8 GiB fit into 4 GiB");
    HG_CHECK(hg__os_reserve(64 * HG_MIB, hg__os_page_size()) != NULL, "64 MiB do not fit");
}

Test(os, a_reservation_that_does_not_fit_gives_null)
{
    struct test_child c;
    test_child_run(&c, 10, reserve_under_a_limit, NULL);
    cr_assert_eq(c.exit_code, 0, "%s", c.text);
}
#endif

Test(os, discarded_memory_reads_as_zero)
{
    size_t bytes = 16 * hg__os_page_size();
    unsigned char *p = hg__os_map(bytes, hg__os_page_size());
    memset(p, 0xff, bytes);
    hg__os_discard(p, bytes);
    for (size_t i = 0; i < bytes; i++)
        cr_assert_eq(p[i], 0);
    if (mlock(p, bytes) == 0) { /* locked memory, where this process may lock any */
        memset(p, 0xff, bytes);
        hg__os_discard(p, bytes);
        for (size_t i = 0; i < bytes; i++)
            cr_assert_eq(p[i], 0);
        munlock(p, bytes);
    }
    hg__os_unmap(p, bytes);
}

Test(os, huge_page_advice_changes_no_contents)
{
    size_t bytes = 4 * HG_MIB;
    char *p = hg__os_map(bytes, 2 * HG_MIB);
    memset(p, 7, bytes);
    hg__os_hugepage(p, bytes, true);
    int r = hg__os_collapse(p, 2 * HG_MIB);
    cr_assert(r <= 0);
    hg__os_hugepage(p, bytes, false);
    for (size_t i = 0; i < bytes; i += 64)
        cr_assert_eq(p[i], 7);
    hg__os_unmap(p, bytes);
    cr_assert_lt(hg__os_collapse(p, 2 * HG_MIB), 0); /* nothing is mapped there */
}

/* ---- guards ---- */

static void touch(void *arg)
{
    signal(SIGSEGV, SIG_DFL);
    *(volatile char *)arg = 1;
}

Test(os, a_guard_faults_and_its_neighbours_do_not)
{
    size_t page = hg__os_page_size();
    char *p = hg__os_map(4 * page, page);
    int kind = hg__os_guard(p + page, page);
    cr_assert(kind == 1 || kind == 2, "%d", kind);
    struct test_child c;
    test_child_run(&c, 10, touch, p + page);
    cr_assert_eq(c.signal, SIGSEGV);
    test_child_run(&c, 10, touch, p + 2 * page - 1);
    cr_assert_eq(c.signal, SIGSEGV);
    test_child_run(&c, 10, touch, p + page - 1);
    cr_assert_eq(c.exit_code, 0);
    test_child_run(&c, 10, touch, p + 2 * page);
    cr_assert_eq(c.exit_code, 0);
    hg__os_discard(p, 4 * page); /* a guard survives what is done around it */
    test_child_run(&c, 10, touch, p + page);
    cr_assert_eq(c.signal, SIGSEGV);
    hg__os_unmap(p, 4 * page);
}

Test(os, a_reservation_faults)
{
    char *p = hg__os_reserve(hg__os_page_size(), hg__os_page_size());
    struct test_child c;
    test_child_run(&c, 10, touch, p);
    cr_assert_eq(c.signal, SIGSEGV);
}

/* ---- time and waiting ---- */

Test(os, clocks_go_forward)
{
    int64_t now = hg__os_now(), mine = hg__os_thread_cpu(), all = hg__os_process_cpu();
    while (hg__os_thread_cpu() - mine < 5 * MS)
        continue;
    cr_assert_geq(hg__os_now() - now, 4 * MS);
    cr_assert_geq(hg__os_process_cpu() - all, 4 * MS);
}

Test(os, a_wait_ends_at_its_deadline_and_not_before)
{
    _Atomic uint32_t word = 5;
    int64_t begin = hg__os_now();
    int r;
    do /* an interruption counts as woken */
        r = hg__os_wait(&word, 5, begin + 20 * MS);
    while (r == 0);
    int64_t took = hg__os_now() - begin;
    cr_assert_eq(r, -ETIMEDOUT);
    cr_assert_geq(took, 20 * MS);
    cr_assert_lt(took, 5000 * (int64_t)MS);
}

Test(os, a_wait_with_a_past_deadline_or_another_value_returns_at_once)
{
    _Atomic uint32_t word = 5;
    cr_assert_eq(hg__os_wait(&word, 5, 0), -ETIMEDOUT);
    cr_assert_eq(hg__os_wait(&word, 5, INT64_MIN), -ETIMEDOUT);
    cr_assert_eq(hg__os_wait(&word, 5, hg__os_now() - 1), -ETIMEDOUT);
    cr_assert_eq(hg__os_wait(&word, 6, INT64_MAX), 0);
}

struct sleepers {
    _Atomic uint32_t word, ready, awake;
};

static void *sleep_on(void *arg)
{
    struct sleepers *s = arg;
    hg_add_acqrel(&s->ready, 1u);
    while (hg_load_acq(&s->word) == 0)
        (void)hg__os_wait(&s->word, 0, INT64_MAX);
    hg_add_acqrel(&s->awake, 1u);
    return NULL;
}

Test(os, a_wake_reaches_all_sleepers)
{
    enum { THREADS = 4 };
    static struct sleepers s;
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(hg__os_thread(&threads[i], "sleeper", 64 * 1024, sleep_on, &s), 0);
    while (hg_load_acq(&s.ready) != THREADS)
        sched_yield();
    hg_store_rel(&s.word, 1u);
    hg__os_wake(&s.word, THREADS);
    for (int i = 0; i < THREADS; i++)
        hg__os_thread_join(threads[i]);
    cr_assert_eq(hg_load_acq(&s.awake), THREADS);
}

/* ---- threads ---- */

struct looks {
    sigset_t mask;
    char name[16];
    int slack, nice_before, nice_after;
};

static void *look_around(void *arg)
{
    struct looks *l = arg;
    id_t self = (id_t)syscall(SYS_gettid);
    pthread_sigmask(SIG_SETMASK, NULL, &l->mask);
    hg__os_timer_slack();
    l->slack = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
    l->nice_before = getpriority(PRIO_PROCESS, self);
    hg__os_nice(3);
    l->nice_after = getpriority(PRIO_PROCESS, self);
    /* named by its creator, a little later */
    for (int i = 0; i < 1000 && strcmp(l->name, "looker") != 0; i++) {
        pthread_getname_np(pthread_self(), l->name, sizeof l->name);
        sched_yield();
    }
    return NULL;
}

Test(os, threads_take_no_signals_but_faults)
{
    static struct looks l;
    sigset_t before, after;
    pthread_t t;
    int nice = getpriority(PRIO_PROCESS, 0);
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    cr_assert_eq(hg__os_thread(&t, "looker", 0, look_around, &l), 0);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    hg__os_thread_join(t);
    for (int s = 1; s < SIGRTMIN; s++)
        cr_assert_eq(sigismember(&before, s), sigismember(&after, s), "signal %d", s);
    cr_assert(sigismember(&l.mask, SIGINT) && sigismember(&l.mask, SIGPROF) &&
              sigismember(&l.mask, SIGCHLD));
    cr_assert_not(sigismember(&l.mask, SIGSEGV) || sigismember(&l.mask, SIGBUS) ||
                  sigismember(&l.mask, SIGFPE));
    cr_assert_str_eq(l.name, "looker");
    cr_assert_eq(l.slack, 1000);
    cr_assert_eq(l.nice_after, l.nice_before + 3 < 19 ? l.nice_before + 3 : 19);
    cr_assert_eq(getpriority(PRIO_PROCESS, 0), nice); /* the creator's is its own */
}

/* ---- the machine ---- */

static void pin_to_one(void *arg)
{
    (void)arg;
    cpu_set_t set;
    size_t cpu = (size_t)sched_getcpu();
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    HG_CHECK(sched_setaffinity(0, sizeof set, &set) == 0, "sched_setaffinity");
    HG_CHECK(hg__os_cpus() == 1, "%d CPUs in a mask of one", hg__os_cpus());
}

Test(os, the_machine)
{
    cpu_set_t set;
    cr_assert_eq(sched_getaffinity(0, sizeof set, &set), 0);
    cr_assert(hg__os_cpus() >= 1 && hg__os_cpus() <= CPU_COUNT(&set));
    cr_assert_gt(hg__os_memory(), 64 * HG_MIB);
    struct test_child c;
    test_child_run(&c, 10, pin_to_one, NULL);
    cr_assert_eq(c.exit_code, 0, "%s", c.text);
}

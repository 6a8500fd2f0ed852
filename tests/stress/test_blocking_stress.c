/* test_blocking_stress.c: the pool for blocking calls under load: S05 of the public bug reports
 * (many more calls than threads), and calls whose callers give up at random, each argument being
 * either returned or dropped, exactly once. */
#include "base/atomic.h"
#include "base/rand.h"
#include "tests/support/test.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <hedge/hedge.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

TestSuite(blocking_stress, .timeout = 300);

#define MUST(c, ...) ((c) ? (void)0 : (fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), abort()))

static int run_with(int procs, int threads, int (*first)(void *), void *arg)
{
    hg_options o;
    hg_options_init(&o, sizeof o);
    o.procs = procs;
    o.blocking_threads = threads;
    return hg_run(first, arg, &o);
}

/* ---- S05 ---- */

static int count_threads(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/task");
    MUST(d != NULL, "opendir");
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static _Atomic int done_watching, most_threads;
static void *watch_threads(void *arg)
{
    (void)arg;
    while (hg_load_acq(&done_watching) == 0) {
        int n = count_threads();
        if (n > hg_load_rlx(&most_threads))
            hg_store_rlx(&most_threads, n);
        usleep(2000);
    }
    return NULL;
}

static int sleep_5ms(void *arg)
{
    (void)arg;
    usleep(5000);
    return 1;
}
static hg_waitgroup all;
static _Atomic int finished;
static void call_sleep(void *arg)
{
    (void)arg;
    hg_add_acqrel(&finished, hg_blocking(sleep_5ms, NULL));
    hg_waitgroup_done(&all);
}
static int many_calls(void *arg)
{
    int n = *(int *)arg;
    hg_waitgroup_add(&all, n);
    for (int i = 0; i < n; i++)
        MUST(hg_go(call_sleep, NULL) == 0, "hg_go");
    hg_waitgroup_wait(&all, HG_FOREVER);
    MUST(hg_load_acq(&finished) == n, "%d of %d calls", hg_load_acq(&finished), n);
    return 17;
}
Test(blocking_stress, many_more_calls_than_threads)
{
    pthread_t watcher;
    int n = (int)test_scaled(20000), before = count_threads();
    cr_assert_eq(pthread_create(&watcher, NULL, watch_threads, NULL), 0);
    cr_assert_eq(run_with(2, 64, many_calls, &n), 17);
    hg_store_rel(&done_watching, 1);
    pthread_join(watcher, NULL);
    /* The watcher, monitor, driver, two procs. */
    cr_assert_leq(hg_load_rlx(&most_threads), before + 5 + 64);
}

/* ---- giving up at random ---- */

enum { CALLERS = 64 };

struct call {
    int caller, round;
    uint32_t nap_us;
    int32_t ran;
    char *owned;
};
static _Atomic int64_t begun, dropped, returned, ran;

static int nap_and_note(void *arg)
{
    struct call *c = arg;
    if (c->nap_us != 0)
        usleep(c->nap_us);
    c->ran++;
    hg_add_rlx(&ran, 1);
    return c->round;
}
static void drop_call(void *arg)
{
    struct call *c = arg;
    MUST((c->ran == 0 || c->ran == 1) && c->owned != NULL, "dropped twice, or run twice");
    free(c->owned);
    c->owned = NULL;
    hg_add_acqrel(&dropped, 1);
}

struct caller {
    hg_waitgroup *group;
    uint64_t seed;
    int index, rounds;
};
static void call_at_random(void *arg)
{
    struct caller *me = arg;
    struct hg_rand rand = {me->seed};
    for (int i = 0; i < me->rounds; i++) {
        struct call c = {.caller = me->index, .round = i, .owned = malloc(8)};
        c.nap_us = hg_rand_below(&rand, 4) == 0 ? (uint32_t)hg_rand_below(&rand, 300) : 0;
        int64_t patience = (int64_t)hg_rand_below(&rand, 400000);
        int result = -1;
        hg_add_rlx(&begun, 1);
        int r = hg_blocking_copy(nap_and_note, &c, sizeof c, drop_call, hg_in(patience), &result);
        if (r == 0) {
            MUST(c.ran == 1 && c.caller == me->index && c.round == i && result == i,
                 "another call's answer");
            free(c.owned);
            hg_add_acqrel(&returned, 1);
        } else {
            MUST(r == -ETIMEDOUT && c.ran == 0, "result %d", r);
        }
        if (hg_rand_below(&rand, 16) == 0) {
            c = (struct call){.caller = me->index, .round = i};
            MUST(hg_blocking(nap_and_note, &c) == i && c.ran == 1, "a call on the stack");
        }
        if (hg_rand_below(&rand, 64) == 0)
            hg_collect_start(hg_current());
    }
    hg_waitgroup_done(me->group);
}
static int callers(void *arg)
{
    hg_waitgroup group = {0};
    uint64_t seed = *(uint64_t *)arg;
    int rounds = (int)test_scaled(400);
    hg_waitgroup_add(&group, CALLERS);
    for (int i = 0; i < CALLERS; i++) {
        struct caller c = {&group, seed + (uint64_t)i * 77, i, rounds};
        MUST(hg_go_copy(call_at_random, &c, sizeof c) == 0, "hg_go_copy");
    }
    hg_waitgroup_wait(&group, HG_FOREVER);
    return 17;
}
Test(blocking_stress, every_argument_is_returned_or_dropped_once)
{
    uint64_t seed = test_seed("blocking_stress");
    static const struct {
        int procs, threads;
    } shapes[] = {{1, 1}, {1, 8}, {2, 3}, {4, 16}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        cr_assert_eq(run_with(shapes[i].procs, shapes[i].threads, callers, &seed), 17);
        for (int64_t end = hg_in(10000000000); hg_now() < end; usleep(500))
            if (hg_load_acq(&dropped) + hg_load_acq(&returned) == hg_load_rlx(&begun))
                break;
        cr_assert_eq(hg_load_acq(&dropped) + hg_load_acq(&returned), hg_load_rlx(&begun));
    }
    cr_assert_gt(hg_load_rlx(&dropped), 0);
    cr_assert_gt(hg_load_rlx(&returned), 0);
}

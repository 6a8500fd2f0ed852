/* test_sync_cancel.c: locks, semaphores, timers and the like when tasks are cancelled while they
 * wait, under an ambient deadline, or end in the middle: each call says so, and leaves nothing
 * behind. */
#include "base/rand.h"
#include "tests/support/test.h"
#include "tests/unit/test_sync.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

TestSuite(sync_cancel, .timeout = 60);

#define MS INT64_C(1000000)
#define S  (1000 * MS)

/* All that can be waited for, in a state in which waiting takes for ever. */
struct all {
    hg_rwlock read, write;
    hg_mutex m;
    hg_cond cond;
    hg_sema sema;
    hg_once once;
    hg_timer timer;
    hg_ticker ticker;
    hg_chan *never;
    _Atomic int held; /* a task is in the once */
};

static int once_never(void *arg)
{
    struct all *a = arg;
    hg_store_rel(&a->held, 1);
    return hg_chan_recv(a->never, NULL, HG_FOREVER);
}

static int wait_read(struct all *a, int64_t d) { return hg_rwlock_lock_read(&a->read, d); }
static int wait_write(struct all *a, int64_t d) { return hg_rwlock_lock_write(&a->write, d); }
static int wait_sema(struct all *a, int64_t d) { return hg_sema_acquire(&a->sema, 2, d); }
static int wait_timer(struct all *a, int64_t d) { return hg_timer_wait(&a->timer, d); }
static int wait_ticker(struct all *a, int64_t d) { return hg_ticker_wait(&a->ticker, d, NULL); }
static int wait_once(struct all *a, int64_t d) { return hg_once_do(&a->once, once_never, a, d); }
static int wait_cond(struct all *a, int64_t d)
{
    hg_mutex_lock(&a->m);
    int r = hg_cond_wait(&a->cond, &a->m, d);
    CHECK(hg_mutex_lock_until(&a->m, HG_NOW) == -EAGAIN); /* held in every case */
    hg_mutex_unlock(&a->m);
    return r;
}
static int (*const waits[])(struct all *, int64_t) = {
    wait_read, wait_write, wait_sema, wait_timer, wait_ticker, wait_once, wait_cond};
enum { WAITS = sizeof waits / sizeof *waits };

static void hold_once(void *arg)
{
    struct all *a = arg;
    CHECK(hg_once_do(&a->once, once_never, a, HG_FOREVER) == -EPIPE);
}
static void set_up(struct all *a)
{
    memset(a, 0, sizeof *a);
    a->never = new_chan(0, 0, HG_LEAF);
    CHECK(hg_rwlock_lock_write(&a->read, HG_NOW) == 0 &&
          hg_rwlock_lock_read(&a->write, HG_NOW) == 0);
    hg_sema_release(&a->sema, 1);
    hg_timer_reset(&a->timer, hg_in(3600 * S));
    hg_ticker_start(&a->ticker, hg_in(3600 * S), S);
    go(hold_once, a);
    yield_until(&a->held, 1);
}
/* Everything is as it was before anybody waited. */
static void check_clean(struct all *a)
{
    hg_rwlock_unlock_write(&a->read);
    hg_rwlock_unlock_read(&a->write);
    CHECK(a->read.w[0] == 0 && a->read.w[1] == 0 && a->write.w[0] == 0 && a->write.w[1] == 0);
    CHECK(hg_sema_units(&a->sema) == 1 && (a->sema.w[0] & 1) == 0 && a->sema.w[1] == 0);
    CHECK(a->m.w[0] == 0 && a->m.w[1] == 0 && a->cond.w[0] == 0);
    CHECK(hg_timer_stop(&a->timer) && hg_ticker_stop(&a->ticker));
    hg_chan_close(a->never);
}

struct waiter {
    struct all *all;
    int which, expected;
    int64_t deadline, ambient;
    _Atomic int *up;
};
static int wait_one(void *arg)
{
    struct waiter w = *(struct waiter *)arg;
    int64_t saved = hg_deadline_push(w.ambient);
    hg_add_acqrel(w.up, 1);
    int r = waits[w.which](w.all, w.deadline);
    hg_deadline_pop(saved);
    CHECK(r == w.expected);
    return r;
}
static hg_task *start(struct waiter w)
{
    hg_task_attr attr = {.size = sizeof attr, .copy_bytes = sizeof w};
    hg_task *t = NULL;
    CHECK(hg_go_with(&attr, wait_one, &w, &t) == 0);
    return t;
}
static void join(hg_task *t, int expected)
{
    int result;
    CHECK(hg_join(t, hg_in(30 * S), &result) == 0 && result == expected);
}

static int cancelled(void *arg)
{
    struct all a;
    _Atomic int up = 0;
    hg_task *t[2 * WAITS];
    (void)arg;
    set_up(&a);
    for (int i = 0; i < 2 * WAITS; i++)
        t[i] = start((struct waiter){&a, i % WAITS, -ECANCELED, HG_FOREVER, HG_FOREVER, &up});
    while (hg_load_acq(&up) != 2 * WAITS)
        hg_yield();
    hg_sleep(2 * MS);
    for (int i = 0; i < 2 * WAITS; i++)
        hg_cancel(t[i]);
    for (int i = 0; i < 2 * WAITS; i++)
        join(t[i], -ECANCELED);
    check_clean(&a);
    return 0;
}
Test(sync_cancel, waits_are_cancelled)
{
    for (int procs = 1; procs <= 4; procs *= 2)
        cr_assert_eq(run_on(procs, cancelled, NULL), 0);
}

static int ambient(void *arg)
{
    struct all a;
    _Atomic int up = 0;
    hg_task *t[WAITS];
    (void)arg;
    set_up(&a);
    for (int i = 0; i < WAITS; i++)
        t[i] = start((struct waiter){&a, i, -ETIMEDOUT, HG_FOREVER, hg_in(2 * MS), &up});
    for (int i = 0; i < WAITS; i++)
        join(t[i], -ETIMEDOUT);
    check_clean(&a);
    return 0;
}
Test(sync_cancel, ambient_deadline) { cr_assert_eq(run_on(2, ambient, NULL), 0); }

/* Cancellation races with wake-ups: what a cancelled task did not take, others get. */
struct race {
    hg_sema units; /* 3 */
    hg_rwlock l;
    hg_mutex m;
    hg_cond c;
    int tokens; /* m; 2 */
    uint64_t seed;
};
static void take_token(struct race *r)
{
    int error = 0;
    hg_mutex_lock(&r->m);
    while (r->tokens == 0 && error == 0)
        error = hg_cond_wait(&r->c, &r->m, HG_FOREVER);
    CHECK(error == 0 || error == -ECANCELED);
    if (error == 0) {
        r->tokens--;
        hg_mutex_unlock(&r->m);
        hg_yield();
        hg_mutex_lock(&r->m);
        r->tokens++;
        hg_cond_signal(&r->c);
    }
    hg_mutex_unlock(&r->m);
}
static int compete(void *arg)
{
    struct race *r = arg;
    struct hg_rand rand = {r->seed + hg_task_id()};
    while (!hg_cancelled()) {
        int64_t n = 1 + hg_rand_below(&rand, 3);
        if (hg_sema_acquire(&r->units, n, HG_FOREVER) == 0) {
            hg_yield();
            hg_sema_release(&r->units, n);
        }
        if (hg_rwlock_lock_read(&r->l, HG_FOREVER) == 0) {
            hg_yield();
            hg_rwlock_unlock_read(&r->l);
        }
        if (hg_rwlock_lock_write(&r->l, HG_FOREVER) == 0) {
            hg_yield();
            hg_rwlock_unlock_write(&r->l);
        }
        take_token(r);
    }
    return 0;
}
/* Nobody is stuck: each of them is to be had. */
static void check_alive(struct race *r)
{
    CHECK(hg_sema_acquire(&r->units, 3, hg_in(30 * S)) == 0);
    hg_sema_release(&r->units, 3);
    CHECK(hg_rwlock_lock_write(&r->l, hg_in(30 * S)) == 0);
    hg_rwlock_unlock_write(&r->l);
    hg_mutex_lock(&r->m);
    while (r->tokens == 0)
        CHECK(hg_cond_wait(&r->c, &r->m, hg_in(30 * S)) == 0);
    hg_cond_signal(&r->c); /* it took the token's signal, and not the token */
    hg_mutex_unlock(&r->m);
}
static int cancel_races(void *arg)
{
    enum { TASKS = 12 };
    struct race r = {.tokens = 2, .seed = *(uint64_t *)arg};
    struct hg_rand rand = {r.seed};
    hg_task *t[TASKS];
    hg_sema_release(&r.units, 3);
    for (int i = 0; i < TASKS; i++)
        CHECK(hg_go_with(NULL, compete, &r, &t[i]) == 0);
    for (int i = (int)test_scaled(2000); i > 0; i--) {
        uint32_t k = hg_rand_below(&rand, TASKS);
        for (uint32_t y = hg_rand_below(&rand, 8); y > 0; y--)
            hg_yield();
        hg_cancel(t[k]);
        join(t[k], 0);
        CHECK(hg_go_with(NULL, compete, &r, &t[k]) == 0);
        if (i % 16 == 0)
            check_alive(&r);
    }
    for (int i = 0; i < TASKS; i++)
        hg_cancel(t[i]);
    for (int i = 0; i < TASKS; i++)
        join(t[i], 0);
    CHECK(hg_sema_units(&r.units) == 3 && (r.units.w[0] & 1) == 0 && r.tokens == 2);
    CHECK(r.l.w[0] == 0 && r.l.w[1] == 0 && r.m.w[0] == 0 && r.c.w[0] == 0);
    return 0;
}
Test(sync_cancel, races_with_wakeups)
{
    uint64_t seed = test_seed("races_with_wakeups");
    for (int procs = 1; procs <= 4; procs *= 2) {
        cr_assert_eq(run_on(procs, cancel_races, &seed), 0);
        cr_assert_eq(run_on_seed(procs, seed | 1, cancel_races, &seed), 0);
    }
}

/* ---- ends in the middle ---- */

struct attempts {
    hg_once o;
    _Atomic int calls;
};
static int exit_or_fail(void *arg)
{
    struct attempts *a = arg;
    switch (hg_add_acqrel(&a->calls, 1)) {
    case 0:
        hg_yield();
        hg_task_exit(7);
    case 1:
        return hg_chan_recv(new_chan(0, 0, HG_LEAF), NULL, HG_FOREVER); /* until cancelled */
    default:
        return 0;
    }
}
static int attempt(void *arg)
{
    struct attempts *a = arg;
    return hg_once_do(&a->o, exit_or_fail, a, HG_FOREVER);
}
static int once_goes_on(void *arg)
{
    struct attempts a = {.calls = 0};
    hg_task *t[3];
    int64_t until = hg_in(30 * S);
    (void)arg;
    for (int i = 0; i < 3; i++) {
        CHECK(hg_go_with(NULL, attempt, &a, &t[i]) == 0);
        while (hg_load_acq(&a.calls) == 0)
            hg_yield(); /* the first one is in it before the others come */
    }
    join(t[0], 7);
    for (; hg_load_acq(&a.calls) != 2; hg_yield())
        CHECK(hg_now() < until);
    /* One of the other two is in it, the other one waits. Both are cancelled; the one in it fails,
     * and the one that waits may be the next to try, or give up. */
    int r1, r2;
    hg_cancel(t[1]);
    hg_cancel(t[2]);
    CHECK(hg_join(t[1], until, &r1) == 0 && hg_join(t[2], until, &r2) == 0);
    CHECK((r1 == -ECANCELED && (r2 == -ECANCELED || r2 == 0)) || (r1 == 0 && r2 == -ECANCELED));
    CHECK(hg_once_do(&a.o, exit_or_fail, &a, HG_FOREVER) == 0 && a.calls == 3);
    return 0;
}
Test(sync_cancel, once_goes_on_with_the_next)
{
    for (int procs = 1; procs <= 4; procs *= 2)
        cr_assert_eq(run_on(procs, once_goes_on, NULL), 0);
}

/* test_cancel.c: cancelling tasks that wait in every kind of call, the shield, ambient
 * deadlines. */
#include "tests/support/test.h"
#include "tests/unit/test_sync.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define MS(n)   ((int64_t)(n)*1000000)
#define SECS(n) MS((n)*1000)

/* ---- every kind of wait ---- */

struct place {
    hg_chan *empty, *full; /* nobody sends, nobody receives */
    hg_mutex locked;
    hg_waitgroup work;
    hg_task *lasting; /* ends when `empty` is closed */
    hg_fd *silent;
    hg_group group;
    hg_rwlock written;
    hg_sema none;
    hg_cond cond;
    hg_mutex of_cond;
    hg_ticker ticker;
    _Atomic int begun;
};

static int wait_send(struct place *p, int64_t d)
{
    int v = 1;
    return hg_chan_send(p->full, &v, d);
}
static int wait_receive(struct place *p, int64_t d) { return hg_chan_recv(p->empty, NULL, d); }
static int wait_select(struct place *p, int64_t d)
{
    int v = 1;
    hg_case c[2] = {{.chan = p->empty}, {.chan = p->full, .send = &v}};
    return hg_select(c, 2, d);
}
static int wait_select_of_nothing(struct place *p, int64_t d)
{
    (void)p;
    return hg_select(NULL, 0, d);
}
static int wait_no_channel(struct place *p, int64_t d)
{
    (void)p;
    return hg_chan_recv(NULL, NULL, d);
}
static int wait_mutex(struct place *p, int64_t d) { return hg_mutex_lock_until(&p->locked, d); }
static int wait_waitgroup(struct place *p, int64_t d) { return hg_waitgroup_wait(&p->work, d); }
static int wait_join(struct place *p, int64_t d) { return hg_join(p->lasting, d, NULL); }
static int wait_read(struct place *p, int64_t d)
{
    char c;
    return (int)hg_fd_read(p->silent, &c, 1, d);
}
static int wait_signal(struct place *p, int64_t d)
{
    static const int usr2 = SIGUSR2;
    (void)p;
    return hg_signal_wait(&usr2, 1, d);
}
static int wait_sleep(struct place *p, int64_t d)
{
    (void)p;
    /* Its own end is no error. */
    int r = hg_sleep_until(d);
    return r == 0 ? -ETIMEDOUT : r;
}
static int wait_rwlock_read(struct place *p, int64_t d)
{
    return hg_rwlock_lock_read(&p->written, d);
}
static int wait_rwlock_write(struct place *p, int64_t d)
{
    return hg_rwlock_lock_write(&p->written, d);
}
static int wait_sema(struct place *p, int64_t d) { return hg_sema_acquire(&p->none, 1, d); }
static int wait_cond(struct place *p, int64_t d)
{
    hg_mutex_lock(&p->of_cond);
    int r = hg_cond_wait(&p->cond, &p->of_cond, d);
    hg_mutex_unlock(&p->of_cond); /* it has it back, whatever ended the wait */
    return r;
}
static int wait_ticker(struct place *p, int64_t d) { return hg_ticker_wait(&p->ticker, d, NULL); }
static int wait_place(struct place *p, int64_t d)
{
    int64_t was = hg_deadline_push(d); /* the call has no deadline of its own */
    int r = hg_group_go(&p->group, NULL, NULL, 0);
    hg_deadline_pop(was);
    return r;
}

static int (*const waits[])(struct place *,
                            int64_t) = {wait_rwlock_read, wait_rwlock_write, wait_sema,
                                        wait_cond,        wait_ticker,       wait_send,
                                        wait_receive,     wait_select,       wait_select_of_nothing,
                                        wait_no_channel,  wait_mutex,        wait_waitgroup,
                                        wait_join,        wait_read,         wait_signal,
                                        wait_sleep,       wait_place};
#define WAITS ((int)(sizeof waits / sizeof waits[0]))

static int last_until_closed(void *arg)
{
    return hg_chan_recv(((struct place *)arg)->empty, NULL, HG_FOREVER) == -EPIPE ? 0 : 1;
}

static int pipe_ends[2];
static void open_place(struct place *p)
{
    int v = 1;
    *p = (struct place){.empty = new_chan(sizeof v, 0, HG_LEAF),
                        .full = new_chan(sizeof v, 1, HG_LEAF)};
    CHECK(hg_chan_send(p->full, &v, HG_NOW) == 0);
    hg_mutex_lock(&p->locked);
    hg_waitgroup_add(&p->work, 1);
    CHECK(hg_rwlock_lock_write(&p->written, HG_NOW) == 0);
    CHECK(hg_ticker_start(&p->ticker, hg_in(SECS(1000)), SECS(1000)) == 0);
    CHECK(hg_go_with(NULL, last_until_closed, p, &p->lasting) == 0);
    CHECK(pipe(pipe_ends) == 0);
    CHECK(hg_fd_open(pipe_ends[0], &p->silent) == 0);
    hg_group_init(&p->group, 1);
    CHECK(hg_group_go(&p->group, last_until_closed, p, 0) == 0);
}
static void close_place(struct place *p)
{
    CHECK(hg_chan_close(p->empty) == 0);
    CHECK(hg_join(p->lasting, HG_FOREVER, NULL) == 0);
    CHECK(hg_group_wait(&p->group, HG_FOREVER) == 0);
    CHECK(hg_fd_close(p->silent) == 0);
    close(pipe_ends[1]);
    hg_mutex_unlock(&p->locked);
    CHECK(hg_mutex_lock_until(&p->locked, HG_NOW) == 0); /* nobody was left in the queue */
    hg_mutex_unlock(&p->locked);
    hg_waitgroup_done(&p->work);
    hg_rwlock_unlock_write(&p->written);
    CHECK(hg_rwlock_lock_write(&p->written, HG_NOW) == 0);
    hg_rwlock_unlock_write(&p->written);
    CHECK(hg_ticker_stop(&p->ticker));
}

struct waiter {
    struct place *p;
    int kind;
    int64_t deadline;
    bool cleanup;
};
static int waiter(void *arg)
{
    struct waiter w = *(struct waiter *)arg;
    hg_add_acqrel(&w.p->begun, 1);
    int r = waits[w.kind](w.p, w.deadline);
    if (r == -ECANCELED) {
        CHECK(hg_cancelled());
        CHECK(waits[w.kind](w.p, HG_FOREVER) == -ECANCELED); /* sticky */
        CHECK(!hg_shield(true));
        CHECK(!hg_cancelled());
        if (waits[w.kind] != wait_place) /* which has the ambient deadline only */
            CHECK(waits[w.kind](w.p, hg_in(MS(2))) == -ETIMEDOUT);
        CHECK(hg_shield(false));
        CHECK(waits[w.kind](w.p, HG_FOREVER) == -ECANCELED);
    }
    return r;
}

static hg_task *start(struct place *p, int kind, int64_t deadline)
{
    struct waiter w = {.p = p, .kind = kind, .deadline = deadline};
    hg_task_attr a = {.size = sizeof a, .copy_bytes = sizeof w};
    hg_task *h;
    CHECK(hg_go_with(&a, waiter, &w, &h) == 0);
    return h;
}

/* A task is cancelled while it waits, before it does, and a moment around it. */
static int cancel_each_wait(void *arg)
{
    struct place p;
    int r;
    (void)arg;
    open_place(&p);
    for (int kind = 0; kind < WAITS; kind++) {
        for (int pause = 0; pause < 3; pause++) {
            hg_store_rlx(&p.begun, 0);
            hg_task *h = start(&p, kind, HG_FOREVER);
            if (pause > 0)
                yield_until(&p.begun, 1);
            if (pause > 1)
                hg_sleep(MS(1));
            hg_cancel(h);
            hg_cancel(h);
            CHECK(hg_join(h, hg_in(SECS(60)), &r) == 0);
            CHECK(r == -ECANCELED);
            hg_cancel(h); /* of one that has ended: nothing */
        }
    }
    close_place(&p);
    return 0;
}
Test(cancel, every_kind_of_wait)
{
    for (int procs = 1; procs <= 3; procs++)
        cr_assert_eq(run_on(procs, cancel_each_wait, NULL), 0);
}
Test(cancel, every_kind_of_wait_while_collecting)
{
    cr_assert_eq(run_collecting(2, cancel_each_wait, NULL), 0);
}

static int ambient_waiter(void *arg)
{
    struct waiter w = *(struct waiter *)arg;
    int64_t end = hg_in(MS(3));
    CHECK(hg_deadline_push(end) == HG_FOREVER);
    CHECK(hg_deadline_push(hg_in(SECS(100))) == end); /* the earlier one holds */
    CHECK(waits[w.kind](w.p, HG_FOREVER) == -ETIMEDOUT);
    CHECK(hg_now() >= end);
    CHECK(waits[w.kind](w.p, hg_in(SECS(100))) == -ETIMEDOUT); /* passed: at once */
    hg_shield(true);
    int64_t until = hg_in(MS(2));
    if (waits[w.kind] != wait_place)
        CHECK(waits[w.kind](w.p, until) == -ETIMEDOUT && hg_now() >= until);
    hg_shield(false);
    hg_deadline_pop(end);
    hg_deadline_pop(HG_FOREVER);
    hg_add_acqrel(&w.p->begun, 1);
    return waits[w.kind](w.p, HG_FOREVER);
}
static int ambient_each_wait(void *arg)
{
    struct place p;
    int r;
    (void)arg;
    open_place(&p);
    for (int kind = 0; kind < WAITS; kind++) {
        struct waiter w = {.p = &p, .kind = kind};
        hg_task_attr a = {.size = sizeof a, .copy_bytes = sizeof w};
        hg_task *h;
        hg_store_rlx(&p.begun, 0);
        CHECK(hg_go_with(&a, ambient_waiter, &w, &h) == 0);
        CHECK(hg_join(h, hg_in(MS(1)), NULL) == -ETIMEDOUT);
        yield_until(&p.begun, 1);
        hg_cancel(h);
        CHECK(hg_join(h, hg_in(SECS(60)), &r) == 0 && r == -ECANCELED);
    }
    close_place(&p);
    return 0;
}
Test(cancel, ambient_deadlines_end_every_kind_of_wait)
{
    for (int procs = 1; procs <= 2; procs++)
        cr_assert_eq(run_on(procs, ambient_each_wait, NULL), 0);
}

/* ---- what is not ended, and what need not wait ---- */

struct finish {
    struct place *p;
    hg_chan *go_on;
    _Atomic int at;
};
static int finish_at_once(void *arg)
{
    struct finish *f = arg;
    int v = 7;
    hg_store_rel(&f->at, 1);
    while (!hg_cancelled())
        hg_yield();
    CHECK(hg_sleep(0) == 0);
    CHECK(hg_chan_send(f->go_on, &v, HG_FOREVER) == 0); /* there is room */
    CHECK(hg_chan_recv(f->go_on, &v, HG_FOREVER) == 0 && v == 7);
    CHECK(hg_chan_recv(f->go_on, &v, HG_NOW) == -EAGAIN);
    CHECK(hg_chan_recv(f->go_on, &v, HG_FOREVER) == -ECANCELED);
    hg_collect(hg_current());
    hg_mutex_lock(&f->p->locked); /* waits, and is not ended */
    hg_mutex_unlock(&f->p->locked);
    return 5;
}
static int not_ended(void *arg)
{
    struct place p;
    struct finish f = {.p = &p, .go_on = new_chan(sizeof(int), 1, HG_LEAF)};
    hg_task *h;
    int r;
    (void)arg;
    open_place(&p);
    CHECK(hg_go_with(NULL, finish_at_once, &f, &h) == 0);
    yield_until(&f.at, 1);
    hg_cancel(h);
    CHECK(hg_join(h, hg_in(MS(5)), &r) == -ETIMEDOUT);
    hg_mutex_unlock(&p.locked);
    CHECK(hg_join(h, HG_FOREVER, &r) == 0 && r == 5);
    hg_mutex_lock(&p.locked);
    close_place(&p);
    return 0;
}
Test(cancel, what_need_not_wait_is_done) { cr_assert_eq(run_on(2, not_ended, NULL), 0); }

static int inherits(void *arg)
{
    int64_t *end = arg;
    if (end == NULL)
        return hg_sleep(SECS(100));
    int64_t now = hg_deadline_push(HG_FOREVER);
    CHECK(now == *end);
    hg_task *h;
    int r;
    CHECK(hg_go_with(NULL, inherits, NULL, &h) == 0);
    CHECK(hg_join(h, HG_FOREVER, &r) == -ETIMEDOUT);
    hg_deadline_pop(HG_FOREVER); /* its own affair; the child keeps it */
    CHECK(hg_join(h, HG_FOREVER, &r) == 0);
    return r;
}
static int inheritance(void *arg)
{
    int64_t end = hg_in(MS(5)), was = hg_deadline_push(end);
    hg_task *h;
    int r;
    (void)arg;
    CHECK(hg_go_with(NULL, inherits, &end, &h) == 0);
    hg_deadline_pop(was);
    CHECK(hg_join(h, HG_FOREVER, &r) == 0 && r == -ETIMEDOUT);
    return 0;
}
Test(cancel, children_inherit_the_deadline) { cr_assert_eq(run_on(2, inheritance, NULL), 0); }

/* ---- races ---- */

/* A sender and a canceller race for one receiver: each value that was sent is received, and none
 * that was not. */
struct race {
    hg_chan *c;
    _Atomic int ready;
};
static int race_receiver(void *arg)
{
    struct race *x = arg;
    int v = 0;
    hg_add_acqrel(&x->ready, 1);
    int r = hg_chan_recv(x->c, &v, HG_FOREVER);
    return r == 0 ? v : r;
}
static int race_rounds(void *arg)
{
    int rounds = *(int *)arg, both[2] = {0, 0};
    hg_chan *c = new_chan(sizeof(int), 0, HG_LEAF);
    for (int i = 1; i <= rounds; i++) {
        struct race x = {.c = c};
        hg_task *h;
        int r = 0;
        CHECK(hg_go_with(NULL, race_receiver, &x, &h) == 0);
        if (i % 3 != 0)
            yield_until(&x.ready, 1);
        if (i % 2 == 0)
            hg_cancel(h);
        int sent = hg_chan_send(c, &i, i % 2 == 0 ? HG_NOW : hg_in(MS(1)));
        hg_cancel(h);
        CHECK(hg_join(h, HG_FOREVER, &r) == 0);
        CHECK(sent == 0 ? r == i : r == -ECANCELED);
        both[sent == 0]++;
    }
    CHECK(both[0] > 0 && both[1] > 0);
    return 0;
}
Test(cancel, races_with_a_value)
{
    int rounds = (int)test_scaled(4000);
    cr_assert_eq(run_on(2, race_rounds, &rounds), 0);
}

/* Handles of tasks that have ended do not reach the tasks that have their stacks now. */
static int nothing(void *arg)
{
    (void)arg;
    return 0;
}
static int sleep_ns(void *ns) { return hg_sleep(*(int64_t *)ns); }
static int stale_handles(void *arg)
{
    enum { N = 64 };
    static hg_task *old[N], *fresh[N];
    int64_t ms = MS(2);
    (void)arg;
    CHECK(hg_root_add(hg_current(), old, N, HG_REFS) == 0);
    CHECK(hg_root_add(hg_current(), fresh, N, HG_REFS) == 0);
    for (int i = 0; i < N; i++)
        CHECK(hg_go_with(NULL, nothing, NULL, &old[i]) == 0);
    for (int i = 0; i < N; i++)
        CHECK(hg_join(old[i], HG_FOREVER, NULL) == 0);
    for (int i = 0; i < N; i++)
        CHECK(hg_go_with(NULL, sleep_ns, &ms, &fresh[i]) == 0);
    for (int i = 0; i < N; i++)
        hg_cancel(old[i]);
    for (int i = 0; i < N; i++) {
        int r;
        CHECK(hg_join(fresh[i], HG_FOREVER, &r) == 0 && r == 0);
    }
    CHECK(hg_root_remove(hg_current(), old) == 0 && hg_root_remove(hg_current(), fresh) == 0);
    return 0;
}
Test(cancel, a_stale_handle_reaches_nobody) { cr_assert_eq(run_on(2, stale_handles, NULL), 0); }

/* A deadlock is one also if a wait could be cancelled; the report names where. */
static int wait_for_ever(void *arg)
{
    hg_group *g = arg;
    return g == NULL ? hg_chan_recv(NULL, NULL, HG_FOREVER) : hg_group_wait(g, HG_FOREVER);
}
static int deadlocked(void *arg)
{
    hg_group g;
    (void)arg;
    hg_group_init(&g, 0);
    CHECK(hg_group_go(&g, wait_for_ever, NULL, 0) == 0);
    return wait_for_ever(&g);
}
static void run_deadlocked(void *arg)
{
    (void)arg;
    _exit(run_on(2, deadlocked, NULL));
}
Test(cancel, deadlocks_are_reported)
{
    struct test_child c;
    test_child_run(&c, 60, run_deadlocked, NULL);
    cr_assert_eq(c.signal, SIGABRT, "%s", c.text);
    cr_assert(strstr(c.text, "deadlock") != NULL, "%s", c.text);
    cr_assert(strstr(c.text, "task 1: group") != NULL, "%s", c.text);
}

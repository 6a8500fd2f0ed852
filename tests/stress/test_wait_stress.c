/* test_wait_stress.c: thousands of tasks wait in every kind of call, and are woken, timed out,
 * cancelled one by one and by group, and shut down at random, with collections running. Each ends
 * exactly once, with a reason that happened:
 *
 *   0           as many as were woken: values sent and received, locks, ...
 *   -EPIPE      only after the channel was closed
 *   -ETIMEDOUT  only at or after the task's deadline, its own or the ambient one
 *   -ECANCELED  only after somebody began to cancel the task, its group, or everything
 *
 * A flag is set before what it stands for begins, so that who sees the effect must see the flag. */
#include "base/rand.h"
#include "tests/support/test.h"
#include "tests/unit/test_sync.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#define MS(n)     ((int64_t)(n)*1000000)
#define SECS(n)   MS((n)*1000)
#define TASKS_MAX 3000
#define PIPES     8

enum kind { RECEIVE, SEND, SELECT, MUTEX, WAITGROUP, JOIN, SLEEP, PLACE, GROUP, READ, KINDS };

struct waiter {
    int64_t deadline;
    enum kind kind;
    bool ambient; /* the deadline is */
    bool grouped;
    _Atomic int canceled; /* somebody has begun to */
    _Atomic int ended;    /* how often */
    int result;
};

/* One round. References: in static variables that are roots. */
static struct {
    struct waiter w[TASKS_MAX];
    int n;
    hg_mutex mutex;
    hg_waitgroup work;
    hg_group group; /* of those that are grouped, */
    hg_group full;  /* and one with a member that lasts */
    int pipe[PIPES][2];
    _Atomic int reading[PIPES];
    _Atomic int sent, received, closed, unlocked, done, group_canceled;
    _Atomic int ended, written;
    uint64_t seed;
} all;
static _Atomic int shut;  /* a shutdown has begun */
static hg_chan *chans[3]; /* to receive from, to send to (full), never used */
static hg_fd *fds[PIPES];
static hg_task *handles[TASKS_MAX], *lasting;

static int last(void *unused)
{
    (void)unused;
    int r = hg_chan_recv(chans[2], NULL, HG_FOREVER);
    return r == -EPIPE || (r == -ECANCELED && hg_load_acq(&shut)) ? 0 : 1;
}

static int member(void *unused)
{
    (void)unused;
    int r = hg_chan_recv(chans[2], NULL, HG_FOREVER);
    return r == -EPIPE ? 0 : r;
}

/* Its own, as a wait that is cancelled cancels the group. */
static int wait_for_own_group(int64_t d)
{
    hg_group g;
    hg_group_init(&g, 1);
    int r = hg_group_go(&g, member, NULL, 0);
    if (r != 0)
        return r;
    r = hg_group_wait(&g, d);
    if (r == -ETIMEDOUT) { /* d: it lives */
        hg_group_cancel(&g);
        bool was = hg_shield(true);
        int all_of_it = hg_group_wait(&g, HG_FOREVER);
        CHECK(all_of_it == 0 || all_of_it == -ECANCELED || all_of_it == -ETIMEDOUT);
        hg_shield(was);
    }
    return r;
}

static int wait_once(struct waiter *w, int i, int64_t d)
{
    int v = i;
    switch (w->kind) {
    case RECEIVE:
        return hg_chan_recv(chans[0], &v, d);
    case SEND:
        return hg_chan_send(chans[1], &v, d);
    case SELECT: {
        hg_case c[3] = {
            {.chan = chans[2]}, {.chan = chans[0], .recv = &v}, {.chan = chans[1], .send = &v}};
        int r = hg_select(c, 3, d);
        return r < 0 ? r : c[r].result != 0 ? c[r].result : r == 2 ? 1 : 0;
    }
    case MUTEX: {
        int r = hg_mutex_lock_until(&all.mutex, d);
        if (r == 0)
            hg_mutex_unlock(&all.mutex);
        return r;
    }
    case WAITGROUP:
        return hg_waitgroup_wait(&all.work, d);
    case JOIN:
        return hg_join(lasting, d, NULL);
    case PLACE:
        return hg_group_go(&all.full, last, NULL, 0);
    case GROUP:
        return wait_for_own_group(d);
    case READ: {
        char c;
        int at = i % PIPES;
        if (hg_xchg_acqrel(&all.reading[at], 1) != 0)
            return hg_sleep_until(d);
        ssize_t r = hg_fd_read(fds[at], &c, 1, d);
        hg_store_rel(&all.reading[at], 0);
        return r == 1 ? 2 : (int)r;
    }
    default:
        return hg_sleep_until(d);
    }
}

/* Whether the wait may have ended so, looked at when it has. */
static bool happened(const struct waiter *w, int r)
{
    switch (r) {
    case -ECANCELED:
        return hg_load_acq(&w->canceled) || (w->grouped && hg_load_acq(&all.group_canceled)) ||
               hg_load_acq(&shut);
    case -ETIMEDOUT:
        return hg_now() >= w->deadline;
    case -EPIPE:
        return (w->kind == RECEIVE || w->kind == SEND || w->kind == SELECT) &&
               hg_load_acq(&all.closed);
    case 2:
        return w->kind == READ && hg_load_acq(&all.written) > 0;
    case 1:
        return w->kind == SELECT && hg_load_acq(&all.received) > 0;
    case 0:
        break;
    default:
        return false;
    }
    switch (w->kind) {
    case MUTEX:
        return hg_load_acq(&all.unlocked);
    case WAITGROUP:
        return hg_load_acq(&all.done);
    case JOIN:
    case PLACE:
    case GROUP:
        return hg_load_acq(&all.closed) || hg_load_acq(&shut);
    case RECEIVE:
    case SELECT:
        return hg_load_acq(&all.sent) > 0;
    case SEND:
        return hg_load_acq(&all.received) > 0;
    default:
        return hg_now() >= w->deadline;
    }
}

static void cleanup(void *w)
{
    hg_add_acqrel(&((struct waiter *)w)->ended, 1);
    int64_t until = hg_in(1000);
    CHECK(hg_chan_recv(NULL, NULL, until) == -ETIMEDOUT && hg_now() >= until); /* shielded */
    hg_add_acqrel(&all.ended, 1);
}

static int waiter(void *arg)
{
    int i = *(int *)arg;
    struct waiter *w = &all.w[i];
    hg_defer_node d;
    hg_defer(&d, cleanup, w);
    void *garbage = hg_alloc(64 + (size_t)(i % 7) * 100, HG_LEAF);
    if (w->ambient)
        hg_deadline_push(w->deadline);
    int r = wait_once(w, i, w->ambient ? HG_FOREVER : w->deadline);
    if (!happened(w, r)) {
        fprintf(stderr, "task %d, kind %d, grouped %d, ambient %d: ended with %d\n", i,
                (int)w->kind, w->grouped, w->ambient, r);
        CHECK(false);
    }
    hg_keep_alive(garbage);
    w->result = r;
    if (i % 2 != 0)
        hg_task_exit(r == -EPIPE || r > 0 ? 0 : r);
    hg_defer_run(&d);
    return w->grouped ? 0 : r;
}

static void begin(struct hg_rand *rand)
{
    int v = -1;
    int n = all.n;
    uint64_t seed = all.seed;
    memset(&all, 0, sizeof all);
    all.n = n;
    all.seed = seed;
    for (int i = 0; i < 3; i++)
        hg_ref_store(&chans[i], new_chan(sizeof v, i == 1 ? 1 : 0, HG_LEAF));
    CHECK(hg_chan_send(chans[1], &v, HG_NOW) == 0);
    hg_mutex_lock(&all.mutex);
    hg_waitgroup_add(&all.work, 1);
    hg_group_init(&all.group, 0);
    hg_group_init(&all.full, 1);
    CHECK(hg_go_with(NULL, last, NULL, &lasting) == 0);
    CHECK(hg_group_go(&all.full, last, NULL, 0) == 0);
    for (int i = 0; i < PIPES; i++) {
        CHECK(pipe(all.pipe[i]) == 0);
        CHECK(hg_fd_open(all.pipe[i][0], &fds[i]) == 0);
    }
    for (int i = 0; i < n; i++) {
        struct waiter *w = &all.w[i];
        w->kind = (enum kind)hg_rand_below(rand, KINDS);
        uint32_t span = hg_rand_below(rand, 3);
        w->deadline =
            span == 0 ? HG_FOREVER : hg_in(hg_rand_below(rand, span == 1 ? 2000000 : 40000000));
        w->ambient = w->kind == PLACE || hg_rand_below(rand, 3) == 0;
        w->grouped = hg_rand_below(rand, 2) != 0;
        hg_task_attr a = {.size = sizeof a, .copy_bytes = sizeof i};
        if (w->grouped && i % 2 == 0) /* the odd ones end with their result, which would cancel */
            a.group = &all.group;
        else
            w->grouped = false;
        CHECK(hg_go_with(&a, waiter, &i, &handles[i]) == 0);
    }
}

static void cancel_some(struct hg_rand *rand, int count)
{
    for (int i = 0; i < count; i++) {
        uint32_t at = hg_rand_below(rand, (uint32_t)all.n);
        hg_store_sc(&all.w[at].canceled, 1);
        hg_cancel(handles[at]);
    }
}

/* Values that are sent meet receivers; values are taken from senders. */
static void move_values(struct hg_rand *rand, int count)
{
    for (int i = 0; i < count; i++) {
        int v = 0;
        if (hg_rand_below(rand, 2) != 0) {
            hg_add_acqrel(&all.sent, 1);
            if (hg_chan_send(chans[0], &v, HG_NOW) != 0)
                hg_sub_acqrel(&all.sent, 1);
        } else {
            hg_add_acqrel(&all.received, 1);
            if (hg_chan_recv(chans[1], &v, HG_NOW) != 0)
                hg_sub_acqrel(&all.received, 1);
        }
    }
}

static void write_some(struct hg_rand *rand)
{
    hg_add_acqrel(&all.written, 1);
    CHECK(write(all.pipe[hg_rand_below(rand, PIPES)][1], "x", 1) == 1);
}

static void agent(void *seed)
{
    struct hg_rand rand;
    rand.state = *(uint64_t *)seed;
    hg_shield(true);
    for (int i = 0; i < 40; i++) {
        switch (hg_rand_below(&rand, 5)) {
        case 0:
            move_values(&rand, 20);
            break;
        case 1:
            write_some(&rand);
            break;
        case 2:
            hg_sleep(hg_rand_below(&rand, 100000));
            break;
        default:
            cancel_some(&rand, all.n / 100 + 1);
        }
        hg_yield();
    }
    hg_add_acqrel(&all.ended, 1);
}

static void let_all_go(struct hg_rand *rand)
{
    if (hg_rand_below(rand, 2) != 0) {
        hg_store_sc(&all.group_canceled, 1);
        hg_group_cancel(&all.group);
    }
    hg_store_sc(&all.unlocked, 1);
    hg_mutex_unlock(&all.mutex);
    hg_store_sc(&all.done, 1);
    hg_waitgroup_done(&all.work);
    hg_store_sc(&all.closed, 1);
    for (int i = 0; i < 3; i++)
        CHECK(hg_chan_close(chans[i]) == 0);
    for (int i = 0; i < all.n; i++) /* the rest: who sleeps or reads without end */
        if (hg_load_acq(&all.w[i].ended) == 0 &&
            (all.w[i].kind == SLEEP || all.w[i].kind == READ)) {
            hg_store_sc(&all.w[i].canceled, 1);
            hg_cancel(handles[i]);
        }
}

/* As many received and sent as there were values for them, and each ended once. */
static void judge(void)
{
    int received = 0, sent = 0, ended = 0;
    for (int i = 0; i < all.n; i++) {
        struct waiter *w = &all.w[i];
        ended += hg_load_acq(&w->ended);
        CHECK(hg_load_acq(&w->ended) == 1);
        received += w->result == 0 && (w->kind == RECEIVE || w->kind == SELECT);
        sent += (w->result == 0 && w->kind == SEND) || (w->result == 1 && w->kind == SELECT);
    }
    CHECK(ended == all.n);
    CHECK(received == hg_load_acq(&all.sent));
    /* One value lay in the buffer before, and one may lie there now. */
    int room = hg_load_acq(&all.received) - sent;
    CHECK(room == 0 || room == 1);
}

static void end_round(void)
{
    while (hg_load_acq(&all.ended) < all.n + 3) /* the agents too */
        hg_yield();
    for (int i = 0; i < all.n; i++)
        CHECK(hg_join(handles[i], HG_FOREVER, NULL) == 0);
    CHECK(hg_join(lasting, HG_FOREVER, NULL) == 0);
    (void)hg_group_wait(&all.group, HG_FOREVER);
    (void)hg_group_wait(&all.full, HG_FOREVER);
    for (int i = 0; i < PIPES; i++) {
        CHECK(hg_fd_close(fds[i]) == 0);
        close(all.pipe[i][1]);
    }
    judge();
}

static int rounds(void *count)
{
    hg_runtime *rt = hg_current();
    struct hg_rand rand;
    rand.state = all.seed;
    CHECK(hg_root_add(rt, chans, 3, HG_REFS) == 0 && hg_root_add(rt, fds, PIPES, HG_REFS) == 0);
    CHECK(hg_root_add(rt, handles, TASKS_MAX, HG_REFS) == 0 &&
          hg_root_add(rt, &lasting, 1, HG_REFS) == 0);
    for (int i = 0; i < *(int *)count; i++) {
        begin(&rand);
        uint64_t seeds[3];
        for (int a = 0; a < 3; a++) {
            seeds[a] = hg_rand_next(&rand);
            CHECK(hg_go(agent, &seeds[a]) == 0);
        }
        hg_sleep(hg_rand_below(&rand, 20000000));
        let_all_go(&rand);
        end_round();
    }
    return 0;
}

static hg_options options(int procs, bool check)
{
    hg_options o;
    hg_options_init(&o, sizeof o);
    o.procs = procs;
    o.poison = true;
    o.stress = 5;
    o.check = check;
    return o;
}

Test(wait_stress, every_wait_ends_once_for_a_reason)
{
    uint64_t seed = test_seed("every_wait_ends_once_for_a_reason");
    for (int procs = 1; procs <= 3; procs++) {
        hg_options o = options(procs, procs != 3);
        int count = (int)test_scaled(4);
        all.n = (int)test_scaled(TASKS_MAX);
        all.seed = seed + (uint64_t)procs;
        cr_assert_eq(hg_run(rounds, &count, &o), 0);
    }
}

/* ---- shut down at any moment ---- */

static void begin_and_go_on(void *unused)
{
    hg_runtime *rt = hg_current();
    struct hg_rand rand;
    uint64_t seed;
    (void)unused;
    rand.state = all.seed;
    seed = hg_rand_next(&rand);
    CHECK(hg_root_add(rt, chans, 3, HG_REFS) == 0 && hg_root_add(rt, fds, PIPES, HG_REFS) == 0);
    CHECK(hg_root_add(rt, handles, TASKS_MAX, HG_REFS) == 0 &&
          hg_root_add(rt, &lasting, 1, HG_REFS) == 0);
    hg_shield(true); /* a shutdown may have begun; the tasks are to be started all the same */
    begin(&rand);
    CHECK(hg_go(agent, &seed) == 0);
    hg_add_acqrel(&all.ended, 1);
    while (hg_load_acq(&all.ended) < 2) /* its seed is in this frame */
        hg_yield();
}

Test(wait_stress, shut_down_at_any_moment)
{
    uint64_t seed = test_seed("shut_down_at_any_moment");
    struct hg_rand rand;
    rand.state = seed;
    for (int i = 0; i < (int)test_scaled(12); i++) {
        hg_options o = options(1 + i % 3, false);
        hg_runtime *rt;
        all.n = (int)test_scaled(1000);
        all.seed = hg_rand_next(&rand);
        cr_assert_eq(hg_runtime_open(&o, &rt), 0);
        cr_assert_eq(hg_post(rt, begin_and_go_on, NULL), 0);
        usleep(hg_rand_below(&rand, 30000)); /* any moment will do */
        hg_store_sc(&shut, 1);
        cr_assert_eq(hg_runtime_shutdown(rt, hg_in(SECS(60))), 0);
        cr_assert_eq(hg_runtime_close(rt), 0);
        for (int w = 0; w < all.n; w++)
            cr_assert_eq(hg_load_acq(&all.w[w].ended), 1);
        for (int p = 0; p < PIPES; p++)
            close(all.pipe[p][1]);
    }
}

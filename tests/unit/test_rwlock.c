/* test_rwlock.c: reader-writer lock: exclusion, order, deadlines that race with handing over. */
#include "base/rand.h"
#include "tests/support/test.h"
#include "tests/unit/test_sync.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <signal.h>
#include <string.h>

TestSuite(rwlock, .timeout = 60);

#define MS INT64_C(1000000)
#define S  (1000 * MS)

static int on_procs[] = {1, 2, 4};

static int basics(void *arg)
{
    hg_rwlock l = {{0}};
    (void)arg;
    CHECK(hg_rwlock_lock_read(&l, HG_NOW) == 0);
    CHECK(hg_rwlock_lock_read(&l, HG_NOW) == 0); /* nobody waits: another reader is let in */
    CHECK(hg_rwlock_lock_write(&l, HG_NOW) == -EAGAIN);
    int64_t until = hg_in(MS);
    CHECK(hg_rwlock_lock_write(&l, until) == -ETIMEDOUT && hg_now() >= until);
    hg_rwlock_unlock_read(&l);
    CHECK(hg_rwlock_lock_write(&l, HG_NOW) == -EAGAIN);
    hg_rwlock_unlock_read(&l);
    CHECK(hg_rwlock_lock_write(&l, HG_NOW) == 0);
    CHECK(hg_rwlock_lock_write(&l, HG_NOW) == -EAGAIN);
    CHECK(hg_rwlock_lock_read(&l, HG_NOW) == -EAGAIN);
    CHECK(hg_rwlock_lock_read(&l, hg_in(MS)) == -ETIMEDOUT);
    hg_rwlock_unlock_write(&l);
    CHECK(l.w[0] == 0 && l.w[1] == 0); /* those that gave up have left nothing behind */
    return 0;
}
Test(rwlock, basics) { cr_assert_eq(run_on(1, basics, NULL), 0); }

Test(rwlock, outside_of_tasks)
{
    hg_rwlock l = {{0}};
    cr_assert_eq(hg_rwlock_lock_write(&l, HG_FOREVER), 0);
    cr_assert_eq(hg_rwlock_lock_read(&l, HG_NOW), -EAGAIN);
    cr_assert_eq(hg_rwlock_lock_read(&l, HG_FOREVER), -EPERM);
    hg_rwlock_unlock_write(&l);
    cr_assert_eq(hg_rwlock_lock_read(&l, HG_FOREVER), 0);
    hg_rwlock_unlock_read(&l);
}

static void unlock_nothing(void *arg)
{
    hg_rwlock l = {{0}};
    (void)arg;
    hg_rwlock_unlock_read(&l);
}
static void unlock_write_of_reader(void *arg)
{
    hg_rwlock l = {{0}};
    (void)arg;
    if (hg_rwlock_lock_read(&l, HG_NOW) == 0)
        hg_rwlock_unlock_write(&l);
}
Test(rwlock, unlocking_what_is_not_locked_is_fatal)
{
    struct test_child child;
    test_child_run(&child, 20, unlock_nothing, NULL);
    cr_assert(child.signal == SIGABRT && strstr(child.text, "no reader holds") != NULL);
    test_child_run(&child, 20, unlock_write_of_reader, NULL);
    cr_assert(child.signal == SIGABRT && strstr(child.text, "no writer holds") != NULL);
}

/* ---- order ---- */

/* Tasks queue up one after the other behind a writer; each notes when it got the lock. On one proc,
 * so that the order in which they come is certain. */
struct line {
    hg_rwlock l;
    _Atomic int waiting, inside, got;
    int order[16], together[16];
};
struct place {
    struct line *line;
    int id;
    bool write;
    int64_t deadline;
};
static void stand_in_line(void *arg)
{
    struct place p = *(struct place *)arg;
    struct line *x = p.line;
    hg_add_acqrel(&x->waiting, 1);
    int r =
        p.write ? hg_rwlock_lock_write(&x->l, p.deadline) : hg_rwlock_lock_read(&x->l, p.deadline);
    if (p.deadline != HG_FOREVER) {
        CHECK(r == -ETIMEDOUT);
        return;
    }
    CHECK(r == 0);
    hg_add_acqrel(&x->inside, 1);
    x->order[hg_add_acqrel(&x->got, 1)] = p.id;
    hg_yield();
    hg_yield();
    x->together[p.id] = hg_load_acq(&x->inside);
    hg_sub_acqrel(&x->inside, 1);
    if (p.write)
        hg_rwlock_unlock_write(&x->l);
    else
        hg_rwlock_unlock_read(&x->l);
}
static void line_up(struct line *x, const char *kinds, int64_t deadline)
{
    for (int i = 0; kinds[i] != 0; i++) {
        struct place p = {x, i, kinds[i] == 'W' || kinds[i] == 'w',
                          kinds[i] == 'w' ? deadline : HG_FOREVER};
        CHECK(hg_go_copy(stand_in_line, &p, sizeof p) == 0);
        yield_until(&x->waiting, i + 1);
        hg_yield();
    }
}
static int first_come(void *arg)
{
    struct line x = {.got = 0};
    (void)arg;
    CHECK(hg_rwlock_lock_write(&x.l, HG_FOREVER) == 0);
    line_up(&x, "RRWRWWRRR", HG_FOREVER);
    CHECK(hg_load_acq(&x.got) == 0);
    hg_rwlock_unlock_write(&x.l);
    yield_until(&x.got, 9);
    yield_until(&x.inside, 0);
    CHECK(hg_rwlock_lock_write(&x.l, HG_FOREVER) == 0);
    static const int place_of[] = {0, 0, 2, 3, 4, 5, 6, 6, 6}; /* group in which each comes */
    for (int i = 0; i < 9; i++)
        CHECK(i == 0 || place_of[x.order[i - 1]] <= place_of[x.order[i]]);
    CHECK(x.together[2] == 1 && x.together[4] == 1 && x.together[5] == 1 && x.together[3] == 1);
    CHECK(x.together[0] == 2 && x.together[6] == 3); /* readers beside each other */
    hg_rwlock_unlock_write(&x.l);
    CHECK(x.l.w[0] == 0 && x.l.w[1] == 0);
    return 0;
}
Test(rwlock, first_come_first_served) { cr_assert_eq(run_on(1, first_come, NULL), 0); }

/* A writer that gives up lets the readers behind it join those that hold the lock. */
static int writer_gives_up(void *arg)
{
    struct line x = {.got = 0};
    (void)arg;
    CHECK(hg_rwlock_lock_read(&x.l, HG_FOREVER) == 0);
    line_up(&x, "wRR", hg_in(5 * MS));
    CHECK(hg_load_acq(&x.got) == 0);
    for (int64_t until = hg_in(20 * S); hg_load_acq(&x.got) != 2; hg_sleep(MS))
        CHECK(hg_now() < until);
    yield_until(&x.inside, 0);
    hg_rwlock_unlock_read(&x.l);
    hg_yield();
    CHECK(x.l.w[0] == 0 && x.l.w[1] == 0);
    return 0;
}
Test(rwlock, a_writer_that_gives_up) { cr_assert_eq(run_on(1, writer_gives_up, NULL), 0); }

/* ---- random ---- */

struct crowd {
    hg_rwlock l;
    hg_waitgroup g;
    uint64_t seed;
    int rounds;
    int64_t value[4]; /* l: all the same */
    _Atomic int readers, writers, got, gave_up;
};
static void enter_write(struct crowd *c, struct hg_rand *rand)
{
    CHECK(hg_add_acqrel(&c->writers, 1) == 0 && hg_load_acq(&c->readers) == 0);
    for (int i = 0; i < 4; i++)
        c->value[i]++;
    if (hg_rand_below(rand, 4) == 0)
        hg_yield();
    CHECK(hg_sub_acqrel(&c->writers, 1) == 1 && hg_load_acq(&c->readers) == 0);
    hg_rwlock_unlock_write(&c->l);
}
static void enter_read(struct crowd *c, struct hg_rand *rand)
{
    hg_add_acqrel(&c->readers, 1);
    CHECK(hg_load_acq(&c->writers) == 0);
    int64_t v = c->value[0];
    if (hg_rand_below(rand, 4) == 0)
        hg_yield();
    for (int i = 0; i < 4; i++)
        CHECK(c->value[i] == v);
    hg_sub_acqrel(&c->readers, 1);
    hg_rwlock_unlock_read(&c->l);
}
static int64_t some_deadline(struct hg_rand *rand)
{
    switch (hg_rand_below(rand, 4)) {
    case 0:
        return HG_NOW;
    case 1:
        return HG_FOREVER;
    default:
        return hg_in(hg_rand_below(rand, 20000));
    }
}
static void join_crowd(void *arg)
{
    struct crowd *c = arg;
    struct hg_rand rand = {c->seed + hg_task_id()};
    for (int i = 0; i < c->rounds; i++) {
        bool write = hg_rand_below(&rand, 4) == 0;
        int64_t deadline = some_deadline(&rand);
        int r =
            write ? hg_rwlock_lock_write(&c->l, deadline) : hg_rwlock_lock_read(&c->l, deadline);
        hg_add_acqrel(r == 0 ? &c->got : &c->gave_up, 1);
        if (r != 0)
            CHECK(deadline != HG_FOREVER && r == (deadline == HG_NOW ? -EAGAIN : -ETIMEDOUT));
        else if (write)
            enter_write(c, &rand);
        else
            enter_read(c, &rand);
        if (hg_rand_below(&rand, 4) == 0)
            hg_yield();
    }
    hg_waitgroup_done(&c->g);
}
static int random_crowd(void *arg)
{
    enum { TASKS = 20 };
    struct crowd c = {.seed = *(uint64_t *)arg, .rounds = (int)test_scaled(8000)};
    hg_waitgroup_add(&c.g, TASKS);
    for (int i = 0; i < TASKS; i++)
        go(join_crowd, &c);
    CHECK(hg_waitgroup_wait(&c.g, hg_in(50 * S)) == 0);
    CHECK(c.got > 0 && c.gave_up > 0);
    CHECK(c.l.w[0] == 0 && c.l.w[1] == 0);
    return 0;
}
Test(rwlock, random_crowds)
{
    uint64_t seed = test_seed("random_crowds");
    for (int procs = 1; procs <= 4; procs *= 2) {
        cr_assert_eq(run_on(procs, random_crowd, &seed), 0);
        cr_assert_eq(run_on_seed(procs, seed | 1, random_crowd, &seed), 0);
    }
}

/* ---- nobody starves ---- */

struct stream {
    hg_rwlock l;
    hg_waitgroup g;
    _Atomic int over;
};
static void read_on(void *arg)
{
    struct stream *s = arg;
    while (hg_load_acq(&s->over) == 0) {
        CHECK(hg_rwlock_lock_read(&s->l, HG_FOREVER) == 0);
        hg_yield(); /* so that there always is a reader inside */
        hg_rwlock_unlock_read(&s->l);
    }
    hg_waitgroup_done(&s->g);
}
static void write_on(void *arg)
{
    struct stream *s = arg;
    while (hg_load_acq(&s->over) == 0) {
        CHECK(hg_rwlock_lock_write(&s->l, HG_FOREVER) == 0);
        hg_yield();
        hg_rwlock_unlock_write(&s->l);
    }
    hg_waitgroup_done(&s->g);
}
static int among(void (*others)(void *), bool write)
{
    struct stream s = {.over = 0};
    hg_waitgroup_add(&s.g, 8);
    for (int i = 0; i < 8; i++)
        go(others, &s);
    hg_yield();
    for (int i = 0; i < 200; i++) {
        int64_t deadline = hg_in(20 * S);
        CHECK((write ? hg_rwlock_lock_write(&s.l, deadline)
                     : hg_rwlock_lock_read(&s.l, deadline)) == 0);
        if (write)
            hg_rwlock_unlock_write(&s.l);
        else
            hg_rwlock_unlock_read(&s.l);
    }
    hg_store_rel(&s.over, 1);
    CHECK(hg_waitgroup_wait(&s.g, HG_FOREVER) == 0);
    return 0;
}
static int nobody_starves(void *arg)
{
    (void)arg;
    return among(read_on, true) + among(write_on, false);
}
ParameterizedTestParameters(rwlock, nobody_starves)
{
    return cr_make_param_array(int, on_procs, 3);
}
ParameterizedTest(int *procs, rwlock, nobody_starves)
{
    cr_assert_eq(run_on(*procs, nobody_starves, NULL), 0);
}

/* test_chan_stress.c: channels under races: deadlines against values, close against sends,
 * starvation, references in motion while cycles run. Seeds are printed and taken back;
 * HEDGE_TEST_SCALE makes the tests smaller.
 */
#include "base/atomic.h"
#include "base/rand.h"
#include "tests/support/test.h"
#include "tests/unit/test_sync.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <string.h>

TestSuite(chan_stress, .timeout = 120);

static int on_procs[] = {1, 2, 4};
#define ON_PROCS(name)                                   \
    ParameterizedTestParameters(chan_stress, name)       \
    {                                                    \
        return cr_make_param_array(int, on_procs, 3);    \
    }                                                    \
    ParameterizedTest(int *procs, chan_stress, name)     \
    {                                                    \
        uint64_t seed = test_seed("chan_stress/" #name); \
        cr_assert_eq(run_on(*procs, name, &seed), 0);    \
    }

/* ---- deadlines against values ---- */

/* Senders and receivers give up after random short times. What was sent is what was received and
 * what is left: no value is lost when a deadline and a partner race, none is taken twice. */
struct race {
    uint64_t seed;
    hg_chan *c;
    hg_waitgroup tasks;
    uint64_t rounds;
    _Atomic uint64_t sent, sent_sum, received, received_sum, gave_up;
};
static int64_t short_deadline(struct hg_rand *rand)
{
    switch (hg_rand_below(rand, 4)) {
    case 0:
        return HG_NOW;
    case 1:
        return hg_in(0);
    case 2:
        return hg_in((int64_t)hg_rand_below(rand, 1000));
    default:
        return hg_in((int64_t)hg_rand_below(rand, 20000));
    }
}
static void race_send(void *arg)
{
    struct race *r = arg;
    struct hg_rand rand = {r->seed + hg_task_id()};
    for (uint64_t i = 0; i < r->rounds; i++) {
        uint64_t value = hg_rand_next(&rand) >> 20;
        int result = hg_chan_send(r->c, &value, short_deadline(&rand));
        if (result == 0) {
            hg_add_acqrel(&r->sent, 1);
            hg_add_acqrel(&r->sent_sum, value);
        } else {
            CHECK(result == -EAGAIN || result == -ETIMEDOUT);
            hg_add_acqrel(&r->gave_up, 1);
            hg_yield();
        }
    }
    hg_waitgroup_done(&r->tasks);
}
static void race_receive(void *arg)
{
    struct race *r = arg;
    struct hg_rand rand = {r->seed + hg_task_id()};
    for (uint64_t i = 0; i < r->rounds; i++) {
        uint64_t value = 0;
        int result = hg_chan_recv(r->c, &value, short_deadline(&rand));
        if (result == 0) {
            hg_add_acqrel(&r->received, 1);
            hg_add_acqrel(&r->received_sum, value);
        } else {
            CHECK(value == 0 && (result == -EAGAIN || result == -ETIMEDOUT));
            hg_add_acqrel(&r->gave_up, 1);
            hg_yield();
        }
    }
    hg_waitgroup_done(&r->tasks);
}
static int deadlines_against_values(void *arg)
{
    enum { PAIRS = 4 };
    for (size_t cap = 0; cap < 3; cap++) {
        struct race r = {.seed = *(uint64_t *)arg + cap,
                         .c = new_chan(sizeof(uint64_t), cap, HG_LEAF),
                         .rounds = test_scaled(100000) / PAIRS};
        uint64_t left = 0, value;
        hg_waitgroup_add(&r.tasks, 2 * PAIRS);
        for (int i = 0; i < PAIRS; i++) {
            go(race_send, &r);
            go(race_receive, &r);
        }
        CHECK(hg_waitgroup_wait(&r.tasks, HG_FOREVER) == 0);
        while (hg_chan_recv(r.c, &value, HG_NOW) == 0) {
            hg_add_acqrel(&r.received_sum, value);
            left++;
        }
        CHECK(left <= cap);
        CHECK(hg_load_acq(&r.sent) == hg_load_acq(&r.received) + left);
        CHECK(hg_load_acq(&r.sent_sum) == hg_load_acq(&r.received_sum));
        CHECK(hg_load_acq(&r.sent) > 0 && hg_load_acq(&r.gave_up) > 0);
    }
    return 0;
}
ON_PROCS(deadlines_against_values)

/* ---- close against sends ---- */

/* Three channels, one of which is closed while tasks send on all of them and select receives. The
 * select that is woken by the close knows its index, and what was sent there before was
 * received. */
struct closing {
    uint64_t seed;
    hg_chan *c[3];
    int which;
    hg_waitgroup senders, receivers;
    _Atomic uint64_t sent[3], received[3];
    _Atomic int stop;
};
static void send_until_closed(void *arg)
{
    struct closing *k = arg;
    struct hg_rand rand = {k->seed + hg_task_id()};
    while (hg_load_acq(&k->stop) == 0) {
        int i = (int)hg_rand_below(&rand, 3);
        int r = hg_chan_send(k->c[i], &i, hg_in(100000));
        CHECK(r == 0 || r == -ETIMEDOUT || (r == -EPIPE && i == k->which));
        if (r == 0)
            hg_add_acqrel(&k->sent[i], 1);
        if (r == -EPIPE && hg_rand_below(&rand, 2) == 0)
            break;
    }
    hg_waitgroup_done(&k->senders);
}
static void select_until_closed(void *arg)
{
    struct closing *k = arg;
    bool closed = false;
    for (;;) {
        int got[3] = {7, 7, 7};
        hg_case cases[3];
        for (int i = 0; i < 3; i++)
            cases[i] = (hg_case){.chan = closed && i == k->which ? NULL : k->c[i], .recv = &got[i]};
        int i = hg_select(cases, 3, closed ? hg_in(2000000) : HG_FOREVER);
        if (i == -ETIMEDOUT)
            break;
        CHECK(i >= 0 && i < 3);
        if (cases[i].result == -EPIPE) {
            CHECK(i == k->which && !closed && got[i] == 0);
            closed = true;
        } else {
            CHECK(cases[i].result == 0 && got[i] == i);
            hg_add_acqrel(&k->received[i], 1);
        }
    }
    hg_waitgroup_done(&k->receivers);
}
static int close_against_sends(void *arg)
{
    enum { TASKS = 4 };
    struct hg_rand rand = {*(uint64_t *)arg};
    uint64_t rounds = test_scaled(100);
    for (uint64_t round = 0; round < rounds; round++) {
        struct closing k = {.seed = hg_rand_next(&rand), .which = (int)hg_rand_below(&rand, 3)};
        for (int i = 0; i < 3; i++)
            k.c[i] = new_chan(sizeof(int), hg_rand_below(&rand, 3), HG_LEAF);
        hg_waitgroup_add(&k.senders, TASKS);
        hg_waitgroup_add(&k.receivers, TASKS);
        for (int i = 0; i < TASKS; i++) {
            go(send_until_closed, &k);
            go(select_until_closed, &k);
        }
        hg_sleep((int64_t)hg_rand_below(&rand, 500000));
        CHECK(hg_chan_close(k.c[k.which]) == 0);
        hg_store_rel(&k.stop, 1);
        CHECK(hg_waitgroup_wait(&k.senders, HG_FOREVER) == 0);
        CHECK(hg_waitgroup_wait(&k.receivers, HG_FOREVER) == 0);
        for (int i = 0; i < 3; i++)
            CHECK(hg_load_acq(&k.sent[i]) == hg_load_acq(&k.received[i]) + hg_chan_length(k.c[i]));
        CHECK(hg_chan_length(k.c[k.which]) == 0);
    }
    return 0;
}
ON_PROCS(close_against_sends)

/* ---- starvation ---- */

#define CROWD 64
struct crowd {
    hg_chan *c;
    _Atomic uint64_t served; /* writer: the receiver */
    hg_waitgroup tasks;
};
struct member {
    struct crowd *crowd;
    int i;
};
struct request {
    uint64_t served; /* when it was made */
    int i;
};
static void send_requests(void *arg)
{
    struct member *m = arg;
    struct request r = {.i = m->i};
    do {
        r.served = hg_load_rlx(&m->crowd->served);
    } while (hg_chan_send(m->crowd->c, &r, HG_FOREVER) == 0);
    hg_waitgroup_done(&m->crowd->tasks);
}
struct shares {
    int count[CROWD];
    uint64_t overtaken; /* requests that were served after more others than wait at once */
};
static void serve(struct crowd *crowd, int n, struct shares *to)
{
    struct request r;
    for (int i = 0; i < n; i++) {
        CHECK(hg_chan_recv(crowd->c, &r, HG_FOREVER) == 0);
        uint64_t served = hg_load_rlx(&crowd->served);
        to->count[r.i]++;
        to->overtaken += served - r.served > CROWD;
        hg_store_rlx(&crowd->served, served + 1);
    }
}
static void check_shares(const struct shares *s, bool exact)
{
    int least = s->count[0], most = s->count[0];
    for (int i = 1; i < CROWD; i++) {
        least = s->count[i] < least ? s->count[i] : least;
        most = s->count[i] > most ? s->count[i] : most;
    }
    CHECK(least > 0);
    CHECK(!exact || most <= 2 * least);
}
/* 64 senders, one receiver. Who waits is served first come first served. On one proc that makes the
 * shares equal within a factor of two in any 10,000 receives. On several, a sender that is woken
 * may find a proc without other work and be back in the queue sooner than one behind many others,
 * or behind a proc that the system does not run, for as long as the whole run takes: shares are not
 * the channel's to promise then. The order of arrival is, and that everybody is served. A request
 * that is stopped between its stamp and the queue may seem overtaken, but few are. */
static int nobody_starves(void *arg)
{
    enum { WINDOW = 10000, WINDOWS = 40 };
    int procs = *(int *)arg;
    struct crowd crowd = {.c = new_chan(sizeof(struct request), 0, HG_LEAF)};
    struct member members[CROWD];
    struct shares whole = {.overtaken = 0};
    hg_waitgroup_add(&crowd.tasks, CROWD);
    for (int i = 0; i < CROWD; i++) {
        members[i] = (struct member){&crowd, i};
        go(send_requests, &members[i]);
    }
    for (int w = 0; w < WINDOWS; w++) {
        struct shares window = {.overtaken = 0};
        serve(&crowd, WINDOW, &window);
        if (procs == 1)
            check_shares(&window, true);
        for (int i = 0; i < CROWD; i++)
            whole.count[i] += window.count[i];
        whole.overtaken += window.overtaken;
    }
    check_shares(&whole, procs == 1);
    CHECK(whole.overtaken <= (procs == 1 ? 0 : WINDOW * WINDOWS / 100));
    CHECK(hg_chan_close(crowd.c) == 0);
    CHECK(hg_waitgroup_wait(&crowd.tasks, HG_FOREVER) == 0);
    return 0;
}
ParameterizedTestParameters(chan_stress, nobody_starves)
{
    return cr_make_param_array(int, on_procs, 3);
}
ParameterizedTest(int *procs, chan_stress, nobody_starves)
{
    cr_assert_eq(run_on(*procs, nobody_starves, procs), 0);
}

/* ---- references in motion ---- */

/* Tasks pass references on through a few channels with random operations, while cycles run. A task
 * holds nothing itself between two operations, so that values live in buffers and on parked
 * stacks. */
#define HUBS   4
#define VALUES 64
struct traffic {
    uint64_t seed;
    hg_chan *hub[HUBS];
    _Atomic int stop;
    hg_waitgroup tasks;
};
struct parcel {
    uint64_t magic, number;
};
#define PARCEL_MAGIC UINT64_C(0x70617263656c)

static struct parcel *new_parcel(uint64_t number)
{
    struct parcel *p = hg_alloc(sizeof *p, HG_LEAF);
    *p = (struct parcel){PARCEL_MAGIC, number};
    return p;
}
static bool take_any(struct traffic *t, struct hg_rand *rand, struct parcel **p,
                     struct parcel **heap_slot)
{
    hg_chan *from = t->hub[hg_rand_below(rand, HUBS)];
    if (hg_rand_below(rand, 2) == 0)
        return hg_chan_recv(from, p, hg_in((int64_t)hg_rand_below(rand, 5000))) == 0;
    hg_case k[HUBS];
    for (int i = 0; i < HUBS; i++)
        k[i] = (hg_case){.chan = t->hub[i], .recv = i % 2 == 0 ? p : heap_slot};
    int i = hg_select(k, HUBS, hg_in((int64_t)hg_rand_below(rand, 5000)));
    if (i < 0)
        return false;
    if (i % 2 != 0) {
        *p = *heap_slot;
        hg_ref_store(heap_slot, NULL);
    }
    return true;
}
static void carry(void *arg)
{
    struct traffic *t = arg;
    struct hg_rand rand = {t->seed + hg_task_id()};
    struct parcel **heap_slot = hg_alloc(sizeof *heap_slot, HG_REFS);
    while (hg_load_acq(&t->stop) == 0) {
        struct parcel *p = NULL;
        if (!take_any(t, &rand, &p, heap_slot)) {
            hg_yield();
            continue;
        }
        CHECK(p->magic == PARCEL_MAGIC && p->number < VALUES);
        if (hg_rand_below(&rand, 8) == 0)
            p = new_parcel(p->number);
        int r;
        do {
            r = hg_chan_send(t->hub[hg_rand_below(&rand, HUBS)], &p, hg_in(20000));
        } while (r == -ETIMEDOUT);
        CHECK(r == 0);
    }
    hg_waitgroup_done(&t->tasks);
}
static int references_in_motion(void *arg)
{
    enum { TASKS = 16 };
    struct traffic t = {.seed = *(uint64_t *)arg};
    uint64_t cycles = test_scaled(50);
    bool seen[VALUES] = {false};
    size_t caps[HUBS] = {VALUES, 0, 3, VALUES};
    int found = 0;
    for (int i = 0; i < HUBS; i++)
        t.hub[i] = new_chan(sizeof(struct parcel *), caps[i], HG_REFS);
    for (uint64_t i = 0; i < VALUES; i++) {
        struct parcel *p = new_parcel(i);
        CHECK(hg_chan_send(t.hub[i % 2 == 0 ? 0 : 3], &p, HG_NOW) == 0);
    }
    hg_waitgroup_add(&t.tasks, TASKS);
    for (int i = 0; i < TASKS; i++)
        go(carry, &t);
    for (uint64_t i = 0; i < cycles; i++) {
        for (uint64_t k = 0; k < 100; k++)
            memset(new_parcel(k), 0x5a, sizeof(struct parcel));
        hg_collect(hg_current());
    }
    hg_store_rel(&t.stop, 1);
    CHECK(hg_waitgroup_wait(&t.tasks, HG_FOREVER) == 0);
    for (int i = 0; i < HUBS; i++) {
        struct parcel *p;
        while (hg_chan_recv(t.hub[i], &p, HG_NOW) == 0) {
            CHECK(p->magic == PARCEL_MAGIC && p->number < VALUES && !seen[p->number]);
            seen[p->number] = true;
            found++;
        }
    }
    CHECK(found == VALUES);
    return 0;
}
ParameterizedTestParameters(chan_stress, references_in_motion)
{
    return cr_make_param_array(int, on_procs, 3);
}
ParameterizedTest(int *procs, chan_stress, references_in_motion)
{
    uint64_t seed = test_seed("chan_stress/references_in_motion");
    cr_assert_eq(run_collecting(*procs, references_in_motion, &seed), 0);
}

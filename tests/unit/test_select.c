/* test_select.c: select: which case fires, how fair the choice is, close, deadlines, limits. */
#include "base/atomic.h"
#include "base/rand.h"
#include "tests/support/test.h"
#include "tests/unit/test_sync.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>

TestSuite(select, .timeout = 60);

static int on_procs[] = {1, 2, 4};

/* ---- arguments, and cases that are ready at once ---- */

static int arguments(void *arg)
{
    hg_chan *c = new_chan(sizeof(int), 1, HG_LEAF);
    int value = 1, got = 0;
    (void)arg;
    hg_case bad = {.chan = c, .send = &value, .recv = &got};
    CHECK(hg_select(&bad, 1, HG_NOW) == -EINVAL);
    CHECK(hg_select(&bad, -1, HG_NOW) == -EINVAL);
    CHECK(hg_select(&bad, 1025, HG_NOW) == -EINVAL);
    CHECK(hg_select(NULL, 0, HG_NOW) == -EAGAIN);
    CHECK(hg_select(NULL, 0, hg_in(1000000)) == -ETIMEDOUT);
    hg_case none[2] = {{.chan = NULL, .send = &value}, {.chan = NULL, .recv = &got}};
    CHECK(hg_select(none, 2, HG_NOW) == -EAGAIN);
    CHECK(hg_select(none, 2, hg_in(1000000)) == -ETIMEDOUT);
    CHECK(hg_chan_length(c) == 0);
    return 0;
}
Test(select, arguments) { cr_assert_eq(run_on(1, arguments, NULL), 0); }

static int ready_at_once(void *arg)
{
    hg_chan *a = new_chan(sizeof(int), 1, HG_LEAF), *b = new_chan(sizeof(int), 1, HG_LEAF);
    int value = 7, got = 0;
    (void)arg;
    hg_case k[3] = {{.chan = a, .recv = &got}, {.chan = b, .send = &value, .result = -1}};
    CHECK(hg_select(k, 3, HG_FOREVER) == 1 && k[1].result == 0);
    CHECK(hg_chan_length(b) == 1);
    CHECK(hg_select(k, 3, HG_NOW) == -EAGAIN);
    k[2] = (hg_case){.chan = b, .recv = &got, .result = -1};
    CHECK(hg_select(k, 3, HG_NOW) == 2 && k[2].result == 0 && got == 7);
    /* Neither of the two set: a receive whose value is dropped. */
    CHECK(hg_chan_send(b, &value, HG_NOW) == 0);
    k[0] = (hg_case){.chan = b};
    CHECK(hg_select(k, 1, HG_NOW) == 0 && k[0].result == 0 && hg_chan_length(b) == 0);
    CHECK(hg_chan_close(b) == 0);
    k[0].result = 0;
    CHECK(hg_select(k, 1, HG_NOW) == 0 && k[0].result == -EPIPE);
    CHECK(hg_select(k + 1, 1, HG_NOW) == 0 && k[1].result == -EPIPE);
    got = 3;
    CHECK(hg_select(k + 2, 1, HG_FOREVER) == 0 && k[2].result == -EPIPE && got == 0);
    return 0;
}
Test(select, ready_at_once) { cr_assert_eq(run_on(1, ready_at_once, NULL), 0); }

/* ---- fairness ---- */

/* Every share of 10,000 choices within 20 % of uniform; the deviation allowed is above six
 * sigma. */
static void check_shares(int n)
{
    enum { CHOICES = 10000 };
    hg_case k[32];
    int count[32] = {0}, got;
    for (int i = 0; i < n; i++)
        k[i] = (hg_case){.chan = new_chan(sizeof(int), 1, HG_LEAF)};
    for (int i = 0; i < n; i++) {
        CHECK(hg_chan_send(k[i].chan, &i, HG_NOW) == 0);
        k[i].recv = &got;
    }
    for (int round = 0; round < CHOICES; round++) {
        int i = hg_select(k, n, HG_FOREVER);
        CHECK(i >= 0 && i < n && k[i].result == 0 && got == i);
        count[i]++;
        CHECK(hg_chan_send(k[i].chan, &i, HG_NOW) == 0);
    }
    for (int i = 0; i < n; i++)
        CHECK(count[i] * n > CHOICES / 10 * 8 && count[i] * n < CHOICES / 10 * 12);
}
static int fair_choice(void *arg)
{
    (void)arg;
    check_shares(2);
    check_shares(5);
    check_shares(8);
    return 0;
}
Test(select, fair_choice) { cr_assert_eq(run_on(1, fair_choice, NULL), 0); }

/* Of sends and receives on one channel with room and a value, both are chosen. */
static int both_directions(void *arg)
{
    hg_chan *c = new_chan(sizeof(int), 100, HG_LEAF);
    int value = 1, got, sends = 0;
    (void)arg;
    for (int i = 0; i < 50; i++)
        CHECK(hg_chan_send(c, &value, HG_NOW) == 0);
    hg_case k[2] = {{.chan = c, .send = &value}, {.chan = c, .recv = &got}};
    for (int i = 0; i < 1000; i++)
        sends += hg_select(k, 2, HG_FOREVER) == 0;
    CHECK(sends > 400 && sends < 600);
    CHECK(hg_chan_length(c) == (size_t)(50 + sends - (1000 - sends)));
    return 0;
}
Test(select, both_directions) { cr_assert_eq(run_on(1, both_directions, NULL), 0); }

/* ---- waiting ---- */

struct work {
    hg_chan **c;
    int n, which;
    _Atomic int waiting;
    hg_chan *done;
};

/* The cases and the values lie in objects. */
static void select_any(void *arg)
{
    struct work *w = arg;
    hg_case *k = hg_alloc((size_t)w->n * sizeof *k, HG_CONSERVATIVE);
    int *got = hg_alloc((size_t)w->n * sizeof *got, HG_LEAF);
    for (int i = 0; i < w->n; i++)
        k[i] = (hg_case){.chan = w->c[i], .recv = &got[i], .result = 1};
    hg_add_acqrel(&w->waiting, 1);
    int i = hg_select(k, w->n, HG_FOREVER);
    CHECK(i >= 0 && i < w->n && k[i].result == 0);
    CHECK(got[i] == i);
    CHECK(hg_chan_send(w->done, &i, HG_FOREVER) == 0);
}
static hg_chan **new_chans(int n, size_t cap)
{
    hg_chan **c = hg_alloc((size_t)n * sizeof *c, HG_REFS);
    for (int i = 0; i < n; i++)
        hg_ref_store(&c[i], new_chan(sizeof(int), cap, HG_LEAF));
    return c;
}

/* One select over few or many channels, woken through each of some of them. */
static int woken_by_value(void *arg)
{
    int sizes[] = {1, 2, 4, 5, 60};
    (void)arg;
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        int n = sizes[k], i;
        struct work w = {.c = new_chans(n, 0), .n = n, .done = new_chan(sizeof(int), 0, HG_LEAF)};
        for (int which = 0; which < n; which += 1 + n / 8) {
            hg_store_rel(&w.waiting, 0);
            go(select_any, &w);
            yield_until(&w.waiting, 1);
            CHECK(hg_chan_send(w.c[which], &which, HG_FOREVER) == 0);
            CHECK(hg_chan_recv(w.done, &i, HG_FOREVER) == 0 && i == which);
        }
        /* Its records are gone from all the queues. */
        for (int which = 0; which < n; which++)
            CHECK(hg_chan_send(w.c[which], &which, HG_NOW) == -EAGAIN);
    }
    return 0;
}
ParameterizedTestParameters(select, woken_by_value)
{
    return cr_make_param_array(int, on_procs, 3);
}
ParameterizedTest(int *procs, select, woken_by_value)
{
    cr_assert_eq(run_on(*procs, woken_by_value, NULL), 0);
}

/* The same channel in many cases; the same select with another one. */
static void select_to_send(void *arg)
{
    struct work *w = arg;
    int values[4] = {10, 11, 12, 13};
    hg_case k[4];
    for (int i = 0; i < 4; i++)
        k[i] = (hg_case){.chan = w->c[i / 2], .send = &values[i]};
    for (int round = 0; round < w->n; round++) {
        int i = hg_select(k, 4, HG_FOREVER);
        CHECK(i >= 0 && i < 4 && k[i].result == 0);
    }
    CHECK(hg_chan_send(w->done, NULL, HG_FOREVER) == 0);
}
static int select_meets_select(void *arg)
{
    struct work w = {.c = new_chans(2, 0), .n = 2000, .done = new_chan(0, 0, HG_LEAF)};
    int got[4], seen[4] = {0};
    (void)arg;
    go(select_to_send, &w);
    for (int round = 0; round < w.n; round++) {
        hg_case k[4];
        for (int i = 0; i < 4; i++) {
            got[i] = 0;
            k[i] = (hg_case){.chan = w.c[(i + 1) % 2], .recv = &got[i]};
        }
        int i = hg_select(k, 4, HG_FOREVER);
        CHECK(i >= 0 && i < 4 && k[i].result == 0);
        CHECK(got[i] >= 10 && (got[i] - 10) / 2 == (i + 1) % 2);
        seen[i]++;
        for (int other = 0; other < 4; other++)
            CHECK(other == i || got[other] == 0);
    }
    CHECK(hg_chan_recv(w.done, NULL, HG_FOREVER) == 0);
    CHECK(seen[0] + seen[1] + seen[2] + seen[3] == w.n);
    return 0;
}
ParameterizedTestParameters(select, select_meets_select)
{
    return cr_make_param_array(int, on_procs, 3);
}
ParameterizedTest(int *procs, select, select_meets_select)
{
    cr_assert_eq(run_on(*procs, select_meets_select, NULL), 0);
}

/* A select that sends and receives on one channel does not meet itself. */
static int not_itself(void *arg)
{
    hg_chan *c = new_chan(sizeof(int), 0, HG_LEAF);
    int value = 1, got = 0;
    (void)arg;
    hg_case k[2] = {{.chan = c, .send = &value}, {.chan = c, .recv = &got}};
    CHECK(hg_select(k, 2, HG_NOW) == -EAGAIN);
    CHECK(hg_select(k, 2, hg_in(1000000)) == -ETIMEDOUT);
    CHECK(got == 0);
    CHECK(hg_chan_recv(c, &got, HG_NOW) == -EAGAIN && hg_chan_send(c, &value, HG_NOW) == -EAGAIN);
    return 0;
}
Test(select, not_itself) { cr_assert_eq(run_on(1, not_itself, NULL), 0); }

/* ---- close ---- */

static void select_closed(void *arg)
{
    struct work *w = arg;
    int got[3] = {5, 5, 5};
    hg_case k[3];
    for (int i = 0; i < 3; i++)
        k[i] = w->n == 0 ? (hg_case){.chan = w->c[i], .recv = &got[i]}
                         : (hg_case){.chan = w->c[i], .send = &got[i]};
    hg_add_acqrel(&w->waiting, 1);
    CHECK(hg_select(k, 3, HG_FOREVER) == w->which && k[w->which].result == -EPIPE);
    for (int i = 0; i < 3; i++)
        CHECK(got[i] == (w->n == 0 && i == w->which ? 0 : 5));
    CHECK(hg_chan_send(w->done, NULL, HG_FOREVER) == 0);
}
/* Receiving and sending selects wait on three channels; one is closed; each knows which. */
static int woken_by_close(void *arg)
{
    (void)arg;
    for (int round = 0; round < 60; round++) {
        struct work w = {.c = new_chans(3, 0),
                         .n = round % 2,
                         .which = round % 3,
                         .done = new_chan(0, 0, HG_LEAF)};
        go(select_closed, &w);
        go(select_closed, &w);
        yield_until(&w.waiting, 2);
        CHECK(hg_chan_close(w.c[w.which]) == 0);
        CHECK(hg_chan_recv(w.done, NULL, HG_FOREVER) == 0);
        CHECK(hg_chan_recv(w.done, NULL, HG_FOREVER) == 0);
    }
    return 0;
}
ParameterizedTestParameters(select, woken_by_close)
{
    return cr_make_param_array(int, on_procs, 3);
}
ParameterizedTest(int *procs, select, woken_by_close)
{
    cr_assert_eq(run_on(*procs, woken_by_close, NULL), 0);
}

/* ---- limits ---- */

static int most_cases(void *arg)
{
    enum { N = 1024 };
    struct work w = {.c = new_chans(N, 0), .n = N, .done = new_chan(sizeof(int), 0, HG_LEAF)};
    int got, picks[] = {0, 511, N - 1};
    (void)arg;
    hg_case *k = hg_alloc(N * sizeof *k, HG_CONSERVATIVE);
    for (int i = 0; i < N; i++)
        k[i] = (hg_case){.chan = w.c[i], .recv = &got};
    CHECK(hg_select(k, N, HG_NOW) == -EAGAIN);
    CHECK(hg_select(k, N, hg_in(1000000)) == -ETIMEDOUT);
    for (int i = 0; i < 3; i++) {
        hg_store_rel(&w.waiting, 0);
        go(select_any, &w);
        yield_until(&w.waiting, 1);
        CHECK(hg_chan_send(w.c[picks[i]], &picks[i], HG_FOREVER) == 0);
        CHECK(hg_chan_recv(w.done, &got, HG_FOREVER) == 0 && got == picks[i]);
    }
    return 0;
}
Test(select, most_cases) { cr_assert_eq(run_on(2, most_cases, NULL), 0); }

/* ---- records of parks that were won elsewhere ---- */

struct race {
    uint64_t seed;
    hg_chan *c[3];
    int values;
    _Atomic int sent, taken, gave_up, running;
    hg_waitgroup selecters;
};
static void race_sender(void *arg)
{
    struct race *r = arg;
    struct hg_rand rand = {r->seed + (uint64_t)hg_task_id()};
    for (int i = 0; i < r->values; i++) {
        int value = 1, n = (int)hg_rand_below(&rand, 3);
        int64_t deadline = hg_rand_below(&rand, 2) ? hg_in(hg_rand_below(&rand, 100000)) : HG_NOW;
        int sent = hg_chan_send(r->c[n], &value, deadline);
        hg_add_acqrel(sent == 0 ? &r->sent : &r->gave_up, 1);
        if (sent != 0)
            hg_yield();
    }
    hg_sub_acqrel(&r->running, 1);
}
static void race_selecter(void *arg)
{
    struct race *r = arg;
    struct hg_rand rand = {~r->seed + (uint64_t)hg_task_id()};
    int got[3];
    hg_case k[3];
    while (hg_load_acq(&r->running) > 0) {
        for (int i = 0; i < 3; i++) {
            got[i] = 0;
            k[i] = (hg_case){.chan = r->c[i], .recv = &got[i]};
        }
        int i = hg_select(k, 3, hg_in(hg_rand_below(&rand, 50000)));
        CHECK(i == -ETIMEDOUT || (i >= 0 && got[i] == 1 && k[i].result == 0));
        hg_add_acqrel(i >= 0 ? &r->taken : &r->gave_up, 1);
        CHECK(got[0] + got[1] + got[2] == (i >= 0));
    }
    hg_waitgroup_done(&r->selecters);
}
/* Selects with short deadlines against senders with short deadlines: what was sent was taken,
 * exactly once. */
static int deadlines_against_values(void *arg)
{
    struct race r = {.seed = *(uint64_t *)arg, .values = (int)test_scaled(3000), .running = 4};
    for (int i = 0; i < 3; i++)
        r.c[i] = new_chan(sizeof(int), 0, HG_LEAF);
    hg_waitgroup_add(&r.selecters, 4);
    for (int i = 0; i < 4; i++) {
        go(race_sender, &r);
        go(race_selecter, &r);
    }
    CHECK(hg_waitgroup_wait(&r.selecters, HG_FOREVER) == 0);
    CHECK(hg_load_acq(&r.sent) == hg_load_acq(&r.taken));
    CHECK(hg_load_acq(&r.sent) > 0 && hg_load_acq(&r.gave_up) > 0);
    return 0;
}
ParameterizedTestParameters(select, deadlines_against_values)
{
    return cr_make_param_array(int, on_procs, 3);
}
ParameterizedTest(int *procs, select, deadlines_against_values)
{
    uint64_t seed = test_seed("select/deadlines_against_values");
    cr_assert_eq(run_on(*procs, deadlines_against_values, &seed), 0);
}

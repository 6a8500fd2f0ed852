/* test_ticker.c: tickers: no drift, missed ticks, starting anew; and beside a storm of timers
 * (T05). */
#include "tests/support/test.h"
#include "tests/unit/test_timer.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>

TestSuite(ticker, .timeout = 60);

static int on_procs[] = {1, 2, 4};

static int ticks(void *arg)
{
    hg_ticker k = {{0}};
    uint64_t missed;
    (void)arg;
    CHECK(hg_ticker_wait(&k, HG_FOREVER, NULL) == -EPIPE && !hg_ticker_stop(&k));
    CHECK(hg_ticker_next(&k) == HG_FOREVER);
    CHECK(hg_ticker_start(&k, 0, 0) == -EINVAL && hg_ticker_start(&k, 0, -5) == -EINVAL);
    CHECK(hg_ticker_start(&k, hg_in(3600 * S), S) == 0);
    CHECK(hg_ticker_wait(&k, HG_NOW, NULL) == -EAGAIN);
    int64_t first = hg_in(MS), period = 2 * MS;
    CHECK(hg_ticker_start(&k, first, period) == 0);
    int64_t due = first;
    for (int i = 0; i < 20; i++) {
        CHECK(hg_ticker_next(&k) == due);
        CHECK(hg_ticker_wait(&k, HG_FOREVER, &missed) == 0);
        due += (int64_t)missed * period; /* late machines miss some; no drift, whatever happens */
        CHECK(hg_now() >= due);
        due += period;
    }
    /* missed ones become one */
    hg_sleep_until(due + 10 * period + 1);
    CHECK(hg_ticker_wait(&k, HG_NOW, &missed) == 0 && missed >= 10);
    due += ((int64_t)missed + 1) * period;
    CHECK(hg_ticker_next(&k) == due);
    /* nothing of an earlier start is left */
    hg_sleep_until(due);
    CHECK(hg_ticker_start(&k, hg_in(3600 * S), 1) == 0);
    CHECK(hg_ticker_wait(&k, hg_in(2 * MS), NULL) == -ETIMEDOUT);
    CHECK(hg_ticker_stop(&k) && hg_ticker_wait(&k, HG_NOW, NULL) == -EPIPE);
    /* the largest numbers there are */
    CHECK(hg_ticker_start(&k, INT64_MIN, INT64_MAX) == 0);
    CHECK(hg_ticker_wait(&k, HG_NOW, &missed) == 0 && missed == 0);
    CHECK(hg_ticker_wait(&k, HG_NOW, &missed) == -EAGAIN);
    return 0;
}
ParameterizedTestParameters(ticker, ticks) { return cr_make_param_array(int, on_procs, 3); }
ParameterizedTest(int *procs, ticker, ticks) { cr_assert_eq(run_on(*procs, ticks, NULL), 0); }

/* T05: thousands of tasks that reset short timers do not starve a ticker. */
struct storm {
    _Atomic int over;
    hg_waitgroup g;
};
static void reset_often(void *arg)
{
    struct storm *s = arg;
    _Atomic int n = 0;
    hg_timer t;
    hg_timer_init(&t, count, &n);
    while (hg_load_acq(&s->over) == 0) {
        hg_timer_reset(&t, hg_in(100000));
        hg_yield();
    }
    hg_timer_stop(&t);
    hg_waitgroup_done(&s->g);
}
static int storm(void *arg)
{
    struct storm s = {.over = 0};
    int tasks = (int)test_scaled(4000);
    int64_t late[100], period = 10 * MS, due;
    hg_ticker k = {{0}};
    int n = 0;
    (void)arg;
    uint64_t before = timers_now(), missed;
    hg_waitgroup_add(&s.g, tasks);
    for (int i = 0; i < tasks; i++)
        go(reset_often, &s);
    due = hg_in(period);
    hg_ticker_start(&k, due, period);
    for (int64_t end = hg_in(S); hg_now() < end && n < 100; due += period) {
        CHECK(hg_ticker_wait(&k, hg_in(20 * S), &missed) == 0);
        int64_t by = hg_now() - due; /* the first of those that became one */
        due += (int64_t)missed * period;
        int at = n++;
        for (; at > 0 && late[at - 1] > by; at--)
            late[at] = late[at - 1];
        late[at] = by;
    }
    CHECK(timers_now() <= before + (uint64_t)tasks + 16); /* memory is flat */
    hg_store_rel(&s.over, 1);
    CHECK(hg_waitgroup_wait(&s.g, HG_FOREVER) == 0);
    fprintf(stderr, "ticks late by %.1f ms in the middle, %.1f ms of 9 in 10, %.1f ms at most\n",
            (double)late[n / 2] / 1e6, (double)late[n * 9 / 10] / 1e6, (double)late[n - 1] / 1e6);
    CHECK(late[n / 2] <
          200 * MS); /* 5 ms on a machine of one's own; a starved one would never come */
    return 0;
}
Test(ticker, resets_do_not_starve_a_ticker) { cr_assert_eq(run_on(2, storm, NULL), 0); }

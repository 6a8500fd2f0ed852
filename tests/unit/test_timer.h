/* test_timer.h: what the tests of timers and tickers share. */
#ifndef HG_TESTS_UNIT_TEST_TIMER_H
#define HG_TESTS_UNIT_TEST_TIMER_H
#include "tests/unit/test_sync.h"

#define MS INT64_C(1000000)
#define S  (1000 * MS)

static inline void wait_for(_Atomic int *value, int wanted)
{
    for (int64_t until = hg_in(20 * S); hg_load_acq(value) != wanted; hg_sleep(100000))
        CHECK(hg_now() < until);
}

static inline void count(hg_timer *t, void *arg)
{
    (void)t;
    hg_add_acqrel((_Atomic int *)arg, 1);
}

/* Timers that are armed now, deadlines of waiting tasks included. */
static inline uint64_t timers_now(void)
{
    hg_stats st = {.size = sizeof st};
    hg_stats_read(hg_current(), &st);
    return st.timers_now;
}

#endif

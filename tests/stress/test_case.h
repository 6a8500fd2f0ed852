/* test_case.h: what the test_case_* programs share. Each of their tests is a public bug report of
 * a system like ours, named by its number in the list of cases (G01, P09, ...): what went wrong
 * there is done here on purpose.
 *
 * On a task's stack MUST takes the place of Criterion's assertions, which leave a failed test by a
 * jump.
 *
 * Time: bounds on what the collector does to a task are on CPU time, from the runtime's own
 * histograms, so a busy machine does not fail them. Bounds on elapsed time are widened by
 * case_stall(): how long this machine keeps a busy thread from its CPU right now.
 */
#ifndef HG_TESTS_STRESS_TEST_CASE_H
#define HG_TESTS_STRESS_TEST_CASE_H
#include "base/rand.h"
#include "tests/support/test.h"
#include <criterion/criterion.h>
#include <criterion/options.h>
#include <hedge/hedge.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MUST(c, ...) ((c) ? (void)0 : (fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), abort()))

/* A bound on time or work holds for what users run: not with audits, nor under a sanitizer. */
#if defined(HG_DEBUG) || defined(__SANITIZE_ADDRESS__)
#define BOUND(c, ...) ((void)sizeof((c) ? 1 : 0))
#else
#define BOUND(c, ...) MUST(c, __VA_ARGS__)
#endif

#define CASE_MS  INT64_C(1000000)
#define CASE_SEC INT64_C(1000000000)
#define CASE_MIB ((size_t)1 << 20)

/* Tests that measure run one after the other. */
__attribute__((constructor)) static void case_one_at_a_time(void) { criterion_options.jobs = 1; }

/* What main tasks return when they got to their end. */
#define CASE_DONE 7

/* Options of a test: small heap, no environment. */
static inline hg_options case_options(int procs)
{
    hg_options o;
    hg_options_init(&o, sizeof o);
    o.procs = procs;
    o.reserve_bytes = (size_t)8 << 30;
    return o;
}

static inline void case_run(int (*fn)(void *), void *arg, const hg_options *o)
{
    cr_assert_eq(hg_run(fn, arg, o), CASE_DONE);
}

static inline void case_go(void (*fn)(void *), void *arg)
{
    MUST(hg_go(fn, arg) == 0, "hg_go: no stack");
}

/* Tasks that go on until their main task has had enough. */
__attribute__((unused)) static uint32_t case_stop_word; /* set by main tasks, read by theirs */
static inline bool case_stopping(void)
{
    return __atomic_load_n(&case_stop_word, __ATOMIC_ACQUIRE) != 0;
}
static inline void case_stop_and_wait(hg_waitgroup *g)
{
    __atomic_store_n(&case_stop_word, 1, __ATOMIC_RELEASE);
    hg_waitgroup_wait(g, HG_FOREVER);
    __atomic_store_n(&case_stop_word, 0, __ATOMIC_RELEASE);
}

/* `bytes` of objects with references, 1 KiB each, and what holds them. */
static inline void **case_live_new(size_t bytes)
{
    size_t n = bytes / 1024;
    void **all = hg_alloc(n * sizeof *all, HG_REFS);
    for (size_t i = 0; i < n; i++)
        all[i] = hg_alloc(1024, HG_REFS);
    return all;
}

static inline hg_stats case_stats(void)
{
    hg_stats st = {.size = sizeof st};
    hg_stats_read(hg_current(), &st);
    return st;
}

static inline int64_t case_gc_cpu(const hg_stats *st)
{
    return st->background_ns + st->idle_ns + st->assist_ns + st->scan_ns;
}

static inline int64_t case_clock(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * CASE_SEC + t.tv_nsec;
}

/* The longest time in 50 ms for which a thread that only looks at the clock did not run. */
static inline int64_t case_stall(void)
{
    int64_t longest = 0, start = hg_now(), last = start;
    while (last - start < 50 * CASE_MS) {
        int64_t now = hg_now();
        if (now - last > longest)
            longest = now - last;
        last = now;
    }
    return longest;
}

/* A histogram of a runtime is 58 KiB: never on a task's stack. */
static inline hg_histogram *case_histogram(enum hg_histogram_id which)
{
    hg_histogram *h = malloc(sizeof *h);
    MUST(h != NULL, "malloc");
    hg_stats_histogram(hg_current(), which, h);
    return h;
}

/* How many values lie above `ns`. */
static inline uint64_t case_count_above(const hg_histogram *h, int64_t ns)
{
    uint64_t n = 0;
    for (unsigned i = hg_histogram_bucket(ns) + 1; i < HG_HISTOGRAM_BUCKETS; i++)
        n += h->count[i];
    return n;
}

#endif

/* test_sync.h: what the tests of channels, select and sync share: runtimes to run on, checks inside
 * tasks.
 *
 * Criterion's assertions jump out of the function that fails, which a task must not do: in tasks
 * CHECK prints and ends the process, and each test has a process of its own.
 */
#ifndef HG_TESTS_UNIT_TEST_SYNC_H
#define HG_TESTS_UNIT_TEST_SYNC_H
#include "base/atomic.h"

#include <hedge/hedge.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(c)                                  \
    do {                                          \
        if (!(c))                                 \
            check_failed(__FILE__, __LINE__, #c); \
    } while (0)

static inline void check_failed(const char *file, int line, const char *text)
{
    fprintf(stderr, "%s:%d: failed: %s\n", file, line, text);
    fflush(NULL);
    abort();
}

/* Runs a program of tasks on `procs` procs; its first task returns 0. */
static inline int run_on(int procs, int (*first)(void *), void *arg)
{
    hg_options o;
    hg_options_init(&o, sizeof o);
    o.procs = procs;
    return hg_run(first, arg, &o);
}

/* The same with scheduling choices from a seed. */
static inline int run_on_seed(int procs, uint64_t seed, int (*first)(void *), void *arg)
{
    hg_options o;
    hg_options_init(&o, sizeof o);
    o.procs = procs;
    o.sched_seed = seed;
    return hg_run(first, arg, &o);
}

/* A program of tasks in a host: other threads may do something to its tasks at any time, so that
 * waiting for them is no deadlock. Then the runtime is shut down and closed. */
struct hosted {
    int (*first)(void *);
    void *arg;
    int result;
    sem_t done;
};
static inline void run_first(void *arg)
{
    struct hosted *h = arg;
    h->result = h->first(h->arg);
    sem_post(&h->done);
}
static inline int run_hosted(const hg_options *o, int (*first)(void *), void *arg)
{
    struct hosted h = {.first = first, .arg = arg};
    hg_runtime *rt;
    CHECK(hg_runtime_open(o, &rt) == 0);
    CHECK(sem_init(&h.done, 0, 0) == 0);
    CHECK(hg_post(rt, run_first, &h) == 0);
    while (sem_wait(&h.done) != 0)
        ;
    CHECK(hg_runtime_shutdown(rt, hg_in(INT64_C(60000000000))) == 0);
    CHECK(hg_runtime_close(rt) == 0);
    sem_destroy(&h.done);
    return h.result;
}

/* run_on with a collection at every few allocations' slow paths, and swept memory filled with a
 * pattern: an object that is freed too early does not pass for what it was. The verifier
 * (options.check) is not used: a stack word of which one half is old looks like a reference, and
 * after enough of these races it meets one. */
static inline int run_collecting(int procs, int (*first)(void *), void *arg)
{
    hg_options o;
    hg_options_init(&o, sizeof o);
    o.procs = procs;
    o.stress = 1;
    o.poison = true;
    return hg_run(first, arg, &o);
}

static inline hg_chan *new_chan(size_t bytes, size_t cap, const hg_layout *elem)
{
    hg_chan *c = NULL;
    CHECK(hg_chan_new(bytes, cap, elem, &c) == 0);
    CHECK(c != NULL);
    return c;
}

static inline void go(void (*fn)(void *), void *arg) { CHECK(hg_go(fn, arg) == 0); }

/* Lets other tasks run until *value, which they change, is `wanted`. */
static inline void yield_until(_Atomic int *value, int wanted)
{
    while (hg_load_acq(value) != wanted)
        hg_yield();
}

#endif

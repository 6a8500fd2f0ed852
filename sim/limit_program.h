/* limit_program.h: the program that `hedge-sim limit` runs, while it runs.
 *
 * References: `alive` and `cache` are registered roots, written with hg_ref_store; this struct is
 * malloc memory, which is not scanned. Counters are relaxed: they carry no other data.
 */
#ifndef HG_SIM_LIMIT_PROGRAM_H
#define HG_SIM_LIMIT_PROGRAM_H
#include "sim/limit.h"
#include <hedge/hedge.h>

#define LIMIT_PROCS_MAX 1024

struct limit_live {
    const struct limit_options *opt;
    const struct limit_scenario *scenario;
    hg_runtime *rt;
    void **alive; /* entries that live all the time */
    size_t entries;
    void **cache;       /* what leaks: the newest chunk; its first word is the one before */
    size_t in_chunk;    /* the leaking task's, as are the next two */
    int64_t leaked;     /* bytes in the cache */
    int64_t leak_from;  /* when it began to grow */
    int64_t begin, end; /* of what is measured, CLOCK_MONOTONIC */
    int workers;
    _Atomic bool stop;
    _Atomic int64_t refused, no_memory, let_go, passed;
    _Atomic int64_t other_ops, other_wait_ns;
    _Atomic bool other_done;
    hg_waitgroup done;
    struct limit_worker {
        _Alignas(64) _Atomic int64_t ops;
        struct limit_live *live;
    } worker[LIMIT_PROCS_MAX];
};

/* S W: makes what is alive all the time. A negative errno. */
int limit_program_build(struct limit_live *l);
/* S: starts the tasks: a worker per proc, and the one that leaks. They end when `stop` is set, and
 * `done` counts them. A negative errno. */
int limit_program_start(struct limit_live *l);
int64_t limit_program_ops(const struct limit_live *l);
/* The body of the task in the other runtime: a small program that must not notice anything. */
void limit_other_task(void *live);
/* The runtime's hooks; user is the struct limit_live. */
void limit_on_passed(void *user, int64_t bytes);
bool limit_on_no_memory(void *user, size_t wanted);

#endif

/* rt.h: a runtime: all of its state in one struct, and the wiring of its layers. Only rt.c,
 * stats.c and metrics.c include it. */
#ifndef HG_RUNTIME_RT_H
#define HG_RUNTIME_RT_H
#include "runtime/gc/gc.h"
#include "runtime/mut/mut.h"
#include "runtime/net/net.h"
#include "runtime/sched/sched.h"
#include "runtime/sync/counter.h"
#include <hedge/runtime.h>

struct hg_runtime {
    struct hg_world world;       /* mutators, heap, phase */
    struct hg_sched sched;       /* tasks, procs */
    struct hg_gc gc;             /* the collector */
    struct hg_counters counters; /* of the program */
    struct hg_net net;           /* descriptors */
    hg_options options;
    _Atomic uint32_t main_done;     /* hg_run: 1 when the first task has ended */
    _Atomic uint32_t shutdown_word; /* always 0: threads that shut down sleep on it */
    int main_result;
    int (*main_task)(void *);
    void *main_arg;
};

#endif

/* kv_child.h: one run in a process of its own, so that no run inherits another one's heap, caches,
 * page tables or timers. */
#ifndef HG_SIM_KV_CHILD_H
#define HG_SIM_KV_CHILD_H
#include "sim/kv.h"

enum kv_child_end {
    KV_CHILD_RESULT,  /* *r is filled */
    KV_CHILD_STOPPED, /* an interrupt ended it before it had anything to report */
    KV_CHILD_FAILED   /* why says how */
};

/* Forks, runs, waits. The calling process must have no threads. told (may be NULL): called for each
 * line of progress. Interrupts of this process are passed on: the first makes the child report what
 * it has, the second ends it at once. */
enum kv_child_end kv_child(const struct kv_options *opt, const struct kv_policy *policy,
                           int repetition, void (*told)(void *arg, const struct kv_progress *p),
                           void *arg, struct kv_result *r, char *why, size_t room);

#endif

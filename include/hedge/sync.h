/* sync.h: mutex and wait group for tasks. Plain structs: zero is a valid initial state; they need
 * no destruction. They may lie anywhere (stack, heap, static) and hold no references. */
#ifndef HEDGE_SYNC_H
#define HEDGE_SYNC_H
#include <hedge/core.h>

HG_BEGIN_DECLS

/* Starvation-free: a waiter that has waited 1 ms gets the lock handed over. Not recursive; a task
 * that locks it twice waits for ever (a deadlock report names it); unlocking one that is not locked
 * is fatal. */
typedef struct hg_mutex {
    uintptr_t w[4];
} hg_mutex;
/* S W: 0; -EAGAIN (HG_NOW), -ETIMEDOUT, -ECANCELED. */
HG_API int hg_mutex_lock_until(hg_mutex *m, int64_t deadline);
/* S W: waits for as long as it takes: neither cancellation nor an ambient deadline ends it. */
HG_API void hg_mutex_lock(hg_mutex *m);
HG_API void hg_mutex_unlock(hg_mutex *m);

/* A count of work that is out. Add before the work starts; the count going below 0 is fatal. */
typedef struct hg_waitgroup {
    uintptr_t w[4];
} hg_waitgroup;
HG_API void hg_waitgroup_add(hg_waitgroup *g, int n);
HG_API void hg_waitgroup_done(hg_waitgroup *g);
/* S W: waits until the count is 0. 0; -EAGAIN, -ETIMEDOUT, -ECANCELED. */
HG_API int hg_waitgroup_wait(hg_waitgroup *g, int64_t deadline);

HG_END_DECLS
#endif

/* sync.h: mutex, reader-writer lock, condition variable, semaphore, once and wait group for tasks.
 * Plain structs: zero is a valid initial state; they need no destruction. They may lie anywhere
 * (stack, heap, static) and hold no references.
 *
 * Calls that wait take a deadline (HG_NOW: -EAGAIN instead of waiting) and return -ETIMEDOUT, or
 * -ECANCELED when the task is cancelled; -EPERM where they would have to wait, but not on a task.
 * One that fails has taken nothing. */
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

/* Many readers, or one writer. First come, first served, and handed over, so that neither readers
 * nor writers starve: a reader that comes while a writer waits is behind it. Hence a task that
 * holds it for reading must not take it for reading again. Unlocking what is not locked is
 * fatal. */
typedef struct hg_rwlock {
    uintptr_t w[4];
} hg_rwlock;
/* S W: 0; -EAGAIN, -ETIMEDOUT, -ECANCELED. */
HG_API HG_MUST int hg_rwlock_lock_read(hg_rwlock *l, int64_t deadline);
/* S W: likewise. */
HG_API HG_MUST int hg_rwlock_lock_write(hg_rwlock *l, int64_t deadline);
HG_API void hg_rwlock_unlock_read(hg_rwlock *l);
HG_API void hg_rwlock_unlock_write(hg_rwlock *l);

/* Tasks wait for a change of what a mutex protects. */
typedef struct hg_cond {
    uintptr_t w[4];
} hg_cond;
/* S W: with m locked by the caller: lets it go, waits for a signal, and takes it again, all of
 * which others see as one step: a signal that comes after m was let go is not missed. 0: it was
 * signalled; there are no other wake-ups, but another task may have had m in between, so look again
 * at what you wait for, in a loop. -EAGAIN (HG_NOW: m is kept), -ETIMEDOUT, -ECANCELED. In each
 * case m is locked on return, also if that takes beyond the deadline. */
HG_API int hg_cond_wait(hg_cond *c, hg_mutex *m, int64_t deadline);
/* any: wakes the task that has waited longest, or nobody. Not lost on a task whose wait ends for
 * another reason at this moment. m may be locked or not. */
HG_API void hg_cond_signal(hg_cond *c);
/* any: wakes all that wait. */
HG_API void hg_cond_broadcast(hg_cond *c);

/* Units that tasks acquire, one or many at a time, and release. First come, first served: who waits
 * for many is not overtaken. Begins with no units: release as many as there are to be. */
typedef struct hg_sema {
    uintptr_t w[4];
} hg_sema;
/* S W: takes n units, all at once. 0; -EAGAIN, -ETIMEDOUT, -ECANCELED; -EINVAL: n is negative. */
HG_API int hg_sema_acquire(hg_sema *s, int64_t n, int64_t deadline);
/* any: gives n units; by any task, not only one that has acquired some. A negative n is fatal. */
HG_API void hg_sema_release(hg_sema *s, int64_t n);
/* any: units that are free now; of use for statistics only. */
HG_API int64_t hg_sema_units(const hg_sema *s);

/* Something that is done once, by the first that comes. */
typedef struct hg_once {
    uintptr_t w[6];
} hg_once;
/* S W: calls fn(arg) unless a call of it has returned 0 before; while another task is in it, waits
 * for that. 0: it was done, now or before, and all that it did is visible here. What fn returned,
 * if it was called here and failed: it is not done then, and the next that comes, or waits, calls
 * its own fn. -EAGAIN, -ETIMEDOUT, -ECANCELED: the wait for another task's call ended early (the
 * deadline is not one for fn); -EDEADLK: called from inside fn. A task that
 * ends inside fn (hg_task_exit) has failed. */
HG_API int hg_once_do(hg_once *o, int (*fn)(void *), void *arg, int64_t deadline);

HG_END_DECLS
#endif

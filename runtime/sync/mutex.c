/* mutex.c: a mutual exclusion lock for tasks, starvation-free.
 *
 * The state word says it all while nobody waits: one compare-and-swap to lock, one to unlock.
 * Waiters queue up (wait.h). Unlock wakes the first waiter in one of two ways:
 *
 *   compete  the mutex is free, and the waiter, once it runs, tries for it like everyone else.
 *            Running tasks get it in the meantime without a switch, which is what makes a
 *            contended mutex fast. The loser goes back to the front of the queue and keeps its
 *            start time. While one is on its way (WOKEN), unlock wakes no other.
 *   hand     a waiter that has waited HANDOFF_NS gets the mutex itself: it is never free in
 *            between, so that nobody can overtake. A waiter fails at most once after that time
 *            before it is at the front and is handed the mutex.
 *
 * State: LOCKED   held.         Set: by cas. Cleared: by the holder only
 *        WAITERS  the queue is not empty (or its waiters are about to time out). Set and cleared
 *                 under the queue's lock, set only while LOCKED: so the holder's unlock cannot
 *                 miss it
 *        WOKEN    a task was woken to compete. Set: by the holder as it lets go. Cleared: by
 *                 that task alone, in the cas that takes the mutex or sets WAITERS The holder
 *                 that has the queue's lock too finds the state unchanged by others unless WOKEN
 *                 is set.
 *
 * Order: taking acquires and letting go releases on the state word; a handed mutex is ordered by
 * the park.
 */
#include "runtime/sync/wait.h"

#include <errno.h>
#include <hedge/sync.h>

#define LOCKED     ((uintptr_t)1)
#define WAITERS    ((uintptr_t)2)
#define WOKEN      ((uintptr_t)4)
#define HANDOFF_NS INT64_C(1000000)

/* What lies in the words of an hg_mutex, which programs know as memory that only the library
 * looks into. */
struct mutex {
    _Atomic uintptr_t state; /* writers and readers: everyone */
    struct hg_sync_queue queue;
    uintptr_t spare;
};
_Static_assert(sizeof(struct mutex) == sizeof(hg_mutex), "its words hold one");
_Static_assert(_Alignof(struct mutex) <= _Alignof(hg_mutex), "aligned for one");

static inline struct mutex *mutex_of(hg_mutex *m) { return (struct mutex *)(void *)m; }

/* ---- lock ---- */

static bool take_if_free(struct mutex *x)
{
    uintptr_t s = hg_load_rlx(&x->state);
    while (!(s & LOCKED))
        if (hg_cas_acqrel(&x->state, &s, s | LOCKED))
            return true;
    return false;
}

/* Under the queue's lock. True: taken. False: it is held, and its holder will see WAITERS.
 * woken: the caller is the one that WOKEN stands for. */
static bool take_or_announce(struct mutex *x, bool woken)
{
    uintptr_t s = hg_load_rlx(&x->state), to;
    do {
        to = s & LOCKED ? s | WAITERS : s | LOCKED;
        if (woken)
            to &= ~WOKEN;
    } while (!hg_cas_acqrel(&x->state, &s, to));
    return !(s & LOCKED);
}

/* The queue is locked on entry and not on return. w need not be in it. */
static void give_up(struct mutex *x, struct hg_sync_waiter *w)
{
    hg__sync_remove(&x->queue, w);
    if (x->queue.first == NULL)
        (void)hg_and_acqrel(&x->state, ~WAITERS);
    hg__unlock(&x->queue.lock);
}

static __attribute__((noinline)) int lock_slow(struct mutex *x, int64_t deadline)
{
    if (take_if_free(x))
        return 0;
    if (deadline == HG_NOW)
        return -EAGAIN;
    struct hg_tcb *t = hg__task_self();
    if (t == NULL)
        return -EPERM;
    struct hg_sync_waiter w = {.task = t, .since = hg__os_now()};
    for (bool woken = false;; woken = true) {
        hg__sync_lock(&x->queue);
        if (take_or_announce(x, woken)) {
            hg__unlock(&x->queue.lock);
            return 0;
        }
        int r = hg__wait_enter(t, &deadline);
        if (r != 0) {
            give_up(x, &w);
            return r;
        }
        w.ticket = hg__park_begin(t);
        hg__sync_push(&x->queue, &w, woken);
        r = hg__wait_error(hg__park(t, w.ticket, deadline, hg__sync_commit, &x->queue, "mutex"));
        if (r != 0) {
            hg__sync_lock(&x->queue);
            give_up(x, &w);
            return r;
        }
        if (w.handed)
            return 0;
    }
}

HG_API int hg_mutex_lock_until(hg_mutex *m, int64_t deadline)
{
    struct mutex *x = mutex_of(m);
    uintptr_t s = 0;
    (void)hg__sync_enter();
    if (hg_likely(hg_cas_acqrel(&x->state, &s, LOCKED)))
        return 0;
    return lock_slow(x, deadline);
}

HG_API void hg_mutex_lock(hg_mutex *m)
{
    struct mutex *x = mutex_of(m);
    uintptr_t s = 0;
    (void)hg__sync_enter();
    if (hg_likely(hg_cas_acqrel(&x->state, &s, LOCKED)))
        return;
    struct hg_tcb *t = hg__task_self();
    uint32_t mask = t != NULL ? hg__mask(t) : 0;
    int r = lock_slow(x, HG_FOREVER);
    HG_CHECK(r == 0, "hg_mutex_lock: the mutex is held, and only a task can wait for it");
    if (t != NULL)
        hg__unmask(t, mask);
}

/* ---- unlock ---- */

/* By the holder, WOKEN not set. True: the mutex is let go or handed over, and may be gone.
 * False: nobody waits. */
static bool wake_first(struct mutex *x)
{
    hg__sync_lock(&x->queue);
    struct hg_sync_waiter *w = hg__sync_claim(&x->queue);
    uintptr_t rest = x->queue.first != NULL ? WAITERS : 0;
    if (w == NULL) {
        /* Letting go is left to the caller: it must come after the last access to the queue. */
        hg_store_rel(&x->state, LOCKED);
        hg__unlock(&x->queue.lock);
        return false;
    }
    struct hg_tcb *t = w->task;
    bool hand = hg__os_now() - w->since >= HANDOFF_NS;
    w->handed = hand;
    hg_store_rel(&x->state, hand ? LOCKED | rest : WOKEN | rest);
    hg__unlock(&x->queue.lock);
    /* A mutex that was handed over holds everyone up until its new holder runs. */
    hg__ready(t, hand);
    return true;
}

static __attribute__((noinline)) void unlock_slow(struct mutex *x, uintptr_t s)
{
    for (;;) {
        HG_CHECK(s & LOCKED, "hg_mutex_unlock: mutex %p is not locked", (void *)x);
        if ((s & WAITERS) && !(s & WOKEN)) {
            if (wake_first(x))
                return;
            s = hg_load_rlx(&x->state);
        } else if (hg_cas_acqrel(&x->state, &s, s & ~LOCKED)) {
            return;
        }
    }
}

HG_API void hg_mutex_unlock(hg_mutex *m)
{
    struct mutex *x = mutex_of(m);
    uintptr_t s = LOCKED;
    if (hg_unlikely(!hg_cas_acqrel(&x->state, &s, (uintptr_t)0)))
        unlock_slow(x, s);
}

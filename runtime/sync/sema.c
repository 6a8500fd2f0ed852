/* sema.c: a counting semaphore: units that tasks acquire, one or several at a time, and release.
 * First come, first served: who wants many is not overtaken by those who want few.
 *
 * State word: WAITERS  the queue is not empty (or its waiters are about to time out). Set and
 * cleared
 *                      under the queue's lock
 *             units    the rest, in units of UNIT
 * While nobody waits everything is one compare-and-swap. While WAITERS is set the state changes
 * under the queue's lock only: who acquires queues up, who releases gives the units to those at the
 * front, as far as they go.
 *
 * Who gives up may have been all that kept those behind it from their units: it serves them.
 *
 * Order: as in rwlock.c.
 */
#include "runtime/sync/wait.h"

#include <errno.h>
#include <hedge/sync.h>

#define WAITERS   ((uintptr_t)1)
#define UNIT      ((uintptr_t)2)
#define UNITS_MAX (UINTPTR_MAX / 4)

struct sema {
    _Atomic uintptr_t state; /* writers and readers: everyone */
    struct hg_sync_queue queue;
    uintptr_t spare;
};
_Static_assert(sizeof(struct sema) == sizeof(hg_sema), "its words hold one");
_Static_assert(_Alignof(struct sema) <= _Alignof(hg_sema), "aligned for one");

static inline struct sema *sema_of(hg_sema *s) { return (struct sema *)(void *)s; }

/* ---- acquire ---- */

static inline bool has(uintptr_t state, uintptr_t n)
{
    return (state & WAITERS) == 0 && state / UNIT >= n;
}

static inline bool take(struct sema *x, uintptr_t n)
{
    uintptr_t s = hg_load_rlx(&x->state);
    while (has(s, n))
        if (hg_cas_acqrel(&x->state, &s, s - n * UNIT))
            return true;
    return false;
}

/* Under the queue's lock. True: taken. False: who releases will see WAITERS. */
static bool take_or_announce(struct sema *x, uintptr_t n)
{
    uintptr_t s = hg_load_rlx(&x->state), to;
    do {
        to = has(s, n) ? s - n * UNIT : s | WAITERS;
    } while (!hg_cas_acqrel(&x->state, &s, to));
    return has(s, n);
}

/* Gives `units`, in the hands of the caller, to those at the front of the queue, which is locked
 * and not empty. Returns what is left. */
static uintptr_t serve(struct sema *x, uintptr_t units, struct hg_sync_won *won)
{
    for (struct hg_sync_waiter *w; (w = x->queue.first) != NULL && w->wants <= units;) {
        if (hg__sync_claim_first(&x->queue)) {
            units -= w->wants;
            hg__sync_won_add(won, w->task);
        }
    }
    return units;
}

static void give_up(struct sema *x, struct hg_sync_waiter *w)
{
    struct hg_sync_won won = {0};
    hg__sync_lock(&x->queue);
    hg__sync_remove(&x->queue, w);
    uintptr_t s = hg_load_rlx(&x->state);
    if (s & WAITERS) { /* nobody else changes it */
        uintptr_t left = serve(x, s / UNIT, &won);
        hg_store_rel(&x->state, left * UNIT | (x->queue.first != NULL ? WAITERS : 0));
    }
    hg__unlock(&x->queue.lock);
    hg__sync_won_ready(&won);
}

static __attribute__((noinline)) int acquire_slow(struct sema *x, uintptr_t n, int64_t deadline)
{
    if (deadline == HG_NOW)
        return -EAGAIN;
    struct hg_tcb *t = hg__task_self();
    int r = t != NULL ? hg__wait_enter(t, &deadline) : -EPERM;
    if (r != 0)
        return r;
    struct hg_sync_waiter w = {.task = t, .wants = n};
    hg__sync_lock(&x->queue);
    if (take_or_announce(x, n)) {
        hg__unlock(&x->queue.lock);
        return 0;
    }
    w.ticket = hg__park_begin(t);
    hg__sync_push(&x->queue, &w, false);
    r = hg__wait_error(hg__park(t, w.ticket, deadline, hg__sync_commit, &x->queue, "semaphore"));
    if (r != 0)
        give_up(x, &w);
    return r;
}

HG_API int hg_sema_acquire(hg_sema *s, int64_t n, int64_t deadline)
{
    struct sema *x = sema_of(s);
    (void)hg__sync_enter();
    if (n < 0 || (uint64_t)n > UNITS_MAX)
        return -EINVAL;
    if (hg_likely(take(x, (uintptr_t)n)))
        return 0;
    return acquire_slow(x, (uintptr_t)n, deadline);
}

/* ---- release ---- */

/* WAITERS was seen. True: the units are given, and x may be gone. False: nobody waits. */
static bool release_to_waiters(struct sema *x, uintptr_t n)
{
    struct hg_sync_won won = {0};
    hg__sync_lock(&x->queue);
    uintptr_t s = hg_load_rlx(&x->state);
    if ((s & WAITERS) == 0) {
        hg__unlock(&x->queue.lock);
        return false;
    }
    uintptr_t units = s / UNIT + n, left = serve(x, units, &won);
    bool waited = won.first != NULL || x->queue.first != NULL;
    /* If all have timed out the units are left to the caller: giving them must come after the last
     * access to the queue. */
    if (waited)
        hg_store_rel(&x->state, left * UNIT | (x->queue.first != NULL ? WAITERS : 0));
    else
        hg_store_rel(&x->state, s & ~WAITERS);
    hg__unlock(&x->queue.lock);
    hg__sync_won_ready(&won);
    return waited;
}

HG_API void hg_sema_release(hg_sema *sema, int64_t n)
{
    struct sema *x = sema_of(sema);
    HG_CHECK(n >= 0 && (uint64_t)n <= UNITS_MAX, "hg_sema_release: %lld units", (long long)n);
    uintptr_t s = hg_load_rlx(&x->state);
    for (;;) {
        HG_CHECK(s / UNIT + (uintptr_t)n <= UNITS_MAX, "hg_sema_release: %p has too many units",
                 (void *)x);
        if (hg_unlikely(s & WAITERS)) {
            if (release_to_waiters(x, (uintptr_t)n))
                return;
            s = hg_load_rlx(&x->state);
        } else if (hg_likely(hg_cas_acqrel(&x->state, &s, s + (uintptr_t)n * UNIT))) {
            return;
        }
    }
}

HG_API int64_t hg_sema_units(const hg_sema *s)
{
    return (int64_t)(hg_load_rlx(&((const struct sema *)(const void *)s)->state) / UNIT);
}

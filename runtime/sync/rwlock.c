/* rwlock.c: a lock that many readers or one writer hold. First come, first served.
 *
 * State word: WRITER    one writer holds it
 *             WAITERS   the queue is not empty (or its waiters are about to time out). Set while
 *                       the lock is held only; set and cleared under the queue's lock
 *             readers   the rest, in units of READER
 * While nobody waits, everything is one compare-and-swap. While WAITERS is set newcomers queue up,
 * readers too: so writers do not starve. And the lock is handed over, never let go: the last holder
 * gives it to the first in the queue, if that is a reader with all readers that follow it. So
 * readers do not starve either: in front of each are at most those who came before it.
 *
 * While WAITERS is set the state changes in two ways: a reader that is not the last one takes
 * itself off, by compare-and-swap; all else is done under the queue's lock. So under that lock the
 * last holder may simply store.
 *
 * A writer that gives up may have been all that kept readers behind it from joining those who hold
 * the lock: who gives up lets them in.
 *
 * Order: taking acquires and letting go releases on the state word; a lock that was handed over is
 * ordered by the park. Readers' letting go is acquire-release, so that the last one passes on what
 * the others did. Rejected: preferring readers (writers starve), writers (readers do); letting
 * newcomers overtake those on the way, as the mutex does: it would make the times that readers and
 * writers get depend on who is awake.
 */
#include "runtime/sync/wait.h"

#include <errno.h>
#include <hedge/sync.h>

#define WRITER  ((uintptr_t)1)
#define WAITERS ((uintptr_t)2)
#define READER  ((uintptr_t)4)

struct rwlock {
    _Atomic uintptr_t state; /* writers and readers: everyone */
    struct hg_sync_queue queue;
    uintptr_t spare;
};
_Static_assert(sizeof(struct rwlock) == sizeof(hg_rwlock), "its words hold one");
_Static_assert(_Alignof(struct rwlock) <= _Alignof(hg_rwlock), "aligned for one");

static inline struct rwlock *rwlock_of(hg_rwlock *l) { return (struct rwlock *)(void *)l; }

/* ---- lock ---- */

/* Whether `kind` (READER or WRITER) may have it now. */
static inline bool is_free_for(uintptr_t state, uintptr_t kind)
{
    return kind == READER ? (state & (WRITER | WAITERS)) == 0 : state == 0;
}

static inline bool take_if_free(struct rwlock *x, uintptr_t kind)
{
    uintptr_t s = hg_load_rlx(&x->state);
    while (is_free_for(s, kind))
        if (hg_cas_acqrel(&x->state, &s, s + kind))
            return true;
    return false;
}

/* Under the queue's lock. True: taken. False: it is held, and its last holder will see WAITERS. */
static bool take_or_announce(struct rwlock *x, uintptr_t kind)
{
    uintptr_t s = hg_load_rlx(&x->state), to;
    do {
        to = is_free_for(s, kind) ? s + kind : s | WAITERS;
    } while (!hg_cas_acqrel(&x->state, &s, to));
    return is_free_for(s, kind);
}

/* Takes readers off the front of the queue that have not timed out. Returns READER for each. */
static uintptr_t claim_readers(struct rwlock *x, struct hg_sync_won *won)
{
    uintptr_t readers = 0;
    for (struct hg_sync_waiter *w; (w = x->queue.first) != NULL && w->wants == READER;) {
        if (hg__sync_claim_first(&x->queue)) {
            hg__sync_won_add(won, w->task);
            readers += READER;
        }
    }
    return readers;
}

static void give_up(struct rwlock *x, struct hg_sync_waiter *w)
{
    struct hg_sync_won won = {0};
    hg__sync_lock(&x->queue);
    hg__sync_remove(&x->queue, w);
    uintptr_t s = hg_load_rlx(&x->state);
    if ((s & WAITERS) && !(s & WRITER)) {
        uintptr_t readers = claim_readers(x, &won);
        hg_add_acqrel(&x->state,
                      readers); /* to those who hold it: WAITERS is set, so somebody does */
    }
    if (x->queue.first == NULL)
        (void)hg_and_acqrel(&x->state, ~WAITERS);
    hg__unlock(&x->queue.lock);
    hg__sync_won_ready(&won);
}

static __attribute__((noinline)) int lock_slow(struct rwlock *x, uintptr_t kind, int64_t deadline)
{
    if (deadline == HG_NOW)
        return -EAGAIN;
    struct hg_tcb *t = hg__task_self();
    int r = t != NULL ? hg__wait_enter(t, &deadline) : -EPERM;
    if (r != 0)
        return r;
    struct hg_sync_waiter w = {.task = t, .wants = kind};
    hg__sync_lock(&x->queue);
    if (take_or_announce(x, kind)) {
        hg__unlock(&x->queue.lock);
        return 0;
    }
    w.ticket = hg__park_begin(t);
    hg__sync_push(&x->queue, &w, false);
    r = hg__wait_error(hg__park(t, w.ticket, deadline, hg__sync_commit, &x->queue,
                                kind == READER ? "read lock" : "write lock"));
    if (r != 0)
        give_up(x, &w);
    return r;
}

static inline int lock(hg_rwlock *l, uintptr_t kind, int64_t deadline)
{
    struct rwlock *x = rwlock_of(l);
    uintptr_t s = 0;
    (void)hg__sync_enter();
    if (hg_likely(hg_cas_acqrel(&x->state, &s, kind)) || take_if_free(x, kind))
        return 0;
    return lock_slow(x, kind, deadline);
}

HG_API int hg_rwlock_lock_read(hg_rwlock *l, int64_t deadline) { return lock(l, READER, deadline); }
HG_API int hg_rwlock_lock_write(hg_rwlock *l, int64_t deadline)
{
    return lock(l, WRITER, deadline);
}

/* ---- unlock ---- */

/* By a holder that has found itself the last one, and WAITERS set. True: the lock is handed over,
 * and may be gone. False: that is so no more (who gave up has let readers in), or nobody waits. */
static bool hand_over(struct rwlock *x, uintptr_t held)
{
    struct hg_sync_won won = {0};
    uintptr_t to = 0;
    hg__sync_lock(&x->queue);
    if (hg_load_rlx(&x->state) != (held | WAITERS)) {
        hg__unlock(&x->queue.lock);
        return false;
    }
    while (to == 0 && x->queue.first != NULL) {
        struct hg_sync_waiter *w = x->queue.first;
        if (w->wants == READER) {
            to = claim_readers(x, &won);
        } else if (hg__sync_claim_first(&x->queue)) {
            hg__sync_won_add(&won, w->task);
            to = WRITER;
        }
    }
    /* Letting go is left to the caller: it must come after the last access to the queue. */
    hg_store_rel(&x->state, (to != 0 ? to : held) | (x->queue.first != NULL ? WAITERS : 0));
    hg__unlock(&x->queue.lock);
    hg__sync_won_ready(&won);
    return to != 0;
}

static inline void unlock(struct rwlock *x, uintptr_t kind)
{
    uintptr_t s = kind;
    for (;;) {
        if (hg_unlikely(s == (kind | WAITERS))) {
            if (hand_over(x, kind))
                return;
            s = hg_load_rlx(&x->state);
        } else if (hg_likely(hg_cas_acqrel(&x->state, &s, s - kind))) {
            return;
        }
    }
}

HG_API void hg_rwlock_unlock_read(hg_rwlock *l)
{
    struct rwlock *x = rwlock_of(l);
    HG_CHECK(hg_load_rlx(&x->state) >= READER, "hg_rwlock_unlock_read: no reader holds %p",
             (void *)x);
    unlock(x, READER);
}

HG_API void hg_rwlock_unlock_write(hg_rwlock *l)
{
    struct rwlock *x = rwlock_of(l);
    HG_CHECK(hg_load_rlx(&x->state) & WRITER, "hg_rwlock_unlock_write: no writer holds %p",
             (void *)x);
    unlock(x, WRITER);
}

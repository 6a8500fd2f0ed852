/* waitgroup.c: a count of work that is out, and tasks that wait until it is 0.
 *
 * State word: count * 2 + WAITERS. WAITERS: the queue (wait.h) is not empty; set and cleared
 * under the queue's lock, and set only while the count is above 0. An add that makes the count 0
 * while WAITERS is set does so under the queue's lock, together with taking all waiters out; so
 * whoever waits for a later round is not woken by this one, and reuse is free. All other adds
 * are one compare-and-swap.
 *
 * Order: adds are acquire-release on the state word and a wait acquires it, so that what was
 * done before hg_waitgroup_done is visible after the wait; a task that parked is ordered by the
 * park.
 *
 * The last done often races with the end of the group's life, on the stack of the task that
 * waits: see Lifetime in wait.h. Waking is one piece of work of the last done, in proportion to
 * the number of tasks that wait (mostly one).
 */
#include "runtime/sync/wait.h"

#include <errno.h>
#include <hedge/sync.h>

#define WAITERS   ((uintptr_t)1)
#define COUNT_MAX INT64_C(0x7fffffff)

struct group {
    _Atomic uintptr_t state; /* writers and readers: everyone */
    struct hg_sync_queue queue;
    uintptr_t spare;
};
_Static_assert(sizeof(struct group) == sizeof(hg_waitgroup), "its words hold one");
_Static_assert(_Alignof(struct group) <= _Alignof(hg_waitgroup), "aligned for one");

static inline struct group *group_of(hg_waitgroup *g) { return (struct group *)(void *)g; }
static inline int64_t count_of(uintptr_t state) { return (int64_t)(state >> 1); }

/* ---- add ---- */

/* Adds n, which may make the count 0 while tasks wait. False: that is not so any more, and
 * nothing was added. */
static bool add_to_zero(struct group *g, int n)
{
    hg__sync_lock(&g->queue);
    if (g->queue.first == NULL) {
        /* All waiters timed out. Making the count 0 is left to the caller: it must come after
         * the last access. */
        (void)hg_and_acqrel(&g->state, ~WAITERS);
        hg__unlock(&g->queue.lock);
        return false;
    }
    uintptr_t s = hg_load_rlx(&g->state);
    while (count_of(s) + n == 0) {
        if (hg_cas_acqrel(&g->state, &s, (uintptr_t)0)) {
            hg__sync_wake_all(&g->queue);
            return true;
        }
    }
    hg__unlock(&g->queue.lock);
    return false;
}

HG_API void hg_waitgroup_add(hg_waitgroup *group, int n)
{
    struct group *g = group_of(group);
    uintptr_t s = hg_load_rlx(&g->state);
    for (;;) {
        int64_t count = count_of(s) + n;
        HG_CHECK(count >= 0, "hg_waitgroup: the count of %p goes below 0", (void *)g);
        HG_CHECK(count <= COUNT_MAX, "hg_waitgroup: the count of %p is absurd", (void *)g);
        if (hg_unlikely(count == 0 && (s & WAITERS))) {
            if (add_to_zero(g, n))
                return;
            s = hg_load_rlx(&g->state);
        } else if (hg_likely(hg_cas_acqrel(&g->state, &s, (uintptr_t)count << 1 | (s & WAITERS)))) {
            return;
        }
    }
}

HG_API void hg_waitgroup_done(hg_waitgroup *group) { hg_waitgroup_add(group, -1); }

/* ---- wait ---- */

/* Under the queue's lock: false: the count is 0; true: it was not, and who makes it 0 will see
 * WAITERS. */
static bool announce(struct group *g)
{
    uintptr_t s = hg_load_acq(&g->state);
    while (count_of(s) != 0)
        if (hg_cas_acqrel(&g->state, &s, s | WAITERS))
            return true;
    return false;
}

static void give_up(struct group *g, struct hg_sync_waiter *w)
{
    hg__sync_lock(&g->queue);
    hg__sync_remove(&g->queue, w);
    if (g->queue.first == NULL)
        (void)hg_and_acqrel(&g->state, ~WAITERS);
    hg__unlock(&g->queue.lock);
}

HG_API int hg_waitgroup_wait(hg_waitgroup *group, int64_t deadline)
{
    struct group *g = group_of(group);
    struct hg_mutator *m = hg__sync_enter();
    if (count_of(hg_load_acq(&g->state)) == 0)
        return 0;
    if (deadline == HG_NOW)
        return -EAGAIN;
    if (m == NULL)
        return -EPERM;
    struct hg_tcb *t = hg__proc_of(m)->current;
    struct hg_sync_waiter w = {.task = t};
    int r = hg__wait_enter(t, &deadline);
    if (r != 0)
        return r;
    hg__sync_lock(&g->queue);
    if (!announce(g)) {
        hg__unlock(&g->queue.lock);
        return 0;
    }
    w.ticket = hg__park_begin(t);
    hg__sync_push(&g->queue, &w, false);
    r = hg__wait_error(hg__park(t, w.ticket, deadline, hg__sync_commit, &g->queue, "wait group"));
    if (r != 0)
        give_up(g, &w);
    return r;
}

/* wait.h: what everything that waits in sync/ has in common: entering from a task, and the wait
 * queue of the plain structs (mutex, wait group).
 *
 * Wait queue: zero bytes are an empty one, so that zero is a valid initial state of the structs.
 * `first` is the head of a circular list of waiters, which lie on the stacks of the tasks that
 * wait. No reference to the heap is held: the stacks are not in the heap, and the waiting task's
 * own frame keeps the struct reachable.
 *
 * Invariants (under the queue's lock):
 *   W1  a waiter is in the list if and only if its `queued` is true
 *   W2  a waiter's task does not leave its waiting call before the waiter is out of the list:
 *       whoever wakes it takes it out first, and after a time-out the task takes itself out. So
 *       a waker never meets a record of an old park.
 *
 * Lifetime: a struct may be freed by whoever knows that no call on it is under way, but for the
 * unlock or done of another task that already let the caller through. So the last thing that
 * such a call does to the struct is the store that lets others through, or the unlock of the
 * queue while a task whose waiter was found there still cannot return.
 */
#ifndef HG_RUNTIME_SYNC_WAIT_H
#define HG_RUNTIME_SYNC_WAIT_H
#include "runtime/sched/sched.h"

/* Begins a call that may wait: a safepoint, also for a task that never parks. Returns the
 * current mutator; NULL outside of tasks. */
static inline struct hg_mutator *hg__sync_enter(void)
{
    struct hg_mutator *m = hg__self();
    if (hg_unlikely(m == NULL || hg__proc_of(m)->current == NULL))
        return NULL;
    if (hg_unlikely(hg_load_acq(&m->attention) != 0)) {
        hg__safepoint_slow(m);
        m = hg__self();
    }
    return m;
}

/* On the stack of the task that waits. */
struct hg_sync_waiter {
    struct hg_list link; /* queue's lock */
    struct hg_tcb *task; /* constant */
    uint64_t ticket;     /* of its park; constant while queued */
    int64_t since;       /* when it began to wait; constant */
    uintptr_t wants;     /* rwlock, semaphore: what it waits for; constant */
    bool queued;         /* queue's lock */
    bool handed;         /* mutex: it owns the lock. Writer: who won the park */
};

struct hg_sync_queue {
    struct hg_sync_waiter *first; /* lock */
    struct hg_lock lock;          /* SYNC; guards the list */
};

/* The rank cannot be set at creation, as there is none: everyone writes the same value before
 * taking the lock. */
static inline void hg__sync_lock(struct hg_sync_queue *q)
{
    hg_store_rlx((_Atomic uint32_t *)&q->lock.rank, (uint32_t)HG_RANK_SYNC);
    hg__lock(&q->lock);
}
/* The commit of a park: lets the queue go once the task's registers are saved. */
static inline void hg__sync_commit(void *queue)
{
    hg__unlock(&((struct hg_sync_queue *)queue)->lock);
}

static inline void hg__sync_push(struct hg_sync_queue *q, struct hg_sync_waiter *w, bool front)
{
    HG_ASSERT_HELD(&q->lock);
    HG_ASSERT(!w->queued);
    w->queued = true;
    if (q->first == NULL) {
        hg_list_init(&w->link);
        q->first = w;
        return;
    }
    hg_list_push_back(&q->first->link, &w->link);
    if (front)
        q->first = w;
}
static inline void hg__sync_remove(struct hg_sync_queue *q, struct hg_sync_waiter *w)
{
    HG_ASSERT_HELD(&q->lock);
    if (!w->queued)
        return;
    w->queued = false;
    if (q->first == w)
        q->first = hg_list_empty(&w->link) ? NULL : (struct hg_sync_waiter *)(void *)w->link.next;
    hg_list_remove(&w->link);
}
/* Parks t in the queue, which is locked on entry and not on return, until hg__sync_claim wins the
 * park or the deadline, or who cancels t, does. Returns why; w is out of the queue. */
static inline enum hg_wake hg__sync_park(struct hg_tcb *t, struct hg_sync_queue *q,
                                         struct hg_sync_waiter *w, int64_t deadline,
                                         const char *where)
{
    w->task = t;
    w->ticket = hg__park_begin(t);
    hg__sync_push(q, w, false);
    enum hg_wake why = hg__park(t, w->ticket, deadline, hg__sync_commit, q, where);
    if (why != HG_WAKE_VALUE) {
        hg__sync_lock(q);
        hg__sync_remove(q, w);
        hg__unlock(&q->lock);
    }
    return why;
}
/* Takes the first waiter out. True: and wins its park; false: it times out at this moment. */
static inline bool hg__sync_claim_first(struct hg_sync_queue *q)
{
    struct hg_sync_waiter *w = q->first;
    hg__sync_remove(q, w);
    return hg__park_claim(w->task, w->ticket, HG_WAKE_VALUE);
}
/* Takes out the first waiter whose park the caller wins; those that time out at this moment are
 * dropped. NULL: none. */
static inline struct hg_sync_waiter *hg__sync_claim(struct hg_sync_queue *q)
{
    struct hg_sync_waiter *w;
    while ((w = q->first) != NULL)
        if (hg__sync_claim_first(q))
            return w;
    return NULL;
}
/* Tasks whose parks were won, linked by next, to be made ready once no lock is held. */
struct hg_sync_won {
    struct hg_tcb *first, **last;
};
static inline void hg__sync_won_add(struct hg_sync_won *won, struct hg_tcb *t)
{
    if (won->first == NULL)
        won->last = &won->first;
    t->next = NULL;
    *won->last = t;
    won->last = &t->next;
}
void hg__sync_won_ready(const struct hg_sync_won *won);
/* Makes all that wait ready. The queue is locked on entry and not on return. */
void hg__sync_wake_all(struct hg_sync_queue *q);

/* The mutator that runs here, on behalf of a timer's callback, for a call that does not wait
 * (deadline HG_NOW). NULL: it is no callback, or the call might wait. */
static inline struct hg_mutator *hg__sync_callback(int64_t deadline)
{
    struct hg_mutator *m = hg__self();
    if (m == NULL || deadline != HG_NOW || hg_load_rlx(&hg__proc_of(m)->firing) == NULL)
        return NULL;
    return m;
}

#endif

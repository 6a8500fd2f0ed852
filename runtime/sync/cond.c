/* cond.c: a condition variable: tasks wait, with a mutex let go, until another one signals.
 *
 * A wait puts its record into the queue and then lets the mutex go, both in the commit of its park:
 * so who takes the mutex afterwards, and signals, finds the record, and no wake-up is lost. As the
 * mutex is let go after the queue, the task may be woken before that; it then waits for the mutex,
 * which is still held on its behalf, and so the mutex's memory stays.
 *
 * A wait returns for one of three reasons: a signal, its deadline, cancellation. Exactly one wins
 * the park: a signal is never spent on a task whose wait ends for another reason, and no wait
 * returns for no reason. On return the mutex is held in each case: getting it back is not ended
 * early.
 *
 * First come, first served. Rejected: moving the records of a broadcast to the queue of the mutex,
 * so that they wake one by one. Waking one that only waits for the mutex costs two switches, and
 * the mutex lets those who are awake compete (mutex.c).
 */
#include "runtime/sync/wait.h"

#include <errno.h>
#include <hedge/sync.h>

struct cond {
    struct hg_sync_queue queue;
    uintptr_t spare[2];
};
_Static_assert(sizeof(struct cond) == sizeof(hg_cond), "its words hold one");
_Static_assert(_Alignof(struct cond) <= _Alignof(hg_cond), "aligned for one");

static inline struct cond *cond_of(hg_cond *c) { return (struct cond *)(void *)c; }

struct parking {
    struct hg_sync_queue *queue;
    hg_mutex *mutex;
};

/* From the first unlocking on, what `arg` points to may be gone. */
static void commit(void *arg)
{
    struct parking p = *(struct parking *)arg;
    hg__unlock(&p.queue->lock);
    hg_mutex_unlock(p.mutex);
}

HG_API int hg_cond_wait(hg_cond *c, hg_mutex *mutex, int64_t deadline)
{
    struct cond *x = cond_of(c);
    (void)hg__sync_enter();
    if (deadline == HG_NOW)
        return -EAGAIN;
    struct hg_tcb *t = hg__task_self();
    int r = t != NULL ? hg__wait_enter(t, &deadline) : -EPERM;
    if (r != 0)
        return r;
    struct hg_sync_waiter w = {.task = t};
    struct parking p = {&x->queue, mutex};
    hg__sync_lock(&x->queue);
    w.ticket = hg__park_begin(t);
    hg__sync_push(&x->queue, &w, false);
    r = hg__wait_error(hg__park(t, w.ticket, deadline, commit, &p, "condition"));
    if (r != 0) {
        hg__sync_lock(&x->queue);
        hg__sync_remove(&x->queue, &w);
        hg__unlock(&x->queue.lock);
    }
    hg_mutex_lock(mutex);
    return r;
}

HG_API void hg_cond_signal(hg_cond *c)
{
    struct cond *x = cond_of(c);
    hg__sync_lock(&x->queue);
    struct hg_sync_waiter *w = hg__sync_claim(&x->queue);
    struct hg_tcb *t = w != NULL ? w->task : NULL;
    hg__unlock(&x->queue.lock);
    if (t != NULL)
        hg__ready(t, false);
}

HG_API void hg_cond_broadcast(hg_cond *c)
{
    struct cond *x = cond_of(c);
    hg__sync_lock(&x->queue);
    hg__sync_wake_all(&x->queue);
}

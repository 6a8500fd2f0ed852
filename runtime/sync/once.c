/* once.c: something that is done once, by whoever comes first; others wait until it is done.
 *
 * State: NEW      not done, nobody is at it
 *        RUNNING  `owner` is at it. NEW to RUNNING and back: under the queue's lock
 *        DONE     for good. Release; a call that finds it (acquire) sees what was done
 * A try that fails, or whose task was cancelled in it, leaves the state NEW and wakes the first
 * that waits, which tries in its turn. All that wait are woken by DONE.
 */
#include "runtime/sync/wait.h"

#include <errno.h>
#include <hedge/sync.h>

enum once_state { NEW, RUNNING, DONE };

struct once {
    _Atomic uintptr_t state; /* writers: under the queue's lock; readers: everyone */
    struct hg_sync_queue queue;
    struct hg_tcb *owner; /* RUNNING: the task that is at it, NULL: none; lock */
    uintptr_t spare[2];
};
_Static_assert(sizeof(struct once) == sizeof(hg_once), "its words hold one");
_Static_assert(_Alignof(struct once) <= _Alignof(hg_once), "aligned for one");

static inline struct once *once_of(hg_once *o) { return (struct once *)(void *)o; }

/* One call of fn. On the stack of who makes it. */
struct attempt {
    struct once *once;
    int result;
};

/* Also when the task leaves fn by hg_task_exit: then the attempt has failed. */
static void end(void *arg)
{
    const struct attempt *a = arg;
    struct once *x = a->once;
    hg__sync_lock(&x->queue);
    x->owner = NULL;
    hg_store_rel(&x->state, a->result == 0 ? DONE : NEW);
    if (a->result == 0) {
        hg__sync_wake_all(&x->queue);
        return;
    }
    struct hg_sync_waiter *w = hg__sync_claim(&x->queue);
    struct hg_tcb *next = w != NULL ? w->task : NULL;
    hg__unlock(&x->queue.lock);
    if (next != NULL)
        hg__ready(next, false);
}

static int run(struct once *x, int (*fn)(void *), void *arg)
{
    struct attempt a = {x, -ECANCELED};
    hg_defer_node d;
    bool task = hg__task_self() != NULL;
    if (task)
        hg_defer(&d, end, &a);
    a.result = fn(arg);
    if (task)
        hg_defer_run(&d);
    else
        end(&a);
    return a.result;
}

/* The queue locked. 0: it is done; 1: the caller is to do it; -EAGAIN: another is at it;
 * -EDEADLK. */
static int look(struct once *x, struct hg_tcb *self)
{
    uintptr_t s = hg_load_rlx(&x->state);
    if (s == DONE)
        return 0;
    if (s == RUNNING)
        return self != NULL && x->owner == self ? -EDEADLK : -EAGAIN;
    hg_store_rlx(&x->state, RUNNING);
    x->owner = self;
    return 1;
}

HG_API int hg_once_do(hg_once *o, int (*fn)(void *), void *arg, int64_t deadline)
{
    struct once *x = once_of(o);
    (void)hg__sync_enter();
    while (hg_unlikely(hg_load_acq(&x->state) != DONE)) {
        struct hg_tcb *t = hg__task_self();
        struct hg_sync_waiter w = {.task = t};
        hg__sync_lock(&x->queue);
        int r = look(x, t);
        if (r == -EAGAIN && deadline != HG_NOW) {
            r = t != NULL ? hg__wait_enter(t, &deadline) : -EPERM;
            if (r == 0)
                r = hg__wait_error(hg__sync_park(t, &x->queue, &w, deadline, "once"));
            else
                hg__unlock(&x->queue.lock);
            if (r != 0)
                return r;
            continue;
        }
        hg__unlock(&x->queue.lock);
        if (r <= 0)
            return r;
        return run(x, fn, arg);
    }
    return 0;
}

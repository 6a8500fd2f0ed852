/* timer.c: the timers of programs (hedge/timer.h). Those with a function are nodes in the procs'
 * heaps (sched/timer.c has the rules for firing, T5, and for timers in collected objects); those
 * without are a time and a wait queue.
 *
 * With a function:
 *   - hg_timer_reset arms on the calling proc, wherever it was armed before. So a timer comes into
 *     the heap of a proc that is awake, and no other has to be woken for it
 *   - who must wait for a callback that runs on another proc spins for a moment, then sleeps
 *
 * Without: `when` is the whole state, HG_FOREVER: not armed. It changes under the queue's lock
 * only, and who waits parks with it as the deadline of the park. A change wakes all who wait, and
 * they look again. Firing is the moment in which one of them finds, under the lock, that the time
 * has come, and makes it HG_FOREVER. So a firing goes to one wait or is prevented by one stop, by
 * the lock alone.
 */
#include "runtime/sync/wait.h"

#include <errno.h>
#include <hedge/heap.h>
#include <hedge/timer.h>

#define SPINS       200
#define CALLBACK_NS INT64_C(10000) /* how long a callback may take that is not put off its CPU */

struct timer {
    struct hg_timer_callback callback;
    void (*fn)(hg_timer *t, void *arg); /* constant while armed */
    void *arg;                          /* likewise */
    struct hg_sync_queue queue;         /* without a function: who waits */
    /* HG_FOREVER - when, so that 0 is "not armed". Without a function; writers: under the queue's
     * lock; readers: hg_timer_when, too. */
    _Atomic int64_t off;
};
_Static_assert(sizeof(struct timer) <= sizeof(hg_timer), "its words hold one");
_Static_assert(_Alignof(struct timer) <= _Alignof(hg_timer), "aligned for one");
_Static_assert(HG_TIMER_ARG(0) == offsetof(struct timer, arg), "layouts name the argument");

static inline struct timer *timer_of(hg_timer *t) { return (struct timer *)(void *)t; }

static inline int64_t when_of(const struct timer *x)
{
    return (int64_t)((uint64_t)HG_FOREVER - (uint64_t)hg_load_rlx(&x->off));
}
static inline void set_when(struct timer *x, int64_t when)
{
    hg_store_rlx(&x->off, (int64_t)((uint64_t)HG_FOREVER - (uint64_t)when));
}

/* ---- with a function ---- */

static void run_callback(struct hg_timer_node *node, int64_t now)
{
    struct timer *x = hg_container_of(node, struct timer, callback.node);
    void *arg = x->arg;
    (void)now;
    /* It may come from a stack that is not scanned yet, and go to where no scan will find it. */
    hg__shade_words(hg__self(), &arg, 1);
    x->fn((hg_timer *)(void *)x, arg);
}

/* The proc that runs here. */
static struct hg_proc *proc_here(const char *what)
{
    struct hg_mutator *m = hg__self();
    HG_CHECK(m != NULL, "%s: called outside of a task, or inside a blocking region", what);
    return hg__proc_of(m);
}
static bool in_callback(const struct hg_proc *p) { return hg_load_rlx(&p->firing) != NULL; }

/* On a task: waits until the callback of x does not run on another proc, or a new one does. A
 * callback that takes longer than a few microseconds was most likely put off its CPU, perhaps by
 * the very task that it woke and that stops the timer now. Yielding would keep that CPU busy until
 * the kernel takes it away, a millisecond or more later; sleeping gives it up. */
static void wait_for_callback(const struct timer *x, const struct hg_sched *s)
{
    struct hg_tcb *t = hg__task_self();
    uint32_t mask = hg__mask(t); /* it is waited for also by who is cancelled */
    for (int i = 0; hg__timer_is_firing(s, &x->callback.node, NULL); i++) {
        if (i < SPINS)
            hg_cpu_relax();
        else
            hg_sleep(CALLBACK_NS);
    }
    hg__unmask(t, mask);
}

static void *grow_on_scheduler(void *m, void *unused)
{
    (void)unused;
    return (void *)(uintptr_t)hg__timers_grow(hg__proc_of(m));
}

static bool grow(struct hg_proc *p)
{
    if (p->current == NULL)
        return hg__timers_grow(p);
    return hg__on_scheduler(&p->mut, grow_on_scheduler, NULL) != NULL;
}

static int reset_callback(struct timer *x, int64_t when)
{
    bool was = false;
    for (;;) {
        struct hg_proc *p = proc_here("hg_timer_reset");
        int r = hg__timer_set(p, &x->callback.node, when, &was);
        if (r == -EAGAIN && !grow(p))
            return -ENOMEM;
        if (r == -EBUSY && in_callback(p))
            return -EBUSY;
        if (r == -EBUSY)
            wait_for_callback(x, p->sched);
        if (r == 0)
            return was ? 1 : 0;
    }
}

static bool stop_callback(struct timer *x)
{
    struct hg_proc *p = proc_here("hg_timer_stop");
    while (!hg__timer_stop(&x->callback.node)) {
        if (in_callback(p) || !hg__timer_is_firing(p->sched, &x->callback.node, NULL))
            return false;
        wait_for_callback(x, p->sched);
        p = proc_here("hg_timer_stop"); /* it may have armed itself again */
    }
    return true;
}

/* In the timer's own callback: what is to be done when that returns. */
static bool set_again(struct hg_proc *p, int64_t when)
{
    bool was = p->fire_again != HG_FOREVER;
    p->fire_again = when;
    return was;
}
static bool is_own(const struct hg_proc *p, const struct timer *x)
{
    return hg_load_rlx(&p->firing) == &x->callback.node;
}

/* ---- without ---- */

/* Returns whether it was armed. */
static bool set_time(struct timer *x, int64_t when)
{
    hg__sync_lock(&x->queue);
    bool was = when_of(x) != HG_FOREVER;
    set_when(x, when);
    hg__sync_wake_all(&x->queue);
    return was;
}

/* One look, the queue locked. 0: it fires for the caller; -EPIPE: it is not armed; -EAGAIN. */
static int try_take(struct timer *x)
{
    int64_t when = when_of(x);
    if (when == HG_FOREVER)
        return -EPIPE;
    if (when > hg__os_now())
        return -EAGAIN;
    set_when(x, HG_FOREVER);
    return 0;
}

HG_API int hg_timer_wait(hg_timer *t, int64_t deadline)
{
    struct timer *x = timer_of(t);
    struct hg_mutator *m = hg__sync_enter();
    if (x->fn != NULL)
        return -EINVAL;
    for (;;) {
        struct hg_tcb *self = m != NULL ? hg__proc_of(m)->current : NULL;
        struct hg_sync_waiter w = {.task = self};
        hg__sync_lock(&x->queue);
        int r = try_take(x);
        if (r == 0) { /* others who wait find it not armed any more */
            hg__sync_wake_all(&x->queue);
            return 0;
        }
        if (r == -EAGAIN && deadline != HG_NOW) {
            r = self != NULL ? hg__wait_enter(self, &deadline) : -EPERM;
            if (r == 0 && deadline <= hg__os_now())
                r = -ETIMEDOUT;
        }
        if (r != 0) {
            hg__unlock(&x->queue.lock);
            return r;
        }
        int64_t when = when_of(x), until = when < deadline ? when : deadline;
        if (hg__sync_park(self, &x->queue, &w, until, "timer") == HG_WAKE_CANCEL)
            return -ECANCELED;
        m = hg__self();
    }
}

/* ---- interface ---- */

HG_API void hg_timer_init(hg_timer *t, void (*fn)(hg_timer *t, void *arg), void *arg)
{
    struct timer *x = timer_of(t);
    struct timer fresh = {.fn = fn, .callback.node = {.fire = run_callback, .callback = true}};
    /* With a barrier where it may be a slot that others can reach, holding an older argument. */
    if (hg__self() != NULL)
        hg_ref_store(&x->arg, arg);
    else
        x->arg = arg;
    x->callback = fresh.callback;
    x->fn = fn;
    x->queue = fresh.queue;
    set_when(x, HG_FOREVER);
}

HG_API int hg_timer_reset(hg_timer *t, int64_t when)
{
    struct timer *x = timer_of(t);
    struct hg_mutator *m = hg__sync_enter();
    if (x->fn == NULL)
        return set_time(x, when) ? 1 : 0;
    if (m == NULL && (m = hg__sync_callback(HG_NOW)) == NULL)
        return -EPERM;
    if (is_own(hg__proc_of(m), x))
        return set_again(hg__proc_of(m), when) ? 1 : 0;
    if (when == HG_FOREVER)
        return stop_callback(x) ? 1 : 0;
    return reset_callback(x, when);
}

HG_API bool hg_timer_stop(hg_timer *t)
{
    struct timer *x = timer_of(t);
    struct hg_mutator *m = hg__sync_enter();
    if (x->fn == NULL)
        return set_time(x, HG_FOREVER);
    if (m == NULL && (m = hg__sync_callback(HG_NOW)) != NULL && is_own(hg__proc_of(m), x))
        return set_again(hg__proc_of(m), HG_FOREVER);
    return stop_callback(x);
}

HG_API int64_t hg_timer_when(const hg_timer *t)
{
    const struct timer *x = (const struct timer *)(const void *)t;
    return x->fn != NULL ? hg__timer_when(&x->callback.node) : when_of(x);
}

/* ticker.c: ticks at fixed times.
 *
 * A ticker is the time of its next tick and the period. Nothing is armed: who waits parks until
 * that time, and takes the tick, under the lock, by moving `next` on by so many periods that it
 * lies in the future. So there is no drift, ticks that were missed become one, and none is left
 * over after a stop or a new start. Of several tasks that wait all wake at the tick's time, and one
 * gets it.
 *
 * Under the queue's lock: period 0: stopped. `next` is read without it, as a hint.
 */
#include "runtime/sync/wait.h"

#include <errno.h>
#include <hedge/timer.h>

struct ticker {
    struct hg_sync_queue queue;
    _Atomic int64_t next; /* writers: under lock; readers: hg_ticker_next, too */
    int64_t period;       /* lock */
    uintptr_t spare[4];
};
_Static_assert(sizeof(struct ticker) == sizeof(hg_ticker), "its words hold one");
_Static_assert(_Alignof(struct ticker) <= _Alignof(hg_ticker), "aligned for one");

static inline struct ticker *ticker_of(hg_ticker *k) { return (struct ticker *)(void *)k; }

/* Sets it, and wakes those that wait, to look again. Returns whether it was running. */
static bool set(struct ticker *x, int64_t next, int64_t period)
{
    hg__sync_lock(&x->queue);
    bool was = x->period != 0;
    hg_store_rlx(&x->next, next);
    x->period = period;
    hg__sync_wake_all(&x->queue);
    return was;
}

HG_API int hg_ticker_start(hg_ticker *k, int64_t first, int64_t period)
{
    if (period <= 0)
        return -EINVAL;
    set(ticker_of(k), first < 1 ? 1 : first, period);
    return 0;
}

HG_API bool hg_ticker_stop(hg_ticker *k) { return set(ticker_of(k), HG_FOREVER, 0); }

HG_API int64_t hg_ticker_next(const hg_ticker *k)
{
    const struct ticker *x = (const struct ticker *)(const void *)k;
    int64_t next = hg_load_rlx(&x->next);
    return next != 0 ? next : HG_FOREVER;
}

/* One look, the queue locked. 0: a tick is taken, *missed more before it; -EPIPE: it is stopped;
 * -EAGAIN. */
static int try_take(struct ticker *x, uint64_t *missed)
{
    int64_t next = hg_load_rlx(&x->next), now = hg__os_now(), to;
    if (x->period == 0)
        return -EPIPE;
    if (next > now)
        return -EAGAIN;
    int64_t passed = (now - next) / x->period;
    if (__builtin_mul_overflow(passed + 1, x->period, &to) || __builtin_add_overflow(to, next, &to))
        to = HG_FOREVER;
    hg_store_rlx(&x->next, to);
    *missed = (uint64_t)passed;
    return 0;
}

HG_API int hg_ticker_wait(hg_ticker *k, int64_t deadline, uint64_t *missed)
{
    struct ticker *x = ticker_of(k);
    struct hg_mutator *m = hg__sync_enter();
    for (;;) {
        struct hg_tcb *self = m != NULL ? hg__proc_of(m)->current : NULL;
        struct hg_sync_waiter w = {.task = self};
        uint64_t passed = 0;
        hg__sync_lock(&x->queue);
        int r = try_take(x, &passed);
        if (r == -EAGAIN && deadline != HG_NOW) {
            r = self != NULL ? hg__wait_enter(self, &deadline) : -EPERM;
            if (r == 0 && deadline <= hg__os_now())
                r = -ETIMEDOUT;
            if (r == 0) {
                int64_t next = hg_load_rlx(&x->next), until = next < deadline ? next : deadline;
                if (hg__sync_park(self, &x->queue, &w, until, "ticker") == HG_WAKE_CANCEL)
                    return -ECANCELED;
                m = hg__self();
                continue;
            }
        }
        hg__unlock(&x->queue.lock);
        if (r == 0 && missed != NULL)
            *missed = passed;
        return r;
    }
}

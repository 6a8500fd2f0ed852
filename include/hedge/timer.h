/* timer.h: timers and tickers.
 *
 * Plain structs that belong to the caller: they may lie on a task's stack, in static or malloc
 * memory, or inside an object of the collected heap. Arming, moving and stopping allocate nothing
 * there, and any task may do it at any time. All zero bytes are a valid timer that is not armed.
 *
 * A timer does one of two things:
 *   - with a function, it calls that between two tasks (hg_timer_init)
 *   - without one, it is waited for (hg_timer_wait). Nothing is sent or kept anywhere: the wait
 *     itself looks at the clock. So a timer that was moved or stopped leaves nothing behind to be
 *     received
 *
 * The contract, for both. Each arming ends in one of two ways: it fires (its function is called, or
 * one hg_timer_wait returns 0), or it is prevented by hg_timer_stop or a later hg_timer_reset,
 * which says so. When these return, nothing of the earlier arming is left: its function neither
 * runs nor will run.
 *
 * Memory. An armed timer keeps nothing alive: neither the memory that it lies in, nor its argument.
 *   - In the collected heap a timer whose object dies is dropped and does not fire. The object's
 *     layout names the argument (HG_TIMER_ARG) unless something else keeps it alive
 *   - Elsewhere it must be stopped before its memory goes away. A task that ends while a timer on
 *     its stack is armed is a fatal error
 *   - For timers in static or malloc memory, something else keeps the argument alive: their memory
 *     is not scanned
 */
#ifndef HEDGE_TIMER_H
#define HEDGE_TIMER_H
#include <hedge/core.h>

HG_BEGIN_DECLS

typedef struct hg_timer {
    uintptr_t w[10];
} hg_timer;

/* In the `fields` of an object's layout: the argument of the timer at byte `offset` of it. */
#define HG_TIMER_ARG(offset) ((uint32_t)((offset) + 5 * sizeof(uintptr_t)))

/* any: sets function and argument of a timer that is not armed; fn NULL: it will be waited for.
 *
 * fn(t, arg) runs on the stack of a proc, between two tasks. It takes a few microseconds at most,
 * as it holds up tasks, other timers and the collector; it neither waits nor allocates from the
 * heap. Calls of one timer never overlap. fn may reset or stop its own timer, and free the timer's
 * memory if it has not reset it. Calls that it may make: hg_timer_*, hg_ticker_start and _stop,
 * hg_chan_send with HG_NOW, hg_sema_release, hg_waitgroup_add and _done, hg_cond_signal and
 * _broadcast, hg_post (to start a task that does what takes longer), hg_ref_store and the like, and
 * calls marked "any". Calls that would wait return -EPERM, or are fatal where they return
 * nothing. */
HG_API void hg_timer_init(hg_timer *t, void (*fn)(hg_timer *t, void *arg), void *arg);

/* S W: arms it for the time `when`, whether it is armed or not: at once if that has passed, never
 * if it is HG_FOREVER. If its function runs at this moment on another proc, waits until that
 * returns. 1: it was armed, and the earlier firing is prevented; 0: it was not. -ENOMEM; -EPERM:
 * not on a task or in a callback; -EBUSY: in another timer's callback, while the function of this
 * one runs: tried again it may succeed. From a callback it never waits; from that of the timer
 * itself, it is armed when the function returns. */
HG_API int hg_timer_reset(hg_timer *t, int64_t when);

/* S W: stops it. True: it was armed, and its firing is prevented. False: it was not armed, or has
 * fired. If its function runs at this moment on another proc, waits until that returns; but not
 * when called from a callback (of this timer or another one), where waiting could go round in a
 * circle. */
HG_API bool hg_timer_stop(hg_timer *t);

/* S W: waits until a timer without a function fires. 0: it did, for this call alone of all that
 * wait; -EPIPE: it is not armed, or is stopped while this waits; -EAGAIN, -ETIMEDOUT, -ECANCELED;
 * -EINVAL: it has a function. One that is moved while this waits is waited for at its new time. */
HG_API int hg_timer_wait(hg_timer *t, int64_t deadline);

/* any: when it is to fire; HG_FOREVER: it is not armed. To wait for a timer and something else,
 * give this as the deadline of the other wait, and ask hg_timer_wait(t, HG_NOW) after
 * -ETIMEDOUT. */
HG_API int64_t hg_timer_when(const hg_timer *t);

/* Ticks at fixed times: first, first + period, first + 2 * period, and so on. Being late for one
 * does not move those that follow. Ticks that nobody has taken become one. A ticker is a time to
 * wait for, and nothing else: it costs nothing while nobody waits, and may be forgotten. */
typedef struct hg_ticker {
    uintptr_t w[8];
} hg_ticker;

/* any, but not from a thread inside a callback of the collector: starts it, or starts it anew:
 * ticks of the earlier start that were not taken are gone. Those that wait, wait on for the new
 * ticks. 0; -EINVAL: period is not above 0. */
HG_API int hg_ticker_start(hg_ticker *k, int64_t first, int64_t period);
/* any: stops it: nothing is delivered any more, and those that wait return. False: it was not
 * running. */
HG_API bool hg_ticker_stop(hg_ticker *k);
/* S W: waits for the next tick; several tasks may, and each tick goes to one. 0: *missed (may be
 * NULL) is how many ticks passed before it that nobody took. -EPIPE: it is stopped; -EAGAIN,
 * -ETIMEDOUT, -ECANCELED. */
HG_API int hg_ticker_wait(hg_ticker *k, int64_t deadline, uint64_t *missed);
/* any: when the next tick is, or was if nobody has taken it; HG_FOREVER: it is stopped. The
 * deadline for waiting for a tick and something else: see hg_timer_when. */
HG_API int64_t hg_ticker_next(const hg_ticker *k);

HG_END_DECLS
#endif

/* internal.h: what the files of sched/ share with each other and with nobody else. See sched.h for
 * the structures.
 *
 * By file:
 *   proc.c     the loop                             wake.c     spinning, idle procs, waking
 *   ready.c    making ready, hand-overs             stack.c    stacks, registry, trimming
 *   runq.c     rings and the global queue           thread.c   OS threads, start, stop
 *   park.c     park, yield, sleep                   region.c   blocking regions
 *   timer.c    arming, stopping, firing timers      monitor.c  preemption, handing on, ticks
 *   timerheap.c  the heaps that hold them           report.c   dump, deadlock, stack overflow
 *   task.c     spawn, end, join                     group.c    groups of tasks
 *   cancel.c   cancellation, ambient deadlines      unwind.c   deferred calls, exit
 *   poll.c     who looks at descriptors, and when
 */
#ifndef HG_RUNTIME_SCHED_INTERNAL_H
#define HG_RUNTIME_SCHED_INTERNAL_H
#include "runtime/mut/sanitize.h"
#include "runtime/sched/sched.h"

#define HG_SLICE_TICKS_NS   INT64_C(10000000) /* a task that has run so long is asked to yield */
#define HG_GLOBAL_ROUNDS    61u            /* every so many rounds the global queue comes first */
#define HG_STACK_UNIT       ((size_t)4096) /* of hg_tcb.pages */
#define HG_PROC_STACK_BYTES ((size_t)256 << 10)

struct hg_thread {
    struct hg_sched *sched;
    struct hg_proc *proc; /* what it runs; NULL: none. Writers: the owner, or who wakes it */
    pthread_t handle;
    uintptr_t sched_sp; /* top of its scheduler stack */
    uintptr_t exit_sp;  /* resuming this ends the thread */
    void *stack_lo;
    size_t stack_bytes;
    void *fiber, *sched_fiber; /* ThreadSanitizer's: the thread's own, and of its scheduler stack */
    uint32_t fiber_uses;
    _Atomic uint32_t wake; /* sleeps on it without a proc; waker: stores 1 (release) after proc */
    void *alt_stack;       /* of the overflow reporter, or NULL */
    struct hg_thread *next, *all_next; /* idle or retired list; all threads; SCHED */
};

/* ---- runq.c ---- */

/* What the inline functions below leave to runq.c: a ring that is full, or a seed that decides. */
void hg__runq_put_full(struct hg_proc *p, struct hg_tcb *t);
struct hg_tcb *hg__ring_get_any(struct hg_proc *p);

static inline void hg__ring_push(struct hg_proc *p, struct hg_tcb *t, uint32_t tail)
{
    hg_store_rlx(&p->ring[tail % HG_RUNQ], t);
    hg_store_rel(&p->tail, tail + 1); /* R1 */
}

/* Owner only. next: into the runnext slot; what was there goes to the ring. */
static inline void hg__runq_put(struct hg_proc *p, struct hg_tcb *t, bool next)
{
    if (next && hg_unlikely(p->sched->seed != 0))
        next = hg_rand_below(&p->rand, 2) != 0;
    if (next) {
        hg_store_rlx(&p->untold, false); /* the caller tells, of what is displaced as well */
        if (hg_load_rlx(&p->runnext) == NULL) {
            hg_store_rel(&p->runnext, t); /* nobody else fills it */
            return;
        }
        t = hg_xchg_acqrel(&p->runnext, t);
        if (t == NULL)
            return;
    }
    uint32_t tail = hg_load_rlx(&p->tail);
    if (hg_likely(tail - hg_load_acq(&p->head) < HG_RUNQ)) /* R2 */
        hg__ring_push(p, t, tail);
    else
        hg__runq_put_full(p, t);
}

/* Owner only: moves the head by one (R2). False: a thief was faster, *head is where it is now. */
static inline bool hg__ring_advance(struct hg_proc *p, uint32_t *head)
{
    if (p->sched->nprocs > 1)
        return hg_cas_acqrel(&p->head, head, *head + 1);
    hg_store_rel(&p->head, *head + 1); /* there are no thieves */
    return true;
}

static inline struct hg_tcb *hg__ring_get(struct hg_proc *p)
{
    uint32_t head = hg_load_acq(&p->head), tail = hg_load_rlx(&p->tail);
    while (head != tail) {
        struct hg_tcb *t = hg_load_rlx(&p->ring[head % HG_RUNQ]);
        if (hg_likely(hg__ring_advance(p, &head))) {
            /* The one after it is cold in most programs: its control block is fetched while this
             * one runs. */
            if (tail - head > 1)
                __builtin_prefetch(hg_load_rlx(&p->ring[(head + 1) % HG_RUNQ]));
            return t;
        }
    }
    return NULL;
}

/* Owner only: what is in runnext, or NULL: a thief was faster. */
static inline struct hg_tcb *hg__runnext_take(struct hg_proc *p)
{
    if (p->sched->nprocs > 1)
        return hg_xchg_acqrel(&p->runnext, NULL);
    struct hg_tcb *t = hg_load_rlx(&p->runnext);
    hg_store_rlx(&p->runnext, NULL); /* there are no thieves */
    return t;
}

/* Owner only. *inherit: it came from runnext and goes on with the time slice. NULL: empty. */
static inline struct hg_tcb *hg__runq_get(struct hg_proc *p, bool *inherit)
{
    *inherit = false;
    if (hg_load_rlx(&p->runnext) != NULL) {
        struct hg_tcb *t = hg__runnext_take(p);
        hg_store_rlx(&p->untold, false);
        if (hg_likely(t != NULL)) {
            *inherit = true;
            return t;
        }
    }
    return hg_unlikely(p->sched->seed != 0) ? hg__ring_get_any(p) : hg__ring_get(p);
}
/* Owner of p, whose ring is empty: takes half of the victim's ring (one of them is returned), or
 * its runnext. */
struct hg_tcb *hg__runq_steal(struct hg_proc *p, struct hg_proc *victim, bool next_too);
/* Any thread: whether the ring or runnext hold something (a hint unless the caller is the
 * owner). */
static inline bool hg__runq_empty(const struct hg_proc *p)
{
    return hg_load_acq(&p->head) == hg_load_acq(&p->tail) && hg_load_acq(&p->runnext) == NULL;
}
/* Any thread: whether p holds a task that others may count on: not one that was handed over without
 * a word, which is p's own to run (Note [WAKE]).
 *
 * runnext is looked at first: a task that yields is in the ring (release) before what is in runnext
 * is taken in its place, so that one of them is seen. */
static inline bool hg__runq_offers(const struct hg_proc *p)
{
    if (hg_load_acq(&p->runnext) != NULL && !hg_load_rlx(&p->untold))
        return true;
    return hg_load_acq(&p->head) != hg_load_acq(&p->tail);
}
/* Any thread: the task in p's runnext, if it stays there for longer than an owner takes that is
 * about to run it; else NULL. */
struct hg_tcb *hg__runnext_lingers(const struct hg_proc *p);
/* Any thread: a chain of n tasks, linked by next, to the tail of the global queue. */
void hg__global_put(struct hg_sched *s, struct hg_tcb *first, struct hg_tcb *last, uint32_t n);
/* Owner of p: the first of the global queue; batch: also p's share of the rest into its ring, which
 * is empty. */
struct hg_tcb *hg__global_get(struct hg_proc *p, bool batch);

/* ---- timerheap.c; under the heap's lock ---- */

/* Slots of the first segment, as a power of two. */
#if defined(HG_HOSTILE)
#define HG_TIMER_FIRST_SHIFT 3
#else
#define HG_TIMER_FIRST_SHIFT 9
#endif
/* Slots before entry 0, so that the four children of one lie in one cache line. */
#define HG_TIMER_LEAD 3u

/* Entry i, for which there is memory. */
static inline struct hg_timer_entry *hg__timer_at(const struct hg_timers *h, uint32_t i)
{
    uint32_t slot = i + HG_TIMER_LEAD;
    if (hg_likely(slot < 1u << HG_TIMER_FIRST_SHIFT))
        return &h->segment[0][slot];
    unsigned top = 31u - (unsigned)__builtin_clz(slot);
    return &h->segment[top - HG_TIMER_FIRST_SHIFT + 1][slot - (1u << top)];
}
static inline size_t hg__timer_segment_bytes(uint32_t k)
{
    return (k == 0 ? (size_t)1 << HG_TIMER_FIRST_SHIFT
                   : (size_t)1 << (HG_TIMER_FIRST_SHIFT + k - 1)) *
           sizeof(struct hg_timer_entry);
}
/* Requires room. */
void hg__timerheap_put(struct hg_timers *h, struct hg_timer_entry e);
void hg__timerheap_remove(struct hg_timers *h, uint32_t i);
/* Entry i is due at another time. */
void hg__timerheap_move(struct hg_timers *h, uint32_t i, int64_t when);
/* A segment more, or the last one, which holds no entry. */
void hg__timerheap_add_segment(struct hg_timers *h, struct hg_timer_entry *segment);
struct hg_timer_entry *hg__timerheap_drop_segment(struct hg_timers *h);

/* ---- wake.c ---- */

/* After work was made visible: wakes an idle proc unless one is looking for work. Note [WAKE]. */
void hg__wake_for_work(struct hg_sched *s);
/* p has a new earliest timer: its thread must not oversleep it. */
void hg__proc_kick(struct hg_proc *p);
/* Another proc's task, or NULL. A proc that spun and found nothing has stopped spinning and looked
 * once more: p->must_spin says what it saw. */
struct hg_tcb *hg__find_elsewhere(struct hg_proc *p);
/* p, which is spinning, has found something: if it was the last spinner, another one looks on. */
void hg__found_while_spinning(struct hg_proc *p);
/* p, which is not spinning, sleeps until it is woken, its next timer is near, or a descriptor is
 * ready; or not at all, if something turns up. The task whose descriptor it was, to run next, or
 * NULL. */
struct hg_tcb *hg__go_idle(struct hg_proc *p);

/* ---- poll.c ---- */

/* p is about to go idle: a task whose descriptor is ready, to run next; others are in p's ring.
 * NULL: none, or a proc sleeps on the descriptors and will see to it. */
struct hg_tcb *hg__poll_before_idle(struct hg_proc *p);
/* Between two tasks, poll_due is set, or p looks around (budget): tasks whose descriptors are ready
 * go to p's ring. budget: returns how many rounds to go until the next time. */
void hg__poll_due(struct hg_proc *p);
uint32_t hg__poll_budget(struct hg_proc *p);
/* True: the caller is the poller, and sleeps on descriptors instead of its futex; false: there are
 * none, or another one does. */
bool hg__poller_begin(struct hg_sched *s);
/* p, the poller: sleeps in net_poll until `until` (HG_NOW: not at all), BLOCKED. A chain of tasks,
 * as net_poll's. Then it is the poller no more. */
struct hg_tcb *hg__poller_sleep(struct hg_proc *p, int64_t until);
/* p goes on with what a poll found: the first, to run next, or NULL; the others are in p's ring. */
struct hg_tcb *hg__poll_take(struct hg_proc *p, struct hg_tcb *chain);
/* Monitor, once a millisecond. seen: its own, of this call. */
void hg__poll_check(struct hg_sched *s, uint32_t *seen);
/* Nobody looks at the descriptors, and no proc is idle that could be told to. */
static inline bool hg__poll_forsaken(const struct hg_sched *s)
{
    return hg_load_acq(&s->net_fds) != 0 && hg_load_rlx(&s->poller) == 0 &&
           hg_load_rlx(&s->idle_count) == 0;
}

/* ---- ready.c ---- */

#define HG_HAND_OVER_UNKNOWN 255u /* hg_tcb.late of a task that has handed over nothing yet */

/* The turn of `by`, in which it handed a task over (p->untold), ends here, or it hands over once
 * more: learns whether that was late. Nothing is to be learned if it was not timed and the task is
 * in runnext yet. */
void hg__hand_over_judge(struct hg_proc *p, struct hg_tcb *by);
/* t was born on p. */
void hg__hand_over_newborn(struct hg_proc *p, struct hg_tcb *t);
/* Owner: if p has a task that was handed over and must not rely on p alone any more, others are
 * told now (H1). */
static inline void hg__tell(struct hg_proc *p)
{
    if (hg_likely(!hg_load_rlx(&p->untold)))
        return;
    hg_store_rlx(&p->untold, false);
    hg__wake_for_work(p->sched); /* W of Note [WAKE]: its fence comes after this store */
}
/* A chain of tasks that p, which is between two tasks, has won: they go to p's ring, and idle procs
 * are told. */
void hg__ready_chain(struct hg_proc *p, struct hg_tcb *first);
/* Likewise one task that p runs next, without a queue in between. */
void hg__ready_in_hand(struct hg_proc *p, struct hg_tcb *t);
/* Stamps a task that becomes runnable, for those who track waits. p: who made it so, or NULL. */
void hg__track_ready(struct hg_tcb *t, struct hg_proc *p);

/* ---- proc.c ---- */

static inline bool hg__timer_due(const struct hg_proc *p, int64_t now)
{
    return hg_load_rlx(&p->timers.next) <= now;
}
/* A task whose time slice is over leaves the running state: what is next in line is no longer
 * preferred. Owner. */
void hg__slice_end(struct hg_proc *p);
/* On the scheduler stack: the running task goes to the end of the own ring. Does not return. A
 * hg_ctx_fn. */
void *hg__yield_on_scheduler(void *m, void *unused);

/* ---- unwind.c ---- */

/* t, the calling task, has returned from its function with something deferred. end: where the
 * frames that are gone lay below. */
void hg__defers_left(struct hg_tcb *t, uintptr_t end);

/* ---- task.c, stack.c ---- */

/* The calling task t ends, with t->result. */
_Noreturn void hg__task_leave(struct hg_tcb *t);

/* The mutator of the calling task, or NULL. */
static inline struct hg_mutator *hg__task_mutator(void)
{
    struct hg_mutator *m = hg__self();
    return m != NULL && hg__proc_of(m)->current != NULL ? m : NULL;
}
/* Index of the pool for stacks of `bytes` (0: default), or -1: too large. */
int hg__stack_class(const struct hg_sched *s, size_t bytes);
/* A control block with its stack from `pool`, or NULL. p: whose pool may be used, or NULL. On
 * a scheduler stack or a thread's own. The block belongs to the caller and is FREE. */
struct hg_tcb *hg__stack_get(struct hg_sched *s, struct hg_proc *p, uint32_t pool);
/* Back to its pool; state is FREE. */
void hg__stack_put(struct hg_sched *s, struct hg_proc *p, struct hg_tcb *t);
/* gccheck: makes the part of t's stack below `sp` read as zero, so that old words are not taken for
 * references that the marker should have seen (gc/verify.c). */
void hg__stack_clear(struct hg_tcb *t, uintptr_t sp);
/* AddressSanitizer: the frames of a task that ended, or is dropped, never returned. Else
 * nothing. */
void hg__stack_forget_frames(struct hg_tcb *t);
/* A stack was found deeper than before. */
void hg__stack_deepened(struct hg_tcb *t, uint32_t pages);
void hg__stacks_init(struct hg_sched *s, size_t stack_bytes);
void hg__stacks_fini(struct hg_sched *s);
size_t hg__stack_bytes(const struct hg_tcb *t);

/* On the scheduler stack: the running task leaves p, its registers saved; notes how deep its stack
 * is. */
static inline __attribute__((always_inline)) struct hg_tcb *hg__task_off(struct hg_proc *p)
{
    struct hg_tcb *t = p->current;
    uint32_t pages = (uint32_t)((t->stack.hi - t->stack.sp + HG_STACK_UNIT - 1) / HG_STACK_UNIT);
    if (hg_unlikely(pages > hg_load_rlx(&t->pages)))
        hg__stack_deepened(t, pages);
    if (hg_unlikely(hg_load_rlx(&p->untold)) &&
        (p->handed_at != 0 || hg_load_rlx(&p->runnext) == NULL))
        hg__hand_over_judge(p, t);
    p->current = NULL;
    p->mut.stack = NULL;
    return t;
}

/* Likewise; the task stays runnable. The caller puts it into a queue. */
static inline struct hg_tcb *hg__task_gives_way(struct hg_proc *p)
{
    struct hg_tcb *t = hg__task_off(p);
    if (hg_unlikely(p->sched->track_waits))
        hg__track_ready(t, p);
    hg_store_rel(&t->state, HG_TASK_RUNNABLE);
    return t;
}

/* ---- thread.c ---- */

/* A new thread; p: what it runs, NULL: it goes to the idle threads. 0 or -errno. */
int hg__thread_new(struct hg_sched *s, struct hg_proc *p);
/* Joins the threads that have retired. Monitor (who made them), or hg__sched_stop. */
void hg__threads_reap(struct hg_sched *s);
/* On th's scheduler stack, without a proc: sleeps until it is given one, and runs it. */
_Noreturn void hg__thread_idle(struct hg_thread *th);
/* On th's scheduler stack: ends the thread. It owns no proc, or one that is BLOCKED. */
_Noreturn void hg__thread_exit(struct hg_thread *th);

/* ThreadSanitizer keeps the calls of each stack. Those of the scheduler stack never return, so now
 * and then it gets a new record. In the function that never returns itself. */
static inline __attribute__((always_inline)) void hg__thread_fresh_fiber(struct hg_thread *th)
{
#if HG_TSAN
    if (++th->fiber_uses % 1024 != 0)
        return;
    void *old = th->sched_fiber;
    th->sched_fiber = th->proc->mut.sched_fiber = __tsan_create_fiber(0);
    __tsan_switch_to_fiber(th->sched_fiber, 0);
    if (old != th->fiber)
        __tsan_destroy_fiber(old);
#else
    (void)th;
#endif
}

/* ---- region.c ---- */

/* Monitor: gives p to another thread if it is (still) in a blocking region and there is a thread.
 * True: done. */
bool hg__region_hand_on(struct hg_proc *p);
/* hg__sched_stop: the thread in t's region never comes back into the runtime. False: it is no
 * longer in one. */
bool hg__region_abandon(struct hg_tcb *t);

/* ---- monitor.c ---- */

int hg__monitor_start(struct hg_sched *s); /* 0 or -errno */
void hg__monitor_fini(struct hg_sched *s); /* its memory, when the thread has ended or never was */
/* NAPS: a millisecond; DOZES: ten; SLEEPS: until somebody wakes it. */
enum hg_monitor_sleep { HG_MONITOR_AWAKE, HG_MONITOR_NAPS, HG_MONITOR_DOZES, HG_MONITOR_SLEEPS };
/* Wakes the monitor if it sleeps at least as deep as `least`. */
static inline void hg__monitor_poke(struct hg_sched *s, enum hg_monitor_sleep least)
{
    if (hg_load_sc(&s->monitor_wake) >= (uint32_t)least &&
        hg_xchg_sc(&s->monitor_wake, 0u) != HG_MONITOR_AWAKE)
        hg__os_wake(&s->monitor_wake, 1);
}

/* ---- report.c ---- */

/* A proc has gone idle as the last one: reports and ends the process if nothing can ever wake a
 * task. */
void hg__deadlock_check(struct hg_sched *s);
/* For each thread: an alternate signal stack, if the reporter is installed. */
void hg__stack_report_thread(struct hg_thread *th);
void hg__stack_report_thread_end(struct hg_thread *th);

#endif

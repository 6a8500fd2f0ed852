/* wake.c: how procs look for work elsewhere, go idle, and are woken.
 *
 * Looking elsewhere is called spinning. At most half of the busy procs spin at a time, and each for
 * a few rounds over the others only: enough to take over what has just been made ready, without
 * burning processors.
 *
 * Note [WAKE]. No proc sleeps while a task that it could run is waiting and nobody is on the way to
 * it. On the way is: a proc that spins; a proc between two tasks, to what is in its own queue; and
 * to what was handed over in its runnext (ready.c), the proc whose running task did that, until the
 * end of this task's turn.
 *   W, who makes work visible:  publish the work; fence; if an idle proc is listed and none is
 *                               spinning, wake one
 *   I, who goes idle:           stop spinning; fence; look everywhere; list itself as idle; fence;
 *                               look everywhere; sleep
 * Both fences are seq_cst, so of two of them one comes first. If W's comes first, I's look after
 * its own fence sees the work. If I's comes first, W sees what I did before: I no longer spins, and
 * I is listed: W wakes it. Where W does not wake because another proc spins, that one has not
 * stopped yet, and looks after its own fence; and a spinner that finds some work and was the last
 * to spin wakes another in its place, as there may be more. The count of spinners that a waker has
 * raised for a proc that turns out not to exist is taken back under SCHED, before any proc can list
 * itself. What is looked at: runnext, rings, the global queue, timers due on any proc, background
 * work. That is not one moment: work that moves while I looks may be seen nowhere. So it is in its
 * new place before it leaves the old one, in the order in which I looks, or its mover is a W again.
 *   H, who hands over:          mark runnext as untold; fill it; no fence, and wake nobody
 * I does not take an untold task for work, else a proc next to two tasks that hand over to each
 * other would never sleep; so H needs no order against I. When H's proc may be late or is about to
 * turn to something else, it becomes a W: it takes the mark away, fence, and so on; I's look then
 * counts the task. If its running task merely runs on, the monitor does W's part for it, without
 * taking the mark away, as that is the owner's: a spinner may have passed by just then and go to
 * sleep, but the monitor comes again after a millisecond. This is the one case in which a task
 * waits while a proc sleeps, for a millisecond or, where a spinner misses it, two; a task that
 * causes it tells from then on.
 */
#include "runtime/sched/internal.h"

/* States of hg_proc.wake. The thread stores AWAKE before it lists itself and swaps it for ASLEEP
 * before it sleeps, or for POLLS before it sleeps on descriptors; who takes it out of the list
 * swaps in WOKEN, and makes the system call only if it found one of these. */
enum hg_proc_wake { AWAKE, ASLEEP, POLLS, WOKEN };

#define SPIN_ROUNDS   4
#define NEAR_TIMER_NS INT64_C(20000)  /* a sleep shorter than this is not worth it */
#define EARLY_MAX_NS  INT64_C(100000) /* a sleep ends at most this much before a timer */
#define EARLY_SHARE   50              /* and of a proc's time, this part at most is spun away so */
#define EARLY_SAVED   INT64_C(1000000)
#define LATE_TIMER_NS INT64_C(1000) /* a busy proc gets to its timers between two tasks */

/* ---- waking ---- */

/* Takes the proc that went idle last out of the list. */
static struct hg_proc *idle_pop_locked(struct hg_sched *s)
{
    HG_ASSERT_HELD(&s->lock);
    struct hg_proc *p = s->idle_procs;
    if (p == NULL)
        return NULL;
    s->idle_procs = p->idle_next;
    hg_store_rlx(&p->idle, 0u);
    hg_sub_sc(&s->idle_count, 1u);
    return p;
}

static bool idle_remove_locked(struct hg_proc *p)
{
    struct hg_sched *s = p->sched;
    HG_ASSERT_HELD(&s->lock);
    if (hg_load_rlx(&p->idle) == 0)
        return false;
    struct hg_proc **at = &s->idle_procs;
    while (*at != p)
        at = &(*at)->idle_next;
    *at = p->idle_next;
    hg_store_rlx(&p->idle, 0u);
    hg_sub_sc(&s->idle_count, 1u);
    return true;
}

/* p was just taken out of the idle list by the caller. Acquire-release: p sees what the waker
 * wrote. */
static void wake_thread(struct hg_proc *p)
{
    struct hg_sched *s = p->sched;
    uint32_t was = hg_xchg_acqrel(&p->wake, (uint32_t)WOKEN);
    if (was == ASLEEP)
        hg__os_wake(&p->wake, 1);
    else if (was == POLLS) /* also one that is on its way out: then the next sleep is cut short */
        s->hooks.net_kick(s->hooks.net);
    hg__monitor_poke(s, HG_MONITOR_SLEEPS);
}

static void wake_spinner(struct hg_sched *s)
{
    uint32_t none = 0;
    if (!hg_cas_sc(&s->spinning, &none, 1u))
        return;
    hg__lock(&s->lock);
    struct hg_proc *p = idle_pop_locked(s);
    if (p != NULL)
        p->spinning = true;
    else
        hg_sub_sc(&s->spinning, 1u); /* under the lock: Note [WAKE] */
    hg__unlock(&s->lock);
    if (p != NULL)
        wake_thread(p);
}

void hg__wake_for_work(struct hg_sched *s)
{
    hg_fence_sc(); /* W's fence, Note [WAKE] */
    if (hg_load_rlx(&s->idle_count) != 0 && hg_load_rlx(&s->spinning) == 0)
        wake_spinner(s);
}

void hg__sched_wake(struct hg_sched *s, int n)
{
    hg_fence_sc(); /* W's fence, Note [WAKE]: the work is the caller's */
    while (n-- > 0 && hg_load_rlx(&s->idle_count) != 0) {
        hg__lock(&s->lock);
        struct hg_proc *p = idle_pop_locked(s);
        hg__unlock(&s->lock);
        if (p == NULL)
            return;
        wake_thread(p);
    }
}

void hg__proc_kick(struct hg_proc *p)
{
    hg_fence_sc(); /* W's fence, Note [WAKE]: the work is the timer */
    if (hg_load_rlx(&p->idle) == 0)
        return;
    hg__lock(&p->sched->lock);
    bool listed = idle_remove_locked(p);
    hg__unlock(&p->sched->lock);
    if (listed)
        wake_thread(p);
}

/* ---- looking elsewhere ---- */

bool hg__work_anywhere(struct hg_sched *s)
{
    if (hg_load_acq(&s->global_count) != 0)
        return true;
    int64_t now = INT64_MIN;
    for (int i = 0; i < s->nprocs; i++) {
        struct hg_proc *p = s->procs[i];
        if (hg__runq_offers(p))
            return true;
        if (hg_load_rlx(&p->timers.next) == INT64_MAX)
            continue;
        if (now == INT64_MIN)
            now = hg__os_now();
        if (hg__timer_due(p, now))
            return true;
    }
    return false;
}

/* Timers of other procs that are due make tasks ready here. */
static bool steal_timers(struct hg_proc *victim)
{
    if (hg_load_rlx(&victim->timers.next) == INT64_MAX)
        return false;
    int64_t now = hg__os_now();
    if (!hg__timer_due(victim, now))
        return false;
    hg__timers_run(victim, now);
    return true;
}

static struct hg_tcb *steal_rounds(struct hg_proc *p)
{
    struct hg_sched *s = p->sched;
    uint32_t n = (uint32_t)s->nprocs;
    bool inherit;
    for (int round = 0; round < SPIN_ROUNDS; round++) {
        bool last = round == SPIN_ROUNDS - 1;
        uint32_t first = hg_rand_below(&p->rand, n);
        for (uint32_t i = 0; i < n; i++) {
            struct hg_proc *victim = s->procs[(first + i) % n];
            if (victim == p)
                continue;
            struct hg_tcb *t = hg__runq_steal(p, victim, last);
            if (t == NULL && last && steal_timers(victim))
                t = hg__runq_get(p, &inherit);
            if (t != NULL)
                return t;
        }
        if (hg_load_rlx(&s->global_count) != 0)
            return hg__global_get(p, true);
    }
    return NULL;
}

static bool may_spin(struct hg_proc *p)
{
    struct hg_sched *s = p->sched;
    if (p->spinning || p->must_spin)
        return true;
    uint32_t busy = (uint32_t)s->nprocs - hg_load_rlx(&s->idle_count);
    return s->nprocs > 1 && 2 * hg_load_rlx(&s->spinning) < busy;
}

void hg__found_while_spinning(struct hg_proc *p)
{
    p->spinning = false;
    if (hg_sub_sc(&p->sched->spinning, 1u) == 1)
        hg__wake_for_work(p->sched);
}

struct hg_tcb *hg__find_elsewhere(struct hg_proc *p)
{
    struct hg_sched *s = p->sched;
    if (!may_spin(p))
        return NULL;
    p->must_spin = false;
    if (!p->spinning) {
        p->spinning = true;
        hg_add_sc(&s->spinning, 1u);
    }
    struct hg_tcb *t = steal_rounds(p);
    if (t != NULL)
        return t;
    p->spinning = false;
    hg_sub_sc(&s->spinning, 1u);
    hg_fence_sc(); /* I's first fence, Note [WAKE] */
    p->must_spin = hg__work_anywhere(s);
    return NULL;
}

/* ---- idle ---- */

static bool list_idle(struct hg_proc *p)
{
    struct hg_sched *s = p->sched;
    hg__lock(&s->lock);
    bool list = s->global_head == NULL && hg_load_rlx(&s->stopping) == 0;
    if (list) {
        hg_store_rlx(&p->wake, (uint32_t)AWAKE);
        hg_store_rlx(&p->idle, 1u);
        p->idle_next = s->idle_procs;
        s->idle_procs = p;
        hg_add_sc(&s->idle_count, 1u);
    }
    hg__unlock(&s->lock);
    return list;
}

/* Leaves the idle list, or waits for who took p out of it. */
static void unlist_idle(struct hg_proc *p)
{
    bool listed = false;
    if (hg_load_rlx(&p->idle) != 0) {
        hg__lock(&p->sched->lock);
        listed = idle_remove_locked(p);
        hg__unlock(&p->sched->lock);
    }
    if (listed) {
        hg__monitor_poke(p->sched, HG_MONITOR_SLEEPS);
        return;
    }
    while (hg_load_acq(&p->wake) != WOKEN)
        hg_cpu_relax(); /* the waker is between its lock and its store */
}

/* Sleeps until woken or `deadline`, BLOCKED. */
static void sleep_idle(struct hg_proc *p, int64_t deadline)
{
    uint32_t awake = AWAKE;
    uint32_t word = hg__mutator_block(&p->mut);
    if (hg_cas_acqrel(&p->wake, &awake, (uint32_t)ASLEEP)) {
        while (hg_load_acq(&p->wake) == ASLEEP) {
            if (hg__os_wait(&p->wake, ASLEEP, deadline) != 0)
                break;
        }
    }
    HG_CHECK(hg__mutator_unblock(&p->mut, word), "an idle proc was handed on");
}

/* The same as the poller: also until descriptors are ready; their tasks, as a chain. */
static struct hg_tcb *sleep_polling(struct hg_proc *p, int64_t deadline)
{
    uint32_t awake = AWAKE;
    bool sleeps = hg_cas_acqrel(&p->wake, &awake, (uint32_t)POLLS);
    return hg__poller_sleep(p, sleeps ? deadline : HG_NOW);
}

/* Spins until woken or `deadline`. As it keeps a processor busy in any case, it takes over timers
 * that a busy proc does not get to. */
static void wait_near(struct hg_proc *p, int64_t deadline)
{
    struct hg_sched *s = p->sched;
    int64_t began = hg__os_now(), now = began;
    for (int i = 0; hg_load_rlx(&p->wake) == AWAKE &&
                    !(hg_load_rlx(&p->mut.attention) & HG_ATTENTION_HANDSHAKE);
         i = i + 1 == s->nprocs ? 0 : i + 1) {
        now = hg__os_now();
        if (now >= deadline)
            break;
        p->must_spin =
            hg_load_rlx(&s->procs[i]->idle) == 0 && hg__timer_due(s->procs[i], now - LATE_TIMER_NS);
        if (p->must_spin)
            break;
        hg_cpu_relax();
    }
    if (deadline - began >= NEAR_TIMER_NS)
        p->early.credit -= now - began;
}

/* The kernel wakes a thread some 50 us after the time that it was told. A proc that sleeps until
 * its next timer asks for a time so much earlier, as it learns, and spins the rest away: as long as
 * that is a small part of its time. Returns how much earlier; 0: it has spun enough. */
static int64_t sleep_earlier(struct hg_proc *p, int64_t now)
{
    p->early.credit += (now - p->early.seen) / EARLY_SHARE;
    p->early.seen = now;
    if (p->early.credit > EARLY_SAVED)
        p->early.credit = EARLY_SAVED;
    return p->early.credit > p->early.late ? p->early.late : 0;
}

/* It slept until the time `asked`, or was woken. Follows the later ones of the delays quickly and
 * the shorter ones slowly, so that most sleeps end before the timer. */
static void learn_late(struct hg_proc *p, int64_t asked)
{
    int64_t late = hg__os_now() - asked, by = late - p->early.late;
    if (late < 0)
        return;
    p->early.late += by > 0 ? by / 4 : by / 32;
    if (p->early.late > EARLY_MAX_NS)
        p->early.late = EARLY_MAX_NS;
}

/* Sleeps until woken, or about when the proc's next timer is due. */
static struct hg_tcb *sleep_for_timers(struct hg_proc *p)
{
    struct hg_sched *s = p->sched;
    struct hg_tcb *polled = NULL;
    int64_t next = hg_load_rlx(&p->timers.next), until = next;
    if (next != INT64_MAX) {
        int64_t now = hg__os_now(), early = sleep_earlier(p, now);
        until = next - early;
        if (until <= now || next - now < NEAR_TIMER_NS) {
            wait_near(p, next);
            return NULL;
        }
    }
    if (hg_load_acq(&s->net_fds) != 0 && hg__poller_begin(s))
        polled = sleep_polling(p, until);
    else
        sleep_idle(p, until);
    if (until != INT64_MAX)
        learn_late(p, until);
    return polled;
}

struct hg_tcb *hg__go_idle(struct hg_proc *p)
{
    struct hg_sched *s = p->sched;
    p->clock_skip = 0; /* the next round may be a long time from now */
    if (!list_idle(p))
        return NULL;
    hg_fence_sc(); /* I's second fence, Note [WAKE] */
    if (hg__work_anywhere(s)) {
        p->must_spin = true;
        unlist_idle(p);
        return NULL;
    }
    /* Listed, so that who makes background work visible from now on wakes this proc. */
    if (hg_load_acq(&s->background) != 0 && s->hooks.background(&p->mut, true)) {
        unlist_idle(p);
        return NULL;
    }
    if (hg_load_acq(&s->deadlock_report) != 0 && hg_load_rlx(&s->idle_count) == (uint32_t)s->nprocs)
        hg__deadlock_check(s);
    struct hg_tcb *polled = sleep_for_timers(p);
    unlist_idle(p);
    return hg__poll_take(p, polled);
}

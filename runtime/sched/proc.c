/* proc.c: the loop that every proc runs: find a task, run it; where tasks are made ready; how procs
 * go idle and wake.
 *
 * A round of the loop: answer the collector; background work that is due; timers that are due; then
 * the next task from, in this order, runnext, the own ring, the global queue (first of all every
 * HG_GLOBAL_ROUNDS rounds), other procs. A proc that finds nothing does background work as long as
 * there is some, and then sleeps until its next timer.
 *
 * Looking elsewhere is called spinning. At most half of the busy procs spin at a time, and each for
 * a few rounds over the others only: enough to take over what has just been made ready, without
 * burning processors.
 *
 * Note [WAKE]. No proc sleeps while a task that it could run is waiting and nobody is on the way to
 * it.
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
 * itself. What is looked at: rings, runnext, the global queue, timers due on any proc, background
 * work.
 *
 * A sleeping proc's timers are its own thread's business; those of a busy one are run by itself
 * between tasks, or by procs that spin, or by one that the monitor wakes because they are late.
 */
#include "runtime/sched/internal.h"

/* States of hg_proc.wake. The thread stores AWAKE before it lists itself and swaps it for ASLEEP
 * before it sleeps; who takes it out of the list swaps in WOKEN, and makes the system call only if
 * it found ASLEEP. */
enum hg_proc_wake { AWAKE, ASLEEP, WOKEN };

#define SPIN_ROUNDS    4
#define CLOCK_NS       INT64_C(2000)
#define CLOCK_SKIP_MAX 16
#define NEAR_TIMER_NS  INT64_C(20000) /* a sleep shorter than this is not worth it */

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
    if (hg_xchg_acqrel(&p->wake, (uint32_t)WOKEN) == ASLEEP)
        hg__os_wake(&p->wake, 1);
    hg__monitor_poke(p->sched, HG_MONITOR_SLEEPS);
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

/* ---- making ready ---- */

void hg__track_ready(struct hg_tcb *t, struct hg_proc *p)
{
    t->since = hg__os_now();
    t->proc = p;
    t->proc_mark_ns = p != NULL ? hg_load_rlx(&p->marked_ns) : 0;
}

void hg__ready(struct hg_tcb *t, bool next)
{
    struct hg_sched *s = t->sched;
    /* Its park may have been won before its old proc is done with it (acquire: pairs with park.c's
     * last store). */
    while (hg_unlikely(hg_load_acq(&t->state) != HG_TASK_WAITING))
        hg_cpu_relax();
    struct hg_mutator *m = hg__self();
    struct hg_proc *p = m != NULL && m->world == s->world ? hg__proc_of(m) : NULL;
    if (s->track_waits)
        hg__track_ready(t, p);
    hg_store_rlx(&t->state, HG_TASK_RUNNABLE); /* published with the queue */
    if (p == NULL) {
        hg__global_put(s, t, t, 1);
        hg__wake_for_work(s);
        return;
    }
    hg__runq_put(p, t, next);
    if (s->nprocs > 1)
        hg__wake_for_work(s);
    if (hg_unlikely(s->seed != 0) && hg_rand_below(&p->rand, 8) == 0)
        hg_or_rlx(&p->mut.attention, HG_ATTENTION_YIELD); /* yield for no reason */
}

/* ---- looking for a task ---- */

/* The time for timers; 0 (nothing is due) while none is armed. Where rounds are so short that
 * reading the clock would be most of them, it is read every CLOCK_NS only, as far as the length of
 * the last rounds tells; the monitor's clock bounds the error where it does not. */
static int64_t clock_for_timers(struct hg_proc *p)
{
    int64_t next = hg_load_rlx(&p->timers.next);
    if (next == INT64_MAX)
        return 0;
    if (p->clock_rounds < p->clock_skip && hg_load_rlx(&p->sched->coarse_now) < next) {
        p->clock_rounds++;
        return 0;
    }
    int64_t now = hg__os_now();
    int64_t round = (now - p->clock) / (p->clock_rounds + 1) + 1;
    p->clock_skip = round < CLOCK_NS ? (uint32_t)(CLOCK_NS / round) : 0;
    if (p->clock_skip > CLOCK_SKIP_MAX)
        p->clock_skip = CLOCK_SKIP_MAX;
    p->clock_rounds = 0;
    p->clock = now;
    return now;
}

static bool timer_due(const struct hg_proc *p, int64_t now)
{
    return hg_load_rlx(&p->timers.next) <= now;
}

bool hg__proc_has_work(struct hg_proc *p)
{
    if (!hg__runq_empty(p) || hg_load_rlx(&p->sched->global_count) != 0)
        return true;
    return hg_load_rlx(&p->timers.next) != INT64_MAX && timer_due(p, hg__os_now());
}

bool hg__work_anywhere(struct hg_sched *s)
{
    if (hg_load_acq(&s->global_count) != 0)
        return true;
    int64_t now = INT64_MIN;
    for (int i = 0; i < s->nprocs; i++) {
        struct hg_proc *p = s->procs[i];
        if (!hg__runq_empty(p))
            return true;
        if (hg_load_rlx(&p->timers.next) == INT64_MAX)
            continue;
        if (now == INT64_MIN)
            now = hg__os_now();
        if (timer_due(p, now))
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
    if (!timer_due(victim, now))
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

/* Having found something: if this was the last spinner, another one looks on. */
static void found_while_spinning(struct hg_proc *p)
{
    p->spinning = false;
    if (hg_sub_sc(&p->sched->spinning, 1u) == 1)
        hg__wake_for_work(p->sched);
}

/* Another proc's task, or NULL. A proc that spun and found nothing has stopped spinning and looked
 * once more. */
static struct hg_tcb *find_elsewhere(struct hg_proc *p)
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

static void wait_near(struct hg_proc *p, int64_t deadline)
{
    while (hg_load_rlx(&p->wake) == AWAKE &&
           !(hg_load_rlx(&p->mut.attention) & HG_ATTENTION_HANDSHAKE)) {
        if (hg__os_now() >= deadline)
            return;
        hg_cpu_relax();
    }
}

static void go_idle(struct hg_proc *p)
{
    struct hg_sched *s = p->sched;
    p->clock_skip = 0; /* the next round may be a long time from now */
    if (!list_idle(p))
        return;
    hg_fence_sc(); /* I's second fence, Note [WAKE] */
    if (hg__work_anywhere(s)) {
        p->must_spin = true;
        unlist_idle(p);
        return;
    }
    /* Listed, so that who makes background work visible from now on wakes this proc. */
    if (hg_load_acq(&s->background) != 0 && s->hooks.background(&p->mut, true)) {
        unlist_idle(p);
        return;
    }
    if (hg_load_acq(&s->deadlock_report) != 0 && hg_load_rlx(&s->idle_count) == (uint32_t)s->nprocs)
        hg__deadlock_check(s);
    int64_t next = hg_load_rlx(&p->timers.next);
    if (next != INT64_MAX && next - hg__os_now() < NEAR_TIMER_NS)
        wait_near(p, next);
    else
        sleep_idle(p, next);
    unlist_idle(p);
}

/* ---- the loop ---- */

void hg__slice_end(struct hg_proc *p)
{
    hg_and_rlx(&p->mut.attention, ~HG_ATTENTION_YIELD);
    struct hg_tcb *t = hg_load_rlx(&p->runnext);
    if (t != NULL && (t = hg_xchg_acqrel(&p->runnext, NULL)) != NULL)
        hg__runq_put(p, t, false);
}

/* The next task, or NULL: the loop begins again. */
static struct hg_tcb *find_task(struct hg_proc *p, int64_t now, bool *inherit)
{
    struct hg_sched *s = p->sched;
    struct hg_tcb *t;
    *inherit = false;
    if (hg_unlikely(timer_due(p, now)))
        hg__timers_run(p, now);
    if (p->yielded != NULL) {
        hg__runq_put(p, p->yielded, false);
        p->yielded = NULL;
    }
    if (p->until_global-- == 0) {
        p->until_global = HG_GLOBAL_ROUNDS;
        if (hg_load_rlx(&s->global_count) != 0 && (t = hg__global_get(p, false)) != NULL)
            return t;
    }
    t = hg__runq_get(p, inherit);
    if (t != NULL)
        return t;
    if (hg_load_rlx(&s->global_count) != 0 && (t = hg__global_get(p, true)) != NULL)
        return t;
    t = find_elsewhere(p);
    if (t != NULL || p->must_spin)
        return t;
    if (hg_load_acq(&s->background) == 0 || !s->hooks.background(&p->mut, true))
        go_idle(p);
    return NULL;
}

/* A task that may not run now: its stack is being looked at, or is scanned in several turns. It
 * goes to the end of the line; if it is alone there, this proc works for the collector meanwhile,
 * or takes a breath. */
static void put_back(struct hg_proc *p, struct hg_tcb *t)
{
    struct hg_sched *s = p->sched;
    bool alone = hg__runq_empty(p);
    hg__runq_put(p, t, false);
    if (!alone || (hg_load_acq(&s->background) != 0 && s->hooks.background(&p->mut, true)))
        return;
    for (int i = 0; i < 50; i++)
        hg_cpu_relax();
}

/* Accounts for the time since t became runnable. */
static void track_wait(struct hg_proc *p, struct hg_tcb *t)
{
    int64_t waited = hg__os_now() - t->since;
    t->stack.times.runq_ns += waited;
    hg_histogram_add(p->mut.stats.runq, waited);
    if (t->proc != NULL) {
        int64_t marked = hg_load_rlx(&t->proc->marked_ns) - t->proc_mark_ns;
        t->stack.times.mark_ns += marked < waited ? marked : waited;
    }
}

/* Runs t; returns only if it cannot run now. */
static void run(struct hg_proc *p, struct hg_tcb *t, bool inherit)
{
    struct hg_mutator *m = &p->mut;
    hg__poll_taken(m); /* S4: after the take (an acquire), before anything looks at m->black */
    uint32_t scan = hg_load_acq(&t->stack.scan);
    if (hg_unlikely(m->black) && scan != hg_load_rlx(&m->world->cycle) * 4 + HG_SCAN_DONE) {
        if (!p->sched->hooks.switch_in(m, t)) {
            put_back(p, t);
            return;
        }
    } else if (hg_unlikely((scan & 3u) == HG_SCAN_CLAIMED)) { /* by hg__stack_trim */
        put_back(p, t);
        return;
    }
    if (t->timed) {
        t->timed = 0;
        hg__timer_stop(&t->timer); /* the park was won by another waker, or is over in every case */
    }
    if (p->sched->track_waits)
        track_wait(p, t);
    hg_store_rlx(&t->state, HG_TASK_RUNNING);
    p->current = t;
    m->stack = &t->stack;
    hg_store_rlx(&p->switches, hg_load_rlx(&p->switches) + 1);
    if (!inherit)
        hg_store_rlx(&p->tick, hg_load_rlx(&p->tick) + 1);
    hg__resume(m, &t->stack, NULL);
}

/* Between two tasks, with something in the attention word. */
static void attend(struct hg_proc *p)
{
    hg__poll(&p->mut);
    if (hg_load_rlx(&p->sched->stopping) != 0) { /* its maker raises YIELD as well */
        hg__mutator_block(&p->mut);
        hg__thread_exit(p->thread);
    }
    if (hg_load_rlx(&p->mut.attention) & HG_ATTENTION_YIELD)
        hg__slice_end(p);
}

_Noreturn void hg__schedule(struct hg_proc *p)
{
    struct hg_sched *s = p->sched;
    hg__thread_fresh_fiber(p->thread);
    for (;;) {
        bool inherit;
        if (hg_unlikely(hg_load_acq(&p->mut.attention) != 0))
            attend(p);
        if (hg_unlikely(hg_load_acq(&s->background) != 0))
            s->hooks.background(&p->mut, false);
        struct hg_tcb *t = find_task(p, clock_for_timers(p), &inherit);
        if (t == NULL)
            continue;
        if (hg_unlikely(p->spinning))
            found_while_spinning(p);
        run(p, t, inherit);
    }
}

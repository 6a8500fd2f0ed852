/* proc.c: the loop that every proc runs: find a task, run it.
 *
 * A round of the loop: answer the collector; background work that is due; timers that are due; then
 * the next task from, in this order, runnext, the own ring, the global queue (first of all every
 * HG_GLOBAL_ROUNDS rounds), descriptors that are ready (poll.c), other procs. A proc that finds
 * nothing does background work as long as there is some, and then goes idle until its next timer
 * (wake.c).
 *
 * A sleeping proc's timers are its own thread's business; those of a busy one are run by itself
 * between tasks, or by procs that spin, or by one that the monitor wakes because they are late.
 */
#include "runtime/sched/internal.h"

#define CLOCK_NS       INT64_C(2000)
#define CLOCK_SKIP_MAX 16

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

/* ---- the loop ---- */

void hg__slice_end(struct hg_proc *p)
{
    hg_and_rlx(&p->mut.attention, ~HG_ATTENTION_YIELD);
    struct hg_tcb *t = hg_load_rlx(&p->runnext);
    if (t != NULL && (t = hg_xchg_acqrel(&p->runnext, NULL)) != NULL)
        hg__runq_put(p, t, false);
    if (p->sched->nprocs > 1) { /* H1; and who looked meanwhile may have seen it in neither place */
        hg_store_rlx(&p->untold, false);
        hg__wake_for_work(p->sched);
    }
}

bool hg__proc_has_work(struct hg_proc *p)
{
    if (!hg__runq_empty(p) || hg_load_rlx(&p->sched->global_count) != 0)
        return true;
    return hg_load_rlx(&p->timers.next) != INT64_MAX && hg__timer_due(p, hg__os_now());
}

static void run_timers(struct hg_proc *p)
{
    int64_t now = clock_for_timers(p);
    if (hg_unlikely(hg__timer_due(p, now)))
        hg__timers_run(p, now);
}

/* Now and then, so that what this proc does not come to by itself is not left waiting: descriptors,
 * and the global queue, of which the first task is returned when its turn has come. */
static struct hg_tcb *look_around(struct hg_proc *p)
{
    struct hg_sched *s = p->sched;
    p->since_global += p->look_span + 1;
    p->look_span = hg_load_acq(&s->net_fds) != 0 ? hg__poll_budget(p) : HG_GLOBAL_ROUNDS;
    p->until_look = p->look_span;
    if (p->since_global <= HG_GLOBAL_ROUNDS)
        return NULL;
    p->since_global = 0;
    return hg_load_rlx(&s->global_count) != 0 ? hg__global_get(p, false) : NULL;
}

/* The next task, or NULL: the loop begins again. */
static struct hg_tcb *find_task(struct hg_proc *p, bool *inherit)
{
    struct hg_sched *s = p->sched;
    struct hg_tcb *t;
    *inherit = false;
    run_timers(p);
    if (p->yielded != NULL) {
        hg__runq_put(p, p->yielded, false);
        p->yielded = NULL;
    }
    if (hg_unlikely(hg_load_rlx(&s->poll_due) != 0))
        hg__poll_due(p);
    if (p->until_look-- == 0 && (t = look_around(p)) != NULL) {
        hg__tell(p); /* H1 */
        return t;
    }
    t = hg__runq_get(p, inherit);
    if (t != NULL)
        return t;
    if (hg_load_rlx(&s->global_count) != 0 && (t = hg__global_get(p, true)) != NULL)
        return t;
    if (hg_load_acq(&s->net_fds) != 0 && (t = hg__poll_before_idle(p)) != NULL)
        return t;
    t = hg__find_elsewhere(p);
    if (t != NULL || p->must_spin)
        return t;
    if (hg_load_acq(&s->background) != 0 && s->hooks.background(&p->mut, true))
        return NULL;
    return hg__go_idle(p);
}

/* A task that may not run now: its stack is being looked at, or is scanned in several turns. It
 * goes to the end of the line; if it is alone there, this proc works for the collector meanwhile,
 * or takes a breath. */
static void put_back(struct hg_proc *p, struct hg_tcb *t)
{
    struct hg_sched *s = p->sched;
    bool alone = hg__runq_empty(p);
    hg__runq_put(p, t, false);
    if (!alone && s->nprocs > 1)
        hg__wake_for_work(s); /* H1: it may have come from a hand-over */
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

/* Runs t; returns only if it cannot run now. Inline: part of every switch, and two callers. */
static inline __attribute__((always_inline)) void run(struct hg_proc *p, struct hg_tcb *t,
                                                      bool inherit)
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
    hg_own_add(&p->switches, 1);
    if (!inherit)
        hg_own_add(&p->tick, 1);
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
        struct hg_tcb *t = find_task(p, &inherit);
        if (t == NULL)
            continue;
        if (hg_unlikely(p->spinning))
            hg__found_while_spinning(p);
        run(p, t, inherit);
    }
}

/* ---- yielding ---- */

/* Whether the next round of the loop could only take the first task of the ring, once timers that
 * are due have run. */
static inline bool round_is_plain(const struct hg_proc *p)
{
    const struct hg_sched *s = p->sched;
    return hg_load_acq(&p->mut.attention) == 0 && hg_load_acq(&s->background) == 0 &&
           hg_load_rlx(&s->poll_due) == 0 && p->until_look != 0 && s->seed == 0 &&
           hg_load_rlx(&p->runnext) == NULL;
}

/* Behind tasks whose timers are due. Nobody is woken: the ring holds no more tasks for others than
 * before, and what it held was offered when it came. It is put before another one is taken, as here
 * so in find_task: who looks at the ring never finds it empty in between and goes to sleep.
 *
 * In most cases the first task of the ring is next, and is taken here: the way around the loop
 * takes as long as the switch itself. */
void *hg__yield_on_scheduler(void *m, void *unused)
{
    struct hg_proc *p = hg__proc_of(m);
    struct hg_tcb *t = hg__task_gives_way(p), *next = NULL;
    (void)unused;
    if (hg_likely(round_is_plain(p))) {
        if (hg_load_rlx(&p->timers.next) != INT64_MAX)
            run_timers(p);
        hg__runq_put(p, t, false);
        next = hg__ring_get(p);
    } else {
        hg__tell(p); /* H1 */
        p->yielded = t;
    }
    if (hg_likely(next != NULL)) {
        p->until_look--;
        hg__thread_fresh_fiber(p->thread);
        run(p, next, false);
    }
    hg__schedule(p);
}

/* ready.c: making tasks ready: told to idle procs, or handed over.
 *
 * A task that is made ready lies in the queue of the current proc, and hg__ready tells an idle proc
 * of it (Note [WAKE] in wake.c). That costs a system call and a proc that wakes, some 500 ns and
 * more, and is wasted when the running task parks at once, as one does that sends a request and
 * receives the answer: then its own proc goes on with the task that it made ready before anybody
 * else gets there.
 *
 * So a hand-over (hg__hand_over) puts the task into an empty runnext and tells nobody:
 * hg_proc.untold. It rests on the running task parking soon, and is put right when it does not:
 *   H1  whatever else than the end of the running task's turn could delay the task in runnext tells
 *       the others (hg__tell): the running task stays runnable (yield, end of a slice), another
 *       task comes first (global queue, a stack that is being scanned), the thread goes into
 *       a blocking region. What a second one displaces from runnext is told of as ever
 *   H2  the monitor looks once a millisecond for a task in runnext that lingers there, untold,
 *       while a proc is idle, and tells. A monitor that dozes is woken by the hand-over, so that it
 *       is never a longer time
 *   H3  a task learns. A hand-over was late if another proc took the task (that had to wait, to be
 *       seen there), or if the turn took longer than LATE_NS from there on. After a late one the
 *       next EAGER_FIRST hand-overs of this task are told of, after further ones twice and four
 *       times as many; then it is tried again. To know, the clock is read at the first hand-over,
 *       at each try, and at every TIMED_EVERY'th
 *   H4  a task that hands over for the first time, and late, is perhaps one of many like it that
 *       live for one hand-over only: tasks born on this proc from now on begin as if they had
 *       learned
 *
 * Rejected: leaving it to the next call into the runtime to tell: a computing loop makes none. To
 * keep handed-over tasks from thieves: one that spins anyway may take what lingers.
 */
#include "runtime/sched/internal.h"

#define LATE_NS     INT64_C(10000) /* an idle proc is there in about this time */
#define TIMED_EVERY 32u
#define EAGER_FIRST 63u
#define LATE_MAX    3u /* EAGER_FIRST << 2 fits hg_tcb.eager */

void hg__track_ready(struct hg_tcb *t, struct hg_proc *p)
{
    t->since = hg__os_now();
    t->proc = p;
    t->proc_mark_ns = p != NULL ? hg_load_rlx(&p->marked_ns) : 0;
}

/* The proc that runs here, or NULL. */
static struct hg_proc *proc_here(const struct hg_sched *s)
{
    struct hg_mutator *m = hg__self();
    return m != NULL && m->world == s->world ? hg__proc_of(m) : NULL;
}

/* t, whose park is won, becomes runnable; the caller puts it into a queue, which publishes this. */
static inline void stop_waiting(struct hg_tcb *t, struct hg_proc *p)
{
    /* Its park may have been won before its old proc is done with it (acquire: pairs with park.c's
     * last store). */
    while (hg_unlikely(hg_load_acq(&t->state) != HG_TASK_WAITING))
        hg_cpu_relax();
    if (t->sched->track_waits)
        hg__track_ready(t, p);
    hg_store_rlx(&t->state, HG_TASK_RUNNABLE);
}

void hg__ready(struct hg_tcb *t, bool next)
{
    struct hg_sched *s = t->sched;
    struct hg_proc *p = proc_here(s);
    stop_waiting(t, p);
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

void hg__ready_chain(struct hg_proc *p, struct hg_tcb *first)
{
    if (first == NULL)
        return;
    while (first != NULL) {
        struct hg_tcb *t = first;
        first = t->next;
        stop_waiting(t, p);
        hg__runq_put(p, t, false);
    }
    if (p->sched->nprocs > 1)
        hg__wake_for_work(p->sched);
}

void hg__ready_in_hand(struct hg_proc *p, struct hg_tcb *t) { stop_waiting(t, p); }

/* ---- handing over ---- */

static void learn_late(struct hg_proc *p, struct hg_tcb *by)
{
    if (by->late == HG_HAND_OVER_UNKNOWN) {
        by->late = 0;
        p->newborns_eager = EAGER_FIRST; /* H4 */
    }
    if (by->late < LATE_MAX)
        by->late++;
    by->eager = (uint8_t)(EAGER_FIRST << (by->late - 1));
    by->untimed = 0;
}

static void learn_prompt(struct hg_tcb *by)
{
    by->late = by->late == HG_HAND_OVER_UNKNOWN || by->late == 0 ? 0 : (uint8_t)(by->late - 1);
}

void hg__hand_over_judge(struct hg_proc *p, struct hg_tcb *by)
{
    int64_t at = p->handed_at;
    p->handed_at = 0;
    if (hg_load_rlx(&p->runnext) == NULL) { /* a thief has it */
        hg_store_rlx(&p->untold, false);
        learn_late(p, by);
    } else if (at != 0) {
        if (hg__os_now() - at > LATE_NS)
            learn_late(p, by);
        else
            learn_prompt(by);
    }
}

void hg__hand_over_newborn(struct hg_proc *p, struct hg_tcb *t)
{
    if (p->newborns_eager == 0)
        return;
    p->newborns_eager--;
    t->eager = EAGER_FIRST;
}

/* Whether nobody need be told now; begins the hand-over if so. */
static bool begin_untold(struct hg_proc *p)
{
    struct hg_tcb *by = p->current;
    if (hg_load_rlx(&p->untold)) /* an earlier one of this turn */
        hg__hand_over_judge(p, by);
    if (hg_load_rlx(&p->runnext) != NULL)
        return false;
    if (by->eager > 0) {
        by->eager--;
        return false;
    }
    p->handed_at = by->untimed == 0 ? hg__os_now() : 0;
    by->untimed = by->untimed == 0 ? TIMED_EVERY - 1 : (uint8_t)(by->untimed - 1);
    return true;
}

void hg__hand_over(struct hg_tcb *t)
{
    struct hg_sched *s = t->sched;
    struct hg_proc *p = proc_here(s);
    /* Without a task that runs here, in a timer's callback, nobody is about to park. */
    if (p == NULL || p->current == NULL || s->nprocs == 1 || s->seed != 0 || !begin_untold(p)) {
        hg__ready(t, true);
        return;
    }
    stop_waiting(t, p);
    hg_store_rlx(&p->untold, true);
    hg_store_rel(&p->runnext, t);          /* it is empty, and stays so: only its owner fills it */
    hg__monitor_poke(s, HG_MONITOR_DOZES); /* H2 */
}

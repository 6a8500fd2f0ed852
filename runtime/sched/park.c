/* park.c: how the running task stops running: parks, yields, sleeps.
 *
 * A park, in order:
 *   1. hg__park_begin takes a fresh ticket: wait = (ticket, NONE).
 *   2. The task puts wait records with the ticket where wakers find them, under the wakers' lock,
 *      and keeps the lock.
 *   3. hg__park goes to the scheduler stack, which saves the registers. There: the task leaves its
 *      proc, the deadline is armed, state becomes WAITING, and commit lets the lock go. From the
 *      first moment that a waker can win, the stack is complete; from commit on nothing of the task
 *      is touched here, but what its ticket guards.
 *   4. A waker wins by swapping (ticket, NONE) for (ticket, why): exactly one does (S2). It makes
 *      the task ready, which waits for WAITING: the deadline may be due before this thread has got
 *      there.
 *   5. The parker looks whether its task was cancelled meanwhile (Note [CANCEL] in cancel.c).
 *   6. The proc that runs it next stops the deadline's timer. That takes the lock of the heap,
 *      under which timers of parks are fired, so no late timer can meet a later park.
 *
 * The arguments of commit may lie on the task's stack: they are read before the last lock is let
 * go, and whoever resumes the task by then (the deadline) must come past that lock before its frame
 * goes away.
 */
#include "runtime/sched/internal.h"

uint64_t hg__park_begin(struct hg_tcb *t)
{
    uint64_t ticket = (hg_load_rlx(&t->wait) >> 3) + 1;
    /* Release: who cancels t reads t->mask after this word. Other wakers get the ticket under their
     * lock, or under that of the timers. */
    hg_store_rel(&t->wait, ticket << 3 | HG_WAKE_NONE);
    return ticket;
}

bool hg__park_claim(struct hg_tcb *t, uint64_t ticket, enum hg_wake why)
{
    uint64_t waiting = ticket << 3 | HG_WAKE_NONE;
    return hg_cas_acqrel(&t->wait, &waiting, ticket << 3 | (uint64_t)why);
}

static void start_waiting(struct hg_proc *p, int64_t deadline, const char *where)
{
    struct hg_tcb *t = hg__task_off(p);
    t->why = where;
    if (deadline != HG_FOREVER) {
        t->timed = 1;
        hg__timer_arm(p, &t->timer, deadline);
    }
    /* Release: pairs with hg__ready's wait for WAITING. Where there is no commit, t may run
     * elsewhere from here on. */
    hg_store_rel(&t->state, HG_TASK_WAITING);
}

struct park {
    struct hg_tcb *t;
    uint64_t ticket;
    int64_t deadline;
    void (*commit)(void *); /* or NULL: there is no lock to let go */
    void *arg;
    const char *where;
    bool watched; /* t may be cancelled, and minds it: it looks once it is WAITING */
};

static void *park_on_scheduler(void *m, void *b)
{
    struct hg_proc *p = hg__proc_of(m);
    struct park k = *(struct park *)b;
    start_waiting(p, k.deadline, k.where);
    if (k.commit != NULL)
        k.commit(k.arg);
    if (k.watched) {
        hg_fence_sc(); /* P's fence, Note [CANCEL] in cancel.c */
        /* If t's control block is in other hands by now, the ticket is not its own any more. */
        if (hg_unlikely(hg_load_rlx(&k.t->canceled) != 0) &&
            hg__park_claim(k.t, k.ticket, HG_WAKE_CANCEL))
            hg__ready(k.t, false);
    }
    hg__schedule(p);
}

enum hg_wake hg__park(struct hg_tcb *t, uint64_t ticket, int64_t deadline, void (*commit)(void *),
                      void *arg, const char *where)
{
    bool watched = t->watched && hg_load_rlx(&t->mask) == 0;
    struct park k = {t, ticket, deadline, commit, arg, where, watched};
    HG_ASSERT(t == hg__task_self() && hg_load_rlx(&t->wait) >> 3 == ticket);
    hg__on_scheduler(hg__self(), park_on_scheduler, &k);
    /* Acquire: pairs with the claim, before which the winner may have written for us. */
    return (enum hg_wake)(hg_load_acq(&t->wait) & 7u);
}

_Noreturn void hg__park_from_scheduler(struct hg_proc *p, uint64_t ticket, int64_t deadline,
                                       const char *where)
{
    HG_ASSERT(hg_load_rlx(&p->current->wait) >> 3 == ticket);
    (void)ticket; /* cancelled, it would merely go on a little early */
    start_waiting(p, deadline, where);
    hg__schedule(p);
}

/* ---- yielding ---- */

_Noreturn void hg__yield_from_scheduler(struct hg_proc *p)
{
    struct hg_tcb *t = hg__task_gives_way(p);
    hg__global_put(p->sched, t, t, 1);
    hg__slice_end(p);
    /* If nothing else is here this proc takes it back itself, and need not wake anyone. */
    if (p->sched->nprocs > 1 && !hg__runq_empty(p))
        hg__wake_for_work(p->sched);
    hg__schedule(p);
}

HG_API void hg_yield(void)
{
    struct hg_mutator *m = hg__task_mutator();
    HG_CHECK(m != NULL, "hg_yield: not on a task");
    hg__on_scheduler(m, hg__yield_on_scheduler, NULL);
}

/* ---- sleeping ---- */

static int sleep_until(struct hg_mutator *m, int64_t until)
{
    struct hg_tcb *t = hg__proc_of(m)->current;
    int64_t deadline = until;
    int r = hg__wait_enter(t, &deadline);
    if (r != 0)
        return r;
    if (hg__park(t, hg__park_begin(t), deadline, NULL, NULL, "sleep") == HG_WAKE_CANCEL)
        return -ECANCELED;
    return deadline < until ? -ETIMEDOUT : 0;
}

HG_API int hg_sleep_until(int64_t deadline)
{
    struct hg_mutator *m = hg__task_mutator();
    HG_CHECK(m != NULL, "hg_sleep_until: not on a task");
    if (deadline > hg__os_now())
        return sleep_until(m, deadline);
    hg__on_scheduler(m, hg__yield_on_scheduler, NULL);
    return 0;
}

HG_API int hg_sleep(int64_t ns)
{
    struct hg_mutator *m = hg__task_mutator();
    HG_CHECK(m != NULL, "hg_sleep: not on a task");
    if (ns > 0)
        return sleep_until(m, hg_in(ns));
    hg__on_scheduler(m, hg__yield_on_scheduler, NULL);
    return 0;
}

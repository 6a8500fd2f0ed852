/* poll.c: who looks at descriptors, and when.
 *
 * The kernel says which descriptors have become ready (hook net_poll), and somebody has to ask:
 *   1. a proc that has no task asks before it looks for one elsewhere, if no poller sleeps
 *   2. of the procs that are idle one is the poller: it sleeps in the kernel until a descriptor is
 *      ready, instead of on its futex. Who wakes it rings the bell of net_poll
 *   3. busy procs ask between two tasks, if BUDGET_NS have passed since one did. The clock is read
 *      after as many rounds of the loop as fit into that time, by the length of the last ones, and
 *      at least every HG_GLOBAL_ROUNDS
 *   4. if nobody has asked for a tick of the monitor (1 ms) and no poller sleeps, poll_due is set,
 *      which the next proc that comes between two tasks clears and asks; an idle proc is woken,
 *      and becomes the poller
 *
 * Note [POLL]. While descriptors are open, a poller sleeps, or a proc is awake that will ask.
 *   A proc becomes the poller (cas of `poller`, seq_cst) after it is listed as idle, and is it
 *   until it comes back from the kernel, when it is awake. So a proc that goes to sleep because
 *   there is a poller leaves one that sleeps in the kernel or is awake. The first descriptor is
 *   opened by a proc that is awake, and which will see it (net_fds) when it goes idle. One that is
 *   awake asks when it has no task, by rule 3 between tasks, and if its task runs on and on, others
 *   do, by rule 4.
 * Lost wake-ups (Note [WAKE] in wake.c): the poller is an idle proc like any other, listed, and its
 * wake word is POLLS instead of ASLEEP. The bell is an edge that the kernel keeps: rung before the
 * poller is in the kernel, it ends the sleep at once; rung after it has left, it ends the next one,
 * for nothing. An edge is for one: a proc that looks, as it has seen no poller, may take one that
 * was rung for a poller that has begun to sleep since. So who takes the bell without sleeping looks
 * at `poller` after that, and rings again. It sees the poller for which was rung, as that one was
 * the poller before the ring, unless it has left by then and needs no bell.
 *
 * The task that was found first runs next on the proc that found it; it is in no queue in between,
 * so nobody need be told. The others go to its ring, and idle procs are told.
 *
 * Then the descriptors have no poller until this proc has no task again. Mostly that is soon, and a
 * request and its answer take one thread and no futex. If the task is long, others wait for as long
 * as rule 4 takes. So, as with hand-overs (ready.c): when a proc asks anew more than LATE_NS after
 * it went on with a task, the next EAGER pollers that leave wake another proc at once, which finds
 * nothing to do and becomes the poller; twice as many each time that it happens again soon, up to
 * LATE_MAX times. It happens by chance as well, when the system takes the thread's processor away.
 *
 * Rejected: an epoll instance per proc, with descriptors moving between them: a descriptor's task
 * runs wherever it is stolen to, and each move takes two system calls. A thread of its own that
 * sleeps in epoll_wait: two switches of threads for each event. A successor for each poller that
 * leaves: on an echo server it costs a futex call and half a core for nothing.
 */
#include "runtime/sched/internal.h"

#define BUDGET_NS INT64_C(50000)
#define LATE_NS   INT64_C(100000) /* a few times what it takes to wake a proc */
#define EAGER     8u
#define LATE_MAX  3u

int64_t hg__net_waits(const struct hg_sched *s)
{
    int64_t n = 0;
    for (int i = 0; i < s->nprocs; i++)
        n += hg_load_rlx(&s->procs[i]->net_waits);
    return n;
}

/* Learns whether the task that p's last poll found was long. */
static void judge(struct hg_proc *p)
{
    if (p->polled_at == 0)
        return;
    struct hg_sched *s = p->sched;
    uint32_t late = hg_load_rlx(&s->late_polls);
    if (hg__os_now() - p->polled_at > LATE_NS) {
        hg_store_rlx(&s->eager_polls, EAGER << late);
        hg_store_rlx(&s->late_polls, late < LATE_MAX ? late + 1 : LATE_MAX);
    } else if (late > 0) {
        hg_store_rlx(&s->late_polls, late - 1);
    }
    p->polled_at = 0;
}

static struct hg_tcb *ask(struct hg_proc *p, int64_t until)
{
    struct hg_sched *s = p->sched;
    judge(p);
    hg_add_rlx(&s->polls, 1u);
    return s->hooks.net_poll(s->hooks.net, &p->mut, until);
}

/* p goes on with a task, and the descriptors are without a poller while others are idle. */
static void leave_descriptors(struct hg_proc *p)
{
    struct hg_sched *s = p->sched;
    if (hg_load_rlx(&s->idle_count) == 0 || hg_load_rlx(&s->poller) != 0)
        return;
    p->polled_at = hg__os_now();
    uint32_t eager = hg_load_rlx(&s->eager_polls);
    if (eager == 0) {
        hg__monitor_poke(s, HG_MONITOR_DOZES); /* rule 4 */
        return;
    }
    hg_store_rlx(&s->eager_polls, eager - 1); /* two at once may count as one */
    hg__wake_for_work(s);
}

struct hg_tcb *hg__poll_take(struct hg_proc *p, struct hg_tcb *chain)
{
    if (chain == NULL)
        return NULL;
    struct hg_tcb *rest = chain->next;
    hg__ready_in_hand(p, chain);
    hg__ready_chain(p, rest);
    leave_descriptors(p);
    return chain;
}

struct hg_tcb *hg__poll_before_idle(struct hg_proc *p)
{
    return hg_load_rlx(&p->sched->poller) == 0 ? hg__poll_take(p, ask(p, HG_NOW)) : NULL;
}

void hg__poll_due(struct hg_proc *p)
{
    struct hg_sched *s = p->sched;
    if (hg_xchg_acqrel(&s->poll_due, 0u) != 0 && hg_load_acq(&s->net_fds) != 0)
        hg__ready_chain(p, ask(p, HG_NOW));
    p->until_look = 0; /* rounds may have become long */
}

uint32_t hg__poll_budget(struct hg_proc *p)
{
    struct hg_sched *s = p->sched;
    int64_t now = hg__os_now();
    int64_t fit = BUDGET_NS / ((now - p->looked_at) / (p->look_span + 1) + 1);
    p->looked_at = now;
    if (hg_load_rlx(&s->poller) == 0 && now - hg_load_rlx(&s->polled_at) >= BUDGET_NS) {
        hg_store_rlx(&s->polled_at, now);
        hg__ready_chain(p, ask(p, HG_NOW));
    }
    return fit < HG_GLOBAL_ROUNDS ? (uint32_t)fit : HG_GLOBAL_ROUNDS;
}

/* ---- the poller ---- */

bool hg__poller_begin(struct hg_sched *s)
{
    uint32_t none = 0;
    return hg_cas_sc(&s->poller, &none, 1u); /* seq_cst: Note [POLL] */
}

struct hg_tcb *hg__poller_sleep(struct hg_proc *p, int64_t until)
{
    struct hg_tcb *chain = ask(p, until);
    hg_store_rel(&p->sched->poller, 0u);
    return chain;
}

/* ---- the monitor ---- */

void hg__poll_check(struct hg_sched *s, uint32_t *seen)
{
    uint32_t polls = hg_load_rlx(&s->polls);
    bool asked = polls != *seen;
    *seen = polls;
    if (asked || hg_load_acq(&s->net_fds) == 0 || hg_load_rlx(&s->poller) != 0)
        return;
    hg_store_rel(&s->poll_due, 1u);
    hg__wake_for_work(s);
}

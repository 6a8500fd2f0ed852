/* cancel.c: cancellation of tasks, the shield, ambient deadlines.
 *
 * A task is cancelled for good: hg_tcb.canceled is set and stays. From then on each call in which
 * it would have to park returns -ECANCELED instead (hg__wait_enter), and a park under way is won
 * with HG_WAKE_CANCEL. While hg_tcb.mask is set neither happens, and the ambient deadline does not
 * count.
 *
 *   C1  who may cancel a task reaches it by its handle (hg_task.task, under JOIN), by its group's
 *       list of members (GROUP), or by the registry (shutdown). A task takes itself out of the
 *       first two, under these locks, before its control block is given back: so they never lead to
 *       a later task in the same block. hg_tcb.watched says that there is such a handle or group
 *   C2  the registry leads to any task, also to one that has just moved in. In a shutdown all are
 *       to be cancelled, so that does no harm; births that race with it are met by the next look,
 *       for it is repeated until no task is left
 *   C3  a park is won by its ticket (S2), and no ticket is used twice in a control block. `wait`
 *       holds (ticket, NONE) only from hg__park_begin to the claim: not in a newborn. So who has
 *       read (ticket, NONE) wins that park or none
 *   C4  mask is set before hg__park_begin (release) and cleared after the park; who cancels reads
 *       `wait` (acquire), then mask. If the claim succeeds, mask was read as it is in that park
 *
 * Note [CANCEL]. No watched task stays parked, unmasked, once it is cancelled.
 *   C, who cancels:    set canceled; fence; if the task is WAITING and unmasked, win its park
 *   P, who parks it:   state becomes WAITING; fence; if it is cancelled, win its park
 * Both fences are seq_cst. If C's comes first, P sees `canceled`; if P's comes first, C sees
 * WAITING, and by C3 and C4 the park. Both may see it: one of them wins. A task that was masked
 * while C looked is not parked unmasked afterwards without a look of its own: hg__wait_enter reads
 * both words on the task itself, and P follows it. Without a handle or a group nobody but
 * a shutdown cancels, which is repeated: those tasks park without the fence.
 *
 * Groups. A group with members belongs to the watched task that started the first of them
 * (hg_tcb.groups), and cancelling the owner cancels it, and so on downwards. Groups to be told lie
 * in hg_sched.cancelling, and whoever adds one takes batches of members from its list until it is
 * empty, without a lock between two batches; a group whose last member ends leaves the list itself.
 * So there is no recursion, no lock is held for long, and no group is met after its end. CANCEL
 * guards the list and who owns what; it is taken when a group becomes empty or stops being so (if
 * it is owned), and to cancel: never for a task as such.
 *
 * Rejected: one word for the park and the flag, which would make each waker's swap loop; to have
 * each task look upwards for a cancelled ancestor, which wakes none that is parked; a kernel
 * barrier (membarrier) on the canceller's side, to save P's fence.
 */
#include "runtime/sched/group.h"

#include <hedge/task.h>

/* ---- one task ---- */

void hg__cancel_spread_locked(struct hg_sched *s, const struct hg_tcb *t)
{
    HG_ASSERT_HELD(&s->cancel_lock);
    /* A shielded task's groups are part of what it shields; it cancels them itself when it waits
     * for them. */
    if (hg_load_rlx(&t->mask) & HG_MASK_SHIELD)
        return;
    for (struct hg_group_state *g = t->groups; g != NULL; g = g->next_owned)
        hg__group_cancel_locked(s, g);
}

bool hg__cancel_claim(struct hg_tcb *t)
{
    if (hg_load_acq(&t->state) != HG_TASK_WAITING)
        return false;
    uint64_t wait = hg_load_acq(&t->wait); /* C4 */
    if ((wait & 7u) != HG_WAKE_NONE || hg_load_rlx(&t->mask) != 0)
        return false;
    return hg__park_claim(t, wait >> 3, HG_WAKE_CANCEL);
}

void hg__cancel_task(struct hg_sched *s, struct hg_lock *lock, struct hg_tcb *const *task)
{
    hg_add_acqrel(&s->outside_waits, 1u); /* no deadlock while a task is claimed and not queued */
    hg__lock(&s->cancel_lock);
    hg__lock(lock);
    struct hg_tcb *t = *task, *wake = NULL;
    if (t != NULL) {
        hg_store_sc(&t->canceled, 1u);
        hg__cancel_spread_locked(s, t);
        hg_fence_sc(); /* C's fence, Note [CANCEL] */
        if (hg__cancel_claim(t))
            wake = t;
    }
    hg__unlock(lock);
    hg__cancel_unlock(s);
    if (wake != NULL)
        hg__ready(wake, false);
    hg__outside_end(s, &s->outside_waits);
}

/* ---- all tasks ---- */

void hg__cancel_all(struct hg_sched *s)
{
    hg_store_sc(&s->shutdown, 1u);
    hg_add_acqrel(&s->outside_waits, 1u);
    uint32_t n = hg_load_acq(&s->registered);
    const struct hg_tcb *survivor = hg_load_acq(&s->survivor);
    for (uint32_t i = 0; i < n; i++) {
        struct hg_tcb *t = hg__task_at(s, i);
        if (t == survivor || hg_load_acq(&t->state) == HG_TASK_FREE)
            continue;
        hg_store_sc(&t->canceled, 1u);
        hg_fence_sc(); /* C's fence, Note [CANCEL] */
        if (hg__cancel_claim(t))
            hg__ready(t, false);
    }
    hg__outside_end(s, &s->outside_waits);
}

/* ---- the calling task ---- */

HG_API bool hg_cancelled(void)
{
    const struct hg_tcb *t = hg__task_self();
    return t != NULL && hg_load_rlx(&t->mask) == 0 && hg_load_acq(&t->canceled) != 0;
}

HG_API bool hg_shield(bool on)
{
    struct hg_tcb *t = hg__task_self();
    if (t == NULL)
        return false;
    uint32_t was = hg_load_rlx(&t->mask);
    hg_store_rlx(&t->mask, on ? was | HG_MASK_SHIELD : was & ~HG_MASK_SHIELD);
    return (was & HG_MASK_SHIELD) != 0;
}

HG_API int64_t hg_deadline_push(int64_t deadline)
{
    struct hg_tcb *t = hg__task_self();
    if (t == NULL)
        return HG_FOREVER;
    int64_t was = t->deadline;
    if (deadline < was)
        t->deadline = deadline;
    return was;
}

HG_API void hg_deadline_pop(int64_t saved)
{
    struct hg_tcb *t = hg__task_self();
    if (t != NULL)
        t->deadline = saved;
}

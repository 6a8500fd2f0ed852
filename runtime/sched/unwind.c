/* unwind.c: deferred calls, and leaving a task from any depth.
 *
 * hg_tcb.defers is a list of nodes in the task's frames, newest first. It is the owner's alone. The
 * words of a node are scanned with the frame that holds it, and the list's head with the control
 * block.
 *
 * Leaving runs the nodes on top of the stack as it is: nothing is unwound, so that all frames that
 * hold nodes are intact. A node is removed before it runs; a deferred call that leaves the task
 * itself goes on with the rest of them.
 *
 * Deferred calls are shielded in every case: cleanup must not depend on whether the task ended by
 * itself, or why.
 */
#include "runtime/sched/internal.h"

struct hg_defer_state {
    struct hg_defer_node *next; /* older */
    void (*fn)(void *);
    void *arg;
};
_Static_assert(sizeof(struct hg_defer_state) == sizeof(hg_defer_node), "its words hold one");

static inline struct hg_defer_state *state_of(hg_defer_node *d)
{
    return (struct hg_defer_state *)(void *)d;
}

static void run_newest(struct hg_tcb *t)
{
    struct hg_defer_state d = *state_of(t->defers);
    uint32_t mask = hg_load_rlx(&t->mask);
    t->defers = d.next;
    hg_store_rlx(&t->mask, mask | HG_MASK_SHIELD);
    d.fn(d.arg);
    hg_store_rlx(&t->mask, mask);
}

HG_API void hg_defer(hg_defer_node *d, void (*fn)(void *), void *arg)
{
    struct hg_tcb *t = hg__task_self();
    HG_CHECK(t != NULL, "hg_defer: not on a task");
    *state_of(d) = (struct hg_defer_state){t->defers, fn, arg};
    t->defers = d;
}

HG_API void hg_defer_run(hg_defer_node *d)
{
    struct hg_tcb *t = hg__task_self();
    HG_CHECK(t != NULL, "hg_defer_run: not on a task");
    HG_CHECK(t->defers == d, "hg_defer_run: %p is not what task %lu deferred last", (void *)d,
             (unsigned long)t->id);
    run_newest(t);
}

HG_API void hg_task_exit(int result)
{
    struct hg_tcb *t = hg__task_self();
    HG_CHECK(t != NULL, "hg_task_exit: not on a task");
    t->result = result;
    while (t->defers != NULL)
        run_newest(t);
    hg__task_leave(t);
}

void hg__defers_left(struct hg_tcb *t, uintptr_t end)
{
    while (t->defers != NULL) {
        uintptr_t at = (uintptr_t)t->defers;
        HG_CHECK(at < t->stack.lo || at >= end,
                 "task %lu%s%.31s returned from a frame with a deferred call", (unsigned long)t->id,
                 t->name[0] != 0 ? " " : "", t->name);
        run_newest(t);
    }
}

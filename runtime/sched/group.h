/* group.h: the state of a group, and what cancel.c, group.c and task.c ask of each other about
 * groups. Part of sched/; see group.c and cancel.c.
 *
 * Invariants (under GROUP):
 *   G1  live is the number of places taken: members, and tasks about to become one. 0 exactly while
 *       the group belongs to nobody, has no members and is not in hg_sched.cancelling
 *   G2  places is empty unless the group is full and not cancelled
 *   G3  of the members, those that were not told of a cancellation come first in the list
 *   G4  owner, next_owned and cancelling change under CANCEL and GROUP
 */
#ifndef HG_RUNTIME_SCHED_GROUP_H
#define HG_RUNTIME_SCHED_GROUP_H
#include "runtime/sched/internal.h"
#include <hedge/group.h>

/* Lies in the words of an hg_group, which programs know as memory that only the library looks
 * into. */
struct hg_group_state {
    struct hg_lock lock;               /* GROUP; inside CANCEL */
    uint32_t limit;                    /* most places; constant */
    uint32_t live;                     /* lock; G1 */
    _Atomic uint32_t canceled;         /* sticky; writers: under lock; readers: anyone */
    int error;                         /* the first result that was not 0; lock */
    struct hg_list members;            /* by hg_tcb.group_link; lock */
    struct hg_list places;             /* who waits for a place: struct waiter in group.c; lock */
    struct hg_list waiters;            /* who waits until live is 0; lock */
    struct hg_list cancelling;         /* link in hg_sched.cancelling, or to itself; G4 */
    struct hg_tcb *owner;              /* whose cancellation reaches it, or NULL; G4 */
    struct hg_group_state *next_owned; /* CANCEL */
    struct hg_sched *sched;            /* of its members; written with the first of them; lock */
};
_Static_assert(sizeof(struct hg_group_state) <= sizeof(hg_group), "its words hold one");
_Static_assert(_Alignof(struct hg_group_state) <= _Alignof(hg_group), "aligned for one");

/* ---- cancel.c ---- */

/* CANCEL is held, and has been since t, which is cancelled, was known to live: its groups are put
 * in line. By now t may have ended, but then it had none: it and its successor need CANCEL to lose
 * or get one. */
void hg__cancel_spread_locked(struct hg_sched *s, const struct hg_tcb *t);
/* Tries to win t's park for its cancellation. True: the caller makes it ready. */
bool hg__cancel_claim(struct hg_tcb *t);
/* Cancels *task, which `lock` guards (inside CANCEL), unless it is NULL. */
void hg__cancel_task(struct hg_sched *s, struct hg_lock *lock, struct hg_tcb *const *task);

/* ---- group.c ---- */

/* CANCEL is held: g takes no more members and is put in line for its members to be told. */
void hg__group_cancel_locked(struct hg_sched *s, struct hg_group_state *g);
/* CANCEL is held and is let go: tells the members of all groups in line. */
void hg__cancel_unlock(struct hg_sched *s);

/* A place in g for a child of the calling task; waits for it. 0; -ECANCELED; -ETIMEDOUT: the
 * ambient deadline; -EINVAL: another runtime's group. */
int hg__group_enter(struct hg_group_state *g, struct hg_tcb *self);
/* t, not published yet, becomes a member. */
void hg__group_add(struct hg_group_state *g, struct hg_tcb *t);
/* t, the calling task and a member, has ended with `result`: the first that is not 0 cancels the
 * others. */
void hg__group_result(struct hg_tcb *t, int result);
/* Gives a place back; t: the member that had it, or NULL. Any stack. */
void hg__group_leave(struct hg_group_state *g, struct hg_tcb *t);
/* t ends: its groups belong to nobody. */
void hg__group_disown(struct hg_tcb *t);

#endif

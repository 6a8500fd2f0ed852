/* group.h: groups of tasks: started together, limited in number, cancelled and waited for as one.
 *
 * A group is a plain struct that lies anywhere (stack, heap, static), holds no references, and
 * needs no destruction. It must stay where it is as long as a member lives: wait for the group
 * before the frame that holds it goes away.
 *
 * The first member whose function returns something else than 0 gives the group its result and
 * cancels the others. A group is also cancelled together with the task that started its first
 * member (if that one is in a group itself or has a handle; not while it is shielded), and so on
 * down through the groups of its members. A pool whose jobs may fail one by one has them return 0
 * and report otherwise.
 */
#ifndef HEDGE_GROUP_H
#define HEDGE_GROUP_H
#include <hedge/core.h>

HG_BEGIN_DECLS

typedef struct hg_group {
    uintptr_t w[18];
} hg_group;

/* any: an empty group. limit: how many members may live at once; 0 or less: any number. */
HG_API void hg_group_init(hg_group *g, int limit);
/* S W: starts fn as a member. bytes (at most 1,024) bytes of args are copied onto its stack, and fn
 * gets their address there; bytes 0: fn gets args as it is. No heap allocation. Waits while the
 * group is full. -ECANCELED: the group is cancelled, or the caller is (and not shielded), whether
 * there is a place or not; -ETIMEDOUT: the caller's ambient deadline passed while it waited;
 * -EAGAIN: no stack; -EPERM: not on a task; -EINVAL: bytes, or a member lives in another runtime.
 * After an error nothing was started. */
HG_API HG_MUST int hg_group_go(hg_group *g, int (*fn)(void *), const void *args, size_t bytes);
/* any: cancels all members for good, and those who wait for a place; the group takes no more
 * members. Twice is once. The group must not have gone away. */
HG_API void hg_group_cancel(hg_group *g);
/* S W: waits until no member lives. Returns the first result that was not 0, else 0. -ETIMEDOUT:
 * `deadline` passed, and members still live; -EAGAIN: likewise, with HG_NOW. When the caller is
 * cancelled, or its ambient deadline passes, while members live, the group is cancelled and waited
 * for, no matter how long it takes (but to `deadline`); the result is the group's, or where that is
 * 0, -ECANCELED or -ETIMEDOUT. So with HG_FOREVER no member lives when it returns. Its result and
 * its cancellation stay with the group until hg_group_init; without them it can be used again.
 * -EPERM: members live, and the caller is not a task. */
HG_API int hg_group_wait(hg_group *g, int64_t deadline);

HG_END_DECLS
#endif

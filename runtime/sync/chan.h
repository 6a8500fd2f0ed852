/* chan.h (internal): what chan.c and select.c share: the channel, its wait records, one try
 * under its lock.
 *
 * A channel is a heap object with one reference, its buffer, which is a heap object of its own.
 * The wait queues point to records on the stacks of waiting tasks (or in a select's scratch):
 * these are not roots and are not scanned.
 *
 * Invariants (under the channel's lock):
 *   C1  a record is in a queue only while its task has not left the call that put it there: who
 *       wakes the task takes the record of the channel concerned out, and the task itself takes
 *       out all that are left before it returns
 *   C2  receivers wait only while the buffer is empty, senders only while it is full (an
 *       unbuffered channel's is both)
 *   C3  nothing enters a queue or the buffer once the channel is closed
 *   C4  the slots of an element buffer that hold no element are all zero if elements may hold
 *       references
 *
 * Queues are first in, first out, and nobody overtakes: by C2 a newcomer finds a partner or room
 * only when nobody of its own kind waits. A record whose park was already won elsewhere (another
 * case, the deadline) may be met in a queue: the claim fails and the record is dropped.
 */
#ifndef HG_RUNTIME_SYNC_CHAN_H
#define HG_RUNTIME_SYNC_CHAN_H
#include "runtime/sync/wait.h"
#include <hedge/chan.h>

/* One park; shared by the records of a select. On the waiting task's stack. */
struct hg_wait {
    struct hg_tcb *task;
    uint64_t ticket;
};

/* One place in one queue. What elem points to belongs to whoever wins the park, until the task is
 * ready. */
struct hg_waiter {
    struct hg_list link;  /* first; the channel's lock. Linked to itself when in no queue */
    struct hg_wait *wait; /* constant */
    union {
        const void *from; /* a sender's value */
        void *to;         /* where a receiver wants it; NULL: it is dropped */
    } elem;               /* constant */
};

struct hg_chan {
    void *buffer;         /* the only reference; NULL: it would hold no bytes. Constant */
    struct hg_lock lock;  /* CHAN; guards all that is not constant */
    uint32_t elem_bytes;  /* constant */
    bool refs;            /* elements may hold references: whole words. Constant */
    bool closed;          /* never taken back */
    size_t cap;           /* constant */
    _Atomic size_t count; /* in the buffer. Writers: under lock; readers: hg_chan_length, too */
    size_t head, tail;    /* slots of the oldest element and of the next to come */
    struct hg_list senders, receivers;
};

/* Tries once, under the channel's lock, m current, no safepoint inside. 0: done; -EPIPE;
 * -EAGAIN: it would have to wait. *wake: a task whose park was won on the way, or NULL: the
 * caller makes it ready once no channel is locked. */
int hg__chan_send_locked(struct hg_mutator *m, struct hg_chan *c, const void *value,
                         struct hg_tcb **wake);
int hg__chan_recv_locked(struct hg_mutator *m, struct hg_chan *c, void *value,
                         struct hg_tcb **wake);

/* Zeroes the value that the current task wanted from a closed channel. value may be NULL. */
void hg__chan_zero(struct hg_mutator *m, const struct hg_chan *c, void *value);

/* Waits for what never comes, until the deadline. -EAGAIN, -ETIMEDOUT, -ECANCELED. */
int hg__wait_never(struct hg_mutator *m, int64_t deadline, const char *where);

#endif

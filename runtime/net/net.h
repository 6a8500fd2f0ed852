/* net.h: descriptors whose readiness tasks wait for.
 *
 *   hg_fd     what programs hold: a small heap object, the name of a descriptor: a slot and
 *             a generation. Never changes.
 *   slot      struct hg_desc: one open descriptor; metadata. Memory of slots is never given back
 *             before the runtime closes, so a stale hg_fd and an event in flight can always look at
 *             one, and see by the generation that it is not theirs.
 *
 * Invariants:
 *   N1  a slot's descriptor is closed only by who sets `users` to 0 while CLOSING is set. Every
 *       system call on its number lies between an enter and a leave, so none meets the number's
 *       next owner
 *   N2  the generation grows when the descriptor has been closed, before the slot is used again
 *   N3  waiter[i] is not NULL if and only if its task has not left hg__desc_wait; who takes it out
 *       does so under the slot's lock, and its task does not return before it is out
 *   N4  no record is in waiter[] once the slot is closed: CLOSING is set before the closer takes
 *       the lock to wake who waits, and looked at under the lock by who wants to wait
 *   N5  a task that waits is not a user: only calls that are inside the kernel delay a close
 *
 * Readiness is edge triggered: an event for which nobody waits is kept in `ready`, and who wants to
 * wait takes it and tries again. An event too many costs a system call that says -EAGAIN; none may
 * be lost.
 *
 * By file:
 *   desc.c    slots: opening, closing, entering, waiting     stream.c   bytes
 *   poll.c    the poller, events                             message.c  messages, shutdown, wait
 *   addr.c    addresses as text                              connect.c  listen, dial, accept
 */
#ifndef HG_RUNTIME_NET_NET_H
#define HG_RUNTIME_NET_NET_H
#include "base/os_net.h"
#include "runtime/sched/sched.h"
#include <hedge/io.h>

/* ---- slots ---- */

/* hg_desc.state: generation * HG_DESC_GENERATION + flags + users. */
#define HG_DESC_USERS      ((uint64_t)0xfffff)
#define HG_DESC_CLOSING    ((uint64_t)1 << 20) /* set once, by hg_fd_close */
#define HG_DESC_READING    ((uint64_t)1 << 21) /* a task has the direction to itself: read_full */
#define HG_DESC_WRITING    ((uint64_t)1 << 22) /* likewise: write_all, writev_all */
#define HG_DESC_GENERATION ((uint64_t)1 << 24)

/* hg_desc.flags */
#define HG_DESC_SOCKET   1u
#define HG_DESC_BORROWED 2u
#define HG_DESC_STREAM   8u /* a short read has emptied it */
#define HG_DESC_UNLINK   4u /* the path of the socket's address is removed when it is closed */

/* A task that waits; on its stack. */
struct hg_desc_waiter {
    struct hg_tcb *task;
    uint64_t ticket;
    uint32_t directions; /* HG_OS_READABLE, HG_OS_WRITABLE, or both: then it is both waiters */
};

struct hg_net;

struct hg_desc {
    _Atomic uint64_t state; /* writers: everyone, by cas; N1, N2 */
    /* HG_OS_READABLE, HG_OS_WRITABLE: became so while nobody waited. Set under the lock; cleared by
     * who tries again. */
    _Atomic uint32_t ready;
    int fd;                           /* constant from opening to closing */
    struct hg_lock lock;              /* FD */
    struct hg_desc_waiter *waiter[2]; /* to read, to write; lock; N3 */
    struct hg_net *net;               /* constant */
    uint32_t flags;                   /* constant from opening to closing */
    struct hg_desc *next;             /* unused ones; NET */
};

struct hg_fd {
    struct hg_desc *desc;
    uint64_t generation;
};

#define HG_DESC_CHUNK 64
struct hg_desc_chunk {
    struct hg_desc desc[HG_DESC_CHUNK]; /* first: aligned to cache lines */
    struct hg_desc_chunk *next;
};

/* One per runtime; part of struct hg_runtime. */
struct hg_net {
    struct hg_sched *sched;
    struct hg_lock lock;          /* NET */
    struct hg_desc *unused;       /* lock */
    struct hg_desc_chunk *chunks; /* lock */
    /* The kernel's poller and its bell. Written once under the lock, before the first descriptor is
     * open (net_fds, seq_cst), which whoever polls has seen. opened: lock. */
    int poller, bell;
    bool opened;
};

/* ---- desc.c ---- */

void hg__net_init(struct hg_net *n, struct hg_sched *s);
/* Closes what is open. Requires: no task runs any more. */
void hg__net_fini(struct hg_net *n);

/* The calling task's, or NULL. */
struct hg_net *hg__net_self(void);
/* A handle for a new descriptor fd, registered with the poller. S. After an error fd is the
 * caller's. */
int hg__desc_open(struct hg_net *n, int fd, uint32_t flags, hg_fd **out);
/* Stores a new handle into a slot of the caller's. */
void hg__fd_store(hg_fd **out, hg_fd *f);

/* Begins a call on f that needs directions `of` (0: none): -EBADF, or -EBUSY: another has one to
 * itself. The slot's fd may be used until hg__desc_leave. turn: HG_DESC_READING or HG_DESC_WRITING:
 * the caller has the direction to itself until hg__desc_end_turn. A safepoint. */
int hg__desc_begin(const hg_fd *f, uint32_t of, uint64_t turn);
/* Returns what closing said if this was the last user of a slot that is being closed, else 0. */
int hg__desc_leave(struct hg_desc *d);
/* The caller, who is inside or not, gives its turn back. */
void hg__desc_end_turn(const hg_fd *f, uint64_t turn);
/* The caller is inside and would have to wait. 0: it is inside and tries again; else it is not
 * inside any more. where: for reports. */
int hg__desc_wait(const hg_fd *f, uint32_t directions, int64_t deadline, const char *where);
/* Between begin and leave. */
static inline bool hg__desc_is_socket(const struct hg_desc *d)
{
    return (d->flags & HG_DESC_SOCKET) != 0;
}

/* ---- poll.c ---- */

/* Opens the poller, NET held; 0 or -errno. */
int hg__net_open_locked(struct hg_net *n);
/* What the poller reports with d's events: where it is, and its generation. */
uint64_t hg__desc_tag(const struct hg_desc *d, uint64_t generation);
/* Scheduler hooks net_poll and net_kick. */
struct hg_tcb *hg__net_poll(void *net, struct hg_mutator *m, int64_t until);
void hg__net_kick(void *net);
/* Takes out and wins those of d's waiters that wait for `directions`: onto the chain. d's lock is
 * held. Returns the directions that the tasks taken out waited for. */
uint32_t hg__desc_claim_locked(struct hg_desc *d, uint32_t directions, enum hg_wake why,
                               struct hg_tcb ***tail);

/* ---- addr.c ---- */

/* sun_path and a 0 behind it, so that a path is always a string. */
struct hg_net_address {
    socklen_t length;
    bool any; /* ":port": the machine's own addresses */
    union {
        struct sockaddr sa;
        unsigned char room[128];
        uint64_t align;
    } u;
};
/* -EINVAL: not an address; -ENAMETOOLONG: a path. dial: ":port" is this machine. */
int hg__address_parse(const char *text, bool dial, struct hg_net_address *out);
/* The length, or -ENOSPC, -EAFNOSUPPORT. */
int hg__address_format(const struct hg_net_address *a, char *text, size_t room);

#endif

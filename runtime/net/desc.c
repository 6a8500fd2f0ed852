/* desc.c: descriptors in use: opening, closing, entering a call, waiting.
 *
 * A call on a descriptor: begin (one cas on the slot's state: it is open, and has one user more),
 * the system call, leave. If the system call would have to wait: hg__desc_wait, which leaves,
 * parks, and enters again.
 *
 * Close sets CLOSING, so that nobody enters; wakes who waits, with HG_WAKE_CLOSED; and leaves. The
 * last to leave a slot with CLOSING set closes the number: while a thread is inside a system call
 * with it the kernel must not give it to somebody else. As a task that waits is no user (N5), that
 * is a matter of microseconds.
 *
 * Why no edge is lost: an event is taken under the slot's lock, where it either finds a waiter or
 * sets `ready`. Who found that it would have to wait looks at `ready` under the same lock before it
 * becomes the waiter. An event that came after the failed system call has set it by then, or will
 * find the waiter.
 *
 * Order: state is acquire-release: what was written before a slot was opened or used is visible to
 * who enters, and all uses to who closes.
 *
 * Rejected: hg_fd as metadata: a stale one would be another connection's. A flag "closed" in the
 * heap object alone: an event in flight knows no heap object. Taking the number away from threads
 * that are inside calls (dup2): one call more for each descriptor, for a rare race.
 */
#include "runtime/net/net.h"

#include <errno.h>
#include <string.h>

/* ---- the runtime's slots ---- */

void hg__net_init(struct hg_net *n, struct hg_sched *s)
{
    n->sched = s;
    n->poller = n->bell = -1;
    hg__lock_init(&n->lock, HG_RANK_NET);
}

void hg__net_fini(struct hg_net *n)
{
    if (!n->opened)
        return;
    for (struct hg_desc_chunk *c = n->chunks; c != NULL; c = c->next)
        for (int i = 0; i < HG_DESC_CHUNK; i++)
            if (c->desc[i].fd >= 0 && !(c->desc[i].flags & HG_DESC_BORROWED))
                (void)hg__os_close(c->desc[i].fd);
    hg__os_poller_close(n->poller, n->bell);
    n->opened = false;
    for (struct hg_desc_chunk *c; (c = n->chunks) != NULL;) {
        n->chunks = c->next;
        hg__meta_free(n->sched->world->meta, c, sizeof *c);
    }
}

struct hg_net *hg__net_self(void)
{
    struct hg_tcb *t = hg__task_self();
    return t != NULL ? t->sched->hooks.net : NULL;
}

static bool add_chunk_locked(struct hg_net *n)
{
    struct hg_desc_chunk *c = hg__meta_alloc(n->sched->world->meta, sizeof *c);
    if (c == NULL)
        return false;
    for (int i = 0; i < HG_DESC_CHUNK; i++) {
        struct hg_desc *d = &c->desc[i];
        d->fd = -1;
        d->net = n;
        hg__lock_init(&d->lock, HG_RANK_FD);
        d->next = n->unused;
        n->unused = d;
    }
    c->next = n->chunks;
    n->chunks = c;
    return true;
}

struct new_slot {
    struct hg_net *net;
    struct hg_desc *desc;
    int error;
};
/* On the scheduler stack, as metadata needs more than a task's. */
static void *get_slot(void *m, void *b)
{
    struct new_slot *want = b;
    struct hg_net *n = want->net;
    (void)m;
    hg__lock(&n->lock);
    want->error = n->opened ? 0 : hg__net_open_locked(n);
    if (want->error == 0 && n->unused == NULL && !add_chunk_locked(n))
        want->error = -ENOMEM;
    if (want->error == 0) {
        want->desc = n->unused;
        n->unused = want->desc->next;
    }
    hg__unlock(&n->lock);
    return NULL;
}

static void put_slot(struct hg_desc *d, uint64_t generation)
{
    struct hg_net *n = d->net;
    d->fd = -1;
    hg_store_rlx(&d->ready, 0u);
    hg_store_rel(&d->state, (generation + 1) * HG_DESC_GENERATION); /* N2 */
    hg__lock(&n->lock);
    d->next = n->unused;
    n->unused = d;
    hg__unlock(&n->lock);
}

/* ---- calls ---- */

static void remove_path(int fd)
{
    struct hg_net_address a;
    char text[HG_ADDRESS_ROOM];
    a.length = sizeof a.u;
    if (hg__os_local_address(fd, &a.u.sa, &a.length) == 0 &&
        hg__address_format(&a, text, sizeof text) > 0)
        (void)hg__os_unlink(text + strlen("unix:"));
}

/* By the last user of a slot that is closing (N1). */
static __attribute__((noinline)) int finish(struct hg_desc *d)
{
    struct hg_net *n = d->net;
    int result = 0;
    if (d->flags & HG_DESC_UNLINK)
        remove_path(d->fd);
    (void)hg__os_poller_remove(n->poller, d->fd); /* a borrowed one may be closed already */
    if (!(d->flags & HG_DESC_BORROWED))
        result = hg__os_close(d->fd);
    put_slot(d, hg_load_rlx(&d->state) / HG_DESC_GENERATION);
    hg_sub_sc(&n->sched->net_fds, 1u);
    return result;
}

int hg__desc_leave(struct hg_desc *d)
{
    uint64_t s = hg_sub_acqrel(&d->state, (uint64_t)1) - 1;
    if (hg_likely((s & (HG_DESC_CLOSING | HG_DESC_USERS)) != HG_DESC_CLOSING))
        return 0;
    return finish(d);
}

static uint64_t turns_of(uint32_t directions)
{
    return (directions & HG_OS_READABLE ? HG_DESC_READING : 0) |
           (directions & HG_OS_WRITABLE ? HG_DESC_WRITING : 0);
}

/* One user more, unless it is closed, or a direction of `held` is somebody's turn; takes `turn`. */
static int enter(const hg_fd *f, uint64_t held, uint64_t turn)
{
    struct hg_desc *d = f->desc;
    uint64_t s = hg_load_rlx(&d->state);
    do {
        if (s / HG_DESC_GENERATION != f->generation || (s & HG_DESC_CLOSING))
            return -EBADF;
        if (s & held)
            return -EBUSY;
    } while (!hg_cas_acqrel(&d->state, &s, (s | turn) + 1));
    return 0;
}

int hg__desc_begin(const hg_fd *f, uint32_t of, uint64_t turn)
{
    hg_safepoint();
    if (hg_unlikely(f == NULL))
        return -EBADF;
    int error = enter(f, turns_of(of), turn);
    if (hg_unlikely(error == 0 && (f->desc->flags & HG_DESC_BORROWED) && of != 0)) {
        hg__desc_end_turn(f, turn);
        hg__desc_leave(f->desc);
        return -EINVAL;
    }
    return error;
}

void hg__desc_end_turn(const hg_fd *f, uint64_t turn)
{
    struct hg_desc *d = f->desc;
    uint64_t s = hg_load_rlx(&d->state);
    /* A slot that is closing forgets the turn with everything else. */
    while (s / HG_DESC_GENERATION == f->generation && !(s & HG_DESC_CLOSING))
        if (hg_cas_acqrel(&d->state, &s, s & ~turn))
            return;
}

/* ---- opening ---- */

int hg__desc_open(struct hg_net *n, int fd, uint32_t flags, hg_fd **out)
{
    struct new_slot slot = {.net = n};
    hg_fd *f = hg__alloc(hg__self(), sizeof *f, HG_LEAF, true);
    if (f == NULL)
        return -ENOMEM;
    hg__on_scheduler(hg__self(), get_slot, &slot);
    if (slot.error != 0)
        return slot.error;
    struct hg_desc *d = slot.desc;
    uint64_t generation = hg_load_rlx(&d->state) / HG_DESC_GENERATION;
    d->flags = flags;
    d->fd = fd;
    f->desc = d;
    f->generation = generation;
    /* Before it is added, so that a poller there is when its first event comes. seq_cst: Note
     * [POLL] in sched/poll.c. */
    hg_add_sc(&n->sched->net_fds, 1u);
    int error = hg__os_poller_add(n->poller, fd, hg__desc_tag(d, generation));
    if (error != 0) {
        hg_sub_sc(&n->sched->net_fds, 1u);
        put_slot(d, generation);
        return error;
    }
    *out = f;
    return 0;
}

void hg__fd_store(hg_fd **out, hg_fd *f)
{
    const struct hg_tcb *t = hg__task_self();
    if ((uintptr_t)out >= t->stack.lo && (uintptr_t)out < t->stack.hi)
        *out = f;
    else
        hg_ref_store(out, f);
}

static int open_given(int fd, uint32_t flags, hg_fd **out)
{
    hg_fd *f;
    hg_safepoint();
    struct hg_net *n = hg__net_self();
    if (n == NULL)
        return -EPERM;
    int socket = hg__os_is_socket(fd);
    if (socket < 0)
        return socket;
    int error = hg__desc_open(n, fd, flags | (socket ? HG_DESC_SOCKET : 0), &f);
    if (error != 0)
        return error;
    /* Last: after an error the descriptor is as it was. */
    error = flags & HG_DESC_BORROWED ? 0 : hg__os_set_nonblocking(fd);
    if (error != 0) {
        f->desc->flags |= HG_DESC_BORROWED;
        (void)hg_fd_close(f);
        return error;
    }
    hg__fd_store(out, f);
    return 0;
}

HG_API int hg_fd_open(int fd, hg_fd **out) { return open_given(fd, 0, out); }

HG_API int hg_fd_borrow(int fd, hg_fd **out) { return open_given(fd, HG_DESC_BORROWED, out); }

/* ---- closing ---- */

/* Makes tasks ready that were won, first come first. */
static void ready_all(struct hg_tcb *t)
{
    while (t != NULL) {
        struct hg_tcb *next = t->next;
        hg__ready(t, false);
        t = next;
    }
}

HG_API int hg_fd_close(hg_fd *f)
{
    if (f == NULL)
        return -EBADF;
    struct hg_desc *d = f->desc;
    uint64_t s = hg_load_rlx(&d->state);
    do {
        if (s / HG_DESC_GENERATION != f->generation || (s & HG_DESC_CLOSING))
            return -EBADF;
    } while (!hg_cas_acqrel(&d->state, &s, (s | HG_DESC_CLOSING) + 1));
    struct hg_tcb *woken = NULL, **tail = &woken;
    hg__lock(&d->lock);
    (void)hg__desc_claim_locked(d, HG_OS_READABLE | HG_OS_WRITABLE, HG_WAKE_CLOSED, &tail);
    hg__unlock(&d->lock);
    *tail = NULL;
    int result = hg__desc_leave(d);
    ready_all(woken);
    return result;
}

HG_API int hg_fd_number(const hg_fd *f)
{
    if (f == NULL)
        return -EBADF;
    int error = enter(f, 0, 0);
    if (error != 0)
        return error;
    int fd = f->desc->fd;
    hg__desc_leave(f->desc);
    return fd;
}

/* ---- waiting ---- */

static void let_go(void *desc) { hg__unlock(&((struct hg_desc *)desc)->lock); }

/* The number of tasks that wait, counted where this task runs. */
static void count_wait(int64_t change)
{
    struct hg_proc *p = hg__proc_of(hg__self());
    hg_store_rlx(&p->net_waits, hg_load_rlx(&p->net_waits) + change);
}

/* Under the slot's lock. 0: w is the waiter; -EAGAIN: try the call again at once. */
static int join_locked(struct hg_desc *d, struct hg_desc_waiter *w, int64_t *deadline)
{
    if (hg_load_rlx(&d->ready) & w->directions) {
        hg_and_acqrel(&d->ready, ~w->directions);
        return -EAGAIN;
    }
    if (hg_load_acq(&d->state) & HG_DESC_CLOSING) /* N4 */
        return -EBADF;
    for (int i = 0; i < 2; i++)
        if ((w->directions >> i & 1u) && d->waiter[i] != NULL)
            return -EBUSY;
    int error = hg__wait_enter(w->task, deadline);
    if (error != 0)
        return error;
    w->ticket = hg__park_begin(w->task);
    for (int i = 0; i < 2; i++)
        if (w->directions >> i & 1u)
            d->waiter[i] = w;
    return 0;
}

/* After a wait that nobody's event or close has ended (N3). */
static void give_up(struct hg_desc *d, struct hg_desc_waiter *w)
{
    hg__lock(&d->lock);
    for (int i = 0; i < 2; i++)
        if (d->waiter[i] == w)
            d->waiter[i] = NULL;
    hg__unlock(&d->lock);
}

int hg__desc_wait(const hg_fd *f, uint32_t directions, int64_t deadline, const char *where)
{
    struct hg_desc *d = f->desc;
    struct hg_mutator *m = hg__self();
    struct hg_tcb *t = m != NULL ? hg__proc_of(m)->current : NULL;
    struct hg_desc_waiter w = {.task = t, .directions = directions};
    int error = deadline == HG_NOW ? -EAGAIN : t == NULL ? -EPERM : 0;
    if (error != 0) {
        hg__desc_leave(d);
        return error;
    }
    hg__lock(&d->lock);
    error = join_locked(d, &w, &deadline);
    if (error != 0) {
        hg__unlock(&d->lock);
        if (error == -EAGAIN)
            return 0;
        hg__desc_leave(d);
        return error;
    }
    count_wait(1);
    /* Never the last: whoever closes is a user itself until it has had the lock. */
    (void)hg_sub_acqrel(&d->state, (uint64_t)1);
    enum hg_wake why = hg__park(t, w.ticket, deadline, let_go, d, where);
    count_wait(-1);
    if (hg_likely(why == HG_WAKE_VALUE))
        return enter(f, 0, 0);
    if (why == HG_WAKE_CLOSED)
        return -EBADF;
    give_up(d, &w);
    return hg__wait_error(why);
}

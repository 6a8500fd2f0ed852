/* chan.c: channels: creation, send, receive, close.
 *
 * A send or a receive tries once under the channel's lock; when it has to wait it puts a record
 * into the queue and parks, and the park's commit lets the lock go. The partner that comes later
 * wins the park, moves the value itself (directly between the two, or through the buffer), and
 * makes the task ready: the woken task finds everything done.
 *
 * What the collector has to be told about values that may hold references
 * (docs/design/collector.md, Barrier):
 *
 *  to a receiver that waits: from the sender, whose stack may be unscanned, to a parked stack,
 *      which may have been scanned: shaded. If the place lies in the receiver's stack a plain
 *      copy follows, else a barriered one, since it is a slot that others can reach, or another
 *      task's stack.
 *  from a sender that waits, to a receiver or into the buffer: out of a parked stack that may be
 *      unscanned: shaded, for the sender may forget it before it is scanned. The sender is not
 *      ready yet, so that its frame is intact.
 *  into the buffer: a store into a reachable object: barriered. Slots without an element are
 *      zero (C4), so that nothing is overwritten; the new value is shaded where the phase asks
 *      for it.
 *  out of the buffer: the slot is cleared, for a channel must not keep what was taken from it
 *      alive. Clearing is a deletion: the old value is shaded first. The same shading covers the
 *      move to the receiver's stack, which would not need it by itself: what a reachable object
 *      holds is marked or protected by the snapshot until it is deleted.
 *
 * All of this happens under the lock without a safepoint, so that no phase begins in between. In
 * a value of n words shading costs time in proportion; 64 KiB of references, the most that fits
 * an element, are held off for some 0.1 ms.
 *
 * Values without references are copied as bytes; to them none of this applies.
 *
 * Who is woken: a receiver that gets its value runs next, for that is what it waits for. A sender
 * whose value was taken goes to the end of the run queue. If it ran next too, it and the receiver
 * would pass the proc to each other, while other senders, runnable and without a value in the queue
 * yet, starve until the time slice ends: with 64 senders one of them would send some 100,000 times
 * in a row.
 */
#include "runtime/sync/chan.h"

#include <errno.h>
#include <string.h>

#define ELEM_MAX ((size_t)65536)
/* Close wakes this many waiting tasks between two safepoints. */
#define CLOSE_BATCH 64

static const uint32_t chan_fields[] = {offsetof(struct hg_chan, buffer)};
static const hg_layout chan_layout = HG_TYPED("channel", chan_fields);

/* ---- values ---- */

static inline bool on_stack_of(const struct hg_tcb *t, const void *p)
{
    return (uintptr_t)p - t->stack.lo < t->stack.hi - t->stack.lo;
}

/* Words of a parked or running stack, or zeroes into a buffer. A marker may read them at this
 * moment, as of right: each word is the old or the new one, and both are shaded. */
static inline void copy_words(uintptr_t *dst, const uintptr_t *src, size_t bytes)
{
    for (size_t i = 0; i < bytes / sizeof(uintptr_t); i++)
        hg_store_rlx((_Atomic uintptr_t *)&dst[i], src[i]);
}
static inline void clear_words(uintptr_t *dst, size_t bytes)
{
    for (size_t i = 0; i < bytes / sizeof(uintptr_t); i++)
        hg_store_rlx((_Atomic uintptr_t *)&dst[i], (uintptr_t)0);
}

static inline void copy_leaf(void *dst, const void *src, size_t bytes)
{
    if (hg_likely(bytes == sizeof(uint64_t)))
        memcpy(dst, src, sizeof(uint64_t));
    else if (bytes != 0)
        memcpy(dst, src, bytes);
}

/* Copies a value, shaded where it must be, to the place where t, which runs here or is parked,
 * wants it. */
static inline void place(struct hg_mutator *m, const struct hg_chan *c, const struct hg_tcb *t,
                         void *dst, const void *src)
{
    if (dst == NULL)
        return;
    if (!c->refs)
        copy_leaf(dst, src, c->elem_bytes);
    else if (hg_likely(on_stack_of(t, dst)))
        copy_words(dst, src, c->elem_bytes);
    else
        hg__store_value(m, dst, src, c->elem_bytes, true);
}

static inline void shade(struct hg_mutator *m, const struct hg_chan *c, const void *value)
{
    HG_ASSERT(!c->refs || (uintptr_t)value % sizeof(uintptr_t) == 0);
    if (c->refs)
        hg__shade_words(m, value, c->elem_bytes / sizeof(uintptr_t));
}

void hg__chan_zero(struct hg_mutator *m, const struct hg_chan *c, void *value)
{
    static const uintptr_t zero[8];
    if (value == NULL || c->elem_bytes == 0)
        return;
    if (!c->refs || on_stack_of(hg__proc_of(m)->current, value)) {
        memset(value, 0, c->elem_bytes);
        return;
    }
    for (size_t at = 0; at < c->elem_bytes; at += sizeof zero) {
        size_t left = c->elem_bytes - at;
        hg__store_value(m, (char *)value + at, zero, left < sizeof zero ? left : sizeof zero, true);
    }
}

/* ---- the buffer ---- */

static inline void *slot(const struct hg_chan *c, size_t i)
{
    return (char *)c->buffer + i * c->elem_bytes;
}

/* Requires room, and a value that is the running task's or shaded. */
static inline void put(struct hg_mutator *m, struct hg_chan *c, const void *value)
{
    if (c->refs)
        hg__store_value(m, slot(c, c->tail), value, c->elem_bytes, true);
    else if (c->elem_bytes != 0)
        copy_leaf(slot(c, c->tail), value, c->elem_bytes);
    c->tail = c->tail + 1 == c->cap ? 0 : c->tail + 1;
    hg_store_rlx(&c->count, hg_load_rlx(&c->count) + 1);
}

/* Requires an element. */
static inline void take(struct hg_mutator *m, struct hg_chan *c, void *value)
{
    void *s = c->elem_bytes != 0 ? slot(c, c->head) : NULL;
    shade(m, c, s);
    place(m, c, hg__proc_of(m)->current, value, s);
    if (c->refs)
        clear_words(s, c->elem_bytes);
    c->head = c->head + 1 == c->cap ? 0 : c->head + 1;
    hg_store_rlx(&c->count, hg_load_rlx(&c->count) - 1);
}

/* ---- partners ---- */

/* Takes out the first record whose park is won. The task stays where it is until the caller
 * makes it ready, so that the record and what it points to can be used until then. NULL: none. */
static inline struct hg_waiter *claim_first(struct hg_list *queue, enum hg_wake why)
{
    struct hg_list *l;
    while ((l = hg_list_pop_front(queue)) != NULL) {
        struct hg_waiter *r = (struct hg_waiter *)(void *)l;
        if (hg_likely(hg__park_claim(r->wait->task, r->wait->ticket, why))) {
            r->wait->task->wait_winner = r;
            return r;
        }
    }
    return NULL;
}

int hg__chan_send_locked(struct hg_mutator *m, struct hg_chan *c, const void *value,
                         struct hg_tcb **wake)
{
    HG_ASSERT_HELD(&c->lock);
    *wake = NULL;
    if (hg_unlikely(c->closed))
        return -EPIPE;
    struct hg_waiter *r = claim_first(&c->receivers, HG_WAKE_VALUE);
    if (r != NULL) {
        *wake = r->wait->task;
        shade(m, c, value);
        place(m, c, r->wait->task, r->elem.to, value);
        return 0;
    }
    if (hg_load_rlx(&c->count) == c->cap)
        return -EAGAIN;
    put(m, c, value);
    return 0;
}

int hg__chan_recv_locked(struct hg_mutator *m, struct hg_chan *c, void *value, struct hg_tcb **wake)
{
    struct hg_waiter *s = NULL;
    HG_ASSERT_HELD(&c->lock);
    *wake = NULL;
    if (hg_load_rlx(&c->count) != 0) {
        take(m, c, value);
        /* Senders that close has not woken yet are not served any more. */
        if (!c->closed && (s = claim_first(&c->senders, HG_WAKE_VALUE)) != NULL) {
            *wake = s->wait->task;
            shade(m, c, s->elem.from);
            put(m, c, s->elem.from);
        }
        return 0;
    }
    if (hg_unlikely(c->closed)) {
        hg__chan_zero(m, c, value);
        return -EPIPE;
    }
    s = claim_first(&c->senders, HG_WAKE_VALUE);
    if (s == NULL)
        return -EAGAIN;
    *wake = s->wait->task;
    shade(m, c, s->elem.from);
    place(m, c, hg__proc_of(m)->current, value, s->elem.from);
    return 0;
}

/* ---- waiting ---- */

static void let_go(void *chan) { hg__unlock(&((struct hg_chan *)chan)->lock); }
static void nothing_to_let_go(void *arg) { (void)arg; }

int hg__wait_never(struct hg_mutator *m, int64_t deadline, const char *where)
{
    if (deadline == HG_NOW)
        return -EAGAIN;
    struct hg_tcb *t = hg__proc_of(m)->current;
    int r = hg__wait_enter(t, &deadline);
    if (r == 0)
        r = hg__wait_error(
            hg__park(t, hg__park_begin(t), deadline, nothing_to_let_go, NULL, where));
    HG_CHECK(r != 0, "a wait for nothing came to its end");
    return r;
}

/* Waits in `queue` of c, which is locked on entry and not on return. 0: a partner did it all;
 * -EPIPE; -ETIMEDOUT; -ECANCELED. */
static __attribute__((noinline)) int wait_in(struct hg_mutator *m, struct hg_chan *c,
                                             struct hg_list *queue, struct hg_waiter *r,
                                             int64_t deadline, const char *where)
{
    struct hg_tcb *t = hg__proc_of(m)->current;
    int error = hg__wait_enter(t, &deadline);
    if (hg_unlikely(error != 0)) {
        hg__unlock(&c->lock);
        return error;
    }
    struct hg_wait wait = {t, hg__park_begin(t)};
    r->wait = &wait;
    hg_list_push_back(queue, &r->link);
    enum hg_wake why = hg__park(t, wait.ticket, deadline, let_go, c, where);
    if (hg_likely(why == HG_WAKE_VALUE))
        return 0;
    if (why == HG_WAKE_CLOSED)
        return -EPIPE;
    /* The timer or who cancels won the park, so that nobody touches the value any more; a partner
     * may still drop the record. */
    hg__lock(&c->lock);
    hg_list_remove(&r->link);
    hg__unlock(&c->lock);
    return hg__wait_error(why);
}

/* ---- interface ---- */

HG_API int hg_chan_new(size_t elem_bytes, size_t cap, const hg_layout *elem, hg_chan **out)
{
    struct hg_mutator *m = hg__sync_enter();
    size_t bytes;
    void *buffer = NULL;
    if (m == NULL)
        return -EPERM;
    if (elem_bytes > ELEM_MAX || (elem != HG_LEAF && elem_bytes % sizeof(uintptr_t) != 0))
        return -EINVAL;
    if (__builtin_mul_overflow(elem_bytes, cap, &bytes))
        return -ENOMEM;
    if (bytes != 0) {
        const hg_layout *layout = elem == HG_LEAF || elem == HG_REFS ? elem : HG_CONSERVATIVE;
        buffer = hg__alloc(m, bytes, layout, true);
        if (buffer == NULL)
            return -ENOMEM;
    }
    struct hg_chan *c = hg__alloc(hg__self(), sizeof *c, &chan_layout, true);
    if (c == NULL)
        return -ENOMEM;
    c->buffer = buffer; /* nobody else can reach c yet */
    hg__lock_init(&c->lock, HG_RANK_CHAN);
    c->elem_bytes = (uint32_t)elem_bytes;
    c->refs = elem != HG_LEAF && elem_bytes != 0;
    c->cap = cap;
    hg_list_init(&c->senders);
    hg_list_init(&c->receivers);
    *out = c;
    return 0;
}

HG_API int hg_chan_send(hg_chan *c, const void *value, int64_t deadline)
{
    struct hg_mutator *m = hg__sync_enter();
    struct hg_tcb *wake;
    if (hg_unlikely(m == NULL) && (m = hg__sync_callback(deadline)) == NULL)
        return -EPERM;
    if (hg_unlikely(c == NULL))
        return hg__wait_never(m, deadline, "send to no channel");
    HG_ASSERT(value != NULL || c->elem_bytes == 0);
    hg__lock(&c->lock);
    int r = hg__chan_send_locked(m, c, value, &wake);
    if (r == -EAGAIN && deadline != HG_NOW) {
        struct hg_waiter record = {.elem.from = value};
        return wait_in(m, c, &c->senders, &record, deadline, "channel send");
    }
    hg__unlock(&c->lock);
    if (wake != NULL)
        hg__hand_over(wake);
    return r;
}

HG_API int hg_chan_recv(hg_chan *c, void *value, int64_t deadline)
{
    struct hg_mutator *m = hg__sync_enter();
    struct hg_tcb *wake;
    if (hg_unlikely(m == NULL))
        return -EPERM;
    if (hg_unlikely(c == NULL))
        return hg__wait_never(m, deadline, "receive from no channel");
    hg__lock(&c->lock);
    int r = hg__chan_recv_locked(m, c, value, &wake);
    if (r == -EAGAIN && deadline != HG_NOW) {
        struct hg_waiter record = {.elem.to = value};
        r = wait_in(m, c, &c->receivers, &record, deadline, "channel receive");
        if (hg_unlikely(r == -EPIPE))
            hg__chan_zero(hg__self(), c, value);
        return r;
    }
    hg__unlock(&c->lock);
    if (wake != NULL)
        hg__ready(wake, false);
    return r;
}

/* Wins the parks of up to CLOSE_BATCH waiters, c locked. Returns their tasks, first come first,
 * linked by next: they are in no other queue. */
static struct hg_tcb *claim_batch(struct hg_chan *c)
{
    struct hg_tcb *first = NULL, **last = &first;
    for (int i = 0; i < CLOSE_BATCH; i++) {
        struct hg_waiter *r = claim_first(&c->receivers, HG_WAKE_CLOSED);
        if (r == NULL)
            r = claim_first(&c->senders, HG_WAKE_CLOSED);
        if (r == NULL)
            break;
        *last = r->wait->task;
        last = &r->wait->task->next;
    }
    *last = NULL;
    return first;
}

HG_API int hg_chan_close(hg_chan *c)
{
    if (hg__sync_enter() == NULL)
        return -EPERM;
    if (c == NULL)
        return -EINVAL;
    hg__lock(&c->lock);
    if (c->closed) {
        hg__unlock(&c->lock);
        return -EPIPE;
    }
    c->closed = true;
    /* From here on nobody joins the queues (C3), so that the lock can be let go between two
     * batches. */
    for (;;) {
        struct hg_tcb *t = claim_batch(c);
        hg__unlock(&c->lock);
        if (t == NULL)
            return 0;
        while (t != NULL) {
            struct hg_tcb *next = t->next;
            hg__ready(t, false);
            t = next;
        }
        (void)hg__sync_enter();
        hg__lock(&c->lock);
    }
}

HG_API size_t hg_chan_length(const hg_chan *c) { return c == NULL ? 0 : hg_load_rlx(&c->count); }

HG_API size_t hg_chan_capacity(const hg_chan *c) { return c == NULL ? 0 : c->cap; }

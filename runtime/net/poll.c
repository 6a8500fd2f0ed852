/* poll.c: the kernel's poller: events, and the tasks that wait for them.
 *
 * One instance of epoll for each runtime, made when its first descriptor is opened. Each descriptor
 * is added once, edge triggered, for both directions.
 *
 * An event carries 64 bits: the address of the slot, whose low 6 bits are 0 and whose high 16 are 0
 * in user space, and 22 bits of its generation. So an event that was taken from the kernel just
 * before its descriptor was closed, and is looked at when the slot has a new one, is dropped.
 * Should 4,194,304 descriptors have come and gone in between, the new one would be told of an edge
 * that it has not had, and find out with one system call.
 *
 * Rejected: an instance for each proc (sched/poll.c says why).
 */
#include "runtime/net/net.h"

#include <errno.h>

#define EVENTS_AT_ONCE 64
#define TAG_SHIFT      16
#define TAG_BITS       22
#define TAG_MASK       (((uint64_t)1 << TAG_BITS) - 1)

int hg__net_open_locked(struct hg_net *n)
{
    HG_ASSERT_HELD(&n->lock);
    int poller = hg__os_poller_open(&n->bell);
    if (poller < 0)
        return poller;
    n->poller = poller;
    n->opened = true;
    return 0;
}

uint64_t hg__desc_tag(const struct hg_desc *d, uint64_t generation)
{
    uint64_t at = (uint64_t)(uintptr_t)d;
    HG_CHECK(at >> 48 == 0 && (at << TAG_SHIFT & TAG_MASK) == 0,
             "the descriptor slot at %p does not fit an event", (const void *)d);
    return at << TAG_SHIFT | (generation & TAG_MASK);
}

uint32_t hg__desc_claim_locked(struct hg_desc *d, uint32_t directions, enum hg_wake why,
                               struct hg_tcb ***tail)
{
    uint32_t claimed = 0;
    HG_ASSERT_HELD(&d->lock);
    for (int i = 0; i < 2; i++) {
        struct hg_desc_waiter *w = d->waiter[i];
        if (w == NULL || !(w->directions & directions))
            continue;
        d->waiter[i] = NULL;
        if (d->waiter[1 - i] == w)
            d->waiter[1 - i] = NULL;
        if (!hg__park_claim(w->task, w->ticket, why))
            continue; /* it timed out at this moment */
        claimed |= w->directions;
        **tail = w->task;
        *tail = &w->task->next;
    }
    return claimed;
}

static void take_event(const struct hg_os_event *e, struct hg_tcb ***tail)
{
    struct hg_desc *d = (struct hg_desc *)(uintptr_t)((e->data & ~TAG_MASK) >> TAG_SHIFT);
    hg__lock(&d->lock);
    uint64_t generation = hg_load_acq(&d->state) / HG_DESC_GENERATION;
    if (((generation ^ e->data) & TAG_MASK) == 0) {
        uint32_t kept = e->ready & ~hg__desc_claim_locked(d, e->ready, HG_WAKE_VALUE, tail);
        if (kept & ~hg_load_rlx(&d->ready))
            hg_or_acqrel(&d->ready, kept);
    }
    hg__unlock(&d->lock);
}

struct hg_tcb *hg__net_poll(void *net, struct hg_mutator *m, int64_t until)
{
    struct hg_net *n = net;
    struct hg_os_event events[EVENTS_AT_ONCE];
    struct hg_tcb *chain = NULL, **tail = &chain;
    int count;
    bool rung;
    if (until == HG_NOW) {
        count = hg__os_poller_wait(n->poller, events, EVENTS_AT_ONCE, HG_NOW, &rung);
        /* Who looks takes the ring that is meant for who sleeps, and gives it back: Note [POLL]. */
        if (hg_unlikely(rung) && hg_load_sc(&n->sched->poller) != 0)
            hg__net_kick(n);
    } else {
        uint32_t word = hg__mutator_block(m);
        count = hg__os_poller_wait(n->poller, events, EVENTS_AT_ONCE, until, &rung);
        HG_CHECK(hg__mutator_unblock(m, word), "a proc that polls was handed on");
    }
    for (int i = 0; i < count; i++)
        take_event(&events[i], &tail);
    *tail = NULL;
    return chain;
}

void hg__net_kick(void *net) { hg__os_poller_ring(((struct hg_net *)net)->bell); }

/* timer.c: timers: a 4-ary heap per proc, ordered by the time at which they are due.
 *
 * A node knows the proc whose heap holds it (home) and its place there, so that it can be stopped
 * from anywhere.
 *   T1  home, index, and the heap change under the heap's TIMERS lock only
 *   T2  heap[i].when >= heap[(i - 1) / 4].when, and heap[i].node->index == i
 *   T3  `next` is heap[0].when, or INT64_MAX; written under the lock, read by anyone as a hint
 *   T4  the deadline of a park claims it under the lock, before home becomes NULL. So once
 *       hg__timer_stop has returned, a timer that fired has won or lost the very park it was armed
 *       for, and cannot meet a later one
 * An armed timer is no root: its memory must be reachable otherwise. Deadlines lie in control
 * blocks.
 *
 * Who fires: the proc itself between two tasks, its own thread when it sleeps, and other procs that
 * look for work. A timer armed on a proc that sleeps wakes it if it is due first there.
 */
#include "runtime/sched/internal.h"

#define FIRE_AT_ONCE 64 /* so that a proc answers the collector between batches */

static void place(struct hg_timers *h, uint32_t i, struct hg_timer_entry e)
{
    h->heap[i] = e;
    e.node->index = i;
}

static void sift_up(struct hg_timers *h, uint32_t i, struct hg_timer_entry e)
{
    while (i > 0 && h->heap[(i - 1) / 4].when > e.when) {
        place(h, i, h->heap[(i - 1) / 4]);
        i = (i - 1) / 4;
    }
    place(h, i, e);
}

static void sift_down(struct hg_timers *h, uint32_t i, struct hg_timer_entry e)
{
    for (;;) {
        uint32_t child = 4 * i + 1, end = child + 4 < h->n ? child + 4 : h->n;
        if (child >= h->n)
            break;
        for (uint32_t c = child + 1; c < end; c++) {
            if (h->heap[c].when < h->heap[child].when)
                child = c;
        }
        if (h->heap[child].when >= e.when)
            break;
        place(h, i, h->heap[child]);
        i = child;
    }
    place(h, i, e);
}

static void set_next(struct hg_timers *h)
{
    hg_store_rlx(&h->next, h->n > 0 ? h->heap[0].when : INT64_MAX);
}

static void remove_at(struct hg_timers *h, uint32_t i)
{
    struct hg_timer_entry last = h->heap[--h->n];
    if (i == h->n)
        return;
    if (i > 0 && h->heap[(i - 1) / 4].when > last.when)
        sift_up(h, i, last);
    else
        sift_down(h, i, last);
}

static void grow(struct hg_timers *h, struct hg_meta *meta)
{
    uint32_t room = h->room == 0 ? 64 : 2 * h->room;
    struct hg_timer_entry *heap = hg__meta_alloc(meta, room * sizeof *heap);
    HG_CHECK(heap != NULL, "out of memory for %u timers", room);
    for (uint32_t i = 0; i < h->n; i++)
        heap[i] = h->heap[i];
    hg__meta_free(meta, h->heap, h->room * sizeof *heap);
    h->heap = heap;
    h->room = room;
}

void hg__timer_arm(struct hg_proc *p, struct hg_timer_node *t, int64_t when)
{
    struct hg_timers *h = &p->timers;
    HG_ASSERT(hg_load_rlx(&t->home) == NULL);
    hg__lock(&h->lock);
    if (h->n == h->room)
        grow(h, p->sched->world->meta);
    hg_store_rlx(&t->home, p);
    sift_up(h, h->n++, (struct hg_timer_entry){when, t});
    bool first = t->index == 0;
    if (first)
        set_next(h);
    hg__unlock(&h->lock);
    /* From here on t may have fired, and its memory be in other use. */
    if (first && hg__self() != &p->mut)
        hg__proc_kick(p);
}

bool hg__timer_stop(struct hg_timer_node *t)
{
    struct hg_proc *home;
    while ((home = hg_load_acq(&t->home)) != NULL) {
        struct hg_timers *h = &home->timers;
        hg__lock(&h->lock);
        if (hg_load_rlx(&t->home) == home) {
            remove_at(h, t->index);
            set_next(h);
            hg_store_rlx(&t->home, NULL);
            hg__unlock(&h->lock);
            return true;
        }
        hg__unlock(&h->lock);
    }
    return false;
}

/* t, a park's deadline, was taken out of the heap. Won: its task goes to the end of the chain. */
static void claim_park(struct hg_timer_node *t, struct hg_tcb ***tail)
{
    struct hg_tcb *task = hg_container_of(t, struct hg_tcb, timer);
    if (hg__park_claim(task, hg_load_rlx(&task->wait) >> 3, HG_WAKE_TIMEOUT)) {
        **tail = task;
        *tail = &task->next;
    }
}

int64_t hg__timers_run(struct hg_proc *p, int64_t now)
{
    struct hg_timers *h = &p->timers;
    struct hg_tcb *woken = NULL, **tail = &woken;
    hg__lock(&h->lock);
    for (int left = FIRE_AT_ONCE; left > 0 && h->n > 0 && h->heap[0].when <= now; left--) {
        struct hg_timer_node *t = h->heap[0].node;
        void (*fire)(struct hg_timer_node *, int64_t) = t->fire;
        remove_at(h, 0);
        if (fire == NULL)
            claim_park(t, &tail);
        hg_store_rel(&t->home, NULL); /* T4: after the claim. Now it may be armed anew */
        if (fire == NULL)
            continue;
        set_next(h);
        hg__unlock(&h->lock);
        fire(t, now);
        hg__lock(&h->lock);
    }
    set_next(h);
    int64_t next = hg_load_rlx(&h->next);
    hg__unlock(&h->lock);
    *tail = NULL;
    while (woken != NULL) {
        struct hg_tcb *t = woken;
        woken = t->next;
        hg__ready(t, false);
    }
    return next;
}

/* timerheap.c: the structure that holds a proc's timers: a 4-ary heap in segments.
 *
 * Entry i (a time, and the node) has the children 4i + 1 to 4i + 4. It lies in slot i + 3 of one
 * row of slots, so that four children fill one cache line. The row is cut into segments: the first
 * has 2^k slots, each further one as many as all before it. So the heap grows by a segment and
 * copies nothing: that matters with millions of timers, as it grows under a lock, and on behalf of
 * a task that arms one timer. Which segment a slot is in is told by its highest bit.
 *
 *   H1  at(i).when >= at((i - 1) / 4).when, and at(i).node->index == i
 *   H2  room = slots of all segments - 3; n <= room
 *   H3  while a walk for dead timers is under way (weak_at != 0), it goes from the end to the
 *       front: entries from weak_at on have been looked at. A dead one that comes from before
 *       weak_at to a place behind it is noted (pass_walk). Only the parents that make way for an
 *       entry that rises can do that: what is put at the end was armed by somebody alive, and what
 *       sinks comes from the end
 *
 * All under the heap's lock. Rejected: a growing array, which copies 80 MB when the 5,000,000th
 * timer is armed, or a reservation for the largest heap per proc, which does not fit under a limit
 * of address space; nodes that do not know their place and are dropped when they come to the front,
 * as Go does it: a server's deadlines are nearly all stopped or moved long before they are due,
 * and memory would follow the rate of that.
 */
#include "runtime/sched/internal.h"

static inline void place(struct hg_timers *h, uint32_t i, struct hg_timer_entry e)
{
    *hg__timer_at(h, i) = e;
    e.node->index = i;
}

/* e goes to a place where the walk may miss it: H3. */
static inline void pass_walk(struct hg_timers *h, struct hg_timer_entry e, uint32_t from,
                             uint32_t to)
{
    if (hg_unlikely(from < h->weak_at && to >= h->weak_at) &&
        hg__is_unmarked(h->weak_world, (uintptr_t)e.node))
        h->weak_again = true;
}

static void sift_up(struct hg_timers *h, uint32_t i, struct hg_timer_entry e)
{
    while (i > 0) {
        uint32_t up = (i - 1) / 4;
        struct hg_timer_entry parent = *hg__timer_at(h, up);
        if (parent.when <= e.when)
            break;
        pass_walk(h, parent, up, i);
        place(h, i, parent);
        i = up;
    }
    place(h, i, e);
}

static void sift_down(struct hg_timers *h, uint32_t i, struct hg_timer_entry e)
{
    for (uint32_t first; (first = 4 * i + 1) < h->n;) {
        const struct hg_timer_entry *child = hg__timer_at(h, first); /* and those after it */
        uint32_t left = h->n - first, least = 0;
        for (uint32_t c = 1; c < 4 && c < left; c++) {
            if (child[c].when < child[least].when)
                least = c;
        }
        if (child[least].when >= e.when)
            break;
        place(h, i, child[least]);
        i = first + least;
    }
    place(h, i, e);
}

static void sift(struct hg_timers *h, uint32_t i, struct hg_timer_entry e)
{
    if (i > 0 && hg__timer_at(h, (i - 1) / 4)->when > e.when)
        sift_up(h, i, e);
    else
        sift_down(h, i, e);
}

void hg__timerheap_put(struct hg_timers *h, struct hg_timer_entry e)
{
    HG_ASSERT(h->n < h->room);
    sift_up(h, h->n++, e);
}

void hg__timerheap_remove(struct hg_timers *h, uint32_t i)
{
    HG_ASSERT(i < h->n);
    struct hg_timer_entry last = *hg__timer_at(h, --h->n);
    if (i != h->n)
        sift(h, i, last);
}

void hg__timerheap_move(struct hg_timers *h, uint32_t i, int64_t when)
{
    struct hg_timer_entry e = *hg__timer_at(h, i);
    e.when = when;
    sift(h, i, e);
}

static void set_room(struct hg_timers *h)
{
    h->room =
        h->segments == 0 ? 0 : (1u << (HG_TIMER_FIRST_SHIFT + h->segments - 1)) - HG_TIMER_LEAD;
}

void hg__timerheap_add_segment(struct hg_timers *h, struct hg_timer_entry *segment)
{
    HG_CHECK(h->segments < HG_TIMER_SEGMENTS, "%u timers on one proc", h->n);
    h->segment[h->segments++] = segment;
    set_room(h);
}

struct hg_timer_entry *hg__timerheap_drop_segment(struct hg_timers *h)
{
    struct hg_timer_entry *segment = h->segment[--h->segments];
    h->segment[h->segments] = NULL;
    set_room(h);
    HG_ASSERT(h->n <= h->room);
    return segment;
}

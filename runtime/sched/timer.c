/* timer.c: timers: armed, stopped, fired, forgotten. The heaps that hold them are timerheap.c's.
 *
 * A node knows the proc whose heap holds it (home) and its place there, so that it can be stopped
 * from anywhere.
 *   T1  a node is in the heap of its home and in no other. home goes from NULL to p, and back,
 *       under p's TIMERS lock only; two procs that arm the same node at once settle it by
 *       compare-and-swap
 *   T2  the heap's order: H1 in timerheap.c
 *   T3  `next` is when the first is due, or INT64_MAX; written under the lock, read by anyone as
 *       a hint
 *   T4  the deadline of a park claims it under the lock, before home becomes NULL. So once
 *       hg__timer_stop has returned, a timer that fired has won or lost the very park it was armed
 *       for, and cannot meet a later one
 *   T5  while the callback of a program's timer runs, its node is in no heap: so callbacks of one
 *       timer never overlap. What the callback itself arms is put into the heap after it
 *       (fire_again)
 *   T6  when sweeping begins no heap holds a node that lies in a dead object
 * An armed timer is no root: its memory must be reachable otherwise. Deadlines lie in control
 * blocks.
 *
 * Who fires: the proc itself between two tasks, its own thread when it sleeps, and other procs that
 * look for work. A timer armed on a proc that sleeps wakes it if it is due first there.
 *
 * Callbacks of programs (T5). Who takes such a node out of a heap to fire it notes itself in the
 * node (fired_by) and the node in its proc (firing) before home becomes NULL with release. So who
 * finds home NULL (acquire) can tell whether the callback runs at this moment: when it does not any
 * more, `firing` says something else. After the callback the node's memory is not touched, unless
 * the callback has armed it again: it may free the timer, or let those go on who do.
 *
 * Timers in the collected heap. The heaps' reference to a node is weak.
 *   - `settled`: every node in the heap lies in a living object. So it is from the end of one
 *     cycle's marking to the next cycle's beginning.
 *   - In ROOTS and MARK firing is a weak read: it shades the object, which lives on for this cycle
 *     at least. (The next FLUSH round asks the mutator that did it.)
 *   - From WEAK_PENDING until the walk has come by, which objects are dead is decided, but cannot
 *     be read from the marks: an ambiguous word may have marked a dead one after the last FLUSH,
 *     which is taken back at OFF, and nobody may come to hold it. So what is due is put off, for as
 *     long as two handshakes and the walk take
 *   - After OFF the marks are final, and nothing is swept before RESET. The driver walks the heaps
 *     and takes out what lies in unmarked objects (T6), some at a time, so that nobody waits long
 *     for the lock. Nobody can reach such a timer, so it is neither stopped nor armed meanwhile;
 *     others may move it in the heap, which H3 is about. The walk ends: it is repeated only when a
 *     timer that was armed meanwhile has moved a dead one, and begins with fewer of them
 * A callback runs without a safepoint, so that what it holds needs no root. Its argument is shaded
 * (sync/timer.c): it may come from a stack that is not scanned yet.
 *
 * Rejected: to look for timers when an object is swept (a list per span, and sweeping, which any
 * thread does at any time, would take TIMERS); to keep timers of objects in lists of their own (16
 * more bytes in each); to go back to MARK for a timer that is due in WEAK_PENDING: a program with
 * timers that are due all the time would never see the end of a cycle. Known: a timer in a dropped
 * object that arms itself again and again, more often than a marking lasts, fires in each cycle,
 * and so is never collected.
 */
#include "runtime/sched/internal.h"

#include <errno.h>

#define FIRE_AT_ONCE 64  /* so that a proc answers the collector between batches */
#define WALK_AT_ONCE 256 /* entries, while the lock is held */
#define PUT_OFF_NS   INT64_C(50000)

static void set_next(struct hg_timers *h)
{
    hg_store_rlx(&h->next, h->n > 0 ? hg__timer_at(h, 0)->when : INT64_MAX);
}

/* Whether the word means memory of the collected heap. */
static inline bool in_heap(const struct hg_proc *p, const struct hg_timer_node *t)
{
    const struct hg_heap *h = p->sched->world->heap;
    return (uintptr_t)t - h->base < h->size;
}
static inline bool is_collectable(const struct hg_proc *p, const struct hg_timer_node *t)
{
    return t->callback && in_heap(p, t);
}

static struct hg_timer_callback *callback_of(struct hg_timer_node *t)
{
    return hg_container_of(t, struct hg_timer_callback, node);
}

/* For a callback p is the current proc. */
static void insert_locked(struct hg_proc *p, struct hg_timer_node *t, int64_t when)
{
    struct hg_timers *h = &p->timers;
    HG_ASSERT_HELD(&h->lock);
    hg__timerheap_put(h, (struct hg_timer_entry){when, t});
    if (t->callback) {
        struct hg_tcb *self = p->current;
        struct hg_timer_callback *c = callback_of(t);
        h->collectable += in_heap(p, t);
        if (self != NULL && (uintptr_t)t - self->stack.lo < self->stack.hi - self->stack.lo)
            c->owner = self;
        if (c->owner != NULL)
            hg_add_rlx(&c->owner->stack_timers, 1u);
    }
    if (t->index == 0)
        set_next(h);
}

/* Leaves home, and `next`, to the caller. */
static void remove_locked(struct hg_proc *p, struct hg_timer_node *t)
{
    struct hg_timers *h = &p->timers;
    HG_ASSERT_HELD(&h->lock);
    hg__timerheap_remove(h, t->index);
    if (t->callback) {
        struct hg_timer_callback *c = callback_of(t);
        h->collectable -= in_heap(p, t);
        if (c->owner != NULL)
            hg_sub_rlx(&c->owner->stack_timers, 1u);
    }
}

/* ---- life ---- */

void hg__timers_init(struct hg_timers *h)
{
    hg__lock_init(&h->lock, HG_RANK_TIMERS);
    hg_store_rlx(&h->next, INT64_MAX);
    h->settled = true;
}

void hg__timers_fini(struct hg_timers *h, struct hg_meta *meta)
{
    for (uint32_t k = 0; k < h->segments; k++)
        hg__meta_free(meta, h->segment[k], hg__timer_segment_bytes(k));
    h->segments = h->n = h->room = 0;
}

bool hg__timers_grow(struct hg_proc *p)
{
    struct hg_timers *h = &p->timers;
    struct hg_meta *meta = p->sched->world->meta;
    hg__lock(&h->lock);
    uint32_t k = h->segments;
    bool full = h->n == h->room;
    hg__unlock(&h->lock);
    if (!full)
        return true;
    struct hg_timer_entry *segment = hg__meta_alloc(meta, hg__timer_segment_bytes(k));
    if (segment == NULL)
        return false;
    hg__lock(&h->lock);
    if (h->segments == k) {
        hg__timerheap_add_segment(h, segment);
        segment = NULL;
    }
    hg__unlock(&h->lock);
    hg__meta_free(meta, segment, hg__timer_segment_bytes(k)); /* another was faster */
    return true;
}

/* Gives back what the heap does not need, but for as much as it holds now. */
static void trim(struct hg_proc *p)
{
    struct hg_timers *h = &p->timers;
    for (;;) {
        struct hg_timer_entry *segment = NULL;
        hg__lock(&h->lock);
        uint32_t k = h->segments;
        if (k > 1 && h->n < h->room / 4)
            segment = hg__timerheap_drop_segment(h);
        hg__unlock(&h->lock);
        if (segment == NULL)
            return;
        hg__meta_free(p->sched->world->meta, segment, hg__timer_segment_bytes(k - 1));
    }
}

uint64_t hg__timers_armed(struct hg_sched *s)
{
    uint64_t armed = 0;
    for (int i = 0; i < s->nprocs; i++) {
        struct hg_timers *h = &s->procs[i]->timers;
        hg__lock(&h->lock);
        armed += h->n;
        hg__unlock(&h->lock);
    }
    return armed;
}

/* ---- arming, stopping ---- */

void hg__timer_arm(struct hg_proc *p, struct hg_timer_node *t, int64_t when)
{
    struct hg_timers *h = &p->timers;
    HG_ASSERT(hg_load_rlx(&t->home) == NULL);
    hg__lock(&h->lock);
    while (hg_unlikely(h->n == h->room)) {
        hg__unlock(&h->lock);
        HG_CHECK(hg__timers_grow(p), "out of memory for %u timers", h->n + 1);
        hg__lock(&h->lock);
    }
    hg_store_rlx(&t->home, p);
    insert_locked(p, t, when);
    bool first = t->index == 0;
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
            bool first = t->index == 0;
            remove_locked(home, t);
            if (first)
                set_next(h);
            hg_store_rel(&t->home, NULL);
            hg__unlock(&h->lock);
            return true;
        }
        hg__unlock(&h->lock);
    }
    return false;
}

int64_t hg__timer_when(const struct hg_timer_node *t)
{
    struct hg_proc *home;
    while ((home = hg_load_acq(&t->home)) != NULL) {
        struct hg_timers *h = &home->timers;
        hg__lock(&h->lock);
        bool here = hg_load_rlx(&t->home) == home;
        int64_t when = here ? hg__timer_at(h, t->index)->when : 0;
        hg__unlock(&h->lock);
        if (here)
            return when;
    }
    return HG_FOREVER;
}

bool hg__timer_is_firing(const struct hg_sched *s, const struct hg_timer_node *t,
                         const struct hg_proc *but)
{
    uint32_t by = hg_load_rlx(&t->fired_by);
    if (by == 0 || by > (uint32_t)s->nprocs) /* the latter: of an earlier runtime */
        return false;
    const struct hg_proc *p = s->procs[by - 1];
    return p != but && hg_load_acq(&p->firing) == t;
}

/* Sets a timer that is in p's heap, if it is there still. */
static bool set_here(struct hg_proc *p, struct hg_timer_node *t, int64_t when)
{
    struct hg_timers *h = &p->timers;
    hg__lock(&h->lock);
    bool here = hg_load_rlx(&t->home) == p;
    if (here) {
        bool first = t->index == 0;
        hg__timerheap_move(h, t->index, when);
        if (first || t->index == 0)
            set_next(h);
    }
    hg__unlock(&h->lock);
    return here;
}

/* Puts a timer that is in no heap into p's. 0; -EBUSY: its callback runs on another proc than
 * `but`; -EAGAIN; -EEXIST: it is in one by now. */
static int set_new(struct hg_proc *p, struct hg_timer_node *t, int64_t when,
                   const struct hg_proc *but)
{
    struct hg_timers *h = &p->timers;
    struct hg_proc *none = NULL;
    int r = 0;
    hg__lock(&h->lock);
    if (h->n == h->room) {
        r = -EAGAIN;
    } else if (!hg_cas_acqrel(&t->home, &none, p)) {
        r = -EEXIST;
    } else if (hg__timer_is_firing(p->sched, t, but)) {
        r = -EBUSY; /* T5 */
        hg_store_rel(&t->home, NULL);
    } else {
        insert_locked(p, t, when);
    }
    hg__unlock(&h->lock);
    return r;
}

int hg__timer_set(struct hg_proc *p, struct hg_timer_node *t, int64_t when, bool *was)
{
    for (;;) {
        struct hg_proc *home = hg_load_acq(&t->home);
        if (home == p) {
            if (set_here(p, t, when)) {
                *was = true;
                return 0;
            }
        } else if (home != NULL) {
            *was |= hg__timer_stop(t);
        } else {
            int r = set_new(p, t, when, NULL);
            if (r != -EEXIST)
                return r;
        }
    }
}

/* ---- firing ---- */

/* t, a park's deadline, was taken out of the heap. Won: its task goes to the end of the chain. */
static void claim_park(struct hg_timer_node *t, struct hg_tcb ***tail)
{
    struct hg_tcb *task = hg_container_of(t, struct hg_tcb, timer);
    if (hg__park_claim(task, hg_load_rlx(&task->wait) >> 3, HG_WAKE_TIMEOUT)) {
        **tail = task;
        *tail = &task->next;
    }
}

/* The heap that t was in is locked. */
static void begin_callback(struct hg_proc *self, struct hg_timer_node *t)
{
    self->fire_again = HG_FOREVER;
    hg_store_rlx(&self->firing, t);
    hg_store_rlx(&t->fired_by, (uint16_t)(self->index + 1));
}

/* Arms it again if the callback wanted that. Others that would arm it see that it is firing, but
 * may have claimed it for the moment that they need to see it. */
static void end_callback(struct hg_proc *self)
{
    struct hg_timer_node *t = hg_load_rlx(&self->firing);
    int r = self->fire_again != HG_FOREVER ? -EEXIST : 0;
    while (r != 0) {
        r = set_new(self, t, self->fire_again, self);
        if (r == -EAGAIN)
            HG_CHECK(hg__timers_grow(self), "out of memory for %u timers", self->timers.n + 1);
    }
    hg_store_rel(&self->firing, NULL);
}

/* Whether the first timer's object, in the collected heap, is alive: then it stays so until this
 * proc's next safepoint. False: not known now. */
static bool first_is_alive(struct hg_proc *p, struct hg_timer_node *t)
{
    struct hg_mutator *m = hg__self();
    if (p->timers.settled)
        return true;
    enum hg_phase phase = hg__phase(m->world);
    if (phase != HG_PHASE_ROOTS && phase != HG_PHASE_MARK)
        return false;
    hg__shade(m, (uintptr_t)t);
    return true;
}

/* A timer's fire, if it is due; the heap is locked, and unlocked meanwhile. *tail: of the tasks to
 * be made ready. */
static void fire_first(struct hg_proc *p, int64_t now, struct hg_tcb ***tail)
{
    struct hg_timers *h = &p->timers;
    struct hg_timer_node *t = hg__timer_at(h, 0)->node;
    void (*fire)(struct hg_timer_node *, int64_t) = t->fire;
    struct hg_proc *self = t->callback ? hg__proc_of(hg__self()) : NULL;
    if (is_collectable(p, t) && !first_is_alive(p, t)) {
        hg__timerheap_move(h, 0, now + PUT_OFF_NS);
        return;
    }
    remove_locked(p, t);
    if (fire == NULL)
        claim_park(t, tail);
    else if (self != NULL)
        begin_callback(self, t);
    hg_store_rel(&t->home, NULL); /* T4, T5: after the claim. Now it may be armed anew */
    if (fire == NULL)
        return;
    set_next(h);
    hg__unlock(&h->lock);
    fire(t, now);
    if (self != NULL)
        end_callback(self);
    hg__lock(&h->lock);
}

int64_t hg__timers_run(struct hg_proc *p, int64_t now)
{
    struct hg_timers *h = &p->timers;
    struct hg_tcb *woken = NULL, **tail = &woken;
    hg__lock(&h->lock);
    for (int left = FIRE_AT_ONCE; left > 0 && h->n > 0 && hg__timer_at(h, 0)->when <= now; left--)
        fire_first(p, now, &tail);
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

/* ---- forgetting ---- */

/* Looks at the entries before weak_at, a few. What takes a dead one's place is looked at, too. */
static void walk_some(struct hg_proc *p)
{
    struct hg_timers *h = &p->timers;
    for (int left = WALK_AT_ONCE; left > 0 && h->weak_at > 0; left--) {
        if (h->weak_at > h->n) {
            h->weak_at = h->n;
            continue;
        }
        struct hg_timer_node *t = hg__timer_at(h, h->weak_at - 1)->node;
        if (in_heap(p, t) && hg__is_unmarked(h->weak_world, (uintptr_t)t)) {
            remove_locked(p, t);
            hg_store_rel(&t->home, NULL);
        } else {
            h->weak_at--;
        }
    }
}

/* T6, for the audit. */
static __attribute__((unused)) bool all_alive(const struct hg_proc *p)
{
    const struct hg_timers *h = &p->timers;
    for (uint32_t i = 0; i < h->n; i++) {
        const struct hg_timer_node *t = hg__timer_at(h, i)->node;
        if (in_heap(p, t) && hg__is_unmarked(h->weak_world, (uintptr_t)t))
            return false;
    }
    return true;
}

static void forget_dead(struct hg_proc *p)
{
    struct hg_timers *h = &p->timers;
    hg__lock(&h->lock);
    h->weak_world = p->sched->world;
    do {
        h->weak_again = false;
        h->weak_at = h->collectable > 0 ? h->n : 0;
        while (h->weak_at > 0) {
            walk_some(p);
            set_next(h);
            hg__unlock(&h->lock);
            hg__lock(&h->lock);
        }
    } while (h->weak_again);
    HG_AUDIT(all_alive(p));
    h->settled = true;
    hg__unlock(&h->lock);
}

void hg__timers_unsettle(struct hg_sched *s)
{
    for (int i = 0; i < s->nprocs; i++) {
        struct hg_timers *h = &s->procs[i]->timers;
        hg__lock(&h->lock);
        h->settled = false;
        hg__unlock(&h->lock);
    }
}

void hg__timers_forget_dead(struct hg_sched *s)
{
    for (int i = 0; i < s->nprocs; i++) {
        forget_dead(s->procs[i]);
        trim(s->procs[i]);
    }
}

/* group.c: groups of tasks: places, members, the first error, the wait for the end.
 *
 * A birth takes a place first, waiting if the group is full, and then puts the new task into the
 * list of members before it is published. A member that ends takes itself out and hands its place
 * to the first who waits for one, or frees it; the last one wakes those who wait for the end.
 * group.h has the invariants, cancel.c how cancellation spreads.
 *
 * Lifetime: a group may go away once its wait has returned. So the last thing that a leaving member
 * does to it is to let its lock go, and by then it has taken it off its owner's list and out of
 * hg_sched.cancelling. It does so under CANCEL, which comes before GROUP: a member that finds
 * itself the last of a group with an owner lets GROUP go and takes both. A canceller meets groups
 * under CANCEL alone.
 *
 * Records of those who wait lie on their stacks. Who wakes one takes it out first; after a time-out
 * or a cancellation the task takes it out itself, before it leaves the call. One that was handed
 * a place after its task was cancelled, but before the canceller got there, has the place.
 */
#include "runtime/sched/group.h"

#define TELL_AT_ONCE 64 /* members that are told under one hold of the locks */

struct waiter {
    struct hg_list link; /* first; GROUP */
    struct hg_tcb *task;
    uint64_t ticket;
};

static inline struct hg_group_state *state_of(hg_group *g)
{
    return (struct hg_group_state *)(void *)g;
}

/* ---- chains of tasks whose parks are won ---- */

struct chain {
    struct hg_tcb *first, **tail;
};

static void chain_add(struct chain *c, struct hg_tcb *t)
{
    *c->tail = t;
    c->tail = &t->next;
}

static void chain_ready(struct chain *c)
{
    *c->tail = NULL;
    for (struct hg_tcb *t = c->first, *next; t != NULL; t = next) {
        next = t->next;
        hg__ready(t, false);
    }
}

/* Takes out the first waiter whose park is won; NULL: none. */
static struct hg_tcb *claim_first(struct hg_list *queue, enum hg_wake why)
{
    struct hg_list *l;
    while ((l = hg_list_pop_front(queue)) != NULL) {
        struct waiter *w = (struct waiter *)(void *)l;
        if (hg__park_claim(w->task, w->ticket, why))
            return w->task;
    }
    return NULL;
}

static void claim_all(struct hg_list *queue, enum hg_wake why, struct chain *c)
{
    for (struct hg_tcb *t; (t = claim_first(queue, why)) != NULL;)
        chain_add(c, t);
}

static void let_go(void *group) { hg__unlock(&((struct hg_group_state *)group)->lock); }

/* Waits in `queue` of g, which is locked on entry and not on return. */
static enum hg_wake wait_in(struct hg_group_state *g, struct hg_list *queue, struct hg_tcb *self,
                            int64_t deadline, const char *where)
{
    struct waiter w = {.task = self, .ticket = hg__park_begin(self)};
    hg_list_push_back(queue, &w.link);
    enum hg_wake why = hg__park(self, w.ticket, deadline, let_go, g, where);
    if (why == HG_WAKE_VALUE)
        return why;
    hg__lock(&g->lock);
    hg_list_remove(&w.link);
    hg__unlock(&g->lock);
    return why;
}

/* ---- places ---- */

/* g is empty: its first place, for a child of self. Takes CANCEL where g gets an owner. GROUP is
 * held on entry and return. -EAGAIN: look again. */
static int open_locked(struct hg_group_state *g, struct hg_tcb *self)
{
    struct hg_sched *s = self->sched;
    if (!self->watched) {
        g->sched = s;
        g->live = 1;
        return 0;
    }
    hg__unlock(&g->lock);
    hg__lock(&s->cancel_lock);
    hg__lock(&g->lock);
    int r = -EAGAIN;
    if (g->live == 0) {
        /* Under CANCEL: a cancellation that comes later finds the group. */
        uint32_t mask = hg_load_rlx(&self->mask);
        r = mask == 0 && hg_load_acq(&self->canceled) != 0 ? -ECANCELED : 0;
        if (r == 0) {
            g->sched = s;
            g->live = 1;
            g->owner = self;
            g->next_owned = self->groups;
            self->groups = g;
        }
    }
    hg__unlock(&s->cancel_lock);
    return r;
}

/* A place, if it can be had at once. GROUP is held on entry and return. -EAGAIN: full. */
static int take_place_locked(struct hg_group_state *g, struct hg_tcb *self)
{
    for (;;) {
        if (hg_load_rlx(&g->canceled) != 0)
            return -ECANCELED;
        if (g->live != 0 && g->sched != self->sched)
            return -EINVAL;
        if (g->live == 0) {
            int r = open_locked(g, self);
            if (r != -EAGAIN)
                return r;
        } else if (g->live == g->limit) {
            return -EAGAIN;
        } else {
            g->live++;
            return 0;
        }
    }
}

int hg__group_enter(struct hg_group_state *g, struct hg_tcb *self)
{
    int64_t deadline = HG_FOREVER;
    int r = hg__wait_enter(self, &deadline);
    if (r != 0)
        return r;
    hg__lock(&g->lock);
    r = take_place_locked(g, self);
    if (r != -EAGAIN) {
        hg__unlock(&g->lock);
        return r;
    }
    return hg__wait_error(wait_in(g, &g->places, self, deadline, "place in a group"));
}

/* ---- cancelling ---- */

void hg__group_cancel_locked(struct hg_sched *s, struct hg_group_state *g)
{
    HG_ASSERT_HELD(&s->cancel_lock);
    hg__lock(&g->lock);
    bool news = hg_load_rlx(&g->canceled) == 0;
    hg_store_rel(&g->canceled, 1u);
    if (news && g->live != 0)
        hg_list_push_back(&s->cancelling, &g->cancelling);
    hg__unlock(&g->lock);
}

/* Cancels some members of g and wins their parks, and those of who waits for a place. Returns how
 * many members: fewer than TELL_AT_ONCE if g is done with. Both locks are held. */
static int tell_batch(struct hg_group_state *g, struct hg_tcb **batch, struct chain *woken)
{
    int n = 0;
    for (; n < TELL_AT_ONCE && !hg_list_empty(&g->members); n++) {
        struct hg_tcb *t = hg_container_of(g->members.next, struct hg_tcb, group_link);
        if (t->told)
            break; /* G3 */
        t->told = true;
        hg_list_remove(&t->group_link);
        hg_list_push_back(&g->members, &t->group_link);
        batch[n] = t;
    }
    for (int i = 0; i < n; i++)
        hg_store_sc(&batch[i]->canceled, 1u);
    hg_fence_sc(); /* C's fence, Note [CANCEL] */
    for (int i = 0; i < n; i++)
        if (hg__cancel_claim(batch[i]))
            chain_add(woken, batch[i]);
    claim_all(&g->places, HG_WAKE_CANCEL, woken); /* G2: no more will come */
    if (n < TELL_AT_ONCE)
        hg_list_remove(&g->cancelling);
    return n;
}

void hg__cancel_unlock(struct hg_sched *s)
{
    struct hg_tcb *batch[TELL_AT_ONCE];
    while (!hg_list_empty(&s->cancelling)) {
        struct hg_group_state *g =
            hg_container_of(s->cancelling.next, struct hg_group_state, cancelling);
        struct chain woken = {.tail = &woken.first};
        hg__lock(&g->lock);
        int n = tell_batch(g, batch, &woken);
        hg__unlock(&g->lock); /* its last member cannot leave it without CANCEL before it is done */
        for (int i = 0; i < n; i++)
            hg__cancel_spread_locked(s, batch[i]);
        hg__unlock(&s->cancel_lock);
        chain_ready(&woken);
        hg__lock(&s->cancel_lock);
    }
    hg__unlock(&s->cancel_lock);
}

static void cancel(struct hg_group_state *g)
{
    hg__lock(&g->lock);
    struct hg_sched *s = g->live != 0 ? g->sched : NULL;
    if (s == NULL)
        hg_store_rel(&g->canceled, 1u);
    bool again = hg_load_rlx(&g->canceled) != 0;
    hg__unlock(&g->lock);
    if (again)
        return;
    hg_add_acqrel(&s->outside_waits, 1u); /* no deadlock while tasks are claimed and not queued */
    hg__lock(&s->cancel_lock);
    hg__group_cancel_locked(s, g);
    hg__cancel_unlock(s);
    hg__outside_end(s, &s->outside_waits);
}

/* ---- members ---- */

void hg__group_add(struct hg_group_state *g, struct hg_tcb *t)
{
    t->group = g;
    t->watched = true;
    hg__lock(&g->lock);
    t->told = hg_load_rlx(&g->canceled) != 0;
    if (t->told)
        hg_store_rlx(&t->canceled, 1u);
    hg_list_push_back(&g->members, &t->group_link);
    hg__unlock(&g->lock);
}

/* The first error counts, and cancels the group. The caller is a member, or waits for them. */
static void fail(struct hg_group_state *g, int error)
{
    hg__lock(&g->lock);
    if (g->error == 0)
        g->error = error;
    hg__unlock(&g->lock);
    cancel(g);
}

void hg__group_result(struct hg_tcb *t, int result)
{
    if (result != 0)
        fail(t->group, result);
}

/* g is empty: nobody's, and in no line. CANCEL and GROUP are held. */
static void disown_locked(struct hg_group_state *g)
{
    struct hg_group_state **at = &g->owner->groups;
    while (*at != g)
        at = &(*at)->next_owned;
    *at = g->next_owned;
    g->owner = NULL;
    g->next_owned = NULL;
}

void hg__group_leave(struct hg_group_state *g, struct hg_tcb *t)
{
    struct chain woken = {.tail = &woken.first};
    struct hg_sched *s = NULL;
    hg__lock(&g->lock);
    /* The last one needs CANCEL, where the group can be reached by more than itself. */
    if (g->live == 1 && (g->owner != NULL || !hg_list_empty(&g->cancelling))) {
        s = g->sched;
        hg__unlock(&g->lock);
        hg__lock(&s->cancel_lock);
        hg__lock(&g->lock);
    }
    if (t != NULL)
        hg_list_remove(&t->group_link);
    struct hg_tcb *heir = claim_first(&g->places, HG_WAKE_VALUE);
    if (heir != NULL) {
        chain_add(&woken, heir); /* the place is its own now */
    } else if (--g->live == 0) {
        if (g->owner != NULL)
            disown_locked(g);
        hg_list_remove(&g->cancelling);
        claim_all(&g->waiters, HG_WAKE_VALUE, &woken);
    }
    hg__unlock(&g->lock);
    if (s != NULL)
        hg__unlock(&s->cancel_lock);
    chain_ready(&woken);
}

void hg__group_disown(struct hg_tcb *t)
{
    struct hg_sched *s = t->sched;
    hg__lock(&s->cancel_lock);
    for (struct hg_group_state *g; (g = t->groups) != NULL;) {
        hg__lock(&g->lock);
        disown_locked(g);
        hg__unlock(&g->lock);
    }
    hg__unlock(&s->cancel_lock);
}

/* ---- interface ---- */

HG_API void hg_group_init(hg_group *group, int limit)
{
    struct hg_group_state *g = state_of(group);
    *g = (struct hg_group_state){.limit = limit > 0 ? (uint32_t)limit : 0};
    hg__lock_init(&g->lock, HG_RANK_GROUP);
    hg_list_init(&g->members);
    hg_list_init(&g->places);
    hg_list_init(&g->waiters);
    hg_list_init(&g->cancelling);
}

HG_API int hg_group_go(hg_group *group, int (*fn)(void *), const void *args, size_t bytes)
{
    struct hg_birth b = {.fn = fn, .arg = (void *)(uintptr_t)args, .copy_bytes = bytes};
    b.group = state_of(group);
    return hg__task_spawn(&b);
}

HG_API void hg_group_cancel(hg_group *group) { cancel(state_of(group)); }

HG_API int hg_group_wait(hg_group *group, int64_t deadline)
{
    struct hg_group_state *g = state_of(group);
    hg_safepoint();
    struct hg_tcb *self = hg__task_self();
    uint32_t mask = self != NULL ? hg_load_rlx(&self->mask) : 0;
    int r = 0;
    hg__lock(&g->lock);
    while (g->live != 0 && r == 0) {
        int64_t until = deadline;
        r = deadline == HG_NOW ? -EAGAIN : self == NULL ? -EPERM : hg__wait_enter(self, &until);
        if (r == 0)
            r = hg__wait_error(wait_in(g, &g->waiters, self, until, "group"));
        else
            hg__unlock(&g->lock);
        /* The ambient reasons come once: then the call is masked. */
        bool ambient = r == -ECANCELED || (r == -ETIMEDOUT && until < deadline);
        if (ambient) {
            fail(g, r);
            (void)hg__mask(self);
            r = 0;
        }
        hg__lock(&g->lock);
    }
    if (r == 0)
        r = g->error;
    hg__unlock(&g->lock);
    if (self != NULL)
        hg__unmask(self, mask);
    return r;
}

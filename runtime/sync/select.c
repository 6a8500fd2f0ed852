/* select.c: waiting for the first of several channel operations.
 *
 *  1. Lock all channels concerned, in the order of their addresses, each once: two selects
 *     cannot lock each other out, and what is ready is seen as of one moment.
 *  2. Choose uniformly among the cases that are ready, and perform the chosen one (chan.h: one
 *     try). A case may look ready only because of a record whose park was won elsewhere; the try
 *     drops such records, and the choice is made again. So it ends.
 *  3. None: put a record for each case into its channel's queue, all for one park, and park; the
 *     commit lets all the locks go. Whoever wins the park leaves its record in the control
 *     block: so the case is known.
 *  4. Take the records out of the other channels' queues, under their locks.
 *
 * The commit of 3 works on this task's stack after it has let the first lock go, and by then the
 * task may have been won, made ready, and run on another proc. That is sound because step 4
 * takes every lock once before the call returns: the task cannot pass the last lock until the
 * commit has let it go, and after that the commit touches nothing of it.
 *
 * The choice is by reservoir: the k-th ready case replaces the choice with probability 1/k. It
 * needs no permutation.
 *
 * A select of more than INLINE_CASES keeps its records and its order in a scratch object: a
 * task's stack is small. The scratch is a leaf: all that its records refer to (channels, values)
 * is in the caller's cases too, which the caller's frame keeps reachable, and links lead to
 * records of other tasks, which keep them reachable themselves.
 */
#include "runtime/sync/chan.h"

#include <errno.h>

#define CASES_MAX    1024
#define INLINE_CASES 4 /* keeps the call below 500 bytes of stack */

struct select {
    struct hg_wait wait;
    hg_case *cases;
    struct hg_waiter *records; /* one per case; of cases without a channel not used */
    uint16_t *order;           /* the cases that have a channel, by its address */
    int n;                     /* cases */
    int live;                  /* entries of order */
};

struct scratch_inline {
    struct hg_waiter records[INLINE_CASES];
    uint16_t order[INLINE_CASES];
};

static inline hg_chan *chan_at(const struct select *s, int i) { return s->cases[s->order[i]].chan; }

/* ---- locks ---- */

static inline bool comes_before(const struct select *s, uint16_t a, uint16_t b)
{
    return (uintptr_t)s->cases[a].chan < (uintptr_t)s->cases[b].chan;
}

/* Lets order[at] sink in the heap order[0..n) whose parents come last. */
static void sink(struct select *s, int at, int n)
{
    uint16_t moving = s->order[at];
    for (int child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && comes_before(s, s->order[child], s->order[child + 1]))
            child++;
        if (!comes_before(s, moving, s->order[child]))
            break;
        s->order[at] = s->order[child];
    }
    s->order[at] = moving;
}

/* Heap sort: in place, no recursion, and no bad case. */
static void sort_order(struct select *s)
{
    s->live = 0;
    for (int i = 0; i < s->n; i++)
        if (s->cases[i].chan != NULL)
            s->order[s->live++] = (uint16_t)i;
    for (int i = s->live / 2 - 1; i >= 0; i--)
        sink(s, i, s->live);
    for (int end = s->live - 1; end > 0; end--) {
        uint16_t last = s->order[0];
        s->order[0] = s->order[end];
        s->order[end] = last;
        sink(s, 0, end);
    }
}

static void lock_all(const struct select *s)
{
    hg_chan *locked = NULL;
    for (int i = 0; i < s->live; i++) {
        hg_chan *c = chan_at(s, i);
        if (c != locked)
            hg__lock(&c->lock);
        locked = c;
    }
}

/* Requires a channel. Also a park's commit: reads nothing of *s after the last lock is let go. */
static void unlock_all(void *arg)
{
    const struct select *s = arg;
    int live = s->live;
    hg_chan *c = chan_at(s, 0);
    for (int i = 1; i < live; i++) {
        hg_chan *next = chan_at(s, i);
        if (next != c)
            hg__unlock(&c->lock);
        c = next;
    }
    hg__unlock(&c->lock);
}

/* ---- choice ---- */

/* Whether a try may succeed. */
static inline bool looks_ready(const hg_case *k)
{
    const hg_chan *c = k->chan;
    if (c == NULL)
        return false;
    if (c->closed)
        return true;
    size_t count = hg_load_rlx(&c->count);
    if (k->send != NULL)
        return count < c->cap || !hg_list_empty(&c->receivers);
    return count != 0 || !hg_list_empty(&c->senders);
}

static int choose(struct hg_mutator *m, const struct select *s)
{
    struct hg_rand *rand = &hg__proc_of(m)->rand;
    uint32_t ready = 0;
    int chosen = -1;
    for (int i = 0; i < s->n; i++)
        if (looks_ready(&s->cases[i]) && (++ready == 1 || hg_rand_below(rand, ready) == 0))
            chosen = i;
    return chosen;
}

/* Performs one case that is ready, all channels locked. Its index, or -EAGAIN. */
static int try_cases(struct hg_mutator *m, const struct select *s, struct hg_tcb **wake)
{
    int i;
    *wake = NULL;
    while ((i = choose(m, s)) >= 0) {
        hg_case *k = &s->cases[i];
        int r = k->send != NULL ? hg__chan_send_locked(m, k->chan, k->send, wake)
                                : hg__chan_recv_locked(m, k->chan, k->recv, wake);
        if (r != -EAGAIN) {
            k->result = r;
            return i;
        }
    }
    return -EAGAIN;
}

/* ---- waiting ---- */

static void enqueue(struct select *s)
{
    for (int i = 0; i < s->n; i++) {
        hg_case *k = &s->cases[i];
        struct hg_waiter *r = &s->records[i];
        if (k->chan == NULL)
            continue;
        r->wait = &s->wait;
        if (k->send != NULL)
            r->elem.from = k->send;
        else
            r->elem.to = k->recv;
        hg_list_push_back(k->send != NULL ? &k->chan->senders : &k->chan->receivers, &r->link);
    }
}

/* Takes all records out, one lock at a time, every lock once. A record that was taken out before
 * is linked to itself. */
static void dequeue(struct select *s)
{
    hg_chan *locked = NULL;
    for (int i = 0; i < s->live; i++) {
        hg_chan *c = chan_at(s, i);
        if (c != locked) {
            if (locked != NULL)
                hg__unlock(&locked->lock);
            hg__lock(&c->lock);
            locked = c;
        }
        hg_list_remove(&s->records[s->order[i]].link);
    }
    hg__unlock(&locked->lock);
}

/* All channels locked on entry, none on return. The index of the case that was performed, or
 * -ETIMEDOUT, -ECANCELED. */
static int wait_for_one(struct hg_mutator *m, struct select *s, int64_t deadline)
{
    struct hg_tcb *t = hg__proc_of(m)->current;
    int error = hg__wait_enter(t, &deadline);
    if (error != 0) {
        unlock_all(s);
        return error;
    }
    s->wait.task = t;
    s->wait.ticket = hg__park_begin(t);
    enqueue(s);
    enum hg_wake why = hg__park(t, s->wait.ticket, deadline, unlock_all, s, "select");
    struct hg_waiter *winner = t->wait_winner;
    dequeue(s);
    if (why != HG_WAKE_VALUE && why != HG_WAKE_CLOSED)
        return hg__wait_error(why);
    int i = (int)(winner - s->records);
    HG_CHECK(i >= 0 && i < s->n, "select: woken for a case that it does not have");
    hg_case *k = &s->cases[i];
    k->result = why == HG_WAKE_VALUE ? 0 : -EPIPE;
    if (why == HG_WAKE_CLOSED && k->send == NULL)
        hg__chan_zero(hg__self(), k->chan, k->recv);
    return i;
}

static int run(struct hg_mutator *m, struct select *s, int64_t deadline)
{
    struct hg_tcb *wake;
    sort_order(s);
    if (s->live == 0) /* no lock would hold this task back until the commit is done with it */
        return hg__wait_never(m, deadline, "select of no channel");
    lock_all(s);
    int i = try_cases(m, s, &wake);
    if (i == -EAGAIN && deadline != HG_NOW)
        return wait_for_one(m, s, deadline);
    unlock_all(s);
    if (wake != NULL && s->cases[i].send != NULL)
        hg__hand_over(wake); /* a receiver runs next: see chan.c */
    else if (wake != NULL)
        hg__ready(wake, false);
    return i;
}

/* ---- interface ---- */

static __attribute__((noinline)) int select_few(struct hg_mutator *m, struct select *s,
                                                int64_t deadline)
{
    struct scratch_inline scratch;
    s->records = scratch.records;
    s->order = scratch.order;
    return run(m, s, deadline);
}

static __attribute__((noinline)) int select_many(struct hg_mutator *m, struct select *s,
                                                 int64_t deadline)
{
    size_t n = (size_t)s->n, records = deadline == HG_NOW ? 0 : n * sizeof(struct hg_waiter);
    char *scratch = hg__alloc(m, records + n * sizeof(uint16_t), HG_LEAF, false);
    s->records = (struct hg_waiter *)(void *)scratch;
    s->order = (uint16_t *)(void *)(scratch + records);
    int i = run(hg__self(), s, deadline);
    hg_keep_alive(scratch);
    return i;
}

HG_API int hg_select(hg_case *cases, int n, int64_t deadline)
{
    struct hg_mutator *m = hg__sync_enter();
    if (m == NULL)
        return -EPERM;
    if (n < 0 || n > CASES_MAX)
        return -EINVAL;
    for (int i = 0; i < n; i++)
        if (cases[i].send != NULL && cases[i].recv != NULL)
            return -EINVAL;
    struct select s = {.cases = cases, .n = n};
    int i = n <= INLINE_CASES ? select_few(m, &s, deadline) : select_many(m, &s, deadline);
    hg_keep_alive(cases);
    return i;
}

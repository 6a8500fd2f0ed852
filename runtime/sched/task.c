/* task.c: tasks from birth to death: spawning, the first frame, the exit, handles and join.
 *
 * Birth. A control block is taken from the proc's pool, filled in, and made ready; no heap
 * allocation, no lock in the common case. Between the shading of the argument and the queue there
 * is no safepoint.
 *   B1  a task is born with its creator's colour: scanned in this cycle if the creator's mutator is
 *       black (all that its stack holds was shaded, or is protected like everything on a black
 *       stack), else unscanned
 *   B2  `wait` takes a new ticket, so that whoever still knows the task that lived here before
 *       cannot wake this one; it is no park, so that nobody wins it
 *   B3  state becomes RUNNABLE last (release): a marker that finds the task in the registry sees a
 *       complete stack
 *
 * Death. On the scheduler stack: the result is published, the state is FREE, the stack goes to the
 * pool. No handshake.
 *
 * A handle (struct hg_task) is a heap object without scanned references. Its waiters are records on
 * the stacks of those who wait; JOIN, the lock in it, guards them. The task's control block holds
 * the handle until the result is in it.
 */
#include "runtime/sched/group.h"

#include <errno.h>
#include <string.h>

#define COPY_MAX 1024u
#define ID_BATCH 1024u

struct join_waiter {
    struct join_waiter *next; /* JOIN */
    struct hg_tcb *task;
    uint64_t ticket;
};

struct hg_task {
    struct hg_lock lock;    /* JOIN: waiters */
    struct hg_sched *sched; /* constant */
    struct hg_tcb *tcb;     /* until it ends; lock */
    _Atomic uint32_t done;  /* writer: the exit, after result (release) */
    int result;
    struct join_waiter *waiters; /* lock */
};

struct hg_tcb *hg__task_self(void)
{
    struct hg_mutator *m = hg__self();
    return m != NULL ? hg__proc_of(m)->current : NULL;
}

/* ---- the first frame, and the last ---- */

static void publish_result(struct hg_task *handle, int result)
{
    hg__lock(&handle->lock);
    handle->tcb = NULL;
    handle->result = result;
    hg_store_rel(&handle->done, 1u);
    struct join_waiter *w = handle->waiters;
    handle->waiters = NULL;
    while (w != NULL) {
        struct join_waiter *next = w->next;
        struct hg_tcb *t = w->task;
        if (hg__park_claim(t, w->ticket, HG_WAKE_VALUE))
            hg__ready(t, false); /* w is gone */
        w = next;
    }
    hg__unlock(&handle->lock);
}

static void *exit_on_scheduler(void *m, void *unused)
{
    struct hg_proc *p = hg__proc_of(m);
    struct hg_tcb *t = p->current;
    (void)unused;
    HG_CHECK(hg_load_rlx(&t->stack_timers) == 0,
             "task %llu%s%s ended with armed timers on its stack: %u", (unsigned long long)t->id,
             t->name[0] != 0 ? " " : "", t->name, hg_load_rlx(&t->stack_timers));
    if (hg_unlikely(t->groups != NULL))
        hg__group_disown(t);
    if (t->handle != NULL)
        publish_result(t->handle, t->result);
    if (t->group != NULL)
        hg__group_leave(t->group, t);
    hg__task_off(p);
    if (hg_unlikely(p->sched->check))
        hg__stack_clear(t, (uintptr_t)t); /* the next task here may be born scanned */
    hg__stack_forget_frames(t);
    hg_store_rel(&t->state, HG_TASK_FREE);
    hg_store_rel(&p->ended, hg_load_rlx(&p->ended) + 1);
    hg__stack_put(p->sched, p, t);
    hg__schedule(p);
}

_Noreturn void hg__task_leave(struct hg_tcb *t)
{
    if (t->group != NULL)
        hg__group_result(t, t->result); /* on its own stack, as it may be long */
    hg__on_scheduler(hg__self(), exit_on_scheduler, NULL);
    __builtin_unreachable();
}

static void enter(void *arg)
{
    struct hg_tcb *t = arg;
    hg__switch_done(hg__self(), &t->stack);
    if (t->body != NULL)
        t->body(t->arg);
    else
        t->result = t->fn(t->arg);
    if (hg_unlikely(t->defers != NULL))
        hg__defers_left(t, (uintptr_t)__builtin_frame_address(0));
    hg__task_leave(t);
}

/* ---- birth ---- */

static inline uint64_t next_id(struct hg_proc *p)
{
    if (hg_unlikely(p->id_next == p->id_end)) {
        p->id_next = hg_add_rlx(&p->sched->next_id, ID_BATCH) + 1;
        p->id_end = p->id_next + ID_BATCH;
    }
    return p->id_next++;
}

/* The word a birth leaves: B1. */
static inline uint32_t birth_scan(const struct hg_mutator *m)
{
    return hg_unlikely(m->black) ? hg_load_rlx(&m->world->cycle) * 4 + HG_SCAN_DONE : 0;
}

/* What a birth does to a control block, but for function, argument, scan word, id and state. top:
 * above the first frame. deadline: the ambient one. */
static inline void prepare(struct hg_tcb *t, uintptr_t top, int64_t deadline)
{
    t->handle = NULL;
    t->name[0] = 0;
    t->eager = t->untimed = 0;
    t->late = HG_HAND_OVER_UNKNOWN;
    t->deadline = deadline;
    hg_store_rlx(&t->canceled, hg_load_rlx(&t->sched->shutdown));
    hg_store_rlx(&t->mask, 0u);
    t->group = t->groups = NULL;
    t->defers = NULL;
    t->result = 0;
    t->watched = false;
    memset(&t->stack.times, 0, sizeof t->stack.times);
    hg_store_rlx(&t->wait, ((hg_load_rlx(&t->wait) >> 3) + 1) << 3 | HG_WAKE_VALUE); /* B2 */
    t->stack.sp = hg__ctx_init(top, enter, t);
}

static inline void publish(struct hg_proc *p, struct hg_tcb *t)
{
    struct hg_sched *s = p->sched;
    t->id = next_id(p);
    hg_store_rlx(&t->stack.scan, birth_scan(&p->mut));
    hg__hand_over_newborn(p, t);
    if (hg_unlikely(s->track_waits))
        hg__track_ready(t, p);
    hg_store_rel(&t->state, HG_TASK_RUNNABLE); /* B3 */
    hg_store_rel(&p->started, hg_load_rlx(&p->started) + 1);
    hg__runq_put(p, t, true);
    if (s->nprocs > 1)
        hg__wake_for_work(s);
}

static void *get_on_scheduler(void *m, void *pool)
{
    struct hg_proc *p = hg__proc_of(m);
    return hg__stack_get(p->sched, p, (uint32_t)(uintptr_t)pool);
}

/* A control block for the calling task; no safepoint. */
static inline struct hg_tcb *take(struct hg_proc *p, uint32_t pool)
{
    struct hg_tcb *t = p->free_tasks;
    if (hg_likely(pool == 0 && t != NULL)) {
        p->free_tasks = t->next;
        p->free_count--;
        return t;
    }
    return hg__on_scheduler(&p->mut, get_on_scheduler, (void *)(uintptr_t)pool);
}

HG_API int hg_go(void (*fn)(void *), void *arg)
{
    struct hg_mutator *m = hg__task_mutator();
    if (hg_unlikely(m == NULL))
        return -EPERM;
    struct hg_proc *p = hg__proc_of(m);
    struct hg_tcb *t = take(p, 0);
    if (hg_unlikely(t == NULL))
        return -EAGAIN;
    prepare(t, (uintptr_t)t, p->current->deadline);
    t->body = fn;
    t->arg = arg;
    hg__shade_words(m, &arg, 1);
    publish(p, t);
    return 0;
}

/* Lays the copied arguments below the control block; returns where. */
static void *copy_args(struct hg_mutator *m, struct hg_tcb *t, const void *args, size_t bytes)
{
    void *copy = (void *)(((uintptr_t)t - bytes) & ~(uintptr_t)15);
    if (bytes != 0)
        memcpy(copy, args, bytes);
    hg__shade_words(m, copy, bytes / sizeof(uintptr_t));
    return copy;
}

HG_API int hg_go_copy(void (*fn)(void *), const void *args, size_t bytes)
{
    struct hg_mutator *m = hg__task_mutator();
    if (m == NULL)
        return -EPERM;
    if (bytes > COPY_MAX)
        return -EINVAL;
    struct hg_proc *p = hg__proc_of(m);
    struct hg_tcb *t = take(p, 0);
    if (t == NULL)
        return -EAGAIN;
    void *copy = copy_args(m, t, args, bytes);
    prepare(t, (uintptr_t)copy, p->current->deadline);
    t->body = fn;
    t->arg = copy;
    publish(p, t);
    return 0;
}

static void set_name(struct hg_tcb *t, const char *name)
{
    size_t n = strnlen(name, sizeof t->name - 1);
    memcpy(t->name, name, n);
    t->name[n] = 0;
}

/* Into a slot of the caller's: plain on its own stack, else like any slot that others reach. */
static void store_handle(const struct hg_tcb *self, hg_task **out, hg_task *handle)
{
    if ((uintptr_t)out >= self->stack.lo && (uintptr_t)out < self->stack.hi)
        *out = handle;
    else
        hg_ref_store(out, handle);
}

/* A handle for b's task, and that task with all it has but a stack's first frame. m is current. */
static struct hg_tcb *furnish(struct hg_mutator *m, const struct hg_birth *b, hg_task *handle)
{
    struct hg_proc *p = hg__proc_of(m);
    struct hg_tcb *t = take(p, b->pool);
    if (t == NULL)
        return NULL;
    void *arg = b->arg;
    if (b->copy_bytes != 0)
        arg = copy_args(m, t, arg, b->copy_bytes);
    else
        hg__shade_words(m, &arg, 1);
    prepare(t, b->copy_bytes != 0 ? (uintptr_t)arg : (uintptr_t)t, p->current->deadline);
    if (b->name != NULL)
        set_name(t, b->name);
    t->body = NULL;
    t->fn = b->fn;
    t->arg = arg;
    if (handle != NULL) {
        hg__shade_words(m, &handle, 1);
        t->handle = handle;
        t->watched = true;
        handle->sched = p->sched;
        handle->tcb = t; /* nobody else knows the handle yet */
        store_handle(p->current, b->handle, handle);
    }
    return t;
}

int hg__task_spawn(const struct hg_birth *b)
{
    struct hg_mutator *m = hg__task_mutator();
    if (m == NULL)
        return -EPERM;
    if (b->copy_bytes > COPY_MAX)
        return -EINVAL;
    if (b->group != NULL) {
        hg_safepoint();
        int r = hg__group_enter(b->group, hg__task_self());
        if (r != 0)
            return r;
        m = hg__self();
    }
    hg_task *handle = NULL;
    if (b->handle != NULL) {
        handle = hg__alloc(m, sizeof *handle, HG_LEAF, false); /* the last safepoint in here */
        hg__lock_init(&handle->lock, HG_RANK_JOIN);
        m = hg__self();
    }
    struct hg_tcb *t = furnish(m, b, handle);
    if (t == NULL) {
        if (b->group != NULL)
            hg__group_leave(b->group, NULL);
        return -EAGAIN;
    }
    if (b->group != NULL)
        hg__group_add(b->group, t);
    publish(hg__proc_of(m), t);
    return 0;
}

HG_API int hg_go_with(const hg_task_attr *attr, int (*fn)(void *), void *arg, hg_task **out)
{
    struct hg_birth b = {.fn = fn, .arg = arg, .handle = out};
    const struct hg_tcb *self = hg__task_self();
    if (self == NULL)
        return -EPERM;
    if (attr != NULL) {
        int pool = hg__stack_class(self->sched, attr->stack_bytes);
        if (attr->size < sizeof *attr || pool < 0)
            return -EINVAL;
        b.pool = (uint32_t)pool;
        b.copy_bytes = attr->copy_bytes;
        b.name = attr->name;
        b.group = (struct hg_group_state *)(void *)attr->group;
    }
    return hg__task_spawn(&b);
}

HG_API void hg_cancel(hg_task *h) { hg__cancel_task(h->sched, &h->lock, &h->tcb); }

/* ---- birth from outside ---- */

static void *post_get_on_scheduler(void *m, void *sched)
{
    (void)m;
    return hg__stack_get(sched, NULL, 0);
}

int hg__task_post(struct hg_sched *s, void (*fn)(void *), void *arg)
{
    struct hg_mutator *m = hg__task_mutator();
    struct hg_tcb *t;
    if (m != NULL)
        t = hg__on_scheduler(m, post_get_on_scheduler, s);
    else
        t = hg__stack_get(s, NULL, 0);
    if (t == NULL)
        return -EAGAIN;
    prepare(t, (uintptr_t)t, HG_FOREVER);
    t->body = fn;
    t->arg = arg;
    t->id = hg_add_rlx(&s->next_id, 1u) + 1;
    hg_store_rlx(&t->stack.scan, 0u); /* unscanned: whoever posts has no colour */
    if (s->track_waits)
        hg__track_ready(t, NULL);
    hg_store_rel(&t->state, HG_TASK_RUNNABLE);
    /* Counted but not in the queue yet: no deadlock. */
    hg_add_acqrel(&s->outside_waits, 1u);
    hg_add_acqrel(&s->posted, 1u);
    hg__global_put(s, t, t, 1);
    hg__wake_for_work(s);
    hg__outside_end(s, &s->outside_waits);
    return 0;
}

uint64_t hg__sched_tasks(const struct hg_sched *s)
{
    uint64_t ended = 0, started = 0;
    /* Deaths first (acquire): a death that is counted has its birth counted below. */
    for (int i = 0; i < s->nprocs; i++)
        ended += hg_load_acq(&s->procs[i]->ended);
    for (int i = 0; i < s->nprocs; i++)
        started += hg_load_acq(&s->procs[i]->started);
    started += hg_load_acq(&s->posted);
    return started - ended;
}

/* ---- join ---- */

static void let_go(void *handle) { hg__unlock(&((hg_task *)handle)->lock); }

static void forget(hg_task *h, struct join_waiter *w)
{
    hg__lock(&h->lock);
    struct join_waiter **at = &h->waiters;
    while (*at != NULL && *at != w)
        at = &(*at)->next;
    if (*at == w)
        *at = w->next;
    hg__unlock(&h->lock);
}

static int wait_done(hg_task *h, struct hg_tcb *self, int64_t deadline)
{
    hg__lock(&h->lock);
    int r = hg_load_rlx(&h->done) ? 0 : hg__wait_enter(self, &deadline);
    if (r != 0 || hg_load_rlx(&h->done)) {
        hg__unlock(&h->lock);
        return r;
    }
    struct join_waiter w = {h->waiters, self, hg__park_begin(self)};
    h->waiters = &w;
    r = hg__wait_error(hg__park(self, w.ticket, deadline, let_go, h, "join"));
    if (r != 0)
        forget(h, &w);
    return r;
}

HG_API int hg_join(hg_task *h, int64_t deadline, int *result)
{
    hg_safepoint();
    struct hg_tcb *self = hg__task_self();
    if (self == NULL)
        return -EPERM;
    if (h == self->handle)
        return -EDEADLK;
    if (!hg_load_acq(&h->done)) {
        if (deadline == HG_NOW)
            return -EAGAIN;
        int r = wait_done(h, self, deadline);
        if (r != 0)
            return r;
    }
    if (result != NULL)
        *result = h->result;
    return 0;
}

/* ---- the calling task ---- */

HG_API uint64_t hg_task_id(void)
{
    struct hg_tcb *t = hg__task_self();
    return t != NULL ? t->id : 0;
}

HG_API int hg_stack_bounds(void **lo, void **hi)
{
    struct hg_tcb *t = hg__task_self();
    if (t == NULL)
        return -EPERM;
    *lo = (void *)t->stack.lo;
    *hi = t;
    return 0;
}

HG_API void hg_task_times_read(hg_task_times *out)
{
    struct hg_tcb *t = hg__task_self();
    if (t != NULL)
        *out = t->stack.times;
    else
        memset(out, 0, sizeof *out);
}

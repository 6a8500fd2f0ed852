/* blocking.c: the bounded pool of threads for calls that block (hedge/blocking.h).
 *
 * A call is a job: queued, then running on a worker, then done; its task parks once for all of it,
 * and the job is in the queue, with the task's ticket, from the moment at which its registers are
 * saved. So a full pool costs a task no more than an empty one, and the queue is the order of
 * places.
 *
 * Structures:
 *   pool     per runtime, made by its first call; with its workers and records in a metadata arena
 *            of its own, since it may outlive the runtime
 *   worker   an OS thread, no mutator: it waits for jobs for idle_ns, then retires
 *   job      on the stack of its task (hg_blocking), or at the head of a record that also holds
 *            the copied arguments (the others)
 *
 * Invariants, under the pool's lock (BLOCKING):
 *   B1  a worker is idle only while the queue is empty: a job is handed to an idle worker under the
 *       same hold of the lock that puts it into the queue
 *   B2  threads counts workers that live or are being made; it is at most the bound, and not 0
 *       while a job is queued: one that cannot be made refuses the queue if it was the only one
 *   B3  a job's memory is touched by others than its task only under the lock, but for fn itself.
 *       A task leaves with a job on its stack QUEUED (and unlinked), DONE or REFUSED; RUNNING it
 *       waits on. With a record it may leave it RUNNING: then task is NULL, and the record is
 *       the worker's, which calls drop and frees it
 *   B4  outside_waits of the scheduler counts the tasks that park here, for the deadlock report:
 *       until the worker that won the park has queued the task, or the task that was woken by
 *       something else runs
 *
 * The end. The runtime waits for no call: it could take for ever. A running job with a record loses
 * its task; one on a stack keeps the runtime's memory in place, as a thread in a blocking region
 * does. The workers that run are detached, and the last of them to come back closes the arena.
 * A worker touches the scheduler only between unlocking with `waking` raised and lowering it again,
 * and the end waits for that.
 *
 * Rejected: one pool for the process: its threads and their queue would tie runtimes together that
 * have nothing to do with each other. A thread per call, as with blocking regions: a thousand
 * slow name servers are then a thousand threads. A semaphore in front of regions: that bounds the
 * threads, too, but who gives up must still wait, as the region is its own stack.
 */
#include "runtime/net/blocking.h"

#include "base/list.h"
#include <errno.h>
#include <string.h>

#define BYTES_MAX ((size_t)64 << 10)

enum job_state {
    JOB_QUEUED,  /* in the queue */
    JOB_RUNNING, /* in `running`; a worker's */
    JOB_DONE,    /* result is there; in no list */
    JOB_REFUSED  /* no thread can be made; in no list */
};

/* All fields: lock, but for what is constant from the start on. */
struct job {
    struct hg_list link; /* queue, or running */
    enum job_state state;
    int result;
    struct hg_tcb *task;      /* who waits; NULL: has given up (B3) */
    uint64_t ticket;          /* of its park */
    struct hg_blocking *pool; /* constant, as is what follows */
    int (*fn)(void *);
    void *arg;
    void (*drop)(void *);
    size_t bytes; /* of the record; 0: on the task's stack */
};

/* What hg__blocking_new makes; args is what the caller sees. */
struct record {
    struct job job;
    _Alignas(16) unsigned char args[];
};

struct worker {
    struct hg_blocking *pool; /* constant */
    pthread_t handle;         /* constant once it runs */
    struct hg_list all;       /* lock */
    struct hg_list idle;      /* lock; linked to itself: not idle */
    struct worker *retired;   /* link of that list; lock */
    struct job *given;        /* by who took it from the idle list; lock */
    _Atomic uint32_t wake;    /* it sleeps on this; set to 1 by who takes it from the idle list */
};

struct hg_blocking {
    struct hg_meta *meta;     /* constant */
    struct hg_sched *sched;   /* constant; B3 and `waking` say who may touch it */
    int bound;                /* constant: the most threads */
    int64_t idle_ns;          /* constant */
    struct hg_lock lock;      /* BLOCKING: all that follows */
    struct hg_list queue;     /* jobs, first come first */
    struct hg_list running;   /* jobs */
    struct hg_list idle;      /* workers, the last to work first */
    struct hg_list all;       /* workers */
    struct worker *retired;   /* not in `all` any more, to be joined */
    int threads;              /* B2 */
    int busy;                 /* workers that are in fn or drop */
    int waking;               /* workers that make a task ready, without the lock */
    bool stopping;            /* no job begins any more */
    bool orphaned;            /* the last worker closes the arena */
    _Atomic uint32_t changed; /* bumped while stopping; hg__blocking_stop sleeps on it */
};

/* ---- opening; memory: on a scheduler stack or a thread's own ---- */

static struct hg_blocking *open_pool(struct hg_sched *s)
{
    struct hg_meta *meta = hg__meta_open();
    struct hg_blocking *b = meta != NULL ? hg__meta_alloc(meta, sizeof *b) : NULL;
    if (b == NULL) {
        if (meta != NULL)
            hg__meta_close(meta);
        return NULL;
    }
    b->meta = meta;
    b->sched = s;
    b->bound = s->blocking_threads;
    b->idle_ns = s->blocking_idle_ns;
    hg__lock_init(&b->lock, HG_RANK_BLOCKING);
    hg_list_init(&b->queue);
    hg_list_init(&b->running);
    hg_list_init(&b->idle);
    hg_list_init(&b->all);
    struct hg_blocking *none = NULL;
    /* Release: whoever sees it sees it whole. */
    if (hg_cas_acqrel(&s->blocking, &none, b))
        return b;
    hg__meta_close(meta); /* another task was faster */
    return none;
}

static void *open_on_scheduler(void *m, void *sched)
{
    (void)m;
    return open_pool(sched);
}

static struct hg_blocking *pool_of(struct hg_sched *s)
{
    struct hg_blocking *b = hg_load_acq(&s->blocking);
    return b != NULL ? b : hg__on_scheduler(hg__self(), open_on_scheduler, s);
}

struct allocation {
    struct hg_blocking *pool;
    size_t bytes;
};
static void *alloc_on_scheduler(void *m, void *b)
{
    const struct allocation *a = b;
    (void)m;
    return hg__meta_alloc(a->pool->meta, a->bytes);
}

static void *free_on_scheduler(void *m, void *b)
{
    struct record *r = b;
    (void)m;
    hg__meta_free(r->job.pool->meta, r, r->job.bytes);
    return NULL;
}

/* ---- workers ---- */

static void took_locked(struct hg_blocking *b, struct job *j)
{
    hg_list_remove(&j->link);
    hg_list_push_back(&b->running, &j->link);
    b->busy++;
    j->state = JOB_RUNNING;
}

static void changed_locked(struct hg_blocking *b)
{
    if (!b->stopping)
        return;
    hg_store_rlx(&b->changed, hg_load_rlx(&b->changed) + 1);
    hg__os_wake(&b->changed, 1);
}

/* A task whose park the caller has won. The lock is let go meanwhile. */
static void wake_task_locked(struct hg_blocking *b, struct hg_tcb *t)
{
    if (b->stopping) /* nobody runs tasks any more, and the scheduler may be gone soon */
        return;
    b->waking++;
    hg__unlock(&b->lock);
    hg__ready(t, false);
    hg__outside_end(b->sched, &b->sched->outside_waits); /* B4: after it is queued */
    hg__lock(&b->lock);
    b->waking--;
    changed_locked(b);
}

static void drop_record(struct job *j)
{
    if (j->drop != NULL)
        j->drop(j->arg);
    hg__meta_free(j->pool->meta, j, j->bytes);
}

/* j has run; the lock is let go meanwhile. */
static void finish_locked(struct hg_blocking *b, struct job *j, int result)
{
    struct hg_tcb *t = j->task;
    hg_list_remove(&j->link);
    if (t == NULL) {
        hg__unlock(&b->lock);
        drop_record(j);
        hg__lock(&b->lock);
        b->busy--;
        return;
    }
    b->busy--;
    j->result = result;
    j->state = JOB_DONE;
    /* If the park was won by something else, the task comes to look, and finds DONE. Once the lock
     * is free j may be gone. */
    if (hg__park_claim(t, j->ticket, HG_WAKE_VALUE))
        wake_task_locked(b, t);
}

/* The queue is empty: sleeps until it is given a job. NULL: it is to end. */
static struct job *idle_locked(struct hg_blocking *b, struct worker *w)
{
    int64_t until = hg_in(b->idle_ns);
    w->given = NULL;
    hg_store_rlx(&w->wake, 0u);
    hg_list_push_front(&b->idle, &w->idle);
    hg__unlock(&b->lock);
    int error = 0;
    while (error == 0 && hg_load_acq(&w->wake) == 0)
        error = hg__os_wait(&w->wake, 0, until);
    hg__lock(&b->lock);
    hg_list_remove(&w->idle); /* done, if somebody has taken it */
    return w->given;
}

static struct job *next_locked(struct hg_blocking *b, struct worker *w)
{
    if (b->stopping)
        return NULL;
    if (hg_list_empty(&b->queue))
        return idle_locked(b, w);
    struct job *j = hg_container_of(b->queue.next, struct job, link);
    took_locked(b, j);
    return j;
}

/* One thread less, and the lock is let go: in the same hold in which the worker has found the queue
 * empty (B2). w: the worker that ends, or NULL. The last one that the runtime has left behind
 * closes the arena. */
static void end_unlock(struct hg_blocking *b, struct worker *w)
{
    bool last = --b->threads == 0 && b->orphaned;
    if (w != NULL) {
        hg_list_remove(&w->all);
        if (!b->orphaned) { /* else it is detached */
            w->retired = b->retired;
            b->retired = w;
        }
    }
    changed_locked(b);
    hg__unlock(&b->lock);
    if (last)
        hg__meta_close(b->meta);
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    struct hg_blocking *b = w->pool;
    hg__lock(&b->lock);
    for (struct job *j; (j = next_locked(b, w)) != NULL;) {
        hg__unlock(&b->lock);
        int result = j->fn(j->arg);
        hg__lock(&b->lock);
        finish_locked(b, j, result);
    }
    end_unlock(b, w);
    return NULL;
}

/* Joins the workers that have retired. */
static void reap(struct hg_blocking *b)
{
    hg__lock(&b->lock);
    struct worker *w = b->retired;
    b->retired = NULL;
    hg__unlock(&b->lock);
    while (w != NULL) {
        struct worker *next = w->retired;
        hg__os_thread_join(w->handle);
        hg__meta_free(b->meta, w, sizeof *w);
        w = next;
    }
}

/* B2: no thread could be made. */
static void refuse_all(struct hg_blocking *b)
{
    hg__lock(&b->lock);
    if (--b->threads == 0) {
        while (!hg_list_empty(&b->queue)) {
            struct job *j = hg_container_of(hg_list_pop_front(&b->queue), struct job, link);
            struct hg_tcb *t = j->task;
            j->state = JOB_REFUSED;
            if (hg__park_claim(t, j->ticket, HG_WAKE_VALUE))
                wake_task_locked(b, t);
        }
    }
    hg__unlock(&b->lock);
}

/* A worker that is counted already. On a scheduler stack. */
static void add_worker(struct hg_blocking *b)
{
    reap(b);
    struct worker *w = hg__meta_alloc(b->meta, sizeof *w);
    if (w == NULL) {
        refuse_all(b);
        return;
    }
    w->pool = b;
    hg_list_init(&w->idle);
    hg__lock(&b->lock);
    hg_list_push_back(&b->all, &w->all);
    hg__unlock(&b->lock);
    /* The default size of stack: what runs there is not ours, and a host's library may count on
     * it. */
    if (hg__os_thread(&w->handle, "hedge-blocking", 0, worker_main, w) == 0)
        return;
    hg__lock(&b->lock);
    hg_list_remove(&w->all);
    hg__unlock(&b->lock);
    hg__meta_free(b->meta, w, sizeof *w);
    refuse_all(b);
}

/* ---- the tasks' side ---- */

/* Commit of the park with which j was put into the queue. */
static void submit(void *arg)
{
    struct job *j = arg;
    struct hg_blocking *b = j->pool;
    struct worker *w = NULL;
    bool more = false;
    if (!hg_list_empty(&b->idle)) { /* B1: then j is alone in the queue */
        w = hg_container_of(hg_list_pop_front(&b->idle), struct worker, idle);
        took_locked(b, j);
        w->given = j;
        hg_store_rel(&w->wake, 1u);
    } else if (b->threads < b->bound) {
        b->threads++;
        more = true;
    }
    hg__unlock(&b->lock); /* from here on j may be gone */
    if (w != NULL)
        hg__os_wake(&w->wake, 1);
    else if (more)
        add_worker(b);
}

static void let_go(void *arg) { hg__unlock(&((struct job *)arg)->pool->lock); }

/* Parks under the lock, which commit lets go. */
static enum hg_wake park_locked(struct job *j, int64_t deadline, void (*commit)(void *))
{
    struct hg_tcb *t = j->task;
    struct hg_sched *s = t->sched;
    j->ticket = hg__park_begin(t);
    hg_add_acqrel(&s->outside_waits, 1u);
    enum hg_wake why = hg__park(t, j->ticket, deadline, commit, j, "blocking call");
    if (why != HG_WAKE_VALUE)
        hg_sub_acqrel(&s->outside_waits, 1u); /* B4 */
    return why;
}

/* Under the lock, after a wake-up by something else than the job's end: what becomes of j. True:
 * its task leaves it, *mine says whether j is still the task's. */
static bool leave_locked(struct job *j, bool *mine)
{
    *mine = true;
    if (j->state == JOB_QUEUED) {
        hg_list_remove(&j->link);
        return true;
    }
    if (j->state != JOB_RUNNING || j->bytes == 0)
        return false;
    j->task = NULL; /* B3 */
    *mine = false;
    return true;
}

/* Waits for j, whose pool, fn, arg, drop and bytes are set. 0: it has run. Otherwise fn was not
 * called; or, with *mine false, j is the worker's now. */
static int run(struct job *j, struct hg_tcb *t, int64_t deadline, bool *mine)
{
    struct hg_blocking *b = j->pool;
    j->task = t;
    j->state = JOB_QUEUED;
    *mine = true;
    hg__lock(&b->lock);
    hg_list_push_back(&b->queue, &j->link);
    enum hg_wake why = park_locked(j, deadline, submit);
    if (why != HG_WAKE_VALUE) {
        hg__lock(&b->lock);
        if (leave_locked(j, mine)) {
            hg__unlock(&b->lock);
            return hg__wait_error(why);
        }
        while (j->state == JOB_RUNNING) { /* on this stack */
            (void)park_locked(j, HG_FOREVER, let_go);
            hg__lock(&b->lock);
        }
        hg__unlock(&b->lock);
    }
    return j->state == JOB_DONE ? 0 : -EAGAIN;
}

int hg_blocking(int (*fn)(void *arg), void *arg)
{
    hg_safepoint();
    struct hg_tcb *t = hg__task_self();
    int64_t deadline = HG_FOREVER;
    if (t == NULL)
        return -EPERM;
    int error = hg__wait_enter(t, &deadline);
    if (error != 0)
        return error;
    struct job j = {.pool = pool_of(t->sched), .fn = fn, .arg = arg};
    bool mine;
    if (j.pool == NULL)
        return -ENOMEM;
    error = run(&j, t, deadline, &mine);
    return error != 0 ? error : j.result;
}

static struct record *record_of(void *args) { return hg_container_of(args, struct record, args); }

int hg__blocking_new(size_t bytes, void **args)
{
    struct hg_tcb *t = hg__task_self();
    if (t == NULL)
        return -EPERM;
    struct hg_blocking *b = pool_of(t->sched);
    if (b == NULL)
        return -ENOMEM;
    bytes += sizeof(struct record);
    struct record *r =
        hg__on_scheduler(hg__self(), alloc_on_scheduler, &(struct allocation){b, bytes});
    if (r == NULL)
        return -ENOMEM;
    r->job.pool = b;
    r->job.bytes = bytes;
    r->job.arg = r->args;
    *args = r->args;
    return 0;
}

void hg__blocking_free(void *args)
{
    hg__on_scheduler(hg__self(), free_on_scheduler, record_of(args));
}

int hg__blocking_wait(void *args, int (*fn)(void *), void (*drop)(void *), int64_t deadline,
                      int *result)
{
    struct job *j = &record_of(args)->job;
    struct hg_tcb *t = hg__task_self();
    bool mine = true;
    if (deadline == HG_NOW)
        return -EAGAIN;
    j->fn = fn;
    j->drop = drop;
    int error = hg__wait_enter(t, &deadline);
    if (error == 0 && deadline <= hg__os_now())
        error = -ETIMEDOUT;
    if (error == 0)
        error = run(j, t, deadline, &mine);
    if (error == 0) {
        *result = j->result;
    } else if (mine && error != -EAGAIN) {
        if (drop != NULL)
            drop(args);
        hg__blocking_free(args);
    }
    return error;
}

int hg_blocking_copy(int (*fn)(void *args), void *args, size_t bytes, void (*drop)(void *args),
                     int64_t deadline, int *result)
{
    void *copy;
    int ignored;
    hg_safepoint();
    if (bytes > BYTES_MAX)
        return -EINVAL;
    int error = hg__blocking_new(bytes, &copy);
    if (error != 0)
        return error;
    if (bytes != 0)
        memcpy(copy, args, bytes);
    error = hg__blocking_wait(copy, fn, drop, deadline, result != NULL ? result : &ignored);
    if (error != 0 && error != -EAGAIN)
        return error;
    if (error == 0 && bytes != 0)
        memcpy(args, copy, bytes);
    hg__blocking_free(copy);
    return error;
}

/* ---- the end ---- */

/* No job begins from here on, no task is told of one's end. *stays: a job that runs uses the
 * memory of the runtime. Returns the records of jobs that are not begun, by their links. */
static void stop_jobs_locked(struct hg_blocking *b, struct hg_list *unbegun, bool *stays)
{
    b->stopping = true;
    hg_list_init(unbegun);
    for (struct hg_list *l; (l = hg_list_pop_front(&b->queue)) != NULL;)
        if (hg_container_of(l, struct job, link)->bytes != 0)
            hg_list_push_back(unbegun, l);
    for (struct hg_list *l = b->running.next; l != &b->running; l = l->next) {
        struct job *j = hg_container_of(l, struct job, link);
        if (j->bytes != 0)
            j->task = NULL;
        else
            *stays = true;
    }
}

/* Until all workers but those with a job have ended and none is about to make a task ready. */
static void end_idle_locked(struct hg_blocking *b)
{
    for (struct hg_list *l; (l = hg_list_pop_front(&b->idle)) != NULL;) {
        struct worker *w = hg_container_of(l, struct worker, idle);
        hg_store_rel(&w->wake, 1u); /* given nothing: it ends */
        hg__os_wake(&w->wake, 1);
    }
    while (b->waking != 0 || b->threads > b->busy) {
        uint32_t seen = hg_load_rlx(&b->changed);
        hg__unlock(&b->lock);
        hg__os_wait(&b->changed, seen, INT64_MAX);
        hg__lock(&b->lock);
    }
}

bool hg__blocking_stop(struct hg_sched *s, bool clean)
{
    struct hg_blocking *b = hg_load_acq(&s->blocking);
    struct hg_list unbegun;
    bool stays = false;
    if (b == NULL)
        return true;
    hg__lock(&b->lock);
    stop_jobs_locked(b, &unbegun, &stays);
    hg__unlock(&b->lock);
    for (struct hg_list *l; (l = hg_list_pop_front(&unbegun)) != NULL;)
        drop_record(hg_container_of(l, struct job, link));
    if (!clean) /* a thread that was given up may still be in here */
        return false;
    hg__lock(&b->lock);
    end_idle_locked(b);
    b->orphaned = true;
    b->threads++; /* this call counts as one, until it is done with the arena */
    for (struct hg_list *l = b->all.next; l != &b->all; l = l->next)
        hg__os_thread_detach(hg_container_of(l, struct worker, all)->handle);
    hg__unlock(&b->lock);
    reap(b);
    hg__lock(&b->lock);
    end_unlock(b, NULL);
    return !stays;
}

/* scale_go.c: Go's marking: dedicated, fractional and idle workers, assists without a bound, the
 * queue of assists that wait for credit. From the sources of its runtime (mgcpacer.go, mgcmark.go,
 * mgc.go, proc.go of 1.19 and 1.23), described in docs/design/scale.md.
 *
 * A dedicated worker stays on its proc until marking is over; after 10 ms the monitor preempts it
 * once, and the tasks of its proc's ring go to the global queue. Until then they wait, unless some
 * other proc steals them. A fractional worker stops when it has had 1.2 times its share.
 *
 * An assist buys at least `least_assist` bytes of scan work at the price of the moment. It takes
 * background credit first, then works, however long that takes; if there is nothing to work on it
 * waits in the queue, which workers' credit serves in order. Cycles begin without credit.
 */
#include "sim/scale_world.h"
#include <math.h>

#define CHUNK_NS INT64_C(100000) /* of a worker, between two deliveries of credit */
#define TOO_MUCH 1.2             /* of its share, and a fractional worker stops */
#define ROUNDING 0.3             /* of the share that whole procs may miss */

void scale_go_mark_begins(struct scale_world *w)
{
    double share = w->profile->share * w->procs;
    int dedicated = (int)(share + 0.5);
    w->fraction = 0;
    if (dedicated == 0 || fabs(dedicated / share - 1) > ROUNDING) {
        if (dedicated > share)
            dedicated--;
        w->fraction = (share - dedicated) / w->procs;
    }
    w->dedicated_wanted = dedicated;
    w->credit = 0;
    for (uint32_t t = 0; t < w->tasks; t++)
        w->task[t].owed = 0;
    for (int i = 0; i < w->procs; i++) {
        w->proc[i].worker_ns = w->proc[i].worker_until = 0;
        w->proc[i].dedicated = false;
    }
}

void scale_go_mark_ends(struct scale_world *w)
{
    w->dedicated_wanted = 0;
    for (int i = 0; i < w->procs; i++)
        w->proc[i].dedicated = false;
    while (w->queue.n > 0)
        scale_ready(w, NULL, scale_list_pop_task(w, &w->queue));
}

/* The monitor preempts a dedicated worker: what waits here goes to the global queue. */
static void empty_ring(struct scale_world *w, struct scale_proc *p)
{
    if (p->runnext != SCALE_NONE) {
        scale_list_push_task(w, &w->global, p->runnext);
        p->runnext = SCALE_NONE;
    }
    while (p->tail != p->head) {
        scale_list_push_task(w, &w->global, p->ring[p->head++ % SCALE_RING]);
        w->in_rings--;
    }
    if (w->global.n > 0)
        scale_wake_one(w);
}

/* How long a fractional worker runs from now on, 0: it has had its share. */
static int64_t fractional_ns(const struct scale_world *w, const struct scale_proc *p)
{
    double since = (double)(w->now - w->mark_ns), f = TOO_MUCH * w->fraction;
    double least = (double)w->profile->drain_check / w->rate;
    if (w->fraction <= 0 || (double)p->worker_ns > w->fraction * since)
        return 0;
    double ns = (f * since - (double)p->worker_ns) / (1 - f);
    ns = ceil(ns / least) * least; /* it looks after each so many bytes only */
    return (int64_t)fmin(fmax(ns, least), (double)w->profile->quantum_ns);
}

int64_t scale_go_worker(struct scale_world *w, struct scale_proc *p, bool idle)
{
    if (!scale_work_there(w))
        return 0;
    if (idle)
        return scale_work_take(w, p, w->rate, (int64_t)((double)w->profile->drain_check / w->rate),
                               INT64_MAX);
    if (!p->dedicated && w->dedicated_wanted > 0) {
        w->dedicated_wanted--;
        p->dedicated = true;
        p->worker_since = w->now;
    }
    if (p->dedicated) {
        if (w->now - p->worker_since >= w->profile->quantum_ns)
            empty_ring(w, p);
        return scale_work_take(w, p, w->rate, CHUNK_NS, INT64_MAX);
    }
    if (w->now >= p->worker_until)
        p->worker_until = w->now + fractional_ns(w, p);
    int64_t left = p->worker_until - w->now;
    int64_t ns = scale_work_take(w, p, w->rate, left < CHUNK_NS ? left : CHUNK_NS, INT64_MAX);
    p->worker_ns += ns;
    return ns;
}

void scale_go_credit(struct scale_world *w, struct scale_proc *p, int64_t bytes)
{
    double ratio = fmax(w->assist_ratio, 1e-9);
    while (w->queue.n > 0 && bytes > 0) {
        struct scale_task *t = &w->task[w->queue.first];
        int64_t needs = (int64_t)ceil((double)t->owed * ratio);
        uint32_t number = scale_list_pop_task(w, &w->queue);
        if (needs <= bytes) {
            bytes -= needs > 0 ? needs : 0;
            t->owed = 0;
            scale_ready(w, p, number);
            continue;
        }
        t->owed -= (float)((double)bytes / ratio);
        bytes = 0;
        scale_list_push_task(w, &w->queue, number); /* to the end, as it has had some */
    }
    w->credit += bytes;
}

/* Takes what it can of `work` from the background's credit; returns what is left to do. */
static int64_t steal_credit(struct scale_world *w, struct scale_task *task, int64_t work,
                            double ratio)
{
    int64_t got = w->credit < work ? w->credit : work;
    w->credit -= got;
    task->owed -= (float)((double)got / ratio);
    return work - got;
}

int64_t scale_go_assist(struct scale_world *w, struct scale_proc *p, uint32_t t, int64_t bytes)
{
    struct scale_task *task = &w->task[t];
    double ratio = fmax(w->assist_ratio, 1e-9);
    task->owed += (float)bytes;
    if (task->owed <= 0)
        return 0;
    int64_t work = (int64_t)ceil((double)task->owed * ratio);
    if (work < w->profile->least_assist)
        work = w->profile->least_assist;
    work = steal_credit(w, task, work, ratio);
    if (work <= 0)
        return 0;
    int64_t before = p->heap_taken + p->stacks_taken;
    int64_t ns = scale_work_take(w, p, w->rate, INT64_C(1) << 40, work);
    int64_t done = p->heap_taken + p->stacks_taken - before;
    task->owed -= (float)((double)done / ratio);
    w->sums.assist += ns;
    if (ns > 0)
        scale_hold(w, ns);
    if (ns > 0 && w->measuring) {
        w->assists++;
        hg_histogram_add(&w->assist, ns);
    }
    if (task->owed <= 0)
        return ns;
    p->delay += ns;
    scale_list_push_task(w, &w->queue, t);
    return -1;
}

int64_t scale_go_trigger(const struct scale_world *w, const struct hg_pacer_plan *plan)
{
    double way = (double)(plan->goal - w->heap_live);
    double least = w->profile->trigger_least * way, most = w->profile->trigger_most * way;
    double at = way - (double)plan->runway;
    return w->heap_live + (int64_t)fmin(fmax(at, least), most);
}

/* scale_task.c: the stages of a request.
 *
 * The client makes the request and sends it; the server, which waits for it, runs next on the same
 * proc, and then the client again with the answer (both runtimes put who was sent to into
 * runnext). While no collection is under way nothing comes between the three, and they are one
 * event. A client whose next arrival has passed goes on with it at once.
 *
 * An allocation counts at the beginning of its stage, and what it sets off (slices, assists,
 * sweeping) makes the stage longer.
 */
#include "sim/memory.h"
#include "sim/scale_world.h"

/* Bytes allocated between two safepoints: a word of 64 slots, or what is left of a span. */
#define POLL_BYTES 2048

static bool is_calm(const struct scale_world *w)
{
    return w->phase == SCALE_OFF && w->unswept_ns == 0;
}

/* What the kernel or the host takes from a CPU that runs tasks for so long: pauses come in time,
 * and not so many to a request. */
static int64_t pauses_in(struct scale_world *w, struct scale_proc *p, int64_t length)
{
    int64_t paused = 0;
    if (w->pause_gap == 0)
        return 0;
    p->until_pause -= length;
    while (p->until_pause <= 0) {
        paused += (int64_t)scale_table_draw(&w->pause_table, &w->rng);
        p->until_pause += (int64_t)(w->pause_gap * sim_rng_exp(&w->rng)) + 1;
    }
    return paused;
}

bool scale_task_start(struct scale_world *w, struct scale_proc *p, uint32_t t)
{
    struct scale_conn *c = &w->conn[t / 2];
    struct scale_task *task = &w->task[t];
    int64_t extra = 0;
    if (w->phase == SCALE_MARK && !w->profile->go)
        scale_scan_task(w, p, t, &extra);
    if (c->stage == SCALE_MAKE && is_calm(w))
        c->stage = SCALE_WHOLE;
    int64_t bytes = w->stage_bytes[c->stage];
    int64_t own = (int64_t)(w->stage_ns[c->stage] * scale_table_draw(&w->work_table, &w->rng));
    if (task->paid == 0) {
        int64_t held = scale_allocated(w, p, t, bytes, own);
        if (held < 0) {
            task->paid = 1;
            p->delay += extra;
            return false;
        }
        extra += held;
    }
    task->paid = 0;
    w->sums.work += own;
    extra += pauses_in(w, p, own + extra);
    p->task = t;
    p->state = SCALE_RUNS;
    p->began = w->now;
    p->at = w->now + own + extra;
    p->poll_gap = (own + extra) / (1 + bytes / POLL_BYTES) + 1;
    return true;
}

static void hand_over(struct scale_world *w, struct scale_proc *p, uint32_t t)
{
    if (p->runnext != SCALE_NONE)
        scale_ready(w, p, p->runnext);
    p->runnext = t;
}

static int64_t pop_pending(struct scale_world *w, struct scale_conn *c)
{
    uint32_t i = c->first;
    int64_t intended = w->pending[i].intended;
    c->first = w->pending[i].next;
    w->pending[i].next = w->pending_free;
    w->pending_free = i;
    return intended;
}

static void record(struct scale_world *w, const struct scale_conn *c)
{
    w->books.requests++;
    if (w->now >= w->begin && w->now < w->end)
        w->done++;
    w->books.ended++;
    if (c->intended < w->begin)
        return;
    hg_histogram_add(&w->latency, w->now - c->intended);
    w->outstanding--;
}

void scale_task_end(struct scale_world *w, struct scale_proc *p)
{
    uint32_t number = p->task / 2;
    struct scale_conn *c = &w->conn[number];
    switch ((enum scale_stage)c->stage) {
    case SCALE_MAKE:
        c->stage = SCALE_SERVE;
        hand_over(w, p, 2 * number + 1);
        return;
    case SCALE_SERVE:
        c->stage = SCALE_READ;
        hand_over(w, p, 2 * number);
        return;
    case SCALE_READ:
    case SCALE_WHOLE:
    case SCALE_STAGES:
        break;
    }
    record(w, c);
    c->stage = SCALE_MAKE;
    c->home = (uint16_t)scale_number(w, p);
    c->busy = c->first != SCALE_NONE;
    if (c->busy) {
        c->intended = pop_pending(w, c);
        hand_over(w, p, 2 * number);
    }
}

/* scale_sched.c: what a proc does between two tasks, as runtime/sched does it.
 *
 * A round: the collector's background work that is due (Go: its worker); timers that are due; a
 * task from the global queue every GLOBAL_ROUNDS, else runnext, the own ring, the global queue, the
 * network, other procs. A proc that finds nothing marks while there is something to mark, and then
 * sleeps; it spins if its next timer is near.
 *
 * Not modelled: that a proc looks for work in rounds over the others (it finds at once what is
 * there), and what a wake-up costs the one who makes it.
 */
#include "sim/scale_world.h"

#define GLOBAL_ROUNDS 61u
#define NEAR_TIMER_NS INT64_C(20000) /* a sleep shorter than this is spun away */
#define LATE_TIMER_NS INT64_C(1000)  /* a spinner takes over timers that are later */
#define MONITOR_LATE  INT64_C(100000)
#define SPUN_NS       INT64_C(100) /* from a store to a proc that spins on the word: a cache line */
#define STOP_NS       INT64_C(1000) /* an idle marker looks for tasks every 32 objects */

/* ---- lists ---- */

void scale_list_push_task(struct scale_world *w, struct scale_list *l, uint32_t t)
{
    w->task[t].next = SCALE_NONE;
    if (l->n++ == 0)
        l->first = t;
    else
        w->task[l->last].next = t;
    l->last = t;
}

uint32_t scale_list_pop_task(struct scale_world *w, struct scale_list *l)
{
    uint32_t t = l->first;
    l->first = w->task[t].next;
    l->n--;
    return t;
}

static void push_due(struct scale_world *w, struct scale_list *l, uint32_t c)
{
    w->conn[c].next = SCALE_NONE;
    if (l->n++ == 0)
        l->first = c;
    else
        w->conn[l->last].next = c;
    l->last = c;
    w->in_rings++;
}

/* ---- rings ---- */

static uint32_t ring_length(const struct scale_proc *p) { return p->tail - p->head; }

/* At the end of the ring; half of a full one goes to the global queue. */
static void ring_put(struct scale_world *w, struct scale_proc *p, uint32_t t)
{
    if (ring_length(p) == SCALE_RING) {
        for (uint32_t i = 0; i < SCALE_RING / 2; i++) {
            scale_list_push_task(w, &w->global, p->ring[p->head++ % SCALE_RING]);
            w->in_rings--;
        }
        scale_list_push_task(w, &w->global, t);
        return;
    }
    p->ring[p->tail++ % SCALE_RING] = t;
    w->in_rings++;
}

static uint32_t ring_get(struct scale_world *w, struct scale_proc *p)
{
    if (ring_length(p) == 0)
        return SCALE_NONE;
    w->in_rings--;
    return p->ring[p->head++ % SCALE_RING];
}

/* Clients of a list of due connections go to the end of p's ring. */
static void take_due(struct scale_world *w, struct scale_proc *p, struct scale_list *l)
{
    while (l->n > 0) {
        uint32_t c = l->first;
        l->first = w->conn[c].next;
        l->n--;
        w->in_rings--;
        ring_put(w, p, 2 * c);
    }
}

static uint32_t global_get(struct scale_world *w)
{
    return w->global.n > 0 ? scale_list_pop_task(w, &w->global) : SCALE_NONE;
}

/* ---- idle procs and waking ---- */

static void idle_link(struct scale_world *w, struct scale_proc *p)
{
    uint32_t number = scale_number(w, p);
    p->idle_prev = SCALE_NONE;
    p->idle_next = w->idle_first;
    if (w->idle_first != SCALE_NONE)
        w->proc[w->idle_first].idle_prev = number;
    w->idle_first = number;
    w->idles++;
}

static void idle_unlink(struct scale_world *w, struct scale_proc *p)
{
    if (p->idle_prev == SCALE_NONE)
        w->idle_first = p->idle_next;
    else
        w->proc[p->idle_prev].idle_next = p->idle_next;
    if (p->idle_next != SCALE_NONE)
        w->proc[p->idle_next].idle_prev = p->idle_prev;
    w->idles--;
    if (p->state == SCALE_SPINS)
        w->spinners--;
}

static void wake(struct scale_world *w, struct scale_proc *p, int64_t at)
{
    idle_unlink(w, p);
    p->state = SCALE_WAKES;
    p->at = at;
    scale_heap_moved(w, p);
}

static void wake_for_work(struct scale_world *w, struct scale_proc *p)
{
    p->seeks = true;
    w->seekers++;
    wake(w, p, w->now + (p->state == SCALE_SPINS ? SPUN_NS : scale_wake_ns(w, w->now - p->began)));
}

void scale_wake_one(struct scale_world *w)
{
    if (w->idles > 0 && w->seekers == 0)
        wake_for_work(w, &w->proc[w->idle_first]);
}

void scale_wake_all(struct scale_world *w)
{
    while (w->idles > 0)
        wake_for_work(w, &w->proc[w->idle_first]);
}

/* An idle marker's work ends early; what it has not got to goes back to the pool. */
static void stop_marking(struct scale_world *w, struct scale_proc *p)
{
    int64_t at = w->now + STOP_NS;
    if (at >= p->at)
        return;
    double undone = (double)(p->at - at) / (double)(p->at - p->began);
    int64_t back = (int64_t)(undone * (double)p->heap_taken);
    p->heap_taken -= back;
    w->work_left += back;
    p->at = at;
    scale_heap_moved(w, p);
}

/* When a proc that sleeps for its next timer runs: a timer of the kernel, and its grain. */
static int64_t timer_wakes_at(struct scale_world *w, const struct scale_proc *p)
{
    int64_t late = scale_wake_ns(w, w->now - p->began), grain = w->profile->timer_grain_ns;
    if (grain > 0)
        late += (int64_t)(sim_rng_next(&w->rng) % (uint64_t)grain);
    return w->now + late;
}

void scale_due(struct scale_world *w, uint32_t c)
{
    if (w->opt->network) {
        push_due(w, &w->network, c);
        scale_wake_one(w);
        return;
    }
    struct scale_proc *p = &w->proc[w->conn[c].home];
    if (p->due.n == 0)
        p->due_since = w->now;
    push_due(w, &p->due, c);
    if (p->state == SCALE_ASLEEP)
        wake(w, p, timer_wakes_at(w, p));
    else if (p->state == SCALE_SPINS)
        wake(w, p, w->now + SPUN_NS);
    else if (p->state == SCALE_IDLE_MARKS && !w->profile->go)
        stop_marking(w, p);
    else if (w->spinners > 0 && p->state != SCALE_WAKES)
        for (uint32_t i = w->idle_first; i != SCALE_NONE; i = w->proc[i].idle_next)
            if (w->proc[i].state == SCALE_SPINS) {
                wake(w, &w->proc[i], w->now + LATE_TIMER_NS);
                return;
            }
}

void scale_ready(struct scale_world *w, struct scale_proc *p, uint32_t t)
{
    if (p == NULL)
        scale_list_push_task(w, &w->global, t);
    else
        ring_put(w, p, t);
    scale_wake_one(w);
}

bool scale_work_anywhere(const struct scale_world *w) { return w->in_rings > 0 || w->global.n > 0; }

bool scale_has_work(const struct scale_world *w, const struct scale_proc *p)
{
    return ring_length(p) > 0 || p->due.n > 0 || p->runnext != SCALE_NONE || w->global.n > 0;
}

void scale_monitor(struct scale_world *w)
{
    for (int i = 0; i < w->procs && w->idles > 0; i++) {
        const struct scale_proc *p = &w->proc[i];
        if (p->due.n > 0 && p->state != SCALE_WAKES && w->now - p->due_since > MONITOR_LATE)
            scale_wake_one(w);
    }
}

/* ---- looking for a task ---- */

/* Half of another proc's ring, or its due timers. */
static uint32_t steal(struct scale_world *w, struct scale_proc *p)
{
    uint32_t n = (uint32_t)w->procs;
    if (w->in_rings == 0 || n == 1)
        return SCALE_NONE;
    uint32_t first = sim_rng_below(&w->rng, n);
    for (uint32_t i = 0; i < n; i++) {
        struct scale_proc *victim = &w->proc[first + i < n ? first + i : first + i - n];
        if (victim == p)
            continue;
        uint32_t have = ring_length(victim);
        for (uint32_t k = have - have / 2; k > 0; k--)
            ring_put(w, p, ring_get(w, victim));
        if (have == 0)
            take_due(w, p, &victim->due);
        if (ring_length(p) > 0)
            return ring_get(w, p);
    }
    return SCALE_NONE;
}

static uint32_t network_get(struct scale_world *w, struct scale_proc *p)
{
    take_due(w, p, &w->network);
    return ring_get(w, p);
}

/* The task that p runs next, or NONE. */
static uint32_t find_task(struct scale_world *w, struct scale_proc *p)
{
    uint32_t t = SCALE_NONE;
    take_due(w, p, &p->due);
    if (p->rounds++ % GLOBAL_ROUNDS == 0 && (t = global_get(w)) != SCALE_NONE) {
        p->turn_at = w->now;
        return t;
    }
    if (p->runnext != SCALE_NONE) {
        t = p->runnext;
        p->runnext = SCALE_NONE;
        if (w->now - p->turn_at < SCALE_TURN_NS)
            return t; /* it goes on in the turn of who made it ready */
        ring_put(w, p, t);
    }
    p->turn_at = w->now;
    if ((t = ring_get(w, p)) != SCALE_NONE || (t = global_get(w)) != SCALE_NONE ||
        (t = network_get(w, p)) != SCALE_NONE)
        return t;
    return steal(w, p);
}

/* ---- rounds ---- */

static void busy_for(struct scale_world *w, struct scale_proc *p, enum scale_state state,
                     int64_t ns)
{
    p->state = (uint8_t)state;
    p->began = w->now;
    p->poll_gap = ns;
    p->at = w->now + ns;
}

/* The next timer of p, as far as arrivals are known and near. */
static int64_t near_timer(const struct scale_world *w, const struct scale_proc *p)
{
    uint32_t number = scale_number(w, p);
    for (uint32_t i = 0; i < SCALE_AHEAD; i++) {
        const struct scale_arrival *a = &w->ahead[(w->ahead_first + i) % SCALE_AHEAD];
        if (a->at - w->now >= NEAR_TIMER_NS || a->at >= w->end)
            break;
        if (w->conn[a->conn].home == number && !w->conn[a->conn].busy)
            return a->at;
    }
    return SCALE_NEVER;
}

static void go_idle(struct scale_world *w, struct scale_proc *p)
{
    int64_t near = w->opt->network || w->profile->go ? SCALE_NEVER : near_timer(w, p);
    p->state = near == SCALE_NEVER ? SCALE_ASLEEP : SCALE_SPINS;
    p->at = near;
    p->began = w->now;
    w->spinners += p->state == SCALE_SPINS;
    idle_link(w, p);
}

static int64_t collector_work(struct scale_world *w, struct scale_proc *p, bool idle)
{
    if (!w->gc || (w->phase != SCALE_MARK && w->unswept_ns == 0))
        return 0;
    if (w->profile->go && w->phase == SCALE_MARK)
        return scale_go_worker(w, p, idle);
    return scale_background(w, p, idle);
}

static void stop_seeking(struct scale_world *w, struct scale_proc *p)
{
    if (!p->seeks)
        return;
    p->seeks = false;
    w->seekers--;
    if (w->seekers == 0 && scale_work_anywhere(w))
        scale_wake_one(w); /* there may be more */
}

/* Decides what p does from now on. */
static void begin(struct scale_world *w, struct scale_proc *p)
{
    for (;;) {
        int64_t ns = collector_work(w, p, false);
        if (ns > 0) {
            stop_seeking(w, p);
            busy_for(w, p, SCALE_SLICE, ns);
            return;
        }
        uint32_t t = find_task(w, p);
        stop_seeking(w, p);
        if (t == SCALE_NONE) {
            ns = collector_work(w, p, true);
            if (ns > 0)
                busy_for(w, p, SCALE_IDLE_MARKS, ns);
            else
                go_idle(w, p);
            return;
        }
        if (ring_length(p) > 0)
            scale_wake_one(w);
        if (scale_task_start(w, p, t))
            return;
        if (p->heap_taken + p->stacks_taken > 0) { /* it waits, but first p did this for it */
            ns = p->delay;
            p->delay = 0;
            busy_for(w, p, SCALE_ASSISTS, ns);
            return;
        }
    }
}

/* What p did until now has its effect. */
static void finish(struct scale_world *w, struct scale_proc *p)
{
    int64_t took = w->now - p->began;
    switch ((enum scale_state)p->state) {
    case SCALE_RUNS:
        scale_work_done(w, p);
        scale_task_end(w, p);
        break;
    case SCALE_SLICE:
    case SCALE_IDLE_MARKS:
        if (p->heap_taken + p->stacks_taken > 0) {
            bool idle = p->state == SCALE_IDLE_MARKS;
            *(idle ? &w->sums.idle : &w->sums.background) += took;
            if (!idle && !w->profile->go)
                scale_hold(w, took);
            int64_t bytes = scale_work_done(w, p);
            if (w->profile->go)
                scale_go_credit(w, p, bytes);
            else
                p->credit += bytes;
        }
        break;
    case SCALE_ASSISTS:
        scale_work_done(w, p);
        break;
    case SCALE_SPINS: /* its timer was taken over */
        idle_unlink(w, p);
        break;
    case SCALE_ASLEEP:
    case SCALE_WAKES:
        break;
    }
}

void scale_proc_event(struct scale_world *w, struct scale_proc *p)
{
    if (p->delay > 0) { /* what others did to it meanwhile comes on top */
        p->at += p->delay;
        p->delay = 0;
        scale_heap_moved(w, p);
        return;
    }
    finish(w, p);
    begin(w, p);
    scale_heap_moved(w, p);
}

void scale_hold(struct scale_world *w, int64_t ns)
{
    if (w->measuring)
        hg_histogram_add(&w->hold, ns);
}

/* cycle.c: the driver: walks the phases of a cycle. No mutator ever waits for another one.
 *
 *   0  OFF     the last cycle's sweeping is finished; pools drop their victims (roots.c)
 *   1  ROOTS   handshake NOP, twice: after the first every store runs the barrier; after the second
 *              every store in flight has also read its old value after the last store without
 *              barrier (with one NOP an object is lost)
 *   2  ROOTS   global roots; handshake SCAN: every mutator has scanned its own stack, and allocates
 *      black from there on
 *   3  MARK    procs scan parked stacks and trace
 *   4  MARK    no work is seen: handshake FLUSH until a round was clean (term.c)
 *   5  WEAK_PENDING, then WEAK, by compare-and-swap (term.c)
 *   6  WEAK    the places of weak references, finalizers, ephemerons and cleanups, in this order:
 *              dead weak values; then what finalizers reach is marked, and they are queued; then
 *              dead weak keys; then cleanups. The verifier, when asked for, compares the marking
 *              with a second, independent trace
 *   7  OFF     handshake OFF: nobody shades any more, and what ambiguous words greyed after the
 *              last FLUSH is taken back before anything is swept. Now marks say what is dead:
 *              timers in dead objects leave the procs' heaps (sched/timer.c)
 *   8  OFF     handshake RESET, which opens the new sweep generation: every mutator has given its
 *              spans back and allocates white in the new generation
 *   9  OFF     sweeping: by allocations, in the background, in proportion
 *
 * Rejected: one NOP and an exchange in the barrier (dearer stores, and a second clean round);
 * deriving a mutator's colour from the phase (it is black from its own SCAN to its own RESET,
 * whatever the phase word says).
 *
 * The driver sleeps on driver_wake: for a trigger, a request, quiet marking, finished sweeping, the
 * periodic cycle.
 */
#include "runtime/gc/gc.h"
#include "runtime/trace/trace.h"
#include <errno.h>

#define PERIOD_NS   INT64_C(120000000000) /* a cycle at least every two minutes */
#define UPKEEP_NS   INT64_C(100000000)
#define SCAVENGE    ((size_t)4 << 20)  /* given back per upkeep step at most: 40 MiB/s */
#define COLLAPSE_NS INT64_C(600000000) /* one huge page (6 ms) each: 1 % of a core */

void hg__gc_wake_driver(struct hg_gc *g)
{
    hg_add_sc(&g->driver_wake, 1u);
    hg__os_wake(&g->driver_wake, 1);
}

/* Under ROOTS: a thread that is no mutator reads the phase, and shades, under it (roots.c). */
static void set_phase(struct hg_gc *g, enum hg_phase phase)
{
    hg__lock(&g->roots.lock);
    hg_store_sc(&g->world->phase, (uint32_t)phase);
    hg__unlock(&g->roots.lock);
}

/* hg_i_marking counts the runtimes between ROOTS and OFF; seq_cst with the phase: a store that
 * reads 0 begins before the first NOP is answered. */
static void count_marking(int by)
{
    __atomic_add_fetch(&hg_i_marking, (uint32_t)by, __ATOMIC_SEQ_CST);
}

/* ---- requests and waiters ---- */

/* last: the number of the last cycle that is wanted in this way. */
static uint64_t request(struct hg_gc *g, uint64_t *last)
{
    hg__lock(&g->collect.lock);
    uint64_t number = (uint64_t)hg_load_rlx(&g->world->cycle) + 1;
    if (*last < number)
        *last = number;
    hg__unlock(&g->collect.lock);
    hg__gc_wake_driver(g);
    return number;
}

uint64_t hg__gc_request(struct hg_gc *g) { return request(g, &g->collect.wanted); }

uint64_t hg__gc_request_deferred(struct hg_gc *g) { return request(g, &g->collect.deferred); }

/* Whether a cycle after the running one was asked for; then *held: only the limiter is in its way.
 * Who clears `limited` wakes the driver after that, and the driver has read driver_wake before
 * this: no wake-up is lost. */
static bool requested(struct hg_gc *g, bool *held)
{
    hg__lock(&g->collect.lock);
    uint64_t last = hg_load_rlx(&g->world->cycle);
    bool wanted = g->collect.wanted > last, deferred = g->collect.deferred > last;
    hg__unlock(&g->collect.lock);
    *held = deferred && !wanted && hg_load_rlx(&g->limited) != 0;
    return wanted || (deferred && !*held);
}

static void commit_wait(void *arg)
{
    struct hg_gc *g = arg;
    hg__unlock(&g->collect.lock);
}

static void wait_task(struct hg_gc *g, struct hg_tcb *t, uint64_t number)
{
    hg__lock(&g->collect.lock);
    if (hg_load_acq(&g->finished) >= number) {
        hg__unlock(&g->collect.lock);
        return;
    }
    uint32_t mask = hg__mask(t); /* before the park can be won */
    t->gc_wanted = number;
    t->gc_ticket = hg__park_begin(t);
    t->gc_next = g->collect.waiters;
    g->collect.waiters = t;
    hg_add_sc(&g->sched->outside_waits, 1u);
    hg__park(t, t->gc_ticket, HG_FOREVER, commit_wait, g, "collection");
    hg__unmask(t, mask);
}

void hg__gc_wait(struct hg_gc *g, uint64_t number)
{
    struct hg_tcb *t = hg__task_self();
    if (t != NULL && t->sched == g->sched) {
        wait_task(g, t, number);
        return;
    }
    for (;;) {
        uint32_t seen = hg_load_acq(&g->finished_word);
        if (hg_load_acq(&g->finished) >= number || hg_load_acq(&g->stopping))
            return;
        hg__os_wait(&g->finished_word, seen, INT64_MAX);
    }
}

/* The cycle is marked and swept: wakes who waits for it. */
static void finish(struct hg_gc *g)
{
    uint64_t number = hg_load_rlx(&g->world->cycle);
    if (hg_load_rlx(&g->finished) == number)
        return;
    int64_t now = hg__os_now();
    hg__lock(&g->pacer_lock);
    g->now.swept_ns = now;
    if (g->cycle_count != 0)
        g->cycles[(g->cycle_count - 1) % HG_CYCLES_KEPT].swept_ns = now;
    hg__unlock(&g->pacer_lock);
    hg_store_sc(&g->sched->background, 0u);
    hg__lock(&g->collect.lock);
    hg_store_rel(&g->finished, number);
    struct hg_tcb **link = &g->collect.waiters, *ready = NULL;
    while (*link != NULL) {
        struct hg_tcb *t = *link;
        if (t->gc_wanted > number) {
            link = &t->gc_next;
            continue;
        }
        *link = t->gc_next;
        t->gc_next = ready;
        ready = t;
    }
    hg__unlock(&g->collect.lock);
    while (ready != NULL) {
        struct hg_tcb *t = ready;
        ready = t->gc_next;
        if (hg__park_claim(t, t->gc_ticket, HG_WAKE_VALUE))
            hg__ready(t, false);
        /* Not before: or the task would seem to wait for nothing. */
        hg__outside_end(g->sched, &g->sched->outside_waits);
    }
    hg_add_sc(&g->finished_word, 1u);
    hg__os_wake(&g->finished_word, INT32_MAX);
}

/* ---- the cycle ---- */

/* Phase 0, and for whoever waits for a whole cycle: the driver sweeps what is left itself. */
static void finish_sweep(struct hg_gc *g)
{
    struct hg_heap *h = g->world->heap;
    while (!hg__sweep_done(h) && !hg_load_acq(&g->stopping)) {
        uint32_t seen = hg_load_sc(&g->driver_wake);
        if (hg__sweep_some(h, 64) == 0 && !hg__sweep_done(h))
            hg__os_wait(&g->driver_wake, seen, hg_in(100000)); /* others are at their last spans */
    }
    finish(g);
}

/* No span is dissolved while anything is marked: what sweeping left empty goes now, and whoever is
 * at such a span is waited for. Note [EMPTY] in alloc/span.c. */
static void drop_empty_spans(struct hg_gc *g)
{
    struct hg_heap *h = g->world->heap;
    uint32_t seen = hg_load_sc(&g->driver_wake);
    hg__empties_dissolve(h, SIZE_MAX);
    while (!hg__sweep_done(h) && !hg_load_acq(&g->stopping))
        hg__os_wait(&g->driver_wake, seen, hg_in(100000));
}

static void begin(struct hg_gc *g)
{
    hg__lock(&g->collect.lock);
    uint64_t last = hg_load_rlx(&g->world->cycle);
    g->forced = g->collect.wanted > last || g->collect.deferred > last;
    hg_add_sc(&g->world->cycle, 1u);
    hg__unlock(&g->collect.lock);
    hg__pace_cycle_start(g);
}

static void to_off(struct hg_gc *g)
{
    set_phase(g, HG_PHASE_OFF);
    count_marking(-1);
}

static bool check(struct hg_gc *g)
{
    if (!g->check)
        return true;
    if (!hg__handshake(g->world, HG_REQ_HOLD))
        return false;
    hg__gc_check(g);
    hg__handshake_release(g->world);
    return true;
}

/* 1 to 3. False: given up, as the runtime closes. */
static bool start_marking(struct hg_gc *g)
{
    struct hg_world *w = g->world;
    hg__timers_unsettle(g->sched);
    set_phase(g, HG_PHASE_ROOTS); /* 1 */
    hg_store_rlx(&g->triggered, 0u);
    count_marking(+1);
    if (!hg__handshake(w, HG_REQ_NOP) || !hg__handshake(w, HG_REQ_NOP))
        return false;
    hg__roots_scan(g); /* 2 */
    if (!hg__handshake(w, HG_REQ_SCAN))
        return false;
    hg__stacks_begin(g);
    hg__pace_scanned(g);
    set_phase(g, HG_PHASE_MARK); /* 3 */
    hg_store_sc(&g->sched->background, 1u);
    hg__sched_wake(g->sched, g->sched->nprocs);
    return true;
}

/* 7 and 8 */
static bool reset(struct hg_gc *g)
{
    to_off(g); /* 7 */
    if (!hg__handshake(g->world, HG_REQ_OFF))
        return false;
    hg__grey_take_back_shared(g->world);
    hg__timers_forget_dead(g->sched);
    return hg__handshake(g->world, HG_REQ_RESET); /* 8 */
}

static void run_cycle(struct hg_gc *g)
{
    finish_sweep(g); /* 0 */
    drop_empty_spans(g);
    if (hg_load_acq(&g->stopping))
        return; /* perhaps not all is swept, and a cycle must not begin */
    hg__heap_touch_marks(g->world->heap);
    hg__roots_turn(g);
    begin(g);
    bool marked = start_marking(g);
    if (marked) {
        hg__gc_terminate(g);                             /* 4, 5 */
        marked = !hg_load_acq(&g->stopping) && check(g); /* 6 */
    }
    if (!marked) {
        to_off(g);
        return;
    }
    hg__pace_cycle_end(g);
    if (!reset(g))
        return;
    if (g->trace_gc)
        hg__trace_cycle(&g->now, g->opened_at, g->gc_cpu, g->sched->nprocs);
    hg__grey_trim(g->world);
    hg__sched_wake(g->sched, g->sched->nprocs); /* 9 */
}

/* ---- the driver's thread ---- */

/* *held: a cycle would be due but for the limiter. */
static bool due(struct hg_gc *g, int64_t now, bool *held)
{
    bool wanted = requested(g, held);
    bool triggered = hg_load_acq(&g->triggered) != 0;
    if (triggered && hg_load_rlx(&g->heap_live) < hg_load_rlx(&g->trigger)) {
        triggered = false; /* by one who had not seen yet that the last cycle had begun */
        hg_store_rlx(&g->triggered, 0u);
    }
    bool periodic = !wanted && !triggered && hg_load_rlx(&g->trigger) != HG_PACER_NO_GOAL &&
                    now - hg_load_rlx(&g->last_end) >= PERIOD_NS;
    hg_store_rlx(&g->periodic, periodic ? 1u : 0u);
    return wanted || triggered || periodic;
}

/* Whether somebody waits for the sweep, so that the driver does it itself. */
static bool sweep_wanted(struct hg_gc *g)
{
    hg__lock(&g->collect.lock);
    bool yes = g->collect.waiters != NULL || g->forced;
    hg__unlock(&g->collect.lock);
    return yes;
}

/* What the driver remembers between two steps of upkeep. */
struct upkeep {
    int64_t collapsed_at;
    uint64_t switches;
};

/* No task runs, and none has since the last step. */
static bool at_rest(struct hg_gc *g, struct upkeep *u)
{
    uint64_t switches = 0;
    bool idle = hg_load_rlx(&g->sched->idle_count) == (uint32_t)g->sched->nprocs;
    for (int i = 0; i < g->sched->nprocs; i++)
        switches += hg_load_rlx(&g->sched->procs[i]->switches);
    bool same = switches == u->switches;
    u->switches = switches;
    return same && idle;
}

/* Gives memory back and collapses full blocks, a little at a time. Returns whether there is more to
 * do. */
static bool upkeep(struct hg_gc *g, int64_t now, struct upkeep *u)
{
    struct hg_heap *h = g->world->heap;
    int64_t goal = hg_load_rlx(&g->goal), mapped = hg_load_rlx(&h->mapped_bytes);
    int64_t limit = g->pacer.config.memory_limit;
    int64_t keep = goal == HG_PACER_NO_GOAL ? mapped : goal + goal / 10;
    if (limit != INT64_MAX && keep > limit - limit / 20)
        keep = limit - limit / 20;
    bool more = false;
    if (mapped > keep && hg_load_rlx(&h->free_bytes) > 0)
        more = hg__scavenge(h, hg_min_size(SCAVENGE, (size_t)(mapped - keep))) != 0;
    /* While one block is collapsed whoever touches it waits, for up to 6 ms; done beside a load of
     * 100,000 requests a second it took their p99 from 0.2 ms to 2 ms. So: only at rest. */
    bool resting = at_rest(g, u);
    if (resting && now - u->collapsed_at >= COLLAPSE_NS) {
        more |= hg__collapse_step(h);
        u->collapsed_at = now;
    }
    more |= !resting; /* to look again when it rests */
    more |= hg__stack_trim(g->sched, 100) != 0;
    return more;
}

/* The limiter's windows go on while the driver holds a cycle back: the monitor may be asleep then,
 * as all tasks may wait for that cycle. */
static void rest_limited(struct hg_gc *g, uint32_t seen)
{
    struct hg_gc_sums sums;
    hg__os_wait(&g->driver_wake, seen, hg_in(HG_LIMITER_NS));
    int64_t now = hg__os_now();
    hg__gc_sums(g, &sums);
    hg__pace_limiter(g, &sums, now);
}

static void rest(struct hg_gc *g, uint32_t seen, struct upkeep *u)
{
    int64_t now = hg__os_now();
    bool swept = hg_load_rlx(&g->finished) == hg_load_rlx(&g->world->cycle);
    bool more = swept && hg_load_rlx(&g->world->cycle) != 0 && upkeep(g, now, u);
    int64_t until = hg_load_rlx(&g->last_end) + PERIOD_NS;
    if (more && now + UPKEEP_NS < until)
        until = now + UPKEEP_NS;
    hg__os_wait(&g->driver_wake, seen, until <= now ? now + PERIOD_NS : until);
}

static void *driver(void *arg)
{
    struct hg_gc *g = arg;
    struct upkeep u = {0, 0};
    hg__os_timer_slack();
    for (;;) {
        /* Before everything that it stands for is looked at, `stopping` too: who changes one of
         * them counts it up after that, so that a change that is missed here does not let rest()
         * sleep. */
        uint32_t seen = hg_load_sc(&g->driver_wake);
        bool held;
        if (hg_load_sc(&g->stopping))
            return NULL;
        if (due(g, hg__os_now(), &held)) {
            run_cycle(g);
            continue;
        }
        if (hg_load_rlx(&g->finished) != hg_load_rlx(&g->world->cycle)) {
            if (sweep_wanted(g))
                finish_sweep(g);
            else if (hg__sweep_done(g->world->heap))
                finish(g);
        }
        if (held)
            rest_limited(g, seen);
        else
            rest(g, seen, &u);
    }
}

int hg__gc_start(struct hg_gc *g)
{
    hg__lock_init(&g->collect.lock, HG_RANK_COLLECT);
    int error = hg__roots_init(g);
    if (error != 0)
        return error;
    error = hg__os_thread(&g->driver, "hedge-gc", 0, driver, g);
    if (error != 0)
        hg__roots_fini(g);
    return error;
}

void hg__gc_stop(struct hg_gc *g)
{
    hg_store_sc(&g->stopping, 1u);
    hg__handshake_give_up(g->world);
    hg__gc_wake_driver(g);
    hg__os_thread_join(g->driver);
    hg_add_sc(&g->finished_word, 1u);
    hg__os_wake(&g->finished_word, INT32_MAX);
}

/* term.c: when marking is complete.
 *
 * Phase 4. When no work is seen anywhere the driver asks for a FLUSH: every mutator publishes its
 * grey buffer and says whether it has shaded anything since its last FLUSH. A round is clean when
 * every answer was no, no worker holds work, the shared queue is empty and no stack is left
 * unscanned, all of it unchanged from the round's start to its end: one counter that every change
 * bumps is read before and after (Note [QUIET]). When a clean round began no grey object existed:
 * the deletion barrier shades before it stores, so one round is enough (tests/model, ROUNDS=1).
 * Births of scanned tasks, and deaths, do not bump it.
 *
 * Phase 5. MARK becomes WEAK_PENDING by compare-and-swap; another round, by the same rule; then
 * WEAK, by compare-and- swap. A weak read that meets an unmarked target swaps the phase back to
 * MARK, and so does a dirty round: then marking goes on. In WEAK no mutator can resurrect anything
 * any more.
 *
 * The driver sleeps in between: whoever finds the last work done wakes it (hg__mark_some). It never
 * spins.
 */
#include "runtime/gc/gc.h"

static bool no_work_seen(struct hg_gc *g)
{
    struct hg_grey_queue *q = &g->world->grey;
    return hg_load_sc(&q->workers) == 0 && hg_load_sc(&q->full_count) == 0 && !hg__stacks_left(g);
}

static bool unmoved(struct hg_gc *g, uint64_t before)
{
    return no_work_seen(g) && hg_load_sc(&g->world->grey.activity) == before;
}

/* A FLUSH round; true: it was clean. *before: the activity at its start. */
static bool flush_round(struct hg_gc *g, uint64_t *before)
{
    struct hg_world *w = g->world;
    *before = hg_load_sc(&w->grey.activity);
    if (!no_work_seen(g))
        return false;
    hg_store_rlx(&w->dirty, 0u); /* published by the request's epoch */
    return hg__handshake(w, HG_REQ_FLUSH) && hg_load_acq(&w->dirty) == 0 && unmoved(g, *before);
}

/* Sleeps until no work is seen. Idle procs are woken for what there is. */
static void wait_for_workers(struct hg_gc *g)
{
    for (;;) {
        uint32_t seen = hg_load_sc(&g->driver_wake);
        if (no_work_seen(g) || hg_load_acq(&g->stopping))
            return;
        hg__sched_wake(g->sched, g->sched->nprocs);
        hg__os_wait(&g->driver_wake, seen, hg_in(1000000));
    }
}

static bool swap_phase(struct hg_world *w, enum hg_phase from, enum hg_phase to)
{
    uint32_t expected = (uint32_t)from;
    return hg_cas_sc(&w->phase, &expected, (uint32_t)to);
}

/* The step to WEAK. Threads that are no mutators answer no FLUSH: what they shade for a global
 * root, and publish, is under ROOTS. So the last look is under ROOTS too. */
static bool complete(struct hg_gc *g, uint64_t before)
{
    hg__lock(&g->roots.lock);
    bool done = unmoved(g, before) && swap_phase(g->world, HG_PHASE_WEAK_PENDING, HG_PHASE_WEAK);
    hg__unlock(&g->roots.lock);
    return done;
}

void hg__gc_terminate(struct hg_gc *g)
{
    struct hg_world *w = g->world;
    uint64_t before;
    for (;;) {
        wait_for_workers(g);
        if (hg_load_acq(&g->stopping))
            return;
        if (!flush_round(g, &before) || !swap_phase(w, HG_PHASE_MARK, HG_PHASE_WEAK_PENDING))
            continue;
        if (flush_round(g, &before) && complete(g, before))
            return;
        swap_phase(w, HG_PHASE_WEAK_PENDING, HG_PHASE_MARK); /* a weak read may have done it */
    }
}

/* scale_cycle.c: the driver of a collection, as runtime/gc/cycle.c is: two handshakes, one that
 * scans the running stacks, marking, two rounds in which nothing more is found, two handshakes,
 * sweeping. Go stops the world before and after marking instead.
 *
 * The driver sleeps between its steps and is woken like any thread. A handshake lasts until the
 * last proc has come to a safepoint; procs that sleep are answered for at once.
 *
 * Not modelled: rounds that find something (grey objects at the last moment), weak references.
 */
#include "sim/scale_world.h"

/* The driver sleeps for so short a time that its CPU does not sleep deeply; if all are busy, it
 * takes one. */
#define DRIVER_SLEPT 0

/* When p answers what is asked now. */
static int64_t answers_at(const struct scale_world *w, const struct scale_proc *p)
{
    if (p->state == SCALE_ASLEEP || p->state == SCALE_SPINS || p->state == SCALE_WAKES)
        return w->now;
    int64_t polls = (w->now - p->began) / p->poll_gap + 1;
    int64_t at = p->began + polls * p->poll_gap;
    return (at < p->at ? at : p->at) + p->delay;
}

/* Asks all procs; the driver goes on at `step`. each: what an answer holds its proc up for. */
static void handshake(struct scale_world *w, enum scale_step step, double each)
{
    double own = w->opt->machine.handshake_ns;
    int64_t last = w->now;
    for (int i = 0; i < w->procs; i++) {
        struct scale_proc *p = &w->proc[i];
        int64_t at = answers_at(w, p);
        if (at > last)
            last = at;
        if (p->state == SCALE_RUNS || p->state == SCALE_SLICE || p->state == SCALE_IDLE_MARKS ||
            p->state == SCALE_ASSISTS) {
            p->delay += (int64_t)(own + each);
            scale_hold(w, (int64_t)(own + each));
        }
    }
    last += (int64_t)(own + each);
    if (w->measuring)
        hg_histogram_add(&w->handshake, last - w->now);
    w->step = step;
    w->driver_at =
        last + (last - w->now > (int64_t)(own + each) ? scale_wake_ns(w, DRIVER_SLEPT) : 0);
}

/* Go: nobody runs for a moment. */
static void stop_world(struct scale_world *w, enum scale_step step)
{
    int64_t ns = w->profile->pause_ns;
    for (int i = 0; i < w->procs; i++)
        w->proc[i].delay += ns;
    scale_hold(w, ns);
    w->step = step;
    w->driver_at = w->now + ns;
}

static void begin_cycle(struct scale_world *w)
{
    if (w->unswept_ns > 0) { /* the driver sweeps what is left itself */
        w->driver_at = w->now + w->unswept_ns;
        w->sums.sweep += w->unswept_ns;
        w->unswept_ns = 0;
        return;
    }
    w->phase = SCALE_ROOTS;
    w->triggered = false;
    w->cycle++;
    scale_pace_start(w);
    if (w->profile->go)
        stop_world(w, SCALE_SCANNED);
    else
        handshake(w, SCALE_NOP1, 0);
}

static void begin_marking(struct scale_world *w)
{
    w->phase = SCALE_MARK;
    w->step = SCALE_MARKS;
    w->driver_at = SCALE_NEVER;
    w->work_left = w->scan_heap;
    w->stack_cursor = 0;
    scale_pace_scanned(w);
    for (int i = 0; i < w->procs; i++)
        w->proc[i].credit = w->proc[i].debt = 0;
    if (w->profile->go)
        scale_go_mark_begins(w);
    scale_wake_all(w);
}

static void end_marking(struct scale_world *w)
{
    scale_pace_end(w);
    w->phase = SCALE_OFF;
    if (w->profile->go)
        scale_go_mark_ends(w);
}

static void begin_sweeping(struct scale_world *w)
{
    w->unswept_ns = (int64_t)((double)w->swept_heap * w->sweep_per_byte);
    w->step = SCALE_RESTS;
    w->driver_at = SCALE_NEVER;
    scale_wake_all(w);
    scale_grew(w, 0);
}

void scale_driver_event(struct scale_world *w)
{
    double stack = w->switch_in_ns;
    switch (w->step) {
    case SCALE_RESTS:
        w->driver_at = SCALE_NEVER;
        return;
    case SCALE_BEGIN:
        begin_cycle(w);
        return;
    case SCALE_NOP1:
        handshake(w, SCALE_NOP2, 0);
        return;
    case SCALE_NOP2:
        handshake(w, SCALE_SCANNED, stack);
        return;
    case SCALE_SCANNED:
        begin_marking(w);
        return;
    case SCALE_MARKS:
        w->driver_at = SCALE_NEVER;
        return;
    case SCALE_QUIET:
        if (w->profile->go)
            stop_world(w, SCALE_OFFED);
        else
            handshake(w, SCALE_FLUSHED, 0);
        return;
    case SCALE_FLUSHED:
        handshake(w, SCALE_OFFED, 0);
        return;
    case SCALE_OFFED:
        end_marking(w);
        if (w->profile->go)
            begin_sweeping(w);
        else
            handshake(w, SCALE_RESET, 0);
        return;
    case SCALE_RESET:
        begin_sweeping(w);
        return;
    }
}

void scale_look_quiet(struct scale_world *w)
{
    if (w->step != SCALE_MARKS || scale_work_there(w) || w->working > 0)
        return;
    w->step = SCALE_QUIET;
    w->driver_at = w->now + scale_wake_ns(w, DRIVER_SLEPT);
}

void scale_grew(struct scale_world *w, int64_t bytes)
{
    w->heap_live += bytes;
    if (w->heap_live > w->peak)
        w->peak = w->heap_live;
    if (!w->gc || w->heap_live < w->trigger || w->step != SCALE_RESTS)
        return;
    if (w->limited && !w->profile->go)
        return;
    w->triggered = true;
    w->step = SCALE_BEGIN;
    w->driver_at = w->now + scale_wake_ns(w, DRIVER_SLEPT);
}

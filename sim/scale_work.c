/* scale_work.c: hedge's marking and sweeping by procs, as runtime/gc/work.c does it: slices of the
 * background share between tasks and within long ones, idle marking, assists bounded in time,
 * credit, waits at the hard limit, switch-in scans that are paid out of the share, sweeping in
 * proportion. Go's sweeping is here too; its marking is in scale_go.c.
 *
 * The pool. What there is to mark is a number of bytes and a number of stacks; stacks come first,
 * in the order of the registry. Work taken is at once gone from the pool, and counts as done at the
 * end of the event that it belongs to.
 */
#include "sim/memory.h"
#include "sim/scale_world.h"
#include <math.h>

/* ---- the pool ---- */

bool scale_work_there(const struct scale_world *w)
{
    return w->work_left > 0 || w->stack_cursor < w->tasks;
}

static int64_t take_stacks(struct scale_world *w, struct scale_proc *p, int64_t ns, int64_t bytes)
{
    const struct scale_machine *m = &w->opt->machine;
    double took = 0, got = 0;
    while (w->stack_cursor < w->tasks && took < (double)ns && got < (double)bytes) {
        struct scale_task *t = &w->task[w->stack_cursor++];
        if (t->scanned == w->cycle)
            continue;
        t->scanned = w->cycle;
        took += w->stack_ns;
        got += m->stack_bytes;
    }
    p->stacks_taken += (int64_t)got;
    return (int64_t)took;
}

int64_t scale_work_take(struct scale_world *w, struct scale_proc *p, double rate, int64_t ns,
                        int64_t bytes)
{
    bool at_it = p->heap_taken + p->stacks_taken > 0;
    int64_t before = p->stacks_taken;
    int64_t took = take_stacks(w, p, ns, bytes);
    int64_t more = (int64_t)((double)(ns - took) * rate), most = bytes - (p->stacks_taken - before);
    if (more > most)
        more = most;
    if (more > w->work_left)
        more = w->work_left;
    if (more > 0) {
        w->work_left -= more;
        p->heap_taken += more;
        took += (int64_t)ceil((double)more / rate);
    }
    if (!at_it && p->heap_taken + p->stacks_taken > 0)
        w->working++;
    return took;
}

int64_t scale_work_done(struct scale_world *w, struct scale_proc *p)
{
    int64_t bytes = p->heap_taken + p->stacks_taken;
    if (bytes == 0)
        return 0;
    w->sums.scanned_heap += p->heap_taken;
    w->sums.scanned_stack += p->stacks_taken;
    p->heap_taken = p->stacks_taken = 0;
    w->working--;
    scale_look_quiet(w);
    return bytes;
}

/* ---- slices ---- */

static int64_t after_slice(const struct scale_world *w, int64_t end, int64_t took)
{
    return end + (int64_t)((double)took * (1 - w->u) / w->u);
}

void scale_sweep(struct scale_world *w, int64_t ns)
{
    w->unswept_ns -= ns < w->unswept_ns ? ns : w->unswept_ns;
    w->sums.sweep += ns;
    scale_look_quiet(w);
}

static int64_t sweep_slice(struct scale_world *w, struct scale_proc *p, bool idle)
{
    const struct scale_profile *f = w->profile;
    int64_t ns = idle ? f->idle_look_ns : f->slice_ns;
    if (w->phase != SCALE_OFF || w->unswept_ns == 0)
        return 0;
    if (ns > w->unswept_ns)
        ns = w->unswept_ns;
    scale_sweep(w, ns);
    if (!idle)
        scale_hold(w, ns);
    p->next_slice_at = after_slice(w, w->now + ns, ns);
    return ns;
}

int64_t scale_background(struct scale_world *w, struct scale_proc *p, bool idle)
{
    const struct scale_profile *f = w->profile;
    bool mark = w->phase == SCALE_MARK && scale_work_there(w);
    if (!mark && w->unswept_ns == 0)
        return 0;
    if (!idle && w->now < p->next_slice_at)
        return 0;
    if (!mark)
        return sweep_slice(w, p, idle);
    int64_t ns = scale_work_take(w, p, w->rate, idle ? f->idle_look_ns : f->slice_ns, INT64_MAX);
    if (!idle && ns > 0)
        p->next_slice_at = after_slice(w, w->now + ns, ns);
    return ns;
}

/* Slices that fall due within a stage of p's task. */
static int64_t slices_within(struct scale_world *w, struct scale_proc *p, int64_t length)
{
    int64_t end = w->now + length, held = 0;
    while (p->next_slice_at < end + held && scale_work_there(w)) {
        int64_t ns = scale_work_take(w, p, w->rate, w->profile->slice_ns, INT64_MAX);
        int64_t from = p->next_slice_at > w->now ? p->next_slice_at : w->now;
        if (ns == 0)
            break;
        p->next_slice_at = after_slice(w, from + ns, ns);
        w->sums.background += ns;
        scale_hold(w, ns);
        held += ns;
    }
    return held;
}

void scale_scan_task(struct scale_world *w, struct scale_proc *p, uint32_t t, int64_t *ns)
{
    if (w->task[t].scanned == w->cycle)
        return;
    int64_t took = (int64_t)w->switch_in_ns;
    w->task[t].scanned = w->cycle;
    w->sums.scan += took;
    w->sums.scanned_stack += (int64_t)w->opt->machine.stack_bytes;
    p->next_slice_at += 3 * took;
    scale_hold(w, took);
    *ns += took;
}

/* ---- allocation ---- */

static void pay_from_credit(struct scale_world *w, struct scale_proc *p)
{
    int64_t own = p->credit < p->debt ? p->credit : p->debt;
    p->credit -= own;
    p->debt -= own;
    int64_t got = w->credit < p->debt ? w->credit : p->debt;
    w->credit -= got;
    p->debt -= got;
}

static int64_t charge(struct scale_world *w, struct scale_proc *p, int64_t grown)
{
    if (w->assist_ratio <= 0 || !w->opt->assist || w->limited) {
        p->debt = 0;
        return 0;
    }
    p->debt += (int64_t)((double)grown * w->assist_ratio);
    pay_from_credit(w, p);
    if (p->debt <= 0)
        return 0;
    int64_t before = p->heap_taken + p->stacks_taken;
    int64_t ns = scale_work_take(w, p, w->rate, w->profile->assist_ns, p->debt);
    int64_t bytes = p->heap_taken + p->stacks_taken - before;
    p->debt = bytes == 0 || bytes >= p->debt ? 0 : p->debt - bytes;
    if (ns > 0) {
        w->sums.assist += ns;
        scale_hold(w, ns);
        if (w->measuring) {
            w->assists++;
            hg_histogram_add(&w->assist, ns);
        }
    }
    return ns;
}

/* Pages left over bytes left until the next cycle; hedge stops after a slice. */
static int64_t sweep_in_proportion(struct scale_world *w, int64_t grown)
{
    int64_t left = w->trigger - w->heap_live;
    if (w->unswept_ns == 0 || w->trigger == HG_PACER_NO_GOAL)
        return 0;
    if (left < grown)
        left = grown;
    int64_t ns = (int64_t)((double)w->unswept_ns * (double)grown / (double)left) + 1;
    if (!w->profile->go && ns > w->profile->slice_ns)
        ns = w->profile->slice_ns;
    if (ns > w->unswept_ns)
        ns = w->unswept_ns;
    scale_sweep(w, ns);
    scale_hold(w, ns);
    return ns;
}

static bool must_wait(const struct scale_world *w)
{
    int64_t limit = w->opt->load.limit;
    if (w->profile->go || w->limited)
        return false;
    if (w->phase == SCALE_OFF)
        return w->opt->assist && w->triggered && w->heap_live > w->hard_by_goal;
    if (w->opt->assist)
        return w->heap_live > w->hard;
    return limit != INT64_MAX && w->heap_live > limit - w->overhead;
}

static void wait_at_hard_limit(struct scale_world *w, uint32_t t)
{
    if (w->wait_until == NULL)
        w->wait_until = sim_alloc(w->tasks, sizeof *w->wait_until);
    w->wait_until[t] = w->now + w->profile->wait_ns;
    scale_list_push_task(w, &w->waits, t);
}

void scale_waits_over(struct scale_world *w)
{
    while (w->waits.n > 0 && w->wait_until[w->waits.first] <= w->now)
        scale_ready(w, NULL, scale_list_pop_task(w, &w->waits));
}

int64_t scale_allocated(struct scale_world *w, struct scale_proc *p, uint32_t t, int64_t bytes,
                        int64_t length)
{
    int64_t held = 0, grown = 0;
    w->sums.alloc += bytes;
    p->pending += bytes;
    if (p->pending >= SCALE_GROWTH_STEP) {
        grown = p->pending;
        p->pending = 0;
        scale_grew(w, grown);
    }
    if (!w->gc)
        return 0;
    if (w->phase == SCALE_MARK && w->profile->go)
        return w->opt->assist && !w->limited ? scale_go_assist(w, p, t, bytes) : 0;
    if (w->phase == SCALE_MARK)
        held = slices_within(w, p, length);
    if (grown > 0)
        held += w->phase != SCALE_OFF ? charge(w, p, grown) : sweep_in_proportion(w, grown);
    if (must_wait(w)) {
        p->delay += held;
        wait_at_hard_limit(w, t);
        return -1;
    }
    return held;
}

/* pace.c: between the runtime's counters and the pure pacer.
 *
 * The pacer (pacer/pacer.h) decides; this file measures and publishes. Lock PACER guards the pacer,
 * the sums and the history; what slow paths need of a plan is published in single words: trigger,
 * goal, hard, assist_ratio, share. They are hints read relaxed: acting on one that is a moment old
 * is harmless.
 *
 * CPU time of mutators is what the process used less what the collector's accounts say it used
 * itself.
 */
#include "runtime/gc/gc.h"
#include "runtime/trace/trace.h"
#include <errno.h>
#include <string.h>

void hg__gc_sums(struct hg_gc *g, struct hg_gc_sums *out)
{
    memset(out, 0, sizeof *out);
    struct hg_world *w = g->world;
    hg__lock(&w->lock);
    for (struct hg_list *l = w->mutators.next; l != &w->mutators; l = l->next) {
        struct hg_mut_stats *s = &hg_container_of(l, struct hg_mutator, link)->stats;
        out->alloc += (int64_t)hg_load_rlx(&s->alloc_bytes);
        out->background += hg_load_rlx(&s->background_ns);
        out->idle += hg_load_rlx(&s->idle_ns);
        out->assist += hg_load_rlx(&s->assist_ns);
        out->sweep += hg_load_rlx(&s->sweep_ns);
        out->scan += hg_load_rlx(&s->scan_ns);
        out->scanned_heap += hg_load_rlx(&s->scanned_heap);
        out->scanned_stack += hg_load_rlx(&s->scanned_stack);
        out->marked += hg_load_rlx(&s->marked_bytes);
    }
    hg__unlock(&w->lock);
    struct hg_mut_stats *sink = &g->sink->stats;
    out->scanned_stack += hg_load_rlx(&sink->scanned_stack);
    out->marked += hg_load_rlx(&sink->marked_bytes);
    out->process_cpu = hg__os_process_cpu();
}

static struct hg_pacer_memory memory_now(struct hg_gc *g)
{
    struct hg_heap *h = g->world->heap;
    struct hg_pacer_memory m;
    m.mapped = hg_load_rlx(&h->mapped_bytes);
    m.overhead = hg_load_rlx(&g->sched->stack_bytes_used) +
                 (int64_t)hg__meta_bytes(g->world->meta) + hg_load_rlx(&h->span_bytes) -
                 hg_load_rlx(&g->heap_live) + hg_load_rlx(&g->external);
    if (m.overhead < 0)
        m.overhead = 0;
    return m;
}

static void publish_locked(struct hg_gc *g)
{
    const struct hg_pacer_plan *plan = &g->pacer.plan;
    hg_store_rlx(&g->goal, plan->goal);
    hg_store_rlx(&g->hard, plan->hard);
    hg_store_rlx(&g->hard_by_goal, plan->hard_by_goal);
    hg_store_rlx(&g->trigger, plan->trigger);
    hg_store_rlx(&g->share, (uint32_t)(plan->u * 65536));
}

void hg__pace_replan(struct hg_gc *g)
{
    struct hg_pacer_memory mem = memory_now(g);
    hg__lock(&g->pacer_lock);
    hg__pacer_plan(&g->pacer, &mem);
    publish_locked(g);
    hg__unlock(&g->pacer_lock);
    hg__pace_grew(g, 0);
}

int hg__pace_init(struct hg_gc *g, const struct hg_pacer_config *c)
{
    hg__lock_init(&g->pacer_lock, HG_RANK_PACER);
    hg__pacer_init(&g->pacer, c);
    g->cycles = hg__meta_alloc(g->world->meta, HG_CYCLES_KEPT * sizeof *g->cycles);
    if (g->cycles == NULL)
        return -ENOMEM;
    g->opened_at = hg__os_now();
    g->window.began = g->window.seen = g->opened_at;
    g->window.cpu = hg__os_process_cpu();
    hg_store_rlx(&g->last_end, g->opened_at);
    hg__pace_replan(g);
    return 0;
}

void hg__pace_grew(struct hg_gc *g, int64_t bytes)
{
    int64_t live = hg_add_rlx(&g->heap_live, bytes) + bytes;
    if (live < hg_load_rlx(&g->trigger) || hg_load_rlx(&g->triggered) != 0 ||
        hg__phase(g->world) != HG_PHASE_OFF)
        return;
    if (hg_load_rlx(&g->limited) != 0)
        return; /* the limiter holds cycles apart; its next update looks again */
    uint32_t no = 0;
    if (hg_cas_acqrel(&g->triggered, &no, 1u))
        hg__gc_wake_driver(g);
}

void hg__pace_cycle_start(struct hg_gc *g)
{
    struct hg_gc_sums sums;
    hg__gc_sums(g, &sums);
    int64_t now = hg__os_now();
    hg__lock(&g->pacer_lock);
    g->at_start = sums;
    g->calm = false;
    g->late_at_start = g->world->late_ns;
    memset(&g->now, 0, sizeof g->now);
    g->now.number = hg_load_rlx(&g->world->cycle);
    g->now.start_ns = now;
    g->now.heap_at_start = (uint64_t)hg_load_rlx(&g->heap_live);
    g->now.goal = (uint64_t)g->pacer.plan.goal;
    g->now.trigger = (uint64_t)g->pacer.plan.trigger;
    g->now.forced = g->forced;
    hg_store_rlx(&g->credit, hg__pacer_starting_credit(&g->pacer));
    g->scannable_at_trigger = g->pacer.last.scanned_heap + (int64_t)g->now.heap_at_start -
                              g->pacer.last.marked + hg__stack_scannable(g->sched) +
                              hg_load_rlx(&g->roots.bytes);
    hg__unlock(&g->pacer_lock);
    hg_store_rlx(&g->assist_ratio, 0u);
}

void hg__pace_scanned(struct hg_gc *g)
{
    struct hg_gc_sums sums;
    hg__gc_sums(g, &sums);
    int64_t now = hg__os_now();
    hg__lock(&g->pacer_lock);
    g->alloc_at_scan = sums.alloc;
    g->now.mark_ns = now;
    hg__unlock(&g->pacer_lock);
}

/* Scan work and times of the running cycle. */
static void measure(struct hg_gc *g, const struct hg_gc_sums *now, struct hg_pacer_cycle *c)
{
    const struct hg_gc_sums *start = &g->at_start;
    c->scanned_heap = now->scanned_heap - start->scanned_heap;
    c->scanned_stack = now->scanned_stack - start->scanned_stack;
    c->scanned_roots = g->scanned_roots;
    c->alloc_bytes = now->alloc - start->alloc;
    c->assist_ns = now->assist - start->assist;
    c->background_ns = now->background - start->background + (now->scan - start->scan);
    c->idle_ns = now->idle - start->idle;
    c->procs = g->sched->nprocs;
    int64_t gc = c->assist_ns + c->background_ns + c->idle_ns;
    c->mutator_ns = now->process_cpu - start->process_cpu - gc;
    if (c->mutator_ns < 0)
        c->mutator_ns = 0;
}

static void remember_locked(struct hg_gc *g, const struct hg_pacer_cycle *c)
{
    struct hg_cycle *n = &g->now;
    n->heap_at_end = (uint64_t)c->heap_at_end;
    n->heap_marked = (uint64_t)c->marked;
    n->scanned_heap = (uint64_t)c->scanned_heap;
    n->scanned_stack = (uint64_t)c->scanned_stack;
    n->scanned_roots = (uint64_t)c->scanned_roots;
    n->assist_ns = c->assist_ns;
    n->background_ns = c->background_ns;
    n->idle_ns = c->idle_ns;
    n->late_ns = g->world->late_ns - g->late_at_start;
    g->mark_wall += c->mark_wall_ns;
    g->cycle_wall += c->cycle_wall_ns;
    g->gc_cpu += c->assist_ns + c->background_ns + c->idle_ns;
    if (c->heap_at_end > g->peak)
        g->peak = c->heap_at_end;
    if (n->forced)
        g->forced_count++;
    if ((int64_t)n->goal != HG_PACER_NO_GOAL && n->goal != 0 && !n->forced) {
        double over = (double)c->heap_at_end / (double)n->goal;
        if (over > 1)
            g->overshoot_count++;
        if (over > g->worst_over_goal)
            g->worst_over_goal = over;
    }
    g->cycles[g->cycle_count++ % HG_CYCLES_KEPT] = *n;
}

/* Replaces what was counted as live by what was found live, and keeps what others add meanwhile. */
static void settle_heap_live(struct hg_gc *g, int64_t at_end, int64_t marked)
{
    hg_add_rlx(&g->heap_live, marked + hg_load_rlx(&g->external) - at_end);
}

void hg__pace_cycle_end(struct hg_gc *g)
{
    struct hg_gc_sums now;
    hg__gc_sums(g, &now);
    struct hg_pacer_cycle c = {0};
    int64_t end = hg__os_now();
    struct hg_pacer_memory mem = memory_now(g);
    hg__lock(&g->pacer_lock);
    measure(g, &now, &c);
    c.heap_at_start = (int64_t)g->now.heap_at_start;
    c.heap_at_end = hg_load_rlx(&g->heap_live);
    c.marked = now.marked - g->at_start.marked + (now.alloc - g->alloc_at_scan);
    c.stack_bytes = hg__stack_scannable(g->sched);
    c.root_bytes = hg_load_rlx(&g->roots.bytes);
    c.mark_wall_ns = end - g->now.mark_ns;
    c.cycle_wall_ns = end - g->now.start_ns;
    c.quiet_ns = g->now.mark_ns - g->now.start_ns;
    c.forced = g->forced;
    g->now.end_ns = end;
    remember_locked(g, &c);
    settle_heap_live(g, c.heap_at_end, c.marked);
    double expected = g->pacer.plan.cons_mark;
    int64_t expected_work = g->pacer.plan.work;
    hg__pacer_cycle_end(&g->pacer, &c, &mem);
    publish_locked(g);
    g->at_end = now;
    g->calm = true;
    struct hg_pacer_plan plan = g->pacer.plan;
    hg__unlock(&g->pacer_lock);
    hg_store_rlx(&g->assist_ratio, 0u);
    hg_store_rlx(&g->last_end, end);
    if (g->trace_pacer)
        hg__trace_pacer(&c, &plan, expected, expected_work);
}

/* ---- between cycles ---- */

/* Tells a policy that looks ahead what was allocated since the last cycle, and in how much CPU time
 * of mutators: it may move the trigger. */
static void observe(struct hg_gc *g, const struct hg_gc_sums *now)
{
    const struct hg_gc_sums *end = &g->at_end;
    bool moved = false;
    hg__lock(&g->pacer_lock);
    if (g->calm && hg__pacer_looks_ahead(&g->pacer)) {
        struct hg_pacer_memory mem = memory_now(g);
        int64_t gc = now->background - end->background + (now->idle - end->idle) +
                     (now->assist - end->assist) + (now->scan - end->scan) +
                     (now->sweep - end->sweep);
        moved = hg__pacer_observe(&g->pacer, now->alloc - end->alloc,
                                  now->process_cpu - end->process_cpu - gc, &mem);
        if (moved)
            publish_locked(g);
    }
    hg__unlock(&g->pacer_lock);
    if (moved)
        hg__pace_grew(g, 0);
}

/* ---- while it marks ---- */

static double busy_share(const struct hg_pacer_cycle *c, int64_t elapsed)
{
    double there = (double)elapsed * c->procs;
    double busy = there > 0 ? (double)c->mutator_ns / there : 1;
    return busy < 0 ? 0 : busy > 1 ? 1 : busy;
}

static void revise(struct hg_gc *g, const struct hg_gc_sums *sums, int64_t now)
{
    struct hg_pacer_cycle c = {0};
    hg__lock(&g->pacer_lock);
    measure(g, sums, &c);
    struct hg_pacer_progress p = {
        .heap_live = hg_load_rlx(&g->heap_live),
        .scanned = c.scanned_heap + c.scanned_stack + c.scanned_roots,
        .background_ns = c.background_ns,
        .idle_ns = c.idle_ns,
        .assist_ns = c.assist_ns,
        .scannable_at_trigger = g->scannable_at_trigger,
        .elapsed_ns = now - g->now.mark_ns,
        .alloc_since_mark = sums->alloc - g->alloc_at_scan,
        .procs = c.procs,
        .busy = busy_share(&c, now - g->now.start_ns),
    };
    struct hg_pacer_assist a = hg__pacer_revise(&g->pacer, &p, hg_load_rlx(&g->assist_on) != 0);
    hg__unlock(&g->pacer_lock);
    double ratio = a.ratio * 65536;
    hg_store_rlx(&g->assist_ratio, ratio > 1e15 ? (uint64_t)1e15 : (uint64_t)ratio);
    hg_store_rlx(&g->share, (uint32_t)(a.u * 65536));
}

/* Asks procs whose task has not come by for a slice that is overdue. */
static void ask_for_slices(struct hg_gc *g, int64_t now)
{
    for (int i = 0; i < g->sched->nprocs; i++) {
        struct hg_mutator *m = &g->sched->procs[i]->mut;
        if (HG_MUT_STATE(hg_load_rlx(&m->state)) == HG_MUT_RUNNING &&
            now > hg_load_rlx(&m->next_slice_at) + HG_SLICE_NS)
            hg_or_sc(&m->attention, HG_ATTENTION_SLICE);
    }
}

static void tell_limit(struct hg_gc *g)
{
    int64_t limit = g->pacer.config.memory_limit;
    if (limit == INT64_MAX || g->limit_passed == NULL)
        return;
    int64_t held = hg_load_rlx(&g->world->heap->mapped_bytes) + hg_load_rlx(&g->external) +
                   (int64_t)hg__meta_bytes(g->world->meta) +
                   hg_load_rlx(&g->sched->stack_bytes_used);
    if (held <= limit - limit / 16)
        hg_store_rlx(&g->limit_told, 0u); /* back below: tell again the next time */
    uint32_t no = 0;
    if (held > limit && hg_cas_acqrel(&g->limit_told, &no, 1u))
        g->limit_passed(g->user, held);
}

/* ---- the limiter ---- */

/* Procs whose threads sleep because they have nothing to run and nothing to mark. */
static int asleep(const struct hg_gc *g)
{
    int n = 0;
    for (int i = 0; i < g->sched->nprocs; i++) {
        struct hg_proc *p = g->sched->procs[i];
        n += hg_load_rlx(&p->idle) != 0 &&
             HG_MUT_STATE(hg_load_rlx(&p->mut.state)) == HG_MUT_BLOCKED;
    }
    return n;
}

/* CPU time that there was for tasks and collector in a window of `wall` ns: its CPUs, as far as the
 * machine had them to give. What it had to give is seen from the procs that were awake: `used` is
 * what they got, and they could have used `asked`, if there are CPUs for so many. Those asleep are
 * taken to have got as much, had they asked. On a machine that is busy with other things this is
 * much less than all of the CPUs, and GC at half of all would be GC alone. */
static int64_t available_cpu(const struct hg_gc *g, int64_t wall, int64_t used, int64_t idle)
{
    double all = (double)(wall * g->cpus), asked = (double)(wall * g->sched->nprocs - idle);
    if (asked > all)
        asked = all;
    return (double)used < asked ? (int64_t)(all * (double)used / asked) : (int64_t)all;
}

/* A window is over. Returns whether GC is to be held back. */
static bool end_window_locked(struct hg_gc *g, const struct hg_gc_sums *s, int64_t now)
{
    struct hg_gc_window *w = &g->window;
    int64_t wall = now - w->began, gc = s->background + s->idle + s->assist + s->scan;
    int64_t available = available_cpu(g, wall, s->process_cpu - w->cpu, w->idle_ns);
    if (g->holding)
        g->limiter_ns += wall;
    g->holding = hg__pacer_limiter_update(&g->pacer, available, gc - w->gc) &&
                 g->pacer.config.memory_limit != INT64_MAX;
    *w = (struct hg_gc_window){.began = now, .gc = gc, .cpu = s->process_cpu, .seen = now};
    return g->holding;
}

void hg__pace_limiter(struct hg_gc *g, const struct hg_gc_sums *sums, int64_t now)
{
    struct hg_gc_window *w = &g->window;
    int idle = asleep(g);
    hg__lock(&g->pacer_lock);
    if (now > w->seen) {
        w->idle_ns += (now - w->seen) * idle;
        w->seen = now;
    }
    if (now - w->began < HG_LIMITER_NS) {
        hg__unlock(&g->pacer_lock);
        return;
    }
    bool was = g->holding, on = end_window_locked(g, sums, now);
    hg_store_rlx(&g->limited, on);
    hg__unlock(&g->pacer_lock);
    if (was && !on)
        hg__gc_wake_driver(g); /* for what refused allocations wait for, and */
    hg__pace_grew(g, 0);       /* a trigger that was passed meanwhile */
}

void hg__pace_tick(void *gc, int64_t now)
{
    struct hg_gc *g = gc;
    struct hg_gc_sums sums;
    hg__gc_sums(g, &sums);
    hg__pace_limiter(g, &sums, now);
    tell_limit(g);
    if (hg__phase(g->world) != HG_PHASE_MARK) {
        observe(g, &sums);
        return;
    }
    revise(g, &sums, now);
    ask_for_slices(g, now);
}

/* scale_pace.c: between the counters of a simulated run and the real pacer (pacer/pacer.h): a cycle
 * is measured, and the running one revised, from the same quantities as in runtime/gc/pace.c. Go's
 * profiles take the goal and the runway from the same pacer, and have their own limits of the
 * trigger and their own assist ratio.
 *
 * Under a memory limit the pages that are mapped when it plans are the heap at the end of marking:
 * what lies free beyond is given back near a limit. Beside them it covers the stacks, in whole
 * pages, as both runtimes count theirs; their own data is left out. Both runtimes' limiters hold
 * assists back, hedge's new cycles too. */
#include "sim/scale_world.h"
#include <math.h>
#include <string.h>

#define PAGE_BYTES     4096.0
#define LIMITER_WINDOW INT64_C(10000000) /* as in runtime/gc/pace.c */

static void publish(struct scale_world *w)
{
    const struct hg_pacer_plan *plan = &w->pacer.plan;
    w->goal = plan->goal;
    w->hard = plan->hard;
    w->hard_by_goal = plan->hard_by_goal;
    w->trigger = plan->trigger;
    w->u = plan->u;
    if (w->profile->go && plan->goal != HG_PACER_NO_GOAL)
        w->trigger = scale_go_trigger(w, plan);
}

static int64_t stack_bytes(const struct scale_world *w)
{
    return (int64_t)((double)w->tasks * w->opt->machine.stack_bytes);
}

static struct hg_pacer_memory memory_of(const struct scale_world *w, int64_t heap)
{
    return (struct hg_pacer_memory){.mapped = heap, .overhead = w->overhead};
}

/* Starts from a heap that was collected with nobody running, as kv does. */
void scale_pace_init(struct scale_world *w, const char *policy)
{
    struct hg_pacer_config c = {.gc_percent = w->opt->load.gogc,
                                .memory_limit = w->opt->load.limit};
    char why[160];
    if (policy == NULL || hg__policy_parse(policy, &c.policy, why, sizeof why) != 0)
        c.gc_percent = -1; /* the floor */
    w->overhead = (int64_t)(w->tasks * PAGE_BYTES * ceil(w->opt->machine.stack_bytes / PAGE_BYTES));
    hg__pacer_init(&w->pacer, &c);
    struct hg_pacer_memory mem = memory_of(w, w->heap_live);
    struct hg_pacer_cycle m = {.heap_at_start = w->heap_live,
                               .heap_at_end = w->heap_live,
                               .marked = w->heap_live,
                               .scanned_heap = w->scan_heap,
                               .scanned_stack = stack_bytes(w),
                               .stack_bytes = stack_bytes(w),
                               .procs = w->procs,
                               .forced = true};
    hg__pacer_cycle_end(&w->pacer, &m, &mem);
    publish(w);
}

static double noise_of(struct scale_world *w)
{
    double r = (double)(sim_rng_next(&w->rng) >> 11) / 9007199254740992.0;
    return 1 + w->opt->noise * (2 * r - 1);
}

void scale_pace_start(struct scale_world *w)
{
    w->at_start = w->sums;
    w->start_ns = w->now;
    w->heap_at_start = w->heap_live;
    w->cycle_goal = (double)w->goal;
    w->credit = w->profile->go ? 0 : hg__pacer_starting_credit(&w->pacer);
    w->assist_ratio = 0;
    w->scannable =
        w->pacer.last.scanned_heap + w->heap_live - w->pacer.last.marked + stack_bytes(w);
    double slower = scale_memory_factor(w->opt) * scale_crowd_factor(w->opt);
    double factor = w->profile->mark_factor * noise_of(w) / slower;
    w->rate = w->opt->machine.mark_rate * factor;
}

/* Scan work and times of the running cycle. */
static struct hg_pacer_cycle measure(const struct scale_world *w)
{
    const struct scale_sums *s = &w->sums, *from = &w->at_start;
    struct hg_pacer_cycle c = {
        .heap_at_start = w->heap_at_start,
        .heap_at_end = w->heap_live,
        .scanned_heap = s->scanned_heap - from->scanned_heap,
        .scanned_stack = s->scanned_stack - from->scanned_stack,
        .stack_bytes = stack_bytes(w),
        .alloc_bytes = s->alloc - from->alloc,
        .assist_ns = s->assist - from->assist,
        .background_ns = s->background - from->background + s->scan - from->scan,
        .idle_ns = s->idle - from->idle,
        .mutator_ns = s->work - from->work + s->sweep - from->sweep,
        .procs = w->procs,
    };
    return c;
}

/* Go: the work that is left over the way to the goal, whether or not workers are on schedule. */
static double go_ratio(const struct scale_world *w, int64_t scanned)
{
    int64_t left = w->pacer.plan.work - scanned, way = w->goal - w->heap_live;
    if (left < 1000)
        left = 1000;
    if (way <= 0) { /* past the goal it extrapolates to a tenth above it */
        way = w->goal / 10 + way;
        left = w->scannable - scanned;
    }
    return (double)left / (double)(way > 1 ? way : 1);
}

void scale_pace_scanned(struct scale_world *w)
{
    w->alloc_at_scan = w->sums.alloc;
    w->mark_ns = w->now;
    if (w->profile->go && w->goal != HG_PACER_NO_GOAL)
        w->assist_ratio = go_ratio(w, 0);
}

/* As kv's table of cycles (kv_files.c); a simulated cycle is never forced. */
static void add_row(struct scale_world *w, const struct hg_pacer_cycle *c)
{
    double row[KV_CYCLE_COLUMNS] = {w->cycle,
                                    (double)(w->start_ns - w->begin) / 1e9,
                                    (double)(w->mark_ns - w->begin) / 1e9,
                                    (double)(w->now - w->begin) / 1e9,
                                    (double)NAN,
                                    (double)c->heap_at_start,
                                    (double)c->heap_at_end,
                                    (double)c->marked,
                                    w->cycle_goal,
                                    (double)w->trigger,
                                    (double)c->scanned_heap,
                                    (double)c->scanned_stack,
                                    0,
                                    (double)c->assist_ns,
                                    (double)c->background_ns,
                                    (double)c->idle_ns,
                                    0};
    kv_table_row(&w->rows, KV_CYCLE_COLUMNS, row);
}

static void remember(struct scale_world *w, const struct hg_pacer_cycle *c)
{
    double over = (double)c->heap_at_end / w->cycle_goal;
    w->live_marked = c->marked;
    w->swept_heap = c->heap_at_end;
    if (!w->measuring)
        return;
    w->cycles++;
    if (w->opt->load.report != NULL)
        add_row(w, c);
    w->overshoots += over > 1;
    if (over > w->over_goal)
        w->over_goal = over;
    sim_hist_delta(&w->scratch, &w->latency, &w->block_start);
    sim_blocks_add(&w->blocks, &w->scratch);
    w->block_start = w->latency;
}

void scale_pace_end(struct scale_world *w)
{
    struct hg_pacer_cycle c = measure(w);
    struct hg_pacer_memory mem = memory_of(w, c.heap_at_end);
    c.marked = (int64_t)scale_live_heap(w->opt) + w->sums.alloc - w->alloc_at_scan;
    c.mark_wall_ns = w->now - w->mark_ns;
    c.cycle_wall_ns = w->now - w->start_ns;
    c.quiet_ns = w->mark_ns - w->start_ns;
    remember(w, &c);
    w->books.freed += w->heap_live - c.marked;
    w->heap_live = c.marked;
    w->assist_ratio = 0;
    hg__pacer_cycle_end(&w->pacer, &c, &mem);
    publish(w);
}

static void revise(struct scale_world *w)
{
    struct hg_pacer_cycle c = measure(w);
    int64_t scanned = c.scanned_heap + c.scanned_stack;
    if (w->profile->go) {
        if (w->goal != HG_PACER_NO_GOAL)
            w->assist_ratio = go_ratio(w, scanned);
        return;
    }
    double there = (double)(w->now - w->start_ns) * w->procs;
    double busy = there > 0 ? (double)c.mutator_ns / there : 1;
    struct hg_pacer_progress p = {
        .heap_live = w->heap_live,
        .scanned = scanned,
        .background_ns = c.background_ns,
        .idle_ns = c.idle_ns,
        .assist_ns = c.assist_ns,
        .scannable_at_trigger = w->scannable,
        .elapsed_ns = w->now - w->mark_ns,
        .alloc_since_mark = w->sums.alloc - w->alloc_at_scan,
        .procs = w->procs,
        .busy = busy > 1 ? 1 : busy,
    };
    struct hg_pacer_assist a = hg__pacer_revise(&w->pacer, &p, w->opt->assist);
    w->assist_ratio = a.ratio;
    w->u = a.u;
}

static void update_limiter(struct scale_world *w)
{
    const struct scale_sums *s = &w->sums;
    int64_t wall = w->now - w->limiter_at, gc = s->background + s->idle + s->assist + s->scan;
    if (w->opt->load.limit == INT64_MAX || wall < LIMITER_WINDOW)
        return;
    w->limited = hg__pacer_limiter_update(&w->pacer, wall * w->procs, gc - w->limiter_gc);
    w->limiter_at = w->now;
    w->limiter_gc = gc;
    scale_grew(w, 0); /* a cycle that it held back may begin */
}

void scale_pace_tick(struct scale_world *w)
{
    update_limiter(w);
    if (w->phase == SCALE_MARK)
        revise(w);
}

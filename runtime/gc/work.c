/* work.c: when procs mark and sweep: in slices between tasks, while idle, and inside allocations.
 *
 * Background share. While a cycle marks, each proc spends the share u of its time in slices of at
 * most HG_SLICE_NS: after a slice that took s the next is due s * (1 - u) / u later, so a late
 * slice is never made up for by a burst, and no task waits for more than one slice. A task that
 * does not reach the scheduler meets its slice in its own allocations, or at a safepoint that the
 * monitor asks for. Switch-in scans push the next slice back: scans are paid out of the share. A
 * proc with nothing to run marks and sweeps as long as that is so, and stops within microseconds
 * when a task of its own appears, within HG_IDLE_LOOK_NS when another proc has one too many (not in
 * the periodic cycle, which nobody hurries).
 *
 * Allocation. hooks.allocated is told what was handed out a word of slots at a time: it adds to
 * heap_live, starts the cycle at the trigger, sweeps in proportion, runs a due slice, and charges
 * debt. Debt is paid from this proc's credit, then from the cycle's starting credit, then by
 * marking, at most HG_ASSIST_NS in one piece; the rest is carried on. Only above the hard limit
 * does a task wait, 1 ms at a time, and not while a handshake is late: nobody waits for a laggard.
 * Where the driver itself is late, as it got no CPU since the trigger, they wait as well, and so
 * leave it one.
 *
 * Times here are CPU time of the thread for what is reported as held or worked, elapsed time for
 * what is due when.
 */
#include "runtime/gc/gc.h"
#include <string.h>

#define GROWTH_STEP INT64_C(16384) /* bytes a mutator keeps to itself before it tells heap_live */
#define WAIT_NS     INT64_C(1000000)
#define SWEEP_PAGES 16u /* between two looks at the clock */

static int64_t after_slice(const struct hg_gc *g, int64_t end, int64_t took)
{
    int64_t share = hg_load_rlx(&g->share);
    if (share <= 0)
        return end + WAIT_NS;
    return end + took * (65536 - share) / share;
}

bool hg__idle_over(struct hg_mutator *m, int64_t now, int64_t *look_at)
{
    struct hg_proc *p = hg__proc_of(m);
    if (hg__proc_has_work(p))
        return true;
    if (now < *look_at)
        return false;
    *look_at = now + HG_IDLE_LOOK_NS;
    return hg__work_anywhere(p->sched);
}

bool hg__worker_wanted(struct hg_mutator *m, enum hg_work_kind kind, int64_t now, int64_t *look_at)
{
    if (hg_load_rlx(&m->attention) & HG_ATTENTION_HANDSHAKE)
        return true; /* a FLUSH or RESET waits for us */
    return kind == HG_WORK_IDLE && hg__idle_over(m, now, look_at);
}

/* One marking slice; returns whether there was anything to do. */
static bool mark_slice(struct hg_gc *g, struct hg_mutator *m, bool idle, int64_t now)
{
    int64_t cpu = hg__os_thread_cpu();
    enum hg_work_kind kind = idle ? HG_WORK_IDLE : HG_WORK_SLICE;
    int64_t done =
        hg__mark_some(g, m, kind, now + (idle ? HG_IDLE_SLICE_NS : HG_SLICE_NS), INT64_MAX);
    if (done == 0)
        return false;
    cpu = hg__os_thread_cpu() - cpu;
    int64_t end = hg__os_now();
    hg_own_add(idle ? &m->stats.idle_ns : &m->stats.background_ns, cpu);
    hg_own_add(&hg__proc_of(m)->marked_ns, end - now);
    m->credit += done;
    if (!idle) { /* an idle proc holds no task up */
        hg__hold(m, cpu);
        hg_store_rlx(&m->next_slice_at, after_slice(g, end, end - now));
    }
    return true;
}

static bool sweep_slice(struct hg_gc *g, struct hg_mutator *m, bool idle, int64_t now)
{
    struct hg_heap *h = g->world->heap;
    int64_t until = now + (idle ? HG_IDLE_SLICE_NS : HG_SLICE_NS), end;
    int64_t look_at = now + HG_IDLE_LOOK_NS;
    int64_t cpu = hg__os_thread_cpu();
    size_t pages = 0, n;
    do {
        n = hg__sweep_some(h, SWEEP_PAGES);
        pages += n;
        end = hg__os_now();
    } while (n != 0 && end < until && !(idle && hg__idle_over(m, end, &look_at)));
    cpu = hg__os_thread_cpu() - cpu;
    hg_own_add(&m->stats.sweep_ns, cpu);
    if (!idle)
        hg__hold(m, cpu);
    hg_store_rlx(&m->next_slice_at, after_slice(g, end, end - now));
    if (n == 0 && hg__sweep_done(h))
        hg__gc_wake_driver(g); /* the cycle is finished */
    return pages != 0;
}

/* Whether marking may be done now. */
static bool marking(const struct hg_gc *g)
{
    enum hg_phase phase = hg__phase(g->world);
    return phase == HG_PHASE_MARK || phase == HG_PHASE_WEAK_PENDING;
}

static inline bool to_sweep(const struct hg_gc *g)
{
    return hg_load_rlx(&g->world->heap->unswept_pages) > 0 && hg__phase(g->world) == HG_PHASE_OFF;
}

/* The last span may have been swept by an allocation: the driver ends the cycle. */
static void finished_by_others(struct hg_gc *g)
{
    if (hg__phase(g->world) == HG_PHASE_OFF &&
        hg_load_acq(&g->finished) != hg_load_rlx(&g->world->cycle) &&
        hg__sweep_done(g->world->heap))
        hg__gc_wake_driver(g);
}

bool hg__gc_background(struct hg_mutator *m, bool idle)
{
    struct hg_gc *g = hg__gc_of(m->world);
    bool mark = marking(g) && hg__mark_available(g, m);
    if (!mark && !to_sweep(g)) {
        finished_by_others(g);
        return false;
    }
    int64_t now = hg__os_now();
    idle = idle && hg_load_rlx(&g->periodic) == 0; /* nobody hurries a periodic cycle */
    if (now < hg_load_rlx(&m->next_slice_at) && !idle)
        return false;
    return mark ? mark_slice(g, m, idle, now) : sweep_slice(g, m, idle, now);
}

/* A slice at a safepoint or allocation of the running task, if one is due; charged to the task's
 * account. */
static void slice_here(struct hg_gc *g, struct hg_mutator *m)
{
    if (!marking(g) || !hg__mark_available(g, m))
        return;
    int64_t now = hg__os_now();
    if (now < hg_load_rlx(&m->next_slice_at))
        return;
    if (mark_slice(g, m, false, now))
        m->stack->times.slice_ns += hg__os_now() - now;
}

void hg__gc_attention_slice(struct hg_mutator *m) { slice_here(hg__gc_of(m->world), m); }

/* ---- allocation ---- */

/* Pays debt from credit: first this proc's, then what the cycle began with. */
static void pay_from_credit(struct hg_gc *g, struct hg_mutator *m)
{
    int64_t own = m->credit < m->debt ? m->credit : m->debt;
    m->credit -= own;
    m->debt -= own;
    if (m->debt == 0 || hg_load_rlx(&g->credit) <= 0)
        return;
    int64_t got = m->debt;
    int64_t before = hg_sub_rlx(&g->credit, got);
    if (before < got) { /* took more than there was: give the difference back */
        int64_t over = before > 0 ? got - before : got;
        hg_add_rlx(&g->credit, over);
        got -= over;
    }
    m->debt -= got;
}

static void assist(struct hg_gc *g, struct hg_mutator *m)
{
    int64_t start = hg__os_now(), cpu = hg__os_thread_cpu();
    int64_t done = hg__mark_some(g, m, HG_WORK_ASSIST, start + HG_ASSIST_NS, m->debt);
    if (done == 0) {
        m->debt = 0; /* nothing left to mark here: the cycle ends without it */
        return;
    }
    cpu = hg__os_thread_cpu() - cpu;
    m->debt = done < m->debt ? m->debt - done : 0;
    hg_own_add(&m->stats.assist_ns, cpu);
    hg_own_add(&m->stats.assists, 1);
    if (cpu > hg_load_rlx(&m->stats.longest_assist_ns))
        hg_store_rlx(&m->stats.longest_assist_ns, cpu);
    hg_histogram_add(m->stats.assist, cpu);
    hg__hold(m, cpu);
    m->stack->times.assist_ns += hg__os_now() - start;
}

static bool assist_allowed(const struct hg_gc *g)
{
    return hg_load_rlx(&g->assist_on) != 0 && hg_load_rlx(&g->limited) == 0;
}

static void charge(struct hg_gc *g, struct hg_mutator *m, int64_t bytes)
{
    uint64_t ratio = hg_load_rlx(&g->assist_ratio);
    if (ratio == 0 || !assist_allowed(g)) {
        m->debt = 0; /* background work is on schedule: earlier debts are forgiven with it */
        return;
    }
    m->debt += (int64_t)(((uint64_t)bytes * ratio) >> 16);
    pay_from_credit(g, m);
    if (m->debt > 0)
        assist(g, m);
}

/* What the memory limit counts. */
static int64_t limited_bytes(struct hg_gc *g)
{
    struct hg_heap *h = g->world->heap;
    return hg_load_rlx(&h->span_bytes) + hg_load_rlx(&g->external) +
           (int64_t)hg__meta_bytes(g->world->meta) + hg_load_rlx(&g->sched->stack_bytes_used);
}

/* With assist off only the memory limit counts. */
static bool above_limit(struct hg_gc *g, int64_t more)
{
    if (hg_load_rlx(&g->assist_on) != 0)
        return hg_load_rlx(&g->heap_live) + more > hg_load_rlx(&g->hard);
    int64_t limit = g->pacer.config.memory_limit;
    return limit != INT64_MAX && limited_bytes(g) + more > limit;
}

/* A memory limit has no say here: where all that it allows is alive cycles follow each other, and
 * the heap must be able to grow between two. */
static bool driver_late(struct hg_gc *g)
{
    return hg_load_rlx(&g->triggered) != 0 && hg_load_rlx(&g->assist_on) != 0 &&
           hg_load_rlx(&g->heap_live) > hg_load_rlx(&g->hard_by_goal);
}

static bool must_wait(struct hg_gc *g, int64_t more)
{
    if (hg_load_rlx(&g->limited) != 0)
        return false;
    if (hg__phase(g->world) == HG_PHASE_OFF)
        return driver_late(g);
    if (!above_limit(g, more))
        return false;
    int64_t asked = hg_load_acq(&g->world->asked_at);
    return asked == 0 || hg__os_now() - asked <= HG_LAGGARD_NS;
}

/* Above the hard limit: waits up to 1 ms for the collector to get on. Does not return then. */
static void wait_at_hard_limit(struct hg_gc *g, struct hg_mutator *m, int64_t more)
{
    if (!must_wait(g, more))
        return;
    hg_own_add(&m->stats.assist_waits, 1);
    struct hg_proc *p = hg__proc_of(m);
    hg__park_from_scheduler(p, hg__park_begin(p->current), hg_in(WAIT_NS),
                            "heap above its hard limit");
}

/* Sweeps `pages` pages in an allocation, for one slice at most. */
static void sweep_here(struct hg_gc *g, struct hg_mutator *m, int64_t pages)
{
    int64_t start = hg__os_now(), cpu = hg__os_thread_cpu(), until = start + HG_SLICE_NS,
            now = start;
    while (pages > 0 && now < until) {
        size_t n =
            hg__sweep_some(g->world->heap, pages < SWEEP_PAGES ? (size_t)pages : SWEEP_PAGES);
        if (n == 0)
            break;
        pages -= (int64_t)n;
        now = hg__os_now();
    }
    cpu = hg__os_thread_cpu() - cpu;
    hg_own_add(&m->stats.sweep_ns, cpu);
    hg__hold(m, cpu);
    m->stack->times.sweep_ns += hg__os_now() - start;
}

/* Sweeps as much as keeps sweeping ahead of the next cycle: pages left over bytes left. Several
 * pages at a time, as the clock of CPU time costs as much as sweeping one. */
static void sweep_in_proportion(struct hg_gc *g, struct hg_mutator *m, int64_t grown)
{
    int64_t unswept = hg_load_rlx(&g->world->heap->unswept_pages);
    int64_t trigger = hg_load_rlx(&g->trigger), left = trigger - hg_load_rlx(&g->heap_live);
    if (trigger == HG_PACER_NO_GOAL)
        return;
    if (left < grown)
        left = grown;
    m->sweep_owed += (double)unswept * (double)grown / (double)left;
    int64_t pages = (int64_t)m->sweep_owed;
    if (pages < SWEEP_PAGES && pages < unswept)
        return;
    m->sweep_owed = 0;
    sweep_here(g, m, pages);
}

static void stress_tick(struct hg_gc *g, struct hg_mutator *m)
{
    if (g->stress != 0 && --m->stress_left <= 0) {
        m->stress_left = g->stress;
        hg__gc_request(g);
    }
}

void hg__gc_allocated(struct hg_mutator *m, size_t more)
{
    struct hg_gc *g = hg__gc_of(m->world);
    stress_tick(g, m);
    if (hg__phase(g->world) == HG_PHASE_MARK)
        slice_here(g, m);
    int64_t grown = m->pending_alloc;
    if (grown >= GROWTH_STEP) {
        m->pending_alloc = 0;
        hg__pace_grew(g, grown);
        if (hg__phase(g->world) != HG_PHASE_OFF)
            charge(g, m, grown);
        else if (to_sweep(g))
            sweep_in_proportion(g, m, grown);
    }
    wait_at_hard_limit(g, m, (int64_t)more);
}

bool hg__gc_refuse(struct hg_mutator *m, size_t size)
{
    struct hg_gc *g = hg__gc_of(m->world);
    if (!g->hard_limit)
        return false;
    int64_t limit = g->pacer.config.memory_limit;
    return (size > (size_t)INT64_MAX / 2 || limited_bytes(g) + (int64_t)size > limit) &&
           limit != INT64_MAX;
}

/* No collection makes room for an object that alone is above the hard limit. */
static bool above_all(const struct hg_gc *g, size_t size)
{
    return g->hard_limit && size > (uint64_t)g->pacer.config.memory_limit;
}

/* How far an allocation that found no memory has got. */
enum { TRY_RUNNING, TRY_FIRST, TRY_SECOND, TRIED };

/* Waits for a cycle that may have made room. First for one that is running, as that is often
 * enough; then for two that begin after now, of which the second frees what was allocated black in
 * the first. False: all of that was done.
 *
 * The two are deferred while the limiter is on. A program that asks again and again would otherwise
 * have GC take all CPU time; refusing it at once instead, without a cycle, might refuse what a
 * cycle would have freed. Whoever is refused meanwhile waits for the same cycle. */
static bool wait_for_room(struct hg_gc *g, unsigned *tries)
{
    uint64_t running = (uint64_t)hg_load_rlx(&g->world->cycle);
    bool first = *tries == TRY_RUNNING;
    if (first)
        *tries = TRY_FIRST;
    if (first && hg_load_acq(&g->finished) < running) {
        hg__gc_wait(g, running);
        return true;
    }
    if (*tries == TRIED)
        return false;
    ++*tries;
    hg__gc_wait(g, hg__gc_request_deferred(g));
    return true;
}

bool hg__gc_no_memory(struct hg_mutator *m, size_t size, unsigned *tries, bool may_fail)
{
    struct hg_gc *g = hg__gc_of(m->world);
    bool absurd = size > g->world->heap->size;
    if (!absurd && !above_all(g, size) && wait_for_room(g, tries))
        return true;
    if (may_fail)
        return false;
    if (!absurd && g->out_of_memory != NULL && g->out_of_memory(g->user, size)) {
        hg__gc_wait(g, hg__gc_request_deferred(g)); /* what it let go of is free after a cycle */
        return true;
    }
    hg__fatal(
        "out of memory: %zu bytes wanted; heap %ld bytes in spans of %zu reserved; memory limit "
        "%ld%s",
        size, (long)hg_load_rlx(&g->world->heap->span_bytes), g->world->heap->size,
        (long)g->pacer.config.memory_limit, g->hard_limit ? " (hard)" : "");
}

/* trace_ratio.c: what a recorded cycle says about the program's pace.
 *
 *   cons/mark  c = (allocated / mutator CPU) / (scanned / GC CPU)
 *
 * hedge prints it. For a Go program the bytes are the pacer line's, allocated = heap at the end -
 * heap at the start, and
 *
 *   with the cycle's gctrace line   GC CPU = assist + background + idle
 *                                   mutator CPU = procs x wall - assist - background
 *   with the pacer's line alone     GC CPU / mutator CPU = u / (1 - u)
 *
 * Idle marking counts as GC time and not as mutator time, as in the pacer itself. Go's assist time
 * is elapsed and not CPU time, and procs that did nothing count as the mutator's: both make c a
 * little smaller than it was, for every policy alike.
 */
#include "sim/memory.h"
#include "sim/stats.h"
#include "sim/trace_read.h"
#include <math.h>

#define MIB           1048576.0
#define LEAST_MUTATOR 0.01 /* of procs x wall: printed times are rounded to two digits */

double sim_trace_work(const struct sim_trace_cycle *c)
{
    return c->scan_heap + c->scan_stack + c->scan_globals;
}

static double gc_ns(const struct sim_trace_cycle *c)
{
    return c->assist_ns + c->background_ns + c->idle_ns;
}

static double by_times(const struct sim_trace_cycle *c)
{
    double there = c->procs * c->wall_ns;
    double mutator = fmax(there - c->assist_ns - c->background_ns, LEAST_MUTATOR * there);
    double allocated = fmax(c->heap_end - c->heap_start, 0);
    return allocated * gc_ns(c) / (mutator * sim_trace_work(c));
}

static double by_share(const struct sim_trace_cycle *c)
{
    double u = fmin(c->utilization, 1 - LEAST_MUTATOR);
    double allocated = fmax(c->heap_end - c->heap_start, 0);
    return allocated * u / ((1 - u) * sim_trace_work(c));
}

void sim_trace_ratio(struct sim_trace_cycle *c)
{
    if (c->source == SIM_TRACE_PRINTED || !(sim_trace_work(c) > 0))
        return;
    bool times = isfinite(c->wall_ns) && gc_ns(c) > 0 && c->procs * c->wall_ns > 0;
    double ratio = times ? by_times(c) : by_share(c);
    if (!isfinite(ratio))
        return;
    c->cons_mark = ratio;
    c->source = times ? SIM_TRACE_TIMES : SIM_TRACE_SHARE;
}

void sim_trace_assume(struct sim_trace *t, double scan_bytes)
{
    for (size_t i = 0; i < t->processes; i++) {
        for (size_t k = 0; k < t->process[i].cycles; k++) {
            struct sim_trace_cycle *c = &t->process[i].cycle[k];
            if (isfinite(sim_trace_work(c)))
                continue;
            c->scan_heap = scan_bytes;
            c->scan_stack = isfinite(c->stack) ? c->stack : 0;
            c->scan_globals = isfinite(c->globals) ? c->globals : 0;
            sim_trace_ratio(c);
            if (c->source != SIM_TRACE_NONE)
                c->source = SIM_TRACE_ASSUMED;
        }
    }
}

bool sim_trace_usable(const struct sim_trace_cycle *c)
{
    return !c->forced && c->source != SIM_TRACE_NONE && isfinite(c->cons_mark);
}

static int64_t count(double v, double otherwise) { return (int64_t)(isfinite(v) ? v : otherwise); }

/* The mutator's CPU time is set so that the pacer finds the ratio of the log in it, where the log
 * knows procs and times and where it does not. */
bool sim_trace_measure(const struct sim_trace_cycle *c, struct hg_pacer_cycle *out)
{
    if (!sim_trace_usable(c))
        return false;
    double allocated = fmax(c->heap_end - c->heap_start, 0), work = sim_trace_work(c);
    double gc = gc_ns(c) > 0 ? gc_ns(c) : 1e6;
    double wall = c->wall_ns > 0 ? c->wall_ns : 1e6;
    double quiet = isfinite(c->quiet_ns) ? c->quiet_ns : 0;
    double mutator =
        allocated > 0 && c->cons_mark > 0 ? allocated * gc / (c->cons_mark * work) : gc;
    *out = (struct hg_pacer_cycle){.heap_at_start = count(c->heap_start, 0),
                                   .heap_at_end = count(c->heap_end, 0),
                                   .marked = count(c->live, c->heap_end),
                                   .scanned_heap = count(c->scan_heap, 0),
                                   .scanned_stack = count(c->scan_stack, 0),
                                   .scanned_roots = count(c->scan_globals, 0),
                                   .stack_bytes = count(c->scan_stack, 0),
                                   .root_bytes = count(c->scan_globals, 0),
                                   .alloc_bytes = count(allocated, 0),
                                   .assist_ns = count(c->assist_ns, 0),
                                   .background_ns = count(c->background_ns, gc),
                                   .idle_ns = count(c->idle_ns, 0),
                                   .mark_wall_ns = (int64_t)wall,
                                   .cycle_wall_ns = (int64_t)(wall + quiet),
                                   .quiet_ns = (int64_t)quiet,
                                   .mutator_ns = count(mutator, gc),
                                   .procs = (int)count(c->procs, 1)};
    return true;
}

/* Goals and live heaps are rounded down to MB: half of one is what that takes away on average. A
 * small heap says nothing, nor does one at the least goal of 4 MB. */
double sim_trace_gogc(const struct sim_trace_process *p)
{
    double *percent = sim_alloc(p->cycles, sizeof *percent);
    size_t n = 0;
    for (size_t i = 1; i < p->cycles; i++) {
        const struct sim_trace_cycle *before = &p->cycle[i - 1], *c = &p->cycle[i];
        double roots = before->stack + before->globals;
        double work = before->live + 0.5 * MIB + (isfinite(roots) ? roots : 0);
        if (c->number == before->number + 1 && before->live >= 8 * MIB && c->goal > before->live)
            percent[n++] = 100 * (c->goal - before->live) / work;
    }
    double median = sim_median(percent, n);
    free(percent);
    return median;
}

/* calm.c: the allocation rate between two cycles, for policies that look ahead.
 *
 * The window knows a load only from cycles that have ended. A load that rises while nothing is
 * marked would make the next cycle late, though it was there to be seen. So the caller tells what
 * was allocated since the last cycle, and in how much CPU time of the mutators, as often as it
 * likes; it is cut into parts of a sixteenth of the way from live heap to goal, and
 *
 *   rate   the first part's own, then the average of it and the part that has ended
 *
 * so that a step is seen by half after one part, and nearly whole after three. The rate is per CPU
 * time of mutators, like the ratio's: how idle a program is does not matter.
 *
 * At the end of a cycle the rate goes into a window beside the cycle's ratio: what a rate before a
 * trigger means is known only against the rates before earlier ones.
 */
#include "pacer/internal.h"

#define PARTS       16
#define PART_LEAST  (256 * HG__PACER_KIB)
#define PART_CPU_NS INT64_C(100000)

void hg__pacer_calm_begin(struct hg_pacer *p)
{
    p->calm.alloc_bytes = p->calm.mutator_ns = 0;
    p->calm.parts = 0;
}

bool hg__pacer_calm_observe(struct hg_pacer *p, int64_t alloc_bytes, int64_t mutator_ns)
{
    struct hg_pacer_calm *calm = &p->calm;
    int64_t bytes = hg__pacer_clean(alloc_bytes) - calm->alloc_bytes;
    int64_t cpu = hg__pacer_clean(mutator_ns) - calm->mutator_ns;
    int64_t part = PART_LEAST;
    double rate;

    if (p->plan.goal == HG_PACER_NO_GOAL)
        return false;
    part = hg__pacer_larger(part, (p->plan.goal - p->last.marked) / PARTS);
    if (bytes < part || cpu < PART_CPU_NS)
        return false;
    rate = (double)bytes / (double)cpu;
    calm->rate = calm->parts == 0 ? rate : (calm->rate + rate) / 2;
    calm->alloc_bytes += bytes;
    calm->mutator_ns += cpu;
    calm->parts++;
    return true;
}

double hg__pacer_calm_ratio(const struct hg_pacer *p)
{
    const struct hg_pacer_cycle *m = &p->last;
    double gc_ns = (double)m->assist_ns + (double)m->background_ns + (double)m->idle_ns;
    int64_t scanned = hg__pacer_scanned(m);

    if (p->calm.parts == 0 || scanned == 0)
        return 0;
    return hg__pacer_clamp(p->calm.rate * gc_ns / (double)scanned, 0, HG__PACER_CONS_MARK_MAX);
}

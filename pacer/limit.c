/* limit.c: the limiter, which holds GC at half of CPU time.
 *
 * With the live heap above the memory limit (or a GOGC near 0) the goal asks for cycles without a
 * pause. The limiter keeps the program going: slow and over its limit, never stuck. It is a leaky
 * bucket. Every window of time pours in the CPU time that GC took and drains 15/32 of the CPU time
 * that there was. Full, it says "hold back", and keeps saying so until it has drained by a quarter,
 * so that it does not flap from window to window. What comes on top of full is kept too, up to ten
 * times the capacity: a long window would otherwise get the rest of its GC time for nothing.
 *
 * 15/32 and not 1/2: the bucket lets a burst pass before it is full (that is its purpose: an
 * ordinary burst of assist must not trip it), and the missing thirty-second pays for it. Over a
 * time T of GC at full speed from an empty bucket GC gets at most 15/32 T + capacity + one window;
 * with 100 ms a CPU that is below half from 3.2 s on.
 *
 * Only what the caller does with the answer brings GC down: no assist, and no new cycle while it is
 * on. Background marking in a cycle goes on, at its quarter: a cycle that stands still frees
 * nothing.
 */
#include "pacer/internal.h"

#define BUCKET_NS   INT64_C(100000000) /* capacity, per CPU of the procs */
#define CPUS_MAX    (1 << 16)
#define DRAIN_PARTS 15 /* of 32 */
#define FILL_MOST   10 /* times the capacity */

int hg__pacer_cpus(const struct hg_pacer *p)
{
    int cpus = p->config.cpus;

    return cpus > 0 && cpus < p->last.procs ? cpus : p->last.procs;
}

void hg__pacer_limiter_size(struct hg_pacer_limiter *l, int cpus)
{
    l->capacity_ns = BUCKET_NS * (cpus < CPUS_MAX ? cpus : CPUS_MAX);
    l->fill_ns = hg__pacer_smaller(l->fill_ns, FILL_MOST * l->capacity_ns);
}

void hg__pacer_limiter_init(struct hg_pacer_limiter *l)
{
    *l = (struct hg_pacer_limiter){0};
    hg__pacer_limiter_size(l, 1);
}

bool hg__pacer_limiter_update(struct hg_pacer *p, int64_t available_ns, int64_t gc_ns)
{
    struct hg_pacer_limiter *l = &p->limiter;
    int64_t available = hg__pacer_clean(available_ns);
    /* GC cannot have had more CPU than there was; clocks that are read one after the other say so
     * now and then. */
    int64_t gc = hg__pacer_smaller(hg__pacer_clean(gc_ns), available);
    int64_t drained = available / 32 * DRAIN_PARTS;

    if (l->on)
        l->limited_ns = hg__pacer_add(l->limited_ns, available / hg__pacer_cpus(p));
    l->fill_ns = hg__pacer_clean(l->fill_ns + gc - drained);
    l->fill_ns = hg__pacer_smaller(l->fill_ns, FILL_MOST * l->capacity_ns);
    if (l->fill_ns >= l->capacity_ns)
        l->on = true;
    else if (l->fill_ns < l->capacity_ns - l->capacity_ns / 4)
        l->on = false;
    return l->on;
}

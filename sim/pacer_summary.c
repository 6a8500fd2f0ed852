/* pacer_summary.c: from runs to means with intervals over seeds. Pure.
 *
 * Means and not medians: what assist costs is the sum over all cycles, and with a heavy tail most
 * of it is in few runs. Differences against the edge policy are taken by seed, so that what the
 * loads have in common falls out of the interval.
 */
#include "sim/memory.h"
#include "sim/pacer.h"
#include "sim/stats.h"
#include <math.h>

/* The figure of a run; those that need a pair from both. NaN: not known. */
static double value(const double *run, const double *edge, int figure)
{
    double own = run[PACER_CYCLES_PER_GIB], other = edge[PACER_CYCLES_PER_GIB];

    if (figure == PACER_EXTRA_CYCLES)
        return own - other;
    if (figure == PACER_EXTRA_SHARE)
        return own / other - 1;
    if (figure == PACER_EXTRA_HEAP)
        return run[PACER_HEAP_OVER_LIVE] / edge[PACER_HEAP_OVER_LIVE] - 1;
    return run[figure];
}

void pacer_summarise(struct pacer_summary *out, const double *const *run, const double *const *edge,
                     int seeds)
{
    double *v = sim_alloc((size_t)seeds, sizeof *v);

    out->seeds = 0;
    for (int s = 0; s < seeds; s++)
        out->seeds += !isnan(run[s][PACER_CYCLES_PER_GIB]);
    for (int f = 0; f < PACER_FIGURES; f++) {
        struct pacer_estimate *e = &out->figure[f];

        for (int s = 0; s < seeds; s++)
            v[s] = value(run[s], edge[s], f);
        e->mean = sim_mean_interval(v, (size_t)seeds, &e->low, &e->high);
    }
    free(v);
}

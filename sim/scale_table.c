/* scale_table.c: tables to draw from (scale_table.h), made from the few quantiles that a machine's
 * profile has. */
#include "sim/scale_table.h"
#include "sim/scale.h"
#include <math.h>

/* The quantile `at` from the few that are known: between two of them its logarithm is taken to rise
 * evenly, as the tails of service times and of wake-ups do; from 0 on itself. */
static double quantile_at(const double *quantile, double at)
{
    int k = 0;
    while (k + 2 < SCALE_QUANTILES && at > scale_quantile_at[k + 1])
        k++;
    double part = (at - scale_quantile_at[k]) / (scale_quantile_at[k + 1] - scale_quantile_at[k]);
    double low = quantile[k], high = quantile[k + 1];
    part = fmin(part, 1);
    return low > 0 ? low * pow(high / low, part) : part * high;
}

void scale_table_fill(struct scale_table *t, const double *quantile)
{
    for (int i = 0; i <= SCALE_CELLS; i++)
        t->at[i] = quantile_at(quantile, (double)i / SCALE_CELLS);
    for (int i = 0; i <= SCALE_TAIL_CELLS; i++)
        t->tail[i] =
            quantile_at(quantile, (SCALE_CELLS - 1 + (double)i / SCALE_TAIL_CELLS) / SCALE_CELLS);
}

static double cells_mean(const double *at, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += (at[i] + at[i + 1]) / 2;
    return sum / n;
}

double scale_table_mean(const struct scale_table *t)
{
    return ((SCALE_CELLS - 1) * cells_mean(t->at, SCALE_CELLS - 1) +
            cells_mean(t->tail, SCALE_TAIL_CELLS)) /
           SCALE_CELLS;
}

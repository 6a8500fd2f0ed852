/* window.c: statistics over a window of cycles, newest first, for the policies. */
#include <math.h>

#include "pacer/internal.h"
#include "pacer/policy.h"

double hg__window_mean(const double *window, int n)
{
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += window[i];
    return n > 0 ? sum / n : 0;
}

/* Weights keep^age, scaled to a sum of 1. The deviation is that of the values about their mean; of
 * a single value it is 0. */
struct hg_window_moments hg__window_moments(const double *window, int n, double keep)
{
    double weight = 1, weights = 0, sum = 0, squares = 0;
    struct hg_window_moments out = {0, 0};

    for (int i = 0; i < n; i++, weight *= keep) {
        weights += weight;
        sum += weight * window[i];
    }
    if (n < 1)
        return out;
    out.mean = sum / weights;
    weight = 1;
    for (int i = 0; i < n; i++, weight *= keep) {
        double off = window[i] - out.mean;

        squares += weight * off * off;
    }
    out.deviation = sqrt(squares / weights);
    return out;
}

double hg__window_quantile(const double *window, int n, double q)
{
    double sorted[HG_PACER_WINDOW], place;
    int below;

    if (n < 1)
        return 0;
    for (int i = 0; i < n; i++) {
        int j = i;

        for (; j > 0 && sorted[j - 1] > window[i]; j--)
            sorted[j] = sorted[j - 1];
        sorted[j] = window[i];
    }
    place = q * (n - 1);
    below = (int)place;
    if (below >= n - 1)
        return sorted[n - 1];
    return sorted[below] + (place - below) * (sorted[below + 1] - sorted[below]);
}

double hg__policy_ratio_of_runway(const struct hg_pacer *p, double bytes)
{
    int64_t work = hg__pacer_scanned(&p->last);

    if (work == 0)
        return 0;
    return bytes / (double)work * HG_PACER_U / (1 - HG_PACER_U);
}

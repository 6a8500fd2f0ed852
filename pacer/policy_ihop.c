/* policy_ihop.c: the adaptive initiating occupancy of G1, for comparison.
 *
 *   runway   predicted allocation rate * predicted marking time
 *
 * each predicted from its last ten values: their decaying mean and SIGMA decaying deviations, which
 * normal values exceed once in twenty times; with few values a deviation cannot be known, and is
 * taken to be at least a part of the mean that shrinks with their number. After g1IHOPControl.cpp
 * and g1Predictions.hpp in OpenJDK, which keep the reserve in the target; here the target is the
 * goal. Marking time is taken at the full share (policy_director.c says why).
 */
#include "pacer/policy.h"

#define SIGMA  1.645
#define WINDOW 10
#define KEEP   0.7
#define ENOUGH 5 /* values, from which on the deviation is believed */

static double predict(const double *window, int n)
{
    struct hg_window_moments m = hg__window_moments(window, n, KEEP);
    double least = n < ENOUGH ? m.mean * (ENOUGH - n) / (2 * ENOUGH) : 0;

    return m.mean + SIGMA * (m.deviation > least ? m.deviation : least);
}

static double estimate(const struct hg_pacer *p)
{
    int n = p->window_len < WINDOW ? p->window_len : WINDOW;
    double bytes = predict(p->rate_window, n) * predict(p->mark_window, n);

    return hg__policy_ratio_of_runway(p, bytes);
}

const struct hg_policy hg__policy_ihop = {
    .name = "ihop",
    .help = "G1's rule: rate and time of marking, each at 95 % confidence; for comparison",
    .window = WINDOW,
    .estimate = estimate,
};

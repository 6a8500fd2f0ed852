/* policy_ewma.c: an exponential mean plus k standard deviations.
 *
 * Weights fall by KEEP a cycle: half of all weight is on the last two. The deviation is taken with
 * the same weights. What k buys depends on the noise: for uniform noise k = 1.7 is its end, for a
 * heavy tail no k is enough. A large step raises the deviation too, so that k hedges most just when
 * the load has fallen. For comparison.
 *
 * West, "Updating mean and variance estimates", CACM 22 (1979), with exponential weights.
 */
#include "pacer/policy.h"

#define KEEP 0.7

static double estimate(const struct hg_pacer *p)
{
    struct hg_window_moments m = hg__window_moments(p->window, p->window_len, KEEP);

    return m.mean + p->config.policy.param[0] * m.deviation;
}

const struct hg_policy hg__policy_ewma = {
    .name = "ewma",
    .params = 1,
    .param = {{.low = 0, .high = 10, .standard = 2}},
    .help = "an exponential mean plus K standard deviations; for comparison",
    .window = 5,
    .estimate = estimate,
};

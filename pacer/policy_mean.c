/* policy_mean.c: the average of the last N ratios.
 *
 * The baseline. As an estimate of the next ratio it is the best that can be said, and that is what
 * is wrong with it: the trigger then sits where half of all cycles are late. Kept to compare with.
 */
#include "pacer/policy.h"

static double estimate(struct hg_pacer *p)
{
    int n = p->window_len < p->config.policy.n ? p->window_len : p->config.policy.n;
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += p->window[i];
    return n > 0 ? sum / n : 0;
}

const struct hg_policy hg__policy_mean = {
    .name = "mean",
    .takes_n = true,
    .default_n = 2,
    .help = "the average of the last N cycles; on the edge, for comparison",
    .estimate = estimate,
};

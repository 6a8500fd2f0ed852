/* policy_mean.c: the average of the last N ratios.
 *
 * The baseline. As an estimate of the next ratio it is the best that can be said, and that is what
 * is wrong with it: the trigger then sits where half of all cycles are late. Kept to compare with.
 */
#include "pacer/policy.h"

static double estimate(const struct hg_pacer *p)
{
    return hg__window_mean(p->window, hg__policy_len(p));
}

const struct hg_policy hg__policy_mean = {
    .name = "mean",
    .params = 1,
    .param = {{.low = 1, .high = HG_PACER_WINDOW, .standard = 2, .whole = true}},
    .help = "the average of the last N cycles; on the edge, for comparison",
    .estimate = estimate,
};

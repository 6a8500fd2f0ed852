/* policy_quantile.c: the ratio below which a share Q of the last N lies.
 *
 * Between order statistics it is interpolated, so quantile:N:1 is max:N and quantile:N:0.5 the
 * median. With a long window it varies less from cycle to cycle than a maximum of few that lies as
 * high, and so is late less often for the same average; but it lets go only when most of the window
 * has changed. For comparison.
 */
#include "pacer/policy.h"

static double estimate(const struct hg_pacer *p)
{
    return hg__window_quantile(p->window, hg__policy_len(p), p->config.policy.param[1]);
}

const struct hg_policy hg__policy_quantile = {
    .name = "quantile",
    .params = 2,
    .param = {{.low = 1, .high = HG_PACER_WINDOW, .standard = 8, .whole = true},
              {.low = 0, .high = 1, .standard = 0.9}},
    .help = "the ratio below which a share Q of the last N cycles lies; for comparison",
    .estimate = estimate,
};

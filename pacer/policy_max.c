/* policy_max.c: the largest of the last N ratios, the newest included. The default, with N = 5.
 *
 * The next cycle is late only if it beats all of the last N: for ratios that are independent and
 * alike, once in N + 1 cycles, and then only by what it beats them. The price is that after a
 * burst, or when the load goes idle, N cycles start too early before the high ratio has left the
 * window.
 */
#include "pacer/policy.h"

static double estimate(const struct hg_pacer *p)
{
    int n = hg__policy_len(p);
    double largest = 0;

    for (int i = 0; i < n; i++) {
        if (p->window[i] > largest)
            largest = p->window[i];
    }
    return largest;
}

const struct hg_policy hg__policy_max = {
    .name = "max",
    .params = 1,
    .param = {{.low = 1, .high = HG_PACER_WINDOW, .standard = 5, .whole = true}},
    .help = "the largest of the last N cycles; starts a little early (default, N = 5)",
    .estimate = estimate,
};

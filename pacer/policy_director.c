/* policy_director.c: the rule by which ZGC's director starts a cycle, for comparison.
 *
 *   rate     F * mean + Z * deviation of the allocation rate     (bytes per ns of wall time)
 *   time     mean + Z * deviation of the time that marking takes
 *   runway   rate * time
 *
 * Z = 3.29 leaves one case in a thousand above, if values are normal; F is the spike tolerance,
 * ZAllocationSpikeTolerance there. After the allocation rate rule of zDirector.cpp in OpenJDK,
 * which asks a hundred times a second whether memory will be used up before a cycle ends; here the
 * same is solved for the heap at which the answer turns. Marking time is taken at the full share:
 * a cycle that was ahead and ran slower must not make the next one start earlier still.
 */
#include "pacer/policy.h"

#define ONE_IN_1000 3.290527
#define WINDOW      10   /* cycles */
#define KEEP        0.87 /* a cycle counts half after five */

static double estimate(const struct hg_pacer *p)
{
    int n = p->window_len < WINDOW ? p->window_len : WINDOW;
    struct hg_window_moments rate = hg__window_moments(p->rate_window, n, 1);
    struct hg_window_moments time = hg__window_moments(p->mark_window, n, KEEP);
    double fastest = p->config.policy.param[0] * rate.mean + ONE_IN_1000 * rate.deviation;

    return hg__policy_ratio_of_runway(p, fastest * (time.mean + ONE_IN_1000 * time.deviation));
}

const struct hg_policy hg__policy_director = {
    .name = "director",
    .params = 1,
    .param = {{.low = 1, .high = 10, .standard = 2}},
    .help = "ZGC's rule: F times the allocation rate and both spreads, 1 in 1000; for comparison",
    .window = WINDOW,
    .estimate = estimate,
};

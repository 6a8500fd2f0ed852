/* policy.h: the small interface behind which a policy estimates the next cycle's cons/mark ratio.
 * One file a policy. Pure. Inputs are in struct hg_pacer: window[0..window_len-1], newest first. */
#ifndef HG_PACER_POLICY_H
#define HG_PACER_POLICY_H
#include "pacer/pacer.h"

struct hg_policy {
    const char *name; /* before the colon */
    bool takes_n;
    int default_n;
    const char *help;
    /* The estimate for the next cycle: finite, not negative. May keep state in p. Called once per
     * cycle, after the new measurement has entered the window. */
    double (*estimate)(struct hg_pacer *p);
};

extern const struct hg_policy hg__policy_mean, hg__policy_pi, hg__policy_max;
const struct hg_policy *hg__policy_of(enum hg_policy_kind kind);

#endif

/* policy.h: the small interface behind which a policy estimates the next cycle's cons/mark ratio.
 * One file a policy. Pure. Inputs are in struct hg_pacer: windows [0..window_len-1], newest first.
 */
#ifndef HG_PACER_POLICY_H
#define HG_PACER_POLICY_H
#include "pacer/pacer.h"

/* One parameter. `whole` ones are numbers of cycles; others have at most four decimals. */
struct hg_policy_param {
    double low, high, standard;
    bool whole;
};

struct hg_policy {
    const char *name; /* before the first colon */
    int params;
    struct hg_policy_param param[HG_POLICY_PARAMS];
    const char *help;
    int window;       /* of handshake times; 0: the first parameter */
    bool looks_ahead; /* wants hg__pacer_observe: its estimate follows the rate between cycles */
    /* A ratio has entered the windows at `age`: 0, or more when a policy that was chosen just now
     * is told of the past, oldest first. NULL: keeps no state. */
    void (*learn)(struct hg_pacer *p, int age);
    /* The estimate for the next cycle: finite, not negative. At least one ratio is in the
     * window. */
    double (*estimate)(const struct hg_pacer *p);
};

extern const struct hg_policy hg__policy_mean, hg__policy_pi, hg__policy_max, hg__policy_ewma,
    hg__policy_quantile, hg__policy_director, hg__policy_ihop, hg__policy_adaptive;

/* policy.c: NULL: there is no such kind. */
const struct hg_policy *hg__policy_of(enum hg_policy_kind kind);
/* policy.c: makes a valid specification of any: an unknown kind is max, parameters are brought into
 * their ranges, 0 where that is none of it is the standard. */
void hg__policy_clean(struct hg_policy_spec *spec);
bool hg__policy_same(const struct hg_policy_spec *a, const struct hg_policy_spec *b);
/* policy.c: over how many cycles handshake times are looked at. */
int hg__policy_window(const struct hg_policy_spec *spec);
/* policy.c: the newest ratios that a policy whose first parameter is a window looks at. */
int hg__policy_len(const struct hg_pacer *p);

/* window.c: statistics of the n newest values of a window; 0 when n is 0. */
double hg__window_mean(const double *window, int n);
/* window.c: mean with weights that fall by `keep` per cycle, and the deviation from it. */
struct hg_window_moments {
    double mean, deviation;
};
struct hg_window_moments hg__window_moments(const double *window, int n, double keep);
/* window.c: the value below which a share q of them lies, interpolated between neighbours. */
double hg__window_quantile(const double *window, int n, double q);
/* window.c: the cons/mark ratio whose runway is `bytes`, for policies that think in bytes. */
double hg__policy_ratio_of_runway(const struct hg_pacer *p, double bytes);

#endif

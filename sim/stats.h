/* stats.h: the statistics of a comparison. Pure: no clock, no output, no state.
 *
 * A policy is compared with the floor over repetitions that ran side by side: the ratio of each
 * pair, the median of the ratios, and a 95 % interval of that median from order statistics. That
 * interval assumes no distribution, only that the pairs are independent. It exists from 6 pairs on:
 * with n pairs the widest interval, from the smallest to the largest, misses the true median with
 * probability 2^(1-n), which is 0.031 for 6 and 0.063 for 5.
 */
#ifndef HG_SIM_STATS_H
#define HG_SIM_STATS_H
#include <stdbool.h>
#include <stddef.h>

#define SIM_FEWEST_FOR_INTERVAL 6

/* The median of n values (the mean of the middle two when n is even); NaN when n is 0. NaNs are
 * left out. */
double sim_median(const double *values, size_t n);

/* The 95 % interval of the median. False, and nothing is written, when n values are too few. */
bool sim_median_interval(const double *values, size_t n, double *low, double *high);

/* The mean of n values, NaNs left out; NaN when none is left. low and high: its 95 % interval after
 * Student, NaN with fewer than 6 values. */
double sim_mean_interval(const double *values, size_t n, double *low, double *high);

enum sim_verdict {
    SIM_TOO_FEW,       /* fewer than 6 pairs */
    SIM_NO_DIFFERENCE, /* the interval holds 1: "no difference shown", which is not "the same" */
    SIM_DIFFERENT
};
const char *sim_verdict_text(enum sim_verdict v);

struct sim_ratio {
    size_t pairs;
    double ratio;     /* median of a[i] / b[i]; NaN without pairs */
    double low, high; /* 95 % interval of it; NaN when too few */
    double above;     /* median of a[i] - b[i] */
    enum sim_verdict verdict;
};

/* Compares n pairs. A pair with a NaN, or with b not above 0, is left out. */
struct sim_ratio sim_compare(const double *a, const double *b, size_t n);

#endif

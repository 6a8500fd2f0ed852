/* test_sim_stats.c: medians, their intervals, paired ratios: against known ranks, and the promised
 * coverage against simulated repetitions. */
#include "sim/rng.h"
#include "sim/stats.h"
#include "tests/support/test.h"
#include <criterion/criterion.h>
#include <math.h>

Test(sim_stats, median)
{
    cr_assert(isnan(sim_median(NULL, 0)));
    cr_assert_eq(sim_median((double[]){7}, 1), 7);
    cr_assert_eq(sim_median((double[]){9, 1, 5}, 3), 5);
    cr_assert_eq(sim_median((double[]){9, 1, 5, 2}, 4), 3.5);
    cr_assert_eq(sim_median((double[]){NAN, 9, 1, NAN, 5}, 5), 5, "NaNs are left out");
}

/* The ranks of the textbook tables for a 95 % interval of the median. */
Test(sim_stats, interval_ranks)
{
    static const struct {
        size_t n, low, high; /* 1-based ranks; 0: no interval */
    } table[] = {{1, 0, 0}, {5, 0, 0},  {6, 1, 6},   {8, 1, 8},
                 {9, 2, 8}, {10, 2, 9}, {20, 6, 15}, {100, 40, 61}};
    for (size_t t = 0; t < sizeof table / sizeof *table; t++) {
        double v[100], low = -1, high = -1;
        for (size_t i = 0; i < table[t].n; i++)
            v[i] = (double)(table[t].n - i); /* as large as its rank; not sorted */
        bool is = sim_median_interval(v, table[t].n, &low, &high);
        cr_assert_eq(is, table[t].low > 0, "n = %zu", table[t].n);
        if (is) {
            cr_assert_eq(low, (double)table[t].low, "n = %zu: low %g", table[t].n, low);
            cr_assert_eq(high, (double)table[t].high, "n = %zu: high %g", table[t].n, high);
        }
    }
}

/* Of many experiments, at least 95 % must have the true median in their interval. */
Test(sim_stats, interval_covers)
{
    enum { TRIALS = 20000 };
    struct sim_rng rng = {test_seed("sim_stats/interval_covers")};
    for (size_t n = 6; n <= 14; n += 4) {
        int covered = 0;
        for (int t = 0; t < TRIALS; t++) {
            double v[16], low, high;
            for (size_t i = 0; i < n; i++)
                v[i] = sim_rng_exp(&rng);
            cr_assert(sim_median_interval(v, n, &low, &high));
            covered += low <= log(2) && log(2) <= high;
        }
        /* Five standard deviations of the binomial below 0.95. */
        cr_assert_gt(covered, TRIALS * 0.95 - 5 * sqrt(TRIALS * 0.95 * 0.05), "n = %zu: %d", n,
                     covered);
    }
}

/* Student's interval: known quantiles, and it covers the mean of normal values as often as it
 * says. */
Test(sim_stats, mean_interval)
{
    double v[] = {1, 2, 3, 4, 5, 6, NAN}, low, high;
    cr_assert_float_eq(sim_mean_interval(v, 7, &low, &high), 3.5, 1e-12, "NaN is left out");
    cr_assert_float_eq(high - 3.5, 2.5706 * sqrt(3.5 / 6), 2e-3 * (high - 3.5));
    cr_assert_float_eq(low + high, 7, 1e-12);
    cr_assert_float_eq(sim_mean_interval(v, 5, &low, &high), 3, 1e-12);
    cr_assert(isnan(low) && isnan(high), "too few");
    cr_assert(isnan(sim_mean_interval(v, 0, &low, &high)));
    struct sim_rng r = {.state = test_seed("mean_interval")};
    for (size_t n = 6; n <= 100; n += 47) {
        int covered = 0;
        for (int t = 0; t < 4000; t++) {
            double sample[100];
            for (size_t i = 0; i < n; i++) {
                sample[i] = -6;
                for (int k = 0; k < 12; k++)
                    sample[i] += (double)(sim_rng_next(&r) >> 11) * 0x1p-53;
            }
            sim_mean_interval(sample, n, &low, &high);
            covered += low <= 0 && high >= 0;
        }
        double off = fabs(covered / 4000.0 - 0.95);
        cr_assert_lt(off, 5 * sqrt(0.95 * 0.05 / 4000), "n = %zu: %d of 4000", n, covered);
    }
}

Test(sim_stats, compare)
{
    double floor[8] = {1, 2, 1, 2, 1, 2, 1, 2}, above[8], same[8];
    for (int i = 0; i < 8; i++) {
        above[i] = floor[i] * (1.4 + 0.01 * i);
        same[i] = floor[i] * (i % 2 ? 1.1 : 0.9);
    }
    struct sim_ratio r = sim_compare(above, floor, 8);
    cr_assert_eq(r.pairs, 8);
    cr_assert_float_eq(r.ratio, 1.435, 1e-9);
    cr_assert_eq(r.verdict, SIM_DIFFERENT);
    cr_assert_float_eq(r.low, 1.40, 1e-9);
    cr_assert_float_eq(r.high, 1.47, 1e-9);
    cr_assert_float_eq(r.above, (0.46 + 0.82) / 2, 1e-9);
    cr_assert_eq(sim_compare(floor, above, 8).verdict, SIM_DIFFERENT, "also below");
    cr_assert_eq(sim_compare(same, floor, 8).verdict, SIM_NO_DIFFERENCE);
    r = sim_compare(above, floor, 5);
    cr_assert_eq(r.verdict, SIM_TOO_FEW);
    cr_assert(isnan(r.low) && !isnan(r.ratio));
    floor[0] = 0;
    floor[1] = NAN;
    cr_assert_eq(sim_compare(above, floor, 8).pairs, 6, "pairs that mean nothing are left out");
    cr_assert(isnan(sim_compare(above, floor, 0).ratio));
}

/* stats.c: medians, their intervals, paired ratios (stats.h). */
#include "sim/stats.h"
#include "sim/memory.h"
#include <math.h>

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* A sorted copy without the NaNs, for the caller to free; *n becomes its length. */
static double *sorted(const double *values, size_t *n)
{
    double *copy = sim_alloc(*n, sizeof *copy);
    size_t kept = 0;
    for (size_t i = 0; i < *n; i++)
        if (!isnan(values[i]))
            copy[kept++] = values[i];
    qsort(copy, kept, sizeof *copy, by_value);
    *n = kept;
    return copy;
}

double sim_median(const double *values, size_t n)
{
    double *v = sorted(values, &n);
    double median = NAN;
    if (n > 0)
        median = n % 2 == 1 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
    free(v);
    return median;
}

/* The largest k for which the interval from the k-th smallest to the k-th largest of n values
 * misses the median with probability at most 0.05; 0: there is none. The chance that it lies above
 * is that of fewer than k heads in n throws. */
static size_t interval_rank(size_t n)
{
    double below = 0;
    size_t k = 0;
    while (k < n) {
        double log_term = lgamma((double)n + 1) - lgamma((double)k + 1) -
                          lgamma((double)(n - k) + 1) - (double)n * log(2);
        below += exp(log_term);
        if (2 * below > 0.05)
            break;
        k++;
    }
    return k;
}

bool sim_median_interval(const double *values, size_t n, double *low, double *high)
{
    double *v = sorted(values, &n);
    size_t k = interval_rank(n);
    if (k > 0) {
        *low = v[k - 1];
        *high = v[n - k];
    }
    free(v);
    return k > 0;
}

/* The 0.975 quantile of Student's distribution with f degrees of freedom: Fisher's expansion about
 * the normal one. Within 0.2 % from f = 5 on. */
static double student(double f)
{
    const double z = 1.959963985, z3 = z * z * z, z5 = z3 * z * z, z7 = z5 * z * z;

    return z + (z3 + z) / (4 * f) + (5 * z5 + 16 * z3 + 3 * z) / (96 * f * f) +
           (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * f * f * f);
}

double sim_mean_interval(const double *values, size_t n, double *low, double *high)
{
    double sum = 0, squares = 0, mean, half;
    size_t kept = 0;

    for (size_t i = 0; i < n; i++) {
        if (!isnan(values[i])) {
            sum += values[i];
            kept++;
        }
    }
    *low = *high = NAN;
    if (kept == 0)
        return NAN;
    mean = sum / (double)kept;
    if (kept < SIM_FEWEST_FOR_INTERVAL)
        return mean;
    for (size_t i = 0; i < n; i++)
        squares += isnan(values[i]) ? 0 : (values[i] - mean) * (values[i] - mean);
    half = student((double)kept - 1) * sqrt(squares / (double)(kept - 1) / (double)kept);
    *low = mean - half;
    *high = mean + half;
    return mean;
}

const char *sim_verdict_text(enum sim_verdict v)
{
    switch (v) {
    case SIM_DIFFERENT:
        return "different";
    case SIM_NO_DIFFERENCE:
        return "no difference shown";
    case SIM_TOO_FEW:
        break;
    }
    return "too few";
}

struct sim_ratio sim_compare(const double *a, const double *b, size_t n)
{
    struct sim_ratio r = {0, NAN, NAN, NAN, NAN, SIM_TOO_FEW};
    double *ratios = sim_alloc(n, sizeof *ratios), *above = sim_alloc(n, sizeof *above);
    for (size_t i = 0; i < n; i++) {
        if (isnan(a[i]) || isnan(b[i]) || b[i] <= 0)
            continue;
        ratios[r.pairs] = a[i] / b[i];
        above[r.pairs++] = a[i] - b[i];
    }
    r.ratio = sim_median(ratios, r.pairs);
    r.above = sim_median(above, r.pairs);
    if (sim_median_interval(ratios, r.pairs, &r.low, &r.high))
        r.verdict = r.low > 1 || r.high < 1 ? SIM_DIFFERENT : SIM_NO_DIFFERENCE;
    free(ratios);
    free(above);
    return r;
}

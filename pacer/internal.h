/* internal.h: what the files of the pacer share: the constants of the equations and saturating
 * arithmetic.
 *
 * Not for inclusion from outside pacer/. The constants are here, in one place, because
 * docs/design/pacer.md explains each of them; change them together.
 *
 * Arithmetic: every byte or nanosecond count that comes in is first cleaned to 0..HG__PACER_MAX.
 * Two such numbers add without overflow, sums are cleaned again, and a double made from one is
 * exact enough and never infinite. NaN, which only a caller can bring in, becomes 0.
 */
#ifndef HG_PACER_INTERNAL_H
#define HG_PACER_INTERNAL_H
#include "pacer/pacer.h"

#define HG__PACER_MAX (INT64_C(1) << 60) /* largest count that is believed */
#define HG__PACER_KIB (INT64_C(1) << 10)
#define HG__PACER_MIB (INT64_C(1) << 20)

#define HG__PACER_CONS_MARK_MAX 1024.0 /* largest cons/mark ratio that is believed */
/* How many measurements are behind the expectation without a hedge: their mean and median. */
#define HG__PACER_EXPECT_N 5

/* Cleans a count: negative is 0, absurd is the largest. */
static inline int64_t hg__pacer_clean(int64_t v)
{
    if (v < 0)
        return 0;
    return v > HG__PACER_MAX ? HG__PACER_MAX : v;
}

/* Sum of two clean counts, clean. */
static inline int64_t hg__pacer_add(int64_t a, int64_t b) { return hg__pacer_clean(a + b); }

/* A clean count from a double; NaN is 0. */
static inline int64_t hg__pacer_count(double v)
{
    if (!(v > 0))
        return 0;
    return v >= (double)HG__PACER_MAX ? HG__PACER_MAX : (int64_t)v;
}

static inline double hg__pacer_clamp(double v, double low, double high)
{
    if (!(v > low)) /* NaN too */
        return low;
    return v > high ? high : v;
}

/* Scan work of a clean cycle, of all kinds. */
static inline int64_t hg__pacer_scanned(const struct hg_pacer_cycle *m)
{
    return hg__pacer_add(hg__pacer_add(m->scanned_heap, m->scanned_stack), m->scanned_roots);
}

static inline int64_t hg__pacer_larger(int64_t a, int64_t b) { return a > b ? a : b; }

static inline int64_t hg__pacer_smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* goal.c: the goal for the last cycle's measurements, HG_PACER_NO_GOAL for none; and the hard limit
 * above a goal. */
int64_t hg__pacer_goal(const struct hg_pacer *p, const struct hg_pacer_memory *mem, bool *limited);
int64_t hg__pacer_hard_by_goal(int64_t goal);
int64_t hg__pacer_hard(const struct hg_pacer *p, const struct hg_pacer_memory *mem, int64_t goal);

/* assist.c: bytes by which a cycle may pass its goal before anything is owed for it. */
int64_t hg__pacer_tolerance(const struct hg_pacer *p);

/* measure.c: mean and median of the last HG__PACER_EXPECT_N measurements; 0 when there is none. */
double hg__pacer_mean_ratio(const struct hg_pacer *p);
double hg__pacer_median_ratio(const struct hg_pacer *p);

/* calm.c: the last cycle has ended. */
void hg__pacer_calm_begin(struct hg_pacer *p);
/* calm.c: takes in what was observed since. True: it gave a new rate. */
bool hg__pacer_calm_observe(struct hg_pacer *p, int64_t alloc_bytes, int64_t mutator_ns);

/* calm.c: the cons/mark ratio with the rate of now and the last cycle's marking speed; 0: not
 * known.
 */
double hg__pacer_calm_ratio(const struct hg_pacer *p);

/* limit.c: CPUs that the procs of the last cycle can use at once. */
int hg__pacer_cpus(const struct hg_pacer *p);
/* limit.c: empties the bucket. */
void hg__pacer_limiter_init(struct hg_pacer_limiter *l);
/* limit.c: sizes the bucket for a number of CPUs. */
void hg__pacer_limiter_size(struct hg_pacer_limiter *l, int cpus);

#endif

/* hist.h: what the simulator does with latency histograms beyond <hedge/histogram.h>: shares of
 * them written by many tasks at once, differences, blocks for the bootstrap, and the percentile
 * file that HdrHistogram's plotter reads.
 */
#ifndef HG_SIM_HIST_H
#define HG_SIM_HIST_H
#include <hedge/histogram.h>
#include <stddef.h>
#include <stdio.h>

/* ---- a histogram that any number of threads write ---- */

/* One atomic addition per value and a compare-and-swap for a new largest one. `total` stays 0: it
 * is the sum of the counts, made by sim_hist_collect. Relaxed order: counts carry no other data; a
 * reader that needs them exact has synchronised with the writers by other means. */
static inline void sim_hist_add_shared(hg_histogram *h, int64_t value)
{
    __atomic_fetch_add(&h->count[hg_histogram_bucket(value)], 1, __ATOMIC_RELAXED);
    int64_t seen = __atomic_load_n(&h->max, __ATOMIC_RELAXED);
    while (value > seen && !__atomic_compare_exchange_n(&h->max, &seen, value, 1, __ATOMIC_RELAXED,
                                                        __ATOMIC_RELAXED)) {}
}

/* Adds what `shared` holds now to *into, and sets totals right. Writers may go on meanwhile. */
void sim_hist_collect(hg_histogram *into, const hg_histogram *shared);

/* *out = later - earlier, two states of one growing histogram. The largest value of the difference
 * is known only up to its bucket, unless it is the largest ever seen. out may be one of the two. */
void sim_hist_delta(hg_histogram *out, const hg_histogram *later, const hg_histogram *earlier);

/* ---- blocks and the bootstrap over them ---- */

/* A stretch of one run (a whole GC cycle) as the buckets it used: first, first+1, ... */
struct sim_block {
    unsigned first, buckets;
    uint32_t *count;
};

struct sim_blocks {
    struct sim_block *block;
    size_t n, room;
};

/* Appends h (empty ones too: a cycle without a request is a cycle). */
void sim_blocks_add(struct sim_blocks *b, const hg_histogram *h);
void sim_blocks_free(struct sim_blocks *b);

/* 95 % intervals of n quantiles q[] by resampling whole blocks with replacement (Efron's percentile
 * method). Requests within a cycle are not independent of each other, cycles nearly are. NaN where
 * there are no blocks. Same seed, same intervals. */
void sim_bootstrap(const struct sim_blocks *b, const double *q, int n, double *low, double *high,
                   uint64_t seed);

/* ---- files ---- */

/* Writes h in HdrHistogram's percentile format, values divided by `unit` (1e6: milliseconds from
 * nanoseconds). */
void sim_hist_write_hgrm(FILE *out, const hg_histogram *h, double unit);

#endif

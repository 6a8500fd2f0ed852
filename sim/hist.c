/* hist.c: sums, differences, the block bootstrap and the percentile file (hist.h).
 *
 * The bootstrap works on dense rows over the buckets that any block used: a resample is a weight
 * per block, the sum of the weighted rows, and a walk over it for the quantiles. With more than
 * MOST_BLOCKS blocks neighbours are joined first, so that its cost is bounded; a longer block is
 * still made of whole cycles.
 */
#include "sim/hist.h"
#include "sim/memory.h"
#include "sim/rng.h"
#include <math.h>

#define MOST_BLOCKS 200
#define RESAMPLES   400

/* Buckets that can be in use: none above that of the largest value. */
static unsigned buckets_used(const hg_histogram *h)
{
    return hg_histogram_bucket(__atomic_load_n(&h->max, __ATOMIC_RELAXED)) + 1;
}

void sim_hist_collect(hg_histogram *into, const hg_histogram *shared)
{
    /* A value that arrives while this reads may be in its bucket before it is in `max`; it is in
     * the next sum then. */
    unsigned used = buckets_used(shared);
    uint64_t total = 0;
    for (unsigned i = 0; i < used; i++) {
        uint64_t n = __atomic_load_n(&shared->count[i], __ATOMIC_RELAXED);
        into->count[i] += n;
        total += n;
    }
    into->total += total;
    int64_t max = __atomic_load_n(&shared->max, __ATOMIC_RELAXED);
    if (total > 0 && max > into->max)
        into->max = max;
}

void sim_hist_delta(hg_histogram *out, const hg_histogram *later, const hg_histogram *earlier)
{
    int64_t later_max = later->max, earlier_max = earlier->max, high = 0;
    uint64_t total = 0;
    for (unsigned i = 0; i < HG_HISTOGRAM_BUCKETS; i++) {
        uint64_t n = later->count[i] - earlier->count[i];
        out->count[i] = n;
        total += n;
        if (n > 0)
            high = hg_histogram_bucket_high(i);
    }
    out->total = total;
    out->max = later_max > earlier_max && total > 0 ? later_max
               : high < later_max                   ? high
                                                    : later_max;
}

void sim_blocks_add(struct sim_blocks *b, const hg_histogram *h)
{
    if (b->n == b->room) {
        b->room = b->room > 0 ? 2 * b->room : 64;
        b->block = sim_grow(b->block, b->room, sizeof *b->block);
    }
    unsigned first = 0, end = HG_HISTOGRAM_BUCKETS;
    while (first < end && h->count[first] == 0)
        first++;
    while (end > first && h->count[end - 1] == 0)
        end--;
    struct sim_block *block = &b->block[b->n++];
    block->first = first;
    block->buckets = end - first;
    block->count = sim_alloc(end - first, sizeof *block->count);
    for (unsigned i = first; i < end; i++)
        block->count[i - first] = h->count[i] < UINT32_MAX ? (uint32_t)h->count[i] : UINT32_MAX;
}

void sim_blocks_free(struct sim_blocks *b)
{
    for (size_t i = 0; i < b->n; i++)
        free(b->block[i].count);
    free(b->block);
    memset(b, 0, sizeof *b);
}

/* The blocks as rows of `width` buckets from `first` on; joined so that there are at most
 * MOST_BLOCKS rows. */
struct rows {
    unsigned first, width;
    size_t n;
    double *cell;
};

static struct rows make_rows(const struct sim_blocks *b)
{
    struct rows r = {HG_HISTOGRAM_BUCKETS, 0, 0, NULL};
    unsigned end = 0;
    for (size_t i = 0; i < b->n; i++) {
        const struct sim_block *block = &b->block[i];
        if (block->buckets == 0)
            continue;
        r.first = block->first < r.first ? block->first : r.first;
        end = block->first + block->buckets > end ? block->first + block->buckets : end;
    }
    if (end == 0)
        return r;
    size_t join = (b->n + MOST_BLOCKS - 1) / MOST_BLOCKS;
    r.width = end - r.first;
    r.n = (b->n + join - 1) / join;
    r.cell = sim_alloc(r.n * r.width, sizeof *r.cell);
    for (size_t i = 0; i < b->n; i++) {
        const struct sim_block *block = &b->block[i];
        double *row = &r.cell[(i / join) * r.width];
        for (unsigned k = 0; k < block->buckets; k++)
            row[block->first + k - r.first] += block->count[k];
    }
    return r;
}

static double row_quantile(const double *row, const struct rows *r, double q)
{
    double total = 0, seen = 0;
    for (unsigned k = 0; k < r->width; k++)
        total += row[k];
    for (unsigned k = 0; k < r->width; k++) {
        seen += row[k];
        if (row[k] > 0 && seen >= q * total)
            return (double)hg_histogram_bucket_high(r->first + k);
    }
    return 0;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void sim_bootstrap(const struct sim_blocks *b, const double *q, int n, double *low, double *high,
                   uint64_t seed)
{
    struct rows r = make_rows(b);
    for (int k = 0; k < n; k++)
        low[k] = high[k] = NAN;
    if (r.n == 0)
        return;
    double *sum = sim_alloc(r.width, sizeof *sum),
           *found = sim_alloc((size_t)n * RESAMPLES, sizeof *found);
    uint32_t *weight = sim_alloc(r.n, sizeof *weight);
    struct sim_rng rng = {seed};
    for (int s = 0; s < RESAMPLES; s++) {
        memset(weight, 0, r.n * sizeof *weight);
        memset(sum, 0, r.width * sizeof *sum);
        for (size_t i = 0; i < r.n; i++)
            weight[sim_rng_below(&rng, (uint32_t)r.n)]++;
        for (size_t i = 0; i < r.n; i++)
            for (unsigned k = 0; weight[i] > 0 && k < r.width; k++)
                sum[k] += weight[i] * r.cell[i * r.width + k];
        for (int k = 0; k < n; k++)
            found[k * RESAMPLES + s] = row_quantile(sum, &r, q[k]);
    }
    for (int k = 0; k < n; k++) {
        double *v = &found[k * RESAMPLES];
        qsort(v, RESAMPLES, sizeof *v, by_value);
        low[k] = v[RESAMPLES / 40];
        high[k] = v[RESAMPLES - 1 - RESAMPLES / 40];
    }
    free(weight);
    free(found);
    free(sum);
    free(r.cell);
}

static void mean_and_deviation(const hg_histogram *h, double *mean, double *deviation)
{
    double sum = 0, squares = 0, n = (double)h->total;
    for (unsigned i = 0; i < HG_HISTOGRAM_BUCKETS; i++) {
        double v = (double)hg_histogram_bucket_high(i), c = (double)h->count[i];
        sum += c * v;
        squares += c * v * v;
    }
    *mean = n > 0 ? sum / n : 0;
    *deviation = n > 0 ? sqrt(fmax(0, squares / n - *mean * *mean)) : 0;
}

/* Values up to and including the bucket of v. */
static uint64_t count_up_to(const hg_histogram *h, int64_t v)
{
    uint64_t n = 0;
    for (unsigned i = 0; i <= hg_histogram_bucket(v); i++)
        n += h->count[i];
    return n;
}

void sim_hist_write_hgrm(FILE *out, const hg_histogram *h, double unit)
{
    fprintf(out, "       Value     Percentile TotalCount 1/(1-Percentile)\n\n");
    double percentile = 0;
    while (h->total > 0) {
        int64_t v = hg_histogram_quantile(h, percentile / 100);
        uint64_t up_to = count_up_to(h, v);
        if (up_to >= h->total) {
            fprintf(out, "%12.3f %2.12f %10llu\n", (double)h->max / unit, 1.0,
                    (unsigned long long)h->total);
            break;
        }
        fprintf(out, "%12.3f %2.12f %10llu %14.2f\n", (double)v / unit, percentile / 100,
                (unsigned long long)up_to, 1 / (1 - percentile / 100));
        /* Five steps to each halving of what is left up to 100 %. */
        double halvings = floor(log2(100 / (100 - percentile))) + 1;
        percentile += 100 / (5 * exp2(halvings));
    }
    double mean, deviation;
    mean_and_deviation(h, &mean, &deviation);
    fprintf(out, "#[Mean    = %12.3f, StdDeviation   = %12.3f]\n", mean / unit, deviation / unit);
    fprintf(out, "#[Max     = %12.3f, Total count    = %12llu]\n", (double)h->max / unit,
            (unsigned long long)h->total);
    fprintf(out, "#[Buckets = %12d, SubBuckets     = %12d]\n", 64 - HG_HISTOGRAM_SUB_BITS,
            1 << HG_HISTOGRAM_SUB_BITS);
}

/* histogram.h: log-linear histogram of int64 values: 128 sub-buckets per power of two, so a value
 * is off by less than 1 %; fixed memory (58 KiB), mergeable. Plain data, no locks: one writer at a
 * time; readers copy or sum.
 *
 * Bucket i < 256 holds the value i itself. Above, bucket i stands for 2^e values that begin at (128
 * + i % 128) * 2^e, with e = i / 128 - 1. Everything is inline: usable without linking the
 * library. */
#ifndef HEDGE_HISTOGRAM_H
#define HEDGE_HISTOGRAM_H
#include <stdint.h>
#include <string.h>

#define HG_HISTOGRAM_SUB_BITS 7
#define HG_HISTOGRAM_BUCKETS  ((64 - HG_HISTOGRAM_SUB_BITS) << HG_HISTOGRAM_SUB_BITS)

typedef struct hg_histogram {
    uint64_t total;
    int64_t max;
    uint64_t count[HG_HISTOGRAM_BUCKETS];
} hg_histogram;

static inline void hg_histogram_reset(hg_histogram *h) { memset(h, 0, sizeof *h); }

static inline unsigned hg_histogram_bucket(int64_t value)
{
    uint64_t v = value < 0 ? 0 : (uint64_t)value;
    if (v < (UINT64_C(1) << HG_HISTOGRAM_SUB_BITS))
        return (unsigned)v;
    unsigned e = 63u - (unsigned)__builtin_clzll(v) - HG_HISTOGRAM_SUB_BITS;
    return ((e + 1) << HG_HISTOGRAM_SUB_BITS) +
           (unsigned)((v >> e) & ((1u << HG_HISTOGRAM_SUB_BITS) - 1));
}

/* The largest value of a bucket. */
static inline int64_t hg_histogram_bucket_high(unsigned i)
{
    if (i < (1u << HG_HISTOGRAM_SUB_BITS))
        return (int64_t)i;
    unsigned e = (i >> HG_HISTOGRAM_SUB_BITS) - 1;
    uint64_t sub = (i & ((1u << HG_HISTOGRAM_SUB_BITS) - 1)) + (1u << HG_HISTOGRAM_SUB_BITS);
    return (int64_t)(((sub + 1) << e) - 1);
}

static inline void hg_histogram_add(hg_histogram *h, int64_t value)
{
    h->count[hg_histogram_bucket(value)]++;
    h->total++;
    if (value > h->max)
        h->max = value;
}

static inline void hg_histogram_merge(hg_histogram *into, const hg_histogram *from)
{
    for (unsigned i = 0; i < HG_HISTOGRAM_BUCKETS; i++)
        into->count[i] += from->count[i];
    into->total += from->total;
    if (from->max > into->max)
        into->max = from->max;
}

/* The smallest bucket's high value that at least the share q (0..1) of all values reaches; 0 when
 * empty. Never above the largest value seen. */
static inline int64_t hg_histogram_quantile(const hg_histogram *h, double q)
{
    if (h->total == 0)
        return 0;
    double wanted = q * (double)h->total;
    uint64_t need = (uint64_t)wanted, seen = 0;
    if ((double)need < wanted)
        need++;
    if (need == 0)
        need = 1;
    for (unsigned i = 0; i < HG_HISTOGRAM_BUCKETS; i++) {
        seen += h->count[i];
        if (seen >= need) {
            int64_t high = hg_histogram_bucket_high(i);
            return high < h->max ? high : h->max;
        }
    }
    return h->max;
}

#endif

/* counter.h: the counters and gauges of one runtime, for rt. */
#ifndef HG_RUNTIME_SYNC_COUNTER_H
#define HG_RUNTIME_SYNC_COUNTER_H
#include "base/lock.h"
#include "base/meta.h"
#include "runtime/mut/mut.h"
#include <hedge/counter.h>

struct hg_counter_block;

/* Part of struct hg_runtime. */
struct hg_counters {
    struct hg_world *world; /* constant */
    uint32_t procs;         /* constant */
    struct hg_lock lock;    /* COUNTERS: the lists; held while a gauge is set */
    struct hg_counter *first, *last;
    struct hg_counter_block *blocks;
};

void hg__counters_init(struct hg_counters *c, struct hg_world *w, int procs);
/* hg_counter_new; kind GAUGE: *out is the counter that a gauge is. */
int hg__counter_new(struct hg_counters *c, const char *name, hg_metric_kind kind,
                    struct hg_counter **out);
/* Under the lock, in the order in which they were made, until fn returns false. */
void hg__counters_each(struct hg_counters *c, bool (*fn)(void *arg, const hg_metric *m), void *arg);

/* A gauge is a counter that can be set. */
hg_gauge *hg__gauge_of(struct hg_counter *c);

#endif

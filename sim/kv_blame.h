/* kv_blame.h: which requests were slow, and where their time went. Pure: no runtime, no clock.
 *
 * Each shard of the clients keeps its slowest requests in a bounded min-heap by latency: once it is
 * full, the least slow of them is the threshold that a new one must pass, and it only rises. So a
 * request that is not slow costs one load and one comparison, and at the end every request above
 * p99 is there as long as the heap has room for a hundredth of the shard's requests. Beyond that it
 * holds the slowest of them.
 */
#ifndef HG_SIM_KV_BLAME_H
#define HG_SIM_KV_BLAME_H
#include "sim/kv.h"
#include <hedge/stats.h>
#include <hedge/task.h>
#include <stdatomic.h>

struct kv_slow {
    /* free_at: when the connection was done with its earlier request. */
    int64_t intended, free_at, issued, end;
    uint64_t seq;
    uint32_t conn, write;
    hg_task_times waiting;        /* client: from free_at to issued */
    hg_task_times client, server; /* from issued to end */
    int64_t lock_ns;              /* of it: the server was parked at the shard's lock */
    /* Where the time of the connection's earlier requests went, if this one was behind: shares. */
    float earlier[KV_PARTS];
};

/* A connection's busy period: the requests that it has made without being idle in between. */
struct kv_busy {
    double ns, part[KV_PARTS];
};

struct kv_slowest {
    struct kv_slow *heap; /* min-heap by end - intended */
    size_t n, room;
    /* Latency that a new request must exceed; -1 while there is room. Written by kv_slowest_add
     * under the caller's lock, read by anyone (relaxed: a stale value costs a look under the lock,
     * or leaves out one that hardly was slow). */
    _Atomic int64_t threshold;
};

void kv_slowest_init(struct kv_slowest *s, size_t room);
void kv_slowest_free(struct kv_slowest *s);
static inline bool kv_slowest_wants(const struct kv_slowest *s, int64_t latency)
{
    return latency > atomic_load_explicit(&s->threshold, memory_order_relaxed);
}
/* The caller holds the shard's lock. */
void kv_slowest_add(struct kv_slowest *s, const struct kv_slow *slow);

/* later - earlier, field by field. */
hg_task_times kv_times_between(const hg_task_times *earlier, const hg_task_times *later);

/* Enters a finished request into the busy period, and sets shares[] to what the period's time went
 * to. For the next request, if that one is behind it. */
void kv_busy_add(struct kv_busy *busy, const struct kv_slow *finished, float shares[KV_PARTS]);

/* Takes one request's latency apart: the parts are not negative and sum up to it. */
void kv_blame_split(const struct kv_slow *slow, double part[KV_PARTS]);

/* The number of the cycle that the time from..to overlaps, 0: none. Cycles in any order. */
uint64_t kv_blame_cycle(const hg_cycle *cycles, size_t n, int64_t from, int64_t to);

/* Sums of all requests of n shards that took at least `least` ns: blame[0] those outside of any
 * cycle, [1] inside. */
void kv_blame_sum(const struct kv_slowest *const *shard, size_t n, int64_t least,
                  const hg_cycle *cycles, size_t ncycles, struct kv_blame blame[2]);

/* The `want` slowest requests of all shards, slowest first, as rows of KV_SLOWEST_COLUMNS; times
 * from `origin`. */
void kv_blame_slowest(const struct kv_slowest *const *shard, size_t n, size_t want,
                      const hg_cycle *cycles, size_t ncycles, int64_t origin, struct kv_table *out);

#endif

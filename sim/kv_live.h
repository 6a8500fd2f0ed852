/* kv_live.h: a run's live state, in plain C memory: what clients, servers and the run's main task
 * share.
 *
 * References into the collected heap are only on task stacks (channels, requests, frames) and in
 * the global root `store`; nothing else in here holds one.
 *
 * Invariants
 *   1. A connection's `next` is the intended start of the request it waits for or has in flight;
 *      INT64_MAX when it will make no more. So "everything that was to start before t is accounted
 *      for" is: no `next` is below t.
 *   2. A request is recorded by its intended start, never by when it was issued:
 *      begin <= intended < end.
 *   3. Only the clients of its shard write a shard; there are KV_MEASURE_SHARDS so that procs
 *      rarely meet on one.
 *
 * Ordering: a client records, then stores `next` with release; the main task loads it with acquire
 * before it reads what was recorded. The server's times in kv_conn are handed over by the
 * response's channel.
 */
#ifndef HG_SIM_KV_LIVE_H
#define HG_SIM_KV_LIVE_H
#include "sim/hist.h"
#include "sim/kv.h"
#include "sim/kv_blame.h"
#include "sim/kv_store.h"
#include "sim/rng.h"
#include <hedge/hedge.h>
#include <stdalign.h>
#include <stdatomic.h>

#define KV_MEASURE_SHARDS 16
#define KV_DRAIN_NS       INT64_C(10000000000) /* after the end, what is late by more is given up */

struct kv_measure {
    alignas(128) _Atomic uint64_t done; /* finished within begin..end */
    _Atomic uint64_t given_up;          /* not issued until KV_DRAIN_NS after the end */
    hg_histogram latency;               /* shared: sim_hist_add_shared */
    hg_mutex slowest_lock;
    struct kv_slowest slowest;
};

struct kv_conn {
    /* Written by its client, read by the main task: invariant 1. */
    alignas(128) _Atomic int64_t next;
    /* Of the server, for the request whose response is on its way. */
    hg_task_times server;
    int64_t lock_ns;
};

struct kv_live {
    const struct kv_options *opt;
    struct kv_store *store; /* a global root */
    hg_runtime *rt;
    uint64_t seed;
    int64_t start, begin; /* arrivals start; measuring begins (fixed before the first client) */
    _Atomic int64_t end;  /* measuring ends: lowered by the main task when it is interrupted */
    struct kv_conn *conn;
    struct kv_measure measure[KV_MEASURE_SHARDS];
    _Atomic uint64_t wrong; /* responses that were not the answer */
    _Atomic int broken;    /* a connection ended with this negative errno, the first one; 0: none */
    _Atomic uint64_t sink; /* keeps what clients read alive for the compiler */
};

/* The run's books, cleared; kv_live_free gives them back (after the runtime is gone). */
struct kv_live *kv_live_new(const struct kv_options *opt, uint64_t seed);
void kv_live_free(struct kv_live *live);

/* S W, on a task: starts client and server of connection `id`. ends: with --net, the client's and
 * the server's end (kv_net.h). 0 or a negative errno. */
int kv_conn_start(struct kv_live *live, int id, hg_fd *const ends[2]);
/* S W, on a task: connections with a request that was to start before t and is not done. */
int kv_conns_pending(struct kv_live *live, int64_t t);
/* Counts what is still pending as that late, so far; returns how many. Nothing may be pending
 * afterwards. */
uint64_t kv_conns_abandon(struct kv_live *live, int64_t end, int64_t now);

/* ---- arrivals of one connection: a Poisson process of its own ---- */

struct kv_arrivals {
    struct sim_rng rng;
    double at, mean; /* ns after the start */
    double burst;    /* ns; 0: none */
};

static inline void kv_arrivals_init(struct kv_arrivals *a, const struct kv_options *opt, int id,
                                    uint64_t seed)
{
    a->rng.state = (uint64_t)id * 0x1234567 + seed;
    a->mean = opt->conns / opt->rate * 1e9;
    a->burst = opt->burst_us * 1e3;
    a->at = sim_rng_exp(&a->rng) * a->mean;
}

/* When the current arrival is to start, in ns after the start. */
static inline int64_t kv_arrivals_at(const struct kv_arrivals *a)
{
    double at = a->burst > 0 ? ceil(a->at / a->burst) * a->burst : a->at;
    return at < 9e18 ? (int64_t)at : INT64_MAX / 2;
}

static inline void kv_arrivals_next(struct kv_arrivals *a)
{
    a->at += sim_rng_exp(&a->rng) * a->mean;
}

#endif

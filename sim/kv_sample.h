/* kv_sample.h: what a run's main task notes while the load runs: the counters at both ends of the
 * measurement, the list of collections, latency per collection for the bootstrap, the series. Plain
 * C memory, owned by the main task; read by kv_result.c when the runtime is gone.
 */
#ifndef HG_SIM_KV_SAMPLE_H
#define HG_SIM_KV_SAMPLE_H
#include "sim/kv_live.h"

#define KV_TICK_NS INT64_C(100000000) /* between two looks at the counters */

/* Everything that counts from the runtime's opening, at one moment. */
struct kv_snapshot {
    int64_t at;
    hg_stats stats;
    hg_histogram histogram[HG_HIST_COUNT];
    struct sim_cpu cpu;
};

struct kv_samples {
    struct kv_snapshot from, to;
    /* All cycles finished since the run began, oldest first. */
    hg_cycle *cycle;
    size_t cycles, cycles_room;
    uint64_t peak_heap; /* largest seen while measuring */
    /* Latency from the end of one cycle to the end of the next (the floor: half seconds). */
    struct sim_blocks blocks;
    struct kv_table series; /* phase is filled in at the end */
    hg_histogram block_start, tick_start, scratch;
    int64_t block_at, tick_at;
    uint64_t block_cycles; /* finished when the block began */
    uint64_t tick_done;
};

struct kv_samples *kv_samples_new(void);
void kv_samples_free(struct kv_samples *s);

/* S W, on a task: reads all counters. */
void kv_snapshot_take(struct kv_snapshot *snapshot, hg_runtime *rt);
/* any: enters the cycles that have finished since the last call, and the sweep of the one
 * before. */
void kv_samples_cycles(struct kv_samples *s, hg_runtime *rt);
/* S W, on the main task: begins measuring: first block, first row. */
void kv_samples_begin(struct kv_samples *s, struct kv_live *live);
/* S W, on the main task, every KV_TICK_NS while measuring. rows: keep the series. */
void kv_samples_tick(struct kv_samples *s, struct kv_live *live, bool floor, bool rows);
/* All requests of all shards so far, into *out (cleared first). On a task it is a safepoint and may
 * wait. */
void kv_latency_collect(const struct kv_live *live, hg_histogram *out, bool on_task);
/* Operations finished while measuring, so far. */
uint64_t kv_done(const struct kv_live *live);
/* When all cycles are known: the phase of each row. */
void kv_samples_phases(struct kv_samples *s, int64_t origin);

#endif

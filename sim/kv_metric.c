/* kv_metric.c: the table of a run's figures, and the names of what slow requests spent their time
 * on. The order is that of enum kv_metric and of the JSON. */
#include "sim/kv.h"
#include "sim/memory.h"
#include <string.h>

#define WHOLE true
#define REAL  false

const struct kv_metric_info kv_metric_info[KV_METRICS] = {
    [KV_OPS] = {NULL, "ops", "ops", WHOLE},
    [KV_WANTED_RATE] = {NULL, "wanted_rate", "wanted_rate", REAL},
    [KV_ACHIEVED_RATE] = {NULL, "achieved_rate", "achieved_rate", REAL},
    [KV_P50] = {"latency_ns", "p50", "p50", WHOLE},
    [KV_P90] = {"latency_ns", "p90", "p90", WHOLE},
    [KV_P99] = {"latency_ns", "p99", "p99", WHOLE},
    [KV_P999] = {"latency_ns", "p999", "p999", WHOLE},
    [KV_MAX] = {"latency_ns", "max", "max", WHOLE},
    [KV_CYCLES] = {NULL, "cycles", "cycles", WHOLE},
    [KV_GC_CPU_SHARE] = {NULL, "gc_cpu_share", "gc_cpu_share", REAL},
    [KV_ASSIST_SHARE] = {NULL, "assist_share", "assist_share", REAL},
    [KV_ASSISTS] = {NULL, "assists", "assists", WHOLE},
    [KV_LONGEST_ASSIST] = {NULL, "longest_assist_ns", "longest_assist", WHOLE},
    [KV_HOLD_P50] = {"hold_ns", "p50", "hold_p50", WHOLE},
    [KV_HOLD_P99] = {"hold_ns", "p99", "hold_p99", WHOLE},
    [KV_HOLD_P999] = {"hold_ns", "p999", "hold_p999", WHOLE},
    [KV_HOLD_MAX] = {"hold_ns", "max", "hold_max", WHOLE},
    [KV_LIVE_HEAP] = {NULL, "live_heap_bytes", "live_heap", WHOLE},
    [KV_PEAK_HEAP] = {NULL, "peak_heap_bytes", "peak_heap", WHOLE},
    [KV_PEAK_OVER_GOAL] = {NULL, "peak_over_goal", "peak_over_goal", REAL},
    [KV_OVERSHOOT_CYCLES] = {NULL, "overshoot_cycles", "overshoot_cycles", WHOLE},
    [KV_DROPPED] = {NULL, "dropped", "dropped", WHOLE},
    [KV_P99_LOW] = {"latency_ci95_ns", "p99_low", "p99_low", WHOLE},
    [KV_P99_HIGH] = {"latency_ci95_ns", "p99_high", "p99_high", WHOLE},
    [KV_P999_LOW] = {"latency_ci95_ns", "p999_low", "p999_low", WHOLE},
    [KV_P999_HIGH] = {"latency_ci95_ns", "p999_high", "p999_high", WHOLE},
    [KV_HANDSHAKE_P50] = {"handshake_ns", "p50", "handshake_p50", WHOLE},
    [KV_HANDSHAKE_P99] = {"handshake_ns", "p99", "handshake_p99", WHOLE},
    [KV_HANDSHAKE_MAX] = {"handshake_ns", "max", "handshake_max", WHOLE},
    [KV_RUNQ_P50] = {"runq_ns", "p50", "runq_p50", WHOLE},
    [KV_RUNQ_P99] = {"runq_ns", "p99", "runq_p99", WHOLE},
    [KV_RUNQ_MAX] = {"runq_ns", "max", "runq_max", WHOLE},
    [KV_ASSIST_CPU] = {"gc_cpu_ns", "assist", "assist_cpu", WHOLE},
    [KV_BACKGROUND_CPU] = {"gc_cpu_ns", "background", "background_cpu", WHOLE},
    [KV_IDLE_CPU] = {"gc_cpu_ns", "idle", "idle_cpu", WHOLE},
    [KV_SWEEP_CPU] = {"gc_cpu_ns", "sweep", "sweep_cpu", WHOLE},
    [KV_SCAN_CPU] = {"gc_cpu_ns", "scan", "scan_cpu", WHOLE},
    [KV_BYTES_PER_OP] = {NULL, "alloc_bytes_per_op", "bytes_per_op", REAL},
    [KV_PROCS] = {NULL, "procs", "procs", WHOLE},
    [KV_SECONDS] = {NULL, "seconds", "seconds", REAL},
    [KV_OWN_CPU] = {NULL, "own_cpu", "own_cpu", REAL},
    [KV_FOREIGN_CPU] = {NULL, "foreign_cpu", "foreign_cpu", REAL},
    [KV_STEAL_SHARE] = {NULL, "steal_share", "steal_share", REAL},
    [KV_MAX_RSS] = {NULL, "max_rss_bytes", "max_rss", WHOLE},
};

const char *const kv_part_key[KV_PARTS] = {
    [KV_PART_LOCK] = "lock_ns", [KV_PART_TIMER] = "timer_ns",   [KV_PART_RUNQ] = "runq_ns",
    [KV_PART_MARK] = "mark_ns", [KV_PART_ASSIST] = "assist_ns", [KV_PART_SWEEP] = "sweep_ns",
    [KV_PART_HOLD] = "hold_ns", [KV_PART_WORK] = "work_ns",
};

const char *const kv_part_text[KV_PARTS] = {
    [KV_PART_TIMER] = "timer late",       [KV_PART_LOCK] = "shard lock",
    [KV_PART_RUNQ] = "run-queue wait",    [KV_PART_MARK] = "marking slices",
    [KV_PART_ASSIST] = "assist",          [KV_PART_SWEEP] = "sweeping",
    [KV_PART_HOLD] = "handshakes, holds", [KV_PART_WORK] = "own work, rest",
};

enum kv_metric kv_metric_find(const char *name)
{
    int m = 0;
    while (m < KV_METRICS && strcmp(kv_metric_info[m].name, name) != 0)
        m++;
    return (enum kv_metric)m;
}

void kv_table_row(struct kv_table *t, size_t columns, const double *row)
{
    t->columns = columns;
    if (t->rows == t->room) {
        t->room = t->room > 0 ? 2 * t->room : 64;
        t->cell = sim_grow(t->cell, t->room, columns * sizeof *t->cell);
    }
    memcpy(&t->cell[t->rows++ * columns], row, columns * sizeof *row);
}

void kv_table_free(struct kv_table *t)
{
    free(t->cell);
    memset(t, 0, sizeof *t);
}

void kv_result_free(struct kv_result *r)
{
    kv_table_free(&r->series);
    kv_table_free(&r->cycles);
    kv_table_free(&r->slowest);
    kv_table_free(&r->histogram);
}

/* kv_sample.c: the looks that a run's main task takes (kv_sample.h).
 *
 * They must not show in the latencies that they look at. A tick reads counters (microseconds).
 * Summing the shards' histograms costs a few microseconds a shard, is done once a cycle (and per
 * tick where a series is asked for), and lets other tasks run after each shard. The sums are
 * therefore not of one moment; as each shard only grows, a request missed by one sum is in the next
 * one, and none is counted twice.
 */
#include "sim/kv_sample.h"
#include "sim/memory.h"

struct kv_samples *kv_samples_new(void) { return sim_alloc(1, sizeof(struct kv_samples)); }

void kv_samples_free(struct kv_samples *s)
{
    sim_blocks_free(&s->blocks);
    kv_table_free(&s->series);
    free(s->cycle);
    free(s);
}

void kv_snapshot_take(struct kv_snapshot *snapshot, hg_runtime *rt)
{
    snapshot->at = hg_now();
    snapshot->stats.size = sizeof snapshot->stats;
    hg_stats_read(rt, &snapshot->stats);
    for (int i = 0; i < HG_HIST_COUNT; i++) {
        hg_stats_histogram(rt, (enum hg_histogram_id)i, &snapshot->histogram[i]);
        hg_yield();
    }
    sim_cpu_read(&snapshot->cpu);
}

static void enter_cycle(struct kv_samples *s, const hg_cycle *c)
{
    for (size_t i = s->cycles; i > 0 && s->cycle[i - 1].number >= c->number; i--) {
        if (s->cycle[i - 1].number == c->number) {
            s->cycle[i - 1] = *c;
            return;
        }
    }
    if (s->cycles == s->cycles_room) {
        s->cycles_room = s->cycles_room > 0 ? 2 * s->cycles_room : 256;
        s->cycle = sim_grow(s->cycle, s->cycles_room, sizeof *s->cycle);
    }
    s->cycle[s->cycles++] = *c;
}

void kv_samples_cycles(struct kv_samples *s, hg_runtime *rt)
{
    hg_cycle newest[16]; /* 2 KiB of a task's stack; ten looks a second miss nothing */
    int n = hg_stats_cycles(rt, newest, (int)(sizeof newest / sizeof *newest));
    for (int i = n - 1; i >= 0; i--)
        enter_cycle(s, &newest[i]);
}

void kv_latency_collect(const struct kv_live *live, hg_histogram *out, bool on_task)
{
    hg_histogram_reset(out);
    for (int i = 0; i < KV_MEASURE_SHARDS; i++) {
        sim_hist_collect(out, &live->measure[i].latency);
        if (on_task)
            hg_yield();
    }
}

uint64_t kv_done(const struct kv_live *live)
{
    uint64_t done = 0;
    for (int i = 0; i < KV_MEASURE_SHARDS; i++)
        done += atomic_load_explicit(&live->measure[i].done, memory_order_relaxed);
    return done;
}

void kv_samples_begin(struct kv_samples *s, struct kv_live *live)
{
    kv_latency_collect(live, &s->block_start, true);
    s->tick_start = s->block_start;
    s->block_at = s->tick_at = hg_now();
    s->block_cycles = s->from.stats.cycles;
    s->tick_done = kv_done(live);
}

/* Ends the running block if a cycle has ended (the floor: if half a second has passed). s->scratch
 * is now's sum. */
static void cut_block(struct kv_samples *s, int64_t now, uint64_t cycles)
{
    hg_histogram *block = &s->block_start;
    sim_hist_delta(block, &s->scratch, block);
    hg_yield();
    sim_blocks_add(&s->blocks, block);
    hg_yield();
    *block = s->scratch;
    s->block_at = now;
    s->block_cycles = cycles;
}

static void add_row(struct kv_samples *s, const struct kv_live *live, const hg_stats *st,
                    int64_t now)
{
    hg_histogram *tick = &s->tick_start;
    uint64_t done = kv_done(live);
    sim_hist_delta(tick, &s->scratch, tick);
    double row[KV_SERIES_COLUMNS] = {(double)(now - live->begin) / 1e9,
                                     (double)(done - s->tick_done) * 1e9 /
                                         (double)(now - s->tick_at),
                                     (double)hg_histogram_quantile(tick, 0.5),
                                     (double)hg_histogram_quantile(tick, 0.99),
                                     (double)tick->max,
                                     (double)st->heap_live_bytes,
                                     (double)st->heap_goal_bytes,
                                     (double)st->heap_trigger_bytes,
                                     (double)sim_rss_now(),
                                     0};
    kv_table_row(&s->series, KV_SERIES_COLUMNS, row);
    *tick = s->scratch;
    s->tick_at = now;
    s->tick_done = done;
}

void kv_samples_tick(struct kv_samples *s, struct kv_live *live, bool floor, bool rows)
{
    hg_stats st = {.size = sizeof st};
    hg_stats_read(live->rt, &st);
    if (st.heap_live_bytes > s->peak_heap)
        s->peak_heap = st.heap_live_bytes;
    int64_t now = hg_now();
    bool cut = floor ? now - s->block_at >= 5 * KV_TICK_NS : st.cycles != s->block_cycles;
    if (st.cycles != s->block_cycles)
        kv_samples_cycles(s, live->rt);
    if (!cut && !rows)
        return;
    kv_latency_collect(live, &s->scratch, true);
    if (rows && now > s->tick_at)
        add_row(s, live, &st, now);
    if (cut)
        cut_block(s, now, st.cycles);
}

enum phase { PHASE_OFF, PHASE_ROOTS, PHASE_MARK, PHASE_SWEEP };

static enum phase phase_at(const struct kv_samples *s, int64_t t)
{
    for (size_t i = s->cycles; i > 0; i--) {
        const hg_cycle *c = &s->cycle[i - 1];
        if (t < c->start_ns)
            continue;
        if (t < c->mark_ns)
            return PHASE_ROOTS;
        if (t < c->end_ns)
            return PHASE_MARK;
        return t < c->swept_ns || c->swept_ns == 0 ? PHASE_SWEEP : PHASE_OFF;
    }
    return PHASE_OFF;
}

void kv_samples_phases(struct kv_samples *s, int64_t origin)
{
    for (size_t i = 0; i < s->series.rows; i++) {
        double *row = &s->series.cell[i * KV_SERIES_COLUMNS];
        row[KV_SERIES_COLUMNS - 1] = phase_at(s, origin + (int64_t)(row[0] * 1e9));
    }
}
